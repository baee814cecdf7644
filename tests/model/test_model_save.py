"""``Model.save``: a model saved again is the same file in content."""

import h5py
import numpy as np
import pytest
from scipy import sparse
from support.paths import GOLDEN

import blocksvm
from blocksvm import InputError

MODELS = ("model.h5", "classes.h5", "kernel.h5", "learner.h5", "words-model.h5", "calibrated.h5")


def contents(path) -> dict:
    """Every array and table of a file, by its name."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, one: found.update({name: one[()]}) if isinstance(one, h5py.Dataset) else None)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_saved_again_is_the_same(tmp_path, name):
    blocksvm.load_model(GOLDEN / name).save(tmp_path / "again.h5")
    before, after = contents(GOLDEN / name), contents(tmp_path / "again.h5")
    assert before.keys() == after.keys()
    for array in before:
        if array != "meta":  # descriptions of older versions are written as today's
            np.testing.assert_array_equal(before[array], after[array], array)
    assert blocksvm.load_model(tmp_path / "again.h5").meta == blocksvm.load_model(GOLDEN / name).meta


def test_a_model_is_saved_over_itself_where_that_is_wanted(tmp_path):
    blocksvm.load_model(GOLDEN / "model.h5").save(tmp_path / "m.h5")
    model = blocksvm.load_model(tmp_path / "m.h5")
    with pytest.raises(InputError, match="overwrite=True"):
        model.save(tmp_path / "m.h5")
    model.save(tmp_path / "m.h5", overwrite=True)
    assert contents(tmp_path / "m.h5").keys() == contents(GOLDEN / "model.h5").keys()


def test_a_file_that_has_become_another_model_is_refused(tmp_path):
    blocksvm.load_model(GOLDEN / "model.h5").save(tmp_path / "m.h5")
    model = blocksvm.load_model(tmp_path / "m.h5")
    blocksvm.load_model(GOLDEN / "classes.h5").save(tmp_path / "m.h5", overwrite=True)
    with pytest.raises(InputError, match="no longer the model that was loaded"):
        model.save(tmp_path / "other.h5")
    assert not (tmp_path / "other.h5").exists()


def test_models_in_memory(tmp_path):
    """Of a run, and imported: the same decision values from the file."""
    draw = np.random.default_rng(3)
    X = sparse.random(60, 8, density=0.6, format="csr", random_state=3)
    y = np.where(X @ draw.normal(size=8) > 0, 1, -1)
    models = [blocksvm.fit(X, y, bias=2.0).model, blocksvm.import_model(GOLDEN / "model.liblinear")]
    for number, model in enumerate(models):
        model.save(tmp_path / f"{number}.h5")
        again = blocksvm.load_model(tmp_path / f"{number}.h5")
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        again.save(tmp_path / f"{number}-again.h5")

"""Hashed features that are numbered as they come: the same learner as with memory for each of 2^bits."""

import numpy as np
import pytest
from support.plain_learners import LEARNERS, run
from support.stream_cases import SMALL_PIECES, growing_rows, learned, single, text_of, weights_by_id
from support.training_cases import random_rows

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.kernels.hash_table import hash_ids
from blocksvm.model.model_file import load_model
from blocksvm.sources.matrix import Matrix
from blocksvm.streaming import stream_learner
from blocksvm.streaming.stream_pass import StreamPass, StreamSettings
from blocksvm.streaming.stream_saving import save_stream

BITS = 13  # growing rows occupy more hashes of them than there is memory for at first


@pytest.fixture
def numbered(monkeypatch):
    """A switch: number hashes from now on, or keep all of them."""
    return lambda on: monkeypatch.setattr(stream_learner, "NUMBERED_FROM", 0 if on else 1 << 60)


@pytest.mark.parametrize("learner", ["auto", "arow", "coin", "omd", "adagrad-rda"])
@pytest.mark.parametrize("labels", [None, (0.0, 1.0, 2.0)])
def test_numbered_hashes_are_the_same_learner(tmp_path, numbered, learner, labels):
    """Bit by bit, whatever the pieces; the model knows the hashes that occurred, the other one all of them."""
    X, y = growing_rows(seed=3)
    y = np.arange(300) % 3.0 if labels else y
    text, found = text_of(tmp_path, X, y), []
    settings = {"mirror": "p-norm"} if learner == "omd" else {}
    for on, memory in ((False, 1_000_000_000), (True, 1_000_000_000), (True, SMALL_PIECES)):
        numbered(on)
        options = {"memory": memory, "bits": BITS, "labels": labels, "bias": 1.0}
        stream, reports = learned(text, learner, settings=settings, **options)
        save_stream(tmp_path / "m.h5", stream)
        weights, model = weights_by_id(tmp_path / "m.h5", 1 << BITS)
        weights = weights.tobytes(), np.asarray(model.intercept).tobytes()
        found.append((weights, reports[-1].cumulative_loss, reports[-1].mistakes))
        occurring = np.unique(X.indices) + 1
        hashes = hash_ids(occurring, BITS)
        assert len(model.feature_ids) == (len(set(hashes.tolist())) if on else 1 << BITS)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_a_stream_goes_on_with_hashes_as_they_were(tmp_path, numbered, first, second):
    """A model of all hashes and one of those that occurred are gone on with, whatever a new stream would do."""
    X, y = growing_rows(n=200, seed=4)
    (tmp_path / "a").mkdir()
    begin, rest = text_of(tmp_path / "a", X[:120], y[:120]), text_of(tmp_path, X[120:], y[120:])
    whole = tmp_path / "whole.svm"
    whole.write_text(begin.read_text() + rest.read_text())
    numbered(second)
    save_stream(tmp_path / "whole.h5", learned(whole, "auto", bits=BITS)[0])
    numbered(first)
    save_stream(tmp_path / "begin.h5", learned(begin, "auto", bits=BITS)[0])
    numbered(second)
    stream, _ = learned(rest, "", start_from=tmp_path / "begin.h5", bits=BITS)
    save_stream(tmp_path / "end.h5", stream)
    one, other = (weights_by_id(tmp_path / f"{name}.h5", 1 << BITS)[0] for name in ("whole", "end"))
    assert one.tobytes() == other.tobytes()
    assert (len(load_model(tmp_path / "end.h5").feature_ids) < 1 << BITS) is first


@pytest.mark.parametrize(("bits", "on"), [(None, False), (5, False), (5, True)])
def test_a_prior_model_of_ids_meets_a_stream(tmp_path, numbered, bits, on):
    """By id; or its weights are added up where the hashes of ids meet."""
    X, y = random_rows(n=150, d=60, seed=5)
    fit(Matrix(X, y), tol=1e-2).save(tmp_path / "prior.h5")  # ids 0 .. 59
    weights, _ = weights_by_id(tmp_path / "prior.h5", 60)
    places, d = (np.arange(61), 61) if bits is None else (hash_ids(np.arange(61), bits), 1 << bits)
    prior, placed = np.zeros(d), np.zeros((150, d))
    np.add.at(prior, places[:60], weights)
    np.add.at(placed.T, places[1:], single(X).toarray().T)  # the text's ids are 1 .. 60
    numbered(on)
    text, settings = text_of(tmp_path, X, y), {"l1": 0.05}
    stream, _ = learned(text, "fobos", settings=settings, bits=bits, prior=tmp_path / "prior.h5")
    save_stream(tmp_path / "m.h5", stream)
    dense = LEARNERS["fobos"](d, l1=0.05)
    dense.state.prior = np.append(prior, 0.0)
    run(dense, placed.astype(np.float32).astype(np.float64), y)
    found, _ = weights_by_id(tmp_path / "m.h5", d)
    np.testing.assert_allclose(found, prior + dense.w, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
def test_what_a_save_holds_is_not_ahead_of_what_was_learned(tmp_path):
    """Pieces to come have had their features found; those are in no model before their rows are learned from."""
    X, y = random_rows(n=6_000, d=12_000, density=0.001, seed=6)
    text, saved = text_of(tmp_path, X, y), []
    lines = text.read_text().splitlines()

    def save(stream):
        saved.append((stream.rows, stream.features.n_features, set(stream.features.ids().tolist())))

    stream = StreamPass(StreamSettings("pa1", {}, save_every=300, n_jobs=3, memory=SMALL_PIECES), on_save=save)
    assert stream.run([str(text)])
    assert len(saved) == 20
    counts = [n for _, n, _ in saved]
    assert counts == sorted(counts)
    assert counts[0] < counts[10] < counts[-1]
    for rows, n, ids in saved:  # a piece has some 230 rows
        seen = {int(entry.split(":")[0]) for line in lines[:rows] for entry in line.split()[1:]}
        further = {int(entry.split(":")[0]) for line in lines[: rows + 260] for entry in line.split()[1:]}
        assert seen <= ids <= further
        assert n == len(ids)


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("how", ["prior", "start_from"])
@pytest.mark.parametrize("wrong", [-1, 1 << BITS, 1 << 40])
def test_features_of_a_damaged_model_are_no_hashes(tmp_path, numbered, on, how, wrong):
    """They would be looked up beside the tables."""
    text = text_of(tmp_path, *random_rows(n=40, d=30, seed=7))
    numbered(True)
    stream, _ = learned(text, "pa1", bits=BITS)
    ids = stream.features.ids().astype(np.int64)
    ids[3] = wrong
    stream.features.ids = lambda: ids
    save_stream(tmp_path / "m.h5", stream)
    numbered(on)
    with pytest.raises(InputError, match="m.h5: has features that are no hashes of 13 bits; it is damaged"):
        learned(text, "" if how == "start_from" else "pa1", bits=BITS, **{how: tmp_path / "m.h5"})

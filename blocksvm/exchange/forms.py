"""The forms of models in other programs: export and import, for Python users and commands."""

import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

from blocksvm.base.errors import InputError, InputWarning, one_of, option, require_library
from blocksvm.base.memory import MEMORY, Budget
from blocksvm.exchange import liblinear, onnx, sklearn_models, weights_table
from blocksvm.files.output import check_outputs, written_whole
from blocksvm.files.paths import Location, location
from blocksvm.model.model_file import Model, describe_model, load_model
from blocksvm.store.arrays import require_length
from blocksvm.store.descriptions import ModelMeta
from blocksvm.store.hdf5_files import damage_named, group, has, open_hdf5

DEFAULT_MEMORY = 1_000_000_000
LINE_BYTES, STRING_BYTES = 100, 120  # of a cell of a table as Python has it; of a string beside its text


# form: (what writes a model to a file and returns notes for its users, the kind of file as ``check_output`` has it)
FORMS: dict[str, tuple[Callable[..., tuple[str, ...]], str]] = {
    "liblinear": (liblinear.write, "LIBLINEAR model"),
    "table": (weights_table.write, "table"),
    "parquet": (partial(weights_table.write, parquet=True), "Parquet table"),
    "sklearn": (sklearn_models.write, "estimator"),
    "onnx": (onnx.write, "ONNX model"),
}
LIBRARIES = {"sklearn": ("scikit-learn", "An estimator"), "onnx": ("onnx", "ONNX")}  # that a form needs
NAMED = ("table", "parquet", "sklearn")  # that take names from a store


def export_model(model: Model | str | Path, path: str | Location, format: str, *, names: str | Path | None = None,
                 overwrite: bool = False, memory: int | str = DEFAULT_MEMORY) -> tuple[str, ...]:  # fmt: skip
    """Write a linear model as other programs read it; returns notes for users of the file.

    format: 'liblinear' (its text model), 'table' (CSV of weights by feature id), 'parquet' (the same), 'sklearn' (as
    ``to_estimator``, by joblib) or 'onnx'; names: a store whose features have names, for tables and 'sklearn'; memory:
    bytes for the model and the names.  Raises InputError where the form has no such model, where a library is missing,
    where that is too little, and where ``path`` cannot be written.

        >>> blocksvm.export_model("model.h5", "model.txt", "liblinear")
        ()
    """
    if format not in FORMS:
        raise InputError(f"{option('format', format)}: {one_of(format, FORMS)}")
    if format in LIBRARIES:
        require_library(*LIBRARIES[format])
    (write, kind), target = FORMS[format], location(path)
    if names is not None and format not in NAMED:
        raise InputError(f"{option('names')}: is for {', '.join(NAMED)}; leave it out")
    given = getattr(model, "path", model), names
    inputs = [location(name) for name in given if isinstance(name, str | os.PathLike) and name]
    check_outputs({kind: target}, overwrite, inputs)
    budget = Budget(MEMORY.checked(memory))
    if isinstance(model, str | os.PathLike):
        budget.reserve("the model", model_bytes(describe_model(model)))
    named_by = names or (model.path if isinstance(model, Model) else model)
    if format in NAMED and isinstance(named_by, str | os.PathLike) and named_by:
        budget.reserve("names of features", name_bytes(named_by))
    loaded = model_given(model)
    more = {} if names is None else {"names": location(names)}
    with written_whole(target, overwrite) as file:
        return write(loaded, file, **more)


def model_given(model: Model | str | Path) -> Model:
    """The model, or that of a file; InputError for what is neither."""
    if isinstance(model, str | os.PathLike):
        return load_model(model)
    if not isinstance(model, Model):
        raise InputError(
            f"{type(model).__name__} is not a model of blocksvm; give one, its file, or the model of what fit returns "
            "(fitted.model); from_estimator makes one of a linear estimator that is fitted"
        )
    return model


def model_bytes(description: ModelMeta) -> int:
    """What a linear model takes with its form by rising ids: its weights and ids twice, their order and a check, and
    the lines of a table that are written at once."""
    d, k = description.n_features, description.n_vectors
    return (17 * k + 40) * d + LINE_BYTES * (k + 3) * weights_table.AT_ONCE


def name_bytes(path: str | Location) -> int:
    """What the names of a model's or a store's features take as strings, and while these are made and ordered."""
    with open_hdf5(path, "model", "store") as file, damage_named(file):
        features = group(file, "features")
        if not has(features, "names"):
            return 0
        return 3 * require_length(features, "names", None) + STRING_BYTES * require_length(features, "ids", None)


def to_estimator(model: Model | str | Path):
    """A fitted estimator with the same decision values and predictions: LinearSVC, LogisticRegression, LinearSVR, or
    SGDClassifier and SGDRegressor for the losses that these do not have (and for the logistic one of more than two
    classes, whose probabilities are then ours).

    coef_ (1, n) or (k, n) float64 for columns 0..n - 1, n - 1 the largest feature id; where the features have names, a
    Pipeline that ends with it, of texts or of dicts by name.  InputError where the model is not linear, or this takes
    too much memory.  Warns where the model is calibrated, or has a loss that no estimator has.

        >>> estimator = blocksvm.to_estimator("model.h5")
        >>> estimator.coef_.shape  # a column for each feature id from 0
        (1, 5)
        >>> blocksvm.from_estimator(estimator)
        Model(4 features, labels -1, 1)
    """
    require_library(*LIBRARIES["sklearn"])
    model = model_given(model)
    estimator, _, lacking = sklearn_models.estimator_of(model)
    if lacking:
        warnings.warn(f"{model.path or 'the model'}: {'; '.join(lacking)}", InputWarning, stacklevel=2)
    return estimator


def import_model(path: str | Location, *, memory: int | str = DEFAULT_MEMORY) -> Model:
    """The model of a LIBLINEAR text file, its features named by LIBLINEAR's indices, its labels rising.
    ``Model.save`` writes it.  Raises InputError, with file and line, for other files, and where the nonzero weights
    take more than ``memory`` bytes."""
    if not location(path).is_file():
        raise InputError(f"{path}: no such file; name a text model of LIBLINEAR")
    return liblinear.read(location(path), MEMORY.checked(memory))

"""The forms in which models go to other programs, and come from them: what Python users and commands call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from blocksvm.base.errors import InputError, one_of, option
from blocksvm.base.outputs import check_output, written_whole
from blocksvm.exchange import liblinear, onnx, sklearn_models, weights_table
from blocksvm.model.model_file import Model, load_model

DEFAULT_MEMORY = 1_000_000_000


@dataclass(frozen=True)
class Form:
    """One form.  write(model, file): gives what whoever uses it must know; kind: of file, as ``check_output`` has it;
    require(): InputError where a library is missing."""

    write: Callable[..., tuple[str, ...]]
    kind: str
    require: Callable[[], None] = lambda: None


FORMS = {
    "liblinear": Form(liblinear.write, "LIBLINEAR model"),
    "table": Form(weights_table.write, "table"),
    "parquet": Form(partial(weights_table.write, parquet=True), "Parquet table", weights_table.require_pyarrow),
    "sklearn": Form(sklearn_models.write, "estimator", sklearn_models.require_sklearn),
    "onnx": Form(onnx.write, "ONNX model", onnx.require_onnx),
}


def form_of(name: str) -> Form:
    """InputError where there is none of this name, or its library is missing."""
    if name not in FORMS:
        raise InputError(f"{option('format', name)}: {one_of(name, FORMS)}")
    FORMS[name].require()
    return FORMS[name]


def export_model(
    model: Model | str | Path,
    path: str | Path,
    format: str,
    *,
    names: str | Path | None = None,
    overwrite: bool = False,
) -> tuple[str, ...]:
    """Write a linear model as other programs read it; gives sentences that whoever uses it must know.

    format: 'liblinear' (its text model), 'table' (CSV of weights by feature id), 'parquet' (the same), 'sklearn' (a
    fitted estimator, by joblib) or 'onnx'; names: a store whose features have names, for a table.  Raises InputError
    where the form cannot say what the model is, where a library is missing, and where ``path`` cannot be written.
    """
    form, target = form_of(format), Path(path)
    if names is not None and form.kind not in ("table", "Parquet table"):
        raise InputError(f"{option('names')}: is for a table; leave it out")
    check_output(target, overwrite, form.kind)
    loaded = model if isinstance(model, Model) else load_model(model)
    more = {} if names is None else {"names": Path(names)}
    with written_whole(target, overwrite) as file:
        return form.write(loaded, file, **more)


def import_model(path: str | Path, *, memory: int = DEFAULT_MEMORY) -> Model:
    """The model of a LIBLINEAR text file, its features named by LIBLINEAR's indices, its labels rising.
    ``save_imported`` writes it.  Raises InputError, with file and line, for what is none, and where the weights that
    are not 0 take more than ``memory`` bytes."""
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file; name a text model of LIBLINEAR")
    return liblinear.read(Path(path), memory)

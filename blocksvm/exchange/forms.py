"""The forms of models in other programs: export and import, for Python users and commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from blocksvm.base.errors import InputError, one_of, option
from blocksvm.base.memory import MEMORY
from blocksvm.base.optional_libraries import require_library
from blocksvm.base.outputs.checks import check_outputs
from blocksvm.base.outputs.writing import written_whole
from blocksvm.exchange import liblinear, onnx, sklearn_models, weights_table
from blocksvm.model.model_file import Model, load_model

DEFAULT_MEMORY = 1_000_000_000


@dataclass(frozen=True)
class Form:
    """One form.  write(model, file) returns notes for users of the file; kind: of file, as ``check_output`` has it;
    require(): InputError where a library is missing."""

    write: Callable[..., tuple[str, ...]]
    kind: str
    require: Callable[[], None] = lambda: None


FORMS = {
    "liblinear": Form(liblinear.write, "LIBLINEAR model"),
    "table": Form(weights_table.write, "table"),
    "parquet": Form(
        partial(weights_table.write, parquet=True), "Parquet table",
        partial(require_library, "pyarrow", "Parquet", ", or export CSV"),
    ),
    "sklearn": Form(sklearn_models.write, "estimator", partial(require_library, "scikit-learn", "An estimator")),
    "onnx": Form(onnx.write, "ONNX model", partial(require_library, "onnx", "ONNX")),
}  # fmt: skip


def form_of(name: str) -> Form:
    """The form of this name; InputError where there is none, or its library is missing."""
    form = FORMS.get(name)
    if form is None:
        raise InputError(f"{option('format', name)}: {one_of(name, FORMS)}")
    form.require()
    return form


def export_model(
    model: Model | str | Path,
    path: str | Path,
    format: str,
    *,
    names: str | Path | None = None,
    overwrite: bool = False,
) -> tuple[str, ...]:
    """Write a linear model as other programs read it; returns notes for users of the file.

    format: 'liblinear' (its text model), 'table' (CSV of weights by feature id), 'parquet' (the same), 'sklearn' (a
    fitted estimator, by joblib) or 'onnx'; names: a store whose features have names, for a table.  Raises InputError
    where the form has no such model, where a library is missing, and where ``path`` cannot be written.
    """
    form, target = form_of(format), Path(path)
    if names is not None and form.kind not in ("table", "Parquet table"):
        raise InputError(f"{option('names')}: is for a table; leave it out")
    inputs = [Path(name) for name in (model if not isinstance(model, Model) else model.path, names) if name]
    check_outputs({form.kind: target}, overwrite, inputs)
    loaded = model if isinstance(model, Model) else load_model(model)
    more = {} if names is None else {"names": Path(names)}
    with written_whole(target, overwrite) as file:
        return form.write(loaded, file, **more)


def import_model(path: str | Path, *, memory: int | str = DEFAULT_MEMORY) -> Model:
    """The model of a LIBLINEAR text file, its features named by LIBLINEAR's indices, its labels rising.
    ``Model.save`` writes it.  Raises InputError, with file and line, for other files, and where the nonzero weights
    take more than ``memory`` bytes."""
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file; name a text model of LIBLINEAR")
    return liblinear.read(Path(path), MEMORY.checked(memory))

"""Text models of LIBLINEAR, as its ``train`` writes and its ``predict`` reads them.

Its feature ``index`` is our feature id, and begins at 1.  Two classes have one vector of weights, that of the label
named first; more classes have one vector for each label in their order, side by side.  With bias B >= 0 the last line
is the weight of a constant feature of value B.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from blocksvm.base.errors import InputError
from blocksvm.base.labels import listed
from blocksvm.base.memory import Budget
from blocksvm.exchange.linear import LIBLINEAR_IDS, Linear, linear_of, model_of, wrong_form
from blocksvm.files.input import open_input
from blocksvm.files.output import as_text
from blocksvm.files.paths import Location
from blocksvm.losses import LOSSES, get_loss
from blocksvm.model.decision_values import number_lines
from blocksvm.model.model_file import Model
from blocksvm.problems.problem_settings import learns_together

CRAMMER_SINGER = "MCSVM_CS"
KNOWN_AS = "LIBLINEAR"  # among a loss's names in other programs: of the solvers that minimise it


def solvers(regressors: bool) -> dict[str, str]:
    """LIBLINEAR's solvers of classifiers, or of regressors, and the loss that each minimises."""
    losses = {name: get_loss(name) for name in LOSSES if get_loss(name).of_numbers == regressors}
    return {solver: name for name, loss in losses.items() for solver in loss.known_as.get(KNOWN_AS, ())}


CLASSIFIERS, REGRESSORS = solvers(regressors=False), solvers(regressors=True)
LONGEST_LINE = 1 << 24  # bytes of a header line, or of one feature's weights
PIECE = 1 << 20


def write(model: Model, file: IO[bytes]) -> tuple[str, ...]:
    """Write the model; returns notes for its users.  InputError where LIBLINEAR has no such model."""
    linear, name = linear_of(model, of_one_label="LIBLINEAR's format"), model.path or "the model"
    wrong = ""
    if len(linear.ids) and linear.ids[0] == 0 and linear.weights[:, 0].any():
        wrong = "a feature with id 0, but LIBLINEAR's ids begin at 1"
    elif linear.columns - 1 > LIBLINEAR_IDS:
        wrong = f"a feature of id {linear.columns - 1}, but LIBLINEAR's ids end at {LIBLINEAR_IDS}"
    elif not linear.whole_labels or any(abs(label) > LIBLINEAR_IDS for label in linear.labels):
        wrong = f"the labels {listed(linear.labels[:5])}, but LIBLINEAR's labels are whole numbers"
    if wrong:
        raise wrong_form(f"{name}: has {wrong}")
    of_losses = CLASSIFIERS if linear.labels else REGRESSORS
    solver = next((key for key, loss in of_losses.items() if loss == linear.loss), next(iter(of_losses)))
    notes = linear.steps + linear.notes
    if of_losses[solver] != linear.loss:
        notes += (f"LIBLINEAR has no solver of the loss {linear.loss}: the file names {solver}, by which its predict "
                  "gives the same decision values",)  # fmt: skip
    if learns_together(linear.multiclass) and len(linear.labels) > 2:
        solver = CRAMMER_SINGER
    # of two labels the one whose vector this is stands first
    labels = linear.labels[::-1] if len(linear.labels) == 2 else linear.labels
    bias = 1 if linear.intercept.any() else -1
    with as_text(file) as text:
        text.write(f"solver_type {solver}\nnr_class {len(labels) or 2}\n")
        if labels:
            text.write(f"label {' '.join(str(int(label)) for label in labels)}\n")
        text.write(f"nr_feature {linear.columns - 1}\nbias {bias}\nw\n")
        for piece in linear.pieces(1, linear.columns):
            text.writelines(number_lines(piece.T))
        if bias > 0:
            text.writelines(number_lines(linear.intercept[None]))
    return notes


def read(path: Location, memory: int, piece_bytes: int = PIECE) -> Model:
    """The model of such a file, with the features that have a weight; its labels in rising order.  InputError with file
    and line for other files, and where its weights take more than ``memory`` bytes; piece_bytes: read at once."""
    with open_input(path) as file:
        header, line = _header(path, file)
        solver, k = header["solver_type"], header["nr_class"]
        # one vector serves two classes, but for Crammer and Singer's machine
        vectors = 1 if solver in REGRESSORS or (k == 2 and solver != CRAMMER_SINGER) else k
        rows = (_numbers(path, *piece) for piece in _pieces(path, file, line, piece_bytes))
        ids, by_feature, last = _weights(path, rows, vectors, header, Budget(memory))
    weights, intercept = by_feature.T.copy(), header["bias"] * last if header["bias"] >= 0.0 else np.zeros(vectors)
    labels, multiclass = header.get("label"), "crammer-singer" if solver == CRAMMER_SINGER and k > 2 else None
    classes = () if solver in REGRESSORS else tuple(sorted(map(float, labels)))
    if classes and k == 2:
        weights = weights if vectors == 1 else weights[:1] - weights[1:]
        intercept = intercept if vectors == 1 else intercept[:1] - intercept[1:]
        if labels[0] < labels[1]:
            weights, intercept = -weights, -intercept
        weights, intercept = weights + 0.0, intercept + 0.0  # no -0
    elif classes:
        order = np.argsort(labels, kind="stable")
        weights, intercept = weights[order], intercept[order]
    linear = Linear(ids, weights, intercept, classes, (CLASSIFIERS | REGRESSORS)[solver], multiclass)
    return model_of(linear, f"LIBLINEAR ({path})", str(path))


COUNT = Annotated[int, Meta(ge=0, le=LIBLINEAR_IDS)]
LABEL = Annotated[int, Meta(ge=-LIBLINEAR_IDS - 1, le=LIBLINEAR_IDS + 1)]
# lines before the weights
KEYS: dict[str, Any] = {
    "solver_type": Literal[tuple(CLASSIFIERS | REGRESSORS)], "nr_class": COUNT, "label": list[LABEL],
    "nr_feature": COUNT, "bias": Annotated[float, Meta(ge=-1.7e308, le=1.7e308)],
}  # fmt: skip


def _header(path: Location, file) -> tuple[dict, int]:
    """(the lines before the weights as a dict, their number)."""
    header: dict = {}
    for number in range(1, 20):
        key, *values = file.readline(LONGEST_LINE).decode("ascii", "replace").split() or [""]
        if key == "w":
            break
        if key not in KEYS or key in header:
            what = f"a line of a LIBLINEAR model{f' ({key[:30]!r})' if key else ''}"
            raise InputError(f"{path}:{number}: is not {what}; name a file that its train wrote")
        text = " ".join(values)
        try:
            header[key] = msgspec.convert(values if key == "label" else text, KEYS[key], strict=False)
            if key == "label" and len(set(header[key])) < len(values):
                raise ValueError
        except ValueError:
            raise InputError(f"{path}:{number}: {key} {text[:60]!r} is not what LIBLINEAR writes") from None
    classifies = header.get("solver_type") in CLASSIFIERS
    missing = [key for key in KEYS if key not in header and (key != "label" or classifies)]
    if missing:
        raise InputError(f"{path}:{number}: has no line {missing[0]} before the weights; name a file that train wrote")
    if classifies and (len(header["label"]) != header["nr_class"] or header["nr_class"] < 2):
        named = f"{len(header['label'])} labels of {header['nr_class']} classes"
        raise InputError(f"{path}:{number}: names {named}, of two or more")
    return header, number


def _weights(
    path: Location, pieces: Iterator[np.ndarray], vectors: int, header: dict, budget: Budget
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(ids of the features that have a weight, or one without, their weights (d, vectors), the last line's)."""
    n, total = header["nr_feature"], (header["nr_feature"] + (header["bias"] >= 0.0)) * vectors
    ids, kept, last, done = [], [], np.zeros(vectors), 0
    for values in pieces:
        if done + len(values) > total:
            raise InputError(f"{path}: has more weights than its header says ({total:,}); name a whole model")
        if len(values) % vectors:
            raise InputError(f"{path}: has a line that is not of {vectors:,} weights; name a whole model")
        rows, first = values.reshape(-1, vectors), done // vectors
        there = np.flatnonzero(rows[: max(0, n - first)].any(axis=1))
        ids.append(first + there + 1)
        kept.append(rows[there])
        last, done = rows[-1] if len(rows) else last, done + len(values)
        budget.used["weights"] = (16 + 32 * vectors) * sum(map(len, ids))
        budget.require("the next ones", 48 * len(values))
    if done < total:
        raise InputError(f"{path}: has {done:,} of {total:,} weights; it is cut short, name a whole model")
    if not sum(map(len, ids)):
        return np.ones(1, np.int64), np.zeros((1, vectors)), last
    return np.concatenate(ids), np.concatenate(kept), last


def _pieces(path: Location, file, line: int, n_bytes: int) -> Iterator[tuple[int, bytes]]:
    """(number of lines before, whole lines) for pieces of the rest of a file."""
    while text := file.read(n_bytes):
        text += file.readline(LONGEST_LINE)
        if len(text) >= n_bytes + LONGEST_LINE:
            raise InputError(f"{path}:{line + 1}: is longer than a feature's weights can be; name a LIBLINEAR model")
        yield line, text
        line += text.count(b"\n")


def _numbers(path: Location, line: int, text: bytes) -> np.ndarray:
    """The finite numbers of whole lines; line: the number of lines before them."""
    with suppress(ValueError):
        values = np.array(text.split(), dtype=np.float64)
        if np.isfinite(values).all():
            return values
    for number, one in enumerate(text.split(b"\n"), line + 1):
        for word in one.split():
            with suppress(ValueError):
                if math.isfinite(float(word)):
                    continue
            shown = word[:30].decode("ascii", "replace")
            raise InputError(f"{path}:{number}: {shown!r} is not a finite number")
    raise AssertionError("one of the words is no number")

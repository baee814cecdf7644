"""Compiles the kernels that a command uses, by running it on a few rows; started by the commands in a child process.

Where a second process may help, it begins with what the first one comes to last; neither compiles what the other has
begun with (kernels/disk.py).  Without arguments it compiles what a first use needs, as wheels are built with
(tools/compiled_wheel.py).
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from blocksvm import kernels
from blocksvm.labels import SETS
from blocksvm.learners.joint_map import JOINT
from blocksvm.learners.methods import get_method
from blocksvm.named import by_user, names_of
from blocksvm.training.run_settings import FREE

# enough rows and features that every branch of the pipelines is entered, ids out of order and labels of both kinds
VALUED = "".join(f"{1 if i % 3 else -1} {i % 7 + 2}:{i % 5 + 0.5} {i % 2}:{1 + i % 3}\n" for i in range(40))
FEW_PLACE = "blocksvm.cli.warmup:FEW_JOINT"
ONES = "".join(f"{1 if i % 3 else -1} {i % 7 + 2}:1 {i % 2}:1\n" for i in range(40))


def warm(purpose: str, kind: str) -> None:
    """Run what ``purpose`` names for values of ``kind``: 'split', 'predict', 'predict:several' (classes), 'idf',
    'read:FORMAT:hashed', or a solver as ``solver_purpose`` has it."""
    with tempfile.TemporaryDirectory(prefix="blocksvm-warmup-") as name:
        folder = Path(name)
        dtype = "float64" if kind == "float64" else "float32"
        if purpose == "split":
            for content in (ONES, VALUED):
                make_store(folder, content, dtype, holdout=0.3)
        elif purpose.startswith("predict"):
            predict(folder, kind, dtype, several=purpose.endswith("several"))
        elif purpose == "idf":
            weigh(dtype)
        elif purpose.startswith("read:"):
            name, _, hashed = purpose.removeprefix("read:").rpartition(":")
            read(folder, name, hashed == "hashed", dtype)
        else:
            train(kind, **json.loads(purpose))


def warm_beside(purpose: str, kind: str) -> None:
    """A part of the same, for a second process: what ``warm`` compiles last."""
    dtype = "float64" if kind == "float64" else "float32"
    with tempfile.TemporaryDirectory(prefix="blocksvm-warmup-") as name:
        if purpose == "split":
            warm_pairs()
            split_matrices(Path(name), dtype)
        elif purpose.startswith("{"):
            warm_rows(kind)
            asked = json.loads(purpose)
            if asked.get("resident"):
                warm_working_set(few_rows(kind, asked["n_classes"]), resident=True)
                # a model is for predicting: little is left to compile
                if asked["n_classes"] == 2 and kernels.is_ready("split", dtype):
                    predict(Path(name), kind, dtype)
                    kernels.mark_ready("predict", kind)


def solver_purpose(name: str, learner: bool, given: Mapping, n_classes: int, **more: bool) -> str:
    """A solver on rows of so many classes, by what decides which functions are compiled: those of its settings.
    more: as ``train`` has it."""
    method = get_method(name, learner)
    settings = {choice: given.get(choice) or method.settings[choice].default for choice in method.choices}
    if n_classes > 2 or given.get("targets") == SETS:
        settings["multiclass"] = given.get("multiclass")
    if given.get("targets") == SETS:
        settings["targets"] = SETS
    if given.get(JOINT) is not None:
        settings[JOINT] = FEW_PLACE
    if n_classes > 2 and given.get("costs") is not None:
        settings["costs"] = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    settings = {key: value for key, value in settings.items() if value is not None}
    asked = {"solver": name, "learner": learner, "settings": settings, "n_classes": min(n_classes, 3)}
    return json.dumps(asked | {name: True for name, wanted in more.items() if wanted}, sort_keys=True)


def first_use() -> list[tuple[str, str]]:
    """(purpose, kind) of all that ``split``, ``train``, ``predict`` and ``stream`` compile as they are by default, for
    rows of two classes, whether these stay in memory or not."""
    solvers = [solver_purpose("dual-cd", False, {}, 2, resident=resident) for resident in (True, False)]
    trained = [(purpose, kind) for kind in ("ones", "float32") for purpose in (*solvers, "predict")]
    return [("split", "float32"), *trained, (solver_purpose("auto", True, {}, 2), "float64")]


def make_store(folder: Path, content: str, dtype: str, holdout: float = 0.0) -> tuple[Path, Path]:
    """(text, store)"""
    from blocksvm.conversion.convert import SplitSettings, split

    text, store, held_out = folder / "rows.svm", folder / "rows.h5", folder / "held.h5"
    text.write_text(content)
    settings = SplitSettings(dtype=dtype, overwrite=True, holdout=holdout)
    split([str(text)], store, settings, held_out if holdout else None)
    return text, store


def warm_pairs() -> None:
    """What svmlight text is parsed with, for its usual pairs: none of them."""
    import numpy as np

    from blocksvm.kernels.text import usual_pairs
    from blocksvm.kernels.words import more_separators

    text, places = np.zeros(64, np.uint8), np.zeros(64, np.int64)
    more_separators(text, 0, 0, 0, places, 0, 2)
    usual_pairs(text, 16, places, 0, 0, places, np.zeros(1), 0, np.zeros((1, 5), np.int64))


def split_matrices(folder: Path, dtype: str) -> None:
    """What ``split`` does with rows once they are read, of which none has to be parsed."""
    import numpy as np

    from blocksvm.conversion.convert import SplitSettings, split

    columns = (np.arange(80) * 7 % 9).reshape(40, 2)
    for values in (np.ones(80), np.arange(80) % 5 + 0.5):
        matrix = {"data": values, "indices": columns.ravel(), "indptr": np.arange(0, 81, 2), "shape": np.array([40, 9])}
        np.savez(folder / "rows.npz", format=np.array("csr"), label=np.arange(40) % 3, **matrix)
        settings = SplitSettings(dtype=dtype, overwrite=True, holdout=0.3)
        split([str(folder / "rows.npz")], folder / "rows.h5", settings, folder / "held.h5")


def read(folder: Path, name: str, hashed: bool, dtype: str) -> None:
    """A format's own example, with names and without, its ids hashed or not."""
    from blocksvm.formats import format_named
    from blocksvm.formats.hashing import reader_of
    from blocksvm.formats.protocol import Reading
    from blocksvm.formats.recipe import Recipe

    found = format_named(name)
    own = hasattr(found, "write_sample")
    if not own and found.sample is None:  # its rows are closed as those of svmlight text
        found, name = format_named("svmlight"), "svmlight"
    recipe = Recipe(name, "sum", 4 if hashed else None, "l2", dtype)
    if own:
        recipe = replace(recipe, options=found.settled({}, b"", name))
        found.write_sample(str(folder / "rows"))
    for named in (False, True):
        reader = reader_of(Reading(recipe, named=named))
        for piece in file_pieces(folder / "rows", recipe) if own else [text_piece(found.sample, name)]:
            reader.parse(piece, reader.room(0 if own else piece.end))


def file_pieces(path: Path, recipe):
    """Of a file of rows."""
    from blocksvm.formats.files import FileInputs

    return FileInputs([str(path)], recipe.format, recipe.options).pieces(1 << 16, None, digested=False)


def text_piece(sample: bytes, name: str):
    """The whole of a text."""
    import numpy as np

    from blocksvm.formats.text import TextPiece, TextSource

    text = np.frombuffer(sample, np.uint8).copy()
    return TextPiece(TextSource(name, None), text, len(text), None, begins=True)


def weigh(dtype: str) -> None:
    """tf-idf of rows on their way into a store, and of rows that are read by ids and by places."""
    import numpy as np

    from blocksvm.kernels.idf import weigh_rows

    indptr, places, one = np.array([0, 1]), np.zeros(1, np.int32), np.ones(1)
    weigh_rows(indptr, places, places, one.astype(dtype), one, True, True, one, indptr)
    for ids in (np.zeros(1, np.int64), places):
        weigh_rows(indptr, ids, places, one, one, True, True, np.ones(1), indptr)


def few_rows(kind: str, n_classes: int, weighted: bool = False, copies: int = 1, sets: bool = False):
    """A matrix in memory: no text is parsed, so nothing is compiled for it.  copies: of its six rows; sets: labels are
    sets of the classes."""
    import numpy as np
    from scipy import sparse

    from blocksvm.sources.matrix import Matrix

    values = np.ones(12) if kind == "ones" else np.arange(1.0, 13.0)
    values = values.astype(np.float64 if kind == "float64" else np.float32)
    rows = sparse.csr_matrix((values, np.arange(12) % 3, np.arange(0, 13, 2)), shape=(6, 3))
    rows, n = sparse.vstack([rows] * copies, format="csr"), 6 * copies
    weights = np.arange(1.0, n + 1.0) if weighted else None
    y = np.arange(n) % n_classes
    labels = [{int(c)} if i % 2 else {0, 1} for i, c in enumerate(y)] if sets else y
    return Matrix(rows, labels, chunk_rows=np.arange(n), weights=weights)


class FewJoint:
    """Joint features of ``few_rows``: x in the place of its class, of which there are no more than three."""

    n_features, n_inputs = 9, 3

    def rows(self, X, n_classes: int):
        from scipy import sparse

        places = sparse.eye(n_classes, 3, format="csr")
        return sparse.vstack([sparse.kron(places, row, format="csr") for row in X], "csr")


FEW_JOINT = FewJoint()


def train(
    kind: str,
    solver: str,
    learner: bool,
    settings: dict,
    n_classes: int,
    weighted: bool = False,
    free_bias: bool = False,
    folds: bool = False,
    resident: bool = False,
) -> None:
    """A run of a solver, with several blocks and with one, a held-out source, and what a warm start does; or
    cross-validation (``folds``); weighted: rows have weights;
    free_bias: the run's bias is not regularised; resident: one block and nothing beside it."""
    import numpy as np

    from blocksvm.api import fit
    from blocksvm.kernels.shuffle import keep_active
    from blocksvm.kernels.table import hash_ids
    from blocksvm.settings import REQUIRED

    if folds:
        warm_folds(few_rows(kind, n_classes, weighted, 20), kind, settings)
        return
    kernels.start()
    if free_bias:
        settings = settings | {"bias": FREE}
    if resident:
        name = {"learner" if learner else "solver": solver}
        for tol in (0.0, 0.9):  # with a certificate at once, which chooses the rows of the working set, too
            fit(few_rows(kind, n_classes, weighted, copies=20), max_outer=3, tol=tol, **name, **settings)
        keep_active(np.zeros(1, np.int32), np.ones(1, np.uint8))
        warm_working_set(few_rows(kind, n_classes, weighted), resident=True)
        warm_extrapolation(few_rows(kind, n_classes, weighted), get_method(solver, learner), settings)
        warm_rows(kind)
        return
    # what only stores and streams need
    keep_active(np.zeros(1, np.int32), np.ones(1, np.uint8))
    warm_rows(kind)
    hash_ids(np.zeros(1, np.int64), 1, np.zeros(1, np.int32))
    if learner and n_classes == 2:
        warm_two_classes()
    method = get_method(solver, learner)
    needed = {s.name: 1.0 for s in method.takes(settings) if s.default is REQUIRED}
    schedule = {"schedule": "4"} if method.capabilities.schedules else {}
    sets = settings.get("targets") == SETS
    source = few_rows(kind, n_classes, weighted, sets=sets)
    name = {"learner" if learner else "solver": solver}
    with tempfile.TemporaryDirectory(prefix="blocksvm-warmup-") as folder:
        for chunks in (None, 1):
            plain = method.capabilities.linear and JOINT not in settings
            valid = few_rows(kind, n_classes, sets=sets) if plain else None
            fitted = fit(source, valid=valid, max_outer=5, tol=0.0, block_chunks=chunks,
                         **name, **(needed | settings), **schedule)  # fmt: skip
        if not method.capabilities.linear:
            from scipy import sparse

            fitted.model.decision_function(sparse.csr_matrix(np.eye(3)))
        if method.capabilities.working_set:
            # a certificate that chooses the rows of the working set, and what happens where room is short
            fit(source, max_outer=5, tol=0.9, block_chunks=1, **name, **(needed | settings), schedule="1")
            warm_working_set(source)
            warm_extrapolation(source, method, settings)
        if method.capabilities.warm_starts:
            fitted.save(Path(folder) / "model.h5")
            # at another C every row is seen first
            again = needed | settings | {"C": 0.5}
            fit(source, max_outer=1, warm_start=Path(folder) / "model.h5", **name, **again)


def warm_two_classes() -> None:
    """What streams do with rows of two classes, besides learning from them."""
    import numpy as np

    from blocksvm.kernels.two_classes import sign_labels
    from blocksvm.streaming.ranking import Ranking

    codes = np.empty(2, np.int16)
    sign_labels(np.array([-1.0, 1.0]), -1.0, 1.0, codes)
    Ranking().add(np.zeros(2), codes, np.arange(2, dtype=np.int32))


def warm_rows(kind: str) -> None:
    """What only the rows of a store need."""
    import numpy as np

    from blocksvm.kernels.check import fill_rows
    from blocksvm.kernels.decoding import decode_chunks
    from blocksvm.kernels.shuffle import windowed_rows

    two, bits = np.zeros(2, np.int64), np.zeros(1, np.uint64)
    windowed_rows(bits[0], two, 1, np.zeros(1, np.int32), np.zeros(2, np.int32))
    raw, code = np.zeros(64, np.uint8), np.zeros(1, np.int16)
    fill_rows(raw, 28, 0, 0, 0, np.zeros(2), two, bits, two[:1], code)
    indices, values = np.zeros(1, np.int32), None if kind == "ones" else np.zeros(1, kind)
    tables = [np.zeros((0, columns), np.uint64) for columns in (6, 5)]
    decode_chunks(
        bits, 0, 0, *tables, two[:0], 0, 28, np.zeros(2), 1, 0, 0, 0, two, indices, values, bits, two[:1], code, raw,
        raw, indices, values, two, np.zeros(2),
    )  # fmt: skip


def warm_working_set(source, resident: bool = False) -> None:
    """What only a working set that is full or restored does; resident: one that has room for every row."""
    import numpy as np

    from blocksvm.training.working_set import WorkingSet

    for n_bytes in (10_000,) if resident else (700, 10_000):
        working_set = WorkingSet(source, n_bytes)
        blocks = [source.read_block(np.array([k]), None) for k in range(len(source.chunks))]
        for share in (1.0, -1.0, 2.0):
            working_set.begin_reading(anew=False)
            for block in blocks:
                working_set.offer(block, np.full(block.n_samples, share))
            if resident:
                break
        working_set.make_room()
        if resident:
            return
        saved = working_set.saved()
        WorkingSet(source, n_bytes).restore(saved, iter(blocks))


def warm_extrapolation(source, method, settings: dict) -> None:
    """What only a visit of many passes to the working set does."""
    import numpy as np

    from blocksvm.solvers.extrapolation import DualCDWithExtrapolation
    from blocksvm.solvers.protocol import Task

    own = {name: value for name, value in settings.items() if name != "bias"}
    solver = method.make(Task(own, source, working_set=method.capabilities.working_set, tol=1e-6))
    if isinstance(solver, DualCDWithExtrapolation):
        state = {a.name: np.zeros(a.shape(source.n_features, source.n_samples), a.dtype) for a in solver.state_arrays}
        block, nothing = source.read_block(np.arange(len(source.chunks)), None), np.zeros(source.n_samples)
        solver.step(block, state, np.zeros(1, np.int32), nothing, nothing)


def warm_folds(source, kind: str, settings: dict) -> None:
    """Cross-validation, with a path in two parts and rows in one block and in several."""
    import numpy as np

    from blocksvm.kernels.shuffle import line_keys
    from blocksvm.validation.cross import cross_validate

    warm_rows(kind)
    line_keys(np.full(1, 10, np.uint8), 1, np.uint64(1), np.zeros(1, np.uint64))
    run = {"at_once": 1, "max_outer": 5, "tol": 0.0, "schedule": "3", **settings}
    # with a certificate at once, which chooses the rows of the working set, too
    for more in ({}, {"block_chunks": 40}, {"block_chunks": 40, "tol": 0.9}):
        cross_validate(source, (0.1, 1.0), 2, **run | more)
    warm_working_set(source)


def predict(folder: Path, kind: str, dtype: str, several: bool = False) -> None:
    """Text and a store under a model, or one of more classes than two (``several``)."""
    import numpy as np

    from blocksvm.api import fit
    from blocksvm.model.scoring import StoreScorer, TextScorer
    from blocksvm.model.values import pieces_of_values
    from blocksvm.sources.store.reader import open_store
    from blocksvm.vectors import side_by_side

    text, store = make_store(folder, ONES if kind == "ones" else VALUED, dtype)
    model = folder / "model.h5"
    with open_store(store) as source:
        fit(source, max_outer=1).save(model)
    for scorer, arguments in ((TextScorer(model, 1 << 30), ([str(text)],)), (StoreScorer(model, store, 1 << 30), ())):
        for _ in scorer.scores(*arguments):
            pass
    if not several:
        return
    own = few_rows(kind, 3)
    indptr, indices, values = own.read_block(np.arange(len(own.chunks)), None).matrix
    for entries in (values, np.ones(len(indices)), None):
        list(pieces_of_values((indptr, indices, entries), side_by_side(3, own.n_features + 1), 1.0))


def end_with_parent() -> None:
    """Where the system can, end this process when the one that started it is killed."""
    import ctypes
    import signal
    from contextlib import suppress

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main(purpose: str = "", kind: str = "", processes: str = "2", *named: str) -> None:
    """Compile for ``purpose``, or for a first use where none is given; with a second process beside this one where
    ``processes`` is 2.  named: the places that the user has named, whose code may run."""
    by_user(*named, FEW_PLACE)
    with names_of("the command"):
        compile_for(purpose, kind, processes)


def compile_for(purpose: str, kind: str, processes: str) -> None:
    """The same, once it is known whose code may run."""
    # the compiler makes many objects and few circles of them: looking for these takes an eighth of its time
    gc.freeze()
    gc.set_threshold(100_000, 50, 1_000)
    asked = [(purpose, kind)] if purpose else first_use()
    second = 0
    if processes == "2":
        kernels.start()  # both need the compiler, which takes a third of a second to bring up
        kernels.share_compiling()
        second = os.fork()
        if second == 0:
            try:
                end_with_parent()
                if purpose:
                    warm_beside(purpose, kind)
                for each in reversed(asked[1:]):
                    warm(*each)
            finally:
                os._exit(0)
    try:
        for each in asked:
            warm(*each)
            kernels.mark_ready(*each)
    finally:
        if second:
            os.waitpid(second, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])

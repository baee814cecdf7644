"""Compiles the kernels that a command uses, by running it on a few rows; started by the commands in a child process."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

# enough rows and features that every branch of the pipelines is entered, ids out of order and labels of both kinds
VALUED = "".join(f"{1 if i % 3 else -1} {i % 7 + 2}:{i % 5 + 0.5} {i % 2}:{1 + i % 3}\n" for i in range(40))
ONES = "".join(f"{1 if i % 3 else -1} {i % 7 + 2}:1 {i % 2}:1\n" for i in range(40))


def warm(purpose: str, kind: str) -> None:
    """Run what ``purpose`` names ('split', 'train', 'predict', 'read:FORMAT:hashed', 'learn:LEARNER:MAP:RULE') for
    values of ``kind``."""
    with tempfile.TemporaryDirectory(prefix="blocksvm-warmup-") as name:
        folder = Path(name)
        dtype = "float64" if kind == "float64" else "float32"
        if purpose == "split":
            for content in (ONES, VALUED):
                make_store(folder, content, dtype, holdout=0.3)
        elif purpose == "train":
            for solver in ("dual-cd", "pegasos"):
                train(kind, solver)
        elif purpose.startswith("learn:"):
            learn(kind, *purpose.split(":")[1:])
        elif purpose.startswith("read:"):
            name, _, hashed = purpose.removeprefix("read:").rpartition(":")
            read(name, hashed == "hashed", dtype)
        else:
            predict(folder, kind, dtype)


def make_store(folder: Path, content: str, dtype: str, holdout: float = 0.0) -> tuple[Path, Path]:
    """(text, store)"""
    from blocksvm.conversion.convert import SplitSettings, split

    text, store, held_out = folder / "rows.svm", folder / "rows.h5", folder / "held.h5"
    text.write_text(content)
    settings = SplitSettings(dtype=dtype, overwrite=True, holdout=holdout)
    split([str(text)], store, settings, held_out if holdout else None)
    return text, store


def read(name: str, hashed: bool, dtype: str) -> None:
    """A format's own example, with names and without, its ids hashed or not."""
    import numpy as np

    from blocksvm.formats import format_named
    from blocksvm.formats.hashing import reader_of
    from blocksvm.formats.protocol import Reading
    from blocksvm.formats.recipe import Recipe
    from blocksvm.formats.text import TextPiece, TextSource

    found = format_named(name)
    recipe = Recipe(name, "sum", 4 if hashed else None, "l2", dtype)
    text = np.frombuffer(found.sample, np.uint8).copy()
    for named in (False, True):
        reader = reader_of(found, Reading(recipe, named=named))
        reader.parse(TextPiece(TextSource(name, None), text, len(text), None), reader.room(len(text)))


def few_rows(kind: str):
    """A matrix in memory: no text is parsed, so nothing is compiled for it."""
    import numpy as np
    from scipy import sparse

    from blocksvm.sources.matrix import Matrix

    values = np.ones(8) if kind == "ones" else np.arange(1.0, 9.0)
    values = values.astype(np.float64 if kind == "float64" else np.float32)
    rows = sparse.csr_matrix((values, np.arange(8) % 3, np.arange(0, 9, 2)), shape=(4, 3))
    return Matrix(rows, [0, 1, 0, 1], chunk_rows=np.arange(4))


def train(kind: str, solver: str):
    """A run of a batch solver."""
    import numpy as np

    from blocksvm.api import fit
    from blocksvm.kernels.check import fill_rows
    from blocksvm.kernels.margins import add_rows
    from blocksvm.kernels.shuffle import keep_active

    source = few_rows(kind)
    # only stores need it
    two, bits = np.zeros(2, np.int64), np.zeros(1, np.uint64)
    fill_rows(np.zeros(64, np.uint8), 28, 0, 0, 0, np.zeros(2), two, bits, two[:1], np.zeros(1, np.int16))
    if solver == "dual-cd":  # a warm start's sweep
        add_rows(*source.read_block(np.arange(4), None).matrix, np.ones(4), 0.0, np.zeros(4))
        keep_active(np.zeros(1, np.int32), np.ones(1, np.uint8))
    for chunks in (None, 1):
        fitted = fit(source, valid=source, solver=solver, schedule="4", max_outer=5, tol=0.0, block_chunks=chunks)
    return fitted


def learn(kind: str, name: str, mirror: str, rule: str) -> None:
    """An online learner on rows of two classes, or with a rule for more."""
    import numpy as np

    from blocksvm import kernels
    from blocksvm.learners.protocol import LearnerSettings
    from blocksvm.learners.runner import Machine

    kernels.start()
    block = few_rows(kind).read_block(np.arange(4), None)
    known = {"max_norm": 1.0, "n_features": 9.0, "lam": 0.1}
    machine = Machine(
        name, LearnerSettings(mirror=mirror or None), known, n_classes=3 if rule else 2, rule=rule or None
    )
    memory = machine.new_memory(3)
    y = np.arange(4, dtype=np.int16) % 3 if rule else block.y
    machine.learn(block.matrix, y, np.arange(4, dtype=np.int32), 3, memory)
    machine.weights(memory, np.empty(4 * machine.copies))


def predict(folder: Path, kind: str, dtype: str) -> None:
    """Text and a store under a model."""
    from blocksvm.api import fit
    from blocksvm.model.scoring import StoreScorer, TextScorer
    from blocksvm.sources.store.reader import open_store

    text, store = make_store(folder, ONES if kind == "ones" else VALUED, dtype)
    model = folder / "model.h5"
    with open_store(store) as source:
        fit(source, max_outer=1).save(model)
    for scorer, arguments in ((TextScorer(model, 1 << 30), ([str(text)],)), (StoreScorer(model, store, 1 << 30), ())):
        for _ in scorer.scores(*arguments):
            pass


if __name__ == "__main__":
    warm(*sys.argv[1:])

"""Shared by the tests of training: small problems, stores made of them, runs with their events, the real command."""

import json
import shutil
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import pytest
import scipy.sparse
from support.paths import GOLDEN, ROOT
from support.stored_rows import entries_of_chunk
from support.thread_cluster import ThreadCluster

from blocksvm.base.labels import NUMBERS
from blocksvm.cli.commands import module_of
from blocksvm.cli.console import run as run_command
from blocksvm.cluster.loop import ClusterPlan, cluster_loop
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.losses import get_loss
from blocksvm.model.solver_state import InitialModels, describe_checkpoint
from blocksvm.problems.certificate import NOTHING
from blocksvm.problems.problem import Problem
from blocksvm.solvers.solver import PassResult, Visit
from blocksvm.sources.matrix import Matrix
from blocksvm.store.reader import Store
from blocksvm.training.checkpoint import Checkpoint
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings


def random_rows(n=60, d=25, density=0.2, seed=0, dtype=np.float64, ones=False, zero_rows=2, copies=3):
    """(X CSR, y of +-1): labels of a noisy plane; some rows without entries, some rows that stand twice."""
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random(n, d, density=density, random_state=rng, format="lil", data_rvs=rng.standard_normal)
    for i in rng.choice(n, zero_rows, replace=False) if zero_rows else []:
        X[i] = 0.0
    for i, j in zip(rng.integers(0, n // 2, copies), rng.integers(n // 2, n, copies), strict=True):
        X[j] = X[i]
    X = scipy.sparse.csr_matrix(X, dtype=dtype)
    X.sum_duplicates()
    X.eliminate_zeros()
    if ones:
        X.data[:] = 1
    y = np.where(X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def two_classes(y, loss="hinge", C=1.0, weights=(1.0, 1.0), bias=0.0) -> Problem:
    """The problem of rows of +-1, whatever their features."""
    counts = (int((y < 0).sum()), int((y > 0).sum()))
    cost, at = C * np.array([weights]), get_loss(loss).at({})
    return Problem(get_loss(loss), cost, bias, len(y), at, weight_sums=counts, predicts=NUMBERS)


def certified(problem: Problem, w, alpha, source: Matrix, prior=None, exact=True):
    """That of w (d + 1,) and alpha (n,), or None, chunk by chunk; exact: w(alpha) is added up."""
    prior = NOTHING if prior is None else prior.reshape(-1, 1)
    sums = problem.sums(w, prior, np.zeros((len(w), 1)) if exact and alpha is not None else None)
    for k in range(len(source.chunks)):
        block = source.read_block(np.array([k]), None)
        of_rows = None if alpha is None else alpha[block.rows].reshape(block.n_samples, -1)
        sums.add(sums.scores(block), block, of_rows)
    return sums.certificate()


def svmlight(X, y, first_id=1) -> str:
    """Text of the rows, with every digit of the values; y: numbers or words."""
    pairs = [f" {j + first_id}:{v!r}" for j, v in zip(X.indices.tolist(), X.data.astype(float).tolist(), strict=True)]
    bounds = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    labels = (label if isinstance(label, str) else f"{label:.17g}" for label in y)
    return "".join(f"{label}{''.join(pairs[a:b])}\n" for label, (a, b) in zip(labels, bounds, strict=True))


def text_of_sets(X, sets) -> str:
    """Text of dense rows in the format multilabel: sets of names."""
    return "".join(
        ",".join(map(str, own)) + " " + " ".join(f"{j}:{x!r}" for j, x in enumerate(row) if x) + "\n"
        for row, own in zip(X.tolist(), sets, strict=True)
    )


def make_store(folder: Path, X, y=None, name="rows", chunk_nonzeros=None, **options) -> Path:
    """A store of (X, y), or of text if X is a string."""
    text, store = folder / f"{name}.svm", folder / f"{name}.h5"
    text.write_text(X if isinstance(X, str) else svmlight(X, y))
    split_rows([str(text)], store, SplitSettings(chunk_nonzeros=chunk_nonzeros, **options))
    return store


def rows_of_store(path: Path):
    """(X CSR float64 in the store's numbering, y of +-1, first rows of the chunks), by plain h5py."""
    with h5py.File(path) as file:
        meta = json.loads(file["meta"][()].tobytes())
        chunks, rows = file["chunks"][()], file["rows"][()]
        found = [entries for chunk in chunks for entries in entries_of_chunk(file, chunk)]
    indices, data = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    indptr = np.cumsum([0, *(len(features) for features, _ in found)])
    X = scipy.sparse.csr_matrix((data, indices, indptr), shape=(len(rows), meta["n_features"]))
    largest = max(label for label, _ in meta["labels"])
    return X, np.where(rows["label"] == largest, 1.0, -1.0), chunks["first_row"].astype(np.int64)


class Run:
    """A finished run: its loop, result and events."""

    def __init__(self, loop: OuterLoop, events: list[dict]):
        self.loop = loop
        self.events = events
        self.result = loop.run()
        self.w = self.result.w.copy()
        self.alpha = None if self.result.alpha is None else self.result.alpha.copy()

    def outer(self) -> list[dict]:
        return [event for event in self.events if event["event"] == "outer"]

    def same(self, other: "Run") -> bool:
        """Bit-identical weights and dual variables."""
        return np.array_equal(self.w, other.w) and (
            self.alpha is other.alpha is None or np.array_equal(self.alpha, other.alpha)
        )


def opened(source):
    """A store's path opened; a Matrix as it is."""
    return Store(source) if isinstance(source, str | Path) else nullcontext(source)


def looped(source, *, on_event=lambda event: None, stop=lambda: False, valid=None, checkpoint=None,
           resume=False, checkpoint_seconds=1e9, warm_start=None, prior=None, continue_from=None, cluster=None,
           **settings):  # fmt: skip
    """The outer loop of a run on an open source, not begun; cluster: of this many threads, or of these workers."""
    settings_of = TrainSettings.of if continue_from is None else partial(TrainSettings.continuing, continue_from)
    plan_of, loop_of = Plan, OuterLoop
    if cluster is not None:
        by = ThreadCluster(cluster) if isinstance(cluster, int) else cluster
        plan_of, loop_of = ClusterPlan, partial(cluster_loop, cluster=by)
    known = {"initial_models": InitialModels(source, continue_from, prior), "valid": valid}
    plan = plan_of(source, settings_of(**settings), resume=describe_checkpoint(checkpoint) if resume else None, **known)
    kept = None if checkpoint is None else Checkpoint(checkpoint, checkpoint_seconds)
    return loop_of(plan, on_event, stop, checkpoint=kept, warm_start=warm_start)


def train(source, *, stop=None, valid=None, **options) -> Run:
    """Train on a Matrix or on a store's path."""
    events: list[dict] = []
    with opened(source) as rows, opened(valid) as held_out:
        return Run(
            looped(rows, on_event=events.append, stop=stop or (lambda: False), valid=held_out, **options), events
        )


def logged(path: Path, kind: str | None = None) -> list[dict]:
    """The events of a log, all or those of a kind."""
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in events if kind in (None, event["event"])]


def stop_after(polls: int):
    """A stop() that says yes at its ``polls``-th question and ever after."""
    asked = count(1)
    return lambda: next(asked) >= polls


def asked(source, **settings):
    """(A run that is not stopped, how often it asks whether it shall)."""
    questions = count()
    return train(source, stop=lambda: next(questions) < 0, **settings), next(questions)


def assert_same(found: Run, whole: Run, when: str = "") -> None:
    """The same bits, and what a result says of them; of learners the counts of rows and losses."""
    assert found.same(whole), when
    assert np.array_equal(*(run.loop.state.get("tally") for run in (found, whole))), when
    for name in ("certificate", "status", "outer", "outer_of_weights", "passes", "set_passes"):
        assert getattr(found.result, name, None) == getattr(whole.result, name, None), when


def assert_resumed(source, folder: Path, polls, whole: Run | None = None, **settings) -> None:
    """Runs stopped at these questions go on to the bits, the certificate and the status of one that was not."""
    whole = whole or train(source, **settings)
    for k in polls:
        kept = folder / f"{k}.ckpt"
        assert train(source, stop=stop_after(k), checkpoint=kept, **settings).result.status == "interrupted"
        assert_same(train(source, checkpoint=kept, resume=True, **settings), whole, f"stopped at question {k}")


def make_pass(solver, block, state, visit: Visit, order) -> PassResult:
    """The next pass of a visit."""
    done = solver.inner_pass(block, state, visit, order.astype(np.int32))
    visit.passes += 1
    return done


class SlowMatrix(Matrix):
    """A matrix whose blocks take time to be read, as from a slow disk."""

    def __init__(self, *arguments, seconds=0.003, **options):
        super().__init__(*arguments, **options)
        self.seconds = seconds

    def read_block(self, chunks, arena):
        time.sleep(self.seconds)
        return super().read_block(chunks, arena)


def command(*arguments, module="train", timeout=120, **options) -> subprocess.CompletedProcess:
    """``python -m blocksvm.<module>`` in a process of its own."""
    line = [sys.executable, "-m", f"blocksvm.{module}", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=timeout, cwd=ROOT, **options)


class Outcome(NamedTuple):
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        return self.err.rstrip("\n").rsplit("\n", 1)[-1]


def run_in_process(capsys, main, *arguments) -> Outcome:
    """A command, given by its ``main`` or by a line, as ``python -m`` runs it, without a process of its own."""
    name, *words = main.split() if isinstance(main, str) else [main]
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        run_command(module_of(name).main if isinstance(name, str) else name, [*words, *map(str, arguments)])
    return Outcome(ended.value.code, *capsys.readouterr())


def quick_model(path: Path) -> None:
    """A small model, without any training."""
    shutil.copy(GOLDEN / "model.h5", path)

"""The rows of a store are scored under a model by workers, each of which has the model and scores some chunks."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.cluster.chunk_parts import LARGEST_PART, MOST_UNDER_WAY, cut, part_size
from blocksvm.cluster.cluster import Cluster
from blocksvm.cluster.dispatcher import Dispatcher
from blocksvm.cluster.job import NO_VERSION, Context, Job
from blocksvm.files.paths import absolute_name, location
from blocksvm.model.scoring import ScoreChunks, ScoredRows, StoreScorer
from blocksvm.store.reader import Store

NUMBER = 8  # bytes
ANSWERS = 1 / 4  # of the memory that is left, at most, for answers that have come


@dataclass(frozen=True)
class ScoringJob(Job):
    """model: the path of its file, which all see, and the file's digest; options: of a ``StoreScorer``."""

    model: tuple[str, str]
    options: dict

    def make_context(self, store: Store) -> Context:
        path, digest = self.model
        if not location(path).is_file() or digest_of(path) != digest:
            raise InputError(f"{path}: is not there, or is another model than the one that predicts")
        return ScoringContext(self, store)


@dataclass(frozen=True)
class ScoringPart:
    """Chunks whose rows of source numbers low .. high - 1 are scored, without any w."""

    number: int
    chunks: np.ndarray
    size: int
    low: int
    high: int
    version: int = NO_VERSION

    @property
    def n_bytes(self) -> int:
        return self.chunks.nbytes


@dataclass(frozen=True)
class Scored:
    number: int
    rows: list[ScoredRows]
    seconds: float

    @property
    def n_bytes(self) -> int:
        total = 0
        for rows in self.rows:
            arrays = (rows.source, rows.label, rows.classes, rows.values, *(rows.contributions or ()))
            total += sum(0 if array is None else array.nbytes for array in arrays)
        return total


class ScoringContext(Context):
    def __init__(self, job: ScoringJob, store: Store):
        super().__init__(store)
        scorer = StoreScorer(job.model[0], store.path, job.n_bytes, n_jobs=job.threads or 1, **job.options)
        self.stack = ExitStack()
        self.score_chunks = self.stack.enter_context(scorer.by_threads(store))

    def close(self) -> None:
        self.stack.close()
        super().close()

    def answer(self, part: ScoringPart) -> Scored:
        began = time.perf_counter()
        rows: list[ScoredRows] = []
        self.score_chunks(part.chunks.tolist(), part.low, part.high, rows.append)
        return Scored(part.number, rows, time.perf_counter() - began)


@contextmanager
def scoring_by(cluster: Cluster, scorer: StoreScorer, model: str, options: dict, store: Store) -> Iterator[ScoreChunks]:
    """What ``StoreScorer.scores`` takes to have chunks scored by workers; options: those that made the scorer."""
    sizes = store.chunks.nnz + store.chunks.n_rows * -(-scorer.row_bytes // NUMBER)
    answers = int(ANSWERS * scorer.budget.left) // NUMBER
    part = part_size(sizes, max(1, min(LARGEST_PART, answers // 4)))
    largest = part + int(sizes.max())
    most = max(2, min(MOST_UNDER_WAY, answers // largest))
    scorer.budget.take("answers of workers", NUMBER * most * largest)
    model = absolute_name(model)
    job = ScoringJob(
        uuid4().hex, cluster.stores(store.path), store.fingerprint, scorer.budget.total, 1,
        (model, digest_of(model)), options,
    )  # fmt: skip
    with Dispatcher(cluster.workers, job, cluster.timeout, most, cluster.say) as dispatcher:

        def score_chunks(chunks: Sequence[int], low: int, high: int, take: Callable[[ScoredRows], None]) -> None:
            parts = cut(np.array(chunks), sizes, part)
            dispatcher.want(
                partial(ScoringPart, chunks=some, size=int(sizes[some].sum()), low=low, high=high) for some in parts
            )
            for _ in parts:
                for rows in dispatcher.take().rows:
                    take(rows)

        yield score_chunks


def digest_of(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

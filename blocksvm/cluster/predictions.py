"""Predictions by workers: of the chunks of a store, whose scores come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.cluster.dask import Cluster, Parts
from blocksvm.cluster.part import StoreJob
from blocksvm.cluster.plan import LARGEST_PART, MOST_UNDER_WAY, cut, part_size
from blocksvm.files.paths import absolute_name, location
from blocksvm.formats.file_reader import fingerprint_of
from blocksvm.model.scoring import ScoreChunks, ScoredRows, StoreScorer
from blocksvm.store.reader import Store

NUMBER = 8  # bytes
ANSWERS = 1 / 4  # of the memory that is left, at most, for scores that have come


@dataclass(frozen=True)
class ModelFile:
    """path: which all see, or an object's URL."""

    path: str
    fingerprint: str

    @classmethod
    def at(cls, path: str) -> ModelFile:
        name = absolute_name(path)
        return cls(name, fingerprint_of(name))

    def check(self) -> None:
        if not location(self.path).is_file() or fingerprint_of(self.path) != self.fingerprint:
            raise InputError(f"{self.path}: is not there, or is another model than the one that predicts")


@dataclass(frozen=True)
class ScoringJob(StoreJob):
    """options: of a ``StoreScorer``."""

    model: ModelFile
    options: dict

    @contextmanager
    def opened(self) -> Iterator[Callable]:
        self.model.check()
        with self.store() as store:
            scorer = StoreScorer(self.model.path, store.path, self.n_bytes, **self.options)
            with scorer.by_threads(store) as score_chunks:

                def answer(part: ScoringPart, w: None) -> list[ScoredRows]:
                    rows: list[ScoredRows] = []
                    score_chunks(part.chunks.tolist(), part.low, part.high, rows.append)
                    return rows

                yield answer


@dataclass(frozen=True)
class ScoringPart:
    """Chunks whose rows of source numbers low .. high - 1 are scored."""

    chunks: np.ndarray
    low: int
    high: int


@contextmanager
def scoring_by(cluster: Cluster, scorer: StoreScorer, model: str, options: dict, store: Store) -> Iterator[ScoreChunks]:
    """What ``StoreScorer.scores`` takes to have chunks scored by workers; options: those that made the scorer."""
    sizes = store.chunks.nnz + store.chunks.n_rows * -(-scorer.row_bytes // NUMBER)
    answers = int(ANSWERS * scorer.budget.left) // NUMBER
    part = part_size(sizes, max(1, min(LARGEST_PART, answers // 4)))
    largest = part + int(sizes.max())
    most = max(2, min(MOST_UNDER_WAY, answers // largest))
    scorer.budget.take("answers of workers", NUMBER * most * largest)
    made_by, path = ModelFile.at(model), absolute_name(store.path)
    job = ScoringJob(uuid4().hex, scorer.budget.total, path, store.fingerprint, made_by, options)
    with cluster.opened():
        parts = Parts(cluster, job, most)

        def score_chunks(chunks: Sequence[int], low: int, high: int, take: Callable[[ScoredRows], None]) -> None:
            some = cut(np.array(chunks), sizes, part)
            parts.want(ScoringPart(these, low, high) for these in some)
            for _ in some:
                for rows in parts.take():
                    take(rows)

        yield score_chunks

"""Predictions by workers: the chunks of a store, whose scores come back, or whole files, whose scores they write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.cluster.dask import Cluster, Parts
from blocksvm.cluster.part import Job, StoreJob
from blocksvm.cluster.plan import LARGEST_PART, MOST_UNDER_WAY, cut, part_size
from blocksvm.files.output import TemporaryFolder, sync_folder
from blocksvm.files.paths import absolute_name, location
from blocksvm.formats.file_reader import fingerprint_of
from blocksvm.model.decision_values import known_link
from blocksvm.model.measures import RANK_BYTES, Measures, measures_of, merge
from blocksvm.model.scoring import ScoreChunks, ScoredRows, StoreScorer, TextScorer, scorer_of
from blocksvm.model.shards import OUTPUT_SHARE, Results, Shards, Wanted, written
from blocksvm.store.reader import Store

NUMBER, SMALL = 8, 1 << 20  # bytes, of measures but for the ROC curve
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

                def answer(part: tuple[np.ndarray, int, int], w: None) -> list[ScoredRows]:
                    """part: (chunks, low, high), of whose rows those of source numbers low .. high - 1 are scored."""
                    rows: list[ScoredRows] = []
                    score_chunks(part[0].tolist(), *part[1:], rows.append)
                    return rows

                yield answer


@dataclass(frozen=True)
class FilesJob(Job):
    """options: of ``scorer_of``; wanted: of each row."""

    model: ModelFile
    options: dict
    wanted: Wanted

    @contextmanager
    def opened(self) -> Iterator[Callable]:
        self.model.check()
        yield self.counted

    def counted(self, part: tuple[str, str], w: None) -> tuple[Measures, int, int, dict]:
        """What the rows of a file have shown: (measures, how many were selected, lines without a row, ``figures`` of
        coverage).  part: (the input's name, its file of scores); whoever asks has looked whether that may be replaced.
        """
        (name, path), notes = part, list[str]()
        scorer = scorer_of(self.model.path, [name], self.n_bytes, **self.options)
        scorer.budget.take("output", OUTPUT_SHARE * self.n_bytes)
        link = known_link(scorer.description)
        results = Results(self.wanted, scorer.description.labels, link)
        measures = measures_of(scorer.model, link, scorer.budget)
        target = location(path)
        # a worker that has stopped may hold the name under which the file is written
        with TemporaryFolder(target.parent) if isinstance(target, Path) else nullcontext() as apart:
            file = target if apart is None else apart / target.name
            selected = sum(written(scorer, name, file, True, results, measures, notes))
            if apart is not None:
                os.replace(file, os.path.realpath(target))
                sync_folder(target.parent, target)
        scorer.coverage.notes += notes
        return measures, selected, scorer.empty, scorer.coverage.figures()


# -- of the process that predicts --------------------------------------------------------------------------------------


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
            parts.want((these, low, high) for these in some)
            for _ in some:
                for rows in parts.take():
                    take(rows)

        yield score_chunks


def files_by(
    cluster: Cluster, shards: Shards, model: str, scorer: TextScorer, measures: Measures, options: dict
) -> Iterator[tuple[str, int]]:
    """As ``Shards.score`` has them, of whole files that workers write; options: those that made the scorer."""
    job = FilesJob(uuid4().hex, scorer.budget.total, ModelFile.at(model), options, shards.wanted)
    shards.begun()
    with cluster.opened():
        each = 2 * RANK_BYTES if getattr(measures, "curve", None) else SMALL
        most = max(1, min(MOST_UNDER_WAY, scorer.budget.left // each))
        scorer.budget.take("answers of workers", min(scorer.budget.left, most * each))
        parts = Parts(cluster, job, most)
        names = {name: absolute_name(path) for name, path in shards.outputs.items() if name not in shards.done}
        parts.want((absolute_name(name), path) for name, path in names.items())
        for name, _, _ in shards.files():
            of_file, selected, empty, counts = parts.take()
            merge(measures, of_file)
            if counts["entries"] is not None:
                scorer.coverage.count(counts["entries"], counts["unknown_entries"])
            scorer.empty += empty
            scorer.coverage.notes += [f"{name}: {note.removeprefix(f'{name}: ')}" for note in counts["notes"]]
            yield name, selected

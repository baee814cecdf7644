"""A pass over a stream: rows learned from in their order, reports and saves at row numbers."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.log import LOG
from blocksvm.base.memory import MEMORY, too_small
from blocksvm.base.row_batch import RecordCounter, RowBatch, shown_name
from blocksvm.base.settings import SEED
from blocksvm.base.user_code import by_user
from blocksvm.files.input import names_of_inputs
from blocksvm.files.paths import Location, one_run
from blocksvm.formats import AUTO, get_format, said_of_columns
from blocksvm.formats.format import ReaderOptions
from blocksvm.model.decision_values import LabelQueries
from blocksvm.model.model_file import describe_model
from blocksvm.model.solver_state import check_continued
from blocksvm.online.learner import COMMON_SETTINGS, SETS, WEIGHTS
from blocksvm.online.loops import LAST_LABEL, LAST_LENGTH, LAST_SCORE, MISTAKES, NO_LABEL, NONZEROS, ROWS
from blocksvm.online.runner import check_norm
from blocksvm.online.solver import is_reported
from blocksvm.store.recipe import UNCHANGED, Recipe
from blocksvm.streaming import stream_takeover as takeover
from blocksvm.streaming.ahead import ParsedAhead, ParsedPart
from blocksvm.streaming.stream_learner import AREA_BYTES, RANKING_BYTES, StreamFeatures, StreamLearner, learners_of
from blocksvm.streaming.targets import SetTargets, StreamTargets

OF_PASSES = ("rows", "cumulative_loss", "mistakes", "squared_errors", "cumulative_cost")
PREDICTED_AT_ONCE = 1 << 16  # decision values


@dataclass(frozen=True)
class StreamSettings:
    """Settings of a stream.

    learner: the name, or several with commas between them, '' where a model's goes on; settings: the learners' own, by
    name, each for those that have it; labels: the classes, also as 'NEG,POS'; None: -1 and +1, or 0 and 1, whichever
    comes; bits: hash ids to 2^bits features, None: a table; normalize, duplicates: None is 'none' and 'error', or as
    the model has it with which the stream goes on; options: the format's own settings, by name; idf, scale: those of
    that model; the others: as the options of the command have them.
    """

    learner: str = ""
    settings: Mapping = field(default_factory=dict)
    labels: tuple | str | None = None
    bits: int | None = None
    query: float | None = None
    average: bool = False
    multiclass: str | None = None
    class_weight: Mapping | None = None
    targets: str | None = None
    bias: float | None = None
    skip_bad: bool = False
    save_every: int | None = None
    memory: int = 1_000_000_000
    n_jobs: int = 1
    seed: int = 0
    normalize: str | None = None
    duplicates: str | None = None
    format: str = AUTO
    options: Mapping = field(default_factory=dict)
    passes: int = 1
    test: bool = False
    idf: str = UNCHANGED
    scale: str = UNCHANGED

    def __post_init__(self):
        object.__setattr__(self, "memory", MEMORY.checked(self.memory))
        object.__setattr__(self, "seed", SEED.checked(self.seed))
        by_user(self.settings, learner=self.learner, format=self.format)

    @property
    def recipe(self) -> Recipe:
        made = self.duplicates or "error", self.bits, self.normalize or "none"
        return Recipe(self.format, *made, "float32", self.options, self.idf, self.scale)


@dataclass(frozen=True)
class StreamReport:
    """Where a stream stands; ``final`` at its end.  mistakes, or squared_errors where labels are numbers: so far, the
    other is None; auc, log_loss: of the predictions of two classes, of the rows of this run;
    cumulative_cost: where predictions cost; label, score, length: of the row seen last; where labels are sets, the one
    of its set with the least decision value (None: it is empty), and the one with the largest of all.  Of several
    learners these are those of the one that leads, and ``learners`` has those of each by its name, in the order in
    which they were named.  passes: of several passes the figures of each alone, as far as it has come: only the rows of
    the first one were new."""

    rows: int
    cumulative_loss: float
    auc: float | None
    log_loss: float | None
    mistakes: int | None
    squared_errors: float | None
    cumulative_cost: float | None
    asked: int
    features: int
    skipped: int
    seconds: float
    label: float | None
    score: float
    length: int
    final: bool
    learners: dict[str, dict] | None
    passes: list[dict] | None = None


class StreamPass:
    """One pass over inputs, or several, with settings that are made; ``api.streams.Stream`` tells of the calls."""

    def __init__(self, settings: StreamSettings, *, prior: Location | None = None, start_from: Location | None = None,
                 on_report=lambda report: None, on_fault=lambda sentence: None, on_save=None, stop=lambda: False,
                 on_predicted=None, on_query=None):  # fmt: skip
        if settings.passes < 1:
            raise InputError(f"{option('passes', settings.passes)}: must be 1 or more")
        if settings.test and start_from is None and prior is None:
            raise InputError(f"{option('test')}: learns nothing; give {option('start_from')}, a model to test")
        alone = {"start_from": start_from, "test": settings.test, "predictions": on_predicted, "ask": on_query}
        for name, value in alone.items():
            if value and "," in settings.learner:
                raise InputError(f"{option(name)}: is for one learner; {settings.learner} are several")
        if on_query is not None and settings.query is None:
            raise InputError(f"{option('ask')}: needs {option('query')}, which says how likely labels are asked for")
        if settings.test and settings.query is not None:
            raise InputError(f"{option('test')}: learns nothing, so it asks for no labels; leave {option('query')} out")
        settings = replace(settings, class_weight=COMMON_SETTINGS["class_weight"].checked(settings.class_weight))
        self.settings = settings = settings if start_from is None else takeover.continued(start_from, settings)
        self.continued = start_from
        self.on_report, self.on_save, self.on_predicted, self.stop = on_report, on_save, on_predicted, stop
        self.prior = prior

        def skip(sentence: str) -> None:
            LOG.warning("skipped: %s", sentence)
            on_fault(sentence)

        prior_model = None if prior is None else describe_model(prior)
        self.prior_fingerprint = None if prior_model is None else prior_model.content
        kind = SetTargets if settings.targets == SETS else StreamTargets
        self.targets = kind(settings, prior, prior_model, skip, bool(on_predicted or on_query))
        if start_from is not None:
            self.targets.labels = takeover.check_continued_stream(start_from, self)
        classes = self.targets.known_classes()
        self.learners = learners_of(settings, classes, prior is not None)
        self.queries = None if on_query is None else LabelQueries(self.leading.runner.query, settings.seed, on_query)
        if settings.test:
            self.leading.runner.query = 0.0  # no label is asked for
        if start_from is not None:
            check_continued(start_from, describe_model(start_from), settings.bias or 0.0, self.prior_fingerprint)
        factor = settings.recipe.factor
        self.factors = takeover.factors_to_go_on(start_from, factor) if factor else None
        reading = ReaderOptions(settings.recipe, offers=("duplicates", "bits"), factors=self.factors)
        self.ahead = ParsedAhead(reading, settings.skip_bad, settings.memory, settings.n_jobs, stop)
        ranked = sum(learner.curve is not None for learner in self.learners)
        self.ranking_bytes = RANKING_BYTES * ranked + AREA_BYTES * (ranked > 0)  # areas are found one after the other
        besides = self.ranking_bytes + takeover.taken_over_bytes(prior_model, self.factors)
        left = settings.memory - self.ahead.planned_bytes - besides
        if left < 1_000_000:
            least = 10**6 * math.ceil(self.ahead.least_memory(1_000_000 + besides) / 1e6)
            raise too_small(settings.memory, "a stream", least)
        numbered = None
        if start_from is not None and settings.bits is not None:  # a model of all positions goes on with all of them
            numbered = describe_model(start_from).n_features < 1 << settings.bits
        self.features = StreamFeatures(self.learners, settings.bits, left, numbered)
        self.ahead.find = self.features.find
        self.counter = RecordCounter()
        self.entries = self.unknown = 0  # where nothing is learned: entries, and those of features that are not known
        if start_from is not None:
            takeover.go_on(start_from, self.features, counts=not settings.test)
        self.n_known = self.features.n_features
        if prior_model is not None:
            takeover.take_prior(prior, prior_model, self)
        self.began = time.perf_counter()
        self.begins: list[dict] = []  # of each pass so far the learners' progress before it
        self.last_report = -1

    @property
    def rows(self) -> int:
        return int(self.learners[0].state.tally[ROWS])

    @property
    def leading(self) -> StreamLearner:
        """The learner of the fewest mistakes, or the least squared error, so far; of equals the first one named."""
        return min(self.learners, key=lambda learner: learner.state.tally[MISTAKES])

    @property
    def recipe(self) -> Recipe:
        """How the text is read: of 'auto' the recognised format, once it is known."""
        return self.ahead.reading.recipe

    def plan(self) -> dict[str, int]:
        """Bytes by name, at most."""
        taken = {"text": self.ahead.planned_bytes} | ({"ranking": self.ranking_bytes} if self.ranking_bytes else {})
        return taken | {"features": self.settings.memory - sum(taken.values())}

    def report(self, final: bool = False) -> StreamReport:
        leading = self.leading
        tally, labels = leading.state.tally, self.targets.labels
        each = {learner.name: learner.progress() for learner in self.learners}
        progress = each[leading.name]
        passes = None
        if self.settings.passes > 1:
            ends = pairwise([*(begin[leading.name] for begin in self.begins), progress])
            counted = [name for name in OF_PASSES if progress[name] is not None]
            passes = [{name: end[name] - begin[name] for name in counted} for begin, end in ends]
        label, score = float(tally[LAST_LABEL]), float(tally[LAST_SCORE])
        if leading.runner.sets:
            label, score = (None if c < 0 else labels.values[int(c)] for c in (label, score))
        elif labels is not None:
            label = labels.values[label > 0.0] if labels.binary else labels.values[int(label)]
            score = score if leading.runner.rule is None else labels.values[int(score)]
        return StreamReport(
            **progress, features=self.features.n_features, skipped=self.targets.skipped,
            seconds=time.perf_counter() - self.began, label=label, score=score, length=int(tally[LAST_LENGTH]),
            final=final, learners=each if len(each) > 1 else None, passes=passes,
        )  # fmt: skip

    def _tell(self, final: bool = False) -> None:
        report = self.report(final)
        LOG.info("%d rows, cumulative loss %.6g", report.rows, report.cumulative_loss)
        self.on_report(report)

    @property
    def nonzeros(self) -> int:
        return int(self.learners[0].state.tally[NONZEROS])

    @one_run()
    def run(self, inputs: str | Path | Iterable[str | Path]) -> bool:
        """Learn from all rows; False where it was stopped."""
        inputs = names_of_inputs(inputs)
        if self.settings.passes > 1 and "-" in inputs:
            raise InputError(f"{option('passes', self.settings.passes)}: standard input can be read once; name a file")
        going = True
        for number in range(self.settings.passes):
            self.targets.again = number > 0
            self.begins.append({learner.name: learner.progress() for learner in self.learners})
            if number and self.rows != self.last_report:
                self.last_report = self.rows
                self._tell()
            counter = RecordCounter()
            if not number:
                self.counter = counter
            going = going and self._learn_all(inputs, counter)
        if self.rows != self.last_report or self.rows == 0:
            self._tell(final=True)
        unlabelled = self.targets.unlabelled
        if self.rows == 0 and going and not (self.on_predicted and unlabelled):
            name = shown_name(inputs[0])
            if unlabelled:
                raise InputError(f"{name}: none of its {unlabelled:,} rows has a label; there is nothing to learn")
            raise InputError(f"{name}: no rows found; expected lines of {get_format(self.recipe.format).lines}")
        for note in notes_of(self):
            LOG.warning("%s", note)
        return going

    def _learn_all(self, inputs: list[str], counter: RecordCounter) -> bool:
        with closing(self.ahead.pieces(inputs)) as pieces:
            for parts in pieces:
                for part in parts:
                    batch = part.batch
                    # of classes any label that is none of them is skipped
                    if not self.settings.skip_bad or self.targets.known_classes() is None:
                        counter.check_labels(batch)
                    # rows before a bad line are learned from, as they would be had the line come in another piece
                    self._learn(part, counter)
                    if batch.fault is not None:
                        self.targets.skip(counter.at(batch, *batch.fault))
                    counter.count(batch)
                    self.ahead.give_back(part)
                if self.stop():
                    return False
        return not self.stop()

    def _refuse_weights(self, batch: RowBatch, counter: RecordCounter) -> None:
        unable = [learner.name for learner in self.learners if WEIGHTS not in learner.runner.learner.takes]
        weighted = np.flatnonzero(batch.weights != 1.0) if unable else ()
        if len(weighted):
            row, name = int(weighted[0]), unable[0]
            what = (
                f"the row has the weight {batch.weights[row]:g}, but {name} takes all rows as equal; leave the weights"
            )
            raise InputError(counter.at(batch, int(batch.origin.records[row]), f"{what} out"))

    def _learn(self, part: ParsedPart, counter: RecordCounter) -> None:
        batch = part.batch
        if len(batch) == 0:
            return
        if batch.weights is not None:
            self._refuse_weights(batch, counter)
        y, order = self.targets.of(batch, counter)
        check_norm(shown_name(batch.origin.source.name), math.sqrt(batch.largest))
        if part.error is not None:
            raise part.error
        self.features.hold(part.n_features)
        matrix = (batch.indptr, part.indices, batch.values)
        if self.settings.test and not self.targets.again:
            self.entries += len(part.indices)
            self.unknown += int(np.count_nonzero(part.indices >= self.n_known))
        every, weights = self.settings.save_every, self.targets.weigh(y, batch.weights, self.settings.class_weight)
        if weights is not None and (weights == 1.0).all():
            weights = None
        # of many classes the decision values of a piece's rows would take more than the piece
        k, scores = self.learners[0].runner.n_vectors, None
        wanted = self.on_predicted is not None or self.queries is not None
        step = max(1, PREDICTED_AT_ONCE // k) if wanted else len(order)
        for start in range(0, len(order), max(1, step)):
            rows = order[start : start + step]
            if wanted:
                scores = np.empty(len(rows) if k == 1 else (len(rows), k))
            parts = [
                learner.learn(matrix, y, rows, weights=weights, every=every, scores=scores, sets=self.targets.sets)
                for learner in self.learners
            ]
            self._learn_from(zip(*parts, strict=True), every)
            if self.on_predicted is not None:
                self.on_predicted(scores, self.targets.known_classes())
            if self.queries is not None:
                unlabelled = y[rows] == NO_LABEL
                self.queries.add(scores[unlabelled], rows[unlabelled], batch, counter)

    def _learn_from(self, parts: Iterator[tuple[int, ...]], every: int | None) -> None:
        """Let each learner learn from rows; reports and saves at the row numbers that end the parts."""
        before = self.rows
        for rows, *_ in parts:
            if rows == before:
                continue  # none had a label
            before = rows
            if is_reported(rows):
                self.last_report = rows
                self._tell()
            if self.on_save is not None and every and rows % every == 0:
                self.on_save(self)


def notes_of(stream: StreamPass) -> list[str]:
    """Sentences about rows that a stream left out or read in an unexpected way, and a test without known features."""
    notes = said_of_columns(stream.recipe)[1] if stream.continued is None else []
    notes += stream.counter.notes()
    if stream.settings.test and stream.rows and stream.unknown == stream.entries:
        notes.append(
            f"of the {stream.entries:,} entries none is of a feature that {stream.continued} knows, so that all rows "
            "score alike; check that the rows are read as those that it was learned from were"
        )
    return notes

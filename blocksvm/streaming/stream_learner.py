"""A learner in a stream: its rule with its settings, and its state over features that come one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import Labels
from blocksvm.base.settings import plain
from blocksvm.base.vectors import on_lines
from blocksvm.online import get_learner
from blocksvm.online.learner import COMMON_SETTINGS, PRIOR, SETS, SHARED, of_classes
from blocksvm.online.loops import TALLY_LENGTH, SetTable
from blocksvm.online.runner import LearnerState, Runner
from blocksvm.online.solver import check_weighs_classes, progress_of, settings_of
from blocksvm.store.descriptions import MethodMeta
from blocksvm.streaming.ranking import RANKING_BYTES, Ranking


def spans(start: int, stop: int, length: int) -> list[tuple[int, int, int]]:
    """(class, first, last) of the parts of a range over class after class of ``length`` entries each."""
    parts = []
    while start < stop:
        c = start // length
        last = min(stop, (c + 1) * length)
        parts.append((c, start - c * length, last - c * length))
        start = last
    return parts


class StreamLearner:
    """A ``Runner`` and its ``LearnerState`` over features that come as ids.

    method: the learner as a model file names it; has_prior: its weights are added to a prior model's; ranking: of its
    predictions of two classes, else None.  Arrays that grow are reserved at their largest size (untouched memory is not
    used) and used up to a capacity: only the constant feature is copied, and of several classes what lies after the
    first one's.
    """

    def __init__(self, runner: Runner, method: MethodMeta, has_prior: bool):
        self.runner, self.method, self.has_prior = runner, method, has_prior
        self.ranking = Ranking() if runner.signed else None
        self.capacity = 0
        self.reserved = self.reserved_prior = np.empty(0)
        self.state = LearnerState(self.reserved, np.zeros(runner.scalar_length()), np.zeros(TALLY_LENGTH))

    @property
    def name(self) -> str:
        return self.method.name

    def ranking_bytes(self) -> int:
        """Bytes of the ranking of its predictions, for any number of rows."""
        return 0 if self.ranking is None else RANKING_BYTES

    def feature_bytes(self) -> int:
        """Bytes of a feature: weights, the learner's other numbers, and those for saving it."""
        return 8 * self.runner.feature_numbers() + 8 * self.runner.n_vectors * (1 + self.has_prior)

    def copy_bytes(self) -> int:
        """Additional bytes of a feature in a copy that is saved while learning goes on."""
        return 8 * self.runner.feature_numbers() + 8 * self.runner.n_vectors * self.has_prior

    def reserve(self, most: int, capacity: int) -> None:
        """Reserve memory for ``most`` features, of which the first ``capacity`` are used at first."""
        n_vectors = self.runner.n_vectors
        self.reserved = on_lines((n_vectors * (most + 1) * self.runner.width,))
        self.reserved_prior = np.zeros(n_vectors * (most + 1)) if self.has_prior else np.empty(0)
        self._use(capacity)
        self.runner.start(self.state)

    def _use(self, capacity: int) -> None:
        width, n_vectors = self.runner.width, self.runner.n_vectors
        self.capacity = capacity
        self.state.columns = self.reserved[: n_vectors * (capacity + 1) * width]
        if len(self.reserved_prior):
            self.state.prior = self.reserved_prior[: n_vectors * (capacity + 1)]

    def grow(self, capacity: int) -> None:
        """Use more features; the constant one's and the later classes' numbers move back."""
        before = self.capacity
        used = self.runner.n_vectors * (before + 1)
        for array, width in ((self.reserved, self.runner.width), (self.reserved_prior, 1)):
            if len(array) == 0:
                continue
            for c in reversed(range(self.runner.n_vectors)):
                old, new = c * (before + 1) * width, c * (capacity + 1) * width
                constant = array[old + before * width : old + (before + 1) * width].copy()
                if c:
                    array[new : new + before * width] = array[old : old + before * width]
                # unused entries are 0 already, and untouched memory is not used
                array[new + before * width : min(new + capacity * width, used * width)] = 0.0
                array[new + capacity * width : new + (capacity + 1) * width] = constant
        self._use(capacity)
        # new features get the learner's initial numbers; the old numbers have been moved
        for c in range(self.runner.n_vectors):
            start = (c * (capacity + 1) + before) * self.runner.width
            stop = (c * (capacity + 1) + capacity) * self.runner.width
            self.runner.fill_new(self.reserved[start:stop])

    def frozen(self) -> StreamLearner:
        """A copy that stays as it is."""
        other, state = copy(self), self.state
        other.state = LearnerState(state.columns.copy(), state.scalars.copy(), state.tally.copy(), state.prior.copy())
        return other

    def learn(self, matrix: tuple, y: np.ndarray, order: np.ndarray, *, weights: np.ndarray | None,
              every: int | None, scores: np.ndarray | None, sets: SetTable | None) -> Iterator[int]:  # fmt: skip
        """``Runner.learn_in_parts`` on this state, with predictions ranked: the rows seen after each part."""
        if self.ranking is not None and scores is None:
            scores = np.empty(len(order))
        before = 0
        parts = self.runner.learn_in_parts(matrix, y, order, self.capacity, self.state, weights=weights, every=every,
                                           scores=scores, sets=sets)  # fmt: skip
        for rows, done in parts:
            if self.ranking is not None:
                self.ranking.add(scores[before:done], y, order[before:done])
            before = done
            yield rows

    def progress(self) -> dict:
        """The figures of its tally, and the area under the ROC curve and logarithmic loss of two classes."""
        ranked = {"auc": self.ranking and self.ranking.area(), "log_loss": self.ranking and self.ranking.log_loss()}
        return progress_of(self.state.tally, self.runner.real, self.runner.costs) | ranked

    # -- its numbers, class after class, of ``n`` features and of the constant one after them -----------------------

    def put_back(self, start: int, numbers: np.ndarray, n: int) -> None:
        """Fill in a piece of a saved state."""
        width = self.runner.width
        done = 0
        for c, first, last in spans(start, start + len(numbers), (n + 1) * width):
            columns = self.state.columns[c * (self.capacity + 1) * width : (c + 1) * (self.capacity + 1) * width]
            part = numbers[done : done + last - first]
            done += last - first
            known = max(0, min(last, n * width) - first)
            columns[first : first + known] = part[:known]
            constant = self.capacity * width + max(first, n * width) - n * width
            columns[constant : constant + len(part) - known] = part[known:]

    def numbers_of(self, start: int, stop: int, c: int, n: int) -> np.ndarray:
        """The numbers of features start..stop-1 of class c; feature n is the constant one."""
        first = c * (self.capacity + 1)
        rows = self.state.columns.reshape(-1, self.runner.width)
        if stop <= n:
            return rows[first + start : first + stop]
        constant = rows[first + self.capacity : first + self.capacity + 1]
        return np.concatenate([rows[first + start : first + n], constant])

    def prior_of(self, start: int, stop: int, c: int, n: int) -> np.ndarray:
        """The prior model's weights of the same."""
        first = c * (self.capacity + 1)
        prior = self.state.prior[first + start : first + min(stop, n)]
        return prior if stop <= n else np.append(prior, self.state.prior[first + self.capacity])


def check_class_weight(class_weight, runner: Runner, targets: str | None) -> None:
    """InputError where rows of a stream cannot be weighted by their class."""
    if class_weight == "balanced":
        raise InputError(
            f"{option('class_weight', class_weight)}: how many rows of each class will come is not known in a stream; "
            f"give {option('class_weight', 'LABEL=WEIGHT,LABEL=WEIGHT')}"
        )
    if not of_classes(targets) or targets == SETS:
        raise InputError(f"{option('class_weight')}: is for rows of one label each; leave it out")
    check_weighs_classes(runner.learner)


def learners_of(settings, classes: Labels | None, has_prior: bool) -> list[StreamLearner]:
    """The learners of a stream with these ``StreamSettings``; classes: None where labels are numbers.  InputError for
    settings that do not fit."""
    names = settings.learner.split(",")
    shared = {name: getattr(settings, name) for name in SHARED.names()}
    learners, used = [], set()
    for name in names:
        values = settings.settings
        if len(names) > 1:
            takes = settings_of(get_learner(name), values | {"targets": settings.targets}).names()
            values = {setting: value for setting, value in values.items() if setting in takes}
            used |= set(values)
        runner = Runner(
            name, values, {}, average=settings.average, bias=settings.bias or 0.0,
            n_classes=len(classes.values) if classes else 2, rule=settings.multiclass, query=settings.query,
            key=settings.seed, targets=settings.targets,
        )  # fmt: skip
        runner.take_costs(classes)
        if has_prior and PRIOR not in runner.learner.takes:
            raise InputError(f"{option('prior')}: {name} does not accept a prior model; leave it out")
        if settings.class_weight is not None:
            check_class_weight(settings.class_weight, runner, settings.targets)
            shared["class_weight"] = settings.class_weight
        resolved = runner.settings | COMMON_SETTINGS.resolve(shared, name)
        if settings.class_weight is None:
            del resolved["class_weight"]
        learners.append(StreamLearner(runner, MethodMeta(name, True, plain(resolved)), has_prior))
    if len(set(names)) < len(names):
        raise InputError(f"{option('learner', settings.learner)}: names a learner twice")
    left = [setting for setting in settings.settings if len(names) > 1 and setting not in used]
    if left:
        raise InputError(f"{option(left[0])}: none of the learners {', '.join(names)} has it; leave it out")
    return learners

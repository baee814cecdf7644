"""A learner in a stream: its rule with its settings, and its state over features that come one after the other.

The features: hashes that ids are hashed to, or a table of ids that grows, by half at a time, with the learners' memory.
Where learners have much memory for each hash, hashes are numbered by first occurrence, too: the first touch of memory
is slow, and hashing touches all of it however few the features are.
"""

from collections.abc import Iterator

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import Labels
from blocksvm.base.settings import plain
from blocksvm.base.vectors import on_lines
from blocksvm.conversion.feature_ids import BYTES_AN_ID, FULLEST, IdTable
from blocksvm.kernels.hash_table import count_small
from blocksvm.model.measures import RankCurve
from blocksvm.online import get_learner
from blocksvm.online.learner import COMMON_SETTINGS, PRIOR, SHARED
from blocksvm.online.loops import NO_LABEL, TALLY_LENGTH, SetTable
from blocksvm.online.runner import LearnerState, Runner
from blocksvm.online.solver import check_class_weight, progress_of, settings_of
from blocksvm.store.descriptions import MethodMeta
from blocksvm.streaming.ahead import ParsedPart
from blocksvm.streaming.ranking_kernels import rank_rows

VALUE_BITS = 16  # of a float32 decision value: sign, exponent, and 7 bits after the leading one
RANKING_BYTES = 2 * 8 << VALUE_BITS  # of a curve, for any number of rows
AREA_BYTES = 4 * 8 << VALUE_BITS  # while its area is computed
SMALLEST = 4_096  # features at first
# Bytes of learners for all hashes, from which on these are numbered: three numbers of each at 22 bits.  An entry's
# number costs some 4 ns; without it a learner of three to eight numbers takes up to five times as long on short texts,
# up to twice as long on longer ones, and as long where nearly all hashes are used.  One of two numbers takes a tenth
# less without.
NUMBERED_FROM = 3 << 25
BYTES_A_HASH = 4 + 4  # its number, and the hash of a number


class StreamLearner:
    """A ``Runner`` and its ``LearnerState`` over features that come as ids.

    method: the learner as a model file names it; has_prior: its weights are added to a prior model's; curve: of its
    predictions of two classes, else None; ranked: rows with a label, log_loss_sum: of log(1 + e^-m) over their margins.
    Arrays that grow are reserved at their largest size (untouched memory is not used) and used up to a capacity: only
    the constant feature is copied, and of several classes what lies after the first one's.
    """

    def __init__(self, runner: Runner, method: MethodMeta, has_prior: bool):
        self.runner, self.method, self.name, self.has_prior = runner, method, method.name, has_prior
        self.curve = RankCurve(VALUE_BITS) if runner.signed else None
        self.ranked, self.log_loss_sum, self.capacity = 0, 0.0, 0
        self.reserved = self.reserved_prior = np.empty(0)
        self.state = LearnerState(self.reserved, np.zeros(runner.scalar_length), np.zeros(TALLY_LENGTH))

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

    def learn(self, matrix: tuple, y: np.ndarray, order: np.ndarray, *, weights: np.ndarray | None,
              every: int | None, scores: np.ndarray | None, sets: SetTable | None) -> Iterator[int]:  # fmt: skip
        """``Runner.learn_in_parts`` on this state, with predictions ranked: the rows seen after each part."""
        if self.curve is not None and scores is None:
            scores = np.empty(len(order))
        before = 0
        parts = self.runner.learn_in_parts(matrix, y, order, self.capacity, self.state, weights=weights, every=every,
                                           scores=scores, sets=sets)  # fmt: skip
        for rows, done in parts:
            if self.curve is not None:
                found = rank_rows(scores[before:done], y, order[before:done], NO_LABEL, VALUE_BITS, self.curve.counts)
                self.ranked, self.log_loss_sum = self.ranked + found[0], self.log_loss_sum + found[1]
            before = done
            yield rows

    def progress(self) -> dict:
        """The figures of its tally, and the area under the ROC curve and logarithmic loss of two classes."""
        area = self.curve and self.curve.area()
        ranked = {"auc": area and area[0], "log_loss": self.log_loss_sum / self.ranked if self.ranked else None}
        return progress_of(self.state.tally, self.runner.real, self.runner.costs) | ranked

    def slots(self, start: int, stop: int, n: int) -> np.ndarray:
        """Where features start..stop-1 of a file stand in memory: class after class, ``n`` and the constant one."""
        c, j = np.divmod(np.arange(start, stop), n + 1)
        return c * (self.capacity + 1) + np.where(j == n, self.capacity, j)

    def numbers(self, start: int, stop: int, n: int) -> np.ndarray:
        """The numbers of these features, one after the other."""
        return self.state.columns.reshape(-1, self.runner.width)[self.slots(start, stop, n)].ravel()

    def put_back(self, start: int, numbers: np.ndarray, n: int) -> None:
        """Fill in a piece of a saved state, which begins with its number ``start``."""
        width = self.runner.width
        first, last = start // width, -(-(start + len(numbers)) // width)
        positions = self.slots(first, last, n)[:, None] * width + np.arange(width)
        self.state.columns[positions.ravel()[start - first * width :][: len(numbers)]] = numbers


class HashNumbers:
    """Hashes below ``n`` that occur, in order of first occurrence."""

    def __init__(self, n: int):
        self.numbers = np.zeros((n, 1), np.int32)
        self.known = np.empty(n + 1, np.int32)  # memory that is not touched is not taken
        self.n_known = 0

    def __len__(self) -> int:
        return self.n_known

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Positions (int32) of hashes, which are overwritten with them where they are int32."""
        positions = np.ascontiguousarray(hashes, dtype=np.int32)
        _, self.n_known = count_small(positions, 0, self.numbers, self.known, self.n_known, positions)
        return positions


class StreamFeatures:
    """The feature of each id, the same for all ``learners``, and memory for it in these.

    bits: hash the ids to 2^bits hashes; None: a table of the ids within ``budget`` bytes.  numbered: hashes are
    numbered by first occurrence, or None: where learners have much memory for each, and it fits.  Raises InputError
    where the budget is too small.
    """

    def __init__(self, learners: list[StreamLearner], bits: int | None, budget: int, numbered: bool | None = None):
        self.learners, self.bits = learners, bits
        saved = sum(learner.runner.n_vectors * (1 + learner.has_prior) for learner in learners)
        numbers = sum(learner.runner.feature_numbers for learner in learners)
        per_feature = 8 * (numbers + saved)
        if bits is not None:
            known = 1 << bits
            if numbered is None:
                numbered = 8 * known * numbers >= NUMBERED_FROM and known * (per_feature + BYTES_A_HASH) <= budget
            need = known * (per_feature + BYTES_A_HASH * numbered)
            if need > budget:
                raise InputError(
                    f"{option('bits', bits)}: takes {need / 1e6:,.0f} MB where {option('memory')} leaves "
                    f"{budget / 1e6:,.0f} MB; lower {option('bits')} or raise {option('memory')}"
                )
            self.table, self.most = HashNumbers(known) if numbered else None, known
        else:
            # slots grow by half at a time: up to 1.5 / FULLEST of them for an id
            self.most = max(1024, int(budget / (per_feature + BYTES_AN_ID + 6.0 / FULLEST)))
            self.table = IdTable(self.most * (BYTES_AN_ID + int(6.0 / FULLEST)))
        self.n_features = self.most if self.table is None else 0  # that learners know
        self.capacity = self.most if self.table is None else min(self.most, SMALLEST)
        for learner in learners:
            learner.reserve(self.most, self.capacity)

    def find(self, part: ParsedPart) -> None:
        """Set the features of a part's rows, new ones added to the table.  The learners' memory stays as it is, so that
        earlier rows may be learned from meanwhile: ``hold`` follows."""
        try:
            part.indices, part.n_features = self._positions(part.batch.ids)
        except InputError as error:
            part.error = error

    def _positions(self, ids: np.ndarray) -> tuple[np.ndarray, int]:
        """Features (int32) of ids (int64), or of the hashes that they are hashed to; and how many there are then."""
        return (ids, self.most) if self.table is None else (self.table.add(ids), len(self.table))

    def hold(self, n_features: int) -> None:
        if self.table is None:
            return
        for learner in self.learners:
            learner.runner.check_features(n_features)
        if n_features > self.most:
            raise InputError(
                f"{n_features:,} features do not fit in {option('memory')}; raise it, or hash them with "
                f"{option('bits')} (up to {int(np.log2(max(2, self.most)))} fit)"
            )
        if n_features > self.capacity:
            self.capacity = min(self.most, max(n_features, self.capacity + self.capacity // 2))
            for learner in self.learners:
                learner.grow(self.capacity)
        self.n_features = n_features

    def indices(self, ids: np.ndarray) -> np.ndarray:
        positions, n_features = self._positions(ids)
        self.hold(n_features)
        return positions

    def ids(self) -> np.ndarray:
        """Of each feature: the id, or the hash it was hashed to."""
        return np.arange(self.most) if self.table is None else self.table.known[: self.n_features]


def learners_of(settings, classes: Labels | None, has_prior: bool) -> list[StreamLearner]:
    """The learners of ``StreamSettings``; classes: None where labels are numbers.  InputError for what does not fit."""
    names = settings.learner.split(",")
    shared = {name: getattr(settings, name) for name in SHARED.names()}
    learners, left = [], set(settings.settings) if len(names) > 1 else set()
    for name in names:
        values = settings.settings
        if len(names) > 1:
            takes = settings_of(get_learner(name), values | {"targets": settings.targets}).names()
            values = {setting: value for setting, value in values.items() if setting in takes}
            left -= set(values)
        runner = Runner(
            name, values, {}, average=settings.average, bias=settings.bias or 0.0,
            n_classes=len(classes.values) if classes else 2, rule=settings.multiclass, query=settings.query,
            key=settings.seed, targets=settings.targets,
        )  # fmt: skip
        runner.take_costs(classes)
        if has_prior and PRIOR not in runner.learner.takes:
            raise InputError(f"{option('prior')}: {name} does not accept a prior model; leave it out")
        if settings.class_weight is not None:
            if settings.class_weight == "balanced":
                raise InputError(
                    f"{option('class_weight', 'balanced')}: how many rows of each class will come is not known in a "
                    f"stream; give {option('class_weight', 'LABEL=WEIGHT,LABEL=WEIGHT')}"
                )
            check_class_weight(runner.learner, settings.targets)
            shared["class_weight"] = settings.class_weight
        resolved = runner.settings | COMMON_SETTINGS.resolve(shared, name)
        if settings.class_weight is None:
            del resolved["class_weight"]
        learners.append(StreamLearner(runner, MethodMeta(name, True, plain(resolved)), has_prior))
    if len(set(names)) < len(names):
        raise InputError(f"{option('learner', settings.learner)}: names a learner twice")
    if first := next(filter(left.__contains__, settings.settings), None):
        raise InputError(f"{option(first)}: none of the learners {', '.join(names)} has it; leave it out")
    return learners

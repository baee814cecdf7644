"""The problem that a run solves: one over the rows, or k of them, each with targets, costs and weights of its own.

Primal and dual are those of losses/loss.py, with C_i = C * class weight * row weight; w0 is a prior model, or 0.  Two
classes, and real targets, are k = 1.  Of more classes each is a problem against the rest, stated together since their
rows are read together; or, as Crammer and Singer have it, all are one problem.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import MOST_LABELS, MOST_SETS, SETS, Labels, label_text, listed, members_of, require_labels
from blocksvm.base.settings import Settings
from blocksvm.losses import get_loss
from blocksvm.losses.loss import Loss
from blocksvm.problems.certificate import NOTHING, ROUNDING, CertificateSums, at_their_end
from blocksvm.problems.crammer_singer_kernels import crammer_singer_feasible, crammer_singer_sums
from blocksvm.problems.problem_kernels import Objective, dual_coefficients, make_feasible
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source, first_chunk

LARGEST = 1e50  # of sum_i C_i ||x_i||, and of 1 / C_i: squares and quotients of these must stay finite
SETS_AT_ONCE = 256  # of which membership is made numbers
TOO_MANY = "has more than {0:,} distinct sets of labels; at most that many are accepted"

# Of the rows' norms, the constant feature's value: measured 0.3, 1 and 3 on a9a, phishing and splice; the smallest
# needs as few passes as a regularised bias or fewer, the largest ten times as many.
OF_NORMS = 0.3


class Sides:
    """On which side of each problem a row of each kind (its code) lies: ``table`` (m, k) int8 holds -1 or +1, and 0
    where it is no part of it; the last kind is that of rows without a label.  It is made when it is first asked for, so
    that the memory can be planned before, by fill(table), which writes all kinds but the last into an array of -1."""

    def __init__(self, m: int, k: int, fill: Callable[[np.ndarray], None]):
        self.n_bytes, self.n_kinds = m * k, m
        self._shape, self._fill = (m, k), fill

    @cached_property
    def table(self) -> np.ndarray:
        table = np.full(self._shape, -1, np.int8)
        self._fill(table[:-1])
        del self._fill  # and with it what it is made of
        table[-1] = 0
        return table


@dataclass(frozen=True)
class Problem:
    """What is minimised, problem by problem.  certified (k, 4): primal, dual, relative gap and its rounding of the
    problems that are at their end by the gap ``tol``; an infinite gap: of those that are not.  predicts: what decision
    values say of a row: NUMBERS or STRINGS, a class, SETS, all labels of a value above 0, None: nothing."""

    loss: Loss
    cost: np.ndarray  # (k, 2): C times class weight, of a row on the side -1 and +1 (equal of real targets)
    bias: float  # value of the constant feature
    n_samples: int
    function: Any  # the loss at its settings, as kernels take it
    sides: Sides | None = None  # of the rows, by their kind; None: of two classes or real targets
    weight_sums: tuple[float, ...] = ()  # sums of the rows' weights by class, of one problem
    unit: float = 1.0  # of decision values: the margin, or about the distance of real targets from each other
    free_bias: bool = False  # the constant feature's weight is not regularised (problems/certificate.py)
    certified: np.ndarray | None = None
    tol: float = 0.0
    predicts: str | None = None
    kinds: Callable[[Block], np.ndarray] | None = None  # the codes (n,) int16 of its rows; None: ``Block.y``
    history: np.ndarray | None = None  # (3, k): ADDITIONS, DRIFT, LEAST of certificate.py, where w is maintained
    sums_type: ClassVar[type[CertificateSums]] = CertificateSums

    @property
    def n_problems(self) -> int:
        return len(self.cost)

    @property
    def real(self) -> bool:
        return self.loss.of_numbers

    @property
    def total_cost(self) -> float:
        """sum_i C_i of one problem; Pegasos' lambda is its inverse."""
        return total_of(self.cost, self.weight_sums)

    @property
    def live(self) -> np.ndarray:
        """(t,) int32: the problems that are not at their end."""
        if self.certified is None:
            return np.arange(self.n_problems, dtype=np.int32)
        return np.flatnonzero(~at_their_end(self.certified, self.tol)).astype(np.int32)

    def columns(self, live: np.ndarray) -> np.ndarray | None:
        """Some problems as kernels take them, which know of one that there are no others."""
        return live if self.n_problems > 1 else None

    @cached_property
    def objective(self) -> Objective:
        return Objective(self.bias, self.cost, None if self.sides is None else self.sides.table, self.function)

    def reals(self, block: Block) -> np.ndarray | None:
        """(n,) float64: the rows' targets where they are real numbers, else None."""
        return block.y if self.real else None

    def rows(self, block: Block) -> tuple:
        """What kernels take of a block's rows and their problems: (codes, reals, weights, objective)."""
        codes = block.y if self.kinds is None else self.kinds(block)
        return codes, self.reals(block), block.weights, self.objective

    def allows(self, alpha: np.ndarray, block: Block) -> bool:
        """Whether the dual variables (n, k) of a block's rows lie within their bounds, but for rounding."""
        near = alpha.copy()
        self.make_feasible(near, block, np.ones_like(self.cost))
        return bool((np.abs(alpha - near) <= ROUNDING * np.abs(near).max(initial=0.0)).all())

    def make_feasible(self, alpha: np.ndarray, block: Block, ratio: np.ndarray, largest=None) -> None:
        """alpha (n, k) times ratio, of the shape of ``cost``, into its bounds, in place; largest: as the kernel's."""
        make_feasible(alpha, *self.rows(block), ratio, np.ones(self.n_problems) if largest is None else largest)

    def coefficients(self, alpha: np.ndarray, block: Block, conjugates: np.ndarray) -> np.ndarray:
        """(n, k): by which a block's rows are added to w; conjugates (k, 3) gain those of alpha (n, k)."""
        out = np.empty_like(alpha)
        dual_coefficients(alpha, *self.rows(block), conjugates, out)
        return out

    def sums(self, w: np.ndarray, prior: np.ndarray = NOTHING, rebuilt: np.ndarray | None = None) -> CertificateSums:
        """For a certificate of w (k, d + 1)."""
        return self.sums_type(self, w, prior, rebuilt)


def constant_value(source: Source) -> float:
    """The value B of the constant feature: by the root mean square of the norms of a source's first chunk."""
    typical = math.sqrt(float(first_chunk(source).sq_norms.mean()))
    return OF_NORMS * typical if typical > 0.0 else 1.0


def problem_settings(values: Mapping) -> Settings:
    """``PROBLEM_SETTINGS`` and those of the loss that is given."""
    loss = get_loss(PROBLEM_SETTINGS.resolve({"loss": values.get("loss")}, "a problem")["loss"])
    return PROBLEM_SETTINGS + loss.settings


def has_classes(settings: Mapping, source: Source) -> bool:
    """The rows have more than two classes, or sets of labels, which are the loss's targets."""
    more = source.label_kind == SETS or (source.labels is not None and not source.labels.binary)
    return more and not get_loss(settings["loss"]).of_numbers


def make_problem(settings: Mapping, bias: float, source: Source) -> Problem:
    """Of two classes or real targets; settings: as ``PROBLEM_SETTINGS`` resolves them, and the loss's own.  InputError
    where labels are not what the loss needs, and where the costs are beyond what double precision can solve."""
    loss = get_loss(settings["loss"])
    class_weight = settings["class_weight"]
    if loss.of_numbers:
        if class_weight is not None:
            raise InputError(f"{option('class_weight', class_weight)}: {loss.name} has no classes; leave it out")
        if source.n_unlabelled:
            raise InputError(f"{source.name}: {source.n_unlabelled:,} rows have no target; {loss.name} needs one a row")
        with np.errstate(over="ignore", invalid="ignore"):
            unit = float(np.std(first_chunk(source, real=True).y))
        unit = unit if 0.0 < unit < math.inf else 1.0  # where all targets are the same
        sums, weights, predicts = (0.0, source.total_weight), (1.0, 1.0), None
    else:
        labels = require_two_labels(source)
        sums = sums_by_class(source, labels)
        weights, unit, predicts = class_factors(class_weight, labels, sums), 1.0, source.label_kind
    cost = costs_of(settings, np.array([weights]), sums, source, bias)
    return Problem(loss, cost, bias, source.n_samples, loss.at(settings), None, sums, unit, predicts=predicts)


def each_against_the_rest(settings: Mapping, bias: float, source: Source, tol: float) -> Problem:
    """A problem for each class of a source, or each label of its sets: the rows that have it are +1, all others -1.
    Class weights multiply the cost of the rows of +1 (as LIBLINEAR has it); 'balanced' makes the two sides of each
    problem weigh the same, and their total what it was.  InputError where the rows have no such labels."""
    loss = get_loss(settings["loss"])
    labels, member, sums = kinds_of(source)
    total, k = math.fsum(sums.tolist()), len(labels.values)
    label_weights = sums
    if member is not None:
        label_weights = np.zeros(k)
        for start in range(0, len(sums), SETS_AT_ONCE):
            some = slice(start, start + SETS_AT_ONCE)
            label_weights += sums[some] @ member[some]
    factors = np.ones((k, 2))
    if settings["class_weight"] == "balanced":
        sides = np.stack([total - label_weights, label_weights], axis=1)
        factors = np.divide(0.5 * total, sides, out=factors, where=sides > 0.0)
    else:
        factors[:, 1] = class_factors(settings["class_weight"], labels, tuple(label_weights.tolist()))
    cost = costs_of(settings, factors, sums.tolist(), source, bias)

    def fill(table: np.ndarray) -> None:
        if member is None:
            np.fill_diagonal(table, 1)
        else:
            table[member] = 1

    sides = Sides(len(sums) + 1, k, fill)
    return Problem(loss, cost, bias, source.n_samples, loss.at(settings), sides, tol=tol, predicts=source.label_kind)


def costs_of(settings: Mapping, factors: np.ndarray, sums: Sequence[float], source: Source, bias: float) -> np.ndarray:
    """C, or what it is by lambda for rows of these sums of weights, times factors (1, 2), (k, 2) or (k,).  InputError
    where costs, or their total over a source's rows, are beyond what double precision can solve."""
    weight = math.fsum(sums)
    cost = (settings["C"] if settings["lam"] is None else 1.0 / (settings["lam"] * weight)) * factors
    total = float(cost.max()) * weight if len(cost) > 1 else total_of(cost, sums)
    if not (cost.min() >= 1.0 / LARGEST and max(1.0, source.max_norm, bias) * total <= LARGEST):
        name = "C" if settings["lam"] is None else "lam"
        wrong = option(name, settings[name])
        beyond = "is beyond what double precision can solve on these rows"
        raise InputError(f"{wrong}: {beyond}; choose one nearer to 1, or scale the values")
    return cost


def total_of(cost: np.ndarray, sums: Sequence[float]) -> float:
    return math.fsum(c * n for c, n in zip(cost[0].tolist(), sums, strict=True))


def sums_by_class(source: Source, labels: Labels) -> tuple[float, ...]:
    """Sums of the rows' weights by class, rising; InputError where fewer than two classes have one above 0."""
    if source.label_weights is None:
        return tuple(count for _, count in source.label_counts)
    without = [label for label, total in zip(labels.values, source.label_weights, strict=True) if not total > 0.0]
    if len(labels.values) - len(without) < 2:
        weightless = f"all rows of label {listed(without[:5])} have weight 0"
        raise InputError(f"{source.name}: {weightless}; training needs two classes")
    return tuple(source.label_weights)


def class_factors(class_weight, labels: Labels, sums: tuple[float, ...]) -> tuple[float, ...]:
    """The weights of the classes, rising: 1, or by ``class_weight`` (ClassWeights of problem_settings.py), where
    'balanced' makes the classes' sums of weights equal, and their total what it was."""
    if class_weight is None:
        return (1.0,) * len(sums)
    if class_weight == "balanced":
        there = sum(total > 0.0 for total in sums)
        return tuple(math.fsum(sums) / (there * total) if total > 0.0 else 1.0 for total in sums)
    # by their text: a label that is the string '1' is given as 1, too
    named = {label_text(label): weight for label, weight in class_weight.items()}
    known = [label_text(label) for label in labels.values]
    for label, weight in named.items():
        if label not in known:
            shown = " and ".join(known) if len(known) == 2 else listed(labels.values[:5]) + ", ..." * (len(known) > 5)
            given = option("class_weight", f"{label}={weight:g}")
            raise InputError(f"{given}: no row has this label; the labels are {shown}")
    return tuple(named.get(label, 1.0) for label in known)


def require_two_labels(source: Source) -> Labels:
    """The two labels of a binary problem; InputError says what is there instead, and what to do."""
    require_labels(source)
    labels = source.labels.values
    if len(labels) == 2:
        return source.labels
    first = label_text(labels[0])
    shown = listed(labels[:5]) + (", ..." if len(labels) > 5 else "")
    raise InputError(
        f"{source.name}: has {len(labels)} labels ({shown}), but this solver takes two; {option('solver', 'dual-cd')} "
        "and the online learners take more, or make one class against the others, e.g. "
        f"awk '{{$1 = ($1 == {first}) ? 1 : -1}} 1' INPUT | blocksvm split - STORE.h5"
    )


def labels_learned(source: Source) -> tuple[Labels, np.ndarray]:
    """(labels, sums): the labels of a source, and the sum (m,) of the weights of the rows of each kind: of each label,
    or of each distinct set.  InputError where it has not two labels or more."""
    if source.label_kind != SETS:
        require_labels(source)
        return source.labels, np.array(sums_by_class(source, source.labels), dtype=np.float64)
    if source.label_counts is None:
        raise InputError(f"{source.name}: {TOO_MANY.format(MOST_SETS)}")
    if source.n_unlabelled:
        n = f"{source.n_unlabelled:,} of its {source.n_samples:,} rows"
        none = "have no set of labels, not even an empty one; split the labelled rows alone"
        raise InputError(f"{source.name}: {n} {none}")
    labels = Labels(members_of(source.label_counts))
    if len(labels.values) < 2:
        raise InputError(f"{source.name}: its sets have {len(labels.values)} label in all; training needs two or more")
    sums = source.label_weights or [count for _, count in source.label_counts]
    return labels, np.array(sums, dtype=np.float64)


def kinds_of(source: Source) -> tuple[Labels, np.ndarray | None, np.ndarray]:
    """The same, with ``member`` between them: whether rows of each kind (their code, ``Block.y``) have each label, (m,
    k) bool, or None where each label is a kind of its own.  InputError where there are too many kinds for codes."""
    labels, sums = labels_learned(source)
    if source.label_kind != SETS:
        return labels, None, sums
    if len(sums) > MOST_LABELS:
        raise InputError(f"{source.name}: {TOO_MANY.format(MOST_LABELS)}")
    return labels, membership([kind for kind, _ in source.label_counts or ()], labels), sums


def membership(sets: Sequence, labels: Labels) -> np.ndarray:
    """(m, k) bool: which of the labels each of m sets has."""
    position = {label: c for c, label in enumerate(labels.values)}
    member = np.zeros((len(sets), len(position)), bool)
    for row, labels_of_row in enumerate(sets):
        member[row, [position[label] for label in labels_of_row if label in position]] = True
    return member


class CrammerSingerSums(CertificateSums):
    """All classes' vectors as one, a row's loss the largest by which another class beats its own."""

    def by_problem(self, of_vectors: np.ndarray) -> np.ndarray:
        return of_vectors.sum(axis=0, keepdims=True)

    def add_terms(self, scores: np.ndarray, within: np.ndarray, block: Block, alpha: np.ndarray | None) -> None:
        problem = self.problem
        self.totals += crammer_singer_sums(scores, within, block.y, block.weights, alpha, problem.costs)


class CrammerSinger(Problem):
    """cost (k,) float64: C times class weight, by the row's class; the k vectors have one certificate."""

    sums_type = CrammerSingerSums

    @property
    def costs(self) -> np.ndarray:
        """(k + 1,): of a row without a label 0."""
        return np.append(self.cost, 0.0)

    @property
    def live(self) -> np.ndarray:
        return np.zeros(1, np.int32)

    def make_feasible(self, alpha: np.ndarray, block: Block, ratio: np.ndarray, largest=None) -> None:
        crammer_singer_feasible(alpha, block.y, block.weights, self.costs, ratio)

    def coefficients(self, alpha: np.ndarray, block: Block, conjugates: np.ndarray) -> np.ndarray:
        others = np.arange(alpha.shape[1]) != block.y[:, None]
        conjugates[:, 0] += np.where(others, alpha, 0.0).sum(axis=0)
        return alpha


def crammer_singer(settings: Mapping, bias: float, source: Source) -> CrammerSinger:
    """The problem on a source; InputError where its rows have no classes, or the loss is another."""
    loss, rule = get_loss(settings["loss"]), option("multiclass", "crammer-singer")
    if loss is not get_loss("hinge"):
        raise InputError(f"{rule}: has the hinge loss; leave {option('loss')} out")
    if source.label_kind == SETS:
        raise InputError(f"{source.name}: its rows have sets of labels, and {rule} takes one a row; leave it out")
    require_labels(source)
    sums = sums_by_class(source, source.labels)
    factors = np.array(class_factors(settings["class_weight"], source.labels, sums))
    cost = costs_of(settings, factors, sums, source, bias)
    return CrammerSinger(loss, cost, bias, source.n_samples, loss.at(settings), predicts=source.label_kind)

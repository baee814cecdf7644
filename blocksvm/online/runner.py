"""The runner of a learner, which training, streams and regret share: settings, state, loops over rows, weights."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import SETS, Labels
from blocksvm.losses import get_loss
from blocksvm.online import get_learner
from blocksvm.online.costs import NO_COSTS, CostMatrix, check_costs
from blocksvm.online.learner import LARGEST, NO_TARGETS, PROTOTYPE, REST, SHARED, WEIGHTS, Learner, of_classes
from blocksvm.online.loops import EVEN, LOSS_SUM, NO_SETS, ROWS, TALLY_LENGTH, SetTable, loops_of, numpy_loops
from blocksvm.online.memory import Layout, Memory


class Rows(NamedTuple):
    """The rows that a kernel reads: arrays of a block, by the names that they have there."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray | None
    y: np.ndarray
    weights: np.ndarray


@dataclass
class LearnerState:
    """The state of a learner, all float64.  columns (n_vectors * (d + 1) * width,): the numbers of each feature;
    scalars (n_learners * n_scalars,); tally: see loops.py; prior (n_vectors * (d + 1),), or (0,): weights to which the
    learner's are added."""

    columns: np.ndarray
    scalars: np.ndarray
    tally: np.ndarray
    prior: np.ndarray = field(default_factory=lambda: np.empty(0))


def check_norm(name: str, norm: float) -> None:
    if norm > LARGEST:
        raise InputError(
            f"{name}: holds a row of norm {norm:g}; online learners take up to {LARGEST:g}, scale the values"
        )


def known_of(source, bias: float) -> dict:
    """The settings that a source's rows decide.  Raises InputError for rows that are too long for any learner."""
    check_norm(source.name, source.max_norm)
    return {
        "max_norm": source.max_norm if source.max_norm > 0.0 else 1.0,
        "n_features": source.n_features + (bias != 0.0),
        "n_samples": source.n_samples,
    }


class Runner:
    """A learner with its settings, for two classes (rule None), for ``n_classes`` by ``rule``, or, by ``targets``, for
    numbers, for sets of ``n_classes`` classes, two or more, by ``rule``, or without labels, to predict rows.

    learner: a ``Learner``, its name in ``LEARNERS``, or 'module:attribute', with its settings; known: settings that the
    data decide (max_norm, n_features, n_samples); bias: value of the constant feature, which is feature d; key: of the
    draws of selective sampling; shared: ``SHARED`` without multiclass, which is the rule: average, query, targets.
    Raises InputError for settings that do not fit.

    n_vectors: of weights, 1 or one a class; n_learners: each with its scalars, 1, or one a class where each is learned
    against the rest; feature_numbers, scalar_length: float64 numbers of a feature and of all scalars; ranks: decision
    values only rank the labels of sets, without a threshold between relevant and irrelevant.
    """

    needs_all_rows = False

    def __init__(self, learner: str | Learner, settings: Mapping, known: Mapping, *, bias: float = 0.0,
                 n_classes: int = 2, rule: str | None = None, key: int = 0, **shared):  # fmt: skip
        chosen = learner if isinstance(learner, Learner) else get_learner(learner)
        shared = SHARED.resolve(shared | {"multiclass": rule}, chosen.name)
        targets, query, multiclass, self.average = (shared[of] for of in ("targets", "query", "multiclass", "average"))
        chosen = chosen.of_targets(targets)
        self.name, self.n_classes = chosen.name, n_classes
        self.real, self.sets, self.predicts_rows = not of_classes(targets), targets == SETS, targets == NO_TARGETS
        for name, value in (("multiclass", multiclass), ("query", query)):
            if self.real and value is not None:
                raise InputError(
                    f"{option(name)}: is for classes, and {option('targets', targets)} is given; leave it out"
                )
        if self.sets and query is not None:
            raise InputError(f"{option('query')}: is for rows of one label each, not for sets of them; leave it out")
        self.rule = (multiclass or PROTOTYPE) if n_classes > 2 or self.sets else None
        self.settings = chosen.resolve(settings, known)
        check_costs(self.settings, n_classes, targets, multiclass)
        self.costs: CostMatrix | None = None
        self.learner = chosen.of(self.settings)
        for name, value in (("average", self.average), ("bias", bias)):
            if value and name not in self.learner.takes:
                where = "" if targets is None else f" with {option('targets', targets)}"
                raise InputError(f"{option(name)}: {chosen.name} does not accept it{where}; leave it out")
        self.ranks = self.sets and self.rule != REST
        if self.ranks and self.learner.rule.jointly:
            cure = f"give {option('multiclass', 'rest')}, or another learner"
            raise InputError(f"{self.name}: its rule is for rows of one label each; for sets of them {cure}")
        if not (0.0 <= bias <= LARGEST):
            raise InputError(f"{option('bias', bias)}: must be from 0 to {LARGEST:g}")
        own_bias = "max_norm" in self.learner.settings
        if own_bias and bias:
            raise InputError(f"{option('bias')}: {self.name} has a bias of its own; leave it out")
        self.bias = self.settings["max_norm"] if own_bias else bias
        self.query, self.key = math.inf if query is None else query, np.uint64(key % 2**64)
        rule, by_numpy = self.learner.rule, self.learner.update_numpy is not None
        self.parameters = np.array(rule.packed(self.settings, self.average))
        self.loss = get_loss(self.learner.loss_of(self.settings))
        self.function = self.loss.at(self.settings)
        self.loops = numpy_loops(self.learner, self.settings, self.average) if by_numpy else loops_of(rule)
        self.width, self.n_scalars = rule.width(self.average), len(rule.scalars)
        self.n_vectors = n_classes if self.rule else 1
        self.n_learners = n_classes if self.rule == REST else 1
        self.feature_numbers, self.scalar_length = self.n_vectors * self.width, self.n_learners * self.n_scalars
        self.signed = self.n_vectors == 1 and not self.real

    def start(self, state: LearnerState) -> None:
        """Write the initial values to columns and scalars, which are zero."""
        self._fill(state.scalars, self.learner.rule.scalars, self.n_scalars)
        self.fill_new(state.columns)

    def fill_new(self, columns: np.ndarray) -> None:
        """Write the initial values of new features to their columns, which are zero."""
        self._fill(columns, self.learner.rule.columns, self.width)

    def _fill(self, numbers: np.ndarray, layout: Layout, width: int) -> None:
        for name, value in self.learner.rule.initial(self.settings).items():
            if name in layout._fields:
                numbers[getattr(layout, name) :: width] = value

    def learn(self, matrix: tuple, y: np.ndarray, order: np.ndarray, d: int, state: LearnerState, *,
              weights: np.ndarray | None = None, scores: np.ndarray | None = None,
              sets: SetTable | None = None) -> None:  # fmt: skip
        """Predict each row of ``order`` (m,) int32, then learn from it, unless it has no label; ``scores`` (m,)
        float64, of several classes (m, k), are filled if given.

        matrix: (indptr, indices, values) as a Block has them; y (n,): -1 and +1, or the class, or the number, or
        the position of the row's set in ``sets``; d: features without the constant one; weights (n,): of the rows, or
        None.  Raises InputError where the learner does not support weights of rows, and where its weights overflow.
        """
        if weights is not None:
            self.check_weights()
        loop = {None: self.loops.one, PROTOTYPE: self.loops.pair, REST: self.loops.each}[self.rule]
        rows = Rows(*matrix, y, EVEN if weights is None else weights)
        out = np.empty((len(order), 0)) if scores is None else scores.reshape(len(order), self.n_vectors)
        loop(rows, order, d, self.bias, state.prior, self.memory(state.columns, state.scalars), self.query, self.key,
             state.tally, out, self.real, sets or NO_SETS, self.costs or NO_COSTS)  # fmt: skip
        if not math.isfinite(state.tally[LOSS_SUM]):
            self.diverged(f"by row {int(state.tally[ROWS]):,}")

    def take_costs(self, labels: Labels | None) -> None:
        """Set the costs of the settings, if any, for these classes; InputError where they are of other labels."""
        if self.settings.get("costs") is not None:
            self.costs = CostMatrix.of(self.settings["costs"], self.settings["cost_rule"], labels)

    def check_features(self, n: int) -> None:
        most, n = self.settings.get("n_features"), n * (self.n_vectors // self.n_learners)
        if most is not None and n > most:
            what = f"the rows have {n:,} features already"
            raise InputError(f"{option('n_features', most)}: {what}; give as many as there are")

    def check_weights(self) -> None:
        if WEIGHTS not in self.learner.takes:
            raise InputError(f"{self.name}: does not support weights of rows; leave them out")

    def diverged(self, where: str) -> None:
        cure = f"lower {option('step')}, or scale" if "step" in self.learner.settings else "scale"
        raise InputError(f"{self.name}: its weights overflowed {where}; {cure} the rows to norm 1")

    def learn_in_parts(self, matrix, y, order, d: int, state: LearnerState, *, weights: np.ndarray | None = None,
                       every: int | None = None, scores: np.ndarray | None = None,
                       sets: SetTable | None = None) -> Iterator[tuple[int, int]]:  # fmt: skip
        """``learn`` in parts that end at doubling numbers of rows, and at multiples of ``every``.  Yields after each
        part the number of labelled rows so far, and how many of ``order`` are done."""
        done = 0
        while done < len(order):
            seen = int(state.tally[ROWS])
            until = 1 << seen.bit_length()
            if every:
                until = min(until, (seen // every + 1) * every)
            part = order[done : done + until - seen]
            of_part = None if scores is None else scores[done : done + len(part)]
            self.learn(matrix, y, part, d, state, weights=weights, scores=of_part, sets=sets)
            done += len(part)
            yield int(state.tally[ROWS]), done

    def weights(self, state: LearnerState, out: np.ndarray) -> np.ndarray:
        """The weights (n_vectors * (d + 1),) in ``out``, or their mean if average is set, a prior model's included."""
        self.read_weights(state.columns, state.scalars, out)
        if len(state.prior):
            out += state.prior
        return out

    def memory(self, columns: np.ndarray, scalars: np.ndarray) -> Memory:
        """The memory for the loops; scalars: of one learner, or of one per class."""
        by_learner = scalars.reshape(-1, self.n_scalars)
        return Memory(columns, self.width, by_learner, self.parameters, self.function, np.empty(0))

    def read_weights(self, columns: np.ndarray, scalars: np.ndarray, out: np.ndarray) -> None:
        """The weights of some features in ``out``, without a prior model's; InputError where they overflowed."""
        self.loops.read_weights(self.memory(columns, scalars), self.average, out)
        if not np.isfinite(out).all():
            self.diverged("in the rows learned from")

    def describe(self, scalars: np.ndarray) -> dict:
        named = dict(zip(self.learner.rule.scalars._fields, scalars.tolist(), strict=False))
        return self.learner.describe(self.settings, named)

    def state_bytes(self, d: int, n: int) -> int:
        """Bytes of the state for d features, for any number n of rows, and of the weights read from it."""
        return 8 * ((self.feature_numbers + 1 + self.average) * (d + 1) + self.scalar_length)

    def new_state(self, d: int) -> LearnerState:
        state = LearnerState(*map(np.zeros, ((d + 1) * self.feature_numbers, self.scalar_length, TALLY_LENGTH)))
        self.start(state)
        return state

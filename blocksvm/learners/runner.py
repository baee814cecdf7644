"""A learner at work: its memory, its loops over rows, its weights; what training, streams and regret share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from blocksvm.errors import InputError
from blocksvm.kernels.online.loops import ROWS, TALLY_LENGTH, loops_of
from blocksvm.learners import LEARNERS
from blocksvm.learners.protocol import LearnerSettings

RULES = ("prototype", "rest")
# squares, and quotients of them, must stay far from the ends of float64
LARGEST_NORM = 1e50


@dataclass
class Memory:
    """What a learner knows: features (features * width,), scalars (parts * m,), tally, all float64; and what its
    weights are added to: prior (copies * (d + 1),), or (0,)."""

    features: np.ndarray
    scalars: np.ndarray
    tally: np.ndarray
    prior: np.ndarray = field(default_factory=lambda: np.empty(0))


def known_of(source, bias: float) -> dict:
    """What a source's rows decide of a learner's settings; InputError for rows that are too long for any."""
    if source.max_norm > LARGEST_NORM:
        raise InputError(
            f"{source.name}: holds a row of norm {source.max_norm:g}; online learners take up to {LARGEST_NORM:g}, "
            "scale the values"
        )
    return {
        "max_norm": source.max_norm if source.max_norm > 0.0 else 1.0,
        "n_features": float(source.n_features + (bias != 0.0)),
    }


class Machine:
    """One learner with its settings, for two classes (rule None) or for ``n_classes`` by ``rule``.

    name: of ``LEARNERS``; known: settings that the data decide (max_norm, n_features, lam); average: weights are the
    means of what they were after each round; bias: value of the constant feature, whose number is d; query: b of
    selective sampling, None to ask for every label; key: of its draws.  Raises InputError for settings that do not fit.
    """

    def __init__(self, name: str, given: LearnerSettings, known: dict, *, average: bool = False, bias: float = 0.0,
                 n_classes: int = 2, rule: str | None = None, query: float | None = None, key: int = 0):  # fmt: skip
        if query is not None and not (query > 0.0 and math.isfinite(query)):
            raise InputError(f"--query {query:g}: must be a finite number above 0")
        if name not in LEARNERS:
            raise InputError(f"{name}: no such learner; choose one of {', '.join(LEARNERS)}")
        chosen = LEARNERS[name]
        self.name = name
        if n_classes > 2 and rule is None:
            rule = RULES[0]
        if rule is not None and rule not in RULES:
            raise InputError(f"--multiclass {rule}: choose one of {', '.join(RULES)}")
        self.rule = rule if n_classes > 2 else None
        self.n_classes = n_classes
        self.settings = chosen.resolve(given, known)
        self.learner = chosen.of(self.settings)
        self.average = average
        if name == "perceptron-bias":
            if bias:
                raise InputError("--bias: perceptron-bias has a bias of its own; leave it out")
            bias = self.settings["max_norm"]
        self.bias = bias
        self.query = math.inf if query is None else query
        self.key = np.uint64(key % 2**64)
        self.parameters = np.array(self.learner.parameters(self.settings, average))
        self.loops = loops_of(self.learner.kernel_name(), *self.learner.functions)
        self.width = self.learner.width(average)
        self.n_scalars = self.learner.scalars(average)

    @property
    def copies(self) -> int:
        """Weight vectors: 1, or one a class."""
        return self.n_classes if self.rule else 1

    @property
    def parts(self) -> int:
        """Learners with scalars of their own."""
        return self.n_classes if self.rule == "rest" else 1

    def scalar_length(self) -> int:
        return self.parts * self.n_scalars

    def feature_numbers(self) -> int:
        """Float64 numbers a feature, all classes together."""
        return self.copies * self.width

    def start(self, memory: Memory) -> None:
        """What columns and scalars begin with, in memory that is zero."""
        if self.learner.scale is not None:
            memory.scalars[self.learner.scale :: self.n_scalars] = 1.0
        self.fill_new(memory.features)

    def fill_new(self, features: np.ndarray) -> None:
        """The same for features that are new."""
        for column, value in enumerate(self.learner.initial(self.settings)):
            if value != 0.0:
                features[column :: self.width] = value

    def learn(self, matrix: tuple, y: np.ndarray, order: np.ndarray, d: int, memory: Memory, scores=None) -> None:
        """Predict each row of ``order`` (m,) int32, then learn from it; ``scores`` (m,) float64 are filled if given.

        matrix: (indptr, indices, values) as a Block has them; y (n,): -1 and +1, or the class; d: features without the
        constant one.
        """
        loop = {None: self.loops.two, "prototype": self.loops.prototypes, "rest": self.loops.rest}[self.rule]
        loop(*matrix, y, order, d, self.bias, memory.prior, memory.features, self.width,
             memory.scalars.reshape(self.parts, -1), self.parameters, self.query, self.key, memory.tally,
             np.empty(0) if scores is None else scores)  # fmt: skip

    def learn_in_parts(self, matrix, y, order, d: int, memory: Memory, every: int | None = None) -> Iterator[int]:
        """``learn`` in parts that end at doubling numbers of rows, and at multiples of ``every``: the rows seen so far
        after each part."""
        done = 0
        while done < len(order):
            seen = int(memory.tally[ROWS])
            until = 1 << seen.bit_length()
            if every:
                until = min(until, (seen // every + 1) * every)
            part = order[done : done + until - seen]
            self.learn(matrix, y, part, d, memory)
            done += len(part)
            yield int(memory.tally[ROWS])

    def weights(self, memory: Memory, out: np.ndarray) -> np.ndarray:
        """The weights (copies * (d + 1),) in ``out``, averaged if so wanted, a prior model's included."""
        self.loops.read_weights(
            memory.features, self.width, memory.scalars.reshape(self.parts, -1), self.parameters, self.average, out
        )
        if len(memory.prior):
            out += memory.prior
        return out

    def new_memory(self, d: int) -> Memory:
        """For d features and the constant one."""
        memory = Memory(
            np.zeros((d + 1) * self.feature_numbers()), np.zeros(self.scalar_length()), np.zeros(TALLY_LENGTH)
        )
        self.start(memory)
        return memory

"""The protocol of structured learners, and the online ones: perceptron, pa, pa1, pa2 and mira.

Each update moves w towards features(gold) and away from those of other outputs y', along d = features(gold) -
features(y'):

    perceptron   y' the best output, if it is not the gold one: w += d (Collins, EMNLP 2002)
    pa, pa1, pa2 l = r - <w, d> > 0: w += tau d, tau = l / ||d||^2, the same but at most C, or l / (||d||^2 + 1 / (2C))
                 (Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006, sections 6 and 8), where y' is
                 predicted: the best output, r = sqrt(rho(y, y')); or max-loss: that of the largest score + rho, r = rho
    mira         the least change of w after which the gold output leads each of the k best by its loss (McDonald,
                 Crammer, Pereira, ACL 2005; Watanabe, Suzuki, Tsukada, Isozaki, EMNLP 2007; Chiang, Knight, Wang, NAACL
                 2009):

    min 1/2 ||w' - w||^2 + C sum slack   s.t.  score(gold) - score(y') >= rho(gold, y') - slack   for the k best y'

The paper on pa has the root of the loss for max-loss, too; the largest score + root of a sum could not be found by the
decoders of sequences, trees and lattices.  With one slack a constraint its multiplier lies from 0 to C, with one an
example their sum; of several examples at once the constraints are met together (``best_multipliers``).  With
several oracles each of them, outputs of small losses, replaces the gold one (Watanabe et al., eq. 5):

    score(o) - score(y') >= rho(gold, y') - rho(gold, o) - slack   where the right side without its slack is above 0
"""

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xxhash import xxh3_64_intdigest

from blocksvm.base.errors import InputError, option
from blocksvm.base.memory import Budget
from blocksvm.base.settings import Setting, Settings
from blocksvm.structured.kernels.sparse_rows import add_to, best_multipliers, inner, products
from blocksvm.structured.settings import AGGRESSIVE, MEAN, ONLINE, PREDICTED, C
from blocksvm.structured.settings import MIRA as OF_MIRA
from blocksvm.structured.structure import Row, Structure, combination
from blocksvm.structured.text.templates import mixed

TOL = 1e-6  # of the multipliers' gradients, as a share of the largest margin
MOST_STEPS = 20_000  # of the multipliers of an update


@dataclass(frozen=True)
class StructuredLearner:
    """name; summary and source: one line each; settings; make(structure, settings, run, budget) -> ``Machine``."""

    name: str
    summary: str
    source: str
    settings: Settings
    make: Callable


@dataclass
class Report:
    """Sums over an epoch: examples, those with a wrong output before their update, and the losses of these."""

    examples: int = 0
    mistakes: int = 0
    loss: float = 0.0


class Machine:
    """A learner's state, with two methods:

    epoch(order, stop) -> Report: learn from each example in this order; where stop() becomes true, from some, and the
    state is of no use; weights() -> (n_weights,) float64 of the model; the run is over then.
    done: the tolerance has been reached; certified: None, or primal, dual and rel_gap of exactly these weights.
    """

    done = False
    certified: dict | None = None


def finite(w: np.ndarray) -> np.ndarray:
    if not np.isfinite(w).all():
        raise InputError("the weights have become infinite; lower C, or scale the features")
    return w


def order_of(n: int, seed: int, epoch: int) -> np.ndarray:
    """A permutation of 0..n-1 keyed by (seed, epoch)."""
    key = np.uint64(xxh3_64_intdigest(struct.pack("<2q", seed, epoch)))
    return np.argsort(mixed(np.arange(n, dtype=np.uint64) ^ key), kind="stable")


def score(row: Row, w: np.ndarray) -> float:
    return inner(row.indices, row.values, w)


# (rows, factors, mistakes, loss): w += sum of factors[j] rows[j]; mistakes, loss: of the examples' outputs before it
Update = tuple[list[Row], Sequence[float] | np.ndarray, int, float]


class OnlineMachine(Machine):
    """Updates by ``at_once`` examples each: update(structure, w, examples, settings) -> Update.

    With steps t = 1, 2, ..., the mean of w_1..w_T is w_T - sum_t (t - 1) (w_t - w_{t-1}) / T.
    """

    def __init__(self, update: Callable, structure: Structure, settings: dict, run: dict, budget: Budget):
        self.update, self.structure, self.settings = update, structure, settings
        self.averaged = settings["weights"] == MEAN
        budget.reserve("weights", 8 * structure.n_weights)
        budget.reserve("the model's weights", 8 * structure.n_weights * (1 + self.averaged))
        self.w = np.zeros(structure.n_weights)
        self.late = np.zeros(structure.n_weights if self.averaged else 0)  # sum_t (t - 1) (w_t - w_{t-1})
        self.steps = 0

    def epoch(self, order, stop):
        at_once, report = self.settings.get("at_once", 1), Report()
        for start in range(0, len(order), at_once):
            if stop():
                break
            examples = order[start : start + at_once]
            rows, factors, mistakes, loss = self.update(self.structure, self.w, examples, self.settings)
            report.examples += len(examples)
            report.mistakes += mistakes
            report.loss += loss
            for row, factor in zip(rows, factors, strict=True):
                if factor != 0.0:
                    add_to(row.indices, row.values, factor, self.w)
                    if self.averaged:
                        add_to(row.indices, row.values, factor * self.steps, self.late)
            self.steps += 1
        return report

    def weights(self):
        return finite(self.w - self.late / max(1, self.steps) if self.averaged else self.w)


def perceptron_update(structure: Structure, w: np.ndarray, examples: np.ndarray, settings: dict) -> Update:
    (i,) = examples
    output = structure.best(w, i)
    loss = structure.loss(i, output)
    if loss == 0.0:
        return [], [], 0, 0.0
    return [structure.difference(i, output)], [1.0], 1, loss


def aggressive_update(
    structure: Structure, w: np.ndarray, examples: np.ndarray, settings: dict, cut: bool = False, softening: float = 0.0
) -> Update:
    """cut: no step is longer than C; softening: the factor of 1 / C that is added to the squared norm."""
    (i,) = examples
    predicted = settings["against"] == PREDICTED
    output = structure.best(w, i) if predicted else structure.most_violating(w, i)
    rho = structure.loss(i, output)
    if rho == 0.0:
        return [], [], 0, 0.0
    row = structure.difference(i, output)
    below = score(row, w)
    wrong = predicted or below <= 0.0  # an output whose score is larger than the gold one's shows a mistake
    hinge = (math.sqrt(rho) if predicted else rho) - below
    tau = 0.0
    if hinge > 0.0 and row.sq_norm > 0.0:
        tau = hinge / (row.sq_norm + (softening / settings["C"] if softening else 0.0))
        if cut:
            tau = min(tau, settings["C"])
    return [row], [tau], int(wrong), rho if wrong else 0.0


def multipliers(rows: list[Row], margins: np.ndarray, groups: np.ndarray, C: float) -> np.ndarray:
    """(n,) float64: how far to move along each of n rows; groups (n,) int64, rising: the slack of each."""
    indptr = np.append(0, np.cumsum([len(row.indices) for row in rows])).astype(np.int64)
    gram = np.empty((len(rows), len(rows)))
    products(indptr, np.concatenate([r.indices for r in rows]), np.concatenate([r.values for r in rows]), gram)
    a = np.empty(len(rows))
    tol = TOL * max(1e-300, float(np.abs(margins).max()))
    best_multipliers(gram, margins, groups, C, tol, MOST_STEPS, a)
    return a


def mira_update(structure: Structure, w: np.ndarray, examples: np.ndarray, settings: dict) -> Update:
    rows, margins, groups, mistakes, suffered = [], [], [], 0, 0.0
    for number, i in enumerate(examples):
        outputs = structure.k_best(w, i, settings["k"]) if settings["k"] > 1 else [structure.best(w, i)]
        others = structure.oracles(i, settings["oracles"])[1:] if settings["oracles"] > 1 else []
        oracles = [(structure.loss(i, oracle), structure.difference(i, oracle)) for oracle in others]
        losses = [structure.loss(i, output) for output in outputs]
        mistakes, suffered = mistakes + (losses[0] > 0.0), suffered + losses[0]
        for output, loss in zip(outputs, losses, strict=True):
            if loss == 0.0:
                continue
            row = structure.difference(i, output)
            leads = [(loss, row)]
            leads += [(loss - less, combination(row, 1.0, less_row, -1.0)) for less, less_row in oracles if less < loss]
            for lead, apart in leads:
                rows.append(apart)
                margins.append(lead - score(apart, w))
                groups.append(number)
    if not rows or max(margins) <= 0.0:
        return [], [], mistakes, suffered
    slacks = np.array(groups) if settings["slack"] == "shared" else np.arange(len(rows))
    return rows, multipliers(rows, np.array(margins), slacks, settings["C"]), mistakes, suffered


def mira_machine(structure: Structure, settings: dict, run: dict, budget: Budget) -> OnlineMachine:
    """InputError where k, or the number of oracles, is above 1 and the structure gives one output."""
    if settings["k"] > 1 and not structure.lists:
        k = settings["k"]
        raise InputError(f"mira wants the {k} best outputs, but this structure gives one; say {option('k')} 1")
    if settings["oracles"] > 1 and not structure.oracle_sets:
        given = option("oracles", settings["oracles"])
        raise InputError(f"{given}: this structure has one right output for each example; leave it out")
    n = settings["k"] * settings["oracles"] * settings["at_once"]
    budget.reserve("the constraints' products", 8 * n * n)
    return OnlineMachine(mira_update, structure, settings, run, budget)


PERCEPTRON = StructuredLearner(
    "perceptron", "on a wrong output, a step from it to the gold one", "Collins, EMNLP 2002", ONLINE,
    partial(OnlineMachine, perceptron_update),
)  # fmt: skip


def aggressive(name: str, summary: str, *settings: Setting, **steps) -> StructuredLearner:
    source = "Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006"
    make = partial(OnlineMachine, partial(aggressive_update, **steps))
    return StructuredLearner(name, summary, source, AGGRESSIVE + settings, make)


PA = aggressive("pa", "passive-aggressive: the least step after which the gold output leads by its margin")
PA1 = aggressive("pa1", "passive-aggressive, steps cut off at C", C, cut=True)
PA2 = aggressive("pa2", "passive-aggressive, steps softened by 1 / (2C)", C, softening=0.5)
MIRA = StructuredLearner(
    "mira", "the least step after which the gold output leads the k best ones by their losses",
    "McDonald, Crammer, Pereira, ACL 2005; Chiang, Knight, Wang, NAACL 2009", OF_MIRA, mira_machine,
)  # fmt: skip

"""The loops over rows: one for two classes or numbers, and one for each of the two rules for more classes.
``loops_of`` compiles them with a learner's functions.

Two classes: y is -1 or +1.  Numbers: y is the number.  More classes: y is the class 0 .. k - 1, and the features of
class c follow those of class c - 1.

prototypes  the multi-prototype rule (Crammer et al., JMLR 2006, sec. 7): s is the wrong class of the highest score
            (ties: the smallest).  The learner gets, with y = +1, the row that has x in the place of the row's class and
            -x in that of s
rest        one learner per class, with y = +1 on its rows and -1 on all others

A row may have a set of classes, its relevant ones.  Then x goes in the place of r, the relevant class of the lowest
score, and -x in that of s, the irrelevant class of the highest (ties: the smaller).  An empty and a complete set have
no such pair, and no loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from blocksvm.base.vectors import LINE
from blocksvm.kernels import inlined, inlined_views, specialised
from blocksvm.kernels.hash_table import scramble
from blocksvm.kernels.loss_functions import value
from blocksvm.kernels.prefetch import prefetch, prefetch_row, strided_dot, value_at
from blocksvm.kernels.shuffle import GOLDEN
from blocksvm.online.learner import Rule
from blocksvm.online.memory import Memory, SparseRow
from blocksvm.online.rule_parts import plain_current as current
from blocksvm.online.rule_parts import plain_mean as mean
from blocksvm.online.rule_parts import plain_score as score

# placeholders for a learner's functions, which ``loops_of`` replaces before compilation
from blocksvm.online.rules.perceptron import perceptron_update as update

# Entries of a tally: rows, sums, and the last row.  NOT_POSITIVE: rows with a margin of 0 or less, of any class where
# each has one; CORRECTED: those of them whose label was queried; COST: the sum of the costs of predictions
ROWS, LOSS_SUM, MISTAKES, QUERIED, LAST_SCORE, LAST_LABEL, LAST_LENGTH, NONZEROS, NOT_POSITIVE, CORRECTED, COST = range(
    11
)
TALLY_LENGTH = 11
SQUARED_ERRORS = MISTAKES  # where labels are numbers, of which none is a mistake

# Stand-ins for weights (every row counts as one) and sets; None would compile another loop.
EVEN = np.empty(0)
NO_SETS = np.empty(0, np.int64), np.empty(0, np.int32)
NO_LABEL = -2  # y of a row that is only predicted; with numbers, nan

ROW_AHEAD = 8
WEIGHTS_AHEAD = 3


@dataclass(frozen=True)
class SetTable:
    """m sets of the classes 0 .. k - 1: first (m + 1,) int64, members (n,) int32.  Set i has members[first[i]] ..
    members[first[i + 1] - 1], in ascending order."""

    first: np.ndarray
    members: np.ndarray

    @classmethod
    def of(cls, sets: Iterable[Iterable[int]]) -> SetTable:
        """The table of sets of classes, in their order."""
        members = [sorted(set(classes)) for classes in sets]
        first = np.append(0, np.cumsum([len(classes) for classes in members], dtype=np.int64)).astype(np.int64)
        return cls(first, np.array([c for classes in members for c in classes], np.int32))

    @classmethod
    def of_membership(cls, member: np.ndarray) -> SetTable:
        """The table of member (m, k) bool: whether set i has class c."""
        first = np.append(0, np.cumsum(member.sum(axis=1), dtype=np.int64))
        return cls(first, np.nonzero(member)[1].astype(np.int32))

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return self.first, self.members

    @property
    def nbytes(self) -> int:
        return self.first.nbytes + self.members.nbytes


@inlined
def fetch_ahead(indptr, indices, values, order, r, columns, width, on_lines):
    """Prefetch later rows and the columns of their features; on_lines: no feature's columns straddle two cache lines."""
    if r + ROW_AHEAD < order.shape[0]:
        prefetch_row(indptr, indices, values, order[r + ROW_AHEAD])
    if r + WEIGHTS_AHEAD < order.shape[0]:
        row = order[r + WEIGHTS_AHEAD]
        for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            place = np.uint64(indices[k]) * np.uint64(width)
            prefetch(columns, place)
            if not on_lines:
                prefetch(columns, place + np.uint64(width) - np.uint64(1))


@inlined
def is_queried(query, key, number, margin):
    """Whether the label is queried: with probability b / (b + |margin|) (Cesa-Bianchi, Gentile, Zaniboni, JMLR 2006),
    by a draw that depends on the key and the row's number alone.  query: b; inf: always."""
    if query == np.inf:
        return True
    draw = scramble(scramble(np.uint64(key) + GOLDEN) ^ scramble(np.uint64(number) + GOLDEN))
    return float(draw >> np.uint64(11)) * 2.0**-53 * (query + abs(margin)) < query


@inlined
def copy_row(indices, values, start, stop, offset, sign, at, bias, constant, row_indices, row_values):
    """Copy a row, and the constant feature if there is one, to position ``at`` of a scratch row.  Returns the position
    after it."""
    for k in range(start, stop):
        row_indices[at] = np.int64(indices[k]) + offset
        row_values[at] = sign * value_at(values, k)
        at += 1
    if bias != 0.0:
        row_indices[at] = constant + offset
        row_values[at] = sign * bias
        at += 1
    return at


@inlined
def importance_of(weights, i):
    """The weight of row i; weights (n,), or ``EVEN``."""
    return weights[i] if weights.shape[0] > 0 else 1.0


@inlined
def has_none(label, numbers):
    """Whether a row has no label."""
    return label != label if numbers else label == NO_LABEL


@inlined
def has_sets(sets):
    return sets[0].shape[0] > 0


@inlined
def has_costs(costs):
    return costs.costs.shape[0] > 0


@inlined
def mark(relevant, label, sets, value):
    """``relevant[c] = value`` for the class of a row or, with ``sets`` (first, members), for those of set ``label``:
    members[first[label]] .. members[first[label + 1] - 1]."""
    if not has_sets(sets):
        relevant[label] = value
    else:
        for k in range(sets[0][label], sets[0][label + 1]):
            relevant[sets[1][k]] = value


@inlined
def pair_of(of_class, relevant):
    """(r, s): the relevant class of the lowest score, the irrelevant one of the highest; -1: there is none."""
    right, wrong = -1, -1
    for c in range(of_class.shape[0]):
        if relevant[c]:
            if right < 0 or of_class[c] < of_class[right]:
                right = c
        elif wrong < 0 or of_class[c] > of_class[wrong]:
            wrong = c
    return right, wrong


@inlined
def costly_pair(of_class, right, costs):
    """(right, s, loss): s is the predicted class or, by the rule of the largest loss, that of the largest score_s -
    score_right + sqrt(cost), which is the loss (ties: the smaller); s = -1 if it is the right class itself."""
    _, roots, max_loss = costs
    wrong = 0
    largest = -np.inf
    for c in range(of_class.shape[0]):
        value = of_class[c] + roots[right, c] if max_loss else of_class[c]
        if value > largest:
            largest, wrong = value, c
    if wrong == right:
        return right, -1, 0.0
    return right, wrong, of_class[wrong] - of_class[right] + roots[right, wrong]


@inlined
def worst_pair(of_class, label, relevant, sets, costs, loss_function):
    """(right, wrong, z, loss): the classes between which a step is made, -1 for none, the margin that the learner gets
    and its loss.  sets, costs: see ``learn_prototypes``; relevant (k,): zeros, scratch."""
    if not has_costs(costs):
        mark(relevant, label, sets, 1)
        right, wrong = pair_of(of_class, relevant)
        mark(relevant, label, sets, 0)
        if right < 0 or wrong < 0:
            return right, -1, 1.0, 0.0
        z = of_class[right] - of_class[wrong]
        return right, wrong, z, value(loss_function, z, 1.0, 1.0)
    right, wrong, loss = costly_pair(of_class, label, costs)
    return right, wrong, 1.0 - loss, loss  # the margin whose hinge loss this is


@inlined
def cost_of(costs, right, predicted):
    return costs.costs[right, predicted] if has_costs(costs) else 0.0


@inlined_views
def of_learner(memory, columns, c, scratch):
    """The memory of the learner with scalars[c] and these columns."""
    return Memory(columns, memory.width, memory.scalars[c], memory.parameters, memory.loss, scratch)


@inlined
def best_two(of_class):
    """(the class of the highest score, its lead over the second highest)."""
    predicted = 0
    best, second = -np.inf, -np.inf
    for c in range(of_class.shape[0]):
        if of_class[c] > best:
            best, second, predicted = of_class[c], best, c
        elif of_class[c] > second:
            second = of_class[c]
    return predicted, best - second


@inlined
def note(tally, loss, mistake, below, queried, z, label, length):
    """Count a row.  below: some margin of it is 0 or less; queried: the learner gets its label."""
    tally[ROWS] += 1.0
    tally[LOSS_SUM] += loss
    tally[MISTAKES] += mistake
    tally[NOT_POSITIVE] += below
    tally[CORRECTED] += below and queried
    tally[QUERIED] += queried
    tally[LAST_SCORE] = z
    tally[LAST_LABEL] = label
    tally[LAST_LENGTH] = length
    tally[NONZEROS] += length


@inlined
def judged(of_class, label, relevant, sets, costs, weights, i, query, key, tally, length, loss_function):
    """Count row i, given its scores.  Returns (right, wrong, z) of ``worst_pair``, and the row's importance, 0.0 if its
    label is not queried."""
    predicted, lead = best_two(of_class)
    right, wrong, z, loss = worst_pair(of_class, label, relevant, sets, costs, loss_function)
    tally[COST] += cost_of(costs, right, predicted)
    mistake = not z > 0.0 if has_sets(sets) else predicted != right
    importance = importance_of(weights, i)
    queried = is_queried(query, key, tally[ROWS], lead)
    note(tally, importance * loss, mistake, z <= 0.0, queried, float(predicted), float(right), length)
    return right, wrong, z, importance if queried else 0.0


SCRATCH = 0  # ``Rule.scratch``, which ``loops_of`` puts in its place


def learn_two(rows, order, d, bias, prior, memory, query, key, tally, scores, numbers):
    """Predict each row of ``order``, then learn from it.

    rows: ``Rows``, with ``EVEN`` in place of absent weights; a row of weight 0 is only predicted.  d: features without
    the constant one, which is feature d; bias: its value.  prior (d + 1,): fixed weights to which the learner's are
    added, or (0,).  memory: ``Memory`` with scalars (1, m).  scores (n,) float64, by position in ``order``: output, or
    (0,).  numbers: whether labels are numbers.

    A row of ``NO_LABEL`` is predicted, not counted.  The loss is counted times the weight.  A margin of 0 counts as a
    mistake; with ``numbers`` squared errors are counted in place of mistakes.
    """
    indptr, indices, values, y, weights, _ = rows
    longest = 0
    if bias != 0.0 or SCRATCH > 0:
        for r in range(order.shape[0]):
            longest = max(longest, indptr[order[r] + 1] - indptr[order[r]])
    row_indices = np.empty(longest + 1, np.int32)
    row_values = np.empty(longest + 1)
    columns, width = memory.columns, memory.width
    state = of_learner(memory, columns, 0, np.empty(SCRATCH * (longest + 1)))
    on_lines = LINE % width == 0  # a division that an entry would wait for
    for r in range(order.shape[0]):
        fetch_ahead(indptr, indices, values, order, r, columns, width, on_lines)
        i = order[r]
        start, stop = indptr[i], indptr[i + 1]
        label = float(y[i])
        if bias != 0.0:
            end = copy_row(indices, values, start, stop, 0, 1.0, 0, bias, d, row_indices, row_values)
            z = score(SparseRow(row_indices, row_values, 0, end), state)
        else:
            end = 0
            z = score(SparseRow(indices, values, start, stop), state)
        if prior.shape[0] > 0:
            z += strided_dot(indices, values, start, stop, prior, 1) + bias * prior[d]
        if scores.shape[0] > 0:
            scores[r] = z
        if has_none(label, numbers):
            continue
        loss = value(state.loss, z, label, 1.0)
        importance = importance_of(weights, i)
        queried = is_queried(query, key, tally[ROWS], z)
        below = label * z <= 0.0 and not numbers
        mistake = (z - label) * (z - label) if numbers else 1.0 if below else 0.0
        note(tally, importance * loss, mistake, below, queried, z, label, stop - start)
        if queried and importance > 0.0:
            if bias != 0.0:
                update(SparseRow(row_indices, row_values, 0, end), label, z, importance, state)
            else:
                update(SparseRow(indices, values, start, stop), label, z, importance, state)


def learn_prototypes(rows, order, d, bias, prior, memory, query, key, tally, scores, sets, costs):
    """``learn_two`` for k classes by the multi-prototype rule; scores (m, k), or (0, 0).

    sets: (first (m + 1,) int64, members int32) if y (n,) is the position of a row's set among m, see ``mark``; or
    ``NO_SETS``: y is the row's class.  A row with a set is a mistake unless each member ranks above all other classes.
    costs: ``CostMatrix``, or ``NO_COSTS``.  With costs s and the loss are those of Crammer et al., JMLR 2006, sec. 8: no
    step if s is right.
    """
    indptr, indices, values, y, weights, _ = rows
    k = memory.columns.shape[0] // (memory.width * (d + 1))
    longest = 0
    for r in range(order.shape[0]):
        longest = max(longest, indptr[order[r] + 1] - indptr[order[r]])
    row_indices = np.empty(2 * (longest + 1), np.int64)  # with all classes there may be more than 2^31 features
    row_values = np.empty(2 * (longest + 1))
    of_class = np.empty(k)
    relevant = np.zeros(k, np.uint8)
    state = of_learner(memory, memory.columns, 0, np.empty(2 * SCRATCH * (longest + 1)))
    for r in range(order.shape[0]):
        i = order[r]
        start, stop = indptr[i], indptr[i + 1]
        label = np.int64(y[i])
        for c in range(k):
            end = copy_row(indices, values, start, stop, c * (d + 1), 1.0, 0, bias, d, row_indices, row_values)
            of_class[c] = score(SparseRow(row_indices, row_values, 0, end), state)
            if prior.shape[0] > 0:
                of_class[c] += strided_dot(row_indices, row_values, 0, end, prior, 1)
            if scores.shape[0] > 0:
                scores[r, c] = of_class[c]
        if has_none(label, False):
            continue
        right, wrong, z, importance = judged(
            of_class, label, relevant, sets, costs, weights, i, query, key, tally, stop - start, state.loss
        )
        if importance > 0.0:
            end = 0
            if wrong >= 0:
                end = copy_row(indices, values, start, stop, right * (d + 1), 1.0, 0, bias, d, row_indices, row_values)
                end = copy_row(
                    indices, values, start, stop, wrong * (d + 1), -1.0, end, bias, d, row_indices, row_values
                )
            row = SparseRow(row_indices, row_values, 0, end)
            if SCRATCH > 0:
                score(row, state)
            update(row, 1.0, z, importance, state)


def learn_rest(rows, order, d, bias, prior, memory, query, key, tally, scores, sets):
    """``learn_two`` for k classes, one learner each, with scalars (k, m).  The loss is the sum over the classes.  A row
    with a set is a mistake if the score of some class is on the wrong side of 0."""
    indptr, indices, values, y, weights, _ = rows
    k = memory.scalars.shape[0]
    part = (d + 1) * memory.width
    longest = 0
    for r in range(order.shape[0]):
        longest = max(longest, indptr[order[r] + 1] - indptr[order[r]])
    row_indices = np.empty(longest + 1, np.int32)
    row_values = np.empty(longest + 1)
    of_class, scratch = np.empty(k), np.empty(SCRATCH * (longest + 1))
    relevant = np.zeros(k, np.uint8)
    for r in range(order.shape[0]):
        i = order[r]
        start, stop = indptr[i], indptr[i + 1]
        label = np.int64(y[i])
        end = copy_row(indices, values, start, stop, 0, 1.0, 0, bias, d, row_indices, row_values)
        labelled = not has_none(label, False)
        if labelled:
            mark(relevant, label, sets, 1)
        loss = 0.0
        below = False
        for c in range(k):
            state = of_learner(memory, memory.columns[c * part : (c + 1) * part], c, scratch)
            of_class[c] = score(SparseRow(row_indices, row_values, 0, end), state)
            if prior.shape[0] > 0:
                of_class[c] += strided_dot(row_indices, row_values, 0, end, prior[c * (d + 1) : (c + 1) * (d + 1)], 1)
            if scores.shape[0] > 0:
                scores[r, c] = of_class[c]
            side = 1.0 if relevant[c] else -1.0
            loss += value(memory.loss, of_class[c], side, 1.0)
            below = below or side * of_class[c] <= 0.0
        if not labelled:
            continue
        predicted, lead = best_two(of_class)
        right = pair_of(of_class, relevant)[0] if has_sets(sets) else label
        importance = importance_of(weights, i)
        queried = is_queried(query, key, tally[ROWS], lead)
        mistake = below if has_sets(sets) else predicted != right
        note(tally, importance * loss, mistake, below, queried, float(predicted), float(right), stop - start)
        if queried and importance > 0.0:
            for c in range(k):
                state = of_learner(memory, memory.columns[c * part : (c + 1) * part], c, scratch)
                side = 1.0 if relevant[c] else -1.0
                row = SparseRow(row_indices, row_values, 0, end)
                if SCRATCH > 0:
                    score(row, state)
                update(row, side, of_class[c], importance, state)
        mark(relevant, label, sets, 0)


def read_weights(memory, average, out):
    """Write the weights of all features, or their means over the rounds, to ``out``.  Learner c of k, with the scalars
    (k, m), has the c-th part of the columns.  Changes nothing else."""
    k = memory.scalars.shape[0]
    part = memory.columns.shape[0] // k
    n = part // memory.width
    for c in range(k):
        state = of_learner(memory, memory.columns[c * part : (c + 1) * part], c, memory.scratch)
        for j in range(n):
            out[c * n + j] = mean(j, state) if average else current(j, state)


class Loops(NamedTuple):
    """A learner's compiled loops."""

    two: object
    prototypes: object
    rest: object
    read_weights: object


@cache
def _loops(name: str, scratch: int, score, update, current, mean, jointly) -> Loops:
    parts = {"score": score, "update": update, "SCRATCH": scratch}
    loops = [
        specialised(learn_two, f"learn_two_{name}", **parts),
        jointly or specialised(learn_prototypes, f"learn_prototypes_{name}", **parts),
        specialised(learn_rest, f"learn_rest_{name}", **parts),
    ]
    reading = specialised(read_weights, f"read_weights_{name}", current=current, mean=mean)
    return Loops(*loops, reading)


def loops_of(rule: Rule) -> Loops:
    """The loops with a rule's functions, compiled on their first call.  Learners with the same functions share them."""
    functions = rule.score, rule.update, rule.current, rule.mean
    name = "_".join(f"{function.__module__.rpartition('.')[2]}_{function.__name__}" for function in functions[:3])
    return _loops(name, rule.scratch, *functions, rule.jointly)

"""The loop over rows, which ``loops_of`` compiles for each rule in three ways: for one learner, for several that know
nothing of each other, and for a pair of prototypes.

one    y is -1 or +1, or a number
each   a learner for each of k classes, with y = +1 on its rows and -1 on all others
pair   the multi-prototype rule (Crammer et al., JMLR 2006, sec. 7): s is the wrong class of the highest score (ties:
       the smallest).  One learner gets, with y = +1, the row that has x in the place of the row's class and -x in that
       of s

Of k > 1 classes y is the class 0 .. k - 1, and the features of class c follow those of class c - 1.

A row may have a set of classes, its relevant ones.  Then x goes in the place of r, the relevant class of the lowest
score, and -x in that of s, the irrelevant class of the highest (ties: the smaller).  An empty and a complete set have
no such pair, and no loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from blocksvm.base.vectors import LINE
from blocksvm.kernels import inlined, inlined_with, specialised
from blocksvm.kernels.compile import with_globals
from blocksvm.kernels.hash_table import scramble
from blocksvm.kernels.loss_functions import value
from blocksvm.kernels.rows import prefetch, prefetch_entries, strided_dot, value_at
from blocksvm.kernels.shuffle import GOLDEN
from blocksvm.online.learner import Learner, Rule
from blocksvm.online.memory import Memory, SparseRow
from blocksvm.online.rule_parts import dot as score
from blocksvm.online.rule_parts import plain_current as current
from blocksvm.online.rule_parts import plain_mean as mean

# placeholders for a learner's functions, which ``loops_of`` replaces before compilation
from blocksvm.online.rules.perceptron import perceptron_update as update

# Entries of a tally: rows, sums, and the last row.  NOT_POSITIVE: rows with a margin of 0 or less, of any class where
# each has one; CORRECTED: those of them whose label was queried; COST: the sum of the costs of predictions
ROWS, LOSS_SUM, MISTAKES, QUERIED, LAST_SCORE, LAST_LABEL, LAST_LENGTH, NONZEROS = range(8)
NOT_POSITIVE, CORRECTED, COST, TALLY_LENGTH = range(8, 12)
SQUARED_ERRORS = MISTAKES  # where labels are numbers, of which none is a mistake

NO_LABEL = -2  # y of a row that is only predicted; with numbers, nan

ROW_AHEAD = 8
WEIGHTS_AHEAD = 3


class SetTable(NamedTuple):
    """m sets of the classes 0 .. k - 1: first (m + 1,) int64, members (n,) int32.  Set i has members[first[i]] ..
    members[first[i + 1] - 1], in ascending order."""

    first: np.ndarray
    members: np.ndarray

    @classmethod
    def of(cls, sets: Iterable[Iterable[int]]) -> SetTable:
        members = [sorted(set(classes)) for classes in sets]
        first = np.append(0, np.cumsum([len(classes) for classes in members], dtype=np.int64)).astype(np.int64)
        return cls(first, np.array([c for classes in members for c in classes], np.int32))


# Stand-ins for weights (every row counts as one) and sets; None would compile another loop.
EVEN = np.empty(0)
NO_SETS = SetTable(np.empty(0, np.int64), np.empty(0, np.int32))


@inlined
def fetch_ahead(rows, order, r, memory, on_lines):
    """Prefetch later rows and the columns of their features; on_lines: no feature's columns lie in two cache lines."""
    indptr, indices, values, _, _ = rows
    columns, width = memory.columns, memory.width
    if r + ROW_AHEAD < order.shape[0]:
        prefetch_entries(indptr, indices, values, None, order[r + ROW_AHEAD])
    if r + WEIGHTS_AHEAD < order.shape[0]:
        row = order[r + WEIGHTS_AHEAD]
        for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            slot = np.uint64(indices[k]) * np.uint64(width)
            prefetch(columns, slot)
            if not on_lines:
                prefetch(columns, slot + np.uint64(width) - np.uint64(1))


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
    """Copy a row, and the constant feature if there is one, to position ``at`` of a scratch row: where it ends."""
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
def mark(sides, label, sets, side):
    """``sides[c] = side`` for the class of a row or, with ``sets``, for those of set ``label``."""
    if sets.first.shape[0] == 0:
        sides[label] = side
    else:
        for k in range(sets.first[label], sets.first[label + 1]):
            sides[sets.members[k]] = side


@inlined
def pair_of(of_class, sides):
    """(r, s): the relevant class of the lowest score, the irrelevant one of the highest; -1: there is none."""
    right, wrong = -1, -1
    for c in range(of_class.shape[0]):
        if sides[c] > 0.0:
            if right < 0 or of_class[c] < of_class[right]:
                right = c
        elif wrong < 0 or of_class[c] > of_class[wrong]:
            wrong = c
    return right, wrong


@inlined
def loss_of_pair(of_class, right, wrong, costs, function):
    """(wrong, z, loss): the class to step away from, -1 for none; the margin that the learner gets; its loss.

    With costs wrong is the predicted class or, by the rule of the largest loss, that of the largest score_wrong -
    score_right + sqrt(cost), which is the loss (ties: the smaller); none if it is the right class itself.
    """
    if costs.costs.shape[0] > 0:
        wrong, largest = 0, -np.inf
        for c in range(of_class.shape[0]):
            score = of_class[c] + costs.roots[right, c] if costs.max_loss else of_class[c]
            if score > largest:
                largest, wrong = score, c
        if wrong == right:
            return -1, 1.0, 0.0
        loss = of_class[wrong] - of_class[right] + costs.roots[right, wrong]
        return wrong, 1.0 - loss, loss  # the margin whose hinge loss this is
    if right < 0 or wrong < 0:
        return -1, 1.0, 0.0
    z = of_class[right] - of_class[wrong]
    return wrong, z, value(function, z, 1.0, 1.0)


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
def judged(of_class, sides, one, pair, numbers, sets, costs, importance, query, key, tally, length, function):
    """Count a row, given its scores.  Returns (right, wrong, z), of a pair, and the importance, 0.0 if the row's label
    is not queried."""
    right, wrong, z, target = 0, -1, of_class[0], sides[0]
    shown, lead, loss, below = z, z, 0.0, False
    if not pair:  # the sum of the learners' losses, and whether some margin is 0 or less
        for c in range(of_class.shape[0]):
            loss += value(function, of_class[c], sides[c], 1.0)
            below = below or sides[c] * of_class[c] <= 0.0
    if one:
        below = below and not numbers
        mistake = (z - target) * (z - target) if numbers else 1.0 if below else 0.0
    else:
        predicted, lead = best_two(of_class)
        right, wrong = pair_of(of_class, sides)
        if pair:
            wrong, z, loss = loss_of_pair(of_class, right, wrong, costs, function)
            below = z <= 0.0
            if costs.costs.shape[0] > 0:
                tally[COST] += costs.costs[right, predicted]
        mistaken = below if sets.first.shape[0] > 0 else predicted != right
        mistake = 1.0 if mistaken else 0.0
        shown, target = float(predicted), float(right)
    queried = is_queried(query, key, tally[ROWS], lead)
    note(tally, importance * loss, mistake, below, queried, shown, target, length)
    return right, wrong, z, importance if queried else 0.0


# placeholders of numbers, which ``loops_of`` puts in their places
SCRATCH = 0  # ``Rule.scratch``
ONE, PAIR = False, False  # whether the loop is that of one learner; that of a pair


class Work(NamedTuple):
    """Working space for a row: indices and values for its entries with the constant feature, of a pair twice; numbers
    for each learner's ``score``; of_class, sides (k,): scores, and labels -1 and +1 of the classes, or the row's;
    joint (3, k): for a step of all classes, the first row 0."""

    indices: np.ndarray
    values: np.ndarray
    scratch: np.ndarray
    of_class: np.ndarray
    sides: np.ndarray
    joint: np.ndarray


@inlined
def step_of_pair(right, wrong, z, importance, rows, i, d, bias, memory, work):
    """The step for row i of ``rows``: of the row with x in the place of class right, and -x in that of class wrong."""
    indptr, indices, values, _, _ = rows
    end = 0
    if wrong >= 0:
        for c, sign in ((right, 1.0), (wrong, -1.0)):
            end = copy_row(
                indices, values, indptr[i], indptr[i + 1], c * (d + 1), sign, end, bias, d, work.indices, work.values
            )
    row = SparseRow(work.indices, work.values, 0, end)
    own = Memory(memory.columns, memory.width, memory.scalars[0], memory.parameters, memory.loss, work.scratch[0])
    if SCRATCH > 0:
        score(row, own)
    update(row, 1.0, z, importance, own)


@inlined
def learn_row(rows, i, d, bias, prior, memory, query, key, tally, out, numbers, sets, costs, work):
    """Predict row i, then learn from it; out (k,): for its scores, or (0,); the others: see ``learn_rows``.  No
    function that it calls makes arrays, since counting the references to them takes as long as the row."""
    indptr, indices, values, y, weights = rows
    of_class, sides = work.of_class, work.sides
    k = 1 if ONE else of_class.shape[0]
    part = (d + 1) * memory.width
    start, stop = indptr[i], indptr[i + 1]
    end = 0
    if bias != 0.0:
        end = copy_row(indices, values, start, stop, 0, 1.0, 0, bias, d, work.indices, work.values)
    for c in range(k):
        own = 0 if PAIR else c
        columns = memory.columns[c * part : (c + 1) * part]
        state = Memory(columns, memory.width, memory.scalars[own], memory.parameters, memory.loss, work.scratch[own])
        if bias != 0.0:
            z = score(SparseRow(work.indices, work.values, 0, end), state)
        else:
            z = score(SparseRow(indices, values, start, stop), state)
        if prior.shape[0] > 0:
            fixed = prior[c * (d + 1) : (c + 1) * (d + 1)]
            z += strided_dot(indices, values, start, stop, fixed, 1) + bias * fixed[d]
        of_class[c] = z
        if out.shape[0] > 0:
            out[c] = z
    label = float(y[i])
    if label != label if numbers else label == NO_LABEL:
        return
    if k == 1:
        sides[0] = label
    else:
        mark(sides, np.int64(label), sets, 1.0)
    right, wrong, z, importance = judged(
        of_class, sides, k == 1, PAIR, numbers, sets, costs, importance_of(weights, i), query, key, tally, stop - start,
        memory.loss,
    )  # fmt: skip
    if importance > 0.0:
        if PAIR:
            step_of_pair(right, wrong, z, importance, rows, i, d, bias, memory, work)
        else:
            for c in range(k):
                columns = memory.columns[c * part : (c + 1) * part]
                state = Memory(
                    columns, memory.width, memory.scalars[c], memory.parameters, memory.loss, work.scratch[c]
                )
                if bias != 0.0:
                    update(SparseRow(work.indices, work.values, 0, end), sides[c], of_class[c], importance, state)
                else:
                    update(SparseRow(indices, values, start, stop), sides[c], of_class[c], importance, state)
    if k > 1:
        mark(sides, np.int64(label), sets, -1.0)


def learn_rows(rows, order, d, bias, prior, memory, query, key, tally, scores, numbers, sets, costs):
    """Predict each row of ``order``, then learn from it.

    rows: ``Rows``, with ``EVEN`` in place of absent weights; a row of weight 0 is only predicted.  d: features without
    the constant one, which is feature d; bias: its value.  prior (k * (d + 1),): fixed weights to which the learner's
    are added, or (0,).  memory: ``Memory`` with scalars (k, m), of a pair (1, m).  scores (n, k) float64, by position
    in ``order``: output, or (n, 0).  numbers: whether labels are numbers.  sets: ``SetTable`` if y (n,) is the position
    of a row's set, or ``NO_SETS``.  costs: ``CostMatrix``, or ``NO_COSTS``; with costs s and the loss are those of
    Crammer et al., JMLR 2006, sec. 8: no step if s is right.

    A row of ``NO_LABEL`` is predicted, not counted.  The loss, the sum of the learners', is counted times the weight.
    A margin of 0 counts as a mistake; with ``numbers`` squared errors are counted in place of mistakes.  A row with a
    set is a mistake unless each member ranks above all other classes, or, of ``each``, unless all margins are above 0.
    """
    k = 1 if ONE else memory.columns.shape[0] // (memory.width * (d + 1))
    longest = 0
    if bias != 0.0 or SCRATCH > 0 or PAIR:
        for r in range(order.shape[0]):
            longest = max(longest, rows.indptr[order[r] + 1] - rows.indptr[order[r]])
    room = (2 if PAIR else 1) * (longest + 1)
    # with all classes there may be more than 2^31 features
    work = Work(
        np.empty(room, np.int64), np.empty(room), np.empty((memory.scalars.shape[0], SCRATCH * room)), np.empty(k),
        np.full(k, -1.0), np.zeros((3, k)),
    )  # fmt: skip
    on_lines = LINE % memory.width == 0  # a division that an entry would wait for
    for r in range(order.shape[0]):
        if ONE:
            fetch_ahead(rows, order, r, memory, on_lines)
        learn_row(rows, order[r], d, bias, prior, memory, query, key, tally, scores[r], numbers, sets, costs, work)


def read_weights(memory, average, out):
    """Write the weights of all features, or their means over the rounds, to ``out``.  Learner c of k, with the scalars
    (k, m), has the c-th part of the columns.  Changes nothing else."""
    k = memory.scalars.shape[0]
    part = memory.columns.shape[0] // k
    n = part // memory.width
    for c in range(k):
        columns = memory.columns[c * part : (c + 1) * part]
        state = Memory(columns, memory.width, memory.scalars[c], memory.parameters, memory.loss, memory.scratch)
        for j in range(n):
            out[c * n + j] = mean(j, state) if average else current(j, state)


class Loops(NamedTuple):
    one: Callable
    each: Callable
    pair: Callable
    read_weights: Callable


def assembled(name: str, scratch: int, score, update, jointly, function=inlined_with, loop=specialised) -> list:
    """The three loops with a rule's functions; function(...), loop(...): how a copy is made of one with other parts."""
    parts = {"score": score, "update": update, "SCRATCH": scratch}
    pair = jointly or function(step_of_pair, f"step_of_pair_{name}", **parts)
    loops = []
    for one, both in ((True, False), (False, False), (False, True)):
        parts = {"score": score, "update": update, "ONE": one, "PAIR": both, "step_of_pair": pair}
        kind = "one" if one else "pair" if both else "each"
        row = function(learn_row, f"learn_row_{kind}_{name}", **parts)
        loops.append(loop(learn_rows, f"learn_{kind}_{name}", SCRATCH=scratch, ONE=one, PAIR=both, learn_row=row))
    return loops


@cache
def _loops(scratch: int, score, update, current, mean, jointly) -> Loops:
    name = update.__name__
    reading = specialised(read_weights, f"read_weights_{name}", current=current, mean=mean)
    return Loops(*assembled(name, scratch, score, update, jointly), reading)


def loops_of(rule: Rule) -> Loops:
    """The loops with a rule's functions, compiled on their first call.  Learners with the same functions share them."""
    return _loops(rule.scratch, rule.score, rule.update, rule.current, rule.mean, rule.jointly)


def numpy_loops(learner: Learner, settings: dict, average: bool) -> Loops:
    """The loops of a learner with an ``update_numpy`` and these settings, in plain Python."""
    rule, state = learner.rule, SimpleNamespace(settings=settings)
    names = list(enumerate(rule.columns._fields))[1 : len(rule.columns) - rule.columns.n_averaging]
    scalars = list(enumerate(rule.scalars._fields))
    lagged = rule.width(True) - 1 if average else None

    def entries(row):
        part = slice(row.start, row.stop)
        x = np.ones(row.stop - row.start) if row.values is None else row.values[part].astype(np.float64)
        return row.indices[part], x

    def score(row, memory) -> float:
        j, x = entries(row)
        return float(x @ memory.columns.reshape(-1, memory.width)[j, 0])

    def update(row, y, z, importance, memory) -> None:
        memory.scalars[0] += 1.0
        j, x = entries(row)
        columns = memory.columns.reshape(-1, memory.width)
        own = columns[j]
        before = own[:, 0].copy()
        state.importance = importance
        for c, name in names:
            setattr(state, name, own[:, c])
        for c, name in scalars:
            setattr(state, name, float(memory.scalars[c]))
        w = learner.update_numpy(own[:, 0], x, y, z, state)
        if lagged is not None:  # see ``rule_parts.change_weight``
            own[:, lagged] += (memory.scalars[0] - 1.0) * (w - before)
        own[:, 0] = w
        for c, name in names:
            own[:, c] = getattr(state, name)
        for c, name in scalars[1:]:
            memory.scalars[c] = getattr(state, name)
        columns[j] = own

    def read_weights(memory, average, out) -> None:
        columns = memory.columns.reshape(len(memory.scalars), -1, memory.width)
        out[:] = columns[:, :, 0].reshape(-1)
        if average:
            out -= (columns[:, :, lagged] / np.maximum(1.0, memory.scalars[:, :1])).reshape(-1)

    three = assembled("numpy", 0, score, update, None, with_globals, with_globals)
    return Loops(*map(in_plain_python, three), read_weights)


def in_plain_python(loop):
    """A loop in plain Python, which asks for no cache lines."""
    plain = with_globals(loop, loop.__name__, fetch_ahead=lambda *arguments: None)

    def run(*arguments):
        with np.errstate(over="ignore"):  # products of hashes
            plain(*arguments)

    return run

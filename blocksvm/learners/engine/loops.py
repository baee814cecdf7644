"""The loops over rows, once for two classes, once for each of the two ways to more; ``loops_of`` compiles them around a
learner's functions.

Two classes: y is -1 or +1; or y is a number.  More: y is the class 0 .. k - 1, and the features of class c lie behind
those of c - 1.

prototypes  the multi-prototype rule (Crammer et al., JMLR 2006, sec. 7): s = the wrong class of the highest score
            (ties: the smallest); the learner gets, with y = +1, the row that has x in the place of the row's class
            and -x in that of s
rest        one learner a class, with y = +1 on its rows and -1 on all others

A row may have a set of classes: then x goes in the place of r, the class of the set with the lowest score, and -x in
that of s, the class outside of it with the highest (ties: the smaller); of an empty or a complete set there is no such
pair, and no loss."""

from functools import cache
from typing import NamedTuple

import numpy as np

from blocksvm.base.vectors import LINE
from blocksvm.kernels import inlined, specialised
from blocksvm.kernels.hash_table import scramble
from blocksvm.kernels.loss_placeholders import value
from blocksvm.kernels.prefetch import prefetch, prefetch_row, strided_dot, value_at
from blocksvm.kernels.shuffle import GOLDEN
from blocksvm.learners.engine.layout import Memory, SparseRow
from blocksvm.learners.engine.learner import Kept, Learner
from blocksvm.learners.engine.rule_parts import plain_current as current
from blocksvm.learners.engine.rule_parts import plain_mean as mean
from blocksvm.learners.engine.rule_parts import plain_score as score

# placeholders for a learner's functions, which ``loops_of`` replaces before compilation
from blocksvm.learners.rules.perceptron import perceptron_update as update
from blocksvm.losses.loss import Loss

# of a tally: rows, sums, and the row seen last; rows with a margin of 0 or less, of any class that has a margin of its
# own, and those of them whose label was asked for; where predictions cost, the sum of the costs
ROWS, LOSS_SUM, MISTAKES, ASKED, LAST_SCORE, LAST_LABEL, LAST_LENGTH, NONZEROS, NOT_POSITIVE, CORRECTED, COST = range(
    11
)
TALLY_LENGTH = 11
SQUARED_ERRORS = MISTAKES  # where labels are numbers, of which none is a mistake

# In the place of weights (each row counts as one), sets and costs where there are none: for None another loop would be
# compiled.
EVEN = np.empty(0)
NO_SETS = np.empty(0, np.int64), np.empty(0, np.int32)
NO_COSTS = np.empty((0, 0)), np.empty((0, 0)), False
NO_LABEL = -2  # y of a row that is predicted only; of numbers nan

ROW_AHEAD = 8
WEIGHTS_AHEAD = 3


@inlined
def fetch_ahead(indptr, indices, values, order, r, columns, width, on_lines):
    """Ask for the memory of rows to come, and for what the learner knows of their features; on_lines: which of these
    does not go on in the next cache line."""
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
def asks(query, key, number, margin):
    """Whether the label is asked for: with probability b / (b + |margin|) (Cesa-Bianchi, Gentile, Zaniboni, JMLR 2006),
    by a draw that depends on the key and the row's number alone.  query: b, inf to ask always."""
    if query == np.inf:
        return True
    draw = scramble(scramble(np.uint64(key) + GOLDEN) ^ scramble(np.uint64(number) + GOLDEN))
    return float(draw >> np.uint64(11)) * 2.0**-53 * (query + abs(margin)) < query


@inlined
def copy_row(indices, values, start, stop, offset, sign, at, bias, constant, row_indices, row_values):
    """A row, and the constant feature where there is one, to position ``at`` of a scratch row; the position behind."""
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
    """How much row i counts; weights (n,), or ``EVEN``."""
    return weights[i] if weights.shape[0] > 0 else 1.0


@inlined
def has_none(label, numbers):
    """The row has no label."""
    return label != label if numbers else label == NO_LABEL


@inlined
def has_sets(sets):
    return sets[0].shape[0] > 0


@inlined
def has_costs(costs):
    return costs[0].shape[0] > 0


@inlined
def mark(own, label, sets, value):
    """``own[c] = value`` for the class of a row, or, where there are ``sets`` (first, members), the members of set
    ``label``: members[first[label]] .. members[first[label + 1] - 1]."""
    if not has_sets(sets):
        own[label] = value
    else:
        for k in range(sets[0][label], sets[0][label + 1]):
            own[sets[1][k]] = value


@inlined
def pair_of(of_class, own):
    """(r, s): the class among ``own`` with the lowest score, the one not among them with the highest; -1: there is
    none."""
    right, wrong = -1, -1
    for c in range(of_class.shape[0]):
        if own[c]:
            if right < 0 or of_class[c] < of_class[right]:
                right = c
        elif wrong < 0 or of_class[c] > of_class[wrong]:
            wrong = c
    return right, wrong


@inlined
def costly_pair(of_class, right, costs):
    """(right, s, loss): s the class predicted, or, by the rule of the largest loss, that of the largest score_s -
    score_right + sqrt(cost), which is the loss (ties: the smaller); s = -1 where it is the right one itself."""
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
def worst_pair(of_class, label, own, sets, costs, p):
    """(right, wrong, z, loss): the classes between which a step is made, -1 for none, the margin that the learner is
    told and its loss; sets, costs: as ``learn_prototypes`` has them; own (k,): zeros, working space; p: of the loss."""
    if not has_costs(costs):
        mark(own, label, sets, 1)
        right, wrong = pair_of(of_class, own)
        mark(own, label, sets, 0)
        if right < 0 or wrong < 0:
            return right, -1, 1.0, 0.0
        z = of_class[right] - of_class[wrong]
        return right, wrong, z, value(z, 1.0, 1.0, p)
    right, wrong, loss = costly_pair(of_class, label, costs)
    return right, wrong, 1.0 - loss, loss  # the margin whose hinge loss this is


@inlined
def cost_of(costs, right, predicted):
    return costs[0][right, predicted] if has_costs(costs) else 0.0


@inlined
def of_learner(memory, columns, c, scratch):
    """The memory of the learner with scalars[c] and these columns."""
    return Memory(columns, memory.width, memory.scalars[c], memory.parameters, memory.p, scratch)


@inlined
def best_two(of_class):
    """(the class of the highest score, how far the second highest lies below it)."""
    predicted = 0
    best, second = -np.inf, -np.inf
    for c in range(of_class.shape[0]):
        if of_class[c] > best:
            best, second, predicted = of_class[c], best, c
        elif of_class[c] > second:
            second = of_class[c]
    return predicted, best - second


@inlined
def note(tally, loss, mistake, below, asked, z, label, length):
    """below: some margin of the row is 0 or less; asked: its label is known to the learner."""
    tally[ROWS] += 1.0
    tally[LOSS_SUM] += loss
    tally[MISTAKES] += mistake
    tally[NOT_POSITIVE] += below
    tally[CORRECTED] += below and asked
    tally[ASKED] += asked
    tally[LAST_SCORE] = z
    tally[LAST_LABEL] = label
    tally[LAST_LENGTH] = length
    tally[NONZEROS] += length


@inlined
def judged(of_class, label, own, sets, costs, weights, i, query, key, tally, length, p):
    """Count row i of these scores; (right, wrong, z, importance): as ``worst_pair`` has them, and 0.0 where nothing is
    learned from it."""
    predicted, lead = best_two(of_class)
    right, wrong, z, loss = worst_pair(of_class, label, own, sets, costs, p)
    tally[COST] += cost_of(costs, right, predicted)
    mistake = not z > 0.0 if has_sets(sets) else predicted != right
    importance = importance_of(weights, i)
    asked = asks(query, key, tally[ROWS], lead)
    note(tally, importance * loss, mistake, z <= 0.0, asked, float(predicted), float(right), length)
    return right, wrong, z, importance if asked else 0.0


ROOM = 0  # numbers that a learner keeps of each entry of a row between score and update


def learn_two(rows, order, d, bias, prior, memory, query, key, tally, scores, numbers):
    """Predict each row of ``order``, then learn from it.

    rows: ``Rows``, with ``EVEN`` where there are no weights; a row of importance 0 is predicted only.  d: features
    without the constant one, whose number it is; bias: its value; prior (d + 1,): fixed weights to which the learner's
    are added, or (0,); memory: ``Memory`` with scalars (1, m).  scores (n,) float64 by position in ``order``, or (0,):
    not wanted.  A row of ``NO_LABEL`` is predicted, and not counted.  The loss is counted times the importance; a
    margin of 0 counts as a mistake; of ``numbers`` the squared error is counted in their place.
    """
    indptr, indices, values, y, weights, _ = rows
    longest = 0
    if bias != 0.0 or ROOM > 0:
        for r in range(order.shape[0]):
            longest = max(longest, indptr[order[r] + 1] - indptr[order[r]])
    row_indices = np.empty(longest + 1, np.int32)
    row_values = np.empty(longest + 1)
    columns, width = memory.columns, memory.width
    own = of_learner(memory, columns, 0, np.empty(ROOM * (longest + 1)))
    on_lines = LINE % width == 0  # a division that an entry would wait for
    for r in range(order.shape[0]):
        fetch_ahead(indptr, indices, values, order, r, columns, width, on_lines)
        i = order[r]
        start, stop = indptr[i], indptr[i + 1]
        label = float(y[i])
        if bias != 0.0:
            end = copy_row(indices, values, start, stop, 0, 1.0, 0, bias, d, row_indices, row_values)
            z = score(SparseRow(row_indices, row_values, 0, end), own)
        else:
            end = 0
            z = score(SparseRow(indices, values, start, stop), own)
        if prior.shape[0] > 0:
            z += strided_dot(indices, values, start, stop, prior, 1) + bias * prior[d]
        if scores.shape[0] > 0:
            scores[r] = z
        if has_none(label, numbers):
            continue
        loss = value(z, label, 1.0, own.p)
        importance = importance_of(weights, i)
        asked = asks(query, key, tally[ROWS], z)
        below = label * z <= 0.0 and not numbers
        mistake = (z - label) * (z - label) if numbers else 1.0 if below else 0.0
        note(tally, importance * loss, mistake, below, asked, z, label, stop - start)
        if asked and importance > 0.0:
            if bias != 0.0:
                update(SparseRow(row_indices, row_values, 0, end), label, z, importance, own)
            else:
                update(SparseRow(indices, values, start, stop), label, z, importance, own)


def learn_prototypes(rows, order, d, bias, prior, memory, query, key, tally, scores, sets, costs):
    """The same for k = the number of classes; scores (m, k), or (0, 0).

    sets: (first (m + 1,) int64, members int32) where y (n,) is the place of a row's set among m, as ``mark`` has them;
    or ``NO_SETS``: y is the row's class.  A row of a set is a mistake where some member is not ranked above all other classes.
    costs: (costs (k, k), their square roots, by the largest loss or not) of a class (the second index) predicted for
    another, or ``NO_COSTS``; with them s and the loss are those of Crammer et al., JMLR 2006, sec. 8: no step where s is right.
    """
    indptr, indices, values, y, weights, _ = rows
    k = memory.columns.shape[0] // (memory.width * (d + 1))
    longest = 0
    for r in range(order.shape[0]):
        longest = max(longest, indptr[order[r] + 1] - indptr[order[r]])
    row_indices = np.empty(2 * (longest + 1), np.int64)  # of all classes there may be more than 2^31
    row_values = np.empty(2 * (longest + 1))
    of_class = np.empty(k)
    own = np.zeros(k, np.uint8)
    state = of_learner(memory, memory.columns, 0, memory.scratch)
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
            of_class, label, own, sets, costs, weights, i, query, key, tally, stop - start, state.p
        )
        if importance > 0.0:
            end = 0
            if wrong >= 0:
                end = copy_row(indices, values, start, stop, right * (d + 1), 1.0, 0, bias, d, row_indices, row_values)
                end = copy_row(
                    indices, values, start, stop, wrong * (d + 1), -1.0, end, bias, d, row_indices, row_values
                )
            update(SparseRow(row_indices, row_values, 0, end), 1.0, z, importance, state)


def learn_rest(rows, order, d, bias, prior, memory, query, key, tally, scores, sets):
    """The same, with scalars (k, m) of each class's own; the loss is the sum over the classes.  A row of
    a set is a mistake where the score of some class is on the wrong side of 0."""
    indptr, indices, values, y, weights, _ = rows
    k = memory.scalars.shape[0]
    part = (d + 1) * memory.width
    longest = 0
    for r in range(order.shape[0]):
        longest = max(longest, indptr[order[r] + 1] - indptr[order[r]])
    row_indices = np.empty(longest + 1, np.int32)
    row_values = np.empty(longest + 1)
    of_class = np.empty(k)
    own = np.zeros(k, np.uint8)
    for r in range(order.shape[0]):
        i = order[r]
        start, stop = indptr[i], indptr[i + 1]
        label = np.int64(y[i])
        end = copy_row(indices, values, start, stop, 0, 1.0, 0, bias, d, row_indices, row_values)
        labelled = not has_none(label, False)
        if labelled:
            mark(own, label, sets, 1)
        loss = 0.0
        below = False
        for c in range(k):
            state = of_learner(memory, memory.columns[c * part : (c + 1) * part], c, memory.scratch)
            of_class[c] = score(SparseRow(row_indices, row_values, 0, end), state)
            if prior.shape[0] > 0:
                of_class[c] += strided_dot(row_indices, row_values, 0, end, prior[c * (d + 1) : (c + 1) * (d + 1)], 1)
            if scores.shape[0] > 0:
                scores[r, c] = of_class[c]
            side = 1.0 if own[c] else -1.0
            loss += value(of_class[c], side, 1.0, memory.p)
            below = below or side * of_class[c] <= 0.0
        if not labelled:
            continue
        predicted, lead = best_two(of_class)
        right = pair_of(of_class, own)[0] if has_sets(sets) else label
        importance = importance_of(weights, i)
        asked = asks(query, key, tally[ROWS], lead)
        mistake = below if has_sets(sets) else predicted != right
        note(tally, importance * loss, mistake, below, asked, float(predicted), float(right), stop - start)
        if asked and importance > 0.0:
            for c in range(k):
                state = of_learner(memory, memory.columns[c * part : (c + 1) * part], c, memory.scratch)
                side = 1.0 if own[c] else -1.0
                update(SparseRow(row_indices, row_values, 0, end), side, of_class[c], importance, state)
        mark(own, label, sets, 0)


def read_weights(memory, average, out):
    """Weights (or the means of what they were after each round) of all features in ``out``; scalars (k, m), of which
    each row has its own part of columns.  Changes nothing else."""
    k = memory.scalars.shape[0]
    part = memory.columns.shape[0] // k
    n = part // memory.width
    for c in range(k):
        own = of_learner(memory, memory.columns[c * part : (c + 1) * part], c, memory.scratch)
        for j in range(n):
            out[c * n + j] = mean(j, own) if average else current(j, own)


class Loops(NamedTuple):
    """A learner's compiled loops."""

    two: object
    prototypes: object
    rest: object
    read_weights: object


@cache
def _loops(name: str, loss: Loss, score, update, current, mean, kept: Kept | None, jointly) -> Loops:
    two = kept or Kept(score, update, 0)
    loops = [
        specialised(learn_two, f"learn_two_{name}", score=two.score, update=two.update, ROOM=two.numbers),
        jointly or specialised(learn_prototypes, f"learn_prototypes_{name}", score=score, update=update),
        specialised(learn_rest, f"learn_rest_{name}", score=score, update=update),
    ]
    reading = specialised(read_weights, f"read_weights_{name}", current=current, mean=mean)
    return Loops(*map(loss.compiled, loops), reading)


def loops_of(learner: Learner, loss: Loss) -> Loops:
    """The loops around a learner's functions and its loss, compiled on their first call; learners with the same
    functions share them."""
    functions = learner.score, learner.update, learner.current, learner.mean
    name = "_".join(f"{function.__module__.rpartition('.')[2]}_{function.__name__}" for function in functions[:3])
    return _loops(name, loss, *functions, learner.kept, learner.jointly)

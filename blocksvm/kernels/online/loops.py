"""The loops over rows, once for two classes, once for each of the two ways to more; ``loops_of`` compiles them around a
learner's functions.

Two classes: y is -1 or +1.  More: y is the class 0 .. k - 1, and the features of class c lie behind those of c - 1 in F.

prototypes  the multi-prototype rule (Crammer et al., JMLR 2006, sec. 7): s = the wrong class of the highest score (ties:
            the smallest); the learner gets, with y = +1, the row that has x in the place of the row's class and -x in that of s
rest        one learner a class, with y = +1 on its rows and -1 on all others
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from blocksvm.kernels import inlined, specialised
from blocksvm.kernels.memory import prefetch, prefetch_row, strided_dot, value_at

# what stands for a learner's own functions in the loops, until ``loops_of`` puts those in their place
from blocksvm.kernels.online.additive import perceptron_update as update
from blocksvm.kernels.online.rows import EPSILON, LOSS, loss_at
from blocksvm.kernels.online.rows import plain_current as current
from blocksvm.kernels.online.rows import plain_mean as mean
from blocksvm.kernels.online.rows import plain_score as score
from blocksvm.kernels.shuffle import GOLDEN
from blocksvm.kernels.table import scramble

# of a tally: rows, sums, and the row seen last
ROWS, LOSS_SUM, MISTAKES, ASKED, LAST_SCORE, LAST_LABEL, LAST_LENGTH, NONZEROS = 0, 1, 2, 3, 4, 5, 6, 7
TALLY_LENGTH = 8

ROW_AHEAD = 8
WEIGHTS_AHEAD = 3
COLD_FEATURES = 8_192  # features numbered below it stay in the cache, where they are numbered by frequency


@inlined
def fetch_ahead(indptr, indices, values, order, r, F, W):
    """Ask for the memory of rows to come, and for what the learner knows of their rarer features."""
    if r + ROW_AHEAD < order.shape[0]:
        prefetch_row(indptr, indices, values, order[r + ROW_AHEAD])
    if r + WEIGHTS_AHEAD < order.shape[0]:
        row = order[r + WEIGHTS_AHEAD]
        for k in range(indptr[row], indptr[row + 1]):
            if indices[k] >= COLD_FEATURES:
                place = np.int64(indices[k]) * W
                prefetch(F, place)
                if W > 2:  # two lie within a cache line, more may end in the next one
                    prefetch(F, place + W - 1)


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
        row_indices[at] = np.int32(np.int64(indices[k]) + offset)
        row_values[at] = sign * value_at(values, k)
        at += 1
    if bias != 0.0:
        row_indices[at] = np.int32(constant + offset)
        row_values[at] = sign * bias
        at += 1
    return at


@inlined
def note(tally, loss, mistake, z, label, length):
    tally[ROWS] += 1.0
    tally[LOSS_SUM] += loss
    tally[MISTAKES] += mistake
    tally[LAST_SCORE] = z
    tally[LAST_LABEL] = label
    tally[LAST_LENGTH] = length
    tally[NONZEROS] += length


def learn_two(indptr, indices, values, y, order, d, bias, prior, F, W, S, P, query, key, tally, scores):
    """Predict each row of ``order``, then learn from it.

    d: features without the constant one, whose number it is; bias: its value; prior (d + 1,): fixed weights to which
    the learner's are added, or (0,).  scores (n,) float64 by position in ``order``, or (0,): not wanted.  A margin of 0
    counts as a mistake.
    """
    longest = 0
    if bias != 0.0:
        for r in range(order.shape[0]):
            longest = max(longest, indptr[order[r] + 1] - indptr[order[r]])
    row_indices = np.empty(longest + 1, np.int32)
    row_values = np.empty(longest + 1)
    state = S[0]
    for r in range(order.shape[0]):
        fetch_ahead(indptr, indices, values, order, r, F, W)
        i = order[r]
        start, stop = indptr[i], indptr[i + 1]
        label = float(y[i])
        if bias != 0.0:
            end = copy_row(indices, values, start, stop, 0, 1.0, 0, bias, d, row_indices, row_values)
            z = score(row_indices, row_values, 0, end, F, W, state, P)
        else:
            end = 0
            z = score(indices, values, start, stop, F, W, state, P)
        if prior.shape[0] > 0:
            z += strided_dot(indices, values, start, stop, prior, 1) + bias * prior[d]
        loss, _ = loss_at(P[LOSS], z, label, P[EPSILON])
        if scores.shape[0] > 0:
            scores[r] = z
        asked = asks(query, key, tally[ROWS], z)
        note(tally, loss, label * z <= 0.0, z, label, stop - start)
        if asked:
            tally[ASKED] += 1.0
            if bias != 0.0:
                update(row_indices, row_values, 0, end, label, z, F, W, state, P)
            else:
                update(indices, values, start, stop, label, z, F, W, state, P)


def learn_prototypes(indptr, indices, values, y, order, d, bias, prior, F, W, S, P, query, key, tally, scores):
    """The same for k = the number of classes; scores: of the class predicted, less the next one's."""
    k = F.shape[0] // (W * (d + 1))
    longest = 0
    for r in range(order.shape[0]):
        longest = max(longest, indptr[order[r] + 1] - indptr[order[r]])
    row_indices = np.empty(2 * (longest + 1), np.int32)
    row_values = np.empty(2 * (longest + 1))
    of_class = np.empty(k)
    state = S[0]
    for r in range(order.shape[0]):
        i = order[r]
        start, stop = indptr[i], indptr[i + 1]
        right = np.int64(y[i])
        for c in range(k):
            end = copy_row(indices, values, start, stop, c * (d + 1), 1.0, 0, bias, d, row_indices, row_values)
            of_class[c] = score(row_indices, row_values, 0, end, F, W, state, P)
            if prior.shape[0] > 0:
                of_class[c] += strided_dot(row_indices, row_values, 0, end, prior, 1)
        wrong = -1
        best, second = -np.inf, -np.inf
        predicted = 0
        for c in range(k):
            if c != right and (wrong < 0 or of_class[c] > of_class[wrong]):
                wrong = c
            if of_class[c] > best:
                best, second, predicted = of_class[c], best, c
            elif of_class[c] > second:
                second = of_class[c]
        z = of_class[right] - of_class[wrong]
        loss, _ = loss_at(P[LOSS], z, 1.0, P[EPSILON])
        if scores.shape[0] > 0:
            scores[r] = z
        asked = asks(query, key, tally[ROWS], best - second)
        note(tally, loss, predicted != right, float(predicted), float(right), stop - start)
        if asked:
            tally[ASKED] += 1.0
            end = copy_row(indices, values, start, stop, right * (d + 1), 1.0, 0, bias, d, row_indices, row_values)
            end = copy_row(indices, values, start, stop, wrong * (d + 1), -1.0, end, bias, d, row_indices, row_values)
            update(row_indices, row_values, 0, end, 1.0, z, F, W, state, P)


def learn_rest(indptr, indices, values, y, order, d, bias, prior, F, W, S, P, query, key, tally, scores):
    """The same, with scalars S (k, m) of each class's own; the loss is the sum over the classes."""
    k = S.shape[0]
    part = (d + 1) * W
    longest = 0
    for r in range(order.shape[0]):
        longest = max(longest, indptr[order[r] + 1] - indptr[order[r]])
    row_indices = np.empty(longest + 1, np.int32)
    row_values = np.empty(longest + 1)
    of_class = np.empty(k)
    for r in range(order.shape[0]):
        i = order[r]
        start, stop = indptr[i], indptr[i + 1]
        right = np.int64(y[i])
        end = copy_row(indices, values, start, stop, 0, 1.0, 0, bias, d, row_indices, row_values)
        loss = 0.0
        best, second = -np.inf, -np.inf
        predicted = 0
        for c in range(k):
            of_class[c] = score(row_indices, row_values, 0, end, F[c * part : (c + 1) * part], W, S[c], P)
            if prior.shape[0] > 0:
                of_class[c] += strided_dot(row_indices, row_values, 0, end, prior[c * (d + 1) : (c + 1) * (d + 1)], 1)
            own, _ = loss_at(P[LOSS], of_class[c], 1.0 if c == right else -1.0, P[EPSILON])
            loss += own
            if of_class[c] > best:
                best, second, predicted = of_class[c], best, c
            elif of_class[c] > second:
                second = of_class[c]
        if scores.shape[0] > 0:
            scores[r] = of_class[right]
        asked = asks(query, key, tally[ROWS], best - second)
        note(tally, loss, predicted != right, float(predicted), float(right), stop - start)
        if asked:
            tally[ASKED] += 1.0
            for c in range(k):
                own = F[c * part : (c + 1) * part]
                label = 1.0 if c == right else -1.0
                update(row_indices, row_values, 0, end, label, of_class[c], own, W, S[c], P)


def read_weights(F, W, S, P, average, out):
    """Weights (or the means of what they were after each round) of all features in ``out``; S (k, m), of which each row
    has its own part of F.  Changes nothing else."""
    part = F.shape[0] // S.shape[0]
    for c in range(S.shape[0]):
        own = F[c * part : (c + 1) * part]
        for j in range(part // W):
            at = c * (part // W) + j
            out[at] = mean(j, own, W, S[c], P) if average else current(j, own, W, S[c], P)


class Loops(NamedTuple):
    """A learner's compiled loops."""

    two: object
    prototypes: object
    rest: object
    read_weights: object


@cache
def loops_of(name: str, score, update, current, mean) -> Loops:
    """Compile the loops around a learner's functions (on their first call); ``name`` is the learner's in the cache."""
    parts = {"score": score, "update": update}
    made = [
        specialised(loop, f"{loop.__name__}_{name}", **parts) for loop in (learn_two, learn_prototypes, learn_rest)
    ]
    return Loops(*made, specialised(read_weights, f"read_weights_{name}", current=current, mean=mean))

"""mira: the weights of least norm after a step that adds x to the row's class and subtracts it from others.

MIRA in its first form (Crammer, Singer: Ultraconservative online algorithms for multiclass problems, JMLR 2003, sec.
5), of k classes with vectors w_r, for a row x of class y:

    min over tau of 1/2 sum_r ||w_r + tau_r x||^2,   tau_r <= [r = y],   sum_r tau_r = 0;   w_r += tau_r x

so that tau_r = min(theta - <w_r, x> / ||x||^2, [r = y]) with the theta for which they sum to 0: the step over a row of
kernels/crammer_singer_loops.py with C = 1 from dual variables of 0.  Only classes with a score of at least the right
one's lose, and a row whose class has the highest score changes nothing.  Two classes have w and -w: w += tau y x with
tau = -y <w, x> / ||x||^2, cut off at 0 and 1.

From W = 0, of the least norm that there is, no row would move it, so the paper wants W_1 != 0 of whatever kind.  Here
the first row with entries makes it: all scores are 0, all classes but y are wrong alike, and tau_y = 1, the others -1 /
(k - 1), the uniform step of the same family (sec. 4 there); of two classes w = y x.  So W_1 depends on nothing but the
rows.
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.crammer_singer_loops import best_row
from blocksvm.kernels.loss_functions import value
from blocksvm.online.learner import AVERAGE, BIAS, Learner, Settings
from blocksvm.online.loops import best_two, copy_row, has_none, is_queried, note, of_learner
from blocksvm.online.memory import SparseRow, layout
from blocksvm.online.rule_parts import add_plain, plain_rule, plain_score, sum_of_squares

SCALAR = layout("rounds", "started")


@inlined
def mira_update(row, y, z, importance, memory):
    scalars = memory.scalars
    scalars[SCALAR.rounds] += 1.0
    q = sum_of_squares(row)
    if q == 0.0:
        return
    tau = min(max(-y * z / q, 0.0), 1.0) if scalars[SCALAR.started] != 0.0 else 1.0
    scalars[SCALAR.started] = 1.0
    if tau > 0.0:
        add_plain(row, tau * y, memory)


def learn_jointly(rows, order, d, bias, prior, memory, query, key, tally, scores):
    """The loop over rows of several classes, in the place of ``loops.learn_prototypes``; weights ``EVEN``, prior
    (0,)."""
    indptr, indices, values, y, _, _ = rows
    k = memory.columns.shape[0] // (memory.width * (d + 1))
    longest = 0
    for r in range(order.shape[0]):
        longest = max(longest, indptr[order[r] + 1] - indptr[order[r]])
    row_indices = np.empty(longest + 1, np.int64)
    row_values = np.empty(longest + 1)
    of_class, edges, steps = np.empty(k), np.empty(k), np.empty(k)
    nothing = np.zeros(k)
    state = of_learner(memory, memory.columns, 0, memory.scratch)
    scalars = state.scalars
    for r in range(order.shape[0]):
        i = order[r]
        start, stop = indptr[i], indptr[i + 1]
        end = 0
        for c in range(k):
            end = copy_row(indices, values, start, stop, c * (d + 1), 1.0, 0, bias, d, row_indices, row_values)
            of_class[c] = plain_score(SparseRow(row_indices, row_values, 0, end), state)
            if scores.shape[0] > 0:
                scores[r, c] = of_class[c]
        right = np.int64(y[i])
        if has_none(right, False):
            continue
        predicted, lead = best_two(of_class)
        z = np.inf
        for c in range(k):
            if c != right:
                z = min(z, of_class[right] - of_class[c])
        loss = value(state.loss, z, 1.0, 1.0)
        queried = is_queried(query, key, tally[0], lead)
        note(tally, loss, predicted != right, z <= 0.0, queried, float(predicted), float(right), stop - start)
        if not queried:
            continue
        scalars[SCALAR.rounds] += 1.0
        q = sum_of_squares(SparseRow(row_indices, row_values, 0, end))
        if q == 0.0:
            continue
        if scalars[SCALAR.started] != 0.0:
            best_row(of_class, nothing, right, 1.0, q, edges, steps)
        else:
            steps[:] = -1.0 / (k - 1.0)
            steps[right] = 1.0
            scalars[SCALAR.started] = 1.0
        for c in range(k):
            if steps[c] != 0.0:
                copy_row(indices, values, start, stop, c * (d + 1), 1.0, 0, bias, d, row_indices, row_values)
                add_plain(SparseRow(row_indices, row_values, 0, end), steps[c], state)


MIRA = Learner(
    name="mira",
    summary="the weights of least norm after a step from wrong classes to the right one",
    source="Crammer, Singer, JMLR 2003",
    example="mira --average",
    settings=Settings(),
    rule=plain_rule(mira_update, scalars=SCALAR, jointly=learn_jointly),
    loss="perceptron",
    takes=(AVERAGE, BIAS),
    acts_up_to=1.0,
)

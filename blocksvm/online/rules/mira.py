"""mira: the weights of least norm after a step that adds x to the row's class and subtracts it from others.

MIRA in its first form (Crammer, Singer: Ultraconservative online algorithms for multiclass problems, JMLR 2003, sec.
5), of k classes with vectors w_r, for a row x of class y:

    min over tau of 1/2 sum_r ||w_r + tau_r x||^2,   tau_r <= [r = y],   sum_r tau_r = 0;   w_r += tau_r x

so that tau_r = min(theta - <w_r, x> / ||x||^2, [r = y]) with the theta for which they sum to 0: the step over a row of
problems/crammer_singer_kernels.py with C = 1 from dual variables of 0.  Only classes with a score of at least the right
one's lose, and a row whose class has the highest score changes nothing.  Two classes have w and -w: w += tau y x with
tau = -y <w, x> / ||x||^2, cut off at 0 and 1.

From W = 0, of the least norm that there is, no row would move it, so the paper wants W_1 != 0 of whatever kind.  Here
the first row with entries makes it: all scores are 0, all classes but y are wrong alike, and tau_y = 1, the others -1 /
(k - 1), the uniform step of the same family (sec. 4 there); of two classes w = y x.  So W_1 depends on nothing but the
rows.
"""

from blocksvm.kernels import inlined
from blocksvm.online.learner import AVERAGE, BIAS, Learner, Settings
from blocksvm.online.loops import copy_row
from blocksvm.online.memory import Memory, SparseRow, layout
from blocksvm.online.rule_parts import add_plain, plain_rule, sum_of_squares
from blocksvm.problems.crammer_singer_kernels import best_row

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


@inlined
def step_of_all(right, wrong, z, importance, rows, i, d, bias, memory, work):
    """The step of all classes, in the place of ``loops.step_of_pair``."""
    indptr, indices, values, _, _ = rows
    scalars = memory.scalars[0]
    scalars[SCALAR.rounds] += 1.0
    end = copy_row(indices, values, indptr[i], indptr[i + 1], 0, 1.0, 0, bias, d, work.indices, work.values)
    row = SparseRow(work.indices, work.values, 0, end)
    q = sum_of_squares(row)
    if q == 0.0:
        return
    k = work.of_class.shape[0]
    nothing, edges, steps = work.joint[0], work.joint[1], work.joint[2]
    if scalars[SCALAR.started] != 0.0:
        best_row(work.of_class, nothing, right, 1.0, q, edges, steps)
    else:
        steps[:] = -1.0 / (k - 1.0)
        steps[right] = 1.0
        scalars[SCALAR.started] = 1.0
    for c in range(k):
        if steps[c] != 0.0:
            columns = memory.columns[c * (d + 1) * memory.width :]
            add_plain(row, steps[c], Memory(columns, memory.width, scalars, memory.parameters, memory.loss, scalars))


MIRA = Learner(
    "mira", "the weights of least norm after a step from wrong classes to the right one", "mira --average",
    "Crammer, Singer, JMLR 2003", settings=Settings(),
    rule=plain_rule(mira_update, scalars=SCALAR, jointly=step_of_all), loss="perceptron", takes=(AVERAGE, BIAS),
    acts_up_to=1.0,
)  # fmt: skip

"""fobos with the regulariser group ||w||_2, not squared: all weights shrink together, and become 0 together.

Forward-backward splitting (Duchi, Singer, JMLR 2009, section 5.3): w -= eta_t g_t, then the proximal step
    w *= max(0, 1 - eta_t group / ||w||)
which is one multiplication of the scale of gradient.py a round.  Where all of w becomes 0, it is cleared: the features
of the row alone if w was 0 before the step, else every feature.
"""

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.online.learner import DECAY, LOSS, STEP, Settings, not_negative
from blocksvm.online.rule_parts import averages, derivative_at, eta_at
from blocksvm.online.rules.gradient import COLUMN, OGD, PARAMETER, SCALAR, end_round, move

GROUP = not_negative("group", "weight of ||w||_2, not squared", 0.0)
UNREACHED = 1e150  # a radius that no w reaches, since ||w||^2 is up to date only with a finite radius


@inlined
def clear(place, memory):
    """w_j = 0; its sum so far goes to ``lagged``."""
    columns, scalars, parameters = memory.columns, memory.scalars, memory.parameters
    if averages(parameters):
        columns[place + COLUMN.lagged] -= scalars[SCALAR.sum] * columns[place + COLUMN.v]
    columns[place + COLUMN.v] = 0.0


@inlined
def group_update(row, y, z, importance, memory):
    indices, start, stop = row.indices, row.start, row.stop
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    scalars[SCALAR.rounds] += 1.0
    eta = eta_at(scalars[SCALAR.rounds], parameters)
    before = scalars[SCALAR.norm]
    factor = -eta * derivative_at(z, y, importance, memory)
    move(row, factor, memory)
    threshold = eta * parameters[PARAMETER.lam]
    length = np.sqrt(max(scalars[SCALAR.norm], 0.0))
    if length > threshold:
        shrink = 1.0 - threshold / length
        scalars[SCALAR.scale] = scalars[SCALAR.scale] * shrink
        scalars[SCALAR.norm] *= shrink * shrink
    elif threshold > 0.0 and (before != 0.0 or factor != 0.0):
        if before == 0.0:
            for k in range(start, stop):
                clear(np.int64(indices[k]) * width, memory)
        else:
            for place in range(0, columns.shape[0], width):
                clear(place, memory)
            scalars[SCALAR.sum] = 0.0
            scalars[SCALAR.scale] = 1.0
        scalars[SCALAR.norm] = 0.0
    end_round(memory)


GROUPED = OGD.like(
    settings=Settings((LOSS, STEP, DECAY, GROUP)),
    update=group_update,
    numbers=lambda settings: {"lam": settings["group"], "radius": UNREACHED},
)

"""What a loss is to the solvers and the certificate: functions of one row, from which everything else is made.

    primal  P(w) = 1/2 ||w - w0||^2 + sum_i value(z_i, y_i, c_i),    z_i = <w, x_i>
    dual    D(a) = -sum_i conjugate(a_i, y_i, c_i) - 1/2 ||u(a)||^2 - <w0, u(a)>,    u(a) = sum_i a_i direction(y_i) x_i

with w(a) = w0 + u(a), and conjugate(a, y, c) = max_z -a direction(y) z - value(z, y, c), so that for every row

    value(z) + conjugate(a) + a direction(y) z >= 0    (Fenchel, Young),

and the sum of these terms is P(w) - D(a) where w = w(a) (Rockafellar, Convex Analysis, 1970, sec. 12 and 31).

A loss is ``Loss(...)`` in a file and a line in the registry (``problems/__init__.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

from blocksvm.base.settings import Settings
from blocksvm.kernels import inlined_with, specialised
from blocksvm.kernels import loss_placeholders as placeholders

TWO_CLASSES = "two classes"  # y is -1 or +1
CLASSES = "classes"  # y is 0 .. k - 1
REAL_NUMBERS = "real numbers"


@dataclass(frozen=True, eq=False)
class Loss:
    """A loss as functions of one row, each compiled by ``kernels.inlined``.

    Their arguments: z = <w, x>; y the target, float64; c > 0 the row's cost C_i; a the row's dual variable; q = ||x||^2
    with the constant feature; p the values of the loss's own settings, a tuple in their declared order.

    value(z, y, c, p): the loss; derivative(z, y, c, p): its derivative by z, one of them where there are several.
    conjugate(a, y, c, p): as above; 0 at a = 0.
    direction(y, p): y for classes, 1 for real numbers.
    step(a, z, q, y, c, p): the a that maximises D along this coordinate, which stands at a now; q may be 0.
    stationarity(a, z, y, c, p): (projected gradient of -D, excess).  excess is the gradient of a row that stays at its
    bound, above 0 at the lower and below 0 at the upper one, and 0 for a row that can move; at a kink of D where a
    stays: by how much z may move before it leaves, above 0.
    feasible(a, y, c, p): the nearest dual variable that is allowed, for starts from another problem's end.

    Every run begins with a = 0, which must be allowed.  targets: one of the constants above; summary: one line of help;
    settings: the loss's own numbers; curvature: times c the largest second derivative by z, where the first one has no
    bound; quadratic: the conjugate is one polynomial of a, of degree 2 at most; ball: ||w*||^2 <= ball * sum C where
    that is known to hold without a prior and with every bias regularised (None: of two classes, 2 value(0) / c, since
    1/2 ||w*||^2 <= P(w*) <= P(0)).
    """

    name: str
    summary: str
    value: Callable
    derivative: Callable
    conjugate: Callable
    direction: Callable
    step: Callable
    stationarity: Callable
    feasible: Callable
    targets: str = TWO_CLASSES
    settings: Settings = Settings()
    curvature: float = 0.0
    quadratic: bool = False
    ball: float | None = None

    def compiled(self, loop: Callable) -> Callable:
        """The kernel that ``loop`` becomes with this loss's functions in the place of
        kernels/loss_placeholders.py's."""
        return _compiled(self, loop)


FUNCTIONS = ("value", "derivative", "conjugate", "direction", "step", "stationarity", "feasible")
PLACES = {getattr(placeholders, name): name for name in FUNCTIONS}


@cache
def _compiled(loss: Loss, loop: Callable) -> Callable:
    return specialised(loop, _name(loss, loop), **_parts(loss, loop, ()))


def _parts(loss: Loss, function: Callable, callers: tuple) -> dict[str, Callable]:
    """What ``function`` calls, by name, in whose place comes the loss's own: the placeholders
    (kernels/loss_placeholders.py), and functions that reach one of them, each as a copy that calls the loss's."""
    plain = getattr(function, "py_func", function)
    parts: dict[str, Callable] = {}
    for name in plain.__code__.co_names:
        called = plain.__globals__.get(name)
        own: Any = getattr(loss, PLACES[called]) if isinstance(called, FunctionType) and called in PLACES else called
        if isinstance(getattr(own, "py_func", own), FunctionType) and own not in callers:
            inner = _parts(loss, own, (*callers, own))
            own = inlined_with(own, _name(loss, own), **inner) if inner else own
            if own is not called:
                parts[name] = own
    return parts


def _name(loss: Loss, function: Callable) -> str:
    return f"{function.__name__}_{loss.name.replace('-', '_')}"

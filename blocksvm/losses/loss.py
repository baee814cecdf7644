"""The declaration of a loss: functions of one row, which solvers, learners, certificates and comparators share.

    primal  P(w) = 1/2 ||w - w0||^2 + sum_i value(z_i, y_i, c_i),    z_i = <w, x_i>
    dual    D(a) = -sum_i conjugate(a_i, y_i, c_i) - 1/2 ||u(a)||^2 - <w0, u(a)>,    u(a) = sum_i a_i direction(y_i) x_i

with w(a) = w0 + u(a), and conjugate(a, y, c) = max_z -a direction(y) z - value(z, y, c), so that for every row

    value(z) + conjugate(a) + a direction(y) z >= 0    (Fenchel, Young),

and the sum of these terms is P(w) - D(a) where w = w(a) (Rockafellar, Convex Analysis, 1970, sec. 12 and 31).

A loss is ``Loss(...)`` in a file and a line in the registry (``losses/__init__.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from blocksvm.base.settings import Settings
from blocksvm.base.user_code import object_at, place_of
from blocksvm.kernels import inlined, inlined_with, specialised
from blocksvm.kernels import loss_placeholders as placeholders

TWO_CLASSES = "two classes"  # y is -1 or +1
CLASSES = "classes"  # y is 0 .. k - 1
REAL_NUMBERS = "real numbers"


@dataclass(frozen=True, eq=False)
class Loss:
    """A loss as functions of one row, each compiled by ``kernels.inlined``, and facts about it.

    Arguments of the functions: z = <w, x>; y the target, float64, -1 or +1 of two classes; c > 0 the row's cost C_i; a
    the row's dual variable; q = ||x||^2 with the constant feature; p the values of the loss's settings, a tuple in
    their declared order.  Every loss has

    value(z, y, c, p): the loss; derivative(z, y, c, p): its derivative by z, one of them where there are several.  Both
    are nan where z is.

    The others may be None; code that needs one calls ``require`` before it starts.

    second_derivative(z, y, c, p): None for a loss with kinks.
    aware_step(z, y, q, h, p): s such that w + s x is the limit of infinitely many, infinitely small gradient steps on
    the loss of a row of importance h, for q = ||x||^2 (Karampatziakis, Langford, UAI 2011); called only where the
    derivative is not 0.
    conjugate(a, y, c, p): as above; 0 at a = 0.
    direction(y, p): y for classes, 1 for real numbers.
    step(a, z, q, y, c, p): the value that maximises D along this coordinate, from a; q may be 0.
    stationarity(a, z, y, c, p): (projected gradient of -D, excess).  excess is the gradient of a row that stays at its
    bound, above 0 at the lower and below 0 at the upper one, and 0 for a row that can move; at a kink of D where a
    stays: by how much z may move before it leaves, above 0.
    feasible(a, y, c, p): the nearest feasible dual variable, for a warm start.
    link(values): probabilities (n, 2) of the smaller and the larger label for decision values (n,), in numpy.

    Every run begins with a = 0, which must be allowed.  targets: one of the constants above; summary: one line of help;
    settings: of the loss; curvature: times c the largest second derivative by z, where the first one has no
    bound; slope_bound: times c the largest absolute derivative; zero_from: the margin y z from which on the loss is 0;
    ball: ||w*||^2 <= ball * sum C where that is known to hold without a prior and with every bias regularised (None: of
    two classes, 2 value(0) / c, since 1/2 ||w*||^2 <= P(w*) <= P(0)); judged_by: the loss by which
    regret is measured, where it is not this one; known_as: names of the loss in other programs, by program.
    """

    name: str
    summary: str
    value: Callable
    derivative: Callable
    conjugate: Callable | None = None
    direction: Callable | None = None
    step: Callable | None = None
    stationarity: Callable | None = None
    feasible: Callable | None = None
    second_derivative: Callable | None = None
    aware_step: Callable | None = None
    link: Callable[[np.ndarray], np.ndarray] | None = None
    targets: str = TWO_CLASSES
    settings: Settings = Settings()
    curvature: float = 0.0
    slope_bound: float = np.inf
    zero_from: float = np.inf
    ball: float | None = None
    judged_by: str | None = None
    known_as: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        lacking = [name for name in DUAL if getattr(self, name) is None]
        if lacking and len(lacking) < len(DUAL):
            raise TypeError(f"the loss {self.name}: its dual lacks {', '.join(lacking)}; give all of {', '.join(DUAL)}")

    def __deepcopy__(self, memo) -> Loss:
        """Itself: a loss never changes."""
        return self

    def __reduce__(self):
        """By its place, as a function is pickled."""
        return object_at, (self.place(),)

    def place(self) -> str:
        """MODULE:ATTRIBUTE, where the loss can be imported from; InputError where no module has it as an attribute."""
        return place_of(self, "loss")

    @property
    def of_numbers(self) -> bool:
        """Whether the targets are real numbers."""
        return self.targets == REAL_NUMBERS

    def parameters(self, settings: Mapping) -> tuple:
        """The values p of the loss's settings, from ``settings``, which may have others."""
        return tuple(settings[name] for name in self.settings.names())

    def compiled(self, loop: Callable) -> Callable:
        """The kernel ``loop`` with this loss's functions in the place of those of kernels/loss_placeholders.py."""
        return _compiled(self, loop)

    def inlined(self, function: Callable) -> Callable:
        """The inlined function ``function`` with this loss's functions in the place of those placeholders."""
        return _inlined(self, function)


DUAL = ("conjugate", "direction", "step", "stationarity", "feasible")
FUNCTIONS = ("value", "derivative", "second_derivative", "aware_step", *DUAL)
PLACES = {getattr(placeholders, name): name for name in FUNCTIONS}


@cache
def _compiled(loss: Loss, loop: Callable) -> Callable:
    return specialised(loop, _name(loss, loop), **_parts(loss, loop, ()))


@cache
def _inlined(loss: Loss, function: Callable) -> Callable:
    parts = _parts(loss, function, (function,))
    return inlined_with(function, _name(loss, function), **parts) if parts else function


def _parts(loss: Loss, function: Callable, callers: tuple) -> dict[str, Callable]:
    """Replacements, by name, of what ``function`` calls: for a placeholder (kernels/loss_placeholders.py) the loss's
    function, for a function that reaches a placeholder a copy that calls the loss's."""
    plain = getattr(function, "py_func", function)
    parts: dict[str, Callable] = {}
    for name in plain.__code__.co_names:
        called = plain.__globals__.get(name)
        part: Any = _part(loss, called) if isinstance(called, FunctionType) and called in PLACES else called
        if isinstance(getattr(part, "py_func", part), FunctionType) and part not in callers:
            inner = _parts(loss, part, (*callers, part))
            part = inlined_with(part, _name(loss, part), **inner) if inner else part
            if part is not called:
                parts[name] = part
    return parts


def _part(loss: Loss, placeholder: FunctionType) -> Callable:
    return getattr(loss, PLACES[placeholder]) or absent


@inlined
def absent(*arguments):
    """The stand-in for a function that a loss lacks, in loops that call it for some arguments only."""
    return np.nan


def _name(loss: Loss, function: Callable) -> str:
    return f"{function.__name__}_{loss.name.replace('-', '_')}"

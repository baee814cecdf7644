"""The declaration of a loss: functions of one row, which solvers, learners, certificates and comparators share.

    primal  P(w) = 1/2 ||w - w0||^2 + sum_i value(z_i, y_i, c_i),    z_i = <w, x_i>
    dual    D(a) = -sum_i conjugate(a_i, y_i, c_i) - 1/2 ||u(a)||^2 - <w0, u(a)>,    u(a) = sum_i a_i direction(y_i) x_i

with w(a) = w0 + u(a), and conjugate(a, y, c) = max_z -a direction(y) z - value(z, y, c), so that for every row

    value(z) + conjugate(a) + a direction(y) z >= 0    (Fenchel, Young),

and the sum of these terms is P(w) - D(a) where w = w(a) (Rockafellar, Convex Analysis, 1970, sec. 12 and 31).

A loss is a NamedTuple of its numbers with these functions as methods, a ``Loss(...)`` that declares it, and a line in
the registry (``losses/__init__.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from blocksvm.base.settings import Settings
from blocksvm.base.user_code import location_of, object_at


@dataclass(frozen=True, eq=False)
class Loss:
    """A loss and facts about it.

    form: a NamedTuple of float64 numbers whose methods are the functions of one row, in Python that numba compiles; the
    functions of kernels/loss_functions.py call them.  Arguments: z = <w, x>; y the target, float64, -1 or +1 of two
    classes; c > 0 the row's cost C_i; a the row's dual variable; q = ||x||^2 with the constant feature.  Every loss has

    value(z, y, c): the loss; derivative(z, y, c): its derivative by z, one of them where there are several.  Both are
    nan where z is.

    Code that needs one of the others calls ``require`` before it starts.

    second_derivative(z, y, c): of a loss without kinks.
    aware_step(z, y, q, h): s such that w + s x is the limit of infinitely many, infinitely small gradient steps on the
    loss of a row of importance h, for q = ||x||^2 (Karampatziakis, Langford, UAI 2011); called only where the
    derivative is not 0.
    conjugate(a, y, c): as above; 0 at a = 0.
    direction(y): y for classes, 1 for real numbers.
    step(a, z, q, y, c): the value that maximises D along this coordinate, from a; q may be 0.
    stationarity(a, z, y, c): (projected gradient of -D, excess).  excess is the gradient of a row that stays at its
    bound, above 0 at the lower and below 0 at the upper one, and 0 for a row that can move; at a kink of D where a
    stays: by how much z may move before it leaves, above 0.
    feasible(a, y, c): the nearest feasible dual variable, for a warm start.

    Every run begins with a = 0, which must be allowed.  link(values): probabilities (n, 2) of the smaller and the
    larger label for decision values (n,), in numpy.  ball: ||w*||^2 <= ball * sum C where that is known to hold without
    a prior and with every bias regularised (None: of two classes, 2 value(0) / c, as 1/2 ||w*||^2 <= P(w*) <= P(0)).
    """

    name: str
    summary: str  # one line of help
    form: Callable[..., Any]
    settings: Settings = Settings()
    numbers: Callable[[Mapping], tuple] | None = None  # of ``form``, by settings; None: the settings in their order
    lacks: tuple[str, ...] = ()  # methods of ``form`` that do not hold with these numbers
    link: Callable[[np.ndarray], np.ndarray] | None = None
    of_numbers: bool = False  # targets are real numbers, else two classes
    curvature: float = 0.0  # times c the largest second derivative by z, where the first one has no bound
    slope_bound: float = np.inf  # times c the largest absolute derivative
    zero_from: float = np.inf  # the margin y z from which on the loss is 0
    ball: float | None = None
    judged_by: str | None = None  # the loss by which regret is measured, where it is not this one
    known_as: Mapping[str, Any] = field(default_factory=dict)  # its names in other programs, by program

    def __post_init__(self):
        lacking = [name for name in DUAL if not self.has(name)]
        if lacking and len(lacking) < len(DUAL):
            raise TypeError(f"the loss {self.name}: its dual lacks {', '.join(lacking)}; give all of {', '.join(DUAL)}")

    def __deepcopy__(self, memo) -> Loss:
        """Itself: a loss never changes."""
        return self

    def __reduce__(self):
        """By its location, as a function is pickled; InputError where no module has it as an attribute."""
        return object_at, (location_of(self, "loss"),)

    def has(self, name: str) -> bool:
        """Whether it has a function, or a link."""
        if name == "link":
            return self.link is not None
        return name not in self.lacks and hasattr(self.form, name)

    def at(self, settings: Mapping) -> Any:
        """The loss at these settings, which may hold others: a ``form``, as kernels take it."""
        if self.numbers is not None:
            return self.form(*self.numbers(settings))
        return self.form(*(float(settings[name]) for name in self.settings.names()))


DUAL = ("conjugate", "direction", "step", "stationarity", "feasible")

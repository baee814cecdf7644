"""The losses whose dual is quadratic in a box: eight losses of one formula.

At a distance t, which is 1 - y z for classes, and |z - y| - epsilon for numbers, the loss is 0 up to t = 0, then a
parabola of the given curvature until it has the given slope, then a line (Huber, Annals of Mathematical Statistics 35,
1964):

    value(t) = max over 0 <= a <= U of  a t - D a^2 / 2,    D = 1 / (curvature c),  U = slope c

so that the dual variable has the bound U and the dual the diagonal D (Hsieh, Chang, Lin, Keerthi, Sundararajan, ICML
2008, Table 1; Ho, Lin, JMLR 13, 2012, eq. 6).  Without a parabola, as the hinge loss, the curvature is inf, and without
a line the slope.  With G, the derivative of -D(a), the step of coordinate descent is a <- a - G / (||x||^2 + D),
clipped to its bounds.
"""

from typing import NamedTuple

import numpy as np

from blocksvm.base.settings import Setting, Settings
from blocksvm.kernels import inlined
from blocksvm.losses.loss import Loss


@inlined
def value_at(t, c, curvature, slope):
    """The loss at a distance t; 0 also where t is below 0."""
    if t <= 0.0:
        return 0.0
    if t <= slope / curvature:
        return 0.5 * c * curvature * (t * t)
    return c * slope * (t - 0.5 * (slope / curvature))


@inlined
def slope_at(t, curvature, slope):
    """The derivative of the loss over c at a distance t > 0."""
    rising = curvature * t
    return slope if rising > slope else rising


@inlined
def advance(t, q, h, curvature, slope):
    """How far the importance-aware step of a row at a distance t > 0 goes: at the speed slope until the parabola
    begins, then as the squared loss has it (Karampatziakis, Langford, UAI 2011, Table 1)."""
    beyond = max(t - slope / curvature, 0.0)
    needed = beyond / (q * slope)
    if h <= needed:
        return h * slope
    return (beyond - min(t, slope / curvature) * np.expm1((needed - h) * q * curvature)) / q


class Margin(NamedTuple):
    """A loss of two classes, at the distance 1 - y z."""

    curvature: float
    slope: float

    def value(self, z, y, c):
        return value_at(1.0 - y * z, c, self.curvature, self.slope)

    def derivative(self, z, y, c):
        t = 1.0 - y * z
        return 0.0 if t <= 0.0 else -c * y * slope_at(t, self.curvature, self.slope)

    def second_derivative(self, z, y, c):
        return c * self.curvature if 0.0 < 1.0 - y * z <= self.slope / self.curvature else 0.0

    def aware_step(self, z, y, q, h):
        return y * advance(1.0 - y * z, q, h, self.curvature, self.slope)

    def conjugate(self, a, y, c):
        return a * a / (2.0 * self.curvature * c) - a

    def direction(self, y):
        """w gains a y x."""
        return y

    def stationarity(self, a, z, y, c):
        """(projected gradient, gradient of a row that stays at its bound)."""
        gradient = y * z - 1.0 + a / (self.curvature * c)
        if a == 0.0:
            return min(gradient, 0.0), max(gradient, 0.0)
        if a == self.slope * c:
            return max(gradient, 0.0), min(gradient, 0.0)
        return gradient, 0.0

    def step(self, a, z, q, y, c):
        """Without entries and without a diagonal the gradient is -1 everywhere."""
        diagonal = 1.0 / (self.curvature * c)
        if q + diagonal > 0.0:
            gradient = y * z - 1.0 + diagonal * a
            return min(max(a - gradient / (q + diagonal), 0.0), self.slope * c)
        return self.slope * c

    def feasible(self, a, y, c):
        return min(max(a, 0.0), self.slope * c)


class Tube(NamedTuple):
    """A loss of numbers, at the distance |z - y| - epsilon."""

    curvature: float
    slope: float
    epsilon: float

    def value(self, z, y, c):
        return value_at(abs(z - y) - self.epsilon, c, self.curvature, self.slope)

    def derivative(self, z, y, c):
        t = abs(z - y) - self.epsilon
        return 0.0 if t <= 0.0 else slope_at(t, self.curvature, self.slope) * (c if z > y else -c)

    def second_derivative(self, z, y, c):
        t = abs(z - y) - self.epsilon
        return c * self.curvature if (t > 0.0 or self.epsilon == 0.0) and t <= self.slope / self.curvature else 0.0

    def aware_step(self, z, y, q, h):
        step = advance(abs(y - z) - self.epsilon, q, h, self.curvature, self.slope)
        return step if y > z else -step

    def conjugate(self, a, y, c):
        return self.epsilon * abs(a) + a * a / (2.0 * self.curvature * c) - a * y

    def direction(self, y):
        """w gains a x."""
        return 1.0

    def stationarity(self, a, z, y, c):
        """(projected gradient, gradient of a row at a bound, or, at the kink a = 0, its distance to the tube)."""
        gradient = z - y + a / (self.curvature * c)
        right = gradient + self.epsilon  # the derivative of -D on the right of a
        left = gradient - self.epsilon  # and on its left, where a = 0
        if a == 0.0:
            if right < 0.0:
                return right, 0.0
            if left > 0.0:
                return left, 0.0
            return 0.0, min(right, -left)
        if a > 0.0:
            if a == self.slope * c:
                return max(right, 0.0), min(right, 0.0)
            return right, 0.0
        if a == -self.slope * c:
            return min(left, 0.0), max(left, 0.0)
        return left, 0.0

    def step(self, a, z, q, y, c):
        """To the minimiser on the side of 0 where it lies, or to 0 (Ho, Lin, JMLR 13, 2012, Alg. 4); one of the bounds,
        or 0, if the row has no entries and the dual no diagonal."""
        diagonal, bound = 1.0 / (self.curvature * c), self.slope * c
        curvature = q + diagonal
        gradient = z - y + diagonal * a
        right = gradient + self.epsilon
        left = gradient - self.epsilon
        if curvature == 0.0:
            return bound if right < 0.0 else -bound if left > 0.0 else 0.0
        new = 0.0
        if right < curvature * a:
            new = a - right / curvature
        elif left > curvature * a:
            new = a - left / curvature
        return min(max(new, -bound), bound)

    def feasible(self, a, y, c):
        bound = self.slope * c
        return min(max(a, -bound), bound)


class Perceptron(NamedTuple):
    """c max(0, -y z) (Rosenblatt, Psychological Review 65, 1958), for online learners: an objective with it is least at
    w = 0, so it has no dual here.  Regret is measured by the hinge loss, which bounds it and counts the mistakes of
    w = 0.  It has no numbers."""

    def value(self, z, y, c):
        return 0.0 if y * z > 0.0 else -c * y * z

    def derivative(self, z, y, c):
        """-c y at a margin of 0, too."""
        return 0.0 if y * z > 0.0 else -c * y


EPSILON = Settings((Setting("epsilon", "largest error that costs nothing", 0.1, least=0.0),))


def box(name: str, summary: str, form: type, *numbers: float | str, settings: Settings = Settings(),
        ball: float | None = None, liblinear: tuple[str, ...] = (), **sklearn: str) -> Loss:  # fmt: skip
    """The loss of a form with these numbers, curvature and slope first; a name stands for the setting of that name.
    What they say of the loss is declared with it; liblinear, sklearn: its names there, of the latter by class."""
    curvature, slope = numbers[0], np.inf if isinstance(numbers[1], str) else numbers[1]
    return Loss(
        name, summary, form, settings,
        numbers=lambda values: tuple(float(values[one]) if isinstance(one, str) else one for one in numbers),
        lacks=("second_derivative",) if curvature == np.inf else (),
        of_numbers=form is Tube,
        curvature=curvature if slope == np.inf else 0.0,
        slope_bound=slope,
        zero_from=1.0 if form is Margin else np.inf,
        ball=ball,
        known_as={"LIBLINEAR": liblinear, "scikit-learn": sklearn},
    )  # fmt: skip


# ball: by strong duality, ||w*||^2 <= sum a* <= sum C (Pegasos, section 2.1)
HINGE = box(
    "hinge", "C max(0, 1 - m): support vector machine", Margin, np.inf, 1.0, ball=1.0,
    liblinear=("L2R_L1LOSS_SVC_DUAL", "MCSVM_CS"), LinearSVC="hinge", SGDClassifier="hinge",
)  # fmt: skip
SQUARED_HINGE = box(
    "squared-hinge", "C max(0, 1 - m)^2: support vector machine with squared slacks", Margin, 2.0, np.inf,
    liblinear=("L2R_L2LOSS_SVC_DUAL", "L2R_L2LOSS_SVC", "L1R_L2LOSS_SVC"),
    LinearSVC="squared_hinge", SGDClassifier="squared_hinge",
)  # fmt: skip
EPSILON_INSENSITIVE = box(
    "epsilon-insensitive", "C max(0, |z - y| - epsilon): support vector regression", Tube, np.inf, 1.0, "epsilon",
    settings=EPSILON, liblinear=("L2R_L1LOSS_SVR_DUAL",),
    LinearSVR="epsilon_insensitive", SGDRegressor="epsilon_insensitive",
)  # fmt: skip
SQUARED_EPSILON_INSENSITIVE = box(
    "squared-epsilon-insensitive", "C max(0, |z - y| - epsilon)^2: least squares outside of a tube",
    Tube, 2.0, np.inf, "epsilon", settings=EPSILON, liblinear=("L2R_L2LOSS_SVR_DUAL", "L2R_L2LOSS_SVR"),
    LinearSVR="squared_epsilon_insensitive", SGDRegressor="squared_epsilon_insensitive",
)  # fmt: skip
SQUARED = box(
    "squared", "C (z - y)^2 / 2: ridge regression", Tube, 1.0, np.inf, 0.0,
    SGDRegressor="squared_error", SGDClassifier="squared_error",
)  # fmt: skip
ABSOLUTE = box(
    "absolute", "C |z - y|: regression to the median", Tube, np.inf, 1.0, 0.0, SGDRegressor="epsilon_insensitive"
)
HUBER = box(
    "huber", "C (z - y)^2 / 2 up to an error of delta, linear beyond: regression with outliers",
    Tube, 1.0, "delta", 0.0, SGDRegressor="huber",
    settings=Settings((Setting("delta", "error from which on the loss is linear", 1.0, above=0.0),)),
)  # fmt: skip
PERCEPTRON = Loss(
    "perceptron", "C max(0, -m): mistakes by how far they are wrong", Perceptron, slope_bound=1.0, zero_from=0.0,
    judged_by="hinge", known_as={"scikit-learn": {"SGDClassifier": "perceptron"}},
)  # fmt: skip

"""omd: online mirror descent with the Euclidean, the entropic or a p-norm map.

theta -= g_t, w = the mirror map of theta, with one number that all features share:

Euclidean (the same as OGD with a constant step):
    w = eta theta
Entropic, EG+- of radius U (Kivinen, Warmuth, Inf. and Comp. 1997):
    w_j = U (e^(eta theta_j) - e^(-eta theta_j)) / Z,  Z = sum_k (e^(eta theta_k) + e^(-eta theta_k))
p-norm, p >= 2 (Gentile, Machine Learning 2003):
    w_j = eta sign(theta_j) |theta_j|^(p-1) / ||theta||_p^(p-2)

The last two are w_j = factor f(theta_j) with a factor that all features share.  The numbers of a feature are
f(theta_j), theta_j and its term of the sum in the factor.
"""

from collections.abc import Mapping

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.kernels import inlined, with_parts
from blocksvm.kernels.rows import value_at
from blocksvm.online.learner import LARGEST, LOSS, STEP, Setting, Settings, positive
from blocksvm.online.memory import layout, parameters, unsigned
from blocksvm.online.rule_parts import LAST_ALONE, derivative_at
from blocksvm.online.rules.gradient import OGD, scaled_current, scaled_score

COLUMN = layout("value", "theta", "part")
AT = unsigned(COLUMN)
# total: Z or ||theta||_p^p in units of the shift; peak: its largest value since it was last recomputed
SCALAR = layout("rounds", "total", "peak", "shift")
PARAMETER = parameters("radius", "p", "n_features", "rate")  # rate: of the entropic map the step, else 1

RENEW = 1 << 16  # rounds after which the total, which drifts by rounding, is recomputed
HEADROOM = 30.0  # by which exponents may exceed the shift
# The p-norm's |theta| may exceed the shift by this factor, and by less for a large p: powers of it must not overflow.
POWER_HEADROOM, LARGEST_POWER = 1024.0, 300.0
FADED = 0.25  # below this fraction of its peak the total, then a difference of large numbers, is recomputed


@inlined
def entropic_value(theta, scalars, parameters):
    """(e^a - e^-a with the sign of theta, e^a + e^-a, the feature's term of Z) at a = |eta theta|, in units of e^shift;
    by expm1, since small differences would cancel."""
    a = abs(parameters[PARAMETER.rate] * theta)
    large, change = np.exp(a - scalars[SCALAR.shift]), np.expm1(-2.0 * a)
    return np.copysign(large * -change, theta), large * (2.0 + change)


@inlined
def entropic_others(n, scalars, parameters):
    """The terms of Z of the features without a gradient so far, all but n."""
    return 2.0 * (parameters[PARAMETER.n_features] - n) * np.exp(-scalars[SCALAR.shift])


@inlined
def entropic_factor(scalars, parameters):
    total, most = scalars[SCALAR.total], 2.0 * parameters[PARAMETER.n_features]
    return parameters[PARAMETER.radius] / (total if total > 0.0 else most)


@inlined
def entropic_most(scalars, parameters):
    """The largest |theta| that the current shift allows."""
    return (scalars[SCALAR.shift] + HEADROOM) / parameters[PARAMETER.step]


@inlined
def power_value(theta, scalars, parameters):
    """(sign |theta|^(p-1), |theta|^p), theta in units of the shift."""
    size = abs(theta) / scalars[SCALAR.shift]
    value = size if parameters[PARAMETER.p] == 2.0 else size ** (parameters[PARAMETER.p] - 1.0)
    return np.copysign(value, theta), value * size


@inlined
def power_others(n, scalars, parameters):
    return 0.0


@inlined
def power_factor(scalars, parameters):
    step, total = parameters[PARAMETER.step] * scalars[SCALAR.shift], scalars[SCALAR.total]
    return step / total ** (1.0 - 2.0 / parameters[PARAMETER.p]) if total > 0.0 else 0.0


@inlined
def power_most(scalars, parameters):
    return scalars[SCALAR.shift] * min(POWER_HEADROOM, np.exp(LARGEST_POWER / parameters[PARAMETER.p]))


# -- the learner's functions, in which ``functions_of`` replaces those of a map

value_of, others, factor_of, most_of = entropic_value, entropic_others, entropic_factor, entropic_most


def settle(memory):
    """Recompute the total in units of a new shift, the largest |rate theta|."""
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    largest = 0.0
    for slot in range(0, columns.shape[0], width):
        largest = max(largest, abs(parameters[PARAMETER.rate] * columns[slot + COLUMN.theta]))
    scalars[SCALAR.shift] = largest
    total = 0.0
    n = 0.0
    for slot in range(0, columns.shape[0], width):
        if columns[slot + COLUMN.theta] != 0.0:
            value, part = value_of(columns[slot + COLUMN.theta], scalars, parameters)
            columns[slot + COLUMN.value], columns[slot + COLUMN.part] = value, part
            total += part
            n += 1.0
        else:
            columns[slot + COLUMN.value] = 0.0
    scalars[SCALAR.total] = scalars[SCALAR.peak] = total + others(n, scalars, parameters)


def update(row, y, z, importance, memory):
    indices, values, start, stop = row
    columns, width, scalars, parameters = memory.columns, memory.width, memory.scalars, memory.parameters
    if scalars[SCALAR.total] == 0.0:  # every theta is 0
        scalars[SCALAR.total] = scalars[SCALAR.peak] = others(0.0, scalars, parameters)
    scalars[SCALAR.rounds] += 1.0
    g = derivative_at(z, y, importance, memory)
    if g != 0.0:
        start, stop, width_of = np.uint64(start), np.uint64(stop), np.uint64(width)
        largest = 0.0
        for k in range(start, stop):
            after = columns[np.uint64(indices[k]) * width_of + AT.theta] - g * value_at(values, k)
            largest = max(largest, abs(after))
        fits = largest <= most_of(scalars, parameters)
        if fits:
            # a feature's term of the total before its first change
            _, unseen = value_of(0.0, scalars, parameters)
            change = 0.0
            for k in range(start, stop):
                slot = np.uint64(indices[k]) * width_of
                before = columns[slot + AT.theta]
                after = before - g * value_at(values, k)
                value, part = value_of(after, scalars, parameters)
                change += part - (columns[slot + AT.part] if before != 0.0 else unseen)
                columns[slot + AT.value], columns[slot + AT.theta], columns[slot + AT.part] = value, after, part
            scalars[SCALAR.total] += change
        else:
            for k in range(start, stop):
                columns[np.uint64(indices[k]) * width_of + AT.theta] -= g * value_at(values, k)
        scalars[SCALAR.peak] = max(scalars[SCALAR.peak], scalars[SCALAR.total])
        if not fits or scalars[SCALAR.total] < FADED * scalars[SCALAR.peak]:
            settle(memory)
    if scalars[SCALAR.rounds] % RENEW == 0.0:
        settle(memory)


def functions_of(name: str, value, others, factor, most) -> dict:
    """The learner's functions, with these of a map; it has no mean."""
    parts = {"value_of": value, "others": others, "factor_of": factor, "most_of": most}
    parts |= with_parts(name, parts, settle)
    score, changed, current = with_parts(name, parts, scaled_score, update, scaled_current).values()
    return {"score": score, "update": changed, "current": current, "mean": current}


MIRROR = Setting("mirror", "the mirror map", "euclidean", kind=str, choices=("euclidean", "entropic", "p-norm"))
BALL = positive("radius", "keep the weights in the ball ||w||_1 <= B", 1.0, metavar="B")
P = Setting("p", "p of the p-norm map", 2.0, least=2.0, most=LARGEST)
N_FEATURES = Setting("n_features", "number of features, those that never occur included (a store knows it)", kind=int,
                     least=1, most=2**62)  # fmt: skip


def all_counted(settings: dict, known: Mapping) -> dict:
    """The settings, checked, since Z counts every feature: InputError where their number is unknown, or too small."""
    n, occurring = settings["n_features"], known.get("n_features", 0)
    if n is None:
        raise InputError(
            f"omd {option('mirror', 'entropic')} needs {option('n_features')}: how many features there are"
        )
    if n < occurring:
        raise InputError(f"{option('n_features', n)}: the rows have {occurring:,} features; give that many or more")
    return settings


MAPPED = OGD.like(
    "omd", "online mirror descent with a Euclidean, an entropic or a p-norm map",
    "omd --mirror p-norm --p 10 --step 0.1", "Shalev-Shwartz 2012, section 2.7; Kivinen, Warmuth 1997; Gentile 2003",
)  # fmt: skip
EUCLIDEAN = MAPPED.like(
    settings=Settings((LOSS, MIRROR, STEP)), numbers=lambda settings: {"lam": 0.0, "radius": np.inf}
)
ENTROPIC_MAP = MAPPED.like(
    settings=Settings((LOSS, MIRROR, STEP, BALL, N_FEATURES)),
    **functions_of("entropic", entropic_value, entropic_others, entropic_factor, entropic_most),
    columns=COLUMN, scalars=SCALAR, parameters=PARAMETER, numbers=lambda settings: {"p": 0.0, "rate": settings["step"]},
    initial=lambda settings: {}, complete=all_counted, takes=LAST_ALONE,
)  # fmt: skip
P_NORM_MAP = ENTROPIC_MAP.like(
    settings=Settings((LOSS, MIRROR, STEP, P)),
    **functions_of("power", power_value, power_others, power_factor, power_most),
    numbers=lambda settings: {"radius": 0.0, "n_features": 0.0, "rate": 1.0}, complete=lambda settings, known: settings,
)  # fmt: skip
OMD = MAPPED.like(
    settings=Settings((LOSS, MIRROR, STEP, BALL, P, N_FEATURES)), takes=LAST_ALONE,
    variants={"euclidean": EUCLIDEAN, "entropic": ENTROPIC_MAP, "p-norm": P_NORM_MAP},
)  # fmt: skip

"""auto: two learners without settings side by side, nag and coin; the better one so far predicts each row.

nag on the squared hinge (nag.py) and coin betting on the hinge (coin.py), both on the squared loss if labels are
numbers, learn from every row.  Each is charged its mistakes, or its squared errors, times the row's importance.  The
weights are those of the one charged less, nag's if both are even (follow the leader: Shalev-Shwartz, Online learning
and online convex optimization, 2012, section 2.2).  The mean is over the weights so chosen in each round.

The numbers of a feature are nag's, then coin's, so that both are in one cache line; the scalars those of auto, nag and
coin.  The settings as numbers serve both: coin's wealth follows what all learners have.
"""

import numpy as np

from blocksvm.kernels import inlined, inlined_with
from blocksvm.kernels.rows import products, value_at
from blocksvm.losses import get_loss
from blocksvm.online.learner import NUMBERS, Learner, Rule, Settings
from blocksvm.online.memory import Memory, layout, parameters
from blocksvm.online.rule_parts import ROUNDS, averages
from blocksvm.online.rules.coin import COIN, coin_update
from blocksvm.online.rules.nag import AT, NAG, nag_current, nag_mean, nag_update, scale_with, to_shares

SCALAR = layout("rounds", "nag_charged", "coin_charged", "of_nag", "of_coin")  # of_: the scores of the last row
PARAMETER = parameters("wealth", "real")

# first positions of the two learners' numbers
NAG_SCALARS = len(SCALAR)
COIN_SCALARS = NAG_SCALARS + len(NAG.rule.scalars)
COIN_COLUMNS = len(NAG.rule.columns) - NAG.rule.columns.n_averaging
coin_mean = COIN.rule.mean


@inlined
def coin_position(parameters):
    return COIN_COLUMNS + 1 if averages(parameters) else COIN_COLUMNS


@inlined
def nag_leads(scalars):
    return scalars[SCALAR.nag_charged] <= scalars[SCALAR.coin_charged]


@inlined
def charge(z, y, importance, parameters):
    if parameters[PARAMETER.real] != 0.0:
        return importance * (z - y) * (z - y)
    return importance if y * z <= 0.0 else 0.0


@inlined
def auto_score(row, memory):
    """<w, x> of the leader; both scores go to the scalars, in one sweep of the row, and nag's X_j to the scratch."""
    indices, values, start, stop = row
    columns, width, scalars, parameters, _, scratch = memory
    n, begin = np.uint64(stop - start), np.uint64(start)
    of_coin, first = 0.0, np.uint64(coin_position(parameters))
    for k in range(n):
        slot = np.uint64(indices[begin + k]) * np.uint64(width)
        x = value_at(values, begin + k)
        scratch[k] = scale_with(x, slot, columns)
        scratch[n + k] = columns[slot + AT.scaled]
        of_coin += x * columns[slot + first]
    to_shares(values, begin, n, scratch)
    of_nag = products(scratch, np.uint64(0), n, n)
    scalars[SCALAR.of_nag], scalars[SCALAR.of_coin] = of_nag, of_coin
    return of_nag if nag_leads(scalars) else of_coin


NAG_LOSS = COIN_LOSS = None  # ``update_with`` puts theirs in their place


@inlined
def auto_update(row, y, z, importance, memory):
    columns, width, scalars, parameters, loss, scratch = memory
    first = coin_position(parameters)
    scalars[SCALAR.rounds] += 1.0
    of_nag, of_coin = scalars[SCALAR.of_nag], scalars[SCALAR.of_coin]
    # z includes a prior model's part, which is the same for both
    if nag_leads(scalars):
        of_nag, of_coin = z, of_coin + (z - of_nag)
    else:
        of_nag, of_coin = of_nag + (z - of_coin), z
    scalars[SCALAR.nag_charged] += charge(of_nag, y, importance, parameters)
    scalars[SCALAR.coin_charged] += charge(of_coin, y, importance, parameters)
    nag_update(row, y, of_nag, importance, Memory(columns, width, scalars[NAG_SCALARS:], parameters, NAG_LOSS, scratch))
    own = Memory(columns[first:], width, scalars[COIN_SCALARS:], parameters, COIN_LOSS, scratch)
    coin_update(row, y, of_coin, importance, own)
    # only the rounds with its weights count for a learner, so that its sums for the average are of these alone
    if nag_leads(scalars):
        scalars[COIN_SCALARS + ROUNDS] -= 1.0
    else:
        scalars[NAG_SCALARS + ROUNDS] -= 1.0


@inlined
def auto_current(j, memory):
    if nag_leads(memory.scalars):
        return nag_current(j, memory)
    return memory.columns[j * memory.width + coin_position(memory.parameters)]


@inlined
def auto_mean(j, memory):
    columns, width, scalars, parameters, loss, scratch = memory
    of_nag = Memory(columns, width, scalars[NAG_SCALARS:], parameters, loss, scratch)
    of_coin = Memory(columns[coin_position(parameters) :], width, scalars[COIN_SCALARS:], parameters, loss, scratch)
    total = of_nag.scalars[ROUNDS] * nag_mean(j, of_nag) + of_coin.scalars[ROUNDS] * coin_mean(j, of_coin)
    return total / max(1.0, memory.scalars[SCALAR.rounds])


def update_with(nag_loss: str, coin_loss: str):
    parts = {"NAG_LOSS": get_loss(nag_loss).at({}), "COIN_LOSS": get_loss(coin_loss).at({})}
    return inlined_with(auto_update, f"auto_update_{nag_loss}", **parts)


def numbers_with(real: float):
    numbers = {"step": NAG.settings["step"].default, "wealth": COIN.settings["wealth"].default, "real": real}
    return lambda settings: numbers


def of_numbers(learner: Learner) -> Learner:
    update = update_with("squared", "squared")
    return learner.like(loss="squared", update=update, numbers=numbers_with(1.0), targets={})


def named(one: Learner, other: Learner, layout_of, first=()):
    """The layout of both learners' numbers, those for averages last."""
    parts = [(f"{learner.name}_", layout_of(learner.rule)) for learner in (one, other)]
    ends = [len(own) - own.n_averaging for _, own in parts]
    both = list(zip(parts, ends, strict=True))
    return layout(
        *first, *(prefix + name for (prefix, own), end in both for name in own._fields[:end]),
        averaging=tuple(prefix + name for (prefix, own), end in both for name in own._fields[end:]),
    )  # fmt: skip


AUTO = Learner(
    "auto", "nag and coin side by side, following the better one so far: no tuning", "auto",
    "Ross, Mineiro, Langford, UAI 2013; Orabona, Pal, NIPS 2016", settings=Settings(),
    rule=Rule(
        auto_score, update_with("squared-hinge", "hinge"), auto_current, auto_mean,
        columns=named(NAG, COIN, lambda rule: rule.columns),
        scalars=named(NAG, COIN, lambda rule: rule.scalars, SCALAR._fields), parameters=PARAMETER,
        numbers=numbers_with(0.0), scratch=NAG.rule.scratch,
        initial=lambda settings: {f"coin_{name}": value for name, value in COIN.rule.initial(settings).items()},
    ),
    targets={NUMBERS: of_numbers},
)  # fmt: skip

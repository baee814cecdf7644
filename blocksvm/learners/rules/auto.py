"""auto: two learners that need no tuning side by side; of each row's two predictions that of the better one so far.

nag on the squared hinge (nag.py) and coin betting on the hinge (coin.py), both on the squared loss where labels are
numbers, see every row; each is charged its mistakes, or its squared errors, times the row's importance.  The weights are
those of the one that has been charged less, nag's as long as both are even (follow the leader: Shalev-Shwartz, Online
learning and online convex optimization, 2012, section 2.2).  The mean is that of the weights so chosen after each round.

A feature's numbers are nag's, then coin's; so are the scalars and the settings as numbers, behind those of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from blocksvm.kernels import inlined
from blocksvm.kernels.prefetch import products, value_at
from blocksvm.learners.engine.layout import layout, parameters
from blocksvm.learners.engine.learner import NUMBERS, Kept, Learner, Settings
from blocksvm.learners.engine.rule_parts import ROUNDS, averages
from blocksvm.learners.rules.coin import COIN, coin_mean, coin_update
from blocksvm.learners.rules.nag import (
    AT,
    NAG,
    NAG_ROOM,
    keep_shares,
    nag_current,
    nag_mean,
    nag_product,
    nag_update_kept,
    scale_with,
    shares_of,
)

# of_nag, of_coin: what the two make of the row that was scored last, which had ``entries``
SCALAR = layout("rounds", "nag_charged", "coin_charged", "of_nag", "of_coin", "entries")
PARAMETER = parameters(
    "real", *(f"nag_{n}" for n in NAG.parameters._fields), *(f"coin_{n}" for n in COIN.parameters._fields)
)

# where the two learners' own begin
NAG_SCALARS, NAG_PARAMETERS = len(SCALAR), PARAMETER.nag_average
COIN_SCALARS, COIN_PARAMETERS = NAG_SCALARS + len(NAG.scalars), NAG_PARAMETERS + len(NAG.parameters)
COIN_COLUMNS = len(NAG.columns) - NAG.columns.n_averaging


@inlined
def coin_place(parameters):
    """Of coin's numbers among a feature's."""
    return COIN_COLUMNS + 1 if averages(parameters) else COIN_COLUMNS


@inlined
def nag_leads(scalars):
    return scalars[SCALAR.nag_charged] <= scalars[SCALAR.coin_charged]


@inlined
def charge(z, y, importance, parameters):
    """What a prediction costs."""
    if parameters[PARAMETER.real] != 0.0:
        return importance * (z - y) * (z - y)
    return importance if y * z <= 0.0 else 0.0


@inlined
def score_both(indices, values, start, stop, columns, width, scalars, parameters):
    """<w, x> by either learner's weights, in one sweep of the row, kept among the scalars."""
    of_nag, of_coin, place_of_coin = 0.0, 0.0, np.uint64(coin_place(parameters))
    for k in range(np.uint64(start), np.uint64(stop)):
        place = np.uint64(indices[k]) * np.uint64(width)
        x = value_at(values, k)
        of_nag += nag_product(x, place, columns)
        of_coin += x * columns[place + place_of_coin]
    scalars[SCALAR.of_nag], scalars[SCALAR.of_coin], scalars[SCALAR.entries] = of_nag, of_coin, stop - start


@inlined
def keep_both(indices, values, start, stop, columns, width, scalars, parameters, room):
    """The same, with what nag's update needs of the row kept in ``room``."""
    n, begin = np.uint64(stop - start), np.uint64(start)
    of_coin, place_of_coin = 0.0, np.uint64(coin_place(parameters))
    for k in range(n):
        place = np.uint64(indices[begin + k]) * np.uint64(width)
        x = value_at(values, begin + k)
        room[k] = scale_with(x, place, columns)
        room[n + k] = columns[place + AT.scaled]
        of_coin += x * columns[place + place_of_coin]
    keep_shares(values, begin, n, room)
    of_nag = products(room, np.uint64(0), n, n)
    scalars[SCALAR.of_nag], scalars[SCALAR.of_coin], scalars[SCALAR.entries] = of_nag, of_coin, stop - start


@inlined
def auto_score_kept(indices, values, start, stop, columns, width, scalars, parameters, room):
    keep_both(indices, values, start, stop, columns, width, scalars, parameters, room)
    return scalars[SCALAR.of_nag] if nag_leads(scalars) else scalars[SCALAR.of_coin]


@inlined
def auto_score(indices, values, start, stop, columns, width, scalars, parameters):
    score_both(indices, values, start, stop, columns, width, scalars, parameters)
    return scalars[SCALAR.of_nag] if nag_leads(scalars) else scalars[SCALAR.of_coin]


@inlined
def auto_update_kept(indices, values, start, stop, y, z, importance, columns, width, scalars, parameters, room):
    scalars[SCALAR.rounds] += 1.0
    of_nag, of_coin = scalars[SCALAR.of_nag], scalars[SCALAR.of_coin]
    # z has a prior model's part, too, which is the same for both
    if nag_leads(scalars):
        of_nag, of_coin = z, of_coin + (z - of_nag)
    else:
        of_nag, of_coin = of_nag + (z - of_coin), z
    scalars[SCALAR.nag_charged] += charge(of_nag, y, importance, parameters)
    scalars[SCALAR.coin_charged] += charge(of_coin, y, importance, parameters)
    own = scalars[NAG_SCALARS:]
    nag_update_kept(
        indices, values, start, stop, y, of_nag, importance, columns, width, own, parameters[NAG_PARAMETERS:], room
    )  # fmt: skip
    theirs = scalars[COIN_SCALARS:]
    coin_update(
        indices, values, start, stop, y, of_coin, importance, columns[coin_place(parameters) :], width, theirs,
        parameters[COIN_PARAMETERS:],
    )  # fmt: skip
    # a learner's rounds are those whose weights were its own: so its sums for the average are of these alone
    if nag_leads(scalars):
        theirs[ROUNDS] -= 1.0
    else:
        own[ROUNDS] -= 1.0


@inlined
def auto_update(indices, values, start, stop, y, z, importance, columns, width, scalars, parameters):
    if scalars[SCALAR.entries] != stop - start:  # a row made of two, as for more than two classes: it was not scored
        score_both(indices, values, start, stop, columns, width, scalars, parameters)
    room = shares_of(indices, values, start, stop, columns, width)
    auto_update_kept(indices, values, start, stop, y, z, importance, columns, width, scalars, parameters, room)


@inlined
def auto_current(j, columns, width, scalars, parameters):
    if nag_leads(scalars):
        return nag_current(j, columns, width, scalars, parameters)
    return columns[j * width + coin_place(parameters)]


@inlined
def auto_mean(j, columns, width, scalars, parameters):
    own, theirs = scalars[NAG_SCALARS:], scalars[COIN_SCALARS:]
    place = coin_place(parameters)
    total = own[ROUNDS] * nag_mean(j, columns, width, own, parameters)
    total += theirs[ROUNDS] * coin_mean(j, columns[place:], width, theirs, parameters)
    return total / max(1.0, scalars[SCALAR.rounds])


@dataclass(frozen=True, kw_only=True)
class Together(Learner):
    """members: (learner, its settings) of those that it is made of."""

    members: tuple[tuple[Learner, Mapping], ...]

    def packed(self, settings: Mapping, average: bool) -> list[float]:
        theirs = [
            number for learner, given in self.members for number in learner.packed(learner.resolve(given), average)
        ]
        return super().packed(settings, average)[: -len(theirs)] + theirs


def of_numbers(learner: Learner) -> Learner:
    members = tuple((member.of_targets(NUMBERS), {"loss": "squared"}) for member, _ in learner.members)
    return learner.like(loss="squared", numbers=lambda settings: {"real": 1.0}, members=members, for_numbers=None)


AUTO = Together(
    name="auto",
    summary="nag and coin side by side, following the better one so far: no tuning",
    source="Ross, Mineiro, Langford, UAI 2013; Orabona, Pal, NIPS 2016",
    example="auto",
    settings=Settings(),
    for_numbers=of_numbers,
    fades=("nag_squares", "coin_theta", "coin_total"),
    fading_scalars=("nag_charged", "coin_charged"),
    score=auto_score,
    update=auto_update,
    kept=Kept(auto_score_kept, auto_update_kept, int(NAG_ROOM)),
    current=auto_current,
    mean=auto_mean,
    columns=layout(
        *(f"nag_{name}" for name in NAG.columns._fields[:COIN_COLUMNS]),
        *(f"coin_{name}" for name in COIN.columns._fields[: len(COIN.columns) - COIN.columns.n_averaging]),
        averaging=("nag_lagged", "coin_lagged"),
    ),
    scalars=layout(
        *SCALAR._fields,
        *(f"nag_{name}" for name in NAG.scalars._fields),
        *(f"coin_{name}" for name in COIN.scalars._fields),
    ),
    parameters=PARAMETER,
    numbers=lambda settings: {"real": 0.0},
    initial_scalars={f"coin_{name}": value for name, value in COIN.initial_scalars.items()},
    members=((NAG, {"loss": "squared-hinge"}), (COIN, {"loss": "hinge"})),
)  # fmt: skip

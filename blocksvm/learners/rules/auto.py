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

from blocksvm.kernels import inlined, inlined_with
from blocksvm.kernels.prefetch import products, value_at
from blocksvm.learners.engine.layout import layout, parameters
from blocksvm.learners.engine.learner import NUMBERS, Kept, Learner, Settings
from blocksvm.learners.engine.rule_parts import ROUNDS, averages, part_of_memory, with_scratch
from blocksvm.learners.rules.coin import COIN, coin_mean, coin_update
from blocksvm.learners.rules.nag import (
    AT,
    NAG,
    NAG_SCRATCH,
    keep_shares,
    nag_current,
    nag_mean,
    nag_product,
    nag_update_kept,
    scale_with,
    shares_of,
)
from blocksvm.losses import get_loss

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
def memory_of_nag(memory):
    return part_of_memory(memory, 0, NAG_SCALARS, NAG_PARAMETERS)


@inlined
def memory_of_coin(memory):
    return part_of_memory(memory, coin_place(memory.parameters), COIN_SCALARS, COIN_PARAMETERS)


@inlined
def score_both(row, memory):
    """<w, x> by either learner's weights, in one sweep of the row, kept among the scalars."""
    indices, values, start, stop = row
    columns, width, scalars = memory.columns, memory.width, memory.scalars
    of_nag, of_coin, place_of_coin = 0.0, 0.0, np.uint64(coin_place(memory.parameters))
    for k in range(np.uint64(start), np.uint64(stop)):
        place = np.uint64(indices[k]) * np.uint64(width)
        x = value_at(values, k)
        of_nag += nag_product(x, place, columns)
        of_coin += x * columns[place + place_of_coin]
    scalars[SCALAR.of_nag], scalars[SCALAR.of_coin], scalars[SCALAR.entries] = of_nag, of_coin, stop - start


@inlined
def keep_both(row, memory):
    """The same, with what nag's update needs of the row left in the scratch."""
    indices, values, start, stop = row
    columns, width, scalars, room = memory.columns, memory.width, memory.scalars, memory.scratch
    n, begin = np.uint64(stop - start), np.uint64(start)
    of_coin, place_of_coin = 0.0, np.uint64(coin_place(memory.parameters))
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
def auto_score_kept(row, memory):
    keep_both(row, memory)
    scalars = memory.scalars
    return scalars[SCALAR.of_nag] if nag_leads(scalars) else scalars[SCALAR.of_coin]


@inlined
def auto_score(row, memory):
    score_both(row, memory)
    scalars = memory.scalars
    return scalars[SCALAR.of_nag] if nag_leads(scalars) else scalars[SCALAR.of_coin]


@inlined
def auto_update_kept(row, y, z, importance, memory):
    scalars, parameters = memory.scalars, memory.parameters
    scalars[SCALAR.rounds] += 1.0
    of_nag, of_coin = scalars[SCALAR.of_nag], scalars[SCALAR.of_coin]
    # z has a prior model's part, too, which is the same for both
    if nag_leads(scalars):
        of_nag, of_coin = z, of_coin + (z - of_nag)
    else:
        of_nag, of_coin = of_nag + (z - of_coin), z
    scalars[SCALAR.nag_charged] += charge(of_nag, y, importance, parameters)
    scalars[SCALAR.coin_charged] += charge(of_coin, y, importance, parameters)
    nag_update_kept(row, y, of_nag, importance, memory_of_nag(memory))
    coin_update(row, y, of_coin, importance, memory_of_coin(memory))
    # a learner's rounds are those whose weights were its own: so its sums for the average are of these alone
    if nag_leads(scalars):
        scalars[COIN_SCALARS + ROUNDS] -= 1.0
    else:
        scalars[NAG_SCALARS + ROUNDS] -= 1.0


@inlined
def auto_update(row, y, z, importance, memory):
    if (
        memory.scalars[SCALAR.entries] != row.stop - row.start
    ):  # a row made of two, as for more than two classes: it was not scored
        score_both(row, memory)
    auto_update_kept(row, y, z, importance, with_scratch(memory, shares_of(row, memory)))


@inlined
def auto_current(j, memory):
    if nag_leads(memory.scalars):
        return nag_current(j, memory)
    return memory.columns[j * memory.width + coin_place(memory.parameters)]


@inlined
def auto_mean(j, memory):
    of_nag, of_coin = memory_of_nag(memory), memory_of_coin(memory)
    total = of_nag.scalars[ROUNDS] * nag_mean(j, of_nag)
    total += of_coin.scalars[ROUNDS] * coin_mean(j, of_coin)
    return total / max(1.0, memory.scalars[SCALAR.rounds])


def updates(nag_loss: str, coin_loss: str) -> dict:
    """The two updates, each member with its loss."""
    parts = {
        "nag_update_kept": get_loss(nag_loss).inlined(nag_update_kept),
        "coin_update": get_loss(coin_loss).inlined(coin_update),
    }
    kept = inlined_with(auto_update_kept, f"auto_update_kept_{nag_loss}", **parts)
    update = inlined_with(auto_update, f"auto_update_{nag_loss}", auto_update_kept=kept)
    return {"update": update, "kept": Kept(auto_score_kept, kept, int(NAG_SCRATCH))}


@dataclass(frozen=True, kw_only=True, eq=False)
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
    return learner.like(
        loss="squared", numbers=lambda settings: {"real": 1.0}, members=members, for_numbers=None,
        **updates("squared", "squared"),
    )  # fmt: skip


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
    **updates("squared-hinge", "hinge"),
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

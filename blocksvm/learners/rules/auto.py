"""auto: two learners without settings side by side, nag and coin; the better one so far predicts each row.

nag on the squared hinge (nag.py) and coin betting on the hinge (coin.py), both on the squared loss if labels are
numbers, learn from every row.  Each is charged its mistakes, or its squared errors, times the row's importance.  The
weights are those of the one charged less, nag's if both are even (follow the leader: Shalev-Shwartz, Online learning
and online convex optimization, 2012, section 2.2).  The mean is over the weights so chosen in each round.

The numbers of a feature are nag's, then coin's.  So are the scalars and the settings as numbers, after those of auto.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from blocksvm.kernels import inlined, inlined_with
from blocksvm.kernels.prefetch import products, value_at
from blocksvm.learners.engine.layout import layout, parameters
from blocksvm.learners.engine.learner import NUMBERS, Cached, Learner, Settings
from blocksvm.learners.engine.rule_parts import ROUNDS, averages, part_of_memory, with_scratch
from blocksvm.learners.rules.coin import COIN, coin_mean, coin_update
from blocksvm.learners.rules.nag import (
    AT,
    NAG,
    NAG_SCRATCH,
    nag_current,
    nag_mean,
    nag_product,
    nag_update_cached,
    scale_with,
    shares_of,
    to_shares,
)
from blocksvm.losses import get_loss

# of_nag, of_coin: the scores of the last row, which had ``entries`` entries
SCALAR = layout("rounds", "nag_charged", "coin_charged", "of_nag", "of_coin", "entries")
PARAMETER = parameters(
    "real", *(f"nag_{n}" for n in NAG.parameters._fields), *(f"coin_{n}" for n in COIN.parameters._fields)
)

# first positions of the two learners' numbers
NAG_SCALARS, NAG_PARAMETERS = len(SCALAR), PARAMETER.nag_average
COIN_SCALARS, COIN_PARAMETERS = NAG_SCALARS + len(NAG.scalars), NAG_PARAMETERS + len(NAG.parameters)
COIN_COLUMNS = len(NAG.columns) - NAG.columns.n_averaging


@inlined
def coin_place(parameters):
    """The position of coin's numbers in a feature's."""
    return COIN_COLUMNS + 1 if averages(parameters) else COIN_COLUMNS


@inlined
def nag_leads(scalars):
    return scalars[SCALAR.nag_charged] <= scalars[SCALAR.coin_charged]


@inlined
def charge(z, y, importance, parameters):
    """The charge for a prediction."""
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
    """Write <w, x> of both learners to the scalars, in one sweep of the row."""
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
def cache_both(row, memory):
    """``score_both``, which leaves what nag's update needs in the scratch."""
    indices, values, start, stop = row
    columns, width, scalars, scratch = memory.columns, memory.width, memory.scalars, memory.scratch
    n, begin = np.uint64(stop - start), np.uint64(start)
    of_coin, place_of_coin = 0.0, np.uint64(coin_place(memory.parameters))
    for k in range(n):
        place = np.uint64(indices[begin + k]) * np.uint64(width)
        x = value_at(values, begin + k)
        scratch[k] = scale_with(x, place, columns)
        scratch[n + k] = columns[place + AT.scaled]
        of_coin += x * columns[place + place_of_coin]
    to_shares(values, begin, n, scratch)
    of_nag = products(scratch, np.uint64(0), n, n)
    scalars[SCALAR.of_nag], scalars[SCALAR.of_coin], scalars[SCALAR.entries] = of_nag, of_coin, stop - start


@inlined
def auto_score_cached(row, memory):
    cache_both(row, memory)
    scalars = memory.scalars
    return scalars[SCALAR.of_nag] if nag_leads(scalars) else scalars[SCALAR.of_coin]


@inlined
def auto_score(row, memory):
    score_both(row, memory)
    scalars = memory.scalars
    return scalars[SCALAR.of_nag] if nag_leads(scalars) else scalars[SCALAR.of_coin]


@inlined
def auto_update_cached(row, y, z, importance, memory):
    scalars, parameters = memory.scalars, memory.parameters
    scalars[SCALAR.rounds] += 1.0
    of_nag, of_coin = scalars[SCALAR.of_nag], scalars[SCALAR.of_coin]
    # z includes a prior model's part, which is the same for both
    if nag_leads(scalars):
        of_nag, of_coin = z, of_coin + (z - of_nag)
    else:
        of_nag, of_coin = of_nag + (z - of_coin), z
    scalars[SCALAR.nag_charged] += charge(of_nag, y, importance, parameters)
    scalars[SCALAR.coin_charged] += charge(of_coin, y, importance, parameters)
    nag_update_cached(row, y, of_nag, importance, memory_of_nag(memory))
    coin_update(row, y, of_coin, importance, memory_of_coin(memory))
    # only the rounds with its weights count for a learner, so that its sums for the average are of these alone
    if nag_leads(scalars):
        scalars[COIN_SCALARS + ROUNDS] -= 1.0
    else:
        scalars[NAG_SCALARS + ROUNDS] -= 1.0


@inlined
def auto_update(row, y, z, importance, memory):
    # a row made of two, as with more than two classes, has not been scored
    if memory.scalars[SCALAR.entries] != row.stop - row.start:
        score_both(row, memory)
    auto_update_cached(row, y, z, importance, with_scratch(memory, shares_of(row, memory)))


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
    """The updates with the losses of the two members."""
    parts = {
        "nag_update_cached": get_loss(nag_loss).inlined(nag_update_cached),
        "coin_update": get_loss(coin_loss).inlined(coin_update),
    }
    cached = inlined_with(auto_update_cached, f"auto_update_cached_{nag_loss}", **parts)
    update = inlined_with(auto_update, f"auto_update_{nag_loss}", auto_update_cached=cached)
    return {"update": update, "cached": Cached(auto_score_cached, cached, int(NAG_SCRATCH))}


@dataclass(frozen=True, kw_only=True, eq=False)
class Together(Learner):
    """A learner made of others; members: (learner, its settings) of each."""

    members: tuple[tuple[Learner, Mapping], ...]

    def packed(self, settings: Mapping, average: bool) -> list[float]:
        numbers = [
            number for learner, chosen in self.members for number in learner.packed(learner.resolve(chosen), average)
        ]
        return super().packed(settings, average)[: -len(numbers)] + numbers


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

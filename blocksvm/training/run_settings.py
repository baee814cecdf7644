"""The settings that belong to every training run, whatever its solver; imports nothing heavy."""

import math
from dataclasses import dataclass

from blocksvm.base.memory import DURATION, MEMORY, SettingWithUnit
from blocksvm.base.settings import SEED, Setting, Settings

ROUNDING = "rounding"  # the status of a run that double precision lets certify no more
FREE = "free"  # the bias that is not regularised
PARTITIONS = ("redrawn", "fixed")
ORDERS = ("shuffled", "stored")


@dataclass(frozen=True)
class Bias(Setting):
    """A number of 0 or more, or 'free'."""

    def checked(self, value):
        return value if value == FREE else super().checked(value)


RUN_SETTINGS = Settings((
    Bias("bias", "append a constant feature of value B (0: none), or free: an intercept that is not regularised",
         default=0.0, least=0.0, metavar="B|free"),
    Setting("schedule", "inner passes over a block: auto, N, tol:EPS or overlap", default="auto", kind=str),
    Setting("working_set", "rows kept in memory between readings: auto, none, or a fraction of the memory",
            default="auto", kind=str, metavar="auto|none|FRACTION"),
    Setting("partition", "blocks are redrawn at each outer iteration, or fixed", default="redrawn", kind=str,
            choices=PARTITIONS),
    Setting("block_chunks", "chunks in a block (default: as many as the memory holds)", kind=int, least=1, metavar="N"),
    Setting("order", "order of the rows: shuffled (default) or stored (the default of regret)",
            default="shuffled", kind=str, choices=ORDERS),
    MEMORY,
    SEED,
    Setting("tol", "certified relative gap at which training ends", default=1e-3, least=0.0),
    Setting("max_outer", "most outer iterations; for an online learner, epochs", kind=int, least=1, metavar="N"),
    Setting("max_passes", "most passes over each row, those over the working set not counted", kind=int, least=1,
            metavar="N"),
    SettingWithUnit(
        "max_seconds", "time limit, e.g. 600 or 10m; where it ends a run depends on the machine (default: none)",
        default=math.inf, above=0.0, infinite=True, metavar="S", units=DURATION,
    ),
))  # fmt: skip
LIMITS = ("memory", "tol", "max_outer", "max_passes", "max_seconds")  # may change when a run is resumed

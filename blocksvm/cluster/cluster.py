"""Who reads in the place of this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blocksvm.cluster.workers import Workers

TIMEOUT = 300.0  # seconds


@dataclass(frozen=True)
class Cluster:
    """workers: how they are reached; timeout: seconds that the run waits for the first of them, or for another one;
    say: of what happens to them."""

    workers: Workers
    timeout: float
    say: Callable[[str], None]

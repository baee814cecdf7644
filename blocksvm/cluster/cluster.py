"""Who reads in the place of this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from blocksvm.cluster.workers import Workers
from blocksvm.files.paths import absolute_name

TIMEOUT = 300.0  # seconds


@dataclass(frozen=True)
class Cluster:
    """workers: how they are reached; timeout: seconds that the run waits for the first of them, or for another one;
    say: of what happens to them; copies: paths at which workers may have the store nearer than at its own."""

    workers: Workers
    timeout: float
    say: Callable[[str], None]
    copies: tuple[str, ...] = ()

    def stores(self, path: str | Path) -> tuple[str, ...]:
        """As a ``Job`` has them."""
        return *self.copies, absolute_name(path)

"""Threads that share work whose result does not depend on how many they are."""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar

import numpy as np

Part = TypeVar("Part")
Result = TypeVar("Result")

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of Linux: microseconds of processors, of so many
PIECE = 1 << 17  # nonzeros of a piece of work, 0.1 to 0.3 ms: handing it to a thread costs a tenth of that


def n_processors(limit: Path = QUOTA) -> int:
    """Processors that this process may use: those that it is bound to, and no more than a container's share of time."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no such file, or no limit
        quota, period = limit.read_text().split()
        n = min(n, max(1, math.ceil(int(quota) / int(period))))
    return n


class Threads:
    """``n`` threads, None: as many as the process has processors; started with the first work that can be shared, which
    must release the GIL.  piece: nonzeros of a piece of work."""

    def __init__(self, n: int | None = 1, piece: int = PIECE):
        self.wanted, self.piece = n, piece
        self.pool: ThreadPoolExecutor | None = None

    @cached_property
    def n(self) -> int:
        return n_processors() if self.wanted is None else self.wanted

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception) -> None:
        """End the threads; others are started with the next work."""
        if self.pool is not None:
            self.pool.shutdown()
            self.pool = None

    def map(self, work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
        """``work(part)`` of each, in the order of the parts."""
        if len(parts) < 2 or self.n == 1:
            return [work(part) for part in parts]
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.n, thread_name_prefix="blocksvm-worker")
        return list(self.pool.map(work, parts))

    def over_rows(self, work: Callable[[slice], None], indptr: np.ndarray, factor: int = 1) -> None:
        """``work(rows)`` for slices that together are all rows of a matrix; factor: operations a nonzero."""
        self.map(work, slices(indptr, max(1, self.piece // factor)))


ALONE = Threads()  # the thread that calls, and no other


def slices(ends: np.ndarray, each: int) -> list[slice]:
    """Slices of rows of about ``each`` nonzeros, or a longer row; ends (n + 1,): nonzeros up to each row."""
    inner = np.searchsorted(ends, np.arange(int(ends[0]) + each, int(ends[-1]), each))
    bounds = np.unique([0, *inner.tolist(), len(ends) - 1]).tolist()
    return [slice(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]

"""How many processors this process may use."""

from __future__ import annotations

import os


def n_processors() -> int:
    """Those that the process is bound to, where the system tells them (macOS does not), else the machine's."""
    bound = getattr(os, "sched_getaffinity", None)
    return len(bound(0)) if bound else os.cpu_count() or 1

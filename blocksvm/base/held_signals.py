"""Signals of the terminal, held back while processes are started."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def signals_held() -> Iterator[None]:
    """Meanwhile Ctrl-C and a closed terminal, which reach all processes of a terminal, wait; processes that are started
    now never get them, and end with the one that starts them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which lets SIGINT through when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

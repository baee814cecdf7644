"""A test that starts a process itself is marked ``process``: ``tools/test --fast`` leaves it out.  What the
package starts, such as the reader of foreign HDF5 files, needs no mark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.places import ROOT, TESTS

OURS = (f"{TESTS}{os.sep}", f"{ROOT / 'blocksvm'}{os.sep}")


def started_by_a_test() -> bool:
    """Whether the nearest caller that is ours is one of the tests."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name != __file__ and name.startswith(OURS):
            return name.startswith(OURS[0])
        frame = frame.f_back
    return False


@contextmanager
def processes_need_marks(item: pytest.Item) -> Iterator[None]:
    """While a test runs, with its fixtures, refuse what it starts without a mark."""
    if item.get_closest_marker("process"):
        yield
        return

    def checked(start):
        def checking(*arguments, **options):
            assert not started_by_a_test(), f"{item.nodeid} starts a process; mark it with @pytest.mark.process"
            return start(*arguments, **options)

        return checking

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", checked(subprocess.Popen.__init__))
        patch.setattr(os, "fork", checked(os.fork))
        yield

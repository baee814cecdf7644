"""Tests that start a process without the mark for it are refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.processes import processes_need_marks


def test_a_process_needs_a_mark(request):
    ways = (lambda: subprocess.run([sys.executable, "-c", ""]), lambda: os.fork() or os._exit(0))
    with processes_need_marks(request.node):
        for start in ways:
            with pytest.raises(AssertionError, match="mark it with @pytest.mark.process"):
                start()


@pytest.mark.process
def test_with_it_all_is_as_it_is(request):
    with processes_need_marks(request.node):
        assert subprocess.run([sys.executable, "-c", ""]).returncode == 0

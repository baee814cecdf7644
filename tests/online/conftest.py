"""Learners in plain Python."""

import pytest
from support.plain_learners import in_plain_python

from blocksvm.online import loops, runner


@pytest.fixture
def plain_loops(monkeypatch):
    """Runners of learners run their rules as they are: nothing is compiled for what a test alone needs."""
    monkeypatch.setattr(runner, "loops_of", lambda rule: in_plain_python(loops.loops_of(rule)))

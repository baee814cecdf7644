"""A small part of each campaign (tools/campaigns), and that a campaign can fail."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial

import numpy as np
import pytest
from support.campaigns import NAMES, Case, kills, memory, numbers, run_cases, shown, text
from support.campaigns.__main__ import main


def failures(cases) -> int:
    return sum(line.failures for line in run_cases(enumerate(cases), str).values())


def test_a_failing_case_is_counted_and_says_how_to_repeat_it(capsys):
    def fails(folder):
        raise AssertionError("neither old nor new")

    table = run_cases([(7, Case("a", fails)), (8, Case("a", lambda folder: "old"))], "again {}".format)
    assert (table["a"].cases, table["a"].failures) == (2, 1)
    assert "FAILED a, case 7: AssertionError: neither old nor new\n  again 7\n" in capsys.readouterr().out
    assert "| a | 2 | 1 |" in shown(table)


def test_the_same_seed_gives_the_same_cases(capsys, monkeypatch):
    import importlib

    for name in NAMES:
        campaign = importlib.import_module(f"support.campaigns.{name}")
        first, second = ([case.kind for case in campaign.cases(12, 3)] for _ in range(2))
        assert first == second and first
    monkeypatch.setattr(sys, "argv", ["campaigns", "numbers", "--cases", "1"])
    assert main() == 0
    assert "| all | 1 | 0 |" in capsys.readouterr().out


@pytest.mark.process
@pytest.mark.parametrize("work", [kills.WORKS[1], kills.WORKS[3], kills.WORKS[4], kills.WORKS[6]], ids=lambda w: w.name)
def test_killed_at_a_call_and_at_a_moment(work):
    last = kills.whole(work).calls - 1
    cases = [Case("call", partial(kills.killed, work, None, call)) for call in (0, last // 2, last)]
    assert failures([*cases, Case("moment", partial(kills.killed, work, 0.5, None))]) == 0


@pytest.mark.process
def test_a_file_that_is_neither_is_found(tmp_path, monkeypatch):
    """A command that writes under the final name at once."""
    work = kills.WORKS[7]
    kills.whole(work)
    monkeypatch.setattr(kills, "run", lambda words: (tmp_path / "p").write_text("half"))
    with pytest.raises(AssertionError, match="p is neither old nor new"):
        kills.killed(work, None, 10**6, tmp_path)


@pytest.mark.slow
def test_numbers_of_each_kind():
    assert failures(numbers.cases(24, 1)) == 0


def test_lines_of_numbers(monkeypatch):
    pytest.importorskip("sklearn")
    assert failures(text.cases(5, 1, 3000)) == 0
    monkeypatch.setattr(text, "expected", lambda word: float(word) if word.isdigit() else None)
    assert failures(text.cases(1, 1, 3000)) == 1


@pytest.mark.process
def test_memory_is_seen_in_the_whole_tree():
    """Two processes of 100 MB each, the second for a moment only; and where a cgroup can be made it kills."""
    hold = "b = bytearray(100_000_000); time.sleep(0.3)"
    code = f"import subprocess, sys, time; {hold}; subprocess.run([sys.executable, '-c', 'import time; {hold}'])"
    done, peak, _ = memory.measured([sys.executable, "-c", code], 0)
    assert done == 0 and 200_000_000 < peak < 260_000_000
    place = memory.cgroup(memory.BESIDES)
    if place is None:
        pytest.skip("no memory cgroup can be made here")
    memory.remove(place)
    done, _, _ = memory.measured([sys.executable, "-c", "b = bytearray(400_000_000)"], 0)
    assert done == -signal.SIGKILL


def test_rows_are_as_they_were_asked_for(tmp_path):
    path = memory.write_rows(tmp_path / "rows", 10, 3, 30, classes=5)
    rows = [line.split() for line in path.read_text().splitlines()]
    assert len(rows) == 10 and {row[0] for row in rows} == {f"100{k}" for k in range(5)}
    ids = np.array([[int(entry.split(":")[0]) for entry in row[1:]] for row in rows])
    assert ids.shape == (10, 3) and (np.diff(ids, axis=1) > 0).all() and os.path.getsize(path) == 10 * (4 + 36 + 1)

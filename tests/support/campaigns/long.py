"""A thousand outer iterations and a thousand saves of a stream: memory, threads and open files stay as they are.

The process is looked at every 20 ms; its resident bytes, threads and descriptors in the seventh and sixth eighth of its
time are compared with those in the third and fourth (at the end the model is written).
"""

from __future__ import annotations

import os
import subprocess
import time
from functools import partial
from pathlib import Path

import numpy as np
from support.campaigns import ROOT, Case, check_refusal, command, environment
from support.campaigns.kills import rows
from support.campaigns.memory import status_of

CASES = 3
GROWTH = 2_000_000  # bytes: of an allocator's own
THOUSAND = 1000


def checked(line: list[str]) -> np.ndarray:
    """(looks, 3): resident bytes, threads and descriptors of a command while it runs."""
    process = subprocess.Popen(
        line, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    seen = []
    while process.poll() is None:
        status = status_of(process.pid)
        try:
            descriptors = len(os.listdir(f"/proc/{process.pid}/fd"))
        except OSError:
            break
        if "VmRSS" in status:
            seen.append((status["VmRSS"], status["Threads"], descriptors))
        time.sleep(0.02)
    err = process.communicate(timeout=60)[1]
    check_refusal(process.returncode, err, 0)
    return np.array(seen)


def flat(words: tuple, folder: Path) -> str:
    (folder / "rows.svm").write_text(rows(1, 8000))
    done = subprocess.run(
        command("split", folder / "rows.svm", folder / "s.h5", "--quiet"), env=environment(), capture_output=True
    )
    assert done.returncode == 0, done.stderr
    seen = checked(command(*(str(word).format(here=folder) for word in words)))
    n = len(seen)
    second, last = seen[n // 4 : n // 2], seen[5 * n // 8 : 7 * n // 8]
    grown = last.max(axis=0) - second.max(axis=0)
    assert n > 100, f"looked at {n} times only"
    assert grown[0] <= GROWTH, f"memory grew by {grown[0] / 1e6:.1f} MB from {second[:, 0].max() / 1e6:.0f}"
    assert grown[1] <= 1 and grown[2] <= 2, f"threads and descriptors grew by {grown[1:]}"
    return f"{second[:, 0].max() / 1e6:.0f} MB, then {last[:, 0].max() / 1e6:.0f} MB; {last[:, 1].max()} threads"


def cases(n: int, seed: int) -> list[Case]:
    train = ("train", "{here}/s.h5", "{here}/m.h5", "--quiet", "--tol", "0", "--max-outer", str(THOUSAND))
    small = ("--block-chunks", "1", "--schedule", "1")
    stream = ("stream", "{here}/rows.svm", "--quiet", "--model", "{here}/m.h5", "--threads", "1")
    found = {
        "1,000 outer iterations, blocks of a chunk": (*train, *small),
        "1,000 outer iterations, with a log and checkpoints": (
            *train, *small, "--log", "{here}/t.jsonl", "--checkpoint", "{here}/c.h5", "--checkpoint-seconds", "0.02"
        ),
        "1,000 saves of a stream": (*stream, "--learner", "arow", "--save-every", "80", "--passes", "10"),
    }  # fmt: skip
    return [Case(kind, partial(flat, words)) for kind, words in found.items()][:n]

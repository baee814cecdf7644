"""SIGKILL at a random moment, and at each fsync and rename: the old file or the new one, and a run that goes on.

Each case runs a command in a child that is forked with everything loaded, and kills it: at a moment drawn from the time
that the command takes, or before or after the k-th call of fsync, rename, link or unlink (all of which the package
makes through ``os``; HDF5 makes none).  After it every output is missing (where there was none), bit for bit the old
one or bit for bit the new one, and verified under its checksums; then the same command is run again, which must end
with the bits of a run that was never killed, and leave nothing but its outputs.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401 (h5py reads Blosc through it)
import numpy as np
from support.campaigns import Case, ended, forked

from blocksvm.commands import module_of

CASES = 600
CALLS = ("fsync", "replace", "rename", "link", "unlink")
SAVE_EVERY = 150
TRAIN = ("--schedule", "2", "--block-chunks", "2", "--tol", "0", "--max-outer", "12", "--quiet")


@dataclass(frozen=True)
class Work:
    """words: of the command, for each of which ``{old}`` is a folder of inputs, and ``{here}`` that of the outputs;
    outputs: their names; before: those of which an old one lies there; again: what is added to the words of the run
    after the kill; exact: the resumed run's bits are those of the whole one."""

    name: str
    words: tuple[str, ...]
    outputs: tuple[str, ...]
    before: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


WORKS = (
    Work("split", ("split", "{old}/rows.svm", "{here}/s.h5", "--quiet"), ("s.h5",)),
    Work("split --overwrite", ("split", "{old}/rows.svm", "{here}/s.h5", "--quiet", "--overwrite"), ("s.h5",),
         ("s.h5",)),
    Work("split --holdout", ("split", "{old}/rows.svm", "{here}/s.h5", "--quiet", "--overwrite", "--holdout", "0.2",
                             "{here}/h.h5"), ("s.h5", "h.h5")),
    Work("split --append", ("split", "{old}/more.svm", "{here}/s.h5", "--append", "--drop", "oldest:10%", "--quiet"),
         ("s.h5",), ("s.h5",)),
    Work("train --checkpoint, --resume",
         ("train", "{old}/s.h5", "{here}/m.h5", *TRAIN, "--checkpoint", "{here}/c.h5", "--checkpoint-seconds", "0.02",
          "--log", "{here}/t.jsonl"), ("m.h5", "c.h5", "t.jsonl"), again=("--resume",)),
    Work("train --overwrite", ("train", "{old}/s.h5", "{here}/m.h5", *TRAIN, "--overwrite"), ("m.h5",), ("m.h5",)),
    Work("stream --save-every", ("stream", "{old}/rows.svm", "--learner", "arow", "--model", "{here}/m.h5",
                                 "--save-every", str(SAVE_EVERY), "--overwrite", "--threads", "1", "--quiet"),
         ("m.h5",), ("m.h5",)),
    Work("predict", ("predict", "{old}/m.h5", "{old}/more.svm", "{here}/p", "--overwrite", "--quiet"), ("p",), ("p",)),
)  # fmt: skip


def rows(seed: int, n: int) -> str:
    draw = np.random.default_rng(seed)
    ids = np.sort(draw.integers(0, 60, (n, 8)) * 8 + np.arange(8), axis=1)
    values = draw.integers(1, 99, (n, 8))
    labels = np.where(values[:, 0] + draw.integers(0, 40, n) > 70, 1, -1)
    return "".join(
        f"{y} " + " ".join(f"{j}:{v / 10}" for j, v in zip(own, row, strict=True)) + "\n"
        for y, own, row in zip(labels.tolist(), ids.tolist(), values.tolist(), strict=True)
    )


@cache
def inputs() -> Path:
    """The folder of inputs, made once."""
    folder = Path(tempfile.mkdtemp(prefix="campaign-kills-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "rows.svm").write_text(rows(1, 900))
    (folder / "more.svm").write_text(rows(2, 300))
    run(("split", folder / "rows.svm", folder / "s.h5", "--quiet"))
    run(("train", folder / "s.h5", folder / "m.h5", *TRAIN))
    return folder


def run(words) -> None:
    """A command in this process."""
    from blocksvm.cli import console

    module = module_of(words[0])
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            console.run(module.main, [str(word) for word in words[1:]])
    except SystemExit as end:
        if end.code:
            raise


def prepared(work: Work, here: Path) -> None:
    """Lay the old outputs there."""
    for name in work.before:
        source = {"s.h5": "s.h5", "m.h5": "m.h5"}.get(name)
        if source is None:
            (here / name).write_text("1\n")
        else:
            shutil.copyfile(inputs() / source, here / name)


def words_of(work: Work, here: Path, again: bool = False) -> list[str]:
    words = [word.format(old=inputs(), here=here) for word in work.words]
    return words + list(work.again if again else ())


@dataclass(frozen=True)
class Whole:
    """A run that was not killed: what its outputs and the old ones were, its seconds, its calls by name."""

    old: dict[str, str]
    new: dict[str, str]
    seconds: float
    calls: int


@cache
def whole(work: Work) -> Whole:
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        here = Path(name)
        prepared(work, here)
        old = {one: content(here / one) for one in work.before}
        for first in (True, False):  # with everything loaded the second time
            shutil.rmtree(here)
            here.mkdir()
            prepared(work, here)
            began = time.perf_counter()
            if first:
                run(words_of(work, here))
                continue
            counted = here / "counted"
            child = forked(partial(counting, words_of(work, here), counted))
            assert ended(child) == 0, f"{work.name} does not work"
            seconds = time.perf_counter() - began
        calls = int(counted.read_text())
        return Whole(old, {one: content(here / one) for one in work.outputs}, seconds, calls)


def counting(words: list[str], place: Path) -> None:
    seen = []
    intercept(lambda name, after: seen.append(name))
    run(words)
    place.write_text(str(len(seen)))


def intercept(at: Callable[[str, bool], None]) -> None:
    """Have ``at(name, after)`` called before and after each of ``CALLS`` of os, in this process."""
    for name in CALLS:
        plain = getattr(os, name)

        def call(*arguments, _plain=plain, _name=name, **options):
            at(_name, False)
            done = _plain(*arguments, **options)
            at(_name, True)
            return done

        setattr(os, name, call)


def kill_at(words: list[str], number: int) -> None:
    """Run a command that kills itself at the ``number``-th of those moments."""
    seen = 0

    def at(name: str, after: bool) -> None:
        nonlocal seen
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)
        seen += 1

    intercept(at)
    run(words)


def content(path: Path) -> str:
    """What a file holds, but for the seconds and paths in its description: of HDF5 its arrays, else its bytes."""
    if not path.exists():
        return ""
    digest = hashlib.sha256()
    if path.suffix == ".h5":
        with h5py.File(path) as file:

            def add(name: str, item) -> None:
                if isinstance(item, h5py.Dataset) and not name.startswith("meta"):
                    digest.update(name.encode() + np.ascontiguousarray(item[()]).tobytes())

            file.visititems(add)
    elif path.suffix == ".jsonl":
        digest.update(b"".join(trace_line(line) for line in path.read_bytes().splitlines() if b'"outer"' in line[:18]))
    else:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def trace_line(line: bytes) -> bytes:
    """Of an event of a trace what does not depend on the time."""
    import json

    event = json.loads(line)
    kept = ("outer", "primal_estimate", "dual_estimate", "rows_visited", "passes", "blocks")
    return json.dumps({name: event[name] for name in kept}).encode() if event["event"] == "outer" else b""


def verify(path: Path) -> None:
    """Every checksum of a file of ours."""
    from blocksvm.model.solver_state import verify_state
    from blocksvm.store.reader import Store

    if path.suffix != ".h5":
        return
    if path.name in ("s.h5", "h.h5"):
        with Store(path) as store:
            store.verify()
    else:
        verify_state(path)


def killed(work: Work, moment: float | None, call: int | None, folder: Path) -> str:
    """One case: moment: of the run's time, from 0 to 1; call: which of its calls."""
    reference = whole(work)
    prepared(work, folder)
    words = words_of(work, folder)
    err = folder.with_name(folder.name + ".err")
    try:
        if call is None:
            child = forked(partial(run, words), err)
            time.sleep(moment * reference.seconds)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        else:
            child = forked(partial(kill_at, words, call), err)
        code = ended(child)
        assert code in (0, -signal.SIGKILL), f"exit {code}: {err.read_text()[-300:]}"
        found = []
        for name in work.outputs:
            path = folder / name
            now = content(path) if name not in ("c.h5", "t.jsonl") else None
            if now is not None:
                known = {
                    reference.new[name]: "new",
                    reference.old.get(name, ""): "old" if name in work.before else "none",
                }
                if "--save-every" in work.words and now not in known:
                    known[now] = saved_at(path)
                assert now in known, f"{name} is neither old nor new"
                found.append(known[now])
            if path.exists():
                verify(path)
        if work.name == "split --append" and found == ["new"]:
            return "after the kill: new"  # to append once more would be to append twice
        child = forked(partial(run, words_of(work, folder, again=True) + overwriting(work, found)), err)
        code = ended(child)
        assert code == 0, f"the run after the kill: exit {code}: {err.read_text()[-300:]}"
        for name in work.outputs:
            assert content(folder / name) == reference.new[name], f"{name} is another after the next run"
            verify(folder / name)
        left = sorted(set(os.listdir(folder)) - set(work.outputs))
        assert not left, f"left behind: {left}"
        return f"after the kill: {'/'.join(found)}"
    finally:
        err.unlink(missing_ok=True)


def saved_at(path: Path) -> str:
    """Of a model that a stream has saved on its way."""
    from blocksvm.model.model_file import describe_model

    seen = describe_model(path)["progress"]["rows"]
    assert seen and seen % SAVE_EVERY == 0, f"a save of {seen} rows"
    return "a save on the way"


def overwriting(work: Work, found: list[str]) -> list[str]:
    """``--overwrite`` where the killed run had come to its end."""
    return ["--overwrite"] if "new" in found and "--overwrite" not in work.words else []


def cases(n: int, seed: int) -> list[Case]:
    draw = np.random.default_rng(seed)
    found: list[Case] = []
    for work in WORKS:
        # the calls first: one case each, as many as there are
        found += [
            Case(f"{work.name}: at each fsync, rename, link, unlink", partial(at_call, work, call))
            for call in range(24)
        ]
    found = found[: n // 2]
    while len(found) < n:
        work = WORKS[len(found) % len(WORKS)]
        found.append(Case(f"{work.name}: at a random moment", partial(killed, work, float(draw.uniform(0, 1)), None)))
    return found


def at_call(work: Work, call: int, folder: Path) -> str:
    """The call-th moment; of a command with fewer, and of a long one with more, spread over all."""
    calls = whole(work).calls
    return killed(work, None, call if calls <= 24 else call * calls // 24, folder)

"""Child processes of the harness: one run each, their figures as the last line they print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run_module(python: str | Path, module: str, *arguments: object, timeout: float | None = None) -> dict:
    """Run a module as a child process; its last line's JSON, with wall_seconds unless it tells them, or its error."""
    began = time.perf_counter()
    child = subprocess.Popen([str(python), "-m", module, *map(str, arguments)], cwd=ROOT, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        child.terminate()
        child.communicate()
        return {"error": f"not done after {timeout:g} s"}
    except BaseException:
        child.terminate()
        child.wait()
        raise
    wall = time.perf_counter() - began
    if child.returncode:
        return {"error": (err.strip().splitlines() or [f"ended with status {child.returncode}"])[-1]}
    last = (out.strip().splitlines() or ["{}"])[-1]
    try:
        return {"wall_seconds": wall} | json.loads(last)
    except ValueError:
        return {"error": f"printed no figures but: {last[:200]}"}


def must(answer: dict) -> dict:
    """The answer, unless it is an error, which ends the program."""
    if "error" in answer:
        raise SystemExit(f"tools/bench: {answer['error']}")
    return answer


def find_solvers(names: list[str], peers: Path | None) -> dict[str, dict]:
    """Where each solver can be imported: interpreter and version, or that it is not installed."""
    found = {}
    for name in names:
        module = import_module(f"experiments.solvers.{name}")
        solver = {"version": None, "missing": "not installed", "about": module.ABOUT}
        for python in filter(None, (Path(sys.executable), peers)):
            answer = run_module(python, f"experiments.solvers.{name}", "--check")
            if "error" not in answer:
                solver |= {"version": f"{module.DISTRIBUTION} {answer['version']}", "python": str(python)}
                break
        found[name] = solver
    return found


def drop_from_cache(path: Path) -> None:
    """Let the system forget a file's pages, so that the next reader reads the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_through(path: Path) -> None:
    """Bring a file into the system's cache, which may have let go of it since."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 22):
            pass


def touch_memory(n_bytes: int = 3 << 29) -> None:
    """Use memory and free it, so that what runs next finds some at hand.  A virtual machine gives back to its host what
    was free for some seconds, and gets it again at 0.3 GB a second: that says nothing of a program.  In a process of
    its own: the most memory that this one has had would be counted as that of its children."""
    subprocess.run([sys.executable, "-S", "-c", f"b'1' * {n_bytes}"], check=True)


def split(text: Path, store: Path, *more: str) -> float:
    """Make a store; wall seconds of the command."""
    command = [sys.executable, "-m", "blocksvm.split", str(text), str(store), "--overwrite", "--quiet", *more]
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def compile_kernels() -> None:
    """Split and train a few rows, of values of 1 and others, so that what is timed next finds its kernels compiled."""
    with tempfile.TemporaryDirectory() as name:
        text, store, model = (Path(name, file) for file in ("rows.svm", "rows.h5", "model.h5"))
        for value in (1, 0.5):
            text.write_text("".join(f"{i % 2} {i % 7 + 1}:{value} {i % 5 + 9}:1\n" for i in range(300)))
            split(text, store)
            train = ("blocksvm.train", store, model, "--overwrite", "--quiet")
            subprocess.run([sys.executable, "-m", *map(str, train)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def total_memory() -> int:
    """Bytes of RAM of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

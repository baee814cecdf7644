"""Limits of the machine: signals at any moment, the memory of a container, and calls that only Linux has."""

import errno
import os
import signal
import subprocess
import sys
import threading

import pytest
from support.paths import ROOT

from blocksvm.base import memory
from blocksvm.base.memory import MEMORY
from blocksvm.cli import console

WITHOUT_LINUX = """
import builtins, io, os


def not_proc(call):
    def guarded(path, *arguments, **more):
        if str(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return call(path, *arguments, **more)

    return guarded


del os.sched_getaffinity
builtins.open = io.open = not_proc(io.open)
for name in ("open", "stat", "readlink"):
    setattr(os, name, not_proc(getattr(os, name)))
from blocksvm.cli.commands import main

for line in ("split rows.svm s.h5 --memory 50MB", "train s.h5 m.h5 --memory 50MB", "predict m.h5 rows.svm p.txt"):
    try:
        main([*line.split(), "--overwrite"])
    except SystemExit as end:
        assert end.code == 0, line
"""


@pytest.mark.process
def test_commands_do_without_what_only_linux_has(tmp_path):
    lines = (f"{(-1) ** i} 1:{1 + i % 7} {2 + i % 2}:{0.5 * (-1) ** i}\n" for i in range(60))
    (tmp_path / "rows.svm").write_text("".join(lines))
    line, env = [sys.executable, "-c", WITHOUT_LINUX], os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert "certified relative gap" in done.stdout and "accuracy 1.0000" in done.stdout


@pytest.mark.process
def test_a_signal_while_kernels_are_compiled_ends_a_command(tmp_path):
    rows = tmp_path / "rows.svm"
    rows.write_text("1 1:1\n-1 2:1\n" * 20)
    line = [sys.executable, "-m", "blocksvm.split", "rows.svm", "s.h5"]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(line, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    assert any("compiling kernels" in line for line in iter(process.stderr.readline, ""))
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.splitlines()[-1].startswith("blocksvm split: interrupted")
    assert sorted(os.listdir(tmp_path)) == ["cache", "rows.svm"]


def test_a_signal_that_a_library_swallowed_is_not_lost():
    handlers = console.signals_interrupt()
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            console.catch_signals()
    finally:
        console.signals_interrupt()  # of a command that begins anew
        for number, handler in handlers.items():
            signal.signal(number, handler)


@pytest.mark.process
@pytest.mark.parametrize("body", [
    "    exec('signal.raise_signal(signal.SIGTERM)')\n",  # in code that is made from text
    # as numpy has it while it is imported
    "    try:\n        signal.raise_signal(signal.SIGTERM)\n"
    "    except BaseException as error:\n        raise ImportError('numpy') from error\n",
    "    console.show_with = lambda shown: signal.raise_signal(signal.SIGTERM)\n",  # behind the command's end
    # in a destructor, out of which nothing can be raised
    "    class Gone:\n        def __del__(self):\n            signal.raise_signal(signal.SIGTERM)\n"
    "    Gone()\n    console.catch_signals()\n",
])  # fmt: skip
def test_the_exit_status_is_130_while_libraries_are_imported_and_behind_the_end(body):
    script = f"import signal\nfrom blocksvm.cli import console\ndef main(arguments):\n{body}console.run(main, [])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 130 and "Traceback" not in done.stderr and "interrupted" in done.stderr, done.stderr


@pytest.mark.process
def test_nohup_is_respected(tmp_path):
    """SIGHUP that was ignored before the command began is ignored by it."""
    code = (
        "import os, signal, sys\nfrom blocksvm.cli.console import catch_signals, signals_interrupt\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nsignals_interrupt()\nos.kill(os.getpid(), signal.SIGHUP)\n"
        "stop = catch_signals()\nos.kill(os.getpid(), signal.SIGHUP)\nprint(stop())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """machine(available, of_process, files): a system that says so; one that says nothing has no limit."""
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "OF_PROCESS", tmp_path / "own")
    monkeypatch.setattr(memory, "OF_MACHINE", tmp_path / "meminfo")
    assert memory.memory_limit()[0] == float("inf")

    def make(available: int, own: str = "", files=()) -> None:
        (tmp_path / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable: {available // 1024} kB\n")
        (tmp_path / "own").write_text(own)
        for name, text in dict(files).items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")

    return make


@pytest.mark.parametrize(("own", "files", "expected"), [
    ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "500000000", "memory.max": "900000000"}, 500_000_000),
    ("0::/\n", {"memory.max": "400000000"}, 400_000_000),
    ("0::/of/the/host\n", {"memory.max": "400000000"}, 400_000_000),
    ("4:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": "180000000"}, 180_000_000),
    ("9:cpu,memory:/docker/1\n", {"memory/memory.limit_in_bytes": "250000000"}, 250_000_000),
    ("4:memory:/x\n", {"memory/x/memory.limit_in_bytes": "9223372036854771712"}, 2_000_000_000 // 1024 * 1024),
    ("", {}, 2_000_000_000 // 1024 * 1024),
    ("nonsense", {"memory.max": "1"}, 2_000_000_000 // 1024 * 1024),
])  # fmt: skip
def test_the_limit_of_a_container_is_found(machine, own, files, expected):
    machine(2_000_000_000, own, files)
    assert memory.memory_limit()[0] == expected


def test_a_budget_that_does_not_fit_is_told(machine, capsys):
    machine(8_000_000_000, "0::/\n", {"memory.max": "500000000"})
    parser = console.Parser("train", "")
    parser.add("the machine", MEMORY)
    parser.parse_args(["--memory", "200MB"])
    parser.parse_args(["--quiet"])
    assert capsys.readouterr().err == ""
    parser.parse_args([])
    told = capsys.readouterr().err
    assert told == (
        "warning: --memory 1000MB, and some 300MB for the program besides, are more than the memory cgroup (the "
        "container) allows, which is 500MB: the system may end this command without a word; give --memory 200MB or "
        "less\n"
    )
    machine(8_000_000_000, "0::/\n", {"memory.max": "180000000"})
    parser.parse_args([])
    assert capsys.readouterr().err.endswith("is 180MB: the system may end this command without a word; give it more\n")
    machine(1_024_000_000)
    parser.parse_args(["--memory", "800MB"])
    assert "than the machine has left, which is 1024MB" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "code", "sentence"), [
    (OSError(errno.EACCES, "no", "rows.svm"), 2, "rows.svm: no; allow it, or choose another location"),
    (OSError(errno.EROFS, "no", "rows.svm"), 2, "rows.svm: no; choose another location"),
    (OSError(errno.ENOSPC, "no", "rows.svm"), 2, "rows.svm: no; free some space or choose another location"),
    (OSError(errno.EIO, "no", "rows.svm"), 1, "rows.svm: no; check the disk or the connection, and run it again"),
    (ImportError("libhdf5.so.320: failed to map segment", name="h5py"), 1,
     "a library cannot be loaded (libhdf5.so.320: failed to map segment); install it again"),
    (RuntimeError("can't start new thread"), 1, "the system starts no further thread; lower --threads"),
    (ImportError("cannot import name", name="blocksvm.base"), None, "a fault of ours, and no sentence"),
    (RuntimeError("another"), None, "a fault of ours, and no sentence"),
])  # fmt: skip
def test_what_a_machine_does_not_give_ends_a_command_with_a_sentence(run_in_process, error, code, sentence):
    def main(arguments):
        raise error

    if code is None:
        with pytest.raises(type(error)):
            console.run(main, [])
    else:
        done = run_in_process(main)
        assert (done.code, done.err.count("\n")) == (code, 1) and sentence in done.last_line


def test_a_stream_ends_where_no_thread_starts(tmp_path, run_in_process, monkeypatch):
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n" * 10)
    begun, start = [], threading.Thread.start

    def start_one(thread):
        if thread.name.startswith("blocksvm-parse"):
            begun.append(thread)
            if len(begun) > 1:
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    done = run_in_process("stream", tmp_path / "rows.svm", "--learner", "pa1", "--threads", "2", "--quiet")
    assert done.code == 1 and "the system starts no further thread" in done.last_line
    begun[0].join(5)
    assert not begun[0].is_alive()

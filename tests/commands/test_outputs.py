"""Outputs: what is replaced and what is not, devices and links, two runs at once, what killed runs leave."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.training_cases import command, quick_model

from blocksvm.base.errors import InputError
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.files.input import named_errors
from blocksvm.files.output import check_output, written_text, written_whole


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1 2:3\n-1 2:1\n" * 20)
    return path


def test_a_pipe_is_written_into(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    check_output(pipe, False, "predictions")
    with written_text(pipe, False) as file:
        file.write("1\n-1\n")
    reader.join(10.0)
    assert got == ["1\n-1\n"]
    for kind in ("store", "model", "checkpoint"):
        with pytest.raises(InputError, match="pipe: is no regular file, so it is not replaced; give the name of a f"):
            check_output(pipe, True, kind)
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.process
def test_predictions_go_to_standard_output_under_its_other_name(store, tmp_path):
    quick_model(tmp_path / "m.h5")
    done = command(tmp_path / "m.h5", store, "/dev/stdout", "--quiet", module="predict")
    assert done.returncode == 0 and set(done.stdout.splitlines()[:200]) == {"1", "-1"}


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path, text):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "s.h5", tmp_path / "there" / "real.h5"
    link.symlink_to(target)
    split_rows([str(text)], link)
    first = target.read_bytes()
    assert link.is_symlink()
    with pytest.raises(InputError, match="exists already"):
        split_rows([str(text)], link)
    split_rows([str(text)], link, SplitSettings(overwrite=True, seed=1))
    assert link.is_symlink()
    assert target.read_bytes() != first
    assert os.listdir(tmp_path / "there") == ["real.h5"]
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match="loop: cannot be looked at .Too many levels"):
        check_output(loop, True, "store")
    nowhere = tmp_path / "nowhere"
    nowhere.symlink_to(tmp_path / "no" / "s.h5")
    with pytest.raises(InputError, match="does not exist; make it first"):
        check_output(nowhere, True, "store")


def test_of_two_runs_at_once_the_later_one_fails(tmp_path, text):
    path = tmp_path / "s.h5"
    with written_whole(path, False) as file:
        file.write(b"the first one")
        with pytest.raises(InputError, match=r"s\.h5: is being made by another run now"):
            split_rows([str(text)], path)
    assert path.read_bytes() == b"the first one"
    # and where it was whole before the other one was
    with pytest.raises(InputError, match="new: was made by another run meanwhile"), \
            written_whole(tmp_path / "new", False) as file:  # fmt: skip
        (tmp_path / "new").write_bytes(b"whole")
    assert (tmp_path / "new").read_bytes() == b"whole"
    assert sorted(os.listdir(tmp_path)) == ["new", "rows.svm", "s.h5"]


def test_a_file_system_without_locks(tmp_path, text, monkeypatch):
    def refused(*arguments):
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refused)
    split_rows([str(text)], tmp_path / "s.h5")
    (tmp_path / ".x.partial").write_text("half of what a killed run was writing")
    with written_whole(tmp_path / "x") as file:
        file.write(b"x")
    assert (tmp_path / "x").read_bytes() == b"x"
    assert sorted(os.listdir(tmp_path)) == ["rows.svm", "s.h5", "x"]


@pytest.mark.parametrize("name", ["a" * 230, "ä" * 110, "with (brackets) [and] more+"])
def test_any_name_that_is_allowed_can_be_written(tmp_path, name):
    check_output(tmp_path / name, False)
    with written_whole(tmp_path / name, False) as file:
        file.write(b"x")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("call", ["pwrite", "fsync", "close", "replace"])
@pytest.mark.parametrize("kind", ["store", "text"])
def test_a_fault_while_writing_is_told_with_the_files_name(tmp_path, text, monkeypatch, call, kind):
    """Each call fails once, the first time that it concerns the output; the old file stays."""
    path = tmp_path / "out"
    if kind == "store":
        split_rows([str(text)], path)
    else:
        path.write_text("old")
    before = path.read_bytes()
    real, failed = getattr(os, call), []

    def failing(target, *arguments):
        if not failed and (call == "replace" or ".partial" in os.readlink(f"/proc/self/fd/{target}")):
            failed.append(target)
            if call == "close":
                real(target)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(target, *arguments)

    def write() -> None:
        if kind == "store":
            split_rows([str(text)], path, SplitSettings(overwrite=True, seed=3))
        else:
            with written_text(path) as file:
                file.write("new")

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(OSError, match="Input/output error") as raised:
        write()
    monkeypatch.undo()
    assert failed
    assert (raised.value.errno, raised.value.filename) == (errno.EIO, str(path))
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["out", "rows.svm"]


def test_of_two_new_stores_none_is_there_where_one_fails(tmp_path, text, monkeypatch):
    first, second, real = tmp_path / "a.h5", tmp_path / "b.h5", os.replace

    def failing(source, target) -> None:
        if str(target) == str(second):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="Input/output error"):
        split_rows([str(text)], first, SplitSettings(holdout=0.5), second)
    assert os.listdir(tmp_path) == ["rows.svm"]


def test_errors_of_the_system_keep_names_of_their_own(tmp_path):
    with pytest.raises(OSError, match="elsewhere"), named_errors(tmp_path / "m.h5"):
        raise OSError(errno.EACCES, "denied", "elsewhere")
    hdf5 = "Can't write data (file write failed: time = now, filename = 'x', errno = 28, error message = 'No space')"
    with pytest.raises(OSError, match="No space left on device") as raised, named_errors(tmp_path / "m.h5"):
        raise OSError(hdf5)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(tmp_path / "m.h5"))


@pytest.mark.process
def test_the_log_of_a_run_killed_before_its_first_checkpoint_is_begun_anew(store, tmp_path):
    log, checkpoint = tmp_path / "trace.jsonl", tmp_path / "run.ckpt"
    options = [store, tmp_path / "m.h5", "--log", log, "--checkpoint", checkpoint, "--resume", "--quiet"]
    log.write_text('{"event": "start", "C": 7.0}\n{"event": "outer", "outer": 1, "pri')  # what a kill leaves
    done = command(*options)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [event["event"] for event in events].count("start") == 1
    assert events[0]["C"] == 1.0
    assert events[-1]["event"] == "end"
    # what is no trace is not begun anew
    (tmp_path / "m.h5").unlink()
    checkpoint.unlink()
    log.write_text("precious\n")
    done = command(*options)
    assert done.returncode == 2
    assert "is not a trace written by blocksvm" in done.stderr
    assert log.read_text() == "precious\n"


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux tells a process' threads")
@pytest.mark.parametrize("given", [None, "2"])
def test_a_command_has_no_threads_of_the_linear_algebra_unless_it_is_told_to(given):
    program = """
import os
from blocksvm.cli import console

def main(arguments):
    import numpy
    numpy.ones(100_000) @ numpy.ones(100_000)
    print(os.environ["OPENBLAS_NUM_THREADS"], len(os.listdir("/proc/self/task")))

console.run(main, [])
"""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENBLAS_", "OMP_"))}
    more = {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=kept | more, check=True)
    asked, threads = done.stdout.split()
    assert asked == given or (asked, threads) == ("1", "1")

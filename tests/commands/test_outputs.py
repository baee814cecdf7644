"""Outputs: what is replaced and what is not, devices, links, two runs at once, full disks, what killed runs leave.
Inputs are the same ones for the whole of a run: a file that is replaced in between is never read as a mix."""

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.file_cases import unheard
from support.paths import GOLDEN
from support.stream_cases import text_of
from support.training_cases import command, make_store, random_rows

from blocksvm.base.errors import InputError
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.files import paths
from blocksvm.files.input import named_errors, open_input
from blocksvm.files.output import JsonLines, check_output, written_text, written_whole
from blocksvm.files.paths import one_run
from blocksvm.model.model_file import load_model

FULL = Path("/dev/full")  # a disk without room, as Linux has it


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
def test_predictions_go_to_standard_output_under_its_other_name(store):
    done = command(GOLDEN / "model.h5", store, "/dev/stdout", "--quiet", module="predict")
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
    assert link.is_symlink() and target.read_bytes() != first
    assert os.listdir(tmp_path / "there") == ["real.h5"]
    for name, to, says in (("loop", "loop", "loop: cannot be looked at .Too many levels"),
                           ("nowhere", "no/s.h5", "does not exist; make it first")):  # fmt: skip
        (tmp_path / name).symlink_to(tmp_path / to)
        with pytest.raises(InputError, match=says):
            check_output(tmp_path / name, True, "store")


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
    assert failed and path.read_bytes() == before
    assert (raised.value.errno, raised.value.filename) == (errno.EIO, str(path))
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


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has such a device")
@pytest.mark.parametrize("name", ["train", "stream"])
def test_a_full_disk_under_the_log_costs_the_log_alone(tmp_path, succeeds, name):
    X, y = random_rows(n=60)
    model, log, told = tmp_path / "m.h5", tmp_path / "t.jsonl", []
    if name == "train":
        given = (make_store(tmp_path, X, y), model, "--max-outer", 4, "--tol", 0)
    else:
        given = (text_of(tmp_path, X, y), "--learner", "pa1", "--model", model)
    warnings = [line for line in succeeds(name, *given, "--log", FULL).err.splitlines() if str(FULL) in line]
    assert warnings == [f"{FULL}: no space left on device; the log ends here, the run goes on"]
    assert load_model(model).weights.any()
    # whole lines stay
    lines = JsonLines(log, told.append, overwrite=False)
    with pytest.raises(ValueError, match="not JSON compliant"):
        lines.write({"event": float("nan")})
    lines.write({"event": 1})
    os.write(lines.file.fileno(), b'{"eve')  # from now on the disk is full
    with open(FULL, "wb") as full:
        os.dup2(full.fileno(), lines.file.fileno())
    lines.write({"event": 2})
    lines.write({"event": 3})
    lines.close()
    assert log.read_text() == '{"event": 1}\n'
    assert told == [f"{log}: no space left on device; the log ends here, the run goes on"]


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
    assert done.returncode == 2 and "is not a trace written by blocksvm" in done.stderr
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


SENTENCE = "was replaced or changed while this run was reading it; run it again"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two of each input, made of other rows; the second one replaces the first."""
    place = tmp_path_factory.mktemp("inputs")
    for name, seed in (("a", 0), ("b", 1)):
        X, y = random_rows(n=40, seed=seed)
        make_store(place, X, y, name=name)
    for name in "ab":
        for model in ("model", "calibrated --calibrate platt", "online --learner pa1"):
            unheard(f"train {place}/{name}.h5 {place}/{name}.{model}")
    return place


class Replacing(dict):
    """What a run has met; when it meets ``path`` for the first time, the file there is replaced."""

    def __init__(self, path, other):
        self.path, self.other, self.done = str(path), other, False

    def setdefault(self, key, found):
        first = super().setdefault(key, found)
        if key == self.path and not self.done:
            self.done = True
            os.replace(self.other, self.path)
        return first


@pytest.mark.slow
@pytest.mark.parametrize(("line", "replaced"), [  # a line, and which of its inputs is replaced
    *(("predict {model} {text} {out}", kind) for kind in ("model", "text")), ("predict {model} {store} {out}", "store"),
    ("predict {calibrated} {text} {out} --probabilities", "calibrated"), ("train {store} {out}", "store"),
    ("train {store} {out} --from {model} -C 2", "model"), ("train {store} {out} --prior {model}", "model"),
    ("train {store} {out} --from {online}", "online"), ("train {store} {out} --valid {other}", "other"),
    ("stream {text} --from {online} --model {out}", "online"), ("split {text} {out}", "text"),
    ("stream {text} --learner pa1 --prior {model} --model {out}", "model"), ("info {model} --verify --json", "model"),
    ("stream {text} --learner pa1 --passes 2 --model {out}", "text"), ("export {model} {out} --format table", "model"),
    ("cv {store} --folds 2 --json={out}", "store"),
])  # fmt: skip
def test_a_file_that_is_replaced_is_never_read_as_a_mix(tmp_path, folder, run_in_process, succeeds, line, replaced):
    kinds = {"store": "h5", "text": "svm", "model": "model", "calibrated": "calibrated", "online": "online"}
    places = {kind: tmp_path / f"a.{ending}" for kind, ending in kinds.items()} | {"other": tmp_path / "other.h5"}
    places["out"] = tmp_path / "out"
    for kind, ending in kinds.items():
        shutil.copy(folder / f"a.{ending}", places[kind])
    shutil.copy(folder / "b.h5", places["other"])
    line = line.format(**places)
    done = succeeds(line, "--quiet")
    before = places["out"].read_bytes() if places["out"].exists() else done.out
    places["out"].unlink(missing_ok=True)
    new = tmp_path / "new"
    shutil.copy(folder / ("a.h5" if replaced == "other" else f"b.{kinds[replaced]}"), new)
    run = paths.Run(files=Replacing(places[replaced], new))
    token = paths._run.set(run)
    try:
        done = run_in_process(line, "--quiet")
    finally:
        paths._run.reset(token)
    assert run.files.done
    if done.code == 0:
        after = places["out"].read_bytes() if places["out"].exists() else done.out
        assert len(after) == len(before)  # times and versions aside
    else:
        assert done.code == 2 and done.last_line.endswith(SENTENCE) and not places["out"].exists(), done.err


def test_what_counts_as_the_same_file(tmp_path):
    path = tmp_path / "rows"
    path.write_text("1 1:1\n")
    with one_run():
        open_input(path).close()
        open_input(path).close()
        with one_run():  # a part of the same run
            open_input(path).close()
        path.write_text("1 1:2\n2\n")
        with pytest.raises(InputError, match=SENTENCE):
            open_input(path)
    open_input(path).close()
    with one_run():
        open_input(path).close()

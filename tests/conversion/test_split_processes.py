"""Text parsed by tasks of joblib, merged by renumbering: byte for byte the store of one process, and its errors."""

from __future__ import annotations

import gzip
import io
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

import joblib
import numpy as np
import pytest

from blocksvm.base.errors import InputError
from blocksvm.conversion import parallel_parsing
from blocksvm.conversion.convert import SplitSettings, extend, settings_of_store, split_rows
from blocksvm.conversion.feature_ids import IdTable
from blocksvm.conversion.numbered_rows import NumberedBatch

SMALL = 16_000_000  # of which a piece has some 130 kB


def written(inputs, path: Path, **options) -> bytes:
    names = [inputs] if isinstance(inputs, str | Path) else inputs
    split_rows([str(name) for name in names], path, SplitSettings(overwrite=True, memory=SMALL, **options))
    return path.read_bytes()


def lines_of(kind: str, n: int = 9_000, seed: int = 0) -> str:
    """Text of several pieces, in which ids, names and labels come back and new ones come till the end."""
    draw = random.Random(seed)

    def drawn(i: int) -> list[int]:
        return sorted({int(40_000 * draw.random() ** 3) + i // 50 for _ in range(8)})

    rows = [kind == "csv" and "y,word,x,other"] if kind == "csv" else []
    for i in range(n):
        ids = drawn(i)
        if kind == "csv":
            rows.append(f"{i % 3},w{ids[0]},{draw.random():.3f},{'' if i % 7 else 'o' + str(ids[-1])}")
        elif kind == "vw":
            rows.append(f"{draw.choice(('1', '-1'))} {draw.choice((1, 2, 0.5))} |a " + " ".join(f"f{j}" for j in ids))
        elif kind == "documents":
            rows.append(f"{'yes' if i % 3 else 'no'}\t" + " ".join(f"word{j}" for j in ids))
        else:
            label = {"numbers": f"{i % 2}", "words": f"class{i % 5 + i // 3000}", "sets": f"{i % 4},{4 + i // 4000}"}
            rows.append(f"{label[kind]} " + " ".join(f"{j}:{draw.choice(('1', '2.5', '-0.3'))}" for j in ids))
        if kind in SVMLIGHT and i % 1000 == 7:
            rows += ["", "# nothing here"]
    return "\n".join(rows)  # without a last newline


SVMLIGHT = ("numbers", "words", "sets")
OF_KIND = {
    "words": {"format": "svmlight-named"},
    "sets": {"format": "multilabel"},
    "documents": {"format": "documents"},
    "csv": {"options": {"label": "y", "categorical": "word,other"}},
}
CASES = {
    "plain": ("numbers", {}),
    "order": ("numbers", {"keep_order": True}),
    "hashed": ("numbers", {"bits": 10, "seed": 5}),
    "unit": ("numbers", {"normalize": "l2", "dtype": "float64", "min_count": 3}),
    "idf": ("numbers", {"idf": "smooth", "normalize": "l2"}),
    "deviation": ("numbers", {"scale": "deviation"}),
    "words": ("words", {"seed": 3}),
    "sets": ("sets", {}),
    "vw": ("vw", {}),
    "documents": ("documents", {}),
    "documents hashed": ("documents", {"bits": 12}),
    "csv": ("csv", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_tasks_make_the_store_of_one_process(tmp_path, case):
    kind, options = CASES[case]
    text = tmp_path / "rows.csv" if kind == "csv" else tmp_path / "rows.txt"
    text.write_text(lines_of(kind))
    options = options | OF_KIND.get(kind, {})
    expected = written(text, tmp_path / "s.h5", **options)
    assert written(text, tmp_path / "s.h5", processes=1, **options) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == [text.name, "s.h5"]


def test_pieces_come_numbered(tmp_path, monkeypatch):
    """The store of a text of several pieces, whose rows came with distinct ids."""
    text = tmp_path / "rows.svm"
    text.write_text(lines_of("numbers", 3000))
    expected = written(text, tmp_path / "s.h5")
    batches, by_processes = [], parallel_parsing.by_processes

    def watched(*arguments):
        for batch in by_processes(*arguments):
            assert isinstance(batch, NumberedBatch)
            batches.append((batch.plain().ids, batch.distinct, batch.counts))  # places are renumbered where they lie
            yield batch

    monkeypatch.setattr("blocksvm.conversion.convert.by_processes", watched)
    assert written(text, tmp_path / "s.h5", processes=1) == expected
    assert len(batches) >= 2
    for ids, distinct, counts in batches:
        _, first = np.unique(ids, return_index=True)
        assert np.array_equal(distinct, ids[np.sort(first)])
        assert np.array_equal(counts, [np.count_nonzero(ids == one) for one in distinct])


def test_compressed_text_several_inputs_and_a_pipe(tmp_path, monkeypatch):
    first, second = lines_of("numbers", 2500).encode(), lines_of("numbers", 2500, seed=1).encode()
    (tmp_path / "a.svm").write_bytes(b"\xef\xbb\xbf" + first)
    (tmp_path / "b.svm.gz").write_bytes(gzip.compress(second))
    (tmp_path / "c.svm").write_bytes(second + b"\n")
    names = [tmp_path / name for name in ("a.svm", "b.svm.gz", "c.svm")]
    expected = written(names, tmp_path / "s.h5")
    assert written(names, tmp_path / "s.h5", processes=1) == expected
    stores = []
    for processes in (None, 1):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(first)))
        stores.append(written("-", tmp_path / "s.h5", processes=processes))
    assert stores[0] == stores[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.svm", "b.svm.gz", "c.svm", "s.h5"]


def test_weights_and_rows_held_out(tmp_path):
    text, weights = tmp_path / "rows.txt", tmp_path / "weights.txt"
    text.write_text(lines_of("documents", 3000))
    weights.write_text("".join(f"{1 + i % 3}\n" for i in range(3000)))
    stores = []
    for processes in (None, 1):
        settings = SplitSettings(
            overwrite=True, memory=SMALL, weights=weights, holdout=0.3, format="documents", processes=processes
        )
        split_rows(str(text), tmp_path / "s.h5", settings, tmp_path / "held.h5")
        stores.append([(tmp_path / name).read_bytes() for name in ("s.h5", "held.h5")])
    assert stores[0] == stores[1]


def test_rows_are_added_and_read_like_another_store(tmp_path):
    """By the factors of a store, which each process reads."""
    first, more = tmp_path / "first.svm", tmp_path / "more.svm"
    first.write_text(lines_of("numbers", 2500))
    more.write_text(lines_of("numbers", 2500, seed=1))
    written(first, tmp_path / "model.h5", idf="smooth")
    stores = []
    for processes in (None, 1):
        machine = {"memory": SMALL, "processes": processes}
        like = settings_of_store(tmp_path / "model.h5", {}, like=True, **machine)
        split_rows(str(more), tmp_path / "like.h5", like)
        written(first, tmp_path / "model.h5", idf="smooth")
        extend([str(more)], tmp_path / "model.h5", settings_of_store(tmp_path / "model.h5", {}, **machine))
        stores.append([(tmp_path / name).read_bytes() for name in ("like.h5", "model.h5")])
        (tmp_path / "like.h5").unlink()
        written(first, tmp_path / "model.h5", idf="smooth")
    assert stores[0] == stores[1]


def sentence(inputs, path: Path, **options) -> str:
    with pytest.raises(InputError) as caught:
        written(inputs, path, **options)
    return str(caught.value)


FAULTS = {
    "two bad lines": ("numbers", {}, {2000: "1 3:x", 100: "1 :4"}),
    "a feature twice": ("numbers", {}, {1900: "1 3:1 3:1"}),
    "words and numbers": ("numbers", {}, {1500: "spam 3:1"}),
    "a cell": ("csv", {}, {1900: '1,"open,2,3'}),
    "columns": ("csv", {}, {1900: "1,2"}),
    "a long line": ("numbers", {}, {2100: "1 " + " ".join(f"{j}:1" for j in range(100_000)), 2050: "1 3:y"}),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faults_are_told_as_by_one_process(tmp_path, case):
    kind, options, lines = FAULTS[case]
    rows = lines_of(kind, 2500).split("\n")
    for number, line in lines.items():
        rows[number] = line
    text = tmp_path / "rows.csv" if kind == "csv" else tmp_path / "rows.svm"
    text.write_text("\n".join(rows))
    options = options | OF_KIND.get(kind, {})
    told = sentence(text, tmp_path / "s.h5", processes=1, **options)
    assert f"{text.name}:{min(lines) + 1}: " in told
    if case != "a long line":  # which one process meets as it reads ahead
        assert told == sentence(text, tmp_path / "s.h5", **options)
    assert [path.name for path in tmp_path.iterdir()] == [text.name]


def test_text_that_changes_meanwhile_is_told(tmp_path, monkeypatch):
    text = tmp_path / "rows.svm"
    text.write_text(lines_of("numbers", 100))
    tasks = parallel_parsing._tasks

    def changed(pieces, folder):
        for task, piece in tasks(pieces, folder):
            text.write_text(text.read_text().replace("2.5", "2.6"))
            yield task, piece

    monkeypatch.setattr(parallel_parsing, "_tasks", changed)
    assert "sees other bytes in it; every process must see the same files" in sentence(
        text, tmp_path / "s.h5", processes=1
    )
    monkeypatch.setattr(parallel_parsing, "_tasks", lambda *given: ((t, text.unlink() or p) for t, p in tasks(*given)))
    assert "has no such file; every process must see" in sentence(text, tmp_path / "s.h5", processes=1)


class Lost(Exception):
    """As of a library of clusters."""


Lost.__module__ = "distributed.client"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (BrokenProcessPool(), "a process that parses has died, .* less memory or fewer processes"),
        (multiprocessing.TimeoutError(), "a task has not been answered for 7 seconds; look after the processes"),
        (Lost(), "the cluster has given tasks up \\(Lost\\); see that its scheduler and its workers live"),
    ],
)
def test_processes_that_fail_are_told(error, sentence):
    def answers(tasks):
        yield None
        raise error

    def refusal(tasks):
        raise error  # since the last tasks a process has died

    for parallel in (answers, refusal):
        with pytest.raises(InputError, match=sentence), parallel_parsing._answers(parallel, [], 7.0) as given:
            list(given)
    with pytest.raises(KeyError), parallel_parsing._answers(answers, [], 7.0):
        raise KeyError  # a fault of the program


def test_files_of_rows_are_refused(tmp_path):
    np.save(tmp_path / "rows.npy", np.eye(3))
    assert sentence(tmp_path / "rows.npy", tmp_path / "s.h5", processes=2) == (
        f"{tmp_path / 'rows.npy'}: is npy, and processes divides text by its lines; leave it out"
    )


@pytest.mark.slow
@pytest.mark.process
def test_any_number_of_processes_makes_the_same_store(tmp_path):
    text = tmp_path / "rows.txt"
    text.write_text(lines_of("documents"))
    expected = written(text, tmp_path / "s.h5", format="documents")
    for processes in (2, 3):
        assert written(text, tmp_path / "s.h5", format="documents", processes=processes) == expected
    with joblib.parallel_config("threading"):  # joblib's tasks run where it is told
        assert written(text, tmp_path / "s.h5", format="documents", processes=2) == expected
    text.write_text(lines_of("documents") + "\n\xff\n")
    told = sentence(text, tmp_path / "s.h5", format="documents", processes=2)
    assert told == sentence(text, tmp_path / "s.h5", format="documents")


@pytest.mark.slow
@pytest.mark.process
def test_a_process_that_dies_between_tasks_is_told(tmp_path, monkeypatch):
    """joblib finds it dead when the next tasks are given, not when an answer is awaited."""
    rounds, run = [], parallel_parsing._answers

    @contextmanager
    def after_a_death(parallel, tasks, seconds):
        rounds.append(len(tasks))
        if len(rounds) == 2:
            os.kill(parser_of(os.getpid()), signal.SIGKILL)
            time.sleep(1.0)
        with run(parallel, tasks, seconds) as answers:
            yield answers

    monkeypatch.setattr(parallel_parsing, "_answers", after_a_death)
    text = tmp_path / "rows.txt"
    text.write_text(lines_of("documents", 60_000))
    told = sentence(text, tmp_path / "s.h5", format="documents", processes=2)
    assert told.startswith("a process that parses has died")
    assert rounds[1] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["rows.txt"]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("who", ["child", "SIGINT", "SIGTERM"])
def test_a_process_that_is_killed_leaves_nothing_behind(tmp_path, who):
    """One that parses: one sentence and exit 2; the command itself by Ctrl-C: 130."""
    temp, text = tmp_path / "temp", tmp_path / "rows.txt"
    temp.mkdir()
    text.write_text(lines_of("documents", 60_000))
    command = [sys.executable, "-m", "blocksvm.split", str(text), str(tmp_path / "s.h5"), "--format", "documents",
               "--memory", "16MB", "--temp", str(temp), "--jobs", "2", "--threads", "1", "--quiet"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not list(temp.rglob("rows-of-*")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        if who == "child":
            os.kill(parser_of(process.pid), signal.SIGKILL)
        elif who == "SIGINT":
            os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
        else:
            process.terminate()
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert "Traceback" not in errors
    if who == "child":
        assert process.returncode == 2
        assert errors == (
            "blocksvm split: error: a process that parses has died, killed or for want of memory; run it again, with "
            "less --memory or fewer --jobs\n"
        )
    else:
        assert (process.returncode, errors) == (130, "blocksvm split: interrupted\n")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["rows.txt", "temp"]


def parser_of(parent: int) -> int:
    """A process that ``parent`` has started to parse."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat, command = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == parent and b"popen_loky" in command:
                return int(folder.name)
    raise AssertionError("no process parses")


def test_distinct_ids_are_counted_as_often_as_they_occur():
    """As the same ids one by one; a count stays at its largest value."""
    ids = np.array([7, 3, 7, 7, 9, 3], np.int64)
    one_by_one, at_once = IdTable(1_000_000), IdTable(1_000_000)
    for table in (one_by_one, at_once):
        table.add(np.array([5, 9], np.int64))
    one_by_one.add(ids)
    places = at_once.add(np.array([7, 3, 9], np.int64), counts=np.array([3, 2, 1], np.uint32))
    assert places.tolist() == [2, 3, 1]
    for table in (one_by_one, at_once):
        assert table.known[:4].tolist() == [5, 9, 7, 3]
        assert table.counts[:4].tolist() == [1, 2, 3, 2]
    at_once.add(np.array([9, 5], np.int64), counts=np.array([2**32 - 2, 2**32 - 3], np.uint32))
    assert at_once.counts[:2].tolist() == [2**32 - 2, 2**32 - 1]

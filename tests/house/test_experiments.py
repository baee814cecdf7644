"""The measurements: each command is one that its program takes, each page has one, and what they share works."""

from __future__ import annotations

import argparse
import json
import lzma
import re
import runpy
import shlex
import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from support.places import ROOT

import blocksvm
from blocksvm.sources.matrix import Matrix
from blocksvm.training.plan import Plan
from blocksvm.training.train_settings import TrainSettings

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from experiments import (  # noqa: E402
    active,
    convergence,
    curves,
    distance,
    figures,
    frequency,
    learners,
    measuring,
    page_tables,
    provenance,
)

RESULTS = ROOT / "experiments" / "results"


@pytest.fixture(scope="module")
def dodo():
    """experiments/dodo.py, of doit only the function that reads a variable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "doit", SimpleNamespace(get_var=lambda name, default: default))
        return SimpleNamespace(**runpy.run_path(str(ROOT / "experiments" / "dodo.py"), run_name="dodo"))


def commands_of(dodo) -> list[str]:
    """All lines, without benchopt's, with the paths of files."""
    measured = [commands for parts in dodo.MEASURED.values() for commands in parts.values()]
    lines = [one for commands in [*dodo.MADE.values(), *measured] for one in commands.split("; ")]
    return [dodo.line_of(line.partition(" # ")[0]) for line in lines if not line.startswith("benchopt")]


def test_a_measurement_tells_where_its_table_is(dodo):
    tasks = [task for task in dodo.task_measurements() if task["name"]]
    assert tasks
    for task in tasks:
        assert task["actions"][-1] == f"echo the table: {task['targets'][0]}"


@pytest.mark.process
@pytest.mark.parametrize("tool", ["bench", "docs", "test"])
def test_a_tool_tells_what_it_does_and_begins_nothing(tool):
    for word in ("--help", "-h"):
        done = subprocess.run(["sh", ROOT / "tools" / tool, word], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"tools/{tool}" in done.stdout and len(done.stdout) < 800


def test_each_page_has_a_measurement(dodo):
    pages = {path.stem for path in RESULTS.glob("*.md")} - {"README", "reliability"}  # campaigns make the last one
    assert pages <= set(dodo.MEASURED)
    # and each script is one of a measurement's, but the one that makes the tables
    text = " ".join(commands_of(dodo))
    for path in (ROOT / "experiments").glob("*.py"):
        if "\ndef main(" in path.read_text() and path.stem not in ("figures", "provenance"):
            assert f"experiments.{path.stem} " in text, path


def test_each_page_names_a_command_that_there_is(dodo):
    for path in RESULTS.glob("*.md"):
        if path.stem in ("README", "reliability"):
            continue
        text = " ".join(path.read_text().split())
        named = re.findall(r"tools/bench (?:sources=DIR )?([\w-]+)(?::([\w-]+))?", text)
        assert named, f"{path.name} names no command"
        for page, part in named:
            assert page in dodo.MEASURED and (not part or part in dodo.MEASURED[page]), (path.name, page, part)


def test_each_file_is_made_once(dodo):
    files = [file for made in dodo.MADE for file in made.split()]
    assert len(files) == len(set(files))
    for made, command in dodo.MADE.items():
        for file in made.split():
            assert f"{{{file}}}" in command or "{@" in command, made
    assert dodo.path_of("zipf.svm") == dodo.FOLDER / "zipf.svm"
    assert dodo.path_of("a9a") == dodo.SOURCES / "a9a"  # nobody makes it


@pytest.mark.process
def test_a_compressed_source_is_unpacked(dodo, tmp_path, monkeypatch):
    (tmp_path / "libsvm").mkdir()
    (tmp_path / "made").mkdir()
    (tmp_path / "libsvm" / "a9a.xz").write_bytes(lzma.compress(b"1 1:1\n"))
    (tmp_path / "libsvm" / "a9a.t.xz").write_bytes(b"another")
    for name, value in {"SOURCES": tmp_path, "FOLDER": tmp_path / "made"}.items():
        monkeypatch.setitem(dodo.path_of.__globals__, name, value)
    assert dodo.path_of("a9a") == tmp_path / "made" / "a9a"
    task = next(task for task in dodo.task_data() if task["name"] == "a9a")
    assert task["file_dep"] == [tmp_path / "libsvm" / "a9a.xz"]
    subprocess.run(task["actions"][-1], shell=True, check=True)
    assert (tmp_path / "made" / "a9a").read_text() == "1 1:1\n"
    (tmp_path / "libsvm" / "a9a").write_text("as it is")
    assert dodo.path_of("a9a") == tmp_path / "libsvm" / "a9a"


class Parsed(BaseException):
    """The command line was taken."""


@pytest.fixture
def taken(monkeypatch):
    """Runs a command of dodo.py up to where its arguments have been parsed."""
    parse = argparse.ArgumentParser.parse_args

    def parse_args(self, args=None, namespace=None):
        raise Parsed(parse(self, args, namespace))

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)

    def run(command: str) -> bool:
        line = shlex.split(command.partition(f"{sys.executable} ")[2])
        try:
            if line[0] == "-m":
                monkeypatch.setattr(sys, "argv", line[1:])
                main = import_module(line[1]).main
                main(line[2:]) if line[1].startswith("blocksvm.") else main()
            else:
                monkeypatch.setattr(sys, "argv", line)
                runpy.run_path(line[0], run_name="__main__")
        except Parsed:
            return True
        except SystemExit:
            return False
        return False

    return run


def test_each_command_is_one_that_its_program_takes(dodo, taken, capsys):
    for command in commands_of(dodo):
        assert taken(command), command
    for wrong in ("experiments.kernel", "experiments.kernel x --no-such-thing", "tools/make_zipf.py"):
        assert not taken(dodo.line_of(wrong)), wrong
    capsys.readouterr()


def test_tasks_are_what_doit_takes(dodo):
    tasks = [*dodo.task_data(), *dodo.task_measurements()]
    assert len(tasks) > 100
    assert all(task["name"] is None or (task["actions"] and task["targets"]) for task in tasks)
    whole = dodo.measurement("zipf", "", dodo.MEASURED["zipf"][""])
    assert whole["actions"][-2].endswith(f"--json {dodo.TABLES / 'zipf.json'} > {dodo.TABLES / 'zipf.md'}")
    earlier, run = whole["actions"][1:3]
    assert earlier == f"rm -f {dodo.TABLES / 'zipf.parquet'}" and f"--output {dodo.TABLES / 'zipf.parquet'}" in run


@pytest.mark.process
def test_doit_lists_the_tasks():
    pytest.importorskip("doit")
    line = [sys.executable, "-m", "doit", "-f", "experiments/dodo.py", "list"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "working-set" in done.stdout


@pytest.mark.process
def test_a_command_is_measured(tmp_path):
    done = measuring.run("-c", "b'1' * (300 << 20); print('made')")
    assert done.out == "made\n" and done.peak_mb > 300 and done.seconds > 0.0 and done.cpu > 0.0
    assert measuring.run("-c", "pass").peak_mb < 100  # not what this process had
    with pytest.raises(RuntimeError, match="ValueError: no"):
        measuring.run("-c", "raise ValueError('no')")
    (tmp_path / "rows.svm").write_text("".join(f"{i % 2} {i % 7 + 1}:1 {i % 3 + 9}:0.5\n" for i in range(400)))
    store = tmp_path / "rows.h5"
    measuring.split(tmp_path / "rows.svm", store)
    assert measuring.budget(store, "all") > measuring.budget(store, "8") > measuring.budget(store, "32")
    events, _ = measuring.train(store, tmp_path / "model.h5")
    assert events[-1]["status"] == "converged" and measuring.readings(events) >= 1.0


@pytest.mark.process
def test_tables_are_printed_and_kept(tmp_path, capsys):
    options = measuring.parser("What.").parse_args(["--json", str(tmp_path / "kept.json")])
    tables = measuring.Tables(options)
    tables.begin("Two rows", "what", "figure")
    tables.row("one", 1)
    tables.row("two", "2.0")
    tables.end()
    assert "Two rows\n\n| what | figure |\n|---|---|\n| one | 1 |\n| two | 2.0 |\n" in capsys.readouterr().out
    kept = json.loads((tmp_path / "kept.json").read_text())
    rows = [["one", "1"], ["two", "2.0"]]
    assert kept["tables"] == [{"title": "Two rows", "columns": ["what", "figure"], "rows": rows}]
    assert {"command", "machine", "date", "commit"} < set(kept)


def test_a_curves_time_to_a_target_lies_on_the_line_between_two_points():
    points = [(1.0, 1e-1), (4.0, 1e-2), (16.0, 1e-4)]
    assert curves.seconds_to(points, 1e-3) == pytest.approx(8.0)
    assert curves.seconds_to(points, 1e-2) == pytest.approx(4.0)
    assert curves.seconds_to(points, 0.5) == 1.0
    assert curves.seconds_to(points, 1e-5) is None


@pytest.mark.process
def test_a_result_of_benchopt_becomes_tables_and_a_figure(tmp_path, monkeypatch, capsys):
    import pandas as pd

    pytest.importorskip("matplotlib")
    nan = float("nan")
    ours, other = "blocksvm[memory=1/8,seed=0]", "blocksvm[memory=all,seed=0]"
    rows = [(ours, 1e-2, 1.0, 1.5, 101.0, 99.0), (ours, 1e-3, 2.0, 2.5, 100.1, 100.0), (other, 1e-2, 1, 1, 101.0, nan),
            ("liblinear", 1.0, nan, 4.0, 101.0, nan), ("liblinear", 0.1, nan, 16.0, 100.01, nan)]  # fmt: skip
    names = ["solver_name", "stop_val", "objective_seconds", "time", "objective_value", "objective_dual"]
    frame = pd.DataFrame(rows, columns=names).assign(objective_readings=nan, objective_peak_mb=100.0)
    frame = frame.assign(
        dataset_name="svmlight[test=None,text=/data/rows.svm]", objective_name="linear", objective_test_accuracy=0.9
    )
    frame.to_parquet(tmp_path / "result.parquet")
    given = [str(tmp_path / "result.parquet"), "--figure", str(tmp_path / "curves.png")]
    monkeypatch.setattr(sys, "argv", ["curves", *given])
    curves.main()
    out = capsys.readouterr().out
    assert "rows, linear, P* = 100" in out and "| blocksvm[memory=1/8] | 0.001 | 2 (2-2) | 2.5 | 1.0e-03 |" in out
    # in the logarithm 1e-3 lies halfway between 1e-2 and 1e-4
    assert "| liblinear | 8 | 4.00 | 0.1 | 16 |" in out and "| blocksvm[memory=all] | not reached |" in out
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_the_pages_have_the_figures_of_the_data():
    for path, text in figures.pages().items():
        assert path.read_text() == text, f"{path.name}: tools/bench figures makes its table"


def test_a_table_of_a_page(tmp_path):
    cells = {"x, all": ("1", "2"), "y, all": ("3", ""), "y, some": ("5", "6")}
    tables = [{"title": title, "columns": ["solver", "s"], "rows": [["a", one], ["b", two]]}
              for title, (one, two) in cells.items()]  # fmt: skip
    kept = {"tables": tables}
    (tmp_path / "page-one.json").write_text(json.dumps(kept))

    def made(spec: str) -> str:
        return page_tables.table_of(f"data=page-*; {spec}", tmp_path)

    assert made("title=x") == "| solver | s |\n|---|---|\n| a | 1 |\n| b | 2 |\n"
    assert made("title=all; rows=^b; columns=data | s") == "| data | s |\n|---|---|\n| x | 2 |\n| y | |\n"
    assert made("title=all; cells=s; across=solver") == "| data | a | b |\n|---|---|---|\n| x | 1 | 2 |\n| y | 3 | |\n"
    turned = "| solver | x | y |\n|---|---|---|\n| a | 1 | 3 |\n"
    assert made("title=all; rows=^a; cells=s; down=solver; across=data") == turned
    for wrong, why in (("title=none", "no such rows"), ("cells=s; across=solver", "two cells for y, a"),
                       ("columns=data | m", "no columns {'m'}")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            made(wrong)
    page = "Before.\n\n<!-- table: data=page-one; title=x; rows=a -->\nold\n<!-- end of the table -->\nAfter.\n"
    again = page_tables.filled(page_tables.filled(page, tmp_path), tmp_path)
    assert again == page.replace("old\n", "\n| solver | s |\n|---|---|\n| a | 1 |\n\n")


def test_the_pages_name_the_commits_of_their_data():
    for path, text in provenance.pages_with_lines().items():
        assert path.read_text() == text, f"{path.name}: tools/bench provenance writes its last line"
    named = [path for page in provenance.measured_pages() for path in provenance.data_of(page)]
    assert sorted(named) == sorted((RESULTS / "data").glob("*.json"))
    assert all(provenance.data_of(page) for page in provenance.measured_pages())


@pytest.mark.process
def test_the_inputs_of_a_page(dodo):
    def names(page: str) -> set[str]:
        return {str(path.relative_to(ROOT)) for path in provenance.inputs_of(page, dodo.MEASURED)}

    structured, transfer, zipf = names("structured"), names("transfer"), names("zipf")
    assert {
        "experiments/structured.py",
        "experiments/measuring.py",
        "blocksvm/structured/kernels/paths.py",
    } <= structured
    assert "blocksvm/structured/lattices.py" in structured  # by its place in a registry
    assert {"blocksvm/conversion/convert.py", "blocksvm/learners/rules/passive_aggressive.py"} <= transfer
    assert not any(name.startswith(("blocksvm/structured", "blocksvm/theory")) for name in transfer)
    assert "experiments/benchopt/objective.py" in zipf and "blocksvm/training/loop.py" in zipf
    assert provenance.changes("0000000", {ROOT / "README.md"}) is None


def test_a_figure_is_one_cell(tmp_path):
    (tmp_path / "data").mkdir()
    kept = {"machine": "Intel(R) Xeon(R) Processor, 2 cores", "date": "2026-01-02", "tables": [
        {"title": "ten rows", "columns": ["solver", "seconds (least-most)"],
         "rows": [["a", "0.5 (0.4-0.6)"], ["a-b", "2 / 4 = 0.5"], ["c", "7 (not reached)"]]}]}  # fmt: skip
    (tmp_path / "data" / "page.json").write_text(json.dumps(kept))
    figure = {"page": "page", "words": ["ten rows", "a"], "column": "seconds"}
    assert figures.cell_of(figure, tmp_path) == ("0.5", "Intel Xeon, 2026-01-02")
    assert figures.cell_of(figure | {"words": ["a-b"]}, tmp_path)[0] == "0.5"
    assert figures.cell_of(figure | {"words": ["c"]}, tmp_path)[0] == "7 (not reached)"
    for wrong in ({"words": ["ten rows"]}, {"words": ["d"]}, {"column": "minutes"}):
        with pytest.raises(ValueError, match="page: [03] cells"):
            figures.cell_of(figure | wrong, tmp_path)


def test_rows_in_vowpal_wabbits_format(tmp_path):
    (tmp_path / "rows.svm").write_text("-1 1:0.5 9:2\n1 4:1.25\n-1\n1 2:1 3:-1 # remark\n")
    learners.write_vw(tmp_path / "rows.svm", tmp_path / "rows.vw")
    assert (tmp_path / "rows.vw").read_text() == "-1 | 1:0.5 9:2\n1 | 4:1.25\n-1 | \n1 | 2:1 3:-1\n"


def test_a_pool_gives_its_smallest_margins_first():
    scores = np.array([3.0, -0.5, 0.1, -0.1, 2.0])
    known = np.array([False, False, True, False, False])
    assert active.smallest_margins(scores, known, 2).tolist() == [3, 1]
    assert active.smallest_margins(scores, known, 9).tolist() == [3, 1, 4, 0]
    X = np.linspace(-1.0, 1.0, 100)[:, None]
    found = active.from_pool(lambda rows: np.ones(1), X, np.array([0, 99]), (2, 12, 30))
    assert [len(np.unique(rows)) for rows in found] == [2, 12, 30]
    assert found[1].tolist()[:2] == [0, 99] and np.abs(X[found[1][2:]]).max() == pytest.approx(9 / 99)
    assert np.abs(X[found[2][2:]]).max() == pytest.approx(27 / 99)


@pytest.fixture
def split_rows(tmp_path):
    """'TRAIN.h5,TEST.h5' of rows of two classes, where the test rows have a feature that the others have not."""
    rng = np.random.default_rng(3)
    lines = []
    for k in range(240):
        columns = np.flatnonzero(rng.random(6) < 0.6)
        label = 1 if rng.random() < 0.2 + 0.6 * (0 in columns) else -1
        last = " 99:1" if k == 17 else ""
        lines.append(f"{label}" + "".join(f" {column + 3}:{0.5 + column}" for column in columns) + last)
    for name, kept in (("train", [k for k in range(240) if k % 5 and k != 17]), ("test", [17, *range(0, 240, 5)])):
        (tmp_path / f"{name}.svm").write_text("\n".join(lines[k] for k in kept) + "\n")
        measuring.split(tmp_path / f"{name}.svm", tmp_path / f"{name}.h5", "--keep-order")
    return f"{tmp_path / 'train.h5'},{tmp_path / 'test.h5'}"


@pytest.mark.process
def test_held_out_rows_have_the_features_of_the_others(split_rows):
    rows = convergence.load(split_rows)
    assert rows.X.shape[1] == rows.X_test.shape[1] == 6  # without the feature that only they have
    w = np.zeros(6)
    with blocksvm.open_store(split_rows.split(",")[0]) as store:
        first = store.feature_ids(0, 6)
    w[first == 3] = 2.0
    # the column of id 3 has values of 0.5
    scores = rows.X_test @ w
    assert set(scores) == {0.0, 1.0}
    assert rows.accuracy(w) == 100.0 * np.mean((scores > 0) == (rows.y_test > 0))
    assert rows.primal(w) == pytest.approx(2.0 + np.maximum(0.0, 1.0 - rows.y * (rows.X @ w)).sum())


@pytest.mark.process
def test_blocks_in_other_orders(split_rows):
    rows = convergence.load(split_rows)
    chunk, many = convergence.blocks_of(rows, 4, 5)
    source = Matrix(rows.X, rows.y, chunk_rows=np.arange(0, len(rows.y), chunk))
    plan = Plan(source, TrainSettings.of(block_chunks=many, partition="fixed", memory=1 << 40))
    order = np.empty(30, np.int32)

    def drawn(rows_by: str, blocks_by: str) -> tuple:
        partition = convergence.OrderedPartition(plan.blocks.partition, rows_by, blocks_by)
        blocks = [tuple(block[0] for block in partition.blocks(outer)) for outer in range(1, 9)]
        orders = [tuple(partition.row_order(outer, 0, 0, order).tolist()) for outer in range(1, 9)]
        return blocks, orders

    for by, different in (("redrawn", True), ("once", False), ("stored", False)):
        blocks, orders = drawn(by, by)
        assert (len(set(blocks)) > 1) == (len(set(orders)) > 1) == different
        assert all(sorted(one) == sorted(blocks[0]) for one in blocks)
        assert all(sorted(one) == list(range(30)) for one in orders)
        assert (blocks[0] == tuple(sorted(blocks[0]))) == (orders[0] == tuple(range(30))) == (by == "stored")
    ended = convergence.run(rows, chunk, ("once", "stored"), schedule="1", block_chunks=many, max_outer=3, tol=0.0)
    assert ended.outers == 3 and ended.passes == 3 and ended.cell(0.0).startswith("> 3 (")


@pytest.mark.process
def test_a_curve_ends_where_the_run_does(split_rows):
    rows, store = convergence.load(split_rows), split_rows.split(",")[0]
    best = blocksvm.fit(rows.X, rows.y, tol=1e-6, max_outer=1000)
    points = distance.curve(store, rows, best.certificate.dual, 1e3, tol=1e-3, max_outer=1000)
    assert points[-1].distance <= 1e-3 and points[-1].distance >= -1e-6
    assert points[-1].accuracy == pytest.approx(rows.accuracy(best.model.weights), abs=5.0)
    assert [p.seconds for p in points] == sorted(p.seconds for p in points) and points[-1].megabytes > 0.0
    assert distance.first(points, lambda point: point.distance <= 1e-3) == (
        f"{points[-1].seconds:.2f} ({points[-1].megabytes:.0f})"
    )
    assert distance.first(points, lambda point: False) == ""


def test_a_list_without_names_is_refused():
    options = measuring.parser("What.")
    options.add_argument("--sets", type=measuring.listed)
    assert options.parse_args(["--sets", "a,,b"]).sets == ["a", "b"]
    for nothing in ("", ","):
        with pytest.raises(SystemExit):
            options.parse_args(["--sets", nothing])


def test_planted_features_are_as_frequent_and_telling_as_they_say():
    corpus = frequency.planted(0)
    X = corpus.X.toarray() > 0
    for column, share in ((0, 0.5), (1, 0.01)):
        assert X[:, column].mean() == pytest.approx(share, rel=0.1)
        assert (corpus.y[X[:, column]] > 0).mean() == pytest.approx(0.9, abs=0.06)
    assert abs((corpus.y[X[:, 100]] > 0).mean() - 0.5) < 0.06
    w = np.zeros(X.shape[1])
    w[:1] = 1.0
    assert frequency.zeros_by_frequency(corpus, w)[-1] == pytest.approx(
        100.0 * (1.0 - 1.0 / (X.sum(axis=0) >= 256).sum())
    )

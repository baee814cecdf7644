"""The benchmark harness: its objective, its data, its interpolation, and a whole run on a few rows."""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.places import ROOT

if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from experiments import active, datasets, prepare, processes, report, tables  # noqa: E402
from experiments.objective import Rows, evaluate  # noqa: E402
from experiments.solvers.child import curve_of, parse_level  # noqa: E402


def random_rows(n: int = 50, d: int = 30) -> tuple[np.ndarray, Rows]:
    """A dense matrix and the same rows as CSR; one row is empty, and the last column is not used."""
    rng = np.random.default_rng(1)
    dense = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)
    dense[7] = 0.0
    dense[:, -1] = 0.0
    rows, columns = np.nonzero(dense)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return dense, Rows(indptr, columns.astype(np.int32), dense[rows, columns], y)


@pytest.mark.parametrize("entries", [1, 17, 10**6])
def test_objective_is_the_formula(entries):
    dense, rows = random_rows()
    w = np.random.default_rng(2).normal(size=dense.shape[1])
    primal, accuracy = evaluate(rows, w, 0.7, entries)
    scores = dense @ w
    assert primal == pytest.approx(0.5 * w @ w + 0.7 * np.maximum(0.0, 1.0 - rows.y * scores).sum(), rel=1e-13)
    assert accuracy == np.mean(np.where(scores > 0, 1.0, -1.0) == rows.y)


def test_ids_beyond_w_weigh_nothing():
    dense, rows = random_rows()
    w = np.ones(dense.shape[1])
    w[10:] = 0.0
    assert evaluate(rows, w[:10], 1.0) == evaluate(rows, w, 1.0)


def test_csr_is_the_text_read_in_pieces(tmp_path, monkeypatch):
    text = tmp_path / "few.svm"
    text.write_text("3 1:0.5 9:2\n7 4:1.25\n3\n7 2:1 3:-1 10:0.125 # remark\n")
    monkeypatch.setattr(prepare, "PIECE", 10)
    made = prepare.write_csr(text, tmp_path / "csr")
    rows = Rows.open(tmp_path / "csr")
    assert (made["rows"], made["nonzeros"], made["columns"], made["positive_label"]) == (4, 6, 11, 7.0)
    assert rows.indptr.tolist() == [0, 2, 3, 3, 6]
    assert rows.indices.tolist() == [1, 9, 4, 2, 3, 10]
    assert rows.values.tolist() == [0.5, 2.0, 1.25, 1.0, -1.0, 0.125]
    assert rows.y.tolist() == [-1.0, 1.0, -1.0, 1.0]
    assert prepare.is_prepared(text, tmp_path / "csr")
    prepare.write_vw(text, tmp_path / "few.vw", 7.0)
    assert (tmp_path / "few.vw").read_text() == "-1 | 1:0.5 9:2\n1 | 4:1.25\n-1 | \n1 | 2:1 3:-1 10:0.125\n"
    text.write_text("3 1:1\n7 2:1\n")
    assert not prepare.is_prepared(text, tmp_path / "csr")


def test_time_to_a_target_lies_on_the_line_between_two_points():
    points = [(1.0, 1e-1), (4.0, 1e-2), (16.0, 1e-4)]
    assert report.time_to(points, 1e-3) == (pytest.approx(8.0), "")
    assert report.time_to(points, 1e-2) == (pytest.approx(4.0), "")
    assert report.time_to(points, 0.5) == (1.0, "<=")
    assert report.time_to(points, 1e-5) is None
    lines = [{"curve": "blocksvm", "seconds": s, "distance": x} for s, x in points]
    lines += [{"curve": "peer", "seconds": 2.0 * s, "distance": x} for s, x in points]
    assert report.ratios(lines) == [
        "blocksvm reaches relative distance 0.001 in 8.00 s, peer in 16.00 s: 2.00 times as long"
    ]


@pytest.mark.parametrize("most", [6.0, 60.0, 3000.0])
def test_no_tick_label_of_a_figure_lies_over_another(tmp_path, monkeypatch, most):
    from matplotlib import pyplot as plt

    lines = [{"curve": "blocksvm", "seconds": s, "distance": 1e-3, "peak_rss_mb": 1.0} for s in (1.3, most)]
    kept = []
    monkeypatch.setattr(plt, "close", kept.append)
    report.figure({"summary": lines, "data": {"name": "rows"}}, tmp_path / "rows.png")
    monkeypatch.undo()
    axis = kept[0].axes[0].xaxis
    left, right = sorted(axis.get_view_interval())
    ticks = [tick for minor in (False, True) for tick in (axis.get_minor_ticks() if minor else axis.get_major_ticks())]
    ticks = [tick for tick in ticks if tick.label1.get_text() and left <= tick.get_loc() <= right]
    spans = sorted((box.x0, box.x1) for box in (tick.label1.get_window_extent() for tick in ticks))
    assert len(spans) >= 2
    assert all(end < start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
    plt.close(kept[0])


def test_names_of_data_and_levels():
    module, options = datasets.parse("zipf,rows=2000,features=100")
    assert module.plan(options).name == "zipf-2000x100"
    with pytest.raises(SystemExit, match="choose one of"):
        datasets.parse("mnist")
    with pytest.raises(SystemExit, match="expected zipf"):
        datasets.parse("zipf,row=2000")
    assert parse_level("max_iter=3,n_jobs=2") == {"max_iter": "3", "n_jobs": "2"}
    assert curve_of("snap", "max_iter=3,n_jobs=2") == "snap n_jobs=2"


def test_a_whole_run(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(400):
        ids = np.sort(rng.choice(60, 8, replace=False)) + 1
        values = rng.random(8).round(3) + 0.001
        label = "+1" if values[ids < 30].sum() > values[ids >= 30].sum() else "-1"
        lines.append(" ".join([label, *(f"{i}:{v:.3f}" for i, v in zip(ids, values, strict=True))]) + "\n")
    (tmp_path / "few.svm").write_text("".join(lines[:300]))
    (tmp_path / "more.svm").write_text("".join(lines[300:]))
    command = [
        sys.executable,
        "-m",
        "experiments.bench",
        "--solvers",
        "blocksvm,liblinear,sgd,snap,vw",
        "--repeats",
        "1",
        "--levels",
        "1",
    ]
    command += ["--data", f"text={tmp_path}/few.svm,test={tmp_path}/more.svm"]
    command += ["--folder", str(tmp_path / "data"), "--results", str(tmp_path / "results")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    result = json.loads((tmp_path / "results" / "few.json").read_text())
    table = (tmp_path / "results" / "few.md").read_text()
    assert result["data"]["rows"] == 300
    runs = {(run["solver"], run["level"]): run for run in result["runs"]}
    for run in runs.values():
        assert "error" not in run
        assert 0.0 <= run["distance"] < math.inf
        assert run["peak_rss_mb"] > 10.0
        assert 0.5 < run["test_accuracy"] <= 1.0
    # the optimum lies within the gap of the reference, 1e-5
    assert runs["blocksvm", "tol=1e-2"]["distance"] <= 1.01e-2 + 1e-5
    assert runs["liblinear", "eps=1"]["distance"] < 0.1
    assert "| blocksvm | tol=1e-2 |" in table
    for name, solver in result["solvers"].items():
        present = any(run["solver"] == name for run in result["runs"])
        assert present == (solver["version"] is not None)
        assert present or f"- {name}: not installed" in table
    assert not any(line["warnings"] or line["errors"] for line in result["summary"])
    assert not list((tmp_path / "data").rglob("run-*"))


def test_every_table_is_run_by_its_experiment(tmp_path):
    """Tables that are made in a moment are; each experiment knows the arguments that it would be given."""
    from importlib import import_module

    text = tmp_path / "rows.svm"
    text.write_text("".join(f"{i % 2} {i % 7 + 1}:1 {i % 3 + 9}:0.5\n" for i in range(400)))
    data = datasets.Dataset("few", text, text)
    (tmp_path / "train.vw").write_text("")
    subprocess.run(
        [sys.executable, "-m", "blocksvm.split", text, tmp_path / "store.h5", "--quiet"], cwd=ROOT, check=True
    )
    told = tables.write_tables(["convergence", "codecs"], data, tmp_path, tmp_path / "out", 10**8, 1, None)
    assert [line.split(":")[0] for line in told] == ["convergence", "codecs"]
    assert all((tmp_path / "out" / f"{name}-few.md").read_text().strip() for name in ("convergence", "codecs"))
    for name in tables.NAMES:
        assert import_module(f"experiments.{name}").main
        assert tables.arguments_of(name, data, tmp_path, 1, 1, Path("p")) is not None
    unlabelled = datasets.Dataset("few", text, None)
    assert tables.arguments_of("regimes", unlabelled, tmp_path, 1, 1, None) is None
    assert tables.write_tables(["regimes"], unlabelled, tmp_path, tmp_path / "out", 1, 1, None)[0].startswith(
        "regimes: left"
    )


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


def test_memory_is_touched_by_another_process():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    processes.touch_memory(1 << 29)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18  # KiB
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >= 1 << 19

"""The benchmark of solvers: its objective is the formula, and on a few rows all solvers find the same optimum."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from support.places import ROOT

pytest.importorskip("benchopt")
from benchopt.benchmark import Benchmark  # noqa: E402

pytestmark = [
    pytest.mark.process,
    # of the peers
    pytest.mark.filterwarnings("ignore:Cannot detect CPU features:UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SOLVERS = {
    "blocksvm", "blocksvm-estimator", "liblinear", "LinearSVC", "libsvm", "SGDClassifier", "snapml", "vowpal-wabbit",
}  # fmt: skip
# two classes, a regression, several classes, sets of labels
TEXTS = {
    "classes": ["-1 1:1 2:0.5", "1 2:1 3:0.5", "1 1:0.25 3:1", "-1 1:0.5 4:1", "1 3:0.5 4:0.25", "-1 2:1"],
    "targets": ["0.5 1:1 2:0.5", "3 2:1 3:0.5", "2 1:0.25 3:1", "-1 1:0.5 4:1", "1.5 3:0.5 4:0.25", "-2 2:1"],
    "several": ["1 1:1 2:0.5", "3 2:1 3:0.5", "2 1:0.25 3:1", "2 1:0.5 4:1", "1 3:0.5 4:0.25", "3 2:1"],
    "sets": ["1,3 1:1 2:0.5", "3 2:1 3:0.5", "2 1:0.25 3:1", "1,2 1:0.5 4:1", "2 3:0.5 4:0.25", "3 2:1"],
}
# (text, loss, bias, the solvers that take it)
PROBLEMS = [
    ("classes", "hinge", 0, SOLVERS - {"libsvm"}),
    ("classes", "squared-hinge", 1, {"blocksvm", "blocksvm-estimator", "liblinear", "LinearSVC"}),
    ("classes", "logistic", 0, {"blocksvm", "liblinear"}),
    ("classes", "hinge", "free", {"blocksvm", "libsvm"}),
    ("targets", "epsilon-insensitive", 1, {"blocksvm", "liblinear"}),
    ("targets", "squared-epsilon-insensitive", 0, {"blocksvm", "liblinear"}),
    ("several", "hinge", 0, {"blocksvm", "liblinear", "LinearSVC"}),
    ("several", "crammer-singer", 0, {"blocksvm", "liblinear"}),
    ("sets", "hinge", 0, {"blocksvm", "liblinear", "LinearSVC"}),
]
FAR = {"SGDClassifier": 0.02, "vowpal-wabbit": 0.1}  # how far these may end from the optimum
UPDATE = {"vowpal-wabbit": {"update": "sgd"}}  # the default one does not come near it


@pytest.fixture(scope="module")
def benchmark():
    kept = list(sys.path)
    yield Benchmark(ROOT / "experiments" / "benchopt")
    sys.path[:] = kept


def objective_of(benchmark, folder, kind, loss, bias):
    text = folder / "rows.svm"
    text.write_text("\n".join(TEXTS[kind]) + "\n")
    objective = benchmark.get_benchmark_objective().get_instance(loss=loss, C=1.0, bias=bias, epsilon=0.1)
    objective.set_data(text=str(text), test=str(text), multilabel=kind == "sets")
    return objective


def test_each_solver_is_one_of_those_that_the_tests_know(benchmark):
    assert {solver.name for solver in benchmark.get_solvers()} == SOLVERS


def test_tolerances_fall_by_equal_steps(benchmark):
    from benchmark_utils import next_tolerance

    steps = [3e38]
    for _ in range(4):
        steps.append(next_tolerance(steps[-1]))
    assert steps[1:] == [1.0, 0.1, 0.01, 0.001]
    assert [next_tolerance(one, per_decade=2) for one in (3e38, 1.0, 0.3, 0.1)] == [1.0, 0.3, 0.1, 0.03]


def test_the_objective_is_the_formula(benchmark, tmp_path):
    objective = objective_of(benchmark, tmp_path, "classes", "hinge", 2)
    w, b = np.array([0.0, 0.3, -0.7, 0.2, 0.1]), 0.4
    X, y = objective.X.toarray(), np.array([-1, 1, 1, -1, 1, -1])
    found = objective.evaluate_result(coef=w, intercept=[b])
    losses = np.maximum(0.0, 1.0 - y * (X @ w + b))
    assert found["value"] == pytest.approx(0.5 * (w @ w + (b / 2) ** 2) + losses.sum(), rel=1e-13)
    assert found["test_accuracy"] == np.mean((X @ w + b > 0) == (y > 0))


@pytest.mark.parametrize(("kind", "loss", "bias", "takers"), PROBLEMS)
def test_solvers_find_the_same_optimum(benchmark, tmp_path, kind, loss, bias, takers):
    values = {}
    for Solver in benchmark.get_solvers():
        if not Solver.is_installed():
            continue
        solver = Solver.get_instance(**UPDATE.get(Solver.name, {}))
        objective = objective_of(benchmark, tmp_path, kind, loss, bias)
        left_out, reason = solver.skip(**objective.get_objective())
        assert left_out == (Solver.name not in takers), reason
        if not left_out:
            solver.set_objective(**objective.get_objective())
            solver.run(1e-6 if Solver.sampling_strategy == "tolerance" else 2000)
            result = objective.evaluate_result(**solver.get_result())
            values[Solver.name] = result["value"]
            if np.isfinite(result["dual"]):
                assert result["dual"] <= result["value"] * (1 + 1e-9)
    assert "blocksvm" in values and len(values) > 1
    best = min(values.values())
    for name, value in values.items():
        assert value <= best * (1.0 + FAR.get(name, 1e-4)), values

"""Regret with numbers, sets, costs and rows alone: losses by rules written out; no bound is exceeded."""

import json
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from support.passive_aggressive import COSTS, costing, played, ranked
from support.plain_learners import LEARNERS as PLAIN
from support.plain_learners import MultiPrototype
from support.refused import refused
from support.training_cases import make_store

from blocksvm import Matrix, fit
from blocksvm.regret import shown
from blocksvm.theory import comparators
from blocksvm.theory.comparators import Comparator, FixedWeights
from blocksvm.theory.report import judge, measure_regret, play
from blocksvm.theory.rows import ReplayRows

pytestmark = pytest.mark.slow
N, D, K, EPSILON = 90, 5, 4, 0.3
LEARNERS = [("pa", {}), ("pa1", {"C": 0.3}), ("pa2", {"C": 0.3})]
TASKS = {"classes": {}, "numbers": {"targets": "numbers", "epsilon": EPSILON}, "sets": {}, "costs": {"costs": COSTS},
         "max-loss": {"costs": COSTS, "cost_rule": "max-loss"},
         "rows": {"targets": "none", "epsilon": EPSILON}}  # fmt: skip


def rows_of(task):
    """(X, targets as ``Matrix`` takes them, targets for the dense rules)."""
    rng = np.random.default_rng(len(task))
    X = np.round(rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.7), 2)
    W = rng.standard_normal((K, D))
    scores = X @ W.T + 0.4 * rng.standard_normal((N, K))
    if task == "numbers":
        y = np.round(scores[:, 0], 2)
        return X, y, y
    if task == "sets":
        sets = [tuple(np.flatnonzero(one > 0.5).tolist()) for one in scores]
        sets[:K] = [(k,) for k in range(K)]  # each class occurs
        return X, sets, sets
    y = scores.argmax(axis=1)
    y[:K] = np.arange(K)
    return (X, None, None) if task == "rows" else (X, y, y)


def loss_of(task, w, x, target, fixed=False):
    """(loss, direction of the step, None for none) of weights w (K, D), or (D,)."""
    if task == "numbers":
        return max(0.0, abs(w @ x - target) - EPSILON), np.sign(target - w @ x) * x
    if task == "rows":
        apart = np.linalg.norm(w - x)
        return max(0.0, apart - EPSILON), (x - w) / apart if apart else None
    if task in ("classes", "sets"):
        return ranked(w, x, target)
    return costing(w, x, target, fixed or task == "max-loss")


@pytest.mark.parametrize(("learner", "case"), LEARNERS)
@pytest.mark.parametrize("task", TASKS)
def test_losses_and_bounds(task, learner, case):
    X, given, targets = rows_of(task)
    settings = TASKS[task] | case
    source = Matrix(X, given)
    made = measure_regret(source, learner, **settings)
    w, each = np.zeros(D if task in ("numbers", "rows") else (K, D)), [None] * N if targets is None else targets
    losses, tau, q = played(learner, case.get("C", 1.0), w, X, each, partial(loss_of, task))[2]
    run = made.run
    np.testing.assert_allclose(run.hinge_of(run.scores), losses, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(run.mistakes, np.cumsum(losses >= 1.0)[run.times - 1])
    np.testing.assert_allclose(run.tau[q > 0], tau[q > 0], rtol=1e-9, atol=1e-9)
    classes = task not in ("numbers", "rows")  # whose directions are counted where no step is made, too
    assert run.R[-1] ** 2 == pytest.approx(2.0 * (X**2).sum(axis=1).max() if classes else q.max())
    shown = {judged.bound.name: judged for judged in made.bounds}
    assert shown["PA, lemma"].applies and not any(judged.violated for judged in made.bounds)
    assert shown[{"pa1": "PA-I", "pa2": "PA-II", "pa": "PA, lemma"}[learner]].applies
    if "cost" not in task and task != "max-loss":  # u is judged by the largest loss, which may be more than suffered
        assert made.best.judged[-1] < run.judged[-1]

    # any fixed weights: their losses, and every bound
    played_source, _, task_rows = play(source, learner, dict(settings), False, None)
    rows = (task_rows or ReplayRows)(played_source)
    rng = np.random.default_rng(1)
    found = []
    for scale in (0.0, 0.1, 1.0, 5.0):
        u = scale * rng.standard_normal((K, D))
        if task in ("numbers", "rows"):
            u = u[0]
        w = np.column_stack([u, np.zeros(len(u))]).ravel() if u.ndim == 2 else np.append(u, 0.0)
        one = Comparator(run, FixedWeights("u", w), rows.scores(w, 0.0))
        own = [loss_of(task, u, x, target, fixed=True)[0] for x, target in zip(X, each, strict=True)]
        np.testing.assert_allclose(one.hinge, np.cumsum(own)[run.times - 1], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(one.hinge_squares, np.cumsum(np.square(own))[run.times - 1], rtol=1e-9, atol=1e-9)
        assert one.norm == pytest.approx(np.linalg.norm(u))
        found.append(one)
    assert not any(judge(judged.bound, run, found, found[0]).violated for judged in made.bounds)


def test_gradient_learners_of_numbers():
    X, y, _ = rows_of("numbers")
    source = Matrix(X, y)
    for learner, case, bound in (
        ("ogd", {"decay": "constant", "step": 0.05}, "OGD, constant step"),
        ("ogd", {"decay": "constant", "step": 0.05, "loss": "squared"}, "OGD, constant step"),
        ("omd", {"mirror": "entropic", "step": 0.05, "radius": 3.0}, "EG+-"),
        ("fobos", {"l1": 0.01, "step": 0.1}, "FOBOS"),
        ("adagrad-rda", {"l1": 0.01, "delta": 9.0}, "AdaGrad, RDA form"),
    ):
        made = measure_regret(source, learner, targets="numbers", **case)
        shown = {judged.bound.name: judged for judged in made.bounds}
        assert shown[bound].applies and not any(judged.violated for judged in made.bounds)
        assert made.best.rel_gap is None or made.best.rel_gap <= 1e-3
        assert made.best.judged[-1] <= made.run.judged[-1]


@pytest.mark.parametrize(
    ("learner", "case", "power"),
    [("ogd", {"decay": "constant", "step": 0.3, "radius": 0.4}, 2),
     ("omd", {"mirror": "entropic", "step": 0.1, "radius": 0.8}, 1),
     ("ftl", {"radius": 0.4}, 2)],
)  # fmt: skip
def test_learners_in_a_ball_are_compared_with_the_best_in_it(learner, case, power):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((120, 4))
    y = np.where(X @ [2.0, -1.0, 0.5, 0.0] + 0.5 * rng.standard_normal(120) > 0, 1.0, -1.0)
    made = measure_regret(Matrix(X, y), learner, **case)
    radius = case["radius"]
    assert all(comparators.length_in(made.run, u) <= radius * (1.0 + 1e-9) for u in made.comparators)
    assert any(f"scaled to {radius:.4g}" in u.name for u in made.comparators)
    # no direction of that length has less loss: by many of them, drawn around the best
    best = made.best.judged[-1]
    drawn = rng.standard_normal((20_000, 4))
    drawn *= radius / np.linalg.norm(drawn, ord=power, axis=1)[:, None]
    least = np.maximum(0.0, 1.0 - y[:, None] * (X @ drawn.T)).sum(axis=0).min()
    assert best <= least * (1.0 + 5e-3)
    floor = max(u.floor for u in made.comparators)
    assert 0.98 * best <= floor <= least  # which is proven
    assert made.gap_in_ball == pytest.approx((best - floor) / best)
    assert made.described()["comparator_gap_in_ball"] == made.gap_in_ball
    assert any("of its loss above the least in the learner's ball" in line for line in shown(made))
    wide = measure_regret(Matrix(X, y), learner, **{**case, "radius": 1e4})
    assert wide.gap_in_ball is None or wide.gap_in_ball <= 1.0
    assert comparators.length_in(made.run, made.best) >= 0.98 * radius


def test_the_command(tmp_path, succeeds, refusal):
    X, y, _ = rows_of("numbers")
    store = make_store(tmp_path, scipy.sparse.csr_matrix(X), y, keep_order=True, dtype="float64")
    out = succeeds("regret", store, "--learner", "pa1", "-C", 0.3, "--targets", "numbers", "--json").out
    told = json.loads(out)
    again = measure_regret(Matrix(X, y), "pa1", C=0.3, targets="numbers")
    assert told["loss_sum"] == pytest.approx(again.run.judged[-1]) and told["loss"] == "epsilon-insensitive"
    costs = tmp_path / "costs.txt"
    costs.write_text("0 4 1\n1 0 1\n9 1 0\n")
    three = make_store(tmp_path, scipy.sparse.csr_matrix(X), np.arange(N) % 3.0, name="three")
    assert "costs of 3 labels" in succeeds("regret", three, "--learner", "pa", "--costs", costs).out
    for source, learner, what in (
        (store, "kernel-pa", "has a kernel"),
        (store, "pa --targets none --epsilon 1 --learn-radius", "begins at a weight that is not 0"),
        (store, "ogd --targets none", "learns from labels alone"),
        (store, "pa --targets none --max-rows 3", "--max-rows: with rows alone all rows are replayed; leave it"),
        (three, "arow", "regret is measured of perceptron, pa, pa1 and pa2"),
        (three, "ftl", "regret is measured of perceptron, pa, pa1 and pa2"),
        (three, "pa --max-rows 50", "with more than two labels all rows"),
    ):
        assert what in refusal("regret", source, "--learner", *learner.split())
    succeeds("regret", store, "--learner", "pa", "--targets", "numbers", "--max-rows", 3)
    alone = "with rows alone regret is measured of pa, pa1 and pa2"
    refused(alone, measure_regret, Matrix(X, y), "perceptron", targets="none")


def classes(n=120, k=4, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, 6)) * (rng.random((n, 6)) < 0.7), 3)
    X[np.arange(n), rng.integers(0, 6, n)] += 1.0
    return X, np.argmax(X @ rng.standard_normal((6, k)) + noise * rng.standard_normal((n, k)), axis=1)


def test_the_perceptron_of_several_classes():
    X, y = classes()
    found = measure_regret(Matrix(X, y), "perceptron")
    dense, loss = MultiPrototype(PLAIN["perceptron"], 4, 6), 0.0
    for x, c in zip(X, y, strict=True):
        scores = dense.scores(x)
        loss += max(0.0, 1.0 - scores[c] + np.delete(scores, c).max())
        dense.learn(x, c)
    assert found.run.judged[-1] == pytest.approx(loss, rel=1e-10)
    # the losses that are measured of u are those that the solver made least
    u = found.comparators[1]
    machine = fit(scipy.sparse.csr_matrix(X), y, C=u.C, multiclass="crammer-singer", tol=1e-7, max_outer=1000)
    least = machine.certificate.dual
    assert least <= 0.5 * u.norm**2 + u.C * u.hinge[-1] <= least * (1.0 + 2e-3)
    assert found.best.judged[-1] < found.run.judged[-1]
    told = {judged.bound.name: judged for judged in found.bounds}
    assert told["perceptron, hinge of u"].applies and not any(judged.violated for judged in found.bounds)


def test_separable_classes_and_the_command(tmp_path, succeeds):
    X, y = classes(noise=0.0)
    store = make_store(tmp_path, scipy.sparse.csr_matrix(X), y + 1.0, keep_order=True, dtype="float64")
    for learner, bound in (("pa", "PA, separable"), ("perceptron", "perceptron, separable")):
        path = tmp_path / f"{learner}.json"
        out = succeeds("regret", store, "--learner", learner, "--json", path).out
        told = {one["name"]: one for one in json.loads(path.read_text())["bounds"]}
        assert (told[bound]["applies"], told[bound]["violated"]) == (True, False)
        assert "does not apply: ||x|| = 1 fails" in out or learner == "perceptron"

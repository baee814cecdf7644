"""Newton's method: certificates against the plain objective; the same bits for any memory and interruptions."""

import math

import numpy as np
import pytest
import reference
import reference_losses
from scipy import sparse
from support.class_cases import rows_for
from support.refused import refused
from support.training_cases import asked, assert_resumed, looped, make_store, opened, random_rows, stop_after, train

from blocksvm import Matrix, fit
from blocksvm.base.user_code import by_user
from blocksvm.kernels.rows import Entries
from blocksvm.losses import LOSSES, get_loss
from blocksvm.solvers.newton import hot_features, newton_step
from blocksvm.solvers.newton_kernels import PANEL, add_gram, half_curvature
from blocksvm.sources.source import first_chunk

SMOOTH = ("squared-hinge", "logistic", "squared", "squared-epsilon-insensitive", "huber")
OUTSIDE = "support.smooth_hinge:SMOOTH_HINGE"
by_user(loss=OUTSIDE)


def settings_of(loss: str) -> dict:
    """The loss with the settings that the oracle has."""
    names = get_loss(loss).settings.names()
    return {"loss": loss} | dict(zip(names, reference_losses.REFERENCES[loss].settings, strict=True))


def assert_certified(run, loss: str, X, y, costs, prior=0.0) -> float:
    """Its certificate is that of its w, by the oracle; returns ||grad P||^2 / 2."""
    p = reference_losses.REFERENCES[loss].settings
    primal, gradient, _, dual = reference_losses.smooth_objective(loss, X, y, run.w, costs, p, prior)
    certificate, half = run.result.certificate, 0.5 * gradient @ gradient
    assert run.alpha is None
    assert certificate.primal == pytest.approx(primal, rel=1e-12)
    assert certificate.dual == pytest.approx(dual, rel=1e-10, abs=1e-10 * abs(primal))
    assert certificate.primal - certificate.dual == pytest.approx(half, rel=1e-8, abs=1e-12 * abs(primal))
    assert primal - dual == pytest.approx(half, rel=1e-8, abs=1e-12 * abs(primal))
    return half


@pytest.mark.parametrize("loss", [*SMOOTH, OUTSIDE])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_point_certifies_itself(loss, weighted):
    X, y = rows_for(loss)
    bias, C = 0.7, 3.0
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y)) if weighted else np.ones(len(y))
    weights[5] = 0.0 if weighted else 1.0
    of_class = np.ones(len(y))
    more = {}
    if not get_loss(loss).of_numbers:
        more["class_weight"] = {1.0: 2.0}
        of_class[y > 0] = 2.0
    source = Matrix(X, y, weights=weights if weighted else None, chunk_rows=range(0, len(y), 7))
    gaps, chosen = [], {"solver": "newton", "C": C, "bias": bias, "tol": 1e-9, "block_chunks": 3} | more
    for readings in (1, 2, 3, 7, 300):
        run = train(source, max_outer=readings, **chosen, **settings_of(loss))
        assert_certified(run, loss, reference.with_bias(X, bias).toarray(), y, C * of_class * weights)
        gaps.append(run.result.certificate.rel_gap)
    assert gaps == sorted(gaps, reverse=True)
    assert run.result.status == "converged"
    assert run.result.certificate.rel_gap <= 1e-9


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_it_is_regularised_towards_a_prior_model(tmp_path, loss):
    X, y = rows_for(loss)
    old = fit(Matrix(X[:30], y[:30]), loss=loss, bias=1.0, tol=1e-6)
    old.model.save(tmp_path / "old.h5")
    prior = np.append(old.model.weights, old.model.intercept)
    source, chosen = Matrix(X[30:], y[30:]), {"loss": loss, "bias": 1.0, "prior": tmp_path / "old.h5", "tol": 1e-8}
    for readings in (1, 4, 100):
        run = train(source, solver="newton", max_outer=readings, **chosen)
        assert_certified(run, loss, reference.with_bias(X[30:], 1.0).toarray(), y[30:], np.ones(len(y) - 30), prior)
        if readings == 1:
            np.testing.assert_array_equal(run.w, prior)
    other = fit(source, **chosen)
    assert run.result.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-8)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("bias", [1.0, "free"])
def test_its_optimum_is_that_of_dual_cd(loss, bias):
    X, y = rows_for(loss, n=300, d=20, seed=7)
    source, tol = Matrix(X, y + 3.0 * get_loss(loss).of_numbers), 1e-6 if bias == "free" else 1e-7
    ours, other = (fit(source, solver=solver, loss=loss, bias=bias, tol=tol) for solver in ("newton", "dual-cd"))
    assert ours.status == other.status == "converged"
    first, second = ours.certificate, other.certificate
    assert max(first.dual, second.dual) <= min(first.primal, second.primal) * (1 + 1e-12)
    if bias == "free":
        assert ours.result.w[-1] == pytest.approx(other.result.w[-1] * other.plan.solver.bias, abs=2e-2)
    else:  # 1/2 ||w - w*||^2 <= P - D
        near = math.sqrt(2 * (first.primal - first.dual)) + math.sqrt(2 * (second.primal - second.dual))
        assert np.linalg.norm(ours.result.w - other.result.w) <= near * (1 + 1e-9)


def test_a_run_reports_the_point_of_the_smallest_gap():
    X, y = random_rows(n=150, d=90, seed=5)
    y = np.sign(X @ np.ones(90) + 1e-3)
    source = Matrix(X, y)
    chosen = {"solver": "newton", "loss": "squared-hinge", "C": 1000.0, "tol": 1e-4}
    whole = train(source, max_outer=600, **chosen)
    assert whole.result.status == "converged"
    told = [event["rel_gap"] for event in whole.outer()]
    assert told == sorted(told, reverse=True)
    kept = [k for k in range(1, len(told)) if told[k] == told[k - 1]]  # the gap of a point, unlike P, may rise
    assert kept
    run = train(source, max_outer=kept[0] + 1, **chosen)
    assert run.result.certificate.rel_gap == told[kept[0] - 1]
    assert_certified(run, "squared-hinge", reference.with_bias(X, 0.0).toarray(), y, np.full(len(y), 1000.0))


def test_a_run_that_ends_in_its_first_reading_is_certified_at_its_start():
    X, y = rows_for("logistic")
    source = Matrix(X, y, chunk_rows=range(0, len(y), 7))
    run = train(source, solver="newton", loss="logistic", max_seconds=1e-9, block_chunks=2)
    assert run.result.status == "max-seconds"
    assert not run.w.any()
    assert_certified(run, "logistic", reference.with_bias(X, 0.0).toarray(), y, np.ones(len(y)))


@pytest.mark.parametrize("k", [3, 9])
def test_several_classes_are_one_problem_each(k):
    X, _ = random_rows(n=300, d=30, seed=2, density=0.3)
    labels = np.argmax(X @ np.random.default_rng(4).normal(size=(30, k)), axis=1).astype(float)
    XB = reference.with_bias(X, 1.0).toarray()
    run = train(Matrix(X, labels), solver="newton", loss="logistic", bias=1.0, tol=1e-7)
    assert run.result.status == "converged"
    for c in range(k):
        sides, w = np.where(labels == c, 1.0, -1.0), run.w.reshape(k, -1)[c]
        primal, gradient, _, _ = reference_losses.smooth_objective("logistic", XB, sides, w, np.ones(300))
        figures = {name: values[c] for name, values in run.result.certificate.by_class.items()}
        assert figures["primal"] == pytest.approx(primal, rel=1e-12)
        assert figures["rel_gap"] == pytest.approx(0.5 * gradient @ gradient / primal, rel=1e-6)
        assert figures["rel_gap"] <= 1e-7
    scores = XB @ run.w.reshape(k, -1).T
    assert run.result.certificate.accuracy == np.mean(scores.argmax(axis=1) == labels)
    assert [event["classes_done"] for event in run.outer()][-1] == k


def test_sets_of_labels():
    X, y = random_rows(n=120, d=20, seed=2, density=0.3)
    sets = [{1, 2} if a > 0 and b else {1} if a > 0 else {2} for a, b in zip(y, X[:, 0].toarray() > 0, strict=True)]
    ours, other = (fit(X, sets, solver=solver, loss="squared-hinge", tol=1e-6) for solver in ("newton", "dual-cd"))
    assert ours.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-6)
    assert ours.certificate.accuracy == pytest.approx(other.certificate.accuracy, abs=0.03)


def test_the_memory_changes_no_bit(tmp_path):
    X, y = random_rows(n=2000, d=30, density=0.4, seed=8)
    store = make_store(tmp_path, X, y, chunk_nonzeros=256)
    chosen = {"solver": "newton", "loss": "logistic", "max_outer": 12, "tol": 1e-9}
    runs = [train(store, memory=memory, **chosen) for memory in (10**8, 300_000)]
    assert [run.events[0]["blocks"] > 1 for run in runs] == [False, True]
    assert runs[0].same(runs[1])
    assert runs[0].result.certificate == runs[1].result.certificate


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_a_run_stopped_anywhere_goes_on_to_the_same_bits(stores, tmp_path, classes):
    chosen = {"solver": "newton", "loss": "squared-hinge", "C": 30.0, "block_chunks": 7, "max_outer": 14, "tol": 1e-9}
    whole, questions = asked(stores[classes], **chosen)
    assert questions == len(whole.result.passes) > 15
    assert_resumed(stores[classes], tmp_path, range(1, questions + 1), whole, **chosen)


@pytest.mark.parametrize("solver", ["newton", "dual-cd"])
@pytest.mark.parametrize("classes", [2, 3])
def test_it_starts_from_a_model(stores, tmp_path, solver, classes):
    chosen = {"loss": "logistic", "bias": 1.0}
    with opened(stores[classes]) as source:
        fit(source, solver=solver, tol=1e-5, **chosen).save(tmp_path / "m.h5")
        warm = fit(source, solver="newton", tol=1e-3, start_from=tmp_path / "m.h5", **chosen)
    assert (warm.status, warm.result.outer) == ("converged", 1)


OF_NUMBERS, OF_CLASSES = "squared-epsilon-insensitive, squared", "squared-hinge, logistic"
REFUSED = [
    (loss, "", f"--loss {loss}: has no second derivative; for newton choose one of {others}")
    for loss in LOSSES if loss not in SMOOTH for others in [OF_NUMBERS if get_loss(loss).of_numbers else OF_CLASSES]
] + [
    ("logistic", "--working-set 0.1", "--working-set: newton does not accept it; leave it out"),
    ("logistic", "--schedule 3", "--schedule 3: newton sees each row once in an epoch; leave it out"),
    ("logistic", "--multiclass crammer-singer", "multiclass"), ("logistic", "--memory 25kB", "is too small"),
]  # fmt: skip


@pytest.mark.parametrize(("loss", "options", "sentence"), REFUSED)
def test_what_it_cannot_do_is_refused(stores, tmp_path, refusal, loss, options, sentence):
    arguments = (stores[2], tmp_path / "m.h5", "--solver", "newton", "--loss", loss, *options.split())
    assert sentence in refusal("train", *arguments)


def test_what_does_not_fit_is_refused(stores, tmp_path):
    (X, y), own = rows_for("squared-hinge"), {"solver": "newton", "loss": "logistic"}
    fit(Matrix(np.eye(4), [1.0, -1.0, 1.0, -1.0]), loss="logistic").model.save(tmp_path / "m.h5")
    with opened(stores[2]) as source:
        refused("belongs to another store", fit, source, start_from=tmp_path / "m.h5", **own)
    refused("beyond what double precision", fit, Matrix(X * 1e60, y), solver="newton", loss="squared-hinge")
    wide = Matrix(*random_rows(n=50, d=3000, density=0.01))  # refused before anything is read
    refused("are needed .*Hessians 145MB", fit, wide, memory=10**8, **own)


@pytest.mark.parametrize("values", [np.float64, np.float32, None])
@pytest.mark.parametrize(("hot", "groups"), [(0, 1), (8, 2), (24, 1), (24, 3)])
def test_a_gram_matrix_by_panels_and_by_products(values, hot, groups):
    X, _ = random_rows(n=300, d=20, density=0.4, seed=2, ones=values is None)
    X = X.astype(values or np.float64)
    rng = np.random.default_rng(0)
    h = rng.uniform(size=300) * (rng.uniform(size=300) < 0.7)
    gram = np.zeros(24 * 24)
    data = None if values is None else X.data
    entries = Entries(X.indptr.astype(np.int64), X.indices.astype(np.int32), data)
    for group in range(groups):
        panel = np.zeros(hot * PANEL)
        add_gram(entries, h, 20, 0.5, hot, panel, group, groups, 24, gram)
        assert not panel.any()
    dense = reference.with_bias(X.astype(np.float64), 0.5).toarray()
    np.testing.assert_allclose(np.triu(gram.reshape(24, 24)[:21, :21]), np.triu((dense.T * h) @ dense), rtol=1e-12)


@pytest.mark.parametrize("d", [1, 7, 150, 300])
def test_a_step_solves_newtons_equation(d):
    rng = np.random.default_rng(d)
    A = rng.normal(size=(d + 5, d)) * 10.0 ** rng.uniform(-6, 6, d)
    p = -(-(d + 1) // 8) * 8
    hessian, gradient = np.eye(p), rng.normal(size=d + 1) * np.append(np.abs(A).max(axis=0), 1.0)
    hessian[:d, :d] += A.T @ A
    step = newton_step(np.triu(hessian), gradient, np.zeros((p, p)))
    expected = -np.linalg.solve(hessian[: d + 1, : d + 1], gradient)
    size = np.sqrt(np.diag(hessian)[: d + 1])  # in units of which the equation is well posed
    np.testing.assert_allclose(step * size, expected * size, rtol=1e-6, atol=1e-6 * np.abs(expected * size).max())
    assert half_curvature(np.triu(hessian), step) == pytest.approx(0.5 * step @ hessian[: d + 1, : d + 1] @ step)


def test_features_go_through_panels_where_rows_are_dense():
    rng = np.random.default_rng(0)
    dense, thin = rng.normal(size=(100, 60)), random_rows(n=400, d=2000, density=0.005, seed=1)[0]
    assert hot_features(first_chunk(Matrix(dense, np.ones(100))), 64) == 64
    assert hot_features(first_chunk(Matrix(thin, np.ones(400))), 2008) == 0
    both = sparse.hstack([sparse.csr_matrix(rng.normal(size=(400, 64))), thin]).tocsr()
    assert hot_features(first_chunk(Matrix(both, np.ones(400))), 2072) == 64


def hard_rows(kind: str):
    """(X, y, weights) of 400 rows and 12 features."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 12))
    y, weights = np.sign(X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=400)), None
    if kind == "unscaled":
        X *= 10.0 ** np.linspace(-6, 6, 12)
    elif kind == "nearly collinear":
        X[:, 6:] = X[:, :6] + 1e-8 * X[:, 6:]
    elif kind == "duplicated":
        X[:, 6:] = X[:, :6]
    elif kind == "constant":
        X[:, 3:] = [1.0, 5.0, 0.0] * 3
    elif kind == "separable":
        y = np.sign(X[:, 0])
    elif kind == "weights of 0":
        weights = rng.integers(0, 2, 400).astype(float)
    elif kind == "one of a class":
        weights = np.where(y > 0, 1.0, 0.0)
        weights[np.flatnonzero(y < 0)[0]] = 1e-9
    return X, y, weights


KINDS = ("unscaled", "nearly collinear", "duplicated", "constant", "separable", "weights of 0", "one of a class")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["squared-hinge", "logistic"])
@pytest.mark.parametrize("bias", [0.0, 1.0, "free"])
def test_rows_that_strain_it(kind, loss, bias):
    X, y, weights = hard_rows(kind)
    source = Matrix(X, y, weights=weights)
    for C in (0.1, 1.0, 100.0):
        run = train(source, solver="newton", loss=loss, C=C, bias=bias, tol=1e-6)
        assert run.result.status == "converged"
        assert len(run.outer()) <= {"separable": 30, "one of a class": 60}.get(kind, 12)
        costs = C * (np.ones(400) if weights is None else weights)
        m = y * (X @ run.w[:12] + (1.0 if bias == "free" else bias) * run.w[12])
        losses = np.maximum(0, 1 - m) ** 2 if loss == "squared-hinge" else np.logaddexp(0, -m)
        square = run.w[:12] @ run.w[:12] + (0.0 if bias == "free" else run.w[12] ** 2)
        assert run.result.certificate.primal == pytest.approx(0.5 * square + costs @ losses, rel=1e-10)


def test_as_many_hessians_at_once_as_there_is_memory_for(tmp_path):
    X, _ = random_rows(n=400, d=100, seed=2, density=0.5)
    y = np.argmax(X @ np.random.default_rng(4).normal(size=(100, 6)), axis=1).astype(float)
    source, chosen = Matrix(X, y), {"solver": "newton", "loss": "logistic", "tol": 1e-6}
    runs = [train(source, memory=memory, **chosen) for memory in (10**8, 1_200_000)]
    assert [run.loop.plan.solver.slots for run in runs] == [6, 3]
    for run in runs:
        assert run.result.status == "converged"
        gaps = run.result.certificate.by_class
        assert max(gaps["rel_gap"]) <= 1e-6
    for name, rel in (("primal", 1e-6), ("dual", 1e-6)):
        np.testing.assert_allclose(*(run.result.certificate.by_class[name] for run in runs), rtol=rel)
    assert len(runs[0].outer()) < len(runs[1].outer()) <= 2 * len(runs[0].outer())
    # a run that is resumed with more memory has the Hessians that it had
    kept = tmp_path / "c.ckpt"
    stopped = train(source, stop=stop_after(3), checkpoint=kept, memory=1_200_000, **chosen)
    assert stopped.result.status == "interrupted"
    assert train(source, checkpoint=kept, resume=True, memory=10**8, **chosen).same(runs[1])


def test_nothing_is_held_a_row():
    counted = []
    for n in (1_000, 50_000):
        X, y = random_rows(n=n, d=5, density=0.5, zero_rows=0, copies=0)
        plan = looped(Matrix(X, y), solver="newton", loss="logistic").plan
        assert {array.axis for array in plan.solver.state_arrays} == {"feature", "scalar", "matrix"}
        counted.append([plan.memory().get(name) for name in ("weights", "alpha", "Hessians", "panels")])
    assert counted[0] == counted[1]

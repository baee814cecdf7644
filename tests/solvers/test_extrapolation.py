"""Steps along what the last passes over a working set have done: that they equal their definition, that D never falls,
and that runs with them end at the optimum, sooner, and the same however they are broken off."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given, settings, strategies
from support.training_cases import asked, make_pass, make_store, random_rows, stop_after, train, visit_of

from blocksvm.kernels.extrapolation_loops import FARTHEST
from blocksvm.solvers.dual_cd import CONJUGATE, DualCD
from blocksvm.solvers.dual_methods import EXTRAPOLATED, make
from blocksvm.solvers.extrapolated_dual_cd import EVERY, MOVED, DualCDWithExtrapolation
from blocksvm.solvers.solver import Task
from blocksvm.sources.matrix import Matrix
from blocksvm.store.reader import open_store
from blocksvm.training.schedule import MOST_PASSES


class Case:
    """A solver that has made some passes over all rows of a matrix, as over a working set."""

    def __init__(self, seed, loss, bias=0.0, C=1.0, weights=None, prior=None, passes=6):
        self.X, self.y = random_rows(n=50, d=14, density=0.3, seed=seed)
        self.rng = np.random.default_rng(seed)
        self.source = Matrix(self.X, self.y, weights=weights)
        self.solver = DualCDWithExtrapolation(Task({"loss": loss, "C": C}, self.source, bias, working_set=True))
        self.state = {a.name: np.zeros(a.shape(14, 50), a.dtype) for a in self.solver.state_arrays}
        if prior is not None:
            self.solver.prior = np.array(prior)
        self.solver.start(self.state)
        self.block = self.source.read_block(np.arange(len(self.source.chunks)), None)
        self.dense = np.hstack([self.X.toarray(), np.full((50, 1), bias)])
        self.C = C * (np.ones(50) if weights is None else weights)
        self.loss = loss
        self.begin_visit(of_the_set=True)
        for _ in range(passes):
            self.make_pass()

    def begin_visit(self, of_the_set):
        self.visit = visit_of(self.solver, 50, of_the_set)

    def make_pass(self):
        return make_pass(self.solver, self.block, self.state, self.visit, self.rng.permutation(50))

    def dual(self):
        return self.solver.estimates(self.state, 0.0)[1]


def step(case, before):
    """What the kernel makes of it: (theta, nonzeros, change of the conjugates, gain)."""
    order = case.rng.permutation(50).astype(np.int32)
    return case.solver.step(case.block, case.state, order, before.copy(), np.zeros(50))


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(
    strategies.integers(0, 2**32 - 1),
    strategies.sampled_from(["hinge", "squared-hinge"]),
    strategies.sampled_from([0.0, 0.7]),
    strategies.sampled_from([0.05, 1.0, 30.0]),
    strategies.booleans(),
    strategies.booleans(),
)
def test_equals_its_definition_and_never_lets_the_dual_fall(seed, loss, bias, C, weighted, with_prior):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 4, 50) / 2.0 if weighted else None
    prior = 0.3 * rng.normal(size=15) if with_prior else None
    case = Case(seed, loss, bias, C, weights, prior, passes=int(rng.integers(1, 7)))
    before = case.state["alpha"].copy()
    for _ in range(int(rng.integers(1, 4))):
        case.make_pass()
    alpha, w, dual = case.state["alpha"].copy(), case.state["w"].copy(), case.dual()
    counts = case.C > 0  # rows of cost 0 are no part of the problem
    expected = reference.extrapolated(
        case.dense[counts], case.y[counts], alpha[counts], before[counts], w, case.C[counts], loss
    )
    theta, _, change, gain = step(case, before)
    case.state["sums"][CONJUGATE] += change
    scale = max(1.0, abs(dual))
    if theta == 0.0:
        # what rounding decides may be decided otherwise there
        assert expected[0] == 0.0 or reference_gain(case, counts, alpha, expected) <= 1e-9 * scale
        np.testing.assert_array_equal(case.state["alpha"], alpha)
        np.testing.assert_allclose(case.state["w"], w, rtol=0, atol=1e-9 * (1 + np.abs(w).max()))
        return
    assert gain > 0.0
    assert case.dual() - dual == pytest.approx(gain, abs=1e-9 * scale)
    if gain > 1e-8 * scale:
        assert theta == pytest.approx(expected[0], rel=1e-4)
        np.testing.assert_allclose(case.state["alpha"][counts], expected[1], rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(case.state["w"], expected[2], rtol=1e-4, atol=1e-6)
    drift = case.dense.T @ (case.y * case.state["alpha"]) + (0.0 if prior is None else prior) - case.state["w"]
    assert np.abs(drift).max() <= 1e-9 * (1 + np.abs(case.state["w"]).max())


def reference_gain(case, counts, alpha, expected):
    X, y, C = case.dense[counts], case.y[counts], case.C[counts]
    return reference.dual(X, y, expected[1], C, case.loss) - reference.dual(X, y, alpha[counts], C, case.loss)


def test_a_direction_without_bounds_in_its_way_is_gone_to_its_maximum():
    """Two rows apart from all others, and a step that ends between their bounds: D has no slope along it any more."""
    case = Case(3, "squared-hinge", passes=4)
    before = case.state["alpha"].copy()
    case.make_pass()
    free = case.state["alpha"] > 0
    move = np.where(free, case.state["alpha"] - before, 0.0)
    theta, *_ = step(case, before)
    assert theta > 0.0
    new = case.state["alpha"]
    if (new[free] > 0).all():
        _, diagonal = reference.box("squared-hinge", case.C)
        slope = -(case.y * (case.dense @ case.state["w"]) - 1.0 + diagonal * new) @ move
        assert abs(slope) < 1e-9


def test_rows_that_do_not_curve_the_dual_go_to_their_bounds():
    """A row without entries: D is linear in its a, and the hinge loss's bound is where the step ends."""
    case = Case(0, "hinge", passes=0)
    row = int(np.flatnonzero(np.diff(case.X.indptr) == 0)[0])
    case.state["alpha"][row] = 0.5
    before = case.state["alpha"].copy()
    before[row] = 0.4
    theta, _, change, gain = step(case, before)
    assert 0.0 < theta <= FARTHEST and case.state["alpha"][row] == 1.0
    assert change == -0.5 and gain == 0.5


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_a_visit_to_the_set_makes_them_by_counts(loss, monkeypatch):
    """After each ``EVERY`` passes, along what the later half of them did; each is part of the pass behind it."""
    case = Case(5, loss, C=10.0, passes=0)
    steps, plain = [], case.solver.step

    def noted(block, state, members, moved, scores):
        steps.append((case.visit.passes, moved.copy()))
        return plain(block, state, members, moved, scores)

    monkeypatch.setattr(case.solver, "step", noted)
    alphas = []
    for _ in range(2 * EVERY + EVERY // 2):
        alphas.append(case.state["alpha"].copy())
        before = case.dual()
        result = case.make_pass()
        assert result.gain == pytest.approx(case.dual() - before, abs=1e-9 * max(1.0, abs(before)))
        drift = case.dense.T @ (case.y * case.state["alpha"]) - case.state["w"]
        assert np.abs(drift).max() <= 1e-9 * (1 + np.abs(case.state["w"]).max())
    assert [passes for passes, _ in steps] == [EVERY, 2 * EVERY]
    for passes, moved in steps:
        np.testing.assert_array_equal(moved, alphas[passes - EVERY // 2])
    assert EVERY < MOST_PASSES
    case.begin_visit(of_the_set=False)
    for _ in range(2 * EVERY + 1):
        case.make_pass()
    assert len(steps) == 2, "passes over a block make none"
    assert not case.visit.arrays[MOVED].any()


def test_which_solver_makes_them():
    X, y = random_rows()
    tight = 0.99 * EXTRAPOLATED
    for loss, working_set, tol, wanted in (
        ("hinge", True, tight, DualCDWithExtrapolation),
        ("squared-hinge", True, tight, DualCDWithExtrapolation),
        ("hinge", True, EXTRAPOLATED, DualCD),
        ("hinge", False, tight, DualCD),
        ("logistic", True, tight, DualCD),
    ):
        assert type(make(Task({"loss": loss}, Matrix(X, y), working_set=working_set, tol=tol))) is wanted


def alike(n=400, d=60, seed=0):
    """Rows in groups that are nearly the same, with noisy labels: passes alone converge slowly."""
    rng = np.random.default_rng(seed)
    groups = rng.normal(size=(n // 8, d)) * (rng.random((n // 8, d)) < 0.3)
    X = np.repeat(groups, 8, axis=0) + 0.02 * rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    X /= np.maximum(1e-9, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_runs_with_them_need_fewer_passes(loss, monkeypatch):
    import scipy.sparse

    X, y = alike()
    rows = scipy.sparse.csr_matrix(X)
    C = {"hinge": 10.0, "squared-hinge": 100.0}[loss]
    options = {"loss": loss, "C": C, "tol": 1e-9, "schedule": "1", "working_set": 0.5, "max_outer": 3000}
    passes, duals = [], []
    for solver in (DualCDWithExtrapolation, DualCD):
        monkeypatch.setattr("blocksvm.solvers.extrapolated_dual_cd.DualCDWithExtrapolation", solver)
        run = train(Matrix(rows, y, chunk_rows=np.arange(0, 400, 20)), **options)
        assert run.result.status == "converged"
        passes.append(sum(run.result.set_passes) + len(run.result.passes))
        duals.append(run.result.certificate.dual)
    assert passes[0] < 0.8 * passes[1], passes
    assert duals[0] == pytest.approx(duals[1], rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.6, 0.9])
def test_broken_off_and_resumed_it_is_the_same_run(tmp_path, share):
    import scipy.sparse

    X, y = alike(n=200)
    options = {"C": 10.0, "tol": 1e-9, "schedule": "1", "working_set": 0.5, "block_chunks": 4, "max_outer": 60}
    with open_store(make_store(tmp_path, scipy.sparse.csr_matrix(X), y, chunk_nonzeros=600)) as source:
        whole, questions = asked(source, **options)
        assert any(made >= EVERY + 1 for made in whole.result.set_passes), "no visit was long enough for a step"
        checkpoint = tmp_path / "run.ckpt"
        first = train(source, checkpoint=checkpoint, stop=stop_after(int(share * questions)), **options)
        assert first.result.status == "interrupted"
        second = train(source, checkpoint=checkpoint, resume=True, **options)
    np.testing.assert_array_equal(second.result.alpha, whole.result.alpha)
    np.testing.assert_array_equal(second.result.w, whole.result.w)
    assert second.result.set_passes == whole.result.set_passes

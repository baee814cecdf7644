"""The direction that the rows of a visit have in common, along which the dual stays at its maximum."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from scipy import sparse
from training_cases import random_rows, stop_after, train

import blocksvm.kernels.common_direction as kernels
from blocksvm.api import fit
from blocksvm.solvers.common_direction import EVERY, FALLS, FREQUENT, MOST_FALLS, ROOM, DualCDWithDirection
from blocksvm.solvers.dual_cd import ALONG, DualCD, make
from blocksvm.solvers.protocol import Task
from blocksvm.sources.matrix import Matrix


def texts(n=160, d=40, seed=0):
    """Rows that are alike: a few frequent features that all have, many rare ones; noisy labels."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < 1.0 / (1.0 + np.arange(d))) * (0.5 + rng.random((n, d)))
    X[:, 0] = 1.0
    y = np.where((X - X.mean(axis=0)) @ rng.normal(size=d) + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    return sparse.csr_matrix(X), y


class Visit:
    """A solver's own visit to all rows of a matrix."""

    def __init__(self, X, y, loss="hinge", bias=0.0, solver=DualCDWithDirection, prior=None, **given):
        self.source = Matrix(X, y, np.zeros(1, np.int64), given.pop("row_weights", None))
        settings = {"loss": loss, **given}
        self.solver = solver(Task(settings, self.source, bias, several_passes=True))
        d, n = X.shape[1] if prior is None else len(prior) - 1, X.shape[0]
        self.state = {a.name: np.zeros(a.shape(d, n), a.dtype) for a in self.solver.state_arrays}
        if prior is not None:
            self.solver.prior = np.array(prior)
        self.solver.start(self.state)
        self.block = self.source.read_block(np.array([0]), None)
        self.begin()

    def begin(self):
        self.visit = {a.name: np.zeros(a.length or len(self.block.y), a.dtype) for a in self.solver.visit_arrays}
        self.solver.start_visit(self.visit)

    def make_pass(self, order):
        return self.solver.inner_pass(self.block, self.state, self.visit, np.array(order, np.int32))

    def dual(self):
        return self.solver.estimates(self.state, 0.0)[1]


def costs(y, n, C, class_weight, row_weights):
    return C * np.where(y > 0, class_weight, 1.0) * (np.ones(n) if row_weights is None else row_weights)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
@pytest.mark.parametrize("bias", [0.0, 1.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_its_definition_pass_by_pass(loss, bias, weighted):
    X, y = texts()
    rng = np.random.default_rng(3)
    n, d = X.shape
    row_weights = rng.integers(0, 4, n).astype(float) if weighted else None
    given = {"C": 0.6, "class_weight": "1=2" if weighted else None, "row_weights": row_weights}
    case = Visit(X, y, loss, bias, **{name: value for name, value in given.items() if value is not None})
    C = costs(y, n, 0.6, 2.0 if weighted else 1.0, row_weights)
    orders = [rng.permutation(n) for _ in range(7)]
    dense = np.hstack([X.todense(), np.full((n, 1), bias)])
    seen = C > 0  # rows of cost 0 are no part of the problem
    expected = reference.dual_cd_with_direction(
        dense[seen], y[seen], C[seen], loss, [np.cumsum(seen)[o[seen[o]]] - 1 for o in orders], every=1
    )
    case.solver.choose = every_row(case.solver.choose)
    dual = 0.0
    for order, (w, alpha, room) in zip(orders, expected, strict=True):
        done = case.make_pass(order)
        np.testing.assert_allclose(case.state["alpha"][seen], alpha, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(case.state["w"], w, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(case.visit[ROOM][seen], room, rtol=1e-9, atol=1e-11)
        before, dual = dual, reference.dual(dense[seen], y[seen], alpha, C[seen], loss)
        assert done.gain == pytest.approx(dual - before, rel=1e-8, abs=1e-10)
        assert case.dual() == pytest.approx(dual, rel=1e-10)
    assert case.visit[ALONG][kernels.CHOSEN] == 1.0
    assert 0 < np.count_nonzero(room) < np.count_nonzero(expected[1][2]), "some rows left the direction"


def every_row(choose):
    """``choose`` with all rows in place of each eighth."""

    def chosen(*arguments):
        assert arguments[7] == EVERY
        return choose(*arguments[:7], 1, *arguments[8:])

    return chosen


def test_each_eighth_row_of_the_order_is_a_part_of_it():
    X, y = texts(400)
    case = Visit(X, y, "squared-hinge", 1.0)
    rng = np.random.default_rng(1)
    orders = [rng.permutation(400) for _ in range(5)]
    expected = reference.dual_cd_with_direction(
        np.hstack([X.todense(), np.ones((400, 1))]), y, np.ones(400), "squared-hinge", orders
    )
    for order, (w, alpha, _) in zip(orders, expected, strict=True):
        case.make_pass(order)
        np.testing.assert_allclose(case.state["alpha"], alpha, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(case.state["w"], w, rtol=1e-9, atol=1e-11)
    assert 10 < np.count_nonzero(case.visit[ROOM]) <= 50


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_rows_that_are_not_alike_are_visited_as_without(loss):
    X, y = random_rows(n=300, d=60, seed=5)
    with_direction, without = Visit(X, y, loss), Visit(X, y, loss, solver=DualCD)
    rng = np.random.default_rng(0)
    for _ in range(4):
        order = rng.permutation(300)
        ours, plain = with_direction.make_pass(order), without.make_pass(order)
        assert ours == plain
    assert with_direction.visit[ALONG][kernels.CHOSEN] == -1.0
    for name in ("w", "alpha", "sums"):
        np.testing.assert_array_equal(with_direction.state[name], without.state[name])


def test_blocks_with_fewer_entries_than_w_are_visited_as_without():
    X, y = texts()
    for width, chosen in ((X.nnz - 1, 1.0), (X.nnz, 0.0)):
        wide = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(len(y), width))
        with_direction, without = Visit(wide, y, bias=1.0), Visit(wide, y, bias=1.0, solver=DualCD)
        rng = np.random.default_rng(0)
        for _ in range(3):
            order = rng.permutation(len(y))
            with_direction.make_pass(order)
            without.make_pass(order)
        assert with_direction.visit[ALONG][kernels.CHOSEN] == chosen
        assert np.array_equal(with_direction.state["w"], without.state["w"]) == (chosen == 0.0)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
@pytest.mark.parametrize("most", [0, 1, 5])
def test_what_passes_do_not_see_of_the_direction_costs_time_and_nothing_else(loss, most, monkeypatch):
    """With fewer frequent features than c has, w still belongs to alpha, and the dual to both."""
    import blocksvm.solvers.common_direction as solver

    monkeypatch.setattr(solver, "MOST_FREQUENT", most)
    X, y = texts()
    n = len(y)
    prior = np.random.default_rng(9).normal(size=X.shape[1] + 4) * 0.1  # of features that no row has, too
    case = Visit(X, y, loss, 1.0, prior=prior)
    assert len(case.visit[FREQUENT]) == most + 1
    rng = np.random.default_rng(2)
    last = case.dual()
    for _ in range(6):
        done = case.make_pass(rng.permutation(n))
        w, alpha = case.state["w"], case.state["alpha"]
        moved = (alpha * y) @ X.toarray()
        np.testing.assert_allclose(w[: X.shape[1]], prior[: X.shape[1]] + moved, rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(w[X.shape[1] : -1], prior[X.shape[1] : -1])
        assert w[-1] == pytest.approx(prior[-1] + alpha @ y, rel=1e-12, abs=1e-12)
        assert alpha.min() >= 0.0 and (loss == "squared-hinge" or alpha.max() <= 1.0)
        last, before = case.dual(), last
        assert done.gain == pytest.approx(last - before, rel=1e-8, abs=1e-10)
        assert last > before - 1e-9
    assert case.visit[ALONG][kernels.CHOSEN] == 1.0 and np.count_nonzero(case.visit[ROOM]) < n // 8


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_where_rows_have_much_in_common_half_the_passes_are_enough(loss):
    rng = np.random.default_rng(4)
    entries = rng.integers(0, 8000, 20_000), np.repeat(np.arange(1000), 20)
    X = sparse.csr_matrix((np.full(20_000, 20**-0.5), entries[::-1]), shape=(1000, 8000))
    y = np.where(rng.random(1000) < 0.8, 1.0, -1.0)
    gaps = {}
    for solver in (DualCD, DualCDWithDirection):
        case = Visit(X, y, loss, 1.0, solver=solver)
        rng = np.random.default_rng(6)
        gaps[solver] = []
        for _ in range(24):
            case.make_pass(rng.permutation(1000))
            case.visit["active"][:] = 1
            case.visit["range"][:2] = np.inf, -np.inf
            slack = np.maximum(0.0, 1.0 - y * (X @ case.state["w"][:-1] + case.state["w"][-1]))
            lost = slack.sum() if loss == "hinge" else slack @ slack
            gaps[solver].append(0.5 * case.state["w"] @ case.state["w"] + lost - case.dual())
    assert min(gaps[DualCDWithDirection][:12]) < min(gaps[DualCD])


def test_only_visits_of_several_passes_and_quadratic_conjugates_have_one():
    source = Matrix(*texts())
    assert type(make(Task({"loss": "hinge"}, source, several_passes=True))) is DualCDWithDirection
    assert type(make(Task({"loss": "logistic"}, source, several_passes=True))) is DualCD
    assert type(make(Task({"loss": "hinge"}, source))) is DualCD
    with_set = make(Task({"loss": "hinge"}, source, working_set=True, several_passes=True))
    assert not isinstance(with_set, DualCDWithDirection)


def test_a_row_is_no_direction():
    """The mean over pairs of one row is of nothing."""
    X, y = texts(20)
    case = Visit(X, y, "squared-hinge", 1.0)
    case.make_pass(np.arange(20))
    case.visit["active"][:] = 0
    case.visit["active"][3] = 1
    case.visit["range"][3] = 19
    case.make_pass(np.arange(20))
    assert case.visit[ALONG][kernels.CHOSEN] == -1.0


def test_entries_of_c_that_cancel_come_back_when_rows_leave():
    """Rows (1, +1) and (1, -1) by turns: c's second entry is 0, to the last bit, until the first of them leaves."""
    n = 64
    X = sparse.csr_matrix(np.column_stack([np.ones(n), np.tile([1.0, -1.0], n // 2)]))
    y = np.where(np.arange(n) % 3 == 0, -1.0, 1.0)
    case = Visit(X, y, "squared-hinge", 1.0)
    case.solver.choose = every_row(case.solver.choose)
    case.state["alpha"][:] = 0.25
    case.state["w"][:] = np.append((0.25 * y) @ X.toarray(), 0.25 * y.sum())
    case.state["sums"][0] = n * (0.25**2 / 4.0 - 0.25)
    case.visit["range"][2] = 1.0
    rng = np.random.default_rng(0)
    case.make_pass(np.arange(n))
    assert case.visit[ALONG][kernels.SUPPORT] == 2
    for _ in range(4):
        alpha = case.state["alpha"]
        np.testing.assert_allclose(case.state["w"][:2], (alpha * y) @ X.toarray(), rtol=1e-12, atol=1e-12)
        assert case.dual() == pytest.approx(reference.dual(
            np.hstack([X.toarray(), np.ones((n, 1))]), y, alpha, np.ones(n), "squared-hinge"), rel=1e-12
        )  # fmt: skip
        case.make_pass(rng.permutation(n))
    assert np.count_nonzero(case.visit[ROOM]) < n, "some have left"


def test_after_three_falls_of_the_dual_a_run_goes_on_without():
    X, y = texts()
    case, plain = Visit(X, y, bias=1.0), Visit(X, y, bias=1.0, solver=DualCD)
    case.state[FALLS][0] = MOST_FALLS
    rng = np.random.default_rng(0)
    for _ in range(3):
        order = rng.permutation(len(y))
        assert case.make_pass(order) == plain.make_pass(order)
    np.testing.assert_array_equal(case.state["w"], plain.state["w"])
    # a fall is counted
    again = Visit(X, y, bias=1.0)
    follow, again.solver.follow = again.solver.follow, lambda *a: (follow(*a)[0], -1e9)
    for _ in range(3):
        again.make_pass(rng.permutation(len(y)))
    assert again.state[FALLS][0] == 1.0 and again.visit[ALONG][kernels.CHOSEN] == -1.0


def test_what_rounding_leaves_of_a_direction_is_none():
    X, y = texts()
    case = Visit(X, y, bias=1.0)
    rng = np.random.default_rng(0)
    for _ in range(2):
        case.make_pass(rng.permutation(len(y)))
    along, before = case.visit[ALONG], {name: case.state[name].copy() for name in ("w", "alpha")}
    assert along[kernels.SQUARE] > kernels.LEAST_SQUARE * along[kernels.AT_FIRST] > 0.0
    along[kernels.SQUARE] = kernels.LEAST_SQUARE * along[kernels.AT_FIRST]
    along[kernels.INNER] = 1.0
    plain = Visit(X, y, bias=1.0, solver=DualCD)
    for name, array in before.items():
        plain.state[name][:] = array
    plain.visit["range"][:] = case.visit["range"]
    plain.visit["active"][:] = case.visit["active"]
    order = rng.permutation(len(y))
    case.make_pass(order)
    plain.make_pass(order)
    assert along[kernels.CURVATURE] == along[kernels.TAU] == 0.0
    for name in before:
        np.testing.assert_array_equal(case.state[name], plain.state[name])


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
@pytest.mark.parametrize("chunks", [4, 40])
def test_runs_replay_and_resume_bit_by_bit_and_certify(loss, chunks, tmp_path):
    X, y = texts(400, 50, seed=8)
    source = Matrix(X, y, chunk_rows=np.arange(0, 400, 10))
    settings = {"schedule": "gain", "block_chunks": chunks, "max_outer": 40, "bias": 1.0, "loss": loss}
    settings |= {"working_set": "none", "tol": 1e-6 if loss == "squared-hinge" else 2e-3}
    whole = train(source, **settings)
    assert whole.result.status == "converged"
    assert max(whole.result.passes) > 2
    dense = np.hstack([X.todense(), np.ones((400, 1))])
    np.testing.assert_allclose(whole.w, np.asarray((whole.alpha * y) @ dense).ravel(), rtol=1e-10, atol=1e-11)
    certificate = whole.result.certificate
    assert certificate.dual == pytest.approx(reference.dual(dense, y, whole.alpha, np.ones(400), loss), rel=1e-12)
    assert train(source, **settings).same(whole)
    assert train(source, replay=(whole.result.passes, []), **settings).same(whole)
    for stop in (1, 2, 3, 4, 7, 11):
        checkpoint = tmp_path / f"{stop}.ckpt"
        train(source, checkpoint=checkpoint, stop=stop_after(stop), **settings)
        resumed = train(source, checkpoint=checkpoint, resume=True, **settings)
        assert resumed.same(whole)
        assert resumed.result.passes == whole.result.passes


def test_memory_is_counted():
    """Twelve bytes a feature, and eight a row of a block."""
    X, y = texts(200)
    wide = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(200, 500_000))
    taken = [fit(wide, y, schedule=s, max_outer=1, working_set="none").loop.plan.memory() for s in ("gain", "2")]
    more = sum(taken[0].values()) - sum(taken[1].values())
    assert 12 * 500_000 <= more <= 12 * 500_000 + 8 * 16_400 + 8 * 200 + 200


def test_features_of_no_row():
    X, y = texts(30)
    empty = sparse.csr_matrix((30, 0))
    assert fit(empty, y, schedule="gain", bias=1.0, loss="squared-hinge", tol=1e-8).certificate.rel_gap <= 1e-8
    assert fit(X[:, :1], y, schedule="gain", loss="hinge", tol=1e-6).certificate.rel_gap <= 1e-6

"""Rows at rest: left out of some outer iterations while they lie far beyond their bound."""

import numpy as np
import pytest
import reference
from scipy import sparse
from support.training_cases import make_pass, visit_of

from blocksvm.api.fit import fit
from blocksvm.base.threads import Threads
from blocksvm.kernels.dual_cd_loops import Limits, PassArrays
from blocksvm.solvers.dual_cd import LONGEST_REST, REST_VISITS, DualCD
from blocksvm.solvers.screening import screened_pass
from blocksvm.solvers.solver import Task
from blocksvm.sources.matrix import Matrix

N, D = 60, 30


@pytest.fixture
def rows():
    rng = np.random.default_rng(8)
    X = sparse.random(N, D, density=0.3, format="csr", random_state=4)
    X.data = np.round(rng.normal(size=X.nnz), 3)
    X.eliminate_zeros()
    y = np.where(X @ rng.normal(size=D) + rng.normal(size=N) > 0, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_equals_its_definition(rows, loss):
    X, y = rows
    rng = np.random.default_rng(0)
    orders = [rng.permutation(N) for _ in range(12)]
    source = Matrix(X, y)
    solver = DualCD(Task({"loss": loss}, source))
    state = {a.name: np.zeros(a.shape(D, N), a.dtype) for a in solver.state_arrays}
    block = source.read_block(np.array([0]), None)
    visited, estimates = [], []
    for k, order in enumerate(orders):
        done = make_pass(solver, block, state, visit_of(solver, N), order)
        visited.append(done.rows_visited)
        estimates.append(solver.estimates(state, done.loss_sum)[0] - 0.5 * state["w"] @ state["w"])
        solver.end_outer(state, k + 1)
    w, alpha, expected_visited, expected_estimates = reference.dual_cd_with_rest(
        X, y, np.ones(N), loss, [[order] for order in orders]
    )
    assert visited == expected_visited
    assert min(visited) < N  # some did rest
    np.testing.assert_allclose(state["alpha"], alpha, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(state["w"][:D], w, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(estimates, expected_estimates, rtol=1e-10)


@pytest.mark.parametrize("least", [1, 20, N])  # rows of a screened batch
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_with_a_working_set_rests_grow_however_many_passes_a_visit_has(rows, loss, passes, least):
    X, y = rows
    rng = np.random.default_rng(1)
    orders = [[rng.permutation(N) for _ in range(passes)] for _ in range(40)]
    source = Matrix(X, y)
    solver = DualCD(Task({"loss": loss}, source, working_set=True))
    solver.threads = Threads(1, piece=-(-least * source.n_nonzeros // N))
    state = {a.name: np.zeros(a.shape(D, N), a.dtype) for a in solver.state_arrays}
    block = source.read_block(np.array([0]), None)
    visited, longest = [], 0
    for k, passes_of_visit in enumerate(orders):
        visit = visit_of(solver, N)
        done = [make_pass(solver, block, state, visit, order) for order in passes_of_visit]
        visited.append(done[0].rows_visited * passes)  # the second pass tells the active ones among them
        longest = max(longest, int(state["rest"].max()))
        solver.end_outer(state, k + 1)
    w, alpha, expected, _ = reference.dual_cd_with_rest(
        X, y, np.ones(N), loss, orders, visits=LONGEST_REST, begin=REST_VISITS, with_set=True, least=least
    )  # fmt: skip
    assert visited == expected
    assert longest >= 7  # some have grown
    np.testing.assert_allclose(state["alpha"], alpha, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(state["w"][:D], w, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_the_optimum_is_the_same(rows):
    X, y = rows
    certified = fit(X, y, tol=1e-9, schedule="1", max_outer=5000).certificate
    _, _, primal, dual = reference.exact_optimum(X, y, np.ones(N), "hinge")
    assert certified.dual <= primal * (1 + 1e-12)
    assert certified.primal == pytest.approx(primal, rel=1e-8)


def test_a_screened_pass_takes_memory_of_its_rows_alone():
    """Of rows nearly all without entries a piece of work has many more than there are."""

    def step(order, limits, arrays, moving):
        if moving is not None:
            moving[:] = order
        return 0.0, 0.0, 0, len(order), 0.0, 0.0, 0.0, 0.0, 0.0, len(order)

    arrays = PassArrays(*[np.zeros(3)] * len(PassArrays._fields))
    for n in (0, 3):
        done = screened_pass(step, Threads(1), np.arange(n, dtype=np.int32), 10**15, (Limits(), arrays, True))
        assert done[3] == n

"""Rows at rest: left out of some outer iterations while they lie far beyond their bound."""

import numpy as np
import pytest
from scipy import sparse
from support.training_cases import make_pass

from blocksvm.base.threads import Threads
from blocksvm.solvers.dual_cd import REST_VISITS, DualCD
from blocksvm.solvers.dual_cd_kernels import Limits, PassArrays
from blocksvm.solvers.screening import screened_pass
from blocksvm.solvers.solver import Task, Visit
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
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize(("working_set", "least"), [(False, 1), (True, 1), (True, 20), (True, N)])
def test_rows_at_rest_lie_beyond_their_bounds_and_come_back(rows, loss, passes, working_set, least):
    """least: rows of a screened batch.  With a working set rests grow."""
    X, y = rows
    rng, source = np.random.default_rng(1), Matrix(X, y)
    solver = DualCD(Task({"loss": loss}, source, working_set=working_set))
    if working_set:
        solver.threads = Threads(1, piece=-(-least * source.n_nonzeros // N))
    state = {a.name: np.zeros(a.shape(D, N), a.dtype) for a in solver.state_arrays}
    block, upper = source.read_block(np.array([0]), None), 1.0 if loss == "hinge" else np.inf
    solver.start(state)
    rests = []
    for k in range(40):
        asleep, before, visit = state["rest"] > 1, state["alpha"].copy(), Visit()
        done = [make_pass(solver, block, state, visit, rng.permutation(N)) for _ in range(passes)]
        assert done[0].rows_visited == N - asleep.sum()
        np.testing.assert_array_equal(state["alpha"][asleep], before[asleep])
        fell = (state["rest"] > 1) & ~asleep
        assert np.isin(state["alpha"][fell], (0.0, upper)).all() and (k >= REST_VISITS or not fell.any())
        rests += (state["rest"][fell] - 1).tolist()
        assert working_set or not (state["rest"][~asleep] == 1).any(), "further passes of a visit leave none out"
        if not working_set and passes == 1:
            dual = state["alpha"].sum() - 0.5 * state["w"] @ state["w"]
            dual -= 0.0 if loss == "hinge" else 0.25 * np.sum(state["alpha"] ** 2)
            assert solver.estimates(state, done[0].loss_sum)[1] == pytest.approx(dual, rel=1e-9)
        solver.end_outer(state, k + 1)
    assert len(rests) > 10 and set(rests) <= ({3, 9, 21, 45} if working_set else {REST_VISITS})
    assert not working_set or max(rests) >= 9
    np.testing.assert_allclose(state["w"][:D], X.T @ (y * state["alpha"]), rtol=1e-9, atol=1e-12)


def test_a_screened_pass_takes_memory_of_its_rows_alone():
    """Of rows nearly all without entries a piece of work has many more than there are."""

    def step(order, limits, arrays, moving):
        if len(moving):
            moving[:] = order
        return 0.0, 0.0, 0, len(order), 0.0, 0.0, 0.0, 0.0, len(order)

    arrays = PassArrays(*[np.zeros(3)] * len(PassArrays._fields))
    for n in (0, 3):
        done = screened_pass(step, Threads(1), np.arange(n, dtype=np.int32), 10**15, (Limits(), arrays, True))
        assert done[3] == n

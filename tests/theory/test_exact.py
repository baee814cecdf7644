"""FoReL and FTL by exact minimisers on every prefix of the rows; the certified least of losses + weighted ||w||_1."""

import numpy as np
import pytest
import reference
import scipy.sparse
from scipy.optimize import linprog, minimize
from support.plain_learners import LOSSES
from support.refused import refused
from support.regret_cases import sample
from support.training_cases import asked, assert_resumed, random_rows, stop_after, train

from blocksvm import Matrix, fit
from blocksvm.theory.comparators import TOLERANCE, least_with_l1
from blocksvm.theory.run import Losses


@pytest.mark.parametrize("eta", [0.05, 1.0])
def test_forel_follows_the_regularised_leader(eta):
    X, y = random_rows(n=24, d=4, density=0.7, seed=3, zero_rows=1, copies=1)
    rows, weights = X.toarray(), [np.zeros(4)]
    for t in range(1, len(y) + 1):

        def objective(w, X=rows[:t], y=y[:t]):
            gap = np.maximum(0.0, 1.0 - y * (X @ w))
            return eta * (gap**2).sum() + 0.5 * w @ w, -2.0 * eta * X.T @ (y * gap) + w

        weights.append(minimize(objective, weights[-1], jac=True, method="BFGS", options={"gtol": 1e-10}).x)
    run = train(Matrix(X, y), solver="forel-exact", order="stored", loss="squared-hinge", step=eta)
    np.testing.assert_allclose(run.w[:-1], weights[-1], atol=2e-5)
    margins, last = y * np.sum(rows * weights[:-1], axis=1), run.outer()[-1]
    assert last["mistakes"] == (margins <= 0).sum()
    assert last["cumulative_loss"] == pytest.approx((np.maximum(0, 1 - margins) ** 2).sum(), rel=1e-4)
    assert [e["rows"] for e in run.events if e["event"] == "progress"] == [1, 2, 4, 8, 16]


def test_what_does_not_fit_is_refused():
    X, y = random_rows(n=40, seed=1)
    source = Matrix(X, y, chunk_rows=np.arange(0, 40, 4))
    for settings, what in [
        ({"solver": "ftl", "step": 1.0}, "step: ftl does not accept it; it accepts loss, radius"),
        ({"solver": "forel-exact", "loss": "logistic"}, "loss=logistic: choose one of hinge, squared-hinge"),
        ({"solver": "ftl", "average": True}, "average: ftl does not accept it"),
        ({"solver": "ftl", "block_chunks": 2}, "ftl: needs all rows in memory at once"),
        ({"solver": "ftl", "radius": 0.0}, "radius=0: must be above 0 and at most"),
    ]:
        refused(what, fit, source, **settings)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_a_regularised_leader_is_exact_whatever_the_step(loss):
    """At a step of 1e5, too, where coordinate descent does not arrive: by the duality gap."""
    X, y = random_rows(n=60, d=5, density=0.8, seed=4, zero_rows=1, copies=6)
    for eta in (1e-4, 1.0, 1e5):
        run = train(Matrix(X, y), solver="forel-exact", order="stored", loss=loss, step=eta)
        w, alpha, C_rows = run.w[:-1], run.loop.state["alpha"], np.full(60, eta)
        primal, dual = reference.primal(X, y, w, C_rows, loss), reference.dual(X, y, alpha, C_rows, loss)
        assert primal - dual <= 1e-9 * primal
        assert run.result.note == ""


@pytest.mark.parametrize("radius", [1e-2, *(pytest.param(r, marks=pytest.mark.slow) for r in (1e-5, 0.3, 1e3))])
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_the_leader_stays_in_a_ball_of_any_radius(radius, loss):
    X, y = random_rows(n=40, d=4, density=0.8, seed=5, copies=4)
    rows = X.toarray()
    run = train(Matrix(X, y), solver="ftl", order="stored", loss=loss, radius=radius)
    w = run.w[:-1]
    assert np.linalg.norm(w) <= radius * (1.0 + 1e-12)
    assert radius > 1.0 or np.linalg.norm(w) == pytest.approx(radius, rel=1e-6)
    power = 1 if loss == "hinge" else 2

    def total(w):
        return (np.maximum(0.0, 1.0 - y * (rows @ w)) ** power).sum()

    # the least loss in the ball, by subgradient steps with projection from the solution and from elsewhere
    least = total(w)
    for start in (w, np.zeros(4), *np.random.default_rng(0).standard_normal((4, 4))):
        v = start * min(1.0, radius / max(1e-300, np.linalg.norm(start)))
        for k in range(1, 3000):
            m = y * (rows @ v)
            slope = -power * rows.T @ (y * np.maximum(0.0, 1.0 - m) ** (power - 1) * (m < 1.0))
            v = v - min(radius, 1.0) / np.sqrt(k) * slope / max(1e-300, np.linalg.norm(slope))
            v = v * min(1.0, radius / max(1e-300, np.linalg.norm(v)))
            least = min(least, total(v))
    assert total(w) <= least * (1.0 + 2e-7) + 1e-8


@pytest.mark.slow
def test_rounds_take_a_few_steps_of_the_active_set(monkeypatch):
    """Thousands of rows are no matter of hours: a round's problem differs from the last one's by a row."""
    from blocksvm.online.exact import Leader

    steps = []
    step = Leader._step
    monkeypatch.setattr(Leader, "_step", lambda self, *arguments: steps.append(1) or step(self, *arguments))
    X, y = random_rows(n=400, d=13, density=0.9, seed=6)
    train(Matrix(X, y), solver="ftl", order="stored")
    assert len(steps) < 15 * 400


@pytest.mark.slow
def test_a_run_is_broken_off_between_epochs_and_gone_on_with(tmp_path):
    X, y = random_rows(n=60, d=5, density=0.8, seed=7)
    settings = {"solver": "ftl", "order": "shuffled", "max_outer": 2, "seed": 1}
    whole, questions = asked(Matrix(X, y), **settings)
    assert_resumed(Matrix(X, y), tmp_path, range(1, questions + 1), whole, **settings)
    limits = ({"max_seconds": 1e-9}, {"stop": stop_after(1)}, {"stop": stop_after(2)})
    broken = [train(Matrix(X, y), **settings, **more) for more in limits]
    assert [run.result.status for run in broken] == ["max-seconds", "interrupted", "interrupted"]
    assert [run.loop.state["tally"][0] for run in broken] == [60, 60, 120]


NAMES = ("hinge", "epsilon-insensitive", "squared-hinge", "logistic", "squared")


def primal(name, X, y, m, w):
    return sum(LOSSES[name](z, label, 0.1)[0] for z, label in zip(X @ w, y, strict=True)) + m @ np.abs(w)


def by_program(name, X, y, m):
    """min sum xi + m'(p + q), w = p - q, as a linear program."""
    eye = np.eye(len(y))
    if name == "hinge":  # xi_i >= 1 - y_i <w, x_i>
        A, b = np.hstack([-y[:, None] * X, y[:, None] * X, -eye]), -np.ones(len(y))
    else:  # xi_i >= |<w, x_i> - y_i| - 0.1
        A = np.vstack([np.hstack([X, -X, -eye]), np.hstack([-X, X, -eye])])
        b = np.concatenate([0.1 + y, 0.1 - y])
    return linprog(np.concatenate([m, m, np.ones(len(y))]), A_ub=A, b_ub=b).fun


def losses_of(name):
    return Losses(name, {"epsilon": 0.1})


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_least_and_the_gap_is_true(name, seed):
    X, y, _ = sample(n=60, d=12, seed=seed, noise=(0.0, 0.2)[seed % 2], zeros=3)
    rng = np.random.default_rng(seed)
    m = (0.05, 1.0, 5.0, 30.0)[seed] * rng.uniform(0.2, 2.0, 12)
    w, total, gap = least_with_l1(scipy.sparse.csr_matrix(X), y, losses_of(name), m)
    own = primal(name, X, y, m, w)
    assert gap <= TOLERANCE and total == pytest.approx(own, rel=1e-12)
    if name in ("hinge", "epsilon-insensitive"):
        expected = by_program(name, X, y, m)
        assert own >= expected * (1 - 1e-7)
        assert own - expected <= gap * own + 1e-9 * expected
    else:  # 0 is a subgradient
        g = X.T @ losses_of(name).at(X @ w, y)[1]
        assert (np.abs(g) <= m * (1 + 1e-3)).all()
        np.testing.assert_allclose(g[w != 0.0], (-m * np.sign(w))[w != 0.0], rtol=1e-2)


def test_a_feature_without_weight_has_no_certificate():
    X, y, _ = sample(n=60, d=4, seed=1, noise=0.3)
    m = np.array([0.0, 1.0, 1.0, 1.0])
    w, _, gap = least_with_l1(scipy.sparse.csr_matrix(X), y, losses_of("hinge"), m)
    assert gap == 1.0
    assert primal("hinge", X, y, m, w) == pytest.approx(by_program("hinge", X, y, m), rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_smoothed_losses_lie_below_and_have_their_slopes(name):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(50) < 0.5, 1.0, -1.0)
    z, losses = 2.0 * rng.standard_normal(50), losses_of(name)
    width = 0.0 if losses.smooth else 0.3
    values, slopes = losses.at(z, y, width)
    plain = losses.at(z, y)[0]
    assert (plain - width / 2 - 1e-12 <= values).all() and (values <= plain + 1e-12).all()
    for i in range(5):
        step = np.where(np.arange(50) == i, 1e-6, 0.0)
        numerical = (losses.at(z + step, y, width)[0] - losses.at(z - step, y, width)[0]).sum() / 2e-6
        assert slopes[i] == pytest.approx(numerical, abs=1e-6)

"""FoReL and FTL by exact minimisers, against a general optimiser on every prefix of the rows; the certified least of
losses + weighted ||w||_1, against linear programs and by its conditions."""

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linprog, minimize
from support.plain_learners import LOSSES
from support.regret_cases import sample
from support.training_cases import asked, random_rows, stop_after, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.sources.matrix import Matrix
from blocksvm.theory.comparators import TOLERANCE, least_with_l1
from blocksvm.theory.run import Losses


def squared_losses(w, X, y):
    gap = np.maximum(0.0, 1.0 - y * (X @ w))
    return (gap**2).sum(), -2.0 * X.T @ (y * gap)


@pytest.fixture(scope="module")
def few():
    X, y = random_rows(n=24, d=4, density=0.7, seed=3, zero_rows=1, copies=1)
    return X, y


def scores_and_losses(X, y, weights):
    before = np.array([x @ w for x, w in zip(X, weights, strict=True)])
    margins = y * before
    return (margins <= 0).sum(), (np.maximum(0, 1 - margins) ** 2).sum()


@pytest.mark.parametrize("eta", [0.05, 1.0])
def test_forel_follows_the_regularised_leader(few, eta):
    X, y = few
    rows = X.toarray()
    weights = [np.zeros(4)]
    for t in range(1, len(y) + 1):

        def objective(w, t=t):
            value, slope = squared_losses(w, rows[:t], y[:t])
            return eta * value + 0.5 * w @ w, eta * slope + w

        weights.append(minimize(objective, weights[-1], jac=True, method="BFGS", options={"gtol": 1e-10}).x)
    run = train(Matrix(X, y), solver="forel-exact", order="stored", loss="squared-hinge", step=eta)
    np.testing.assert_allclose(run.w[:-1], weights[-1], atol=2e-5)
    mistakes, losses = scores_and_losses(rows, y, weights[:-1])
    last = run.outer()[-1]
    assert last["mistakes"] == mistakes
    assert last["cumulative_loss"] == pytest.approx(losses, rel=1e-4)
    assert [e["rows"] for e in run.events if e["event"] == "progress"] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("radius", [0.3, 50.0])
def test_ftl_follows_the_leader_in_the_ball(few, radius):
    X, y = few
    rows = X.toarray()
    run = train(Matrix(X, y), solver="ftl", order="stored", loss="squared-hinge", radius=radius)
    w = run.w[:-1]
    assert np.linalg.norm(w) <= radius * (1 + 1e-6)
    best = minimize(
        lambda w: squared_losses(w, rows, y)[0], 0.1 * np.ones(4), jac=lambda w: squared_losses(w, rows, y)[1],
        method="SLSQP", constraints={"type": "ineq", "fun": lambda w: radius**2 - w @ w, "jac": lambda w: -2 * w},
        options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    slack = best.x @ best.x / 2e3 if radius > 1 else 0.0
    assert squared_losses(w, rows, y)[0] <= best.fun * (1 + 1e-5) + 1e-6 + slack
    if radius < 1:
        assert np.linalg.norm(w) == pytest.approx(radius, rel=1e-6)


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
        with pytest.raises(InputError, match=what):
            fit(source, **settings)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_a_regularised_leader_is_exact_whatever_the_step(loss):
    """At a step of 1e5, too, where coordinate descent does not arrive: by the duality gap."""
    X, y = random_rows(n=60, d=5, density=0.8, seed=4, zero_rows=1, copies=6)
    rows = X.toarray()
    for eta in (1e-4, 1.0, 1e5):
        run = train(Matrix(X, y), solver="forel-exact", order="stored", loss=loss, step=eta)
        w, alpha = run.w[:-1], run.loop.state["alpha"]
        m = y * (rows @ w)
        slack = np.maximum(0.0, 1.0 - m) ** (1 if loss == "hinge" else 2)
        primal = 0.5 * w @ w + eta * slack.sum()
        u = rows.T @ (alpha * y)
        dual = alpha.sum() - 0.5 * u @ u - (alpha @ alpha / (4.0 * eta) if loss != "hinge" else 0.0)
        assert alpha.min() >= 0.0 and (loss != "hinge" or alpha.max() <= eta)
        assert primal - dual <= 1e-9 * primal
        assert run.result.note == ""


@pytest.mark.slow
@pytest.mark.parametrize("radius", [1e-5, 1e-2, 1e3])
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_the_leader_stays_in_a_ball_of_any_radius(radius, loss):
    X, y = random_rows(n=40, d=4, density=0.8, seed=5, copies=4)
    rows = X.toarray()
    run = train(Matrix(X, y), solver="ftl", order="stored", loss=loss, radius=radius)
    w = run.w[:-1]
    assert np.linalg.norm(w) <= radius * (1.0 + 1e-12)
    power = 1 if loss == "hinge" else 2

    def total(w):
        return (np.maximum(0.0, 1.0 - y * (rows @ w)) ** power).sum()

    # the least loss in the ball, by subgradient steps with projection from the solution and from elsewhere
    least = total(w)
    for start in (w, np.zeros(4), *np.random.default_rng(0).standard_normal((4, 4))):
        v = start * min(1.0, radius / max(1e-300, np.linalg.norm(start)))
        for k in range(1, 3000):
            slope = (
                -power * rows.T @ (y * np.maximum(0.0, 1.0 - y * (rows @ v)) ** (power - 1) * (y * (rows @ v) < 1.0))
            )
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
    for polls in range(1, questions + 1):
        path = tmp_path / f"{polls}.ckpt"
        stopped = train(Matrix(X, y), stop=stop_after(polls), checkpoint=path, **settings)
        assert stopped.result.status == "interrupted"
        assert stopped.loop.state["tally"][0] == 60 * min(polls, 2)
        resumed = train(Matrix(X, y), checkpoint=path, resume=True, **settings)
        assert np.array_equal(resumed.w, whole.w)
        assert np.array_equal(resumed.loop.state["tally"], whole.loop.state["tally"])
    limited = train(Matrix(X, y), max_seconds=1e-9, **settings)
    assert limited.result.status == "max-seconds"
    assert limited.loop.state["tally"][0] == 60


NAMES = ("hinge", "epsilon-insensitive", "squared-hinge", "logistic", "squared")


def primal(name, X, y, m, w):
    return sum(LOSSES[name](z, label, 0.1)[0] for z, label in zip(X @ w, y, strict=True)) + m @ np.abs(w)


def by_program(name, X, y, m):
    """min sum xi + m'(p + q), w = p - q, as a linear program."""
    n, d = X.shape
    eye = np.eye(n)
    if name == "hinge":  # xi_i >= 1 - y_i <w, x_i>
        A, b = np.hstack([-y[:, None] * X, y[:, None] * X, -eye]), -np.ones(n)
    else:  # xi_i >= |<w, x_i> - y_i| - 0.1
        A = np.vstack([np.hstack([X, -X, -eye]), np.hstack([-X, X, -eye])])
        b = np.concatenate([0.1 + y, 0.1 - y])
    found = linprog(np.concatenate([m, m, np.ones(n)]), A_ub=A, b_ub=b)
    return found.fun


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

"""FoReL and FTL by exact minimisers, against a general optimiser on every prefix of the rows."""

import numpy as np
import pytest
from scipy.optimize import minimize
from support.training_cases import asked, random_rows, stop_after, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.sources.matrix import Matrix


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
    from blocksvm.online.active import Leader

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

"""Beginning from another run's end: feasible, with w that of alpha, and to the same optimum as from nothing."""

import numpy as np
import pytest
import reference
from support.class_cases import classes
from support.training_cases import Run, assert_resumed, looped, make_store, opened, rows_of_store, stop_after, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.model.solver_state import open_state
from blocksvm.sources.matrix import Matrix
from blocksvm.store.reader import Store
from blocksvm.training.checkpoint import save_result


def model_of(run: Run, store, path):
    with Store(store) as source:
        save_result(path, run.loop.plan, run.loop.state, run.result, source.feature_ids)
    return path


def start_of(store, warm_start, **settings):
    """(w, alpha, sums) with which a warm start begins, as the first pass sees them."""
    seen = []
    with opened(store) as source:
        loop = looped(source, warm_start=warm_start, max_outer=1, schedule="1", **settings)
        loop.allocate()
        inner_pass = loop.plan.solver.inner_pass

        def watch(*arguments):
            seen.append({name: array.copy() for name, array in loop.state.items()})
            return inner_pass(*arguments)

        loop.plan.solver.inner_pass = watch
        loop.run()
    return seen[0]


@pytest.mark.parametrize("blocks", [None, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("before", "after"), [
    ({"C": 0.5}, {"C": 1.0}), ({"C": 1.0}, {"C": 0.5}), ({"C": 0.5}, {"C": 0.5}),
    ({"C": 0.5, "loss": "hinge"}, {"C": 0.5, "loss": "squared-hinge"}),
    ({"C": 0.5, "loss": "squared-hinge"}, {"C": 0.5, "loss": "hinge"}),
    ({"C": 0.5, "loss": "squared-hinge"}, {"C": 5.0, "loss": "squared-hinge"}),
    ({"C": 0.5}, {"C": 0.5, "class_weight": {1.0: 3.0}, "bias": 0.5}),
    ({"C": 0.5, "loss": "hinge"}, {"C": 1.0, "loss": "logistic"}),
    ({"C": 0.5, "loss": "squared-hinge"}, {"C": 1.0, "loss": "logistic", "class_weight": {1.0: 2.0}}),
    *(({"C": 0.5, "loss": "logistic"}, {"C": 1.0, "loss": loss}) for loss in ("logistic", *reference.LOSSES)),
    ({"C": 0.5, "class_weight": {1.0: 3.0}}, {"C": 0.5}),
    *(({"C": 0.5, "class_weight": {1.0: 30.0}}, {"C": C, "class_weight": {1.0: 30.0}}) for C in (0.5, 0.2)),
])  # fmt: skip
def test_a_warm_start_is_feasible_and_leads_to_the_same_optimum(store, tmp_path, before, after, blocks):
    X, y, _ = rows_of_store(store)
    C, bias = after["C"], after.get("bias", 0.0)
    C_rows = np.where(y > 0, C * after.get("class_weight", {}).get(1.0, 1.0), C)
    loss = after.get("loss", "hinge")
    Xb = reference.with_bias(X, bias)
    first = train(store, schedule="10", tol=1e-3, **before)
    model = model_of(first, store, tmp_path / "first.h5")
    start = start_of(store, model, block_chunks=blocks, **after)
    alpha, w = start["alpha"], start["w"]
    assert alpha.any() and alpha.min() >= 0.0 and (alpha <= reference.box(loss, C_rows)[0]).all()
    np.testing.assert_allclose(w, reference.weights_of(Xb, y, alpha), rtol=1e-10, atol=1e-12)
    dual = reference.dual(Xb, y, alpha, C_rows, loss)
    assert -start["conjugates"][0] - 0.5 * w @ w == pytest.approx(dual, rel=1e-10)
    if before | {"C": C} == after:  # each variable has a bound of its own: rows at theirs stay there at another C
        assert "class_weight" not in after or first.alpha[y > 0].max() > before["C"] == first.alpha[y < 0].max()
        np.testing.assert_allclose(alpha / alpha.max(), first.alpha / first.alpha.max(), rtol=1e-9)
    # no multiple of this alpha inside the box is better
    for factor in (0.9, 0.99, 1.01, 1.1) if loss != "logistic" else ():
        if (factor * alpha <= reference.box(loss, C_rows)[0]).all():
            assert reference.dual(Xb, y, factor * alpha, C_rows, loss) <= dual * (1 + 1e-12)
    cold = train(store, schedule="10", tol=1e-5, block_chunks=blocks, **after)
    warm = train(store, schedule="10", tol=1e-5, block_chunks=blocks, warm_start=model, **after)
    assert cold.result.status == warm.result.status == "converged"
    assert warm.result.certificate.primal == pytest.approx(cold.result.certificate.primal, rel=2e-5)
    # the dual of the start at 0; of another loss's alpha that of the logistic loss may be less
    assert dual > 0.0 or (loss == "logistic" and before["loss"] != loss)
    if before == after:
        assert dual > (1 - 2e-3) * cold.result.certificate.primal, "the optimum itself is where it starts"


@pytest.mark.parametrize(("kind", "settings"), [
    ("classes", {}), ("classes", {"multiclass": "crammer-singer"}), ("two", {}), ("two", {"bias": "free"}),
    ("numbers", {"loss": "squared-epsilon-insensitive"}),
])  # fmt: skip
def test_a_start_at_another_c_is_nearer_to_the_optimum(rows, tmp_path, kind, settings):
    X, y = classes() if kind == "classes" else rows
    y = X @ np.linspace(-1.0, 2.0, X.shape[1]) if kind == "numbers" else y
    settings = {"tol": 1e-4, "schedule": "2", "max_outer": 5000} | settings
    fit(Matrix(X, y), C=1.0, **settings).save(tmp_path / "one.h5")
    for C in (0.9, 1.1):
        cold = fit(Matrix(X, y), C=C, **settings)
        warm = fit(Matrix(X, y), C=C, start_from=tmp_path / "one.h5", **settings)
        assert warm.status == "converged" and warm.result.outer < cold.result.outer
        assert warm.certificate.dual <= cold.certificate.primal * (1 + 1e-12)
    if kind == "classes":
        other = {"multiclass": "rest" if "multiclass" in settings else "crammer-singer"}
        with pytest.raises(InputError, match="with the same multiclass"):
            fit(Matrix(X, y), start_from=tmp_path / "one.h5", **other)
        fit(Matrix(X, y), solver="arow").save(tmp_path / "online.h5")
        with pytest.raises(InputError, match="was learned by arow, not by dual-cd"):
            fit(Matrix(X, y), solver="dual-cd", start_from=tmp_path / "online.h5")


@pytest.mark.parametrize("solver", ["dual-cd", "pegasos"])
def test_a_checkpoint_is_a_start_too(store, tmp_path, solver):
    checkpoint = tmp_path / "run.ckpt"
    settings = {"solver": solver, "schedule": "2", "block_chunks": 3}
    train(store, checkpoint=checkpoint, stop=stop_after(9), **settings)
    start = start_of(store, checkpoint, solver=solver)
    if solver == "dual-cd":
        saved = np.empty(200)
        open_state(checkpoint).load("dual-cd", "alpha", saved)
        assert saved.any()
        ratio = start["alpha"][saved > 0] / saved[saved > 0]
        assert np.ptp(ratio) < 1e-12, "all of alpha is scaled by one factor"
    else:
        v, scalars = np.empty(31), np.empty(6)
        open_state(checkpoint).load("pegasos", "v", v)
        open_state(checkpoint).load("pegasos", "scalars", scalars)
        np.testing.assert_allclose(start["scalars"][0] * start["v"], scalars[0] * v, rtol=1e-12)
        assert start["scalars"][1] == pytest.approx(start["v"] @ start["v"], rel=1e-12)


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("source", ["dual-cd", "pegasos", "arow"])
def test_pegasos_starts_from_a_model(store, tmp_path, source, batch):
    """From the weights saved; t goes on, and is the number of a step: of others' models that after one pass."""
    own = {"max_outer": 2} if source == "arow" else {"schedule": "1", "max_outer": 30, "tol": 0.0, "C": 0.5}
    first = train(store, solver=source, **own)
    model = model_of(first, store, tmp_path / "model.h5")
    start = start_of(store, model, solver="pegasos", batch=batch, C=0.5)
    assert np.array_equal(start["scalars"][0] * start["v"], first.w)
    assert source != "arow" or start["scalars"][0] == 1.0  # no other's scalars are taken for its own
    steps = 30 * 200 if source == "pegasos" else -(-200 // batch)
    assert start["scalars"][2] == steps + 1
    settings = {"solver": "pegasos", "schedule": "1", "max_outer": 1, "tol": 0.0, "C": 0.5, "batch": batch}
    warm = train(store, warm_start=model, **settings).result.certificate.primal
    cold = train(store, **settings).result.certificate.primal
    assert warm < cold


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [None, 3])
def test_the_first_reading_tells_how_much_is_left(store, tmp_path, blocks):
    """It makes one pass a visit, and where little is left the run ends soon; resumed in the middle of it, too."""
    settings = {"tol": 1e-5, "loss": "squared-hinge", "working_set": "none", "block_chunks": blocks}
    first = train(store, C=1.0, **settings)
    model = model_of(first, store, tmp_path / "model.h5")
    again = train(store, C=1.0, warm_start=model, **settings)
    n = again.events[0]["blocks"]
    assert again.result.status == "converged" and again.result.passes[:n] == [1] * n
    assert 3 * sum(again.result.passes) < sum(first.result.passes)
    other = train(store, C=2.0, warm_start=model, **settings)
    assert other.result.passes[:n] == [1] * n
    assert_resumed(store, tmp_path, (1, 2, 4), other, C=2.0, warm_start=model, **settings)


def test_what_cannot_be_a_start_is_refused(store, rows, tmp_path):
    X, y = rows
    pegasos = model_of(train(store, solver="pegasos", max_outer=1), store, tmp_path / "pegasos.h5")
    other = make_store(tmp_path, X * 0.5, y, name="other", dtype="float64")
    for source, given, says in (
        (store, {"warm_start": pegasos}, "holds no dual variables; dual-cd starts from a model or checkpoint of dual"),
        (other, {"warm_start": pegasos, "solver": "pegasos"}, "belongs to another store than"),
        (store, {"warm_start": store}, "is a store, but a model or checkpoint is needed here"),
        (store, {"warm_start": tmp_path / "missing.h5"}, "no such file"),
    ):
        with pytest.raises(InputError, match=says):
            train(source, **given)

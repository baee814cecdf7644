"""Every kind of passive-aggressive learner (PA, PA-I, PA-II), for every form of targets, by every way to it: ``train``
over stores, ``stream``, and ``fit`` from Python; each against the rule as it is written (Crammer et al., JMLR 2006) on
dense rows, and its saved model against the predictions of the rule.  And the one-row block: one step of dual coordinate
descent is one of theirs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import reference
import scipy.sparse
from support.stream_cases import weights_by_id
from support.training_cases import make_store, random_rows

from blocksvm.api.fit import fit
from blocksvm.commands import stream
from blocksvm.commands import train as train_command
from blocksvm.model.model_file import load_model
from blocksvm.sources.matrix import Matrix

N, INPUTS, K, C, EPSILON, REACH = 40, 9, 4, 0.3, 0.25, 2.2
COSTS = np.array([[0.0, 0.5, 4.0, 1.0], [1.0, 0.0, 0.0, 2.0], [9.0, 1.0, 0.0, 0.25], [1.0, 1.0, 1.0, 0.0]])
KINDS = {"pa": {}, "pa1": {"C": C}, "pa2": {"C": C}}


@dataclass(frozen=True)
class Form:
    """targets: 'signs', 'numbers', 'rows', 'classes' or 'sets'; options of all ways; max_loss: the rule
    of costs, None: there are none."""

    targets: str
    options: dict = field(default_factory=dict)
    max_loss: bool | None = None


ROWS = {"targets": "none", "epsilon": REACH}
FORMS = {
    "two classes": Form("signs"),
    "regression": Form("numbers", {"targets": "numbers", "epsilon": EPSILON}),
    "uniclass": Form("rows", ROWS),
    "uniclass, learned radius": Form("rows", ROWS | {"learn_radius": True}),
    "classes": Form("classes"),
    "sets": Form("sets", {"targets": "sets"}),
    "costs, prediction-based": Form("classes", {"costs": COSTS}, max_loss=False),
    "costs, max-loss": Form("classes", {"costs": COSTS, "cost_rule": "max-loss"}, max_loss=True),
}


def targets_of(form):
    """(X (N, INPUTS) of float32 values, targets); a row without entries among them."""
    rng = np.random.default_rng(5)
    X = (rng.standard_normal((N, INPUTS)) * (rng.random((N, INPUTS)) < 0.6)).astype(np.float32).astype(np.float64)
    X[N // 2] = 0.0
    scores = X @ rng.standard_normal((INPUTS, K)) + 0.5 * rng.standard_normal((N, K))
    made = {
        "signs": np.where(scores[:, 0] > 0.0, 1.0, -1.0),
        "numbers": np.round(scores[:, 0], 3),
        "rows": np.zeros(N),
        "classes": scores.argmax(axis=1) + 1.0,
        "sets": [tuple(np.flatnonzero(own > 0.3) + 1.0) for own in scores],
    }
    return X, made[form.targets]


def tau(kind, loss, q):
    """The step of a loss along a direction of squared norm q."""
    return {"pa": loss / q, "pa1": min(C, loss / q), "pa2": loss / (q + 0.5 / C)}[kind]


def direction_of(form, w, phi, target):
    """(loss, direction) of a row with the features phi (K, D) of each class; (0, None) where nothing is to be done."""
    scores, right = phi @ w, np.isin(np.arange(K) + 1.0, target)
    if right.all() or not right.any():
        return 0.0, None
    r = int(np.argmin(np.where(right, scores, np.inf)))
    if form.max_loss is None:
        s = int(np.argmax(np.where(right, -np.inf, scores)))
        return max(0.0, 1.0 - (scores[r] - scores[s])), phi[r] - phi[s]
    s = int(np.argmax(scores + np.sqrt(COSTS[r]) if form.max_loss else scores))
    return (0.0, None) if s == r else (max(0.0, scores[s] - scores[r] + np.sqrt(COSTS[r, s])), phi[r] - phi[s])


def plainly(form, kind, X, targets):
    """(weights (INPUTS,), or (K, INPUTS) of classes; decision values of all rows by them, scores or distances)."""
    if form.targets == "rows":
        learned = form.options.get("learn_radius", False)
        w = np.append(np.zeros(INPUTS), REACH if learned else 0.0)
        for x in X:
            x = np.append(x, 0.0)
            apart = np.linalg.norm(w - x)
            if apart > REACH:
                w = w + tau(kind, apart - REACH, 1.0) * (x - w) / apart
        away = np.hstack([X, np.zeros((N, 1))]) - w
        return w[:-1], np.linalg.norm(away, axis=1)
    if form.targets in ("signs", "numbers"):
        w = np.zeros(INPUTS)
        for x, y in zip(X, targets, strict=True):
            z = x @ w
            signs = form.targets == "signs"
            loss = max(0.0, 1.0 - y * z if signs else abs(y - z) - EPSILON)
            if loss > 0.0 and x.any():
                w = w + (y if signs else np.sign(y - z)) * tau(kind, loss, x @ x) * x
        return w, X @ w
    features = np.stack([np.kron(np.eye(K), x) for x in X])  # x in the place of each class
    w = np.zeros(K * INPUTS)
    for phi, target in zip(features, targets, strict=True):
        loss, u = direction_of(form, w, phi, target)
        if loss > 0.0 and u.any():
            w = w + tau(kind, loss, u @ u) * u
    return w.reshape(K, INPUTS), features @ w


def written(X, targets, sets):
    """The rows as text."""
    lines = []
    for x, target in zip(X, targets, strict=True):
        label = ",".join(f"{one:g}" for one in target) if sets else f"{target:.17g}"
        lines.append(" ".join([label, *(f"{j}:{float(x[j])!r}" for j in np.flatnonzero(x).tolist())]))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """{targets: (X, targets, text, store)}, and the file of costs under 'costs'."""
    folder, made = tmp_path_factory.mktemp("variants"), {}
    for form in FORMS.values():
        if form.targets not in made:
            X, targets = targets_of(form)
            sets = form.targets == "sets"
            more = {"format": "multilabel"} if sets else {}
            store = make_store(folder, written(X, targets, sets), name=form.targets, chunk_nonzeros=64,
                               keep_order=True, dtype="float64", **more)  # fmt: skip
            made[form.targets] = X, targets, folder / f"{form.targets}.svm", store
    costs = folder / "costs.txt"
    np.savetxt(costs, COSTS)
    return made | {"costs": costs}


def words_of(options, costs):
    """The options of a command."""
    for name, value in options.items():
        flag = f"-{name}" if name == "C" else f"--{name.replace('_', '-')}"
        yield from [flag] if value is True else [flag, costs if name == "costs" else value]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["store", "stream", "python"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMS)
def test_each_kind_learns_each_form_each_way(files, tmp_path, run_in_process, name, kind, way):
    form = FORMS[name]
    X, targets, text, store = files[form.targets]
    options = KINDS[kind] | form.options
    w, values = plainly(form, kind, X, targets)
    path = tmp_path / "m.h5"
    words = list(words_of(options, files["costs"]))
    if way == "store":
        done = run_in_process(train_command.main, store, path, "--learner", kind, *words, "--order", "stored")
        assert done.code == 0, done.err
    elif way == "stream":
        if form.targets in ("classes", "sets"):
            words += ["--labels", "1,2,3,4"]
        if form.targets == "sets":
            words += ["--format", "multilabel"]
        done = run_in_process(stream.main, text, "--learner", kind, *words, "--model", path)
        assert done.code == 0, done.err
    else:
        labels = None if form.targets == "rows" else targets
        fit(scipy.sparse.csr_matrix(X), labels, learner=kind, order="stored", **options).save(path)
    found, _ = weights_by_id(path, w.shape[-1])
    np.testing.assert_allclose(found, w, rtol=1e-9, atol=1e-12)
    assert np.abs(w).max() > 0.05  # something was learned
    model = load_model(path)
    np.testing.assert_allclose(model.decision_function(scipy.sparse.csr_matrix(X)), values, rtol=1e-9, atol=1e-9)
    if form.targets == "classes":
        assert np.array_equal(model.predict(scipy.sparse.csr_matrix(X)), values.argmax(axis=1) + 1.0)


@pytest.mark.slow
def test_the_rules_tell_kinds_and_forms_apart(files):
    """So that a way that took another rule would be found."""
    learned = {}
    for name, form in FORMS.items():
        for kind in KINDS:
            X, targets, *_ = files[form.targets]
            learned[name, kind] = plainly(form, kind, X, targets)[0].ravel()
    made = list(learned.values())
    for i, one in enumerate(made):
        for other in made[:i]:
            assert one.shape != other.shape or np.abs(one - other).max() > 1e-4


# -- the one-row block

LARGE = 1e9  # of C, in the place of infinity: no step is as long
SAME = {  # loss, C of the batch problem: the learner whose step it is
    "pa1": ("hinge", C),
    "pa2": ("squared-hinge", C),
    "pa": ("hinge", LARGE),
}
SAME_OF_NUMBERS = {
    "pa1": ("epsilon-insensitive", C),
    "pa2": ("squared-epsilon-insensitive", C),
    "pa": ("epsilon-insensitive", LARGE),
}


@pytest.mark.parametrize("kind", SAME)
def test_a_dual_coordinate_step_on_one_row_is_the_passive_aggressive_step(kind):
    """From any w, with the row's own dual variable at 0."""
    rng = np.random.default_rng(8)
    loss, cost = SAME[kind]
    for _ in range(200):
        x, w = rng.standard_normal(6) * rng.choice([0.1, 1.0, 10.0]), rng.standard_normal(6)
        y = rng.choice([-1.0, 1.0])
        z = x @ w
        after = w + y * tau(kind, max(0.0, 1.0 - y * z), x @ x) * x
        row = scipy.sparse.csr_matrix(x[None])
        by_dual, alpha, _ = reference.dual_cd_visit(row, [y], w, [0.0], np.array([cost]), loss, [[0]])
        np.testing.assert_allclose(by_dual, after, rtol=1e-9, atol=1e-12)
        # which is what the problem asks for: the least 1/2 ||w' - w||^2 + cost of the row
        assert alpha[0] == pytest.approx(y * (by_dual - w) @ x / (x @ x), abs=1e-9)


@pytest.mark.parametrize("kind", SAME_OF_NUMBERS)
def test_a_dual_coordinate_step_of_regression_is_the_passive_aggressive_one(kind):
    rng = np.random.default_rng(9)
    loss, cost = SAME_OF_NUMBERS[kind]
    for _ in range(200):
        x, w, y = rng.standard_normal(6), rng.standard_normal(6), rng.standard_normal()
        z = x @ w
        after = w + np.sign(y - z) * tau(kind, max(0.0, abs(y - z) - EPSILON), x @ x) * x
        by_dual = w.copy()
        squared = loss.startswith("squared")
        reference.regression_pass(x[None], [y], np.zeros(1), by_dual, [0], cost, EPSILON, squared)
        np.testing.assert_allclose(by_dual, after, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("block_chunks", [1, 40])
@pytest.mark.parametrize("kind", SAME)
def test_the_first_reading_of_dual_coordinate_descent_is_an_epoch_of_the_learner(kind, block_chunks):
    """Every dual variable begins at 0, so one pass over the rows in their order makes PA's steps."""
    X, y = random_rows(n=40, seed=12)
    loss, cost = SAME[kind]
    source = Matrix(X, y, chunk_rows=np.arange(40))
    online = fit(source, learner=kind, order="stored", max_outer=1, **KINDS[kind])
    batch = fit(source, C=cost, loss=loss, order="stored", max_outer=1, tol=0.0, schedule="1", working_set="none",
                block_chunks=block_chunks)  # fmt: skip
    assert batch.status == "max-outer"
    np.testing.assert_allclose(batch.model.weights, online.model.weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", SAME_OF_NUMBERS)
def test_the_first_reading_of_regression_is_an_epoch_of_the_learner(kind):
    X, _ = random_rows(n=40, seed=13)
    y = np.random.default_rng(13).standard_normal(40)
    loss, cost = SAME_OF_NUMBERS[kind]
    source = Matrix(X, y, chunk_rows=np.arange(40))
    online = fit(source, learner=kind, order="stored", max_outer=1, targets="numbers", epsilon=EPSILON, **KINDS[kind])
    batch = fit(source, C=cost, loss=loss, order="stored", max_outer=1, tol=0.0, schedule="1", working_set="none",
                block_chunks=1, epsilon=EPSILON)  # fmt: skip
    np.testing.assert_allclose(batch.model.weights, online.model.weights, rtol=1e-9, atol=1e-12)

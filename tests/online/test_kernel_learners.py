"""Online learners with a kernel: their definition, bounds and budgets, and the way from a store to predictions."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from support.kernel_cases import plain_kernel, rows_of_a_ball
from support.passive_aggressive import step_of
from support.refused import refused
from support.training_cases import make_store, stop_after, svmlight, train

from blocksvm import Matrix, fit, load_model, open_store
from blocksvm.online.loops import LOSS_SUM, MISTAKES, ROWS

LINEAR, CUBIC, RBF = {"kernel": "linear"}, {"kernel": "polynomial", "gamma": 0.2, "coef0": 0.5}, {"gamma": 0.3}
LEARNERS = [("kernel-perceptron", {"step": 0.5}), ("kernel-pa", {}), ("kernel-pa1", {"C": 0.3}),
            ("kernel-pa2", {"C": 2.0})]  # fmt: skip


rows = partial(rows_of_a_ball, copies=5)


def sparse_rows(X):
    return sparse.csr_matrix(X, dtype=np.float32)


class Definition:
    """w = sum_i a_i phi(x_i), in ``terms`` {i: a_i}, the oldest first; K (n, n): kernel values of all rows.  A row that
    is one too many for the budget, or in the span of the others, moves their a such that w moves by tau y P phi(x), P
    the projection on the span (Orabona, Keshet, Caputo, JMLR 2009; Wang, Vucetic, AISTATS 2010)."""

    def __init__(self, name, case, K):
        self.name, self.case, self.K, self.terms = name, case, K, {}

    def score(self, i):
        return sum(a * self.K[i, j] for j, a in self.terms.items())

    def tau(self, loss, q, h):
        step = h * self.case["step"] if self.name == "kernel-perceptron" else 1.0
        return step * step_of(self.name.removeprefix("kernel-"), h * self.case.get("C", 1.0), loss, q)

    def learn(self, i, y, h):
        z, q = self.score(i), self.K[i, i]
        loss = max(0.0, 1.0 - y * z)
        acts = y * z <= 0.0 if self.name == "kernel-perceptron" else loss > 0.0
        if not acts or q <= 0.0 or h == 0.0:
            return z
        if i in self.terms:
            self.terms[i] += y * self.tau(loss, q, h)
            return z
        if "budget" in self.case and self.terms:
            kept = list(self.terms)
            values = self.K[i, kept]
            d = np.linalg.solve(self.K[np.ix_(kept, kept)], values)
            if len(kept) == self.case["budget"] or q - d @ values <= 1e-10 * q:
                if d @ values > 0.0:
                    for j, part in zip(kept, d, strict=True):
                        self.terms[j] += y * self.tau(loss, d @ values, h) * part
                return z
        self.terms[i] = y * self.tau(loss, q, h)
        return z

    def run(self, y, weights):
        """Two epochs in the order of the rows; (scores before learning, coefficients by row)."""
        scores = [self.learn(i, y[i], weights[i]) for _ in range(2) for i in range(len(y))]
        return np.array(scores), np.array([self.terms.get(i, 0.0) for i in range(len(y))])


@pytest.mark.parametrize(("name", "case"), LEARNERS)
@pytest.mark.parametrize(
    ("function", "more", "bias"),
    [(LINEAR, {}, 1.5), (CUBIC, {}, 0.0), (RBF, {}, 0.0), (RBF, {"budget": 15}, 1.5),
     (RBF, {"class_weight": {1.0: 3.0}}, 0.0)],
)  # fmt: skip
def test_a_learner_is_its_definition(name, case, function, more, bias):
    X, y = rows()
    dense = Definition(name, case | more, plain_kernel(X, X, **function) + bias**2)
    own = {"learner": name, "order": "stored", "max_outer": 2, "bias": bias} | case | more | function
    of_rows = np.random.default_rng(0).integers(0, 3, len(y)).astype(float) if "class_weight" in more else None
    source = Matrix(sparse_rows(X), y, weights=of_rows)
    if name == "kernel-pa" and of_rows is not None:
        refused("kernel-pa: does not support weights of rows", fit, source, **own | {"class_weight": None})
        return
    weights = np.ones(len(y)) if of_rows is None else np.where(y > 0, 3.0, 1.0) * of_rows
    scores, expected = dense.run(y, weights)
    found = train(source, **own)
    state, labels = found.loop.state, np.tile(y, 2)
    by_row = np.where(state["positions"] > 0, state["coefficients"], 0.0)
    scale, close = np.abs(expected).max(), 1e-9 if "class_weight" in more else 1e-6
    np.testing.assert_allclose(by_row, expected, rtol=close, atol=close * scale)
    assert sorted(np.flatnonzero(state["positions"])) == sorted(dense.terms)
    suffered = np.tile(weights, 2) * np.maximum(0.0, 1.0 - labels * scores)
    assert state["tally"][LOSS_SUM] == pytest.approx(suffered.sum(), rel=1e-6)
    if not (function is LINEAR and name == "kernel-perceptron"):  # there scores are 0 but for rounding
        assert state["tally"][MISTAKES] == (labels * scores <= 0.0).sum()
    # and what the model says
    support = found.result.support
    by_age = [state["positions"].tolist().index(place) for place in sorted(set(state["positions"]) - {0})]
    assert np.array_equal(support.coefficients, by_row[by_age])
    last = np.array([dense.score(i) for i in range(len(y))])
    model = fit(source, **own)
    np.testing.assert_allclose(model.model.decision_function(sparse_rows(X)), last, rtol=1e-5, atol=1e-5 * scale)
    wrong = np.abs(last) > 1e-9 * scale
    assert abs(model.certificate.accuracy - np.mean((last > 0.0) == (y > 0.0))) <= 1.0 - wrong.mean() + 1e-12


@pytest.mark.parametrize(("name", "case"), LEARNERS)
@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_the_linear_kernel_has_the_weights_of_the_plain_learner(name, case, bias):
    """With a budget of more rows than there are dimensions: what is projected lies in their span."""
    X, y = rows(n=150)
    there = X.any(axis=1)  # a row of the constant feature alone may score 0, where rounding decides of a mistake
    X, y = X[there], y[there]
    own = {"order": "stored", "max_outer": 3, "bias": bias} | case
    plain = fit(sparse_rows(X), y, learner=name.removeprefix("kernel-"), **own)
    found = fit(sparse_rows(X), y, learner=name, kernel="linear", budget=20, **own)
    support = found.model.support
    w = sparse.csr_matrix((support.values, support.indices, support.indptr), (len(support.norms), 8)).T
    np.testing.assert_allclose(w @ support.coefficients, plain.model.weights, rtol=1e-9, atol=1e-7)
    assert found.model.intercept == pytest.approx(plain.model.intercept, rel=1e-7, abs=1e-7)
    assert len(support.norms) <= 8 + (bias > 0.0)
    ours, theirs = (one.state["tally"] for one in (found, plain))
    assert (ours[ROWS], ours[MISTAKES]) == (theirs[ROWS], theirs[MISTAKES])
    assert ours[LOSS_SUM] == pytest.approx(theirs[LOSS_SUM], rel=1e-9)


@pytest.mark.parametrize("budget", [{}, {"budget": 15}])
def test_any_blocks_and_a_resumed_run_have_the_same_bits(tmp_path, budget):
    X, y = rows(n=140, d=12)
    own = {"learner": "kernel-pa1", "C": 0.4, "gamma": 0.2, "order": "stored", "max_outer": 2} | budget
    found = []
    for rows_a_chunk, blocks in ((1, 1), (7, 2), (140, None)):
        source = Matrix(sparse_rows(X), y, chunk_rows=np.arange(0, 140, rows_a_chunk))
        found.append(train(source, block_chunks=blocks, **own))
    source = Matrix(sparse_rows(X), y, chunk_rows=np.arange(0, 140, 7))
    for polls in (3, 29):
        kept = {"block_chunks": 1, "checkpoint": tmp_path / f"{polls}.h5"}
        assert train(source, stop=stop_after(polls), **kept, **own).result.status == "interrupted"
        found.append(train(source, resume=True, **kept, **own))
    for state, support in ((run.loop.state, run.result.support) for run in found):
        state["coefficients"] = np.where(state["positions"] > 0, state["coefficients"], 0.0)
        for name in ("tally", "positions", "coefficients"):
            assert state[name].tobytes() == found[0].loop.state[name].tobytes(), name
        for name in ("indptr", "indices", "values", "norms", "coefficients"):
            assert np.array_equal(getattr(support, name), getattr(found[0].result.support, name)), name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kernel-pa1", "kernel-pa2"])
def test_a_projected_step_minimises_what_it_stands_for(name):
    """||w' - w||^2 / 2 + C l(w')^power over w' = w + sum_p b_p phi(z_p): by a general solver over all b."""
    X, y = rows(n=40, seed=5)
    C, budget, all_values = 0.8, 6, plain_kernel(X, X, **RBF)
    own = {"learner": name, "C": C, "order": "stored", "budget": budget} | RBF
    tried = 0
    for n in range(20, 40):
        before, after = (train(Matrix(sparse_rows(X[:k]), y[:k]), **own).loop.state for k in (n, n + 1))
        members = np.flatnonzero(before["positions"])
        assert len(members) == budget
        K, k, a = all_values[np.ix_(members, members)], all_values[n, members], before["coefficients"][members]
        power = 1 if name == "kernel-pa1" else 2

        def objective(b, K=K, k=k, a=a, i=n, power=power):
            return 0.5 * b @ K @ b + C * max(0.0, 1.0 - y[i] * (k @ (a + b))) ** power

        moved = after["coefficients"][members] - a
        close = {"maxiter": 6000, "fatol": 1e-14, "xatol": 1e-9} if power == 1 else {"gtol": 1e-7}
        method = "Nelder-Mead" if power == 1 else "BFGS"
        found = minimize(objective, np.zeros(budget), method=method, options=close)
        assert objective(moved) <= found.fun + 1e-9
        tried += bool(moved.any())
    assert tried >= 5


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1), C=st.sampled_from([0.05, 1.0, 20.0]))
def test_the_bounds_hold_in_the_space_of_the_kernel(seed, C):
    """With ||phi(x)|| = 1 (rbf), u any combination: of PA-I mistakes <= max(1, 1/C)(||u||^2 + 2C sum l*) (Crammer 2006,
    Theorem 4), of the perceptron mistakes - sum l* <= ||u|| sqrt(mistakes)."""
    rng = np.random.default_rng(seed)
    X, y = rows(n=50, seed=seed % 991)
    b = rng.normal(size=50) * rng.uniform(0.0, 3.0) + (y if rng.random() < 0.5 else 0.0)
    K = plain_kernel(X, X, **RBF)
    best, norm = np.maximum(0.0, 1.0 - y * (K @ b)), float(b @ K @ b)
    source = Matrix(sparse_rows(X), y)
    tally = {
        name: train(source, learner=name, order="stored", **more, **RBF).loop.state["tally"]
        for name, more in (("kernel-pa1", {"C": C}), ("kernel-perceptron", {}))
    }
    slack = 1.0 + 1e-9
    assert tally["kernel-pa1"][MISTAKES] <= max(1.0, 1.0 / C) * (norm + 2.0 * C * best.sum()) * slack
    mistakes = tally["kernel-perceptron"][MISTAKES]
    assert mistakes - best.sum() <= np.sqrt(norm * mistakes) * slack


def test_out_of_core_within_the_memory(tmp_path):
    X, y = rows(n=3000, d=40, seed=9)
    store = make_store(tmp_path, sparse_rows(X), y, chunk_nonzeros=512)
    own = {"learner": "kernel-pa1", "gamma": 0.01, "order": "stored", "C": 0.1}
    with open_store(store) as source:
        small = fit(source, memory=700_000, budget=50, **own)
        large = fit(source, budget=50, **own)
        assert not small.plan.blocks.partition.resident
        assert sum(small.plan.memory().values()) <= 700_000
        assert np.array_equal(small.model.support.coefficients, large.model.support.coefficients)
        refused("support vectors take .* raise memory, or lower budget", fit, source, memory=900_000, **own)
        refused("is too small", fit, source, memory=300_000, budget=300, **own)


def test_what_is_allocated_is_counted():
    X, y = rows(n=1500, d=40, seed=4)
    source = Matrix(sparse_rows(X), y)
    own = {"learner": "kernel-pa1", "gamma": 0.02, "C": 0.1}
    for budget in ({}, {"budget": 300}):
        tracemalloc.start()
        planned = sum(fit(source, **own, **budget).plan.memory().values())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < planned + 400_000


def test_a_perceptron_ends_when_it_makes_no_mistake():
    X, y = rows(n=60)
    found = fit(sparse_rows(X), y, learner="kernel-perceptron", gamma=2.0, max_outer=200)
    assert found.certificate.accuracy == pytest.approx(1.0, abs=0.04)  # rows that stand twice may have two labels
    X, y = X[4:40], y[4:40]
    found = fit(sparse_rows(X), y, learner="kernel-perceptron", gamma=2.0, max_outer=200)
    assert found.status == "converged"
    assert found.certificate.accuracy == 1.0
    assert "the last epoch made no mistake" in found.result.note


def test_weights_beyond_all_numbers_are_said():
    X, y = sparse_rows(np.array([[9e-8], [1000.0]])), np.array([0, 1])
    own = {"learner": "kernel-pa", "kernel": "polynomial", "gamma": 1.0}
    refused("kernel-pa: its weights overflowed", fit, X, y, degree=22, order="stored", **own)
    refused("beyond what double precision can solve", fit, X, y, degree=50, **own)


def test_from_a_store_to_predictions(tmp_path, succeeds, refusal):
    X, y = rows(n=300)
    store = make_store(tmp_path, sparse_rows(X[:200]), y[:200])
    (tmp_path / "new.svm").write_text(svmlight(sparse_rows(X[200:]), y[200:]))
    model = tmp_path / "m.h5"
    options = ("--learner", "kernel-pa1", "--gamma", "0.3", "--budget", "60", "--max-outer", "3", "--bias", "1")
    _, out, err = succeeds("train", store, model, *options)
    assert "60 support vectors of at most 60" in out
    assert "mistakes" in err
    out = succeeds("predict", model, tmp_path / "new.svm", "--scores").out
    loaded = load_model(model)
    shifted = sparse.hstack([sparse.csr_matrix((100, 1)), sparse_rows(X[200:])]).tocsr()
    np.testing.assert_allclose(loaded.decision_function(shifted), np.array(out.split(), float), rtol=1e-5, atol=1e-6)
    assert (loaded.predict(shifted) == y[200:]).mean() > 0.75
    assert "kernel-pa1" in succeeds("info", model).out
    trained = ("train", store, tmp_path / "x.h5")
    for arguments, told in [
        ((*trained, "--budget", "0"), "--budget 0: must be 1 or more"),
        ((*trained, "--kernel", "polynomial", "--coef0", "-1"), "below 0 the polynomial is no kernel"),
        ((*trained, "--from", model), "kernel-pa1 does not accept it; leave it out"),
        (("stream", tmp_path / "new.svm"), "kernel-pa1: learns from a store only"),
        (("regret", store), "kernel-pa1: has a kernel, and regret is against the best fixed weights"),
    ]:
        assert told in refusal(*arguments, "--learner", "kernel-pa1")
    refused("kernel-pa: learns two classes", fit, sparse_rows(X), np.arange(300) % 3, learner="kernel-pa")

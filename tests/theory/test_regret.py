"""Regret and bounds, of rows and of rounds of several: against slow dense computations; assumptions; the command."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from support.online_cases import agree
from support.plain_learners import LEARNERS as PLAIN
from support.plain_learners import LOSSES
from support.plain_learners import run as run_plainly
from support.refused import refused
from support.regret_cases import CASES, Dense, compared, dense_bound, judged, replayed, sample, slack_of_round
from support.training_cases import make_store, random_rows

from blocksvm import Matrix, fit
from blocksvm.online import LEARNERS
from blocksvm.online.exact import EXACT
from blocksvm.online.runner import Runner
from blocksvm.store.reader import Store
from blocksvm.theory import report
from blocksvm.theory.bounds import BOUNDS, QUANTITIES, bounds_of, stability
from blocksvm.theory.comparators import Comparator, FixedWeights
from blocksvm.theory.rows import ReplayRows, log_spaced
from blocksvm.theory.run import Run, replay_batches

pytestmark = pytest.mark.usefixtures("plain_loops")


@pytest.mark.parametrize(("name", "case"), CASES, ids=str)
@pytest.mark.parametrize("unit", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_figures_equal_the_dense_computation(name, case, unit):
    X, y, plane = sample(n=60, seed=5, unit=unit, zeros=0 if unit else 3, noise=0.1)
    if name in ("perceptron", "pa") and not unit:
        X, y, plane = sample(n=60, seed=6)  # for the bounds of separable rows
    run = replayed(X, y, name, case)
    dense = Dense(X, y, name, case)
    agree(run.loss - run.penalty, np.cumsum(dense.loss)[run.times - 1])
    agree(run.mistakes, np.cumsum(dense.y * dense.z <= 0)[run.times - 1])
    biased = name == "perceptron-bias"
    us = [0.3 * plane, np.random.default_rng(1).standard_normal(len(plane)), 20.0 * plane]
    for u in us:
        wide = np.append(u, 0.25 if biased else 0.0)
        u = wide if biased else u
        made = Comparator(run, FixedWeights("u", wide), dense.X @ u)
        for bound in bounds_of(run):
            if not all(condition.about_u or condition.holds(run) for condition in bound.conditions):
                continue
            base = getattr(made, bound.regret) if bound.regret else 0.0
            with np.errstate(divide="ignore"):
                right = bound.right(run, made) - base
            left = QUANTITIES[bound.quantity](run) - base
            for k, t in enumerate(run.times.tolist()):
                expected_left, expected_right = dense_bound(bound.name, dense, u, case, t)
                if bound.name == "perceptron, hinge of u":  # there the hinge of u stands on the left
                    expected_left, expected_right = (e + made.hinge[k] for e in (expected_left, expected_right))
                if bound.name == "PA, lemma":
                    expected_left, expected_right = (e + 2 * made.tau_hinge[k] for e in (expected_left, expected_right))
                agree(left[k], expected_left)
                if math.isfinite(expected_right):
                    agree(right[k], expected_right)
                else:
                    assert right[k] == math.inf


small = st.builds(sample, n=st.integers(4, 60), d=st.integers(1, 8), seed=st.integers(0, 10**6),
                  noise=st.sampled_from([0.0, 0.0, 0.1, 0.5]), unit=st.booleans(),
                  zeros=st.sampled_from([0, 0, 2]))  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case"), CASES, ids=str)
@settings(max_examples=12, deadline=None)
@given(data=small, scale=st.sampled_from([0.05, 1.0, 30.0]), seed=st.integers(0, 100))
def test_no_bound_is_violated_where_its_assumptions_hold(name, case, data, scale, seed):
    X, y, plane = data
    run = replayed(X, y, name, case)
    rng = np.random.default_rng(seed)
    found = compared(run, scale * plane, *(scale * rng.standard_normal((3, run.d))))
    for bound in bounds_of(run):
        # each comparator on its own: another one must not hide it behind a smaller bound
        for u in found:
            one = report.judge(bound, run, [u], u)
            assert not one.violated, (bound.name, one.measured, one.right)
            assert one.applies or one.failures()


def test_assumptions_that_fail_are_named():
    X, y, plane = sample(n=60, seed=3, noise=0.3)
    free, constant = {"unprojected": True}, {"decay": "constant", "radius": 0.5}
    for name, case, bound, told in [
        ("perceptron", {}, "perceptron, separable", "all margins above 0"),
        ("perceptron-bias", {}, "perceptron with bias", "all margins above 0"),
        ("perceptron-bias", {"max_norm": 0.1}, "perceptron with bias", "R >= max ||x|| fails (max_norm=0.1"),
        ("pa", {}, "PA, separable", "all margins at least 1"),
        ("pa", {}, "PA, rows of norm 1", "||x|| = 1 fails (norms from"),
        ("ogd", {}, "OGD, constant step", "eta is constant fails (decay=sqrt)"),
        ("ogd", {}, "OGD, falling step, projected", "no radius is given"),
        ("ogd", constant, "FoReL lemma, linearised losses", "no projection fails (radius=0.5)"),
        ("ogd", constant, "OGD, falling step, projected", "eta_t = c / sqrt(t) fails (decay=constant)"),
        ("omd", {"mirror": "p-norm"}, "EG+-", "the mirror map is entropic fails (mirror=p-norm)"),
        ("omd", {}, "p-norm", "the mirror map is p-norm fails"),
        ("fobos", {"decay": "constant", "l1": 0.1}, "FOBOS", "eta_t = c / sqrt(t) fails"),
        ("pegasos", {"lam": 0.1} | free, "Pegasos, projected", "||w|| <= 1 / sqrt(lambda) fails (no projection)"),
        ("pegasos", {"lam": 0.1}, "Pegasos, no projection", "no projection fails"),
        ("pegasos", {"lam": 0.3, "loss": "squared"} | free, "Pegasos, no projection", "at most 1 fails (loss=squared)"),
        ("hf-fobos", {"l1": 0.1}, "HF-FOBOS, heights", "p > 2 fails (p=2"),
        ("adagrad-rda", {"delta": 0.1}, "AdaGrad, RDA form", "delta >= max |g_t,j| fails (delta=0.1 against"),
        ("fobos", {"l2": 0.1}, "FOBOS", "r = l1 ||w||_1 alone fails (l2=0.1)"),
    ]:
        run = replayed(X, y, name, case)
        one = judged(run, compared(run, 0.5 * plane))[bound]
        assert not one.applies and len(one.right) == 0
        assert told in one.failures()


def test_rows_of_norm_almost_1_have_a_bound_of_their_own():
    X, y, u = np.diag(np.sqrt([1.0 + 9e-5] * 3 + [1.0])), np.array([1.0, -1, 1, -1]), np.array([2.0, -0.5, 1, 1])
    run = replayed(X, y, "pa", {})
    # weights without loss, which the bound would exclude were its constant that of norm 1
    tight = Comparator(run, FixedWeights("u", np.append(np.linalg.solve(X, y), 0.0)), y)
    bound = next(bound for bound in BOUNDS if bound.name == "PA, rows of norm 1")
    one = report.judge(bound, run, [tight], tight)
    assert one.applies and not one.violated
    assert tight.norm**2 < one.measured[-1] == pytest.approx(one.right[-1], rel=2e-4)
    lossy = Comparator(run, FixedWeights("u", np.append(u, 0.0)), X @ u)
    star = math.sqrt(np.sum(np.maximum(0.0, 1.0 - y * (X @ u)) ** 2))
    a, b = 1.0 / (1.0 + 9e-5), 1.0
    right = ((math.sqrt(a) * np.linalg.norm(u) + 2.0 * b * star) / a) ** 2
    assert bound.right(run, lossy)[-1] == pytest.approx(right, rel=1e-9)


def test_comparators_outside_of_a_ball_are_not_admitted():
    X, y, plane = sample(n=60, seed=3)
    for name, case, bound in [
        ("ogd", {"radius": 0.7}, "OGD, falling step, projected"),
        ("ogd", {"radius": 0.7, "decay": "constant"}, "OGD, constant step"),
        ("omd", {"mirror": "entropic", "radius": 0.5}, "EG+-"),
        ("pegasos", {"lam": 0.1}, "Pegasos, projected"),
    ]:
        run = replayed(X, y, name, case)
        large = Comparator(run, FixedWeights("u", np.append(50.0 * plane, 0.0)), 50.0 * X @ plane)
        one = report.judge(next(b for b in BOUNDS if b.name == bound), run, [large], large)
        assert not one.applies
        assert "||u||" in one.failures()
        assert judged(run, compared(run, 50.0 * plane))[bound].applies


@pytest.mark.slow
def test_every_bound_has_a_learner_and_most_learners_are_told_the_truth():
    assert {name.split()[0] for bound in BOUNDS for name in bound.of} <= {*LEARNERS, *EXACT}
    X, y, _ = sample(n=30, noise=0.1)
    for name in ("arow", "cw-var", "scw1", "adagrad-rda-squares"):
        made = report.measure_regret(Matrix(X, y), name)
        assert made.bounds == []
        assert any(f"no bound is known here for {name}" in note for note in made.notes)


@pytest.mark.slow
def test_the_comparator_is_the_best_in_hindsight():
    """Of the losses, or, where the learner's regret includes it, with a regulariser r(w)."""
    X, y, _ = sample(n=80, d=5, seed=4, noise=0.2)
    for name, case in [
        ("perceptron", {}),
        ("ogd", {"loss": "squared-hinge", "step": 0.05}),
        ("ogd", {"loss": "logistic"}),
        ("ogd", {"loss": "squared", "step": 0.05}),
        ("ogd", {"loss": "epsilon-insensitive", "epsilon": 0.3}),
        ("ogd", {"loss": "perceptron"}),
        ("fobos", {"l1": 0.1}),
        ("adagrad-rda", {"l1": 0.1}),
        ("pegasos", {"lam": 0.05}),
        ("subgradient", {"l1": 0.1}),
    ]:
        made = report.measure_regret(Matrix(X, y), name, **case)
        loss = LOSSES[case.get("loss", "hinge").replace("perceptron", "hinge")]

        def total(w, loss=loss, case=case):
            losses = sum(loss(z, label, case.get("epsilon", 0.1))[0] for z, label in zip(X @ w, y, strict=True))
            return losses + len(y) * (case.get("lam", 0.0) / 2 * w @ w + case.get("l1", 0.0) * np.abs(w).sum())

        # descent from many places, by a method without derivatives, which the code under test does not have
        starts = [np.zeros(5), np.ones(5), np.linalg.lstsq(X, y, rcond=None)[0]]
        least = min(scipy.optimize.minimize(total, w, method="Powell", options={"ftol": 1e-12}).fun for w in starts)
        assert made.best.judged[-1] == pytest.approx(least, rel=2e-3), (name, case)
        assert made.best.judged[-1] >= least * (1 - 1e-4)  # Powell's method is not exact
        assert made.best.rel_gap <= 1e-3
        assert made.regret[-1] == made.run.judged[-1] - made.best.judged[-1]
        assert (made.least <= made.best.judged).all()
        assert made.least[-1] == made.best.judged[-1]
        assert any("include r(w)" in note for note in made.notes) == bool({"l1", "lam"} & set(case))


def test_a_bound_is_that_of_the_comparator_named():
    X, y, _ = sample(n=80, d=5, seed=4, noise=0.1)
    made = report.measure_regret(Matrix(X, y), "pa1")
    one = next(one for one in made.bounds if one.bound.name == "PA-I")
    each = {u.name: one.bound.right(made.run, u) for u in made.comparators}
    for k, name in enumerate(one.by):
        assert one.right[k] == each[name][k] == min(right[k] for right in each.values())


@pytest.mark.slow
def test_a_separating_comparator_is_found_and_used():
    X, y, _ = sample(n=80, d=5, seed=9)
    for name in ("perceptron", "perceptron-bias", "pa"):
        made = report.measure_regret(Matrix(X, y), name)
        names = ("perceptron, separable", "perceptron with bias", "PA, separable")
        separable = [(one.applies, one.violated) for one in made.bounds if one.bound.name in names]
        assert separable == [(True, False)]
        assert made.best.judged[-1] == 0.0


@pytest.mark.slow
def test_times_orders_and_first_rows(tmp_path):
    assert log_spaced(1).tolist() == [1]
    assert log_spaced(120).tolist() == [1, 2, 5, 10, 20, 50, 100, 120]
    X, y = random_rows(n=200, d=12, seed=3)
    path = make_store(tmp_path, X, y, chunk_nonzeros=16, keep_order=True)
    with Store(path) as store:
        assert len(store.chunks) > 10
        whole = report.measure_regret(store, "pa1", seed=1)
        little = report.measure_regret(store, "pa1", memory=33_000)
        assert little.run.scores.tobytes() == whole.run.scores.tobytes()
        assert little.memory["two blocks"] < whole.memory["two blocks"]
        first = report.measure_regret(store, "pa1", max_rows=57)
        assert np.array_equal(first.run.scores, whole.run.scores[:57])
        assert first.run.T == 57 and first.best.hinge[-1] <= whole.best.hinge[-1]
        once, again = (report.measure_regret(store, "pa1", order="shuffled", seed=1) for _ in range(2))
        assert np.array_equal(once.run.scores, again.run.scores)
        assert not np.array_equal(once.run.y, whole.run.y) and sorted(once.run.sq_norms) == sorted(whole.run.sq_norms)
        other = report.measure_regret(store, "pa1", order="shuffled", seed=2)
        assert not np.array_equal(once.run.sq_norms, other.run.sq_norms)
        some = report.measure_regret(store, "pa1", order="shuffled", seed=1, max_rows=57)
        assert np.array_equal(some.run.scores, once.run.scores[:57])
        ids = store.feature_ids(0, store.n_features)
        own, constant = np.arange(12.0), 7.0
        for order, run in (("stored", whole.run), ("shuffled", once.run), ("shuffled", None)):
            memory = 13_000 if run is None else 1 << 30
            rows = ReplayRows(store, order, 1, memory)
            visits = [block.rows[drawn] for block, drawn, _ in rows]
            places = np.concatenate(visits)
            assert (len(visits) > 1) == (memory < 1 << 30)
            assert sorted(places) == list(range(200))
            dense = Dense(X.toarray()[places], y[places], "pa1", {"C": 1.0})
            # a fixed vector's scores must be in the same order as the learner's
            agree(rows.scores(np.append(own[ids - 1], constant), 0.5), dense.X @ own + 3.5, 1e-6)
            if run is not None:
                assert np.array_equal(run.y, y[places])
                agree(run.sq_norms, np.sum(dense.X**2, axis=1), 1e-6)
                agree(run.scores, dense.z, 1e-5)
        refused("memory=19_300 is too small: .* are needed", report.measure_regret, store, "pa1", memory=19_300)
        told = "beside the records of 200 rounds: memory=[0-9_]+ is too small"
        refused(told, report.measure_regret, store, "pa1", memory=25_000)


def test_the_mean_of_the_weights_is_measured():
    X, y, _ = sample(n=90, noise=0.1)
    made = report.measure_regret(Matrix(X, y), "perceptron", average=True)
    _, _, mean = run_plainly(PLAIN["perceptron"](X.shape[1]), X, y)
    agree(made.mean.hinge[-1], np.maximum(0.0, 1.0 - y * (X @ mean)).sum())


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    X, y, _ = sample(n=150, d=8, seed=1, noise=0.1)
    return make_store(tmp_path_factory.mktemp("regret"), scipy.sparse.csr_matrix(X), y)


@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_its_files(store, tmp_path, run_in_process):
    target, picture = tmp_path / "r.json", tmp_path / "r.png"
    done = run_in_process("regret", store, "--learner", "ogd", "--decay", "constant", "--step", 0.1, "--average",
                          "--json", target, "--figure", picture, "--quiet")  # fmt: skip
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("learner     ogd (loss hinge, step 0.1, decay constant)")
    assert any(line.split()[:3] == ["rows", "loss", "mistakes"] for line in lines)
    assert sum(line.strip().startswith("does not apply: ") for line in lines) == 1
    assert "VIOLATED" not in done.out
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    made = json.loads(target.read_text())
    with Store(store) as source:
        expected = report.measure_regret(source, "ogd", decay="constant", step=0.1)
    assert made["regret"] == pytest.approx(expected.regret[-1], rel=1e-12)
    assert [row["t"] for row in made["table"]] == [1, 2, 5, 10, 20, 50, 100, 150]
    assert f"{made['table'][-1]['regret']:.5g}" in lines[lines.index("") + 9]
    states = {bound["name"]: bound["applies"] for bound in made["bounds"]}
    assert states["OGD, constant step"] and not states["OGD, falling step, projected"]
    failed = next(b for b in made["bounds"] if not b["applies"])
    assert {a["text"]: a["met"] for a in failed["assumptions"]} == {"eta_t = c / sqrt(t)": False,
                                                                    "projected on ||w|| <= B": False}  # fmt: skip
    for bound in made["bounds"]:
        assert all(row["measured"] <= row["bound"] for row in bound["table"])


def test_the_command_refuses_in_one_sentence(store, tmp_path, monkeypatch, refusal):
    one_class = make_store(tmp_path, scipy.sparse.csr_matrix(np.ones((5, 2))), np.ones(5), name="one")
    for arguments, what in [
        ((store, "--learner", "pa", "--max-rows", 0), "--max-rows 0: must be 1 or more"),
        ((store, "--learner", "pa", "--batch", 2), "--batch 2: pa learns row by row; leave it out, or take pegasos"),
        ((store, "--learner", "pegasos", "--lambda", 1, "--batch", 0), "--batch 0: must be from 1 to the number"),
        ((store, "--learner", "pegasos", "--lambda", 1, "--batch", 2, "--average"), "--average: rounds of several"),
        ((store, "--learner", "pa", "--max-rows", 1), "raise --max-rows"),
        ((store, "--learner", "pa", "--order", "random"), "--order random: choose one of stored, shuffled"),
        ((store, "--learner", "pa", "--memory", "10KB"), "is too small"),
        ((store, "--learner", "ogd", "--loss", "squared", "--step", 1e6), "lower --step"),
        ((one_class, "--learner", "pa"), "all rows have the label 1"),
    ]:
        assert what in refusal("regret", *arguments, "--quiet")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    told = refusal("regret", store, "--learner", "pa", "--figure", tmp_path / "f.png", "--quiet")
    assert "A figure needs matplotlib" in told
    assert not (tmp_path / "f.png").exists()


def test_a_violated_bound_would_be_shown(store, run_in_process, monkeypatch):
    wrong = [replace(bound, right=lambda run, u: 0.0 * u.hinge) for bound in BOUNDS if bound.name == "PA-I"]
    monkeypatch.setattr(report, "bounds_of", lambda run: wrong)
    done = run_in_process("regret", store, "--learner", "pa1", "--quiet")
    assert "VIOLATED" in done.out


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case"), [("ftl", {"radius": 1.0}), ("ftl", {"radius": 3.0, "loss": "squared-hinge"}),
                                            ("forel-exact", {"step": 0.3})])  # fmt: skip
@pytest.mark.parametrize("order", ["stored", "shuffled"])
def test_the_lemma_of_the_leader_is_measured(tmp_path, name, case, order):
    X, y, _ = sample(n=60, d=5, seed=4, noise=0.2)
    path = make_store(tmp_path, scipy.sparse.csr_matrix(X), y, dtype="float64", keep_order=True, chunk_nonzeros=16)
    with Store(path) as source:
        made = report.measure_regret(source, name, **case, order=order, seed=1)
    (one,) = made.bounds
    assert one.applies and not one.violated
    run = made.run
    loss = LOSSES[case.get("loss", "hinge")]
    expected = np.cumsum([loss(z, s)[0] - loss(v, s)[0] for z, v, s in
                           zip(run.scores, run.after, run.y, strict=True)])  # fmt: skip
    agree(stability(run), expected[run.times - 1])
    assert run.scores[0] == 0.0 and (run.y * run.after >= run.y * run.scores - 1e-6).all()
    right = [u.judged[-1] + expected[-1] + (u.norm**2 / 0.6 if name == "forel-exact" else 0.0)
             for u in made.comparators if name == "forel-exact" or u.norm <= case["radius"]]  # fmt: skip
    assert one.right[-1] + made.best.judged[-1] == pytest.approx(min(right), rel=1e-4)
    if order == "stored":
        fitted = fit(Matrix(X, y), solver=name, order="stored", **case)
        assert run.judged[-1] == pytest.approx(fitted.state["tally"][1], rel=1e-6)
    refused(f"average: {name} does not accept it", report.measure_regret, Matrix(X, y), name, average=True)


PEGASOS = [{"lam": 0.05}, {"lam": 0.05, "unprojected": True}, {"lam": 0.3, "loss": "squared"},
           {"lam": 0.1, "loss": "epsilon-insensitive", "epsilon": 0.3}]  # fmt: skip


def batched(X, y, case, size, chunk_rows=None):
    source = Matrix(scipy.sparse.csr_matrix(X), y, chunk_rows=chunk_rows)
    runner = Runner("pegasos", case, {})
    rows = ReplayRows(source, memory=1 << 40 if chunk_rows is None else 8_000)
    return replay_batches(Run(runner).begin(rows, size * log_spaced(len(y) // size), size), lambda text: None)


@pytest.mark.parametrize("case", PEGASOS, ids=str)
@pytest.mark.parametrize("size", [1, 4, 60])
def test_rounds_of_several_rows_are_the_definition(case, size):
    X, y, plane = sample(n=60, seed=3, noise=0.2, zeros=2)
    run, w = batched(X, y, case, size), np.zeros(X.shape[1])
    loss, lam, T = LOSSES[case.get("loss", "hinge")], case["lam"], len(y)
    at_0 = 2.0 * loss(0.0, 1.0, case.get("epsilon", 0.1))[0] if "loss" in case else 1.0
    radius = math.inf if case.get("unprojected") else math.sqrt(at_0 / lam)
    values, norms, gradients, scores = np.empty(T), np.empty(T), np.empty(T), np.empty(T)
    for start in range(0, T, size):
        part = slice(start, start + size)
        scores[part] = X[part] @ w
        found = [loss(z, label, case.get("epsilon", 0.1)) for z, label in zip(scores[part], y[part], strict=True)]
        values[part] = [value for value, _ in found]
        norms[part] = w @ w
        mean = np.mean([slope * x for (_, slope), x in zip(found, X[part], strict=True)], axis=0)
        gradients[part] = np.sum((lam * w + mean) ** 2)
        t = start // size + 1
        w = (1.0 - 1.0 / t) * w - mean / (lam * t)
        w = w * min(1.0, radius / max(np.linalg.norm(w), 1e-300))
    at = run.times - 1
    agree(run.scores, scores)
    agree(run.loss, np.cumsum(values + lam / 2 * norms)[at])
    agree(run.gradients, gradients)
    # Theorem 1 of Shalev-Shwartz et al. 2011, of the rounds' means
    u = 0.3 * plane
    if run.ball is not None:  # the bounds are about weights there
        u *= min(1.0, 0.9 * run.ball[1] / np.linalg.norm(u))
    made = Comparator(run, FixedWeights("u", np.append(u, 0.0)), X @ u)
    bounds = judged(run, [made])
    R, rounds = np.linalg.norm(X, axis=1).max(), T // size
    largest = {"Pegasos, projected": (math.sqrt(lam) + R) ** 2, "Pegasos, no projection": 4 * R**2,
               "strongly convex, largest gradient": gradients.max()}  # fmt: skip
    told = {name: bound for name, bound in bounds.items() if bound.applies}
    assert {"strongly convex, steps 1 / (lambda t)", "strongly convex, largest gradient"} <= set(told)
    for name, c in largest.items():
        if name in told:
            agree(told[name].right[-1] / size, c * (1 + math.log(rounds)) / (2 * lam))
            agree(told[name].measured[-1], run.loss[-1] - made.loss[-1])


def test_rounds_are_the_same_in_any_blocks_and_of_one_row_those_of_the_learner():
    X, y, _ = sample(n=60, seed=4, noise=0.2)
    whole = batched(X, y, PEGASOS[0], 7)
    for chunk_rows in (np.arange(60), np.arange(0, 60, 11)):
        parts = batched(X, y, PEGASOS[0], 7, chunk_rows)
        assert np.array_equal(parts.scores[:56], whole.scores[:56])
        assert np.array_equal(parts.gradients, whole.gradients)
        assert np.array_equal(parts.penalty, whole.penalty)
    for case in PEGASOS:
        one, plain = batched(X, y, case, 1), replayed(X, y, "pegasos", case)
        agree(one.scores, plain.scores)
        agree(one.loss, plain.loss)
        agree(one.gradients, plain.gradients)


def test_the_report_of_rounds_has_a_certified_comparator():
    X, y, _ = sample(n=83, seed=5, noise=0.2)
    made = report.measure_regret(Matrix(scipy.sparse.csr_matrix(X), y), "pegasos", lam=0.05, batch=8)
    assert made.run.T == 80 and made.run.times.tolist() == [8, 16, 40, 80]
    assert made.best.rel_gap <= 1e-3 and made.described()["batch"] == 8
    assert any("a round is 8 rows" in note for note in made.notes)
    by_name = {one.bound.name: one for one in made.bounds}
    assert by_name["Pegasos, projected"].applies and not any(one.violated for one in made.bounds)
    strongly = [by_name[f"strongly convex, {name}"] for name in ("largest gradient", "steps 1 / (lambda t)")]
    assert strongly[0].right[-1] >= strongly[1].right[-1]


@pytest.mark.parametrize(
    ("name", "case"), [("fobos", {"l1": 0.05, "half_steps": "next"}), ("hf-fobos", {"l1": 0.1, "p": 1.0, "cap": 0.5})]
)
def test_the_inequality_is_checked_in_each_round(name, case):
    X, y, plane = sample(n=50, seed=2, noise=0.1, zeros=3)
    run = replayed(X, y, name, case, np.arange(1, 51))
    dense = Dense(X, y, name, case)
    for u in (plane, 0.0 * plane, 5.0 * plane):
        made = Comparator(run, FixedWeights("u", np.append(u, 0.0)), X @ u)
        each = [slack_of_round(dense, u, case, s) for s in range(50)]
        agree(made.slack, np.minimum.accumulate(each))
        assert made.slack[-1] >= 0.0
    # with nothing for the gradients on the right side the first step from w = 0 alone violates it
    run.sq_norms = np.zeros(50)
    run.settings["l1"] = 1e-9
    wrong = Comparator(run, FixedWeights("u", np.zeros(X.shape[1] + 1)), np.zeros(50))
    one = judged(run, [wrong])["FOBOS, HF-FOBOS: inequality of each round"]
    assert one.violated and wrong.slack[-1] < 0.0


@pytest.mark.slow
def test_what_takes_too_many_steps_is_said():
    X, y, _ = sample(n=20_001, noise=0.1)
    rows = scipy.sparse.csr_matrix(X)
    rows.resize(20_001, 1_000_000)  # most features do not occur
    source = Matrix(rows, y)
    told = "takes all 1,000,000 weights in each of 20,001 rounds.* give fewer rows by"
    refused(told, report.measure_regret, source, "subgradient", l1=0.1)
    assert report.measure_regret(source, "subgradient", l1=0.1, max_rows=49).run.T == 49


@given(seed=st.integers(0, 10**6), size=st.sampled_from([2, 5, 20]), case=st.sampled_from(PEGASOS),
       scale=st.sampled_from([0.05, 1.0, 20.0]))  # fmt: skip
def test_no_bound_of_rounds_is_violated(seed, size, case, scale):
    X, y, plane = sample(n=60, seed=seed, noise=0.2)
    run = batched(X, y, case, size)
    for u in compared(run, X, scale * plane):
        for name, bound in judged(run, [u]).items():
            assert not bound.violated, name

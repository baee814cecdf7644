"""Cross-validation: each problem is that of its fold's training rows, each row is scored by who has not seen it; and
probabilities of decision values that are none, fitted to such scores, kept in the model, told by predict."""

import gc
import json
import re
import weakref

import numpy as np
import pytest
import reference
import scipy.optimize
from scipy import sparse
from sklearn.isotonic import IsotonicRegression
from support.paths import GOLDEN
from support.training_cases import make_store, random_rows, stop_after, svmlight, train

from blocksvm.base.errors import InputError
from blocksvm.base.threads import Threads
from blocksvm.cv import path_of
from blocksvm.estimators import LinearSVC
from blocksvm.kernels.shuffle import row_keys
from blocksvm.model.model_file import describe_model, load_model
from blocksvm.sources.matrix import Matrix
from blocksvm.store.descriptions import as_json, parse
from blocksvm.store.reader import open_store
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings
from blocksvm.validation.calibration import FOLDS, calibrated, isotonic, platt
from blocksvm.validation.folds import SALT, folds_of, held_out_method
from blocksvm.validation.path import cross_validate

N, PATH = 200, [0.05, 0.5, 2.0]
GIVEN = {"tol": 1e-6, "schedule": "4", "max_outer": 5000, "bias": 1.0}
CHUNKS = np.arange(0, N, 20)


@pytest.fixture(scope="module")
def rows():
    return random_rows(n=N, d=15, seed=11)


def dense(X):
    return np.hstack([X.toarray(), np.ones((X.shape[0], 1))])


def planned(source, folds, path=PATH, previous=None, **given) -> OuterLoop:
    """The run of all folds and C at once."""
    settings = TrainSettings.of(**{**GIVEN, **given})
    return OuterLoop(Plan(source, settings, method=held_out_method("dual-cd", path, folds), previous=previous))


def looped(*given, **settings) -> OuterLoop:
    """The same, finished."""
    loop = planned(*given, **settings)
    loop.result = loop.run()
    return loop


def test_folds_are_drawn_by_the_rows_numbers(rows, tmp_path):
    """However a store is shuffled and cut into chunks, and whatever is in memory; other seeds draw others."""
    X, y = rows
    expected = folds_of(Matrix(X, y), 5, 3).of_rows
    assert np.bincount(expected, minlength=5).min() > N / 5 / 2
    for number, more in enumerate(({"chunk_nonzeros": 64}, {"chunk_nonzeros": 256, "seed": 9})):
        with open_store(make_store(tmp_path, X, y, name=f"s{number}", **more)) as store:
            own = folds_of(store, 5, 3).of_rows
            numbers = np.concatenate([store.read_rows(k)["source"] for k in range(len(store.chunks))])
        np.testing.assert_array_equal(own, expected[numbers])
    assert (folds_of(Matrix(X, y), 5, 4).of_rows != expected).mean() > 0.5
    sizes = np.bincount(folds_of(Matrix(X, np.arange(N) / 7.0), 70, 0, real=True).of_rows, minlength=70)
    assert sizes.min() == 2 and sizes.max() == 3  # those of real targets are filled


def test_rows_of_a_group_are_held_out_together(rows, tmp_path):
    X, y = rows
    names = [f"  author {i % 23}\r" if i % 2 else f"author {i % 23}" for i in range(N)]
    (tmp_path / "groups.txt").write_text("\n".join(names) + "\n")
    with open_store(make_store(tmp_path, X, y, chunk_nonzeros=64)) as store:
        own = folds_of(store, 4, 0, str(tmp_path / "groups.txt")).of_rows
        numbers = np.concatenate([store.read_rows(k)["source"] for k in range(len(store.chunks))])
    assert all(np.ptp(own[numbers % 23 == group]) == 0 for group in range(23))
    assert len(set(own.tolist())) == 4
    (tmp_path / "short.txt").write_text("a\n" * 7)
    with pytest.raises(InputError, match="has 7 lines, and the matrix was made of 200 rows"):
        folds_of(Matrix(X, y), 4, 0, str(tmp_path / "short.txt"))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "logistic", "epsilon-insensitive"])
@pytest.mark.parametrize("blocks", [None, 4])
def test_each_problem_is_that_of_its_training_rows(rows, loss, blocks):
    X, y = rows
    weights = np.random.default_rng(0).integers(1, 4, N) / 2.0
    real = loss == "epsilon-insensitive"
    if real:
        y = X @ np.arange(15.0) / 5 + np.random.default_rng(1).standard_normal(N)
    source = Matrix(X, y, weights=weights, chunk_rows=CHUNKS)
    folds = folds_of(source, 3, 0, real=real)
    more = {} if real else {"class_weight": {1.0: 2.0}}
    loop = looped(source, folds, loss=loss, block_chunks=blocks, **more)
    assert loop.result.status == "converged"
    found = loop.result.certificate.by_class
    W, alpha = loop.result.w, loop.result.alpha
    for j, C in enumerate(PATH):
        for fold in range(3):
            kept, c = folds.of_rows != fold, j * 3 + fold
            assert not alpha[~kept, c].any()
            alone = Matrix(X[kept], y[kept], weights=weights[kept])
            own = train(alone, loss=loss, C=C, **GIVEN, **more).result.certificate
            primal, dual = found["primal"][c], found["dual"][c]
            assert 0.0 <= primal - dual <= 1e-6 * primal * (1 + 1e-9)
            assert max(dual, own.dual) <= min(primal, own.primal) * (1 + 1e-12)
            if loss in ("hinge", "squared-hinge"):
                C_rows = C * weights[kept] * np.where(y[kept] > 0, 2.0, 1.0)
                expected = reference.primal(dense(X[kept]), y[kept], W[c], C_rows, loss)
                assert primal == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "logistic"])
@pytest.mark.parametrize("ratio", [0.5, 3.0])
def test_the_next_part_of_a_path_begins_feasible_and_no_worse_than_scaled(rows, loss, ratio):
    """w is that of a, the conjugates' sum is theirs, and D is the largest of all multiples of the a before."""
    X, y = rows
    source = Matrix(X, y)
    folds = folds_of(source, 3, 0)
    first = looped(source, folds, [1.0], loss=loss, tol=1e-3)
    previous = first.plan.solver.last(first.state)
    loop = planned(source, folds, [ratio], previous, loss=loss)
    loop.allocate()
    state, XB = loop.state, dense(X)
    primal, dual, _ = loop.plan.solver.estimates(state, 0.0)
    total = 0.0
    for fold in range(3):
        a, kept = state["alpha"][:, fold], folds.of_rows != fold
        assert not a[~kept].any()
        assert (a >= 0).all() and (loss == "squared-hinge" or (a <= ratio).all())
        np.testing.assert_allclose(state["w"][:, fold], (a * y) @ XB, atol=1e-12)
        if loss != "logistic":
            own = reference.dual(XB[kept], y[kept], a[kept], np.full(kept.sum(), ratio), loss)
            for factor in (0.5, 0.9, 0.99, 1.01, 1.1):
                b = factor * a[kept]
                if loss == "squared-hinge" or b.max() <= ratio:
                    assert reference.dual(XB[kept], y[kept], b, np.full(kept.sum(), ratio), loss) <= own + 1e-9
            total += own
    if loss != "logistic":
        assert dual == pytest.approx(total, rel=1e-9)
    assert loop.run().status == "converged"


@pytest.mark.parametrize("kind", ["two", "three", "real"])
def test_figures_are_those_of_models_that_have_not_seen_the_rows(rows, kind):
    metrics = pytest.importorskip("sklearn.metrics")
    X, y = rows
    given, values = GIVEN, X @ np.arange(15.0) / 5
    if kind == "real":
        y, given = values + np.random.default_rng(1).standard_normal(N), GIVEN | {"loss": "absolute"}
    elif kind == "three":
        y = np.digitize(values, [-2.0, 2.0])
    source, classes = Matrix(X, y, chunk_rows=CHUNKS), 3 if kind == "three" else 1
    folds = folds_of(source, 4, 0, real=kind == "real")
    found = cross_validate(source, PATH, 4, at_once=3, **given)
    assert found.parts == [3]
    W = looped(source, folds, **given).result.w.reshape(len(PATH), 4, classes, -1)
    for j in range(3):
        for fold in range(4):
            out = folds.of_rows == fold
            z, own = dense(X)[out] @ W[j, fold].T, y[out]
            if kind == "real":
                assert found.rmse[j, fold] == pytest.approx(np.sqrt(np.mean((z[:, 0] - own) ** 2)), rel=1e-9)
                assert found.loss[j, fold] == pytest.approx(np.abs(z[:, 0] - own).mean(), rel=1e-9)
                continue
            said = z.argmax(axis=1) if kind == "three" else np.where(z[:, 0] > 0, 1, -1)
            assert found.accuracy[j, fold] == np.mean(said == own)
            sides = np.where(own[:, None] == np.arange(3), 1, -1) if kind == "three" else own[:, None]
            assert found.loss[j, fold] == pytest.approx(np.maximum(0.0, 1.0 - sides * z).sum() / len(own), rel=1e-9)
            if kind == "two":
                assert found.auc[j, fold] == pytest.approx(metrics.roc_auc_score(own, z[:, 0]), rel=1e-12)
    assert found.rows.tolist() == np.bincount(folds.of_rows).tolist()
    assert np.isnan(found.auc).all() == (kind != "two") and np.isnan(found.accuracy).all() == (kind == "real")
    by, best = ("rmse", np.argmin) if kind == "real" else ("accuracy", np.argmax)
    assert found.best() == int(best(found.mean(by)))
    assert found.best("loss") == int(np.argmin(found.mean("loss")))


@pytest.mark.slow
def test_parts_of_a_path_reach_the_same_within_the_gaps(rows):
    X, y = rows
    source = Matrix(X, y)
    runs = [cross_validate(source, [0.01, *PATH, 30.0], 3, at_once=n, **GIVEN | {"bias": 0.0}) for n in (1, 2, 5)]
    assert [run.parts for run in runs] == [[1] * 5, [2, 2, 1], [5]]
    for run in runs[1:]:
        assert run.rel_gap.max() <= 1e-6
        np.testing.assert_allclose(run.loss, runs[0].loss, rtol=0.02, atol=2e-3)
        np.testing.assert_allclose(run.accuracy, runs[0].accuracy, atol=0.035)


@pytest.mark.parametrize("k", [2, 3])
def test_newton_scores_as_dual_cd(rows, k):
    X, y = rows
    source = Matrix(X, y if k == 2 else np.arange(N) % 3 + 1.0 * (y > 0), chunk_rows=CHUNKS)
    given = {"loss": "logistic", "tol": 1e-7}
    ours, other = (cross_validate(source, PATH, 3, solver=name, at_once=2, **given) for name in ("newton", "dual-cd"))
    assert ours.parts == other.parts and ours.status == "converged" and ours.rel_gap.max() <= 1e-7
    assert ours.readings < other.readings
    np.testing.assert_allclose(ours.loss, other.loss, rtol=2e-3)
    np.testing.assert_allclose(ours.accuracy, other.accuracy, atol=1.5 / (N / 3))
    few = cross_validate(source, PATH[:1], 3, solver="newton", memory=150_000, **given)
    np.testing.assert_allclose(few.loss, ours.loss[:1], rtol=2e-3)


def test_as_many_at_once_as_the_memory_allows(tmp_path):
    X, y = random_rows(n=300, d=30_000, density=0.001, seed=5)
    store = make_store(tmp_path, X, y, chunk_nonzeros=512)
    with open_store(store) as source:
        per_C = 8 * 3 * (source.n_features + 1)
        found = cross_validate(source, [0.1, 1.0, 2.0, 3.0], 3, at_once=4, memory=int(4.2 * per_C), tol=1e-2)
        assert len(found.parts) > 1
        with pytest.raises(InputError, match="is too small"):
            cross_validate(source, [0.1, 1.0], 3, memory=per_C // 2)


def test_a_user_who_wants_to_stop_is_heard(rows):
    assert cross_validate(Matrix(*rows), PATH, 3, stop=stop_after(5), **GIVEN).status == "interrupted"


@pytest.mark.parametrize(("more", "expected"), [
    ({"C": [0.0, 1.0]}, "needs finite numbers above 0"), ({"folds": 1}, "must be from 2 to 100"),
    ({"at_once": 0}, "must be 1 or more"), ({"C": "0.1,1"}, "needs finite numbers above 0, e.g. "),
    ({"lam": 1.0}, "goes along a path of C"), ({"solver": "arow"}, "cross-validation uses dual-cd or newton"),
    ({"bias": "free"}, "choose C with bias=1, .* and train with bias=free at that C"),
    ({"multiclass": "crammer-singer"}, "trains each class against the others"),
])  # fmt: skip
def test_what_cannot_be_is_refused(rows, more, expected):
    with pytest.raises(InputError, match=expected):
        cross_validate(Matrix(*rows), **{"C": PATH, "folds": 3, **more})


def test_folds_without_rows_and_with_all_rows_of_a_class_are_refused(rows, tmp_path):
    X, y = rows
    (tmp_path / "groups.txt").write_text("a\nb\n" * (N // 2))
    groups = {"groups": str(tmp_path / "groups.txt")}
    for source, folds, more, says in (
        (Matrix(X, np.where(np.arange(N) == 17, 1.0, -1.0)), 3, {},
         r"all rows of label 1 are in fold \d of 3, .* takes two such rows or more"),
        (Matrix(X[:5], y[:5]), 50, {}, "fold 6 of 50 has no rows; choose fewer folds"),
        (Matrix(X, y), 3, groups, "has no rows; choose fewer folds"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=says):
            cross_validate(source, PATH, folds, **more)


@pytest.mark.parametrize("count", [3, 10, 90])
def test_few_rows_of_a_class_are_dealt_out_in_equal_parts(rows, tmp_path, count):
    """Whatever the order of the store; a class that the draw has spread well enough is left as it was drawn."""
    X, _ = rows
    y = np.where(np.arange(N) % 29 == 3, 1.0, -1.0)  # 7 rows
    y[np.arange(N) % 40 == 5] = 2.0
    of_rows = folds_of(Matrix(X, y), count, 0).of_rows
    for label in (1.0, 2.0) if count < 90 else (-1.0, 1.0, 2.0):
        by_fold = np.bincount(of_rows[y == label], minlength=count)
        assert by_fold.max() - by_fold.min() <= 1
    assert np.bincount(of_rows, minlength=count).min() >= N / count / 2
    with open_store(make_store(tmp_path, X, y, chunk_nonzeros=64, seed=9)) as opened:
        numbers = np.concatenate([opened.read_rows(k)["source"] for k in range(len(opened.chunks))])
        np.testing.assert_array_equal(folds_of(opened, count, 0).of_rows, of_rows[numbers])
    if count == 3:
        row_keys(np.arange(N), np.uint64(SALT), drawn := np.empty(N, np.uint64))
        np.testing.assert_array_equal(of_rows[y < 0], (drawn % np.uint64(3))[y < 0])


def test_what_a_fold_cannot_measure_is_told_and_chooses_nothing(rows, tmp_path, succeeds):
    """7 rows of the rarer class in 10 folds: three folds have none of it, and no area under the curve."""
    X, _ = rows
    y = np.where(np.arange(N) % 29 == 3, 1.0, -1.0)
    line = "cv", make_store(tmp_path, X, y), "-C", "0.01,1", "--folds", "10", "--select", "auc"
    text = succeeds(*line).out
    assert re.search(r"auc: the rows of fold \d+, \d+, \d+ are of one class, so that its mean leaves them out", text)
    assert "nan" not in text
    done = succeeds(*line, "--quiet")
    assert re.fullmatch(r"-C (0.01|1): auc 0\.\d{5}\n", done.out) and done.err == ""
    found = cross_validate(Matrix(X, y), (0.01, 1.0), 10)
    there = ~np.isnan(found.auc[0])
    assert there.sum() == 7
    expected = [np.average(values[there], weights=found.rows[there]) for values in found.auc]
    np.testing.assert_allclose(found.mean("auc"), expected, rtol=1e-12)
    assert found.best("auc") == int(np.argmax(expected))
    found.auc[:] = np.nan
    with pytest.raises(InputError, match="select=auc: no fold has rows of two classes to measure it by; choose"):
        found.best("auc")


@pytest.mark.parametrize(("measure", "loss", "expected"), [
    ("auc", "hinge", "accuracy or loss"), ("rmse", "hinge", "accuracy or loss"),
    ("accuracy", "epsilon-insensitive", "loss or rmse"), ("auc", "epsilon-insensitive", "loss or rmse"),
])  # fmt: skip
def test_a_measure_that_the_rows_lack_is_refused_before_training(rows, tmp_path, refusal, measure, loss, expected):
    store = make_store(tmp_path, rows[0], np.arange(N) % 3 + 0.0)
    told = refusal("cv", store, "--select", measure, "--loss", loss)
    assert re.search(f"--select {measure}: is not a measure of these .*; choose {expected}$", told)


@pytest.mark.slow
def test_the_command(rows, tmp_path, succeeds, refusal):
    X, y = rows
    store = make_store(tmp_path, X, y, chunk_nonzeros=128)
    outputs = [tmp_path / "m.h5", tmp_path / "cv.json", tmp_path / "cv.png"]
    arguments = [store, "--folds", "3", "-C", "0.05,0.5,2", "--bias", "1", "--tol", "1e-4", "--select", "loss"]
    arguments += ["--refit", outputs[0], "--json", outputs[1], "--figure", outputs[2]]
    lines = succeeds("cv", *arguments).out.splitlines()
    told = json.loads(outputs[1].read_text())
    assert told["path"] == PATH and np.shape(told["accuracy"]) == (3, 3)
    assert np.max(told["rel_gap"]) <= 1e-4
    assert lines[0].split() == ["C", "accuracy", "+-", "loss", "+-", "auc", "+-", "gap"]
    best = [line.split()[0] for line in lines if line.endswith("  best")]
    assert best == [f"{told['best']:g}"]
    model = load_model(outputs[0])
    assert model.meta.method.settings["C"] == told["best"]
    assert outputs[2].read_bytes()[:4] == b"\x89PNG"
    assert "exists" in refusal("cv", *arguments)
    succeeds("cv", *arguments, "--overwrite")
    assert "-C 1,x: expected numbers" in refusal("cv", store, "-C", "1,x")
    assert path_of("0.001:1:3") == [0.001, 0.0316228, 1.0]  # a printed cost is the one that is trained with


def test_the_parts_of_a_path_do_not_add_up_in_memory(rows, monkeypatch):
    """The arrays of a part are gone when the next one is planned."""
    alive, loops = [], []
    made = OuterLoop.__init__

    def watched(self, *arguments, **more):
        alive.append(sum(loop() is not None for loop in loops))
        made(self, *arguments, **more)
        loops.append(weakref.ref(self))

    monkeypatch.setattr(OuterLoop, "__init__", watched)
    gc.disable()
    try:
        cross_validate(Matrix(*rows), [0.1, 0.5, 1.0], 3, at_once=1, **GIVEN | {"tol": 1e-3})
    finally:
        gc.enable()
    assert alive == [0, 0, 0]


def test_calibration_uses_rows_that_the_models_which_value_them_have_not_seen():
    X, y = random_rows(n=400, d=30, seed=3)
    source = Matrix(X, y)
    found = calibrated(source, TrainSettings.of(**{**GIVEN, "C": 0.5}), "platt")
    folds = folds_of(source, FOLDS, 0)
    W = looped(source, folds, [0.5]).result.w
    z = np.einsum("ij,ij->i", dense(X), W[folds.of_rows])
    order = np.argsort(z)
    exact = platt(z[order], (y[order] < 0).astype(float), (y[order] > 0).astype(float))
    assert found["slope"] == pytest.approx(exact["slope"], rel=1e-2)
    assert found["intercept"] == pytest.approx(exact["intercept"], abs=1e-2)


@pytest.fixture(scope="module")
def counted():
    """(values rising, weights of the negative and of the positive rows)"""
    rng = np.random.default_rng(0)
    values = np.unique(np.round(rng.normal(scale=2.0, size=300), 3))
    positive = rng.binomial(4, 1.0 / (1.0 + np.exp(-(1.5 * values - 0.5)))).astype(float)
    return values, 4.0 - positive + (positive == 4.0) * 0.5, positive


def test_platt_s_sigmoid_has_the_largest_likelihood(counted):
    values, negative, positive = counted
    n, p = negative.sum(), positive.sum()
    high, low = (p + 1) / (p + 2), 1 / (n + 2)

    def loss(ab):
        P = 1.0 / (1.0 + np.exp(-(ab[0] * values + ab[1])))
        right = positive * (high * np.log(P) + (1 - high) * np.log1p(-P))
        return -np.sum(right + negative * (low * np.log(P) + (1 - low) * np.log1p(-P)))

    best = scipy.optimize.minimize(loss, [1.0, 0.0], method="BFGS", options={"gtol": 1e-6})
    found = platt(values, negative, positive)
    assert found["kind"] == "platt"
    assert [found["slope"], found["intercept"]] == pytest.approx(best.x, rel=1e-4)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_platt_where_the_classes_are_apart(sign):
    """The targets a little inside of 0 and 1 keep the slope finite."""
    values = np.array([-2.0, -1.0, 1.0, 2.0])
    negative, positive = np.array([5.0, 5.0, 0.0, 0.0]), np.array([0.0, 0.0, 5.0, 5.0])
    found = platt(sign * values, negative, positive)
    assert 0.0 < sign * found["slope"] < 50.0
    assert found["intercept"] == pytest.approx(0.0, abs=1e-6)


def test_the_isotonic_function_is_scikit_learn_s(counted):
    values, negative, positive = counted
    weights = negative + positive
    theirs = IsotonicRegression(out_of_bounds="clip").fit(values, positive / weights, sample_weight=weights)
    found = isotonic(values, negative, positive)
    at = np.linspace(-8.0, 8.0, 500)
    np.testing.assert_allclose(np.interp(at, found["values"], found["probabilities"]), theirs.predict(at), atol=1e-9)


def test_threads_share_the_work_and_change_nothing(monkeypatch):
    X, y = random_rows(n=200, d=30, seed=3)
    used = []
    share = Plan.share_work
    monkeypatch.setattr(Plan, "share_work", lambda plan, threads: used.append(threads.n) or share(plan, threads))
    given = Matrix(X, y), TrainSettings.of(C=0.5, tol=1e-3), "platt"
    assert calibrated(*given, threads=Threads(2)) == calibrated(*given)
    assert used == [2, 1]
    LinearSVC(calibrate="platt", n_jobs=2, tol=1e-2).fit(X, y)
    assert used[2:] == [2, 2]


@pytest.mark.parametrize("kind", ["platt", "isotonic"])
def test_from_train_to_predict(tmp_path, succeeds, kind):
    X, y = random_rows(n=600, d=20, seed=2)
    store = make_store(tmp_path, X[:400], y[:400], chunk_nonzeros=128)
    (tmp_path / "new.svm").write_text(svmlight(X[400:], y[400:]))
    model = tmp_path / "m.h5"
    said = succeeds("train", store, model, "--calibrate", kind, "-C", "0.3").out + succeeds("info", model).out
    assert said.count(f"calibrated on rows held out: {kind}") == 2
    done = succeeds("predict", model, tmp_path / "new.svm", "--probabilities")
    told = np.array([line.split() for line in done.out.splitlines()], dtype=float)
    np.testing.assert_allclose(told.sum(axis=1), 1.0, atol=1e-12)
    loaded = load_model(model)
    given = sparse.hstack([sparse.csr_matrix((200, 1)), X[400:]]).tocsr()  # the text's ids count from 1
    given = given.astype(np.float32)  # as predict reads the text, in the dtype of the store
    np.testing.assert_allclose(loaded.predict_proba(given), told, atol=1e-6)
    right = np.where(y[400:] > 0, told[:, 1], told[:, 0])
    if (right > 0).all():
        assert f"log-loss {-np.log(right).mean():.6f}" in done.err
    rate = np.mean(y > 0)
    assert np.mean((1 - right) ** 2) < rate * (1 - rate)  # better than knowing the classes' shares
    order = np.argsort(loaded.decision_function(given))
    assert (np.diff(told[order, 1]) >= -1e-9).all()


def test_a_damaged_calibration_is_told():
    meta = as_json(describe_model(GOLDEN / "calibrated.h5"))
    falling = {"kind": "isotonic", "values": [2.0, 1.0], "probabilities": [0.0, 1.0]}
    for wrong in (falling, {"kind": "other"}, {"kind": "platt", "slope": None, "intercept": 0.0}, [1.0]):
        with pytest.raises(ValueError, match="calibration"):
            parse(json.dumps(meta | {"calibration": wrong}).encode(), "model")


@pytest.mark.parametrize(("arguments", "expected"), [
    (("--solver", "pegasos"), "is for dual-cd on rows of two classes"), (("--bias", "free"), "without a free bias"),
    (("--lambda", "0.1"), "needs -C instead of --lambda"),
])  # fmt: skip
def test_what_cannot_be_calibrated_is_refused(tmp_path, refusal, arguments, expected):
    X, y = random_rows(n=60, d=10, seed=2)
    store = make_store(tmp_path, X, y)
    assert expected in refusal("train", store, tmp_path / "m.h5", "--calibrate", "platt", *arguments)
    with pytest.raises(InputError, match="is for dual-cd on rows of two classes"):
        calibrated(Matrix(X, np.arange(60) % 3), TrainSettings.of(), "platt")

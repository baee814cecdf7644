"""The reference against hand-worked cases, LIBLINEAR, and the theory."""

import numpy as np
import pytest
import reference as ref
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from liblinear import liblinearutil

LOSSES = ["hinge", "squared-hinge"]


def random_problem(seed, n=40, d=6, density=0.6):
    """Noisy, not separable, with rows of zeros and repeated rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1, -1)
    X[3] = X[n - 1] = 0.0
    X[7] = X[8] = X[9]
    y[8] = -y[7]  # the same row under both labels
    y[9] = y[7]
    y[3], y[n - 1] = 1, -1
    return X, y


def solve(X, y, C_rows, loss, passes=3000, eps=1e-11, shrink=True, seed=0):
    rng = np.random.default_rng(seed)
    n, d = X.shape
    orders = (rng.permutation(n) for _ in range(passes))
    return ref.dual_cd_visit(X, y, np.zeros(d), np.zeros(n), C_rows, loss, orders, eps=eps, shrink=shrink)


# --- text --------------------------------------------------------------------

READABLE = {
    "plain": (b"+1 1:0.5 7:2\n-1 2:1e-3\n", [(1, [1, 7], [0.5, 2]), (-1, [2], [1e-3])]),
    "no newline at the end": (b"1 1:1", [(1, [1], [1])]),
    "crlf": (b"1 1:1\r\n-1 2:2\r\n", [(1, [1], [1]), (-1, [2], [2])]),
    "cr at the end": (b"1 1:1\r", [(1, [1], [1])]),
    "tabs and runs of spaces": (b" \t1\t 1:1  \t2:3 \t\n", [(1, [1, 2], [1, 3])]),
    "blank and comment lines": (b"\n# no\n \t\n\r\n1 1:1\n#\n\n", [(1, [1], [1])]),
    "comments": (b"1 1:1 # 2:2\n1 3:3#x\n", [(1, [1], [1]), (1, [3], [3])]),
    "qid": (b"1 qid:12 4:1\n", [(1, [4], [1])]),
    "label alone": (b"-1\n1 # c\n2 qid:1\n", [(-1, [], []), (1, [], []), (2, [], [])]),
    "unsorted": (b"1 9:1 0:2 4:3\n", [(1, [0, 4, 9], [2, 3, 1])]),
    "zeros dropped": (b"1 1:0 2:-0.0 3:1 4:0e5\n", [(1, [3], [1])]),
    "underflow is zero": (b"1 1:1e-400 2:2\n", [(1, [2], [2])]),
    "largest id": (b"1 0:1 9223372036854775807:2\n", [(1, [0, 2**63 - 1], [1, 2])]),
    "leading zeros": (b"1 " + b"0" * 5000 + b"7:1\n", [(1, [7], [1])]),
    "number forms": (b"1e0 1:+.5 2:5. 3:-1E+2\n", [(1, [1, 2, 3], [0.5, 5, -100])]),
    "real label": (b"0.25 1:1\n", [(0.25, [1], [1])]),
    "empty": (b"", []),
}


@pytest.mark.parametrize("name", READABLE)
def test_parser_reads(name):
    data, rows = READABLE[name]
    assert ref.parse_svmlight(data) == rows


UNREADABLE = {
    b"1 1:1\n\n# c\n1 5\n": (4, "malformed pair"),
    b"1 1:1\r\n1 x:1\r\n": (2, "malformed id"),
    b"1 1:\n": (1, "malformed value"),
    b"1 :1\n": (1, "malformed id"),
    b"1 1 :1\n": (1, "malformed pair"),
    b"1 1:1:1\n": (1, "malformed value"),
    b"1 1.5:1\n": (1, "malformed id"),
    b"1 1_0:1\n": (1, "malformed id"),
    b"1 1:1_0\n": (1, "malformed value"),
    b"1 0x1:1\n": (1, "malformed id"),
    b"1 1:0x1p3\n": (1, "malformed value"),
    b"1 1:0x10\n": (1, "malformed value"),
    b"1 1:1\r2:2\n": (1, "malformed value"),
    b"1 1:1\x0b2:2\n": (1, "malformed value"),
    b"1 1:nan\n": (1, "value is not finite"),
    b"1 1:-Inf\n": (1, "value is not finite"),
    b"1 1:Infinity\n": (1, "value is not finite"),
    b"1 1:1e400\n": (1, "value overflows"),
    b"1 -1:1\n": (1, "negative id"),
    b"1 9223372036854775808:1\n": (1, "id overflows"),
    b"1 " + b"9" * 5000 + b":1\n": (1, "id overflows"),
    b"1 3:1 3:2\n": (1, "duplicate id"),
    b"1 3:0 3:2\n": (1, "duplicate id"),
    b"1:1 2:2\n": (1, "missing label"),
    b"qid:1 2:2\n": (1, "missing label"),
    b"1 qid:x 2:2\n": (1, "malformed qid"),
    b"one 1:1\n": (1, "malformed label"),
    b"1,2 1:1\n": (1, "malformed label"),
    b"0x1 1:1\n": (1, "malformed label"),
    b"nan 1:1\n": (1, "label is not finite"),
    b"-inf 1:1\n": (1, "label is not finite"),
    b"1e400 1:1\n": (1, "label overflows"),
}


@pytest.mark.parametrize("data", UNREADABLE, ids=lambda data: data.hex()[:40])
def test_parser_refuses(data):
    line, why = UNREADABLE[data]
    with pytest.raises(ref.BadLine) as caught:
        ref.parse_svmlight(data)
    assert (caught.value.line, caught.value.why) == (line, why)


def test_parser_sums_duplicates():
    data = b"1 3:1 2:5 3:2 4:1 4:-1 5:0 5:0\n"
    assert ref.parse_svmlight(data, duplicates="sum") == [(1, [2, 3], [5, 3])]
    # in the order of the line: (1e16 + 1) + -1e16 is 0 in float64
    data = b"1 3:1e16 3:1 3:-1e16\n1 3:1e16 3:-1e16 3:1\n"
    assert ref.parse_svmlight(data, duplicates="sum") == [(1, [], []), (1, [3], [1])]
    with pytest.raises(ref.BadLine, match="line 1: value overflows"):
        ref.parse_svmlight(b"1 3:1e308 3:1e308\n", duplicates="sum")


def test_parser_casts_to_dtype():
    data = b"16777217 1:16777217 2:1e-60 3:0.1 4:1\n"
    ((label, ids, values),) = ref.parse_svmlight(data, dtype=np.float32)
    assert label == 16777217
    assert ids == [1, 3, 4]
    assert values == [16777216, float(np.float32(0.1)), 1]
    with pytest.raises(ref.BadLine, match="value overflows"):
        ref.parse_svmlight(b"1 1:1e39\n", dtype=np.float32)
    # rounded first, then added in float32
    data = b"1 1:16777216 1:1\n"
    (row,) = ref.parse_svmlight(data, duplicates="sum", dtype=np.float32)
    assert row == (1, [1], [16777216])
    with pytest.raises(ref.BadLine, match="value overflows"):
        ref.parse_svmlight(b"1 1:3e38 1:3e38\n", duplicates="sum", dtype=np.float32)


def test_parser_refuses_unknown_policy():
    with pytest.raises(ValueError, match="duplicates"):
        ref.parse_svmlight(b"", duplicates="last")


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.dictionaries(
                st.integers(0, 2**63 - 1),
                st.floats(allow_nan=False, allow_infinity=False),
                max_size=5,
            ),
        ),
        max_size=5,
    )
)
def test_parser_round_trip(rows):
    text, expected = "", []
    for label, entries in rows:
        text += " ".join([repr(label), *(f"{k}:{v!r}" for k, v in entries.items())])
        text += "\n"
        ids = sorted(k for k, v in entries.items() if v != 0)
        expected.append((label, ids, [entries[k] for k in ids]))
    assert ref.parse_svmlight(text.encode()) == expected


# --- the two problems --------------------------------------------------------


def test_by_hand():
    X = np.array([[1.0, 2.0], [0.0, -1.0], [0.0, 0.0]])
    y = np.array([1, -1, 1])
    w = np.array([0.5, -1.0])
    C = np.array([2.0, 3.0, 0.5])
    alpha = np.array([1.0, 2.0, 0.5])
    # margins -1.5, -1, 0; hinge 2.5, 2, 1; w(alpha) = (1, 2 + 2)
    np.testing.assert_array_equal(ref.margins(X, y, w), [-1.5, -1, 0])
    np.testing.assert_array_equal(ref.predict(X, w), [-1, 1, -1])
    np.testing.assert_array_equal(ref.weights_of(X, y, alpha), [1, 4])
    assert ref.primal(X, y, w, C, "hinge") == 0.625 + 5 + 6 + 0.5
    assert ref.primal(X, y, w, C, "squared-hinge") == 0.625 + 12.5 + 12 + 0.5
    assert ref.dual(X, y, alpha, C, "hinge") == 3.5 - 8.5
    quadratic = 1 / 8 + 4 / 12 + 0.25 / 2
    assert ref.dual(X, y, alpha, C, "squared-hinge") == pytest.approx(-5 - quadratic)
    np.testing.assert_array_equal(ref.projected_gradient(X, y, w, [0.0, 2.0, 0.5], C, "hinge"), [-2.5, -2, 0])
    np.testing.assert_array_equal(ref.projected_gradient(X, y, -w, [0.0, 3.0, 0.5], C, "hinge"), [0, 0, 0])
    np.testing.assert_array_equal(
        ref.projected_gradient(X, y, -w, [0.0, 3.0, 0.5], C, "squared-hinge"),
        [0, 0.5, -0.5],
    )
    np.testing.assert_array_equal(ref.loss([2.0, 1.0, 0.0, -2.0], "squared-hinge"), [0, 0, 1, 9])


def test_dual_refuses_alpha_outside_of_its_box():
    X, y, C = np.eye(2), np.array([1, -1]), np.ones(2)
    for alpha in ([-1e-9, 0.0], [0.0, 1.001], [np.nan, 0.0]):
        with pytest.raises(ValueError, match="outside"):
            ref.dual(X, y, alpha, C, "hinge")
    assert ref.dual(X, y, [0.0, 1.001], C, "squared-hinge") > 0
    with pytest.raises(ValueError, match="outside"):
        ref.dual(X, y, [0.0, 1.0], np.array([1.0, 0.0]), "squared-hinge")


def test_unknown_names():
    for call in (ref.loss, ref.box):
        name_last = (0.0, "log") if call is ref.loss else ("log", np.ones(1))
        with pytest.raises(ValueError, match="unknown loss"):
            call(*name_last)
    with pytest.raises(ValueError, match="class_weight"):
        ref.c_rows(np.array([1]), 1.0, "even")


def test_relative_gap():
    assert ref.relative_gap(4.0, 3.0) == 0.25
    assert ref.relative_gap(0.0, -3.0) == 3.0
    assert ref.relative_gap(-4.0, -5.0) == 0.25


def test_c_rows():
    y = np.array([1, -1, -1, -1])
    np.testing.assert_array_equal(ref.c_rows(y, 3.0), [3, 3, 3, 3])
    np.testing.assert_array_equal(ref.c_rows(y, 3.0, {+1: 2, -1: 0.5}), [6, *[1.5] * 3])
    np.testing.assert_array_equal(ref.c_rows(y, 3.0, {+1: 2}), [6, 3, 3, 3])
    np.testing.assert_array_equal(ref.c_rows(y, 3.0, "balanced"), [6, 2, 2, 2])
    np.testing.assert_array_equal(ref.c_rows(y, 3.0, None, [1, 2, 0, 1]), [3, 6, 0, 3])
    from sklearn.utils.class_weight import compute_sample_weight

    expected = 3.0 * compute_sample_weight("balanced", y)
    np.testing.assert_allclose(ref.c_rows(y, 3.0, "balanced"), expected)
    np.testing.assert_array_equal(ref.c_rows(y[1:], 3.0, "balanced"), [1.5] * 3)


def test_with_bias():
    X = np.array([[1.0, 0.0], [0.0, 0.0]])
    expected = [[1, 0, 2.5], [0, 0, 2.5]]
    np.testing.assert_array_equal(ref.with_bias(X, 2.5), expected)
    sparse = ref.with_bias(scipy.sparse.csr_matrix(X), 2.5)
    assert scipy.sparse.issparse(sparse)
    np.testing.assert_array_equal(sparse.toarray(), expected)


@pytest.mark.parametrize("loss", LOSSES)
def test_dual_gradient_is_minus_G(loss):
    X, y = random_problem(1)
    C = ref.c_rows(y, 0.7, {+1: 2.0, -1: 0.5})
    alpha = np.random.default_rng(1).uniform(0.2, 0.8, len(y)) * C
    w = ref.weights_of(X, y, alpha)
    expected = ref.projected_gradient(X, y, w, alpha, C, loss)
    h = 1e-5
    for i in range(len(y)):
        up, down = alpha.copy(), alpha.copy()
        up[i] += h
        down[i] -= h
        slope = (ref.dual(X, y, up, C, loss) - ref.dual(X, y, down, C, loss)) / (2 * h)
        assert -slope == pytest.approx(expected[i], abs=1e-7)


@given(st.data())
def test_weak_duality(data):
    loss = data.draw(st.sampled_from(LOSSES))
    n, d = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    reals = st.floats(-5, 5, allow_subnormal=False)
    X = np.reshape(data.draw(st.lists(reals, min_size=n * d, max_size=n * d)), (n, d))
    y = np.array(data.draw(st.lists(st.sampled_from([-1, 1]), min_size=n, max_size=n)))
    w = np.array(data.draw(st.lists(reals, min_size=d, max_size=d)))
    C = np.array(data.draw(st.lists(st.floats(0.01, 10), min_size=n, max_size=n)))
    share = data.draw(st.lists(st.floats(0, 1), min_size=n, max_size=n))
    alpha = np.array(share) * (C if loss == "hinge" else 3 * C)
    D = ref.dual(X, y, alpha, C, loss)
    for weights in (w, ref.weights_of(X, y, alpha)):
        P = ref.primal(X, y, weights, C, loss)
        assert D <= P + 1e-11 * (abs(P) + abs(D))


# --- the optimum by another route --------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_exact_optimum_meets_kkt(loss, C, seed):
    X, y = random_problem(seed)
    C_rows = ref.c_rows(y, C, {+1: 3.0, -1: 0.5})
    w, alpha, P, D = ref.exact_optimum(X, y, C_rows, loss)
    assert abs(ref.relative_gap(P, D)) <= 1e-10
    np.testing.assert_allclose(w, ref.weights_of(X, y, alpha), atol=1e-12)
    residual = ref.projected_gradient(X, y, w, alpha, C_rows, loss)
    assert np.abs(residual).max() <= 1e-8
    rng = np.random.default_rng(seed)
    for scale in (1e-4, 1e-2, 1.0):
        nearby = w + scale * rng.normal(size=len(w))
        assert ref.primal(X, y, nearby, C_rows, loss) > P


def test_exact_optimum_by_hand():
    # one row x = 2: hinge is 0 from w = 1/2, alpha = 1/4, unless C is smaller
    X, y = np.array([[2.0]]), np.array([-1])
    w, alpha, P, D = ref.exact_optimum(X, y, np.array([1.0]), "hinge")
    np.testing.assert_allclose([w[0], alpha[0], P, D], [-0.5, 0.25, 0.125, 0.125])
    w, alpha, P, D = ref.exact_optimum(X, y, np.array([0.125]), "hinge")
    expected = [-0.25, 0.125, 0.09375, 0.09375]
    np.testing.assert_allclose([w[0], alpha[0], P, D], expected)
    # squared hinge, C = 1/2: alpha = 1 / (4 + 1)
    w, alpha, P, D = ref.exact_optimum(X, y, np.array([0.5]), "squared-hinge")
    np.testing.assert_allclose([w[0], alpha[0], P, D], [-0.4, 0.2, 0.1, 0.1])


# --- dual coordinate descent -------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shrink", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_cd_reaches_the_optimum(loss, shrink, sparse):
    for seed in range(3):
        X, y = random_problem(seed)
        C = ref.c_rows(y, 0.5, {+1: 3.0, -1: 0.5})
        _, _, P_best, _ = ref.exact_optimum(X, y, C, loss)
        given = scipy.sparse.csr_matrix(X) if sparse else X
        w, alpha, info = solve(given, y, C, loss, shrink=shrink, seed=seed)
        assert info["passes"] < 3000
        assert info["pg_max"] - info["pg_min"] <= 1e-11
        P = ref.primal(X, y, w, C, loss)
        assert 0 <= ref.relative_gap(P, ref.dual(X, y, alpha, C, loss)) + 1e-14 <= 1e-8
        assert P == pytest.approx(P_best, rel=1e-9)
        np.testing.assert_allclose(w, ref.weights_of(X, y, alpha), atol=1e-10)
        zero_row = C if loss == "hinge" else 2 * C
        assert alpha[3] == zero_row[3]
        assert alpha[-1] == zero_row[-1]


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_cd_in_blocks_reaches_the_optimum(loss):
    X, y = random_problem(5)
    C = ref.c_rows(y, 0.5, "balanced")
    w, alpha = np.zeros(X.shape[1]), np.zeros(len(y))
    rng = np.random.default_rng(5)
    for _ in range(400):
        for block in np.split(np.arange(len(y)), 4):
            orders = [rng.permutation(len(block)) for _ in range(3)]
            before = ref.dual(X, y, alpha, C, loss)
            w, alpha[block], _ = ref.dual_cd_visit(X[block], y[block], w, alpha[block], C[block], loss, orders)
            # coordinate-wise minimisation never loses ground
            assert ref.dual(X, y, alpha, C, loss) >= before - 1e-12 * abs(before)
    P, D = ref.primal(X, y, w, C, loss), ref.dual(X, y, alpha, C, loss)
    assert ref.relative_gap(P, D) <= 1e-8
    assert ref.exact_optimum(X, y, C, loss)[2] == pytest.approx(P, rel=1e-8)


@pytest.mark.parametrize(("loss", "solver"), [("hinge", 3), ("squared-hinge", 1)])
def test_cd_equals_liblinear(loss, solver):
    # LIBLINEAR gives up after 300 passes: these are problems that take it about 100
    for seed, B in [(0, None), (1, 1.0), (4, 2.5)]:
        X, y = random_problem(seed, n=60)
        C = ref.c_rows(y, 0.1, {+1: 2.0, -1: 0.7})
        bias = "" if B is None else f" -B {B}"
        model = liblinearutil.train(
            y,
            scipy.sparse.csr_matrix(X),
            f"-s {solver} -c 0.1 -w1 2 -w-1 0.7 -e 1e-9 -q{bias}",
        )
        first_label = model.get_labels()[0]
        theirs = np.array(model.w[: X.shape[1] + (B is not None)]) * first_label
        widened = X if B is None else ref.with_bias(X, B)
        mine, alpha, _ = solve(widened, y, C, loss)
        P_theirs = ref.primal(widened, y, theirs, C, loss)
        D = ref.dual(widened, y, alpha, C, loss)
        assert abs(ref.relative_gap(P_theirs, D)) <= 1e-8
        assert ref.primal(widened, y, mine, C, loss) == pytest.approx(P_theirs, rel=1e-8)
        np.testing.assert_allclose(mine, theirs, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "share"), [("hinge", 0.4), ("squared-hinge", 0.98)])
def test_shrinking_saves_visits_and_keeps_the_optimum(loss, share):
    X, y = random_problem(11, n=80, d=4)
    C = ref.c_rows(y, 1.0)
    w_all, alpha_all, all_rows = solve(X, y, C, loss, eps=1e-9, shrink=False)
    w, alpha, shrunk = solve(X, y, C, loss, eps=1e-9)
    assert all_rows["rows_visited"] == 80 * all_rows["passes"]
    assert shrunk["rows_visited"] < share * 80 * shrunk["passes"]
    assert max(all_rows["passes"], shrunk["passes"]) < 3000
    P = ref.primal(X, y, w, C, loss)
    assert ref.primal(X, y, w_all, C, loss) == pytest.approx(P, rel=1e-10)
    for w_, alpha_ in [(w, alpha), (w_all, alpha_all)]:
        assert np.abs(ref.projected_gradient(X, y, w_, alpha_, C, loss)).max() <= 1e-8


def hand_problem():
    """Chosen so that every number is exact in binary. Rows 3 to 5 start at C."""
    X = [[1.0, 0], [10.0, 0], [2.0, 0], [-10.0, 0], [0.875, 1.0], [0.25, 0]]
    return {
        "X": np.array(X),
        "y": np.ones(6),
        "w": np.array([0.25, 0.0]),
        "alpha": np.array([0.0, 0.0, 0.125, 0.0625, 0.5, 0.5]),
        "C_rows": np.array([8.0, 8.0, 8.0, 0.0625, 0.5, 0.5]),
        "loss": "hinge",
    }


def test_shrinking_by_hand():
    # pass 1, w 0.25:  G is -0.75 in row 0, which makes w 1;  9;  1, which makes
    #         w 0.75;  -8.5;  -0.34375;  -0.8125.  PG ranges from -0.75 to 1.
    # pass 2: -0.25, w 1;  9 > 1: out;  1, not > 1: stays;  -11 < -0.75: out;
    #         -0.125;  -0.75, not < -0.75: stays.  PG ranges from -0.25 to 0.
    # pass 3: 0;  1, but the old maximum of 0 counts as infinity: stays;  -0.125;
    #         -0.75 < -0.25: out.  PG is 0 throughout.
    # pass 4: 0;  1;  -0.125, but the old minimum of 0 counts as -infinity: stays.
    # pass 5: the same rows 0, 2 and 4.
    visited = [6, 6, 4, 3, 3]
    entries = [7, 7, 5, 4, 4]
    extremes = [(-0.75, 1), (-0.25, 0), (0, 0), (0, 0), (0, 0)]
    problem = hand_problem()
    for passes in range(1, 6):
        orders = [range(6)] * passes
        w, alpha, info = ref.dual_cd_visit(**problem, orders=orders)
        np.testing.assert_array_equal(w, [0.75 if passes == 1 else 1.0, 0.0])
        first = 0.75 if passes == 1 else 1.0
        np.testing.assert_array_equal(alpha, [first, 0, 0, 0.0625, 0.5, 0.5])
        assert info == {
            "passes": passes,
            "rows_visited": sum(visited[:passes]),
            "nnz_visited": sum(entries[:passes]),
            "loss_sum": 8 * 0.75 + 0.0625 * 8.5 + 0.5 * 0.34375 + 0.5 * 0.8125,
            "pg_min": extremes[passes - 1][0],
            "pg_max": extremes[passes - 1][1],
        }
    _, _, info = ref.dual_cd_visit(**problem, orders=orders, shrink=False)
    assert (info["rows_visited"], info["nnz_visited"]) == (30, 35)
    for name in ("w", "alpha"):  # the arguments are left alone
        np.testing.assert_array_equal(problem[name], hand_problem()[name])


def test_stopping_by_hand():
    def visit(eps, shrink=True):
        _, _, info = ref.dual_cd_visit(**hand_problem(), orders=[range(6)] * 9, eps=eps, shrink=shrink)
        return info["passes"], info["rows_visited"]

    # pass 3 is within eps on the active rows, so pass 4 sees all rows and ends it
    assert visit(0.1) == (4, 6 + 6 + 4 + 6)
    # a range of exactly eps counts: pass 2 (rows 1 and 3 out), then pass 3 on all
    assert visit(0.25) == (3, 6 + 6 + 6)
    # pass 1 has a range of 1.75, and all rows active
    assert visit(1.75) == (1, 6)
    # without shrinking there is nothing to reactivate
    assert visit(0.1, shrink=False) == (3, 6 + 6 + 6)


def test_cd_squared_hinge_by_hand():
    # C = 1/4: D = 2; Q = 6; alpha = 1/2: G = -1 * 2 * 0.5 - 1 + 1 = -1
    w, alpha, info = ref.dual_cd_visit(np.array([[2.0]]), [-1], [0.5], [0.5], np.array([0.25]), "squared-hinge", [[0]])
    assert alpha[0] == pytest.approx(0.5 + 1 / 6)
    assert w[0] == pytest.approx(0.5 - 2 / 6)
    assert info["loss_sum"] == 0.25 * 4
    assert (info["pg_min"], info["pg_max"]) == (-1, -1)


def test_cd_follows_the_order():
    X, y = random_problem(2)
    C, zero = ref.c_rows(y, 1.0), np.zeros(X.shape[1])
    forward, backward = np.arange(len(y)), np.arange(len(y))[::-1]
    results = [ref.dual_cd_visit(X, y, zero, np.zeros(len(y)), C, "hinge", [order])[0] for order in (forward, backward)]
    assert not np.allclose(*results)
    mirrored = ref.dual_cd_visit(X[::-1], y[::-1], zero, np.zeros(len(y)), C[::-1], "hinge", [forward])
    np.testing.assert_array_equal(mirrored[0], results[1])
    w, _, info = ref.dual_cd_visit(X, y, zero, np.zeros(len(y)), C, "hinge", [])
    np.testing.assert_array_equal(w, zero)
    assert (info["passes"], info["rows_visited"], info["loss_sum"]) == (0, 0, 0)
    with pytest.raises(ValueError, match="permutation"):
        ref.dual_cd_visit(X, y, zero, np.zeros(len(y)), C, "hinge", [forward[1:]])


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_of_weight_zero_are_no_rows(loss):
    X, y = random_problem(4)
    weight = np.ones(len(y))
    weight[::3] = 0
    C = ref.c_rows(y, 1.0, row_weight=weight)
    w, alpha, info = solve(X, y, C, loss)
    assert info["passes"] < 3000
    assert not alpha[::3].any()
    kept = weight > 0
    w_kept, alpha_kept, P, _ = ref.exact_optimum(X[kept], y[kept], C[kept], loss)
    np.testing.assert_allclose(w, w_kept, atol=1e-7)
    assert ref.primal(X, y, w, C, loss) == pytest.approx(P, rel=1e-9)
    assert ref.exact_optimum(X, y, C, loss)[2] == pytest.approx(P, rel=1e-9)


# --- Pegasos -----------------------------------------------------------------


def test_pegasos_by_hand():
    X, y = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1, -1])
    batches = [[0], [0, 1], [0, 1]]
    # t = 1, eta 2: w = 2 (1, 0).  t = 2, eta 1: margins 2 and 0,
    # w = (1, 0) + 1/2 (0, -2).  t = 3, eta 2/3: margins 1 (not below 1) and 2.
    start = np.array([0.5, 9.0])
    iterates = ref.pegasos_visit_iterates(X, y, start, 1, 0.5, batches)
    np.testing.assert_allclose(iterates, [[2, 0], [1, -1], [2 / 3, -2 / 3]])
    w, t, loss_sum = ref.pegasos_pass(X, y, start, 1, 0.5, batches)
    np.testing.assert_array_equal(w, iterates[-1])
    assert (t, loss_sum) == (4, 0.5 + (0 + 1) + 0)
    # two calls are one, if t goes on
    w, t, _ = ref.pegasos_pass(X, y, start, 1, 0.5, batches[:1])
    w, t, _ = ref.pegasos_pass(X, y, w, t, 0.5, batches[1:])
    np.testing.assert_array_equal(w, iterates[-1])
    # weights multiply a row's term of the step and of the loss
    w, t, loss_sum = ref.pegasos_pass(X, y, start, 1, 0.5, batches[:2], [3, 0.5])
    np.testing.assert_allclose(w, [3, -0.5])
    assert loss_sum == 3 * 0.5 + 0.5
    # a radius of 1 halves the first iterate
    iterates = ref.pegasos_visit_iterates(X, y, start, 1, 0.5, batches[:1], None, 1.0)
    np.testing.assert_allclose(iterates, [[1, 0]])
    np.testing.assert_array_equal(start, [0.5, 9.0])
    with pytest.raises(ValueError, match="batch"):
        ref.pegasos_pass(X, y, start, 1, 0.5, [[]])


def test_suffix_average():
    iterates = [np.array([8.0, 0.0]), np.array([1.0, 2.0]), np.array([3.0, 6.0])]
    np.testing.assert_array_equal(ref.suffix_average(iterates, 1), [2, 4])
    np.testing.assert_array_equal(ref.suffix_average(iterates, 2), [3, 6])
    for start in (-1, 3):
        with pytest.raises(ValueError, match="average"):
            ref.suffix_average(iterates, start)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("class_weight", [None, {+1: 3.0, -1: 0.5}])
def test_pegasos_approaches_the_optimum_within_its_bound(class_weight, size):
    X, y = random_problem(6)
    n, d = X.shape
    C = ref.c_rows(y, 0.2, class_weight)
    total = C.sum()
    lam, radius, weight = 1 / total, np.sqrt(total), n * C / total
    w_best, _, P_best, _ = ref.exact_optimum(X, y, C, "hinge")
    assert np.linalg.norm(w_best) <= radius

    rng = np.random.default_rng(6)
    rounds = 12_000 // size
    batches = [rng.choice(n, size, replace=False) for _ in range(rounds)]
    args = (X, y, np.zeros(d), 1, lam, batches, weight, radius)
    iterates = ref.pegasos_visit_iterates(*args)
    norms = np.linalg.norm(iterates, axis=1)
    assert norms.max() <= radius * (1 + 1e-12)
    assert np.isclose(norms, radius).any()  # the projection was at work

    def excess(w):
        return ref.primal(X, y, w, C, "hinge") / P_best - 1

    average = ref.suffix_average(iterates, len(iterates) // 2)
    early = ref.suffix_average(iterates[:20], 10)
    assert -1e-10 <= excess(average) <= 0.005
    assert excess(early) > 4 * excess(average)

    # Pegasos 2011, Theorem 1 with projection; a row's weight scales its gradient
    R = (weight * np.linalg.norm(X, axis=1)).max()
    c = (np.sqrt(lam) + R) ** 2
    before = [np.zeros(d), *iterates[:-1]]

    def objective(w, batch):
        hinge = ref.loss(y[batch] * (X[batch] @ w), "hinge")
        return lam / 2 * (w @ w) + np.mean(weight[batch] * hinge)

    regret = np.mean([objective(w, batch) - objective(w_best, batch) for w, batch in zip(before, batches, strict=True)])
    assert regret <= c * (1 + np.log(rounds)) / (2 * lam * rounds)
    w, t, loss_sum = ref.pegasos_pass(*args)
    np.testing.assert_array_equal(w, iterates[-1])
    assert t == rounds + 1
    hinges = [weight[b] @ ref.loss(y[b] * (X[b] @ w), "hinge") for w, b in zip(before, batches, strict=True)]
    assert loss_sum == pytest.approx(np.sum(hinges))

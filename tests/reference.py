"""Slow, obvious reference implementations that the fast code is judged by.

Everything here is written from the published formulas with numpy, scipy and plain
Python loops, and imports nothing of the package under test.

Conventions
-----------
``X``       n rows by d columns, scipy sparse or dense; read as float64.
``y``       n labels, each -1 or +1.
``w``       d weights, float64.
``alpha``   n dual variables, float64.
``C_rows``  n penalties C_i >= 0, float64: C times class weight times row weight.
``loss``    ``"hinge"`` or ``"squared-hinge"``, a function of the margin y <w, x>.

Arguments are never written to; results are new arrays.

Sources
-------
Hsieh 2008      Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent
                method for large-scale linear SVM, ICML 2008.
Fan 2008        Fan, Chang, Hsieh, Wang, Lin: LIBLINEAR: a library for large linear
                classification, JMLR 9, 2008.
Pegasos 2011    Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos: primal estimated
                sub-gradient solver for SVM, Mathematical Programming 127, 2011.
Yu 2012         Yu, Hsieh, Chang, Lin: Large linear classification when data cannot
                fit in memory, TKDD 5(4), 2012 (first at KDD 2010).
Joachims 1999   Joachims: Making large-scale SVM learning practical (SVMlight, whose
                text format is parsed here).
Rakhlin 2012    Rakhlin, Shamir, Sridharan: Making gradient descent optimal for
                strongly convex stochastic optimization, ICML 2012.
Nocedal 2006    Nocedal, Wright: Numerical Optimization, 2nd edition, chapter 16.
"""

import re

import numpy as np
import scipy.optimize
import scipy.sparse

LOSSES = ("hinge", "squared-hinge")

MAX_ID = 2**63 - 1


# ---------------------------------------------------------------------------
# Text
# ---------------------------------------------------------------------------

_DECIMAL = re.compile(rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(rb"[+-]?(nan(\([0-9a-z_]*\))?|inf|infinity)", re.IGNORECASE)
_DIGITS = re.compile(rb"[0-9]+")


class BadLine(ValueError):
    """A line that cannot be read: its number, counted from 1, and the reason."""

    def __init__(self, line, why):
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


def _number(token, line, what):
    """A finite decimal number as float64; ``what`` names it in the complaint."""
    if _NOT_FINITE.fullmatch(token):
        raise BadLine(line, f"{what} is not finite")
    if not _DECIMAL.fullmatch(token):
        raise BadLine(line, f"malformed {what}")
    number = float(token)
    if number in (float("inf"), float("-inf")):
        raise BadLine(line, f"{what} overflows")
    return number


def _feature_id(token, line):
    """A feature id: decimal digits, from 0 to 2**63 - 1."""
    if token.startswith(b"-") and _DIGITS.fullmatch(token[1:]):
        raise BadLine(line, "negative id")
    token = token.removeprefix(b"+")
    if not _DIGITS.fullmatch(token):
        raise BadLine(line, "malformed id")
    digits = token.lstrip(b"0") or b"0"
    if len(digits) > 19 or int(digits) > MAX_ID:
        raise BadLine(line, "id overflows")
    return int(digits)


def _cast(value, dtype, line):
    """``value`` rounded to ``dtype``, which must be able to hold it."""
    with np.errstate(all="ignore"):
        rounded = dtype.type(value)
    if not np.isfinite(rounded):
        raise BadLine(line, "value overflows")
    return rounded


def parse_svmlight(data, duplicates="error", dtype=np.float64):
    """Rows of SVMlight / LIBSVM text: ``label [qid:N] id:value ... [# comment]``.

    Returns one ``(label, ids, values)`` for each row: ids ascending, values as
    Python floats that ``dtype`` holds exactly. Source of the format: Joachims 1999.

    - A line ends at LF; one CR before it (or at the end of the data) is dropped.
    - From ``#`` to the end of the line is a comment. Lines with nothing else, and
      blank lines, are no rows, but they count in the line numbers.
    - A label ``?`` says that the row has none: nan.
    - Tokens are separated by spaces and tabs, which may also follow the colon of
      an id; an id may have a plus before it. ``qid:N``, N decimal digits, is
      skipped wherever it stands after the label.
    - Numbers are plain decimals: no hexadecimal, no underscores, no nan, no inf.
      The label is float64 whatever ``dtype`` is; a whole number of more than 2^53
      that float64 does not hold is an error. A value is read as float64, then
      rounded to ``dtype``; one too large for it is an error, one too small is zero.
    - An id that comes twice is an error, or, with ``duplicates="sum"``, its values
      (already rounded) are added in ``dtype`` in the order in which they stand.
    - Zeros are dropped at the very end, so ``3:0 3:1`` is still a duplicate and
      ``3:1 3:-1`` is summed to nothing. A row without entries remains a row.
    """
    if duplicates not in ("error", "sum"):
        raise ValueError(f"duplicates is 'error' or 'sum', not {duplicates!r}")
    dtype = np.dtype(dtype)
    rows = []
    for line, text in enumerate(data.split(b"\n"), start=1):
        if text.endswith(b"\r"):
            text = text[:-1]
        text = re.sub(rb"([ \t]\+?[0-9]+:)[ \t]+", rb"\1", text.split(b"#", 1)[0])
        tokens = [token for token in text.replace(b"\t", b" ").split(b" ") if token]
        if not tokens:
            continue
        if b":" in tokens[0]:
            raise BadLine(line, "missing label")
        label = float("nan") if tokens[0] == b"?" else _number(tokens[0], line, "label")
        if re.fullmatch(rb"[+-]?[0-9]+", tokens[0]) and int(label) != int(tokens[0]):
            raise BadLine(line, "the label would merge with others")
        entries = {}
        for token in tokens[1:]:
            name, colon, number = token.partition(b":")
            if not colon:
                raise BadLine(line, "malformed pair")
            if name == b"qid":
                if not _DIGITS.fullmatch(number):
                    raise BadLine(line, "malformed qid")
                continue
            feature = _feature_id(name, line)
            value = _cast(_number(number, line, "value"), dtype, line)
            if feature in entries:
                if duplicates == "error":
                    raise BadLine(line, "duplicate id")
                with np.errstate(all="ignore"):
                    value = entries[feature] + value
                value = _cast(value, dtype, line)
            entries[feature] = value
        ids = sorted(feature for feature in entries if entries[feature] != 0)
        rows.append((label, ids, [float(entries[feature]) for feature in ids]))
    return rows


# ---------------------------------------------------------------------------
# The two problems
# ---------------------------------------------------------------------------


def _check_loss(name):
    if name not in LOSSES:
        raise ValueError(f"unknown loss {name!r}")


def _float64_csr(X):
    """A float64 CSR copy of ``X`` without repeated entries (stored zeros stay)."""
    X = scipy.sparse.csr_matrix(X, dtype=np.float64, copy=True)
    X.sum_duplicates()
    return X


def with_bias(X, B):
    """``X`` with one more column, the constant B: a regularised bias.

    <(w, b), (x, B)> = <w, x> + b B, and b is penalised like the weights (Hsieh
    2008, section 1; Fan 2008, section 2). Sparse in, CSR out; dense in, dense out.
    """
    column = np.full((X.shape[0], 1), float(B))
    if scipy.sparse.issparse(X):
        return scipy.sparse.csr_matrix(scipy.sparse.hstack([X, column]))
    return np.hstack([np.asarray(X, dtype=np.float64), column])


def c_rows(y, C, class_weight=None, row_weight=None):
    """C_i = C * weight of the class of row i * weight of row i.

    ``class_weight`` is None, a dict with keys +1 and -1 (one that is absent weighs
    1), or ``"balanced"``: n / (2 * number of rows of the class), as scikit-learn
    has it (King, Zeng: Logistic regression in rare events data, 2001).
    """
    y = np.asarray(y)
    per_row = np.full(len(y), float(C))
    for label in (+1, -1):
        of_class = y == label
        if class_weight is None:
            weight = 1.0
        elif isinstance(class_weight, str):
            if class_weight != "balanced":
                raise ValueError(f"unknown class_weight {class_weight!r}")
            weight = len(y) / (2 * of_class.sum()) if of_class.any() else 1.0
        else:
            weight = class_weight.get(label, 1.0)
        per_row[of_class] *= weight
    if row_weight is not None:
        per_row *= np.asarray(row_weight, dtype=np.float64)
    return per_row


def loss(margin, name):
    """hinge: max(0, 1 - m); squared hinge: max(0, 1 - m)^2 (Hsieh 2008, section 1)."""
    _check_loss(name)
    hinge = np.maximum(0.0, 1.0 - np.asarray(margin, dtype=np.float64))
    return hinge if name == "hinge" else hinge**2


_loss_of = loss  # several functions have a parameter named ``loss``


def box(name, C_rows):
    """Upper bound U_i of alpha_i and diagonal D_ii (Hsieh 2008, section 1).

    hinge: U = C, D = 0; squared hinge: U = infinity, D = 1/(2C). A row with C = 0
    is no part of the problem: U = 0 and D = 0 under either loss.
    """
    _check_loss(name)
    C_rows = np.asarray(C_rows, dtype=np.float64)
    if name == "hinge":
        return C_rows.copy(), np.zeros(len(C_rows))
    counts = C_rows > 0
    upper = np.where(counts, np.inf, 0.0)
    diagonal = np.zeros(len(C_rows))
    diagonal[counts] = 1.0 / (2.0 * C_rows[counts])
    return upper, diagonal


def margins(X, y, w):
    """m_i = y_i <w, x_i>."""
    return np.asarray(y, dtype=np.float64) * (_float64_csr(X) @ np.asarray(w))


def predict(X, w):
    """+1 where <w, x> > 0, else -1: a score of exactly 0 is the negative class."""
    return np.where(_float64_csr(X) @ np.asarray(w) > 0, 1, -1)


def largest_contributions(row, w, n):
    """The n terms (j, w_j x_j) of <w, x> that are largest in magnitude, those of 0 left out; row: [(j, x_j)]."""
    terms = [(j, w[j] * x) for j, x in row if w[j] * x != 0.0]
    return sorted(terms, key=lambda term: -abs(term[1]))[:n]  # of equals the first one first


def weights_of(X, y, alpha):
    """w(alpha) = sum_i alpha_i y_i x_i (Hsieh 2008, section 2)."""
    return _float64_csr(X).T @ (np.asarray(alpha) * np.asarray(y))


def primal(X, y, w, C_rows, loss):
    """P(w) = 1/2 ||w||^2 + sum_i C_i loss(y_i <w, x_i>) (Hsieh 2008, section 1)."""
    w = np.asarray(w, dtype=np.float64)
    return float(0.5 * (w @ w) + C_rows @ _loss_of(margins(X, y, w), loss))


def dual(X, y, alpha, C_rows, loss):
    """D(alpha) = sum alpha - 1/2 ||w(alpha)||^2 - 1/2 sum D_ii alpha_i^2.

    To be maximised over 0 <= alpha_i <= U_i: the negative of the dual in Hsieh 2008,
    section 1. The last term is sum alpha_i^2 / (4 C_i) under squared hinge. An
    alpha outside of the box bounds nothing and is refused.
    """
    alpha = np.asarray(alpha, dtype=np.float64)
    upper, diagonal = box(loss, C_rows)
    if not (np.all(alpha >= 0) and np.all(alpha <= upper)):
        raise ValueError("alpha is outside of its box")
    w = weights_of(X, y, alpha)
    return float(alpha.sum() - 0.5 * (w @ w) - 0.5 * (diagonal @ alpha**2))


def relative_gap(P, D):
    """(P - D) / |P|; the absolute gap P - D where P is 0."""
    return (P - D) / abs(P) if P != 0 else P - D


def dual_cd_visit(X, y, w, alpha, C_rows, loss, orders, eps=None, shrink=True):
    """Visit one block: coordinate descent on its rows, all else fixed in w.

    Hsieh 2008, Algorithm 3, on the rows of a block as in Yu 2012, Algorithm 1 with
    the dual solver: w is the weight vector of the whole model, not only of these
    rows, and alpha_i changes by a step along its coordinate,

        G = y_i <w, x_i> - 1 + D_ii alpha_i,    Q_ii = ||x_i||^2 + D_ii,
        alpha_i <- min(max(alpha_i - G / Q_ii, 0), U_i),
        w <- w + (change of alpha_i) y_i x_i,

    where |PG| > 1e-12. A row with ||x_i||^2 = 0 goes the same way, but takes its
    optimum in closed form: alpha = C under hinge, 2C under squared hinge.

    ``orders`` holds one permutation of range(n) for each pass; inactive rows are
    skipped. With ``shrink``, as in Algorithm 3 and LIBLINEAR, a row that is active
    becomes inactive for the rest of the visit, before its step and without
    entering the extremes, if alpha = 0 and G > old max, or alpha = U and
    G < old min. The old extremes are those of PG in the pass before, where a max
    that is not positive counts as +infinity and a min that is not negative as
    -infinity; in the first pass both are infinite, so that all rows are seen.

    With ``eps``, a pass with max - min <= eps ends the visit if all rows are
    active; otherwise all become active, and the old extremes infinite, again.

    Returns w, alpha and a dict:

    ``passes``        passes made (one in which all rows were inactive counts)
    ``rows_visited``  gradients computed, those that led to deactivation included
    ``nnz_visited``   stored entries in the rows of these gradients
    ``loss_sum``      sum over the first pass of C_i loss(margin before i's step)
    ``pg_max``        extremes of PG in the last pass, -inf and +inf if no row
    ``pg_min``        entered them
    """
    X = _float64_csr(X)
    n = X.shape[0]
    w = np.array(w, dtype=np.float64)
    alpha = np.array(alpha, dtype=np.float64)
    upper, diagonal = box(loss, C_rows)
    infinity = float("inf")

    active = [True] * n
    pg_max_old, pg_min_old = infinity, -infinity
    pg_max, pg_min = -infinity, infinity
    passes = rows_visited = nnz_visited = 0
    loss_sum = 0.0

    for order in orders:
        if sorted(order) != list(range(n)):
            raise ValueError("an order is a permutation of all rows")
        pg_max, pg_min = -infinity, infinity
        for i in order:
            if not active[i]:
                continue
            ids = X.indices[X.indptr[i] : X.indptr[i + 1]]
            values = X.data[X.indptr[i] : X.indptr[i + 1]]
            a, U, D = float(alpha[i]), float(upper[i]), float(diagonal[i])

            margin = float(y[i]) * float(values @ w[ids])
            G = margin - 1.0 + D * a
            rows_visited += 1
            nnz_visited += len(ids)
            if passes == 0:
                loss_sum += float(C_rows[i]) * float(_loss_of(margin, loss))

            if shrink and ((a == 0 and G > pg_max_old) or (a == U and G < pg_min_old)):
                active[i] = False
                continue

            PG = G
            if a == 0:
                PG = min(PG, 0.0)
            if a == U:
                PG = max(PG, 0.0)
            pg_max = max(pg_max, PG)
            pg_min = min(pg_min, PG)

            if abs(PG) > 1e-12:
                squared_norm = float(values @ values)
                if squared_norm == 0:
                    a_new = U if loss == "hinge" else 2.0 * float(C_rows[i])
                else:
                    a_new = min(max(a - G / (squared_norm + D), 0.0), U)
                alpha[i] = a_new
                w[ids] += (a_new - a) * float(y[i]) * values
        passes += 1

        if eps is not None and pg_max - pg_min <= eps:
            if all(active):
                break
            active = [True] * n
            pg_max_old, pg_min_old = infinity, -infinity
            continue
        pg_max_old = pg_max if pg_max > 0 else infinity
        pg_min_old = pg_min if pg_min < 0 else -infinity

    info = {
        "passes": passes,
        "rows_visited": rows_visited,
        "nnz_visited": nnz_visited,
        "loss_sum": loss_sum,
        "pg_max": pg_max,
        "pg_min": pg_min,
    }
    return w, alpha, info


# ---------------------------------------------------------------------------
# Pegasos
# ---------------------------------------------------------------------------


def _pegasos_step(X, y, w, t, lam, batch, row_weight, radius):
    """One step of Pegasos; the new w, and the weighted hinge loss of the old one."""
    batch = np.asarray(batch)
    if len(batch) == 0:
        raise ValueError("a batch has at least one row")
    descent = np.zeros(len(w))
    loss_sum = 0.0
    for i in batch:
        ids = X.indices[X.indptr[i] : X.indptr[i + 1]]
        values = X.data[X.indptr[i] : X.indptr[i + 1]]
        weight = 1.0 if row_weight is None else float(row_weight[i])
        margin = float(y[i]) * float(values @ w[ids])
        loss_sum += weight * max(0.0, 1.0 - margin)
        if margin < 1:
            descent[ids] += weight * float(y[i]) * values
    # 1 - eta lambda with eta = 1 / (lambda t), exactly 0 at t = 1
    w = (1.0 - 1.0 / t) * w + (1.0 / (lam * t)) / len(batch) * descent
    norm = float(np.sqrt(w @ w))
    if radius is not None and norm > radius:
        w = (radius / norm) * w
    return w, loss_sum


def pegasos_visit_iterates(X, y, w, t, lam, batches, row_weight=None, radius=None):
    """The w after each step of ``pegasos_pass``, in order, one for each batch."""
    X = _float64_csr(X)
    w = np.array(w, dtype=np.float64)
    iterates = []
    for step, batch in enumerate(batches):
        w, _ = _pegasos_step(X, y, w, t + step, lam, batch, row_weight, radius)
        iterates.append(w)
    return iterates


def pegasos_pass(X, y, w, t, lam, batches, row_weight=None, radius=None):
    """Mini-batch Pegasos on hinge (Pegasos 2011, Figure 2), one step for each batch.

        A+ = rows of A with y <w, x> < 1,    eta = 1 / (lambda t),
        w <- (1 - eta lambda) w + (eta / |A|) sum over A+ of r_i y_i x_i,
        w <- min(1, radius / ||w||) w   if a radius is given,    t <- t + 1.

    It minimises lambda/2 ||w||^2 + (1/l) sum_i r_i hinge_i, which is P(w) / sum C
    with lambda = 1 / sum C and ``row_weight`` r_i = l C_i / sum C; the radius that
    holds the optimum is then sqrt(sum C). Without weights r_i = 1, lambda =
    1/(C l), and the radius is 1 / sqrt(lambda).

    ``batches`` are arrays of row numbers of X; a row that stands twice in a batch
    counts twice. ``t`` numbers the first step and is 1 at the very first; the t
    returned numbers the step that comes next. Returns w, t and the sum, over all
    rows of all batches, of r_i max(0, 1 - margin before the step of its batch).
    """
    X = _float64_csr(X)
    w = np.array(w, dtype=np.float64)
    loss_sum = 0.0
    for batch in batches:
        w, batch_loss = _pegasos_step(X, y, w, t, lam, batch, row_weight, radius)
        loss_sum += batch_loss
        t += 1
    return w, t, loss_sum


PEGASOS_SLOPES = {
    "hinge": lambda z, y, r: -r * y if y * z < 1 else 0.0,
    "squared-hinge": lambda z, y, r: -2.0 * r * y * max(0.0, 1.0 - y * z),
    "logistic": lambda z, y, r: -r * y / (1.0 + np.exp(y * z)),
    "epsilon-insensitive": lambda z, y, r: 0.0 if abs(z - y) <= 0.1 else r * np.sign(z - y),
    "squared-epsilon-insensitive": lambda z, y, r: 2.0 * r * np.sign(z - y) * max(0.0, abs(z - y) - 0.1),
}


def pegasos_of_any_loss(X, y, lam, batches, loss, row_weight, radius):
    """Pegasos from w = 0 by a loss's derivative (epsilon 0.1): after each step (w, a), where w = sum a_i x_i and,
    without a radius, lambda t a_i is minus the sum of the derivatives met.  A squared loss's step along a row is at
    most 1 / (2 r ||x||^2)."""
    X = _float64_csr(X).toarray()
    n, d = X.shape
    w, a, found = np.zeros(d), np.zeros(n), []
    for t, batch in enumerate(batches, 1):
        eta = 1.0 / (lam * t)
        moves = np.zeros(n)
        for i in batch:
            r = float(row_weight[i])
            if r == 0.0:
                continue
            length = eta
            if loss.startswith("squared") and X[i] @ X[i] > 0:
                length = min(eta, 1.0 / (2.0 * r * (X[i] @ X[i])))
            moves[i] -= length / len(batch) * PEGASOS_SLOPES[loss](float(X[i] @ w), float(y[i]), r)
        w = (1.0 - 1.0 / t) * w + moves @ X
        a = (1.0 - 1.0 / t) * a + moves
        norm = float(np.sqrt(w @ w))
        if radius is not None and norm > radius:
            w, a = radius / norm * w, radius / norm * a
        found.append((w, a))
    return found


def suffix_average(list_of_w, start):
    """Mean of the iterates from number ``start`` (counted from 0) to the last.

    Rakhlin 2012: alpha-suffix averaging.
    """
    if not 0 <= start < len(list_of_w):
        raise ValueError("no iterates to average")
    total = np.zeros(len(list_of_w[0]))
    for w in list_of_w[start:]:
        total += w
    return total / (len(list_of_w) - start)


# ---------------------------------------------------------------------------
# The optimum by another route
# ---------------------------------------------------------------------------


def exact_optimum(X, y, C_rows, loss, tol=1e-10):
    """Optimum of a small problem: w, alpha, P(w) and D(alpha).

    Shares no step with coordinate descent. The dual in its minimisation form,
    1/2 a' (Z Z' + diag D) a - sum a on the box, with Z_i = y_i x_i, is a dense
    convex quadratic program: L-BFGS-B comes near, then the primal active-set method
    (Nocedal 2006, Algorithm 16.3, for bounds) ends on the optimal face. The free
    variables are moved to their joint minimum by an eigendecomposition (their
    matrix is singular where rows repeat, or are more than the columns; along a
    direction without curvature the move goes on to a bound); a variable that
    meets its bound is fixed; when nothing moves, the fixed variable with the worst
    multiplier is freed. Fails loudly if the gap that is left exceeds ``tol``.
    """
    dense = _float64_csr(X).toarray()
    Z = np.asarray(y, dtype=np.float64)[:, None] * dense
    upper, diagonal = box(loss, C_rows)
    n = len(upper)
    Q = Z @ Z.T + np.diag(diagonal)
    limit = 1e-11 * (1.0 + np.abs(Q).max(initial=0.0))

    if n:
        near = scipy.optimize.minimize(
            lambda a: (0.5 * a @ Q @ a - a.sum(), Q @ a - 1.0),
            np.zeros(n),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None if U == np.inf else U) for U in upper],
            options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-10},
        )
        alpha = np.clip(near.x, 0.0, upper)
    else:
        alpha = np.zeros(0)
    free = (alpha > 1e-8) & (alpha < upper - 1e-8)
    alpha[~free & (alpha <= 1e-8)] = 0.0
    at_top = ~free & (alpha > 0)
    alpha[at_top] = upper[at_top]

    for _ in range(200 * n + 200):
        gradient = Q @ alpha - 1.0
        step = np.zeros(n)
        length = 1.0
        if free.any():
            curvatures, axes = np.linalg.eigh(Q[np.ix_(free, free)])
            flat = curvatures <= 1e-12 * max(1.0, curvatures.max())
            downhill = axes.T @ -gradient[free]
            if np.linalg.norm(downhill[flat]) > limit:
                step[free] = axes[:, flat] @ downhill[flat]
                length = np.inf
            else:
                curved = axes[:, ~flat]
                step[free] = curved @ (downhill[~flat] / curvatures[~flat])
        if np.abs(step).max(initial=0.0) > 1e-14 * (1.0 + np.abs(alpha).max(initial=0)):
            blocking = -1
            for i in np.flatnonzero(free):
                if step[i] == 0:
                    continue
                room = (upper[i] - alpha[i]) if step[i] > 0 else alpha[i]
                if room / abs(step[i]) < length:
                    length, blocking = room / abs(step[i]), i
            if length == np.inf:
                raise RuntimeError("the dual is unbounded")
            alpha = np.clip(alpha + length * step, 0.0, upper)
            if blocking >= 0:
                alpha[blocking] = upper[blocking] if step[blocking] > 0 else 0.0
                free[blocking] = False
                continue
        # The free variables are at their joint minimum: is any bound in the way?
        gradient = Q @ alpha - 1.0
        wrong = np.where(alpha == 0, -gradient, gradient)
        wrong[free | (upper == 0)] = -np.inf
        worst = int(np.argmax(wrong)) if n else -1
        if worst < 0 or wrong[worst] <= limit:
            break
        free[worst] = True

    w = Z.T @ alpha
    P = primal(X, y, w, np.asarray(C_rows, dtype=np.float64), loss)
    D = dual(X, y, alpha, C_rows, loss)
    if not relative_gap(P, D) <= tol:
        raise RuntimeError(f"no optimum found: relative gap {relative_gap(P, D)}")
    return w, alpha, P, D


def dual_cd_with_rest(X, y, C_rows, loss, outer_orders, beyond=0.2, visits=3, begin=3, with_set=False, least=1):
    """Outer iterations, each of passes over all rows in the orders given, where a row at a bound whose gradient lies
    more than ``beyond`` beyond it is left out of its next ``visits`` outer iterations, from the ``begin``-th (counted
    from 0) on.

    with_set: rests last 3, 9, 21, ... at most ``visits`` of them, 3 again after a visit in which the row was near its
    bound or between its bounds.  A pass over the n rows awake is cut into batches of ceil(n / 16) rows, or of ``least``
    where that is more.  A screened batch is looked at with one w, at which losses and rests are noted; then the rows
    whose projected gradient was above 1e-12 are stepped in their order, each with its gradient at the w of its turn.
    Another batch is looked at and stepped row by row.  The first batch of a pass is screened but in the first outer
    iteration, each further one where at most half of the rows of the batch before had such a gradient.

    Returns (w, alpha, visits to rows in each outer iteration, estimates: the losses seen in it, those of rows at rest
    as they were when they were put to it).  The step is that of Hsieh et al., ICML 2008, Alg. 3; the rest is a
    heuristic, so this is its definition.
    """
    X = np.asarray(X.todense() if hasattr(X, "todense") else X, dtype=float)
    U, D = box(loss, C_rows)
    w, alpha = np.zeros(X.shape[1]), np.zeros(len(y))
    sleeps, length = np.zeros(len(y), int), np.zeros(len(y), int)
    last_loss = np.zeros(len(y))
    visited, estimates = [], []

    def gradients(i):
        gradient = y[i] * (X[i] @ w) - 1.0 + D[i] * alpha[i]
        at_zero, at_bound = alpha[i] == 0.0, alpha[i] == U[i]
        return gradient, min(gradient, 0.0) if at_zero else max(gradient, 0.0) if at_bound else gradient

    def step(i):
        gradient, projected = gradients(i)
        if abs(projected) > 1e-12:
            q = X[i] @ X[i] + D[i]
            new = min(max(alpha[i] - gradient / q, 0.0), U[i]) if q > 0 else U[i]
            w[:] += (new - alpha[i]) * y[i] * X[i]
            alpha[i] = new

    for outer, orders in enumerate(outer_orders):
        asleep = sleeps > 0
        seen = float(last_loss[asleep].sum())
        sleeps[asleep] -= 1
        count = 0
        put_to_rest = np.zeros(len(y), bool)
        for order in orders:
            rows = [i for i in order if not asleep[i]]
            each = max(least, -(-len(rows) // 16) if with_set else len(rows))
            screening = with_set and outer > 0
            for start in range(0, len(rows), each):
                moving = []
                for i in rows[start : start + each]:
                    count += 1
                    gradient, projected = gradients(i)
                    suffered = C_rows[i] * max(0.0, 1.0 - y[i] * (X[i] @ w)) ** (1 if loss == "hinge" else 2)
                    seen += suffered
                    if put_to_rest[i]:
                        pass
                    elif outer >= begin and projected == 0.0 and abs(gradient) > beyond:
                        length[i] = min(2 * length[i] + 3, visits) if with_set else visits
                        sleeps[i] = length[i]
                        last_loss[i] = suffered
                        put_to_rest[i] = True
                    elif outer >= begin:
                        length[i] = 0
                    if abs(projected) > 1e-12:
                        moving.append(i)
                        if not screening:
                            step(i)
                for i in moving if screening else ():
                    step(i)
                screening = with_set and 2 * len(moving) <= len(rows[start : start + each])
        visited.append(count)
        estimates.append(seen)
    return w, alpha, visited, estimates


def regression_primal(X, y, w, C, epsilon, squared, prior=0.0):
    """1/2 ||w - w0||^2 + sum C_i max(0, |x_i w - y_i| - epsilon), or its square; X dense, C a number or (n,)."""
    beyond = np.maximum(0.0, np.abs(X @ w - y) - epsilon)
    return 0.5 * np.sum((w - prior) ** 2) + np.sum(C * (beyond**2 if squared else beyond))


def regression_dual(X, y, beta, C, epsilon, squared, prior=None):
    """Equation 7 of the paper, with w0 beside sum beta_i x_i; -inf where beta is not feasible."""
    u = X.T @ beta
    if not squared and np.any(np.abs(beta) > C):
        return -np.inf
    value = y @ beta - epsilon * np.abs(beta).sum() - 0.5 * u @ u
    if squared:
        held = np.asarray(C * np.ones(len(beta)))
        value -= np.sum(beta[held > 0] ** 2 / (4.0 * held[held > 0]))
    return value - (0.0 if prior is None else prior @ u)


def regression_pass(X, y, beta, w, order, C, epsilon, squared):
    """Algorithm 4 of the paper over the rows in ``order``, in place: G, H, the step d, the bounds."""
    for i in order:
        c = C if np.isscalar(C) else C[i]
        if c == 0.0:
            continue
        diagonal, bound = (1.0 / (2.0 * c), np.inf) if squared else (0.0, c)
        H = X[i] @ X[i] + diagonal
        G = X[i] @ w - y[i] + diagonal * beta[i]
        if H == 0.0:
            new = bound if G + epsilon < 0 else -bound if G - epsilon > 0 else 0.0
        elif G + epsilon < H * beta[i]:
            new = beta[i] - (G + epsilon) / H
        elif G - epsilon > H * beta[i]:
            new = beta[i] - (G - epsilon) / H
        else:
            new = 0.0
        new = min(max(new, -bound), bound)
        w += (new - beta[i]) * X[i]
        beta[i] = new


def crammer_singer_primal(X, y, W, C_rows, prior=0.0):
    """1/2 ||W - W0||^2 + sum_i C_i max_k ([k != y_i] + <w_k - w_y, x_i>); W (k, d); Crammer, Singer, JMLR 2, 2001."""
    X = np.asarray(X, dtype=np.float64)
    total = 0.5 * float(np.sum((W - prior) ** 2))
    for x, label, c in zip(X, y, C_rows, strict=True):
        z = W @ x
        total += c * max(z[k] - z[label] + (k != label) for k in range(len(W)))
    return total


def crammer_singer_dual(X, y, A, prior=None):
    """-1/2 ||U||^2 - sum_{k != y_i} a_ik - <W0, U>, U_k = sum_i a_ik x_i; A (n, k), which must be feasible."""
    X = np.asarray(X, dtype=np.float64)
    U = A.T @ X
    others = sum(float(a.sum() - a[label]) for a, label in zip(A, y, strict=True))
    return -0.5 * float(np.sum(U**2)) - others - (0.0 if prior is None else float(np.sum(prior * U)))


def crammer_singer_pass(X, y, A, W, order, C_rows):
    """One pass of Keerthi et al., KDD 2008: each row's a is set to the best one, found by bisection for theta in
    a_k = min(C_k, (theta - B_k) / ||x||^2), sum_k a_k = 0.  A (n, k) and W (k, d) are updated."""
    X = np.asarray(X, dtype=np.float64)
    k = len(W)
    for i in order:
        if C_rows[i] == 0.0:
            continue
        x, label = X[i], y[i]
        q, bound = float(x @ x), np.where(np.arange(k) == label, C_rows[i], 0.0)
        B = W @ x + (np.arange(k) != label) - q * A[i]
        if q == 0.0:
            new = np.zeros(k)
            new[label], new[1 if label == 0 else 0] = C_rows[i], -C_rows[i]
        else:
            low, high = float(np.min(B)) - q * C_rows[i] - 1.0, float(np.max(B + q * bound)) + 1.0
            for _ in range(200):
                theta = 0.5 * (low + high)
                if np.minimum(bound, (theta - B) / q).sum() > 0.0:
                    high = theta
                else:
                    low = theta
            new = np.minimum(bound, (0.5 * (low + high) - B) / q)
        W += np.outer(new - A[i], x)
        A[i] = new


# ---------------------------------------------------------------------------
# Versions of w
# ---------------------------------------------------------------------------


def brought_near(near, w):
    """near, where its difference from w is at least the root mean square of those that are not 0, as float32 of w."""
    difference = w - near
    least = np.sqrt(np.mean(difference[difference != 0.0] ** 2)) if difference.any() else 0.0
    far = (difference != 0.0) & (np.abs(difference) >= least * (1.0 - 1e-12))
    return np.where(far, w.astype(np.float32).astype(np.float64), near)

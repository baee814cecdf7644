"""Slow, obvious reference implementations from the published formulas; nothing of the package is imported.

X: n rows by d columns, sparse or dense; y: labels of -1 and +1; w: d weights; alpha: n dual variables; C_rows: n
penalties C_i >= 0; loss: hinge or squared-hinge.  Arguments are never written to.  Sources: Hsieh et al., ICML 2008
(dual coordinate descent); Shalev-Shwartz et al., Mathematical Programming 127, 2011 (Pegasos); Yu et al., TKDD 5(4),
2012 (blocks); Joachims 1999 (the text of SVMlight).
"""

import re

import numpy as np
import scipy.sparse
import sklearn.svm
from reference_losses import DERIVATIVES, REFERENCES, dual_of, primal_of

LOSSES = ("hinge", "squared-hinge")
MAX_ID = 2**63 - 1
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
    """(label, ids, values) of each row of ``label [qid:N] id:value ... [# comment]``: ids rise, ``dtype`` holds values.

    A label ``?`` is nan.  Spaces and tabs separate, and may follow the colon of an id.  Numbers are plain decimals; a
    whole label that float64 does not hold and a value too large for ``dtype`` are errors.  An id that comes twice is an
    error or, with ``duplicates="sum"``, its rounded values are added in their order.  Zeros are dropped at the end.
    """
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


def _float64_csr(X):
    """A float64 CSR copy of ``X`` without repeated entries (stored zeros stay)."""
    X = scipy.sparse.csr_matrix(X, dtype=np.float64, copy=True)
    X.sum_duplicates()
    return X


def with_bias(X, B):
    """``X`` with one more column, the constant B: a bias that is penalised like the weights (Hsieh 2008, section 1)."""
    return scipy.sparse.csr_matrix(scipy.sparse.hstack([X, np.full((X.shape[0], 1), float(B))]))


def box(name, C_rows):
    """Bounds U_i of alpha_i and D_ii (Hsieh 2008, section 1): hinge C, 0; squared infinity, 1/(2C); C = 0: 0, 0."""
    C_rows = np.asarray(C_rows, dtype=np.float64)
    if name != "squared-hinge":
        return C_rows.copy(), np.zeros(len(C_rows))
    counts = C_rows > 0
    return np.where(counts, np.inf, 0.0), np.where(counts, 0.5 / np.where(counts, C_rows, 1.0), 0.0)


def predict(X, w):
    """+1 where <w, x> > 0, else -1: a score of exactly 0 is the negative class."""
    return np.where(_float64_csr(X) @ np.asarray(w) > 0, 1, -1)


def weights_of(X, y, alpha):
    """w(alpha) = sum_i alpha_i y_i x_i (Hsieh 2008, section 2)."""
    return _float64_csr(X).T @ (np.asarray(alpha) * np.asarray(y))


def primal(X, y, w, C_rows, loss):
    """P(w) = 1/2 ||w||^2 + sum_i C_i loss(y_i <w, x_i>) (Hsieh 2008, section 1)."""
    return primal_of(loss, X, y, w, C_rows)


def dual(X, y, alpha, C_rows, loss):
    """D(alpha) = sum alpha - 1/2 ||w||^2 - 1/2 sum D_ii alpha_i^2 (Hsieh 2008); alpha must lie in the box."""
    return dual_of(loss, X, y, alpha, C_rows)


def dual_cd_visit(X, y, w, alpha, C_rows, loss, orders, eps=None, shrink=True):
    """Coordinate descent on the rows of one block, all else fixed in w (Hsieh 2008, Algorithm 3; Yu 2012, Algorithm 1):

        G = y_i <w, x_i> - 1 + D_ii alpha_i,    Q_ii = ||x_i||^2 + D_ii,
        alpha_i <- min(max(alpha_i - G / Q_ii, 0), U_i),    w <- w + (change of alpha_i) y_i x_i,

    where |PG| > 1e-12; a row with ||x_i||^2 = 0 takes its optimum, C under hinge, 2C under squared hinge.  ``orders``:
    one permutation a pass.  With ``shrink`` a row rests if alpha = 0 and G > old max, or alpha = U and G < old min (the
    extremes of PG in the pass before, infinite where a max is not positive or a min not negative).  With ``eps`` a pass
    with max - min <= eps ends the visit if all rows are active; otherwise all become active again.

    Returns w, alpha and a dict: ``passes``, ``rows_visited``, ``nnz_visited`` and ``loss_sum`` (of the first pass).
    """
    X = _float64_csr(X)
    w, alpha = np.array(w, dtype=np.float64), np.array(alpha, dtype=np.float64)
    upper, diagonal = box(loss, C_rows)
    infinity = float("inf")

    active = [True] * X.shape[0]
    pg_max_old, pg_min_old = infinity, -infinity
    passes = rows_visited = nnz_visited = 0
    loss_sum = 0.0

    for order in orders:
        pg_max, pg_min = -infinity, infinity
        for i in order:
            if not active[i]:
                continue
            row = slice(X.indptr[i], X.indptr[i + 1])
            ids, values = X.indices[row], X.data[row]
            a, U, D = float(alpha[i]), float(upper[i]), float(diagonal[i])

            margin = float(y[i]) * float(values @ w[ids])
            G = margin - 1.0 + D * a
            rows_visited += 1
            nnz_visited += len(ids)
            if passes == 0:
                loss_sum += float(REFERENCES[loss].value(margin, 1.0, C_rows[i], ()))

            if shrink and ((a == 0 and G > pg_max_old) or (a == U and G < pg_min_old)):
                active[i] = False
                continue

            PG = min(G, 0.0) if a == 0 else G
            PG = max(PG, 0.0) if a == U else PG
            pg_max, pg_min = max(pg_max, PG), min(pg_min, PG)

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
            active = [True] * X.shape[0]
            pg_max_old, pg_min_old = infinity, -infinity
            continue
        pg_max_old = pg_max if pg_max > 0 else infinity
        pg_min_old = pg_min if pg_min < 0 else -infinity

    info = {"passes": passes, "rows_visited": rows_visited, "nnz_visited": nnz_visited, "loss_sum": loss_sum}
    return w, alpha, info


def pegasos_of_any_loss(X, y, lam, batches, loss, row_weight, radius):
    """Pegasos from w = 0 by a loss's derivative (epsilon 0.1): after each step (w, a), where w = sum a_i x_i."""
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
            moves[i] -= length / len(batch) * float(DERIVATIVES[loss](X[i] @ w, y[i], r, (0.1,)))
        w = (1.0 - 1.0 / t) * w + moves @ X
        a = (1.0 - 1.0 / t) * a + moves
        norm = float(np.sqrt(w @ w))
        if radius is not None and norm > radius:
            w, a = radius / norm * w, radius / norm * a
        found.append((w, a))
    return found


def optimum(X, y, C_rows, loss):
    """(w, P(w)) at the optimum, by LIBLINEAR."""
    solver = sklearn.svm.LinearSVC(loss=loss.replace("-", "_"), C=1.0, fit_intercept=False, tol=1e-10,
                                   max_iter=1_000_000, random_state=0)  # fmt: skip
    w = solver.fit(_float64_csr(X), y, sample_weight=C_rows).coef_[0]
    return w, primal(X, y, w, C_rows, loss)


def crammer_singer_primal(X, y, W, C_rows, prior=0.0):
    """1/2 ||W - W0||^2 + sum_i C_i max_k ([k != y_i] + <w_k - w_y, x_i>); W (k, d); Crammer, Singer, JMLR 2, 2001."""
    z, own = np.asarray(X, dtype=np.float64) @ W.T, np.asarray(y)[:, None]
    losses = z - np.take_along_axis(z, own, axis=1) + (np.arange(len(W)) != own)
    return 0.5 * float(np.sum((W - prior) ** 2)) + float(losses.max(axis=1) @ C_rows)


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

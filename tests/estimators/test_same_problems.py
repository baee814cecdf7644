"""docs/coming-from.md: options that are marked by a tick give the weights and the intercept of scikit-learn."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model, svm

import blocksvm

TIGHT = {"tol": 1e-10, "max_iter": 1_000_000}
CASES = [
    (svm.LinearSVC(loss="hinge", C=0.5, **TIGHT), {"loss": "hinge", "bias": 1.0}),
    (svm.LinearSVC(C=0.5, **TIGHT), {"loss": "squared-hinge", "bias": 1.0}),
    (
        svm.LinearSVC(C=0.5, class_weight="balanced", **TIGHT),
        {"loss": "squared-hinge", "bias": 1.0, "class_weight": "balanced"},
    ),
    (linear_model.LogisticRegression(C=0.5, **TIGHT), {"loss": "logistic", "bias": "free"}),
    (svm.LinearSVR(C=0.5, epsilon=0.1, **TIGHT), {"loss": "epsilon-insensitive", "epsilon": 0.1, "bias": 1.0}),
    (linear_model.Ridge(alpha=1.0), {"loss": "squared-epsilon-insensitive", "epsilon": 0.0, "bias": "free"}),
]


@pytest.mark.parametrize(("estimator", "settings"), CASES, ids=lambda case: type(case).__name__)
def test_the_weights_are_the_same(estimator, settings):
    draw = np.random.default_rng(0)
    X = sparse.random(300, 20, density=0.5, format="csr", random_state=0)
    y = X @ draw.normal(size=20) + 0.3 * draw.normal(size=300)
    y = np.where(y > 0.1, 1, -1) if "epsilon" not in settings else y + 3.0
    model = blocksvm.fit(X, y, C=0.5, tol=1e-9, max_outer=5000, **settings).model
    theirs = np.append(estimator.fit(X, y).coef_, estimator.intercept_)
    np.testing.assert_allclose(np.append(model.weights, model.intercept), theirs, atol=1e-3 * np.abs(theirs).max())

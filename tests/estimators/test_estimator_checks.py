"""scikit-learn's own checks of estimators: on some that share kernels, on all if BLOCKSVM_ALL_ESTIMATORS is set."""

from __future__ import annotations

import os

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from blocksvm import estimators

SOME = ("LinearSVC", "LinearSVR", "LogisticClassifier", "PassiveAggressiveClassifier")
CERTIFIED = ("KernelSVC", "LinearSVC", "LinearSVR", "LogisticClassifier")
# scikit-learn declares the same of its own SGDClassifier, SGDRegressor and Perceptron
ONE_STEP = "a row of weight 2 is one larger step, and not two steps"
WEIGHTS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")

names = dir(estimators) if os.environ.get("BLOCKSVM_ALL_ESTIMATORS") else SOME


def expected_failures(estimator) -> dict[str, str]:
    return {} if type(estimator).__name__ in CERTIFIED else dict.fromkeys(WEIGHTS, ONE_STEP)


# some checks have rows that are far from 0, on which coordinate descent is slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([getattr(estimators, name)() for name in names], expected_failed_checks=expected_failures)
def test_scikit_learns_checks(estimator, check):
    check(estimator)

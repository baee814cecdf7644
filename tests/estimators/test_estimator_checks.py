"""scikit-learn's own checks of estimators: on every one of ours."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from blocksvm import estimators

CERTIFIED = ("KernelSVC", "LinearSVC", "LinearSVR", "LogisticClassifier")
# scikit-learn declares the same of its own SGDClassifier, SGDRegressor and Perceptron
ONE_STEP = "a row of weight 2 is one larger step, and not two steps"
WEIGHTS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


def expected_failures(estimator) -> dict[str, str]:
    return {} if type(estimator).__name__ in CERTIFIED else dict.fromkeys(WEIGHTS, ONE_STEP)


# some checks have rows that are far from 0, on which coordinate descent is slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
@parametrize_with_checks(
    [getattr(estimators, name)() for name in estimators.__all__], expected_failed_checks=expected_failures
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)

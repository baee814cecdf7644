"""scikit-learn's own checks of estimators: on every one of ours."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from blocksvm import estimators

SOME = ("LinearSVC", "LinearSVR", "LogisticClassifier", "PassiveAggressiveClassifier")
CERTIFIED = ("KernelSVC", "LinearSVC", "LinearSVR", "LogisticClassifier")
# scikit-learn declares the same of its own SGDClassifier, SGDRegressor and Perceptron
ONE_STEP = "a row of weight 2 is one larger step, and not two steps"
WEIGHTS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


def expected_failures(estimator) -> dict[str, str]:
    return {} if type(estimator).__name__ in CERTIFIED else dict.fromkeys(WEIGHTS, ONE_STEP)


def checks_of(names):
    estimators_of = [getattr(estimators, name)() for name in names]
    return parametrize_with_checks(estimators_of, expected_failed_checks=expected_failures)


# some checks have rows that are far from 0, on which coordinate descent is slow
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.slow
@checks_of(SOME)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@checks_of(name for name in estimators.__all__ if name not in SOME)
def test_scikit_learns_checks_of_the_others(estimator, check):
    check(estimator)

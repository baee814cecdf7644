"""Cross-validation by runs of their own, for several files of tests."""

import numpy as np

from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings
from blocksvm.validation.folds import held_out_method

N, PATH = 200, [0.05, 0.5, 2.0]
GIVEN = {"tol": 1e-6, "schedule": "4", "max_outer": 5000, "bias": 1.0}


def dense(X):
    return np.hstack([X.toarray(), np.ones((X.shape[0], 1))])


def looped(source, folds, path=PATH, previous=None, **given) -> OuterLoop:
    """The run of all folds and C at once, finished."""
    settings = TrainSettings.of(**{**GIVEN, **given})
    loop = OuterLoop(Plan(source, settings, method=held_out_method("dual-cd", path, folds), previous=previous))
    loop.result = loop.run()
    return loop

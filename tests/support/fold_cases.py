"""Cross-validation by runs of their own, for several files of tests."""

from dataclasses import replace
from functools import partial

import numpy as np

from blocksvm.solvers.dual_methods import METHOD
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings
from blocksvm.validation.held_out_problems import HeldOutCD

N, PATH = 200, [0.05, 0.5, 2.0]
GIVEN = {"tol": 1e-6, "schedule": "4", "max_outer": 5000, "bias": 1.0}


def dense(X):
    return np.hstack([X.toarray(), np.ones((X.shape[0], 1))])


def looped(source, folds, path=PATH, previous=None, **given) -> OuterLoop:
    """The run of all folds and C at once, finished."""
    settings = TrainSettings.of(**{**GIVEN, **given})
    method = replace(METHOD, make=partial(HeldOutCD, path=path, folds=folds, previous=previous))
    loop = OuterLoop(Plan(source, settings, method=method))
    loop.result = loop.run()
    return loop

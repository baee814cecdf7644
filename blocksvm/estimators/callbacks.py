"""scikit-learn's callbacks, which it has from 1.9 on: a fit is a task, and each outer iteration, a pass of an online
learner, a task below it.  With an earlier scikit-learn there are none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.base import BaseEstimator

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method):
        return method


# a method that does nothing, behind which scikit-learn calls what is to be torn down
tear_down = with_callbacks(lambda estimator: None)


class FitTasks:
    """The tasks of a fit: ``root``, its context; ``given``, what every callback may ask for."""

    def __init__(self, root, given: dict):
        self.root, self.given, self.iteration = root, given, None

    def follow(self, event: dict) -> bool:
        """Begin or end an iteration by an event of the run; whether a callback wants no further one.  The first begins
        with the run, the others are known when they have visited a block: a run may end before."""
        if self.iteration is None and event["event"] in ("start", "visit"):
            self.iteration = self.root.subcontext(task_name="iteration")
            self.iteration.call_on_fit_task_begin(**self.given)
        elif self.iteration is not None and event["event"] in ("outer", "end"):
            ended, self.iteration = self.iteration, None
            return ended.call_on_fit_task_end(**self.given)
        return False


@contextmanager
def fit_tasks(estimator: BaseEstimator, X, y, sample_weight) -> Iterator[FitTasks | None]:
    """The tasks of a fit of these rows, None without callbacks.  Callbacks get X, y and sample_weight as the user gave
    them, and at the end of the whole the fitted estimator."""
    if not getattr(estimator, "_skl_callbacks", None):
        yield None
        return
    metadata = None if sample_weight is None else {"sample_weight": sample_weight}
    given = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
    try:
        root = estimator._init_callback_context(max_subtasks=estimator.max_iter).call_on_fit_task_begin(**given)
        yield FitTasks(root, given)
        root.call_on_fit_task_end(**given, reconstruction_attributes={})
    finally:
        tear_down(estimator)

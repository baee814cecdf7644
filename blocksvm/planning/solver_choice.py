"""``--solver auto``: on a cluster lbfgs, which has no serial part, where a plan says that it is quicker than dual-cd,
whose rows one process moves."""

from __future__ import annotations

from blocksvm.base.errors import InputError
from blocksvm.losses import require
from blocksvm.planning.forecast import Processors
from blocksvm.planning.training_plan import SMOOTH, OnWorkers, plan_training
from blocksvm.solvers.dual_cd import settings_of
from blocksvm.store.reader import Store
from blocksvm.training.train_settings import TrainSettings

DUAL = "dual-cd"


def choose_solver(path: str, workers: int | None, **settings) -> tuple[str, str]:
    """(name of the solver, why) of a run on the store by so many workers, of a thread each; None: on this machine.
    settings: as ``TrainSettings.of`` takes them.  A plan is made, which goes by the clock: so may the choice."""
    if workers is None:
        return DUAL, "there is no cluster, of which one process could be the limit"
    dual_cd = TrainSettings.of(**settings | {"solver": DUAL})
    try:
        require(settings_of(dual_cd.method).resolve(dual_cd.method, DUAL)["loss"], "second_derivative", SMOOTH)
    except InputError as error:
        return DUAL, str(error)
    with Store(path) as store:
        plan = plan_training(store, dual_cd, Processors(1, 1), workers).cluster
    assert plan is not None
    return quicker(plan)


def quicker(plan: OnWorkers) -> tuple[str, str]:
    """(name, why) by a plan."""
    if plan.smooth_run is None:
        return DUAL, f"{SMOOTH} does not take these rows and settings, or this memory"
    dual, smooth, n = plan.run.total, plan.smooth_run.total, plan.workers
    seconds = f"planned with {dual:.3g} s by {DUAL}, whose limit is {plan.run.limit}, and {smooth:.3g} s by {SMOOTH}"
    return (SMOOTH if smooth < dual else DUAL), f"{seconds}, with {n} worker{'' if n == 1 else 's'}"

"""The files of a run: the checkpoint, its whole state, by which a killed run goes on with nothing lost; and the model
of a finished run."""

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.files.paths import Location
from blocksvm.model.events import versions
from blocksvm.model.model_file import INT64, describe_model, factors_of_source, save_model, store_names
from blocksvm.model.solver_state import describe_checkpoint, open_state, save_checkpoint
from blocksvm.model.sparse_weights import Kept, kept_of
from blocksvm.problems.certificate import Certificate
from blocksvm.solvers.solver import State
from blocksvm.store.arrays import Piecewise
from blocksvm.store.descriptions import CheckpointMeta, ModelMeta, SparseMeta, typed
from blocksvm.store.recipe import recipe_of
from blocksvm.training.plan import Plan
from blocksvm.training.record import Progress, Result, Tally
from blocksvm.training.settings import TrainSettings

WORKING_SET = "working-set"  # the name space of what it had
OF_STORE = ("idf_fingerprint", "holdout_fingerprint")  # what a model has from its store's description


class Checkpoint:
    """The file of a run's state, written when it is due: every ``seconds``."""

    def __init__(self, path: Location, seconds: float = 600.0):
        self.path, self.seconds = path, seconds
        self.last_saved = time.perf_counter()

    def save(self, plan: Plan, spaces: dict[str, State], progress: Progress, tally: Tally, seconds: float) -> None:
        """Write arrays by name space, where the run stands, what it has done in its outer iteration, its seconds."""
        stands = {"progress": asdict(progress), "tally": asdict(tally), "seconds": seconds, "versions": versions()}
        save_checkpoint(self.path, spaces, plan.describe() | stands)
        self.last_saved = time.perf_counter()

    def restore(self, plan: Plan, state: State) -> tuple[Progress, Tally, float]:
        """Fill ``state``; (where the run stood, what it had done in its outer iteration, its seconds)."""
        saved = open_state(self.path)
        assert isinstance(saved.meta, CheckpointMeta)
        described = saved.meta.arrays.get(plan.namespace, {})
        for name, array in state.items():
            if described.get(name) != (array.dtype.str, array.size):
                raise InputError(f"{self.path}: holds no {name} of {array.size} numbers; it belongs to another run")
            saved.load(plan.namespace, name, array)
            # of a problem at its end the relative gap is finite, of another one it need not be
            ends = (array.min(), array.max()) if array.dtype.kind == "f" and array.size else (0.0, 0.0)
            if np.isnan(ends).any() or (name != "certified" and np.isinf(ends).any()):
                raise InputError(f"{self.path}: {name} has what is no finite number; it is damaged, start afresh")
        try:
            progress, tally = typed(saved.meta.progress, Progress), typed(saved.meta.tally, Tally)
            for certified in filter(None, (progress.certified, progress.best)):
                certified.figures = asdict(typed(certified.figures, Certificate))
        except ValueError as error:
            raise InputError(f"{self.path}: its progress is of another kind ({error}); start afresh") from error
        return progress, tally, saved.meta.seconds

    def arrays(self, space: str) -> State:
        """What was saved beside the state under a name."""
        saved = open_state(self.path)
        assert isinstance(saved.meta, CheckpointMeta)
        described = saved.meta.arrays.get(space)
        if described is None:
            raise InputError(f"{self.path}: holds no {space}; it belongs to another run")
        arrays = {}
        for name, (dtype, length) in described.items():
            if saved.lengths.get(space, {}).get(name) != length:
                raise InputError(f"{saved.path}: holds no {name} of {length} numbers; it is damaged, start afresh")
            arrays[name] = np.empty(length, dtype)
            saved.load(space, name, arrays[name])
        return arrays


def describe_result(plan: Plan, state: State, result: Result, calibration: dict | None = None) -> ModelMeta:
    """A model's description: the method and its settings, labels, certificate, choices made, versions."""
    source, settings, solver, support = plan.source, plan.settings, plan.solver, result.support
    of_store = {name: getattr(getattr(source, "meta", None), name, "") or None for name in OF_STORE}
    dtype = "float64" if source.value_bytes == 8 else "float32"
    description = plan.describe() | {
        "settings": settings.run_settings() | {"max_outer": settings.outer_limit()},
        "n_features": plan.n_features,
        "n_vectors": solver.n_vectors,
        "bias": solver.bias,
        "n_samples": source.n_samples,
        "store": source.name,
        "labels": plan.label_list(),
        "multilabel": plan.multilabel,
        "ranks": solver.ranks,
        "prior": None if plan.initial_models.prior is None else str(plan.initial_models.prior),
        "prior_fingerprint": plan.initial_models.fingerprints[1],
        **of_store,
        "text": recipe_of(source, dtype),
        "values": {0: "ones", 4: "float32", 8: "float64"}[source.value_bytes],
        "certificate": None if result.certificate is None else asdict(result.certificate),
        "kernel": support and support.kernel | {"n_support": len(support.norms), "n_nonzeros": len(support.indices)},
        "status": result.status,
        "outer": result.outer + plan.initial_models.outers,
        "outer_of_weights": result.outer_of_weights,
        "seconds": result.seconds,
        "passes": result.passes,
        "set_passes": result.set_passes,
        "versions": versions(),
        "calibration": calibration,
        **solver.describe(state),
    }
    return typed(description, ModelMeta)


def save_result(path: Location, plan: Plan, state: State, result: Result,
                feature_ids: Callable[[int, int], np.ndarray] | None = None, overwrite: bool = True,
                calibration: dict | None = None, drop_below: float | None = None) -> None:  # fmt: skip
    """Write the model file, with dual variables, or a learner's whole state, from which a later run can start.
    feature_ids(start, stop): where the source may be closed; calibration: how decision values become probabilities;
    drop_below: the weights are kept one by one, without those that are smaller and without a state."""
    weights: np.ndarray | Kept = result.w
    kept = {plan.namespace: {a.name: state[a.name] for a in plan.solver.state_arrays if a.in_model}}
    ids = Piecewise(plan.n_features, INT64, feature_ids or partial(plan.initial_models.feature_ids, plan.source))
    description = describe_result(plan, state, result, calibration)
    if drop_below is not None:
        weights, kept = kept_of(result.w.reshape(plan.solver.n_vectors, -1), drop_below), {}
        description.sparse = SparseMeta(int(weights.ends[-1]), weights.n_dropped, drop_below)
    factors = None if plan.solver.n_features else factors_of_source(plan.source, plan.n_features)
    named = plan.source.named and not plan.solver.n_features
    with store_names((getattr(plan.source, "path", ""), plan.source.fingerprint) if named else None) as names:
        save_model(path, ids, weights, kept, description, overwrite, result.support, names, factors)


def is_result_of(model: Path, checkpoint: Location, settings: TrainSettings) -> bool:
    """Whether the model is that of the checkpoint's run, which ended by the settings given now: what a command leaves
    that is killed once its model has its name."""
    if not (model.exists() and checkpoint.exists()):
        return False
    try:
        made, saved = describe_model(model), describe_checkpoint(checkpoint)
    except InputError:  # that it is no such file is said where it is used
        return False
    same = ("method", "fingerprint", "n_features", "cost", "partition", "earlier")
    ends = all(getattr(made, name) == saved.progress.get(name) for name in ("passes", "set_passes"))
    ours = made.settings == settings.run_settings() | {"max_outer": settings.outer_limit()}
    return ours and ends and all(getattr(made, name) == getattr(saved, name) for name in same)

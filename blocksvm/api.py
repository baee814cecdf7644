"""From rows to a model in one call, and from a finished run to a model file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from blocksvm.formats.recipe import Recipe
from blocksvm.model.files import Model, make_model, save_model
from blocksvm.model.versions import versions
from blocksvm.problems.problem import Certificate
from blocksvm.sources.matrix import Matrix
from blocksvm.sources.source import Source
from blocksvm.sources.store.files import check_output
from blocksvm.training.progress import Result
from blocksvm.training.settings import TrainSettings
from blocksvm.training.training import Trainer


def describe_result(source: Source, trainer: Trainer, result: Result) -> dict:
    """A model's description: settings, labels, certificate, choices made, versions."""
    settings = trainer.settings
    described = getattr(source, "meta", {})
    dtype = "float64" if source.value_bytes == 8 else "float32"
    values = {0: "ones", 4: "float32", 8: "float64"}[source.value_bytes]
    return {
        "n_features": trainer.n_features,
        "copies": trainer.solver.copies,
        "bias": trainer.problem.bias,
        "n_samples": source.n_samples,
        "fingerprint": source.fingerprint,
        "store": source.name,
        "settings": settings.arithmetic()
        | {"memory": settings.memory, "tol": settings.tol, "max_outer": settings.outer_limit()},
        "cost": trainer.problem.cost.tolist(),
        "labels": list(source.labels.values),
        "prior": None if trainer.earlier.prior is None else str(trainer.earlier.prior),
        "prior_fingerprint": trainer.earlier.fingerprints[1],
        "text": Recipe.of_store(described, source.name, dtype).plain(),
        "values": values,
        "certificate": None if result.certificate is None else asdict(result.certificate),
        "status": result.status,
        "outer": result.outer + trainer.progress.outers_before,
        "seconds": result.seconds,
        "passes": result.passes,
        "partition": {"resident": trainer.partition.resident, "capacity": int(trainer.partition.capacity)},
        "versions": versions(),
    }


def save_result(path: Path, source: Source, trainer: Trainer, result: Result, feature_ids=None) -> None:
    """Write the model file; feature_ids(start, stop) where the source may be closed.

    A dual method's alpha is kept beside the weights, so that the certificate can be checked and a run at another C can
    start from it; a learner's whole memory, so that it can go on.
    """
    arrays = {a.name: trainer.state[a.name] for a in trainer.solver.state_arrays if a.in_model}
    ids = feature_ids or (lambda start, stop: trainer.earlier.feature_ids(source, start, stop))
    save_model(path, ids, result.w, arrays, describe_result(source, trainer, result))


@dataclass(frozen=True)
class Fitted:
    """A run's end: the model, how the run ended, and what saving it needs.

    status 'converged', 'max-outer', 'max-seconds' or 'interrupted'; certificate of exactly this model (None where
    interrupted); alpha (n_samples,) float64 in the source's order, or None for a primal method.
    """

    model: Model
    status: str
    certificate: Certificate | None
    alpha: np.ndarray | None
    source: Source
    trainer: Trainer
    result: Result

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the model file; InputError where ``path`` exists (without ``overwrite``) or cannot be written."""
        check_output(Path(path), overwrite)
        ids = self.model.feature_ids  # the source may have been closed
        save_result(Path(path), self.source, self.trainer, self.result, lambda start, stop: ids[start:stop])


def fit(
    rows,
    y=None,
    *,
    on_event: Callable[[dict], None] = lambda event: None,
    stop: Callable[[], bool] = lambda: False,
    valid: Source | None = None,
    warm_start: str | Path | None = None,
    continue_from: str | Path | None = None,
    prior: str | Path | None = None,
    **settings,
) -> Fitted:
    """Train on a source of blocks (``open_store``, ``Matrix``), or on a scipy CSR matrix with labels ``y``.

    settings: the fields of ``TrainSettings`` (C, loss, memory, schedule, ...); on_event is called with a dict for each
    event: "start", "visit", "outer" (the figures of an outer iteration) and "end"; stop() is polled after each inner
    pass, and ends the run where it says True; valid: a source to score after each outer iteration; warm_start: a model
    or checkpoint of the same rows; continue_from: a model of the same online learner; prior: a model to be regularised
    towards.  For an online learner as ``solver``, ``online`` holds its settings.  Raises InputError where the settings
    do not fit the rows or the memory.
    """
    source = rows if hasattr(rows, "read_block") else Matrix(rows, y)
    trainer = Trainer(
        source,
        TrainSettings(**settings),
        on_event=on_event,
        stop=stop,
        valid=valid,
        warm_start=None if warm_start is None else Path(warm_start),
        continue_from=None if continue_from is None else Path(continue_from),
        prior=None if prior is None else Path(prior),
    )
    result = trainer.run()
    described = describe_result(source, trainer, result)
    model = make_model("", trainer.earlier.feature_ids(source, 0, trainer.n_features), result.w, described)
    return Fitted(model, result.status, result.certificate, result.alpha, source, trainer, result)

"""What a run takes over from earlier models: the memory of an online learner that goes on, and a prior model's weights.

Features meet by id.  Those that only an earlier model knows get places behind the source's own, so that nothing of it
is lost in the model that this run makes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from blocksvm.conversion.ids import IdIndex
from blocksvm.errors import InputError
from blocksvm.formats.recipe import Recipe
from blocksvm.learners.exact import SETTINGS as EXACT
from blocksvm.memory import Budget
from blocksvm.model.files import (
    Model,
    describe_model,
    load_model,
    load_state,
    model_feature_ids,
    model_fingerprint,
    recipe_of,
)
from blocksvm.sources.source import Source


class Earlier:
    """The earlier models of one run: ``continue_from`` (its learner's whole memory) and ``prior`` (its weights).

    extra_ids (m,) int64: ids that the source does not have, rising; outers: outer iterations that were done before.
    Raises InputError where a model does not fit the run.
    """

    def __init__(self, source: Source, continue_from: Path | None, prior: Path | None):
        self.source = source
        self.continue_from = continue_from
        self.prior = prior
        # by their content: a run that is resumed, or a model that is continued, must have the same
        self.fingerprints = [None if path is None else model_fingerprint(path) for path in (continue_from, prior)]
        self.extra_ids = np.empty(0, np.int64)
        self.outers = 0

    def check(self, solver, arithmetic: dict) -> None:
        """Before anything is allocated."""
        labels = list(self.source.labels.values)
        if self.continue_from is not None:
            saved = describe_model(self.continue_from)
            if solver.name in EXACT:
                raise InputError(f"--continue-from: {solver.name} begins with no rows")
            if not solver.online:
                raise InputError(f"--continue-from: {solver.name} starts from other models by --warm-start")
            check_continued(self.continue_from, saved, arithmetic, self.fingerprints[1])
            self._check_labels(self.continue_from, saved, labels)
            self.outers = saved["outer"]
        if self.prior is not None:
            if solver.name in EXACT or not (solver.online or solver.has_dual):
                raise InputError(f"--prior: {solver.name} cannot be regularised towards a model; dual-cd can")
            self._check_labels(self.prior, describe_model(self.prior), labels)
        for path in (self.continue_from, self.prior):
            theirs = None if path is None else recipe_of(describe_model(path), path).bits
            if theirs is not None and theirs != Recipe.of_store(getattr(self.source, "meta", {}), path).bits:
                raise InputError(
                    f"{path}: has features hashed to {theirs} bits, which {self.source.name} does not have; split "
                    f"it with --bits {theirs}, or go on with stream"
                )

    def _check_labels(self, path: Path, saved: dict, labels: list[float]) -> None:
        if saved["labels"] != labels:
            raise InputError(f"{path}: has the labels {listed(saved['labels'])}, other ones than {self.source.name}")

    def check_resumed(self, saved: list, path: Path) -> None:
        """InputError where a checkpoint's run had taken over other models."""
        for option, before, now in zip(("--continue-from", "--prior"), saved, self.fingerprints, strict=True):
            if before != now:
                what = f"without {option}" if before is None else f"with another {option}" if now else f"with {option}"
                raise InputError(f"{path}: was begun {what}; resume with the same, or start afresh without --resume")

    def meet(self, budget: Budget) -> None:
        """Find each model's features among the source's."""
        paths = [path for path in (self.continue_from, self.prior) if path is not None]
        if not paths:
            return
        d = self.source.n_features
        most = sum(describe_model(path)["n_features"] for path in paths)
        budget.require("matching of features", IdIndex.n_bytes(d) + 40 * most)
        self.index = IdIndex(d).fill(self.source.feature_id_pieces())
        unknown = [ids[self.index.find(ids) < 0] for ids in map(model_feature_ids, paths)]
        self.extra_ids = np.unique(np.concatenate(unknown))

    def places(self, ids: np.ndarray) -> np.ndarray:
        """Each id's feature in this run."""
        found = self.index.find(ids).astype(np.int64)
        unknown = found < 0
        found[unknown] = self.source.n_features + np.searchsorted(self.extra_ids, ids[unknown])
        return found

    def feature_ids(self, source: Source, start: int, stop: int) -> np.ndarray:
        """The user's ids of the run's features start..stop-1: the source's, then those that only a model knows."""
        d = source.n_features
        own = source.feature_ids(min(start, d), min(stop, d))
        if stop <= d:
            return own
        return np.concatenate([own, self.extra_ids[max(0, start - d) : stop - d]])

    def fill(self, state: dict, solver) -> None:
        """The learner's memory as it was, in this run's numbering."""
        copies = solver.copies
        width = solver.machine.width
        ids = model_feature_ids(self.continue_from)
        saved = np.empty(copies * (len(ids) + 1) * width)
        load_state(self.continue_from, "features", saved)
        saved = saved.reshape(copies, len(ids) + 1, width)
        own = state["features"].reshape(copies, -1, width)
        places = self.places(ids)
        own[:, places] = saved[:, :-1]
        own[:, -1] = saved[:, -1]
        for name in ("scalars", "tally", "epochs"):
            load_state(self.continue_from, name, state[name])

    def prior_weights(self, n_features: int, bias: float) -> np.ndarray:
        """The prior's weights (copies * (n_features + 1),), its intercept as weight of the constant feature."""
        model: Model = load_model(self.prior)
        weights = np.atleast_2d(model.weights)
        intercepts = np.atleast_1d(model.intercept)
        if intercepts.any() and bias == 0.0:
            raise InputError(f"{self.prior}: has an intercept, but there is no constant feature; give --bias")
        found = np.zeros((len(weights), n_features + 1))
        places = self.places(model.feature_ids)
        for own, theirs, intercept in zip(found, weights, intercepts, strict=True):
            own[places] = theirs
            own[-1] = intercept / bias if intercept else 0.0
        return found.ravel()


def listed(labels) -> str:
    """Labels as a sentence names them."""
    return ", ".join(f"{label:g}" for label in labels)


def check_continued(path: Path, saved: dict, settings: dict, prior: str | None) -> None:
    """InputError where a model was learned with other settings, or another prior (its fingerprint), than learning is to
    go on with."""
    for name in ("solver", "online", "bias"):
        if saved["settings"].get(name) != settings[name]:
            raise InputError(
                f"{path}: was learned with {_told(name, saved['settings'].get(name))}, but "
                f"{_told(name, settings[name])} is given now; continue with the same settings"
            )
    before = saved.get("prior_fingerprint")
    if before != prior:
        what = "without a prior model" if before is None else f"with the prior model {saved['prior']}"
        raise InputError(f"{path}: was learned {what}; continue with the same --prior")


def _told(name: str, value) -> str:
    if name == "online":
        if not value:
            return "other settings"
        given = {k: v for k, v in value["learner"].items() if v is not None}
        given |= {k: v for k, v in value.items() if k != "learner" and v not in (None, False)}
        return ", ".join(f"{k} {v}" for k, v in given.items()) or "the learner's defaults"
    return f"--{name} {value}"

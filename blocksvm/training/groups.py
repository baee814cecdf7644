"""Many classes in groups: each against the rest, as many at once as the memory holds.

A group is a run of its own over a source whose rows have sets of the group's labels alone, with its own checkpoint and
certificate.  It leaves a model of these labels, a part; the parts become one model, whose weights are kept one by one.
"""

from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np
from msgspec import structs

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import MOST_LABELS, SETS, label_text, listed
from blocksvm.base.memory import TooLittleMemory
from blocksvm.base.settings import plain
from blocksvm.base.vectors import LINE, width_of
from blocksvm.files.paths import Location
from blocksvm.model.model_file import describe_model, save_parts
from blocksvm.problems.certificate import REL_GAP, Certificate, certificate_of
from blocksvm.problems.problem import class_factors, has_classes, labels_learned
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS, learns_together
from blocksvm.solvers.dual_cd import settings_of
from blocksvm.solvers.solver import State
from blocksvm.sources.source import Source
from blocksvm.store.descriptions import CheckpointMeta, ModelMeta, SparseMeta
from blocksvm.training.checkpoint import save_result
from blocksvm.training.plan import Plan
from blocksvm.training.record import Result
from blocksvm.training.settings import TrainSettings

STATE_SHARE = 0.5  # of the memory, for the state of a group: the rest is left to its rows
SET_BYTES = 500  # of a distinct set in tables of its rows and of a group
STATE = ("weights", "alpha", "sides of the classes")  # that of a group, in the plan of its memory


def may_be_grouped(source: Source, settings: TrainSettings) -> bool:
    """The classes of a source are problems of their own, which dual coordinate descent solves."""
    if settings.learner or settings.settled(source).solver != "dual-cd":
        return False
    method = PROBLEM_SETTINGS.resolve({"loss": settings.method.get("loss")}, "a run")
    return not learns_together(settings.method.get("multiclass")) and has_classes(method, source)


def must_be_grouped(source: Source, settings: TrainSettings) -> bool:
    """One run of all classes has more kinds of rows than codes, or takes more than the memory by its state alone."""
    labels, sums = labels_learned(source)
    k, m = len(labels.values), len(sums)
    least = 8 * width_of(k) * (source.n_features + 1) + 9 * k * source.n_samples + k * m
    return (source.label_kind == SETS and m > MOST_LABELS) or least > settings.memory


def name_of_group(source: Source, first: int, stop: int) -> str:
    """The fingerprint of a source whose rows have the labels first .. stop - 1 alone."""
    return f"{source.fingerprint}[{first}:{stop}]"


def is_of_a_group(saved: CheckpointMeta, source: Source) -> bool:
    return (saved.fingerprint or "").startswith(f"{source.fingerprint}[")


def of_labels(source: Source, labels: tuple, first: int, stop: int) -> Source | None:
    """A reader of the rows, which have sets of the labels first .. stop - 1; None where these are too many kinds."""
    wanted, counted = set(labels[first:stop]), source.label_counts or []
    of_set: dict[tuple, int] = {}
    kinds = np.full(len(counted) + 1, -1)
    for s, (own, _) in enumerate(counted):
        members = tuple(filter(wanted.__contains__, own if source.label_kind == SETS else (own,)))
        kinds[s] = of_set.setdefault(members, len(of_set))
    if len(of_set) > MOST_LABELS:
        return None
    group = source.reader()
    group.coding = replace(source.coding, kinds=kinds.astype(np.int16))
    group.label_kind, group.fingerprint = SETS, name_of_group(source, first, stop)
    counts = np.bincount(kinds[:-1], [rows for _, rows in counted]).astype(np.int64)
    group.label_counts = list(zip(of_set, counts.tolist(), strict=True))
    if source.label_weights is not None:
        group.label_weights = np.bincount(kinds[:-1], source.label_weights).tolist()
    return group


class ClassGroups:
    """The groups of a source's classes, one after the other.  part(g): where the model of group g (from 0) lies;
    drop_below: smaller weights are left out; resumed: parts of the same run are taken over; parts: what is done."""

    def __init__(self, source: Source, settings: TrainSettings, part: Callable, drop_below: float, resumed: bool):
        self.source, self.settings, self.part, self.drop_below = source, settings, part, drop_below
        labels, sums = labels_learned(source)
        self.labels = labels.values
        if isinstance(weights := settings.method.get("class_weight"), dict):
            class_factors(weights, labels, tuple(sums.tolist()))
        self.parts: list[ModelMeta] = []
        while resumed and self.part(len(self.parts)).exists() and len(self.labels) > self.first:
            self.parts.append(self._taken_over(self.part(len(self.parts))))

    @property
    def first(self) -> int:
        return sum(len(part.labels) for part in self.parts)

    @property
    def seconds(self) -> float:
        return self.parts[-1].seconds if self.parts else 0.0

    def _taken_over(self, path: Location) -> ModelMeta:
        made, first = describe_model(path), self.first
        stop = first + len(made.labels)
        ours = self._settings(first, stop)
        wanted = plain(settings_of(ours.method).resolve(ours.method, "dual-cd")) | ours.arithmetic()
        wanted |= {"sparse": self.drop_below, "fingerprint": name_of_group(self.source, first, stop)}
        found = made.method.settings | made.settings
        found |= {"sparse": made.sparse and made.sparse.drop_below, "fingerprint": made.fingerprint}
        if any(found.get(name) != value for name, value in wanted.items()):
            how = "resume with the same store and settings, or remove it with its checkpoint"
            raise InputError(f"{path}: is of another run; {how}")
        return made

    def _settings(self, first: int, stop: int) -> TrainSettings:
        """With the weights of these classes alone."""
        method = dict(self.settings.method)
        if isinstance(weights := method.get("class_weight"), dict):
            own = {label_text(label) for label in self.labels[first:stop]}
            method["class_weight"] = {label: w for label, w in weights.items() if label_text(label) in own}
        return replace(self.settings, method=method)

    def next_plan(self, resume: CheckpointMeta | None) -> Plan:
        """Of the next group: that of the checkpoint, where this is of one, else of as many labels as fit."""
        first, left = self.first, len(self.labels) - self.first
        stop = first + len(resume.cost or ()) if resume is not None else first
        if resume is not None and resume.fingerprint == name_of_group(self.source, first, stop):
            return self._plan(first, stop, resume)
        plan = self._plan(first, first + min(LINE, left))
        share = STATE_SHARE * self.settings.memory
        most = max(1, int(share * LINE / state_bytes(plan)) // LINE) * LINE
        while True:
            n = -(-left // (-(-left // most)))
            size = min(left, -(-n // LINE) * LINE)
            size -= left - size == 1  # one label alone has nothing beside it
            try:
                plan = self._plan(first, first + size)
                if size <= LINE or state_bytes(plan) <= share:
                    return plan
            except TooLittleMemory:
                if size <= LINE:
                    raise
            most = max(LINE, min(most, size) * 3 // 4 // LINE * LINE)

    def _plan(self, first: int, stop: int, resume: CheckpointMeta | None = None) -> Plan:
        group = of_labels(self.source, self.labels, first, stop)
        if group is None:
            raise TooLittleMemory(self.settings.memory, {})
        besides = {"sets of labels": SET_BYTES * len(self.source.label_counts or ())}
        return Plan(group, self._settings(first, stop), resume=resume, besides=besides)

    def add(self, plan: Plan, state: State, result: Result) -> None:
        """Write the part of a group whose run has ended."""
        path = self.part(len(self.parts))
        save_result(path, plan, state, result, drop_below=self.drop_below)
        self.parts.append(describe_model(path))

    def save(self, path: Location, overwrite: bool) -> Result:
        """Write the model of all groups in the place of their parts, and return what they have come to."""
        parts = self.parts
        of_each = np.concatenate([Certificate(**asdict(c)).of_each for p in parts if (c := p.certificate)])
        certificate, tol = certificate_of(of_each, None), self.settings.tol
        status = next((part.status for part in parts if part.status != "converged"), "converged")
        advice = None
        if n := int((of_each[:, REL_GAP] > tol).sum()):
            advice = f"not converged: {n:,} of {len(of_each):,} classes have a gap above {option('tol', tol)}"
        outer = max(part.outer for part in parts)
        result = Result(status, np.empty(0), None, certificate, outer, self.seconds, [], [], {}, advice=advice)
        kept = [part.sparse for part in parts if part.sparse is not None]
        sparse = SparseMeta(sum(s.n_weights for s in kept), sum(s.n_dropped for s in kept), self.drop_below)
        method = structs.replace(parts[0].method, settings=dict(parts[0].method.settings))
        if isinstance(weights := self.settings.method.get("class_weight"), dict):
            method.settings["class_weight"] = weights
        meta = structs.replace(
            parts[0], labels=list(self.labels), n_vectors=len(self.labels), sparse=sparse, status=status,
            method=method, multilabel=self.source.label_kind == SETS, fingerprint=self.source.fingerprint, outer=outer,
            certificate=certificate, cost=[c for part in parts for c in part.cost or []],
            seconds=self.seconds, passes=[], set_passes=[],
        )  # fmt: skip
        paths = [self.part(g) for g in range(len(parts))]
        save_parts(path, paths, meta, overwrite)
        for part in paths:
            part.unlink()
        return result


def state_bytes(plan: Plan) -> int:
    return sum(plan.memory().get(name, 0) for name in STATE)


def rare_labels(source: Source) -> str:
    """A sentence where labels have no row that counts, or one alone; ''."""
    rows: dict = {}
    weights: dict = {}
    of_kind = source.label_weights or [count for _, count in source.label_counts or ()]
    for (own, count), weight in zip(source.label_counts or (), of_kind, strict=True):
        for label in own if isinstance(own, tuple) else (own,):
            rows[label] = rows.get(label, 0) + count
            weights[label] = weights.get(label, 0.0) + weight
    without = sorted(label for label in rows if not weights[label] > 0.0)
    alone = sorted(label for label in rows if rows[label] == 1 and weights[label] > 0.0)
    told = (("without a row that counts", without), ("of one row alone", alone))
    return "; ".join(
        f"labels {what}: {len(labels):,} of {len(rows):,} ({listed(labels[:5])}{', ...' if labels[5:] else ''})"
        for what, labels in told
        if labels
    )

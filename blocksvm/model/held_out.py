"""Scores of held-out rows while training: another store's rows, matched by feature id and label value."""

import math

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import MOST_LABELS, SETS, Labels, label_text
from blocksvm.base.memory import Budget
from blocksvm.base.vectors import side_by_side, width_of
from blocksvm.conversion.feature_ids import IdIndex
from blocksvm.model.decision_values import count_right, decision_pieces, piece_bytes, sum_squared_errors
from blocksvm.problems.problem import membership
from blocksvm.solvers.solver import Solver
from blocksvm.sources.block import Arena
from blocksvm.sources.source import Source, largest_chunk_bytes


def stranger_note(held_out: Source, fingerprint: str, holdout_fingerprint: str | None) -> str:
    """The sentence on rows that were held out of another store than that which a model is trained on; ''.
    fingerprint, holdout_fingerprint: of the training store, and of what was held out of it."""
    of = getattr(getattr(held_out, "meta", None), "training_fingerprint", "")
    its_states = {held_out.fingerprint, *(step.fingerprint for step in held_out.history())}
    if of in ("", fingerprint) or holdout_fingerprint in its_states:
        return ""
    return (
        f"{held_out.name} was held out of another store than the one trained on (or that was split anew since), so "
        f"some of its rows may be among those trained on; split both again, by {option('holdout')}"
    )


class HeldOut:
    """A second source to score after each outer iteration, one chunk at a time.  labels: the classes that are learned,
    None where targets are real numbers; sets: rows have sets of them, which the decision values may only rank."""

    def __init__(self, source: Source, labels: Labels | None, solver: Solver, budget: Budget, sets: bool = False):
        if solver.predicts_rows:
            raise InputError(f"{option('valid')}: {solver.name} learns rows without labels here; leave it out")
        self.n_vectors, self.ranks, self.real = solver.n_vectors, solver.ranks, labels is None
        self.n_scored = source.n_samples - source.n_unlabelled
        self.member: np.ndarray | None = None
        if sets:
            if source.label_kind != SETS or source.label_counts is None:
                raise InputError(f"{source.name}: its rows have no sets of labels, as the training rows have")
            if len(source.label_counts) > MOST_LABELS:
                raise InputError(f"{source.name}: has more than {MOST_LABELS:,} distinct sets of labels; leave it out")
            self.member = membership([kind for kind, _ in source.label_counts], labels)
            labels = None
        elif labels is not None:
            counts = source.label_counts
            if counts is None or not any(label in labels.values for label, _ in counts):
                wanted = " or ".join(label_text(label) for label in (labels.negative, labels.positive))
                why = f"has no row labelled {wanted}, as the training rows are"
                raise InputError(f"{source.name}: {why}; name a store of the same classes")
        if self.n_scored == 0:
            raise InputError(f"{source.name}: none of its rows has a label; name a store of rows that have one")
        self.source = source = source.reader(labels, self.real, packed=True)  # the same rows may be trained on
        self.arena_bytes = largest_chunk_bytes(source)
        # a chunk, the mapping, the weights, and while these are gathered the known positions and their weights
        need = self.arena_bytes + piece_bytes(self.n_vectors) + source.working_bytes() + 120 * len(source.chunks)
        need += (4 + 8 * width_of(self.n_vectors) + 1 + 4 + 8) * (source.n_features + 1)
        budget.reserve("held-out rows", need)
        self.mapping = np.empty(0, np.int32)

    def match(self, train: Source, budget: Budget) -> None:
        """Find each held-out feature among the training features (before the blocks are allocated)."""
        budget.require("matching of held-out features", IdIndex.n_bytes(train.n_features))
        theirs = getattr(getattr(train, "meta", None), "holdout_fingerprint", "")
        self.note = stranger_note(self.source, train.fingerprint, theirs)
        index = IdIndex(train.n_features).fill(train.feature_id_pieces())
        self.mapping = np.empty(self.source.n_features, np.int32)
        for start, ids in self.source.feature_id_pieces():
            self.mapping[start : start + len(ids)] = index.find(ids)
        self.arena = Arena(self.arena_bytes)

    def score(self, w: np.ndarray, bias: float) -> float:
        """Share of labelled rows whose label, or whole set, is predicted, or the root of their mean squared error."""
        weights = side_by_side(self.n_vectors, self.source.n_features + 1)
        known = self.mapping >= 0
        for mine, theirs in zip(weights, w.reshape(self.n_vectors, -1), strict=True):
            mine[:-1][known] = theirs[self.mapping[known]]
            mine[-1] = theirs[-1]
        total = 0.0
        for chunk in range(len(self.source.chunks)):
            block = self.source.read_block(np.array([chunk]), self.arena)
            pieces, y = decision_pieces(block.entries, weights, bias), block.y
            total += sum_squared_errors(pieces, y) if self.real else count_right(pieces, y, self.member, self.ranks)
        mean = total / self.n_scored
        return math.sqrt(mean) if self.real else mean

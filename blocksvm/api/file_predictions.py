"""Predictions of files from Python: of text, tables, matrices and stores, read as the training rows were."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError, InputWarning, one_of, option
from blocksvm.base.inputs import names_of_inputs, one_run
from blocksvm.base.memory import MEMORY
from blocksvm.base.settings import n_threads
from blocksvm.learners.engine.joint_map import place_of
from blocksvm.model.model_file import Model, describe_model, labels_predicted
from blocksvm.model.probabilities import link_of
from blocksvm.model.scoring import StoreScorer, TextScorer, is_store

LABELS, SCORES, PROBABILITIES = KINDS = ("labels", "scores", "probabilities")


@one_run()
def predict_files(
    model: str | Path | Model,
    inputs: str | Path | Iterable[str | Path],
    kind: str = LABELS,
    *,
    memory: int | str = 1_000_000_000,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Predictions of the rows of files, in the order of their source, as ``blocksvm predict`` makes them.

    model: a model's file, or a model that was loaded from one; inputs: a path or several of text, a table or a matrix,
    or the path of a store; kind: 'labels' (n,) as ``Model.predict`` returns them, 'scores' (n,) or (n, k) float64,
    the decision values, or 'probabilities' as ``Model.predict_proba`` returns them; memory: to use beside what is
    returned, in bytes or as text such as "2GB"; n_jobs: threads (None: 1, -1: as many as processors).  Raises
    InputError where a file is missing or malformed, and where the model gives no probabilities.
    """
    if kind not in KINDS:
        raise InputError(f"{option('kind', kind)}: {one_of(str(kind), KINDS)}")
    path = model.path if isinstance(model, Model) else model
    if not str(path):
        raise InputError("the model lies in no file, which says how files are read; save it, and load it")
    place = place_of(model.meta) if isinstance(model, Model) and model.joint is not None else None
    description, threads = describe_model(path), n_threads(n_jobs)
    link = link_of(description, str(path)) if kind == PROBABILITIES else None
    names, budget = names_of_inputs(inputs), MEMORY.checked(memory)
    scorer: TextScorer | StoreScorer
    if len(names) == 1 and is_store(names[0]):
        scorer = StoreScorer(path, names[0], budget, True, place, threads)
        pieces = scorer.scores()
    else:
        scorer = TextScorer(path, budget, joint=place, n_jobs=threads)
        pieces = scorer.scores(names)
    values = np.concatenate([scores.values for scores in pieces])
    for text in (scorer.note, scorer.coverage.warning()):
        if text:
            warnings.warn(text.partition(": ")[2], InputWarning, stacklevel=3)
    if kind == LABELS:
        return labels_predicted(values, scorer.model.labels, scorer.model.multilabel, scorer.model.ranks)
    return values if link is None else link(values)

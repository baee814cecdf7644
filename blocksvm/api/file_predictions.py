"""Predictions of files from Python: of text, tables, matrices and stores, read as the training rows were."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from blocksvm.base.errors import InputError, InputWarning, one_of, option
from blocksvm.base.inputs import names_of_inputs, one_run
from blocksvm.base.memory import MEMORY
from blocksvm.base.settings import n_threads
from blocksvm.formats import FORMATS, get_format
from blocksvm.model.model_file import Model, describe_model, labels_predicted
from blocksvm.model.probabilities import link_of
from blocksvm.model.scoring import StoreScorer, TextScorer, is_store

LONGEST_SHOWN = 60  # characters of a text
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

    model: a model, or a model's file; inputs: a path or several of text, tables or matrices, or that of a store; kind:
    'labels' (n,) as ``Model.predict`` returns them, 'scores' (n,) or (n, k) float64, the decision values, or
    'probabilities' as ``Model.predict_proba`` returns them; memory: to use beside what is returned, in bytes or as text
    such as "2GB"; n_jobs: threads (None: 1, -1: as many as processors).  Warns as the command does.  Raises InputError
    where a file is missing or malformed, and where the model gives no probabilities.

        >>> blocksvm.predict_files("model.h5", "rows.svm")[:4]
        array([ 1., -1.,  1., -1.])
    """
    if kind not in KINDS:
        raise InputError(f"{option('kind', kind)}: {one_of(str(kind), KINDS)}")
    names, budget, threads = names_of_inputs(inputs), MEMORY.checked(memory), n_threads(n_jobs)
    with file_of(model) as path:
        description = describe_model(path)
        if (name := description.text.format) in FORMATS and hasattr(get_format(name), "ngrams"):
            _check_texts(names)
        link = link_of(description, str(path)) if kind == PROBABILITIES else None
        scorer: TextScorer | StoreScorer
        if len(names) == 1 and is_store(names[0]):
            scorer = StoreScorer(path, names[0], budget, True, threads)
            pieces = scorer.scores()
        else:
            scorer = TextScorer(path, budget, n_jobs=threads)
            pieces = scorer.scores(names)
        if isinstance(model, Model) and not model.path:
            scorer.coverage.model = "the model"
        values = np.concatenate([scores.values for scores in pieces])
    remarks = [text.partition(": ")[2] for text in (scorer.note, scorer.coverage.warning()) if text]
    for text in (*remarks, *scorer.coverage.notes):
        warnings.warn(text, InputWarning, stacklevel=3)
    if kind == LABELS:
        return labels_predicted(values, scorer.model.labels, scorer.model.multilabel, scorer.model.ranks)
    return values if link is None else link(values)


@contextmanager
def file_of(model: str | Path | Model) -> Iterator[str | Path]:
    """The model's file; of one that lies in none a file that is there for a while, as files are read by."""
    if not isinstance(model, Model) or model.path:
        yield model.path if isinstance(model, Model) else model
        return
    with TemporaryDirectory(prefix="blocksvm-") as folder:
        model.save(path := Path(folder, "model.h5"))
        yield path


def _check_texts(names: list[str]) -> None:
    """InputError for a text in the place of a file's name."""
    text = next((name for name in names if name != "-" and "://" not in name and not os.path.exists(name)), None)
    if text is not None:
        raise InputError(
            f"{text[:LONGEST_SHOWN]}: no such file; to_estimator(model).predict(texts) predicts texts in memory"
        )

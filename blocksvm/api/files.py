"""Files from Python: text, tables and matrices to a store in one call, and predictions of them and of stores."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

import numpy as np

from blocksvm.api import SettingKeywords
from blocksvm.base.errors import InputError, one_of, option
from blocksvm.base.memory import MEMORY
from blocksvm.base.settings import n_threads, split_fields
from blocksvm.conversion.convert import COMMON, SplitProgress, SplitSettings, settings_of_store, split_rows
from blocksvm.files.paths import one_run
from blocksvm.formats.choices import is_table, is_text
from blocksvm.formats.file_reader import inputs_given
from blocksvm.model.decision_values import labels_predicted
from blocksvm.model.model_file import Model, describe_model
from blocksvm.model.probabilities import link_of
from blocksvm.model.scoring import scored_at_once, scorer_of
from blocksvm.store.descriptions import as_json

LONGEST_SHOWN = 60  # characters of a text
LABELS, SCORES, PROBABILITIES = KINDS = ("labels", "scores", "probabilities")


def write_store(inputs: Any, store: str | Path, *, holdout_store: str | Path | None = None,
                progress: Callable[[SplitProgress], None] | None = None,
                **settings: Unpack[SettingKeywords]) -> dict:  # fmt: skip
    """Convert text, tables or matrices to a store (and a second one of held-out rows); returns its description,
    as ``blocksvm info --json`` writes it (n_samples, n_features, n_nonzeros, labels with their numbers of rows, ...).

    inputs: a path or several, plain or compressed, or "-" for standard input; or a table in memory (anything with
    ``__arrow_c_stream__``), or an iterable of such or of Arrow's record batches; progress is called with a
    ``SplitProgress`` after each piece; settings: named as the options of ``blocksvm split`` are, those of the format
    among them (``write_store("t.csv", "t.h5", label="y", bits=20)``).  Raises InputError for anything wrong with them,
    for outputs that exist (without ``overwrite``) or cannot be written, and where memory or disk space do not suffice.
    Nothing is left over after an error.

        >>> description = blocksvm.write_store("rows.svm", "new.h5", normalize="l2", seed=1)
        >>> description["n_samples"], description["n_features"]
        (60, 4)
    """
    given, options = split_fields(SplitSettings, settings, ("options",))
    if "like" not in given:
        chosen = SplitSettings(**given, options=options)
    else:
        common = {name: given.pop(name) for name in COMMON if name in given}
        chosen = settings_of_store(given.pop("like"), common, options, like=True, **given)
    return as_json(split_rows(inputs, store, chosen, holdout_store, progress))


@one_run()
def predict_files(model: str | Path | Model, inputs: Any, kind: str = LABELS, *, memory: int | str = 1_000_000_000,
                  n_jobs: int | None = None) -> np.ndarray:  # fmt: skip
    """Predictions of the rows of files or tables, in the order of their source, as ``blocksvm predict`` makes them.

    model: a model, or a model's file; inputs: a path or several of text, tables or matrices, or that of a store, or a
    table in memory, as ``write_store`` takes it, for a model of a table; kind: 'labels' (n,) as ``Model.predict``
    returns them, 'scores' (n,) or (n, k) float64, the decision values, or 'probabilities' as ``Model.predict_proba``
    returns them; memory: to use beside what is returned, in bytes or as text such as "2GB"; n_jobs: threads (None: 1,
    -1: as many as processors).  Warns as the command does.  Raises InputError where a file is missing or malformed, and
    where the model gives no probabilities.

        >>> blocksvm.predict_files("model.h5", "rows.svm")[:4]
        array([ 1., -1.,  1., -1.])
    """
    if kind not in KINDS:
        raise InputError(f"{option('kind', kind)}: {one_of(str(kind), KINDS)}")
    given, budget, threads = inputs_given(inputs), MEMORY.checked(memory), n_threads(n_jobs)
    with file_of(model) as path:
        description = describe_model(path)
        name = description.text.format
        textual = is_text(name, description.text.options)
        if not isinstance(given, list) and not (textual or is_table(name)):
            raise InputError(f"{path}: was trained on {name}, and a table is to be predicted; give files of {name}")
        if isinstance(given, list) and textual:
            text = next((one for one in given if one != "-" and "://" not in one and not os.path.exists(one)), None)
            if text is not None:  # in the place of a file's name
                shown = text[:LONGEST_SHOWN]
                raise InputError(f"{shown}: no such file; load_model(model).predict(texts) predicts texts in memory")
        link = link_of(description, str(path)) if kind == PROBABILITIES else None
        scorer = scorer_of(path, given, budget, n_jobs=threads)
        in_memory = isinstance(model, Model) and not model.path
        values = scored_at_once(scorer, "the model" if in_memory else str(path), 3)
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

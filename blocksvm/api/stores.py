"""Stores from Python: from text and other inputs to a store in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Unpack

from blocksvm.api.setting_keywords import StoreSettings
from blocksvm.base.inputs import names_of_inputs
from blocksvm.base.settings import split_fields
from blocksvm.conversion.convert import COMMON, SplitProgress, SplitSettings, settings_of_store, split_rows


def write_store(
    inputs: str | Path | Iterable[str | Path],
    store: str | Path,
    *,
    holdout_store: str | Path | None = None,
    progress: Callable[[SplitProgress], None] | None = None,
    **settings: Unpack[StoreSettings],
) -> dict:
    """Convert text, tables or matrices to a store (and a second one of held-out rows); returns its description,
    as ``blocksvm info --json`` writes it (n_samples, n_features, n_nonzeros, labels with their numbers of rows, ...).

    inputs: a path or several, plain or compressed, or "-" for standard input; progress is called with a
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
    return split_rows(names_of_inputs(inputs), store, chosen, holdout_store, progress)

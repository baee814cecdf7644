"""A table of weights: a line for each feature, by id and, where there are names, by name; CSV, or Parquet."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import label_text
from blocksvm.exchange.linear import Linear, linear_of
from blocksvm.files.output import as_text
from blocksvm.files.paths import Location
from blocksvm.model.model_file import Model
from blocksvm.store.reader import Store

AT_ONCE = 1 << 14  # lines
INTERCEPT = "(intercept)"


def names_of_model(model: Model, path: Location | None = None) -> list[str] | None:
    """The names of the model's features in the order of their ids, as its own file has them, None where that has none;
    or as a store has them, '' for those that it does not know.  InputError where its features have no names."""
    order = np.argsort(model.feature_ids, kind="stable")
    if path is None:
        own = model.feature_names
        return own and [own[k] for k in order.tolist()]
    ids, names = model.feature_ids[order], [""] * len(order)
    with Store(path) as store:
        if not store.named:
            raise InputError(f"{path}: its features have no names; name a store made of text with names, as vw")
        for start, ids_of_store in store.feature_id_pieces():
            names_of_store = store.feature_names(start, start + len(ids_of_store))
            positions = np.searchsorted(ids, ids_of_store)
            for k in np.flatnonzero(np.append(ids, -1)[positions] == ids_of_store).tolist():
                names[positions[k]] = names_of_store[k]
    return names


def columns(linear: Linear, names: list[str] | None) -> Iterator[list[list]]:
    """The columns of the features in rising order, some lines at a time; first the intercept, without id and factor."""
    if linear.intercept.any():
        name = [] if names is None else [[INTERCEPT]]
        yield [[None], *name, *[[None]] * len(linear.factors), *linear.intercept[:, None].tolist()]
    for start in range(0, len(linear.ids), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        name = [] if names is None else [names[part]]
        factors = [values[part].tolist() for values in linear.factors.values()]
        yield [linear.ids[part].tolist(), *name, *factors, *linear.weights[:, part].tolist()]


def write(model: Model, file: IO[bytes], names: Path | None = None, parquet: bool = False) -> tuple[str, ...]:
    """Write CSV, or Parquet; names: a store that names the features.  Returns notes for users of the table."""
    linear, named = linear_of(model, apart=True), names_of_model(model, names)
    vectors = ["weight"] if len(linear.weights) == 1 else [label_text(label) for label in linear.labels]
    heads = ["id", *([] if named is None else ["name"]), *linear.factors, *vectors]
    if parquet:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        kinds = [pa.int64(), *([] if named is None else [pa.string()])]
        kinds += [pa.float64()] * (len(heads) - len(kinds))
        schema = pa.schema(list(zip(heads, kinds, strict=True)))
        with ParquetWriter(file, schema) as rows:
            for part in columns(linear, named):
                arrays = [pa.array(column, kind) for column, kind in zip(part, kinds, strict=True)]
                rows.write_table(pa.Table.from_arrays(arrays, schema=schema))
    else:
        with as_text(file) as text:
            out = csv.writer(text, lineterminator="\n")
            out.writerow(heads)
            for part in columns(linear, named):
                out.writerows(zip(*part, strict=True))
    return linear.steps + linear.notes

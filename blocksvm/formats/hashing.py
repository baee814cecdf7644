"""Feature hashing: a reader around another one that adds up the features that meet; and the reader for a recipe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from msgspec import structs

from blocksvm.base.errors import option
from blocksvm.base.row_batch import RowBatch
from blocksvm.formats import get_format
from blocksvm.formats.format import ParseBuffer, Reader, ReaderOptions
from blocksvm.formats.text.text_source import TextPiece
from blocksvm.formats.weighing import WeighingReader
from blocksvm.kernels.hash_table import hash_rows


class HashingReader:
    """Rows of another reader with their ids hashed below 2^bits: ``RowBatch.ids`` are the hashes, int32."""

    def __init__(self, reader: Reader, reading: ReaderOptions):
        self.reader = reader
        self.recipe = reading.recipe
        self.cure = f" or raise {option('bits')}" if "bits" in reading.offers else ""
        self.expansion = reader.expansion  # hashes lie where consumers count their positions in a table

    def parse(self, piece: TextPiece, buffer: ParseBuffer | None = None) -> RowBatch:
        recipe = self.recipe
        batch = self.reader.parse(piece, buffer)
        hashes = (buffer or ParseBuffer()).take("hashes", len(batch.ids), np.int32)
        rows, largest = hash_rows(batch.indptr, batch.ids, batch.values, recipe.bits, recipe.l2, recipe.single, hashes)
        nnz = batch.indptr[rows]
        ids, values, largest = hashes[:nnz], batch.values[:nnz], max(batch.largest, largest)
        batch = replace(batch, ids=ids, values=values, names=None, largest=largest)
        wrong = f"values that hashing adds up lie beyond {recipe.dtype}; scale the features{self.cure}"
        return batch.until(rows, wrong)


def reader_of(reading: ReaderOptions) -> Reader:
    """A reader of the format that the recipe names, its features hashed and weighed if the recipe says so."""
    recipe = reading.recipe
    plain = structs.replace(recipe, normalize="none") if recipe.factor else recipe  # scaled when weighed
    inner = replace(reading, recipe=plain, named=reading.named and recipe.bits is None)
    reader = get_format(recipe.format).reader(inner)
    if recipe.bits is not None:
        reader = HashingReader(reader, inner)
    return reader if reading.factors is None else WeighingReader(reader, recipe, reading.factors)

"""The reader for a recipe, and those around another one that hash features and multiply values by their factors.

Of n rows in which a feature occurs in df, its inverse document frequency is ln((1 + n) / (1 + df)) + 1 ('smooth'), or
ln(n / df) + 1 ('plain'), as in scikit-learn's TfidfTransformer.  Its scale is 1 / max |x| ('max-abs'), as in
MaxAbsScaler, or 1 / sqrt(E[x^2] - E[x]^2) over all n rows, those without it among them ('deviation'), as in
StandardScaler(with_mean=False); 1 where that would divide by 0.  All are counted once, over the rows that a model is
trained on.  Values are not centred, as hardly any would remain 0.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from msgspec import structs

from blocksvm.base.errors import option
from blocksvm.base.row_batch import RowBatch
from blocksvm.formats import get_format
from blocksvm.formats.format import ParseBuffer, Reader, ReaderOptions
from blocksvm.formats.kernels.closing import weigh_rows
from blocksvm.formats.text.text_source import TextPiece
from blocksvm.kernels.hash_table import hash_rows
from blocksvm.store.recipe import SMOOTH

BEYOND = "values times their features' factors lie beyond {}; scale or mend them"


def idf_of(counts: np.ndarray, n_rows: int, kind: str) -> np.ndarray:
    """Factors (d,) float64 of features that occur in ``counts`` (d,) of ``n_rows`` rows, in each at least once."""
    more = 1.0 if kind == SMOOTH else 0.0
    factors = counts.astype(np.float64)
    factors += more
    np.divide(n_rows + more, factors, out=factors)
    np.log(factors, out=factors)
    factors += 1.0
    return factors


def divisors_of(sums: np.ndarray, n_rows: int) -> np.ndarray:
    """What the values of features are divided by (d,) float64: their largest sizes or their standard deviations over
    ``n_rows`` rows, by their ``sums`` (``add_values``); 1 where that is 0, inf where it is beyond float64."""
    divisors = sums[:, 0]
    if sums.shape[1] > 1:
        counts, means, squares = sums.T
        with np.errstate(over="ignore"):
            divisors = np.sqrt((squares + counts * (n_rows - counts) / n_rows * means * means) / n_rows)
    return np.where(divisors < np.finfo(np.float64).tiny, 1.0, divisors)


@dataclass(frozen=True)
class FeatureFactors:
    """Factors of known features: ``find(ids)`` gives the positions (int32) of ids, -1 of unknown ones; by_feature (d,)
    float64; fingerprint: equal only where all this is."""

    find: Callable[[np.ndarray], np.ndarray]
    by_feature: np.ndarray
    fingerprint: str = ""


class WeighingReader:
    """Rows of another reader, whose values it neither scales nor weighs, by known features alone: each value times its
    feature's factor, then, where the recipe says so, each row divided by its norm."""

    def __init__(self, reader, recipe, factors: FeatureFactors):
        self.reader, self.recipe, self.factors = reader, recipe, factors
        self.expansion = reader.expansion

    def parse(self, piece: TextPiece, buffer=None) -> RowBatch:
        recipe = self.recipe
        batch = self.reader.parse(piece, buffer)
        sq_norms, positions = np.empty(len(batch)), np.empty(0 if batch.names is None else len(batch.ids), np.int64)
        found = self.factors.find(batch.ids)
        left_out = batch.ids[found < 0]
        rows = weigh_rows(
            batch.indptr, batch.ids, found, batch.values, self.factors.by_feature, recipe.l2,
            recipe.single, sq_norms, positions,
        )  # fmt: skip
        nnz, names = batch.indptr[rows], batch.names
        if names is not None:
            names = names[0], names[1][positions[:nnz]], names[2][positions[:nnz]]
        largest = float(sq_norms[:rows].max(initial=0.0))
        batch = replace(batch, ids=batch.ids[:nnz], values=batch.values[:nnz], names=names, largest=largest,
                        left_out=left_out)  # fmt: skip
        return batch.until(rows, BEYOND.format(recipe.dtype))


class HashingReader:
    """Rows of another reader, ids hashed below 2^bits (int32), values of those that meet added up."""

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

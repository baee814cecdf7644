"""The layout of a store, and the descriptions of our files as JSON: named once for who writes and who reads them.

    /words     uint64 (n_parts * S,)   the rows, packed as kernels/rows.py says, HDF5-chunked at S: each HDF5 chunk
               ("part") is one Blosc buffer
    /rows      one record a row: label, ||x||^2, number in the source, and, in stores in which some row has another
               weight than 1, its weight
    /chunks    one record a chunk: its rows, nonzeros, words, parts, checksum of its row records
    /parts     one record a part: where its bytes lie in the file, their checksum
    /features/ids   the user's id of each feature; features are numbered by falling frequency (ties: first seen first)
    /features/idf   where values were multiplied by their features' factors, idf or scale: these
    /features/names, name_ends   where features have names: UTF-8 bytes; feature j's name ends at name_ends[j], and
               begins where the one before it ends
    /labels    where labels are not numbers, the distinct ones, rising, as JSON, a set as a list of its members, rising;
               a row's label is then its position among them
    /meta      JSON: counts, labels, sources, settings, checksums of the tables; its own checksum is an attribute

A row without a label has nan.  The arrays of /features and /labels are under HDF5's own checksums.

Words that hardly compress are stored as they are (HDF5 marks such parts); a part's size tells.

A description is validated whole when it is written and when it is read, so that its users need not check again; one
with a default may be missing.  Whole and Size are whole numbers of 0 or more, a Count is one of 1 or more.

A chunk is a run of rows that begins on a part boundary; the last part is padded with zeros.  A chunk has one part,
unless it is a single row of more than S words.
"""

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct, field

from blocksvm.base.labels import NUMBERS
from blocksvm.store.recipe import UNCHANGED, Recipe

ROW = np.dtype([("label", "<f8"), ("sq_norm", "<f8"), ("source", "<u8")])
WEIGHTED_ROW = np.dtype([*ROW.descr, ("weight", "<f8")])
CHUNK = np.dtype([("first_row", "<u8"), ("n_rows", "<u4"), ("nnz", "<u8"), ("words", "<u8"), ("first_part", "<u8"),
                  ("n_parts", "<u4"), ("rows_checksum", "<u8")])  # fmt: skip
PART = np.dtype([("offset", "<u8"), ("size", "<u4"), ("checksum", "<u8")])

Whole = Annotated[int, Meta(ge=0)]
Size = Annotated[int, Meta(ge=0, lt=2**62)]
Count = Annotated[int, Meta(ge=1, lt=2**62)]
Numbers = Annotated[list[float], Meta(min_length=1)]
Pair = Annotated[list[float], Meta(min_length=2)]
Cost = Annotated[list[float | Pair], Meta(min_length=1)]  # or one such list a class
Values = Literal["ones", "float32", "float64"]
Dtype = Literal["|u1", "|i1", "|b1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"]


class SourceMeta(Struct):
    name: str
    text_bytes: Size
    first_row: Size = 0
    bytes: Size | None = None
    fingerprint: str = ""


class StepMeta(Struct):
    fingerprint: str
    n_samples: Count


class StoreSettingsMeta(Struct):
    order: Literal["stored", "shuffled"]
    seed: int = 0
    min_count: int = 1
    top_features: int | None = None
    duplicates: str = "error"
    normalize: str = "none"
    dtype: str = ""
    holdout: float = 0.0
    weights: str | None = None
    idf: str = UNCHANGED
    scale: str = UNCHANGED


class StoreMeta(Struct, kw_only=True):
    n_samples: Count
    n_features: Size
    n_nonzeros: Size
    n_chunks: Count
    n_parts: Size
    chunk_nonzeros: Annotated[int, Meta(ge=1, le=2**28)]
    part_words: Annotated[int, Meta(ge=1, le=2**28)]
    values: Values
    max_norm: float
    labels: list[tuple[float | str | tuple[float | str, ...], Whole]] | None
    codec: str
    chunks_checksum: Whole
    parts_checksum: Whole
    fingerprint: str
    settings: StoreSettingsMeta
    sources: list[SourceMeta]
    source_rows: Size
    label_kind: Literal["numbers", "strings", "sets"] = "numbers"
    n_labels: Size = 0
    n_unlabelled: Size = 0
    weighted: bool = False
    total_weight: float | None = None
    label_weights: list[float] | None = None
    named: bool = False
    idf_fingerprint: str = ""
    idf_from: str = ""
    holdout_fingerprint: str = ""
    training_fingerprint: str = ""
    recipe: Recipe = field(default_factory=Recipe)
    history: list[StepMeta] = []
    notes: list[str] = []
    features_left_out: Size = 0
    more_left_out: bool = False

    def __post_init__(self) -> None:
        counts, n = self.labels, self.n_samples
        if counts is not None:
            labels = [label for label, _ in counts]
            kind = {NUMBERS: float, "strings": str, "sets": tuple}[self.label_kind]
            of_rows = sum(rows for _, rows in counts) + self.n_unlabelled
            require(all(type(label) is kind for label in labels), f"its labels are not {self.label_kind}")
            require(_rising(labels), "its labels do not rise")
            require(self.label_kind == NUMBERS or len(labels) == self.n_labels,
                    "its labels are not as many as its n_labels")  # fmt: skip
            require(of_rows == n, "its labels are not of as many rows as it has")
        require(self.weighted != (self.total_weight is None), "its weighted and its total_weight disagree")
        require(self.label_weights is None or (counts is not None and len(self.label_weights) == len(counts)),
                "its label_weights are not as many as its labels")  # fmt: skip
        require(n <= self.source_rows, "it has more rows than its source")
        sizes = [*(step.n_samples for step in self.history), n]
        require(sizes == sorted(sizes), "its history does not lead to the rows that it has")


def require(holds: bool, sentence: str) -> None:
    if not holds:
        raise ValueError(sentence)


def _rising(values: list) -> bool:
    try:
        return all(a < b for a, b in pairwise(values))
    except TypeError:  # sets of numbers and of strings
        return False


class MethodMeta(Struct):
    """settings: by name, those that the solver or learner has."""

    name: str
    learner: bool
    settings: dict[str, Any]

    @property
    def loss(self) -> str | None:
        return self.settings.get("loss")

    def __post_init__(self) -> None:
        require(isinstance(self.loss, str | None), "its loss is no name")


@dataclass(frozen=True)
class CertificateMeta:
    """Primal, dual and gap over all rows for one fixed w; dual and rel_gap are None for a primal method, all three for
    an online learner. accuracy: the share of the rows with a label whose label is predicted; None where targets are
    real numbers. rmse: of these, the root of the mean squared error of the rows; None where some were not read.
    Whatever was rounded, P(w) <= primal, D(a) >= dual, and the relative gap <= rel_gap; rounding: the part of rel_gap
    that is the bound of what was rounded. alpha_factors: with a free bias, by which the saved dual variables with a
    direction < 0 and above 0 are to be multiplied, so that sum a direction = 0: the dual is theirs. by_class: of
    several problems, one a class, the primal, dual, rel_gap and rounding of each; then primal and dual are their sums,
    and the others those of the largest gap."""

    primal: float | None
    dual: float | None
    rel_gap: float | None
    accuracy: float | None
    rmse: float | None = None
    alpha_factors: tuple[float, float] | None = None
    by_class: dict[str, list[float]] | None = None
    rounding: float | None = None


class PlattMeta(Struct, tag_field="kind", tag="platt"):
    slope: float
    intercept: float


class IsotonicMeta(Struct, tag_field="kind", tag="isotonic"):
    values: Numbers
    probabilities: Numbers

    def __post_init__(self) -> None:
        rising = all(a <= b for a, b in pairwise(self.values))
        require(rising and len(self.values) == len(self.probabilities), "its values are no rising corners")


Calibration = PlattMeta | IsotonicMeta


class KernelMeta(Struct):
    name: Literal["linear", "polynomial", "rbf"]
    gamma: float
    coef0: float
    degree: Count
    n_support: Size
    n_nonzeros: Size


class PartitionMeta(Struct):
    """Of a run's blocks; unit_bytes: None of rows in memory; on_cluster: workers have read them."""

    resident: bool
    capacity: Size
    set_bytes: Size | None = None
    unit_bytes: Count | None = None
    on_cluster: bool = False


class RunMeta(Struct, kw_only=True):
    """What the files of a run have in common.  settings: of the run, by name; cost: C by class, or by problem and
    class; earlier: fingerprints of the models that it began with."""

    n_features: Size
    fingerprint: str | None
    method: MethodMeta
    settings: dict[str, Any]
    cost: Cost | None = None
    partition: PartitionMeta | None = None
    earlier: list[str | None] = []
    seconds: float
    versions: dict[str, str]

    @property
    def constant(self) -> float | str:
        """The setting ``bias``."""
        return self.settings.get("bias") or 0.0

    def __post_init__(self) -> None:
        require(len({type(one) for one in self.cost or ()}) <= 1, "its cost is neither numbers nor lists of them")
        number = isinstance(self.constant, int | float)
        require(number or self.constant == "free", "its bias is neither a number nor free")


class StreamProgressMeta(Struct):
    """Of a stream: its rows, and what they have cost."""

    rows: Size
    cumulative_loss: float
    mistakes: Size | None
    squared_errors: float | None = None
    cumulative_cost: float | None = None
    asked: Size | None = None
    skipped: Size = 0
    unlabelled: Size = 0


class SparseMeta(Struct):
    """Weights that are kept one by one: how many; and those that were left out, being smaller than ``drop_below``."""

    n_weights: Size
    n_dropped: Size = 0
    drop_below: float = 0.0


class ModelMeta(RunMeta, kw_only=True):
    """bias: value of the constant feature; status: how the run ended, 'stream' or 'imported'; outer_of_weights: where
    the weights are those of an earlier outer iteration; radius: of a model of rows without labels; columns, label_type:
    of an estimator's matrices and labels; content: an xxHash of ids, weights and support vectors, '' in memory."""

    bias: float
    n_samples: Size
    store: str
    labels: list[float | str]
    prior: str | None
    prior_fingerprint: str | None
    text: Recipe
    values: Values
    certificate: CertificateMeta | None
    status: str
    outer: Size
    passes: list[Size]
    n_vectors: Count
    multilabel: bool = False
    ranks: bool = False
    calibration: Calibration | None = None
    kernel: KernelMeta | None = None
    sparse: SparseMeta | None = None
    idf_fingerprint: str | None = None
    holdout_fingerprint: str | None = None
    set_passes: list[Size] = []
    outer_of_weights: Size | None = None
    progress: StreamProgressMeta | None = None
    radius: float | None = None
    columns: Annotated[int, Meta(ge=1, le=2**40)] | None = None
    label_type: str = ""
    content: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        k = len(self.labels)  # 0 where the targets are real numbers
        require(k != 1 and _rising(self.labels), "its labels are not two or more of one kind that rise, or none")
        require(self.n_vectors in (1, k), "it has not one vector of weights for each of its labels")


class CheckpointMeta(RunMeta, kw_only=True):
    """arrays: type and length, by name space and name; progress, tally: where the run stands (training/record.py)."""

    partition: PartitionMeta
    arrays: dict[str, dict[str, tuple[Dtype, Size]]]
    progress: dict[str, Any]
    tally: dict[str, Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        known = all(isinstance(self.progress.get(name), int) for name in ("outer", "visit"))
        require(known, "its progress has no outer iteration")


class StructureCertificateMeta(Struct):
    primal: float
    dual: float
    rel_gap: float


class StructureMeta(Struct, kw_only=True):
    """A model of outputs with structure."""

    task: str
    learner: str
    settings: dict
    n_features: Count
    n_weights: Count
    n_words: Size
    n_columns: Size
    labels: list[str]
    template: str
    certificate: StructureCertificateMeta | None
    trained_on: str
    epochs: Size
    seconds: float
    versions: dict
    n_pairs: Size = 0
    kind_sets: list[list[Size]] = []


Description = StoreMeta | ModelMeta | CheckpointMeta | StructureMeta
SCHEMAS: dict = {"store": StoreMeta, "model": ModelMeta, "checkpoint": CheckpointMeta, "structure": StructureMeta}


def parse(data: bytes, kind: str) -> Any:
    """The description of a file of this kind; ValueError, with what is wrong, where it is not one."""
    try:
        # not msgspec's own reader: names of files that are no text stand in descriptions as lone surrogates
        meta = json.loads(data, parse_constant=_finite, parse_float=_finite)
        return typed(meta, SCHEMAS[kind])
    except RecursionError:
        raise ValueError("its description is nested too deeply") from None


def as_json(description) -> Any:
    """As JSON holds it: a description, or what will be one."""
    # classes of their own are texts of the command line, and numbers of numpy
    return msgspec.to_builtins(description, enc_hook=lambda own: str(own) if isinstance(own, str) else own.item())


def typed(saved: dict, kind: Any):
    """An object of a class with annotated fields; ValueError where one is missing or of another type."""
    try:
        return msgspec.convert(as_json(saved), kind)
    except msgspec.ValidationError as error:
        text = str(error)  # it may quote a value of any length
        raise ValueError(f"its description: {text if len(text) < 300 else f'{text[:200]} ... {text[-80:]}'}") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"its description holds {text}, which is no number")
    return number

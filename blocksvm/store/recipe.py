"""Recipe: how text became features, so that a model's own text and any later text are read alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, field, structs

from blocksvm.base.errors import InputError, option
from blocksvm.base.settings import Setting, Settings

MOST_BITS = 31
NORMALIZE = ("none", "l2")
DUPLICATES = ("error", "sum")
DTYPES = ("float32", "float64")
UNCHANGED, SMOOTH, LARGEST = "none", "smooth", "max-abs"
IDF, SCALE = (UNCHANGED, SMOOTH, "plain"), (UNCHANGED, LARGEST, "deviation")
FACTORS = ("idf", "scale")  # steps of which there is one at most
RECIPE = Settings((
    Setting("bits", "hash feature ids to 2^BITS (default: keep them)", None, int, least=1, most=MOST_BITS,
            metavar="BITS"),
    Setting("duplicates", "a feature that occurs twice in a row: an error (default), or sum the values, as always of "
            "Vowpal Wabbit's text", "error", str, DUPLICATES),
    Setting("idf", "tf-idf: multiply values by ln((1 + rows) / (1 + rows with the feature)) + 1 (smooth), or without "
            "the ones in the fraction (plain); predict uses the same factors (default none)", UNCHANGED, str, IDF),
    Setting("scale", "divide the values of each feature by the largest of them (max-abs), or by their standard "
            "deviation with all zeros counted, which stay 0; predict divides by the same (default none)", UNCHANGED,
            str, SCALE),
    Setting("normalize", "l2: scale each row to norm 1, after the steps above (default none)", "none", str, NORMALIZE),
    Setting("dtype", "precision of the values", "float32", str, DTYPES),
))  # fmt: skip


class Recipe(Struct, frozen=True, forbid_unknown_fields=True):
    """The steps from text to features, in their order.  A file with another one is refused: without it features would
    mean something else.

    format: name of the format; duplicates: what a feature that occurs twice in a row is, an 'error' or the 'sum' of its
    values; bits: ids are hashed to 2^bits (None: they stay), and features that meet there are summed; idf
    ('smooth', 'plain') or scale ('max-abs', 'deviation'): values are multiplied by their feature's factor
    (formats/weighing.py), which lies beside the features, and features without one are left out; normalize: 'l2'
    divides each row by its Euclidean norm; dtype: what values are rounded to at the end, 'float32' or 'float64';
    options: the format's own settings, by name, as JSON holds them.
    """

    format: str = "svmlight"
    duplicates: str = "error"
    bits: int | None = None
    normalize: str = "none"
    dtype: str = "float32"
    options: Mapping[str, Any] = field(default_factory=dict)
    idf: str = UNCHANGED
    scale: str = UNCHANGED

    def __post_init__(self):
        for setting in RECIPE:
            structs.force_setattr(self, setting.name, setting.checked(getattr(self, setting.name)))
        if UNCHANGED not in (self.idf, self.scale):
            same = f"gives values that are the same with and without {option('idf')}"
            raise InputError(f"{option('scale', self.scale)}: {same}; leave one of them out")

    @property
    def sums(self) -> bool:
        return self.duplicates == "sum"

    @property
    def l2(self) -> bool:
        return self.normalize == "l2"

    @property
    def factor(self) -> str:
        """The step that multiplies values by a factor of their feature: 'idf', 'scale', or '' where there is none."""
        return next((name for name in FACTORS if getattr(self, name) != UNCHANGED), "")

    @property
    def single(self) -> bool:
        return self.dtype == "float32"

    def without(self, names: Collection[str]) -> Recipe:
        """Without these options: those that tell of one input only."""
        return structs.replace(self, options={name: v for name, v in self.options.items() if name not in names})


def recipe_of(source, dtype: str = "float32") -> Recipe:
    """Of a source's rows; of rows in memory nothing but the dtype is known."""
    meta = getattr(source, "meta", None)
    return Recipe(dtype=dtype) if meta is None else meta.recipe

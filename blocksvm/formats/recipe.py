"""Recipe: how text became features, so that a model's own text and any later text are read alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING

from blocksvm.base.errors import InputError, one_of, option
from blocksvm.formats.choices import OF_INPUTS

if TYPE_CHECKING:
    from blocksvm.store.descriptions import StoreMeta

MOST_BITS = 31
NORMALIZE = ("none", "l2")
DUPLICATES = ("error", "sum")
DTYPES = ("float32", "float64")
UNCHANGED, SMOOTH, LARGEST = "none", "smooth", "max-abs"
IDF, SCALE = (UNCHANGED, SMOOTH, "plain"), (UNCHANGED, LARGEST, "deviation")
FACTORS = ("idf", "scale")  # steps of which there is one at most
CHOICES = {"duplicates": DUPLICATES, "normalize": NORMALIZE, "dtype": DTYPES, "idf": IDF, "scale": SCALE}


@dataclass(frozen=True)
class Recipe:
    """The steps from text to features, in their order.

    format: name of the format; duplicates: what a feature that occurs twice in a row is, an 'error' or the 'sum' of its
    values; bits: ids are hashed to 2^bits (None: they stay), and features that meet there are summed; idf
    ('smooth', 'plain') or scale ('max-abs', 'deviation'): values are multiplied by their feature's factor
    (formats/weighing.py), which lies beside the features, and features without one are left out; normalize: 'l2'
    divides each row by its Euclidean norm; dtype: what values are rounded to at the end, 'float32' or 'float64';
    options: the format's own settings, by name, as JSON holds them."""

    format: str = "svmlight"
    duplicates: str = "error"
    bits: int | None = None
    normalize: str = "none"
    dtype: str = "float32"
    options: Mapping = field(default_factory=dict)
    idf: str = UNCHANGED
    scale: str = UNCHANGED

    def __post_init__(self):
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InputError(f"{option(name, getattr(self, name))}: {one_of(str(getattr(self, name)), choices)}")
        if UNCHANGED not in (self.idf, self.scale):
            raise InputError(
                f"{option('scale', self.scale)}: gives values that are the same with and without {option('idf')}; "
                "leave one of them out"
            )
        whole = isinstance(self.bits, int) and not isinstance(self.bits, bool)
        if self.bits is not None and not (whole and 1 <= self.bits <= MOST_BITS):
            raise InputError(f"{option('bits', self.bits)}: choose 1 to {MOST_BITS}")
        if not isinstance(self.format, str):
            raise InputError(f"{option('format', self.format)}: is not a format's name")
        if not isinstance(self.options, Mapping):
            raise InputError(f"{option('options', self.options)}: must be settings by name")

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

    def plain(self) -> dict:
        """As JSON holds it, without what tells of one input only; without options and factors, where there are none,
        as older programs read it."""
        saved = asdict(self) | {"options": {name: v for name, v in self.options.items() if name not in OF_INPUTS}}
        absent = {"options": {}, "idf": UNCHANGED, "scale": UNCHANGED}
        return {name: value for name, value in saved.items() if name not in absent or value != absent[name]}

    @classmethod
    def restored(cls, saved: Mapping, path) -> Recipe:
        """The recipe of ``plain``, from the file at ``path``; what older programs did not write has its default.

        Raises InputError for a step that this program does not know: without it features would mean something else.
        """
        if not isinstance(saved, Mapping):
            raise InputError(f"{path}: is damaged (the recipe of its features is not readable); make it again")
        unknown = set(saved) - {field.name for field in fields(cls)}
        if unknown:
            raise InputError(
                f"{path}: its features were made by {', '.join(sorted(unknown))}, which this program does not know; "
                "install a newer blocksvm"
            )
        try:
            return cls(**saved)
        except InputError as error:
            raise InputError(f"{path}: the recipe of its features is damaged ({error}); make it again") from error

    @classmethod
    def of_store(cls, meta: StoreMeta | None, path, dtype: str = "float32") -> Recipe:
        """From a store's description, of an older one from its settings; None: rows in memory.
        dtype: where nothing says it."""
        if meta is None:
            return cls(dtype=dtype)
        saved = meta.recipe
        if not isinstance(saved, Mapping):
            said = meta.settings
            saved = {"duplicates": said.duplicates, "normalize": said.normalize, "dtype": said.dtype or dtype}
        return cls.restored({"dtype": dtype} | saved, path)

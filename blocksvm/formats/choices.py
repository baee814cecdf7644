"""The settings of each format, as data, for options of commands and recipes of features; imports nothing heavy."""

import codecs
from collections.abc import Iterable, Mapping
from dataclasses import replace

from blocksvm.base.errors import InputError, option
from blocksvm.base.settings import Setting, Settings

LABEL_HELP = (
    "column of the labels: its name (default label), or its number (npy, no header); for npz, the name of an array"
)
# analyzer -> its number in the kernel that cuts n-grams
ANALYZERS = {"word": 0, "char": 1, "char_wb": 2}
LONGEST_NGRAM = 32
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": " "}


def ngrams_of(text: str) -> list[tuple[int, int, int]]:
    """(analyzer, least, most) of each part of 'word:1-3,char_wb:4'; InputError where it is none."""
    chosen, shown = {}, option("ngrams", text)
    for part in str(text).split(","):
        name, colon, lengths = part.partition(":")
        low, dash, high = lengths.partition("-")
        high = high if dash else low
        numbers = low.isascii() and low.isdigit() and high.isascii() and high.isdigit()
        if name not in ANALYZERS or not numbers or not 1 <= int(low) <= int(high) <= LONGEST_NGRAM:
            known = f"of {', '.join(ANALYZERS)}; lengths up to {LONGEST_NGRAM}"
            raise InputError(f"{shown}: is not a list such as word:1-3 or word:1-2,char_wb:4 ({known})")
        if name in chosen:
            raise InputError(f"{shown}: names {name} twice; give one range of lengths")
        chosen[name] = (ANALYZERS[name], int(low), int(high))
    return list(chosen.values())


# how features are made of texts, in whatever form these come
TEXT = (
    Setting("ngrams", "n-grams of documents, e.g. word:1-3 or word:1-2,char_wb:4-5 (default word:1)", "word:1",
            lambda text: ngrams_of(text) and str(text), metavar="LIST"),
    Setting("case", "letters of texts: lower (default), or keep them as they are", "lower", str, ("lower", "keep")),
    Setting("accents", "accents of texts: keep (default), or strip them from their letters", "keep", str,
            ("keep", "strip")),
)  # fmt: skip


def _mark(name: str, words: Iterable[str]):
    """A kind of setting: one character, or a word for it."""

    def checked(value) -> str:
        text = str(value)
        if text in words or (len(text) == 1 and text.isascii() and text not in "\r\n"):
            return text
        raise InputError(f"{option(name, text)}: give one character{', or ' + ', '.join(words) if words else ''}")

    return checked


TABLE = (
    Setting("label", "column of the labels: its name, or its number without a header", "label", str, metavar="COLUMN"),
    Setting("categorical", "columns of categories, e.g. zip,C*; auto: all columns whose cells are not numbers", "auto",
            str, metavar="COLUMNS"),
    Setting("ignore", "columns to leave out, e.g. id,date*", None, str, metavar="COLUMNS"),
    Setting("numeric", "columns of numbers, even where some of the first rows have other cells, or they are strings",
            None, str, metavar="COLUMNS"),
)  # fmt: skip
TEXT_COLUMNS = Setting("text", "columns of texts, joined by a space, of whose n-grams alone features are made, e.g. "
                       "title,body", None, str, metavar="COLUMNS")  # fmt: skip
JSON = (
    Setting("text", "key of the text, within others by dots, or several, joined by a space", "text", str,
            metavar="KEYS"),
    Setting("label", "key of the labels, within others by dots", "label", str, metavar="KEY"),
)  # fmt: skip


def _encoding(name) -> str:
    try:
        return codecs.lookup(str(name)).name
    except LookupError:
        raise InputError(f"{option('encoding', name)}: no such encoding; give one as utf-8 or latin1") from None


ENCODING = Setting("encoding", "encoding of the texts, e.g. latin1", "utf-8", _encoding, metavar="NAME")
LABEL_SETS = Setting("label_sets", "whether rows have a set of labels each: auto (if one of the first lines has "
                     "several), yes, or no", "auto", str, ("auto", "yes", "no"))  # fmt: skip
CUT = (
    Setting("header", "the first line has the columns' names: auto, yes, or no (they are then 1, 2, ...)", "auto", str,
            ("auto", "yes", "no")),
    Setting("delimiter", "separator of cells: a character, or comma, semicolon, tab, bar, space (default: by format)",
            None, _mark("delimiter", DELIMITERS), metavar="CHARACTER"),
    Setting("decimal", "decimal separator: . or ,", ".", str, (".", ",")),
    Setting("quote", "character that quotes cells, or none", '"', _mark("quote", ("none",)), metavar="CHARACTER"),
)  # fmt: skip
MATRIX_LABEL = Setting(
    "label", "the labels: name of an array (npz), number of a column (npy), column of obs (h5ad)", None, str
)
LABELS_FROM = Setting("labels_from", ".npy file with the labels of the rows", None, str, metavar="FILE")
# settings that tell of one input, and nothing of what a model's features are; how its lines are cut, which later rows
# share unless another is given; and what of it is the label, and left out, when rows are only predicted
OF_INPUTS = ("labels_from",)
OF_LINES = tuple(setting.name for setting in CUT)
PREDICTED = (*OF_INPUTS, *OF_LINES, "label", "ignore", "text", "encoding")
KINDS = "kinds"  # in the recipe of a table: what its columns are
WORDS = "words"  # in a recipe: labels are words
LABEL_TYPE = "label_type"  # in that of JSON lines and of fastText's: Arrow's type of labels
# in that of a table without a header: how many columns there are
COLUMNS = "columns"
# formats of files in which predictions can stand beside the rows
BESIDE = ("csv", "tsv", "jsonl", "parquet", "arrow")
PARTS = "parts"  # the files that an input is; in no recipe
KEEP = "keep"  # of rows that are predicted: names and patterns of columns that are wanted beside them; in no recipe
DECIDED = frozenset((WORDS, LABEL_TYPE, KINDS, COLUMNS))  # by the first rows
# format -> its settings; other formats have none
CHOICES: dict[str, Settings] = {
    "documents": Settings(TEXT),
    "fasttext": Settings((LABEL_SETS, *TEXT)),
    "folders": Settings((ENCODING, *TEXT)),
    "jsonl": Settings(JSON + TEXT),
    "csv": Settings((*TABLE, TEXT_COLUMNS, *TEXT, *CUT)),
    "tsv": Settings((*TABLE, TEXT_COLUMNS, *TEXT, *CUT)),
    "criteo": Settings(),
    "parquet": Settings((*TABLE, TEXT_COLUMNS, *TEXT)),
    "arrow": Settings((*TABLE, TEXT_COLUMNS, *TEXT)),
    "npz": Settings((MATRIX_LABEL, LABELS_FROM)),
    "npy": Settings((MATRIX_LABEL, LABELS_FROM)),
    "h5ad": Settings((MATRIX_LABEL,)),
}


def all_choices() -> Settings:
    """The settings of all formats, each once."""
    merged = Settings()
    for settings in CHOICES.values():
        merged += settings.without(*merged.names())
    merged = merged.without("text") + (TEXT_COLUMNS,)
    return Settings(tuple(replace(s, help=LABEL_HELP, default=None) if s.name == "label" else s for s in merged))


def merge_options(saved: Mapping, requested: Mapping, free: tuple[str, ...] = OF_INPUTS + OF_LINES) -> dict:
    """The settings of other rows' format, for an input that is read likewise, but for those ``free`` that are given."""
    merged = {name: value for name, value in saved.items() if name not in OF_INPUTS}
    return merged | {name: requested[name] for name in free if requested.get(name) is not None}


def is_table(format_: str | None) -> bool:
    """Whether rows of the format are a table, which means the same in each of these formats."""
    return "categorical" in CHOICES.get(format_ or "", Settings())


def is_text(format_: str, options: Mapping) -> bool:
    """Whether features of the format are n-grams of texts, which are the same in each of these formats."""
    takes = CHOICES.get(format_, Settings())
    return "ngrams" in takes and (not is_table(format_) or options.get("text") is not None)


def carried(before: str, format_: str, options: Mapping) -> dict:
    """The settings of rows of one format that hold for later ones of another, if both are texts or tables."""
    if before == format_:
        return dict(options)
    if is_text(before, options):
        if "ngrams" not in CHOICES.get(format_, ()):
            return {}
        known = {name: value for name, value in options.items() if name in CHOICES[format_]}
        words = options.get(WORDS, options.get(LABEL_TYPE) == "string")
        if format_ == "documents" or is_table(format_):
            known |= {WORDS: words}
        if is_table(format_):
            known |= {KINDS: {}, "text": options.get("text", "text")}
        return known
    if not (is_table(before) and is_table(format_)):
        return {}
    others = all_choices().without(*CHOICES[format_].names())
    return {name: value for name, value in options.items() if name not in others}


def added(name: str, options: Mapping, *columns: str) -> str:
    """A list of columns as its caller has to write it for these to be in it, too."""
    return option(name, ",".join([*filter(None, [options.get(name)]), *columns]))


def chosen(name: str, requested: Mapping, decided: Mapping = {}) -> dict:
    """The settings of the format ``name``, as given (None: not) or by default, with what the first rows ``decided``
    (name -> value where it is not known); InputError for one that it has not."""
    known = {key: requested.get(key, value) for key, value in decided.items()}
    requested = {key: value for key, value in requested.items() if key not in DECIDED} if decided else requested
    resolved = CHOICES.get(name, Settings()).resolve(requested, f"the format {name}")
    if is_table(name) and resolved["text"] is None:
        for setting in TEXT:
            if requested.get(setting.name) is not None:
                raise InputError(f"{option(setting.name)}: is of texts; name their columns by {option('text')}")
            del resolved[setting.name]
    return resolved | known

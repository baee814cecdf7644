"""Input formats, one file for those of a kind.  This file owns the registry, and recognises formats."""

import re

from msgspec.structs import replace

from blocksvm.base.errors import InputError, option
from blocksvm.base.registry import Registry
from blocksvm.base.settings import Settings
from blocksvm.formats.choices import CHOICES, KINDS, all_choices, carried

AUTO = "auto"
OF_TEXT = {
    "svmlight": "blocksvm.formats.text.svmlight:SVMLIGHT",
    "svmlight-named": "blocksvm.formats.text.svmlight:NAMED_LABELS",
    "multilabel": "blocksvm.formats.text.svmlight:MULTILABEL",
    "vw": "blocksvm.formats.text.vw:VW",
    "documents": "blocksvm.formats.text.documents:DOCUMENTS",
    "fasttext": "blocksvm.formats.text.documents:FASTTEXT",
    "jsonl": "blocksvm.formats.json_lines:JSON_LINES",
    "csv": "blocksvm.formats.text_tables:CSV",
    "tsv": "blocksvm.formats.text_tables:TSV",
    "criteo": "blocksvm.formats.text_tables:CRITEO",
}
OF_FILES = {  # each recognised by its first bytes, without loading its code (file_reader.py), but folders
    "npz": "blocksvm.formats.matrices:NPZ",
    "npy": "blocksvm.formats.matrices:NPY",
    "h5ad": "blocksvm.formats.h5ad:H5AD",
    "parquet": "blocksvm.formats.arrow_tables:PARQUET",
    "arrow": "blocksvm.formats.arrow_tables:ARROW",
    "folders": "blocksvm.formats.arrow_tables:FOLDERS",
}
# what a name says, whatever the first bytes look like
ENDINGS = {"csv": "csv", "tsv": "tsv", "svm": "svmlight", "libsvm": "svmlight", "svmlight": "svmlight", "vw": "vw",
           "jsonl": "jsonl", "ndjson": "jsonl"}  # fmt: skip
BEGINNINGS = {b"{": "jsonl", b"__label__": "fasttext"}
PACKED = re.compile(r"\.(gz|bz2|xz|zst)$")
FORMATS = Registry("format", ("blocksvm.formats.format:Format",), OF_TEXT | OF_FILES, more=(AUTO,))
get_format = FORMATS.load


def settings_of(name: str) -> Settings:
    """The settings of a format, which one from outside the package declares as its ``settings``."""
    if name in FORMATS:
        return CHOICES.get(name, Settings())
    return getattr(get_format(name), "settings", Settings())


def settings_offered(name: str | None) -> Settings:
    """The settings of all our formats, and those of the one that is named, where it is from outside the package."""
    choices = all_choices()
    return choices if name in (None, AUTO, *FORMATS) else choices + settings_of(name).without(*choices.names())


def sniffed(head: bytes, name: str) -> str:
    """The name of the text format that the name of an input says, else that its first bytes look like most; svmlight
    where they look like none.  InputError for a name of a format of files, whose first bytes these are not."""
    ending = PACKED.sub("", name.lower()).rpartition(".")[2]
    if ending in OF_FILES or ending == "feather":
        wrong = f"{name}: does not begin as a {ending} file does"
        raise InputError(f"{wrong}; get it again, or give {option('format')} if it is text")
    if (said := ENDINGS.get(ending)) is not None:
        return said
    for beginning, format_ in BEGINNINGS.items():
        if head.startswith(beginning):
            return format_
    lines = [line for line in head.split(b"\n")[:50] if line.strip()]
    vw, svmlight = (sum(map(bool, map(get_format(one).row.match, lines))) for one in ("vw", "svmlight"))
    return "vw" if vw > svmlight else "svmlight"


def settled(inputs, recipe, memory: int, skip_bad: bool = False):
    """The recipe with a format's name in place of 'auto', and all of its settings, by the inputs' first lines, which
    may take a small part of the memory; InputError for one that it has not.  Pieces of lines that may have line breaks
    within quotes, or of which bad ones are skipped whole, will end where no quotes are open."""
    name = getattr(inputs, "format", None) or recipe.format
    if name == AUTO:
        name = sniffed(inputs.head(), inputs.names[0])
    format_ = get_format(name)
    if recipe.format not in (AUTO, name):
        recipe = replace(recipe, options=carried(recipe.format, name, recipe.options))
    if hasattr(format_, "settled"):
        options = inputs.options = inputs.settled(format_, recipe.options, memory)
        recipe = replace(recipe, format=name, options=options)
        if (skip_bad or options.get("text") is not None) and hasattr(format_, "dialect"):
            inputs.quote = format_.dialect(options).quote
        return recipe
    takes = settings_of(name)
    for key, value in recipe.options.items():
        if value is not None and key not in takes:
            raise InputError(f"{option(key)}: the format {name} does not accept it; give another {option('format')}")
    requested = {key: value for key, value in recipe.options.items() if key in takes}
    return replace(recipe, format=name, options=takes.resolve(requested, f"the format {name}"))


def said_of_columns(recipe) -> tuple[str, list[str]]:
    """(what was decided of a table's columns in a line, '' where nothing was; sentences on what may not be meant)"""
    if not recipe.options.get(KINDS):
        return "", []
    from blocksvm.formats.tables import columns_line, remarks

    return columns_line(recipe.options), remarks(recipe.options)

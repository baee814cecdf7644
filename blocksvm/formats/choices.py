"""What formats let their user choose, as data: of it options and the recipe of features are made.

Imports nothing heavy: the command line knows the options without a format's code.
"""

from __future__ import annotations

from collections.abc import Mapping

from blocksvm.errors import InputError, said
from blocksvm.settings import Setting, Settings

# analyzer -> the number of it in the kernel that cuts it
ANALYZERS = {"word": 0, "char": 1, "char_wb": 2}
LONGEST_NGRAM = 32


def ngrams_of(text: str) -> list[tuple[int, int, int]]:
    """(analyzer, least, most) of each part of 'word:1-3,char_wb:4'; InputError where it is none."""
    found = {}
    for part in str(text).split(","):
        name, colon, lengths = part.partition(":")
        low, dash, high = lengths.partition("-")
        high = high if dash else low
        numbers = low.isascii() and low.isdigit() and high.isascii() and high.isdigit()
        if name not in ANALYZERS or not numbers or not 1 <= int(low) <= int(high) <= LONGEST_NGRAM:
            raise InputError(
                f"{said('ngrams', text)}: is not a list such as word:1-3 or word:1-2,char_wb:4 (of "
                f"{', '.join(ANALYZERS)}; lengths up to {LONGEST_NGRAM})"
            )
        if name in found:
            raise InputError(f"{said('ngrams', text)}: names {name} twice; give one range of lengths")
        found[name] = (ANALYZERS[name], int(low), int(high))
    return list(found.values())


def _ngrams(text: str) -> str:
    ngrams_of(text)
    return str(text)


NGRAMS = Setting(
    "ngrams", "what documents are cut into, e.g. word:1-3 or word:1-2,char_wb:4-5 (default word:1)", "word:1", _ngrams,
    metavar="LIST",
)  # fmt: skip
TABLE = (
    Setting("label", "the labels' column: its name, or its number without a header", "label", str, metavar="COLUMN"),
    Setting(
        "categorical",
        "columns whose cells are categories, e.g. zip,C*; auto: so are those that are no numbers, in any column",
        "auto",
        str,
        metavar="COLUMNS",
    ),
    Setting("ignore", "columns that are left out, e.g. id,date*", None, str, metavar="COLUMNS"),
    Setting("header", "the first line has the columns' names; without they are 1, 2, ...", "yes", str, ("yes", "no")),
)
# format -> its settings; other formats have none
CHOICES: dict[str, Settings] = {
    "documents": Settings((NGRAMS,)),
    "csv": Settings(TABLE),
    "tsv": Settings(TABLE),
    "criteo": Settings(),
}


def all_choices() -> Settings:
    """The settings of all formats, each once."""
    found = Settings()
    for settings in CHOICES.values():
        found += settings.without(*found.names())
    return found


def chosen(name: str, given: Mapping) -> dict:
    """The settings of the format ``name``, as given (None: not) or by default; InputError for one that it has not."""
    return CHOICES.get(name, Settings()).resolve(given, f"the format {name}")

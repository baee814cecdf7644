"""The labels that stand somewhere in the lines of a text: all of them numbers, or all words."""

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import EXACT, RowError, as_exact
from blocksvm.formats.kernels.numbers import numbers_at
from blocksvm.formats.text.text_source import quoted
from blocksvm.kernels.text_bytes import NEWLINE

NONE = b"?"  # in the place of a label that is not known
MISSING = frozenset((b"na", b"n/a", b"nan", b"null"))
TRUTHS = (b"true", b"false")  # numbers, of tables
ODD = MISSING | {b"", b"?", b"-", b".", b"none", b"nil", b"inf", b"+inf", b"-inf", b"infinity", b"-infinity"}


def label_of(token: bytes, words: bool) -> str | float | None:
    """The label that a token is; None where it is not one."""
    try:
        if words:
            return token.decode()
        number = np.nan if b"_" in token else float(token)
    except ValueError:
        return None
    return number + 0.0 if np.isfinite(number) else None  # -0 is 0


def are_words(labels: Iterable[tuple[int, bytes]], cure: str = "") -> bool:
    """Whether labels, (line from 0, token) of the first rows, are words: where any is that neither is a number nor
    stands for none.  cure: of tables, where true and false are numbers unless others are words, what says of which kind
    they are; then InputError where there are numbers among words, or nothing but what stands for none."""
    number = word = odd = truth = None
    for one in labels:
        if label_of(one[1], False) is not None:
            number = number or one
        elif cure and one[1].lower() in TRUTHS:
            truth = one
        elif one[1].lower() in ODD:
            odd = odd or one
        else:
            word = word or one
        if number and word:
            break
    if cure and number and word:
        line, token = max(number, word)
        what = "not a finite number, as other labels are"
        what = "a number, as other labels are not" if (line, token) == number else what
        raise InputError(f"{line + 1}: the label {quoted(token[:40])} is {what}; mend it, or {cure}")
    if cure and odd and not (number or word or truth):
        wrong = f"{odd[0] + 1}: the label {quoted(odd[1][:40])} may mean a missing one; leave it empty if so, or {cure}"
        raise InputError(wrong)
    return bool(word) or bool(odd and not (number or truth))


def word_label(word: bytes) -> str | None:
    """The label that a line's first word is; None: it has none."""
    return None if word == NONE else word.decode("utf-8", "backslashreplace") or None


def set_label(word: bytes) -> tuple | None:
    """The set that a word lists, numbers where all are; InputError for a number that float64 does not hold."""
    if word == NONE:
        return None
    members = [member for member in word.decode("utf-8", "backslashreplace").split(",") if member]
    try:
        numbers = tuple(float(member) + 0.0 for member in members)
    except ValueError:
        return tuple(members)
    for member, number in zip(members, numbers, strict=True):
        if not np.isfinite(number):
            raise InputError(f"the label {quoted(member.encode()[:40])} is not a finite number; mend it")
        if abs(number) >= EXACT and member.lstrip("+-").isdigit() and int(member) != int(number):
            raise InputError(as_exact(member, "put a letter before each label"))
    return numbers


def labels_until(text: np.ndarray, spans: np.ndarray, lines: np.ndarray, label_of: Callable | None, fault) -> tuple:
    """(the labels ``text[spans[r, 0]:spans[r, 1]]`` of the rows up to the first wrong one, its fault, or
    ``fault``).  label_of(token): a label, None for none, or InputError; None: they are numbers.  lines: of the rows."""
    while True:
        try:
            if label_of is None:
                return _numbers_at(text, spans), fault
            from blocksvm.formats.arrow_arrays import tokens_at  # which load pyarrow
            from blocksvm.formats.table_rows import coded_labels

            return coded_labels(tokens_at(text, spans), label_of), fault
        except RowError as error:
            spans, fault = spans[: error.row], (int(lines[error.row]), str(error))


def _numbers_at(text: np.ndarray, spans: np.ndarray) -> np.ndarray:
    def token(row: int) -> bytes:
        return text[slice(*spans[row].tolist())].tobytes().strip()

    labels = np.empty(len(spans))
    row = numbers_at(text, spans, labels)
    if row < len(spans):
        raise RowError(row, sentence_of(token(row), False))
    require_exact(labels, token)
    return labels


def require_exact(labels: np.ndarray, token_of: Callable[[int], bytes], cure: str = "") -> None:
    """RowError for the first label (n,) that is written as a whole number, token_of(row), and is another one in
    float64, so that labels might merge."""
    for row in np.flatnonzero(np.abs(labels) >= EXACT).tolist():
        token = token_of(row).strip()
        digits = token.lstrip(b"+-")
        if digits.isdigit() and len(digits) < 400 and int(token) != int(labels[row]):
            raise RowError(row, as_exact(token.decode(), cure))


def exact_until(labels: np.ndarray, text: np.ndarray, lines: np.ndarray, fault, cure: str = "") -> tuple:
    """(how many rows come before the first whose label, the first word of its line of the text, is another number in
    float64, its fault, or ``fault``)"""

    def word(row: int) -> bytes:
        begin = begins()[lines[row]]
        return text[begin : begin + 400].tobytes().split(maxsplit=1)[0]

    begins = cache(lambda: np.append(0, np.flatnonzero(text == NEWLINE) + 1))
    try:
        require_exact(labels, word, cure)
    except RowError as error:
        return error.row, (int(lines[error.row]), str(error))
    return len(labels), fault


def sentence_of(token: bytes, words: bool, cure: str = "") -> str:
    if words:
        return f"the label {quoted(token[:40])} is not UTF-8; convert the text, as iconv -f latin1 -t utf-8 does"
    more = f", leave it empty where there is none, or {cure}" if cure else ""
    return f"the label {quoted(token[:40])} is not a finite number, as other labels are; mend it{more}"

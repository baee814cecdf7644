"""The labels that stand somewhere in the lines of a text: all of them numbers, or all words."""

from __future__ import annotations

import numpy as np

from blocksvm.formats.text import quoted
from blocksvm.kernels.numbers import numbers_at

WORDS = "words"  # in the options of a recipe: labels are words
AT_ONCE = 1 << 14  # labels that are Python objects at a time


def label_of(token: bytes, words: bool) -> str | float | None:
    """The label that a token is; None where it is none."""
    try:
        if words:
            return token.decode()
        number = np.nan if b"_" in token else float(token)
    except ValueError:
        return None
    return number + 0.0 if np.isfinite(number) else None  # -0 is 0


def are_words(token: bytes) -> bool:
    """Whether the labels of a text, of which this is one, are words."""
    return bool(token.strip()) and label_of(token.strip(), False) is None


def labels_at(text: np.ndarray, spans: np.ndarray, words: bool, clean=bytes.strip) -> tuple:
    """(labels of the rows, None, or (row, sentence) of the first label that is none).

    text[spans[r, 0]:spans[r, 1]] is that of row r, nothing where it has none; clean(token): what of it is the label.
    """
    labels = [] if words else np.empty(len(spans))
    begin = 0
    while begin < len(spans):
        if not words:
            begin += numbers_at(text, spans[begin:], labels[begin:])
        known: dict[bytes, object] = {b"": None}
        for row, (start, stop) in enumerate(spans[begin : begin + AT_ONCE].tolist(), begin):
            token = clean(text[start:stop].tobytes())
            if token not in known:
                known[token] = label_of(token, words)
                if known[token] is None:
                    return labels[:row], (row, sentence_of(token, words))
            if words:
                labels.append(known[token])
            else:
                labels[row] = np.nan if known[token] is None else known[token]
                break  # the next ones may be plain numbers
        begin += AT_ONCE if words else 1
    return labels, None


def sentence_of(token: bytes, words: bool) -> str:
    """What is wrong with a label."""
    if words:
        return f"the label {quoted(token[:40])} is not UTF-8; convert the text, as iconv -f latin1 -t utf-8 does"
    return f"the label {quoted(token[:40])} is not a finite number, as the first label is; mend it"

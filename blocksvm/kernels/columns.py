"""Text in columns: where its words are, what they hash to, and where a blank line ends a sentence."""

import numpy as np

from blocksvm.kernels import kernel
from blocksvm.kernels.name_hashes import name_hash
from blocksvm.kernels.text_bytes import NEWLINE, byte_at, is_blank


@kernel
def count_words(text, end):
    """(words, lines) of ``text[:end]``, whose last byte is a newline."""
    words = lines = 0
    inside = False
    for p in range(end):
        c = byte_at(text, p)
        if c == NEWLINE:
            lines += 1
            inside = False
        elif is_blank(c):
            inside = False
        elif not inside:
            words += 1
            inside = True
    return words, lines


@kernel
def read_words(text, end, hashes, starts, stops, line_words):
    """Each word's ``name_hash`` and place in ``text[:end]``, whose last byte is a newline, and how many words a line has
    (int64, with room for all of them); returns how many words there are."""
    n = line = in_line = p = 0
    while p < end:
        c = byte_at(text, p)
        if c == NEWLINE:
            line_words[line] = in_line
            line += 1
            in_line = 0
            p += 1
        elif is_blank(c):
            p += 1
        else:
            begin = p
            while byte_at(text, p) != NEWLINE and not is_blank(byte_at(text, p)):
                p += 1
            starts[n], stops[n] = begin, p
            hashes[n] = np.int64(name_hash(text, begin, p, np.uint64(0)) >> np.uint64(1))
            n += 1
            in_line += 1
    return n

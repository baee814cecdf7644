"""Text in columns: where its words are, what they hash to, and where a blank line ends a sentence."""

import numpy as np

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.table import scramble
from blocksvm.kernels.words import NEWLINE, byte_at, is_blank


@inlined
def word_hash(text, start, stop):
    """63 bits of a word's bytes, as int64."""
    h = np.uint64(stop - start)
    for p in range(start, stop):
        h = scramble(h ^ np.uint64(byte_at(text, p)))
    return np.int64(h >> np.uint64(1))


@kernel
def read_words(text, end, hashes, starts, stops, line_words):
    """Each word's hash and place in ``text[:end]``, whose last byte is a newline, and the number of words of each line
    (int64, with room for all of them); returns how many words there are."""
    n = line = in_line = 0
    p = 0
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
            hashes[n] = word_hash(text, begin, p)
            n += 1
            in_line += 1
    return n

"""A format that the package does not know, as a user might write one: ``label;word word word`` a line."""

from __future__ import annotations

import numpy as np

from blocksvm.base.row_batch import Origin, RowBatch
from blocksvm.formats.format import EXPANSION, ParseBuffer


def id_of(word: str) -> int:
    return int.from_bytes(word.encode()[:7], "big")


class WordsReader:
    expansion = EXPANSION

    def __init__(self, reading):
        self.reading = reading

    def buffer(self, n_bytes):
        return ParseBuffer(n_bytes, n_bytes)

    def parse(self, piece, buffer=None):
        labels, rows, lines, fault = [], [], [], None
        text = piece.text[: piece.end].tobytes().decode()
        for number, line in enumerate(text.splitlines()):
            label, semicolon, words = line.partition(";")
            if not semicolon:
                fault = number, f"{line!r} has no semicolon"
                break
            labels.append(float(label))
            rows.append(sorted({id_of(word) for word in words.split()}))
            lines.append(number)
        n_records = text.count("\n")
        return RowBatch(
            np.array(labels), np.append(0, np.cumsum([len(row) for row in rows], dtype=np.int64)),
            np.array([i for row in rows for i in row], np.int64), np.ones(sum(map(len, rows))),
            Origin(piece.source, piece.fraction, n_records, np.array(lines, np.int64)), fault=fault, largest=1.0,
        )  # fmt: skip


class Words:
    lines = "'label;word word ...'"

    def reader(self, reading):
        return WordsReader(reading)


WORDS = Words()

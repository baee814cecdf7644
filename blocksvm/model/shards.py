"""Scores beside the rows: of each file of a corpus one of the same kind, with the columns that are kept and each row's
label, score and probability, of all rows or of those that a condition selects.

Each file takes its name when it is whole, and stands then in the folder's list: a run that was killed goes on after it.
"""

import bz2
import gzip
import json
import lzma
import operator
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, repeat
from typing import IO, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import zstandard

from blocksvm import __version__
from blocksvm.base.errors import InputError, nearest, option
from blocksvm.base.labels import label_text
from blocksvm.files.input import open_input
from blocksvm.files.output import check_output, write_json, written_whole
from blocksvm.files.paths import Location, ObjectUrl, location
from blocksvm.formats.arrow_arrays import array_of, strings
from blocksvm.formats.file_reader import damage_named, fingerprint_of
from blocksvm.formats.json_lines import under
from blocksvm.formats.text.row_labels import label_of
from blocksvm.model.measures import Measures
from blocksvm.model.probabilities import Link
from blocksvm.model.scoring import Scores, TextScorer

LIST = "_blocksvm.json"  # of the files that are whole
GROUP_ROWS, GROUP_PARTS = 1 << 17, 64  # rows of a row group, and one of so many parts of the memory, at most
OUTPUT_SHARE = 3 / GROUP_PARTS  # of the memory: a row group as it was scored, encoded, and joined
OPERATORS: dict[str, Callable] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
PACKERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda file: gzip.GzipFile("", "wb", 6, file, mtime=0), ".bz2": partial(bz2.BZ2File, mode="wb"),
    ".xz": partial(lzma.LZMAFile, mode="wb"), ".zst": partial(zstandard.open, mode="wb", closefd=False),
}  # fmt: skip
TABLES: dict[str, Callable[[IO[bytes], pa.Schema], Any]] = {
    "parquet": partial(pa.parquet.ParquetWriter, compression="zstd"), "arrow": pa.ipc.new_file,
    "csv": pa.csv.CSVWriter, "tsv": partial(pa.csv.CSVWriter, write_options=pa.csv.WriteOptions(delimiter="\t")),
}  # fmt: skip
QUOTED = r"""("[^"]*"|'[^']*'|[^'"]+?)"""
CONDITION = re.compile(
    rf"\s*(?:(label)\s*(==|!=)\s*{QUOTED}|(score|probability)\s*(>=|<=|==|!=|>|<)\s*(\S+?))\s*(?:\sand\s|$)"
)


@dataclass(frozen=True)
class Wanted:
    """What is written of each row: the columns of its file that are kept (a list of names and patterns, None: none),
    with own_ before the name where a result has it; its ``top`` labels, the likeliest first; score and probability, or
    those of the label ``score_of``, whatever is predicted; select: conditions of rows that are written."""

    keep: str | None = None
    top: int = 1
    score_of: str | None = None
    select: str | None = None


class Results:
    """The columns of results of some rows: label, score, probability, and of further labels label_2, ..."""

    def __init__(self, wanted: Wanted, labels: tuple, link: Link | None):
        self.link = link
        self.texts = [label_text(label) for label in labels]
        whole = all(isinstance(label, float) and label.is_integer() for label in labels)
        self.labels = list(map(int, labels) if whole else labels)
        self.top = min(wanted.top, len(labels))
        self.score_of = None if wanted.score_of is None else self._code(wanted.score_of)
        self.conditions = [] if wanted.select is None else list(self._conditions(wanted.select))

    def _code(self, text: str) -> int:
        if text not in self.texts:
            meant = nearest(text, self.texts)
            raise InputError(f"{text}: is no label of the model{f'; did you mean {meant}?' if meant else ''}")
        return self.texts.index(text)

    def _conditions(self, text: str) -> Iterator[tuple[str, Callable, float]]:
        """(column, comparison, value) of each part of 'label == "spam" and score > 1'; InputError for others."""
        at = 0
        while at < len(text) or not at:
            match = CONDITION.match(text, at)
            if match is None:
                example = "'probability >= 0.9', or 'label == spam and score > 1'"
                raise InputError(f"{option('select', text)}: is no condition such as {example}")
            label, same, value, column, comparison, number = match.groups()
            column, comparison, at = label or column, same or comparison, match.end()
            if (column == "probability" and self.link is None) or (column == "label" and not self.labels):
                raise InputError(f"{option('select', text)}: the model gives no {column}")
            threshold = self._code(value.strip("\"'")) if label else label_of(number.encode(), False)
            if threshold is None:
                raise InputError(f"{option('select', text)}: {number} is not a finite number")
            yield column, OPERATORS[comparison], float(threshold)

    def columns(self, scores: Scores) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """(the columns by name, of labels their positions, and the rows (m,) bool that are selected)"""
        values, columns = scores.values, {}
        shares = None if self.link is None else self.link(values)
        if not self.texts:
            columns["score"] = values
        else:
            values = np.stack((-values, values), axis=1) if values.ndim == 1 else values
            likeliest = scores.classes[:, None]
            if self.top > 1:
                likeliest = np.argsort(-values, axis=1, kind="stable")[:, : self.top]
            for k in range(self.top):
                end, codes = f"_{k + 1}" if k else "", likeliest[:, k]
                columns[f"label{end}"] = codes
                scored = codes if self.score_of is None else np.full(len(codes), self.score_of)
                columns[f"score{end}"] = np.take_along_axis(values, scored[:, None], axis=1)[:, 0]
                if shares is not None:
                    columns[f"probability{end}"] = np.take_along_axis(shares, scored[:, None], axis=1)[:, 0]
        selected = np.ones(len(scores.labels), bool)
        for column, holds, number in self.conditions:
            selected &= holds(columns[column], number)
        return columns, selected

    def table(self, columns: Mapping[str, np.ndarray]) -> dict[str, pa.Array]:
        words = len(self.labels) > 0 and isinstance(self.labels[0], str)
        labels = strings([one.encode() for one in self.labels]) if words else array_of(np.array(self.labels))
        return {
            name: labels.take(array_of(column)) if name.startswith("label") else array_of(column)
            for name, column in columns.items()
        }


def own_names(names: Collection[str], results: Collection[str]) -> dict[str, str]:
    """The names of columns that are kept, none of which is a result's or another's."""
    taken, given = {*names, *results}, {}
    for name in names:
        own = name
        while own in results or (own != name and own in taken):
            own = f"own_{own}"
        given[name] = own
        taken.add(own)
    return given


class ScoreFile:
    """A file of rows' results.  ``write(kept, results)`` takes of some rows what is kept, None or a record batch, and
    their results by column; unseen: keys of the columns to be kept that no row had."""

    unseen: Collection[str] = ()

    def close(self) -> None:
        """Write what is still kept, in the end."""


class TableFile(ScoreFile):
    """A file of a table: rows are kept until they make a row group; open_writer(schema) begins it."""

    def __init__(self, open_writer: Callable[[pa.Schema], Any], most_bytes: int):
        self.open_writer, self.most_bytes = open_writer, most_bytes
        self.parts: list[pa.RecordBatch] = []
        self.rows = self.n_bytes = 0
        self.writer: Any = None

    def write(self, kept: pa.RecordBatch | None, results: dict[str, pa.Array]) -> None:
        if kept is not None:
            names = own_names(kept.schema.names, results)
            results = {own: kept.column(name) for name, own in names.items()} | results
        batch = pa.RecordBatch.from_arrays(list(results.values()), names=list(results))
        self.parts.append(batch)
        self.rows, self.n_bytes = self.rows + len(batch), self.n_bytes + batch.nbytes
        if self.rows >= GROUP_ROWS or self.n_bytes >= self.most_bytes:
            self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self.parts)
        if self.writer is None:
            self.writer = self.open_writer(table.schema)
        self.writer.write_table(table.combine_chunks())
        self.parts, self.rows, self.n_bytes = [], 0, 0

    def close(self) -> None:
        if self.parts:
            self._flush()
        self.writer.close()


class JsonFile(ScoreFile):
    """A file of JSON lines: the kept keys as they were written, then the results."""

    def __init__(self, file: IO[bytes], keep: str | None):
        self.file, self.keys = file, [] if keep is None else keep.split(",")
        self.unseen: set[str] = set(self.keys)
        self.encode = msgspec.json.Encoder().encode
        self.strict = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    def write(self, kept: pa.RecordBatch | None, results: dict[str, pa.Array]) -> None:
        rows = zip(*(column.to_pylist() for column in results.values()), strict=True)
        objects = repeat(b"{}") if kept is None else kept.column("object").to_pylist()
        self.file.writelines(
            self.encode(self._kept(own, results) | dict(zip(results, of_row, strict=True))) + b"\n"
            for of_row, own in zip(rows, objects, strict=False)
        )

    def _kept(self, own: bytes, results: Collection[str]) -> dict:
        """The values of the keys that are kept, those at the top as they were written."""
        known, found = dict[str, Any](), dict[str, Any]()
        try:
            known = self.strict(own) if self.keys else {}
        except msgspec.DecodeError:  # NaN, as Python writes it
            known = json.loads(own, parse_constant=lambda word: msgspec.Raw(word.encode()))
        except RecursionError:
            raise InputError("an object has too many lists or objects within others to be kept") from None
        for key in self.keys:
            chosen = {name: value for name, value in known.items() if name == key or fnmatchcase(name, key)}
            if not chosen and "." in key and (value := under(msgspec.json.decode(own), key)) is not None:
                chosen = {key: value}
            if chosen:
                self.unseen.discard(key)
            found |= chosen
        names = own_names(found, results)
        return {names[key]: value for key, value in found.items()}


class LineFile(ScoreFile):
    """Lines as fastText's ``predict-prob`` writes them: each label, as __label__word, and its probability or score."""

    def __init__(self, file: IO[bytes]):
        self.file = file

    def write(self, kept: None, results: dict[str, pa.Array]) -> None:
        likely = "probability" if "probability" in results else "score"
        words = [
            [f"__label__{label_text(one)}" if name.startswith("label") else f"{one:.6g}" for one in column.to_pylist()]
            for name, column in results.items()
            if name.startswith(("label", likely))
        ]
        self.file.write("".join([" ".join(row) + "\n" for row in zip(*words, strict=True)]).encode())


class Shards:
    """The files of scores in a folder; InputError for inputs of one name, and for files that another model made, or
    with other settings, unless they may be replaced.  reading: the settings by which the inputs are read; done: inputs
    whose scores are there already, and which have not changed since."""

    def __init__(
        self, folder: str, inputs: list[str], model: str, wanted: Wanted, reading: Mapping, overwrite: bool = False
    ):
        self.folder, self.wanted = location(folder.rstrip("/") or "/"), wanted
        self.outputs = {name: self._beside(os.path.basename(name)) for name in inputs}
        if len(set(map(str, self.outputs.values()))) < len(inputs):
            twice = next(one for one in inputs if sum(os.path.basename(one) == os.path.basename(b) for b in inputs) > 1)
            raise InputError(f"{twice}: another input has this name, too; score them into folders of their own")
        self.list, self.states = self._beside(LIST), dict[str, list]()
        if "-" in inputs:
            raise InputError("-: standard input has no name for its scores in a folder; name a file")
        made_by = {"model": fingerprint_of(model), "wanted": msgspec.to_builtins(wanted), "reading": dict(reading)}
        self.known: dict[str, Any] = {"blocksvm": __version__, **made_by, "shards": {}}
        if self.list.is_file() and not overwrite:
            with open_input(self.list) as file, damage_named(str(self.list), cure="remove it"):
                before = msgspec.json.decode(file.read(), type=dict[str, Any])
            if {key: before.get(key) for key in made_by} != made_by:
                cure = f"choose another folder, or add {option('overwrite', True)}"
                raise InputError(f"{folder}: has scores of another model, or with other settings; {cure}")
            self.known = before
        elif not isinstance(self.folder, ObjectUrl):
            self.folder.mkdir(exist_ok=True)
        shards = self.known["shards"]
        there = [name for name, path in self.outputs.items() if name in shards and path.is_file()]
        self.done = [name for name in there if self._state(name) == shards[name]]
        self.replaced = list(self.outputs) if overwrite else [*there, *self.known.get("begun", [])]
        for name, path in self.outputs.items():
            if name not in self.done:
                check_output(path, name in self.replaced, "shard")

    def _beside(self, name: str) -> Location:
        return location(f"{self.folder}/{name}")

    @staticmethod
    def _state(name: str) -> list:
        """What tells that an input is as it was."""
        path = location(name)
        if isinstance(path, ObjectUrl):
            return [fingerprint_of(name)]
        status = path.stat()
        return [status.st_size, status.st_mtime_ns]

    def files(self) -> Iterator[tuple[str, Location, bool]]:
        """(input, its file of scores, whether that may be replaced) of each, whole when the next one is asked for."""
        for name, path in self.outputs.items():
            if name not in self.done:
                state = self.states.get(name) or self._state(name)
                yield name, path, name in self.replaced
                self.known["shards"][name] = state
                write_json(self.list, self.known, overwrite=True)

    def begun(self) -> None:
        """Others write the files: those of a run that ends before it knows of them may be replaced."""
        self.states = {name: self._state(name) for name in self.outputs if name not in self.done}
        self.known["begun"] = sorted({*self.known.get("begun", []), *self.states})
        write_json(self.list, self.known, overwrite=True)

    def score(self, scorer: TextScorer, results: Results, measures: Measures) -> Iterator[tuple[str, int]]:
        """(input, how many more of its rows were selected), piece by piece, as they are written and counted."""
        notes: list[str] = []
        for name, path, again in self.files():
            for selected in written(scorer, name, path, again, results, measures, notes):
                yield name, selected
        scorer.coverage.notes += notes


def written(
    scorer: TextScorer, name: str, path: Location, again: bool, results: Results, measures: Measures, notes: list[str]
) -> Iterator[int]:
    """Write and count the scores of an input's rows; how many were selected, piece by piece; notes gains sentences."""
    pieces = scorer.scores([name])
    first, format_ = next(pieces), scorer.format
    with written_whole(path, again) as whole, ExitStack() as stack:
        out: Any = whole
        if format_ not in ("parquet", "arrow") and (packer := PACKERS.get(os.path.splitext(path.name)[1])):
            out = stack.enter_context(packer(whole))
        if format_ in TABLES:
            most_bytes = scorer.budget.total // GROUP_PARTS
            file: TableFile | JsonFile | LineFile = TableFile(partial(TABLES[format_], out), most_bytes)
        else:
            file = JsonFile(out, scorer.keep) if format_ == "jsonl" else LineFile(out)
        for scores in chain([first], pieces):
            columns, selected = results.columns(scores)
            kept = scores.kept
            if not selected.all():
                columns = {name: column[selected] for name, column in columns.items()}
                kept = None if kept is None else kept.take(array_of(np.flatnonzero(selected)))
            file.write(kept, results.table(columns))
            measures.count(scores)
            yield int(selected.sum())
        file.close()
    for key in sorted(file.unseen):
        notes.append(f"{name}: no object has the key {key}, which {option('keep')} names")

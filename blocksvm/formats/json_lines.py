"""JSON lines, an object a line: the n-grams of the texts under some keys, and the labels under another, by pyarrow.

A key within other objects is 'meta.title'.  Labels are numbers, true and false, strings, or lists of numbers or of
strings, as those of the first lines are; null, or no such key, is no label.  What other keys have is passed over.
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import EXACT, as_exact
from blocksvm.formats import table_rows, tables
from blocksvm.formats.arrow_arrays import POOL, WHOLE, array_of, floats, numbers_of
from blocksvm.formats.choices import LABEL_TYPE, chosen
from blocksvm.formats.format import ReaderOptions
from blocksvm.formats.text.text_source import TextPiece, utf8_lines
from blocksvm.kernels.text_bytes import NEWLINE

TYPES = {
    "double": pa.float64(), "bool": pa.bool_(), "string": pa.string(), "list<double>": pa.list_(pa.float64()),
    "list<string>": pa.list_(pa.string()),
}  # fmt: skip


class JsonReader(table_rows.TableReader):
    def __init__(self, reading: ReaderOptions):
        options = JSON_LINES.chosen_of(reading.recipe.options)
        super().__init__(reading, options, 0, besides=3)  # the lines, and as pyarrow has cut them
        self.texts = options["text"].split(",")
        types = dict.fromkeys(self.texts, pa.string()) | {options["label"]: TYPES[options[LABEL_TYPE]]}
        self.keys, schema = list(types), pa.schema(fields_of(types))
        self.cutting = {
            "read_options": pa.json.ReadOptions(use_threads=False, block_size=WHOLE),
            "parse_options": pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        }

    def taken(self, piece: TextPiece) -> table_rows.TableRows:
        text = piece.text
        end, fault = utf8_lines(text, piece.end)
        ends = np.flatnonzero(text[:end] == NEWLINE) + 1
        n_lines, lines = len(ends), np.arange(len(ends))
        table = self._table(text[:end])
        if table is None or len(table) != n_lines:
            begins = np.append(0, ends[:-1])
            blank = np.array([not text[a:b].tobytes().strip() for a, b in zip(begins, ends, strict=True)], bool)
            if table is None or len(table) != n_lines - blank.sum():
                n_lines = self._lines_before(text, ends, blank)
                begin = 0 if n_lines == 0 else int(ends[n_lines - 1])
                fault = n_lines, self._sentence(text[begin : ends[n_lines]].tobytes())
                table = self._table(text[:begin])
            lines = np.flatnonzero(~blank[:n_lines])
        columns = {key: self._column(table, key) for key in self.keys}
        wrong = [(len(lines), "")]
        for key in self.texts:
            if columns[key].null_count:
                row = int(np.flatnonzero(numbers_of(columns[key].is_null()))[0])
                wrong.append((row, f"the object has no text under the key {key}, which {option('text')} names"))
        if pa.types.is_floating(columns[self.options["label"]].type):
            labels = floats(columns[self.options["label"]])
            for row in np.flatnonzero(np.abs(labels) >= EXACT)[:1].tolist():
                wrong.append((row, as_exact(f"{labels[row]:.0f}", "write labels as strings")))
        n, sentence = min(wrong)
        fault = (int(lines[n]), sentence) if sentence else fault
        batch = pa.RecordBatch.from_arrays([column.slice(0, n) for column in columns.values()], names=self.keys)
        kept = None
        if self.reading.keep is not None:  # the objects' own bytes, so that what they hold stays as it is
            buffers = [None, *(pa.py_buffer(array) for array in (np.append(0, ends).astype(np.int64), text[:end]))]
            objects = pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)
            kept = pa.RecordBatch.from_arrays([objects.take(array_of(lines[:n]))], names=["object"])
        about = tables.text_columns(self.keys, self.options, dict(zip(self.keys, batch.schema.types, strict=True)))
        return table_rows.TableRows(about, batch, False, kept, lines, len(ends), fault)

    def _table(self, text: np.ndarray) -> pa.Table | None:
        """The objects of whole lines; None where one is none."""
        if not len(text):
            return self._table(np.frombuffer(b"{}\n", np.uint8)).slice(1)
        try:
            return pa.json.read_json(pa.py_buffer(text), memory_pool=POOL, **self.cutting)
        except pa.ArrowInvalid:
            return None

    def _lines_before(self, text: np.ndarray, ends: np.ndarray, blank: np.ndarray) -> int:
        """The number of lines before the first that is not one object, by halves."""

        def wrong(n: int) -> bool:
            table = self._table(text[: ends[n - 1]])
            return table is None or len(table) != n - blank[:n].sum()

        return bisect_left(range(1, len(ends)), True, key=wrong)

    def _sentence(self, line: bytes) -> str:
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            cure = "mend it" if line.lstrip().startswith(b"{") else f"mend it, or name another {option('format')}"
            return f"the line is not a JSON object ({error}); {cure}"
        if not isinstance(value, dict):
            return f'the line is a JSON {json_kind(value)}, and an object is needed, as {{"text": ..., "label": ...}}'
        kinds = dict.fromkeys(self.texts, "string") | {self.options["label"]: self.options[LABEL_TYPE]}
        for key, wanted in kinds.items():
            found = under(value, key)
            if found is not None and arrow_kind(found) != wanted and (found != [] or not wanted.startswith("list")):
                what = "labels are of one kind" if key == self.options["label"] else "texts are strings"
                return f"the key {key} has a {json_kind(found)}, not a {wanted} as before; {what}"
        return "the line is not one JSON object; are keys there twice?"

    def _column(self, table: pa.Table, key: str) -> pa.Array:
        name, *inner = key.split(".")
        column = table.column(name).combine_chunks()
        return pa.compute.struct_field(column, inner) if inner else column


def fields_of(types: dict[str, pa.DataType]) -> list[tuple[str, pa.DataType]]:
    """The fields of objects that have these types under these keys, 'outer.inner' within another object."""
    inner: dict[str, dict] = {}
    for key, type_ in types.items():
        name, dot, rest = key.partition(".")
        inner.setdefault(name, {})[rest if dot else None] = type_
    return [(name, of[None] if None in of else pa.struct(fields_of(of))) for name, of in inner.items()]


def under(value: Any, key: str) -> Any:
    """What an object has under a key, None where it has none."""
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def json_kind(value: Any) -> str:
    kinds = {dict: "object", list: "list", str: "string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "number")


def arrow_kind(value: Any) -> str | None:
    """The name in ``TYPES`` of a label's type; None where it is no label."""
    if isinstance(value, list):
        kinds = {arrow_kind(one) for one in value} or {"string"}
        return f"list<{kinds.pop()}>" if kinds <= {"string"} or kinds <= {"double"} else None
    return {str: "string", bool: "bool", int: "double", float: "double"}.get(type(value))


class JsonLines:
    looks_at = LABEL_TYPE, tables.SAMPLED_ROWS
    lines = '\'{"text": "...", "label": "..."}\', under these keys or others'
    reader = JsonReader

    def chosen_of(self, options: Mapping) -> dict:
        return chosen("jsonl", options, {LABEL_TYPE: "string"})

    def settled(self, requested: Mapping, head: bytes, name: str) -> dict:
        """The settings, and the type of labels that the first lines have, unless it is known."""
        options = self.chosen_of(requested)
        keys = [*options["text"].split(","), options["label"]]
        for k, key in enumerate(keys):
            if any(one == key or one.startswith(f"{key}.") for one in keys[:k] + keys[k + 1 :]):
                raise InputError(f"the key {key}, which {option('text')} or {option('label')} names, is named twice")
        if LABEL_TYPE in requested:
            return options
        for line in head.split(b"\n"):
            try:
                label = under(msgspec.json.decode(line), options["label"])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue  # which is said where the line is read, as is a label of another type
            if label not in (None, []) and (kind := arrow_kind(label)) is not None:
                options[LABEL_TYPE] = kind
                break
        return options


JSON_LINES = JsonLines()

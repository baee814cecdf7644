"""The task ``candidates``: the weights of another program's features, tuned over lists of its best outputs.

A line is a candidate, 'sentence ||| its text ||| name=value name=value ...'; the candidates of a sentence stand
together.  Their qualities come from a file of numbers, a line each, or from BLEU or another function of a candidate's
text and the sentence's references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from xxhash import xxh3_64_intdigest

from blocksvm.base.errors import InputError, option
from blocksvm.base.optional_libraries import require_library
from blocksvm.base.row_batch import shown_name
from blocksvm.base.user_code import imported
from blocksvm.structured import bleu
from blocksvm.structured.candidates import CandidateLists
from blocksvm.structured.column_text import read_text
from blocksvm.structured.structured_model import StructuredModel
from blocksvm.structured.structured_settings import SCORING
from blocksvm.structured.task import Examples, Learned, StructuredTask

SEPARATOR = b"|||"


@dataclass
class CandidateText:
    """Candidates of a file: texts; bounds of the lists; indptr, names (distinct), name codes (nnz,), values."""

    name: str
    texts: list[bytes]
    bounds: np.ndarray
    indptr: np.ndarray
    names: list[bytes]
    codes: np.ndarray
    values: np.ndarray


@dataclass
class ListedCandidates(Examples):
    """references: those of each list, where the quality is BLEU."""

    structure: CandidateLists
    text: CandidateText
    references: list[list[str]] | None = None

    @property
    def gold(self) -> np.ndarray | None:
        return self.structure.quality

    def lines(self, outputs) -> Iterator[str]:
        for i, output in enumerate(outputs):
            yield decoded(self.text, int(self.text.bounds[i] + output[0])) + "\n"


def read_candidates(name: str, memory: int) -> CandidateText:
    """Read lists of candidates; InputError for a line that is none, and for a sentence whose candidates stand apart."""
    text, end = read_text(name, memory // 16)  # its texts, names and numbers as objects, while it is read
    texts, bounds, lengths, codes, numbers = [], [], [], [], []
    known: dict[bytes, int] = {}
    seen: set[bytes] = set()
    before = None
    for number, line in enumerate(text[:end].tobytes().split(b"\n")[:-1], 1):
        parts = line.split(SEPARATOR)
        where = f"{shown_name(name)}, line {number}"
        if len(parts) != 3:
            raise InputError(f"{where}: is no candidate; a line is 'sentence ||| text ||| name=value name=value ...'")
        sentence = parts[0].strip()
        if sentence != before:
            if sentence in seen:
                raise InputError(f"{where}: sentence {sentence.decode('latin-1')} had candidates before; sort the file")
            seen.add(sentence)
            before = sentence
            bounds.append(len(texts))
        texts.append(parts[1].strip())
        features = {}
        for word in parts[2].split():
            key, equals, value = word.rpartition(b"=")
            try:
                features[known.setdefault(key, len(known))] = float(value)
            except ValueError:
                equals = b""
            if not equals or not key or not np.isfinite(features[known[key]]):
                raise InputError(
                    f"{where}: {word.decode('latin-1')!r} is no feature; it must be name=value, a finite number"
                )
        lengths.append(len(features))
        codes.extend(features)
        numbers.extend(features.values())
    if not texts:
        raise InputError(f"{shown_name(name)}: holds no candidate")
    return CandidateText(
        name, texts, np.array([*bounds, len(texts)], np.int64), np.append(0, np.cumsum(lengths)).astype(np.int64),
        list(known), np.array(codes, np.int64), np.array(numbers, float),
    )  # fmt: skip


def decoded(text: CandidateText, number: int) -> str:
    try:
        return text.texts[number].decode()
    except UnicodeDecodeError:
        raise InputError(f"{shown_name(text.name)}, line {number + 1}: is not UTF-8 text; convert it") from None


def quality_of(text: CandidateText, settings: Mapping, memory: int) -> tuple[np.ndarray | None, list[list[str]] | None]:
    """((n_candidates,) float64, by ``quality`` or ``score`` of the settings; the references of each list, where these
    are compared with).  None where neither is set."""
    references = None
    if settings.get("quality") is not None and settings.get("score") is not None:
        raise InputError(f"{option('quality')} and {option('score')} say the same thing; give one of them")
    if settings.get("quality") is not None:
        lines = lines_of(settings["quality"], memory)
        if len(lines) != len(text.texts):
            raise InputError(
                f"{settings['quality']}: has {len(lines):,} lines, but there are {len(text.texts):,} candidates; "
                "give a number a line for each"
            )
        values, name = lines, settings["quality"]
    elif settings.get("score") is not None:
        score = function_named(settings["score"])
        references = references_of(text, settings, memory)
        lists = np.repeat(np.arange(len(text.bounds) - 1), np.diff(text.bounds))
        values = [score(decoded(text, j), references[i]) for j, i in enumerate(lists)]
        name = settings["score"]
    else:
        return None, None
    quality = np.empty(len(values))
    for j, value in enumerate(values):
        try:
            quality[j] = float(value)
        except (TypeError, ValueError):
            quality[j] = np.nan
        if not np.isfinite(quality[j]):
            raise InputError(f"{name}: gave {value!r} for candidate {j + 1}, which is not a finite number")
    return quality, references


def lines_of(name: str, memory: int) -> list[str]:
    text, end = read_text(name, memory // 16)
    try:
        return text[:end].tobytes().decode().split("\n")[:-1]
    except UnicodeDecodeError:
        raise InputError(f"{shown_name(name)}: is not UTF-8 text; convert it") from None


def references_of(text: CandidateText, settings: Mapping, memory: int) -> list[list[str]]:
    """The references of each list: its lines in the files that the setting names, with commas between them."""
    names = [name for name in (settings.get("references") or "").split(",") if name]
    if not names and settings["score"] == bleu.NAME:
        raise InputError(f"{option('score', bleu.NAME)}: compares with references; give {option('references')}")
    files = [lines_of(name, memory) for name in names]
    n = len(text.bounds) - 1
    for name, lines in zip(names, files, strict=True):
        if len(lines) != n:
            raise InputError(
                f"{name}: has {len(lines):,} lines, but there are {n:,} sentences; give a reference a line"
            )
    return [[lines[i] for lines in files] for i in range(n)]


def function_named(name: str):
    if name == bleu.NAME:
        require_library("sacrebleu", option("score", name))
        return bleu.sentence_bleu
    try:
        function = imported(name, "score")
    except ImportError as error:
        raise InputError(
            f"{option('score', name)}: cannot be imported ({error}); name it as module:function"
        ) from error
    if not callable(function):
        raise InputError(f"{option('score', name)}: is no function; it must take a text and a list of references")
    return function


def name_ids(names: list[bytes]) -> np.ndarray:
    return np.array([xxh3_64_intdigest(name) >> 1 for name in names], np.int64)


def lists_of(text: CandidateText, places: np.ndarray, quality: np.ndarray | None, n_features: int) -> CandidateLists:
    """places (n_names,) int64: of each name among the weights, -1 where it has none."""
    indices = places[text.codes] if len(places) else np.empty(0, np.int64)
    known = indices >= 0
    rows = np.repeat(np.arange(len(text.texts)), np.diff(text.indptr))[known]
    order = np.lexsort((indices[known], rows))
    indptr = np.searchsorted(rows, np.arange(len(text.texts) + 1)).astype(np.int64)
    return CandidateLists(text.bounds, indptr, indices[known][order], text.values[known][order], quality, n_features)


class Tuning(StructuredTask):
    name = "candidates"
    measure = "quality"
    settings = SCORING

    def learn(self, text_name, settings, memory):
        text = read_candidates(text_name, memory)
        quality, _ = quality_of(text, settings, memory)
        if quality is None:
            raise InputError(
                f"the quality of the candidates is needed: give {option('quality')}, a file with a number for each, or "
                f"{option('score')}, a function, and {option('references')}"
            )
        ids = name_ids(text.names)
        if not len(ids):
            raise InputError(f"{shown_name(text_name)}: no candidate has a feature")
        structure = lists_of(text, np.arange(len(ids)), quality, len(ids))
        return Learned(ListedCandidates(structure, text), {"labels": [], "template": "", "n_columns": 1}, ids)

    def examples(self, model: StructuredModel, text_name, memory, scoring: Mapping = {}):
        text = read_candidates(text_name, memory)
        place = {int(feature_id): k for k, feature_id in enumerate(model.feature_ids)}
        places = np.array([place.get(int(feature_id), -1) for feature_id in name_ids(text.names)], np.int64)
        quality, references = quality_of(text, scoring, memory)
        structure = lists_of(text, places, quality, len(model.feature_ids))
        return ListedCandidates(structure, text, references if scoring.get("score") == bleu.NAME else None)

    def layout(self, meta):
        return 1, 0

    def figures(self, examples: ListedCandidates, outputs):
        s = examples.structure
        of_chosen = np.array([s.qualities(i)[output[0]] for i, output in enumerate(outputs)])
        figures = {
            "sentences": len(outputs), "candidates": len(s.quality), "quality": float(of_chosen.mean()),
            "of the first": float(s.quality[s.bounds[:-1]].mean()),
            "of the best": float(np.maximum.reduceat(s.quality, s.bounds[:-1]).mean()),
        }  # fmt: skip
        if examples.references is not None:
            best = [s.gold(i) for i in range(len(outputs))]
            first = [[0]] * len(outputs)
            for name, numbers in {"BLEU": outputs, "BLEU of the first": first, "BLEU of the best": best}.items():
                texts = [decoded(examples.text, int(s.bounds[i] + number[0])) for i, number in enumerate(numbers)]
                figures[name] = bleu.corpus_bleu(texts, examples.references)
        return figures


CANDIDATES = Tuning()

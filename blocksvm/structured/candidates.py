"""Lists of candidates from another program: some outputs of each sentence with features, one of them to be chosen; the
task ``candidates`` tunes the weights of that program's features over lists of its best outputs.

rho(i, y') is how far the candidate's quality lies below that of the best candidate of its list, which is the gold one.

A line is a candidate, 'sentence ||| its text ||| name=value name=value ...'; the candidates of a sentence stand
together.  Their qualities come from a file of numbers, a line each, or from BLEU (Papineni, Roukos, Ward, Zhu, ACL
2002) or another function of a candidate's text and the sentence's references.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import numpy as np
from xxhash import xxh3_64_intdigest

from blocksvm.base.errors import InputError, option, require_library
from blocksvm.base.row_batch import shown_name
from blocksvm.base.user_code import imported
from blocksvm.conversion.feature_ids import IdIndex
from blocksvm.structured.kernels.sparse_rows import row_products
from blocksvm.structured.settings import SCORING
from blocksvm.structured.structure import Row, Structure
from blocksvm.structured.tasks import Examples, Learned, StructuredModel, StructuredTask
from blocksvm.structured.text.columns import decoded, text_lines

BLEU = "bleu"
TEXT_BYTES = 16  # a byte of text takes so many: its texts, names and numbers as objects, while it is read


class CandidateLists(Structure):
    """Lists as arrays.

    bounds (n_lists + 1,) int64: list i is the candidates bounds[i]:bounds[i + 1]; indptr (n_candidates + 1,) int64,
    indices (nnz,) int64, rising within a candidate, values (nnz,) float64: their features; quality (n_candidates,)
    float64, the more the better, or None.  An output is one number, the candidate's within its list.
    """

    oracle_sets = True

    def __init__(self, bounds, indptr, indices, values, quality, n_features: int):
        self.bounds, self.indptr, self.indices, self.values = bounds, indptr, indices, values
        self.quality, self.n_examples, self.n_weights = quality, len(bounds) - 1, n_features

    def outputs(self, i):
        return [_one(j) for j in range(self.bounds[i + 1] - self.bounds[i])]

    def qualities(self, i: int) -> np.ndarray:
        return self.quality[self.bounds[i] : self.bounds[i + 1]]

    def gold(self, i):
        return _one(np.argmax(self.qualities(i)))

    def oracles(self, i, m):
        return [_one(j) for j in np.argsort(-self.qualities(i), kind="stable")[:m]]

    def loss(self, i, output):
        qualities = self.qualities(i)
        return float(qualities.max() - qualities[output[0]])

    def features(self, i, output):
        start, stop = self.indptr[self.bounds[i] + output[0] :][:2]
        return Row(self.indices[start:stop], self.values[start:stop])

    def most(self, i):
        additions, largest, loss = super().most(i)
        return additions, largest, loss + 2.0 * float(np.abs(self.qualities(i)).max())  # which the decoder subtracts

    def scores(self, w: np.ndarray, i: int) -> np.ndarray:
        """(n_candidates of the list,) float64"""
        scores = np.empty(self.bounds[i + 1] - self.bounds[i])
        row_products(self.indptr, self.indices, self.values, self.bounds[i], w, scores)
        return scores

    def most_violating(self, w, i):
        return _one(np.argmax(self.scores(w, i) - self.qualities(i)))

    def k_best(self, w, i, k):
        return [_one(j) for j in np.argsort(-self.scores(w, i), kind="stable")[:k]]


def _one(number) -> np.ndarray:
    return np.array([number], np.int32)


@cache
def metric():
    """BLEU whose counts of n-grams, n > 1, are raised by one in a sentence (Lin, Och, COLING 2004).  Texts are taken as
    they are, with blanks between their tokens."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="none", smooth_method="add-k", smooth_value=1, effective_order=True, force=True)


def sentence_bleu(text: str, references: list[str]) -> float:
    """From 0 to 1, against one reference or more."""
    return metric().sentence_score(text, references).score / 100.0


def corpus_bleu(texts: list[str], references: list[list[str]]) -> float:
    """From 0 to 100, of all texts together, each with as many references as the others; no count is raised."""
    from sacrebleu.metrics.bleu import BLEU

    of_all = BLEU(tokenize="none", smooth_method="none", force=True)
    return of_all.corpus_score(texts, [list(one) for one in zip(*references, strict=True)]).score


@dataclass
class CandidateText:
    """Candidates of a file: texts; bounds of the lists; indptr, names (distinct), name codes (nnz,), values."""

    name: str
    texts: list[str]
    bounds: np.ndarray
    indptr: np.ndarray
    names: list[bytes]
    codes: np.ndarray
    values: np.ndarray

    def lists(self, numbers: np.ndarray, quality: np.ndarray | None, n_features: int) -> CandidateLists:
        """numbers (n_names,): the position of each name among the weights, -1 where it has none."""
        indices = np.asarray(numbers, np.int64)[self.codes]
        known = indices >= 0
        rows = np.repeat(np.arange(len(self.texts)), np.diff(self.indptr))[known]
        order = np.lexsort((indices[known], rows))
        indptr = np.searchsorted(rows, np.arange(len(self.texts) + 1)).astype(np.int64)
        values = self.values[known][order]
        return CandidateLists(self.bounds, indptr, indices[known][order], values, quality, n_features)

    @property
    def name_ids(self) -> np.ndarray:
        return np.array([xxh3_64_intdigest(name) >> 1 for name in self.names], np.int64)


def read_candidates(name: str, memory: int) -> CandidateText:
    """Read lists of candidates; InputError for another line, and for a sentence whose candidates stand apart."""
    texts, bounds, lengths, codes, numbers = [], [], [], [], []
    known: dict[bytes, int] = {}
    seen: set[bytes] = set()
    before = None
    for number, line in enumerate(text_lines(name, memory, TEXT_BYTES), 1):
        parts = line.split(b"|||")
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
        texts.append(decoded(parts[1].strip(), name, number))
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
            yield self.text.texts[int(self.text.bounds[i] + output[0])] + "\n"


def quality_of(text: CandidateText, settings: Mapping, memory: int) -> tuple[np.ndarray | None, list[list[str]] | None]:
    """((n_candidates,) float64, by ``quality`` or ``score`` of the settings; the references of each list, where these
    are compared with).  None where neither is set."""
    given, scored, references = settings.get("quality"), settings.get("score"), None
    if given is not None and scored is not None:
        raise InputError(f"{option('quality')} and {option('score')} say the same thing; give one of them")
    if given is None and scored is None:
        return None, None
    if given is not None:
        values = _counted_lines(given, len(text.texts), "candidates", memory)
    else:
        score, references = function_named(scored), references_of(text, settings, memory)
        lists = np.repeat(np.arange(len(text.bounds) - 1), np.diff(text.bounds))
        values = [score(text.texts[j], references[i]) for j, i in enumerate(lists)]
    quality = np.full(len(values), np.nan)
    for j, value in enumerate(values):
        with suppress(TypeError, ValueError):
            quality[j] = float(value)
        if not np.isfinite(quality[j]):
            raise InputError(f"{given or scored}: gave {value!r} for candidate {j + 1}, which is not a finite number")
    return quality, references


def _counted_lines(name: str, n: int, what: str, memory: int) -> list[str]:
    """The lines of a file, of which there must be n."""
    lines = [decoded(line, name, number) for number, line in enumerate(text_lines(name, memory, TEXT_BYTES), 1)]
    if len(lines) != n:
        raise InputError(f"{name}: has {len(lines):,} lines, but there are {n:,} {what}; give a line for each")
    return lines


def references_of(text: CandidateText, settings: Mapping, memory: int) -> list[list[str]]:
    """The references of each list: its lines in the files that the setting names, with commas between them."""
    names = [name for name in (settings.get("references") or "").split(",") if name]
    if not names and settings["score"] == BLEU:
        raise InputError(f"{option('score', BLEU)}: compares with references; give {option('references')}")
    n = len(text.bounds) - 1
    files = [_counted_lines(name, n, "sentences", memory) for name in names]
    return [[lines[i] for lines in files] for i in range(n)]


def function_named(name: str) -> Callable[[str, list[str]], float]:
    if name == BLEU:
        require_library("sacrebleu", option("score", name))
        return sentence_bleu
    given = option("score", name)
    try:
        function = imported(name, "score")
    except ImportError as error:
        raise InputError(f"{given}: cannot be imported ({error}); name it as module:function") from error
    if not callable(function):
        raise InputError(f"{given}: is no function; it must take a text and a list of references")
    return function


class Tuning(StructuredTask):
    name = "candidates"
    settings = SCORING

    def learn(self, text_name, settings, memory):
        text = read_candidates(text_name, memory)
        quality, _ = quality_of(text, settings, memory)
        if quality is None:
            raise InputError(
                f"the quality of the candidates is needed: give {option('quality')}, a file with a number for each, or "
                f"{option('score')}, a function, and {option('references')}"
            )
        ids = text.name_ids
        if not len(ids):
            raise InputError(f"{shown_name(text_name)}: no candidate has a feature")
        structure = text.lists(np.arange(len(ids)), quality, len(ids))
        return Learned(structure, {"labels": [], "template": "", "n_columns": 1}, ids)

    def examples(self, model: StructuredModel, text_name, memory, scoring: Mapping = {}):
        text = read_candidates(text_name, memory)
        numbers = IdIndex(len(model.feature_ids)).fill([(0, model.feature_ids)]).find(text.name_ids)
        quality, references = quality_of(text, scoring, memory)
        structure = text.lists(numbers, quality, len(model.feature_ids))
        return ListedCandidates(structure, text, references if scoring.get("score") == BLEU else None)

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
                texts = [examples.text.texts[int(s.bounds[i] + number[0])] for i, number in enumerate(numbers)]
                figures[name] = corpus_bleu(texts, examples.references)
        return figures


CANDIDATES = Tuning()

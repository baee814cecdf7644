"""The n-grams of words or characters of texts, counted: the features of rows of text, in whatever form it comes.

As scikit-learn's CountVectorizer and HashingVectorizer cut them (a word is two or more word characters of Unicode; of
characters runs of blanks count as one, and ``char_wb`` stays within words, a space at each end), with two differences:
letters are lower-cased one by one, so that a sigma at the end of a word is one as elsewhere, and U+0130 becomes an i;
and where accents are stripped, one letter stays one (U+FB01, of two, as it is).
"""

import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import numpy as np

from blocksvm.formats.choices import ngrams_of
from blocksvm.formats.kernels import ngrams as kernels
from blocksvm.formats.kernels.numbers import FINE
from blocksvm.kernels.text_bytes import SPARE
from blocksvm.store.recipe import Recipe

LAST_LETTER = 0x32400  # no character from here on is a word's, has a lower case or an accent
# n-grams a byte of text: a word and a blank take three; "a", a blank and the next one are three n-grams in two bytes
OF_A_BYTE = {kernels.WORDS: 1 / 3, kernels.CHARACTERS: 1.0, kernels.WITHIN_WORDS: 1.25}


@cache
def characters(case: str = "lower", accents: str = "keep") -> tuple[np.ndarray, np.ndarray]:
    """(kinds uint8, code points int32 that characters become) of all code points before ``LAST_LETTER``."""
    kinds, becomes = np.zeros(LAST_LETTER, np.uint8), np.arange(LAST_LETTER, dtype=np.int32)
    for c, character in enumerate(map(chr, range(LAST_LETTER))):
        if case == "lower":  # not title case, as of circled letters
            character = character.lower()[0]
        if accents == "strip":
            first, *marks = unicodedata.normalize("NFD", character)
            if unicodedata.combining(first):
                kinds[c] = kernels.NOTHING
            elif all(map(unicodedata.combining, marks)):
                character = first
        becomes[c] = ord(character)
        if character.isalnum() or character == "_":
            kinds[c] = kernels.LETTER
        elif character.isspace():
            kinds[c] = kernels.BLANK
    return kinds, becomes


def plan_of(options: Mapping) -> list[tuple[int, int, int]]:
    """The n-grams that features are, as ``choices.ngrams_of`` has them."""
    return ngrams_of(options.get("ngrams") or "word:1")


def characters_of(options: Mapping) -> tuple[np.ndarray, np.ndarray]:
    """The ``characters`` that a recipe's options choose."""
    return characters(options.get("case") or "lower", options.get("accents") or "keep")


class Rows(NamedTuple):
    """Rows, as of ``RowBatch``, before the first at fault; code, name: of tables, what is wrong, of which feature."""

    indptr: np.ndarray
    ids: np.ndarray
    values: np.ndarray
    names: tuple | None
    largest: float
    code: int = FINE
    name: str = ""


class NgramFeatures:
    """Makes rows of texts, as a recipe says; named: with names; entries: of a row, at most, for each byte of its text;
    expansion: bytes in memory for one."""

    def __init__(self, recipe: Recipe, named: bool):
        self.recipe, self.named = recipe, named
        plan = plan_of(recipe.options)
        self.plan = np.array(plan, np.int64)
        self.characters = characters_of(recipe.options)
        self.entries = sum(OF_A_BYTE[what] * (high - low + 1) for what, low, high in plan)
        self.expansion = int(2 + 2 * len(plan) + (32 if named else 16) * self.entries)

    def rows(
        self, text: np.ndarray, spans: np.ndarray, indptr: np.ndarray, ids: np.ndarray, values: np.ndarray
    ) -> Rows:
        """Of the texts ``text[spans[i, 0]:spans[i, 1]]``, spans (n, 2) int64, UTF-8, into arrays with room for
        them; after the last one ``SPARE`` bytes are readable."""
        lengths = spans[:, 1] - spans[:, 0]
        n_bytes = int(lengths.sum() if self.named else lengths.max(initial=0))
        out = np.empty(2 * len(self.plan) * (n_bytes + 2 * len(spans) * self.named + 2) + SPARE, np.uint8)
        firsts, lasts = (np.empty(len(ids) if self.named else 0, np.int64) for _ in range(2))
        largest = kernels.count_ngrams(
            text, spans, self.plan, *self.characters, self.recipe.l2, self.recipe.single, self.named,
            indptr, ids, values, out, firsts, lasts,
        )  # fmt: skip
        nnz = int(indptr[len(spans)])
        names = (out, firsts[:nnz], lasts[:nnz]) if self.named else None
        return Rows(indptr[: len(spans) + 1], ids[:nnz], values[:nnz], names, largest)

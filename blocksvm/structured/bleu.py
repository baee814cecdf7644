"""BLEU of candidates (Papineni, Roukos, Ward, Zhu, ACL 2002), by sacrebleu: of one sentence, and of a whole text.

Texts are taken as they are, with blanks between their tokens.
"""

from __future__ import annotations

from functools import cache

NAME = "bleu"


@cache
def metric():
    """BLEU whose counts of n-grams, n > 1, are raised by one in a sentence (Lin, Och, COLING 2004)."""
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

"""scikit-learn's steps from texts, or from dicts by the names of features, to the columns that weights belong to.

They are classes of scikit-learn and functions of the standard library, numpy and scipy alone, so that a file of them
loads without this package.
"""

from __future__ import annotations

from dataclasses import replace
from operator import methodcaller
from typing import Any

import numpy as np

from blocksvm.exchange.linear import Linear, wrong_form
from blocksvm.formats.choices import ANALYZERS, is_text
from blocksvm.formats.kernels.name_hashes import hash_of
from blocksvm.formats.kernels.ngrams import NOTHING, SEEDS, WORDS
from blocksvm.formats.ngram_features import characters_of, plan_of
from blocksvm.store.recipe import Recipe

HASHES = 2**31 - 1  # the most columns of scikit-learn's hashing


def ngrams_in(recipe: Recipe) -> list[tuple[int, int, int]] | None:
    """The n-grams that features are, as ``choices.ngrams_of`` has them, None where they are others."""
    return plan_of(recipe.options) if is_text(recipe.format, recipe.options) else None


def require_names(name: str, recipe: Recipe, names: list[str]) -> None:
    """InputError where features have no name, or two have the same."""
    if not all(names):
        raise wrong_form(
            f"{name}: {names.count(''):,} of its {len(names):,} features have no name, as a Pipeline needs"
        )
    if ngrams_in(recipe) is None and len(set(names)) < len(names):
        raise wrong_form(f"{name}: two of its features have one name, which a Pipeline cannot tell apart")


def steps_before(linear: Linear, recipe: Recipe, names: list[str]) -> tuple[Linear, list[tuple[str, Any]], tuple]:
    """(the weights by column, the named steps that make the columns of rows, notes for users of these)."""
    if (plan := ngrams_in(recipe)) is not None:
        known, everything, order = _of_texts(plan, recipe, linear.ids, names)
        note = "its rows are texts, as in predict(['a text'])"
    else:
        known, everything, order = _of_dicts(names)
        note = ("its rows are dicts by name, of a table by column, as in predict([{'size': 2.5, 'colour': 'red'}]), or "
                "predict(frame.to_dict('records')) of a data frame")  # fmt: skip
    by_column = replace(linear, ids=np.arange(len(order)), weights=linear.weights[:, order], least_columns=1)
    steps = [("known", known), *([] if plan is not None else [("missing", _without_missing(len(names)))])]
    if linear.factors:
        from sklearn.feature_extraction.text import TfidfTransformer

        weighing = TfidfTransformer(norm="l2" if recipe.l2 else None)
        (weighing.idf_,) = (factors[order] for factors in linear.factors.values())  # a scale likewise
        steps.append(("weighing", weighing))
    elif recipe.l2:
        by_column = replace(by_column, least_columns=len(order) + 1)
        steps = _scaled(known, everything)
    return by_column, steps, (note,)


def _of_texts(
    plan: list[tuple[int, int, int]], recipe: Recipe, ids: np.ndarray, names: list[str]
) -> tuple[Any, Any, np.ndarray]:
    """(step to the counts of known n-grams, step to those of all in columns by hash, the known ones by column)."""
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

    # letters are made small one by one, which str.lower does not
    kinds, becomes = characters_of(recipe.options)
    small: dict[int, int | None] = {c: to for c, to in enumerate(becomes.tolist()) if c != to}
    small |= dict.fromkeys(np.flatnonzero(kinds & NOTHING).tolist())
    made_of = np.full(len(ids), plan[0][0])
    if len(plan) > 1:  # the id tells which n-grams have the name
        others = [kind for kind, _, _ in plan if kind != WORDS]
        for k, (feature, name) in enumerate(zip(ids.tolist(), names, strict=True)):
            made_of[k] = next((c for c in others if int(hash_of(name.encode(), SEEDS[c])) >> 1 == feature), WORDS)
    analyzers = {number: name for name, number in ANALYZERS.items()}
    known, everything, order = [], [], []
    for kind, low, high in plan:
        cut: dict[str, Any] = dict(analyzer=analyzers[kind], ngram_range=(low, high), lowercase=False,
                                   preprocessor=methodcaller("translate", small), dtype=np.float64)  # fmt: skip
        hashing = HashingVectorizer(n_features=HASHES, alternate_sign=False, norm=None, **cut)
        everything.append((analyzers[kind], hashing))
        positions = np.flatnonzero(made_of == kind)
        if len(positions):
            vocabulary = {names[position]: column for column, position in enumerate(positions.tolist())}
            known.append((analyzers[kind], CountVectorizer(vocabulary=vocabulary, **cut).fit([""])))
            order.append(positions)
    return _union(known), _union(everything), np.concatenate(order)


def _of_dicts(names: list[str]) -> tuple[Any, Any, np.ndarray]:
    from sklearn.feature_extraction import DictVectorizer, FeatureHasher

    known = DictVectorizer(sort=False).fit([dict.fromkeys(names, 0.0)])
    return known, FeatureHasher(n_features=HASHES, alternate_sign=False), np.arange(len(names))


def _without_missing(n: int):
    """The step that takes nan for a missing value, which is no entry."""
    from scipy.sparse import csr_matrix
    from sklearn.impute import SimpleImputer

    return SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True).fit(csr_matrix((1, n)))


def _union(steps: list[tuple[str, Any]]):
    from sklearn.pipeline import FeatureUnion

    return steps[0][1] if len(steps) == 1 else FeatureUnion(steps)


def _scaled(known, everything) -> list[tuple[str, Any]]:
    """The steps to known columns divided by the norm of all, and a last one, of weight 0: the norm stands in it, and as
    no column has a larger value, all are divided by their row's largest.

    The norm differs where two features of a row share one of 2^31 hashes: in one of 4,000 rows of 1,000 features."""
    from scipy.sparse.linalg import norm
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, Normalizer

    steps = (("norm", norm), ("column", np.expand_dims))
    by_row = [(name, FunctionTransformer(function, kw_args={"axis": 1})) for name, function in steps]
    norms = Pipeline([("all", everything), *by_row])
    return [("known", _union([("known", known), ("norm", norms)])), ("scaling", Normalizer(norm="max"))]

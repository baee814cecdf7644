"""scikit-learn's linear estimators: models as fitted estimators, and fitted estimators as models.

A column of its matrices is a feature id, as in ``Model.decision_function``; where features have names, steps before the
estimator make the columns from texts, or from dicts by name.  They are classes of scikit-learn and functions of the
standard library, numpy and scipy alone, so that a file of them loads without this package.
"""

import math
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import IO, Any

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import numbers_of
from blocksvm.exchange.linear import Linear, calibration_notes, linear_of, model_of, wrong_form
from blocksvm.exchange.weights_table import names_of_model
from blocksvm.formats.choices import ANALYZERS, is_text
from blocksvm.formats.kernels.ngrams import NOTHING, SEEDS, WORDS
from blocksvm.formats.ngram_features import characters_of, plan_of
from blocksvm.kernels.hash_table import hash_of
from blocksvm.losses import DEFAULT, DEFAULT_OF_NUMBERS, LOSSES, get_loss
from blocksvm.model.model_file import Model
from blocksvm.problems.problem_settings import CRAMMER_SINGER, learns_together
from blocksvm.store.recipe import Recipe

MOST_BYTES = 4_000_000_000  # of an estimator's dense weights
# of labels; others are numpy's own choice
LABEL_TYPES = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "object")
KNOWN_AS = "scikit-learn"  # among a loss's names in other programs: by estimator
HASHES = 2**31 - 1  # the most columns of scikit-learn's hashing


def estimator_of(model: Model, names: Path | None = None) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """(the fitted estimator or Pipeline, notes for its users, those on what it lacks of the model).  InputError where
    no estimator, and no Pipeline, is like the model."""
    name, recipe = model.path or "the model", model.recipe
    named = names_of_model(model, names)
    plan = plan_of(recipe.options) if is_text(recipe.format, recipe.options) else None
    linear = linear_of(model, apart=named is not None, of_one_label="scikit-learn's linear estimators")
    steps: list = []
    notes = linear.steps
    if named is not None:
        if unnamed := named.count(""):
            some = f"{unnamed:,} of its {len(named):,} features"
            raise wrong_form(f"{name}: {some} have no name, as a Pipeline needs")
        if plan is None and len(set(named)) < len(named):
            raise wrong_form(f"{name}: two of its features have one name, which a Pipeline cannot tell apart")
        linear, steps, notes = steps_before(linear, recipe, plan, named)
    elif plan is not None:
        lacks = "does not name its n-grams, as a Pipeline needs and a store of the same texts does"
        raise wrong_form(f"{name}: {lacks} ({option('names')})")
    estimator = _unfitted(linear)
    estimator.coef_ = linear.dense("An estimator", MOST_BYTES if named is None else math.inf)
    estimator.intercept_ = linear.intercept.copy()
    estimator.n_features_in_ = linear.columns
    if linear.labels:
        kind = model.meta.label_type
        estimator.classes_ = np.array(linear.labels, dtype=kind if kind in LABEL_TYPES else None)
    else:
        estimator.coef_ = estimator.coef_[0]
    estimator.n_iter_ = max(1, model.meta.outer)
    name = type(estimator).__name__
    other_loss = (
        f"scikit-learn has no estimator of the loss {linear.loss}: this {name} has the same decision values, but would "
        "minimise another loss if it was fitted again"
    )
    of_loss = () if name in _names_of(linear.loss) else (other_loss,)
    if steps:
        from sklearn.pipeline import Pipeline

        estimator = Pipeline([*steps, ("model", estimator)])
    return estimator, notes + linear.notes + of_loss, calibration_notes(model) + of_loss


def _names_of(loss: str) -> dict:
    """The names of a loss in scikit-learn, by estimator."""
    return get_loss(loss).known_as.get(KNOWN_AS, {}) if loss in LOSSES else {}


def _unfitted(linear: Linear):
    from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor
    from sklearn.svm import LinearSVC, LinearSVR

    k, names = len(linear.labels), _names_of(linear.loss)
    if not k:
        if "LinearSVR" in names:
            return LinearSVR(loss=names["LinearSVR"])
        return SGDRegressor(loss=names.get("SGDRegressor", "squared_error"))
    if learns_together(linear.multiclass):
        return LinearSVC(multi_class="crammer_singer")
    if "LinearSVC" in names:
        return LinearSVC(loss=names["LinearSVC"])
    if "LogisticRegression" in names and k == 2:
        return LogisticRegression()
    return SGDClassifier(loss=names.get("SGDClassifier", "hinge"))


def from_estimator(estimator) -> Model:
    """A model with the decision values and predictions of a fitted linear estimator (one with coef_, intercept_ and, of
    classes, classes_): the features are the columns whose weight is not 0, named by their numbers.

    InputError where it is not fitted, or has no such attributes.
    """
    name = type(estimator).__name__
    try:
        coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
        intercept = np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"{name}: has no weights; give a linear estimator that is fitted") from None
    classes = np.asarray(getattr(estimator, "classes_", ()))
    numbers = classes.dtype.kind in "biuf"
    labels: tuple = tuple(numbers_of(classes).tolist()) if numbers else tuple(map(str, classes))
    k = len(coef)
    if coef.ndim != 2 or (k != 1 if len(labels) in (0, 2) else k != len(labels)):
        raise InputError(f"{name}: has {k} vectors of weights for {len(labels)} classes; give one of one target")
    known = np.flatnonzero(coef.any(axis=0))
    ids = known if len(known) else np.zeros(1, np.int64)
    crammer_singer = getattr(estimator, "multi_class", None) == "crammer_singer" and k > 2
    linear = Linear(
        ids.astype(np.int64), coef[:, ids].copy(), np.broadcast_to(intercept, (k,)).copy(), labels,
        _loss_of(estimator, bool(labels)), CRAMMER_SINGER if crammer_singer else None,
    )  # fmt: skip
    extra = {"columns": coef.shape[1], "label_type": classes.dtype.name}
    return model_of(linear, f"scikit-learn ({name})", extra=extra)


def _loss_of(estimator, classes: bool) -> str:
    """The loss that an estimator names or has; where it is none of ours, one of its kind."""
    kind, theirs = type(estimator).__name__, getattr(estimator, "loss", None)
    for name in LOSSES:
        names = _names_of(name)
        if theirs in names.values() if theirs is not None else kind.removesuffix("CV") in names:
            return name
    return DEFAULT if classes else DEFAULT_OF_NUMBERS


def write(model: Model, file: IO[bytes], names: Path | None = None) -> tuple[str, ...]:
    """Write the fitted estimator with joblib; names: a store that names the features.  Returns notes for its users."""
    estimator, notes, _ = estimator_of(model, names)
    import joblib

    joblib.dump(estimator, file)
    if model.recipe.format == "svmlight" and hasattr(estimator, "coef_"):  # svmlight, without names
        notes += (f"a column is a feature id, from 0: load_svmlight_file(FILE, n_features={estimator.n_features_in_}, "
                  "zero_based=True) reads svmlight text so",)  # fmt: skip
    return notes


def steps_before(
    linear: Linear, recipe: Recipe, plan: list[tuple[int, int, int]] | None, names: list[str]
) -> tuple[Linear, list[tuple[str, Any]], tuple]:
    """(the weights by column, the named steps that make the columns of rows, notes for users of these); plan: the
    n-grams that features are, as ``plan_of`` has them, None where they are others."""
    missing = []
    if plan is not None:
        known, everything, order = _of_texts(plan, recipe, linear.ids, names)
        note = "its rows are texts, as in predict(['a text'])"
    else:
        from scipy.sparse import csr_matrix
        from sklearn.feature_extraction import DictVectorizer, FeatureHasher
        from sklearn.impute import SimpleImputer

        known = DictVectorizer(sort=False).fit([dict.fromkeys(names, 0.0)])
        everything, order = FeatureHasher(n_features=HASHES, alternate_sign=False), np.arange(len(names))
        # nan is a missing value, which is no entry
        imputer = SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)
        missing = [("missing", imputer.fit(csr_matrix((1, len(names)))))]
        note = ("its rows are dicts by name, of a table by column, as in predict([{'size': 2.5, 'colour': 'red'}]), or "
                "predict(frame.to_dict('records')) of a data frame")  # fmt: skip
    by_column = replace(linear, ids=np.arange(len(order)), weights=linear.weights[:, order], least_columns=1)
    steps = [("known", known), *missing]
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


def _union(steps: list[tuple[str, Any]]):
    from sklearn.pipeline import FeatureUnion

    return steps[0][1] if len(steps) == 1 else FeatureUnion(steps)


def _scaled(known, everything) -> list[tuple[str, Any]]:
    """The steps to known columns divided by the norm of all, and a last one, of weight 0: the norm stands in it, and as
    no column has a larger value, all are divided by their row's largest.

    The norm differs where two features of a row share one of 2^31 hashes: in one of 4,000 rows of 1,000 features.
    """
    from scipy.sparse.linalg import norm
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, Normalizer

    steps = (("norm", norm), ("column", np.expand_dims))
    by_row = [(name, FunctionTransformer(function, kw_args={"axis": 1})) for name, function in steps]
    norms = Pipeline([("all", everything), *by_row])
    return [("known", _union([("known", known), ("norm", norms)])), ("scaling", Normalizer(norm="max"))]

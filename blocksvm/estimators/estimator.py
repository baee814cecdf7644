"""The base class of estimators: rows of every kind to a source, a run to fitted attributes, decision values in pieces.

scikit-learn's conventions hold: parameters are stored unchanged and checked in ``fit``; fitted attributes end in an
underscore.  An iterable or a store contains its labels and weights: ``y`` and ``sample_weight`` are left out.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from blocksvm.api.fit import Fitted, fit
from blocksvm.base.errors import InputError
from blocksvm.base.labels import SETS
from blocksvm.base.settings import Setting, n_threads
from blocksvm.estimators.fit_rows import (
    FLOATS,
    Batches,
    by_source,
    columns_of,
    is_batches,
    is_store,
    labels_of,
    opened_batches,
    pieces_of,
    rows_of_chunk,
)
from blocksvm.sources.matrix import Matrix, csr_of
from blocksvm.sources.source import Source
from blocksvm.store.reader import open_store
from blocksvm.training.run_settings import FREE, RUN_SETTINGS

OUT_OF_CORE = 1_000_000_000  # bytes for stores and batches, where no memory is named
IN_MEMORY = 1 << 50  # rows that are in memory already need no limit

PARAMETERS = {
    "fit_intercept": "whether there is an intercept",
    "intercept_scaling": "value of a constant feature, whose weight is regularised with the others; free (of one "
    "problem): the intercept is not regularised",
    "tol": "certified relative duality gap to reach (None: 1e-4, and of a matrix of at most 10,000 entries as small a "
    "one as rounding and max_iter allow)",
    "max_iter": "passes over all rows at most; of online learners the epochs of fit",
    "max_seconds": RUN_SETTINGS["max_seconds"].help,
    "working_set": f"{RUN_SETTINGS['working_set'].help}; auto is none for matrices",
    "calibrate": "probabilities from five folds held out: platt or isotonic, of two classes",
    "penalty": "l2, as in scikit-learn; there is no other",
    "dual": "auto or True, as in scikit-learn: it is always the dual that is solved",
    "learner": "the name of an online learner, a ``Learner`` of your own, or its location, module:attribute",
    "shuffle": "visit the rows in random orders, other ones in each epoch",
    "warm_start": "begin from the result of the last fit",
    "random_state": "seed of the orders of rows: a number, a RandomState, or None: 0",
    "verbose": "print a line for each reading of the rows",
    "memory": "bytes for a store or batches, and for weights and tables (None: 1 GB, and for matrices no limit)",
    "temp": "folder for batches (None: the system's)",
    "n_jobs": "threads that train, make a store of batches, and predict rows in memory (None: 1, -1: as many as there "
    "are processors); whatever their number, the results are the same",
}
OF_LEARNERS = "settings of learners (``blocksvm.describe_solver(NAME, learner=True)``); None: the learner's default"


def documented(*settings: Setting) -> Callable[[type], type]:
    """A class decorator: the docstring lists the parameters, those that are settings as these describe themselves."""

    def add(owner: type) -> type:
        texts = PARAMETERS | {setting.name: setting.described() for setting in settings}
        if losses := ", ".join(getattr(owner, "losses", ())).replace("-", "_"):
            texts["loss"] = f"{losses}, a ``Loss`` of your own, or its location"
        names = list(inspect.signature(owner).parameters)
        lines = [f"    {name}: {texts[name]}" for name in names if name in texts]
        if of_learners := ", ".join(name for name in names if name not in texts):
            lines.append(f"    {of_learners}: {OF_LEARNERS}")
        owner.__doc__ = "\n".join([inspect.cleandoc(owner.__doc__ or ""), "", "Parameters:", *lines])
        return owner

    return add


class Estimator(BaseEstimator):
    """Base class; ``takes_sets``: y may be an indicator of several labels; ``most_classes``: 2, or None: any number;
    ``numbered_from``: columns of a matrix from which on these are numbered by frequency, for many passes."""

    takes_sets = False
    most_classes: int | None = None
    numbered_from: float = math.inf

    def _set(self, given: dict) -> None:
        """Store the arguments of a constructor, its ``locals()``, under their names, as scikit-learn requires."""
        vars(self).update({name: value for name, value in given.items() if name != "self"})

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # -- rows --------------------------------------------------------------------------------------------------

    @contextmanager
    def _source(self, X, y, sample_weight) -> Iterator[Source]:
        """The rows as a source, whose labels are positions among ``classes_`` where it is in memory."""
        if is_store(X) or is_batches(X, y):
            if y is not None or sample_weight is not None:
                raise InputError("a store or an iterator has its labels and weights with it; leave y and "
                                 "sample_weight out")  # fmt: skip
            with self._out_of_core(X) as source:
                yield source
            return
        X, y = self._checked(X, y)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        if is_classifier(self):
            self.multilabel_ = y.ndim == 2
            y = self._coded(y)
        X = csr_of(X)
        numbered = X.shape[1] >= self.numbered_from and X.nnz >= X.shape[1] // 4
        yield Matrix(X, y, weights=weights, numbered_by_frequency=numbered)

    def _checked(self, X, y, reset: bool = True) -> tuple:
        """(X, y) checked by scikit-learn: X dense or CSR, float32 or float64, not copied where possible."""
        if y is None:  # scikit-learn's message
            validate_data(self, X, y, accept_sparse="csr", dtype=list(FLOATS), reset=reset)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=list(FLOATS), reset=reset, y_numeric=not is_classifier(self),
            multi_output=is_classifier(self),
        )  # fmt: skip
        if is_classifier(self):
            if self.takes_sets and type_of_target(y) == "multilabel-indicator":
                return X, y.toarray() if sparse.issparse(y) else y
            y = column_or_1d(y, warn=True)
            check_classification_targets(y)
        return X, y

    def _coded(self, y: np.ndarray) -> np.ndarray:
        """y as positions among the classes, or an indicator unchanged."""
        if y.ndim == 2:
            empty = np.flatnonzero(~y.any(axis=0))
            if len(empty):
                raise InputError(
                    f"column {empty[0]} of y is 0 in every row, so nothing can be learned of it; leave it out"
                )
            self.classes_ = np.arange(y.shape[1])
            return y
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"y has 1 class ({classes[0]}); a classifier needs rows of two classes or more")
        self._keep_classes(classes)
        return codes.astype(np.float64)

    def _keep_classes(self, classes: np.ndarray) -> None:
        if self.most_classes is not None and len(classes) > self.most_classes:
            raise InputError("Only binary classification is supported. The type of the target is multiclass.")
        self.classes_ = classes

    @contextmanager
    def _out_of_core(self, X) -> Iterator[Source]:
        batches = None if is_store(X) else Batches(X)
        opened = open_store(X) if batches is None else opened_batches(
            batches, self._memory(False), self.temp, self._seed(), n_threads(self.n_jobs)
        )  # fmt: skip
        with opened as source:
            self.n_features_in_ = int(columns_of(source).max(initial=-1)) + 1 if batches is None else batches.n_features
            if is_classifier(self):
                self.multilabel_ = source.label_kind == SETS
                if source.labels is None and not (self.multilabel_ and self.takes_sets):
                    raise InputError(
                        f"{source.name}: its labels are not classes; a classifier needs rows of two classes or more"
                    )
                if source.labels is not None:
                    classes = np.array(source.labels.values)
                    check_classification_targets(classes)
                    whole = batches is not None and batches.label_dtype.kind in "biu"
                    self._keep_classes(classes.astype(batches.label_dtype) if whole else classes)
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            yield source

    # -- the run -----------------------------------------------------------------------------------------------

    def _seed(self) -> int:
        """The seed of ``random_state``; None is 0, so that the same rows give the same model."""
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _bias(self) -> float | str:
        value = self.intercept_scaling if self.fit_intercept else 0.0
        if value == FREE:
            return FREE
        if not (isinstance(value, int | float | np.number) and (value > 0.0 or not self.fit_intercept)):
            raise InputError(f"intercept_scaling={value}: must be a number above 0")
        return float(value)

    def _class_weight(self, source: Source):
        """The weights of classes by the labels of the source."""
        class_weight = getattr(self, "class_weight", None)
        if class_weight is None or isinstance(class_weight, str) or not source.in_memory:
            return class_weight
        if not hasattr(class_weight, "items"):
            raise InputError(f"class_weight={class_weight}: must be None, 'balanced' or a dict of weights by class")
        position = {label: code for code, label in enumerate(self.classes_.tolist())}
        unknown = [label for label in class_weight if label not in position]
        if unknown:
            raise InputError(
                f"class_weight: no row is of the class {unknown[0]}; the classes are {list(position)[:10]}"
            )
        return {float(position[label]): weight for label, weight in class_weight.items()}

    def _run(self, source: Source, **settings) -> Fitted:
        """One run of ``blocksvm.fit``, with the settings of every estimator."""
        run = {"memory": self._memory(source.in_memory), "seed": self._seed(), "on_event": self._show}
        return fit(source, n_jobs=self.n_jobs, **run | settings)

    def _memory(self, in_memory: bool) -> int:
        return RUN_SETTINGS["memory"].checked(self.memory) or (IN_MEMORY if in_memory else OUT_OF_CORE)

    def _show(self, event: dict) -> None:
        if self.verbose and event["event"] == "outer":
            about, gap = ("", event["rel_gap"]) if event["rel_gap"] is not None else (" (about)", event["gap_estimate"])
            gap_text = "" if gap is None else f", relative gap {gap:.2e}{about}"
            print(f"{type(self).__name__}: reading {event['outer']}, {event['seconds']:.2f} s{gap_text}")

    def _keep(self, source: Source, fitted: Fitted) -> None:
        """Set the fitted attributes of a linear result."""
        coef = np.array(np.atleast_2d(fitted.model.weights))
        columns = columns_of(source)
        if columns is not None:
            weights, coef = coef, np.zeros((len(coef), self.n_features_in_))
            coef[:, columns] = weights
        self.coef_ = coef if is_classifier(self) else coef[0]
        self.intercept_ = np.array(np.atleast_1d(fitted.model.intercept), dtype=np.float64)
        self._keep_end(source, fitted)

    def _keep_end(self, source: Source, fitted: Fitted) -> None:
        result, resident = fitted.result, fitted.plan.blocks.partition.resident
        self.n_iter_ = max(result.outer, sum(result.passes)) if resident else result.outer
        if is_classifier(self) and self.multilabel_ and not source.in_memory:
            self.classes_ = np.array(fitted.model.labels)

    # -- predictions -------------------------------------------------------------------------------------------

    def _values(self, X) -> np.ndarray:
        """Decision values (n,), or (n, k) of k > 2 classes or of sets of k labels; X: rows, or a store's path, with its
        rows in the order of its text."""
        check_is_fitted(self)
        coef = np.atleast_2d(self.coef_)
        if is_store(X):
            with open_store(X) as store:
                columns = columns_of(store)
                known = columns < coef.shape[1]
                w = np.zeros((len(columns), len(coef)))
                w[known] = coef.T[columns[known]]
                values = by_source(store, lambda chunk: rows_of_chunk(store, chunk) @ w)
        else:
            factor = np.ascontiguousarray(coef.T)
            values = self._in_pieces(lambda rows: rows @ factor, X)
        values += self.intercept_
        return values if len(coef) > 1 else values[:, 0]

    def _in_pieces(self, decide: Callable, X) -> np.ndarray:
        """``decide(rows)`` of rows in memory, a piece at a time, in ``n_jobs`` threads."""
        X = validate_data(self, X, accept_sparse="csr", dtype=list(FLOATS), reset=False)
        decided = Parallel(self.n_jobs, require="sharedmem")(delayed(decide)(X[rows]) for rows in pieces_of(X))
        return np.concatenate(decided)


class Classifier(ClassifierMixin, Estimator):
    """Estimator of labels: of two classes by the sign of the decision value, of more by the largest one."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.takes_sets
        tags.classifier_tags.multi_class = self.most_classes is None
        return tags

    def decision_function(self, X) -> np.ndarray:
        """(n,) float64, above 0 for the second of two classes; (n, k) of k classes, or of k labels of sets."""
        return self._values(X)

    def predict(self, X) -> np.ndarray:
        """The class of each row (n,), or (n, k) of 0 and 1 where rows have sets of k labels."""
        values = self._values(X)
        if self.multilabel_:
            return (values > 0.0).astype(np.int64)
        return self.classes_[values.argmax(axis=1) if values.ndim == 2 else (values > 0.0).astype(np.int64)]

    def score(self, X, y=None, sample_weight=None) -> float:
        """Accuracy; a store contains its labels."""
        return super().score(X, labels_of(X) if y is None else y, sample_weight)


class Regressor(RegressorMixin, Estimator):
    """Estimator whose decision values are the predictions."""

    def predict(self, X) -> np.ndarray:
        """(n,) float64."""
        return self._values(X)

    def score(self, X, y=None, sample_weight=None) -> float:
        """The coefficient of determination R^2; a store contains its targets."""
        return super().score(X, labels_of(X) if y is None else y, sample_weight)

"""The base class of estimators: rows of every kind to a source, a run to fitted attributes, decision values in pieces.

scikit-learn's conventions hold: parameters are stored unchanged and checked in ``fit``; fitted attributes end in an
underscore.  An iterable or a store contains its labels and weights: ``y`` and ``sample_weight`` are left out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from blocksvm.api.fit import Fitted, fit
from blocksvm.base.errors import InputError
from blocksvm.base.settings import n_threads
from blocksvm.estimators.fit_rows import (
    FLOATS,
    Batches,
    by_source,
    columns_of,
    compressed,
    is_batches,
    is_store,
    opened_batches,
    pieces_of,
)
from blocksvm.estimators.parameters import Parameter
from blocksvm.kernels.margins import decision_values
from blocksvm.sources.matrix import Matrix
from blocksvm.sources.source import Source
from blocksvm.store.reader import open_store
from blocksvm.training.run_settings import FREE, RUN_SETTINGS

OUT_OF_CORE = 1_000_000_000  # bytes for stores and batches, where no memory is named
IN_MEMORY = 1 << 50  # rows that are in memory already need no limit

INTERCEPT = (
    Parameter("fit_intercept", True, "whether there is an intercept"),
    Parameter("intercept_scaling", 1.0, "value of a constant feature, whose weight is regularised with the others"),
)
MACHINE = (
    Parameter("warm_start", False, "begin from the result of the last fit"),
    Parameter("random_state", None, "seed of the orders of rows: a number, a RandomState, or None: 0"),
    Parameter("verbose", 0, "print a line for each reading of the rows"),
    Parameter("memory", None, "bytes for a store or batches, and for weights and tables (None: 1 GB, and for "
              "matrices no limit)"),
    Parameter("temp", None, "folder for batches (None: the system's)"),
    Parameter("n_jobs", None, "threads that train, make a store of batches, and predict rows in memory (None: 1, -1: "
              "as many as there are processors); whatever their number, the results are the same"),
)  # fmt: skip


@dataclass(frozen=True)
class EstimatorRun:
    """Training rows: source; n_features: columns; columns (m,) int64: of each of the source's features, None: the same;
    classes: the labels, None for regression; coded: labels in the source are places among ``classes``; multilabel: rows
    have sets of labels."""

    source: Source
    n_features: int
    columns: np.ndarray | None = None
    classes: np.ndarray | None = None
    coded: bool = False
    multilabel: bool = False


class Estimator(BaseEstimator):
    """Base class; ``takes_sets``: y may be an indicator of several labels; ``most_classes``: 2, or None: any number;
    ``numbered_from``: columns of a matrix from which on these are numbered by frequency, for many passes."""

    takes_sets = False
    most_classes: int | None = None
    numbered_from: float = math.inf

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # -- rows --------------------------------------------------------------------------------------------------

    @contextmanager
    def _training(self, X, y, sample_weight) -> Iterator[EstimatorRun]:
        if is_store(X) or is_batches(X, y):
            if y is not None or sample_weight is not None:
                raise InputError("a store or an iterator has its labels and weights with it; leave y and "
                                 "sample_weight out")  # fmt: skip
            with self._out_of_core(X) as training:
                yield training
            return
        X, y = self._checked(X, y)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        classes = None
        multilabel = y.ndim == 2
        if is_classifier(self):
            classes, y = self._coded(y)
        X = compressed(X)
        numbered = X.shape[1] >= self.numbered_from and X.nnz >= X.shape[1] // 4
        matrix = Matrix(X, y, weights=weights, numbered_by_frequency=numbered)
        yield EstimatorRun(matrix, X.shape[1], matrix.columns, classes, True, multilabel)

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

    def _coded(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(classes, y as places among them), or an indicator unchanged."""
        if y.ndim == 2:
            empty = np.flatnonzero(~y.any(axis=0))
            if len(empty):
                raise InputError(
                    f"column {empty[0]} of y is 0 in every row, so nothing can be learned of it; leave it out"
                )
            return np.arange(y.shape[1]), y
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"y has 1 class ({classes[0]}); a classifier needs rows of two classes or more")
        self._check_number(classes)
        return classes, codes.astype(np.float64)

    def _check_number(self, classes: np.ndarray) -> None:
        if self.most_classes is not None and len(classes) > self.most_classes:
            raise InputError("Only binary classification is supported. The type of the target is multiclass.")

    @contextmanager
    def _out_of_core(self, X) -> Iterator[EstimatorRun]:
        seed = self._seed()
        memory = self._memory_limit() or OUT_OF_CORE
        batches = None if is_store(X) else Batches(X)
        opened = open_store(X) if batches is None else opened_batches(
            batches, memory, self.temp, seed, n_threads(self.n_jobs)
        )  # fmt: skip
        with opened as source:
            columns = columns_of(source)
            n_features = int(columns.max(initial=-1)) + 1 if batches is None else batches.n_features
            classes = None
            if is_classifier(self):
                if source.labels is None and not self.takes_sets:
                    raise InputError(
                        f"{source.name}: its labels are not classes; a classifier needs rows of two classes or more"
                    )
                labels = source.labels
                if labels is not None:
                    classes = np.array(labels.values)
                    check_classification_targets(classes)
                    self._check_number(classes)
                    if batches is not None and batches.label_dtype.kind in "biu":
                        classes = classes.astype(batches.label_dtype)
            self.n_features_in_ = n_features
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            yield EstimatorRun(source, n_features, columns, classes, False, classes is None and is_classifier(self))

    # -- the run -----------------------------------------------------------------------------------------------

    def _seed(self) -> int:
        """The seed of ``random_state``; None is 0, so that the same rows give the same model."""
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _bias(self) -> float | str:
        if not self.fit_intercept:
            return 0.0
        value = self.intercept_scaling
        if value == FREE:
            return FREE
        if not (isinstance(value, int | float | np.number) and value > 0.0):
            raise InputError(f"intercept_scaling={value}: must be a number above 0")
        return float(value)

    def _class_weight(self, training: EstimatorRun):
        """The weights of classes by the labels of the source."""
        class_weight = getattr(self, "class_weight", None)
        if class_weight is None or isinstance(class_weight, str) or not training.coded:
            return class_weight
        if not hasattr(class_weight, "items"):
            raise InputError(f"class_weight={class_weight}: must be None, 'balanced' or a dict of weights by class")
        place = {label: code for code, label in enumerate(training.classes.tolist())}
        unknown = [label for label in class_weight if label not in place]
        if unknown:
            raise InputError(f"class_weight: no row is of the class {unknown[0]}; the classes are {list(place)[:10]}")
        return {float(place[label]): weight for label, weight in class_weight.items()}

    def _run(self, training: EstimatorRun, **settings) -> Fitted:
        """One run of ``blocksvm.fit``, with the settings of every estimator."""
        run = {"memory": self._memory(training), "seed": self._seed(), "on_event": self._show}
        return fit(training.source, n_jobs=self.n_jobs, **run | settings)

    def _memory(self, training: EstimatorRun) -> int:
        return self._memory_limit() or (IN_MEMORY if training.source.in_memory else OUT_OF_CORE)

    def _memory_limit(self) -> int | None:
        return RUN_SETTINGS["memory"].checked(self.memory)

    def _show(self, event: dict) -> None:
        if self.verbose and event["event"] == "outer":
            gap = event["rel_gap"] if event["rel_gap"] is not None else event["gap_estimate"]
            gap_text = (
                "" if gap is None else f", relative gap {gap:.2e}{'' if event['rel_gap'] is not None else ' (about)'}"
            )
            print(f"{type(self).__name__}: reading {event['outer']}, {event['seconds']:.2f} s{gap_text}")

    def _keep(self, training: EstimatorRun, fitted: Fitted) -> None:
        """Set the fitted attributes of a linear result."""
        weights, intercept = np.atleast_2d(fitted.model.weights), np.atleast_1d(fitted.model.intercept)
        if training.columns is None:
            coef = np.array(weights)
        else:
            coef = np.zeros((len(weights), training.n_features))
            for row, w in zip(coef, weights, strict=True):
                row[training.columns] = w
        self.coef_ = coef if is_classifier(self) else coef[0]
        self.intercept_ = np.array(intercept, dtype=np.float64)
        self._keep_classes(training, fitted)

    def _keep_classes(self, training: EstimatorRun, fitted: Fitted) -> None:
        result, resident = fitted.result, fitted.plan.blocks.partition.resident
        self.n_iter_ = max(result.outer, sum(result.passes)) if resident else result.outer
        if is_classifier(self):
            classes = training.classes
            self.classes_ = np.array(fitted.model.labels) if classes is None else classes
            self.multilabel_ = training.multilabel

    def _warn_unless(self, converged: bool, tol: float, rounding: str | None = None) -> None:
        """rounding: the sentence on a run that it has ended."""
        if not converged:
            missed = (
                f"{self.n_iter_} passes over the rows did not reach tol={tol:g}; raise max_iter, scale the features, "
                "or ask for a larger tol"
            )
            warnings.warn(f"{type(self).__name__}: {rounding or missed}", ConvergenceWarning, stacklevel=4)

    # -- predictions -------------------------------------------------------------------------------------------

    def _values(self, X) -> np.ndarray:
        """Decision values (n,), or (n, k) of k > 2 classes or of sets of k labels; X: rows, or a store's path, with its
        rows in the order of its text."""
        check_is_fitted(self)
        if is_store(X):
            return self._values_of_store(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=list(FLOATS), reset=False)
        coef = np.atleast_2d(self.coef_)
        k = len(coef)
        factor = coef[0] if k == 1 else np.ascontiguousarray(coef.T)
        values = np.empty((X.shape[0], k) if k > 1 else X.shape[0])

        def fill(rows: slice) -> None:
            values[rows] = X[rows] @ factor

        self._each(fill, pieces_of(X))
        values += self.intercept_ if k > 1 else self.intercept_[0]
        return values

    def _each(self, fill: Callable[[slice], None], pieces: Iterator[slice]) -> None:
        """Call ``fill`` with each piece, in ``n_jobs`` threads."""
        Parallel(self.n_jobs, require="sharedmem")(delayed(fill)(rows) for rows in pieces)

    def _values_of_store(self, path) -> np.ndarray:
        coef = np.atleast_2d(self.coef_)
        with open_store(path) as store:
            columns = columns_of(store)
            known = columns < coef.shape[1]
            w = np.zeros((len(coef), len(columns) + 1))
            w[:, :-1][:, known] = coef[:, columns[known]]
            w[:, -1] = self.intercept_

            def of_chunk(chunk: int) -> np.ndarray:
                block = store.read_block(np.array([chunk]), None)
                values = np.empty((len(w), block.n_samples))
                for vector, out in zip(w, values, strict=True):
                    decision_values(*block.matrix, vector, 1.0, out)
                return values[0] if len(values) == 1 else values.T

            return by_source(store, of_chunk)


def labels_of_store(path) -> np.ndarray:
    """The labels of a store's rows in the order of its text."""
    with open_store(path) as store:
        return by_source(store, store.read_labels)


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
        if is_store(X) and y is None:
            y = labels_of_store(X)
        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))


class Regressor(RegressorMixin, Estimator):
    """Estimator whose decision values are the predictions."""

    def predict(self, X) -> np.ndarray:
        """(n,) float64."""
        return self._values(X)

    def score(self, X, y=None, sample_weight=None) -> float:
        """The coefficient of determination R^2; a store contains its targets."""
        if is_store(X) and y is None:
            y = labels_of_store(X)
        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))

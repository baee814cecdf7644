"""The base class of estimators: rows of every kind to a source, a run to fitted attributes, decision values in pieces.

scikit-learn's conventions hold: parameters are stored unchanged and checked in ``fit``; fitted attributes end in an
underscore.  An iterable or a store contains its labels and weights: ``y`` and ``sample_weight`` are left out.
"""

import inspect
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted, column_or_1d, validate_data

from blocksvm.api.fit import Fitted, fit
from blocksvm.base.errors import InputError
from blocksvm.base.labels import SETS, numbers_of
from blocksvm.base.row_batch import Origin, RowBatch
from blocksvm.base.settings import Setting, n_threads
from blocksvm.conversion.convert import SplitSettings, store_batches
from blocksvm.files.output import TemporaryFolder
from blocksvm.sources.matrix import Matrix, csr_of
from blocksvm.sources.source import Source
from blocksvm.store.reader import Store, open_store
from blocksvm.training.run_settings import FREE, RUN_SETTINGS

OUT_OF_CORE = 1_000_000_000  # bytes for stores and batches, where no memory is named
IN_MEMORY = 1 << 50  # rows that are in memory already need no limit
PIECE = 1 << 18  # entries that are copied at once
FLOATS = (np.float64, np.float32)  # not converted; other dtypes become the first
MOST_COLUMNS = np.iinfo(np.int32).max

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


def is_store(X) -> bool:
    return isinstance(X, str | Path)


def is_batches(X, y) -> bool:
    """Whether X is an iterable of batches (X, y) or (X, y, sample_weight)."""
    if y is not None or is_store(X) or any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__")):
        return False
    if isinstance(X, list | tuple):
        first = X[0] if X else None
        return isinstance(first, tuple) and len(first) in (2, 3) and hasattr(first[0], "shape")
    return hasattr(X, "__iter__")


class Batches:
    """Batches of rows for a conversion, readable once; InputError for one that does not fit the first."""

    name = "the iterator"

    def __init__(self, batches):
        self.n_features, self.label_dtype = None, None
        remaining = map(self._checked, batches)
        first = next(remaining, None)
        if first is None:
            raise InputError("the iterator gave no rows; give one that can be iterated again")
        self.dtype, self.checked = first[0].dtype.name, chain([first], remaining)

    def __iter__(self) -> Iterator[RowBatch]:
        return map(self._as_rows, self.checked)

    def _checked(self, batch: tuple) -> tuple:
        if not (isinstance(batch, tuple) and len(batch) in (2, 3)):
            raise InputError("the iterator must give batches (X, y) or (X, y, sample_weight)")
        X, y, weights = (*batch, None)[:3]
        X = check_array(X, accept_sparse="csr", dtype=list(FLOATS))
        if y is None:
            raise InputError("a batch of the iterator has no labels; give (X, y)")
        y, (n, d) = column_or_1d(y), X.shape
        self.n_features, self.label_dtype = self.n_features or d, self.label_dtype or y.dtype
        if d != self.n_features or len(y) != n:
            has, wanted = f"{d} features and {len(y)} labels for {n} rows", f"{self.n_features} features"
            raise InputError(f"a batch of the iterator has {has}; expected {wanted}, and a label a row")
        weights = None if weights is None else np.asarray(weights, dtype=np.float64).reshape(-1)
        if weights is not None and len(weights) != n:
            raise InputError(f"a batch of the iterator has {len(weights)} weights for {n} rows; give one a row")
        return X, y, weights

    def _as_rows(self, batch: tuple) -> RowBatch:
        X, y, weights = csr_of(batch[0]), *batch[1:]
        if (X.data == 0).any():
            X = X.copy()
            X.eliminate_zeros()
        labels = numbers_of(y) if y.dtype.kind in "biuf" else [str(label) for label in y.tolist()]
        origin = Origin(self, None, len(y), np.arange(len(y)))
        return RowBatch(labels, X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data, origin, weights=weights)


def columns_of(source: Source) -> np.ndarray | None:
    """The column (int64) of each feature: of a store its id; of a matrix, None: its number."""
    if source.in_memory:
        return source.columns
    ids = source.feature_ids(0, source.n_features)
    if len(ids) and ids.max() >= MOST_COLUMNS:
        why = f"has a feature {ids.max():,}, but estimators have a column for each id, at most {MOST_COLUMNS:,}"
        raise InputError(f"{source.name}: {why}; split it with bits=22, or use blocksvm.fit")
    return ids


def by_source(store: Store, values_of_chunk: Callable[[int], np.ndarray]) -> np.ndarray:
    """The results of ``values_of_chunk(chunk)`` for the rows of all chunks, in the order of the store's text."""
    chunks = range(len(store.chunks))
    order = np.argsort(np.concatenate([store.read_rows(chunk)["source"] for chunk in chunks]), kind="stable")
    return np.concatenate([values_of_chunk(chunk) for chunk in chunks])[order]


class Scored:
    """Stands before scikit-learn's mixins, whose score it calls."""

    def score(self, X, y=None, sample_weight=None) -> float:
        """Accuracy of classes, of targets the coefficient of determination R^2; a store contains its labels."""
        if y is None and is_store(X):
            with open_store(X) as store:
                y = by_source(store, store.read_labels)
        return super().score(X, y, sample_weight)


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
        if is_classifier(self) and self.multilabel_:
            empty = np.flatnonzero(~y.any(axis=0))
            if len(empty):
                wrong = f"column {empty[0]} of y is 0 in every row"
                raise InputError(f"{wrong}, so nothing can be learned of it; leave it out")
            self.classes_ = np.arange(y.shape[1])
        elif is_classifier(self):
            classes, codes = np.unique(y, return_inverse=True)
            if len(classes) < 2:
                raise InputError(f"y has 1 class ({classes[0]}); a classifier needs rows of two classes or more")
            self._keep_classes(classes)
            y = codes.astype(np.float64)
        X = csr_of(X)
        numbered = X.shape[1] >= self.numbered_from and X.nnz >= X.shape[1] // 4
        yield Matrix(X, y, weights=weights, numbered_by_frequency=numbered)

    def _checked(self, X, y, reset: bool = True) -> tuple:
        """(X, y) checked by scikit-learn: X dense or CSR, float32 or float64, not copied where possible."""
        how, classes = {"accept_sparse": "csr", "dtype": list(FLOATS), "reset": reset}, is_classifier(self)
        if y is None:  # scikit-learn's message
            validate_data(self, X, y, **how)
        X, y = validate_data(self, X, y, y_numeric=not classes, multi_output=classes, **how)
        if classes:
            if self.takes_sets and type_of_target(y) == "multilabel-indicator":
                return X, y.toarray() if sparse.issparse(y) else y
            y = column_or_1d(y, warn=True)
            check_classification_targets(y)
        return X, y

    def _keep_classes(self, classes: np.ndarray) -> None:
        if self.most_classes is not None and len(classes) > self.most_classes:
            raise InputError("Only binary classification is supported. The type of the target is multiclass.")
        self.classes_ = classes

    @contextmanager
    def _out_of_core(self, X) -> Iterator[Source]:
        batches = None if is_store(X) else Batches(X)
        with ExitStack() as stack:
            if batches is not None:
                parent = Path(tempfile.gettempdir() if self.temp is None else self.temp)
                if not parent.is_dir():
                    raise InputError(f"temp={parent}: no such folder; name an existing one")
                folder = stack.enter_context(TemporaryFolder(parent))
                settings = {"memory": self._memory(False), "n_jobs": n_threads(self.n_jobs), "seed": self._seed()}
                X = folder / "batches.h5"
                store_batches(batches, X, SplitSettings(dtype=batches.dtype, temp=folder, **settings))
            source = stack.enter_context(open_store(X))
            self.n_features_in_ = int(columns_of(source).max(initial=-1)) + 1 if batches is None else batches.n_features
            if is_classifier(self):
                self.multilabel_ = source.label_kind == SETS
                if source.labels is not None:
                    classes = np.array(source.labels.values)
                    check_classification_targets(classes)
                    whole = batches is not None and batches.label_dtype.kind in "biu"
                    self._keep_classes(classes.astype(batches.label_dtype) if whole else classes)
                elif not (self.multilabel_ and self.takes_sets):
                    needed = "a classifier needs rows of two classes or more"
                    raise InputError(f"{source.name}: its labels are not classes; {needed}")
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            yield source

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
        for label in class_weight:
            if label not in position:
                raise InputError(f"class_weight: no row is of the class {label}; the classes are {list(position)[:10]}")
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

    def _values(self, X) -> np.ndarray:
        """Decision values (n,), or (n, k) of k > 2 classes or sets of k labels, of rows, or of a store's path."""
        check_is_fitted(self)
        coef = np.atleast_2d(self.coef_)
        if is_store(X):
            with open_store(X) as store:
                columns = columns_of(store)
                known = columns < coef.shape[1]
                w = np.zeros((len(columns), len(coef)))
                w[known] = coef.T[columns[known]]

                def values_of_chunk(chunk: int) -> np.ndarray:
                    block = store.read_block(np.array([chunk]), None)
                    data = np.ones(block.n_nonzeros) if block.values is None else block.values
                    shape = block.n_samples, block.n_features
                    return sparse.csr_matrix((data, block.indices, block.indptr), shape) @ w

                values = by_source(store, values_of_chunk)
        else:
            factor = np.ascontiguousarray(coef.T)
            values = self._in_pieces(lambda rows: rows @ factor, X)
        values += self.intercept_
        return values if len(coef) > 1 else values[:, 0]

    def _in_pieces(self, decide: Callable, X) -> np.ndarray:
        """``decide(rows)`` of rows in memory, about ``PIECE`` entries at a time, in ``n_jobs`` threads."""
        X = validate_data(self, X, accept_sparse="csr", dtype=list(FLOATS), reset=False)
        n, d = X.shape
        mean = X.nnz / n if sparse.issparse(X) else d
        step = max(1, int(PIECE / max(1.0, mean)))
        pieces = (X[start : start + step] for start in range(0, n, step))
        return np.concatenate(Parallel(self.n_jobs, require="sharedmem")(map(delayed(decide), pieces)))


class Classifier(Scored, ClassifierMixin, Estimator):
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


class Regressor(Scored, RegressorMixin, Estimator):
    """Estimator whose decision values are the predictions."""

    def predict(self, X) -> np.ndarray:
        """(n,) float64."""
        return self._values(X)

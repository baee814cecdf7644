"""Model files: weights by feature id, the state that a later run can start from, and a description of the training.

/features   ids int64, in the source's order; idf, names and name_ends as in a store, where there are such
/weights    float64, of all features, then of the constant one; of k > 2 classes k such vectors; or in its place
/sparse     those that are kept (model/sparse_weights.py)
/state      of the solver, as in a checkpoint
/support    of a machine with a kernel the rows that it stands on (problems/kernel_problem.py): indptr int64, indices
            int32 (the model's features), values, norms, coefficients float64
"""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import h5py
import numpy as np
from msgspec import structs
from scipy import sparse

from blocksvm.base.errors import InputError, InputWarning
from blocksvm.base.labels import listed
from blocksvm.base.memory import MEMORY
from blocksvm.base.user_code import by_user
from blocksvm.base.vectors import side_by_side
from blocksvm.conversion.feature_ids import IdIndex
from blocksvm.files.output import check_output
from blocksvm.files.paths import Location, location
from blocksvm.formats.choices import is_table, is_text
from blocksvm.formats.file_reader import inputs_given, texts_of
from blocksvm.formats.weighing import FeatureFactors
from blocksvm.kernels.hash_table import hash_ids
from blocksvm.kernels.rows import Entries
from blocksvm.losses import check_loss
from blocksvm.model.decision_values import decision_pieces, labels_predicted
from blocksvm.model.probabilities import link_of
from blocksvm.model.sparse_weights import Kept, WeightsByFeature, check_rows, kept_in, read_sparse, write_sparse
from blocksvm.problems.kernel_problem import Expansion, Support
from blocksvm.sources.matrix import plain_array, rows_to_score
from blocksvm.store.arrays import (
    ENDS,
    Piecewise,
    read_array,
    read_factors,
    read_names,
    read_range,
    require_length,
    write_array,
    write_arrays,
)
from blocksvm.store.descriptions import ModelMeta
from blocksvm.store.hdf5_files import create_hdf5, group, has, open_hdf5, opened, write_meta
from blocksvm.store.recipe import Recipe, recipe_of

INT64 = np.dtype(np.int64)
FLOAT64 = np.dtype(np.float64)
SMALL_IDS = 8  # times as many as there are: marking them takes no more memory than sorting
IMPORTED = "imported"  # the status of a model of another program
OF_SUPPORT = {"indptr": "i8", "indices": "i4", "values": "f8", "norms": "f8", "coefficients": "f8"}
State = Mapping[str, Mapping[str, np.ndarray | Piecewise]]  # of a solver: its arrays by name space and name


def write_state(file, spaces: State) -> None:
    file.create_group("state")
    for space, arrays in spaces.items():
        write_arrays(file.create_group(f"state/{space}"), arrays)


def save_model(path: Location, feature_ids: np.ndarray | Piecewise, weights: np.ndarray | Piecewise | Kept,
               state: State, meta: ModelMeta, overwrite: bool = True, support: Support | None = None,
               names: h5py.Group | None = None, factors: np.ndarray | None = None) -> None:  # fmt: skip
    """Write a model: ids (d,) int64 and weights of all features in the source's order, the constant feature's weight
    last; of more than two classes one such vector after the other.

    state: what a later run can start from (the dual variables, a learner's memory); support: the rows that a machine
    with a kernel stands on; names: where the features have some, the group of those of their store; factors: of the
    features, where values are multiplied by them.
    """
    with create_hdf5([path], "model", overwrite) as (file,):
        features = file.create_group("features")
        content = [write_array(features, "ids", feature_ids)]
        if names is not None:
            write_feature_names(features, meta.n_features, names)
        if factors is not None:
            write_array(features, "idf", factors)
        if isinstance(weights, Kept):
            content.append(write_sparse(file, weights))
        else:
            content.append(write_array(file, "weights", weights))
        write_state(file, state)
        if support is not None:
            arrays = {name: getattr(support, name).astype(dtype, copy=False) for name, dtype in OF_SUPPORT.items()}
            content.append(write_arrays(file.create_group("support"), arrays))
        write_meta(file, structs.replace(meta, content=b"".join(content).hex()))


def save_parts(path: Location, parts: list[Location], meta: ModelMeta, overwrite: bool) -> None:
    """Write the model of all classes of several models, which have sparse weights of the same features."""
    with ExitStack() as stack:
        files = [stack.enter_context(open_hdf5(part, "model")) for part in parts]
        features = group(files[0], "features")
        names = features if has(features, "names") else None
        factors = read_factors(files[0], meta.n_features) if has(features, "idf") else None
        ids = Piecewise(meta.n_features, INT64, partial(read_range, features, "ids", INT64))
        save_model(path, ids, kept_in(files), {}, meta, overwrite, None, names, factors)


def hashed(ids: np.ndarray, bits: int | None) -> np.ndarray:
    """Ids (int64) as a model's features are named: their hashes, or (bits None) the ids themselves."""
    return ids if bits is None else hash_ids(ids, bits)


@contextmanager
def store_names(rows: tuple[str | Location, str] | None) -> Iterator[h5py.Group | None]:
    """The group of names in a store (rows: its path and fingerprint), which may be closed; None: there are none now."""
    if rows is None or not location(rows[0]).is_file():
        yield None
        return
    with opened(rows[0], "store") as (file, meta):
        yield group(file, "features") if meta.fingerprint == rows[1] else None


def write_feature_names(features: h5py.Group, n_features: int, theirs: h5py.Group) -> None:
    """Write a store's names into a model's group of features, as stores have them; further features have none."""
    d, n_bytes = require_length(theirs, "name_ends", None), require_length(theirs, "names", None)

    def ends_at(start: int, stop: int) -> np.ndarray:
        ends = read_range(theirs, "name_ends", ENDS, min(start, d), min(stop, d))
        return np.append(ends, np.full(stop - start - len(ends), n_bytes))

    theirs.copy("names", features)
    write_array(features, "name_ends", Piecewise(n_features, ENDS, ends_at))


@dataclass(frozen=True)
class Model:
    """A trained linear model.

    feature_ids (d,) int64 in no particular order; weights (d,) float64; intercept: value times weight of the constant
    feature; labels (negative, positive), numbers or strings, or () where targets are real numbers; meta: settings,
    certificate, versions.  Of k > 2 classes: weights (k, d), intercept (k,), labels the k classes, rising; the
    same where rows have sets of k labels.  Of a model that keeps its weights one by one a scipy.sparse.csr_matrix of
    (k, d), k = 1 for two classes; ``dense`` is an array (k, d) in any case.  support: of a machine with a kernel, the
    rows that it stands on, whose indices are positions in feature_ids; the weights are then 0.  rows: those that a
    model without a file was trained on, as ``store_names`` has them; folder: of the file of one of a table or texts in
    memory, as long as this is.

        >>> model = blocksvm.load_model("model.h5")
        >>> model
        Model(4 features, labels -1, 1)
        >>> X = scipy.sparse.csr_matrix([[0, 1.0, 0, 0.5, 0], [0, 0, 1.0, 0, 0.5]])  # columns are feature ids
        >>> model.predict(X)
        array([ 1., -1.])
    """

    path: str
    feature_ids: np.ndarray
    weights: Any
    intercept: float | np.ndarray
    labels: tuple
    meta: ModelMeta
    support: Support | None = None
    rows: tuple[str | Location, str] | None = None
    folder: Any = field(default=None, repr=False)

    def __repr__(self) -> str:
        labels = listed(self.labels[:5]) + (", ..." if len(self.labels) > 5 else "")
        if self.support is not None:
            kernel, n = self.support.kernel["name"], len(self.support.norms)
            return f"Model({kernel} kernel, {n} support vectors, labels {labels})"
        return f"Model({self.weights.shape[-1]} features, {f'labels {labels}' if labels else 'real targets'})"

    @property
    def multilabel(self) -> bool:
        """Each row has a set of the labels."""
        return self.meta.multilabel

    @property
    def ranks(self) -> bool:
        """The decision values only rank the labels of a row's set: nothing parts those in it from the others."""
        return self.meta.ranks

    @property
    def bits(self) -> int | None:
        """Where the model's features are hashes of ids: their bits; feature_ids are then the hashes."""
        return self.recipe.bits

    @property
    def dense(self) -> np.ndarray:
        return np.atleast_2d(self.weights if self.meta.sparse is None else self.weights.toarray())

    @property
    def recipe(self) -> Recipe:
        """How text becomes the model's features."""
        return self.meta.text

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the features, in the order of ``feature_ids``, '' for one without; None where the model's file,
        or the store that it was trained on, has none, or is another one now."""
        if self.path:
            with opened(self.path, "model") as (file, meta):
                features = group(file, "features")
                return read_names(features, 0, meta.n_features) if has(features, "names") else None
        with store_names(self.rows) as names:
            if names is None:
                return None
            d = require_length(names, "name_ends", None)  # of a store's features; further ones have no names
            return read_names(names, 0, d) + [""] * (len(self.feature_ids) - d)

    def decision_function(self, X) -> np.ndarray:
        """<w, x> + intercept for the rows of a matrix whose columns are feature ids (scipy sparse, dense, lists: what
        ``csr_of`` takes); (n,) float64, or (n, k) of k > 2 classes.  Of a machine with a kernel
        sum_m coefficients[m] K(z_m, x) + intercept.  A model of texts takes texts, a list of strings, and tables, one
        of a table tables: anything with ``__arrow_c_stream__``, or an iterator of record batches.  Files and stores are
        predicted by ``predict_files``."""
        if isinstance(X, list | tuple) and not len(X) and is_text(self.recipe.format, self.recipe.options):
            return self.no_values()
        if (given := self._in_memory(X)) is not None:
            from blocksvm.model.scoring import scored_at_once, scorer_of  # which is made of this file

            scorer = scorer_of(self.path, given[0], MEMORY.checked(MEMORY.default), options=given[1])
            return scored_at_once(scorer, "the model" if self.folder else self.path, 2)
        X = rows_to_score(X)
        require_scores(self.meta, self.path or "the model")
        ids, bits, d = np.arange(X.shape[1]), self.bits, len(self.feature_ids)
        if bits is not None and len(ids):  # columns of one hash are one feature, which a kernel sees
            ids, column = np.unique(hashed(ids, bits), return_inverse=True)
            X = (X @ sparse.csr_matrix((np.ones(len(column)), (np.arange(len(column)), column)))).tocsr()
        positions = IdIndex(d).fill([(0, self.feature_ids)]).find(ids)
        if d and len(ids) and (positions < 0).all():
            known = f"{self.path or 'the model'} knows no feature of X"
            why = f"{known}, whose columns are feature ids from 0 to {X.shape[1] - 1:,}, so that all rows score alike"
            warnings.warn(f"{why}; of a model of text give text to blocksvm predict", InputWarning, stacklevel=2)
        positions[positions < 0] = d
        entries = Entries(plain_array(X.indptr, np.int64), positions[X.indices], plain_array(X.data, X.data.dtype))
        w, completion = self.weights_to_score()
        values = np.empty((X.shape[0], len(w)))
        for rows, of_rows in decision_pieces(entries, w, 1.0, completion):
            values[rows] = of_rows.T
        return values if len(w) > 1 else values[:, 0]

    def weights_to_score(self) -> tuple[Any, Expansion | None]:
        """(the vectors w and the completion of ``decision_pieces``, for a constant feature of 1): feature d, of weight
        0, stands for all that the model does not know."""
        d, intercepts = len(self.feature_ids), np.atleast_1d(self.intercept)
        if self.meta.sparse is not None:
            return WeightsByFeature(self.weights, intercepts, d + 1), None
        w = side_by_side(len(intercepts), d + 2)
        w[:, :d], w[:, -1] = self.weights, intercepts
        return w, None if self.support is None else Expansion.of(self.support, np.arange(d), d)

    def no_values(self) -> np.ndarray:
        """The decision values of no rows: (0,), or (0, k)."""
        return np.empty((0, self.meta.n_vectors) if self.meta.n_vectors > 1 else 0)

    def _in_memory(self, X) -> tuple | None:
        """Texts or a table as ``inputs_given`` has them, and the settings by which they are read; None for a matrix."""
        recipe, texts = self.recipe, texts_of(X)
        textual = is_text(recipe.format, recipe.options)
        if self.path and textual and texts is not None:
            from blocksvm.formats.table_rows import table_of_texts

            return inputs_given(table_of_texts(texts)), {"text": "text"}
        table = hasattr(X, "__arrow_c_stream__") or isinstance(X, Iterator)
        return (inputs_given(X), {}) if self.path and table and (textual or is_table(recipe.format)) else None

    def predict(self, X) -> np.ndarray:
        """The label of each row (n,), a number or string of the user's own; a decision value of 0 is the negative one,
        of more classes' equal ones the smallest label's counts.  Where targets are real numbers, the decision value;
        where rows have sets of labels, the tuple of those whose decision value is above 0, or, of a model that only
        ranks the labels, of the one with the largest."""
        return labels_predicted(self.decision_function(X), self.labels, self.multilabel, self.ranks)

    def predict_proba(self, X) -> np.ndarray:
        """(n, 2) float64: the probabilities of the smaller and the larger label, or (n, k) of k classes or of each of k
        labels of sets; InputError where the model was not trained with a loss that models them."""
        return link_of(self.meta, self.path or "the model")(self.decision_function(X))

    def save(self, path: str | Location, overwrite: bool = False) -> None:
        """Write the model file: of a loaded model all that its file has, of another one ids, weights and description.

        ``Fitted.save`` also writes what a later run can go on from, and the features' names and factors.  Raises
        InputError where ``path`` exists (without ``overwrite``) or cannot be written, and where the model's file is no
        longer the one that was loaded, or the factors of its features lie in no file.
        """
        target = location(path)
        check_output(target, overwrite, "model")
        if self.path and self.meta.status != IMPORTED:  # of an imported one all is in memory
            same = describe_model(self.path).content == self.meta.content
            if same and self.meta.sparse is None:
                same = np.array_equal(load_model(self.path).weights, self.weights)
            if not same:
                raise InputError(f"{self.path}: is no longer the model that was loaded; load it again")
            with open_hdf5(self.path, "model") as file, create_hdf5([target], "model", overwrite) as (copy,):
                for name in file:
                    if name != "meta":
                        file.copy(name, copy)
                write_meta(copy, self.meta)
            return
        if self.recipe.factor:
            lies = f"the {self.recipe.factor} of the model's features lies with its rows"
            raise InputError(f"{lies}; save it by Fitted.save")
        constant = np.atleast_1d(np.asarray(self.intercept, dtype=np.float64))[:, None] / (self.meta.bias or 1.0)
        w = np.concatenate([np.atleast_2d(self.weights), constant], axis=1)
        save_model(target, self.feature_ids, w, {}, self.meta, overwrite, self.support)

    def predict_log_proba(self, X) -> np.ndarray:
        """The logarithms of ``predict_proba``, -inf for 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


def describe_model(path: str | Location) -> ModelMeta:
    """A model's description, without its weights."""
    with opened(path, "model") as (file, meta):
        require_length(group(file, "features"), "ids", meta.n_features)  # by which memory is planned
        return meta


def require_scores(meta: ModelMeta, name: str | Location) -> None:
    """InputError where a model tells nothing of other rows."""
    if meta.radius is not None:
        raise InputError(f"{name}: has learned rows without labels, and predicts none; learn from rows with labels")


def model_feature_ids(path: str | Location) -> np.ndarray:
    """The ids (d,) int64 of a model's features, in the order of its state."""
    with opened(path, "model") as (file, meta):
        return read_array(group(file, "features"), "ids", INT64, meta.n_features)


def load_model(path: str | Location, loss=None) -> Model:
    """Open a model made by ``blocksvm train``; InputError where it is not one or is damaged.

    loss: for probabilities by a loss outside the package its name, whose code may then run, or the loss itself.
    """
    by_user(loss=None if loss is None else check_loss(loss))
    with opened(path, "model") as (file, meta):
        d = meta.n_features
        ids = read_array(group(file, "features"), "ids", INT64, d)
        if meta.sparse is None:
            w: np.ndarray | sparse.csr_matrix = read_array(file, "weights", FLOAT64, meta.n_vectors * (d + 1))
        else:
            w = read_sparse(file, meta)
        support = read_support(file, meta)
    if meta.sparse is None and not np.isfinite(w).all():
        raise InputError(f"{path}: a weight is not a number; train the model again")
    if d and (ids.min() < 0 or not distinct(ids)):
        raise InputError(f"{path}: a feature's id is below 0 or there twice; train the model again")
    return make_model(os.fspath(path), ids, w, meta, support)


def distinct(ids: np.ndarray) -> bool:
    """Whether ids (d,) of 0 or more are; small ones are marked, which takes a twentieth of the time to sort them."""
    if ids.max() < SMALL_IDS * len(ids):
        marked = np.zeros(int(ids.max()) + 1, bool)
        marked[ids] = True
        return np.count_nonzero(marked) == len(ids)
    return bool(np.diff(np.sort(ids)).all())


def make_model(path: str, ids: np.ndarray, w: Any, meta: ModelMeta, support: Support | None = None) -> Model:
    """From weights (n_vectors * (d + 1),) as a run has them, or from those that are kept (n_vectors, d + 1)."""
    kept, k = isinstance(w, sparse.csr_matrix), meta.n_vectors
    by_class = w if kept else w.reshape(k, -1)
    weights, last = by_class[:, :-1], by_class[:, -1].toarray()[:, 0] if kept else by_class[:, -1]
    weights, intercepts = weights[0] if k == 1 and not kept else weights, last * meta.bias
    return Model(path, ids, weights, intercepts if k > 1 else float(intercepts[0]), tuple(meta.labels), meta, support)


def read_support(file, meta: ModelMeta) -> Support | None:
    """The support vectors, verified; None where the model has weights.  ValueError where they are damaged."""
    kernel = meta.kernel
    if kernel is None:
        return None
    arrays, n = group(file, "support"), kernel.n_support
    lengths = {"indptr": n + 1, "indices": kernel.n_nonzeros, "values": kernel.n_nonzeros}
    read = {name: read_array(arrays, name, np.dtype(dtype), lengths.get(name, n)) for name, dtype in OF_SUPPORT.items()}
    check_rows("support vectors", meta.n_features, *read.values())
    return Support(**read, kernel={name: getattr(kernel, name) for name in ("name", "gamma", "coef0", "degree")})


def factors_of_source(source, n_features: int) -> np.ndarray | None:
    """Factors (n_features,) of a source's features, from its file, which may be closed, and 1 of further ones; None
    where its values were not multiplied.  InputError where the file is gone or is another one."""
    factor = recipe_of(source).factor
    if not factor:
        return None
    if source.is_open:
        factors = read_factors(source.file, source.n_features)
    else:
        with opened(source.path, "store") as (file, meta):
            if meta.fingerprint != source.fingerprint:
                raise InputError(f"{source.path}: was changed, and with it the {factor} of the model; train again")
            factors = read_factors(file, source.n_features)
    return np.append(factors, np.ones(n_features - len(factors)))


def factors_of_model(path: str | Location, find: Callable[[np.ndarray], np.ndarray]) -> FeatureFactors:
    """That of a model's features, whose positions ``find`` gives; InputError where it is damaged."""
    with opened(path, "model") as (file, meta):
        return FeatureFactors(find, read_factors(file, meta.n_features), meta.idf_fingerprint or "")

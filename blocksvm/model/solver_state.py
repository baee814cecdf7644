"""The state of a solver in a file, in models and checkpoints alike: named arrays under the solver's name.

/state/NAMESPACE/ARRAY     NAMESPACE is a solver's name, or "learner:" and an online learner's

And what a run begins with: the end of another run, the whole state of a learner that goes on, a prior model's weights.
Features are matched by id.  Those that only such a model knows are numbered after the source's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import h5py
import numpy as np

from blocksvm.base.errors import InputError, option, value_text
from blocksvm.base.labels import listed
from blocksvm.base.memory import Budget
from blocksvm.base.settings import Settings
from blocksvm.base.user_code import names_of
from blocksvm.conversion.feature_ids import IdIndex
from blocksvm.files.paths import Location, location
from blocksvm.model.decision_values import Pieces, area_under_curve
from blocksvm.model.model_file import describe_model, load_model, model_feature_ids, write_state
from blocksvm.online.methods import get_method
from blocksvm.solvers.solver import SavedRun
from blocksvm.sources.source import Source
from blocksvm.store.arrays import read_pieces, require_length, verify_arrays
from blocksvm.store.descriptions import CheckpointMeta, MethodMeta, ModelMeta, typed
from blocksvm.store.hdf5_files import create_hdf5, damage_named, group, kind_of_member, open_hdf5, opened, write_meta
from blocksvm.store.recipe import recipe_of

RUNS = ("model", "checkpoint")  # files that have a run's state


def namespace(name: str, learner: bool) -> str:
    """Under which the state of a solver lies: pegasos the solver keeps other arrays than pegasos the learner."""
    return f"learner:{name}" if learner else name


@dataclass(frozen=True)
class SavedState:
    """A model's or checkpoint's description ``meta``, and {name space: {array: entries}}; the name space '' has a
    model's 'weights' and the 'ids' of its features."""

    path: Location
    meta: ModelMeta | CheckpointMeta
    lengths: dict[str, dict[str, int]]

    @property
    def namespace(self) -> str:
        """Of the solver whose run this was."""
        return namespace(self.meta.method.name, self.meta.method.learner)

    def load(self, space: str, name: str, out: np.ndarray) -> None:
        """Fill ``out``; InputError where the array is missing, damaged, or of another length or type."""
        flat = out.reshape(-1)
        for start, piece in self.pieces(space, name, flat.dtype, len(flat)):
            flat[start : start + len(piece)] = piece

    def pieces(self, space: str, name: str, dtype, length: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
        """(start, piece) of an array, which must have that length; space '' has 'weights', and 'ids' of features."""
        if not space and getattr(self.meta, "sparse", None) is not None and name == "weights":
            raise InputError(f"{self.path}: keeps its weights one by one, and no run begins with them; start afresh")
        with open_hdf5(self.path, *RUNS) as file, damage_named(file):
            if space:
                holder = group(group(file, "state"), space)
            else:
                holder = group(file, "features") if name == "ids" else file
            require_length(holder, name, length)
            yield from read_pieces(holder, name, np.dtype(dtype))


def open_state(path: str | Location) -> SavedState:
    """A model's or checkpoint's description and the arrays that it has; InputError where it is neither, or damaged."""
    path = location(path)
    with opened(path, *RUNS) as (file, meta):
        state, lengths = group(file, "state"), dict[str, dict[str, int]]()
        if isinstance(meta, ModelMeta):
            lengths[""] = {"ids": require_length(group(file, "features"), "ids", meta.n_features)}
            if meta.sparse is None:
                lengths[""]["weights"] = require_length(file, "weights", meta.n_vectors * (meta.n_features + 1))
        for space in state:
            if kind_of_member(state, space) is h5py.Group:
                held = group(state, space)
                lengths[space] = {name: require_length(held, name, None) for name in held}
        return SavedState(path, meta, lengths)


def verify_state(path: str | Location) -> None:
    """Read all arrays of a model or checkpoint against their checksums; InputError names what is damaged."""
    with opened(path, *RUNS) as (file, _):
        verify_arrays(file)


def save_checkpoint(path: Location, spaces: Mapping[str, Mapping[str, np.ndarray]], meta: dict) -> None:
    """Write a run's whole state; the file of before stays until the new one is whole."""
    described = {space: {name: [a.dtype.str, int(a.size)] for name, a in own.items()} for space, own in spaces.items()}
    with create_hdf5([path], "checkpoint") as (file,):
        write_state(file, spaces)
        write_meta(file, typed(meta | {"arrays": described}, CheckpointMeta))


def describe_checkpoint(path: str | Location) -> CheckpointMeta:
    """A checkpoint's description; InputError where the file is not one, or is damaged."""
    with opened(path, "checkpoint") as (_, meta):
        return meta


def load_saved_run(path: Location, source: Source, axes: Mapping[str, str], labels: list) -> SavedRun:
    """The run of the model or checkpoint at ``path``, in the rows and features that the source has now, to which rows
    may have been added (incremental training: Tsai, Lin, Lin, KDD 2014).

    axes: array -> 'row', 'feature' or 'scalar', of the solver that begins; labels: those that it learns.  InputError
    where the run was on other rows than the source ever had, or with other labels.
    """
    saved = open_state(path)
    name, before = str(path), saved.meta.fingerprint
    if before == source.fingerprint:
        return SavedRun(name, saved.meta.cost, saved.lengths, saved.load, saved.meta)
    known = [step for step in source.history() if step.fingerprint == before]
    if not known:
        raise InputError(f"{name}: belongs to another store than {source.name}; name its own store")
    theirs = getattr(saved.meta, "labels", labels)
    if theirs != labels:
        why = f"has the labels {listed(theirs)}, and {source.name} has others since its rows were changed"
        raise InputError(f"{name}: {why}; start without {option('start_from')}")
    d_before = saved.meta.n_features
    rows, features = (known[-1].n_samples, source.n_samples), (d_before + 1, source.n_features + 1)  # before, and now

    def load(solver: str, array: str, out: np.ndarray) -> None:
        """Fill ``out`` with an array as it is in today's rows and features, of which new ones begin with 0."""
        axis = axes.get(array, "feature")
        if axis == "scalar":
            saved.load(solver, array, out)
            return
        flat = out.reshape(-1)
        flat[:] = 0.0
        columns = flat.size // (rows if axis == "row" else features)[1]
        constant = d_before * columns if axis == "feature" else flat.size  # which comes last
        for start, piece in saved.pieces(solver, array, flat.dtype):
            split = min(max(constant - start, 0), len(piece))
            flat[start : start + split] = piece[:split]
            flat[flat.size - columns + start + split - constant :][: len(piece) - split] = piece[split:]

    sizes = {"row": rows, "scalar": (1, 1)}
    lengths: dict[str, dict[str, int]] = {solver: {} for solver in saved.lengths}
    for solver, arrays in saved.lengths.items():
        for array, length in arrays.items():
            then, now = sizes.get(axes.get(array, ""), features)
            lengths[solver][array] = length // then * now
    return SavedRun(name, saved.meta.cost, lengths, load, saved.meta)


def start_of(path: Location) -> tuple[Location | None, Location | None]:
    """(the model of an online learner, with whose whole state a run goes on; the model or checkpoint at whose end a run
    of another solver begins): the path as one of them, None as the other."""
    with opened(path, *RUNS) as (_, meta), names_of(path):
        method = meta.method
        whole = isinstance(meta, ModelMeta) and get_method(method.name, method.learner).capabilities.continues
    return (path, None) if whole else (None, path)


class InitialModels:
    """The models that one run begins with, or None: ``continue_from`` (a learner's whole state), ``prior`` (weights).

    extra_ids (m,) int64, rising: ids that the source does not have; outers: outer iterations that were done before;
    n_apart: how many features there are, where they are others than the source's, and their ids 0, 1, ...
    """

    def __init__(self, source: Source, continue_from: Location | None = None, prior: Location | None = None):
        self.source, self.continue_from, self.prior = source, continue_from, prior
        self.described = [None if path is None else describe_model(path) for path in (continue_from, prior)]
        # by content: a run that is resumed, or a model that is continued, must have the same
        self.fingerprints = [None if saved is None else saved.content for saved in self.described]
        self.extra_ids = np.empty(0, np.int64)
        self.n_apart: int | None = None
        self.outers = 0

    def check(self, solver, bias: float | str, labels: list) -> None:
        """Before anything is allocated.  labels: of the run, as descriptions have them."""
        continued, prior = self.described
        if continued is not None:
            solver.capabilities.require("continues", solver.name, "start_from")
            check_continued(self.continue_from, continued, bias, self.fingerprints[1])
            self.outers = continued.outer
        if prior is not None:
            solver.capabilities.require("takes_prior", solver.name, "prior", "dual-cd and most learners take one")
        for path, saved in zip((self.continue_from, self.prior), self.described, strict=True):
            if saved is not None and saved.labels != labels:
                theirs = f"the labels {listed(saved.labels)}" if saved.labels else "real targets"
                raise InputError(f"{path}: has {theirs}, other ones than {self.source.name}")
            if saved is not None and (bits := saved.text.bits) not in (None, recipe_of(self.source).bits):
                why = f"has features hashed to {bits} bits, which {self.source.name} does not have"
                raise InputError(f"{path}: {why}; split it with {option('bits', bits)}, or go on with stream")

    def check_resumed(self, saved: list, path: Location) -> None:
        """InputError where a checkpoint's run had taken over other models."""
        for name, before, now in zip(("start_from", "prior"), saved, self.fingerprints, strict=True):
            if before != now:
                how = "without" if before is None else "with another" if now else "with"
                raise InputError(f"{path}: was begun {how} {option(name)}; resume with the same, or start afresh")

    def match_features(self, budget: Budget) -> None:
        """Find each model's features among the source's."""
        paths = [path for path in (self.continue_from, self.prior) if path is not None]
        if not paths:
            return
        d, most = self.source.n_features, sum(saved.n_features for saved in filter(None, self.described))
        budget.require("matching of features", IdIndex.n_bytes(d) + 40 * most)
        self.index = IdIndex(d).fill(self.source.feature_id_pieces())
        unknown = [ids[self.index.find(ids) < 0] for ids in map(model_feature_ids, paths)]
        self.extra_ids = np.unique(np.concatenate(unknown))

    def positions(self, ids: np.ndarray) -> np.ndarray:
        """The number (int64) in this run of each feature that is named by its id."""
        if self.n_apart is not None:
            return ids
        positions = self.index.find(ids).astype(np.int64)
        unknown = positions < 0
        positions[unknown] = self.source.n_features + np.searchsorted(self.extra_ids, ids[unknown])
        return positions

    def feature_ids(self, source: Source, start: int, stop: int) -> np.ndarray:
        """The user's ids of the run's features start..stop-1: the source's, then those that only a model knows."""
        if self.n_apart is not None:
            return np.arange(start, stop)
        d = source.n_features
        ids = source.feature_ids(min(start, d), min(stop, d))
        if stop <= d:
            return ids
        return np.concatenate([ids, self.extra_ids[max(0, start - d) : stop - d]])

    def fill_state(self, state: Mapping[str, np.ndarray], solver) -> None:
        """The solver's state as it was, in this run's numbering of features."""
        saved, ids = open_state(self.continue_from), model_feature_ids(self.continue_from)
        positions = self.positions(ids)
        for array in solver.state_arrays:
            if not array.in_model or array.axis == "row":
                continue
            target = state[array.name]
            if array.axis == "scalar":
                saved.load(saved.namespace, array.name, target)
                continue
            # class after class: the numbers of its features, then those of the constant one
            width = array.columns // solver.n_vectors
            before = np.empty((solver.n_vectors, len(ids) + 1, width))
            saved.load(saved.namespace, array.name, before)
            target = target.reshape(solver.n_vectors, -1, width)
            target[:, positions] = before[:, :-1]
            target[:, -1] = before[:, -1]

    def prior_weights(self, n_features: int, bias: float) -> np.ndarray:
        """The prior's weights (n_vectors * (n_features + 1),), its intercept as weight of the constant feature."""
        model = load_model(self.prior)
        weights, intercepts = model.dense, np.atleast_1d(model.intercept)
        prior = np.zeros((len(weights), n_features + 1))
        prior[:, self.positions(model.feature_ids)] = weights
        if intercepts.any() and bias == 0.0:
            raise InputError(f"{self.prior}: has an intercept, but there is no constant feature; give {option('bias')}")
        if intercepts.any():
            prior[:, -1] = intercepts / bias
        return prior.ravel()


A_GUESS, HARDLY_BETTER = 0.5, 0.6  # areas under the ROC curve


def doubt_of_prior(path: Location, pieces: Pieces, y: np.ndarray) -> str:
    """A sentence where a prior model tells hardly more of some rows than a guess would, else "".  pieces: its decision
    values of the rows, of which the first piece is enough; y: as a block has it."""
    rows, values = next(pieces)
    y = y[rows]
    if y.dtype == np.float64:
        known = np.isfinite(y)
        error, spread = np.mean((values[0] - y)[known] ** 2), np.var(y[known])
        found = f"squared error {error:.3g}, of their mean {spread:.3g}" if error >= spread else ""
    else:
        classes = [y > 0] if len(values) == 1 else [y == label for label in range(len(values))]
        both = [(one, of) for one, of in zip(values, classes, strict=True) if of.any() and not of.all()]
        area = np.mean([area_under_curve(one, of) for one, of in both]) if both else 1.0
        found = f"area under the ROC curve {area:.2f}, of a guess {A_GUESS}" if area < HARDLY_BETTER else ""
    return found and (
        f"{path}: tells hardly more of these rows than a guess ({found}, in {len(y):,} rows), so it seems to be of "
        f"unrelated data; leave {option('prior')} out"
    )


MAY_CHANGE = ("query",)  # settings of the rows to come, of which nothing is kept in what was learned


def continued_settings(path: str | Location, saved: MethodMeta, takes: Settings, values: Mapping) -> dict:
    """The settings with which the learner of a model goes on: those of ``saved``, the method of its description, with
    which ``values`` (name -> value, None for what has none) must agree, but for MAY_CHANGE."""
    before = takes.restored(saved.settings)
    for name, value in takes.checked(values, saved.name).items():
        was = before.get(name, takes[name].default)
        if name in MAY_CHANGE:
            before[name] = value
        elif was != value:
            learned = f"with {option(name, was)}" if was is not None else f"without {option(name)}"
            now = f"but {value_text(value)} is given now; leave it out, or begin anew"
            raise InputError(f"{path}: was learned {learned}, {now}")
    return before


def check_continued(path: Location, saved: ModelMeta, bias: float | str, prior: str | None) -> None:
    """InputError where a model was learned with another constant feature or prior (its fingerprint) than given now."""
    if saved.constant != bias:
        raise InputError(f"{path}: was learned with {option('bias')} {saved.constant:g}, but {bias:g} is given now")
    if saved.prior_fingerprint != prior:
        what = "without a prior model" if saved.prior is None else f"with the prior model {saved.prior}"
        raise InputError(f"{path}: was learned {what}; continue with the same {option('prior')}")

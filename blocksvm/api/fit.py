"""Training from Python: from rows to a model in one call."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np

from blocksvm.api import FitKeywords
from blocksvm.api.files import write_store
from blocksvm.base.errors import InputError
from blocksvm.base.log import LOG
from blocksvm.base.settings import n_threads
from blocksvm.base.threads import Threads
from blocksvm.base.user_code import by_user
from blocksvm.cluster import makers
from blocksvm.files.output import TemporaryFolder, check_output
from blocksvm.files.paths import location, location_given, one_run
from blocksvm.formats.choices import all_choices
from blocksvm.formats.file_reader import texts_of
from blocksvm.model.events import RunEvent, optimality
from blocksvm.model.model_file import Model, load_model, make_model
from blocksvm.model.solver_state import InitialModels, start_of
from blocksvm.online.methods import get_method
from blocksvm.problems.certificate import Certificate
from blocksvm.solvers.solver import SavedRun, State
from blocksvm.sources.matrix import Matrix
from blocksvm.sources.source import Source
from blocksvm.store.reader import Store
from blocksvm.store.recipe import RECIPE
from blocksvm.training.checkpoint import describe_result, save_result
from blocksvm.training.plan import Plan
from blocksvm.training.record import Result
from blocksvm.training.settings import TrainSettings

# settings of the store that is made of a table
OF_ROWS = ("temp", "format", "min_count", "top_features", *RECIPE.names(), *all_choices().names())


@dataclass(frozen=True)
class Fitted:
    """A run's end: the model, how the run ended, and what saving it needs; none of the run's blocks.

    status 'converged', 'rounding', 'max-outer', 'max-passes', 'max-seconds', 'stopped' (by on_event) or 'interrupted';
    certificate of exactly this model (None where interrupted); alpha (n_samples,) float64 in the source's order, or
    None for a method without dual variables.
    """

    model: Model = field(repr=False)
    status: str
    certificate: Certificate | None
    alpha: np.ndarray | None = field(repr=False)
    plan: Plan = field(repr=False)
    state: State = field(repr=False)
    result: Result = field(repr=False)

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the model file; InputError where ``path`` exists (without ``overwrite``) or cannot be written."""
        check_output(location(path), overwrite, "model")
        ids = self.model.feature_ids  # the source may have been closed
        save_result(location(path), self.plan, self.state, self.result, lambda start, stop: ids[start:stop], overwrite)


@one_run()
def fit(rows, y=None, *, sample_weight=None, on_event: Callable[[RunEvent], object] = lambda event: None,
        stop: Callable[[], bool] = lambda: False, valid: Source | None = None,
        start_from: str | Path | SavedRun | State | None = None, prior: str | Path | None = None, cluster=None,
        **settings: Unpack[FitKeywords]) -> Fitted:  # fmt: skip
    """Train on a source of blocks (``open_store``, ``Matrix``), or on a scipy CSR matrix with labels ``y`` and, where
    rows count differently, their weights ``sample_weight`` (n,), 0 or more; or on texts, a list of strings, with labels
    ``y``; or on a table (anything with ``__arrow_c_stream__``, or an iterable of such or of record batches, read once).
    Texts and tables become a store in the system's folder for temporary files, or ``temp``, which is there as long as
    the model is.

    settings: ``solver`` (a name, by default 'dual-cd') with its own settings as keywords, named as the options of the
    command line are (``fit(X, y, solver="omd", mirror="p-norm", p=15.0, step=0.3, average=True)``), and those of the
    run (memory, tol, schedule, ...); ``blocksvm.describe_solver(NAME)`` lists them.  on_event is called with a dict
    for each event: "start", "visit", "progress", "certifying", "certificate", "outer" and "end"; ``RunEvent``
    (model/events.py) declares their keys and types.  Where it returns True for "outer", the run ends there.
    stop() is asked after each visit, and ends the run at once where it says True, uncertified; valid: a source to score
    after each outer iteration; start_from: a model or checkpoint of the same rows, or what is in memory of such a run;
    or a model of an online learner, which goes on with its settings, or the arrays of its state, ``Fitted.state``,
    which goes on with those given; prior: a model to be regularised towards; cluster: who reads a store in the place of
    this process: the address of a Dask scheduler, "local:N", or a ``distributed.Client``.  Raises InputError where the
    settings do not fit the rows or the memory.

        >>> with blocksvm.open_store("rows.h5") as store:
        ...     fitted = blocksvm.fit(store, C=0.1, memory="100MB")
        >>> fitted.status, fitted.certificate.rel_gap < 1e-3
        ('converged', True)
        >>> fitted.save("fitted.h5")

        >>> X, y = [[0.0, 2.0], [1.0, 0.0], [2.0, 1.0]], ["no", "yes", "yes"]
        >>> blocksvm.fit(X, y, learner="arow", max_outer=2).model.predict(X)
        array(['no', 'yes', 'yes'], dtype='<U3')

        >>> fitted = blocksvm.fit(["good film", "bad film"], ["pos", "neg"], ngrams="word:1-2", normalize="l2")
        >>> fitted.model.predict(["a good one"])
        array(['pos'], dtype='<U3')
    """
    if (table := _table_of(rows, y)) is not None:
        more = {"on_event": on_event, "stop": stop, "valid": valid, "start_from": start_from, "prior": prior}
        if y is not None:
            settings["text"] = "text"
        return fit_table(table, sample_weight, settings, more | {"cluster": cluster})
    if hasattr(rows, "read_block"):
        if y is not None or sample_weight is not None:
            raise InputError(f"{rows.name}: has labels and weights of its own; leave y and sample_weight out")
        source = rows
    else:
        source = Matrix(rows, y, weights=sample_weight)
    by_user(settings)
    threads = Threads(n_threads(settings.pop("n_jobs", None)))
    continue_from, begin = start_of(location(start_from)) if isinstance(start_from, str | Path) else (None, start_from)
    initial_models = InitialModels(source, continue_from, location_given(prior))
    of = TrainSettings.of if continue_from is None else partial(TrainSettings.continuing, continue_from)
    train_settings = of(**settings)
    _, make_plan, make_loop = makers(cluster, source)
    plan = make_plan(source, train_settings, initial_models=initial_models, valid=valid)
    plan.share_work(threads)
    for sentence in filter(None, (plan.held_out and plan.held_out.note, plan.remark())):
        LOG.warning("%s", sentence)

    def watched(event: RunEvent) -> object:
        log_event(event)
        return on_event(event)

    loop = make_loop(plan, watched, stop, warm_start=None if isinstance(begin, dict) else begin)
    if isinstance(begin, dict):
        loop.allocate()
        for name, array in loop.state.items():
            if name not in begin or begin[name].shape != array.shape:
                wanted = f"{name} of the shape {array.shape}"
                raise InputError(f"start_from: holds no {wanted}; begin with that of the same solver")
            array[...] = begin[name]
    result = loop.run()
    described = describe_result(plan, loop.state, result)
    ids = initial_models.feature_ids(source, 0, plan.n_features)
    named = (getattr(source, "path", ""), source.fingerprint) if source.named else None
    model = replace(make_model("", ids, result.w, described, result.support), rows=named)
    return Fitted(model, result.status, result.certificate, result.alpha, plan, loop.state, result)


def _table_of(rows, y):
    """What ``write_store`` takes, where rows are texts with labels ``y``, or a table; else None."""
    if y is None:
        matrix = hasattr(rows, "read_block") or hasattr(rows, "toarray") or isinstance(rows, str | Path | list | tuple)
        return rows if hasattr(rows, "__arrow_c_stream__") or not (matrix or hasattr(rows, "shape")) else None
    if (texts := texts_of(rows)) is None:
        return None
    from blocksvm.formats.table_rows import table_of_texts

    return table_of_texts(texts, y)


def fit_table(table, sample_weight, settings, more) -> Fitted:
    """``fit`` on a store that is made of a table; the model lies beside it."""
    of_rows = {name: settings.pop(name) for name in OF_ROWS if name in settings}
    folder = TemporaryFolder(of_rows.pop("temp", None))
    store, model = folder.path / "rows.h5", folder.path / "model.h5"
    shared = {name: settings[name] for name in ("memory", "seed", "n_jobs") if name in settings}
    if sample_weight is not None:
        of_rows["weights"] = write_weights(folder.path / "weights.txt", sample_weight)
    write_store(table, store, **of_rows, **shared)
    fitted = fit(Store(store), **more, **settings)
    fitted.save(model)
    return replace(fitted, model=replace(load_model(model), folder=folder))


def write_weights(path: Path, weights) -> Path:
    """The file of rows' weights, as ``write_store`` reads it."""
    np.savetxt(path, np.asarray(weights, np.float64), fmt="%.17g")
    return path


def log_event(event: RunEvent) -> None:
    """Log the outer iterations and the end of a run, and why it has not converged."""
    if event["event"] == "outer":
        _, (gap, *_) = optimality(event)
        reached = "" if gap is None else f"gap {gap:.1e}, "
        LOG.info("outer iteration %d: %s%.1fs", event["outer"], reached, event["seconds"])
    elif event["event"] == "end":
        certified = "" if event["rel_gap"] is None else f", certified relative gap {event['rel_gap']:.1e}"
        LOG.info("%s after %d outer iterations, %.1fs%s", event["status"], event["outer"], event["seconds"], certified)
        if event["advice"] is not None:
            LOG.warning("%s", event["advice"])


def describe_solver(name: str, learner: bool = False) -> str:
    """The summary of a solver or online learner, and its settings with their defaults, a line each.  learner: of a name
    that a solver has too, the online learner.

        >>> print(blocksvm.describe_solver("perceptron"))
        perceptron: a step along y x for each mistake
          step: step size c (default 1)
          ...
    """
    by_user(solver=name)
    method = get_method(name, learner)
    settings = [f"  {setting.name}: {setting.described()}" for setting in method.settings]
    return "\n".join([f"{method.name}: {method.summary}", *settings])

"""What a stream writes: its model, in pieces, so that a save takes little memory; predictions, rows whose labels it
asks for, and a trace."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import Labels
from blocksvm.base.settings import plain
from blocksvm.files.output import JsonLines, written_text
from blocksvm.files.paths import Location
from blocksvm.formats.choices import OF_INPUTS
from blocksvm.model.decision_values import prediction_lines
from blocksvm.model.events import versions
from blocksvm.model.model_file import FLOAT64, INT64, save_model
from blocksvm.model.solver_state import namespace
from blocksvm.online.solver import no_epochs
from blocksvm.store.arrays import Piecewise
from blocksvm.store.descriptions import ModelMeta, typed
from blocksvm.streaming.stream_pass import OF_PASSES, StreamPass, StreamReport


def describe(stream: StreamPass) -> ModelMeta:
    settings, learner = stream.settings, stream.leading
    report = stream.report()
    labels = stream.targets.known_classes()
    description = {
        "n_features": stream.features.n_features, "n_vectors": learner.runner.n_vectors, "bias": learner.runner.bias,
        "n_samples": report.rows, "fingerprint": None, "store": "a stream", "method": learner.method,
        "settings": {"bias": settings.bias or 0.0, "memory": settings.memory, "seed": settings.seed},
        "labels": list(labels.values) if labels else [], "multilabel": learner.runner.sets,
        "ranks": learner.runner.ranks, "prior": None if stream.prior is None else str(stream.prior),
        "prior_fingerprint": stream.prior_fingerprint,
        "idf_fingerprint": None if stream.factors is None else stream.factors.fingerprint,
        "text": stream.recipe.without(OF_INPUTS), "values": "float32", "certificate": None,
        "progress": {name: getattr(report, name) for name in (*OF_PASSES, "asked", "skipped")}
        | {"unlabelled": stream.targets.unlabelled},
        "status": "stream", "outer": settings.passes, "seconds": report.seconds, "passes": [1] * settings.passes,
        "versions": versions(), **learner.runner.describe(learner.state.scalars),
    }  # fmt: skip
    return typed(description, ModelMeta)


def save_stream(path: Location, stream: StreamPass, overwrite: bool = True) -> None:
    """Write the model file, whole or not at all, of the learner that leads; with its memory, so that it can go on.
    Without ``overwrite`` InputError where there is such a file."""
    if stream.rows == 0:
        raise InputError("nothing was learned; no model is written")
    learner, n = stream.leading, stream.features.n_features
    runner, state_now = learner.runner, learner.state
    scalars = state_now.scalars.reshape(runner.n_learners, -1)

    def weights(start: int, stop: int) -> np.ndarray:
        out = np.empty(stop - start)
        for c in range(start // (n + 1), -(-stop // (n + 1))):
            first, last = max(start, c * (n + 1)), min(stop, (c + 1) * (n + 1))
            of_class = scalars[c : c + 1] if runner.n_learners > 1 else scalars
            runner.read_weights(learner.numbers(first, last, n), of_class, out[first - start : last - start])
        if len(state_now.prior):
            out += state_now.prior[learner.slots(start, stop, n)]
        return out

    def columns(start: int, stop: int) -> np.ndarray:
        first = start // runner.width
        return learner.numbers(first, -(-stop // runner.width), n)[start - first * runner.width :][: stop - start]

    state: dict[str, np.ndarray | Piecewise] = {
        "features": Piecewise(runner.n_vectors * (n + 1) * runner.width, FLOAT64, columns),
        "scalars": state_now.scalars,
        "tally": state_now.tally,
        "epochs": no_epochs(),
    }
    ids, w = stream.features.ids(), Piecewise(runner.n_vectors * (n + 1), FLOAT64, weights)
    factors = None if stream.factors is None else stream.factors.by_feature
    spaces = {namespace(learner.name, True): state}
    by_piece = Piecewise(len(ids), INT64, lambda start, stop: ids[start:stop])  # hashes are int32
    save_model(path, by_piece, w, spaces, describe(stream), overwrite, factors=factors)


class StreamOutputs:
    """The outputs of a stream by kind ('predictions', 'questions', 'model', 'log'), each None where it is not written,
    open until ``stack`` closes; after an error only the models that were saved and the trace have their names.

    warn(sentence) is called where the trace cannot be written; n_predictions, n_questions: lines that were written.
    """

    def __init__(self, paths: Mapping[str, Location], overwrite: bool, warn: Callable[[str], None], stack: ExitStack):
        self.paths, self.overwrite, self.warn, self.stack = paths, overwrite, warn, stack
        self.questions = self._text("questions")
        self.log: JsonLines | None = None
        self.n_predictions = self.n_questions = 0
        self.replaces = overwrite

    def _text(self, kind: str):
        return self.stack.enter_context(written_text(self.paths[kind], self.overwrite)) if kind in self.paths else None

    def write_predictions(self, write: Callable[[str], None], scores: bool) -> None:
        """Write predictions to their file, or by ``write(text)`` where they have none; scores: as decision values."""
        file = self._text("predictions")
        self.write, self.scores, self.sets = write if file is None else file.write, scores, False

    def predicted(self, values: np.ndarray, labels: Labels | None) -> None:
        """Write the predictions of consecutive rows by decision values (m,) or (m, k); labels: None where they are
        numbers."""
        for text in prediction_lines(() if self.scores or labels is None else labels.values, values, sets=self.sets):
            self.write(text)
        self.n_predictions += len(values)

    def ask(self, location: str) -> None:
        """Write the location of a row whose label the learner asks for."""
        self.n_questions += 1
        self.questions.write(location + "\n")

    def save(self, stream: StreamPass) -> None:
        """Write the model as it stands, in the place of the one that an earlier save has written."""
        save_stream(self.paths["model"], stream, self.replaces)
        self.replaces = True

    def begin(self, stream: StreamPass) -> None:
        """Open the trace, now that the stream's settings have been accepted, and write its first event."""
        self.sets = stream.leading.runner.sets and not stream.leading.runner.ranks
        if "log" in self.paths:
            self.log = JsonLines(self.paths["log"], self.warn, self.overwrite)
            self.stack.callback(self.log.close)
            each = {learner.name: plain(learner.runner.settings) for learner in stream.learners}
            settings = {"learners": each} if len(each) > 1 else next(iter(each.values()))
            names = ",".join(each)
            self.log.write({"event": "start", "learner": names, **settings, "memory_plan": stream.plan()})

    def report(self, figures: StreamReport) -> None:
        if self.log is not None:
            self.log.write({"event": "end" if figures.final else "progress", **vars(figures)})

    def end(self, stream: StreamPass) -> None:
        if "model" in self.paths and stream.rows:
            self.save(stream)

"""The files that a stream writes while it goes on: predictions, rows whose labels it asks for, models, a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from blocksvm.base.settings import plain
from blocksvm.files.output import JsonLines, open_text, written_text
from blocksvm.files.paths import Location
from blocksvm.model.prediction_lines import Predictions
from blocksvm.streaming.stream_pass import StreamPass, StreamReport
from blocksvm.streaming.stream_saving import StreamSaver, save_stream


class StreamOutputs:
    """The open outputs of a stream, each None where it is not written; n_questions: lines in ``questions`` so far."""

    def __init__(self, paths: Mapping[str, Location], overwrite: bool, warn: Callable[[str], None], stack: ExitStack):
        self.paths = paths
        self.overwrite = overwrite
        self.warn = warn
        self.stack = stack
        self.predictions: Predictions | None = None
        self.questions = self._text("questions")
        self.saver = stack.enter_context(StreamSaver(paths["model"], overwrite)) if "model" in paths else None
        self.log: JsonLines | None = None
        self.n_questions = 0

    def _text(self, kind: str):
        return self.stack.enter_context(written_text(self.paths[kind], self.overwrite)) if kind in self.paths else None

    def write_predictions(self, write: Callable[[str], None], scores: bool) -> None:
        """Write predictions to their file, or by ``write(text)`` where they have none; scores: as decision values."""
        file = self._text("predictions")
        self.predictions = Predictions(write if file is None else file.write, scores)

    def ask(self, location: str) -> None:
        """Write the location of a row whose label the learner asks for."""
        self.n_questions += 1
        self.questions.write(location + "\n")

    def begin(self, stream: StreamPass) -> None:
        """Open the trace, now that the stream's settings have been accepted, and write its first event."""
        if self.predictions is not None:
            self.predictions.sets = stream.leading.runner.sets and not stream.leading.runner.ranks
        if "log" in self.paths:
            self.log = JsonLines(self.paths["log"], open_text(self.paths["log"], self.overwrite), self.warn)
            self.stack.callback(self.log.close)
            each = {learner.name: plain(learner.runner.settings) for learner in stream.learners}
            settings = {"learners": each} if len(each) > 1 else next(iter(each.values()))
            names = ",".join(each)
            self.log.write({"event": "start", "learner": names, **settings, "memory_plan": stream.plan()})

    def report(self, figures: StreamReport) -> None:
        """Write a line of the trace."""
        if self.log is not None:
            self.log.write({"event": "end" if figures.final else "progress", **vars(figures)})

    def end(self, stream: StreamPass) -> None:
        """Save the model as it is at the end."""
        if self.saver is not None and stream.rows:
            self.saver.wait()
            save_stream(self.saver.path, stream, self.saver.replaces)


@contextmanager
def stream_outputs(
    paths: Mapping[str, Location], overwrite: bool, warn: Callable[[str], None]
) -> Iterator[StreamOutputs]:
    """Outputs by kind ('predictions', 'questions', 'model', 'log'); after an error only the models that were saved and
    the trace have their names.  warn(sentence) is called where the trace cannot be written."""
    with ExitStack() as stack:
        yield StreamOutputs(paths, overwrite, warn, stack)

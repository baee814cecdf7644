"""What a stream shows: a line at doubling numbers of rows, and the whole at its end."""

from __future__ import annotations

from blocksvm.cli.display.words import label, megabytes, rmse, suffered
from blocksvm.settings import shown


def described(learner) -> str:
    """A learner with its settings."""
    told = shown(learner.runner.settings)
    return f"{learner.name}{f' ({told})' if told else ''}"


def errors(told: dict) -> str:
    """The share of mistakes of one of several learners, or its root mean squared error."""
    if told["mistakes"] is None:
        return rmse(told["squared_errors"], told["rows"])
    return f"{told['mistakes'] / max(1, told['rows']):.3%}"


class StreamDisplay:
    """Lines at doubling numbers of rows: the loss so far and since the last line, and the row seen last."""

    COLUMNS = ("average", "since", "row", "mistakes", "label", "predicted", "features")
    COLUMNS_OF_NUMBERS = ("average", "since", "row", "rmse", "label", "predicted", "features")
    WIDTHS = (10, 10, 12, 12, 9, 11, 9)

    def __init__(self, stream, quiet: bool):
        self.stream = stream
        self.quiet = quiet
        self.rows = 0
        self.loss = 0.0
        self.rows_before = self.nonzeros_before = 0  # of a stream that this one continues

    def _print(self, text: str) -> None:
        if not self.quiet:
            print(text, file=self.stream, flush=True)

    def begin(self, inputs: list[str], settings, stream) -> None:
        """What will be done, and the memory it may take."""
        before = stream.report()
        self.rows, self.loss = before.rows, before.cumulative_loss
        self.rows_before, self.nonzeros_before = before.rows, stream.nonzeros
        names = ", ".join("standard input" if name == "-" else name for name in inputs[:3])
        learners = "; ".join(map(described, stream.learners))
        place = (
            "a table of ids that grows" if settings.bits is None else f"ids hashed to {1 << settings.bits:,} features"
        )
        plan = ", ".join(f"{name} {megabytes(n)}" for name, n in stream.plan().items())
        self._print(f"{names}{', ...' if len(inputs) > 3 else ''}: {learners}; {place}")
        self._print(f"memory at most {megabytes(settings.memory)}: {plan}")
        if len(stream.learners) > 1:
            self._print(f"{'root mean squared error' if stream.targets.real else 'share of mistakes'} of each learner")
            self._print(self._table(("row", *(learner.name for learner in stream.learners))))
            return
        columns = self.COLUMNS_OF_NUMBERS if stream.targets.real else self.COLUMNS
        if stream.leading.runner.costs is not None:
            at = columns.index("label")
            columns = (*columns[:at], "cost", *columns[at:])
            self.WIDTHS = (*self.WIDTHS[:at], 12, *self.WIDTHS[at:])
        self._print(self._line(columns))

    def _line(self, cells: tuple) -> str:
        return " ".join(str(cell).rjust(width) for cell, width in zip(cells, self.WIDTHS, strict=True))

    def _table(self, cells: tuple) -> str:
        return " ".join(cell.rjust(max(12, len(cell))) for cell in cells)

    def show(self, report) -> None:
        if report.learners is not None:
            self._print(self._table((f"{report.rows:,}", *(errors(told) for told in report.learners.values()))))
            return
        rows = report.rows - self.rows
        since = (report.cumulative_loss - self.loss) / rows if rows else 0.0
        self.rows, self.loss = report.rows, report.cumulative_loss
        self._print(
            self._line((
                f"{report.cumulative_loss / max(1, report.rows):.6f}", f"{since:.6f}", f"{report.rows:,}",
                rmse(report.squared_errors, report.rows) if report.mistakes is None else f"{report.mistakes:,}",
                *([] if report.cumulative_cost is None else [f"{report.cumulative_cost:.6g}"]),
                "-" if report.label is None else label(report.label), f"{report.score:.4g}", f"{report.length:,}",
            ))
        )  # fmt: skip

    def fault(self, sentence: str) -> None:
        self._print(f"skipped: {sentence}")

    def summary(self, stream) -> list[str]:
        """The lines that end a stream."""
        told = stream.report()
        seconds = max(1e-9, told.seconds)
        rows, nonzeros = told.rows - self.rows_before, stream.nonzeros - self.nonzeros_before
        pace = f"{rows / seconds:,.0f} rows/s, {nonzeros / 1e6 / seconds:.1f} M nonzeros/s"
        of_all = f"of all {told.rows:,} rows: " if self.rows_before else ""
        loss = suffered(told.rows, told.cumulative_loss, told.mistakes, told.squared_errors, told.cumulative_cost)
        of_all += f"{stream.leading.name} leads, " if told.learners is not None else ""
        lines = [f"{rows:,} rows in {told.seconds:.1f}s ({pace}), {told.features:,} features; {of_all}{loss}"]
        if stream.settings.query is not None:
            lines.append(f"labels asked for: {told.asked:,} ({told.asked / told.rows:.2%})")
        if stream.targets.unlabelled:
            lines.append(f"rows without a label: {stream.targets.unlabelled:,} (not learned from)")
        if told.skipped:
            lines.append(f"lines skipped: {told.skipped:,}")
        return lines

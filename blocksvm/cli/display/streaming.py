"""What a stream shows: a line at doubling numbers of rows, and the whole at its end."""

from __future__ import annotations

from blocksvm.cli.display.words import label, megabytes, rmse, suffered
from blocksvm.settings import shown


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
        told = shown(stream.runner.settings)
        place = (
            "a table of ids that grows" if settings.bits is None else f"ids hashed to {1 << settings.bits:,} features"
        )
        plan = ", ".join(f"{name} {megabytes(n)}" for name, n in stream.plan().items())
        self._print(
            f"{names}{', ...' if len(inputs) > 3 else ''}: {stream.method['name']}{f' ({told})' if told else ''}; "
            f"{place}"
        )
        self._print(f"memory at most {megabytes(settings.memory)}: {plan}")
        columns = self.COLUMNS_OF_NUMBERS if stream.targets.real else self.COLUMNS
        if stream.runner.costs is not None:
            at = columns.index("label")
            columns = (*columns[:at], "cost", *columns[at:])
            self.WIDTHS = (*self.WIDTHS[:at], 12, *self.WIDTHS[at:])
        self._print(self._line(columns))

    def _line(self, cells: tuple) -> str:
        return " ".join(str(cell).rjust(width) for cell, width in zip(cells, self.WIDTHS, strict=True))

    def show(self, report) -> None:
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
        lines = [f"{rows:,} rows in {told.seconds:.1f}s ({pace}), {told.features:,} features; {of_all}{loss}"]
        if stream.settings.query is not None:
            lines.append(f"labels asked for: {told.asked:,} ({told.asked / told.rows:.2%})")
        if stream.targets.unlabelled:
            lines.append(f"rows without a label: {stream.targets.unlabelled:,} (not learned from)")
        if told.skipped:
            lines.append(f"lines skipped: {told.skipped:,}")
        return lines

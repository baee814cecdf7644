"""The display of a stream: a line at doubling numbers of rows, and the whole at its end."""

from blocksvm.cli import texts


def seen(value, width: int) -> str:
    """The label of a row; of a number that is too long as many digits as there is room for."""
    text = "-" if value is None else texts.label(value)
    return texts.fitted(value, width) if len(text) > width and isinstance(value, float) else text


class StreamDisplay:
    """Lines at doubling numbers of rows: the loss so far and since the last line, and the row seen last."""

    # of a line: what is told of the rows so far, which depends on what labels are, and of the row seen last
    BEGIN, END = ("average", "since", "row"), ("label", "predicted")
    WIDTHS = {"average": 9, "since": 9, "row": 11, "mistakes": 11, "auc": 7, "log loss": 9, "rmse": 12, "cost": 9,
              "label": 7, "predicted": 10}  # fmt: skip
    FIRST, LEAST = 14, 12  # of several learners: the column of rows, a learner's least one

    def __init__(self, stream):
        self.stream = stream
        self.ranked = False
        self.rows = 0
        self.loss = 0.0
        self.rows_before = self.nonzeros_before = 0  # of a stream that this one continues
        self.widths: dict[str, int] = {}

    def _print(self, text: str) -> None:
        print(texts.wrap_text(text, self.stream), file=self.stream, flush=True)

    def begin(self, inputs: list[str], stream) -> None:
        """Print the inputs, the learners, and the memory that they may take."""
        before = stream.report()
        self.ranked = stream.leading.curve is not None
        self.rows, self.loss = before.rows, before.cumulative_loss
        self.rows_before, self.nonzeros_before = before.rows, stream.nonzeros
        names = ", ".join("standard input" if name == "-" else name for name in inputs[:3])
        learners = "; ".join(texts.described(learner.name, learner.runner.settings) for learner in stream.learners)
        bits = stream.settings.bits
        features = "a table of ids that grows" if bits is None else f"ids hashed to {1 << bits:,} features"
        plan = ", ".join(f"{name} {texts.megabytes(n)}" for name, n in stream.plan().items())
        self._print(f"{names}{', ...' if len(inputs) > 3 else ''}: {learners}; {features}")
        self._print(f"memory at most {texts.megabytes(stream.settings.memory)}: {plan}")
        if len(stream.learners) > 1:
            self._print(f"{'root mean squared error' if stream.targets.real else 'share of mistakes'} of each learner")
            of_learners = {learner.name: max(self.LEAST, len(learner.name)) for learner in stream.learners}
            self.widths = {"row": self.FIRST} | of_learners
        else:
            names = (*self.BEGIN, *self._measures(before), *self.END)
            self.widths = {name: self.WIDTHS[name] for name in names}
        self._print(texts.table_line({name: name for name in self.widths}, self.widths))

    def _measures(self, report) -> dict[str, str]:
        """The cells of a line between the losses and the last row, by heading."""
        if report.mistakes is None:
            return {"rmse": texts.rmse(report.squared_errors, report.rows)}
        cells = {"mistakes": texts.counted(report.mistakes, 11)}
        if report.cumulative_cost is not None:
            cells["cost"] = texts.fitted(report.cumulative_cost, 9)
        if self.ranked:
            cells["auc"] = "" if report.auc is None else f"{report.auc:.4f}"
            if report.cumulative_cost is None:  # there is room for one of the two
                cells["log loss"] = "" if report.log_loss is None else texts.fitted(report.log_loss, 9, 4)
        return cells

    def show(self, report) -> None:
        if report.learners is not None:
            cells = {"row": texts.counted(report.rows, self.FIRST)}
            for name, one in report.learners.items():
                share = None if one["mistakes"] is None else one["mistakes"] / max(1, one["rows"])
                cells[name] = texts.rmse(one["squared_errors"], one["rows"]) if share is None else f"{share:.3%}"
        else:
            rows = report.rows - self.rows
            since = (report.cumulative_loss - self.loss) / rows if rows else 0.0
            self.rows, self.loss = report.rows, report.cumulative_loss
            cells = {
                "average": texts.fitted(report.cumulative_loss / max(1, report.rows), 9),
                "since": texts.fitted(since, 9), "row": texts.counted(report.rows, 11), **self._measures(report),
                "label": seen(report.label, 7),
                "predicted": seen(report.score, 9) if isinstance(report.score, str) else f"{report.score:.3g}",
            }  # fmt: skip
        self._print(texts.table_line(cells, self.widths))

    def fault(self, sentence: str) -> None:
        self._print(f"skipped: {sentence}")

    def summary(self, stream) -> list[str]:
        report = stream.report()
        rows, nonzeros = report.rows - self.rows_before, stream.nonzeros - self.nonzeros_before
        seconds = max(report.seconds, 1e-9)
        pace = f" ({rows / seconds:,.0f} rows/s, {nonzeros / seconds / 1e6:.1f} M nonzeros/s)"
        of_all = f"of all {texts.number_of(report.rows, 'row')}: " if self.rows_before else ""
        loss = texts.loss_text(vars(report))
        if report.auc is not None:
            loss += f", auc {report.auc:.4f}, log loss {report.log_loss:.4g}"
        of_all += f"{stream.leading.name} leads, " if report.learners is not None else ""
        lines = [
            f"{texts.number_of(rows, 'row')} in {report.seconds:.1f}s{pace}, "
            f"{texts.number_of(report.features, 'feature')}; {of_all}{loss}"
        ]
        for number, of_pass in enumerate(report.passes or [], 1):
            if of_pass["rows"]:
                seen_before = "" if number == 1 else ", of rows that were learned from before"
                lines.append(f"pass {number}: {texts.loss_text(of_pass)}{seen_before}")
        if stream.settings.query is not None:
            lines.append(f"labels asked for: {report.asked:,} ({report.asked / report.rows:.2%})")
        if stream.targets.unlabelled:
            lines.append(f"rows without a label: {stream.targets.unlabelled:,} (not learned from)")
        if report.skipped:
            lines.append(f"lines skipped: {report.skipped:,}")
        return lines

"""What a person sees while a command works: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from pathlib import Path


def megabytes(n_bytes: float) -> str:
    """'12.3 MB' or '1.23 GB'."""
    value = n_bytes / 1e6
    if value >= 1000:
        return f"{value / 1000:.2f} GB"
    return f"{value:.0f} MB" if value >= 100 else f"{value:.1f} MB" if value >= 1 else f"{value * 1000:.0f} kB"


def clock(seconds: float | None) -> str:
    """'42s', '3m10s' or '2h05m'; '' for None."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


def label(value: float) -> str:
    return f"{value:g}"


class Line:
    """One line of progress: rewritten in place on a terminal, printed now and then elsewhere."""

    EVERY = 5.0  # seconds between lines that are not rewritten

    def __init__(self, stream, quiet: bool):
        self.stream = stream
        self.quiet = quiet
        self.terminal = not quiet and stream.isatty()
        self.last = time.perf_counter()
        self.width = 0

    def show(self, text: str) -> None:
        now = time.perf_counter()
        if self.quiet or now - self.last < (0.1 if self.terminal else self.EVERY):
            return
        self.last = now
        if self.terminal:
            self.stream.write("\r" + text.ljust(self.width))
            self.width = len(text)
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        if self.terminal and self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()
            self.width = 0


class SplitDisplay:
    """Progress of a split: rows and megabytes a second, time left."""

    def __init__(self, stream, quiet: bool):
        self.line = Line(stream, quiet)
        self.quiet = quiet
        self.stream = stream
        self.began = time.perf_counter()
        self.phase_began = 0.0
        self.phase = ""

    def __enter__(self) -> SplitDisplay:
        return self

    def __exit__(self, *exception) -> None:
        self.line.close()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def begin(self, inputs: list[str], settings) -> None:
        self.began = time.perf_counter()
        if self.quiet:
            return
        names = inputs[0] if len(inputs) == 1 else f"{len(inputs)} inputs"
        names = "standard input" if names == "-" else names
        print(
            f"splitting {names}: up to {megabytes(settings.memory)} of memory, {settings.jobs} "
            f"thread{'s' if settings.jobs > 1 else ''}",
            file=self.stream,
        )

    def show(self, progress) -> None:
        if progress.phase != self.phase:
            self.phase = progress.phase
            self.phase_began = 0.0 if progress.phase == "reading" else progress.seconds
        spent = max(progress.seconds - self.phase_began, 1e-9)
        left = ""
        if progress.fraction:
            left = f", {clock(spent * (1 - progress.fraction) / progress.fraction)} left"
        done = "" if progress.fraction is None else f"{progress.fraction:4.0%} "
        if progress.phase == "reading":
            rate = f"{progress.rows / spent:,.0f} rows/s, {progress.text_bytes / 1e6 / spent:,.0f} MB/s"
            self.line.show(f"reading {done}{progress.rows:,} rows, {rate}{left}")
        else:
            self.line.show(f"writing {done}{left.lstrip(', ')}")


def split_summary(path: Path, meta: dict, seconds: float) -> str:
    """The lines that end a split."""
    stored = path.stat().st_size
    text = sum(source["text_bytes"] for source in meta["sources"])
    nnz = meta["n_nonzeros"]
    lines = [
        f"{path}: {meta['n_samples']:,} rows, {meta['n_features']:,} features, {nnz:,} nonzeros"
        f"{' (all values are 1)' if meta['values'] == 'ones' else ''}",
        f"labels: {labels_line(meta['labels'])}",
        f"{megabytes(stored)} in {meta['n_chunks']:,} chunks: {stored / max(1, nnz):.2f} bytes a nonzero, "
        f"{stored / max(1, text):.0%} of the text's {megabytes(text)}",
        f"{clock(seconds) if seconds >= 10 else f'{seconds:.1f}s'}: {meta['n_samples'] / seconds:,.0f} rows/s, "
        f"{text / 1e6 / seconds:,.0f} MB/s of text",
    ]
    return "\n".join(lines)


def labels_line(labels) -> str:
    if labels is None:
        return "more than 10,000 distinct numbers"
    shown = ", ".join(f"{label(value)} ({count:,} rows)" for value, count in labels[:6])
    more = f", and {len(labels) - 6} more" if len(labels) > 6 else ""
    note = "; training needs rows of a second class" if len(labels) == 1 else ""
    return shown + more + note


COLUMNS = ("outer", "seconds", "primal", "dual", "gap", "", "held-out", "passes", "waiting", "left")
ONLINE_COLUMNS = ("epoch", "seconds", "rows", "loss", "mistakes", "", "held-out", "asked", "waiting", "left")


class TrainDisplay:
    """The table of a run, a row each outer iteration: estimates ("~"), certified figures, waiting, time left."""

    def __init__(self, stream, quiet: bool):
        self.stream = stream
        self.quiet = quiet
        self.terminal = not quiet and stream.isatty()
        self.live = None
        self.foreseen = False
        self.rows: list[tuple] = []
        self.status = ""
        self.gaps: list[tuple[float, float]] = []
        self.tol = 0.0
        self.max_seconds = None
        self.max_outer = None
        self.columns = COLUMNS
        self.before = {"rows": 0, "cumulative_loss": 0.0, "mistakes": 0, "asked": 0}

    def __enter__(self) -> TrainDisplay:
        return self

    def __exit__(self, *exception) -> None:
        if self.live is not None:
            self.status = ""
            self.live.update(self._table(), refresh=True)
            self.live.stop()

    def show(self, event: dict) -> None:
        if self.quiet:
            return
        kind = event["event"]
        if kind in ("start", "resume"):
            self._start(event)
        elif kind == "visit":
            self._foresee(event)
            self._status(f"outer iteration {event['outer']}: block {event['visit']} of {event['blocks']}")
        elif kind == "certifying":
            self._status("reading all rows once more, for the certificate")
        elif kind == "outer":
            self._outer(event)

    def _start(self, event: dict) -> None:
        self.tol, self.max_seconds, self.max_outer = event["tol"], event["max_seconds"], event["max_outer"]
        plan = ", ".join(f"{name} {megabytes(n)}" for name, n in event["memory_plan"].items() if n >= 50_000)
        blocks = event["blocks"]
        weight = f"lambda {event['lam']:g}" if event["lam"] else f"C {event['C']:g}"
        method = f"{event['solver']}, {event['loss']} loss, {weight}, to a relative gap of {self.tol:g}"
        if event["learner_settings"] is not None:
            self.columns = ONLINE_COLUMNS
            told = ", ".join(
                f"{name} {value}" for name, value in event["learner_settings"].items() if value is not None
            )
            method = f"{event['solver']}{f' ({told})' if told else ''}"
        else:
            method += f"; schedule {event['schedule']}"
        lines = [
            f"{event['store']}: {event['n_samples']:,} rows, {event['n_features']:,} features, "
            f"{event['n_nonzeros']:,} nonzeros",
            f"{method}, seed {event['seed']}",
            f"memory {megabytes(sum(event['memory_plan'].values()))} of {megabytes(event['memory'])}: {plan}",
            "all rows stay in memory"
            if event["resident"]
            else f"{blocks} blocks, one in memory while the next is read",
        ]
        if event["event"] == "resume":
            lines.append(f"resuming at outer iteration {event['outer']}")
        print("\n".join(lines), file=self.stream)
        if self.terminal:
            from rich.console import Console
            from rich.live import Live

            self.live = Live(self._table(), console=Console(file=self.stream), refresh_per_second=8)
            self.live.start()
        else:
            print(self._plain(self.columns), file=self.stream, flush=True)

    def _foresee(self, event: dict) -> None:
        """After the first blocks of a run that takes its time: how long an outer iteration will be."""
        if self.live is not None or self.foreseen or event["visit"] < 3:
            return
        self.foreseen = True
        expected = event["seconds"] / event["visit"] * event["blocks"]
        if expected >= 10.0:
            print(f"about {clock(expected)} an outer iteration", file=self.stream, flush=True)

    def _status(self, text: str) -> None:
        if self.live is not None:
            self.status = text
            self.live.update(self._table())

    def _epoch(self, event: dict) -> tuple:
        """An online learner's epoch: what it suffered in it, row by row, before it learned from each."""
        done = {name: event[name] - before for name, before in self.before.items()}
        self.before = {name: event[name] for name in self.before}
        rows = max(1, done["rows"])
        return (
            str(event["outer"]),
            f"{event['seconds']:.1f}",
            f"{done['rows']:,}",
            f"{done['cumulative_loss'] / rows:.6f}",
            f"{done['mistakes'] / rows:.4%}",
            "",
            "" if event["valid_accuracy"] is None else f"{event['valid_accuracy']:.4f}",
            f"{done['asked'] / rows:.0%}",
        )

    def _outer(self, event: dict) -> None:
        spent = event["seconds_training"] + event["seconds_waiting"]
        waiting = f"{event['seconds_waiting'] / spent:.0%}" if spent > 0 else ""
        row = self._epoch(event) if self.columns is ONLINE_COLUMNS else self._certified(event)
        row = (*row, waiting, clock(self._left(event)))
        self.rows.append(row)
        if self.live is not None:
            self.live.update(self._table())
        elif self._due(event["outer"]):
            print(self._plain(row), file=self.stream, flush=True)

    def _certified(self, event: dict) -> tuple:
        certified = event["rel_gap"] is not None or (event["dual_estimate"] is None and event["primal"] is not None)
        primal = event["primal"] if certified else event["primal_estimate"]
        dual = event["dual"] if certified else event["dual_estimate"]
        gap = event["rel_gap"] if certified else event["gap_estimate"]
        mark = "" if certified else "~"
        if gap is not None and gap > 0:
            self.gaps.append((event["seconds"], gap))
        return (
            str(event["outer"]),
            f"{event['seconds']:.1f}",
            f"{mark}{primal:.6g}",
            "" if dual is None else f"{mark}{dual:.6g}",
            "" if gap is None else f"{mark}{max(gap, 0.0):.1e}",
            "certified" if certified else "",
            "" if event["valid_accuracy"] is None else f"{event['valid_accuracy']:.4f}",
            f"{event['inner_passes'] / max(1, event['blocks']):.1f}",
        )

    def _due(self, outer: int) -> bool:
        # a log of a thousand iterations is read at its beginning and end
        return outer <= 30 or outer % (10 if outer <= 300 else 100) == 0

    def _left(self, event: dict) -> float | None:
        """Seconds until the gap is reached at the pace of the last iterations, or until a limit."""
        limits = []
        seconds, outer = event["seconds"], event["outer"]
        if self.max_seconds is not None:
            limits.append(max(0.0, self.max_seconds - seconds))
        if outer and event["dual_estimate"] is None:
            limits.append(seconds / outer * (self.max_outer - outer))
        if len(self.gaps) >= 3 and self.tol > 0:
            (t0, g0), (t1, g1) = self.gaps[-min(6, len(self.gaps))], self.gaps[-1]
            if g1 <= self.tol:
                limits.append(0.0)
            elif g1 < g0 and t1 > t0:
                limits.append((t1 - t0) * math.log(g1 / self.tol) / math.log(g0 / g1))
        return min(limits) if limits else None

    @staticmethod
    def _plain(row: tuple) -> str:
        widths = (5, 8, 13, 13, 9, 9, 8, 6, 7, 7)
        return " ".join(str(cell).rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

    def _table(self):
        from rich.table import Table
        from rich.text import Text

        table = Table(
            box=None, pad_edge=False, header_style="bold", caption=Text(self.status, "dim"), caption_justify="left"
        )
        for name in self.columns:
            table.add_column(name, justify="right")
        for row in self.rows[-20:]:
            table.add_row(*row, style="green" if row[5] else None)
        return table


def train_summary(result) -> list[str]:
    """The lines that end a training run."""
    ends = {
        "converged": "converged",
        "max-outer": "ended by --max-outer",
        "max-seconds": "ended by --max-seconds",
        "interrupted": "interrupted",
    }
    outer = f"{result.outer} outer iteration{'s' if result.outer != 1 else ''}, {result.seconds:.1f}s"
    certificate = result.certificate
    if certificate is None:
        return [f"{ends[result.status]} after {outer}"]
    lines = []
    if certificate.primal is None:
        lines.append(f"{ends[result.status]} after {outer.replace('outer iteration', 'epoch')}")
    elif certificate.rel_gap is not None:
        lines.append(
            f"{ends[result.status]} after {outer}: certified relative gap {certificate.rel_gap:.2e} "
            f"(primal {certificate.primal:.10g}, dual {certificate.dual:.10g})"
        )
    else:
        lines.append(
            f"{ends[result.status]} after {outer}: primal {certificate.primal:.10g} (no dual: pegasos has none)"
        )
    lines.append(f"accuracy on the training rows {certificate.accuracy:.4f}")
    if result.note:
        lines.append(result.note)
    return lines


class StreamDisplay:
    """Lines at doubling numbers of rows: the loss so far and since the last line, and the row seen last."""

    COLUMNS = ("average", "since", "row", "mistakes", "label", "predicted", "features")
    WIDTHS = (10, 10, 12, 12, 9, 11, 9)

    def __init__(self, stream, quiet: bool):
        self.stream = stream
        self.quiet = quiet
        self.rows = 0
        self.loss = 0.0

    def _print(self, text: str) -> None:
        if not self.quiet:
            print(text, file=self.stream, flush=True)

    def begin(self, inputs: list[str], settings, stream) -> None:
        """What will be done, and the memory it may take."""
        names = ", ".join("standard input" if name == "-" else name for name in inputs[:3])
        told = ", ".join(f"{name} {value}" for name, value in stream.machine.settings.items() if value is not None)
        place = (
            "a table of ids that grows" if settings.bits is None else f"ids hashed to {1 << settings.bits:,} features"
        )
        plan = ", ".join(f"{name} {megabytes(n)}" for name, n in stream.plan().items())
        self._print(
            f"{names}{', ...' if len(inputs) > 3 else ''}: {settings.learner}{f' ({told})' if told else ''}; {place}"
        )
        self._print(f"memory at most {megabytes(settings.memory)}: {plan}")
        self._print(self._line(self.COLUMNS))

    def _line(self, cells: tuple) -> str:
        return " ".join(str(cell).rjust(width) for cell, width in zip(cells, self.WIDTHS, strict=True))

    def show(self, report) -> None:
        rows = report.rows - self.rows
        since = (report.cumulative_loss - self.loss) / rows if rows else 0.0
        self.rows, self.loss = report.rows, report.cumulative_loss
        self._print(
            self._line((
                f"{report.cumulative_loss / max(1, report.rows):.6f}", f"{since:.6f}", f"{report.rows:,}",
                f"{report.mistakes:,}", label(report.label), f"{report.score:.4g}", f"{report.length:,}",
            ))
        )  # fmt: skip

    def fault(self, sentence: str) -> None:
        self._print(f"skipped: {sentence}")

    def summary(self, stream) -> list[str]:
        """The lines that end a stream."""
        told = stream.report()
        seconds = max(1e-9, told.seconds)
        pace = f"{told.rows / seconds:,.0f} rows/s, {stream.nonzeros / 1e6 / seconds:.1f} M nonzeros/s"
        loss = f"average loss {told.cumulative_loss / told.rows:.6f}, mistakes {told.mistakes / told.rows:.4%}"
        lines = [f"{told.rows:,} rows in {told.seconds:.1f}s ({pace}), {told.features:,} features; {loss}"]
        if stream.settings.query is not None:
            lines.append(f"labels asked for: {told.asked:,} ({told.asked / told.rows:.2%})")
        if told.skipped:
            lines.append(f"lines skipped: {told.skipped:,}")
        if stream.unlabelled:
            lines.append(f"rows without a label: {stream.unlabelled:,} (not learned from)")
        return lines

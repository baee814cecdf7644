"""The display of a split: rows and megabytes a second, the time left, the summary."""

from __future__ import annotations

import time
from pathlib import Path

from blocksvm.cli.display.line import Line
from blocksvm.cli.display.number_texts import clock, labels_line, megabytes, rows


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
        names = inputs[0] if len(inputs) == 1 else f"{len(inputs)} inputs" if inputs else "no new text"
        names = "standard input" if names == "-" else names
        print(
            f"splitting {names}: up to {megabytes(settings.memory)} of memory, {parsers(settings.processes)}"
            f"{settings.n_jobs} thread{'s' if settings.n_jobs > 1 else ''}",
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


def parsers(processes: int | None) -> str:
    """The processes that parse, where there are others than this one."""
    if processes is None:
        return ""
    return f"{'all' if processes < 0 else processes} process{'' if processes == 1 else 'es'}, "


def split_summary(path: Path, meta: dict, seconds: float) -> str:
    """The lines that end a split."""
    stored = path.stat().st_size
    text = sum(source["text_bytes"] for source in meta["sources"])
    nnz, n = meta["n_nonzeros"], meta["n_samples"]
    lines = [
        f"{path}: {rows(n)}, {meta['n_features']:,} features, {nnz:,} nonzeros"
        f"{' (all values are 1)' if meta['values'] == 'ones' else ''}",
        f"labels: {labels_line(meta)}",
        *(f"note: {note}" for note in meta.get("notes", [])),
        f"{megabytes(stored)} in {meta['n_chunks']:,} chunk{'s' if meta['n_chunks'] > 1 else ''}: "
        f"{stored / max(1, nnz):.2f} bytes a nonzero, {stored / max(1, text):.0%} of the text's {megabytes(text)}",
    ]
    spent = clock(seconds) if seconds >= 10 else f"{seconds:.1f}s"
    if meta.get("history"):
        before = meta["history"][-1]
        added = n - before["n_samples"] + before["n_dropped"]
        lines.append(f"{spent}: {rows(added)} added, {rows(before['n_dropped'])} of {before['n_samples']:,} left out")
    else:
        lines.append(f"{spent}: {n / seconds:,.0f} rows/s, {text / 1e6 / seconds:,.0f} MB/s of text")
    lines += [f"note: {sentence}" for sentence in repeated(meta["sources"])]
    return "\n".join(lines)


def repeated(sources: list[dict]) -> list[str]:
    """Sentences on inputs of the same bytes that were read more than once in a store's life."""
    by_fingerprint: dict[str, list[str]] = {}
    for source in sources:
        if source["text_bytes"]:
            by_fingerprint.setdefault(source["fingerprint"], []).append(source["name"])
    return [
        f"the content of {', '.join(dict.fromkeys(names))} was read {len(names)} times, so its rows are there "
        f"{len(names)} times (but those that --drop left out)"
        for names in by_fingerprint.values()
        if len(names) > 1
    ]

"""The display of a split, and its summary."""

import time
from pathlib import Path

from blocksvm.cli.texts import Line, clock, labels_line, megabytes, number_of, rows, sizes
from blocksvm.conversion.feature_counts import factor_notes
from blocksvm.store.descriptions import SourceMeta, StoreMeta


class SplitDisplay:
    """Progress of a split: rows and megabytes a second, time left."""

    def __init__(self, stream):
        self.line = Line(stream)
        self.close = self.line.close
        self.began = time.perf_counter()
        self.phase = ("", 0.0)  # and the seconds when it began

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def show(self, progress) -> None:
        if progress.phase != self.phase[0]:
            self.phase = progress.phase, progress.seconds
        done = left = ""
        if progress.fraction:
            done, spent = f"{progress.fraction:4.0%} ", progress.seconds - self.phase[1]
            left = f", {clock(spent / progress.fraction - spent)} left"
        if progress.phase == "reading":
            speed = rate(progress.rows, progress.text_bytes, progress.seconds)
            self.line.show(f"reading {done}{rows(progress.rows)}, {speed}{left}")
        else:
            self.line.show(f"writing {done}{left.lstrip(', ')}")


def rate(n_rows: int, text_bytes: int, seconds: float) -> str:
    seconds = max(seconds, 1e-3)
    return f"{n_rows / seconds:,.0f} rows/s, {text_bytes / seconds / 1e6:,.0f} MB/s of text"


def split_summary(path: Path, meta: StoreMeta, seconds: float) -> list[str]:
    stored = path.stat().st_size
    text = sum(source.text_bytes for source in meta.sources)
    nnz, n = meta.n_nonzeros, meta.n_samples
    lines = [
        f"{path}: {sizes(n, meta.n_features, nnz)}{' (all values are 1)' if meta.values == 'ones' else ''}",
        f"labels: {labels_line(meta)}",
        *(f"note: {note}" for note in [*meta.notes, *factor_notes(meta, path)]),
        f"{megabytes(stored)} in {number_of(meta.n_chunks, 'chunk')}: "
        f"{stored / max(1, nnz):.2f} bytes a nonzero, {stored / max(1, text):.0%} of the text's {megabytes(text)}",
    ]
    spent = clock(seconds) if seconds >= 10 else f"{seconds:.1f}s"
    if meta.history:
        before = meta.history[-1].n_samples
        lines.append(f"{spent}: {rows(n - before)} added to {before:,}")
    else:
        lines.append(f"{spent}, {rate(n, text, seconds)}")
    return lines + [f"note: {sentence}" for sentence in repeated(meta.sources)]


def repeated(sources: list[SourceMeta]) -> list[str]:
    """Sentences on inputs of the same bytes that were read more than once in a store's life."""
    by_fingerprint: dict[str, list[str]] = {}
    for source in sources:
        if source.text_bytes:
            by_fingerprint.setdefault(source.fingerprint, []).append(source.name)
    return [
        f"the content of {', '.join(dict.fromkeys(names))} was read {len(names)} times, so its rows are there "
        f"{len(names)} times"
        for names in by_fingerprint.values()
        if len(names) > 1
    ]

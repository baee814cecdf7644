"""The display of a training: a row each outer iteration, and how it ended."""

import math

from blocksvm.cli import texts
from blocksvm.model.events import Losses, RunEvent, optimality
from blocksvm.problems.problem_settings import learns_together

# column -> width: nine of a batch solver, and nine of an online learner, which fit 80 columns
WIDTHS = {
    "outer": 5, "epoch": 5, "seconds": 7, "primal": 12, "dual": 12, "gap": 8, "rows": 11, "loss": 10, "mistakes": 9,
    "rmse": 9, "cost": 10, "held-out": 8, "asked": 6, "set": 6, "read": 7, "left": 6,
}  # fmt: skip
MEANWHILE = {"visit": "outer iteration {outer}: block {visit} of {blocks}",
             "certifying": "reading all rows once more, for the certificate"}  # fmt: skip


class TrainDisplay:
    """The table of a run: estimates ("~"), certified figures, the time left.  Columns that have nothing to say at the
    first iteration are left out."""

    def __init__(self, stream):
        self.stream = stream
        self.line = texts.Line(stream, every=math.inf)  # what is being done, below the rows
        self.close = self.line.close
        self.start: dict = {}
        self.columns: dict[str, int] = {}  # from the first row on
        self.gaps: list[tuple[float, float]] = []
        self.ends: list[float] = []  # when the gap will be reached, as foreseen at the last outer iterations
        self.first: tuple[int, float] | None = None  # the first outer iteration, and when it ended
        self.bytes_read = 0
        self.before = dict.fromkeys(Losses.__annotations__, 0)

    def show(self, event: dict) -> None:
        kind = event["event"]
        if kind in ("start", "resume"):
            self._start(event)
        elif kind in MEANWHILE:
            self.line.show(MEANWHILE[kind].format(**event))
        elif kind == "outer":
            self._outer(event)

    def _start(self, event: dict) -> None:
        self.start = event
        plan, total = event["memory_plan"], texts.megabytes(event["memory"])
        parts = ", ".join(f"{name} {texts.megabytes(n)}" for name, n in plan.items() if n >= 50_000)
        if event["learner_settings"] is not None:
            method = texts.described(event["solver"], event["learner_settings"])
        else:
            weight = f"lambda {event['lam']:g}" if event["lam"] else f"C {event['C']:g}"
            what = f"{event['loss']} loss" if "loss" in event else f"{event['kernel']} kernel"
            method = f"{event['solver']}, {what}, {weight}, to a relative gap of {event['tol']:g}; "
            method += f"schedule {event['schedule']}"
            if event["n_vectors"] > 1:
                rule = " together" if learns_together(event.get("multiclass")) else ", each against the others"
                method += f"; {event['n_vectors']} classes{rule}"
        where = f"{event['blocks']} blocks, one in memory while the next is read"
        if event["resident"]:
            where = "all rows stay in memory"
        elif event["under_way"]:
            where = f"{event['blocks']} parts, screened by workers, {event['under_way']} at once"
        lines = [
            f"{event['store']}: {texts.sizes(event['n_samples'], event['n_features'], event['n_nonzeros'])}",
            f"{method}, seed {event['seed']}",
            f"memory {texts.megabytes(sum(plan.values()))} of {total}: {parts}",
            where,
        ]
        if event["event"] == "resume":
            lines.append(f"resuming at outer iteration {event['outer']}")
        print(texts.wrap_text("\n".join(lines), self.stream), file=self.stream)

    def _outer(self, event: dict) -> None:
        row = self._iteration(event) if self.start["learner_settings"] is None else self._epoch(event)
        row["seconds"] = texts.fitted(event["seconds"], 7, decimals=1)
        if event["valid_accuracy"] is not None:
            row["held-out"] = f"{event['valid_accuracy']:.4f}"
        elif event["valid_rmse"] is not None:
            row["held-out"] = f"{event['valid_rmse']:.5g}"
        row["left"] = texts.clock(self._left(event))
        if not self.columns:
            self.columns = {name: width for name, width in WIDTHS.items() if row.get(name) or name == "left"}
            self._print({name: name for name in self.columns})
        self._print(row)

    def _epoch(self, event: dict) -> dict[str, str]:
        """An online learner's epoch: what it suffered in it, row by row, before it learned from each."""
        before, self.before = self.before, {name: event.get(name) or 0 for name in self.before}
        done = {name: self.before[name] - value for name, value in before.items()}
        rows = max(1, done["rows"])
        row = {"epoch": str(event["outer"]), "rows": texts.counted(done["rows"], WIDTHS["rows"])}
        row["loss"] = texts.fitted(done["cumulative_loss"] / rows, WIDTHS["loss"])
        if event["mistakes"] is not None:
            row["mistakes"] = f"{done['mistakes'] / rows:.4%}"
        else:
            row["rmse"] = texts.rmse(done["squared_errors"], rows)
        if event.get("cumulative_cost") is not None:
            row["cost"] = f"{done['cumulative_cost'] / rows:.6f}"
        if self.start["learner_settings"].get("query") is not None:
            row["asked"] = f"{done['asked'] / rows:.0%}"
        return row

    def _iteration(self, event: RunEvent) -> dict[str, str]:
        """A batch solver's outer iteration: certified figures where there are any, else estimates."""
        self.bytes_read += event["bytes_read"]
        certified, (gap, primal, dual) = optimality(event)
        mark = "" if certified else "~"
        if gap is not None and gap > 0:
            self.gaps.append((event["seconds"], gap))
        return {
            "outer": str(event["outer"]),
            "primal": f"{mark}{primal:.6g}",
            "dual": "" if dual is None else f"{mark}{dual:.6g}",
            "gap": "" if gap is None else f"{mark}{max(gap, 0.0):.1e}",
            "set": "" if event["set_rows"] is None else f"{event['set_rows'] / self.start['n_samples']:.1%}",
            "read": texts.megabytes(self.bytes_read),
        }

    def _left(self, event: dict) -> float | None:
        """Seconds until the gap is reached at the pace of the last iterations, or until a limit; None where that is not
        known, or where the last iterations do not agree upon it."""
        limits: list[float] = []
        seconds, outer, tol = event["seconds"], event["outer"], self.start["tol"]
        if self.start["max_seconds"] is not None:
            limits.append(max(0.0, self.start["max_seconds"] - seconds))
        self.first = self.first or (outer, seconds)
        if outer > self.first[0] and event["dual_estimate"] is None:
            limits.append((seconds - self.first[1]) / (outer - self.first[0]) * (self.start["max_outer"] - outer))
        if len(self.gaps) >= 3 and tol > 0:
            (t0, g0), (t1, g1) = self.gaps[-min(6, len(self.gaps))], self.gaps[-1]
            left = (t1 - t0) * math.log(g1 / tol) / math.log(g0 / g1) if tol < g1 < g0 else math.inf
            self.ends = [*self.ends[-2:], seconds + (left if g1 > tol else 0.0)]
            told = [end - seconds for end in self.ends]
            if len(told) == 3 and max(told) <= 2.0 * min(told) or g1 <= tol:
                limits.append(told[-1])
        return min(limits) if limits else None

    def _print(self, row: dict[str, str]) -> None:
        self.line.close()
        print(texts.table_line(row, self.columns).rstrip(), file=self.stream, flush=True)


def train_summary(result) -> list[str]:
    ended = result.status if result.status in ("converged", "interrupted") else f"ended by --{result.status}"
    ended = ended.replace("--rounding", "the rounding of double precision")
    end = f"{ended} after {texts.number_of(result.outer, 'outer iteration')}, {result.seconds:.1f}s"
    certificate = result.certificate
    if certificate is None:
        return [end]
    if certificate.primal is None:
        lines = [end.replace("outer iteration", "epoch")]
    elif certificate.rel_gap is not None:
        figures = f"primal {certificate.primal:.10g}, dual {certificate.dual:.10g}"
        lines = [f"{end}: certified relative gap {certificate.rel_gap:.2e} ({figures})"]
    else:
        lines = [f"{end}: primal {certificate.primal:.10g} (no dual: this method has none)"]
    if certificate.accuracy is not None:
        lines.append(f"accuracy on the training rows {certificate.accuracy:.4f}")
    elif certificate.rmse is not None:
        lines.append(f"root mean squared error on the training rows {certificate.rmse:.6g}")
    if result.outer_of_weights is not None:
        lines.append(f"the weights are those of outer iteration {result.outer_of_weights}, whose primal is the least "
                     "that was certified")  # fmt: skip
    if result.note:
        lines.append(result.note)
    return [result.advice, *lines] if result.advice else lines

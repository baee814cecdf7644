"""The maximum margin of a store's rows, certified from both sides, with figures of its plane.

Hard margin (Cristianini, Shawe-Taylor 2000, chapter 6).  For any w that separates the rows, with the b that is best for
it, the plane's margin is a lower bound of the largest one:

    gamma >= (min over y = 1 of <w, x> - max over y = -1 of <w, x>) / (2 ||w||),     b = -(that min + that max) / 2

and any dual variables a >= 0 with sum a y = 0 give two points of the classes' convex hulls, whose distance bounds it
from above (without a bias the same holds of one hull and the origin, for any a >= 0, and b = 0):

    gamma <= ||sum a y x|| / sum a

The two meet at the optimum, where gamma = 1 / ||w*|| = (sum a*)^(-1/2) for w* = w scaled so that its least margin is 1.
The dual variables are those of soft margins with a growing C: once no row is at the bound C, C plays no part any more.
Where the upper bound falls below the least margin to search for, the search ends.
"""

import gc
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from blocksvm.api.fit import Fitted, fit
from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import label_text
from blocksvm.base.memory import TooLittleMemory
from blocksvm.files.output import TemporaryFolder
from blocksvm.kernels.columns import add_rows, decision_values, sum_of_squares
from blocksvm.problems.problem import require_two_labels
from blocksvm.sources.block import Arena, Block
from blocksvm.sources.source import Source, first_chunk, largest_chunk_bytes
from blocksvm.theory.rounds_kernels import row_digests
from blocksvm.theory.settings import MARGIN_SETTINGS
from blocksvm.training.run_settings import FREE

GROWTH = 10.0  # of C from one soft margin to the next
FIRST_TOL, LAST_TOL = 1e-2, 1e-9  # relative gaps to which they are trained
LARGEST_COST = 1e12  # of C times the mean squared norm: beyond, double precision ends the search
BINS = np.linspace(-3.0, 6.0, 181)  # of the margins' distribution, in units of the margin; what lies beyond is counted
SHOWN = 20  # support vectors in a report
NOTHING = 1e-9  # of the largest norm: an upper bound so small is rounding
AT_BOUND = 1e-9  # relative: an a so near to C is at it
SUPPORT = 1e-10  # of the largest a: what is smaller supports nothing
MOST_SHOWN = 5  # contradictions in a report
MOST_COMPARED = 50  # pairs of rows with equal digests
MOST_WRONG = 1_000_000  # rows on the wrong side whose doubles are looked for


class Look:
    """Figures of a plane and its dual variables over all rows.

    lower, upper: bounds of the margin (lower below 0: some row lies on the wrong side); bias: b; norm: ||w||; scale: by
    which w and a are multiplied so that the least margin is 1 (of a soft margin 1); sum_alpha, sum_alpha_slack: sum a
    and sum a (1 - xi), after scaling; at_zero, free, at_bound: rows; errors: rows on the wrong side; stationarity:
    ||w - sum a y x|| / ||w||; imbalance: |sum a y| / sum a; slackness: max |a (m - 1 + xi)|, bound_slackness: max
    |(C - a) xi|; infeasibility: max (-a, a - C, 0); primal_infeasibility: max (1 - m - xi, 0), where for a hard margin
    xi = 0.
    """

    def __init__(self, lower: float, upper: float, bias: float, norm: float, scale: float, sum_alpha: float):
        self.lower, self.upper, self.bias, self.norm, self.scale = lower, upper, bias, norm, scale
        self.sum_alpha, self.sum_alpha_slack = sum_alpha, 0.0
        self.at_zero = self.free = self.at_bound = self.errors = 0
        self.stationarity = self.imbalance = self.slackness = self.bound_slackness = 0.0
        self.infeasibility = self.primal_infeasibility = 0.0


@dataclass(frozen=True)
class SupportVector:
    """A row with a > 0: where it came from, its label, a and its margin y (<w, x> + b)."""

    origin: str
    label: object
    alpha: float
    margin: float


@dataclass(frozen=True)
class Contradiction:
    """Two rows with the same features and values: where each came from, and its label."""

    first: str
    first_label: object
    second: str
    second_label: object


@dataclass
class MarginReport:
    """hard: it is about separating planes, else about the soft margin at C; separable: every row lies on its side
    of the plane (False: no plane separates them; None: none with a margin above the upper bound does);
    contradictions: rows that are the same but for their label; radius: the largest norm of a row, with its constant
    feature; histogram: rows by class (2, 180) in ``BINS``, below and above them: outside (2, 2); perceptron:
    mistakes, epochs and Novikoff's bound of the mistakes, or None; settled: the bounds of a hard margin are within
    ``tol`` of each other; status: how the last training ended."""

    hard: bool
    separable: bool | None
    settled: bool
    look: Look
    C: float
    readings: int
    seconds: float
    radius: float
    bias: str | float
    support: list[SupportVector]
    histogram: np.ndarray
    outside: np.ndarray
    contradictions: list[Contradiction] = field(default_factory=list)
    perceptron: dict | None = None
    status: str = "converged"

    @property
    def limited(self) -> bool:
        """A limit, or rounding, has ended it before an answer."""
        open_still = not self.settled and not (self.hard and self.separable is False)
        return self.status not in ("converged", "interrupted") and open_still

    def described(self) -> dict:
        look = {name: value if math.isfinite(value) else None for name, value in vars(self.look).items()}
        plain = {name: value for name, value in vars(self).items() if name not in ("look", "histogram", "outside")}
        return plain | {
            "look": look, "gamma": self.gamma if math.isfinite(self.gamma) else None,
            "support": [asdict(one) for one in self.support],
            "contradictions": [asdict(one) for one in self.contradictions],
            "histogram": {"edges": BINS.tolist(), "rows": self.histogram.tolist(), "outside": self.outside.tolist()},
        }  # fmt: skip

    @property
    def gamma(self) -> float:
        """The margin; of a hard one the lower bound, that of the plane."""
        return self.look.lower if self.hard else 1.0 / self.look.norm if self.look.norm else math.inf


class Plane:
    """A trained plane and its dual variables, with figures that are computed chunk by chunk.

    radius: the largest norm of a row, with a regularised constant feature; constant: its value, 0 beside a free bias;
    offset: b of a free bias, else 0; factors: by which the dual variables with y = -1 and y = 1 are multiplied, so that
    sum a y = 0.
    """

    def __init__(self, source: Source, fitted: Fitted):
        self.source = source
        solver = fitted.plan.solver
        self.free_bias = solver.problem.free_bias
        self.w, self.alpha, self.cost = fitted.result.w, fitted.alpha, solver.problem.cost[0]
        self.factors = np.array(fitted.certificate.alpha_factors or (1.0, 1.0))
        self.arena = Arena(largest_chunk_bytes(source))
        self.constant, self.offset = solver.bias, 0.0
        if self.free_bias:
            self.constant, self.offset = 0.0, solver.bias * float(self.w[-1])
        self.norm = math.sqrt(sum_of_squares(self.w[:-1] if self.free_bias else self.w))
        self.radius = math.hypot(source.max_norm, self.constant)

    @staticmethod
    def n_bytes(source: Source) -> int:
        """Memory for the figures of one: two sums of rows, and a chunk."""
        return 16 * (source.n_features + 1) + largest_chunk_bytes(source)

    def chunks(self):
        """(chunk, block, side (n,) 0 or 1, <w, x> with a regularised bias, a, C) of each."""
        for chunk in range(len(self.source.chunks)):
            block = self.source.read_block(np.array([chunk]), self.arena)
            scores = np.empty(block.n_samples)
            decision_values(block.entries, self.w.reshape(-1, 1), self.constant, scores.reshape(-1, 1))
            side = (block.y > 0).astype(np.int64)
            cost = self.cost[side] * (1.0 if block.weights is None else block.weights)
            yield chunk, block, side, scores, self.alpha[block.rows], cost

    def look(self, hard: bool) -> Look:
        """One reading for the bounds, and another one for the figures that depend on the plane's scale."""
        d = len(self.w)
        hulls, extremes, sums = np.zeros((2, d)), np.array([-np.inf, np.inf]), np.zeros(2)
        for _, block, side, scores, alpha, _ in self.chunks():
            for k in range(2):
                coefficients = np.where(side == k, self.factors[k] * alpha, 0.0)
                add_rows(block.entries, coefficients.reshape(-1, 1), self.constant, hulls[k].reshape(-1, 1))
                sums[k] += coefficients.sum()
            extremes[0] = max(extremes[0], scores[side == 0].max(initial=-np.inf))
            extremes[1] = min(extremes[1], scores[side == 1].min(initial=np.inf))
        combination, total = hulls[1] - hulls[0], float(sums.sum())
        upper = math.sqrt(sum_of_squares(combination)) / total if total else math.inf
        if self.free_bias:
            half, bias = (extremes[1] - extremes[0]) / 2.0, -(extremes[0] + extremes[1]) / 2.0
        else:
            half, bias = min(extremes[1], -extremes[0]), 0.0
        lower = float(half) / self.norm if self.norm else -math.inf
        bias = bias if hard else self.offset
        scale = 1.0 / float(half) if hard and half > 0.0 else 1.0
        w = self.w[:-1] if self.free_bias else self.w
        apart = math.sqrt(sum_of_squares(w - combination[: len(w)]))
        look = Look(lower, upper, float(bias), self.norm, scale, scale * total)
        if self.norm:
            look.stationarity = apart / self.norm
        if total:
            look.imbalance = abs(float(sums[1] - sums[0])) / total
        largest = float(self.alpha.max(initial=0.0))
        for _, _, side, scores, alpha, cost in self.chunks():
            margins = self.margins(scores, side, look)
            slack = np.zeros(len(margins)) if hard and half > 0.0 else np.maximum(0.0, 1.0 - margins)
            repaired = self.factors[side] * alpha
            scaled = scale * repaired
            look.sum_alpha_slack += float((scaled * (1.0 - slack)).sum())
            at_zero, at_bound = alpha <= SUPPORT * largest, alpha >= cost * (1.0 - AT_BOUND)
            look.at_zero += int((at_zero & ~at_bound).sum())
            look.at_bound += int(at_bound.sum())
            look.errors += int((margins <= 0.0).sum())
            look.slackness = max(look.slackness, float(np.abs(scaled * (margins - 1.0 + slack)).max(initial=0.0)))
            if not hard:
                over = float(np.abs((scale * cost - scaled) * slack).max(initial=0.0))
                look.bound_slackness = max(look.bound_slackness, over)
            look.infeasibility = max(look.infeasibility, float(np.maximum(-repaired, repaired - cost).max(initial=0.0)))
            beyond = float((1.0 - margins - slack).max(initial=0.0))
            look.primal_infeasibility = max(look.primal_infeasibility, beyond)
        look.free = self.source.n_samples - look.at_zero - look.at_bound
        return look

    def margins(self, scores: np.ndarray, side: np.ndarray, look: Look) -> np.ndarray:
        """y (<w, x> + b), scaled."""
        return look.scale * np.where(side > 0, 1.0, -1.0) * (scores + look.bias)

    def survey(self, look: Look, listed: Callable[[SupportVector], None] | None) -> tuple:
        """(support vectors of the largest a, histogram of margins, rows outside of it); listed gets all, as stored."""
        best: list[SupportVector] = []
        histogram, outside = np.zeros((2, len(BINS) - 1), np.int64), np.zeros((2, 2), np.int64)
        largest = float(self.alpha.max(initial=0.0))
        labels = self.source.labels.values
        for chunk, _, side, scores, alpha, _ in self.chunks():
            margins = self.margins(scores, side, look)
            for k in range(2):
                class_margins = margins[side == k]
                histogram[k] += np.histogram(class_margins, BINS)[0]
                outside[k] += (class_margins < BINS[0]).sum(), (class_margins > BINS[-1]).sum()
            supports = np.flatnonzero(alpha > SUPPORT * largest)
            if not len(supports):
                continue
            if listed is None:
                supports = supports[np.argsort(-alpha[supports], kind="stable")[:SHOWN]]
            origins = self.source.origins(chunk, supports)
            for row, origin in zip(supports.tolist(), origins, strict=True):
                k = int(side[row])
                a = look.scale * float(self.factors[k] * alpha[row])
                one = SupportVector(origin, labels[k], a, float(margins[row]))
                if listed is not None:
                    listed(one)
                best.append(one)
            best = sorted(best, key=lambda one: -one.alpha)[:SHOWN]  # of equal ones the first
        return best, histogram, outside


def maximum_margin(source: Source, *, on_event: Callable[[dict], None] = lambda event: None,
                   stop: Callable[[], bool] = lambda: False,
                   on_support_vector: Callable[[SupportVector], None] | None = None,
                   temp: str | Path | None = None, **settings) -> MarginReport | None:  # fmt: skip
    """The plane of the largest margin between the two classes of a source, or (C given) of the soft margin at C; None
    where it was stopped.

    settings: C, bias, tol, least_margin, epochs, memory, seed, max_outer, max_seconds (``MARGIN_SETTINGS`` says what
    each is); on_event gets the events of every training, and one named "bounds" after each; on_support_vector gets
    every support vector, in the stored order; temp: the folder for models that later ones begin from.  Raises
    InputError where the rows have not two labels, or settings do not fit.
    """
    resolved = MARGIN_SETTINGS.resolve(settings, "margin")
    require_two_labels(source)
    hard = resolved["C"] is None
    if hard and source.weighted:
        what = "its rows have weights, which a hard margin does not know"
        raise InputError(f"{source.name}: {what}; give {option('C', 1)} for a soft one")
    began = time.perf_counter()
    search = _Search(source, resolved, began, on_event, stop)
    with TemporaryFolder(temp) as folder:
        result = search.plane(folder / "model.h5")
    if result is None:
        return None
    plane, look, settled = result
    support, histogram, outside = plane.survey(look, on_support_vector)
    same = [] if look.lower > 0.0 else contradictions(source, plane)
    hopeless = bool(same) or look.upper <= NOTHING * plane.radius
    perceptron, radius = None, plane.radius
    del result, plane  # before the memory is used again
    if resolved["epochs"] and source.max_norm > 0.0:
        perceptron = search.perceptron(look)
        if perceptron is None:
            return None
    return MarginReport(
        hard, True if look.lower > 0.0 else False if hopeless else None, settled, look, search.C, search.readings,
        time.perf_counter() - began, radius, resolved["bias"], support, histogram, outside, same, perceptron,
        search.status,
    )  # fmt: skip


class _Search:
    """Soft margins one after the other, each begun from the one before."""

    def __init__(self, source: Source, settings: dict, began: float, on_event, stop):
        """settings: ``MARGIN_SETTINGS``, resolved."""
        self.source, self.settings, self.on_event, self.stop = source, settings, on_event, stop
        self.beside, self.ends = Plane.n_bytes(source), began + settings["max_seconds"]
        self.C, self.readings, self.status = math.nan, 0, ""

    def fit_beside(self, **settings) -> Fitted:
        """Train in the memory that the figures of the plane leave."""
        memory, seed = self.settings["memory"], self.settings["seed"]
        gc.collect()  # the training before, whose parts refer to each other
        try:
            return fit(self.source, seed=seed, memory=max(1, memory - self.beside), stop=self.stop, **settings)
        except TooLittleMemory as error:
            raise TooLittleMemory(memory, error.needs | {"looking at the plane": self.beside}) from None

    def plane(self, model: Path):
        """(plane, look, whether the gap was reached), or None where stopped: of the soft margin at C, or of a hard one,
        until its bounds meet, or the upper one is below the least margin, or a limit is reached."""
        tol, least, soft = self.settings["tol"], self.settings["least_margin"], self.settings["C"]
        C, to, previous, best = soft, tol, None, math.inf
        if not soft:
            typical = float(first_chunk(self.source).sq_norms.mean()) or 1.0
            C, to = GROWTH / typical, FIRST_TOL
        while True:
            fitted = plane = None  # before the memory is used again
            fitted = self.fit_beside(
                C=C, loss="hinge", bias=self.settings["bias"], tol=to, schedule="1", start_from=previous,
                max_outer=self.settings["max_outer"], max_seconds=max(self.ends - time.perf_counter(), 1e-3),
                on_event=self.on_event,
            )  # fmt: skip
            self.C, self.readings, self.status = C, self.readings + fitted.result.outer, fitted.status
            if self.status == "interrupted":
                return None
            plane = Plane(self.source, fitted)
            look = plane.look(hard=not soft)
            if soft:
                return plane, look, fitted.status == "converged"
            self.readings += 2
            best = look.upper = min(best, look.upper)
            self.on_event({"event": "bounds", "C": C, "lower": look.lower, "upper": best, "at_bound": look.at_bound})
            settled = look.lower >= (1.0 - tol) * best
            over = fitted.status in ("rounding", "max-outer", "max-seconds")
            over = over or C * typical > LARGEST_COST or to < LAST_TOL
            if settled or best < least * plane.radius or over:
                return plane, look, settled
            if look.at_bound:
                C *= GROWTH
            else:
                to /= GROWTH
            fitted.save(model, overwrite=True)
            previous = model

    def perceptron(self, look: Look) -> dict | None:
        """Its mistakes until an epoch without any, and their bound for separable rows (Novikoff 1962; with a bias
        Cristianini, Shawe-Taylor 2000, Theorem 2.3)."""
        free, R = self.settings["bias"] == FREE, self.source.max_norm
        name, options = ("perceptron-bias", {"max_norm": R}) if free else ("perceptron", {})
        epochs: list[dict] = []

        def note(event: dict) -> None:
            if event["event"] == "outer":
                epochs.append(event)
            self.on_event(event)

        bias = 0.0 if free else self.settings["bias"]
        fitted = self.fit_beside(learner=name, bias=bias, max_outer=self.settings["epochs"], on_event=note, **options)
        if fitted.status == "interrupted":
            return None
        largest = 2.0 * R if free else math.hypot(R, self.settings["bias"])
        bound = (largest / look.lower) ** 2 if look.lower > 0.0 else None
        return {"learner": name, "mistakes": epochs[-1]["mistakes"], "epochs": len(epochs),
                "separated": fitted.status == "converged", "bound": bound}  # fmt: skip


def contradictions(source: Source, plane) -> list[Contradiction]:
    """Up to ``MOST_SHOWN`` pairs of rows with equal features and other labels, in three readings: for digests of the
    rows with a margin of at most 0, which one of each pair has under any plane; for those of them that rows of both
    classes have; and to compare some of these rows."""
    wanted = np.empty(0, np.uint64)
    for _, block, side, scores, _, _ in plane.chunks():
        wrong = np.where(side > 0, 1.0, -1.0) * (scores + plane.offset) <= 0.0
        wanted = np.union1d(wanted, digests_of(block)[wrong])
        if len(wanted) > MOST_WRONG:
            break
    digests_of_class = [np.empty(0, np.uint64), np.empty(0, np.uint64)]
    for _, block, side, _, _, _ in plane.chunks():
        digests = digests_of(block)
        # by sorting: a table of 64-bit numbers overflows in numpy 2.0
        known = np.isin(digests, wanted, kind="sort")
        for k in range(2):
            digests_of_class[k] = np.union1d(digests_of_class[k], digests[known & (side == k)])
    both = np.intersect1d(*digests_of_class)[:MOST_COMPARED]
    rows: list[dict[int, tuple]] = [{}, {}]  # of each class, by their digests, the first
    for chunk, block, side, _, _, _ in plane.chunks() if len(both) else ():
        digests = digests_of(block)
        for row in np.flatnonzero(np.isin(digests, both, kind="sort")).tolist():
            rows[int(side[row])].setdefault(int(digests[row]), (chunk, row, content(block, row)))
    negative, positive = source.labels.values
    found = []
    for pair in ([rows[k][digest] for k in range(2)] for digest in both.tolist()):
        if pair[0][2] == pair[1][2]:
            first, second = (source.origins(chunk, np.array([row]))[0] for chunk, row, _ in pair)
            found.append(Contradiction(first, negative, second, positive))
    return found[:MOST_SHOWN]


def digests_of(block: Block) -> np.ndarray:
    out = np.empty(block.n_samples, np.uint64)
    bits = np.empty(0, np.uint64) if block.values is None else block.values.view(f"u{block.values.itemsize}")
    row_digests(block.indptr, block.indices, bits, out)
    return out


def content(block: Block, row: int) -> tuple[bytes, bytes]:
    entries = slice(int(block.indptr[row]), int(block.indptr[row + 1]))
    values = b"" if block.values is None else block.values[entries].tobytes()
    return block.indices[entries].tobytes(), values


def draw(report: MarginReport, labels: tuple, file: IO[bytes]) -> None:
    """Write a PNG: rows by their margin y (<w, x> + b), class by class; the plane at 0, the margin at 1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for label, rows, (below, above), color in zip(labels, report.histogram, report.outside, ("C0", "C1"), strict=True):
        beyond = "".join(f", {n:,} {where}" for n, where in ((below, "further left"), (above, "further right")) if n)
        axes.stairs(rows, BINS, fill=True, alpha=0.5, color=color, label=f"label {label_text(label)}{beyond}")
    axes.axvline(0.0, color="black", linewidth=1, label="the plane")
    axes.axvline(1.0, color="black", linewidth=1, linestyle=":", label="the margin")
    kind = "maximum margin" if report.hard else f"soft margin, C = {report.C:g}"
    if report.hard and not report.separable:
        kind = f"no separating plane (soft margin, C = {report.C:.3g})"
    axes.set(xlabel="margin y (<w, x> + b)", ylabel="rows", title=kind)
    occupied = np.flatnonzero(report.histogram.sum(axis=0))
    if len(occupied):
        axes.set_xlim(min(BINS[occupied[0]], 0.0) - 0.2, max(BINS[occupied[-1] + 1], 1.0) + 0.2)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(file, format="png", dpi=150)

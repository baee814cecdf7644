"""frank-wolfe: the structured support vector machine by block-coordinate Frank-Wolfe, to a certified duality gap.

    primal  1/2 ||w||^2 + C sum_i max_y (rho_i(y) - <w, d_i(y)>),      d_i(y) = features(gold) - features(y)
    dual    sum_i l_i - 1/2 ||w||^2,    w = sum_i w_i,  w_i = C sum_y a_i(y) d_i(y),  l_i = C sum_y a_i(y) rho_i(y)

with each a_i a distribution over outputs.  A step takes the output y that violates most, and moves a_i towards it, and
w_i, l_i towards C d_i(y), C rho_i(y), by the share that raises the dual most,

    share = clip((<w_i - C d, w> - l_i + C rho) / ||w_i - C d||^2, 0, 1)

(Lacoste-Julien, Jaggi, Schmidt, Pletscher, ICML 2013, Algorithm 3, where lambda = 1 / (C n)).  The numerator is the
example's part of primal - dual.

The last w is a poor model for long where C is large: its primal rises and falls.  The mean of the w after steps t = 1,
2, ..., weighted by t, is far better then (the same paper, sec. 3, equation below Algorithm 4), but behind the last one
near the optimum.  Both are certified against the dual of the last, and the model is the one of the smaller primal.

What grows with the data is in memory block by block.  A step needs the sparse row w_i, which is large (CoNLL-2000:
52 MB for 8,936 sentences after 20 epochs, compressed 12); the outputs with a_i(y) > 0 are few and short (8 an example,
2.6 MB in all, compressed 1).  Of examples that are not in memory the active outputs are stored (``active.py``), as in
the caches of Osokin et al. (ICML 2016) and Shah, Kolmogorov, Lampert (CVPR 2015).  The rows of a block are made from
them when it is visited, which pays off over ``inner_passes`` passes.  The certificate is of these a_i: one reading adds
up w and sum_i l_i, another one decodes every example at that w, and at the end a third one at the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.memory import Budget
from blocksvm.kernels.sparse_rows import add_to
from blocksvm.store.chunks import Chunks
from blocksvm.structured import active
from blocksvm.structured.example_blocks import ExampleBlock, ExampleBlocks
from blocksvm.structured.output_structure import Row, Structure, combination
from blocksvm.structured.structured_learner import EXAMPLES, Machine, Report, StructuredLearner, key_of, order_of, score
from blocksvm.structured.structured_settings import FRANK_WOLFE as SETTINGS

ROW_OVERHEAD = 500  # bytes of a row's two arrays, its object and the example's dict, beside the entries
DIRECTIONS = "the examples' parts of the weights"
DUAL = "the dual variables"
DUAL_SHARE = 4  # the memory over this: active outputs up to so many bytes stay in it
ACTIVE, ROWS = "active", "rows"  # kinds of chunks of the state
SAMPLE = 16  # examples by which the bytes of rows are estimated
SPARE = 1.1  # blocks are sized for rows so much larger than those of the epoch before


@dataclass
class Loaded:
    """The state of a visited block's examples: their active outputs, w_i, and l_i (n,) float64."""

    chunks: np.ndarray
    bounds: np.ndarray
    active: list[active.Active]
    rows: list[Row]
    lower: np.ndarray
    n_bytes: int


def bytes_of(row: Row, duals: active.Active) -> int:
    return ROW_OVERHEAD + row.n_bytes + len(duals) * active.OVERHEAD + sum(map(len, duals))


class FrankWolfe(Machine):
    def __init__(self, blocks: ExampleBlocks, settings: dict, run: dict, budget: Budget):
        self.blocks = blocks
        self.C, self.tol, self.inner_passes = settings["C"], settings["tol"], settings["inner_passes"]
        self.seed = run["seed"]
        self.budget = budget
        budget.reserve("weights", 8 * blocks.n_weights)
        budget.reserve("their mean", 8 * blocks.n_weights)
        self.w = np.zeros(blocks.n_weights)
        self.late = np.zeros(blocks.n_weights)  # sum over steps t of t (t - 1) / 2 times the change of w
        self.steps = 0
        self.left = budget.left
        self.dual = Chunks(blocks.folder, "active", self.left // DUAL_SHARE)
        self.loaded: Loaded | None = None  # between visits: where one block has all examples
        self.saved_rows: dict[int, dict[str, np.ndarray]] = {}  # rows of an interrupted run, by chunk
        self.certified: dict | None = None
        self.model: np.ndarray | None = None  # the weights of the smaller primal, at the end
        self.peak = 0.0  # bytes an example, most of all blocks of this epoch
        self.row_bytes = self._foreseen()

    def _foreseen(self) -> int:
        """Bytes per example, by the first steps of some."""
        block = self.blocks.block(np.zeros(1, np.int64))
        sizes = []
        for i in block.examples[:SAMPLE]:
            row = block.structure.difference(i, block.structure.most_violating(self.w, i))
            sizes.append(ROW_OVERHEAD + row.n_bytes + active.OVERHEAD)
        return int(SPARE * np.mean(sizes)) + 1

    # -------------------------------------------------------------------------------------------- blocks and memory

    @property
    def capacity(self):
        return self.left - (self.dual.held_bytes if self.dual.memory is None else self.dual.memory)

    def costs(self, blocks):
        return blocks.sizes + blocks.counts * self.row_bytes

    def _row_capacity(self, block: ExampleBlock) -> int:
        return self.capacity - block.n_bytes

    def _require(self, block: ExampleBlock, n_bytes: int) -> None:
        """InputError, with the whole need, where the rows of a chunk do not fit."""
        used = self.budget.used
        used[EXAMPLES], used[DUAL] = block.n_bytes, self.left - self.capacity
        used[DIRECTIONS] = 0
        self.budget.require(DIRECTIONS, n_bytes)

    def _count(self, block: ExampleBlock, n_bytes: int) -> None:
        """Record the largest use of memory."""
        used = {EXAMPLES: block.n_bytes, DUAL: self.dual.held_bytes, DIRECTIONS: n_bytes}
        if sum(used.values()) > sum(self.budget.used.get(name, 0) for name in used):
            self.budget.used |= used

    def _load(self, block: ExampleBlock) -> Loaded:
        """The state of a block's examples, of its first chunks where the rows of all do not fit."""
        loaded = Loaded(block.chunks, block.bounds, [], [], np.zeros(len(block.examples)), 0)
        if len(block.chunks) < len(self.blocks.counts):
            self.saved_rows.clear()  # only a block of all examples uses them
        capacity = self._row_capacity(block)
        for j, chunk in enumerate(block.chunks.tolist()):
            examples = block.examples[block.bounds[j] : block.bounds[j + 1]]
            duals = self._active(chunk)
            arrays = self.saved_rows.pop(chunk, None)
            if arrays is None:
                directions = [
                    active.direction(block.structure, i, a, self.C) for i, a in zip(examples, duals, strict=True)
                ]
                rows, lower = [row for row, _ in directions], [value for _, value in directions]
            else:
                rows, lower = active.unpack_rows(arrays)
            more = sum(map(bytes_of, rows, duals))
            if loaded.n_bytes + more > capacity:
                if j == 0:
                    self._require(block, more)
                loaded.chunks, loaded.bounds = block.chunks[:j], block.bounds[: j + 1]
                break
            loaded.active += duals
            loaded.rows += rows
            loaded.lower[block.bounds[j] : block.bounds[j + 1]] = lower
            loaded.n_bytes += more
        return loaded

    def _active(self, chunk: int) -> list[active.Active]:
        if chunk not in self.dual.sizes:  # not visited yet
            return [{} for _ in range(self.blocks.counts[chunk])]
        return active.unpack(self.dual.get(chunk))

    def _store(self, loaded: Loaded) -> None:
        for j, chunk in enumerate(loaded.chunks.tolist()):
            self.dual.put(chunk, active.pack(loaded.active[loaded.bounds[j] : loaded.bounds[j + 1]]))

    # -------------------------------------------------------------------------------------------- steps

    def visit(self, block, epoch, visit, stop):
        if self.loaded is None or not np.array_equal(self.loaded.chunks, block.chunks):
            self.loaded = None
            self.loaded = self._load(block)
        loaded, self.certified = self.loaded, None
        capacity = self._row_capacity(block)
        n = int(loaded.bounds[-1])
        first = Report()
        peak = 0
        for inner in range(self.inner_passes):
            report = Report()
            for j in order_of(n, self.seed, *key_of(epoch, visit, inner)):
                if stop():
                    return first
                self._step(block.structure, loaded, int(j), int(block.examples[j]), report)
                peak = max(peak, loaded.n_bytes)
                if loaded.n_bytes > capacity:
                    break
            if inner == 0:
                first = report
            if loaded.n_bytes > capacity:  # the others are visited another time, in smaller blocks
                if len(loaded.chunks) == 1:
                    self._require(block, loaded.n_bytes)
                break
        self.peak = max(self.peak, peak / n)
        self._store(loaded)
        self._count(block, peak)
        if len(loaded.chunks) < len(self.blocks.counts):
            self.loaded = None
        return first

    def _step(self, structure: Structure, loaded: Loaded, j: int, i: int, report: Report) -> None:
        self.steps += 1
        output, row, rho, violation = self._decode(structure, i, self.w)
        old, duals = loaded.rows[j], loaded.active[j]
        gap = self.C * violation + score(old, self.w) - loaded.lower[j]
        report.examples += 1
        report.mistakes += bool(violation > rho)
        report.loss += rho
        report.violation += violation
        if gap <= 0.0:
            return
        report.updates += 1
        report.gap += gap
        away = combination(old, 1.0, row, -self.C)
        curvature = away.sq_norm
        share = min(1.0, gap / curvature) if curvature > 0.0 else 1.0
        loaded.n_bytes -= bytes_of(old, duals)
        loaded.rows[j] = combination(old, 1.0 - share, row, share * self.C)
        add_to(away.indices, away.values, -share, self.w)
        add_to(away.indices, away.values, -share * (0.5 * self.steps * (self.steps - 1)), self.late)
        loaded.lower[j] += share * (self.C * rho - loaded.lower[j])
        active.move(duals, share, output)
        loaded.n_bytes += bytes_of(loaded.rows[j], duals)

    def _decode(self, structure: Structure, i: int, w: np.ndarray) -> tuple[np.ndarray | None, Row, float, float]:
        """(output, None where it is as good as the gold one; d; its loss; its score + loss minus the gold score)."""
        output = structure.most_violating(w, i)
        row = structure.difference(i, output)
        rho = structure.loss(i, output)
        violation = rho - score(row, w)
        if violation < 0.0:  # the gold output lies above it by the rounding of sums
            return None, active.NOTHING, 0.0, 0.0
        return output if rho > 0.0 or len(row.indices) else None, row, rho, violation

    # -------------------------------------------------------------------------------------------- certificates

    def end_epoch(self, report):
        # an estimate of the certificate, with the w of each step
        whole = report.examples == self.blocks.n_examples
        if whole and report.gap <= self.tol * (0.5 * float(self.w @ self.w) + self.C * report.violation):
            self.certified = self._certificate()
            self.done = self.certified["rel_gap"] <= self.tol
        self.row_bytes, self.peak = int(SPARE * self.peak) + 1, 0.0

    def _certificate(self) -> dict:
        """Primal, dual and their gap over all examples at w = sum_i w_i, summed again from the active outputs."""
        self.w[:] = 0.0
        lower = 0.0
        for block in self._each():
            block_duals = [duals for chunk in block.chunks for duals in self._active(int(chunk))]
            for j, (i, duals) in enumerate(zip(block.examples, block_duals, strict=True)):
                row, value = active.direction(block.structure, i, duals, self.C)
                add_to(row.indices, row.values, 1.0, self.w)
                lower += value
                if self.loaded is not None:  # without the rounding of the steps
                    self.loaded.rows[j], self.loaded.lower[j] = row, value
        dual = lower - 0.5 * float(self.w @ self.w)
        return self._against(dual, self.w)

    def _against(self, dual: float, w: np.ndarray) -> dict:
        """The certificate of any w against a value of the dual, by a reading of all examples."""
        loss = 0.0
        for block in self._each():
            for i in block.examples:
                loss += self._decode(block.structure, i, w)[3]
        primal = 0.5 * float(w @ w) + self.C * loss
        gap = max(0.0, primal - dual)
        return {"primal": primal, "dual": dual, "rel_gap": float(gap / abs(primal) if primal else gap)}

    def _each(self) -> Iterator[ExampleBlock]:
        """All examples, a chunk at a time, or in the one block that has them."""
        n = len(self.blocks.counts)
        for chunks in [np.arange(n)] if self.loaded is not None else np.arange(n)[:, None]:
            yield self.blocks.block(chunks)

    def weights(self) -> np.ndarray:
        """Of the smaller primal; the run is over then."""
        if self.model is None:
            # in the place of the sum, with the w of the steps: the certificate adds it up again
            self.late *= -2.0 / max(1, self.steps * (self.steps + 1))
            self.late += self.w
            last = self.certified or self._certificate()
            mean = self._against(last["dual"], self.late)
            better = mean["primal"] < last["primal"]
            self.certified, self.model = (mean, self.late) if better else (last, self.w)
            if not np.isfinite(self.model).all():
                raise InputError("the weights have become infinite; lower C, or scale the features")
        return self.model

    def certificate(self) -> dict:
        self.weights()
        return self.certified

    # -------------------------------------------------------------------------------------------- state

    def close(self):
        self.dual.close()

    def arrays(self):
        return {"weights": self.w, "late": self.late}

    def scalars(self):
        return {"row_bytes": self.row_bytes, "peak": self.peak, "done": self.done, "steps": self.steps}

    def restore(self, scalars, arrays):
        self.w[:], self.late[:] = arrays["weights"], arrays["late"]
        self.row_bytes, self.peak, self.done = scalars["row_bytes"], scalars["peak"], scalars["done"]
        self.steps = scalars["steps"]

    def chunks(self):
        for chunk in sorted(self.dual.sizes):
            yield ACTIVE, chunk, self.dual.get(chunk)
        if self.loaded is not None:
            for j, chunk in enumerate(self.loaded.chunks.tolist()):
                part = slice(self.loaded.bounds[j], self.loaded.bounds[j + 1])
                yield ROWS, chunk, active.pack_rows(self.loaded.rows[part], self.loaded.lower[part])

    def restore_chunk(self, kind, chunk, arrays):
        block = self.blocks.block(np.array([chunk]))
        if kind == ACTIVE:
            active.check(arrays, block)
            self.dual.put(chunk, arrays)
        else:
            active.check_rows(arrays, block, len(self.w))
            self.saved_rows[chunk] = arrays


FRANK_WOLFE = StructuredLearner(
    name="frank-wolfe",
    summary="the structured support vector machine, certified: one example at a time, by the step that is best",
    source="Lacoste-Julien, Jaggi, Schmidt, Pletscher, ICML 2013",
    settings=SETTINGS,
    make=FrankWolfe,
)

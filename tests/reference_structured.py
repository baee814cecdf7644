"""Structured outputs by enumeration, in plain numpy: every output of a tiny problem, dense features, dense learners.

Imports nothing of blocksvm.  An example is (outputs, phi, gold, rho): all outputs as tuples, their features
(n_outputs, d) as dense rows, the place of the gold one, and the losses (n_outputs,).
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np


@dataclass
class Example:
    outputs: list[tuple]
    phi: np.ndarray
    gold: int
    rho: np.ndarray

    def best(self, w: np.ndarray) -> int:
        return int(np.argmax(self.phi @ w))

    def most_violating(self, w: np.ndarray) -> int:
        return int(np.argmax(self.phi @ w + self.rho))


def perceptron(examples: list[Example], orders, d: int) -> tuple[np.ndarray, np.ndarray]:
    """(last weights, mean of the weights after each example)."""
    w, total, steps = np.zeros(d), np.zeros(d), 0
    for order in orders:
        for i in order:
            e = examples[i]
            w = w + e.phi[e.gold] - e.phi[e.best(w)]
            total += w
            steps += 1
    return w, total / steps


def passive_aggressive(examples, orders, d: int, step, max_loss: bool) -> np.ndarray:
    """step(loss, sq_norm) gives tau."""
    w = np.zeros(d)
    for order in orders:
        for i in order:
            e = examples[i]
            other = e.most_violating(w) if max_loss else e.best(w)
            if e.rho[other] == 0.0:
                continue
            delta = e.phi[e.gold] - e.phi[other]
            margin = e.rho[other] if max_loss else math.sqrt(e.rho[other])
            loss = margin - delta @ w
            if loss > 0.0:
                w = w + step(loss, delta @ delta) * delta
    return w


def hinge_primal(examples: list[Example], w: np.ndarray, C: float) -> float:
    """1/2 ||w||^2 + C sum_i max_y (rho_i(y) - <w, phi_i(gold) - phi_i(y)>)"""
    losses = [np.max(e.rho + e.phi @ w - e.phi[e.gold] @ w) for e in examples]
    return 0.5 * w @ w + C * sum(losses)


def structured_optimum(examples: list[Example], C: float, d: int) -> float:
    """The least value of ``hinge_primal``, by a solver of constrained problems over w and one slack an example."""
    from scipy.optimize import LinearConstraint, minimize

    n = len(examples)
    rows, least = [], []
    for i, e in enumerate(examples):
        slack = np.zeros((len(e.outputs), n))
        slack[:, i] = 1.0
        rows.append(np.hstack([e.phi[e.gold] - e.phi, slack]))
        least.append(e.rho)
    found = minimize(lambda x: 0.5 * x[:d] @ x[:d] + C * x[d:].sum(),
                     np.append(np.zeros(d), [e.rho.max() for e in examples]),
                     jac=lambda x: np.append(x[:d], np.full(n, C)), method="SLSQP",
                     constraints=LinearConstraint(np.vstack(rows), np.concatenate(least), np.inf),
                     options={"maxiter": 500, "ftol": 1e-12})  # fmt: skip
    assert found.success
    return float(found.fun)


def multipliers(deltas: np.ndarray, margins: np.ndarray, C: float, groups: np.ndarray | None) -> float:
    """The largest value of margins a - 1/2 ||sum_j a_j deltas_j||^2 with 0 <= a_j <= C, or (groups (n,)) with a >= 0
    that sum to at most C over each group."""
    from scipy.optimize import LinearConstraint, minimize

    n = len(margins)
    gram = deltas @ deltas.T
    constraints = []
    if groups is not None:
        members = (groups[None, :] == np.unique(groups)[:, None]).astype(float)
        constraints = [LinearConstraint(members, -np.inf, C)]
    found = minimize(lambda a: 0.5 * a @ gram @ a - margins @ a, np.zeros(n), jac=lambda a: gram @ a - margins,
                     method="SLSQP", bounds=[(0.0, C)] * n, constraints=constraints,
                     options={"maxiter": 500, "ftol": 1e-13})  # fmt: skip
    return -float(found.fun)


def spanning_trees(n: int) -> list[tuple]:
    """The heads of 1..n in all trees with the root 0."""
    found = []
    for heads in itertools.product(range(n + 1), repeat=n):
        for m in range(1, n + 1):
            above, steps = m, 0
            while above and steps <= n:
                above, steps = heads[above - 1], steps + 1
            if above:
                break
        else:
            found.append(heads)
    return found


def tree_example(rows: np.ndarray, gold: tuple, d: int) -> Example:
    """rows ((n + 1) n, t): features of the arc from h to m in row h n + m - 1, -1 for none."""
    n = len(gold)
    outputs = spanning_trees(n)
    phi = np.zeros((len(outputs), d))
    for number, heads in enumerate(outputs):
        for m, h in enumerate(heads):
            for f in rows[h * n + m]:
                if f >= 0:
                    phi[number, f] += 1.0
    rho = np.array([sum(a != b for a, b in zip(heads, gold, strict=True)) for heads in outputs], float)
    return Example(outputs, phi, outputs.index(tuple(gold)), rho)


def lattice_example(
    nodes: list[tuple], rows: np.ndarray, gold: set, length: int, sizes: tuple[int, int], width: int,
    pairs: np.ndarray, n_pairs: int,
) -> Example:  # fmt: skip
    """nodes (start, stop, kind) and rows (n, t) of their features; gold: the numbers of the right nodes, which are a
    path; sizes: how many features and kinds there are; width: weights of a feature, one or one for each kind; pairs
    (n, s): features of each node with its kind and the one before."""
    n_features, n_kinds = sizes
    each, first = (n_kinds + 1) * n_kinds, n_features * width

    def paths(position: int):
        if position == length:
            yield ()
        for v, (start, stop, _) in enumerate(nodes):
            if start == position:
                yield from ((v, *rest) for rest in paths(stop))

    outputs = list(paths(0))
    phi = np.zeros((len(outputs), first + (n_pairs + 1) * each))
    for number, path in enumerate(outputs):
        before = n_kinds
        for v in path:
            for f in rows[v]:
                if f >= 0:
                    phi[number, f * width + (nodes[v][2] if width > 1 else 0)] += 1.0
            for g in (*pairs[v], n_pairs):  # the last one is always there
                if g >= 0:
                    phi[number, first + g * each + before * n_kinds + nodes[v][2]] += 1.0
            before = nodes[v][2]
    rho = np.array([len(set(path) ^ gold) for path in outputs], float)
    return Example(outputs, phi, outputs.index(tuple(sorted(gold))), rho)


def sequence_example(
    rows: np.ndarray, gold: tuple, n_features: int, n_labels: int, pairs: np.ndarray, n_pairs: int
) -> Example:
    """rows (n, t): features of a token; pairs (n, s): with its label and the one before; as in a forward pass."""
    nodes = [(t, t + 1, label) for t in range(len(rows)) for label in range(n_labels)]
    right = {t * n_labels + label for t, label in enumerate(gold)}
    rows, pairs = np.repeat(rows, n_labels, axis=0), np.repeat(pairs, n_labels, axis=0)
    e = lattice_example(nodes, rows, right, len(gold), (n_features, n_labels), n_labels, pairs, n_pairs)
    order = sorted(range(len(e.outputs)), key=lambda j: e.outputs[j][::-1])
    outputs = [tuple(nodes[v][2] for v in e.outputs[j]) for j in order]
    return Example(outputs, e.phi[order], outputs.index(tuple(gold)), e.rho[order] / 2)

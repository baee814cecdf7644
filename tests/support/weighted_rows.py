"""A stand-in for a source of rows."""

from types import SimpleNamespace

from blocksvm.base.labels import NUMBERS, Labels
from blocksvm.problems.problem import Problem
from blocksvm.solvers.solver import Task


def solver_of(kind, problem: Problem, tolerance=None, **settings):
    """A block solver of a problem, whatever its rows; settings: the solver's own."""
    negatives, positives = problem.weight_sums
    source = SimpleNamespace(
        name="the rows", labels=Labels((-1.0, 1.0)), label_counts=[(-1.0, negatives), (1.0, positives)],
        label_kind=NUMBERS, label_weights=None, weighted=False,
        total_weight=float(problem.n_samples), n_unlabelled=0, n_samples=problem.n_samples, max_norm=1.0,
    )  # fmt: skip
    weights = dict(zip((-1.0, 1.0), problem.cost[0].tolist(), strict=True))
    settings |= {"loss": problem.loss.name, "C": 1.0, "class_weight": weights}
    return kind(Task(settings, source, problem.bias, tolerance))

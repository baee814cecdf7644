"""A stand-in for a source of rows."""

from types import SimpleNamespace

from blocksvm.base.labels import NUMBERS, Labels
from blocksvm.problems.problem import Problem
from blocksvm.solvers.solver import Task


def solver_of(kind, problem: Problem, tolerance=None, name: str | None = None, **settings):
    """A block solver of a problem, whatever its rows; name: of the loss; settings: the solver's and the loss's own."""
    negatives, positives = problem.weight_sums
    source = SimpleNamespace(
        name="the rows", labels=Labels((-1.0, 1.0)), label_counts=[(-1.0, negatives), (1.0, positives)],
        label_kind=NUMBERS, label_weights=None, weighted=False,
        total_weight=float(problem.n_samples), n_unlabelled=0, n_samples=problem.n_samples, max_norm=1.0,
    )  # fmt: skip
    settings |= {"loss": name or problem.loss.name}
    if name is None:
        settings |= {"C": 1.0, "class_weight": {-1.0: float(problem.cost[0, 0]), 1.0: float(problem.cost[0, 1])}}
    else:
        settings["C"] = float(problem.cost[0, 0])
    return kind(Task(settings, source, problem.bias, tolerance))

"""What is done to a block, by name: the batch solvers, and the online learners, whose block is one row."""

from __future__ import annotations

from blocksvm.errors import InputError
from blocksvm.learners import LEARNERS
from blocksvm.learners.exact import SETTINGS as EXACT
from blocksvm.learners.exact import ExactSolver
from blocksvm.learners.solver import OnlineSettings, OnlineSolver
from blocksvm.problems.problem import Problem
from blocksvm.solvers.dual_cd import DualCD
from blocksvm.solvers.pegasos import Pegasos
from blocksvm.solvers.protocol import Solver

SOLVERS = {solver.name: solver for solver in (DualCD, Pegasos)}
# as a solver, pegasos is the one with sub-batches
NAMES = (*SOLVERS, *(name for name in LEARNERS if name not in SOLVERS), *EXACT)


def is_online(name: str) -> bool:
    return name not in SOLVERS


def default_max_outer(name: str) -> int:
    """Outer iterations where none are asked for; of an online learner: epochs."""
    return 1 if is_online(name) else SOLVERS[name].default_max_outer


def make_solver(
    name: str, problem: Problem, tolerance: float | None, batch: int, online: OnlineSettings, source
) -> Solver:
    """The solver of this name for a problem; InputError where settings do not belong to it."""
    if is_online(name):
        if batch != 1:
            raise InputError(f"--batch belongs to --solver pegasos; {name} takes one row at a time")
        if name in EXACT:
            return ExactSolver(name, problem, online, source)
        return OnlineSolver(name, problem, online, source)
    given = online.given()
    if given:
        raise InputError(f"{given[0]} belongs to the online learners; {name} has no use for it")
    return SOLVERS[name](problem, tolerance=tolerance, batch=batch)

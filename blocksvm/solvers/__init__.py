"""What is done to a block: one file a solver, behind one protocol, named here."""

from blocksvm.solvers.dual_cd import DualCD
from blocksvm.solvers.pegasos import Pegasos

SOLVERS = {solver.name: solver for solver in (DualCD, Pegasos)}

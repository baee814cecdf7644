"""The online learners as data: one small file a family, this registry, and one solver for all of them."""

from __future__ import annotations

from blocksvm.solvers.online import adagrad, additive, confidence, mirror, scaled, sparse
from blocksvm.solvers.online.learner import Learner

LEARNERS: dict[str, Learner] = {
    learner.name: learner
    for family in (additive, confidence, scaled, mirror, sparse, adagrad)
    for learner in family.LEARNERS
}

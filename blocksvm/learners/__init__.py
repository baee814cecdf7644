"""The online learners as data: one small file a family, this registry, and one solver for all of them."""

from __future__ import annotations

from blocksvm.learners import adagrad, additive, confidence, mirror, scaled, sparse
from blocksvm.learners.protocol import Learner

LEARNERS: dict[str, Learner] = {
    learner.name: learner
    for family in (additive, confidence, scaled, mirror, sparse, adagrad)
    for learner in family.LEARNERS
}


def get_learner(name: str) -> Learner:
    return LEARNERS[name]

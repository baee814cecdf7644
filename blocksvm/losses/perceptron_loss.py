"""The perceptron's loss c max(0, -y z) (Rosenblatt, Psychological Review 65, 1958).

It is for online learners.  An objective with it is least at w = 0, so it has no dual here.  Regret is measured by the
hinge loss, which bounds it and counts the mistakes of w = 0.
"""

from __future__ import annotations

from blocksvm.kernels import inlined
from blocksvm.losses.loss import Loss


@inlined
def value(z, y, c, p):
    m = y * z
    return 0.0 if m > 0.0 else -c * m


@inlined
def derivative(z, y, c, p):
    """-c y at m = 0, too."""
    return 0.0 if y * z > 0.0 else -c * y


PERCEPTRON = Loss(
    name="perceptron",
    summary="C max(0, -m): mistakes by how far they are wrong",
    value=value,
    derivative=derivative,
    slope_bound=1.0,
    zero_from=0.0,
    judged_by="hinge",
    known_as={"scikit-learn": {"SGDClassifier": "perceptron"}},
)

"""The package's own online learners on dense rows, in plain Python: nothing is compiled."""

import functools

import numpy as np

from blocksvm.losses import LOSSES as NAMES
from blocksvm.losses import get_loss
from blocksvm.online import LEARNERS as REGISTRY
from blocksvm.online import get_learner
from blocksvm.online.loops import NO_LABEL, Loops
from blocksvm.online.loops import in_plain_python as in_python
from blocksvm.online.runner import Runner


@functools.cache
def in_plain_python(loops: Loops) -> Loops:
    """A learner's loops without their machine code, and without warnings, which that has not either."""
    if not hasattr(loops.one, "py_func"):  # they are plain already
        return loops
    quiet = [np.errstate(all="ignore")(in_python(loop)) for loop in loops[:3]]
    return Loops(*quiet, getattr(loops.read_weights, "py_func", loops.read_weights))


def plain_runner(name, settings, known, **options) -> Runner:
    runner = Runner(name, settings, known, **options)
    runner.loops = in_plain_python(runner.loops)
    return runner


class Plain:
    """A learner on rows (d,), labels -1 and +1, numbers (``targets``) or 0 .. k - 1 (``rule``); h: importance."""

    def __init__(self, name, d, *, k=2, rule=None, targets=None, **settings):
        if targets is None and k == 2 and "numbers" in get_learner(name).targets:
            targets = "numbers" if get_loss(settings.get("loss", "hinge")).of_numbers else None
        known = {"n_features": d * (k if k > 2 and rule != "rest" else 1)}
        self.d, self.k, self.given = d, k, settings
        self.runner = plain_runner(name, settings, known, n_classes=k, rule=rule, targets=targets)
        self.state = self.runner.new_state(d)

    def _run(self, x, label, h=1.0):
        x = np.asarray(x, dtype=float)
        assert x.shape == (self.d,)
        there = np.flatnonzero(x)
        matrix = np.array([0, len(there)]), there.astype(np.int32), x[there]
        scores = np.empty((1, self.k)) if self.runner.rule else np.empty(1)
        weights = None if h == 1.0 else np.array([h])
        self.runner.learn(
            matrix, np.array([label]), np.zeros(1, np.int32), self.d, self.state, scores=scores, weights=weights
        )
        return scores[0]

    def learn(self, x, y, h=1.0):
        self._run(x, y, h)

    def score(self, x):
        return self._run(x, np.nan if self.runner.real else NO_LABEL)

    scores = score

    def predict(self, x):
        return int(np.argmax(self.scores(x)))

    @property
    def weights(self):
        """(k, d + 1), or (1, d + 1)."""
        out = np.empty(self.runner.n_vectors * (self.d + 1))
        self.runner.loops.read_weights(self.runner.memory(self.state.columns, self.state.scalars), False, out)
        return out.reshape(self.runner.n_vectors, -1)

    @property
    def W(self):
        return self.weights[:, :-1]

    @property
    def w(self):
        return self.weights[0, :-1]

    @w.setter
    def w(self, values):
        assert self.runner.learner.rule.columns._fields[0] == "weight"
        self.column("weight")[: self.d] = values

    @property
    def b(self):
        return self.weights[0, -1] * self.runner.bias

    def column(self, name):
        """The numbers of this name of the features and the constant one, to read and write."""
        return self.state.columns.reshape(-1, self.runner.width)[:, getattr(self.runner.learner.rule.columns, name)]

    @property
    def theta(self):
        return self.column("theta")[:-1].copy()

    @property
    def variance(self):
        spread = self.column("spread")[:-1]
        return 1.0 / spread if self.runner.name == "cw-var" else spread.copy()

    @variance.setter
    def variance(self, values):
        self.column("spread")[:-1] = 1.0 / np.asarray(values) if self.runner.name == "cw-var" else values


LEARNERS = {name: functools.partial(Plain, name) for name in REGISTRY}


def _loss(name, z, y, epsilon=0.1):
    """(value, derivative) of a loss at the score z."""
    loss = get_loss(name)
    at = loss.at({"epsilon": epsilon, "delta": 1.0})
    return at.value(float(z), float(y), 1.0), at.derivative(float(z), float(y), 1.0)


LOSSES = {
    name: functools.partial(_loss, name) for name in NAMES if name not in ("huber", "squared-epsilon-insensitive")
}


def several(make, k, d, rule):
    """A learner of k classes made of the one that ``make(d)`` gives."""
    one = make(d)
    return Plain(one.runner.name, d, k=k, rule=rule, **one.given)


MultiPrototype, OneVsRest = (functools.partial(several, rule=rule) for rule in ("prototype", "rest"))


def run(learner, X, y, epochs=1):
    """(scores before each row was learned from, last weights, their mean over the rows)."""
    scores, total = [], 0.0
    for _ in range(epochs):
        for x, label in zip(X, y, strict=True):
            scores.append(learner.score(x))
            learner.learn(x, label)
            total = total + learner.w
    return np.array(scores), learner.w, total / max(1, len(scores))

"""Maps of row and class to joint features, for tests, by their places 'support.joint_cases:NAME'."""

from __future__ import annotations

import scipy.sparse

INPUTS, K = 9, 4  # ids 0 .. 8; classes


def products(M, X):
    """The rows of M (k, m), each times each row of X, one row of X after the other."""
    return scipy.sparse.vstack([scipy.sparse.kron(M, row, format="csr") for row in X.tocsr()], "csr")


class Prototypes:
    """x in the place of its class."""

    n_inputs = INPUTS
    n_features = K * INPUTS

    def rows(self, X, n_classes):
        return products(scipy.sparse.eye(n_classes, K), X)


class Shared:
    """Features that classes share, by factors of which no sums are equal: ties would be broken by rounding."""

    n_inputs = INPUTS
    n_features = 3 * INPUTS

    def rows(self, X, n_classes):
        groups = scipy.sparse.csr_matrix([[1.0, 0.0, 0.0], [0.77, 0.0, 0.53], [0.11, 1.0, 0.41], [0.0, -0.93, 0.31]])
        return products(groups[:n_classes], X)


class Broken(Shared):
    """Gives ``made(X, n_classes)``; more: what else it has."""

    def __init__(self, made=None, **more):
        self.made = made
        self.__dict__.update(more)

    def rows(self, X, n_classes):
        return super().rows(X, n_classes) if self.made is None else self.made(X, n_classes)


def unfit(X, n_classes):
    raise ValueError("no such class\nand more of it")


prototypes, shared = Prototypes(), Shared()
raising = Broken(unfit)
dense = Broken(lambda X, k: shared.rows(X, k).toarray())
nothing = Broken(lambda X, k: None)
narrow = Broken(lambda X, k: shared.rows(X, k)[:, :5])
infinite = Broken(lambda X, k: shared.rows(X, k) * float("inf"))
imaginary = Broken(lambda X, k: shared.rows(X, k) * 1j)
endless = Broken(n_features=1 << 40)
worded = Broken(n_features="many")
few_inputs = Broken(n_inputs=4)
larger = Broken(n_features=4 * INPUTS)


class NoInputs:
    n_features = 3

    def rows(self, X, n_classes):
        return X


no_inputs = NoInputs()

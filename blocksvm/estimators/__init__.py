"""scikit-learn estimators: the certified solvers and the online learners, on matrices, stores and batches larger than
memory.

    from blocksvm.estimators import LinearSVC
    LinearSVC(C=0.1).fit(X, y).dual_gap_

Needs scikit-learn (``pip install scikit-learn``).
"""

import lazy_loader

try:
    import sklearn  # noqa: F401
except ImportError:
    raise ImportError("blocksvm.estimators needs scikit-learn: pip install scikit-learn") from None

# each at its first use, as the modules load other kernels
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

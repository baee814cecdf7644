"""scikit-learn estimators: the certified solvers and the online learners, on matrices, stores and batches larger than
memory.

    from blocksvm.estimators import LinearSVC
    LinearSVC(C=0.1).fit(X, y).dual_gap_

Needs scikit-learn (``pip install scikit-learn``).
"""

try:
    import sklearn  # noqa: F401
except ImportError:
    raise ImportError("blocksvm.estimators needs scikit-learn: pip install scikit-learn") from None

_CERTIFIED = ("KernelSVC", "LinearSVC", "LinearSVR", "LogisticClassifier", "PegasosClassifier")


def __getattr__(name: str):
    """Import a class at its first use: each module loads other kernels."""
    from importlib import import_module

    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    if name in _CERTIFIED:
        return getattr(import_module(f"{__name__}.certified"), name)
    online = import_module(f"{__name__}.online").ESTIMATORS
    if name == "__all__":
        return [*_CERTIFIED, *online]
    if name not in online:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return online[name]


def __dir__() -> list[str]:
    return __getattr__("__all__")

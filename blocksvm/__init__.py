"""Linear models trained to a certified optimum on data larger than memory.

    import blocksvm

    blocksvm.make_store(["train.svm.gz"], "store.h5")                        # text to a store
    with blocksvm.open_store("store.h5") as store:
        for block in blocksvm.iterate_blocks(store, memory=500_000_000):  # rows, a block at a time
            ...
        fitted = blocksvm.fit(store, C=1.0, memory=500_000_000, on_event=print)
    fitted.save("model.h5")
    blocksvm.load_model("model.h5").predict(X)                           # X: scipy CSR, columns are feature ids

``fit`` takes a scipy CSR matrix with labels as well.  Whatever is wrong with what the user gives raises ``InputError``.
"""

import sys
from types import ModuleType

__version__ = "0.1.0.dev0"

# name -> the module that has it; imported on first use, so that commands start quickly
_LAZY = {
    "InputError": "errors",
    "InputWarning": "errors",
    "Block": "sources.block",
    "split": "conversion.convert",
    "SplitSettings": "conversion.convert",
    "open_store": "sources.store.reader",
    "iterate_blocks": "sources.reading",
    "Matrix": "sources.matrix",
    "fit": "api",
    "Fitted": "api",
    "describe_solver": "api",
    "TrainSettings": "training.settings",
    "JointLearner": "learners.joint",
    "JointMap": "learners.joint",
    "Stream": "streaming.stream",
    "StreamSettings": "streaming.stream",
    "save_stream": "streaming.saving",
    "cross_validate": "validation.cross",
    "regret": "analysis.report",
    "maximum_margin": "analysis.margin",
    "load_model": "model.files",
    "export_model": "exchange.forms",
    "import_model": "exchange.forms",
    "save_imported": "exchange.linear",
    "to_estimator": "exchange.estimators",
    "from_estimator": "exchange.estimators",
    "Model": "model.files",
}
__all__ = ["__version__", *_LAZY]


def __getattr__(name: str):
    from importlib import import_module

    if name not in _LAZY:
        raise AttributeError(f"module 'blocksvm' has no attribute '{name}'")
    return getattr(import_module("blocksvm." + _LAZY[name]), name)


class _Package(ModuleType):
    """``blocksvm.split`` and ``blocksvm.regret`` are functions, also once the commands of these names were imported."""

    def __setattr__(self, name, value):
        if not (name in _LAZY and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

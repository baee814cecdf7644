"""Linear models trained to a certified optimum on data larger than memory.

    import blocksvm

    blocksvm.write_store(["train.svm.gz"], "store.h5")                        # text to a store
    with blocksvm.open_store("store.h5") as store:
        for block in blocksvm.iterate_blocks(store, memory=500_000_000):  # rows, a block at a time
            ...
        fitted = blocksvm.fit(store, C=1.0, memory=500_000_000, on_event=print)
    fitted.save("model.h5")
    blocksvm.load_model("model.h5").predict(X)                           # X: scipy CSR, columns are feature ids

``fit`` takes a scipy CSR matrix with labels as well.  Whatever is wrong with what the user gives raises ``InputError``.
"""

import lazy_loader

__version__ = "0.1.0"

# names are imported from the modules of __init__.pyi when they are first used, so that commands start quickly
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

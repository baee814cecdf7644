"""Files of AnnData, as its library writes them."""

import h5py
import numpy as np

STRINGS = h5py.string_dtype()


def write_h5ad(path, X, y, names, dense=False, categorical=True, kind="csr_matrix"):
    """As anndata writes it."""
    with h5py.File(path, "w") as file:
        if dense:
            file["X"] = X.toarray()
            file["X"].attrs["encoding-type"] = "array"
        else:
            group = file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = kind, X.shape
            for key in ("data", "indices", "indptr"):
                group[key] = getattr(X, key)
        var = file.create_group("var")
        var.attrs["_index"] = "genes"
        var.create_dataset("genes", data=names, dtype=STRINGS)
        obs = file.create_group("obs")
        obs.attrs["_index"] = "_index"
        obs.create_dataset("_index", data=[f"cell{i}" for i in range(len(y))], dtype=STRINGS)
        obs["depth"] = y
        column = obs.create_group("type")
        column.attrs["encoding-type"] = "categorical"
        column.create_dataset("categories", data=["B", "T"], dtype=STRINGS)
        column["codes"] = (y > 0).astype(np.int8)

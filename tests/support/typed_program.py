"""A program as a user writes it, which mypy reads and nobody runs: what the public functions take and give."""

from pathlib import Path

import numpy as np
import scipy.sparse

import blocksvm


def program(X: scipy.sparse.csr_matrix, y: np.ndarray) -> None:
    description: dict = blocksvm.write_store(
        ["a.svm", "-"], Path("s.h5"), memory=10**9, idf="smooth", scale="none", label="y"
    )
    with blocksvm.open_store("s.h5") as store, blocksvm.open_store(Path("valid.h5")) as valid:
        for block in blocksvm.iterate_blocks(store, memory=500_000_000):
            labels: np.ndarray = block.y
            indptr, indices, values = block.matrix
        ids: np.ndarray = store.feature_ids(0, store.n_features)
        fitted: blocksvm.Fitted = blocksvm.fit(store, C=1.0, valid=valid, on_event=print)
        found = blocksvm.cross_validate(store, [0.1, 1.0], 5)
        margin = blocksvm.maximum_margin(store)
    fitted.save("m.h5", overwrite=True)
    fitted = blocksvm.fit(X, y, sample_weight=np.ones(3), solver="arow", start_from=None)
    fitted = blocksvm.fit(blocksvm.Matrix(X, [{1}, set()]), tol=1e-4)
    if fitted.certificate is not None:
        gap: float | None = fitted.certificate.rel_gap
    model: blocksvm.Model = blocksvm.load_model("m.h5")
    both: tuple[np.ndarray, np.ndarray] = (model.predict(X), model.predict_proba(X))
    stream = blocksvm.Stream("pa1", labels=(-1.0, 1.0))
    ended: bool = stream.run(["a.svm"])
    stream.save(Path("m.h5"), overwrite=True)
    told: str = blocksvm.describe_solver("omd")
    # what is no use of them is told: an ignored error that is none is an error
    blocksvm.fit(X, y, valid=3)  # type: ignore[arg-type]
    blocksvm.fit(X, y, tol="small")  # type: ignore[arg-type]
    blocksvm.fit(X, y, tolerance=1e-3)  # type: ignore[call-arg]
    wrong: str = blocksvm.fit(X, y).alpha  # type: ignore[assignment]
    blocksvm.no_such_function()  # type: ignore[attr-defined]
    blocksvm.Stream("pa1", passes="2")  # type: ignore[arg-type]
    try:
        blocksvm.export_model("m.h5", "m.txt", "liblinear")
    except blocksvm.InputError as error:
        print(error, description, labels, indptr, indices, values, ids, found, margin, gap, both, ended, told, wrong)

"""Matrices in files of numpy, scipy and AnnData: rows are the matrix's own, in pieces of any size; faults by row."""

import h5py
import numpy as np
import pytest
from scipy import sparse
from support.h5ad import write_h5ad
from support.stored_rows import by_name, in_source_order
from support.stream_cases import learned
from support.training_cases import svmlight

from blocksvm import load_model, open_store
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.formats.file_reader import magic_of

STRINGS = h5py.string_dtype()
LITTLE = 16_000_000  # bytes of memory, of which some 4,000 rows, columns or entries come at once


def matrix(n=80, d=12, seed=0, dtype=np.float64):
    X = sparse.random(n, d, 0.3, "csr", dtype=np.float64, random_state=np.random.default_rng(seed))
    X.data = np.round(4 * X.data - 2, 2).astype(dtype)
    return X, np.where(np.asarray(X[:, :3].sum(axis=1)).ravel() > 0, 1.0, -1.0)


def expected(X, y) -> list[tuple]:
    X = sparse.csr_matrix(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    return [(label, row.indices.tolist(), row.data.astype(np.float32).astype(float).tolist()) for label, row in
            zip(y.tolist(), X, strict=True)]  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "compressed"), [(np.float64, True), (np.float32, False), (np.int8, True), (np.bool_, False)]
)
def test_npz(dtype, compressed, tmp_path):
    X, y = matrix(n=3000, dtype=dtype)  # more entries than a piece has
    X = sparse.vstack([X[:30], sparse.csr_matrix((3, X.shape[1]), dtype=X.dtype), X[30:]], format="csr")
    y = np.append(y, [1.0, 1.0, -1.0])
    if compressed:  # as nobody should write it
        X.indptr, X.indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
    sparse.save_npz(tmp_path / "X.npz", X, compressed=compressed)
    np.save(tmp_path / "y.npy", y)
    options = {"labels_from": str(tmp_path / "y.npy")}
    settings = SplitSettings(keep_order=True, options=options, memory=16_000_000)
    split_rows([str(tmp_path / "X.npz")], tmp_path / "s.h5", settings)
    assert in_source_order(tmp_path / "s.h5") == expected(X, y)
    with open_store(tmp_path / "s.h5") as store:
        (source,) = store.meta.sources
        assert source.text_bytes == (tmp_path / "X.npz").stat().st_size and len(source.fingerprint) == 32


def test_matrices_by_columns_and_of_triples_are_refused(tmp_path, not_split):
    X, y = matrix()
    for layout in ("csc", "coo", "bsr"):
        sparse.save_npz(tmp_path / "X.npz", X.asformat(layout))
        not_split(tmp_path / "X.npz", f"is stored as {layout}, which is not read; save X.tocsr() instead")
    write_h5ad(tmp_path / "X.h5ad", X.tocsc(), y, [str(j) for j in range(12)], kind="csc_matrix")
    not_split(tmp_path / "X.h5ad", "its X is stored as csc_matrix, which is not read; write adata with X.tocsr()")


def test_labels_beside_the_matrix(tmp_path, succeeds, refusal, not_split):
    X, y = matrix()
    parts = {"indptr": X.indptr, "indices": X.indices, "data": X.data, "shape": X.shape, "format": np.array("csr")}
    kinds = np.where(y > 0, "spam", "ham")
    np.savez(tmp_path / "X.npz", **parts, kind=kinds, z=y)
    told = "has no array typo of the labels; beside the matrix it has kind, z; name"
    not_split(tmp_path / "X.npz", told, options={"label": "typo"})
    split_rows([str(tmp_path / "X.npz")], tmp_path / "s.h5", SplitSettings(options={"label": "kind"}))
    with open_store(tmp_path / "s.h5") as store:
        assert [label for label, _ in store.meta.labels] == ["ham", "spam"]
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5")
    sparse.save_npz(tmp_path / "new.npz", X)  # rows that are predicted need none
    assert set(succeeds("predict", tmp_path / "m.h5", tmp_path / "new.npz").out.split()) == {"ham", "spam"}
    np.save(tmp_path / "y.npy", kinds)
    own = ("--labels-from", tmp_path / "y.npy")
    assert "accuracy" in succeeds("predict", tmp_path / "m.h5", tmp_path / "new.npz", *own).err
    (tmp_path / "t.svm").write_text("1 1:1\n")
    said = refusal("predict", tmp_path / "m.h5", tmp_path / "t.svm", *own, "--format", "svmlight")
    assert "--labels-from: the format svmlight does not accept it" in said


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_npy(dtype, tmp_path):
    X, y = matrix(n=1000, dtype=dtype)  # a piece has some hundreds of them
    dense = np.c_[X.toarray()[:, :4], y.astype(dtype), X.toarray()[:, 4:]]
    for order in "CF":
        np.save(tmp_path / "X.npy", np.asarray(dense, order=order))
        settings = SplitSettings(keep_order=True, options={"label": "5"}, overwrite=True, memory=16_000_000)
        split_rows([str(tmp_path / "X.npy")], tmp_path / "s.h5", settings)
        without = sparse.csr_matrix(dense)
        without[:, 4] = 0
        assert in_source_order(tmp_path / "s.h5") == expected(without, y.astype(dtype).astype(float))


@pytest.mark.slow
@pytest.mark.parametrize("dense", [False, True])
def test_h5ad(dense, tmp_path, succeeds):
    X, y = matrix()
    X.resize(X.shape[0], 5_000)  # more names than come at once
    names = [f"gène {j}" for j in range(X.shape[1])]
    write_h5ad(tmp_path / "a.h5ad", X, y, names, dense)
    order = np.arange(X.shape[1])[::-1]
    write_h5ad(tmp_path / "b.h5ad", X[:, order].tocsr(), y, names, dense)
    with h5py.File(tmp_path / "b.h5ad", "r+") as file:  # as anndata writes an index of pandas' own strings
        del file["var/genes"]
        nullable(file["var"], [names[j] for j in order], name="genes")
    rows = {}
    for name in "ab":
        store = tmp_path / f"{name}.h5"
        split_rows([str(tmp_path / f"{name}.h5ad")], store, SplitSettings(options={"label": "depth"}, memory=LITTLE))
        rows[name] = by_name(store)
    assert rows["a"] == rows["b"]  # by name
    assert rows["a"] == [(y, dict(zip([names[j] for j in ids], v, strict=True))) for y, ids, v in expected(X, y)]
    # from labels that are categories to predictions
    arguments = (tmp_path / "a.h5ad", tmp_path / "c.h5", "--label", "type")
    succeeds("split", *arguments)
    succeeds("train", tmp_path / "c.h5", tmp_path / "m.h5", "-C", "10")
    told = np.array(succeeds("predict", tmp_path / "m.h5", tmp_path / "b.h5ad").out.split())
    assert set(told) == {"B", "T"} and np.mean((told == "T") == (y > 0)) > 0.85


def put_text(group, name, words):
    group.create_dataset(name, data=words, dtype=STRINGS)


def older_categories(obs, words):
    """As anndata 0.7 wrote a categorical column."""
    known = sorted(set(words) - {None})
    obs["label"] = np.array([-1 if word is None else known.index(word) for word in words], np.int8)
    put_text(obs.create_group("__categories"), "label", known)
    obs["label"].attrs["categories"] = obs["__categories/label"].ref
    obs["__categories/label"].attrs["ordered"] = False


def categories(obs, words, of_pandas=False):
    """As it writes them now; of_pandas: with strings of pandas' own type."""
    known = sorted(set(words) - {None})
    group = obs.create_group("label")
    group.attrs["encoding-type"] = "categorical"
    group["codes"] = np.array([-1 if word is None else known.index(word) for word in words], np.int8)
    if of_pandas:
        nullable(group, known, "nullable-string-array", "categories")
    else:
        put_text(group, "categories", known)


def nullable(obs, values, kind="nullable-string-array", name="label"):
    group = obs.create_group(name)
    group.attrs["encoding-type"] = kind
    group["mask"] = np.array([value is None for value in values])
    filled = [values[0] if value is None else value for value in values]
    if isinstance(values[0], str):
        put_text(group, "values", filled)
    else:
        group["values"] = filled


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "values"),
    [(older_categories, ["T", None, "B"]), (categories, ["T", None, "B"]),
     (lambda obs, values: categories(obs, values, of_pandas=True), ["T", None, "B"]), (nullable, ["T", None, "B"]),
     (lambda obs, values: put_text(obs, "label", values), ["T", "gène", "B"]),
     (lambda obs, values: obs.create_dataset("label", data=np.array(values, "S1")), ["T", "A", "B"]),
     (lambda obs, values: nullable(obs, values, "nullable-integer"), [3, None, 5]),
     (lambda obs, values: nullable(obs, values, "nullable-boolean"), [True, None, False]),
     (lambda obs, values: obs.create_dataset("label", data=values), [True, False, False]),
     (lambda obs, values: obs.create_dataset("label", data=np.array(values, np.float32)), [0.5, np.nan, 2.0])],
)  # fmt: skip
def test_columns_of_obs_as_every_anndata_writes_them(write, values, tmp_path):
    """What has no value is a row without a label; codes are never taken for labels."""
    X, y = matrix(n=5_000)
    write_h5ad(tmp_path / "X.h5ad", X, y, [str(j) for j in range(12)])
    labels = [values[i % len(values)] for i in range(5_000)]
    with h5py.File(tmp_path / "X.h5ad", "r+") as file:
        write(file["obs"], labels)
    settings = SplitSettings(keep_order=True, options={"label": "label"}, memory=LITTLE)
    split_rows([str(tmp_path / "X.h5ad")], tmp_path / "s.h5", settings)
    with open_store(tmp_path / "s.h5") as store:
        found = np.concatenate([store.read_labels(k) for k in range(len(store.chunks))]).tolist()
    plain = [None if one is None or one != one else one if isinstance(one, str) else float(one) for one in labels]
    assert [None if one != one else one for one in found] == plain


def test_predictions_and_streams(tmp_path, succeeds):
    X, y = matrix(200)
    sparse.save_npz(tmp_path / "X.npz", X)
    np.save(tmp_path / "y.npy", y)
    more = ("--labels-from", tmp_path / "y.npy", "--normalize", "l2", "--bits", "20")
    arguments = (tmp_path / "X.npz", tmp_path / "s.h5", *more)
    succeeds("split", *arguments)
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5")
    scores = [succeeds("predict", tmp_path / "m.h5", tmp_path / name, "--scores").out for name in ("X.npz", "s.h5")]
    np.testing.assert_allclose(*(np.float64(one.split()) for one in scores), rtol=1e-12)
    recipe = load_model(tmp_path / "m.h5").recipe
    assert (recipe.format, recipe.options) == ("npz", {"label": None})  # nothing of that input
    (tmp_path / "again.npz").write_bytes((tmp_path / "X.npz").read_bytes())
    succeeds("split", tmp_path / "again.npz", *arguments[1:4], "--append")
    # a stream learns the same from the file as from its text
    found, reports = learned(tmp_path / "X.npz", "pa1", options={"labels_from": str(tmp_path / "y.npy")})
    (tmp_path / "rows.svm").write_text(svmlight(X, y, first_id=0))
    same, of_text = learned(tmp_path / "rows.svm", "pa1")
    assert reports[-1].cumulative_loss == of_text[-1].cumulative_loss and reports[-1].rows == 200


@pytest.mark.slow
def test_wrong_files(tmp_path, not_split):
    X, y = matrix()
    npz, npy, h5ad = (tmp_path / f"X.{end}" for end in ("npz", "npy", "h5ad"))
    sparse.save_npz(npz, X)
    with np.load(npz) as saved:
        parts = dict(saved)
    bad = X.data.copy()
    bad[X.indptr[4]] = np.nan
    for arrays, sentence in (
        (parts | {"indices": parts["indices"] + 79}, "a column of the rows from 1 on is out of range"),
        (parts | {"indptr": parts["indptr"][::-1]}, "its indptr does not rise"),
        (parts | {"indices": parts["indices"].astype(float)}, "its arrays do not fit together"),
        ({"a": np.zeros(3)}, "the array format is not there; save the matrix by scipy.sparse.save_npz"),
        (parts | {"data": bad}, f"{npz}:5: the value of feature id {X.indices[X.indptr[4]]} is not a finite number"),
        (parts | {"indices": np.array([4, 2, 4]), "indptr": np.array([0, 3]), "data": np.ones(3),
                  "shape": np.array([1, 5])}, f"{npz}:1: feature id 4 occurs twice in the row"),
    ):  # fmt: skip
        np.savez(npz, **arrays)
        not_split(npz, sentence)
    sparse.save_npz(npz, X)
    np.save(npy, y[:-1])
    not_split(npz, "has 79 labels for the 80 rows", options={"labels_from": str(npy)})
    not_split(npz, "no such file", options={"labels_from": str(tmp_path / "no.npy")})
    not_split(npy, "of the shape (79,); give a matrix of numbers")
    np.save(npy, X.toarray())
    not_split(npy, "has no column 13; name that of the labels by label, 1 to 12", options={"label": "13"})
    dense = X.toarray()
    dense[7, 3] = np.inf
    np.save(npy, dense)
    not_split(npy, f"{npy}:8: the value of feature id 3 is not a finite number")
    npy.write_bytes(npy.read_bytes()[:-5])
    not_split(npy, "is no array of numbers or strings that numpy.save wrote")
    names = [str(j) for j in range(12)]
    for own, options, sentence in (
        (names[:-1] + ["0"], {}, "var names 0 twice"),
        (names[:-1], {}, "its /var/genes has 11 entries for the 12 of X"),
        (names, {"label": "size"}, "obs has no column size; its columns are depth, type"),
    ):
        write_h5ad(h5ad, X, y, own)
        not_split(h5ad, sentence, options=options)
    with h5py.File(h5ad, "a") as file:
        file["X"]["data"][5] = np.nan
    not_split(h5ad, f"{h5ad}:{int(np.searchsorted(X.indptr, 5, side='right'))}: the value of")
    raw = bytearray(npz.read_bytes())
    raw[len(raw) // 3 : len(raw) // 3 + 40] = bytes(40)
    npz.write_bytes(raw)
    not_split(npz, "")
    assert [magic_of(str(path)) for path in (npz, npy, h5ad)] == ["npz", "npy", "h5ad"]

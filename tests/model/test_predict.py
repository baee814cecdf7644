"""Predictions from text and stores: the user's labels, the source's order, the model's own reading of text; and which
rows of a pool are asked for by their margins."""

import json
import pickle
import shutil
from contextlib import suppress

import h5py
import hypothesis
import numpy as np
import pytest
import reference
from hypothesis import strategies as st
from scipy import sparse
from support.training_cases import looped, make_store, random_rows, svmlight

from blocksvm import InputError, InputWarning, fit, load_model, open_store, predict_files
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.formats.format import EXPANSION
from blocksvm.model.decision_values import SmallestMargins, margins_of
from blocksvm.model.scoring import StoreScorer, TextScorer
from blocksvm.model.solver_state import open_state, verify_state

MEMORY = 200_000_000


def make_text(rng, n=120, d=40, labels=(3, 7), unseen=0):
    """svmlight lines with labels that a hidden model decides."""
    hidden = rng.normal(size=d)
    lines = []
    for _ in range(n):
        ids = np.sort(rng.choice(d, size=rng.integers(1, 9), replace=False))
        values = np.round(rng.normal(size=len(ids)), 3)
        label = labels[int(values @ hidden[ids] > 0)]
        pairs = [f"{10**12 + 7 * i}:{v}" for i, v in zip(ids.tolist(), values.tolist(), strict=True)]
        pairs += [f"{5 * 10**12 + k}:1" for k in range(unseen)]
        lines.append(f"{label} {' '.join(pairs)}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    rng = np.random.default_rng(5)
    (folder / "train.svm").write_text(make_text(rng))
    (folder / "test.svm").write_text(make_text(rng, n=57, unseen=2))
    split_rows([str(folder / "train.svm")], folder / "train.h5")
    split_rows([str(folder / "test.svm")], folder / "test.h5", SplitSettings(chunk_nonzeros=16))
    with open_store(folder / "train.h5") as store:
        fit(store, bias=0.5, tol=1e-6, schedule="20").save(folder / "model.h5")
    return folder


def expected_scores(folder):
    """Of test.svm, by the reference parser and a dictionary of weights."""
    model = load_model(folder / "model.h5")
    weights = dict(zip(model.feature_ids.tolist(), model.weights.tolist(), strict=True))
    rows = reference.parse_svmlight((folder / "test.svm").read_bytes(), dtype=np.float32)
    scores = [sum(weights.get(i, 0.0) * float(v) for i, v in zip(ids, values, strict=True)) + model.intercept for _,
              ids, values in rows]  # fmt: skip
    return np.array(scores), np.array([label for label, _, _ in rows])


def joined(pieces):
    pieces = list(pieces)
    return np.concatenate([p.values for p in pieces]), np.concatenate([p.labels for p in pieces])


def test_a_store_is_scored_in_source_order(trained):
    with open_store(trained / "test.h5") as store:
        stored = np.concatenate([store.read_rows(k)["source"] for k in range(len(store.chunks))])
    assert not np.array_equal(stored, np.arange(len(stored)))  # it does lie in another order
    scorer = StoreScorer(trained / "model.h5", trained / "test.h5", MEMORY)
    scores, labels = joined(scorer.scores())
    expected, expected_labels = expected_scores(trained)
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(labels, expected_labels)
    # where there is little memory, it is read several times
    scorer.budget.total = sum(scorer.budget.used.values()) + 40 * 10
    pieces = list(scorer.scores())
    assert len(pieces) > 4
    np.testing.assert_array_equal(joined(pieces)[0], scores)


def many_pieces(trained, tmp_path):
    """The rows again and again, so that there are several pieces of text."""
    lines = (trained / "train.svm").read_text().splitlines()
    return lines * (1 + 1_600_000 // sum(len(line) + 1 for line in lines)), tmp_path / "rows.svm"


@pytest.mark.parametrize("n_jobs", [2, 5])
def test_any_number_of_threads_scores_the_same(trained, tmp_path, n_jobs):
    lines, text = many_pieces(trained, tmp_path)
    text.write_text("\n".join(lines) + "\n")
    split_rows([str(text)], tmp_path / "rows.h5", SplitSettings(chunk_nonzeros=512))
    for scorer, given in (
        (TextScorer, (trained / "model.h5", [str(text)], 16_000_000)),
        (StoreScorer, (trained / "model.h5", tmp_path / "rows.h5", MEMORY)),
    ):
        of_text = scorer is TextScorer
        one, several = scorer(*given), scorer(*given, n_jobs=n_jobs)
        alone, together = list(one.scores()), list(several.scores())
        assert min(len(alone), len(together)) > (5 if of_text else 0)
        for name in ("values", "classes", "labels"):
            expected, scored = (np.concatenate([getattr(p, name) for p in pieces]) for pieces in (alone, together))
            np.testing.assert_array_equal(scored, expected)
            assert len(expected) == len(lines)
        if of_text:  # each thread's part is counted
            assert several.n_jobs == 2 and several.budget.used["text"] >= EXPANSION * 3 * several.piece_bytes
        else:
            assert several.n_jobs == n_jobs and sum(several.budget.used.values()) > sum(one.budget.used.values())


def test_more_threads_need_no_more_memory(trained, tmp_path):
    """A long line is parsed by itself; chunks are decoded by as many threads as the memory holds."""
    lines, text = many_pieces(trained, tmp_path)
    long = "7 " + " ".join(f"{k}:1" for k in range(1, 60_000))
    text.write_text("\n".join([*lines[:9000], long, *lines[9000:18_000], long]) + "\n")
    expected = predict_files(trained / "model.h5", text, "scores")
    for memory, n_jobs in ((8_000_000, 1), (40_000_000, 8)):
        scorer = TextScorer(trained / "model.h5", [str(text)], memory, n_jobs=16)
        assert scorer.n_jobs == n_jobs
        np.testing.assert_array_equal(joined(scorer.scores())[0], expected)
    split_rows([str(text)], tmp_path / "long.h5", SplitSettings(chunk_nonzeros=4096))
    given, memory, tight = (trained / "model.h5", tmp_path / "long.h5"), 10**6, None
    while tight is None:  # the least memory that suffices
        memory += 10**5
        with suppress(InputError):
            tight = StoreScorer(*given, memory, n_jobs=16)
    ample = StoreScorer(*given, MEMORY, n_jobs=16)
    assert (tight.n_jobs, ample.n_jobs) == (1, 16)
    np.testing.assert_array_equal(joined(tight.scores())[0], joined(ample.scores())[0])


def test_the_first_bad_line_is_named_whatever_thread_reads_it(trained, tmp_path):
    lines, text = many_pieces(trained, tmp_path)
    lines[len(lines) // 2] = lines[-1] = "3 5:x"
    text.write_text("\n".join(lines) + "\n")
    for n_jobs in (1, 4):
        with pytest.raises(InputError, match=f"rows.svm:{len(lines) // 2 + 1}: "):
            list(TextScorer(trained / "model.h5", [str(text)], 4_000_000, n_jobs=n_jobs).scores())


def test_the_model_predicts_scipy_matrices(trained, tmp_path):
    X = sparse.random(80, 30, density=0.2, format="csr", random_state=1)
    y = np.where(X @ np.random.default_rng(0).normal(size=30) > 0, 1, 0)
    fitted = fit(X, y, tol=1e-6, schedule="20")
    fitted.save(tmp_path / "m.h5")
    loaded = load_model(tmp_path / "m.h5")
    expected = X @ fitted.result.w[:-1]
    np.testing.assert_allclose(loaded.decision_function(X), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(loaded.predict(X), np.where(expected > 0, 1.0, 0.0))
    narrow = X[:, :20]
    np.testing.assert_allclose(loaded.decision_function(narrow), narrow @ fitted.result.w[:20], atol=1e-14)


def test_the_command(trained, tmp_path, succeeds, refusal):
    expected, labels = expected_scores(trained)
    predicted = np.where(expected > 0, 7.0, 3.0)
    accuracy, given = f"accuracy {np.mean(predicted == labels):.6f}", (trained / "model.h5", trained / "test.svm")
    assert accuracy in succeeds("predict", *given, tmp_path / "out.txt", "--scores").out
    assert "--overwrite" in refusal("predict", *given, tmp_path / "out.txt")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "out.txt"), expected, rtol=1e-12, atol=1e-14)
    to_stdout = succeeds("predict", trained / "model.h5", trained / "test.h5")
    np.testing.assert_array_equal(np.array(to_stdout.out.split(), dtype=float), predicted)
    assert accuracy in to_stdout.err


def test_bad_input_is_one_sentence(trained, tmp_path, refusal):
    (trained / "bad.svm").write_text("3 1:1\n3 nonsense\n")
    (trained / "empty.svm").write_text("")
    for model, given, words in (
        ("model.h5", "missing.svm", "missing.svm: no such file"), ("model.h5", "empty.svm", "empty.svm: no rows"),
        ("test.svm", "test.svm", "is not a blocksvm model"), ("model.h5", "model.h5", "is a model, and rows are"),
        ("model.h5", "bad.svm", "bad.svm:2: 'nonsense' is not id:value"), ("train.h5", "test.svm", "is a store"),
    ):  # fmt: skip
        assert words in refusal("predict", trained / model, trained / given, tmp_path / "out.txt")
        assert list(tmp_path.iterdir()) == []
    given = "predict", trained / "model.h5", trained / "test.svm"
    assert "are needed" in refusal(*given, tmp_path / "o", "--memory", "1kB")
    assert "test.svm: is also an input; choose another" in refusal(*given, trained / "test.svm", "--overwrite")


def test_entries_that_the_model_does_not_know_are_counted(trained, tmp_path, succeeds):
    """Two in each of 57 rows, in text and in a store, also where this is read in parts."""
    known = (trained / "test.svm").read_text().count(":") - 2 * 57
    for name in ("test.svm", "test.h5"):
        told = succeeds("predict", trained / "model.h5", trained / name, tmp_path / f"{name}.txt", "--json").out
        figures = json.loads(told)
        assert (figures["entries"], figures["unknown_entries"]) == (known + 2 * 57, 2 * 57)
    scorer = StoreScorer(trained / "model.h5", trained / "test.h5", MEMORY, n_jobs=2)
    scorer.budget.take("all but some rows", scorer.budget.left - 10 * scorer.row_bytes)
    assert len(list(scorer.scores())) > 1
    assert (scorer.coverage.entries, scorer.coverage.unknown) == (known + 2 * 57, 2 * 57)


def test_another_normalisation_is_said_and_entries_that_have_no_factor_are_unknown(trained, tmp_path, succeeds):
    split_rows([str(trained / "test.svm")], tmp_path / "l2.h5", SplitSettings(normalize="l2"))
    told = succeeds("predict", trained / "model.h5", tmp_path / "l2.h5", tmp_path / "out.txt").err
    assert "--normalize none, this store's with l2" in told
    split_rows([str(trained / "train.svm")], tmp_path / "s.h5", SplitSettings(scale="max-abs"))
    with open_store(tmp_path / "s.h5") as store:
        fit(store, tol=1e-2).save(tmp_path / "m.h5")
    (tmp_path / "new.svm").write_text("3 900:1\n7 901:2 902:1\n")
    done = succeeds("predict", tmp_path / "m.h5", tmp_path / "new.svm", tmp_path / "p.txt", "--json")
    figures = json.loads(done.out)
    assert (figures["entries"], figures["unknown_entries"]) == (3, 3)
    assert "warning: of the 3 entries none is of a feature" in done.err


def test_a_folder_and_a_pattern_are_read_as_their_files(trained, tmp_path, succeeds, refusal):
    lines = (trained / "test.svm").read_text().splitlines(keepends=True)
    (tmp_path / "day").mkdir()
    for name, part in (("b.svm", lines[20:]), ("a.svm", lines[:20]), ("_SUCCESS", [])):
        (tmp_path / "day" / name).write_text("".join(part))
    expected = succeeds("predict", trained / "model.h5", trained / "test.svm", "--scores").out
    day = tmp_path / "day"
    for given, times in (((day,), 1), ((day / "?.svm",), 1), ((day, trained / "test.svm", "-"), 2)):
        assert succeeds("predict", trained / "model.h5", *given, "--scores").out == times * expected
    shutil.copy(trained / "test.h5", day / "c.svm")
    assert "c.svm: is a store, and predicted alone" in refusal("predict", trained / "model.h5", day)


# one run of twenty ends in a fault of memory within HDF5 itself, where the damage is in its own tables of names
@pytest.mark.slow
@pytest.mark.skipif(h5py.version.hdf5_version_tuple < (1, 14, 5), reason="HDF5 crashes on damaged files")
@pytest.mark.parametrize("name", ["model", "checkpoint"])
def test_a_damaged_model_or_checkpoint_is_one_sentence_or_the_same(trained, tmp_path, name):
    """Bytes flipped one at a time: what is read is an InputError or exactly what was written."""
    path = tmp_path / "whole.h5"
    if name == "model":
        path.write_bytes((trained / "model.h5").read_bytes())
    else:
        with open_store(trained / "train.h5") as store:
            loop = looped(store, max_outer=1, checkpoint=path)
            loop.run()
            state = {key: array.copy() for key, array in loop.state.items()}

    def read(file):
        verify_state(file)
        if name == "model":
            model = load_model(file)
            return [model.feature_ids.tobytes(), model.weights.tobytes(), str(model.meta)]
        into = {key: np.empty_like(array) for key, array in state.items()}
        saved = open_state(file)
        for key, array in into.items():
            saved.load("dual-cd", key, array)
        return [*(array.tobytes() for array in into.values()), str(saved.meta)]

    whole, expected = path.read_bytes(), read(path)
    rng = np.random.default_rng(1)
    broken = tmp_path / "broken.h5"
    refused = 0
    for position in rng.choice(len(whole), 120, replace=False).tolist():
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        broken.write_bytes(damaged)
        try:
            assert read(broken) == expected
        except InputError:
            refused += 1
    assert refused > 5


def test_files_are_predicted_from_python(trained, tmp_path):
    """As ``blocksvm predict`` does, in the order of the source."""
    model, text, store = trained / "model.h5", trained / "test.svm", trained / "test.h5"
    expected, _ = expected_scores(trained)
    labels = np.where(expected > 0, 7.0, 3.0)
    for given, inputs, more in (
        (model, text, {}), (str(model), [str(text)], {"memory": "100MB"}), (model, store, {"n_jobs": 2}),
        (load_model(model), store, {"memory": MEMORY}),
    ):  # fmt: skip
        scores = predict_files(given, inputs, "scores", **more)
        np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(predict_files(given, inputs, **more), labels)
    np.testing.assert_array_equal(predict_files(model, [text, text]), np.tile(labels, 2))
    with open_store(trained / "train.h5") as rows:
        fitted = fit(rows, bias=0.5, tol=1e-6, schedule="20")
    np.testing.assert_array_equal(predict_files(fitted.model, text), labels)
    np.testing.assert_array_equal(predict_files(fitted.model, store), labels)
    for *wrong, says in (
        ("nothing.svm", "nothing.svm: no such file"), (model, "model.h5: is a model, and rows are predicted"),
        (text, "label", "kind=label: choose one of labels, scores, probabilities"),
        (text, "probabilities", "its decision values are no probabilities"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=says):
            predict_files(model, *wrong)
    (tmp_path / "other.svm").write_text("3 900:1\n7 901:2\n")
    for given, name in ((model, "model.h5"), (fitted.model, "the model")):
        with pytest.warns(InputWarning, match=f"none is of a feature that .*{name} knows"):
            predict_files(given, tmp_path / "other.svm")


def test_a_model_has_the_names_of_its_features(tmp_path):
    (tmp_path / "t.csv").write_text("label,size,colour\n" + "1,2,red\n0,1,blue\n1,3,red\n0,1,green\n" * 5)
    split_rows([str(tmp_path / "t.csv")], tmp_path / "t.h5")
    with open_store(tmp_path / "t.h5") as store:
        fitted = fit(store)
        fitted.save(tmp_path / "m.h5")
    model = load_model(tmp_path / "m.h5")
    assert fitted.model.feature_names == model.feature_names  # of a store that was closed
    assert pickle.loads(pickle.dumps(fitted.model)).feature_names == model.feature_names
    assert sorted(model.feature_names) == ["colour=blue", "colour=green", "colour=red", "size"]
    weights = dict(zip(model.feature_names, model.weights, strict=True))
    assert weights["colour=red"] > 0 > weights["colour=blue"]
    assert list(predict_files(model, tmp_path / "t.csv")[:4]) == [1.0, 0.0, 1.0, 0.0]
    (tmp_path / "less.csv").write_text("colour\nred\n")
    with pytest.warns(InputWarning, match="columns that the rows before had and the table lacks, taken as empty: 1"):
        predict_files(fitted.model, tmp_path / "less.csv")
    (tmp_path / "t.h5").unlink()
    assert fitted.model.feature_names is None
    assert fit(np.eye(2), [0, 1]).model.feature_names is None


@hypothesis.given(st.lists(st.lists(st.integers(0, 6), max_size=12), max_size=6), st.integers(1, 9))
def test_rows_that_come_in_pieces_are_sorted_as_a_whole(pieces, n):
    chosen, first = SmallestMargins(n), 0
    for piece in pieces:
        chosen.add(np.array(piece, dtype=float), np.arange(first, first + len(piece)))
        first += len(piece)
    together = np.array([margin for piece in pieces for margin in piece], dtype=float)
    assert chosen.rows.tolist() == np.argsort(together, kind="stable")[:n].tolist()
    assert chosen.n_added == first


@pytest.mark.parametrize(("n", "sets", "margins"), [(1, False, [3, 2]), (3, False, [0.5, 2.5]), (3, True, [1, 0.5])])
def test_margins_of_each_kind(n, sets, margins):
    values = np.array([[3.0, -1.0, 2.5], [-2.0, -5.0, 0.5]])
    assert margins_of(values[:, :n].squeeze(), sets).tolist() == margins


@pytest.fixture
def pool(tmp_path):
    """(X, y of three classes, model's vectors, which rows have a label, text of the pool)."""
    X, _ = random_rows(n=120, d=10, seed=4)
    y = np.argmax(X @ np.random.default_rng(4).standard_normal((10, 3)), axis=1)
    known = np.arange(120) % 4 == 0
    store = make_store(tmp_path, X[known], y[known] + 0.0, name="known", keep_order=True, dtype="float64")
    text = tmp_path / "pool.svm"
    lines = svmlight(X, y + 0.0).splitlines()
    text.write_text("\n".join(line if known[k] else f"?{line[1:]}" for k, line in enumerate(lines)) + "\n")
    return X, y, known, store, text


@pytest.mark.slow
def test_text_and_store_ask_for_the_rows_of_the_smallest_margins(pool, tmp_path, succeeds):
    X, y, known, store, text = pool
    model = tmp_path / "m.h5"
    succeeds("train", store, model, "--tol", "1e-6", "--quiet")
    told = json.loads(succeeds("ask", model, text, "-n", 7, "--json").out)
    W = fit(X[known], y[known] + 0.0, tol=1e-6).model.weights
    best = np.sort(X @ W.T, axis=1)
    margin = np.where(known, np.inf, best[:, -1] - best[:, -2])
    first = np.argsort(margin, kind="stable")[:7]
    assert told["rows"] == (first + 1).tolist() and told["rows_without_label"] == int((~known).sum())
    np.testing.assert_allclose(told["margins"], margin[first], rtol=1e-3, atol=1e-3)
    # a store of the same rows, shuffled or not
    for order in ((), ("--keep-order",)):
        out_file = tmp_path / "asked.txt"
        succeeds("split", text, tmp_path / "pool.h5", "--overwrite", "--quiet", *order, "--dtype", "float64")
        done = succeeds("ask", model, tmp_path / "pool.h5", out_file, "-n", 7, "--overwrite")
        assert [int(line) for line in out_file.read_text().split()] == told["rows"]
        assert "7 of 90 rows without a label, with margins from" in done.out
    # more than there are can be asked for
    done = succeeds("ask", model, tmp_path / "pool.h5", "-n", 1000)
    assert len(done.out.split()) == 90 and "90 of 90 rows" in done.err


@pytest.mark.slow
def test_what_cannot_be_asked(pool, tmp_path, succeeds, refusal):
    _, _, _, store, text = pool
    model, of_numbers = tmp_path / "m.h5", tmp_path / "r.h5"
    succeeds("train", store, model, "--quiet")
    succeeds("train", store, of_numbers, "--loss", "squared", "--quiet")
    (tmp_path / "labelled.svm").write_text("1 1:2\n0 2:1\n")
    says = "each of its 2 rows has a label; there is nothing to ask"
    assert says in refusal("ask", model, tmp_path / "labelled.svm")
    assert "predicts no classes" in refusal("ask", of_numbers, text)

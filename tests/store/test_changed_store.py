"""Rows added to a store: the old store or the new one after any fault; dual variables find their rows."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
import reference
from scipy import sparse
from support.stored_rows import in_source_order, read_with_h5py
from support.training_cases import looped, make_store, opened, rows_of_store, train

from blocksvm.base.errors import InputError
from blocksvm.conversion.convert import SplitSettings, extend, settings_of_store, split_rows
from blocksvm.conversion.feature_ids import gather_spans
from blocksvm.model.solver_state import open_state
from blocksvm.store.descriptions import as_json
from blocksvm.store.reader import Store, open_store
from blocksvm.training.checkpoint import save_result


def text_of(n: int, seed: int, d: int = 40, ones: bool = False, labels=("-1", "1")) -> list[bytes]:
    """Lines of rows with ids 1 to d."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        ids = np.sort(rng.choice(d, rng.integers(1, 8), replace=False)) + 1
        values = ["1"] * len(ids) if ones else [f"{v:.3f}" for v in rng.normal(size=len(ids))]
        pairs = " ".join(f"{i}:{v}" for i, v in zip(ids, values, strict=True))
        lines.append(f"{labels[rng.integers(len(labels))]} {pairs}\n".encode())
    return lines


def write(path, lines) -> str:
    path.write_bytes(b"".join(lines))
    return str(path)


def by_number(path) -> dict:
    """{source number: (label, ids, values)} of a store, read with h5py alone."""
    return {row.source: row.triple() for row in read_with_h5py(path)[0]}


def split_of(folder: Path, lines, name="s", **settings) -> Path:
    """A store of these lines."""
    return make_store(folder, b"".join(lines).decode(), name=name, overwrite=True, n_jobs=2, **settings)


@pytest.mark.parametrize(
    ("keep_order", "chunk", "ones"),
    [(False, 32, (True, False)), (True, None, (False, True)), (False, 32, (True, True))],
)
def test_rows_are_added(tmp_path, keep_order, chunk, ones):
    """ones: whether the values of the first rows and of those added are all 1."""
    first, second = text_of(90, 1, ones=ones[0]), text_of(40, 2, d=60, ones=ones[1])
    third = text_of(30, 3, d=80, ones=all(ones))
    rows = in_source_order(split_of(tmp_path, first + second + third, "all"))
    store, n = split_of(tmp_path, first, keep_order=keep_order, chunk_nonzeros=chunk, seed=4), 90
    for name, more in (("b", second), ("c", third)):
        before, ids_before = read_with_h5py(store)
        meta = as_json(extend([write(tmp_path / f"{name}.svm", more)], store)[0])
        n += len(more)
        assert by_number(store) == dict(enumerate(rows[:n]))
        assert (meta["n_samples"], meta["source_rows"], meta["settings"]["seed"]) == (n, n, 4)
        assert meta["values"] == ("ones" if all(ones) else "float32")
        # what was there keeps its place and its numbers
        now, ids_now = read_with_h5py(store)
        assert ids_now[: len(ids_before)].tolist() == ids_before.tolist()
        order = [row.source for row in now]
        assert order[: len(before)] == [row.source for row in before] and sorted(order) == list(range(n))
        assert not keep_order or order == list(range(n))
    assert [step["n_samples"] for step in meta["history"]] == [90, 130]
    assert [source["first_row"] for source in meta["sources"]] == [0, 90, 130]
    with open_store(store) as opened_store:
        opened_store.verify()
        where = opened_store.origins(len(opened_store.chunks) - 1, np.array([-1]))
    assert where == [f"{tmp_path / 'c.svm'}, row {order[-1] - 130 + 1}"]
    values, counts = np.unique([row[0] for row in rows], return_counts=True)
    assert meta["labels"] == list(zip(values, counts, strict=True))
    assert meta["n_nonzeros"] == sum(len(row[1]) for row in rows)


def test_weights_of_rows_that_had_none(tmp_path):
    first, second = text_of(40, 1), text_of(3, 2)
    store = split_of(tmp_path, first, chunk_nonzeros=32)
    weights = write(tmp_path / "w.txt", [b"2\n0.5\n1\n"])
    chosen = settings_of_store(store, {}, weights=weights)
    meta = as_json(extend([write(tmp_path / "b.svm", second)], store, chosen)[0])
    with open_store(store) as found:
        found.verify()
        rows = np.concatenate([found.read_rows(chunk) for chunk in range(len(found.chunks))])
    assert rows["weight"][np.argsort(rows["source"])].tolist() == [1.0] * 40 + [2.0, 0.5, 1.0]
    assert meta["total_weight"] == 40 + 3.5


def test_labels_that_are_words_keep_their_rows(tmp_path):
    lines = text_of(50, 1, labels=("m", "b"))
    store = split_of(tmp_path, lines, format="svmlight-named", chunk_nonzeros=32)
    for k, (n, labels) in enumerate(((20, "anz"), (9, "c"))):
        more = text_of(n, 2 + k, labels=labels)
        meta = as_json(extend([write(tmp_path / f"{k}.svm", more)], store)[0])
        lines += more
        expected = [line.split()[0].decode() for line in lines]
        with open_store(store) as found:
            found.verify()
            numbers, told = (np.concatenate([read(chunk) for chunk in range(len(found.chunks))])
                             for read in (found.read_rows, found.read_labels))  # fmt: skip
        assert [told[i] for i in np.argsort(numbers["source"])] == expected
        values, counts = np.unique(expected, return_counts=True)
        assert meta["labels"] == list(zip(values, counts, strict=True))


def test_min_count_is_of_the_new_features(tmp_path):
    store = split_of(tmp_path, [b"1 1:1 2:1\n", b"-1 1:1 2:1 3:1\n"], min_count=2)
    extend([write(tmp_path / "b.svm", [b"1 1:1 3:1 5:1\n", b"1 3:1 6:1\n"])], store)
    assert by_number(store) == {
        0: (1.0, [1, 2], [1.0, 1.0]), 1: (-1.0, [1, 2], [1.0, 1.0]), 2: (1.0, [1, 3], [1.0, 1.0]), 3: (1.0, [3], [1.0]),
    }  # fmt: skip


def model_of(store, path, **chosen):
    run = train(store, **chosen)
    with Store(store) as source:
        save_result(path, run.loop.plan, run.loop.state, run.result, source.feature_ids)
    return run


def alpha_by_number(store, alpha) -> dict:
    with open_store(store) as found:
        numbers = np.concatenate([found.read_rows(chunk)["source"] for chunk in range(len(found.chunks))])
    return dict(zip(numbers.tolist(), alpha.tolist(), strict=True))


def start_of(store, warm_start, **chosen) -> dict:
    """The state with which a warm start begins, as the first pass sees it, and how many rows were summed up for it."""
    seen = {}
    with opened(store) as source:
        loop = looped(source, warm_start=warm_start, **(chosen | {"max_outer": 1}))
        loop.allocate()
        solver = loop.plan.solver
        inner_pass, sum_rows = solver.inner_pass, getattr(solver, "_sum_rows", None)

        def watch(*arguments):
            for name, array in loop.state.items():
                seen.setdefault(name, array.copy())
            return inner_pass(*arguments)

        def summed(*arguments):
            seen["summed"] = True
            return sum_rows(*arguments)

        solver.inner_pass, solver._sum_rows = watch, summed
        loop.run()
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chosen", "times"),
    [({"C": 0.2, "class_weight": {1.0: 3.0}}, 2),
     ({"loss": "squared-hinge", "bias": 0.5}, 2),
     ({"loss": "logistic"}, 1),
     ({"loss": "epsilon-insensitive", "epsilon": 0.1}, 1),
     ({"bias": "free"}, 1)],
)  # fmt: skip
def test_an_earlier_run_goes_on_with_the_rows_of_today(tmp_path, chosen, times):
    first, second = text_of(150, 11), text_of(60, 12, d=50)
    store, model = split_of(tmp_path, first, chunk_nonzeros=64, dtype="float64"), tmp_path / "m.h5"
    chosen = {"memory": 100_000, "tol": 1e-7, "max_outer": 3000} | chosen
    before = model_of(store, model, **chosen)
    alpha = alpha_by_number(store, before.result.alpha)
    for k in range(times):
        extend([write(tmp_path / f"{k}.svm", second[k::times])], store)
    cold = train(store, **chosen)
    warm = train(store, warm_start=model, **chosen)
    assert warm.result.status == cold.result.status == "converged"
    gap = 1.01e-7 * (abs(cold.result.certificate.primal) + abs(warm.result.certificate.primal))
    assert abs(warm.result.certificate.primal - cold.result.certificate.primal) <= gap
    # the start: each row has its own alpha, new ones have none, and w is that of alpha
    seen = start_of(store, model, **chosen)
    found = alpha_by_number(store, seen["alpha"])
    factor = [found[k] / alpha[k] for k in found if k in alpha and abs(alpha[k]) > 1e-6]
    np.testing.assert_allclose(factor, factor[0], rtol=1e-9)
    assert 0.5 < factor[0] < 2.0
    assert all(abs(found[k]) <= 1e-7 for k in found if k >= 150)
    assert set(found) == set(range(210))
    if chosen.get("bias") != "free" and "epsilon" not in chosen:  # w is the model's own, and no reading is made for it
        assert "summed" not in seen
        X, y, _ = rows_of_store(store)
        expected = reference.weights_of(reference.with_bias(X, chosen.get("bias", 0.0)).toarray(), y, seen["alpha"])
        np.testing.assert_allclose(seen["w"], expected, rtol=1e-9, atol=1e-12)
        if "loss" not in chosen:
            np.testing.assert_allclose(seen["conjugates"][0], -seen["alpha"].sum(), rtol=1e-9)


@pytest.mark.slow
def test_many_classes_and_pegasos_go_on_too(tmp_path):
    first, second = text_of(150, 31, labels=("1", "2", "3")), text_of(40, 32, d=50, labels=("1", "2", "3"))
    store, model = split_of(tmp_path, first, chunk_nonzeros=64), tmp_path / "m.h5"
    chosen = {"memory": 200_000, "tol": 1e-6, "max_outer": 3000}
    for more in ({}, {"multiclass": "crammer-singer"}):
        model_of(store, tmp_path / f"m{len(more)}.h5", **chosen, **more)
    extend([write(tmp_path / "b.svm", second)], store)
    for more in ({}, {"multiclass": "crammer-singer"}):
        warm = train(store, warm_start=tmp_path / f"m{len(more)}.h5", **chosen, **more)
        cold = train(store, **chosen, **more)
        assert warm.result.status == "converged"
        assert warm.result.certificate.primal == pytest.approx(cold.result.certificate.primal, rel=2.1e-6)
    binary, model = split_of(tmp_path, text_of(150, 33), "b", chunk_nonzeros=64), tmp_path / "p.h5"
    before = model_of(binary, model, solver="pegasos", max_outer=3, memory=200_000)
    extend([write(tmp_path / "b.svm", text_of(40, 34, d=50))], binary)
    seen = start_of(binary, model, solver="pegasos", memory=200_000)
    d = len(before.result.w) - 1
    weights = np.empty(d + 1)
    open_state(model).load("", "weights", weights)
    np.testing.assert_array_equal(seen["v"][:d], weights[:-1])
    assert not seen["v"][d:-1].any()
    assert seen["v"][-1] == weights[-1]


REFUSED = [(["s.h5", "--append"], "give the text whose rows are added"),
           (["-", "s.h5", "--append-once"], "--append-once: what standard input holds"),
           (["s.h5"], "give text to read"), (["b.svm", "none.h5", "--append"], "no such store"),
           (["b.svm", "s.h5", "--append", "--seed", "9"], "was split with --seed 0, but 9 is given now"),
           (["b.svm", "s.h5", "--append", "--normalize", "l2"], "was split with --normalize none, but l2"),
           (["b.svm", "s.h5", "--append", "--dtype", "float64"], "was split with --dtype float32"),
           (["b.svm", "s.h5", "--append", "--bits", "9"], "was split with --bits None, but 9"),
           (["b.svm", "s.h5", "--append", "--min-count", "2"], "was split with --min-count 1, but 2"),
           (["b.svm", "s.h5", "--append", "--duplicates", "sum"], "was split with --duplicates error, but sum"),
           (["b.svm", "s.h5", "--append", "--keep-order"], "was split with --keep-order False"),
           (["b.svm", "s.h5", "--append", "--format", "vw"], "was split with --format svmlight, but vw"),
           (["b.svm", "s.h5", "--append", "--holdout", "0.1", "h.h5"], "--holdout: is for a new store"),
           (["bad.svm", "s.h5", "--append"], "bad.svm:2"), (["empty.svm", "s.h5", "--append"], "no rows found"),
           (["s.h5", "s.h5", "--append"], "is also an input"),
           (["named.svm", "s.h5", "--append"], "named.svm:1")]  # fmt: skip


def test_what_does_not_fit_changes_nothing(tmp_path, monkeypatch, refusal):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "b.svm", text_of(3, 2))
    write(tmp_path / "bad.svm", [b"1 1:1\n", b"1 2:x\n"])
    write(tmp_path / "empty.svm", [b"# nothing\n"])
    write(tmp_path / "named.svm", [b"yes 1:1\n"])
    split_of(tmp_path, text_of(5, 1))
    before = (tmp_path / "s.h5").read_bytes()
    names = sorted(os.listdir(tmp_path))
    for arguments, sentence in REFUSED:
        told = refusal("split", *arguments)
        assert sentence in told and told.startswith("blocksvm split: error: ")
        assert (tmp_path / "s.h5").read_bytes() == before
        assert sorted(os.listdir(tmp_path)) == names


@pytest.mark.parametrize("name", ["b.svm", "b.svm.gz", "b.npz"])
def test_the_very_same_input_is_added_once(tmp_path, monkeypatch, run_in_process, name):
    """A job that is retried after it has added its rows does not double them."""
    monkeypatch.chdir(tmp_path)
    np.save("y.npy", np.array([1.0, -1.0] * 4))
    more = ("--labels-from", "y.npy") if name.endswith("npz") else ()

    def split(*arguments, seed=2):
        """8 rows in an input of this name."""
        text = b"".join(text_of(8, seed))
        (tmp_path / "b.svm").write_bytes(text)
        (tmp_path / "b.svm.gz").write_bytes(gzip.compress(text))
        sparse.save_npz("b.npz", sparse.csr_matrix(np.eye(8, 3) * seed))
        return run_in_process("split", name, "s.h5", *arguments, *more)

    assert split(seed=1).code == split("--append").code == 0
    before = (tmp_path / "s.h5").read_bytes()
    ended = split("--append")
    assert ended.code == 2 and "was added to s.h5 before" in ended.last_line and "--append-once" in ended.last_line
    ended = split("--append-once")
    assert (ended.code, ended.out) == (0, f"skipped: {name} (added before); s.h5 stays as it is\n")
    assert json.loads(split("--append-once", "--json").out)["skipped"] == [name]
    assert (tmp_path / "s.h5").read_bytes() == before
    assert "once since it was split: 8 rows added" in run_in_process("info", "s.h5").out
    # other content under the same name is added, and what is new beside what is not
    ended = split("--append-once", seed=3)
    assert ended.code == 0 and "8 rows added to 16" in ended.out and "skipped" not in ended.out
    assert "--from" in ended.err
    if name == "b.svm":
        write(tmp_path / "c.svm", text_of(3, 9))
        ended = run_in_process("split", "./b.svm", "c.svm", "s.h5", "--append-once")
        assert "skipped: ./b.svm (added before)\n" in ended.out and "3 rows added" in ended.out


def test_a_store_that_was_changed_meanwhile_stays(tmp_path):
    store = split_of(tmp_path, text_of(5, 1))
    other = split_of(tmp_path, text_of(6, 3), "other")
    theirs = other.read_bytes()

    def meanwhile(progress):
        if other.exists():
            os.replace(other, store)

    with pytest.raises(InputError, match="was changed by another program meanwhile"):
        extend([write(tmp_path / "b.svm", text_of(3, 2))], store, progress=meanwhile)
    assert store.read_bytes() == theirs
    assert sorted(os.listdir(tmp_path)) == ["b.svm", "other.svm", "s.h5", "s.svm"]


def test_a_model_of_another_store_is_refused(tmp_path):
    store, other = split_of(tmp_path, text_of(60, 1)), split_of(tmp_path, text_of(60, 2), "o")
    model = tmp_path / "m.h5"
    model_of(other, model, max_outer=2)
    extend([write(tmp_path / "b.svm", text_of(5, 3))], store)
    with pytest.raises(InputError, match="belongs to another store"):
        train(store, warm_start=model)
    model_of(store, model, max_outer=2)
    extend([write(tmp_path / "d.svm", [b"3 1:1\n", b"5 2:1\n"])], store)
    with pytest.raises(InputError, match="has others since its rows were changed"):
        train(store, warm_start=model)


@pytest.mark.process
@pytest.mark.parametrize("wait", [0.0, 0.3])
def test_a_killed_change_leaves_the_old_store_or_the_new_one(tmp_path, wait):
    store = split_of(tmp_path, text_of(3000, 1), chunk_nonzeros=512)
    before = store.read_bytes()
    more = write(tmp_path / "b.svm", text_of(2000, 2))
    rows = by_number(store)
    program = (
        "import sys, time\n"
        "from blocksvm.conversion.convert import extend\n"
        "def slowly(progress):\n"
        "    print(progress.phase, flush=True)\n"
        "    time.sleep(0.05)\n"
        "extend([sys.argv[1]], sys.argv[2], progress=slowly)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, more, str(store)], stdout=subprocess.PIPE)
    while process.stdout.readline().strip() != b"writing":
        pass
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    if store.read_bytes() != before:
        assert len(by_number(store)) == 5000
    else:
        extend([more], store)
    found = by_number(store)
    assert {k: found[k] for k in range(3000)} == rows
    assert len(found) == 5000
    # what the killed one left is gone, too
    assert sorted(os.listdir(tmp_path)) == ["b.svm", "s.h5", "s.svm"]


def test_damage_in_what_is_copied_is_found(tmp_path):
    store = split_of(tmp_path, text_of(300, 1), chunk_nonzeros=64)
    with open_store(store) as found:
        offset = found.parts.of_chunk(3)[0][0]
    damaged = bytearray(store.read_bytes())
    damaged[offset + 20] ^= 255
    store.write_bytes(damaged)
    with pytest.raises(InputError, match="chunk 3: checksum does not match"):
        extend([write(tmp_path / "b.svm", text_of(5, 2))], store)
    assert store.read_bytes() == damaged


def test_the_changed_store_is_the_same_for_any_jobs_and_memory(tmp_path):
    found = []
    for jobs, memory in ((1, 16_000_000), (3, 200_000_000)):
        store = split_of(tmp_path, text_of(3000, 1), chunk_nonzeros=256)
        chosen = settings_of_store(store, {}, n_jobs=jobs, memory=memory)
        extend([write(tmp_path / "b.svm", text_of(2000, 2))], store, chosen)
        found.append(store.read_bytes())
    assert found[0] == found[1]


def test_of_two_changes_at_once_none_is_lost(tmp_path):
    """The second one begins while the first one is under way."""
    store = split_of(tmp_path, text_of(300, 1))
    more = write(tmp_path / "b.svm", text_of(50, 2))
    refused = []

    def meanwhile(progress) -> None:
        if not refused:
            with pytest.raises(InputError, match="is being changed by another command"):
                extend([more], store)
            refused.append(progress)

    extend([more], store, progress=meanwhile)
    assert refused
    with open_store(store) as found:
        assert found.n_samples == 350
    extend([write(tmp_path / "c.svm", text_of(5, 3))], store)


@pytest.mark.process
@pytest.mark.parametrize(
    ("mode", "added", "read"),
    [("r", "is open for reading in another program", None),
     ("r+", "is open for writing in another program", "is open for writing in another program")],
)  # fmt: skip
def test_a_store_that_another_program_has_open_is_not_called_damaged(tmp_path, succeeds, refusal, mode, added, read):
    store = split_of(tmp_path, text_of(30, 1))
    program = f"import h5py; file = h5py.File({str(store)!r}, {mode!r}); print('open', flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as other:
        other.stdout.readline()
        assert added in refusal("split", write(tmp_path / "b.svm", text_of(5, 2)), store, "--append")
        assert succeeds("info", store) if read is None else read in refusal("info", store)
        other.communicate(b"\n")
    succeeds("split", tmp_path / "b.svm", store, "--append")
    with h5py.File(store), pytest.raises(InputError, match="is open in this program by h5py"):
        Store(store)


@pytest.mark.slow
def test_held_out_rows_of_another_store_are_noted(tmp_path, monkeypatch, succeeds):
    """A command that replaces both stores and is killed between their renames leaves rows of two splits."""
    monkeypatch.chdir(tmp_path)
    split = ("a.svm", "s.h5", "--holdout", "0.3", "h.h5", "--overwrite")
    noted = "h.h5 was held out of another store than the one trained on"

    def warned(*more) -> list[bool]:
        """By train, and by predict; of --json, too."""
        trained = succeeds("train", "s.h5", "m.h5", "--valid", "h.h5", "--overwrite", *more)
        predicted = succeeds("predict", "m.h5", "h.h5", "out.txt", "--overwrite", "--json")
        assert json.loads(predicted.out)["notes"] == [line[6:] for line in predicted.err.split("\n") if noted in line]
        return [noted in trained.err, noted in predicted.err]

    for seed in (1, 2):
        write(tmp_path / "a.svm", text_of(60, seed))
        (tmp_path / "h.h5").rename("old.h5") if seed == 2 else None
        succeeds("split", *split)
        assert warned() == [False, False]
    # either of them may be changed
    for k, store in enumerate(("s.h5", "h.h5")):
        succeeds("split", write(tmp_path / f"{k}.svm", text_of(9, 3 + k)), store, "--append")
        assert warned() == [False, False]
    (tmp_path / "old.h5").rename("h.h5")
    assert warned() == [True, True] and warned("--quiet")[0] is False
    # rows that never were held out of a store, and models of none, are not
    succeeds("split", "0.svm", "h.h5", "--overwrite")
    assert warned() == [False, False]


@pytest.mark.slow
def test_a_store_whose_names_do_not_fit_is_refused_before_they_are_read(tmp_path):
    lines = [f"1 | {' '.join(f'{100 * row + k:0100d}' for k in range(100))}\n".encode() for row in range(1000)]
    store, more = tmp_path / "s.h5", write(tmp_path / "b.vw", [b"-1 | a b\n"])
    split_rows([write(tmp_path / "a.vw", lines)], store, SplitSettings(n_jobs=2))
    tracemalloc.start()
    with pytest.raises(InputError, match="its 100,000 features with their names take 14 MB"):
        extend([more], store, settings_of_store(store, {}, memory=16_000_000))
    assert tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()
    extend([more], store)
    with open_store(store) as found:
        assert set(found.feature_names(0, 100_002)) == {"a", "b", *(f"{k:0100d}" for k in range(100_000))}


def test_spans_are_gathered_without_a_multiple_of_them():
    text, ends = np.arange(4_000_000, dtype=np.uint8), np.arange(0, 4_000_001, 100)
    order = np.random.default_rng(1).permutation(len(ends) - 1)
    tracemalloc.start()
    found = gather_spans(text, ends[:-1][order], ends[1:][order])
    assert tracemalloc.get_traced_memory()[1] < 12_000_000
    tracemalloc.stop()
    np.testing.assert_array_equal(found, text.reshape(-1, 100)[order].ravel())

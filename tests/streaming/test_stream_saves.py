"""Saves of streams and their continuation, a pass in two that equals one in one; hashes numbered as they come."""

import numpy as np
import pytest
from support.file_cases import content_of_model
from support.plain_learners import LEARNERS, run
from support.refused import refused
from support.stream_cases import SMALL_PIECES, growing_rows, learned, single, text_of, weights_by_id
from support.training_cases import random_rows, svmlight

from blocksvm import Matrix, fit
from blocksvm.kernels.hash_table import hash_ids
from blocksvm.model.model_file import describe_model, load_model
from blocksvm.streaming import stream_learner
from blocksvm.streaming.stream_pass import StreamPass, StreamSettings
from blocksvm.streaming.stream_saving import save_stream

WAYS = [("pa1", {}), ("arow", {"bits": 6, "bias": 1.0}), ("ogd", {"average": True, "query": 0.4}),
        ("scw1", {"labels": (0.0, 1.0, 2.0), "bias": 0.5}),
        ("fobos", {"labels": (0.0, 1.0, 2.0), "multiclass": "rest", "settings": {"l1": 0.01}}),
        ("omd", {"bits": 7, "settings": {"mirror": "entropic", "n_features": 50.0}}),
        ("adagrad-rda", {"settings": {"l1": 0.001}, "average": True}), ("pegasos", {"settings": {"lam": 0.01}}),
        ("hf-fobos", {"settings": {"l1": 0.01}, "normalize": "l2"}), ("pa2", {"targets": "numbers"}),
        *(("pa1", {"targets": "none", "settings": {"epsilon": 0.3, "learn_radius": True}} | more)
          for more in ({}, {"bits": 3, "duplicates": "sum"}))]  # fmt: skip


@pytest.mark.parametrize(("learner", "options"), WAYS)
@pytest.mark.parametrize("cut", [130, *(pytest.param(cut, marks=pytest.mark.slow) for cut in (1, 299))])
def test_a_stream_in_two_equals_one_in_one(tmp_path, learner, options, cut):
    X, y = growing_rows(seed=11)
    y = np.arange(300) % len(options["labels"]) * 1.0 if "labels" in options else y
    lines = svmlight(X, y).splitlines(keepends=True)
    for name, part in (("all", lines), ("first", lines[:cut]), ("second", lines[cut:])):
        (tmp_path / name).write_text("".join(part))
    whole, reports = learned(tmp_path / "all", learner, **options)
    save_stream(tmp_path / "whole.h5", whole)
    first, _ = learned(tmp_path / "first", learner, **options)
    save_stream(tmp_path / "first.h5", first)
    second, later = learned(tmp_path / "second", learner, start_from=tmp_path / "first.h5", **options)
    save_stream(tmp_path / "second.h5", second)
    assert content_of_model(tmp_path / "second.h5") == content_of_model(tmp_path / "whole.h5")
    assert later[-1].cumulative_loss == reports[-1].cumulative_loss
    assert (later[-1].rows, later[-1].mistakes, later[-1].asked) == (300, reports[-1].mistakes, reports[-1].asked)


def test_a_model_is_gone_on_from_as_it_was_made_or_not_at_all(tmp_path, succeeds, refusal):
    X, y = random_rows(n=60, d=15, seed=8)
    text, model, prior = text_of(tmp_path, X, y), tmp_path / "m.h5", tmp_path / "prior.h5"
    fit(Matrix(X, y), tol=1e-2).save(prior)
    options = ("--learner", "pa1", "-C", "0.2")
    succeeds("stream", text, *options, "--model", model, "--prior", prior)
    hashed, new = tmp_path / "hashed.h5", tmp_path / "new.h5"
    succeeds("stream", text, *options, "--model", hashed, "--bits", 5)
    for source, given, what in (
        (model, ("--learner", "pa1", "-C", "0.3", "--prior", prior), "was learned with -C 0.2, but 0.3 is given now"),
        (model, ("--learner", "pa2", "-C", "0.2", "--prior", prior), "was learned by pa1, not by pa2"),
        (model, (*options, "--bias", "1", "--prior", prior), "was learned with --bias 0"),
        (model, options, "was learned with the prior model"),
        (model, (*options, "--prior", hashed), "was learned with the prior model"),
        (model, (*options, "--prior", prior, "--bits", "5"), "has a table of ids"),
        (hashed, (*options, "--bits", "6"), "has features hashed to 5 bits; leave --bits 6 out"),
        (hashed, (*options, "--normalize", "l2"), "was learned with --normalize none; leave --normalize l2 out"),
        (hashed, (*options, "--bits", "5", "--labels", "1,2"), "has the labels -1, 1, other ones than the stream"),
        (prior, ("--learner", "pa1"), "was trained by dual-cd, which is no online learner"),
    ):
        assert what in refusal("stream", text, *given, "--from", source, "--model", tmp_path / "n")
        assert not new.exists()
    # the model may be written over the one that it went on from
    again = (*options, "--from", hashed, "--bits", 5, "--model", hashed)
    refusal("stream", text, *again)
    succeeds("stream", text, *again, "--overwrite")
    assert describe_model(hashed).n_samples == 120


@pytest.mark.parametrize(
    "options",
    [("--learner", "ogd", "--step", "0.3", "--bits", "6", "--bias", "1"),
     ("--learner", "pa1", "-C", "0.2", "--normalize", "l2", "--average"),
     ("--learner", "arow", "--class-weight", "1=2,-1=1", "--bits", "7")],
)  # fmt: skip
def test_a_test_and_a_continued_stream_need_no_more_than_the_model(tmp_path, options, succeeds):
    """As Vowpal Wabbit's ``-t -i``: all is the model's, and the figures are those of the test."""
    X, y = random_rows(n=60, d=15, seed=8, dtype=np.float32)
    texts = [text_of(tmp_path, X[rows], y[rows], name) for rows, name in ((slice(40), "a"), (slice(40, 60), "b"))]
    model, files = tmp_path / "m.h5", ("--scores", "--overwrite", "--predictions")
    succeeds("stream", texts[0], *options, "--model", model)
    test = (texts[1], "--test", "--from", model, *files, tmp_path / "p.txt")
    out = succeeds("stream", *test).out
    values = np.array((tmp_path / "p.txt").read_text().split(), float)
    assert out.startswith("20 rows in ") and "of all" not in out
    assert f"mistakes {np.mean(np.where(values > 0, 1, -1) != y[40:]):.4%}" in out
    # to go on with both is to go on with all options given once more
    whole = [*texts, *options, *files, tmp_path / "q.txt", "--model", tmp_path / "whole.h5"]
    succeeds("stream", *whole)
    succeeds("stream", texts[1], "--from", model, "--model", tmp_path / "on.h5")
    found, expected = (load_model(tmp_path / name) for name in ("on.h5", "whole.h5"))
    np.testing.assert_array_equal(found.weights, expected.weights)
    assert found.meta.text == expected.meta.text and found.meta.n_samples == 60


@pytest.mark.parametrize("bits", [None, 6])
def test_a_save_holds_the_stream_as_it_stands(tmp_path, bits):
    X, y = growing_rows(seed=12)
    lines = svmlight(X, y).splitlines(keepends=True)
    (tmp_path / "begin").write_text("".join(lines[:200]))
    (tmp_path / "rest").write_text("".join(lines[200:]))  # has further features
    begin, _ = learned(tmp_path / "begin", "scw1", bits=bits, bias=1.0)
    save_stream(tmp_path / "begin.h5", begin)
    settings = StreamSettings("scw1", bits=bits, bias=1.0, save_every=200)
    stream = StreamPass(settings, on_save=lambda stream: save_stream(tmp_path / "saved.h5", stream))
    assert stream.run([str(tmp_path / "begin"), str(tmp_path / "rest")])
    assert stream.rows == 300
    assert content_of_model(tmp_path / "saved.h5") == content_of_model(tmp_path / "begin.h5")


def test_what_a_save_runs_into_is_told(tmp_path):
    text = text_of(tmp_path, *random_rows(n=60, d=15, seed=13))
    stream = StreamPass(StreamSettings("pa1", save_every=20), on_save=lambda s: save_stream(tmp_path / "gone" / "m", s))
    with pytest.raises(FileNotFoundError, match="gone"):
        stream.run([str(text)])


BITS = 13  # growing rows occupy more hashes of them than there is memory for at first


@pytest.fixture
def numbered(monkeypatch):
    """A switch: number hashes from now on, or keep all of them."""
    return lambda on: monkeypatch.setattr(stream_learner, "NUMBERED_FROM", 0 if on else 1 << 60)


@pytest.mark.parametrize("learner", ["auto", "arow", "coin", "omd", "adagrad-rda"])
@pytest.mark.parametrize("labels", [None, (0.0, 1.0, 2.0)])
def test_numbered_hashes_are_the_same_learner(tmp_path, numbered, learner, labels):
    """Bit by bit, whatever the pieces; the model knows the hashes that occurred, the other one all of them."""
    X, y = growing_rows(seed=3)
    y = np.arange(300) % 3.0 if labels else y
    text, found = text_of(tmp_path, X, y), []
    settings = {"mirror": "p-norm"} if learner == "omd" else {}
    for on, memory in ((False, 1_000_000_000), (True, 1_000_000_000), (True, SMALL_PIECES)):
        numbered(on)
        options = {"memory": memory, "bits": BITS, "labels": labels, "bias": 1.0}
        stream, reports = learned(text, learner, settings=settings, **options)
        save_stream(tmp_path / "m.h5", stream)
        weights, model = weights_by_id(tmp_path / "m.h5", 1 << BITS)
        weights = weights.tobytes(), np.asarray(model.intercept).tobytes()
        found.append((weights, reports[-1].cumulative_loss, reports[-1].mistakes))
        occurring = np.unique(X.indices) + 1
        hashes = hash_ids(occurring, BITS)
        assert len(model.feature_ids) == (len(set(hashes.tolist())) if on else 1 << BITS)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_a_stream_goes_on_with_hashes_as_they_were(tmp_path, numbered, first, second):
    """A model of all hashes and one of those that occurred are gone on with, whatever a new stream would do."""
    X, y = growing_rows(n=200, seed=4)
    (tmp_path / "a").mkdir()
    begin, rest = text_of(tmp_path / "a", X[:120], y[:120]), text_of(tmp_path, X[120:], y[120:])
    whole = tmp_path / "whole.svm"
    whole.write_text(begin.read_text() + rest.read_text())
    numbered(second)
    save_stream(tmp_path / "whole.h5", learned(whole, "auto", bits=BITS)[0])
    numbered(first)
    save_stream(tmp_path / "begin.h5", learned(begin, "auto", bits=BITS)[0])
    numbered(second)
    stream, _ = learned(rest, "", start_from=tmp_path / "begin.h5", bits=BITS)
    save_stream(tmp_path / "end.h5", stream)
    one, other = (weights_by_id(tmp_path / f"{name}.h5", 1 << BITS)[0] for name in ("whole", "end"))
    assert one.tobytes() == other.tobytes()
    assert (len(load_model(tmp_path / "end.h5").feature_ids) < 1 << BITS) is first


@pytest.mark.parametrize(("bits", "on"), [(None, False), (5, False), (5, True)])
def test_a_prior_model_of_ids_meets_a_stream(tmp_path, numbered, bits, on):
    """By id; or its weights are added up where the hashes of ids meet."""
    X, y = random_rows(n=150, d=60, seed=5)
    fit(Matrix(X, y), tol=1e-2).save(tmp_path / "prior.h5")  # ids 0 .. 59
    weights, _ = weights_by_id(tmp_path / "prior.h5", 60)
    places, d = (np.arange(61), 61) if bits is None else (hash_ids(np.arange(61), bits), 1 << bits)
    prior, placed = np.zeros(d), np.zeros((150, d))
    np.add.at(prior, places[:60], weights)
    np.add.at(placed.T, places[1:], single(X).toarray().T)  # the text's ids are 1 .. 60
    numbered(on)
    text, settings = text_of(tmp_path, X, y), {"l1": 0.05}
    stream, _ = learned(text, "fobos", settings=settings, bits=bits, prior=tmp_path / "prior.h5")
    save_stream(tmp_path / "m.h5", stream)
    dense = LEARNERS["fobos"](d, l1=0.05)
    dense.state.prior = np.append(prior, 0.0)
    run(dense, placed.astype(np.float32).astype(np.float64), y)
    found, _ = weights_by_id(tmp_path / "m.h5", d)
    np.testing.assert_allclose(found, prior + dense.w, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
def test_what_a_save_holds_is_not_ahead_of_what_was_learned(tmp_path):
    """Pieces to come have had their features found; those are in no model before their rows are learned from."""
    X, y = random_rows(n=6_000, d=12_000, density=0.001, seed=6)
    text, saved = text_of(tmp_path, X, y), []
    lines = text.read_text().splitlines()

    def save(stream):
        saved.append((stream.rows, stream.features.n_features, set(stream.features.ids().tolist())))

    stream = StreamPass(StreamSettings("pa1", {}, save_every=300, n_jobs=3, memory=SMALL_PIECES), on_save=save)
    assert stream.run([str(text)])
    assert len(saved) == 20
    counts = [n for _, n, _ in saved]
    assert counts == sorted(counts)
    assert counts[0] < counts[10] < counts[-1]
    for rows, n, ids in saved:  # a piece has some 230 rows
        seen = {int(entry.split(":")[0]) for line in lines[:rows] for entry in line.split()[1:]}
        further = {int(entry.split(":")[0]) for line in lines[: rows + 260] for entry in line.split()[1:]}
        assert seen <= ids <= further
        assert n == len(ids)


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("how", ["prior", "start_from"])
@pytest.mark.parametrize("wrong", [-1, 1 << BITS, 1 << 40])
def test_features_of_a_damaged_model_are_no_hashes(tmp_path, numbered, on, how, wrong):
    """They would be looked up beside the tables."""
    text = text_of(tmp_path, *random_rows(n=40, d=30, seed=7))
    numbered(True)
    stream, _ = learned(text, "pa1", bits=BITS)
    ids = stream.features.ids().astype(np.int64)
    ids[3] = wrong
    stream.features.ids = lambda: ids
    save_stream(tmp_path / "m.h5", stream)
    numbered(on)
    name, asked = "" if how == "start_from" else "pa1", {"bits": BITS, how: tmp_path / "m.h5"}
    refused("m.h5: has features that are no hashes of 13 bits; it is damaged", learned, text, name, **asked)

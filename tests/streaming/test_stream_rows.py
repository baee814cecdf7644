"""Weights of a stream's rows by class, labels asked for, and the ranking of its predictions against the definitions."""

import json
import re
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import log_loss, roc_auc_score
from support.refused import refused
from support.stream_cases import learned, single, text_of
from support.training_cases import make_store, random_rows, train

from blocksvm.base.errors import InputError
from blocksvm.model.measures import RankCurve
from blocksvm.model.model_file import describe_model, load_model
from blocksvm.online.loops import LOSS_SUM, MISTAKES, NO_LABEL
from blocksvm.streaming.ranking_kernels import rank_rows
from blocksvm.streaming.stream_learner import RANKING_BYTES, VALUE_BITS
from blocksvm.streaming.stream_saving import save_stream


@pytest.mark.parametrize("labels", [(-1.0, 1.0), (0.0, 1.0, 2.0)])
def test_classes_weigh_as_in_training(tmp_path, labels):
    X, y = random_rows(n=200, d=30, seed=1)
    X, y = single(X), np.array(labels)[np.arange(200) % len(labels)]
    text, weights = text_of(tmp_path, X, y), {labels[0]: 0.25, labels[-1]: 3.0}
    stream, _ = learned(text, "arow", class_weight=weights, labels=labels)
    store = make_store(tmp_path, X, y, name="store", keep_order=True)
    run = train(store, solver="arow", order="stored", class_weight=weights)
    tally = run.loop.state["tally"]
    assert stream.leading.state.tally[MISTAKES] == tally[MISTAKES]
    assert stream.leading.state.tally[LOSS_SUM] == pytest.approx(tally[LOSS_SUM], rel=1e-9)
    plain, _ = learned(text, "arow", labels=labels)
    assert plain.leading.state.tally[LOSS_SUM] != pytest.approx(tally[LOSS_SUM], rel=1e-3)
    # the weights are in the model, and hold where a stream goes on
    save_stream(tmp_path / "m.h5", stream)
    twice, _ = learned(text, "", start_from=tmp_path / "m.h5")
    again = train(store, solver="arow", order="stored", class_weight=weights, max_outer=2)
    assert twice.leading.state.tally[LOSS_SUM] == pytest.approx(again.loop.state["tally"][LOSS_SUM], rel=1e-9)


def test_labels_may_be_spelled_as_on_the_command_line(tmp_path):
    text = text_of(tmp_path, *random_rows(n=10, d=5, seed=4))
    found = [learned(text, "pa1", labels=labels)[0] for labels in ("-1,1", (-1.0, 1.0))]
    assert found[0].targets.labels == found[1].targets.labels


def vw_text(folder, n, unlabelled, seed=5):
    """(path, y): rows in Vowpal Wabbit's format, of which those numbered have no label."""
    X, y = random_rows(n=n, d=12, seed=seed)
    parted = (line.partition(" ") for line in text_of(folder, X, y).read_text().splitlines())
    lines = [f"{'' if k in unlabelled else label + ' '}| {rest}\n" for k, (label, _, rest) in enumerate(parted)]
    path = folder / "rows.vw"
    path.write_text("".join(lines))
    return path, y


def test_area_and_logarithmic_loss_are_those_of_the_predictions(tmp_path):
    """Also where some rows have no label, and whatever the pieces and saves."""
    text, y = vw_text(tmp_path, 303, {40, 41, 42}, seed=2)
    y = np.delete(y, [40, 41, 42])
    scores = []
    _, reports = learned(text, "pa1", save_every=50, format="vw", predicted=scores)
    values = np.delete(np.concatenate(scores), [40, 41, 42])
    for report in reports[4:]:
        z, t = values[: report.rows], y[: report.rows]
        assert report.auc == pytest.approx(roc_auc_score(t, z), abs=0.01)
        assert report.log_loss == pytest.approx(log_loss(t, 1.0 / (1.0 + np.exp(-z))), rel=1e-9)
    assert (reports[0].rows, reports[0].auc) == (1, None)


def test_they_are_told_of_two_classes_alone(tmp_path, succeeds):
    X, y = random_rows(n=60, d=8, seed=3)
    _, out, err = succeeds("stream", text_of(tmp_path, X, y), "--learner", "pa1")
    assert ", auc 0." in out
    heading = next(line for line in err.splitlines() if "average" in line)
    assert heading.split() == ["average", "since", "row", "mistakes", "auc", "log", "loss", "label", "predicted"]
    assert all(len(line) <= 80 for line in err.splitlines() if line.startswith("  "))
    _, reports = learned(text_of(tmp_path, X, np.arange(60) % 3.0), "pa1", labels=(0.0, 1.0, 2.0))
    assert reports[-1].auc is None


def test_rows_without_a_label_are_asked_for_by_their_margin(tmp_path, succeeds):
    unlabelled = set(range(100, 1100)) - set(range(0, 1100, 7))
    path, _ = vw_text(tmp_path, 1100, unlabelled)
    ask, predicted = tmp_path / "ask.txt", tmp_path / "p.txt"
    arguments = (path, "--learner", "pa1", "-C", 0.1, "--query", 0.3, "--ask", ask, "--predictions", predicted,
                 "--scores")  # fmt: skip
    out = succeeds("stream", *arguments, "--scores").out
    numbers = [int(line.removeprefix(f"{path}:")) - 1 for line in ask.read_text().splitlines()]
    assert f"{len(numbers):,} labels are asked for in {ask}" in out
    assert set(numbers) <= unlabelled and numbers == sorted(set(numbers))
    margins = np.abs(np.loadtxt(predicted))[sorted(unlabelled)]
    chances = 0.3 / (0.3 + margins)
    assert abs(len(numbers) - chances.sum()) < 4.5 * np.sqrt((chances * (1 - chances)).sum())
    # what is learned does not depend on it, nor on the pieces that text comes in
    succeeds("stream", *arguments[:6], 0.3, "--ask", ask, "--overwrite", "--threads", 2)
    assert [int(line.removeprefix(f"{path}:")) - 1 for line in ask.read_text().splitlines()] == numbers


def test_an_ordinary_model_goes_on_by_asking(tmp_path, succeeds):
    """``--from`` takes --query of its own, whatever the model was learned with; rows without a label are ?."""
    X, y = random_rows(n=600, d=12, seed=8)
    text = text_of(tmp_path, X, y).read_text().splitlines(keepends=True)
    first, more, plain = (tmp_path / name for name in ("first.svm", "more.svm", "plain.h5"))
    first.write_text("".join(text[:200]))
    unlabelled = set(range(0, 400, 3))
    pairs = [line.strip().partition(" ")[2] for line in text[200:]]
    rows = [f"? {pairs[k]}\n" if k in unlabelled else line for k, line in enumerate(text[200:])]
    more.write_text("".join(rows))
    how = ("--bits", 8, "--overwrite", "--quiet")
    succeeds("stream", first, "--learner", "pa1", "-C", 0.1, "--model", plain, *how)

    def goes_on(model, query, out):
        ask = tmp_path / f"{out}.txt"
        succeeds("stream", more, "--from", model, "--query", query, "--ask", ask, "--model",
            tmp_path / f"{out}.h5", "--log", tmp_path / f"{out}.jsonl", *how)  # fmt: skip
        asked = json.loads((tmp_path / f"{out}.jsonl").read_text().splitlines()[-1])["asked"]
        places = [int(line.removeprefix(f"{more}:")) - 1 for line in ask.read_text().splitlines()]
        assert set(places) <= unlabelled
        return load_model(tmp_path / f"{out}.h5"), asked, places

    always, asked, places = goes_on(plain, 1e40, "always")
    assert asked == 600 - len(unlabelled) and set(places) == unlabelled
    labelled = [line for k, line in enumerate(text[200:]) if k not in unlabelled]
    first.write_text("".join(labelled))
    succeeds("stream", first, "--from", plain, "--model", tmp_path / "u.h5", *how)
    assert np.array_equal(always.weights, load_model(tmp_path / "u.h5").weights)  # as if it had never been asked
    some, asked, places = goes_on(plain, 0.05, "some")
    assert 200 < asked < 600 - len(unlabelled) and 0 < len(places) < len(unlabelled)
    assert describe_model(tmp_path / "some.h5").method.settings["query"] == 0.05
    # a model learned with another B goes on with this one, and by its own where none is given
    again, _, _ = goes_on(tmp_path / "some.h5", 1e40, "again")
    assert describe_model(tmp_path / "again.h5").method.settings["query"] == 1e40
    succeeds("stream", more, "--from", tmp_path / "some.h5", "--model", tmp_path / "own.h5", *how)
    assert describe_model(tmp_path / "own.h5").method.settings["query"] == 0.05
    # and a store likewise
    store = make_store(tmp_path, X, y, keep_order=True)
    succeeds("train", store, tmp_path / "t.h5", "--learner", "pa1", "-C", 0.1)
    succeeds("train", store, tmp_path / "t2.h5", "--from", tmp_path / "t.h5", "--query", 0.3)
    assert describe_model(tmp_path / "t2.h5").method.settings["query"] == 0.3


def ranked(*parts):
    """(rows, area, mean logarithmic loss, counts) of parts (values, y, order)."""
    curve, rows, total = RankCurve(VALUE_BITS), 0, 0.0
    for values, y, order in parts:
        n, loss = rank_rows(np.array(values), np.array(y, np.int16), order, NO_LABEL, VALUE_BITS, curve.counts)
        rows, total = rows + n, total + loss
    area = curve.area()
    return rows, area and area[0], total / rows, curve.counts


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e3, 1e30])
def test_it_is_what_the_definitions_say(scale):
    rng = np.random.default_rng(1)
    y = np.where(rng.random(3_000) < 0.2, 1, -1).astype(np.int16)
    values = scale * (rng.standard_normal(3_000) + 0.7 * (y > 0))
    parts = np.array_split(np.arange(3_000, dtype=np.int32), [1, 5, 700])
    rows, area, loss, _ = ranked(*((values[part], y, part) for part in parts))
    assert rows == 3_000
    assert area == pytest.approx(roc_auc_score(y, values), abs=2e-3)
    assert loss == pytest.approx(np.logaddexp(0.0, -y * values).mean(), rel=1e-9)


def test_ties_one_class_and_rows_without_a_label():
    in_turn = np.arange(4, dtype=np.int32)
    both = ([0.5, 0.5], [1, 1], in_turn[:2])
    assert ranked(both)[1] is None
    # of 9 pairs: 2 + 2 below 0.5 twice, a tie twice; at 0 one tie
    area = ranked(both, ([0.5, 0.25, -0.0, 0.0], [-1, -1, 1, -1], in_turn))[1]
    assert area == pytest.approx((2 * (2 + 0.5) + 0.5) / 9)
    found = ranked(([-2.0, 3.0, -1e300, 0.5], [1, NO_LABEL, -1, 1], np.array([3, 2, 1, 0], np.int32)))
    alone = ranked(([-2.0, 3.0, 0.5], [1, -1, 1], in_turn[:3]))
    assert found[:3] == alone[:3]
    np.testing.assert_array_equal(found[3], alone[3])


def test_its_memory_is_counted(tmp_path):
    """One curve a learner of two classes, and what finding an area takes; the least memory that is told is enough."""
    text = text_of(tmp_path, scipy.sparse.eye(4, format="csr"), [1, -1, 1, -1])
    for names, curves in (("pa1", 1), ("pa1,arow,ogd", 3)):
        stream, _ = learned(text, names, memory=64_000_000)
        plan = stream.plan()
        taken = sum(learner.curve.counts.nbytes for learner in stream.learners)
        assert taken == curves * RANKING_BYTES
        tracemalloc.start()
        stream.learners[0].curve.area()
        assert plan["ranking"] >= taken + tracemalloc.get_traced_memory()[1] >= taken
        tracemalloc.stop()
        assert sum(plan.values()) == 64_000_000
        with pytest.raises(InputError, match="too small for a stream; give ") as error:
            learned(text, names, memory=4_000_000)
        least = int(re.search(r"give memory=([\d_]+) or more", str(error.value))[1])
        learned(text, names, memory=least)
        refused("too small", learned, text, names, memory=least - 1_000_000)
    assert "ranking" not in learned(text, "pa1", targets="numbers", memory=64_000_000)[0].plan()

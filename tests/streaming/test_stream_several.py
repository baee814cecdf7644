"""Several learners over one reading of the text: each is what it is alone, and the best one is saved."""

import json

import numpy as np
import pytest
from support.stream_cases import growing_rows, learned, text_of, weights_by_id
from support.training_cases import random_rows

from blocksvm.base.errors import InputError
from blocksvm.commands.stream import main
from blocksvm.streaming.stream_saving import save_stream


@pytest.mark.parametrize("bits", [None, 6])
@pytest.mark.parametrize("labels", [None, (0.0, 1.0, 2.0)])
def test_each_learner_is_what_it_is_alone(tmp_path, bits, labels):
    X, y = growing_rows(seed=1)
    y = y if labels is None else np.arange(300) % 3.0
    text = text_of(tmp_path, X, y)
    options = {"bits": bits, "labels": labels, "bias": 1.0}
    several, reports = learned(text, "pa1,arow,ogd", settings={"C": 0.3, "step": 0.2}, **options)
    assert [report.rows for report in reports] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    own = {"pa1": {"C": 0.3}, "arow": {}, "ogd": {"step": 0.2}}
    for learner in several.learners:
        alone, _ = learned(text, learner.name, settings=own[learner.name], **options)
        assert learner.method == alone.leading.method
        assert np.array_equal(learner.state.columns, alone.leading.state.columns)
        assert np.array_equal(learner.state.tally, alone.leading.state.tally)
        last, report = reports[-1].learners[learner.name], alone.report()
        assert (last["mistakes"], last["cumulative_loss"]) == (report.mistakes, report.cumulative_loss)
    best = min(several.learners, key=lambda learner: reports[-1].learners[learner.name]["mistakes"])
    assert several.leading is best
    assert reports[-1].mistakes == reports[-1].learners[best.name]["mistakes"]
    save_stream(tmp_path / "several.h5", several)
    alone, _ = learned(text, best.name, settings=own[best.name], **options)
    save_stream(tmp_path / "alone.h5", alone)
    found, model = weights_by_id(tmp_path / "several.h5", 1 << 14)
    expected, _ = weights_by_id(tmp_path / "alone.h5", 1 << 14)
    assert np.array_equal(found, expected)
    assert model.meta["method"]["name"] == best.name


def test_of_numbers_the_least_squared_error_leads(tmp_path):
    X, y = random_rows(n=200, d=20, seed=2)
    text = text_of(tmp_path, X, X @ np.linspace(-1.0, 1.0, 20))
    several, reports = learned(text, "pa,ogd", settings={"step": 1e-9}, targets="numbers")
    errors = {name: told["squared_errors"] for name, told in reports[-1].learners.items()}
    assert several.leading.name == "pa"
    assert errors["pa"] < 0.5 * errors["ogd"]


def test_the_command_shows_one_table(tmp_path, succeeds):
    text = text_of(tmp_path, *random_rows(n=100, d=10, seed=3))
    log, model = tmp_path / "l.jsonl", tmp_path / "m.h5"
    arguments = (text, "--learner", "pa1,ogd", "-C", 0.5, "--step", 0.1, "--log", log, "--model", model)
    _, out, err = succeeds(main, *arguments, "--save-every", 30)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert events[0]["learners"]["pa1"]["C"] == 0.5
    assert events[0]["learners"]["ogd"]["step"] == 0.1
    last = events[-1]["learners"]
    lines = err.splitlines()
    at = next(k for k, line in enumerate(lines) if line.split() == ["row", "pa1", "ogd"])
    assert lines[at + 8].split() == ["100", *(f"{told['mistakes'] / 100:.3%}" for told in last.values())]
    best = min(last, key=lambda name: last[name]["mistakes"])
    assert f"{best} leads, average loss" in out
    out = succeeds(main, text, "--continue-from", model, "--model", model, "--overwrite").out
    assert "of all 200 rows" in out


@pytest.mark.parametrize(
    ("learner", "options", "what"),
    [("pa1,pa1", {}, "names a learner twice"), ("pa1,nobody", {}, "nobody: no such learner"),
     ("pa1,arow", {"settings": {"step": 1.0}}, "step: none of the learners pa1, arow has it"),
     ("pa1,ogd", {"settings": {"step": -1.0}}, "step=-1: must be above 0"),
     ("pa1,arow", {"targets": "numbers"}, "arow learns classes alone"),
     ("pa1,arow", {"continue_from": "m.h5"}, "continue_from: is for one learner; pa1,arow are several")],
)  # fmt: skip
def test_what_cannot_be_is_refused(tmp_path, learner, options, what):
    text = text_of(tmp_path, *random_rows(n=10, d=5, seed=4))
    with pytest.raises(InputError, match=what):
        learned(text, learner, **options)


def test_the_default_needs_no_name(tmp_path, succeeds):
    text = text_of(tmp_path, *random_rows(n=50, d=10, seed=5))
    _, out, err = succeeds(main, text, "--predictions", "-")
    assert ": auto; a table of ids that grows" in err
    assert len(out.splitlines()) == 50

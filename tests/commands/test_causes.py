"""A run that a limit has ended says why, and what to do: to a person, to a script, and in its trace."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse

import blocksvm
from blocksvm.commands import predict, split, train


def table(n=200, scale=(1.0, 1.0, 1.0), seed=0):
    """(X, y): raw numbers, as of a table, whose columns are of these sizes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] + rng.normal(size=n) > 0, 1.0, -1.0)
    return X * scale, y


@pytest.mark.parametrize(
    ("scale", "settings", "cause", "advice"),
    [
        (
            (1.0, 1e3, 1e6),
            {"max_outer": 3},
            "scale",
            "very different size; scale them, by scale=max-abs of split, or rows, by normalize=l2",
        ),
        ((0.3, 0.3, 0.3), {"max_outer": 2, "C": 1e7}, "large C", "since C is large (1e+07); lower it"),
        ((0.3, 0.3, 0.3), {"max_outer": 1, "schedule": "1", "tol": 1e-10}, "limit", "raise max_outer"),
        ((0.3, 0.3, 0.3), {"max_passes": 1, "schedule": "1", "tol": 1e-10}, "limit", "raise max_passes"),
        ((1.0, 1.0, 1.0), {"max_outer": 100}, None, None),
        ((1.0, 1e3, 1e6), {"solver": "pegasos", "max_outer": 2}, None, None),  # without a dual nothing is missed
        ((1.0, 1e3, 1e6), {"learner": "pa1", "max_outer": 1}, None, None),
    ],
)
def test_a_run_that_did_not_converge_tells_why(scale, settings, cause, advice):
    events = []
    fitted = blocksvm.fit(*table(scale=scale), on_event=events.append, **settings)
    end = events[-1]
    assert (end["event"], end["status"], end["cause"]) == ("end", fitted.status, cause)
    assert fitted.result.cause == cause
    assert (end["advice"] is None) == (advice is None)
    if advice is not None:
        assert fitted.status.startswith("max-")
        assert advice in end["advice"] and "not converged: the gap" in end["advice"]


def test_the_last_lines_json_and_trace_of_train(tmp_path, run_in_process):
    X, y = table(scale=(1.0, 1e3, 1e6))
    lines = [f"{t:g},{','.join(f'{v:g}' for v in row)}" for t, row in zip(y, X, strict=True)]
    (tmp_path / "raw.csv").write_text("\n".join(["label,a,b,c", *lines]) + "\n")
    assert run_in_process(split.main, tmp_path / "raw.csv", tmp_path / "s.h5").code == 0
    common = (tmp_path / "s.h5", tmp_path / "m.h5", "--max-outer", "3", "--overwrite", "--log", tmp_path / "t.jsonl")
    done = run_in_process(train.main, *common)
    assert done.code == 0
    assert "not converged: the gap" in done.out and "--scale max-abs of split" in done.out and "lower -C" in done.out
    done = run_in_process(train.main, *common, "--json")
    told = json.loads(done.out)
    assert (told["status"], told["cause"]) == ("max-outer", "scale")
    assert "--normalize l2" in told["advice"]
    end = json.loads((tmp_path / "t.jsonl").read_text().splitlines()[-1])
    assert (end["cause"], end["advice"]) == ("scale", told["advice"])
    scaled = ("--normalize", "l2", "--overwrite")
    assert run_in_process(split.main, tmp_path / "raw.csv", tmp_path / "s.h5", *scaled).code == 0
    done = run_in_process(train.main, *common[:2], "--overwrite", "--json")
    assert json.loads(done.out)["cause"] is None


def test_what_cannot_be_read_is_told_as_that(run_in_process):
    import errno

    for number, advice in (
        (errno.EACCES, "allow it, or choose another place"),
        (errno.EROFS, "choose another place"),
        (errno.ENOSPC, "free some space or choose another place"),
    ):

        def main(arguments, number=number):
            raise OSError(number, "no", "rows.svm")

        done = run_in_process(main)
        assert (done.code, advice in done.last_line) == (2, True)


def test_a_model_given_as_rows(tmp_path, run_in_process):
    blocksvm.fit(scipy.sparse.identity(4, format="csr"), [1, -1, 1, -1]).save(tmp_path / "m.h5")
    done = run_in_process(predict.main, tmp_path / "m.h5", tmp_path / "m.h5")
    assert done.code == 2
    assert done.last_line.endswith("m.h5: is a model, and rows are predicted; give text, or a store")

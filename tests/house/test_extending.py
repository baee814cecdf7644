"""docs/extending.md and extending-data.md: what they show works as it stands there, from files outside the package."""

import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401 (h5py reads Blosc through it)
import numpy as np
import pytest
from scipy.optimize import minimize
from support.paths import ROOT
from support.training_cases import make_store, random_rows

from blocksvm import fit, load_model, open_store

X, Y = random_rows(n=150, d=20, seed=8, dtype=np.float32)
TEXT = "".join((ROOT / "docs" / name).read_text() for name in ("extending.md", "extending-data.md"))
BLOCKS = re.findall(r"```sh\n(blocksvm .*?)```", TEXT, re.DOTALL)
COMMANDS = [line.split() for block in BLOCKS for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The page's files, and a store of rows."""
    folder = tmp_path_factory.mktemp("extending")
    for name, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", TEXT, re.DOTALL):
        (folder / name).write_text(code)
    names = {"first_learner", "my_format", "my_loss", "my_schedule", "my_task", "numpy_learner"}
    assert {path.stem for path in folder.iterdir()} == names
    make_store(folder, X, Y, name="store")
    (folder / "rows.svm").write_text((folder / "store.svm").read_text())
    return folder


def run(folder, words: list[str], status: int = 0) -> str:
    """What a command prints (of one that ends otherwise, its error) in the folder of the page's files, as a user there
    would type it."""
    line, env = [Path(sys.executable).with_name("blocksvm"), *words[1:]], os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def command_with(word: str) -> list[str]:
    (found,) = [words for words in COMMANDS if word in " ".join(words)]
    return found


def weights_by_column(path, d=20) -> np.ndarray:
    with h5py.File(path) as file:
        ids, w = file["features/ids"][()], file["weights"][()]
    found = np.zeros(d)
    found[ids - 1] = w[:-1]  # ids were written from 1
    return found


@pytest.mark.process
@pytest.mark.parametrize("module", ["numpy_learner", "first_learner"])
def test_the_learner_is_its_rule(folder, module):
    run(folder, [*command_with(f"{module}:MINE --step 0.1 --max-outer 3"), "--overwrite", "--order", "stored"])
    learned = weights_by_column(folder / "model.h5")
    with h5py.File(folder / "store.h5") as file:
        order = file["rows"]["source"]
    w = np.zeros(20)
    for _ in range(3):
        for i in order:
            x = X[i].toarray().ravel()
            if Y[i] * (w @ x) <= 0.5:
                w += 0.1 * Y[i] * x
    np.testing.assert_allclose(learned, w, rtol=1e-10, atol=1e-12)
    run(folder, [*command_with(f"{module}:MINE --step 0.1 --average"), "--overwrite"])


@pytest.mark.process
def test_the_schedule_makes_more_passes_than_one_and_certifies(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    events = []
    with open_store(folder / "store.h5") as store:
        fitted = fit(store, schedule="my_schedule:DIMINISHING", working_set="none", on_event=events.append)
    monkeypatch.delitem(sys.modules, "my_schedule")
    run(folder, command_with("my_schedule:DIMINISHING"))
    assert fitted.status == "converged" and fitted.certificate.rel_gap <= 1e-3
    assert max(event["inner_passes"] / event["blocks"] for event in events if event["event"] == "outer") > 1


@pytest.mark.process
def test_the_loss_is_certified_and_minimal(folder):
    run(folder, [*command_with("SMOOTH_HINGE -C 0.5"), "--overwrite", "--tol", "1e-7", "--schedule", "5"])
    w = weights_by_column(folder / "model.h5")

    def primal(w):
        m = Y * (X @ w)
        loss = np.where(m >= 1, 0.0, np.where(m <= 0, 0.5 - m, 0.5 * (1 - m) ** 2))
        return 0.5 * w @ w + 0.5 * loss.sum()

    best = minimize(primal, np.zeros(20), method="BFGS", options={"gtol": 1e-9}).fun
    assert primal(w) == pytest.approx(best, rel=1e-6)


@pytest.mark.process
def test_the_loss_predicts_probabilities_and_is_followed_online(folder):
    run(folder, [*command_with("SMOOTH_HINGE -C 0.5"), "--overwrite"])
    found = np.array([line.split() for line in run(folder, command_with("--probabilities")).splitlines()], float)
    assert found.shape == (150, 2) and np.ptp(found[:, 1]) > 0.5
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    run(folder, command_with("ogd --loss my_loss:SMOOTH_HINGE"))


@pytest.mark.process
def test_the_format_is_split_and_predicted(folder):
    lines = [f"{i % 2} {'milk' if i % 2 else 'tea'} item{i % 7} item{i % 5}" for i in range(60)]
    (folder / "baskets.txt").write_text("\n".join(lines) + "\n")
    (folder / "new-baskets.txt").write_text("1 milk item3\n0 tea item1 item2\n")
    split, predict = command_with("baskets.txt store.h5"), command_with("new-baskets.txt")
    run(folder, [*split[:3], "baskets.h5", *split[4:]])
    run(folder, ["blocksvm", "train", "baskets.h5", "baskets-model.h5", "-C", "10"])
    assert load_model(folder / "baskets-model.h5").recipe.format == "my_format:BASKETS"
    run(folder, [*predict[:2], "baskets-model.h5", *predict[3:]])
    assert (folder / "predictions.txt").read_text() == "1\n0\n"
    (folder / "bad.txt").write_text("1 milk\nx tea\n")
    stream = ["blocksvm", "stream", "bad.txt", "--learner", "pa1", "--format", "my_format:BASKETS", "--skip-bad"]
    assert "lines skipped: 1" in run(folder, stream)
    assert "bad.txt:2: 'x' is not a label" in run(folder, [*split[:2], "bad.txt", "bad.h5", *split[4:]], 2)


@pytest.mark.process
def test_the_task(folder):
    """A learner of the package learns it; its code runs only where the model's user names it."""
    lines = [f"{'warm' if k % 2 else 'cold'} day{k % 7} {'sun' if k % 2 else 'snow'}" for k in range(40)]
    (folder / "topics.txt").write_text("\n".join(lines) + "\n")
    train, evaluate = (words for words in COMMANDS if "my_task:TOPICS" in words)
    run(folder, train)
    assert run(folder, evaluate).split() == ["accuracy", "1.0000"]
    advice = "names my_task:TOPICS as its task, whose code would run; if you trust it, give --task my_task:TOPICS"
    assert advice in run(folder, evaluate[:-2], 2)

"""The examples in the docstrings of what Python users call run, and so does the demo."""

import doctest
import re
import subprocess
import sys

import pytest
import scipy
from support.paths import ROOT

import blocksvm
from blocksvm import estimators

OFFERED = {name: getattr(blocksvm, name) for name in blocksvm.__all__} | {"LinearSVC": estimators.LinearSVC}
EXAMPLES = [
    test
    for name, offered in OFFERED.items()
    for test in doctest.DocTestFinder().find(offered, name, globs={"blocksvm": blocksvm, "scipy": scipy})
    if test.examples
]


def test_what_most_users_call_has_an_example():
    assert {"fit", "write_store", "open_store", "Stream", "Model", "LinearSVC"} <= {test.name for test in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda test: test.name)
def test_an_example_shows_what_it_prints(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.svm").write_text("+1 1:1 3:0.5\n-1 2:1 4:0.5\n" * 30)
    blocksvm.write_store("rows.svm", "rows.h5")
    with blocksvm.open_store("rows.h5") as store:
        blocksvm.fit(store).save("model.h5")
    told = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    assert runner.run(example, out=told.append).failed == 0, "".join(told)


@pytest.mark.process
def test_small_demo(tmp_path):
    folder = tmp_path / "demo"
    done = subprocess.run([sys.executable, ROOT / "tools/demo.py", "--size", "small", "--folder", str(folder)],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (folder / "model.h5").exists()
    accuracy = float(re.search(r"accuracy ([0-9.]+) \(", done.stdout)[1])
    majority = float(re.search(r"would give ([0-9.]+)", done.stdout)[1])
    assert accuracy > majority
    gap = float(re.search(r"certified relative gap ([0-9.e+-]+)", done.stdout)[1])
    assert gap <= 1e-3
    assert "YOURS.svm" in done.stdout and "the largest weights" in done.stdout


@pytest.mark.process
@pytest.mark.slow
def test_cluster_demo(tmp_path):
    """The run that lost a worker ends with the same bits."""
    line = [sys.executable, ROOT / "tools/cluster_demo.py", "--rows", "4000", "--folder", str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "is killed" in done.stdout and done.stdout.endswith("the two models have the same bits\n")

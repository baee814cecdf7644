"""The examples in the docstrings of what Python users call run, in a folder with rows, their store and a model."""

import doctest

import pytest
import scipy

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

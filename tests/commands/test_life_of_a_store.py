"""Any order of split, append, train, resume and predict, beside a plain dictionary and the optimum of its rows."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import reference
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.file_cases import unheard
from support.stored_rows import read_with_h5py

from blocksvm.model.model_file import describe_model, load_model

IDS = [0, 1, 2, 3, 7, 40, 2**40]
ENOUGH = "--max-outer 100000"  # rows that hardly differ took 1,200 passes of plain coordinate descent
LABELS = (-1, 1)
values = st.integers(-16, 16).filter(bool).map(lambda k: k / 8)  # a float32 holds them
row = st.tuples(st.sampled_from(LABELS), st.dictionaries(st.sampled_from(IDS), values, max_size=5))
some_rows = st.lists(row, min_size=1, max_size=12)


def text_of(rows) -> str:
    return "".join(" ".join([str(label), *(f"{j}:{x[j]}" for j in sorted(x))]) + "\n" for label, x in rows)


class LifeOfAStore(RuleBasedStateMachine):
    """rows: source number -> (label, {id: value}) in the store; trained: the settings of ``model.h5``, or None."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="life-"))
        self.rows, self.n_read, self.n_written, self.trained = {}, 0, 0, None

    def teardown(self):
        shutil.rmtree(self.folder)

    def run(self, words: str) -> None:
        unheard(words, here=self.folder)

    def write(self, rows) -> None:
        """Rows that a command reads next, in ``rows.svm``: never the very same file twice."""
        self.n_written += 1
        (self.folder / "rows.svm").write_text(text_of(rows) + f"# {self.n_written}\n")

    def add(self, rows) -> None:
        self.rows |= dict(enumerate(rows, self.n_read))
        self.n_read += len(rows)

    def dense(self, rows) -> tuple[np.ndarray, np.ndarray]:
        """(X (n, len(IDS)), y) of some rows."""
        X = np.array([[x.get(j, 0.0) for j in IDS] for _, x in rows]).reshape(len(rows), len(IDS))
        return X, np.array([label for label, _ in rows], float)

    def weights(self, name: str = "model") -> np.ndarray:
        """(len(IDS),) of a model, 0 for features that it does not know."""
        model = load_model(self.folder / f"{name}.h5")
        w = np.zeros(len(IDS))
        w[[IDS.index(j) for j in model.feature_ids.tolist()]] = model.weights
        return w

    def both_labels(self) -> bool:
        return {label for label, _ in self.rows.values()} == set(LABELS) and any(x for _, x in self.rows.values())

    @initialize(rows=some_rows, order=st.sampled_from(["", "--keep-order"]), seed=st.integers(0, 3))
    def split(self, rows, order, seed):
        self.write(rows)
        self.run(f"split {{here}}/rows.svm {{here}}/s.h5 --quiet --seed {seed} {order}")
        self.add(rows)

    @rule(rows=some_rows)
    def append(self, rows):
        self.write(rows)
        self.run("split {here}/rows.svm {here}/s.h5 --append --quiet")
        self.add(rows)

    @precondition(lambda self: self.both_labels())
    @rule(C=st.sampled_from([0.1, 1.0, 10.0]), loss=st.sampled_from(["hinge", "squared-hinge"]), warm=st.booleans())
    def train(self, C, loss, warm):
        """At once or from the earlier model; that model may be of the store as it was before."""
        line = f"train {{here}}/s.h5 {{here}}/new.h5 --loss {loss} -C {C} --tol 1e-6 --quiet --overwrite {ENOUGH}"
        self.run(line + (" --from {here}/model.h5" if warm and self.trained else ""))
        (self.folder / "new.h5").replace(self.folder / "model.h5")
        self.trained = {"C": C, "loss": loss}
        self.check_certificate()

    @precondition(lambda self: self.both_labels())
    @rule(C=st.sampled_from([0.3, 3.0]), outer=st.integers(1, 3))
    def stop_and_resume(self, C, outer):
        """The bits of the run that was not stopped."""
        line = f"train {{here}}/s.h5 {{here}}/{{name}}.h5 -C {C} --tol 1e-6 --quiet --overwrite"
        (self.folder / "c").unlink(missing_ok=True)
        for name, more in (("model", ENOUGH), ("part", f"--max-outer {outer} --checkpoint {{here}}/c"),
                           ("part", f"{ENOUGH} --checkpoint {{here}}/c --resume")):  # fmt: skip
            self.run(f"{line.replace('{name}', name)} {more}")
        np.testing.assert_array_equal(self.weights("part"), self.weights("model"))
        self.trained = {"C": C, "loss": "hinge"}
        self.check_certificate()

    def check_certificate(self):
        X, y = self.dense(list(self.rows.values()))
        told, loss = describe_model(self.folder / "model.h5").certificate, self.trained["loss"]
        costs = np.full(len(y), self.trained["C"])
        primal = reference.primal(X, y, self.weights(), costs, loss)
        assert told.primal == pytest.approx(primal, rel=1e-9)
        least = reference.optimum(X, y, costs, loss)[1]
        assert told.dual <= least * (1 + 1e-9)
        assert primal - told.dual <= 1e-6 * primal * (1 + 1e-9)

    @precondition(lambda self: self.trained)
    @rule(rows=st.none() | some_rows)
    def predict(self, rows):
        """Of the store, in the order in which its rows were read, or of other text."""
        known = [self.rows[number] for number in sorted(self.rows)] if rows is None else rows
        source = "s.h5" if rows is None else "rows.svm"
        self.write(known)
        for name in ("--scores", ""):
            self.run(f"predict {{here}}/model.h5 {{here}}/{source} {{here}}/out{name}.txt {name} --overwrite --quiet")
        scores = self.dense(known)[0] @ self.weights()
        written = np.loadtxt(self.folder / "out--scores.txt", ndmin=1)
        np.testing.assert_allclose(written, scores, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(np.loadtxt(self.folder / "out.txt", ndmin=1), np.where(written > 0, 1, -1))

    @invariant()
    def the_store_has_these_rows(self):
        if self.n_read:
            stored = {one.source: one.triple() for one in read_with_h5py(self.folder / "s.h5")[0]}
            assert stored == {
                number: (label, sorted(x), [x[j] for j in sorted(x)]) for number, (label, x) in self.rows.items()
            }


TestLifeOfAStore = pytest.mark.slow(LifeOfAStore.TestCase)
TestLifeOfAStore.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)

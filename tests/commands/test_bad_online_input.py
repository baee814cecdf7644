"""Wrong input of online and structured learners: one sentence, exit 2, nothing written."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from support.training_cases import make_store

from blocksvm import stream, structure
from blocksvm.structured.sequences import Labelling
from blocksvm.structured.structure import CheckedStructure
from blocksvm.train import main as train_main


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Stores NAME.h5 and their text NAME.svm: of four classes, of one, of words as labels, of sets; tags."""
    folder = tmp_path_factory.mktemp("wrong")
    X, y = np.random.default_rng(0).standard_normal((24, 3)).astype(np.float32), np.arange(24) % 4 + 1.0
    make_store(folder, scipy.sparse.csr_matrix(X), y, name="four")
    make_store(folder, scipy.sparse.csr_matrix(X), np.ones(24), name="one")
    words = "label,x\n" + "".join(f"{'ab'[i % 2]},{i}\n" for i in range(8))
    make_store(folder, words, name="words", format="csv")
    sets = "".join(f"{i % 2 + 1},{i % 2 + 2} 1:{i + 1}\n" for i in range(8))
    make_store(folder, sets, name="sets", format="multilabel")
    (folder / "tokens").write_text("a X\nb Y\n\na X\n\n")
    return folder


@pytest.fixture
def refused(files, tmp_path, refusal):
    """refused(what, main, *words): the command ends in one line with ``what``, exit 2; {files}: their folder."""

    def run(what, main, *words):
        assert what in refusal(main, *(word.format(files=files, new=tmp_path / "new.h5") for word in words))
        assert list(tmp_path.iterdir()) == []

    return run


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("all rows have the label 1", (train_main, "{files}/one.h5", "{new}", "--learner", "pa1")),
        ("all rows have the label 1; training needs rows of two classes", (train_main, "{files}/one.h5", "{new}")),
        ("labels are strings", (train_main, "{files}/words.h5", "{new}", "--learner", "pa", "--targets", "numbers")),
        ("labels are sets", (train_main, "{files}/sets.h5", "{new}", "--learner", "pa", "--targets", "numbers")),
        ("its labels are numbers, no sets", (train_main, "{files}/four.h5", "{new}", "--learner", "pa",
                                             "--targets", "sets")),
        ("the label 3 is not one of 1 and 2", (stream.main, "{files}/four.svm", "--labels", "1,2", "--learner", "pa1")),
        ("is not one of -1 and 1", (stream.main, "{files}/four.svm", "--learner", "pa1")),
        ("the label a is no number", (stream.main, "{files}/words.svm", "--format", "csv", "--learner", "pa",
                                      "--targets", "numbers")),
        ("is no set of labels", (stream.main, "{files}/four.svm", "--learner", "pa", "--targets", "sets", "--labels",
                                 "1,2,3,4")),
        ("the set holds the label 3, which is not one of 1, 2", (
            stream.main, "{files}/sets.svm", "--format", "multilabel", "--learner", "pa", "--targets", "sets",
            "--labels", "1,2")),
        ("name two different labels", (stream.main, "{files}/four.svm", "--labels", "1,1", "--learner", "pa1")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_labels_that_do_not_fit(refused, what, words):
    refused(what, *words)


class Answering(CheckedStructure):
    """Gives ``answer`` as the best output of every example."""

    def __init__(self, inner, answer):
        super().__init__(inner, "inner")
        self.answer = answer

    def best(self, w, i):
        return self.answer

    most_violating = best

    def k_best(self, w, i, k):
        return [self.answer]


class Outside(Labelling):
    """The task of tags with a decoder that always answers the same."""

    def __init__(self, answer):
        super().__init__("tags", chunks=False)
        self.answer = answer

    def learn(self, text_name, settings, memory):
        learned = super().learn(text_name, settings, memory)
        return replace(learned, structure=Answering(learned.structure, self.answer))


MISSING, EMPTY = Outside(None), Outside(np.empty(0, np.int64))
WORDS, SQUARE = Outside(np.array(["X", "Y"])), Outside(np.zeros((2, 2), np.int64))


@pytest.mark.parametrize("learner", ["perceptron", "pa1", "mira"])
@pytest.mark.parametrize(
    ("task", "what"),
    [("MISSING", "is missing (None); give an array of whole numbers"),
     ("EMPTY", "is not a one-dimensional array of one or more whole numbers"),
     ("WORDS", "is not a one-dimensional array of one or more whole numbers"),
     ("SQUARE", "is not a one-dimensional array of one or more whole numbers")],
)  # fmt: skip
def test_a_decoder_without_a_right_answer(refused, task, what, learner):
    refused(what, structure.main, "train", "{files}/tokens", "{new}", "--task", f"test_bad_online_input:{task}",
            "--learner", learner)  # fmt: skip

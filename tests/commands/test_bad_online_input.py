"""Wrong labels for online learners: one sentence, exit 2, nothing written."""

import numpy as np
import pytest
import scipy.sparse
from support.training_cases import make_store

from blocksvm import stream
from blocksvm.train import main as train_main


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Stores NAME.h5 and their text NAME.svm: of four classes, of one, of words as labels, of sets."""
    folder = tmp_path_factory.mktemp("wrong")
    X, y = np.random.default_rng(0).standard_normal((24, 3)).astype(np.float32), np.arange(24) % 4 + 1.0
    make_store(folder, scipy.sparse.csr_matrix(X), y, name="four")
    make_store(folder, scipy.sparse.csr_matrix(X), np.ones(24), name="one")
    words = "label,x\n" + "".join(f"{'ab'[i % 2]},{i}\n" for i in range(8))
    make_store(folder, words, name="words", format="csv")
    sets = "".join(f"{i % 2 + 1},{i % 2 + 2} 1:{i + 1}\n" for i in range(8))
    make_store(folder, sets, name="sets", format="multilabel")
    return folder


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("all rows have the label 1", (train_main, "{files}/one.h5", "{new}", "--learner", "pa1")),
        ("all rows have the label 1; training needs rows of two classes", (train_main, "{files}/one.h5", "{new}")),
        ("labels are strings", (train_main, "{files}/words.h5", "{new}", "--learner", "pa", "--targets", "numbers")),
        ("labels are sets", (train_main, "{files}/sets.h5", "{new}", "--learner", "pa", "--targets", "numbers")),
        ("the label 3 is not one of 1 and 2", (stream.main, "{files}/four.svm", "--labels", "1,2", "--learner", "pa1")),
        ("the label a is no number", (stream.main, "{files}/words.svm", "--format", "csv", "--learner", "pa",
                                      "--targets", "numbers")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_labels_that_do_not_fit(files, tmp_path, refusal, what, words):
    main, *arguments = words
    assert what in refusal(main, *(word.format(files=files, new=tmp_path / "new.h5") for word in arguments))
    assert list(tmp_path.iterdir()) == []

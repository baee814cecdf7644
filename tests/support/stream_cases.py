"""Streams for tests: text of rows, a pass over it in process, a model's weights by id."""

import numpy as np
import scipy.sparse
from support.training_cases import random_rows, svmlight

from blocksvm.model.model_file import load_model
from blocksvm.streaming.stream_pass import StreamPass, StreamSettings

SMALL_PIECES = 12_000_000  # bytes of memory of which a piece of text takes the least, 65,536


def text_of(folder, X, y, name="rows.svm"):
    path = folder / name
    path.write_text(svmlight(X, y))
    return path


def growing_rows(n=300, seed=0):
    """(X, y): rows of more features than learners have memory for at first, 4,096; later rows have further ones."""
    return random_rows(n=n, d=9_000, density=0.01, seed=seed)


def single(X):
    """The rows as a stream reads them: rounded to float32."""
    return scipy.sparse.csr_matrix(X, dtype=np.float32).astype(np.float64)


def weights_by_id(path, length):
    model = load_model(path)
    found = np.zeros((*model.weights.shape[:-1], length))
    found[..., model.feature_ids] = model.weights
    return found, model


def learned(path, learner, *, settings=None, prior=None, start_from=None, predicted=None, **options):
    """(stream, reports) of one pass in process; predicted: a list that gets the values of its predictions."""
    reports, keep = [], None if predicted is None else lambda values, labels: predicted.append(values.copy())
    stream = StreamPass(StreamSettings(learner, settings or {}, **options), prior=prior, start_from=start_from,
                        on_report=reports.append, on_predicted=keep, on_save=lambda stream: None)  # fmt: skip
    assert stream.run([str(path)])
    return stream, reports

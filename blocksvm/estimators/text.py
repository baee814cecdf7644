"""A classifier of texts: n-grams, then a certified linear model, within a memory that is one number.

Texts become a store in a folder for temporary files, which is there as long as the estimator is; so does a model.
"""

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from blocksvm.api.files import SCORES, predict_files
from blocksvm.api.fit import Fitted, fit, fit_table, write_weights
from blocksvm.base.errors import InputError
from blocksvm.base.memory import MEMORY
from blocksvm.conversion import SPLIT
from blocksvm.conversion.convert import extend, settings_of_store
from blocksvm.estimators.estimator import Estimator, documented
from blocksvm.files.input import names_of_inputs
from blocksvm.files.output import TemporaryFolder
from blocksvm.formats.choices import TEXT
from blocksvm.formats.file_reader import texts_of
from blocksvm.formats.table_rows import table_of_texts
from blocksvm.losses import get_loss
from blocksvm.model.decision_values import labels_predicted
from blocksvm.model.model_file import load_model
from blocksvm.model.probabilities import link_of
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS
from blocksvm.store.reader import open_store
from blocksvm.store.recipe import RECIPE

OF_ROWS = ("ngrams", "case", "accents", "bits", "min_count", "idf", "normalize")


@documented(*TEXT, *RECIPE, *SPLIT, *PROBLEM_SETTINGS)
class TextClassifier(ClassifierMixin, BaseEstimator):
    """Classes, or sets of labels, of texts: a certified linear model of their n-grams.

        1/2 ||w||^2 + 1/2 b^2 / s^2 + C sum_i c_i loss(y_i, <w, x_i> + b),     s = intercept_scaling

    ``partial_fit`` adds rows to those that there are, and goes on from the last optimum to that of all.
    ``model_`` is the fitted ``Model``, ``dual_gap_`` its certified relative gap.

        >>> TextClassifier(C=10.0).fit(["a good film", "a bad one"], ["pos", "neg"]).predict(["so good"])
        array(['pos'], dtype='<U3')
    """

    losses = ("logistic", "hinge", "squared-hinge")

    def __init__(self, loss="logistic", C=1.0, *, ngrams="word:1-2", case="lower", accents="keep", bits=None,
                 min_count=1, idf="none", normalize="l2", class_weight=None, fit_intercept=True, intercept_scaling=1.0,
                 tol=1e-3, max_iter=1000, random_state=None, memory=None, temp=None,
                 n_jobs=None):  # fmt: skip
        Estimator._set(self, locals())

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X, y=None, sample_weight=None):
        """Train on texts X, a list of strings, with labels y (n,), or sets of them (tuples), and weights (n,); or,
        without y, on files of texts with labels, in any format, X a path or several.  ValueError for what is wrong."""
        rows = self._texts(X, y)
        settings = {name: getattr(self, name) for name in OF_ROWS} | ({} if y is None else {"text": "text"})
        fitted = fit_table(rows, sample_weight, self._settings() | settings | {"temp": self.temp}, {})
        self._folder, self._parts = fitted.model.folder, 0
        return self._keep(fitted)

    def partial_fit(self, X, y=None, sample_weight=None):
        """Add rows to those of the fits before, and go on from their optimum to that of all."""
        if not hasattr(self, "model_"):
            return self.fit(X, y, sample_weight)
        if not self._path("rows.h5").exists():
            raise InputError("the rows of the fits before are not in what was pickled; fit all rows again")
        rows, names = self._texts(X, y), X
        if y is not None:
            self._parts += 1
            names = self._path(f"{self._parts}.arrow")
            with pa.ipc.new_file(names, rows.schema) as file:
                file.write_table(rows)
        names = names_of_inputs(names)
        machine = {"memory": self._memory()}
        if sample_weight is not None:
            machine["weights"] = write_weights(self._path("weights.txt"), sample_weight)
        extend(names, self._path("rows.h5"), settings_of_store(self._path("rows.h5"), {}, **machine))
        with open_store(self._path("rows.h5")) as store:
            fitted = fit(store, start_from=self._path("model.h5"), **self._settings())
            fitted.save(self._path("model.h5"), overwrite=True)
        return self._keep(fitted)

    def _settings(self) -> dict:
        loss = self.loss.replace("_", "-") if isinstance(self.loss, str) else self.loss
        return {"loss": loss, "C": self.C, "bias": Estimator._bias(self), "class_weight": self.class_weight,
                "tol": self.tol, "max_outer": self.max_iter, "memory": self._memory(), "seed": Estimator._seed(self),
                "n_jobs": self.n_jobs}  # fmt: skip

    def _keep(self, fitted: Fitted):
        self.model_ = load_model(self._path("model.h5"))
        self.classes_, self.n_iter_ = np.array(self.model_.labels), fitted.result.outer
        self.dual_gap_ = fitted.certificate.rel_gap
        if self.dual_gap_ > self.tol:
            warnings.warn(f"the relative gap is {self.dual_gap_:.1e} after {self.n_iter_} readings; raise max_iter",
                          ConvergenceWarning, stacklevel=3)  # fmt: skip
        return self

    def _path(self, name: str) -> Path:
        return self._folder.path / name

    def _memory(self) -> int:
        return MEMORY.checked(self.memory or MEMORY.default)

    def _texts(self, X, y):
        """Texts with their labels as a table, or (y None) paths as they are."""
        if y is None:
            return X
        if (texts := texts_of(X)) is None:
            raise InputError("X is no list of strings; give a text for each row, or paths of files without y")
        return table_of_texts(texts, y)

    def decision_function(self, X) -> np.ndarray:
        """(n,) float64, above 0 for the second of two classes; (n, k) of k.  X: texts, a list of strings, whatever they
        say; or files of them, a path, of which several in a list are ``pathlib.Path``s."""
        check_is_fitted(self)
        if isinstance(X, list | tuple) and not X:
            return self.model_.decision_function(X)
        rows = X if (texts := texts_of(X)) is None else table_of_texts(texts)
        return predict_files(self.model_, rows, SCORES, memory=self._memory(), n_jobs=self.n_jobs)

    def predict(self, X) -> np.ndarray:
        """The class of each text (n,), or the set of its labels, a tuple."""
        values, model = self.decision_function(X), self.model_
        return labels_predicted(values, model.labels, model.multilabel, model.ranks)

    @available_if(lambda self: get_loss(self.loss).link is not None)
    def predict_proba(self, X) -> np.ndarray:
        """(n, k) float64."""
        values = self.decision_function(X)
        return link_of(self.model_.meta, self.model_.path)(values)

    def __getstate__(self):
        """What is pickled has the model's file in it, without the rows."""
        state = dict(super().__getstate__())
        fitted = state.pop("model_", None) is not None and state.pop("_folder") is not None
        return state | {"_file": self._path("model.h5").read_bytes() if fitted else b""}

    def __setstate__(self, state):
        content = state.pop("_file")
        super().__setstate__(state)
        if content:
            self._folder = TemporaryFolder(self.temp)
            self._path("model.h5").write_bytes(content)
            self.model_ = load_model(self._path("model.h5"))

"""Estimators that minimise an objective, certified by the duality gap over all rows.

    1/2 ||w||^2 + 1/2 b^2 / s^2 + C sum_i c_i loss(y_i, <w, x_i> + b),     s = intercept_scaling

as in LIBLINEAR, c_i the row's weight times that of its class; with ``intercept_scaling='free'`` b is not regularised.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from blocksvm.api.fit import Fitted
from blocksvm.base.errors import InputError
from blocksvm.base.settings import Settings, n_threads
from blocksvm.base.threads import Threads
from blocksvm.base.user_code import by_user
from blocksvm.estimators.estimator import INTERCEPT, MACHINE, Classifier, Estimator, EstimatorRun, Regressor
from blocksvm.estimators.fit_rows import FLOATS, compressed, is_store, pieces_of
from blocksvm.estimators.parameters import Parameter, parameters_of, with_parameters
from blocksvm.losses import LOSSES, check_loss, get_loss
from blocksvm.model.probabilities import ISOTONIC, PLATT, known_link
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS, WITH_CLASSES, learns_together
from blocksvm.solvers.dual_methods import METHOD as DUAL_CD
from blocksvm.solvers.kernel_machine import METHOD as KERNEL
from blocksvm.solvers.pegasos import METHOD as PEGASOS
from blocksvm.solvers.solver import SavedRun
from blocksvm.training.run_settings import RUN_SETTINGS
from blocksvm.training.settings import TrainSettings

TOL = 1e-4
WIDE = 1 << 17  # columns from which the weights are more than a second-level cache holds
# Passes over a small matrix cost little: there the optimum is reached to rounding, by the projected gradients, since a
# gap that is 0 to rounding leaves errors of about its square root in w.
SMALL_NONZEROS = 10_000
TO_ROUNDING = "tol:1e-13"
LEAST = 1e-13  # the gap likewise, where there is no such schedule

SETTINGS_OF_LOSSES = {setting.name for name in LOSSES for setting in get_loss(name).settings}
TRAINING = (
    Parameter("tol", None, "certified relative duality gap to reach (None: 1e-4, and of a matrix of at most 10,000 "
              "entries as small a one as rounding and max_iter allow)"),
    Parameter("max_iter", 1000, "passes over all rows at most"),
    Parameter("max_seconds", RUN_SETTINGS["max_seconds"].default, RUN_SETTINGS["max_seconds"].help),
)  # fmt: skip
WORKING_SET = Parameter("working_set", "auto", f"{RUN_SETTINGS['working_set'].help}; auto is none for matrices")
PENALTY = Parameter("penalty", "l2", "l2, as in scikit-learn; there is no other")
DUAL = Parameter("dual", "auto", "auto or True, as in scikit-learn: it is always the dual that is solved")
CALIBRATE = Parameter("calibrate", None, "probabilities from five folds held out: platt or isotonic, of two classes")


class Minimiser(Estimator):
    """Base class: ``method``, the solver; ``solver_settings``, its settings that are parameters; ``losses`` to choose
    from, one where the loss is no parameter."""

    method = DUAL_CD
    solver_settings: Settings = PROBLEM_SETTINGS
    losses: tuple[str, ...] = ()
    numbered_from = WIDE

    def _solver_settings(self, training: EstimatorRun) -> dict:
        """The solver's settings."""
        settings = {name: getattr(self, name) for name in self.solver_settings.names() if hasattr(self, name)}
        settings["class_weight"] = self._class_weight(training)
        if self.losses:
            settings["loss"] = self._loss()
            accepted = get_loss(settings["loss"]).settings
            settings = {
                name: value for name, value in settings.items() if name in accepted or name not in SETTINGS_OF_LOSSES
            }
        return {name: value for name, value in settings.items() if value is not None}

    def _loss(self) -> str:
        """The name of the loss: of those to choose from, or the place of one outside the package."""
        loss = getattr(self, "loss", self.losses[0])
        if isinstance(loss, str) and ":" not in loss:
            loss = loss.replace("_", "-")
            if loss not in self.losses:
                choices = ", ".join(self.losses).replace("-", "_")
                raise InputError(f"loss={self.loss}: choose one of {choices}, or a Loss of your own")
        by_user(loss)
        name = check_loss(loss)
        if get_loss(name).of_numbers != get_loss(self.losses[0]).of_numbers:
            raise InputError(f"loss={name}: is for {get_loss(name).targets}; choose another")
        return name

    def _run_settings(self, training: EstimatorRun) -> tuple[float, dict]:
        """(the gap to be reached, the settings of the run)."""
        capabilities, most = self.method.capabilities, RUN_SETTINGS["max_outer"].checked(self.max_iter)
        target = TOL if self.tol is None else self.tol
        run = {"tol": target, "max_outer": most, "max_seconds": self.max_seconds, "bias": self._bias()}
        in_memory = training.source.in_memory and self.memory is None
        small = in_memory and self.tol is None and training.source.n_nonzeros <= SMALL_NONZEROS
        if capabilities.working_set:
            run["working_set"] = self.working_set
        if small and capabilities.working_set and self.working_set == "auto":
            run |= {"working_set": "none", "schedule": TO_ROUNDING, "tol": 0.0, "max_passes": most}
        elif small and capabilities.certifies:
            run["tol"] = LEAST
        return target, run

    def fit(self, X, y=None, sample_weight=None):
        """Train on X (n, d), dense or scipy sparse, with labels y (n,) and weights (n,) of 0 or more; on a store's
        path; or on an iterable of batches (X, y) or (X, y, sample_weight), or an object with ``next(input_data)`` and
        ``reset()``.  Raises ValueError for what is wrong with them."""
        if self.parameters.get("penalty") is PENALTY and self.penalty != "l2":
            raise InputError(f"penalty={self.penalty}: the penalty is l2; AdaGradClassifier has sparse weights")
        if self.parameters.get("dual") is DUAL and self.dual not in (True, "auto"):
            raise InputError(f"dual={self.dual}: the dual is solved, which has the same optimum; leave it out")
        with self._training(X, y, sample_weight) as training:
            target, run = self._run_settings(training)
            settings = self._solver_settings(training)
            problem = (training.source.fingerprint, settings.get("loss"), settings.get("multiclass"), run["bias"])
            begin = self._begin(problem) if self.method.capabilities.warm_starts else None
            fitted = self._run(training, solver=self.method.name, warm_start=begin, **run, **settings)
            self._keep(training, fitted)
            self._keep_for_later(problem, fitted)
            self._keep_certificate(fitted, target)
            if getattr(self, "calibrate", None) is not None:
                self._calibrate(training, run, settings)
        return self

    def _calibrate(self, training: EstimatorRun, run: dict, settings: dict) -> None:
        """Fit the calibration of probabilities on rows held out."""
        from blocksvm.validation.calibration import calibrated

        if self.calibrate not in (PLATT, ISOTONIC):
            raise InputError(f"calibrate={self.calibrate}: choose one of {PLATT}, {ISOTONIC}, or None")
        run = run | {"schedule": "auto", "max_outer": self.max_iter, "tol": TOL if self.tol is None else self.tol}
        train_settings = TrainSettings.of(**run, **settings, memory=self._memory(training), seed=self._seed())
        threads = Threads(n_threads(self.n_jobs))
        self.calibration_ = calibrated(training.source, train_settings, self.calibrate, threads=threads)

    def _begin(self, problem: tuple) -> SavedRun | None:
        """The dual variables of the last fit, if it was of the same problem up to C and the weights of classes."""
        last = getattr(self, "_last", None)
        if not self.warm_start or last is None or last["problem"] != problem:
            return None
        alpha = last["alpha"]

        def load(solver: str, name: str, out: np.ndarray) -> None:
            out.reshape(-1)[:] = alpha

        lengths = {self.method.name: {"alpha": len(alpha)}}
        return SavedRun("the last fit", {"cost": last["cost"]}, lengths, load)

    def _keep_for_later(self, problem: tuple, fitted: Fitted) -> None:
        self._last = None
        if self.warm_start and fitted.alpha is not None:
            alpha = np.array(fitted.alpha, dtype=np.float64).reshape(-1)
            cost = fitted.plan.solver.problem.cost.tolist()
            self._last = {"alpha": alpha, "problem": problem, "cost": cost}

    def _keep_certificate(self, fitted: Fitted, target: float) -> None:
        self.certificate_ = certificate = fitted.certificate
        self.objective_ = certificate.primal
        self.dual_gap_ = None if certificate.dual is None else certificate.primal - certificate.dual
        self.status_ = fitted.status
        reached = certificate.rel_gap is None or certificate.rel_gap <= target
        rounding = fitted.result.advice if fitted.status == "rounding" else None
        self._warn_unless(reached or fitted.status == "max-seconds", target, rounding)


def _has_probabilities(estimator) -> bool:
    return get_loss(estimator._loss()).link is not None or getattr(estimator, "calibrate", None) is not None


class LinearClassifier(Classifier, Minimiser):
    """Two classes, or more, each against the others or by Crammer and Singer's machine; or sets of labels."""

    takes_sets = True
    solver_settings = WITH_CLASSES

    def _link(self):
        method = {"settings": {"loss": self._loss()}, "learner": False}
        calibration = self.calibration_ if getattr(self, "calibrate", None) is not None else None
        return known_link(
            {"method": method, "labels": self.classes_.tolist(), "multilabel": self.multilabel_,
             "calibration": calibration}
        )  # fmt: skip

    @available_if(_has_probabilities)
    def predict_proba(self, X) -> np.ndarray:
        """(n, k) float64: the probability of each class in a row, or of each label of sets."""
        values = self._values(X)
        return self._link()(values)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X) -> np.ndarray:
        """The logarithms of ``predict_proba``, -inf for 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


@with_parameters(
    Parameter("loss", "squared_hinge", "hinge or squared_hinge, or a ``Loss`` of your own, or its place"),
    *parameters_of(WITH_CLASSES, "loss", "lam"), *INTERCEPT, *TRAINING, WORKING_SET, CALIBRATE, PENALTY, DUAL,
    *MACHINE,
)  # fmt: skip
class LinearSVC(LinearClassifier):
    """The linear support vector machine, to a certified optimum; it has the objective of scikit-learn's LinearSVC.

    Fitted: coef_ (1, d) or (k, d), intercept_, classes_, n_iter_ (passes over the rows), objective_, dual_gap_ (primal
    minus dual, over all rows), certificate_, n_features_in_.

        >>> from blocksvm.estimators import LinearSVC
        >>> estimator = LinearSVC(C=0.1).fit([[0.0, 2.0], [1.0, 0.0], [2.0, 1.0]], ["no", "yes", "yes"])
        >>> estimator.predict([[3.0, 1.0]]), estimator.dual_gap_ < 1e-9
        (array(['yes'], dtype='<U3'), True)
        >>> LinearSVC(memory=100_000_000).fit("rows.h5").coef_.shape  # out of core; a column for each feature id from 0
        (1, 5)
    """

    losses = ("squared-hinge", "hinge")

    def _solver_settings(self, training: EstimatorRun) -> dict:
        """The solver's settings; Crammer and Singer's machine has the hinge loss, as in scikit-learn."""
        settings = super()._solver_settings(training)
        return settings | ({"loss": "hinge"} if learns_together(settings.get("multiclass")) else {})


@with_parameters(
    *parameters_of(WITH_CLASSES, "loss", "lam", "multiclass"),
    *INTERCEPT,
    *TRAINING,
    WORKING_SET,
    PENALTY,
    DUAL,
    *MACHINE,
)
class LogisticClassifier(LinearClassifier):
    """Logistic regression with an l2 penalty, to a certified optimum; of several classes each against the others.

    The intercept is regularised with the weights, as in LIBLINEAR.  scikit-learn's LogisticRegression does not
    regularise it, nor does ``intercept_scaling='free'`` of two classes, and learns several classes together.  Fitted as
    LinearSVC.
    """

    losses = ("logistic",)


@with_parameters(
    Parameter("loss", "epsilon_insensitive", "epsilon_insensitive or squared_epsilon_insensitive, or a ``Loss`` of "
              "your own, or its place"),
    *parameters_of(PROBLEM_SETTINGS, "loss", "lam", "class_weight"),
    *parameters_of(get_loss("epsilon-insensitive").settings), *INTERCEPT, *TRAINING, WORKING_SET, DUAL, *MACHINE,
)  # fmt: skip
class LinearSVR(Regressor, Minimiser):
    """Linear support vector regression, to a certified optimum; with ``loss='squared_epsilon_insensitive'`` and
    ``epsilon=0`` ridge regression.  Fitted as LinearSVC, but coef_ (d,)."""

    solver_settings = PROBLEM_SETTINGS + get_loss("epsilon-insensitive").settings
    losses = ("epsilon-insensitive", "squared-epsilon-insensitive")


@with_parameters(
    *parameters_of(PEGASOS.settings, "lam"), *INTERCEPT, *TRAINING, *MACHINE,
)  # fmt: skip
class PegasosClassifier(Classifier, Minimiser):
    """Pegasos, the primal subgradient method, for two classes; certified with ``dual=True``, else ``dual_gap_`` is
    None."""

    method = PEGASOS
    solver_settings = PEGASOS.settings
    losses = ("hinge", "squared-hinge", "logistic")
    most_classes = 2


@with_parameters(
    *parameters_of(KERNEL.settings, "lam"), INTERCEPT[0],
    Parameter("intercept_scaling", "free", "free: it is not regularised; or the value of a constant feature"),
    *TRAINING, *MACHINE,
)  # fmt: skip
class KernelSVC(Classifier, Minimiser):
    """The support vector machine with a kernel, of two classes, to a certified optimum; the matrix is never whole.

    Fitted: support_vectors_ (m, d) CSR, dual_coef_ (1, m), intercept_, classes_, n_iter_, objective_, dual_gap_.
    """

    method = KERNEL
    solver_settings = KERNEL.settings
    most_classes = 2
    numbered_from = math.inf  # there are no weights

    def _keep(self, training: EstimatorRun, fitted: Fitted) -> None:
        self._keep_classes(training, fitted)
        self._model = fitted.model
        support, columns = fitted.model.support, training.columns
        indices = support.indices if columns is None else columns[support.indices]
        shape = (len(support.norms), training.n_features)
        self.support_vectors_ = sparse.csr_matrix((support.values, indices, support.indptr), shape=shape)
        self.dual_coef_ = support.coefficients[None]
        self.intercept_ = np.atleast_1d(fitted.model.intercept)

    def _values(self, X) -> np.ndarray:
        check_is_fitted(self)
        if is_store(X):
            raise InputError("a machine with a kernel predicts rows in memory; for a store use blocksvm predict")
        X = validate_data(self, X, accept_sparse="csr", dtype=list(FLOATS), reset=False)
        values = np.empty(X.shape[0])

        def fill(rows: slice) -> None:
            values[rows] = self._model.decision_function(compressed(X[rows]))

        self._each(fill, pieces_of(X))
        return values

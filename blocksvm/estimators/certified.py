"""Estimators that minimise an objective, certified by the duality gap over all rows.

    1/2 ||w||^2 + 1/2 b^2 / s^2 + C sum_i c_i loss(y_i, <w, x_i> + b),     s = intercept_scaling

as in LIBLINEAR, c_i the row's weight times that of its class; with ``intercept_scaling='free'`` b is not regularised.
"""

import math
import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from blocksvm.api.fit import Fitted
from blocksvm.base.errors import InputError
from blocksvm.base.settings import Settings, n_threads
from blocksvm.base.threads import Threads
from blocksvm.base.user_code import by_user
from blocksvm.estimators.estimator import Classifier, Estimator, Regressor, columns_of, documented, is_store
from blocksvm.losses import check_loss, get_loss
from blocksvm.model.probabilities import ISOTONIC, PLATT, link_by
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS, WITH_CLASSES, learns_together
from blocksvm.solvers.dual_cd import METHOD as DUAL_CD
from blocksvm.solvers.kernel_machine import METHOD as KERNEL
from blocksvm.solvers.pegasos import METHOD as PEGASOS
from blocksvm.solvers.solver import SavedRun
from blocksvm.sources.source import Source
from blocksvm.store.descriptions import Calibration, typed
from blocksvm.training.run_settings import RUN_SETTINGS
from blocksvm.training.settings import TrainSettings

TOL = 1e-4
WIDE = 1 << 17  # columns from which the weights are more than a second-level cache holds
# Passes over a small matrix cost little: there the optimum is reached to rounding, by the projected gradients, since a
# gap that is 0 to rounding leaves errors of about its square root in w.
SMALL_NONZEROS = 10_000
TO_ROUNDING = "tol:1e-13"
LEAST = 1e-13  # the gap likewise, where there is no such schedule


class Minimiser(Estimator):
    """Base class: ``method``, the solver; ``solver_settings``, its settings that are parameters; ``losses`` to choose
    from, one where the loss is no parameter."""

    method = DUAL_CD
    solver_settings: Settings = PROBLEM_SETTINGS
    losses: tuple[str, ...] = ()
    numbered_from = WIDE

    def _solver_settings(self, source: Source) -> dict:
        settings = {name: getattr(self, name) for name in self.solver_settings.names() if hasattr(self, name)}
        settings["class_weight"] = self._class_weight(source)
        if self.losses:
            settings["loss"] = self._loss()
            if "epsilon" not in get_loss(settings["loss"]).settings:
                settings.pop("epsilon", None)
        return {name: value for name, value in settings.items() if value is not None}

    def _loss(self) -> str:
        """The name of the loss: of those to choose from, or the location of one outside the package."""
        loss = getattr(self, "loss", self.losses[0])
        if isinstance(loss, str) and ":" not in loss:
            loss = loss.replace("_", "-")
            if loss not in self.losses:
                choices = ", ".join(self.losses).replace("-", "_")
                raise InputError(f"loss={self.loss}: choose one of {choices}, or a Loss of your own")
        by_user(loss=loss)
        name = check_loss(loss)
        if (of_numbers := get_loss(name).of_numbers) != get_loss(self.losses[0]).of_numbers:
            raise InputError(f"loss={name}: is for {'real numbers' if of_numbers else 'two classes'}; choose another")
        return name

    def _run_settings(self, source: Source) -> tuple[float, dict]:
        """(the gap to be reached, the settings of the run)."""
        capabilities, most = self.method.capabilities, RUN_SETTINGS["max_outer"].checked(self.max_iter)
        target = TOL if self.tol is None else self.tol
        run = {"tol": target, "max_outer": most, "max_seconds": self.max_seconds, "bias": self._bias()}
        in_memory = source.in_memory and self.memory is None
        small = in_memory and self.tol is None and source.n_nonzeros <= SMALL_NONZEROS
        if capabilities.working_set:
            run["working_set"] = self.working_set
        if small and capabilities.working_set and self.working_set == "auto":
            run |= {"working_set": "none", "schedule": TO_ROUNDING, "tol": 0.0, "max_passes": most}
        elif small and capabilities.certifies:
            run["tol"] = LEAST
        return target, run

    def fit(self, X, y=None, sample_weight=None):
        """Train on X (n, d), dense or scipy sparse, with labels y (n,) and weights (n,) of 0 or more; on a store's
        path; or on an iterable of batches (X, y) or (X, y, sample_weight).  ValueError for what is wrong with them."""
        if getattr(self, "penalty", "l2") != "l2":
            raise InputError(f"penalty={self.penalty}: the penalty is l2; OnlineClassifier has l1 and others")
        if "dual" not in self.solver_settings and getattr(self, "dual", True) not in (True, "auto"):
            raise InputError(f"dual={self.dual}: the dual is solved, which has the same optimum; leave it out")
        with self._source(X, y, sample_weight) as source:
            target, run = self._run_settings(source)
            settings = self._solver_settings(source)
            problem = (source.fingerprint, settings.get("loss"), settings.get("multiclass"), run["bias"])
            begin = self._begin(problem) if self.method.capabilities.warm_starts else None
            fitted = self._run(source, solver=self.method.name, start_from=begin, **run, **settings)
            self._keep(source, fitted)
            self._last = None
            if self.warm_start and fitted.alpha is not None:
                self._last = problem, fitted.plan.solver.problem.cost.tolist(), np.array(fitted.alpha, np.float64)
            self.certificate_, self.status_ = fitted.certificate, fitted.status
            certificate, gap = fitted.certificate, fitted.certificate.rel_gap
            self.objective_ = certificate.primal
            self.dual_gap_ = None if certificate.dual is None else certificate.primal - certificate.dual
            if gap is not None and gap > target and fitted.status not in ("max-seconds", "stopped"):
                missed = (
                    f"{self.n_iter_} passes over the rows did not reach tol={target:g}; raise max_iter, scale the "
                    "features, or ask for a larger tol"
                )
                text = fitted.result.advice if fitted.status == "rounding" else missed
                warnings.warn(f"{type(self).__name__}: {text}", ConvergenceWarning, stacklevel=2)
            if getattr(self, "calibrate", None) is not None:
                self._calibrate(source, run, settings)
        return self

    def _calibrate(self, source: Source, run: dict, settings: dict) -> None:
        """Fit the calibration of probabilities on rows held out."""
        from blocksvm.validation.calibration import calibrated

        if self.calibrate not in (PLATT, ISOTONIC):
            raise InputError(f"calibrate={self.calibrate}: choose one of {PLATT}, {ISOTONIC}, or None")
        run = run | {"schedule": "auto", "max_outer": self.max_iter, "tol": TOL if self.tol is None else self.tol}
        train_settings = TrainSettings.of(**run, **settings, memory=self._memory(source.in_memory), seed=self._seed())
        self.calibration_ = calibrated(source, train_settings, self.calibrate, threads=Threads(n_threads(self.n_jobs)))

    def _begin(self, problem: tuple) -> SavedRun | None:
        """The dual variables of the last fit, if it was of the same problem up to C and the weights of classes."""
        of, cost, alpha = getattr(self, "_last", None) or (None, None, None)
        if not self.warm_start or of != problem:
            return None

        def load(solver: str, name: str, out: np.ndarray) -> None:
            out.reshape(-1)[:] = alpha.reshape(-1)

        return SavedRun("the last fit", cost, {self.method.name: {"alpha": alpha.size}}, load)


def _has_probabilities(estimator) -> bool:
    return get_loss(estimator._loss()).link is not None or getattr(estimator, "calibrate", None) is not None


class LinearClassifier(Classifier, Minimiser):
    """Two classes, or more, each against the others or by Crammer and Singer's machine; or sets of labels."""

    takes_sets = True
    solver_settings = WITH_CLASSES

    @available_if(_has_probabilities)
    def predict_proba(self, X) -> np.ndarray:
        """(n, k) float64: the probability of each class in a row, or of each label of sets."""
        values = self._values(X)
        calibrated = getattr(self, "calibrate", None) is not None
        calibration = typed(self.calibration_, Calibration) if calibrated else None
        return link_by(self._loss(), len(self.classes_), self.multilabel_, False, calibration)(values)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X) -> np.ndarray:
        """The logarithms of ``predict_proba``, -inf for 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


@documented(*WITH_CLASSES)
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

    def __init__(
        self, *, loss="squared_hinge", C=1.0, class_weight=None, multiclass=None, fit_intercept=True,
        intercept_scaling=1.0, tol=None, max_iter=1000, max_seconds=math.inf, working_set="auto", calibrate=None,
        penalty="l2", dual="auto", warm_start=False, random_state=None, verbose=0, memory=None, temp=None, n_jobs=None,
    ):  # fmt: skip
        self._set(locals())

    def _solver_settings(self, source: Source) -> dict:
        """The solver's settings; Crammer and Singer's machine has the hinge loss, as in scikit-learn."""
        settings = super()._solver_settings(source)
        return settings | ({"loss": "hinge"} if learns_together(settings.get("multiclass")) else {})


@documented(*WITH_CLASSES)
class LogisticClassifier(LinearClassifier):
    """Logistic regression with an l2 penalty, to a certified optimum; of several classes each against the others.

    The intercept is regularised with the weights, as in LIBLINEAR.  scikit-learn's LogisticRegression does not
    regularise it, nor does ``intercept_scaling='free'`` of two classes, and learns several classes together.  Fitted as
    LinearSVC.
    """

    losses = ("logistic",)

    def __init__(
        self, *, C=1.0, class_weight=None, fit_intercept=True, intercept_scaling=1.0, tol=None, max_iter=1000,
        max_seconds=math.inf, working_set="auto", penalty="l2", dual="auto", warm_start=False, random_state=None,
        verbose=0, memory=None, temp=None, n_jobs=None,
    ):  # fmt: skip
        self._set(locals())


@documented(*PROBLEM_SETTINGS, *get_loss("epsilon-insensitive").settings)
class LinearSVR(Regressor, Minimiser):
    """Linear support vector regression, to a certified optimum; with ``loss='squared_epsilon_insensitive'`` and
    ``epsilon=0`` ridge regression.  Fitted as LinearSVC, but coef_ (d,)."""

    solver_settings = PROBLEM_SETTINGS + get_loss("epsilon-insensitive").settings
    losses = ("epsilon-insensitive", "squared-epsilon-insensitive")

    def __init__(
        self, *, loss="epsilon_insensitive", C=1.0, epsilon=0.1, fit_intercept=True, intercept_scaling=1.0, tol=None,
        max_iter=1000, max_seconds=math.inf, working_set="auto", dual="auto", warm_start=False, random_state=None,
        verbose=0, memory=None, temp=None, n_jobs=None,
    ):  # fmt: skip
        self._set(locals())


@documented(*PEGASOS.settings)
class PegasosClassifier(Classifier, Minimiser):
    """Pegasos, the primal subgradient method, for two classes; without ``dual=True`` ``dual_gap_`` is None."""

    method = PEGASOS
    solver_settings = PEGASOS.settings
    losses = ("hinge", "squared-hinge", "logistic")
    most_classes = 2

    def __init__(
        self, *, loss="hinge", C=1.0, class_weight=None, batch=1, dual=False, iterate="average", fit_intercept=True,
        intercept_scaling=1.0, tol=None, max_iter=1000, max_seconds=math.inf, warm_start=False, random_state=None,
        verbose=0, memory=None, temp=None, n_jobs=None,
    ):  # fmt: skip
        self._set(locals())


@documented(*KERNEL.settings)
class KernelSVC(Classifier, Minimiser):
    """The support vector machine with a kernel, of two classes, to a certified optimum; the matrix is never whole.

    Fitted: support_vectors_ (m, d) CSR, dual_coef_ (1, m), intercept_, classes_, n_iter_, objective_, dual_gap_.
    """

    method = KERNEL
    solver_settings = KERNEL.settings
    most_classes = 2
    numbered_from = math.inf  # there are no weights

    def __init__(
        self, *, C=1.0, class_weight=None, kernel="rbf", gamma=None, degree=3, coef0=0.0, matrix_rows=None,
        fit_intercept=True, intercept_scaling="free", tol=None, max_iter=1000, max_seconds=math.inf, warm_start=False,
        random_state=None, verbose=0, memory=None, temp=None, n_jobs=None,
    ):  # fmt: skip
        self._set(locals())

    def _keep(self, source: Source, fitted: Fitted) -> None:
        self._keep_end(source, fitted)
        self._model = fitted.model
        support, columns = fitted.model.support, columns_of(source)
        indices = support.indices if columns is None else columns[support.indices]
        shape = (len(support.norms), self.n_features_in_)
        self.support_vectors_ = sparse.csr_matrix((support.values, indices, support.indptr), shape=shape)
        self.dual_coef_ = support.coefficients[None]
        self.intercept_ = np.atleast_1d(fitted.model.intercept)

    def _values(self, X) -> np.ndarray:
        check_is_fitted(self)
        if is_store(X):
            raise InputError("a machine with a kernel predicts rows in memory; for a store use blocksvm predict")
        return self._in_pieces(self._model.decision_function, X)

"""The estimators: for type checkers, for editors, and for ``__init__.py``, which imports them on first use."""

from .certified import KernelSVC as KernelSVC
from .certified import LinearSVC as LinearSVC
from .certified import LinearSVR as LinearSVR
from .certified import LogisticClassifier as LogisticClassifier
from .certified import PegasosClassifier as PegasosClassifier
from .online import OnlineClassifier as OnlineClassifier
from .online import OnlineRegressor as OnlineRegressor
from .text import TextClassifier as TextClassifier

__all__: list[str]

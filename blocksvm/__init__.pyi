"""What the package offers: for type checkers, for editors, and for ``__init__.py``, which imports it on first use."""

from .api.files import predict_files as predict_files
from .api.files import write_store as write_store
from .api.fit import Fitted as Fitted
from .api.fit import describe_solver as describe_solver
from .api.fit import fit as fit
from .api.streams import Stream as Stream
from .base.errors import InputError as InputError
from .base.errors import InputWarning as InputWarning
from .exchange.forms import export_model as export_model
from .exchange.forms import import_model as import_model
from .exchange.forms import to_estimator as to_estimator
from .exchange.sklearn_models import from_estimator as from_estimator
from .model.events import RunEvent as RunEvent
from .model.model_file import Model as Model
from .model.model_file import load_model as load_model
from .sources.block import Block as Block
from .sources.matrix import Matrix as Matrix
from .sources.source import iterate_blocks as iterate_blocks
from .store.reader import open_store as open_store
from .theory.margin import maximum_margin as maximum_margin
from .theory.report import measure_regret as measure_regret
from .validation.path import cross_validate as cross_validate

__version__: str
__all__: list[str]

"""What ``__getattr__`` of the package imports on first use, for type checkers and editors."""

from blocksvm.analysis.margin import maximum_margin as maximum_margin
from blocksvm.analysis.report import regret as regret
from blocksvm.api import Fitted as Fitted
from blocksvm.api import describe_solver as describe_solver
from blocksvm.api import fit as fit
from blocksvm.conversion.convert import SplitSettings as SplitSettings
from blocksvm.conversion.convert import split as split
from blocksvm.errors import InputError as InputError
from blocksvm.errors import InputWarning as InputWarning
from blocksvm.exchange.estimators import from_estimator as from_estimator
from blocksvm.exchange.estimators import to_estimator as to_estimator
from blocksvm.exchange.forms import export_model as export_model
from blocksvm.exchange.forms import import_model as import_model
from blocksvm.exchange.linear import save_imported as save_imported
from blocksvm.learners.joint import JointLearner as JointLearner
from blocksvm.learners.joint import JointMap as JointMap
from blocksvm.model.files import Model as Model
from blocksvm.model.files import load_model as load_model
from blocksvm.sources.block import Block as Block
from blocksvm.sources.matrix import Matrix as Matrix
from blocksvm.sources.reading import iterate_blocks as iterate_blocks
from blocksvm.sources.store.reader import open_store as open_store
from blocksvm.streaming.saving import save_stream as save_stream
from blocksvm.streaming.stream import Stream as Stream
from blocksvm.streaming.stream import StreamSettings as StreamSettings
from blocksvm.training.settings import TrainSettings as TrainSettings
from blocksvm.validation.cross import cross_validate as cross_validate

__version__: str
__all__: list[str]

"""What ``__getattr__`` of the package imports on first use, for type checkers and editors."""

from blocksvm.base.errors import InputError as InputError
from blocksvm.base.errors import InputWarning as InputWarning
from blocksvm.conversion.convert import SplitSettings as SplitSettings
from blocksvm.exchange.forms import export_model as export_model
from blocksvm.exchange.forms import import_model as import_model
from blocksvm.exchange.linear import save_imported as save_imported
from blocksvm.exchange.sklearn_models import from_estimator as from_estimator
from blocksvm.exchange.sklearn_models import to_estimator as to_estimator
from blocksvm.learners.engine.joint import JointLearner as JointLearner
from blocksvm.learners.engine.joint import JointMap as JointMap
from blocksvm.model.model_file import Model as Model
from blocksvm.model.model_file import load_model as load_model
from blocksvm.sources.block import Block as Block
from blocksvm.sources.block_reader import iterate_blocks as iterate_blocks
from blocksvm.sources.matrix import Matrix as Matrix
from blocksvm.store.reader import open_store as open_store
from blocksvm.streaming.stream_pass import Stream as Stream
from blocksvm.streaming.stream_pass import StreamSettings as StreamSettings
from blocksvm.streaming.stream_saving import save_stream as save_stream
from blocksvm.theory.margin_search import maximum_margin as maximum_margin
from blocksvm.training.fit import Fitted as Fitted
from blocksvm.training.fit import describe_solver as describe_solver
from blocksvm.training.fit import fit as fit
from blocksvm.training.train_settings import TrainSettings as TrainSettings
from blocksvm.validation.cross import cross_validate as cross_validate

__version__: str
__all__: list[str]

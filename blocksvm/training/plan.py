"""The plan of a run: everything that is decided before a row is read, and the memory that it will take."""

from collections.abc import Mapping

from blocksvm.base.errors import InputError, option, value_text
from blocksvm.base.labels import MANY, NUMBERS, SETS, Labels, members_of
from blocksvm.base.memory import Budget, TooLittleMemory
from blocksvm.base.settings import plain
from blocksvm.base.threads import Threads
from blocksvm.base.vectors import width_of
from blocksvm.files.paths import Location
from blocksvm.model.held_out import HeldOut
from blocksvm.model.solver_state import InitialModels, namespace
from blocksvm.online.methods import get_method
from blocksvm.solvers.solver import BEST, Method, Solver, StateArray, Task
from blocksvm.sources.source import Source
from blocksvm.store.descriptions import CheckpointMeta, MethodMeta, PartitionMeta
from blocksvm.training.partition import BlockPlan, plan_blocks, take_state
from blocksvm.training.schedule import Schedule
from blocksvm.training.settings import TrainSettings

BEST_SHARE = 1 / 64  # of what is left for rows: a run keeps its best weights where these take no more


class Plan:
    """The plan of a run on a source.  initial_models: those that it begins with; valid: a source to score after each
    outer iteration; resume: the checkpoint to go on from; method: another one than the settings name, which takes the
    same settings; previous: as of ``Task``; besides: bytes by name that the caller has taken of the memory.  Raises
    InputError where the settings do not fit the source or the memory."""

    def __init__(self, source: Source, settings: TrainSettings, *, initial_models: InitialModels | None = None,
                 valid: Source | None = None, resume: CheckpointMeta | None = None, method: Method | None = None,
                 previous: tuple | None = None, besides: Mapping[str, int] | None = None):  # fmt: skip
        self.source, self.resume = source, resume
        self.settings = settings = settings.settled(source)
        self.initial_models = initial_models or InitialModels(source)
        self.schedule: Schedule = settings.make_schedule()
        self.task = Task(
            dict(settings.method), source, settings.constant, self.schedule.tolerance,
            settings.working_set_share() is not None, settings.free_bias, settings.tol, previous,
        )  # fmt: skip
        self.make = (method or get_method(settings.solver, settings.learner)).make
        self.solver: Solver = self.make(self.task)
        labels_are_read = not self.solver.predicts_rows or source.label_kind == NUMBERS
        real = self.solver.real_targets and labels_are_read
        packed = self.solver.packed and source.chunks.words is not None
        if real or packed:
            self.source = source = source.reader(real=real, packed=packed)
        learner = bool(settings.learner or self.solver.capabilities.predicts_first)
        self.method = MethodMeta(self.solver.name, learner, plain(self.solver.settings))
        self.budget = Budget(settings.memory, dict(besides or {}))
        self.initial_models.check(self.solver, settings.bias, self.label_list())
        if self.solver.n_features is None:
            self.initial_models.match_features(self.budget)
        self.initial_models.n_apart = self.solver.n_features
        self.n_features = self.solver.n_features or source.n_features + len(self.initial_models.extra_ids)
        if self.initial_models.prior is not None:
            self.budget.take("prior", 8 * width_of(self.solver.n_vectors) * (self.n_features + 1))
        if valid is not None:
            self.solver.capabilities.require("linear", self.solver.name, "valid", "score other rows with predict")
        classes = self.labels, self.solver, self.budget, self.multilabel
        self.held_out = None if valid is None else HeldOut(valid, *classes)
        take_state(self.budget, source, self.solver, self.n_features)
        saved = None if resume is None else resume.arrays.get(self.namespace, {})
        self.solver.plan_memory(self.budget, source, saved)
        if self.held_out is not None:
            self.held_out.match(source, self.budget)
        self.blocks = self._planned_blocks()

    def _planned_blocks(self) -> BlockPlan:
        """The blocks, and the weights of the best certificate so far where these take little beside them."""
        resume, solver = self.resume, self.solver
        saved = None if resume is None else resume.partition
        best = StateArray(BEST, "feature", in_model=False, in_visits=False)
        n_bytes = best.n_bytes(self.n_features, 0)
        fits = n_bytes <= BEST_SHARE * self.budget.left
        kept = fits if resume is None else BEST in resume.arrays.get(self.namespace, {})
        before = dict(self.budget.used)
        if kept and solver.n_vectors == 1 and solver.capabilities.working_set:
            try:
                self.budget.take("best weights", n_bytes)
                blocks = self.plan_rows(saved)
                solver.state_arrays += (best,)
                return blocks
            except TooLittleMemory:
                self.budget.used = before
                if saved is not None:
                    raise
        return self.plan_rows(saved)

    def plan_rows(self, saved: PartitionMeta | None) -> BlockPlan:
        return plan_blocks(self.budget, self.source, self.solver, self.settings, saved)

    @property
    def namespace(self) -> str:
        return namespace(self.method.name, self.method.learner)

    @property
    def labels(self) -> Labels | None:
        """The classes that are learned; None where targets are real numbers."""
        if self.solver.real_targets:
            return None
        return Labels(members_of(self.source.label_counts)) if self.multilabel else self.source.labels

    def label_list(self) -> list:
        """As descriptions have them: none where targets are real numbers."""
        return [] if self.labels is None else list(self.labels.values)

    def remark(self) -> str:
        """A sentence where classes look like targets of a regression, else ''."""
        labels = self.labels
        if labels is None or self.source.label_kind != NUMBERS or len(labels.values) <= MANY:
            return ""
        numbers = option("targets", "numbers") if self.method.learner else option("loss", "epsilon-insensitive")
        what = f"the labels are {len(labels.values):,} distinct numbers, each taken for a class"
        return f"{what}; where they are real targets, give {numbers}"

    @property
    def multilabel(self) -> bool:
        return self.source.label_kind == SETS

    def share_work(self, threads: Threads) -> None:
        """Let threads share the work of the solver, and the decoding of blocks.  Where that goes on beside passes which
        take about as long, one of the threads is left to it."""
        decoding = self.solver.passes_like_decoding and not self.blocks.partition.resident
        self.solver.threads = Threads(max(1, threads.n - 1), threads.piece) if decoding else threads
        self.source.decode_by(threads.wanted, self.blocks.memory)

    def memory(self) -> dict[str, int]:
        """Bytes by name, as counted against the budget."""
        return dict(self.budget.used)

    def describe(self) -> dict:
        """The settings that decide the arithmetic of the run, for its files: a run that goes on must have the same."""
        return {
            "method": self.method,
            "settings": self.settings.arithmetic(),
            "fingerprint": self.source.fingerprint,
            "n_features": self.source.n_features,
            "cost": None if self.solver.problem is None else self.solver.problem.cost.squeeze().tolist(),
            "partition": self.describe_blocks(),
            "earlier": self.initial_models.fingerprints,
        }

    def describe_blocks(self) -> dict:
        """What decides which rows form which block, beside the settings."""
        blocks, partition = self.blocks, self.blocks.partition
        sizes = {"capacity": int(partition.capacity), "set_bytes": blocks.set_bytes, "unit_bytes": blocks.unit_bytes}
        return {"resident": partition.resident} | sizes

    def check_resumed(self, saved: CheckpointMeta, path: Location) -> None:
        """InputError, naming the setting, where the checkpoint belongs to another run."""
        if saved.fingerprint != self.source.fingerprint:
            other = f"belongs to another store than {self.source.name}"
            raise InputError(f"{path}: {other}; remove it or name the right one")
        on_cluster = saved.partition.on_cluster
        if on_cluster != bool(self.describe_blocks().get("on_cluster")):
            whose, how = ("a cluster", "with") if on_cluster else ("one machine", "without")
            cure = f"resume {how} {option('cluster')}, or start from it with {option('start_from')}"
            raise InputError(f"{path}: is of a run on {whose}; {cure}")
        for before, ours in (
            ({"solver": saved.method.name}, {"solver": self.method.name}),
            (saved.method.settings, self.method.settings),
            (saved.settings, self.settings.arithmetic()),
        ):
            for name, value in before.items():
                if (now := ours.get(name)) != value:
                    begun = f"was begun with {option(name, value)}, but {value_text(now)} is given now"
                    raise InputError(f"{path}: {begun}; resume with the same, or start afresh")
        self.initial_models.check_resumed(saved.earlier, path)

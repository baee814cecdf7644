"""A visit is data in, data out: made in this process or another it changes the same, and visits to several blocks from
one w may be added up."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import reference_losses
from support.training_cases import looped, make_store, opened, random_rows, train

from blocksvm.learners import LEARNERS
from blocksvm.solvers.dual_methods import METHOD
from blocksvm.solvers.solver import HoldsRows, State
from blocksvm.sources.block import Block
from blocksvm.sources.matrix import Matrix
from blocksvm.store.reader import Store
from blocksvm.training.certificate import certify
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.schedule import Fixed, PassStats
from blocksvm.training.train_settings import TrainSettings
from blocksvm.training.visit import ThisProcess, VisitResult, VisitTask, add, merge, part_of, run_visit
from blocksvm.validation.folds import folds_of
from blocksvm.validation.held_out_problems import HeldOutCD

# -- a process of its own --------------------------------------------------------------------------------------------


def plan_of(source, path=None, **settings) -> Plan:
    """path: values of C, for each of which a problem is made of each of three folds."""
    method = path and replace(METHOD, make=partial(HeldOutCD, path=path, folds=folds_of(source, 3, 0)))
    return Plan(source, TrainSettings.of(**settings), method=method)


@cache
def plan_there(store: str, settings: tuple) -> Plan:
    return plan_of(Store(store), **dict(settings))


def copied_features(plan: Plan, part: State) -> State:
    return {a.name: part[a.name] for a in plan.solver.state_arrays if a.axis == "feature" and a.in_visits}


def visit_there(store: str, settings: tuple, task: VisitTask, block: Block | None, part: State, held) -> VisitResult:
    """What a machine of its own does: it knows the store and the settings, and reads the rows that it is to visit."""
    plan = plan_there(store, settings)
    if held is not None:
        plan.solver.hold(held, {})
    if block is None:
        block = plan.source.read_block(task.chunks, None)
    result = run_visit(plan.solver, plan.blocks.partition, task, block, part)
    result.features = copied_features(plan, part)
    result.held = plan.solver.held() if held is not None else None
    return result


class Elsewhere:
    """Makes each visit in another process.  Only the rows of the working set, which no other process has, go there."""

    def __init__(self, pool: ProcessPoolExecutor, store: str, settings: dict, loop: OuterLoop):
        self.pool, self.own, self.loop, self.keys = pool, (store, tuple(settings.items())), loop, []

    def visit(self, task: VisitTask, block: Block) -> VisitResult:
        self.keys.append((task.members is not None, task.key))
        solver, state = self.loop.plan.solver, self.loop.state
        sent = None if task.members is None else block
        held = solver.held() if isinstance(solver, HoldsRows) else None
        result = self.pool.submit(visit_there, *self.own, task, sent, part_of(solver, block, state), held).result()
        add(solver, state, result)
        return result


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as made:
        yield made


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    X, y = random_rows(n=240, d=40, seed=6)
    folder = tmp_path_factory.mktemp("stores")
    three = np.where(np.arange(240) % 3 == 0, 2.0, y)
    made = {k: str(make_store(folder, X, labels, f"{k}", 128)) for k, labels in ((2, y), (3, three))}
    return made | {"narrow": str(make_store(folder, X[:, :8], three, "narrow", 32))}  # for a map of few features


# the first learner of each file
FAMILIES = {place.partition(":")[0]: name for name, place in reversed(list(LEARNERS.items()))}
SETTINGS = [
    *((2, {"loss": loss}) for loss in ("hinge", "squared-hinge", "logistic", "epsilon-insensitive")),
    (2, {"loss": "squared-epsilon-insensitive", "schedule": "auto", "working_set": "none"}),
    (2, {"loss": "hinge", "tol": 1e-3, "schedule": "tol:0.1", "bias": "free", "class_weight": "balanced"}),
    *((3, {"loss": loss}) for loss in ("hinge", "squared-hinge", "logistic")),
    (3, {"multiclass": "crammer-singer", "bias": 0.7}),
    (2, {"solver": "pegasos", "batch": 4, "schedule": "2"}),
    (2, {"solver": "pegasos", "dual": True, "schedule": "2", "bias": 1.0}),
    *((2, {"learner": name}) for name in FAMILIES.values()),
    *((3, {"learner": name, "average": True}) for name in ("pa1", "mira")),
    *(
        (2, {"learner": "kernel-pa1", **budget})
        for budget in ({}, {"budget": 9}, {"budget": 9, "budget_rule": "remove"})
    ),
    *((2, {"solver": "kernel", "matrix_rows": rows, "bias": bias}) for rows, bias in ((16, "free"), (40, 0.5))),
    ("narrow", {"learner": "pa1", "joint": "support.joint_cases:prototypes"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "settings"), SETTINGS, ids=lambda given: str(given))
def test_a_visit_made_in_another_process_changes_the_same(pool, stores, rows, settings):
    store = stores[rows]
    settings = {"block_chunks": 3, "max_outer": 3, "tol": 0.0, "seed": 3} | settings
    made = []

    def executor(loop):
        made.append(Elsewhere(pool, store, settings, loop))
        return made[0]

    here, there = train(store, **settings), train(store, executor=executor, **settings)
    assert there.same(here)
    assert there.result.certificate == here.result.certificate
    assert (there.result.passes, there.result.set_passes) == (here.result.passes, here.result.set_passes)
    keys, blocks = made[0].keys, here.events[0]["blocks"]
    outer = here.result.outer
    assert blocks > 2
    assert [key for of_the_set, key in keys if not of_the_set] == [
        (k, n) for k in range(1, outer + 1) for n in range(blocks)
    ]
    # the order of the set's rows is drawn from the number of the visit, so that each visit has another one
    visits = [k for k, passes in enumerate(here.result.set_passes) if passes]
    assert [key for of_the_set, key in keys if of_the_set] == [(k, 0) for k in visits]
    assert visits or here.loop.working_set is None


@pytest.mark.slow
def test_folds_and_costs_are_visited_in_another_process(pool, stores):
    settings = {"path": (0.1, 1.0), "block_chunks": 3, "max_outer": 3, "tol": 1e-9, "bias": 1.0}
    here = OuterLoop(plan_of(Store(stores[2]), **settings))
    there = OuterLoop(
        plan_of(Store(stores[2]), **settings), executor=lambda loop: Elsewhere(pool, stores[2], settings, loop)
    )
    results = here.run(), there.run()
    assert results[0].certificate == results[1].certificate
    assert all(np.array_equal(here.state[name], there.state[name]) for name in here.state)


@pytest.mark.slow
def test_a_run_by_the_clock_is_replayed_in_another_process(pool, stores):
    """``overlap`` makes passes while the next block is read; a process that reads none repeats what was chosen."""
    settings = {"block_chunks": 3, "max_outer": 4, "tol": 0.0, "schedule": "overlap"}
    here = train(stores[2], **settings)
    passes = here.result.passes, here.result.set_passes
    there = train(
        stores[2], executor=lambda loop: Elsewhere(pool, stores[2], settings, loop), replay=passes, **settings
    )
    assert there.same(here)


# -- a visit ---------------------------------------------------------------------------------------------------------

CHUNK_ROWS = np.arange(0, 240, 8)


@pytest.fixture(scope="module")
def rows():
    return random_rows(n=240, d=40, seed=6)


def begun(source, **settings) -> OuterLoop:
    loop = looped(source, **settings)
    loop.allocate()
    return loop


def task_of(chunks, key=(1, 0), passes=1, **more) -> VisitTask:
    return VisitTask(chunks, key, Fixed(passes), PassStats(), **more)


@pytest.mark.parametrize(
    "settings", [{}, {"loss": "squared-hinge"}, {"solver": "pegasos"}, {"solver": "arow", "average": True}], ids=str
)
def test_only_the_feature_arrays_are_touched_before_a_result_is_added(rows, settings):
    loop = begun(Matrix(*rows, chunk_rows=CHUNK_ROWS), **settings)
    solver, state = loop.plan.solver, loop.state
    block = loop.plan.source.read_block(np.arange(3), None)
    before = {a.name: state[a.name].copy() for a in solver.state_arrays if a.axis != "feature"}
    result = run_visit(solver, loop.plan.blocks.partition, task_of(np.arange(3)), block, part_of(solver, block, state))
    assert len(result.passes) == len(result.seconds) == 1
    assert result.features is None
    assert all(np.array_equal(array, state[name]) for name, array in before.items())
    add(solver, state, result)
    assert any(not np.array_equal(array, state[name]) for name, array in before.items())


def test_one_block_serves_several_problems(rows):
    """Each block is read once for three values of C; each result is that of a run of its own."""
    costs = (0.05, 1.0, 20.0)
    options = {"block_chunks": 6, "schedule": "2", "max_outer": 3, "tol": 0.0, "partition": "fixed", "seed": 3}
    options |= {"working_set": "none"}
    alone = [looped(Matrix(*rows, chunk_rows=CHUNK_ROWS), C=C, **options).run() for C in costs]
    source = Matrix(*rows, chunk_rows=CHUNK_ROWS)
    loops = [begun(source, C=C, **options) for C in costs]
    partition = loops[0].plan.blocks.partition
    for outer in range(1, 4):
        for number, chunks in enumerate(partition.blocks(outer)):
            block = source.read_block(chunks, None)
            for loop in loops:
                here = ThisProcess(loop.plan.solver, partition, loop.state)
                here.visit(task_of(chunks, (outer, number), 2), block)
        for loop in loops:
            loop.plan.solver.end_outer(loop.state, outer)
    assert source.cost.blocks == 3 * 5
    for loop, result in zip(loops, alone, strict=True):
        assert np.array_equal(loop.state["w"], result.w)
        assert np.array_equal(loop.state["alpha"], result.alpha)


# -- several at once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "logistic"])
@pytest.mark.parametrize("sigma", [2, 4])
@pytest.mark.parametrize("with_prior", [False, True])
def test_visits_from_one_w_add_up(rows, loss, sigma, with_prior):
    """D rises by at least what the visits have gained; sweep after sweep the gap is closed."""
    X, y = rows
    bias, C = 0.7, 0.1
    source = Matrix(X, y, chunk_rows=CHUNK_ROWS)
    loop = begun(source, loss=loss, C=C, bias=bias, working_set="none")
    solver, state, partition = loop.plan.solver, loop.state, loop.plan.blocks.partition
    if with_prior:
        solver.prior = 0.2 * np.random.default_rng(1).standard_normal(X.shape[1] + 1)
        solver.start(state)
    prior = solver.prior if with_prior else np.zeros(X.shape[1] + 1)
    dense = np.hstack([X.toarray(), np.full((len(y), 1), bias)])
    low, high = reference_losses.REFERENCES[loss].interval(C)

    def dual() -> float:
        alpha = state["alpha"]
        conjugate = reference_losses.REFERENCES[loss].conjugate
        sums = sum(float(conjugate(reference_losses.LONG(a), t, C, ())) for a, t in zip(alpha, y, strict=True))
        change = dense.T @ (alpha * y)
        return -sums - 0.5 * change @ change - prior @ change

    for sweep in range(1, 100):
        before, results = dual(), []
        for number, chunks in enumerate(np.array_split(np.random.default_rng(sweep).permutation(30), sigma)):
            block = source.read_block(chunks, None)
            part = part_of(solver, block, state)
            part |= {name: array.copy() for name, array in copied_features(loop.plan, part).items()}
            task = task_of(chunks, (sweep, number), 5, sigma=float(sigma))
            result = run_visit(solver, partition, task, block, part)
            results.append(replace(result, features=copied_features(loop.plan, part)))
        merge(solver, state, results, float(sigma))
        solver.end_outer(state, sweep)
        alpha = state["alpha"]
        assert (alpha >= low).all() and (alpha <= high).all()
        np.testing.assert_allclose(state["w"], prior + dense.T @ (alpha * y), rtol=0, atol=1e-12 * sweep * C * len(y))
        gains = sum(done.gain for result in results for done in result.passes)
        after = dual()
        assert gains >= 0.0
        assert after - before >= gains - 1e-10 * max(1.0, abs(after))
        assert solver.estimates(state, 0.0)[1] == pytest.approx(after, rel=1e-9, abs=1e-9)
        every = source.read_block(np.arange(30), None)
        found, drift = certify(solver.problem.sums(state["w"], solver.prior), alpha, [every], lambda: False)
        if found.rel_gap <= 1e-4:
            break
    assert found.rel_gap <= 1e-4
    assert drift <= 1e-9
    if not with_prior:
        alone = train(source, loss=loss, C=C, bias=bias, tol=1e-7).result.certificate
        assert found.dual <= alone.primal * (1 + 1e-12) and alone.dual <= found.primal * (1 + 1e-12)


def test_the_rows_of_the_set_come_in_another_order_at_every_visit(rows):
    """Whatever outer iteration they belong to: the visits to the set are counted through the run."""
    orders = []
    with opened(Matrix(*rows, chunk_rows=CHUNK_ROWS)) as source:
        loop = looped(source, block_chunks=6, tol=1e-9, C=10.0, max_outer=6, schedule="1")
        partition = loop.plan.blocks.partition
        plain = partition.set_order

        def noted(first, second, inner_pass, out):
            plain(first, second, inner_pass, out)
            if inner_pass == 0:
                orders.append(((first, second), tuple(out.tolist())))

        partition.set_order = noted
        loop.run()
    assert len(orders) > 6
    assert len({key for key, _ in orders}) == len(orders)
    assert len({order for _, order in orders}) == len(orders)

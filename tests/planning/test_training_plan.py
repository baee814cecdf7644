"""Plans of stores: what a sample is, how it is trained, and that a run then does what was counted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from support.class_cases import classes
from support.training_cases import make_store, random_rows

from blocksvm.base.errors import InputError
from blocksvm.base.threads import Threads
from blocksvm.planning.forecast import Processors
from blocksvm.planning.sampled_run import SampledRun, sample_of
from blocksvm.planning.training_plan import plan_training
from blocksvm.store.reader import Store
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.run import Watch
from blocksvm.training.train_settings import TrainSettings

MEMORY = {"in memory": 10_000_000, "in blocks": 120_000}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    X, y = random_rows(n=600, d=40, seed=6)
    return {
        2: make_store(folder, X, y, "two", 128),
        4: make_store(folder, *classes(n=600, d=40, k=4), "four", 128),
    }


def planned(path, workers=None, **settings):
    with Store(path) as store:
        return plan_training(store, TrainSettings.of(**settings), Processors(2, 2), workers)


def figures_of_run(path, **settings):
    """(outer iterations, certificates, passes over the set in nonzeros) of a run on all rows."""
    events = []
    with Store(path) as store:
        OuterLoop(Plan(store, TrainSettings.of(**settings)), Watch(events.append)).run()
    outers = [event for event in events if event["event"] == "outer"]
    certificates = sum(event["share"] for event in events if event["event"] == "certificate")
    return len(outers), certificates, sum(event["set_nnz_visited"] for event in outers)


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize(
    "settings", [{}, {"loss": "logistic", "C": 0.3}, {"loss": "epsilon-insensitive"}, {"bias": "free"}], ids=str
)
def test_a_sample_of_all_rows_counts_what_a_run_does(stores, settings, memory):
    settings |= {"memory": MEMORY[memory]}
    plan = planned(stores[2], **settings)
    assert plan.sample.n_samples == plan.rows.n_samples == 600
    assert (plan.rows.blocks == 1) == (memory == "in memory")
    counts = plan.counts
    found = counts.outers, counts.certificates, round(counts.set_passes * plan.rows.n_nonzeros)
    assert found == figures_of_run(stores[2], **settings)
    assert all(rate >= 0.0 for rate in vars(plan.rates).values())
    assert 0.0 < plan.run.total < 600.0
    assert plan.memory and sum(plan.memory.values()) <= MEMORY[memory]
    again = planned(stores[2], **settings)
    assert again.counts == counts and again.memory == plan.memory


def test_a_sample_is_of_chunks_at_equal_distances(stores):
    with Store(stores[2]) as store:
        sample = sample_of(store, 60, 1)
        n = len(store.chunks)
        assert len(sample.chunks) == round(n / 10)
        assert set(np.diff(sample.chosen)) <= {9, 10, 11}
        block, whole = sample.read_block(np.array([1]), None), store.reader().read_block(sample.chosen[1:2], None)
        assert (block.indices == whole.indices).all() and (block.y == whole.y).all()
        first = sample.chunks.n_rows[0]
        assert block.rows.tolist() == list(range(first, first + sample.chunks.n_rows[1]))
        sampled = SampledRun(Plan(store, TrainSettings.of(memory=120_000)), sample)
        sampled.run()
        assert sampled.counts().outers > 1
        blocks, all_blocks = (plan.blocks for plan in (sampled.loop.plan, sampled.whole))
        assert blocks.set_bytes == int(sample.n_nonzeros / store.n_nonzeros * all_blocks.set_bytes)
        assert len(blocks.partition.stored) == pytest.approx(len(all_blocks.partition.stored), abs=3)
        store.read_block(np.arange(n), None)
        assert sampled.stored_bytes() == pytest.approx(store.cost.bytes_read, rel=0.1)


def test_a_plan_of_workers(stores):
    plan = planned(stores[2], workers=3, loss="logistic")
    cluster = plan.cluster
    assert cluster.workers == 3
    assert cluster.counts.outers > 1 and cluster.counts.certificates >= 1
    assert cluster.driver.received > 0 and cluster.driver.versions > 1
    assert cluster.driver.version_bytes <= 8 * 41
    assert cluster.smooth_readings > cluster.counts.readings
    assert "copies of the weights" in cluster.memory
    assert planned(stores[2], workers=3).cluster.smooth_readings is None  # the hinge is not smooth


def test_several_classes(stores):
    plan = planned(stores[4], workers=2)
    assert plan.counts.outers == figures_of_run(stores[4])[0]
    assert plan.cluster.counts.readings >= 2


def test_what_certifies_nothing_has_no_plan(stores):
    with pytest.raises(InputError, match="solver=pegasos: a plan is made for dual-cd"):
        planned(stores[2], solver="pegasos")


@pytest.mark.parametrize(("n_classes", "memory", "given", "train"), [
    (2, "in memory", 4, 4), (2, "in blocks", 4, 3), (2, "in blocks", 1, 1), (4, "in blocks", 4, 4)
])  # fmt: skip
def test_one_thread_is_left_to_decoding(stores, n_classes, memory, given, train):
    with Store(stores[n_classes]) as store:
        plan = Plan(store, TrainSettings.of(memory=MEMORY[memory]))
        plan.share_work(Threads(given))
        assert plan.solver.threads.n == train


def test_decoders_live_in_a_part_of_what_the_weights_leave(tmp_path):
    """Weights of many classes may take nearly all of the memory: blocks and decoders share the rest."""
    memory = 600_000
    X = sparse.random(600, 20_000, 0.0015, format="csr", random_state=0)
    path = make_store(tmp_path, X, np.arange(600) % 4, "wide", 128)
    with Store(path) as store:
        plan = Plan(store, TrainSettings.of(memory=memory))
        used = plan.memory()
        left = memory - used["weights"] - used["alpha"] - used["tables"]
        assert left - 100 < plan.blocks.memory <= left < memory / 3
        assert store.working_bytes(plan.blocks.memory) <= used["reading"] < min(left / 8, store.working_bytes(memory))

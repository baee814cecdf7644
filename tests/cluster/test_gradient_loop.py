"""Newton's method by workers: certified, and not a bit depends on who they are; what else a run on a cluster can do."""

import numpy as np
import pytest
from support.class_cases import classes
from support.thread_cluster import ThreadCluster
from support.training_cases import make_store, random_rows, svmlight, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.cluster.plan import ClusterPlan
from blocksvm.store.reader import Store, open_store
from blocksvm.training.settings import TrainSettings
from blocksvm.validation.path import cross_validate

NEWTON = {"solver": "newton", "loss": "logistic", "tol": 1e-5}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    X, y = random_rows(n=900, d=40, seed=6)
    folder = tmp_path_factory.mktemp("stores")
    return {2: make_store(folder, X, y, "two", 128), 11: make_store(folder, *classes(n=900, d=40, k=11), "eleven", 128)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "settings"),
    [(2, {}), (2, {"loss": "squared-hinge", "bias": 1.0, "class_weight": "balanced"}), (2, {"loss": "squared"}),
     (11, {"tol": 1e-3})],
    ids=str,
)  # fmt: skip
def test_any_number_of_workers_trains_the_same(stores, k, settings):
    settings = NEWTON | settings
    alone, here = train(stores[k], cluster=1, **settings), train(stores[k], **settings)
    assert alone.result.status == "converged"
    there = train(stores[k], cluster=4, **settings)
    assert there.same(alone) and there.result.certificate == alone.result.certificate
    # the search is the same but for the order of additions
    assert abs(len(alone.outer()) - len(here.outer())) <= 1
    assert max(alone.result.certificate.dual, here.result.certificate.dual) <= min(
        alone.result.certificate.primal, here.result.certificate.primal
    ) * (1 + 1e-12)


def test_answers_are_counted_against_the_memory(stores):
    with Store(stores[2]) as source:
        ample = ClusterPlan(source, TrainSettings.of(**NEWTON, memory=10_000_000))
        table = source.chunks
        sizes = [int((table.nnz + table.n_rows)[part].sum()) for part in ample.blocks.partition.blocks(1)]
        assert len(sizes) > 10 and min(sizes[:-1]) >= 4 * 41 - 128
        assert ample.blocks.under_way == 64
        answers = ample.budget.used["answers under way"]
        assert answers >= 64 * 2 * 41 * 8
        others = sum(ample.budget.used.values()) - answers
        tight = ClusterPlan(source, TrainSettings.of(**NEWTON, memory=others + answers // 8))
        assert tight.blocks.under_way == 8
        with pytest.raises(InputError, match="two answers"):
            ClusterPlan(source, TrainSettings.of(**NEWTON, memory=others + answers // 64))


SOLVERS = [{"solver": "newton", "loss": "squared-hinge"}, {"solver": "dual-cd", "loss": "squared-hinge"}]


@pytest.mark.slow
@pytest.mark.parametrize("settings", SOLVERS, ids=str)
def test_a_prior_with_features_that_the_store_lacks(tmp_path, settings):
    X, y = random_rows(n=600, d=40, seed=6)
    old, new = (make_store(tmp_path, X[:300], y[:300], "old", 128),
                make_store(tmp_path, X[300:, :30], y[300:], "new", 128))  # fmt: skip
    with open_store(old) as store:
        fit(store, tol=1e-3).save(tmp_path / "prior.h5")
    settings = settings | {"prior": tmp_path / "prior.h5", "tol": 1e-6, "bias": 1.0}
    alone, here = train(new, cluster=1, **settings), train(new, **settings)
    assert len(alone.w) == len(here.w) == 41
    assert alone.result.status == "converged"
    assert alone.result.certificate.primal == pytest.approx(here.result.certificate.primal, rel=2e-6)
    assert train(new, cluster=3, **settings).same(alone)


@pytest.mark.slow
@pytest.mark.parametrize("settings", SOLVERS, ids=str)
def test_sets_of_labels(tmp_path, settings):
    X, y = random_rows(n=400, d=20, seed=2, density=0.3)
    sets = ["1,2" if a > 0 and b else "1" if a > 0 else "2" for a, b in zip(y, X[:, 0].toarray() > 0, strict=True)]
    lines = [f"{s} {line.partition(' ')[2]}" for s, line in zip(sets, svmlight(X, y).splitlines(), strict=True)]
    store = make_store(tmp_path, "\n".join(lines) + "\n", "sets", 128, format="multilabel")
    settings = settings | {"tol": 1e-5}
    alone, here = train(store, cluster=1, **settings), train(store, **settings)
    assert alone.result.certificate.primal == pytest.approx(here.result.certificate.primal, rel=2e-5)
    assert train(store, cluster=3, **settings).same(alone)


@pytest.mark.parametrize("settings", SOLVERS, ids=str)
def test_rows_with_weights(tmp_path, settings):
    X, y = random_rows(n=400, d=20, seed=2, density=0.3)
    rows = [line.partition(" ")[2] for line in svmlight(X, y, 0).splitlines()]
    text = "".join(f"{int(y[i])} {1 + i % 3} |f {row}\n" for i, row in enumerate(rows))
    store = make_store(tmp_path, text, "weighted", 128, format="vw")
    with Store(store) as source:
        assert source.weighted
    settings = settings | {"tol": 1e-5}
    alone, here = train(store, cluster=1, **settings), train(store, **settings)
    assert alone.result.certificate.primal == pytest.approx(here.result.certificate.primal, rel=2e-5)
    assert train(store, cluster=3, **settings).same(alone)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 11])
@pytest.mark.parametrize(
    "settings", [{"C": (0.1, 1.0)}, {"C": (1.0,), "solver": "newton", "loss": "logistic"}], ids=str
)
def test_cross_validation(stores, k, settings):
    """Problems of the certified gap as on one machine, and the same bits for any number of workers."""
    settings = {"C": (1.0,), "folds": 3, "tol": 1e-4} | settings
    with open_store(stores[k]) as rows:
        here, alone, there = (
            cross_validate(rows, cluster=cluster, **settings) for cluster in (None, ThreadCluster(1), ThreadCluster(3))
        )
    assert (alone.rel_gap <= 1e-4).all()
    np.testing.assert_allclose(alone.accuracy, here.accuracy, atol=0.02)
    for name in ("accuracy", "loss", "auc", "rel_gap"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(there, name))

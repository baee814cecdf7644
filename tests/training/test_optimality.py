"""Real data, trained to a certified gap of 1e-6, against LIBLINEAR on the same rows."""

import ctypes
import functools
import lzma

import numpy as np
import pytest
import reference
from support.paths import DATA
from support.training_cases import make_store, rows_of_store, train

liblinear = pytest.importorskip("liblinear.liblinearutil")

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the folder of real data is not on this machine")
LIBLINEAR = {"hinge": 3, "squared-hinge": 1}


FILES = {"a9a": "a9a.xz", "mushrooms": "mushrooms.txt.xz", "phishing": "phishing.txt.xz", "splice": "splice.txt.xz",
         "dna": "dna.scale.xz"}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """name -> (store, X float64, y): made once, when first asked for."""

    @functools.cache
    def get(name: str):
        text = lzma.decompress((DATA / "libsvm" / FILES[name]).read_bytes()).decode()
        if name == "dna":  # one class against the others
            lines = (line.split(" ", 1) for line in text.splitlines())
            text = "".join(f"{1 if first == '3' else -1} {rest}\n" for first, rest in lines)
        store = make_store(tmp_path_factory.mktemp(name), text, dtype="float64")
        return store, *rows_of_store(store)[:2]

    return get


def liblinear_primal(X, y, loss: str, C: float = 1.0) -> float:
    """P of LIBLINEAR's w, computed here in float64."""
    problem = liblinear.problem(y, X)
    ctypes.CDLL(None).srand(1)  # of whose numbers its orders are made, whatever was drawn before
    model = liblinear.train(problem, liblinear.parameter(f"-s {LIBLINEAR[loss]} -c {C} -e 0.01 -B -1 -q"))
    w = np.ctypeslib.as_array(model.w, (model.nr_feature,)).copy()
    if model.label[0] == -1:
        w = -w
    return reference.primal(X, y, np.pad(w, (0, X.shape[1] - len(w))), np.full(len(y), C), loss)


# gap to reach; passes a visit, chunks a block (None: one resident block) that get there fast
CASES = {("a9a", "hinge"): (1e-6, "tol:0.001", None), ("a9a", "squared-hinge"): (1e-6, "10", 20),
         ("mushrooms", "hinge"): (1e-6, "10", 8), ("mushrooms", "squared-hinge"): (1e-6, "10", 8),
         ("phishing", "hinge"): (1e-6, "10", None), ("phishing", "squared-hinge"): (1e-6, "10", 10),
         ("splice", "hinge"): (1e-4, "100", None), ("splice", "squared-hinge"): (1e-6, "10", None),
         ("dna", "hinge"): (1e-6, "10", None), ("dna", "squared-hinge"): (1e-6, "10", 3)}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "loss"), CASES)
def test_certified_and_no_worse_than_liblinear(data, name, loss):
    tol, schedule, block_chunks = CASES[name, loss]
    source, X, y = data(name)
    run = train(source, loss=loss, tol=tol, schedule=schedule, block_chunks=block_chunks)
    certificate = run.result.certificate
    assert run.result.status == "converged"
    assert certificate.rel_gap <= tol
    assert (run.events[0]["blocks"] > 1) == (block_chunks is not None)
    C_rows = np.ones(len(y))
    assert certificate.primal == pytest.approx(reference.primal(X, y, run.w[:-1], C_rows, loss), rel=1e-9)
    assert certificate.dual == pytest.approx(reference.dual(X, y, run.alpha, C_rows, loss), rel=1e-9)
    theirs = liblinear_primal(X, y, loss)
    assert certificate.dual <= theirs * (1 + 1e-12)
    assert certificate.primal <= theirs * (1 + 1e-12) + certificate.primal - certificate.dual
    if loss != "hinge" or name not in ("splice", "dna"):  # there LIBLINEAR ends at its limit of iterations, far off
        assert theirs <= certificate.primal * 1.01, "not the same problem"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a9a", "phishing"])
def test_pegasos_by_default_comes_near_the_optimum(data, name):
    source, X, y = data(name)
    optimum = train(source, tol=1e-4, schedule="10").result.certificate
    run = train(source, solver="pegasos", schedule="1", tol=0.0)
    primal = run.result.certificate.primal
    assert optimum.dual <= primal <= 1.003 * optimum.primal
    assert primal == pytest.approx(reference.primal(X, y, run.w[:-1], np.ones(len(y)), "hinge"), rel=1e-9)
    assert run.result.certificate.dual is None
    # the last iterate alone would not do better
    v, scale = run.loop.state["v"], run.loop.state["scalars"][0]
    assert primal < reference.primal(X, y, scale * v[:-1], np.ones(len(y)), "hinge")

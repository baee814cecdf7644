"""mira: the least change of the weights after which the gold output leads each of the k best by its loss.

    min 1/2 ||w' - w||^2 + C sum slack   s.t.  score(gold) - score(y') >= rho(gold, y') - slack   for the k best y'

(McDonald, Crammer, Pereira, ACL 2005; Watanabe, Suzuki, Tsukada, Isozaki, EMNLP 2007; Chiang, Knight, Wang, NAACL
2009). With one slack a constraint its multiplier lies from 0 to C, with one an example their sum; of several examples
at once the constraints are met together (``kernels/multipliers.py``).  With several oracles each of them, outputs of
small losses, takes the place of the gold one (Watanabe et al., eq. 5):

    score(o) - score(y') >= rho(gold, y') - rho(gold, o) - slack   where the right side without its slack is above 0
"""

from __future__ import annotations

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.memory import Budget
from blocksvm.kernels.multipliers import separate_slacks, shared_slacks
from blocksvm.kernels.sparse_rows import products
from blocksvm.structured.example_blocks import ExampleBlocks
from blocksvm.structured.output_structure import Row, Structure, combination
from blocksvm.structured.structured_learner import OnlineMachine, StructuredLearner, Update, score
from blocksvm.structured.structured_settings import MIRA as SETTINGS

TOL = 1e-6  # of the multipliers' gradients, as a share of the largest margin
MOST_STEPS = 20_000


def multipliers(rows: list[Row], margins: np.ndarray, groups: np.ndarray, C: float, shared: bool) -> np.ndarray:
    """(n,) float64: how far to move along each of n rows; groups (n,) int64, rising: the example of each."""
    indptr = np.append(0, np.cumsum([len(row.indices) for row in rows])).astype(np.int64)
    gram = np.empty((len(rows), len(rows)))
    products(indptr, np.concatenate([r.indices for r in rows]), np.concatenate([r.values for r in rows]), gram)
    a = np.empty(len(rows))
    tol = TOL * max(1e-300, float(np.abs(margins).max()))
    if shared:
        shared_slacks(gram, margins, groups, C, tol, MOST_STEPS, a)
    else:
        separate_slacks(gram, margins, C, tol, MOST_STEPS, a)
    return a


def mira_update(structure: Structure, w: np.ndarray, examples: np.ndarray, settings: dict) -> Update:
    rows, margins, groups, mistakes, suffered = [], [], [], 0, 0.0
    for number, i in enumerate(examples):
        outputs = structure.k_best(w, i, settings["k"]) if settings["k"] > 1 else [structure.best(w, i)]
        others = structure.oracles(i, settings["oracles"])[1:] if settings["oracles"] > 1 else []
        oracles = [(structure.loss(i, oracle), structure.difference(i, oracle)) for oracle in others]
        for rank, output in enumerate(outputs):
            loss = structure.loss(i, output)
            if loss == 0.0:
                continue
            if rank == 0:
                mistakes += 1
                suffered += loss
            row = structure.difference(i, output)
            leads = [(loss, row)]
            leads += [(loss - less, combination(row, 1.0, less_row, -1.0)) for less, less_row in oracles if less < loss]
            for lead, apart in leads:
                rows.append(apart)
                margins.append(lead - score(apart, w))
                groups.append(number)
    if not rows or max(margins) <= 0.0:
        return Update([], np.empty(0), mistakes, suffered)
    groups = np.array(groups, np.int64)
    a = multipliers(rows, np.array(margins), groups, settings["C"], settings["slack"] == "shared")
    return Update(rows, a, mistakes, suffered)


def machine(blocks: ExampleBlocks, settings: dict, run: dict, budget: Budget) -> OnlineMachine:
    """InputError where k, or the number of oracles, is above 1 and the structure gives one output."""
    if settings["k"] > 1 and not blocks.lists:
        raise InputError(
            f"mira wants the {settings['k']} best outputs, but this structure gives one; say {option('k')} 1"
        )
    if settings["oracles"] > 1 and not blocks.oracle_sets:
        raise InputError(
            f"{option('oracles', settings['oracles'])}: this structure has one right output for each example; leave it "
            "out"
        )
    n = settings["k"] * settings["oracles"] * settings["at_once"]
    budget.reserve("the constraints' products", 8 * n * n)
    return OnlineMachine(mira_update, blocks, settings, run, budget)


MIRA = StructuredLearner(
    name="mira",
    summary="the least step after which the gold output leads the k best ones by their losses",
    source="McDonald, Crammer, Pereira, ACL 2005; Chiang, Knight, Wang, NAACL 2009",
    settings=SETTINGS,
    make=machine,
)

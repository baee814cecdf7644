"""Whether an outer iteration of a run with a working set visits all rows or certifies them, and whether a run without
certificates has come to its end: decided by counts alone."""

from __future__ import annotations

from blocksvm.solvers.protocol import Solver, State
from blocksvm.training.record import Progress
from blocksvm.training.working_set import WorkingSet

OUTSIDE = 0.1  # of the gap: where the rows that are no members have more of it, all rows are visited
STANDING = 0.8  # of the gap that is left: passes over the set that leave more were in vain
STILL = 3  # outer iterations without progress after which a primal method has come to rest
BY_THE_SET = 0.5  # what passes over a working set that holds nearly all of the gap leave of it
# Late in a run the gap falls slowly, rises now and then, and the visits' estimate tells it only roughly.  Within this
# multiple of the tolerance a certificate is also taken once the visits since the last one have come to so many times
# its work, in nonzeros.
WITHIN_REACH = 4.0
WORK_OF_VISITS = 10.0


def next_is_a_check(progress: Progress, working_set: WorkingSet, gap: float, tol: float, reading: float) -> bool:
    """Whether the next outer iteration certifies and visits no block: where it may well end the run.  gap: relative, as
    the last one's visits suggest it; reading: the work of a certificate, in nonzeros."""
    attempts, outer = progress.attempts, progress.position.outer - 1
    if working_set.idle:
        attempts.without_set()
    else:
        attempts.with_set(progress.tally.set_passes[:-1])  # the last ones came behind all blocks
    if progress.certified_outer == outer:
        # passes over the set that has just been chosen may be all that is missing, where it holds most of the gap, and
        # where they have not just been made in vain: a free bias moves when all rows are visited, and only then
        outside = working_set.left_out / max(working_set.seen, 1e-300)
        gap, before = progress.certificate["rel_gap"], progress.checked_gap
        progress.checked_gap = gap if progress.position.renewed else None
        in_vain = progress.checked_gap is not None and before is not None and gap > STANDING * before
        return outside <= OUTSIDE and gap * BY_THE_SET <= tol and not in_vain
    progress.checked_gap = None
    reached = gap * attempts.factor <= WITHIN_REACH * tol
    return attempts.worthwhile(outer, gap, tol) or (reached and progress.work_since >= WORK_OF_VISITS * reading)


def at_rest(solver: Solver, state: State, estimates: list[float], tol: float) -> bool:
    """The solver has nothing more to do, or a primal estimate without a dual has stood still for some time."""
    capabilities = solver.capabilities
    if solver.finished(state):
        return True
    if capabilities.certifies or not capabilities.minimises or len(estimates) <= STILL:
        return False
    return max(estimates) - min(estimates) <= tol * abs(estimates[-1])

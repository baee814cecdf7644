"""The outer loop (Yu, Hsieh, Chang, Lin, KDD 2010): one block in memory at a time, minimised over, until the
certificate says that the optimum is reached.

    for each outer iteration:
        for each block (the next one is read meanwhile):
            visit it, take in what changed, offer its rows to the working set
            pass over the working set, where the schedule wants it
        pass over the working set, until the schedule's rule
        while a certificate is due: take it, which chooses the working set again, and pass over that
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from blocksvm.model.held_out import held_out_figures
from blocksvm.problems.problem import Certificate, CertificateSums
from blocksvm.solvers.dual_cd import REST_VISITS
from blocksvm.solvers.solver import CertifiesItself, OwnDecisions, SeveralProblemsSolver, TellsShares
from blocksvm.sources.block import Block
from blocksvm.sources.block_reader import BlockReader
from blocksvm.training import record
from blocksvm.training.certificate import Outcome, RejectedEarly, certified, enough_gap, reading_of_blocks
from blocksvm.training.run import Run
from blocksvm.training.visit import VisitTask
from blocksvm.training.working_set import WorkingSet, figures_of

NO_CHUNKS, NO_MEMBERS = np.empty(0, np.int64), np.empty(0, np.int32)


class OuterLoop(Run):
    """The run of a plan."""

    # -- the run -----------------------------------------------------------------------------------------------

    def run(self) -> record.Result:
        if not hasattr(self, "state"):
            self.allocate()
        blocks = self.plan.blocks
        self.reader = BlockReader(blocks.source, blocks.arena_bytes, blocks.partition.resident)
        with self.reader, self.plan.solver.threads:
            self.begin()
            # from here on no input of the user is refused
            self.watch.on_event(record.start_event(self.plan, self.progress))
            status = self._iterate()
            if self.checkpoint is not None:
                # before the last certificate: it may rebuild w, which a run that goes on from here would not have done
                self.save()
            final = None if status == "interrupted" else self._last_certificate()
            if final is None:
                status = "interrupted"
            else:
                status = final.ends(self.plan.settings.tol) or status
            return self.end(status, final)

    def _iterate(self) -> str:
        """Outer iterations until the run ends; why it does."""
        progress, partition = self.progress, self.plan.blocks.partition
        while True:
            if progress.told:
                if status := record.ended(progress, self.plan, self.state, self.seconds()):
                    return status
                progress.outer, progress.visit, progress.closed, progress.told = progress.outer + 1, 0, False, False
                progress.at_rest = False
                self.tally = record.Tally()
                self.save_if_due()
            if not progress.closed:
                blocks, most = partition.blocks(progress.outer), self.plan.settings.passes_left(progress.passes_made)
                if progress.visit == 0:
                    self._begin_reading()
                for _ in self._visits(blocks, most):
                    progress.visit += 1
                    self.emit("visit", visit=progress.visit, blocks=len(blocks))
                    self._visit_set(between=progress.visit < len(blocks))
                    if status := self._stopped(whole=progress.visit == len(blocks)):
                        return status
                    self.save_if_due()
                self._close()
            if status := self._certify_while_due():
                return status

    def _begin_reading(self) -> None:
        self.plan.solver.begin_outer(self.state)
        self.progress.begin_cycle(0.0)
        if self.working_set is not None:
            self.working_set.begin_reading(reset=False)

    def _close(self) -> None:
        """Every row has been visited: what the visits suggest of primal, dual and gap."""
        progress, tally, solver = self.progress, self.tally, self.plan.solver
        seen = None
        if self.working_set is not None:
            self.working_set.end_reading()
            seen = self.working_set.seen
        primal, progress.dual, progress.gap = solver.estimates(self.state, progress.loss_sum, seen)
        progress.gap_of = "rows"
        tally.primal_estimate, tally.dual_estimate, tally.gap_estimate = primal, progress.dual, progress.gap
        solver.end_outer(self.state, progress.outer)
        progress.close(primal)

    # -- visits ------------------------------------------------------------------------------------------------

    def _visits(self, blocks: list[np.ndarray], most: float) -> Iterator[None]:
        """Visit the blocks that are left of an outer iteration, one after the other."""
        visit = self.progress.visit
        for number, block in enumerate(self.read(blocks[visit:], then=self.following()), visit):
            self._visit(block, blocks[number], most)
            yield

    def _visit(self, block: Block, chunks: np.ndarray, most: float) -> None:
        """A visit to a block, of so many passes at most, whose rows are offered to the working set."""
        plan, progress = self.plan, self.progress
        stats = progress.block_stats(0 if plan.blocks.partition.resident else block.n_nonzeros, self.working_set)
        task = VisitTask(
            chunks, (progress.outer, progress.visit), plan.schedule, stats, most=most
        )  # fmt: skip
        result = self.executor.visit(task, block)
        progress.count(result, stats, block.n_nonzeros)
        self.tally.count(result)
        for done in result.passes:
            for figures in done.reports:
                self.emit("progress", **figures)
        if self.working_set is not None and result.share is not None:
            self.working_set.offer(block, result.share)

    def _visit_set(self, between: bool) -> None:
        """Passes over the working set, as far as the schedule wants them; between: two blocks of a reading."""
        working_set, progress = self.working_set, self.progress
        if working_set is None:
            return
        stats = progress.set_stats(working_set)
        task = VisitTask(
            NO_CHUNKS, (len(progress.set_passes), 0), self.plan.schedule, stats, NO_MEMBERS, between,
            progress.last_worth,
        )  # fmt: skip
        if not working_set.n_members or not task.go_on(stats, self.ready()):
            progress.set_passes.append(0)
            self.tally.set_passes.append(0)
            return
        members = working_set.members  # listed only where they are passed over
        result = self.executor.visit(replace(task, members=members), working_set.block)
        if result.share is not None:
            working_set.update(members, result.share)
        progress.count_set(result, stats, None if between or not progress.closed else working_set.left_out)
        self.tally.count_set(result)

    # -- certificates --------------------------------------------------------------------------------------------

    def _certify_while_due(self) -> str | None:
        """Certificates at the end of an outer iteration, each of which chooses the working set again, whose passes may
        make another one due; then the iteration's line in the trace.  A status where the run was stopped meanwhile."""
        progress, plan, working_set = self.progress, self.plan, self.working_set
        solver, policy, tol = plan.solver, progress.policy, plan.settings.tol
        enough = enough_gap(progress.dual, tol) if working_set is None else math.inf
        if isinstance(solver, CertifiesItself):
            self.keep(solver.certificate(self.state))
        # without a working set no certificate brings back a row that rests, and it may for some outer iterations
        waited = tol > 0.0 and (working_set is not None or progress.outer - progress.certified_outer > REST_VISITS)
        rested = waited and isinstance(solver, TellsShares) and self.tally.gain == self.tally.set_gain == 0.0
        while rested or policy.due(progress.gap_of, progress.gap, tol, plan.blocks.work_of_reading):
            before = progress.certificate
            certificate = self._certify(math.inf if rested else enough, working_set)
            if certificate is None:
                return "interrupted"
            if isinstance(certificate, RejectedEarly):
                whole = certificate.gap / certificate.share
                policy.learn(progress.gap_of, progress.gap, whole / ((progress.dual or 0.0) + whole))
                break
            reached = certificate.rel_gap
            if isinstance(solver, SeveralProblemsSolver):
                reached = solver.certified(self.state, certificate)
            policy.learn(progress.gap_of, progress.gap, reached)
            self.offer_best(certificate)
            if rested and before is not None and certificate.same(before):
                progress.at_rest = True
                break
            rested = False
            if working_set is None or certificate.rel_gap is None or certificate.ends(tol):
                break
            self.reader.request(self.following()[0], self.following()[1:])
            progress.begin_cycle(plan.blocks.work_of_reading, certificate.primal)
            self._visit_set(between=False)
            if progress.current:  # no pass was made
                break
            if status := self._stopped():
                return status
        self._emit_outer()
        return None

    def _certify(
        self, enough: float = math.inf, working_set: WorkingSet | None = None
    ) -> Certificate | RejectedEarly | None:
        """A certificate of the state, stored and reported; None where the run was stopped."""
        self.emit("certifying")
        certificate = certified(
            self.plan.solver, self.state, self.weights(), self._following_rows, self.watch.stop,
            lambda sums: self._reading(sums, enough, working_set),
        )  # fmt: skip
        if certificate is None:
            return None
        if not isinstance(certificate, RejectedEarly):
            self.unchecked = None
        self.tally.attempted(certificate.share if isinstance(certificate, RejectedEarly) else 1.0)
        self.watch.on_event(record.certificate_event(self.progress.outer, self.seconds(), certificate))
        return certificate if isinstance(certificate, RejectedEarly) else self.keep(certificate)

    def _following_rows(self) -> Iterator[Block]:
        """All rows, as the next outer iteration reads them."""
        return self.read(self.following())

    def _reading(self, sums: CertificateSums, enough: float, working_set: WorkingSet | None) -> Outcome:
        """All rows, for a certificate: added to its sums, and offered to the working set at its w."""
        return reading_of_blocks(
            self.plan.solver, self.state, sums, self._following_rows, self.watch.stop, enough, working_set,
            self.unchecked,
        )  # fmt: skip

    def _emit_outer(self) -> None:
        """The outer iteration's line in the trace."""
        solver = self.plan.solver
        completion = solver.completion if isinstance(solver, OwnDecisions) else lambda state: None
        valid = held_out_figures(self.plan.held_out, self.weights, solver.bias, lambda: completion(self.state))
        figures = {"rows_read": self.plan.source.n_samples, **figures_of(self.working_set)}
        figures |= solver.progress(self.state)
        self.watch.on_event(record.outer_event(self.progress, self.tally, self.seconds(), figures, valid))
        self.progress.told = True

    # -- the end -------------------------------------------------------------------------------------------------

    def _stopped(self, whole: bool = False) -> str | None:
        """After a visit: why the run ends here, or None; whole: all blocks have been visited, so that the time is
        looked at when the iteration has been closed."""
        if self.watch.stop():
            return "interrupted"
        return "max-seconds" if not whole and self.seconds() > self.plan.settings.max_seconds else None

    def _last_certificate(self) -> Certificate | None:
        """The certificate of the result, taken now unless nothing has moved since the last one, which this run has
        taken; None where stopped."""
        progress, solver = self.progress, self.plan.solver
        if progress.current and progress.certificate and self.unchecked is None:
            return Certificate(**progress.certificate)
        if isinstance(solver, CertifiesItself):
            solver.settle(self.state, self.every_row)
            return self.keep(solver.certificate(self.state))
        certificate = self._certify()
        assert not isinstance(certificate, RejectedEarly)  # any gap is enough
        return certificate

"""A run carries out a plan: first replay and independence, then looks until a fault is proved or the plan is done."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from specverify.checks import CATALOGUE
from specverify.combining import Combined, combined_log_e
from specverify.crew import Crew
from specverify.findings import Finding
from specverify.hard import Violation
from specverify.plan import DEPENDENCE, Plan
from specverify.randomness import global_randomness
from specverify.replay import replay
from specverify.running import CaseRun
from specverify.schedule import look_fractions
from specverify.tasks import Done, Results, one_by_one
from specverify.threads import one_torch_thread
from specverify.worker import MAX_LOST

__all__ = ["Look", "Progress", "Run"]


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        rows_done: Rows verified so far.
        rows_planned: Rows of the whole plan.
        log10_e: Combined evidence against the sampler so far.
        log10_threshold: Evidence that proves a fault.
        case: Case that was run last.
    """

    rows_done: int
    rows_planned: int
    log10_e: float
    log10_threshold: float
    case: str


@dataclass(frozen=True)
class Look:
    """What the evidence had come to when it was looked at.

    Attributes:
        rows: Rows verified by then.
        evidence: The combined evidence against the sampler, natural logarithms.
    """

    rows: int
    evidence: Combined


@dataclass
class Run:
    """A plan being carried out: the counts, and what was found so far.

    Attributes:
        plan: The plan.
        findings: Results of the dependence checks.
        violations: Violations of replay, and calls that failed there.
        warnings: What is no violation and yet worth knowing.
        undecided: Checks that were run and could not be decided, with the reason.
        looks: The evidence after the independence stage, after every look, and where the run ended.
        stopped: Why the run ended before the plan was done, if it did.
        lost: How many processes of the sampler were lost elsewhere.
        started: Time of the monotonic clock at the start, in seconds.
    """

    plan: Plan
    findings: list[Finding] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    undecided: dict[str, str] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    stopped: str = ""
    lost: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def runs(self) -> list[CaseRun]:
        """Give all case runs, those of the independence stage first."""
        return [*self.plan.stage, *self.plan.runs]

    @property
    def complete(self) -> bool:
        """Say whether every case reached its planned rows."""
        return all(run.seen.fault is None and run.seen.rows >= run.planned.rows for run in self.runs)

    @property
    def hard(self) -> list[Violation]:
        """List the impossible events and faulty calls seen so far, of the checks that were asked for."""
        runs = [*self.plan.runs, *self.plan.stage]  # the menu shows a violation better than the independence stage
        faults = [run.seen.fault for run in runs if run.seen.fault is not None]
        found = [*faults, *(v for run in runs for v in run.seen.violations), *self.violations]
        return [violation for violation in found if self.plan.options.selects(violation.check)]

    def log10_e(self, scope: str = "") -> float:
        """Give log10 of the combined evidence at the last look, known failures left out.

        Args:
            scope: "lossless" for the evidence against losslessness alone; "" for all of it.
        """
        if not self.looks:  # the independence stage is under way
            return 0.0
        evidence = self.looks[-1].evidence
        return (evidence.lossless if scope else evidence.whole) / math.log(10)

    def execute(self, progress: Callable[[Progress], None] | None = None) -> None:
        """Carry out the plan until it is done or a fault is proved."""
        worker = self.plan.worker
        with global_randomness(), one_torch_thread(), self._hands() as results, worker or nullcontext():
            self._replay()
            self._stage(results, progress)
            self._look(results, progress)
        if worker is not None:
            self.warnings += worker.warnings

    def _replay(self) -> None:
        if self.plan.options.selects("SV-RPL-001"):
            found, self.warnings = replay(self.plan.verifier, self.plan.options.seed % 2**30, self.plan.caller)
            self.violations += found
            if any(violation.check == "SV-STR-001" for violation in found):
                self.undecided["SV-RPL-001"] = "a call failed"

    def _hands(self) -> AbstractContextManager[Results]:
        return nullcontext(one_by_one(self.plan)) if self.plan.options.workers == 1 else Crew(self.plan)

    def _stage(self, results: Results, progress: Callable[[Progress], None] | None) -> None:
        for run in self.plan.stage:
            if self._lost() or self._out_of_time():
                return
            done = self._add(run, next(results)())
            if run.seen.fault is not None:
                self.undecided |= dict.fromkeys(DEPENDENCE, f"a call failed on case {run.name}")
            for finding in done.findings:
                if finding.explained and finding.p_value <= self.plan.share:
                    text = f"the tokens of case {run.name} fail their law, which explains what repeats"
                    self.undecided[finding.check] = text
                else:
                    self.findings.append(finding)
            self.tell(progress, run.name)

    def _add(self, run: CaseRun, done: Done) -> Done:
        run.seen.add(done.counted)
        self.lost += done.lost
        return done

    def _look(self, results: Results, progress: Callable[[Progress], None] | None) -> None:
        self._record()
        for look in range(len(look_fractions())):
            ended = self._advance(look, results, progress)
            self._record()
            if ended or self._proved():
                return

    def _advance(self, look: int, results: Results, progress: Callable[[Progress], None] | None) -> bool:
        """Count the rows of a look; say whether that had to end before its last case."""
        for run in self.plan.runs:
            if self._lost() or self._out_of_time():
                return True
            for _ in run.units(look):
                ready = next(results)
                if run.seen.fault is None:  # a faulty call ends the case
                    self._add(run, ready())
            self.tell(progress, run.name)
        return False

    def _record(self) -> None:
        rows = sum(run.seen.rows for run in self.runs)
        if not self.looks or self.looks[-1].rows < rows:
            self.looks.append(Look(rows, combined_log_e(self.plan)))

    def _proved(self) -> bool:
        """Say whether losslessness is disproved: then nothing more need be run.

        A sampler that only departs from the rule it declares, or from the contract, is run to the end, to answer
        whether it is lossless.
        """
        if not self.plan.options.stop_early:
            return False
        known = self.plan.options.known_failures
        hard = (v for v in self.hard if v.check not in known and CATALOGUE[v.check].scope == "lossless")
        if any(hard):
            self.stopped = "left open, since an impossible event proved a fault first"
        elif any(f.p_value <= self.plan.share and f.check not in known for f in self.findings):
            self.stopped = "left open, since rows or calls proved to be dependent first"
        elif self.log10_e("lossless") >= self.threshold:
            self.stopped = "left open, since the combined evidence proved a fault first"
        return bool(self.stopped)

    @property
    def threshold(self) -> float:
        """Give log10 of the combined evidence that proves a fault."""
        return math.log10(2 / self.plan.options.alpha)

    def _lost(self) -> bool:
        here = 0 if self.plan.worker is None else self.plan.worker.lost
        if here + self.lost >= MAX_LOST:
            self.stopped = f"stopped early: calls hung, or ended the sampler's process, {MAX_LOST} times"
        return bool(self.stopped)

    def _out_of_time(self) -> bool:
        limit = self.plan.options.time_limit
        if limit is not None and time.monotonic() - self.started > limit:
            self.stopped = f"the time limit of {limit:g} s was reached"
        return bool(self.stopped)

    def tell(self, progress: Callable[[Progress], None] | None, case: str) -> None:
        """Say how far the run is, to whoever asked for it."""
        if progress is not None:
            done = sum(run.seen.rows for run in self.runs)
            progress(Progress(done, self.plan.rows, self.log10_e(), self.threshold, case))

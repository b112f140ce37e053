"""A run carries out a plan: first replay and independence, then looks until a fault is proved or the plan is done."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from specverify import independence
from specverify.calling import global_randomness
from specverify.checks import CATALOGUE
from specverify.evidence import gof, log_e
from specverify.hard import Violation
from specverify.independence import Finding
from specverify.plan import Plan, plan
from specverify.replay import replay
from specverify.running import CaseRun
from specverify.schedule import look_fractions
from specverify.threads import one_torch_thread

if TYPE_CHECKING:
    from specverify.reports import Report

__all__ = ["Progress", "Run", "check", "plan"]


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


@dataclass
class Run:
    """A plan being carried out: the counts, and what was found so far.

    Attributes:
        plan: The plan.
        findings: Results of the dependence checks.
        violations: Violations of replay, and calls that failed there.
        warnings: What is no violation and yet worth knowing.
        stopped: Why the run ended before the plan was done, if it did.
        started: Time of the monotonic clock at the start, in seconds.
    """

    plan: Plan
    findings: list[Finding] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    stopped: str = ""
    started: float = field(default_factory=time.monotonic)

    @property
    def runs(self) -> list[CaseRun]:
        """Give all case runs, those of the independence stage first."""
        return [*self.plan.stage, *self.plan.runs]

    @property
    def complete(self) -> bool:
        """Say whether every case reached its planned rows."""
        return all(run.fault is None and run.rows >= run.planned.rows for run in self.runs)

    @property
    def hard(self) -> list[Violation]:
        """List the impossible events and faulty calls seen so far, of the checks that were asked for."""
        runs = [*self.plan.runs, *self.plan.stage]  # the menu shows a violation better than the independence stage
        faults = [run.fault for run in runs if run.fault is not None]
        found = [*faults, *(v for run in runs for v in run.violations), *self.violations]
        return [violation for violation in found if self.plan.options.selects(violation.check)]

    def log10_e(self, scope: str = "") -> float:
        """Give log10 of the combined evidence, known failures left out.

        Args:
            scope: Count the evidence of the checks of this scope only, still as a mean over all probes: an e-value of
                its own, and never more than the whole.
        """
        known = self.plan.options.known_failures
        terms, probes = [], 0
        for run in self.runs:
            for probe, counts in zip(run.probes, run.counts, strict=True):
                probes += 1
                if probe.check not in known and (not scope or CATALOGUE[probe.check].scope == scope):
                    terms.append(log_e(counts, probe.probs))
        if not terms:
            return -math.inf
        return float(np.logaddexp.reduce(terms) - math.log(probes)) / math.log(10)

    def execute(self, progress: Callable[[Progress], None] | None = None) -> None:
        """Carry out the plan until it is done or a fault is proved."""
        with global_randomness(), one_torch_thread():
            self._replay()
            self._stage()
            evidence = self.log10_e()
            for look in range(len(look_fractions())):
                for run in self.plan.runs:
                    if self._out_of_time():
                        return
                    run.advance(look)
                    self._tell(progress, evidence, run.name)
                evidence = self.log10_e()
                if self._proved():
                    return

    def _replay(self) -> None:
        if self.plan.options.selects("SV-RPL-001"):
            found, self.warnings = replay(self.plan.verifier, self.plan.options.seed % 2**30)
            self.violations += found

    def _stage(self) -> None:
        for run in self.plan.stage:
            trace = run.run(run.planned.rows, (0,), run.planned.batch)
            if trace is None:
                continue
            run.count(trace)
            tokens = trace.completed[:, 0].reshape(independence.CALLS, -1)
            found = [f for f in independence.find(tokens, run.planned.case) if self.plan.options.selects(f.check)]
            if self._law_holds(run):
                self.findings += found
            elif found:
                run.warnings[f"case {run.name}: the tokens fail their law, so dependence was not judged there"] = None

    def _law_holds(self, run: CaseRun) -> bool:
        """Say whether single tokens follow their law: were one missing, equal rows would say nothing."""
        p_values = [
            gof(counts, probe.probs).p_value
            for probe, counts in zip(run.probes, run.counts, strict=True)
            if CATALOGUE[probe.check].scope == "lossless"
        ]
        return min(p_values, default=1.0) > self.plan.share

    def _proved(self) -> bool:
        """Say whether losslessness is disproved: then nothing more need be run.

        A sampler that only departs from the rule it declares is run to the end, to answer whether it is lossless.
        """
        known = self.plan.options.known_failures
        hard = (v for v in self.hard if v.check not in known and CATALOGUE[v.check].scope != "rule")
        if any(hard):
            self.stopped = "an impossible event proved a fault"
        elif any(f.p_value <= self.plan.share and f.check not in known for f in self.findings):
            self.stopped = "rows or calls proved to be dependent"
        elif self.log10_e("lossless") >= self.threshold:
            self.stopped = "the combined evidence proved a fault"
        return bool(self.stopped)

    @property
    def threshold(self) -> float:
        """Give log10 of the combined evidence that proves a fault."""
        return math.log10(2 / self.plan.options.alpha)

    def _out_of_time(self) -> bool:
        limit = self.plan.options.time_limit
        if limit is not None and time.monotonic() - self.started > limit:
            self.stopped = f"the time limit of {limit:g} s was reached"
        return bool(self.stopped)

    def _tell(self, progress: Callable[[Progress], None] | None, evidence: float, case: str) -> None:
        if progress is not None:
            done = sum(run.rows for run in self.runs)
            progress(Progress(done, self.plan.rows, evidence, self.threshold, case))


def check(
    sampler: Callable[..., Any],
    *,
    profile: str = "quick",
    seed: int = 0,
    alpha: float = 1e-6,
    target_tv: float | None = None,
    only: Sequence[str] = (),
    require: str | None = None,
    samples: int | None = None,
    known_failures: Mapping[str, str] | None = None,
    time_limit: float | None = None,
    target: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Decide whether a sampler follows its target, and the rule that it declares.

    Args:
        sampler: A verifier (module ``contract``) or a plain function with its parameter names.
        profile: Sample counts: "quick" (seconds), "ci" (about a minute) or "release" (minutes).
        seed: Root of every random number of the run, an integer >= 0; the same seed gives the same counts.
        alpha: Most that the probability of calling a correct sampler nonconformant may be, for the whole run.
        target_tv: Total variation that must be detectable with probability 0.9 for the verdict "conformant"; by
            default .10, .05 or .02 by profile.
        only: Ids of the only checks to run; empty means all.
        require: "lossless" or "rule", what the verdict depends on; by default "rule" where one is declared.
        samples: Rows of every case, in place of those of the profile.
        known_failures: Reason by check id: these are expected to fail, and fail the run when they do not.
        time_limit: Seconds after which the run ends as inconclusive.
        target: What names the sampler on the command line, for the line that reproduces a failure.
        progress: Called with a Progress after every case of every look.

    Returns:
        The report, with ``.verdict``, ``.lossless``, ``.rule``, ``.checks``, ``.diagnosis`` and ``.to_json()``.

    Raises:
        SpecverifyError: The sampler's declaration or an option is wrong.

    Example:
        >>> from specverify.registry import load
        >>> check(load("naive-redraw"), samples=2000).verdict
        'nonconformant'
    """
    planned = plan(
        sampler,
        profile=profile,
        seed=seed,
        alpha=alpha,
        target_tv=target_tv,
        only=only,
        require=require,
        samples=samples,
        known_failures=known_failures,
        time_limit=time_limit,
        target=target,
    )
    run = Run(planned)
    run.execute(progress)
    from specverify.results import report  # the report needs what the run never does

    return report(run)

"""From counts to statuses and a verdict, under the one error budget of the plan.

A check fails by an impossible event, by its own e-value, or at the planned n by Holm's test over all planned checks.
The verdict is conformant only if everything planned was run, every kind of event was seen as often as it must be, and
the stated total variation would have been detected; what is neither proved nor tested is inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from specverify.arrays import IntArray
from specverify.checks import CATALOGUE
from specverify.evidence import Fit, gof, holm, log_e, mean_log_e, required_count
from specverify.findings import Finding
from specverify.hard import Violation
from specverify.lumping import rules_of
from specverify.options import ALWAYS
from specverify.plan import DEPENDENCE, Plan
from specverify.probes import Probe
from specverify.reference import Rule, TreeRule
from specverify.running import CaseRun
from specverify.suite import Run

__all__ = ["COMBINED", "Headline", "Judgement", "ProbeResult", "decided"]

ROW_CHECKS = ("SV-IND-001", "SV-IND-003")  # they compare the rows of one call
UNSEEN = 1e-9  # chance that a correct sampler shows an event less often than is required
REPORTED = ("SV-PRP-001", "SV-RND-001", "SV-RND-002")  # they are about rounds, which a loop need not report
COMBINED = {"SV-ALL-001": "lossless", "SV-ALL-002": ""}  # which scope's evidence is combined; "" is all of it


@dataclass(frozen=True)
class ProbeResult:
    """What one probe came to.

    Attributes:
        probe: The probe.
        run: Its case.
        counts: int64 [K].
        fit: The headline test at the n reached.
        log_e: Natural logarithm of its e-value.
        detectable: Total variation that would have been detected, the forgiven allowance included; None where the run
            was cut short.
    """

    probe: Probe
    run: CaseRun
    counts: IntArray
    fit: Fit
    log_e: float
    detectable: float | None

    @property
    def n(self) -> int:
        """Give the events counted."""
        return int(self.counts.sum())

    def furthest(self) -> IntArray:
        """List the cells from the most to the least surprising."""
        due = self.n * self.probe.probs
        return np.argsort(-np.abs(self.counts - due) / np.sqrt(due), kind="stable")


@dataclass(frozen=True)
class Headline:
    """The smallest error that would have been caught on one case.

    Attributes:
        result: The lossless probe that states it.
        value: Its detectable total variation.
        size_class: A key of schedule.SIZES.
        headline: Whether the case stands for its size class.
    """

    result: ProbeResult
    value: float
    size_class: str
    headline: bool


def decided(p_values: Sequence[float], plan: Plan) -> list[bool]:
    """Say which p-values at the planned n prove a fault: by Holm's test over all of the plan, or each check alone.

    Args:
        p_values: One for every test that was made, at most as many as were planned.
        plan: The plan, which says what share of its budget each test has, and whether a proof may end the run.

    Returns:
        For each p-value whether it proves a fault.

    Example:
        >>> from specverify.plan import plan
        >>> from specverify.registry import load
        >>> decided([1e-12, 0.5], plan(load("reference"), only=["SV-TOK-001"]))
        [True, False]
    """
    if not plan.options.stop_early:
        return [p_value <= plan.share for p_value in p_values]
    untested = plan.num_checks - len(p_values)
    found: list[bool] = holm([*p_values, *[1.0] * untested], plan.options.alpha / 2).tolist()
    return found[: len(p_values)]


class Judgement:
    """Judge a finished run.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.plan = run.plan
        self.options = run.plan.options
        self.results = [
            self._judged(case, probe, counts)
            for case in run.runs
            for probe, counts in zip(case.probes, case.seen.counts, strict=True)
        ]

    def _judged(self, case: CaseRun, probe: Probe, counts: IntArray) -> ProbeResult:
        fit = gof(counts, probe.probs, rigorous=self.plan.rigorous(probe))
        tv = self.plan.detectable(probe, int(counts.sum()), case.case.vocab_size) if self.run.complete else None
        return ProbeResult(probe, case, counts, fit, log_e(counts, probe.probs), tv)

    @cached_property
    def rejected(self) -> set[str]:
        """Give the keys of the probes and findings that fail: on their own, or by Holm's test over all of them."""
        keys = {result.probe.key for result in self.results if result.log_e >= self.plan.own_log_e}
        keys |= {finding.key for finding in self.run.findings if finding.p_value <= self.plan.share}
        if self.run.complete:
            named = [(r.probe.key, r.fit.p_value) for r in self.results]
            named += [(f.key, f.p_value) for f in self.run.findings]
            keys |= {key for (key, _), no in zip(named, decided([p for _, p in named], self.plan), strict=True) if no}
        return keys

    def of(self, check: str) -> list[ProbeResult]:
        """List the results of one check, strongest evidence first."""
        found = [result for result in self.results if result.probe.check == check]
        return sorted(found, key=lambda r: (r.probe.key not in self.rejected, r.run in self.plan.stage, -r.log_e))

    def findings_of(self, check: str) -> list[Finding]:
        """List the dependence findings of one check, strongest evidence first."""
        return sorted((f for f in self.run.findings if f.check == check), key=lambda f: f.p_value)

    def violations_of(self, check: str) -> list[Violation]:
        """List the impossible events of one check."""
        return [violation for violation in self.run.hard if violation.check == check]

    def fails(self, check: str) -> bool:
        """Say whether a check fails, known or not."""
        if check in COMBINED:
            return self.run.log10_e(COMBINED[check]) >= self.run.threshold
        keys = {r.probe.key for r in self.of(check)} | {f.key for f in self.findings_of(check)}
        return bool(self.violations_of(check)) or bool(keys & self.rejected)

    def applies(self, check: str) -> bool:
        """Say whether a check was planned and could be run."""
        if check == "SV-SUP-002":
            return self.plan.rule == "token" and bool(self.plan.runs) and not self.plan.verifier.loops
        if check == "SV-SUP-001":
            return bool(self.run.runs)
        if check in ("SV-STR-001", "SV-RPL-001"):
            return True
        if check in DEPENDENCE:
            return bool(self.plan.stage) and (check not in ROW_CHECKS or self.plan.verifier.max_batch != 1)
        if check in COMBINED:
            return bool(self.results) and (check == "SV-ALL-001" or self.plan.rule is not None)
        if check in REPORTED and (self.run.complete or self._untold):
            return any(result.n for result in self.of(check))
        return bool(self.of(check))

    @property
    def reports_rounds(self) -> bool:
        """Whether a loop reported the rounds of any row."""
        return any(case.seen.tally.rounds for case in self.run.runs)

    @property
    def _untold(self) -> bool:
        """Whether rows came, and none with its rounds: then nothing more will be known of them."""
        return not self.reports_rounds and any(case.seen.rows for case in self.run.runs)

    def status(self, check: str) -> tuple[str, str]:
        """Give the status of a check and the reason for it, if one is due."""
        if not self.options.selects(check):
            return "not_applicable", "not asked for"
        known = self.options.known_failures.get(check)
        if not self.applies(check):
            return "not_applicable", self._why_not(check)
        if self.fails(check):
            return ("known_failure", known) if known else ("failed", "")
        if check in self.run.undecided:
            return "inconclusive", self.run.undecided[check]
        if not self.run.complete:
            return "inconclusive", self._cut_short
        if self.of(check) and not any(result.n for result in self.of(check)):
            return "inconclusive", "no event that it is about was seen"
        if known:
            return "failed", f"stale known failure: it passed, so remove the entry ({known})"
        return "passed", ""

    @property
    def _cut_short(self) -> str:
        return self.run.stopped or "a faulty call ended a case before its planned rows"

    def _why_not(self, check: str) -> str:
        if CATALOGUE[check].scope == "rule":
            if self.plan.verifier.loops and check not in (*REPORTED, *COMBINED):
                return "it is about single rounds of a verifier"
            if self.plan.rule is None:
                return "no rule is asserted" if self.plan.verifier.rule else "the sampler declares no rule"
            if check == "SV-DRF-001" and not self.plan.verifier.drafts:
                return "the kit drafts for it"
            if self.plan.verifier.tree:
                return "it asks about one draft per position"
            if check == "SV-SUP-002":
                return "it is about the token rule"
            if all(run.case_probes.law(self.rules[self.plan.rule]) is None for run in self.plan.runs):
                return f"no case has a law for the rule {self.plan.rule}"
        if check in REPORTED:
            return self._no_rounds
        if check in DEPENDENCE and self.plan.verifier.max_batch == 1:
            return "the sampler takes one row per call"
        return "no case of this run has what it needs"

    @property
    def _no_rounds(self) -> str:
        if not self.plan.verifier.loops:
            return "it is about loops that report rounds"
        return "the rounds that the loop reported show none" if self.reports_rounds else "the loop reported no rounds"

    @cached_property
    def statuses(self) -> dict[str, tuple[str, str]]:
        """Give status and reason of every check of the catalogue."""
        return {check: self.status(check) for check in CATALOGUE}

    @cached_property
    def headlines(self) -> list[Headline]:
        """List, case by case, the probe that states the detectable total variation of the completed block."""
        found = []
        for case in self.plan.runs if self.run.complete else ():
            lossless = [r for r in self.results if r.run is case and CATALOGUE[r.probe.check].scope == "lossless"]
            joint = [r for r in lossless if r.probe.check == "SV-JNT-001"] or lossless[:1]
            if joint and joint[0].detectable is not None and case.planned.size_class != "aside":
                found.append(Headline(joint[0], joint[0].detectable, case.planned.size_class, case.planned.headline))
        return found

    @cached_property
    def worst(self) -> Headline | None:
        """Give the headline with the largest detectable total variation; None where none can be stated."""
        return max(self.headlines, key=lambda headline: headline.value, default=None)

    @cached_property
    def doubts(self) -> list[str]:
        """List what stands between an unfailing run and the verdict "conformant"."""
        return [*self._open, *self._unseen()]

    @cached_property
    def _open(self) -> list[str]:
        """List what stands between the laws that every rule shares and the word "lossless"."""
        asked = self.options.only or [check for check in CATALOGUE if check not in ALWAYS]
        if all(self.statuses[check][0] == "not_applicable" for check in asked):
            return ["no check ran"]
        doubts = [] if self.run.complete else [self._cut_short]
        # without drafts there is only a bonus, which may be skipped
        drafted = [case for case in self.run.runs if case.seen.rows and case.case.num_draft_tokens]
        silent = [case.name for case in drafted if not case.seen.tally.emitted]
        if silent:
            doubts.append(f"no token was emitted on case {silent[0]}, so nothing of the sampler's was tested")
        undecided = [(c, why) for c, why in self.run.undecided.items() if self.options.selects(c)]
        doubts += [f"{check} was not decided: {reason}" for check, reason in undecided]
        if self.worst is not None and self.worst.value > self.options.target_tv:
            doubts.append(
                f"the detectable total variation on case {self.worst.result.run.name} is {self.worst.value:.4g}, "
                f"above the target of {self.options.target_tv:g}; take more samples or a larger target"
            )
        return doubts

    def _unseen(self) -> Iterator[str]:
        """Name events that a sampler of the declared rule must have shown by now."""
        if self.plan.verifier.loops and self.plan.rule is not None:
            yield from self._missing_rounds()
        for case in self.run.runs:
            law = None if self.plan.rule is None else case.case_probes.law(self.rules[self.plan.rule])
            if law is not None and case.seen.rows:
                stopped = law.view.trace.rejected
                for event, due, seen in (
                    ("rejection", law.weights[stopped].sum(), case.seen.tally.stopped),
                    ("full acceptance", law.weights[~stopped].sum(), case.seen.rows - case.seen.tally.stopped),
                ):
                    least = required_count(case.seen.rows, min(1.0, float(due)), miss=min(UNSEEN, self.plan.share))
                    if seen < least:
                        yield f"case {case.name} saw {seen:,} rows of {event}, where a correct sampler shows {least:,}"

    def _missing_rounds(self) -> Iterator[str]:
        """Say which rounds a loop that declares a rule did not show."""
        silent = [run.name for run in self.run.runs if _is_silent(run)]
        if self._untold:
            yield f"the loop declares the rule {self.plan.rule} and reported no rounds; report them, or declare no rule"
        elif silent:
            yield f"the loop reported no rounds on case {silent[0]}, and did on others; report them on all"
        elif self.of("SV-RND-001") and not self.applies("SV-RND-001"):
            yield f"no reported round has a draft that the rule {self.plan.rule} could be seen by"

    @cached_property
    def verdict(self) -> str:
        """Give "conformant", "nonconformant" or "inconclusive"."""
        if any(status == "failed" for status, _ in self.statuses.values()):
            return "nonconformant"
        return "inconclusive" if self.doubts else "conformant"

    @cached_property
    def lossless(self) -> bool | None:
        """Say whether the output follows the target; None where that is neither shown nor disproved."""
        if any(self.fails(check) for check, record in CATALOGUE.items() if record.scope == "lossless"):
            return False
        return None if self._open or self.options.only or not self.headlines else True

    @cached_property
    def conforms(self) -> bool | None:
        """Say whether the sampler follows the rule that it declares; None where that is open or none is declared."""
        if self.plan.rule is None:
            return None
        if self.lossless is False or any(self.fails(c) for c, record in CATALOGUE.items() if record.scope == "rule"):
            return False
        return None if self.doubts or self.options.only else True

    @property
    def rules(self) -> Mapping[str, Rule | TreeRule]:
        """Give the known rules of this form of sampler by name."""
        return rules_of(tree=self.plan.verifier.tree)

    @cached_property
    def not_rejected(self) -> list[str] | None:
        """List the known rules that the outcomes do not contradict; None where no outcomes were counted."""
        if not self.counted:
            return None
        return [name for name, rule in self.rules.items() if not self.contradicts(rule)]

    @cached_property
    def counted(self) -> list[CaseRun]:
        """List the cases whose whole outcomes were counted."""
        return [case for case in self.plan.runs if len(case.seen.outcomes) and case.seen.outcomes.any()]

    def contradicts(self, rule: Rule | TreeRule) -> bool:
        """Say whether the outcomes contradict the law of a rule, at any stopping time, by the mean of its e-values."""
        probes = [(case, case.case_probes.outcome_probe(rule)) for case in self.counted]
        terms = [log_e(probe.recount(case.seen.outcomes), probe.probs) for case, probe in probes if probe is not None]
        return bool(terms) and mean_log_e(terms) >= math.log(2 * len(self.rules) / self.options.alpha)


def _is_silent(run: CaseRun) -> bool:
    """Say whether a loop drafted on a case and reported none of it."""
    loop = run.case.loop
    return loop is not None and loop.num_draft_tokens > 0 and run.seen.rows > 0 and not run.seen.tally.rounds

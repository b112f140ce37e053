"""From counts to statuses and a verdict, under the one error budget of the plan.

A check fails by an impossible event, by its own e-value, or at the planned n by Holm's test over all planned checks.
The verdict is conformant only if everything planned was run, every kind of event was seen as often as it must be, and
the stated total variation would have been detected; what is neither proved nor tested is inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from specverify.arrays import IntArray
from specverify.checks import CATALOGUE
from specverify.evidence import Fit, gof, holm, log_e, mean_log_e, required_count
from specverify.hard import Violation
from specverify.independence import Finding
from specverify.options import ALWAYS, MISS
from specverify.power import detectable_tv
from specverify.probes import Probe
from specverify.reference import RULES, Rule
from specverify.running import CaseRun
from specverify.suite import Run
from specverify.tolerance import allowance

__all__ = ["Headline", "Judgement", "ProbeResult"]

MAX_EXACT_CELLS = 128  # above, and below MIN_LEVEL, the rigorous bound replaces the corrected chi-square
MIN_LEVEL = 1e-9


@dataclass(frozen=True)
class ProbeResult:
    """What one probe came to.

    Attributes:
        probe: The probe.
        run: Its case.
        counts: int64 [K].
        fit: The headline test at the n reached.
        log_e: Natural logarithm of its e-value.
        detectable: Total variation that would have been detected, the forgiven allowance included.
    """

    probe: Probe
    run: CaseRun
    counts: IntArray
    fit: Fit
    log_e: float
    detectable: float

    @property
    def n(self) -> int:
        """Give the events counted."""
        return int(self.counts.sum())

    @property
    def cells(self) -> int:
        """Give the cells that are possible."""
        return len(self.probe.probs) - 1

    def furthest(self) -> IntArray:
        """List the cells from the most to the least surprising."""
        due = self.n * self.probe.probs
        return np.argsort(-np.abs(self.counts - due) / np.sqrt(due), kind="stable")


@dataclass(frozen=True)
class Headline:
    """The smallest error that would have been caught on one case.

    Attributes:
        result: The lossless probe that states it.
        size_class: A key of schedule.SIZES.
        headline: Whether the case stands for its size class.
    """

    result: ProbeResult
    size_class: str
    headline: bool


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
            for probe, counts in zip(case.probes, case.counts, strict=True)
        ]

    def _judged(self, case: CaseRun, probe: Probe, counts: IntArray) -> ProbeResult:
        cells, n = len(probe.probs) - 1, int(counts.sum())
        rigorous = cells > MAX_EXACT_CELLS or self.plan.share < MIN_LEVEL
        tv = detectable_tv(n, cells, self.plan.level, MISS, rigorous=rigorous)
        tv = min(1.0, tv + allowance(self.plan.verifier.tolerance, case.planned.case.vocab_size))
        return ProbeResult(
            probe, case, counts, gof(counts, probe.probs, rigorous=rigorous), log_e(counts, probe.probs), tv
        )

    @cached_property
    def rejected(self) -> set[str]:
        """Give the keys of the probes and findings that fail on their own."""
        own = math.log(2 * self.plan.num_checks / self.options.alpha)
        keys = {result.probe.key for result in self.results if result.log_e >= own}
        keys |= {finding.key for finding in self.run.findings if finding.p_value <= self.plan.share}
        if self.run.complete:
            named = [(r.probe.key, r.fit.p_value) for r in self.results]
            named += [(f.key, f.p_value) for f in self.run.findings]
            untested = self.plan.num_checks - len(named)
            decided = holm([p for _, p in named] + [1.0] * untested, self.options.alpha / 2)
            keys |= {key for (key, _), no in zip(named, decided, strict=False) if no}
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
        if check == "SV-ALL-001":
            return self.run.log10_e() >= self.run.threshold
        keys = {r.probe.key for r in self.of(check)} | {f.key for f in self.findings_of(check)}
        return bool(self.violations_of(check)) or bool(keys & self.rejected)

    def applies(self, check: str) -> bool:
        """Say whether a check was planned and could be run."""
        if check == "SV-SUP-002":
            return self.plan.rule == "token" and bool(self.plan.runs)
        if check == "SV-SUP-001":
            return bool(self.run.runs)
        if check in ("SV-STR-001", "SV-RPL-001"):
            return True
        if check == "SV-ALL-001":
            return bool(self.results)
        return bool(self.of(check) or self.findings_of(check))

    def status(self, check: str) -> tuple[str, str]:
        """Give the status of a check and the reason for it, if one is due."""
        if not self.options.selects(check):
            return "not_applicable", "not asked for"
        known = self.options.known_failures.get(check)
        if not self.applies(check):
            return "not_applicable", self._why_not(check)
        if self.fails(check):
            return ("known_failure", known) if known else ("failed", "")
        if not self.run.complete:
            return "inconclusive", self.run.stopped or "a faulty call ended the case"
        if known:
            return "failed", f"stale known failure: it passed, so remove the entry ({known})"
        return "passed", ""

    def _why_not(self, check: str) -> str:
        if CATALOGUE[check].scope == "rule":
            if self.plan.rule is None:
                return "no rule is asserted" if self.plan.verifier.rule else "the sampler declares no rule"
            return f"no case has a law for the rule {self.plan.rule}"
        if check in ("SV-IND-001", "SV-IND-003") and self.plan.verifier.max_batch == 1:
            return "the sampler takes one row per call"
        return "no case of this run has what it needs"

    @cached_property
    def statuses(self) -> dict[str, tuple[str, str]]:
        """Give status and reason of every check of the catalogue."""
        return {check: self.status(check) for check in CATALOGUE}

    @cached_property
    def headlines(self) -> list[Headline]:
        """List, case by case, the probe that states the detectable total variation of the completed block."""
        found = []
        for case in self.plan.runs:
            lossless = [r for r in self.results if r.run is case and CATALOGUE[r.probe.check].scope == "lossless"]
            joint = [r for r in lossless if r.probe.check == "SV-JNT-001"] or lossless[:1]
            if joint:
                found.append(Headline(joint[0], case.planned.size_class, case.planned.headline))
        return found

    @cached_property
    def doubts(self) -> list[str]:
        """List what stands between an unfailing run and the verdict "conformant"."""
        return [*self._open, *self._unseen()]

    @cached_property
    def _open(self) -> list[str]:
        """List what stands between the laws that every rule shares and the word "lossless"."""
        if all(status == "not_applicable" for check, (status, _) in self.statuses.items() if check not in ALWAYS):
            return ["no check ran"]
        doubts = [] if self.run.complete else [self.run.stopped or "a faulty call ended a case"]
        if self.headlines:
            worst = max(self.headlines, key=lambda h: h.result.detectable)
            if worst.result.detectable > self.options.target_tv:
                doubts.append(
                    f"the detectable total variation on case {worst.result.run.name} is {worst.result.detectable:.3g}, "
                    f"above the target of {self.options.target_tv:g}; take more samples or set --target-tv"
                )
        silent = [case.name for case in self.run.runs if case.rows and not case.tally.emitted]
        if silent:
            doubts.append(f"no token was emitted on case {silent[0]}, so nothing of the sampler's was tested")
        return doubts

    def _unseen(self) -> Iterator[str]:
        """Name events that a sampler of the declared rule must have shown by now."""
        for case in self.run.runs:
            law = None if self.plan.rule is None else case.laws.law(RULES[self.plan.rule])
            if law is not None and case.rows:
                stopped = law.view.trace.rejected
                for event, due, seen in (
                    ("rejection", law.weights[stopped].sum(), case.tally.stopped),
                    ("full acceptance", law.weights[~stopped].sum(), case.rows - case.tally.stopped),
                ):
                    if seen < required_count(case.rows, min(1.0, float(due))):
                        yield f"case {case.name} saw {seen} rows of {event}, fewer than any correct sampler shows"

    @cached_property
    def verdict(self) -> str:
        """Give "conformant", "nonconformant" or "inconclusive"."""
        if any(status == "failed" for status, _ in self.statuses.values()):
            return "nonconformant"
        return "inconclusive" if self.doubts else "conformant"

    @cached_property
    def lossless(self) -> bool | None:
        """Say whether the output follows the target; None where that is neither shown nor disproved."""
        checks = [check for check, record in CATALOGUE.items() if record.scope == "lossless" and check != "SV-ALL-001"]
        if any(self.fails(check) for check in checks) or self.run.log10_e("lossless") >= self.run.threshold:
            return False
        return None if self._open or self.options.only or not self.headlines else True

    @cached_property
    def conforms(self) -> bool | None:
        """Say whether the sampler follows the rule that it declares; None where that is open or none is declared."""
        if self.plan.rule is None:
            return None
        rules = [check for check, record in CATALOGUE.items() if record.scope == "rule"]
        if any(self.fails(check) for check in rules) or self.lossless is False or self.fails("SV-ALL-001"):
            return False
        return None if self.doubts or self.options.only else True

    @cached_property
    def not_rejected(self) -> list[str]:
        """List the known rules that the outcomes do not contradict, by an e-value for each at any stopping time."""
        limit = math.log(2 * len(RULES) / self.options.alpha)
        return [name for name, rule in RULES.items() if self._evidence_against(rule) < limit]

    def _evidence_against(self, rule: Rule) -> float:
        terms = []
        for case in self.plan.runs:
            probe = case.laws.outcome_probe(rule) if len(case.outcomes) else None
            if probe is not None:
                terms.append(log_e(probe.recount(case.outcomes), probe.probs))
        return mean_log_e(terms) if terms else math.inf

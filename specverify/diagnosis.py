"""Which known fault, or which other rule, explains the outcomes? "None of them" is an answer.

The whole outcomes (draft, accepted length, next token) of the small cases are compared with the exact law of every
candidate. The first-token law alone could not tell: several faults share it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from specverify.faults import CATALOGUE
from specverify.judging import Judgement
from specverify.reference import RULES, Rule
from specverify.running import CaseRun

__all__ = ["Candidate", "diagnose"]

SLIP = 1e-6  # share of outcomes that may be anything, so that one stray row does not rule out a candidate
SHOWN = 3


@dataclass(frozen=True)
class Candidate:
    """One explanation of the outcomes.

    Attributes:
        fault: Id of the fault, or None for another rule and for "none of the known".
        weight: Share among the candidates, equal before the data.
        evidence: log10 of the likelihood ratio against the correct rule, or None.
        message: For people.
    """

    fault: str | None
    weight: float
    evidence: float | None
    message: str


def diagnose(judgement: Judgement) -> list[Candidate]:
    """Name the faults that explain a nonconformant run, likeliest first.

    Args:
        judgement: The judged run.

    Returns:
        Candidates that the outcomes do not contradict and that share the highest weights; one that says "none of the
        known faults" when all are contradicted; nothing when there is nothing to explain.
    """
    cases = judgement.counted
    if judgement.verdict != "nonconformant" or not cases or not _law_fails(judgement):
        return []
    correct = RULES[judgement.plan.verifier.rule or "token"]
    baseline = sum(_log_likelihood(case, correct) for case in cases)
    hypotheses = _hypotheses(judgement)
    scores = {
        name: sum(_log_likelihood(case, rule) for case in cases) - baseline for name, (rule, _) in hypotheses.items()
    }
    fitting = [name for name, (rule, _) in hypotheses.items() if not judgement.contradicts(rule)]
    if not fitting:
        names = ", ".join(f"{fault.id} {fault.name}" for fault in CATALOGUE.values())
        return [Candidate(None, 1.0, None, f"none of the known faults explains what was seen (compared: {names})")]
    top = max(scores[name] for name in fitting)
    total = sum(math.exp(scores[name] - top) for name in fitting)
    found = []
    for name in sorted(fitting, key=lambda name: -scores[name]):
        weight = math.exp(scores[name] - top) / total
        if weight > 1e-3:
            fault = name if name in CATALOGUE else None
            found.append(Candidate(fault, weight, scores[name] / math.log(10), hypotheses[name][1]))
    return found[:SHOWN]


def _law_fails(judgement: Judgement) -> bool:
    """Say whether a law failed, and not only the structure, replay or independence."""
    laws = {result.probe.check for result in judgement.results} | {"SV-SUP-001", "SV-SUP-002", "SV-ALL-001"}
    return any(judgement.fails(check) for check in laws)


def _hypotheses(judgement: Judgement) -> dict[str, tuple[Rule, str]]:
    found = {
        fault.id: (fault.rule, f"it looks as if the sampler {fault.claim}: {fault.wrong}. To repair it, {fault.advice}")
        for fault in CATALOGUE.values()
    }
    for name, rule in RULES.items() if judgement.plan.rule and judgement.lossless is not False else ():
        if name != judgement.plan.rule:
            text = f"it behaves as the {name} rule, which is lossless but not the rule that it declares"
            found[name] = (rule, text)
    return found


def _log_likelihood(case: CaseRun, rule: Rule) -> float:
    law = case.case_probes.law(rule)
    if law is None:
        return 0.0
    probs = (1 - SLIP) * case.case_probes.outcome_probs(law) + SLIP / case.case_probes.outcome_space
    seen = np.flatnonzero(case.outcomes)
    return float(case.outcomes[seen] @ np.log(probs[seen]))

"""All evidence of a run becomes one e-value: known faults, generic directions, and every check on its own.

Likelihood ratios of one alternative multiply over cases, which share no data; means are taken over alternatives and
over checks, which do. A fixed mixture of means of e-values is an e-value (Vovk and Wang), so that the run may stop and
reject as soon as it reaches 2 / alpha (Ville's inequality).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from specverify.alternatives import Alternatives, alternatives, score
from specverify.arrays import FloatArray
from specverify.checks import CATALOGUE
from specverify.evidence import log_e, mean_log_e
from specverify.plan import Plan
from specverify.running import CaseRun

__all__ = ["combined_log_e"]


def combined_log_e(plan: Plan, scope: str = "") -> float:
    """Give the natural logarithm of the combined evidence against the sampler.

    Args:
        plan: The plan being carried out, with its counts.
        scope: "lossless" to leave out what speaks against the declared rule alone: still an e-value, and never more
            than the whole; "" for all of it.
    """
    checks, faults, ways = plan.shares
    parts = [(checks, _checks(plan, scope))]
    if plan.faults:
        output = _faults(plan, by_outcome=False)
        if plan.rule is None:
            parts.append((faults, output))
        else:
            parts.append((faults / 2, output))
            if not scope:
                parts.append((faults / 2, _faults(plan, by_outcome=True)))
        parts.append((ways, _directions(plan)))
    finite = [math.log(share) + value for share, value in parts if value > -math.inf]
    return float(np.logaddexp.reduce(finite)) if finite else -math.inf


def _checks(plan: Plan, scope: str) -> float:
    """Give the log of the mean over all probes, known failures and probes of another scope counting as zero."""
    terms, probes = [], 0
    for run in (*plan.stage, *plan.runs):
        for probe, counts in zip(run.probes, run.counts, strict=True):
            probes += 1
            known = probe.check in plan.options.known_failures
            if not known and (not scope or CATALOGUE[probe.check].scope == scope):
                terms.append(log_e(counts, probe.probs))
    return float(np.logaddexp.reduce(terms)) - math.log(probes) if terms else -math.inf


def _faults(plan: Plan, *, by_outcome: bool) -> float:
    scores = [_score(run, found, by_outcome=by_outcome) for run, found in _seen(plan)]
    return mean_log_e(np.sum(scores, axis=0)) if scores else -math.inf


def _score(run: CaseRun, found: Alternatives, *, by_outcome: bool) -> FloatArray:
    if by_outcome and found.outcome is not None:
        return score(found.outcome, run.count_of("SV-RUL-001"))
    counts = run.first_tokens if found.output_probe is None else run.count_of("SV-JNT-001")
    return score(found.output, counts)


def _directions(plan: Plan) -> float:
    scores = [score(found.directions, run.first_tokens) for run, found in _seen(plan)]
    return mean_log_e(np.sum(scores, axis=0)) if scores else -math.inf


def _seen(plan: Plan) -> Iterable[tuple[CaseRun, Alternatives]]:
    return ((run, alternatives(run.case_probes, plan.faults)) for run in plan.runs if run.rows)

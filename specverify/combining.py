"""All evidence of a run becomes one e-value: known faults, generic directions, and every check on its own.

Likelihood ratios of one alternative multiply over cases, which share no data; means are taken over alternatives and
over checks, which do. A fixed mixture of means of e-values is an e-value (Vovk and Wang), so that the run may stop and
reject as soon as it reaches 2 / alpha (Ville's inequality).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from specverify.alternatives import Alternatives, alternatives, score
from specverify.arrays import FloatArray
from specverify.checks import CATALOGUE
from specverify.evidence import log_e, mean_log_e
from specverify.plan import Plan
from specverify.probes import Probe
from specverify.running import CaseRun

__all__ = ["Combined", "combined_log_e", "score_of"]


class Combined(NamedTuple):
    """The combined evidence against a sampler, natural logarithms; -inf where nothing was counted.

    Attributes:
        whole: All of it.
        lossless: Without what speaks against the declared rule alone: still an e-value, and never more than the whole.
    """

    whole: float
    lossless: float


def combined_log_e(plan: Plan) -> Combined:
    """Give the combined evidence of the counts of a plan, each part of it computed once.

    Args:
        plan: The plan being carried out.
    """
    checks, faults, ways = plan.shares
    every, lossless = _checks(plan)
    output = faults if plan.rule is None else faults / 2
    shared = [(output, _faults(plan, by_outcome=False)), (ways, _directions(plan))] if plan.faults else []
    rule = [(faults / 2, _faults(plan, by_outcome=True))] if plan.faults and plan.rule is not None else []
    return Combined(_sum([(checks, every), *shared, *rule]), _sum([(checks, lossless), *shared]))


def _sum(parts: Iterable[tuple[float, float]]) -> float:
    """Add e-values, given by their shares and their logs."""
    finite = [math.log(share) + value for share, value in parts if value > -math.inf]
    return float(np.logaddexp.reduce(finite)) if finite else -math.inf


def _checks(plan: Plan) -> Combined:
    """Give the logs of the means over all probes; known failures, and probes of another scope, count as zero."""
    probes = [pair for run in (*plan.stage, *plan.runs) for pair in zip(run.probes, run.seen.counts, strict=True)]
    counted = [(probe.check, log_e(counts, probe.probs)) for probe, counts in probes if not _known(plan, probe)]
    shares = [(1 / len(probes), value) for _, value in counted]
    lossless = [(1 / len(probes), value) for check, value in counted if CATALOGUE[check].scope == "lossless"]
    return Combined(_sum(shares), _sum(lossless))


def _known(plan: Plan, probe: Probe) -> bool:
    return probe.check in plan.options.known_failures


def _faults(plan: Plan, *, by_outcome: bool) -> float:
    scores = [score_of(run, found, by_outcome=by_outcome) for run, found in _seen(plan)]
    return mean_log_e(np.sum(scores, axis=0)) if scores else -math.inf


def score_of(run: CaseRun, found: Alternatives, *, by_outcome: bool) -> FloatArray:
    """Give the log likelihood ratios of the alternatives for what a case showed: by whole outcomes, or the output."""
    if by_outcome and found.outcome is not None:
        return score(found.outcome, run.count_of("SV-RUL-001"))
    counts = run.seen.first_tokens if found.output_probe is None else run.count_of("SV-JNT-001")
    return score(found.output, counts)


def _directions(plan: Plan) -> float:
    scores = [score(found.directions, run.seen.first_tokens) for run, found in _seen(plan)]
    return mean_log_e(np.sum(scores, axis=0)) if scores else -math.inf


def _seen(plan: Plan) -> Iterable[tuple[CaseRun, Alternatives]]:
    return ((run, alternatives(run.case_probes, plan.faults)) for run in plan.runs if run.seen.rows)

"""Acceptance and lengths say how fast a sampler can be, not whether it is right.

The acceptance rate is over tested positions: drafts after a rejection were never examined. An acceptance rate of 80% is
not a speed-up of 80%: each round also pays for its drafts.
"""

from __future__ import annotations

from typing import Any

from specverify.reference import RULES, expected_tokens, outcome_law
from specverify.running import CaseRun

__all__ = ["acceptance", "speedup"]

DRAFT_COSTS = (0.01, 0.05, 0.1, 0.2)
MAX_GAMMA = 64


def acceptance(runs: list[CaseRun]) -> dict[str, Any] | None:
    """Summarise the acceptance of a run for the report.

    Args:
        runs: The cases that were run.

    Returns:
        The "acceptance" part of the report document; None where no draft was tested, and for trees.
    """
    tested = sum(int(run.tally.tested.sum()) for run in runs)
    if not tested or any(run.case.tree is not None for run in runs):  # one draft per position is what it measures
        return None
    accepted = sum(int(run.tally.accepted.sum()) for run in runs)
    rows = sum(run.rows for run in runs)
    deepest = max(len(run.tally.accepted) for run in runs)
    overlap = min(1.0, sum(float(run.tally.overlap.sum()) for run in runs) / tested)
    return {
        "tested": tested,
        "accepted": accepted,
        "mean_overlap": overlap,
        "by_position": [_tail(runs, position) for position in range(deepest)],
        "expected_tokens_per_call": sum(run.tally.emitted for run in runs) / rows,
        "headroom": _headroom(runs),
        "speedup_model": [
            {"draft_cost": cost, "speedup": max(speedup(overlap, gamma, cost) for gamma in range(1, MAX_GAMMA + 1))}
            for cost in DRAFT_COSTS
        ],
    }


def speedup(acceptance_rate: float, num_draft_tokens: int, draft_cost: float) -> float:
    """Model the speed-up of the token rule over plain decoding, for a constant acceptance rate.

    Args:
        acceptance_rate: Chance that a tested position is accepted, in [0, 1].
        num_draft_tokens: Draft length gamma, 1 or more.
        draft_cost: Cost of one draft step, in target steps.

    Returns:
        Target steps saved by a factor of this; below 1 it is a loss.

    Source: Leviathan et al., arXiv 2211.17192, theorem 3.8.

    Example:
        >>> round(speedup(0.8, 4, 0.05), 2)
        2.8
    """
    tokens = sum(acceptance_rate**i for i in range(num_draft_tokens + 1))
    return tokens / (num_draft_tokens * draft_cost + 1)


def _tail(runs: list[CaseRun], position: int) -> float:
    reaching = [run for run in runs if len(run.tally.accepted) > position]
    return sum(int(run.tally.accepted[position]) for run in reaching) / max(1, sum(run.rows for run in reaching))


def _headroom(runs: list[CaseRun]) -> dict[str, float]:
    """Give the mean tokens per call of every rule on the witness table, exactly."""
    case = next((run.planned.case for run in runs if run.name == "W402"), None)
    if case is None:
        return {}
    laws = {name: outcome_law(rule, case.target_row, case.draft_row, 2) for name, rule in RULES.items()}
    return {name: float(expected_tokens(law)) for name, law in laws.items()}

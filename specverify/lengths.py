"""Acceptance and lengths say how fast a sampler can be, not whether it is right.

The acceptance rate is over tested positions: drafts after a rejection were never examined. An acceptance rate of 80% is
not a speed-up of 80%: each round also pays for its drafts.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from specverify.cases import Case
from specverify.reference import RULES, Row, expected_tokens, outcome_law, target_law, total_variation
from specverify.running import CaseRun

__all__ = ["acceptance", "best_draft_length", "full_joint_bound", "one_position_bound", "speedup"]

WITNESS = "W402"
DRAFT_COSTS = (0.01, 0.05, 0.1, 0.2)
MAX_GAMMA = 64


def acceptance(runs: list[CaseRun]) -> dict[str, Any] | None:
    """Summarise the acceptance of a run for the report.

    Args:
        runs: The cases that were run.

    Returns:
        The "acceptance" part of the report document; None where no draft was tested, and for trees.
    """
    tested = sum(int(run.seen.tally.tested.sum()) for run in runs)
    if not tested or any(run.case.tree is not None for run in runs):  # one draft per position is what it measures
        return None
    accepted = sum(int(run.seen.tally.accepted.sum()) for run in runs)
    rows = sum(run.seen.rows for run in runs)
    deepest = max(len(run.seen.tally.accepted) for run in runs)
    overlap = min(1.0, sum(float(run.seen.tally.overlap.sum()) for run in runs) / tested)
    return {
        "tested": tested,
        "accepted": accepted,
        "mean_overlap": overlap,
        "by_position": [_tail(runs, position) for position in range(deepest)],
        "positions": [_position(runs, position) for position in range(deepest)],
        "expected_tokens_per_call": sum(run.seen.tally.emitted for run in runs) / rows,
        **_headroom(runs),
        "speedup_model": [_modelled(overlap, cost) for cost in DRAFT_COSTS],
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


def best_draft_length(acceptance_rate: float, draft_cost: float) -> int:
    """Find the draft length with the largest modelled speed-up, the shortest of equals.

    Args:
        acceptance_rate: Chance that a tested position is accepted, in [0, 1].
        draft_cost: Cost of one draft step, in target steps.

    Returns:
        A draft length from 1 to 64; where none helps, the one that loses least.

    Example:
        >>> best_draft_length(0.7, 0.1)
        4
    """
    return max(range(1, MAX_GAMMA + 1), key=lambda length: speedup(acceptance_rate, length, draft_cost))


def full_joint_bound(case: Case) -> float:
    """Give the mean tokens per call that no lossless rule exceeds: 1 + sum over i of sum min(p(x^i), q(x^i)).

    Args:
        case: A case whose drafts can be enumerated.

    Example:
        >>> full_joint_bound(Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=2))
        2.52
    """
    lengths = range(1, case.num_draft_tokens + 1)
    apart = (total_variation(*(target_law(row, i) for row in (case.target_row, case.draft_row))) for i in lengths)
    return float(1 + sum(1 - distance for distance in apart))


def one_position_bound(target: Row, draft: Row, drafts: int) -> float:
    """Give the mean tokens per call that no rule exceeds at one position with several independent drafts.

    Args:
        target: Row p, at most a dozen tokens.
        draft: Row q.
        drafts: Number k of drafts.

    Returns:
        1 + the optimal transport acceptance, the smallest p(S) + 1 - q(S)^k over all sets S of tokens.

    Example:
        >>> one_position_bound([0.6, 0.4], [0.8, 0.2], 1), one_position_bound([0.6, 0.4], [0.8, 0.2], 2)
        (1.8, 1.96)
    """
    sets = [
        [pair for pair, inside in zip(zip(target, draft, strict=True), chosen, strict=True) if inside]
        for chosen in product((False, True), repeat=len(target))
    ]
    return float(1 + min(sum(p for p, _ in s) + 1 - sum(q for _, q in s) ** drafts for s in sets))


def _position(runs: list[CaseRun], position: int) -> dict[str, Any]:
    """Count what was tested and accepted at one position; the overlap is the mean over what was tested there."""
    tallies = [run.seen.tally for run in runs if len(run.seen.tally.tested) > position]
    tested = sum(int(tally.tested[position]) for tally in tallies)
    overlap = min(1.0, sum(float(tally.overlap[position]) for tally in tallies) / max(1, tested))
    accepted = sum(int(tally.accepted[position]) for tally in tallies)
    return {"tested": tested, "accepted": accepted, "mean_overlap": overlap}


def _modelled(overlap: float, cost: float) -> dict[str, Any]:
    best = best_draft_length(overlap, cost)
    return {"draft_cost": cost, "speedup": speedup(overlap, best, cost), "num_draft_tokens": best}


def _tail(runs: list[CaseRun], position: int) -> float:
    reaching = [run.seen for run in runs if len(run.seen.tally.accepted) > position]
    return sum(int(seen.tally.accepted[position]) for seen in reaching) / max(1, sum(seen.rows for seen in reaching))


def _headroom(runs: list[CaseRun]) -> dict[str, Any]:
    """Give the mean tokens per call on the witness table: exactly for every rule and bound, as seen for the sampler."""
    run = next((run for run in runs if run.name == WITNESS), None)
    if run is None:
        return {"headroom": {}}
    case = run.planned.case
    root = case.target_row(()), case.draft_row(())
    laws = {name: outcome_law(rule, case.target_row, case.draft_row, 2) for name, rule in RULES.items()}
    return {
        "headroom": {name: float(expected_tokens(law)) for name, law in laws.items()},
        "headroom_case": run.name,
        "headroom_observed": run.seen.tally.emitted / run.seen.rows if run.seen.rows else None,
        "headroom_bounds": {
            "full_joint": full_joint_bound(case),
            "one_draft": one_position_bound(*root, 1),
            "two_drafts": one_position_bound(*root, 2),
        },
    }

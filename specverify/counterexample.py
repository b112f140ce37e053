"""The smallest case of a run that shows the fault, with observed and exact numbers side by side."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case, Prefix, Row
from specverify.judging import Judgement, ProbeResult
from specverify.reference import RULES
from specverify.running import CaseRun
from specverify.views import decode_outcomes

__all__ = ["counterexample"]

MAX_SHOWN_VOCAB = 16
WORST_CELLS = 8


def counterexample(judgement: Judgement) -> dict[str, Any] | None:
    """Give the smallest input of the run that shows a failure.

    Args:
        judgement: The judged run.

    Returns:
        The "counterexample" part of the report document; None when no law failed on any one case.
    """
    failing = [result for result in judgement.results if result.probe.key in judgement.rejected and result.n]
    if not failing:
        return None
    stage = judgement.plan.stage
    smallest = min(
        (r.run for r in failing), key=lambda run: (run in stage, run.case.vocab_size, run.case.num_draft_tokens)
    )
    worst = max((r for r in failing if r.run is smallest), key=lambda r: r.log_e)
    case = worst.run.planned.case
    observed, expected = _quantities(judgement, worst)
    shown = case.vocab_size <= MAX_SHOWN_VOCAB
    return {
        "case": case.name,
        "p": _rows(case.target_row, case, case.num_draft_tokens + 1) if shown else [],
        "q": _rows(case.draft_row, case, case.num_draft_tokens) if shown else [],
        "draft": case.num_draft_tokens,
        "observed": observed,
        "expected": expected,
        "reproduce": _reproduce(judgement),
    }


def _rows(source: Callable[[Prefix], Row], case: Case, depth: int) -> list[list[str | float]]:
    """Give the rows of all prefixes shorter than ``depth``; one row where all are equal."""
    choices = range(case.vocab_size) if case.contextual else range(1)
    rows = [source(prefix) for length in range(depth) for prefix in product(choices, repeat=length)]
    rows = rows[:1] if all(row == rows[0] for row in rows) else rows
    return [[str(value) if case.exact else float(value) for value in row] for row in rows]


def _quantities(judgement: Judgement, worst: ProbeResult) -> tuple[dict[str, Any], dict[str, Any]]:
    observed: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    run = worst.run
    law = run.laws.law(RULES[judgement.plan.rule or "token"])
    if len(run.outcomes) and law is not None:
        seen = _summary(run, run.outcomes.astype(np.float64))
        due = _summary(run, run.laws.outcome_probs(law))
        quantities = list(seen) if judgement.plan.rule else ["first token"]
        for name in quantities:
            labels = sorted(seen[name].keys() | due[name].keys())
            observed[name] = {label: seen[name].get(label, 0.0) for label in labels}
            expected[name] = {label: due[name].get(label, 0.0) for label in labels}
    share = worst.counts / worst.n
    cells = worst.furthest()[:WORST_CELLS]
    title = f"{worst.probe.check} (furthest cells)"
    observed[title] = {worst.probe.labels[c]: float(share[c]) for c in cells}
    expected[title] = {worst.probe.labels[c]: float(worst.probe.probs[c]) for c in cells}
    return observed, expected


def _summary(run: CaseRun, weights: FloatArray) -> dict[str, dict[str, float]]:
    """Summarise weighted whole outcomes: the first token, acceptance of the first draft, and its replacement."""
    answers = np.flatnonzero(weights > 0)
    lens = run.laws.rule_lens
    assert lens is not None
    drafts, accepted, following = decode_outcomes(lens, answers)
    amount = weights[answers]
    first = drafts[:, 0] if drafts.shape[1] else following
    token = np.where(accepted > 0, first, following)
    found = {"first token": _shares(token, amount)}
    tested = (first >= 0) & (drafts.shape[1] > 0)
    if tested.any():
        taken = amount[tested & (accepted > 0)].sum() / amount[tested].sum()
        found["acceptance rate"] = {"first draft": float(taken)}
        refused = tested & (accepted == 0)
        found["replacement"] = _shares(following[refused], amount[refused])
    return found


def _shares(tokens: IntArray, amount: FloatArray) -> dict[str, float]:
    total = amount.sum()
    values = np.unique(tokens).tolist()
    return {_name(value): float(amount[tokens == value].sum() / total) for value in values}


def _name(token: int) -> str:
    return f"token {token}" if token >= 0 else "nothing"


def _reproduce(judgement: Judgement) -> str:
    options = judgement.options
    samples = "" if options.samples is None else f" --samples {options.samples}"
    return f"specverify check {options.target} --profile {options.profile} --seed {options.seed}{samples}"

"""The smallest case of a run that shows the fault, with observed and exact numbers side by side."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from specverify.arrays import FloatArray
from specverify.case_code import case_code
from specverify.cases import Case, Prefix, Row
from specverify.contract import Verifier
from specverify.judging import COMBINED, Judgement, ProbeResult
from specverify.options import Options
from specverify.plan import Plan
from specverify.running import CaseRun
from specverify.views import decode_outcomes

__all__ = ["counterexample", "reproduce", "simplicity"]

Pairs = dict[str, dict[str, tuple[float, float]]]  # by quantity and label: observed and exact

MAX_SHOWN_VOCAB = 16
WORST_CELLS = 8


def counterexample(judgement: Judgement) -> dict[str, Any] | None:
    """Give the smallest input of the run that shows a failure.

    Args:
        judgement: The judged run.

    Returns:
        The "counterexample" part of the report document: of the smallest case on which a law failed; where only all
        evidence together proves a fault, of the case with most of it. None when no law failed.
    """
    counted = [result for result in judgement.results if result.n]
    own = [result for result in counted if result.probe.key in judgement.rejected]
    failing = own
    if counted and not own and any(judgement.fails(check) for check in COMBINED):
        failing = [max(counted, key=lambda result: result.log_e)]
    if not failing:
        return None
    smallest = min((r.run for r in failing), key=lambda run: simplicity(judgement.plan, run))
    worst = max((r for r in failing if r.run is smallest), key=lambda r: r.log_e)
    case = worst.run.planned.case
    observed, expected = _quantities(judgement, worst)
    shown = case.vocab_size <= MAX_SHOWN_VOCAB
    needed = [case] if own else [run.case for run in judgement.plan.runs]
    return {
        "case": case.name,
        "shown_by": "case" if own else "all evidence",
        "p": _rows(case.target_row, case, case.num_draft_tokens + 1) if shown else [],
        "q": _rows(case.draft_row, case, case.num_draft_tokens) if shown else [],
        "rows_by": _rows_by(case),
        "draft": case.num_draft_tokens if case.loop is None else case.loop.num_draft_tokens,
        "observed": observed,
        "expected": expected,
        "reproduce": reproduce(judgement.plan, *needed),
    }


def simplicity(plan: Plan, run: CaseRun) -> tuple[bool | int, ...]:
    """Order cases from the simplest: by size, those of loops first by what sets them apart from the plain one.

    Example:
        >>> from specverify.plan import plan
        >>> from specverify.registry import load
        >>> made = plan(load("reference-generate"))
        >>> [run.name for run in sorted(made.runs, key=lambda run: simplicity(made, run))][:3]
        ['loop-no-draft', 'loop-one-draft', 'loop']
    """
    case, loop = run.case, run.case.loop
    if loop is None:
        return run in plan.stage, case.vocab_size, case.num_draft_tokens
    apart = len(loop.sampling.set_names) + bool(loop.mate) + bool(loop.process) + (loop.target.eos_token_id is not None)
    return run in plan.stage, apart, loop.num_draft_tokens, case.vocab_size, loop.max_new_tokens


def _rows_by(case: Case) -> str:
    return "context" if case.contextual else "position"


def _rows(source: Callable[[Prefix], Row], case: Case, depth: int) -> list[list[str | float]]:
    """Give the rows of all prefixes shorter than ``depth``; one row where all are equal."""
    choices = range(case.vocab_size) if case.contextual else range(1)
    rows = [source(prefix) for length in range(depth) for prefix in product(choices, repeat=length)]
    rows = rows[:1] if all(row == rows[0] for row in rows) else rows
    return [[str(value) if case.exact else float(value) for value in row] for row in rows]


def _quantities(judgement: Judgement, worst: ProbeResult) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give observed and exact shares: first token, acceptance and replacement of the first draft, furthest cells."""
    pairs = {**_first_token(judgement, worst.run), **_first_draft(judgement, worst.run)}
    cells = worst.furthest()[:WORST_CELLS]
    shares = {worst.probe.labels[c]: (float(worst.counts[c] / worst.n), float(worst.probe.probs[c])) for c in cells}
    pairs[f"{worst.probe.check} (furthest cells)"] = shares
    observed, expected = ({name: {k: v[i] for k, v in pair.items()} for name, pair in pairs.items()} for i in (0, 1))
    return observed, expected


def _first_token(judgement: Judgement, run: CaseRun) -> Pairs:
    for result in judgement.of("SV-TOK-001"):
        if result.run is run and run.case.vocab_size <= MAX_SHOWN_VOCAB:
            possible = range(result.probe.cells)
            shares = {result.probe.labels[c]: (result.counts[c] / result.n, result.probe.probs[c]) for c in possible}
            return {"first token": {label: (float(seen), float(due)) for label, (seen, due) in shares.items()}}
    return {}


def _first_draft(judgement: Judgement, run: CaseRun) -> Pairs:
    """Compare acceptance and replacement of the first draft with those of the asserted rule."""
    law = None if judgement.plan.rule is None else run.case_probes.law(judgement.rules[judgement.plan.rule])
    if law is None or not len(run.seen.outcomes) or not run.seen.tally.tested[:1].any():
        return {}
    drafted = law.view.trace.num_draft_tokens > 0
    accepted = law.weights[drafted & (law.view.trace.num_accepted > 0)].sum() / law.weights[drafted].sum()
    rate = (float(run.seen.tally.accepted[0] / run.seen.tally.tested[0]), float(accepted))
    seen = _replacement(run, run.seen.outcomes.astype(np.float64))
    due = _replacement(run, run.case_probes.outcome_probs(law))
    tokens = sorted(seen.keys() | due.keys())
    found: Pairs = {"acceptance rate": {"first draft": rate}}
    if tokens:
        found["replacement"] = {_name(token): (seen.get(token, 0.0), due.get(token, 0.0)) for token in tokens}
    return found


def _replacement(run: CaseRun, weights: FloatArray) -> dict[int, float]:
    """Give the law of the token that replaces a rejected first draft, from the weights of all whole outcomes."""
    answers = np.flatnonzero(weights > 0)
    lens = run.case_probes.rule_lens
    assert lens is not None
    drafts, accepted, following = decode_outcomes(lens, answers)
    refused = (drafts[:, 0] >= 0) & (accepted == 0)
    amount = weights[answers] * refused
    tokens = np.unique(following[refused]).tolist()
    return {token: float(amount[following == token].sum() / amount.sum()) for token in tokens}


def _name(token: int) -> str:
    return f"token {token}" if token >= 0 else "nothing"


def reproduce(plan: Plan, *cases: Case) -> str:
    """Give the line that shows a failure again.

    Args:
        plan: The plan of the run.
        cases: The cases that show it; where the cases were given, these alone are run again.

    Returns:
        A command; or a line of Python, where cases were given or the sampler has no name on the command line.
    """
    options = plan.options
    chosen: dict[str, Any] = {"profile": options.profile, "seed": options.seed}
    defaults = Options.checked(plan.verifier, profile=options.profile)
    for name in ("alpha", "require", "samples", "only", "timeout"):  # what must be detectable has no say in a failure
        if getattr(options, name) != getattr(defaults, name):
            chosen[name] = getattr(options, name)
    if options.target is not None and not plan.given:
        given = " ".join(f"--{name.replace('_', '-')} {_typed(value)}" for name, value in chosen.items())
        return f"specverify check {shlex.quote(options.target)} {given}"
    given = ", ".join(f"{name}={value!r}" for name, value in chosen.items())
    if plan.given:
        codes = [case_code(case) or "the case " + repr(case.name) for case in cases]
        given = f"cases=[{', '.join(codes)}], {given}"
    if options.target is None:
        module, name = imported(plan.verifier)
        return f"specverify.check({name}, {given})" + (f"  # from {module} import {name}" if module else "")
    return f"import specverify.registry; print(specverify.check(specverify.registry.load({options.target!r}), {given}))"


def _typed(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def imported(verifier: Verifier) -> tuple[str, str]:
    """Give the module and the name by which a sampler can be imported; no module and its own name where it cannot.

    Example:
        >>> from specverify.adapters.builtin import reference
        >>> imported(reference)
        ('specverify.adapters.builtin', 'reference')
    """
    module = getattr(verifier.function, "__module__", None) or ""
    named = vars(sys.modules[module]) if module in sys.modules and module != "__main__" else {}
    names = [name for name, value in named.items() if value is verifier or value is verifier.function]
    return (module, names[0]) if names else ("", verifier.name)

"""Which known fault, or which other rule, explains what was seen? "None of them" is an answer.

The whole outcomes (draft, accepted length, next token) of the small cases are compared with the exact law of every
candidate: the first-token law alone could not tell, several faults share it. Candidates whose laws agree on all cases
of the run are named together, and the likeliest is named only if what was seen does not contradict it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from specverify.alternatives import alternatives, completed
from specverify.arrays import FloatArray
from specverify.calling import GLOBAL
from specverify.combining import score_of
from specverify.faults import CATALOGUE
from specverify.faults.trees import TREE_FAULT_RULES
from specverify.hypotheses import (
    ALIKE,
    NEAR,
    SHOWN,
    Candidate,
    Hypothesis,
    Seen,
    against,
    difference,
    explained,
    fit,
    looks,
    named,
    same_laws,
)
from specverify.judging import Judgement
from specverify.loop_diagnosis import diagnose_loop
from specverify.lumping import Law
from specverify.overlong import overlong_faults
from specverify.running import CaseRun

__all__ = ["Candidate", "diagnose"]

SUSPECT = math.log(10)  # evidence against a part above which it is not called right


def diagnose(judgement: Judgement) -> list[Candidate]:
    """Name what explains a nonconformant run, likeliest first.

    Args:
        judgement: The judged run.

    Returns:
        Candidates that what was seen does not contradict and that share the highest weights; one that says "none of
        the known faults" when all are contradicted; nothing when there is nothing to explain.
    """
    if judgement.verdict != "nonconformant":
        return []
    if judgement.plan.verifier.loops:
        return diagnose_loop(judgement)
    if not _law_fails(judgement):
        return _beyond_laws(judgement, "replay", "sharing", "structure")
    seen = [_seen(judgement, run) for run in judgement.counted]
    if not seen:
        return []
    rule = judgement.rules[judgement.plan.verifier.rule or next(iter(judgement.rules))]
    correct = [one.probs(law) for one in seen if (law := one.run.case_probes.law(rule)) is not None]
    if len(correct) < len(seen):
        return []
    found = _hypotheses(judgement, seen, correct)
    least = fit(seen, correct)
    candidates = explained(found, least)
    # Rows that share their randomness are worth fewer than they count, so that laws may fail which hold.
    shared = [] if candidates else _beyond_laws(judgement, "sharing")
    return candidates or shared or [_unknown(judgement, seen, found, least)]


def _law_fails(judgement: Judgement) -> bool:
    """Say whether a law failed, and not only the structure, replay or independence."""
    laws = {result.probe.check for result in judgement.results} | {"SV-SUP-001", "SV-SUP-002", "SV-ALL-001"}
    return any(judgement.fails(check) for check in laws)


def _seen(judgement: Judgement, run: CaseRun) -> Seen:
    """Take whole outcomes, or completed blocks where a sampler drafts by itself and does not tell what it refused."""
    probes, verifier = run.case_probes, judgement.plan.verifier
    joint = next((probe for probe in run.probes if probe.check == "SV-JNT-001"), None)
    if joint is not None and verifier.drafts and verifier.rule is None:
        counts = run.count_of("SV-JNT-001")
        return Seen(run, counts, lambda law: joint.mass(completed(run.case, law)), joint.labels.__getitem__)
    return Seen(run, run.seen.outcomes, probes.outcome_probs, probes.outcome_label)


def _hypotheses(judgement: Judgement, seen: Sequence[Seen], correct: Sequence[FloatArray]) -> list[Hypothesis]:
    """Give the known faults and, where only the rule is in doubt, the other rules; equal laws are one hypothesis."""
    laws: dict[str, tuple[list[Law | None], str]] = {}
    for name, rule in judgement.rules.items() if judgement.plan.rule and judgement.lossless is not False else ():
        if name != judgement.plan.rule:
            text = f"it behaves as the {name} rule, which is lossless but not the rule that it declares"
            laws[name] = [one.run.case_probes.law(rule) for one in seen], text
    laws |= {name: ([law(one.run) for one in seen], looks(name)) for name, law in _fault_laws(judgement)}
    beyond = _beyond_outcomes(judgement, tuple(name for name in laws if name not in judgement.rules))
    groups: list[tuple[list[str], str, list[FloatArray]]] = []
    for name, (of_cases, text) in laws.items():
        if all(law is not None for law in of_cases):
            probs = [one.probs(law) for one, law in zip(seen, of_cases, strict=True) if law is not None]
            same = beyond.get(name, 0.0)
            alike = next(
                (g for g in groups if same_laws(g[2], probs) and abs(beyond.get(g[0][0], 0.0) - same) < ALIKE), None
            )
            if alike is None:
                groups.append(([name], text, probs))
            else:
                alike[0].append(name)
    return [
        Hypothesis(
            tuple(names), text, probs, fit(seen, probs) + beyond.get(names[0], 0.0), against(seen, probs, correct)
        )
        for names, text, probs in groups
    ]


def _fault_laws(judgement: Judgement) -> Iterator[tuple[str, Callable[[CaseRun], Law | None]]]:
    """Give the known faults that a sampler of this form can have, and how the law of each on a case is found."""
    verifier = judgement.plan.verifier
    if verifier.tree:
        for name, rule in TREE_FAULT_RULES.items():
            yield name, partial(lambda rule, run: run.case_probes.law(rule), rule)
        return
    for fault in CATALOGUE.values():
        if fault.may_be_of(verifier):
            yield fault.id, partial(lambda fault, run: fault.law(run.case), fault)


def _beyond_outcomes(judgement: Judgement, names: tuple[str, ...]) -> dict[str, float]:
    """Give the log likelihood ratios against the correct law on the cases whose output alone is counted."""
    if judgement.plan.verifier.tree:  # the laws of its faults are known where whole outcomes are
        return {}
    runs = [run for run in judgement.plan.runs if run.seen.rows and run not in judgement.counted]
    found = [(run, alternatives(run.case_probes, names)) for run in runs]
    joint = {run: any(probe.check == "SV-JNT-001" for probe in run.probes) for run in runs}  # it may not be asked for
    scores = [score_of(run, laws, by_outcome=False) for run, laws in found if laws.output_probe is None or joint[run]]
    return dict(zip(names, np.sum(scores, axis=0).tolist(), strict=True)) if scores else {}


def _unknown(judgement: Judgement, seen: Sequence[Seen], found: Sequence[Hypothesis], least: float) -> Candidate:
    """Say that no known fault fits, what is wrong by its parts, and which fault is nearest if one is near."""
    text = f"none of the {len(CATALOGUE)} known faults explains what was seen{_parts(judgement)}"
    nearest = max(found, key=lambda h: h.score, default=None)
    most = fit(seen, [np.maximum(one.counts, 0.5) / one.counts.sum() for one in seen])
    if nearest is not None and nearest.score - least > NEAR * (most - least):
        text += f". The nearest is {' or '.join(map(named, nearest.names))}, and yet {difference(seen, nearest)}"
    return Candidate(None, 1.0, None, f"{text}.")


EVERY_ROW = "rows at distance 1 are equal"

_PARTS = {
    "SV-ACC-001": "acceptance",
    "SV-RES-001": "the replacement after a rejection",
    "SV-BON-001": "the bonus",
    "SV-POS-001": "the token at later positions",
    "SV-LEN-001": "the accepted length",
}


def _parts(judgement: Judgement) -> str:
    found: dict[str, list[str]] = {"wrong": [], "suspect": [], "as due": []}
    for check, name in _PARTS.items():
        against = max((result.log_e for result in judgement.of(check)), default=-math.inf)
        if judgement.applies(check):
            word = "wrong" if judgement.fails(check) else "suspect" if against > SUSPECT else "as due"
            found[word].append(name)
    if not found["wrong"]:
        found["wrong"] = ["nothing alone"]
    return "".join(f"; {word}: {', '.join(names)}" for word, names in found.items() if names)


def _beyond_laws(judgement: Judgement, *where: str) -> list[Candidate]:
    """Name the known faults that show where no law does: in replay, in what rows share, in the form of the output."""
    plan, names = judgement.plan, []
    if "replay" in where and judgement.fails("SV-RPL-001"):
        elsewhere = _global_draws(judgement)
        if elsewhere:
            return [Candidate(None, 1.0, None, elsewhere)]
        names = _known("replay") if plan.verifier.max_batch != 1 else []  # what neighbouring rows do to each other
    shared = _shared(judgement) if "sharing" in where else ""
    if EVERY_ROW in shared:
        names += _known("sharing")
    kit_drafts = not (plan.verifier.drafts or plan.verifier.tree)
    if "structure" in where and judgement.fails("SV-STR-001") and plan.worker is None and kit_drafts:
        names += overlong_faults(plan.verifier, judgement.options.seed % 2**30)
    if shared and not names:
        return [Candidate(None, 1.0, None, f"rows or calls share their randomness: {shared}.")]
    return [Candidate(name, 1 / len(names), None, f"{looks(name)}.") for name in names[:SHOWN]]


def _global_draws(judgement: Judgement) -> str:
    """Say that a sampler draws from a global generator and not from what it asked for; empty where none does."""
    warned = [*judgement.run.warnings, *(text for run in judgement.run.runs for text in run.seen.warnings)]
    moved = next((text for text in warned if GLOBAL in text), "")
    return moved and f"{moved}: so the seed does not decide what it returns. Draw from what is handed over"


def _known(shows: str) -> list[str]:
    """List the faults that show in one place."""
    return [fault.id for fault in CATALOGUE.values() if fault.shows == shows and fault.runnable]


def _shared(judgement: Judgement) -> str:
    """Say what is shared, by the finding that says most; empty where no check of independence failed."""
    failed = [check for check in ("SV-IND-004", "SV-IND-001", "SV-IND-002") if judgement.fails(check)]
    messages = [finding.message for check in failed for finding in judgement.findings_of(check)[:1]]
    return next((message for message in messages if EVERY_ROW in message), messages[0] if messages else "")

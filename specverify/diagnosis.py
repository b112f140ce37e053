"""Which known fault, or which other rule, explains what was seen? "None of them" is an answer.

The whole outcomes (draft, accepted length, next token) of the small cases are compared with the exact law of every
candidate: the first-token law alone could not tell, several faults share it. Candidates whose laws agree on all cases
of the run are named together, and the likeliest is named only if what was seen does not contradict it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from specverify.alternatives import alternatives, completed, score
from specverify.arrays import FloatArray, IntArray
from specverify.calling import GLOBAL
from specverify.evidence import log_e, mean_log_e
from specverify.faults import CATALOGUE
from specverify.faults.trees import TREE_FAULT_RULES
from specverify.judging import Judgement
from specverify.lumping import Law
from specverify.overlong import overlong_faults
from specverify.running import CaseRun

__all__ = ["Candidate", "diagnose"]

SLIP = 1e-6  # share of outcomes that may be anything, so that one stray row does not rule out a candidate
STRAY = 1e-9  # the same where candidates are compared, so that what only some of them can do speaks for those
ALIKE = 1e-9  # largest difference of two laws that no run can tell apart
CONTRADICTED = 1e-6  # chance at which a true candidate is called contradicted
EXPLAINS = 1e-2  # likelihood of the correct law, relative to a candidate's, above which the candidate explains nothing
STEPS = (0.0, 0.1, 0.3, 3.0, 10.0, 30.0, 100.0)  # strengths of a fault that are compared with its own
SUSPECT = math.log(10)  # evidence against a part above which it is not called right
NEAR = 0.5  # share of all evidence that a neighbour must explain to be worth naming
SHOWN = 3


@dataclass(frozen=True)
class Candidate:
    """One explanation of what was seen.

    Attributes:
        fault: Id of the fault, or None for another rule and for "none of the known".
        weight: Share among the candidates, equal before the data.
        evidence: log10 of the likelihood ratio against the correct rule, or None.
        message: For people.
        same_law: Ids of other faults that the cases of the run cannot tell from it.
    """

    fault: str | None
    weight: float
    evidence: float | None
    message: str
    same_law: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Seen:
    """What one case showed: counts by answer, and how a law becomes probabilities of the same answers."""

    run: CaseRun
    counts: IntArray
    probs_of: Callable[[Law], FloatArray]
    label: Callable[[int], str]

    def probs(self, law: Law) -> FloatArray:
        """Give the probabilities of what is counted (ties are not), a little being lent to everything."""
        probs = self.probs_of(law)
        return np.asarray((1 - SLIP) * probs / max(probs.sum(), SLIP) + SLIP / len(probs))

    def fit(self, probs: FloatArray) -> float:
        """Give the log likelihood of the counts, with less lent to everything than in ``probs``."""
        own = np.maximum(probs - SLIP / len(probs), 0.0)
        came = np.flatnonzero(self.counts)
        return float(self.counts[came] @ np.log(own[came] + STRAY / len(probs)))

    def log_e(self, probs: FloatArray) -> float:
        """Give the log e-value against a candidate; answers that never came and hardly could share one cell."""
        kept = (self.counts > 0) | (probs > 1 / len(self.counts) ** 2)
        cells = np.append(probs[kept], max(0.0, 1 - probs[kept].sum()) + 1e-12)
        return log_e(np.append(self.counts[kept], 0), cells / cells.sum())


@dataclass(frozen=True, eq=False)
class _Hypothesis:
    """A candidate with its probabilities on every case, and how well they fit."""

    names: tuple[str, ...]
    message: str
    probs: list[FloatArray]
    score: float
    against: float


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
    least = _fit(seen, correct)
    fitting = [h for h in found if h.against < -math.log(CONTRADICTED) and h.score - least > -math.log(EXPLAINS)]
    # Rows that share their randomness are worth fewer than they count, so that laws may fail which hold.
    shared = [] if fitting else _beyond_laws(judgement, "sharing")
    return _weighted(fitting, least) or shared or [_unknown(judgement, seen, found, least)]


def _law_fails(judgement: Judgement) -> bool:
    """Say whether a law failed, and not only the structure, replay or independence."""
    laws = {result.probe.check for result in judgement.results} | {"SV-SUP-001", "SV-SUP-002", "SV-ALL-001"}
    return any(judgement.fails(check) for check in laws)


def _seen(judgement: Judgement, run: CaseRun) -> _Seen:
    """Take whole outcomes, or completed blocks where a sampler drafts by itself and does not tell what it refused."""
    probes, verifier = run.case_probes, judgement.plan.verifier
    joint = next((probe for probe in run.probes if probe.check == "SV-JNT-001"), None)
    if joint is not None and verifier.drafts and verifier.rule is None:
        counts = run.count_of("SV-JNT-001")
        return _Seen(run, counts, lambda law: joint.mass(completed(run.case, law)), joint.labels.__getitem__)
    return _Seen(run, run.seen.outcomes, probes.outcome_probs, probes.outcome_label)


def _hypotheses(judgement: Judgement, seen: Sequence[_Seen], correct: Sequence[FloatArray]) -> list[_Hypothesis]:
    """Give the known faults and, where only the rule is in doubt, the other rules; equal laws are one hypothesis."""
    laws: dict[str, tuple[list[Law | None], str]] = {}
    for name, rule in judgement.rules.items() if judgement.plan.rule and judgement.lossless is not False else ():
        if name != judgement.plan.rule:
            text = f"it behaves as the {name} rule, which is lossless but not the rule that it declares"
            laws[name] = [one.run.case_probes.law(rule) for one in seen], text
    laws |= {name: ([law(one.run) for one in seen], _looks(name)) for name, law in _fault_laws(judgement)}
    beyond = _beyond_outcomes(judgement, tuple(name for name in laws if name not in judgement.rules))
    groups: list[tuple[list[str], str, list[FloatArray]]] = []
    for name, (of_cases, text) in laws.items():
        if all(law is not None for law in of_cases):
            probs = [one.probs(law) for one, law in zip(seen, of_cases, strict=True) if law is not None]
            same = beyond.get(name, 0.0)
            alike = next(
                (g for g in groups if _alike(g[2], probs) and abs(beyond.get(g[0][0], 0.0) - same) < ALIKE), None
            )
            if alike is None:
                groups.append(([name], text, probs))
            else:
                alike[0].append(name)
    return [
        _Hypothesis(
            tuple(names), text, probs, _fit(seen, probs) + beyond.get(names[0], 0.0), _against(seen, probs, correct)
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
    """Give the log likelihood ratios against the correct law on the cases whose first tokens alone are counted."""
    if judgement.plan.verifier.tree:  # the laws of its faults are known where whole outcomes are
        return {}
    runs = [run for run in judgement.plan.runs if run.seen.rows and run not in judgement.counted]
    found = [(run, alternatives(run.case_probes, names)) for run in runs]
    scores = [score(laws.output, run.seen.first_tokens) for run, laws in found if laws.output_probe is None]
    return dict(zip(names, np.sum(scores, axis=0).tolist(), strict=True)) if scores else {}


def _looks(fault_id: str) -> str:
    fault = CATALOGUE[fault_id]
    return f"it looks as if the sampler {fault.claim}: {fault.wrong}. To repair it, {fault.advice}"


def _alike(a: Sequence[FloatArray], b: Sequence[FloatArray]) -> bool:
    return all(np.abs(x - y).max() < ALIKE for x, y in zip(a, b, strict=True))


def _fit(seen: Sequence[_Seen], probs: Sequence[FloatArray]) -> float:
    return sum(one.fit(p) for one, p in zip(seen, probs, strict=True))


def _score(seen: Sequence[_Seen], probs: Sequence[FloatArray]) -> float:
    total = 0.0
    for one, p in zip(seen, probs, strict=True):
        came = np.flatnonzero(one.counts)
        total += float(one.counts[came] @ np.log(p[came]))
    return total


def _against(seen: Sequence[_Seen], probs: Sequence[FloatArray], correct: Sequence[FloatArray]) -> float:
    """Give the log e-value against a candidate, valid whenever the run stopped.

    Half of it bets on counts far from the candidate's on some case, half on the same fault being weaker or stronger.
    """
    far = mean_log_e([one.log_e(p) for one, p in zip(seen, probs, strict=True)])
    own = _score(seen, probs)
    other = [_score(seen, [_scaled(p, c, step) for p, c in zip(probs, correct, strict=True)]) - own for step in STEPS]
    return mean_log_e([far, mean_log_e(other)])


def _scaled(probs: FloatArray, correct: FloatArray, strength: float) -> FloatArray:
    law = np.maximum(correct + strength * (probs - correct), SLIP * correct)
    return np.asarray(law / law.sum())


def _weighted(fitting: list[_Hypothesis], least: float) -> list[Candidate]:
    if not fitting:
        return []
    fitting = sorted(fitting, key=lambda h: -h.score)
    total = sum(math.exp(h.score - fitting[0].score) for h in fitting)
    found = []
    for h in fitting[:SHOWN]:
        weight = math.exp(h.score - fitting[0].score) / total
        if weight > 1e-3:
            first, others = h.names[0], h.names[1:]
            alike = f" These cases cannot tell it from {' and '.join(map(_named, others))}." if others else ""
            fault = first if first in CATALOGUE else None
            found.append(Candidate(fault, weight, (h.score - least) / math.log(10), f"{h.message}.{alike}", others))
    return found


def _named(name: str) -> str:
    return f"{name} ({CATALOGUE[name].name})" if name in CATALOGUE else f"the {name} rule"


def _unknown(judgement: Judgement, seen: Sequence[_Seen], found: Sequence[_Hypothesis], least: float) -> Candidate:
    """Say that no known fault fits, what is wrong by its parts, and which fault is nearest if one is near."""
    text = f"none of the {len(CATALOGUE)} known faults explains what was seen{_parts(judgement)}"
    nearest = max(found, key=lambda h: h.score, default=None)
    most = _fit(seen, [np.maximum(one.counts, 0.5) / one.counts.sum() for one in seen])
    if nearest is not None and nearest.score - least > NEAR * (most - least):
        text += f". The nearest is {' or '.join(map(_named, nearest.names))}, and yet {_difference(seen, nearest)}"
    return Candidate(None, 1.0, None, f"{text}.")


def _difference(seen: Sequence[_Seen], nearest: _Hypothesis) -> str:
    worst = max(range(len(seen)), key=lambda i: seen[i].log_e(nearest.probs[i]))
    one, probs = seen[worst], nearest.probs[worst]
    n = int(one.counts.sum())
    answer = int(np.argmax(np.abs(one.counts - n * probs) / np.sqrt(n * probs)))
    return (
        f"on case {one.run.name} the outcome '{one.label(answer)}' came {one.counts[answer]} times in {n}, where that "
        f"fault gives {n * probs[answer]:.4g}"
    )


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
    return [Candidate(name, 1 / len(names), None, f"{_looks(name)}.") for name in names[:SHOWN]]


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

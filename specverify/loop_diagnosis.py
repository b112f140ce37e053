"""Which known fault of a loop explains its tokens? The joint law of all new tokens is compared with every candidate's.

Loops see faults that no single round has: the same edit of a loop gives an exact law on every case, whatever sampling
parameters it has, and the cases with most evidence decide.
"""

from __future__ import annotations

import math

import numpy as np

from specverify.arrays import FloatArray
from specverify.contract import Verifier
from specverify.faults import LOOP_FAULTS
from specverify.faults.loop_fault import LoopFault, due_law
from specverify.hypotheses import (
    CONTRADICTED,
    NEAR,
    Candidate,
    Hypothesis,
    Seen,
    against,
    difference,
    explained,
    fit,
    looks,
    named,
)
from specverify.judging import Judgement
from specverify.loop_menu import PLAIN_CASE
from specverify.loop_reading import PAST_END
from specverify.plan import DEPENDENCE
from specverify.running import CaseRun

__all__ = ["diagnose_loop"]

CASES = 6  # with most evidence, and the plain one: more say little that is new
MAX_PATHS = 30_000  # of a loop: the laws of all faults on a larger case take minutes
OUTPUT = ("SV-TOK-001", "SV-JNT-001", "SV-SUP-001", "SV-ALL-001")
FINAL = 6  # hypotheses whose law is also found for the fair tokens of the independence stage, which takes longer
FALSIFIED = -math.log(CONTRADICTED) + math.log(2 * (CASES + 1))  # by one case alone, so that all together say so too
ONE_RESULT = "one and the same result"
TWO_RESULTS = "two different results"


def diagnose_loop(judgement: Judgement) -> list[Candidate]:
    """Name what explains a nonconformant generator, likeliest first; see :func:`specverify.diagnosis.diagnose`."""
    replayed = _replayed(judgement)
    if "G10c" in replayed or not any(map(judgement.fails, OUTPUT)):  # where every call is the same, no law can hold
        return _beyond_laws(judgement, replayed)
    runs = sorted(
        filter(_nameable, judgement.plan.runs), key=lambda run: (run.name != PLAIN_CASE, -_evidence(judgement, run))
    )
    seen = [_seen(run) for run in runs[:CASES]]
    if not seen:
        text = "the cases of this run do not serve to name a fault: their laws are too large, or were not asked for"
        return _proposals(judgement) or [Candidate(None, 1.0, None, f"{text}. Run all checks on the menu of cases.")]
    return _by_laws(judgement, seen) or _dependent(judgement) or _proposals(judgement) or [_unknown(judgement, seen)]


def _by_laws(judgement: Judgement, seen: list[Seen]) -> list[Candidate]:
    """Compare the laws of the faults: all of them on some cases, and what is left then on the fair tokens too."""
    correct = [one.probs(due_law(one.run.case)) for one in seen]
    found = [h for fault in _faults(judgement) if (h := _hypothesis(fault, seen, correct)) is not None]
    least = fit(seen, correct)
    stage = [run for run in judgement.plan.stage if run.seen.rows]
    likely = sorted((h for h in found if h.score > least), key=lambda h: -h.score)[:FINAL]
    if stage and likely:
        fair = Seen(stage[0], stage[0].seen.first_tokens, np.asarray, "first token {}".format)
        seen, correct = [*seen, fair], [*correct, fair.probs(stage[0].case.target[0][0])]
        found, least = [_with_fair_tokens(h, seen, correct) for h in likely], fit(seen, correct)
    return explained(found, least)


def _faults(judgement: Judgement) -> list[LoopFault]:
    return [fault for fault in LOOP_FAULTS.values() if fault.may_be_of(judgement.plan.verifier)]


def _hypothesis(fault: LoopFault, seen: list[Seen], correct: list[FloatArray]) -> Hypothesis | None:
    """Take the fault in a loop that drafts no more than it needs, or always its full length: whichever fits better.

    None where what was seen contradicts both: their laws on the other cases are not needed then.
    """
    laws = [probs for more in (False, True) if (probs := _probs(fault, seen, more)) is not None]
    probs = max(laws, key=lambda probs: fit(seen, probs), default=None)
    if probs is None:
        return None
    return Hypothesis((fault.id,), looks(fault.id), probs, fit(seen, probs), against(seen, probs, correct))


def _probs(fault: LoopFault, seen: list[Seen], overdrafts: bool) -> list[FloatArray] | None:
    """Give the probabilities on every case, or None as soon as one case rules the fault out."""
    found: list[FloatArray] = []
    for one in seen:
        found.append(one.probs(fault.law(one.run.case, overdrafts=overdrafts)))
        if one.log_e(found[-1]) > FALSIFIED:
            return None
    return found


def _with_fair_tokens(h: Hypothesis, seen: list[Seen], correct: list[FloatArray]) -> Hypothesis:
    """Hold a hypothesis to the first tokens of the independence stage as well, which come last."""
    probs = [*h.probs, seen[-1].probs(LOOP_FAULTS[h.names[0]].first_token_law(seen[-1].run.case))]
    return Hypothesis(h.names, h.message, probs, fit(seen, probs), against(seen, probs, correct))


def _nameable(run: CaseRun) -> bool:
    """Say whether a case has rows, and a joint law that is not too large."""
    loop = run.case.loop
    assert loop is not None
    paths = (loop.vocab_size + 1) ** (loop.num_draft_tokens + 1) * loop.vocab_size**loop.max_new_tokens
    return run.seen.rows > 0 and paths <= MAX_PATHS and any(probe.check == "SV-JNT-001" for probe in run.probes)


def _evidence(judgement: Judgement, run: CaseRun) -> float:
    return max((r.log_e for r in judgement.results if r.run is run and r.probe.check == "SV-JNT-001"), default=0.0)


def _seen(run: CaseRun) -> Seen:
    joint = next(probe for probe in run.probes if probe.check == "SV-JNT-001")
    return Seen(run, run.count_of("SV-JNT-001"), joint.mass, joint.labels.__getitem__)


def _unknown(judgement: Judgement, seen: list[Seen]) -> Candidate:
    """Say that no known fault fits, and which of those that the loop can have is nearest, if one is near."""
    text = f"none of the {len(_faults(judgement))} known faults that such a loop may have explains what was seen"
    least = fit(seen, [one.probs(due_law(one.run.case)) for one in seen])
    most = fit(seen, [np.maximum(one.counts, 0.5) / one.counts.sum() for one in seen])
    found = [h for fault in _faults(judgement) if (h := _anyhow(fault, seen)).score - least > NEAR * (most - least)]
    if found:
        nearest = max(found, key=lambda h: h.score)
        text += f". The nearest is {named(nearest.names[0])}, and yet {difference(seen, nearest)}"
    return Candidate(None, 1.0, None, f"{text}.")


def _anyhow(fault: LoopFault, seen: list[Seen]) -> Hypothesis:
    """Give a fault with its laws, contradicted or not."""
    probs = [one.probs(fault.law(one.run.case)) for one in seen]
    return Hypothesis((fault.id,), "", probs, fit(seen, probs), 0.0)


def _dependent(judgement: Judgement) -> list[Candidate]:
    """Say that rows or calls share their randomness: they are worth fewer than they count, so that laws fail."""
    found = [f for check in DEPENDENCE if judgement.fails(check) for f in judgement.findings_of(check)[:1]]
    return [Candidate(None, 1.0, None, f"rows or calls share their randomness: {found[0].message}.")] if found else []


def _proposals(judgement: Judgement) -> list[Candidate]:
    """Say that the drafts do not follow the q that is reported for them: then no verification can put that right."""
    if not judgement.fails("SV-PRP-001"):
        return []
    where = ", ".join(
        dict.fromkeys(r.run.name for r in judgement.of("SV-PRP-001") if r.probe.key in judgement.rejected)
    )
    text = f"the drafted tokens do not follow the q that the loop reports for them (cases {where}). {_so(judgement)}"
    advice = "Report the law after all filters, in the ids and rows of the draft"
    return [Candidate(None, 1.0, None, f"{text}. {advice}. {_extent(judgement.plan.verifier)}.")]


def _extent(verifier: Verifier) -> str:
    """Say how far what was seen goes: an engine's own models and tokens may not be touched by it."""
    where = f"on {verifier.version}, " if verifier.version else ""
    return f"That was seen {where}with the small models of the kit; other versions, models and tokens were not checked"


def _so(judgement: Judgement) -> str:
    if judgement.lossless is False:
        return "If the verification uses this q, that is why the output does not follow the target"
    return "The output was not shown to be wrong: the loop may verify by another q than it reports"


def _replayed(judgement: Judgement) -> list[str]:
    """Name the faults of seeds that the failures of replay show."""
    messages = [violation.message for violation in judgement.violations_of("SV-RPL-001")]
    if any(ONE_RESULT in message for message in messages):
        return ["G10c"]
    if any(TWO_RESULTS in message for message in messages):
        return ["G10"]
    return ["G10b"] if messages else []  # whose seeds are those of rows


def _beyond_laws(judgement: Judgement, replayed: list[str]) -> list[Candidate]:
    """Name what shows where no law of tokens does."""
    names = [*replayed]
    if any(PAST_END in violation.message for violation in judgement.violations_of("SV-STR-001")):
        names += [fault.id for fault in LOOP_FAULTS.values() if fault.shows == "structure"]
    candidates = [Candidate(name, 1 / len(names), None, f"{looks(name)}.") for name in names]
    return candidates or _dependent(judgement) or _proposals(judgement)

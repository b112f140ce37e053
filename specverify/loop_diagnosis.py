"""Which known fault of a loop explains its tokens? The joint law of all new tokens is compared with every candidate's.

Loops see faults that no single round has: the same edit of a loop gives an exact law on every case, whatever sampling
parameters it has, and the cases with most evidence decide.
"""

from __future__ import annotations

from specverify.arrays import FloatArray
from specverify.faults import LOOP_FAULTS
from specverify.faults.loop_fault import LoopFault, due_law
from specverify.hypotheses import Candidate, Hypothesis, Seen, against, difference, explained, fit, looks, named
from specverify.judging import Judgement
from specverify.loop_reading import PAST_END
from specverify.running import CaseRun

__all__ = ["diagnose_loop"]

CASES = 6  # with most evidence: laws of many cases take seconds
MAX_PATHS = 30_000  # of a loop: the laws of all faults on a larger case take minutes
OUTPUT = ("SV-TOK-001", "SV-JNT-001", "SV-SUP-001", "SV-ALL-001")


def diagnose_loop(judgement: Judgement) -> list[Candidate]:
    """Name what explains a nonconformant generator, likeliest first; see :func:`specverify.diagnosis.diagnose`."""
    if not any(map(judgement.fails, OUTPUT)):
        return _beyond_laws(judgement)
    runs = sorted(filter(_nameable, judgement.plan.runs), key=lambda run: -_evidence(judgement, run))
    seen = [_seen(run) for run in runs[:CASES]]
    if not seen:
        text = "the cases of this run do not serve to name a fault: their laws are too large, or were not asked for"
        return _proposals(judgement) or [Candidate(None, 1.0, None, f"{text}. Run all checks on the menu of cases.")]
    correct = [one.probs(due_law(one.run.case)) for one in seen]
    faults = [fault for fault in LOOP_FAULTS.values() if fault.may_be_of(judgement.plan.verifier)]
    found = [_hypothesis(fault, seen, correct) for fault in faults]
    least = fit(seen, correct)
    return explained(found, least) or _proposals(judgement) or [_unknown(seen, found)]


def _hypothesis(fault: LoopFault, seen: list[Seen], correct: list[FloatArray]) -> Hypothesis:
    """Take the fault in a loop that drafts no more than it needs, or always its full length: whichever fits better."""
    laws = ([one.probs(fault.law(one.run.case, overdrafts=more)) for one in seen] for more in (False, True))
    probs = max(laws, key=lambda probs: fit(seen, probs))
    return Hypothesis((fault.id,), looks(fault.id), probs, fit(seen, probs), against(seen, probs, correct))


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


def _unknown(seen: list[Seen], found: list[Hypothesis]) -> Candidate:
    nearest = max(found, key=lambda h: h.score)
    text = f"none of the {len(found)} known faults that such a loop may have explains what was seen. The nearest is "
    text += f"{named(nearest.names[0])}, and yet {difference(seen, nearest)}"
    return Candidate(None, 1.0, None, f"{text}.")


def _proposals(judgement: Judgement) -> list[Candidate]:
    """Say that the drafts do not follow the q that is reported for them: then no verification can put that right."""
    if not judgement.fails("SV-PRP-001"):
        return []
    where = ", ".join(
        dict.fromkeys(r.run.name for r in judgement.of("SV-PRP-001") if r.probe.key in judgement.rejected)
    )
    text = f"the drafted tokens do not follow the q that the loop reports for them (cases {where}). {_so(judgement)}"
    advice = "Report the law after all filters, in the ids and rows of the draft"
    return [Candidate(None, 1.0, None, f"{text}. {advice}.")]


def _so(judgement: Judgement) -> str:
    if judgement.lossless is False:
        return "If the verification uses this q, that is why the output does not follow the target"
    return "The output was not shown to be wrong: the loop may verify by another q than it reports"


def _beyond_laws(judgement: Judgement) -> list[Candidate]:
    """Name what shows where no law of tokens does."""
    names = [f.id for f in LOOP_FAULTS.values() if f.shows == "replay"] if judgement.fails("SV-RPL-001") else []
    if any(PAST_END in violation.message for violation in judgement.violations_of("SV-STR-001")):
        names += [fault.id for fault in LOOP_FAULTS.values() if fault.shows == "structure"]
    candidates = [Candidate(name, 1 / len(names), None, f"{looks(name)}.") for name in names]
    return candidates or _proposals(judgement)

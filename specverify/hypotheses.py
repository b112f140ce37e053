"""Hypotheses on what is wrong are exact laws on the cases of a run, compared by what came there.

Each has a likelihood beside that of the correct law, and an e-value against it, so that the likeliest is named only if
what was seen does not contradict it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.evidence import log_e, mean_log_e
from specverify.faults import KNOWN_FAULTS
from specverify.running import CaseRun
from specverify.wording import times

__all__ = [
    "ALIKE",
    "CONTRADICTED",
    "NEAR",
    "SHOWN",
    "Candidate",
    "Hypothesis",
    "Seen",
    "against",
    "difference",
    "explained",
    "fit",
    "looks",
    "named",
    "same_laws",
]

SLIP = 1e-6  # share of outcomes that may be anything, so that one stray row does not rule out a candidate
STRAY = 1e-9  # the same where candidates are compared, so that what only some of them can do speaks for those
ALIKE = 1e-9  # largest difference of two laws that no run can tell apart
CONTRADICTED = 1e-6  # chance at which a true candidate is called contradicted
NEAR = 0.5  # share of all evidence that a neighbour must explain to be worth naming
EXPLAINS = 1e-2  # likelihood of the correct law, relative to a candidate's, above which the candidate explains nothing
STEPS = (0.0, 0.1, 0.3, 3.0, 10.0, 30.0, 100.0)  # strengths of a fault that are compared with its own
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
class Seen:
    """What one case showed: counts by answer, and how a law becomes probabilities of the same answers."""

    run: CaseRun
    counts: IntArray
    probs_of: Callable[[Any], FloatArray]
    label: Callable[[int], str]

    def probs(self, law: object) -> FloatArray:
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
class Hypothesis:
    """A candidate with its probabilities on every case, and how well they fit."""

    names: tuple[str, ...]
    message: str
    probs: list[FloatArray]
    score: float
    against: float


def looks(fault_id: str) -> str:
    """Say in one sentence what a fault does, why that is wrong, and what repairs it."""
    fault = KNOWN_FAULTS[fault_id]
    return f"it looks as if the sampler {fault.claim}: {fault.wrong}. To repair it, {fault.advice}"


def same_laws(a: Sequence[FloatArray], b: Sequence[FloatArray]) -> bool:
    """Say whether two hypotheses are one on all cases."""
    return all(np.abs(x - y).max() < ALIKE for x, y in zip(a, b, strict=True))


def fit(seen: Sequence[Seen], probs: Sequence[FloatArray]) -> float:
    """Give the log likelihood of all that was seen."""
    return sum(one.fit(p) for one, p in zip(seen, probs, strict=True))


def _score(seen: Sequence[Seen], probs: Sequence[FloatArray]) -> float:
    total = 0.0
    for one, p in zip(seen, probs, strict=True):
        came = np.flatnonzero(one.counts)
        total += float(one.counts[came] @ np.log(p[came]))
    return total


def against(seen: Sequence[Seen], probs: Sequence[FloatArray], correct: Sequence[FloatArray]) -> float:
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


def explained(found: Sequence[Hypothesis], least: float) -> list[Candidate]:
    """Give the likeliest hypotheses that explain what was seen better than the correct law, and are not contradicted.

    Args:
        found: The hypotheses.
        least: The log likelihood under the correct law.
    """
    fitting = [h for h in found if h.against < -math.log(CONTRADICTED) and h.score - least > -math.log(EXPLAINS)]
    if not fitting:
        return []
    fitting.sort(key=lambda h: -h.score)
    total = sum(math.exp(h.score - fitting[0].score) for h in fitting)
    candidates = []
    for h in fitting[:SHOWN]:
        weight = math.exp(h.score - fitting[0].score) / total
        if weight > 1e-3:
            first, others = h.names[0], h.names[1:]
            alike = f" These cases cannot tell it from {' and '.join(map(named, others))}." if others else ""
            fault = first if first in KNOWN_FAULTS else None
            candidates.append(
                Candidate(fault, weight, (h.score - least) / math.log(10), f"{h.message}.{alike}", others)
            )
    return candidates


def named(name: str) -> str:
    """Give a fault with its short name, or a rule."""
    return f"{name} ({KNOWN_FAULTS[name].name})" if name in KNOWN_FAULTS else f"the {name} rule"


def difference(seen: Sequence[Seen], nearest: Hypothesis) -> str:
    """Say what speaks most against a hypothesis."""
    worst = max(range(len(seen)), key=lambda i: seen[i].log_e(nearest.probs[i]))
    one, probs = seen[worst], nearest.probs[worst]
    n = int(one.counts.sum())
    answer = int(np.argmax(np.abs(one.counts - n * probs) / np.sqrt(n * probs)))
    return (
        f"on case {one.run.name} the outcome '{one.label(answer)}' came {times(int(one.counts[answer]))} in {n:,}, "
        f"where {n * probs[answer]:.3g} are expected of that fault"
    )

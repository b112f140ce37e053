"""Whether a plan would find a known fault is computed from the fault's exact law before any sample is drawn.

The log likelihood ratio of the fault grows by its information per row, with a spread that is known as well; the chance
that it passes the level of proof is the normal approximation of that sum over all planned rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from specverify.alternatives import Alternatives, alternatives, null_of
from specverify.arrays import FloatArray

if TYPE_CHECKING:
    from specverify.plan import Plan
    from specverify.running import CaseRun

__all__ = ["Foreseen", "foresee"]


@dataclass(frozen=True)
class Foreseen:
    """What a plan makes of one fault.

    Attributes:
        fault: Id of the fault.
        power: Probability that the combined evidence proves it by the end of the plan.
        information: Nats that the whole plan is expected to gather.
        needed: Share of the planned rows at which it is proved with probability 0.9; inf where nothing shows it.
        case: The case that tells most per row.
        rows: Rows of that case alone that prove it with probability 0.9; inf where nothing shows it.
    """

    fault: str
    power: float
    information: float
    needed: float
    case: str
    rows: float


def foresee(plan: Plan, faults: Sequence[str] | None = None) -> list[Foreseen]:
    """Say of faults whose laws count in a plan how surely each would be found.

    Args:
        plan: A plan; nothing of it is run.
        faults: Ids of those that are of interest; left out, all.

    Example:
        >>> from specverify.plan import plan
        >>> from specverify.registry import load
        >>> {f.fault: round(f.power, 3) for f in foresee(plan(load("reference")))}["K02"]
        1.0
    """
    names = tuple(name for name in plan.faults if faults is None or name in faults)
    if not names:
        return []
    found = [(run, alternatives(run.case_probes, names)) for run in plan.runs]
    bits = [_information(run, laws) for run, laws in found]
    means, variances = (np.stack([bit[k] for bit in bits]) for k in (0, 1))  # [cases, H]
    rows = np.array([run.planned.rows for run, _ in found], dtype=np.float64)
    level = _level(plan)
    result = []
    for h, name in enumerate(names):
        mean, variance = float(rows @ means[:, h]), float(rows @ variances[:, h])
        best = int(np.argmax(means[:, h]))
        alone = _needed(float(means[best, h]), float(variances[best, h]), level)
        power = _normal((mean - level) / math.sqrt(variance)) if variance > 0 else 0.0
        result.append(Foreseen(name, power, mean, _needed(mean, variance, level), found[best][0].name, alone))
    return result


def _level(plan: Plan) -> float:
    """Give the log likelihood ratio at which one fault alone lifts the combined evidence to 2 / alpha."""
    share = plan.shares[1] / (1 if plan.rule is None else 2)
    return math.log(2 * len(plan.faults) / (share * plan.options.alpha))


def _information(run: CaseRun, laws: Alternatives) -> tuple[FloatArray, FloatArray]:
    """Give mean and variance of one row's log likelihood ratio under each fault: float64 [H] each."""
    by_outcome = laws.outcome is not None
    ratios = laws.outcome if laws.outcome is not None else laws.output
    wrong = null_of(run.case_probes, laws, by_outcome=by_outcome) * np.exp(ratios)
    wrong /= wrong.sum(axis=1, keepdims=True)
    mean = (wrong * ratios).sum(axis=1)
    variance = (wrong * ratios**2).sum(axis=1) - mean**2
    return mean, np.maximum(variance, 0.0)


def _needed(mean: float, variance: float, level: float) -> float:
    """Solve x mean - 1.28 sqrt(x variance) = level for the share x."""
    if mean <= 1e-12:
        return math.inf
    spread = 1.2816 * math.sqrt(variance)
    root = (spread + math.sqrt(spread**2 + 4 * mean * level)) / (2 * mean)
    return root**2


def _normal(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))

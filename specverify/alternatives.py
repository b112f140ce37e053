"""How likely is what was counted if the sampler had a known fault, against how likely it is if it is correct?

The laws of the known faults are exact, so their likelihood ratios multiply over rows and over cases: a fault that is in
the catalogue is found with the fewest samples. Beside them stand generic directions, in which most unknown faults move
the law of the first token. A likelihood ratio is an e-value whatever the alternative: wrong laws here cost power only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case
from specverify.faults import CATALOGUE
from specverify.lumping import Law
from specverify.probes import IMPOSSIBLE, CaseProbes, Probe

__all__ = ["Alternatives", "alternatives", "completed", "directions", "null_of", "score"]

SLIP = 1e-4  # share of the correct law mixed into every alternative, so that one stray row rules none out
MOST = 1e12  # largest likelihood ratio of one row
STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 0.9)
POWERS = (1.5, 1 / 1.5)
FLOOR = 0.02


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Log likelihood ratios of one case, natural, by fault and cell; a fault that changes nothing here has zeros.

    Attributes:
        names: Ids of the H faults.
        output: float64 [H, K], by the cell of the completed block, or by the first token where that is too large.
        output_probe: The probe whose counts go with ``output``; None for the first token.
        outcome: float64 [H, K], by the cell of the whole outcome, which the declared rule fixes; None without one.
        directions: float64 [D, V], by the first token.
    """

    names: tuple[str, ...]
    output: FloatArray
    output_probe: Probe | None
    outcome: FloatArray | None
    directions: FloatArray


@lru_cache(maxsize=128)
def alternatives(probes: CaseProbes, names: tuple[str, ...]) -> Alternatives:
    """Give the alternatives of a case, made once for all runs of a process.

    Args:
        probes: The probes of the case.
        names: Ids of faults of the catalogue.
    """
    case = probes.case
    lumped = probes.rule_lens is None or probes.rule_lens.tables is not None
    joint, outcome = (None if lumped else _probe(probes, check) for check in ("SV-JNT-001", "SV-RUL-001"))
    faults = [CATALOGUE[name] for name in names]
    target = case.target[0][0]
    draft = case.draft[0][0] if case.draft else None
    laws = [] if joint is outcome is None else [fault.law(case) for fault in faults]
    if joint is None:
        output = _ratios([fault.first_token_law(target, draft) for fault in faults], target)
    else:
        output = _on_cells(joint, [_blocks(probes, law) for law in laws])
    return Alternatives(
        names,
        output,
        joint,
        None if outcome is None else _on_cells(outcome, [_outcomes(probes, law) for law in laws]),
        _ratios(directions(target, target if draft is None else draft), target),
    )


def null_of(probes: CaseProbes, laws: Alternatives, *, by_outcome: bool) -> FloatArray:
    """Give the null probabilities float64 [K] of the cells of ``outcome`` or of ``output``."""
    if by_outcome or laws.output_probe is not None:
        probe = _probe(probes, "SV-RUL-001") if by_outcome else laws.output_probe
        assert probe is not None
        return probe.probs
    return _lent(probes.case.target[0][0])


def _probe(probes: CaseProbes, check: str) -> Probe | None:
    return next((probe for probe in probes.probes if probe.check == check), None)


def _outcomes(probes: CaseProbes, law: Law | None) -> FloatArray | None:
    return None if law is None else probes.outcome_probs(law)


def _blocks(probes: CaseProbes, law: Law | None) -> FloatArray | None:
    return None if law is None else completed(probes.case, law)


def completed(case: Case, law: Law) -> FloatArray:
    """Give the law of the block that the target completes, when the outcomes of a round have a given law.

    Args:
        case: A case whose tokens are not lumped.
        law: The law of (draft, accepted length, next token).

    Returns:
        float64 [V ** (G + 1)], by the number of the block in base V, the first token leading.

    Example:
        >>> from specverify.lumping import lump, rule_law
        >>> from specverify.reference import token
        >>> case = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
        >>> law = rule_law(token, lump(case, 8, 1e-12))
        >>> completed(case, law).round(2).tolist()
        [0.36, 0.24, 0.24, 0.16]
    """
    emitted = law.view.trace.emitted()
    lengths = (emitted >= 0).sum(axis=1)
    size = case.vocab_size
    mass = np.array([law.weights[lengths == 0].sum()])
    for length, rows in enumerate(case.target, start=1):
        mass = (mass[:, None] * (rows if case.contextual else rows[0])).ravel()
        here = lengths == length
        numbers = emitted[here, :length] @ size ** np.arange(length - 1, -1, -1)
        mass += np.bincount(numbers, weights=law.weights[here], minlength=len(mass))
    return mass


def _on_cells(probe: Probe, laws: Sequence[FloatArray | None]) -> FloatArray:
    """Send laws over answers through a probe: the log likelihood ratio of each cell, zeros where there is no law."""
    ratios = np.zeros((len(laws), len(probe.probs)))
    for row, law in zip(ratios, laws, strict=True):
        if law is not None:
            row[:] = _log_ratio(probe.mass(law), probe.probs)
    return ratios


def _ratios(laws: Sequence[FloatArray | None], null: FloatArray) -> FloatArray:
    """Give log likelihood ratios by token; all forbidden tokens share the little that is lent to the impossible."""
    possible, due = null > 0, _lent(null)
    ratios = np.zeros((len(laws), len(null)))
    for row, law in zip(ratios, laws, strict=True):
        if law is not None:
            mass = np.where(possible, law, law[~possible].sum())
            row[:] = _log_ratio(mass, due)
    return ratios


def _lent(null: FloatArray) -> FloatArray:
    return np.where(null > 0, (1 - IMPOSSIBLE) * null, IMPOSSIBLE)


def _log_ratio(law: FloatArray, null: FloatArray) -> FloatArray:
    if not np.isfinite(law).all():  # beyond what floats can say: no evidence
        return np.zeros_like(null)
    with np.errstate(over="ignore"):  # a null of 1e-310: the cap only lowers the evidence
        return np.log((1 - SLIP) * np.minimum(law / null, MOST) + SLIP)


def directions(target: FloatArray, draft: FloatArray) -> list[FloatArray]:
    """Give laws near the target in the directions that wrong samplers tend to take, and away from them.

    Args:
        target: Row p, float64 [V].
        draft: Row q, float64 [V].

    Returns:
        Laws float64 [V]: p moved by steps of .003 to .9 towards the draft, the residual, and sharper and flatter p,
        and by the same steps away from them.

    Example:
        >>> len(directions(np.array([0.6, 0.4]), np.array([0.8, 0.2])))
        132
    """
    found = []
    for end in _ends(target, draft):
        move = end / end.sum() - target
        for step in STEPS:
            found.append(target + step * move)
            away = np.maximum(target - step * move, FLOOR * target)
            found.append(away / away.sum())
    return found


def _ends(target: FloatArray, draft: FloatArray) -> list[FloatArray]:
    """Give where directions lead to, as weights."""
    residual = np.maximum(target - draft, 0)
    residual = residual / residual.max() if residual.any() else target  # products of its entries must not vanish
    token = np.arange(len(target))
    return [
        draft,
        draft**2,
        residual,
        *(target**power for power in POWERS),
        *(row * np.cumsum(row) for row in (target, draft, residual)),  # late ids, as where uniforms are shared
        *((token == best).astype(np.float64) for best in (0, len(target) - 1, int(np.argmax(residual)))),
    ]


def score(ratios: FloatArray, counts: IntArray) -> FloatArray:
    """Give the log likelihood ratio of each alternative for counts by cell: float64 [number of alternatives]."""
    seen = np.flatnonzero(counts)
    if 4 * len(seen) > len(counts):  # then to leave out the other columns costs more than they do
        return np.asarray(ratios @ counts, dtype=np.float64)
    return np.asarray(ratios.take(seen, axis=1) @ counts[seen], dtype=np.float64)

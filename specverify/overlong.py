"""A sampler that emits more than the contract allows can still be told by the law of all that it emits.

The structure check has refused its output by then. It is called again on the witness table, what it returns is taken as
it is, and compared with the exact laws of the faults that emit too much.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np

from specverify.arrays import IntArray
from specverify.calling import raw_call
from specverify.cases import Case
from specverify.contract import Verifier
from specverify.faults import CATALOGUE
from specverify.handing import Handed
from specverify.menu import menu
from specverify.randomness import global_randomness
from specverify.sampling import CaseSampler

__all__ = ["overlong_faults"]

ROWS = 4096
FEW_CALLS = 512

Line = tuple[tuple[int, ...], tuple[int, ...]]
"""What was drafted, and all that was emitted."""


def overlong_faults(verifier: Verifier, seed: int) -> list[str]:
    """Name the faults whose law of all emitted tokens is not contradicted, likeliest first.

    Args:
        verifier: A chain verifier whose output breaks the contract.
        seed: Master seed of the run.

    Returns:
        Ids of the catalogue; nothing where what it returns is no array of token ids, or fits none of them.
    """
    case = next(case for case in menu() if case.name == "W402")
    try:
        with global_randomness():
            lines = Counter(_lines(verifier, case, seed))
    except Exception:  # it has been reported for what it does; here it only stays unnamed
        return []
    scores = {
        fault.id: _score(lines, _law(fault.id, case)) for fault in CATALOGUE.values() if fault.shows == "structure"
    }
    return sorted((name for name, score in scores.items() if score > -math.inf), key=lambda name: -scores[name])


def _lines(verifier: Verifier, case: Case, seed: int) -> list[Line]:
    handed = Handed(case, verifier)
    sampler = CaseSampler(handed.case)
    rng = np.random.default_rng([seed, 11])
    batch = min(verifier.max_batch or ROWS, ROWS)
    found: list[Line] = []
    for _ in range(min(FEW_CALLS, -(-ROWS // batch))):
        drafts, lengths = sampler.draft(batch, rng)
        seed = int(rng.integers(2**31))
        result, _ = raw_call(verifier, handed, handed.batch(drafts, lengths, seed), seed)
        found += _told(drafts, np.asarray(result))
    return found


def _told(drafts: IntArray, tokens: IntArray) -> list[Line]:
    if tokens.ndim != 2 or len(tokens) != len(drafts) or tokens.dtype.kind not in "iu":
        raise ValueError("no lines of token ids")
    emitted = [tuple(token for token in row if token >= 0) for row in tokens.tolist()]
    return list(zip(map(tuple, drafts.tolist()), emitted, strict=True))


def _law(fault_id: str, case: Case) -> Mapping[Line, float]:
    law: defaultdict[Line, float] = defaultdict(float)
    exact = CATALOGUE[fault_id].exact_law(case.target_row, case.draft_row, case.num_draft_tokens)
    for outcome, weight in exact.items():
        law[outcome.draft_tokens, outcome.emitted] += float(weight)
    return law


def _score(lines: Counter[Line], law: Mapping[Line, float]) -> float:
    """Give the log likelihood, -inf where a line cannot come under the law or the counts are too far from due."""
    n = lines.total()
    if any(law.get(line, 0.0) <= 0 for line in lines):
        return -math.inf
    excess = sum((lines[line] - n * weight) ** 2 / (n * weight) for line, weight in law.items() if n * weight >= 10)
    cells = sum(n * weight >= 10 for weight in law.values())
    # Pearson's statistic, far out: the verdict does not rest on it, only whether a name is given.
    if excess > cells + 10 * math.sqrt(2 * cells):
        return -math.inf
    return sum(count * math.log(law[line]) for line, count in lines.items())

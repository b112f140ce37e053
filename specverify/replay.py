"""The same inputs and seed give the same result, and other seeds another.

A verifier that asks for a seed, a generator or uniforms promises to replay; one that asks for per-row seeds promises
that a row needs only its own. One that draws from the global generators promises nothing, and is warned about only.
"""

from __future__ import annotations

import numpy as np

from specverify.arrays import IntArray
from specverify.calling import Reply, SamplerRaised, call
from specverify.cases import Case
from specverify.contract import Verifier
from specverify.declaring import RANDOMNESS
from specverify.handing import Handed
from specverify.hard import Violation
from specverify.menu import flat_case, menu
from specverify.randomness import row_seeds
from specverify.reading import OutputFault
from specverify.sampling import CaseSampler

__all__ = ["replay"]

ROWS = 32
SEEDS = 16  # calls on eight random bits per row that must not all agree: by chance with probability 2**-120 or less


def replay(verifier: Verifier, seed: int) -> tuple[list[Violation], list[str]]:
    """Call a verifier again with what it had before.

    Args:
        verifier: What to call.
        seed: Master seed of the run.

    Returns:
        Violations of SV-RPL-001, or of SV-STR-001 when a call fails, and warnings about what was not promised.
    """
    witness = next(case for case in menu() if case.name == "W402")
    try:
        found = [_one_result(verifier, flat_case(), seed), *_same_seed(verifier, witness, seed)]
    except (OutputFault, SamplerRaised) as error:
        return [Violation("SV-STR-001", "replay", 1, str(error))], []
    messages = [message for message in found if message is not None]
    if verifier.asks.isdisjoint(RANDOMNESS):
        warned = [message for message in messages if message != found[0]]
        return [_violation(m) for m in messages if m not in warned], [f"not replayable: {m}" for m in warned]
    return [_violation(message) for message in messages], []


def _violation(message: str) -> Violation:
    return Violation("SV-RPL-001", "replay", 1, message)


def _one_result(verifier: Verifier, case: Case, seed: int) -> str | None:
    handed, drafts, lengths = _batch(verifier, case, seed)
    replies = [call(verifier, handed, drafts, lengths, seed + other) for other in range(SEEDS)]
    emitted = any((reply.num_accepted + reply.next_token >= 0).any() for reply in replies)
    if not emitted or len({_key(reply) for reply in replies}) > 1:
        return None
    return f"{SEEDS} different seeds gave one and the same result"


def _same_seed(verifier: Verifier, case: Case, seed: int) -> list[str | None]:
    handed, drafts, lengths = _batch(verifier, case, seed)
    first = call(verifier, handed, drafts, lengths, seed)
    again = call(verifier, handed, drafts, lengths, seed)
    found = [None if _key(first) == _key(again) else "the same inputs and seed gave two different results"]
    if "seeds" in verifier.asks and found[0] is None:
        order = np.arange(len(drafts))[::-1]
        moved = call(verifier, handed, drafts[order], lengths[order], seed, row_seeds(seed, len(drafts))[order])
        alone = call(verifier, handed, drafts[:1], lengths[:1], seed, row_seeds(seed, len(drafts))[:1])
        same = np.array_equal(moved.next_token[order], first.next_token) and np.array_equal(
            moved.num_accepted[order], first.num_accepted
        )
        if not same:
            found.append("rows in another order, each with its own seed, gave other results")
        if (alone.num_accepted[0], alone.next_token[0]) != (first.num_accepted[0], first.next_token[0]):
            found.append("a row alone, with its own seed, gave another result than in the batch")
    return found


def _batch(verifier: Verifier, case: Case, seed: int) -> tuple[Handed, IntArray, IntArray]:
    handed = Handed(case, verifier)
    rows = min(ROWS, verifier.max_batch or ROWS)
    drafts, lengths = CaseSampler(handed.case).draft(rows, np.random.default_rng([seed, 7]))
    return handed, drafts, lengths


def _key(reply: Reply) -> bytes:
    return reply.num_accepted.tobytes() + reply.next_token.tobytes()

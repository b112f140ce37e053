"""The same inputs and seed give the same result, and other seeds another.

A verifier that asks for a seed, a generator or uniforms promises to replay; one that asks for per-row seeds promises
that a row needs only its own. One that draws from the global generators promises nothing, and is warned about only.
A race strikes few rows of few calls, so that the same call is made many times over.
"""

from __future__ import annotations

import numpy as np

from specverify.arrays import BoolArray, IntArray
from specverify.calling import Caller, Reply, SamplerRaised, call
from specverify.cases import Case
from specverify.contract import Verifier
from specverify.declaring import RANDOMNESS
from specverify.hard import Violation
from specverify.loop_files import gguf_models
from specverify.loop_handing import AnyHanded, hand
from specverify.loop_menu import flat_loop, loop_menu
from specverify.menu import flat_case, menu
from specverify.randomness import row_seeds
from specverify.reading import OutputFault
from specverify.sampling import CaseSampler
from specverify.tree import Tree

__all__ = ["replay"]

ROWS = 256
LARGE_ROWS = 64  # of the large vocabulary, where kernels work in several blocks
REPEATS = 20
ALONE = 4  # rows that are also called one by one
TREE = Tree((-1, 0, 0, -1), "top")
SEEDS = 16  # calls on eight random bits per row that must not all agree: by chance with probability 2**-120 or less


def replay(verifier: Verifier, seed: int, caller: Caller = call) -> tuple[list[Violation], list[str]]:
    """Call a verifier again with what it had before.

    Args:
        verifier: What to call.
        seed: Master seed of the run.
        caller: What makes the calls.

    Returns:
        Violations of SV-RPL-001, or of SV-STR-001 when a call fails, and warnings about what was not promised.
    """
    flat, witness, large = _cases(verifier)
    try:
        found = [
            _one_result(verifier, flat, seed, caller),
            _same_seed(verifier, witness, ROWS, seed, caller) or _same_seed(verifier, large, LARGE_ROWS, seed, caller),
        ]
        if "seeds" in verifier.asks and found[1] is None:
            found += _own_seeds(verifier, witness, seed, caller)
    except (OutputFault, SamplerRaised) as error:
        return [Violation("SV-STR-001", "replay", 1, str(error))], []
    messages = [message for message in found if message is not None]
    if verifier.asks.isdisjoint(RANDOMNESS):
        warned = [message for message in messages if message != found[0]]
        return [_violation(m) for m in messages if m not in warned], [f"not replayable: {m}" for m in warned]
    return [_violation(message) for message in messages], []


def _cases(verifier: Verifier) -> tuple[Case, Case, Case]:
    """Give a case of eight fair bits per row, the witness table, and a case of many tokens."""
    if "target_model_gguf" in verifier.asks:
        plain = gguf_models().gguf_cases()[0]
        return flat_loop(256), plain, plain
    if verifier.loops:
        loops = {case.name: case for case in loop_menu()}
        return flat_loop(256), loops["loop"], loops["loop-deep"]
    flat, (witness, large) = flat_case(), (case for case in menu() if case.name in ("W402", "softmax-1024"))
    if verifier.tree:
        witness, large = (case.with_tree(TREE, case.name) for case in (witness, large))
        return flat.with_tree(Tree.chain(1), flat.name), witness, large
    return flat, witness, large


def _violation(message: str) -> Violation:
    return Violation("SV-RPL-001", "replay", 1, message)


def _one_result(verifier: Verifier, case: Case, seed: int, caller: Caller) -> str | None:
    handed, drafts, lengths = _batch(verifier, case, LARGE_ROWS, seed)
    replies = [caller(verifier, handed, drafts, lengths, seed + other) for other in range(SEEDS)]
    emitted = any((reply.num_accepted + reply.next_token >= 0).any() for reply in replies)
    if not emitted or any(_differ(replies[0], reply).any() for reply in replies):
        return None
    return f"{SEEDS} different seeds gave one and the same result"


def _same_seed(verifier: Verifier, case: Case, rows: int, seed: int, caller: Caller) -> str | None:
    handed, drafts, lengths = _batch(verifier, case, rows, seed)
    first = caller(verifier, handed, drafts, lengths, seed)
    for again in range(max(REPEATS, rows // len(drafts))):
        other = _differ(first, caller(verifier, handed, drafts, lengths, seed))
        if other.any():
            return (
                f"the same inputs and seed gave two different results: on case {case.name} call {again + 2} differs "
                f"from the first in {other.sum()} of {len(drafts)} rows"
            )
    return None


def _own_seeds(verifier: Verifier, case: Case, seed: int, caller: Caller) -> list[str]:
    """Call rows, each with its own seed, in another order, with other neighbours, and alone."""
    handed, drafts, lengths = _batch(verifier, case, ROWS, seed)
    seeds, rows = row_seeds(seed, len(drafts)), np.arange(len(drafts))
    odd = rows % 2 == 1
    others = np.where(odd[:, None], np.roll(drafts, 1, axis=0), drafts)
    other_seeds = np.where(odd, row_seeds(seed + 1, len(drafts)), seeds)
    first = caller(verifier, handed, drafts, lengths, seed, seeds)
    back = rows[::-1].copy()  # an index, so that arrays are copied: torch takes no view that runs backwards
    moved = caller(verifier, handed, drafts[back], lengths[back], seed, seeds[back])
    among = caller(verifier, handed, others, lengths, seed, other_seeds)
    single = (rows[i : i + 1] for i in range(min(ALONE, len(drafts))))
    alone = [_differ(first, caller(verifier, handed, drafts[i], lengths[i], seed, seeds[i]), i).any() for i in single]
    found = {
        "rows in another order, each with its own seed, gave other results": _differ(first, moved, back).any(),
        "rows among others, each with its own seed, gave other results": _differ(first, among)[~odd].any(),
        "a row alone, with its own seed, gave another result than in the batch": any(alone),
    }
    return [message for message, wrong in found.items() if wrong]


def _batch(verifier: Verifier, case: Case, rows: int, seed: int) -> tuple[AnyHanded, IntArray, IntArray]:
    handed = hand(case, verifier)
    rows = min(rows, verifier.max_batch or rows)
    drafts, lengths = CaseSampler(handed.case).draft(rows, np.random.default_rng([seed, 7]))
    return handed, drafts, lengths


def _differ(first: Reply, second: Reply, rows: IntArray | slice = slice(None)) -> BoolArray:
    """Say which results of the second differ from those of the given rows of the first: bool [rows]."""
    differ: BoolArray = first.num_accepted[rows] != second.num_accepted
    differ |= first.next_token[rows] != second.next_token
    if first.draft_tokens is not None and second.draft_tokens is not None:
        differ |= (first.draft_tokens[rows] != second.draft_tokens).any(axis=1)
    return differ

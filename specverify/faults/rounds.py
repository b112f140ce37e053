"""Faults of tree drafting as samplers that draft by themselves and show the text alone, and the law of that text.

How they draft cannot be seen from outside, so that they are told by what they emit; a round is cut to what the contract
allows, one token more than the case drafts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from specverify.arrays import IntArray
from specverify.cases import Case
from specverify.contract import Verifier, verifier
from specverify.faults.trees import TREE_ROUNDS
from specverify.lumping import Law, View, case_models
from specverify.reference import Model, RandomTape, Tape, branch_law, choose
from specverify.trace import Trace

__all__ = ["MAX_VOCAB", "round_law", "tree_round_sampler"]

LEVELS = {"M07": 1, "M08": 1, "M10": 2, "M11": 2}
MAX_VOCAB = 8  # vocabularies up to this size have an enumerated law
FEW = 4


def tree_round_sampler(name: str) -> Verifier:
    """Make a sampler that drafts by itself, has a fault of tree drafting, and returns the tokens that it emits.

    Args:
        name: An id of ``TREE_ROUNDS``.

    Example:
        >>> tree_round_sampler("M07").drafts
        True
    """

    @verifier(name=f"fault:{name}", max_batch=FEW)
    def sampler(
        draft_model: Callable[[IntArray], Any],
        target_model: Callable[[IntArray], Any],
        num_draft_tokens: IntArray,
        seed: int,
    ) -> IntArray:
        rng = np.random.default_rng(seed)
        length = int(num_draft_tokens.max(initial=0))
        target, draft = _rows(target_model), _rows(draft_model)
        tokens = np.full((len(num_draft_tokens), length + 1), -1, dtype=np.int64)
        for row in tokens:
            tape = RandomTape(rng)
            emitted = _played(name, length, tape, target, draft)
            row[: len(emitted)] = emitted
        return tokens

    return sampler


def _played(name: str, length: int, tape: Tape, target: Model, draft: Model) -> tuple[int, ...]:
    """Play one round, cut to the contract; where its tree is deeper than may be drafted, draw from the target."""
    if length < LEVELS[name]:
        return (choose(tape, ("final",), target(())),)
    return TREE_ROUNDS[name](tape, target, draft)[: length + 1]


def _rows(model: Callable[[IntArray], Any]) -> Model:
    """Give a model of log-probabilities as one of rows."""
    known: dict[tuple[int, ...], list[float]] = {}

    def row(prefix: tuple[int, ...]) -> list[float]:
        if prefix not in known:
            known[prefix] = np.exp(model(np.array([prefix], dtype=np.int64).reshape(1, -1)))[0].tolist()
        return known[prefix]

    return row


def round_law(name: str, case: Case) -> Law | None:
    """Give the law of what one round emits, as if all its tokens but the last had been drafted and accepted.

    Args:
        name: An id of ``TREE_ROUNDS``.
        case: Any case of one draft per position.

    Returns:
        The law, or None for more than 8 tokens.
    """
    full = case.num_draft_tokens
    if case.vocab_size > MAX_VOCAB or case.ragged:
        return None
    target, draft = case_models(case)
    law = branch_law(lambda tape: _played(name, full, tape, target, draft))
    lines = np.array([[*tokens, *[-1] * (full + 1 - len(tokens))] for tokens in law], dtype=np.int64)
    kept = (lines >= 0).sum(axis=1) - 1
    drafts = np.where(np.arange(full) < kept[:, None], lines[:, :full], -1)
    trace = Trace(drafts, kept, kept, lines[np.arange(len(lines)), kept], lines)
    never = np.zeros(len(lines), dtype=np.bool_)
    return Law(View(trace, never, never), np.array(list(law.values()), dtype=np.float64))

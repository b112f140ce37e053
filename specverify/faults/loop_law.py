"""The exact law of all new tokens of a loop, by its rounds.

A draft that is rejected ends its round, so that drafts and decisions are enumerated position by position: what would
have been drafted after a rejection is looked at only where the loop remembers it. Where another rule verifies all rows
at once, every way that the loop's own text can go is tried instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache, partial

import numpy as np

from specverify.arrays import FloatArray
from specverify.faults.loop_steps import (
    Asked,
    LoopEdit,
    Place,
    State,
    Tokens,
    ended,
    may_draft,
    play_turn,
    replacement,
)
from specverify.loops import Loop
from specverify.reference import Row, Tape, acceptance, branch_law

__all__ = ["block_law", "first_token_law", "turn_law"]

UNCHANGED = LoopEdit().remember


def block_law(edit: LoopEdit, loop: Loop) -> FloatArray:
    """Give the exact law of all new tokens of a loop on a case.

    Args:
        edit: The loop.
        loop: What it is asked for.

    Returns:
        float64 [V ** L]: the probability of each block, numbered in base V with the first token leading; an end of
        sequence fills the block.

    Example:
        >>> from specverify.loop_menu import flat_loop
        >>> block_law(LoopEdit(), flat_loop(2).loop).round(12).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    asked = _asked(loop)
    law: defaultdict[State, float] = defaultdict(float, {State((), edit.start): 1.0})
    for length in range(loop.max_new_tokens):  # every round adds a token
        for state in [one for one in law if len(one.text) == length and not ended(asked, one)]:
            weight = law.pop(state)
            for after, chance in turn_law(edit, asked, state).items():
                law[after] += weight * chance
    blocks = np.zeros(loop.vocab_size**loop.max_new_tokens)
    for state, weight in law.items():
        blocks[_number(state.text, loop)] += weight
    return blocks


@lru_cache(maxsize=32)
def _asked(loop: Loop) -> Asked:
    """Read what a case asks for, once for all faults: they share the laws of its models."""
    return Asked.of(loop)


def first_token_law(edit: LoopEdit, loop: Loop) -> FloatArray:
    """Give the exact law of the first new token of a loop, float64 [V]; the arguments are those of block_law."""
    law = np.zeros(loop.vocab_size)
    for state, weight in turn_law(edit, _asked(loop), State((), edit.start)).items():
        law[state.text[0]] += weight
    return law


def turn_law(edit: LoopEdit, asked: Asked, state: State) -> dict[State, float]:
    """Give the law of the state after one round; of one that ends the loop, the text alone counts.

    Args:
        edit: The loop.
        asked: What it is asked for.
        state: Where it stands.
    """
    if edit.rule is not None or edit.runs_on:
        played = branch_law(partial(_state_after, edit, asked, state))
        return {after: float(chance) for after, chance in played.items()}
    law: defaultdict[State, float] = defaultdict(float)
    for drafts, kept, token, weight in _ways(edit, asked, state):
        law[_after(edit, asked, state, drafts, kept, token)] += weight
    return law


def _state_after(edit: LoopEdit, asked: Asked, state: State, tape: Tape) -> State:
    return play_turn(edit, asked, state, tape).state


def _ways(edit: LoopEdit, asked: Asked, state: State) -> Iterator[tuple[Tokens, int, int, float]]:
    """List the drafts, how many were accepted, the token after them, and the probability of that."""
    going: list[tuple[Tokens, float]] = [((), 1.0)]
    while going:
        drafts, weight = going.pop()
        if drafts and ended(asked, State(state.text + drafts, None)):  # what follows is cut
            yield drafts, len(drafts) - 1, drafts[-1], weight
            continue
        q = _proposed(edit, asked, state, drafts)
        if q is None:
            row = asked.row(edit.bonus or edit.target, Place(asked, state.text, drafts, None, state.memory))
            yield from ((drafts, len(drafts), y, weight * chance) for y, chance in _chances(row))
            continue
        for x, chance in _chances(q):
            accepted = _accepted(edit, asked, state, drafts, x, q)
            going += [((*drafts, x), weight * chance * accepted)] * (accepted > 0)
            if accepted < 1:
                yield from _refused(edit, asked, state, (*drafts, x), q, weight * chance * (1 - accepted))


def _proposed(edit: LoopEdit, asked: Asked, state: State, drafts: Tokens) -> Row | None:
    if not may_draft(edit, asked, state, drafts):
        return None
    found: Row | None = asked.row(edit.propose, Place(asked, state.text, drafts, None, state.memory))
    return found


def _accepted(edit: LoopEdit, asked: Asked, state: State, drafts: Tokens, x: int, q: Row) -> float:
    p = asked.row(edit.accept or edit.target, Place(asked, state.text, drafts, x, state.memory))
    return float(acceptance(p[x], q[x]))


def _refused(
    edit: LoopEdit, asked: Asked, state: State, drafts: Tokens, q: Row, weight: float
) -> Iterator[tuple[Tokens, int, int, float]]:
    """List the replacements of the last of some drafts, with the drafts after it where they will be remembered."""
    kept = len(drafts) - 1
    row = asked.row(replacement, edit, Place(asked, state.text, drafts[:-1], drafts[-1], state.memory), q)
    for y, chance in _chances(row):
        over = edit.remember is UNCHANGED or ended(asked, State((*state.text, *drafts[:-1], y), None))
        wholes = [(drafts, 1.0)] if over else _drafted_on(edit, asked, state, drafts)
        yield from ((whole, kept, y, weight * chance * share) for whole, share in wholes)


def _drafted_on(edit: LoopEdit, asked: Asked, state: State, drafts: Tokens) -> list[tuple[Tokens, float]]:
    """Give the whole drafts that may begin so, with their probabilities."""
    q = _proposed(edit, asked, state, drafts)
    if q is None:
        return [(drafts, 1.0)]
    further = [(chance, _drafted_on(edit, asked, state, (*drafts, x))) for x, chance in _chances(q)]
    return [(whole, chance * share) for chance, wholes in further for whole, share in wholes]


def _chances(weights: Row) -> list[tuple[int, float]]:
    total = sum(weights)
    return [(x, float(weight / total)) for x, weight in enumerate(weights) if weight > 0]


def _after(edit: LoopEdit, asked: Asked, state: State, drafts: Tokens, kept: int, token: int) -> State:
    emitted = (*drafts[:kept], token)
    if asked.eos in emitted:
        emitted = emitted[: emitted.index(asked.eos) + 1]
    text = (state.text + emitted)[: asked.max_new_tokens]
    if ended(asked, State(text, None)) or edit.remember is UNCHANGED:
        return State(text, state.memory)
    return State(text, edit.remember(Place(asked, state.text, drafts, None, state.memory), kept))


def _number(text: Tokens, loop: Loop) -> int:
    eos = loop.target.eos_token_id
    end = text.index(eos) if eos is not None and eos in text else len(text)
    number = 0
    for i in range(loop.max_new_tokens):
        number = number * loop.vocab_size + (text[i] if i < end else eos or 0)
    return number

"""What a generator returned is read strictly: the new tokens, and the rounds where it reports them.

Tokens are int [B, max_new_tokens], -1 only after an end of sequence; rounds have to add up to them. After an end of
sequence the kit writes the end again, as the law of the case does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.generating import Generation, Round
from specverify.loops import Loop
from specverify.reading import on_host, padded_tokens, refuse, vector
from specverify.trace import ROUNDS, Rounds

__all__ = ["PAST_END", "read_generated", "with_host_arrays"]

PAST_END = "it goes on past the end of sequence"
"""What is said of a row that has other tokens after its end."""

FORMS = "tokens [B, max_new_tokens], or specverify.Generation(tokens, rounds)"
NORMAL = 1e-2  # by how much the sum of a claimed law may differ from 1: bfloat16 rows are off by less


def read_generated(result: object, rows: int, loop: Loop) -> tuple[IntArray, Rounds | None]:
    """Read what a generator returned.

    Args:
        result: Tokens int [B, max_new_tokens], or a Generation.
        rows: Number B of prompts, batch mates included.
        loop: What it was asked for.

    Returns:
        The new tokens int64 [B, max_new_tokens], the end of sequence being repeated after itself, and the first rounds
        where they are reported.

    Raises:
        OutputFault: It is neither form, or a row holds what the contract excludes.

    Example:
        >>> from specverify.loop_menu import base_loop
        >>> read_generated([[0, 1, 2, 0]], 1, base_loop())
        (array([[0, 1, 2, 0]]), None)
    """
    if _is_pair(result):
        refuse("got a tuple of tokens and rounds, expected specverify.Generation(tokens, rounds); return that")
    given = result if isinstance(result, Generation) else Generation(result)
    if not isinstance(given.rounds, list | tuple):
        refuse(
            f"rounds is of type {type(given.rounds).__name__}, expected a list of specverify.Round; leave it out to "
            f"report none"
        )
    tokens = _tokens(given.tokens, "tokens", rows, loop.max_new_tokens, loop.vocab_size)
    tokens = _ended(tokens, loop.target.eos_token_id)
    return tokens, _read_rounds(given.rounds, tokens, loop) if len(given.rounds) else None


def with_host_arrays(result: object) -> object:
    """Bring the tensors inside of a Generation to the host; what fails on the way is the sampler's own error."""
    if not isinstance(result, Generation) or not isinstance(result.rounds, list | tuple):
        return result
    rounds = [
        Round(on_host(one.draft_tokens), on_host(one.draft_probs), on_host(one.num_accepted))
        if isinstance(one, Round)
        else one
        for one in result.rounds
    ]
    return Generation(on_host(result.tokens), rounds)


def _is_pair(result: object) -> bool:
    """Say whether a result is a batch of tokens with something beside it, and not two rows."""
    if not isinstance(result, tuple) or len(result) != 2:
        return False
    first = result[0]
    return getattr(first, "ndim", 0) == 2 or (isinstance(first, list) and any(isinstance(row, list) for row in first))


def _tokens(value: object, name: str, rows: int, width: int, vocab_size: int) -> IntArray:
    unknown = np.empty((rows, 0), dtype=np.int64)
    return padded_tokens(value, name, unknown, width, vocab_size, FORMS)[0]


def _ended(tokens: IntArray, eos: int | None) -> IntArray:
    """Check that a row is full, or padded after its end of sequence and only there, and write the end again there."""
    ended = np.zeros(tokens.shape, dtype=np.bool_)
    if eos is not None:
        ended[:, 1:] = np.logical_or.accumulate(tokens == eos, axis=1)[:, :-1]
    missing, beyond = (tokens < 0) & ~ended, (tokens >= 0) & ended
    if missing.any():
        row = int(np.argwhere(missing)[0][0])
        stop = "an end of sequence" if eos is None else f"the end of sequence {eos}"
        refuse(f"row {row} has {tokens[row].tolist()}, expected {tokens.shape[1]} tokens, and -1 only after {stop}")
    if beyond.any():
        row = int(np.argwhere(beyond)[0][0])
        padded = bool((tokens[row][ended[row]] == eos).all())
        what = "pad with -1" if padded else PAST_END
        refuse(f"row {row} has {tokens[row].tolist()}, expected -1 after the end of sequence {eos}: {what}")
    return tokens if eos is None else np.where(ended, eos, tokens)


def _read_rounds(rounds: Sequence[Round], tokens: IntArray, loop: Loop) -> Rounds:
    """Read the first rounds, and see that all of them add up to the tokens."""
    size, lengths = len(tokens), _lengths(tokens, loop)
    start, kept = np.zeros(size, dtype=np.int64), []
    for number, given in enumerate(rounds):
        drafts, claimed, accepted = _read_round(number, given, size, loop)
        _add_up(number, tokens, start, drafts, accepted, lengths)
        kept.append((drafts, claimed, accepted))
        start += np.where(accepted >= 0, accepted + 1, 0)
    short = start < lengths
    if short.any():
        row = int(np.argmax(short))
        made = f"the rounds of row {row} make {start[row]} tokens"
        refuse(f"{made}, and it has {tokens[row].tolist()}; report all rounds")
    while len(kept) < ROUNDS:
        kept.append(tuple(np.full_like(array, -1) for array in kept[0]))  # type: ignore[arg-type]
    first = [np.stack([one[i] for one in kept[:ROUNDS]], axis=1) for i in range(3)]
    coins = np.zeros((size, ROUNDS, 2 * loop.num_draft_tokens + 1))  # drawn where they are counted
    return Rounds(first[0].astype(np.int64), first[1].astype(np.float64), first[2].astype(np.int64), coins)


def _lengths(tokens: IntArray, loop: Loop) -> IntArray:
    """Give how many tokens each row really has: up to its first end of sequence."""
    eos = loop.target.eos_token_id
    if eos is None:
        return np.full(len(tokens), tokens.shape[1])
    ends = tokens == eos
    return np.asarray(np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, tokens.shape[1]))


def _read_round(number: int, given: object, size: int, loop: Loop) -> tuple[IntArray, FloatArray, IntArray]:
    if not isinstance(given, Round):
        refuse(f"round {number} is of type {type(given).__name__}, expected specverify.Round")
    width, vocab = loop.num_draft_tokens, loop.vocab_size
    name = f"draft_tokens of round {number}"
    drafts = _tokens(given.draft_tokens, name, size, width, vocab)
    claimed = _floats(given.draft_probs, f"draft_probs of round {number}", (size, width, vocab))
    accepted = vector(given.num_accepted, f"num_accepted of round {number}", size, FORMS).astype(np.int64)
    wrong = (accepted < -1) | (accepted > (drafts >= 0).sum(axis=1))
    if wrong.any():
        row = int(wrong.argmax())
        refuse(
            f"row {row} of round {number} accepts {accepted[row]} of the drafts {drafts[row].tolist()}, expected -1 to "
            f"{(drafts[row] >= 0).sum()}; report how many of them were kept, -1 in a row that is done"
        )
    sums = claimed.sum(axis=2)
    unlawful = (drafts >= 0) & ~((np.abs(sums - 1) < NORMAL) & (claimed >= 0).all(axis=2))
    if unlawful.any():
        row, place = (int(k) for k in np.argwhere(unlawful)[0])
        law = np.round(claimed[row, place, :8], 4).tolist()
        wrong_by = (
            "it has a negative entry" if (claimed[row, place] < 0).any() else f"it sums to {sums[row, place]:.4g}"
        )
        refuse(f"row {row} of round {number} claims to draft from {law}, which is no law: {wrong_by}")
    return drafts, claimed, accepted


def _floats(value: Any, name: str, shape: tuple[int, int, int]) -> FloatArray:
    """Read claimed laws; fewer positions than the draft may have are read as zeros."""
    try:
        laws = np.asarray(value, dtype=np.float64)
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever a foreign array type raises
        refuse(f"{name} is no array of numbers, expected float [B, g, V]")
    if laws.ndim != 3 or (laws.shape[0], laws.shape[2]) != (shape[0], shape[2]) or laws.shape[1] > shape[1]:
        refuse(f"{name} has shape {list(laws.shape)}, expected [{shape[0]}, at most {shape[1]}, {shape[2]}]")
    return np.pad(laws, ((0, 0), (0, shape[1] - laws.shape[1]), (0, 0)))


def _add_up(
    number: int, tokens: IntArray, start: IntArray, drafts: IntArray, accepted: IntArray, lengths: IntArray
) -> None:
    """See that the drafts which a round accepts are the tokens that came, as far as the row goes."""
    for place in range(drafts.shape[1]):
        at = start + place
        inside = (accepted > place) & (at < lengths)
        wrong = inside & (tokens[np.arange(len(tokens)), np.minimum(at, tokens.shape[1] - 1)] != drafts[:, place])
        if wrong.any():
            row = int(np.argmax(wrong))
            refuse(
                f"row {row} of round {number} accepts {accepted[row]} of the drafts {drafts[row].tolist()}, and has "
                f"the tokens {tokens[row].tolist()}"
            )

"""The built-in cases: the canonical examples, the witness tables, and the pairs that expose what random pairs hide.

Two tokens hide many faults, rows that ignore the context hide others, and token order decides about those that share a
uniform; the menu has a case against each. Cases of more than eight tokens ignore the context, so that their laws stay
known at any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from specverify.arrays import FloatArray
from specverify.cases import Case, Prefix

__all__ = ["coin_case", "crowd_case", "flat_case", "menu", "softmax_case", "wide_case"]

# Witness tables found by a max-min search over random tables, so that every catalogued fault shows. Key: prefix.
_W402_TARGET = """
    : 5/14 5/14 2/7; 0: 5/21 8/21 8/21; 1: 1/6 4/9 7/18; 2: 1/9 4/9 4/9; 00: 4/7 1/7 2/7; 01: 1/8 9/16 5/16;
    02: 3/8 1/16 9/16; 10: 1/11 6/11 4/11; 11: 7/15 2/15 2/5; 12: 2/13 5/13 6/13; 20: 3/14 3/14 4/7;
    21: 3/11 9/22 7/22; 22: 1/11 1/11 9/11"""
_W402_DRAFT = ": 1/11 5/11 5/11; 0: 9/19 1/19 9/19; 1: 8/25 9/25 8/25; 2: 9/14 2/7 1/14"
_W637_TARGET = """
    : 1/2 3/16 5/16; 0: 1/5 1/2 3/10; 1: 9/16 3/8 1/16; 2: 3/7 3/7 1/7; 00: 1/8 5/8 1/4; 01: 4/17 7/17 6/17;
    02: 5/18 1/2 2/9; 10: 1/2 1/18 4/9; 11: 2/5 2/5 1/5; 12: 7/23 9/23 7/23; 20: 1/4 1/4 1/2;
    21: 3/11 9/22 7/22; 22: 9/17 4/17 4/17"""
_W637_DRAFT = ": 1/11 7/11 3/11; 0: 1/18 1/2 4/9; 1: 4/15 2/5 1/3; 2: 3/7 1/3 5/21"

# Rows that ignore the context: name, target, draft, num_draft_tokens, what the case is good for.
_ROWS = (
    ("AB", "3/5 2/5", "4/5 1/5", 1, "the two-token example; a redraw from the target gives .72/.28"),
    ("AB4", "3/5 2/5", "4/5 1/5", 4, "four drafts: accepted lengths, shared coins, block rules"),
    ("C2", "7/10 3/10", "3/10 7/10", 2, "mirror pair, draft as wrong as it can be"),
    ("SUN", "1/3 2/3", "2/3 1/3", 2, "token and block verification differ (arXiv 2403.10444)"),
    ("T3", "1/2 3/10 1/5", "3/10 1/5 1/2", 2, "two residual cells, no mirror"),
    ("C3", "1/2 3/10 1/5", "1/5 1/5 3/5", 3, "two residual cells, three drafts"),
    ("last-empty", "3/5 3/10 1/10", "1/10 3/10 3/5", 2, "the last token has no residual; a tie between p and q"),
    ("overconfident", "1/4 1/4 1/4 1/4", "97/100 1/100 1/100 1/100", 2, "accept and residual coins shared"),
    ("tiny-ratio", "1/100000000 99999999/100000000", "1/2 1/2", 1, "coarse or reused uniforms, inverted ratio"),
    ("zeros", "1/2 0 1/3 1/6", "1/4 1/4 1/4 1/4", 2, "a token that must never be emitted"),
    ("equal", "1/5 1/2 3/10", "1/5 1/2 3/10", 2, "q = p: nothing may be rejected"),
    ("disjoint", "1/3 2/3 0 0", "0 0 1/4 3/4", 2, "disjoint supports: everything is rejected"),
    ("one-hot-target", "0 1 0", "1/2 1/4 1/4", 2, "the target allows one token"),
    ("one-hot-draft", "1/2 3/10 1/5", "0 1 0", 2, "a deterministic draft: token and match agree"),
    ("single", "1", "1", 2, "a vocabulary of one token"),
    ("no-draft", "1/2 1/4 1/8 1/16 1/16", "", 0, "nothing drafted: the bonus alone"),
    ("ties", "3/10 1/5 1/5 1/5 1/10", "1/5 1/5 1/5 3/10 1/10", 2, "several tokens with p = q"),
)


@cache
def menu() -> tuple[Case, ...]:
    """Give all built-in cases, small vocabularies first.

    Example:
        >>> [case.name for case in menu()][:3]
        ['AB', 'AB4', 'C2']
    """
    small = [_from_line(*line) for line in _ROWS]
    w402 = _table("W402", _W402_TARGET, _W402_DRAFT, "witness table: shows every chain and block fault")
    w637 = _table("W637", _W637_TARGET, _W637_DRAFT, "witness table: shows faults that W402 hides")
    small += [
        w402,
        w402.permuted([2, 1, 0], "W402-reversed"),
        w637,
        _table("W637-ragged", _W637_TARGET, _W637_DRAFT, "draft lengths 0 to 2 in one batch", ragged=True),
        _subnormal(),
    ]
    return (*small, *_ramps(), *_softmaxes(), _plateau(), _near_disjoint(), _zipf(), _dust())


@cache
def coin_case() -> Case:
    """Give the fair coin with a one-hot draft: one random bit per row under any lossless rule."""
    rows = (["1/2", "1/2"], [1, 0])
    return Case.from_rows("coin", *rows, num_draft_tokens=1, description="one fair bit per row: dependence")


@cache
def flat_case() -> Case:
    """Give 256 equally likely tokens with a disjoint draft: eight random bits per row under any lossless rule."""
    target, draft = np.zeros(512), np.zeros(512)
    target[:256] = draft[256:] = 1 / 256
    return Case.from_rows("flat", target, draft, num_draft_tokens=1, description="eight fair bits per row: repeats")


@cache
def crowd_case() -> Case:
    """Give 16 equally likely tokens and a draft that is never kept: four random bits per row, for large calls."""
    target, draft = np.append(np.full(16, 1 / 16), 0), np.append(np.zeros(16), 1)
    return Case.from_rows("crowd", target, draft, num_draft_tokens=1, description="four fair bits per row: crowds")


@cache
def wide_case() -> Case:
    """Give one of 4096 equally likely tokens, and the place of the first of them, under any lossless rule.

    The draft is token 0 four times, kept with probability 3/4, 2/3, 1/2 and 0, and what does not keep it is fair. So
    the first other token comes at each of the four places equally often, is fair, and does not depend on its place. It
    is never a bonus, so that a wrong bonus does not stand in the way of what is asked here.
    """
    kept = np.array([[3 / 4], [2 / 3], [1 / 2], [0], [0]])
    target = np.concatenate([kept, np.repeat((1 - kept) / 4096, 4096, axis=1)], axis=1)
    draft = np.append(1, np.zeros(4096))
    return Case.from_rows("wide", target, draft, num_draft_tokens=4, description="twelve fair bits per row: repeats")


def _from_line(name: str, target: str, draft: str, num_draft_tokens: int, description: str) -> Case:
    p, q = target.split(), draft.split()
    return Case.from_rows(name, p, q, num_draft_tokens=num_draft_tokens, description=description)


def _table(name: str, target: str, draft: str, description: str, *, ragged: bool = False) -> Case:
    p, q = _parse(target), _parse(draft)
    return Case.from_table(name, p, q, num_draft_tokens=2, description=description, ragged=ragged)


def _parse(text: str) -> dict[Prefix, list[str]]:
    lines = (line.split(":") for line in text.split(";"))
    return {tuple(int(digit) for digit in prefix.strip()): row.split() for prefix, row in lines}


def _subnormal() -> Case:
    return Case.from_rows(
        "subnormal",
        np.array([0.5, 0.5, 1e-310]),
        np.array([0.5, 0.25, 0.25]),
        num_draft_tokens=2,
        description="a target probability below the smallest normal float64",
    )


def _ramps() -> Sequence[Case]:
    up = np.arange(1, 65) / np.arange(1, 65).sum()
    flat = np.full(64, 1 / 64)
    text = "order-dependent faults: the target {} with the token id, the draft is flat"
    return [
        Case.from_rows("ramp-up-64", up, flat, num_draft_tokens=1, description=text.format("rises")),
        Case.from_rows("ramp-down-64", up[::-1], flat, num_draft_tokens=1, description=text.format("falls")),
    ]


def _softmaxes() -> Sequence[Case]:
    sizes = (("softmax-32", 32, 2, 1.5), ("softmax-50", 50, 3, 2.0), ("softmax-1024", 1024, 2, 2.0))
    return [softmax_case(*size) for size in (*sizes, ("softmax-32000", 32000, 2, 3.0))]


def softmax_case(name: str, size: int, num_draft_tokens: int, scale: float) -> Case:
    """Give irregular rows that differ by position, the same on every platform.

    Args:
        name: Name of the case.
        size: Number of tokens V.
        num_draft_tokens: Length gamma of the draft.
        scale: Spread of the logits; larger is more peaked.
    """
    target = np.stack([_softmax_row(size, scale, 1.0 + i) for i in range(num_draft_tokens + 1)])
    noise = np.stack([_softmax_row(size, scale / 2, 11.0 + i) for i in range(num_draft_tokens)])
    draft = target[:-1] * noise
    draft /= draft.sum(axis=1, keepdims=True)
    text = "irregular rows that differ by position"
    return Case.from_rows(name, target, draft, num_draft_tokens=num_draft_tokens, description=text)


def _softmax_row(size: int, scale: float, step: float) -> FloatArray:
    """Make an irregular row from a formula, the same on every platform; no random stream is promised to stay."""
    token = np.arange(1, size + 1)
    logits = scale * (np.sin(token * (step + 0.6180339887)) + np.sin(token**1.5 * 0.7548776662 * step))
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _plateau() -> Case:
    size = 1000
    target, draft = np.full(size, 0.5 / (size - 1)), np.full(size, 0.4 / (size - 1))
    target[0], draft[0] = 0.5, 0.6
    text = "half spike, half plateau: temperature errors"
    return Case.from_rows("plateau-1000", target, draft, num_draft_tokens=1, description=text)


def _near_disjoint() -> Case:
    token = np.arange(509)
    target = np.where(token < 255, 1.0, 1e-6) * (1 + token % 7)
    draft = np.where(token < 255, 1e-4, 1.0) * (1 + token % 5)
    text = "supports that hardly overlap, a prime number of tokens"
    rows = (target / target.sum(), draft / draft.sum())
    return Case.from_rows("near-disjoint-509", *rows, num_draft_tokens=2, description=text)


def _zipf() -> Case:
    rank = np.arange(1, 32004)
    target = 1.0 / rank
    target[rank % 9 == 0] = 0.0
    draft = np.roll(1.0 / rank**1.2, 3)
    text = "heavy tail, one token in nine forbidden, draft shifted by three ids"
    return Case.from_rows(
        "zipf-32003", target / target.sum(), draft / draft.sum(), num_draft_tokens=1, description=text
    )


def _dust() -> Case:
    """Make the tail that float32 noise loses: every token of it is below 2**-24, together they are one row in 500."""
    tail = np.full(32_500, 0.95 * 2.0**-24)
    target = np.concatenate([np.array([0.5, 0.25]), tail])
    target[2] += 1 - target.sum()
    text = "a head and 32,500 tokens below 2**-24 each: noise that bottoms out, lost tails"
    return Case.from_rows("dust-32502", target, [], num_draft_tokens=0, description=text)

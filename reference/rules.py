"""The verification rules, each written once, as in the papers: what a correct sampler does with one drafted row.

A rule takes a tape, the drafted tokens x, the draft rows (row i is q given the first i drafted tokens) and the target
rows (p likewise, the last one being the bonus row). It returns how many drafted tokens it accepts and the token it
emits after them (None: none). A ``LongerRule`` wrongly emits more tokens after that one, and returns them third.
"""
# ruff: noqa: ARG001 - every rule takes the same four arguments, whether it reads them or not

from collections.abc import Callable, Sequence
from typing import TypeAlias

from .tape import Number, Tape, choose, flip

Row: TypeAlias = Sequence[Number]
Rows: TypeAlias = Sequence[Row]
Verified: TypeAlias = tuple[int, int | None]
Rule: TypeAlias = Callable[[Tape, Sequence[int], Rows, Rows], Verified]
LongerRule: TypeAlias = Callable[[Tape, Sequence[int], Rows, Rows], tuple[int, int | None, tuple[int, ...]]]


def acceptance(p: Number, q: Number) -> Number:
    """Return min(1, p / q); a token that the draft cannot draw (q = 0) is accepted exactly if p > 0."""
    return min(1, p / q) if q > 0 else int(p > 0)


def residual(p: Row, q: Row, weight: Number = 1) -> Row:
    """Return (weight * p - q)+, not normalised; p itself where that is empty, which only rounding can reach."""
    rest = [max(weight * a - b, 0) for a, b in zip(p, q, strict=True)]
    return rest if any(rest) else p


def survival(w: Number, p: Row, q: Row) -> Number:
    """Return h = Z / (Z + 1 - w) with Z = sum (w p - q)+: the chance that block verification flips for."""
    owed = sum(max(w * a - b, 0) for a, b in zip(p, q, strict=True))
    return owed / (owed + (1 - w)) if owed + (1 - w) > 0 else 1


def token(tape: Tape, draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows) -> Verified:
    """Token verification: accept x with probability min(1, p/q); replace the first refused one from the residual.

    Source: Leviathan et al., arXiv 2211.17192, Algorithm 1; Chen et al., arXiv 2302.01318, Algorithm 2.

    >>> from specverify.reference import ScriptedTape
    >>> token(ScriptedTape({("accept", 0): 0.8, ("final",): 0.5}), [0], [[0.8, 0.2]], [[0.6, 0.4], [0.6, 0.4]])
    (0, 1)
    """
    for i, x in enumerate(draft_tokens):
        p, q = target_probs[i], draft_probs[i]
        if not flip(tape, ("accept", i), acceptance(p[x], q[x])):
            return i, choose(tape, ("final",), residual(p, q))
    return len(draft_tokens), choose(tape, ("final",), target_probs[len(draft_tokens)])


def block(tape: Tape, draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows) -> Verified:
    """Block verification: keep the longest prefix that survives, every position being looked at.

    Source: Sun et al., arXiv 2403.10444, Algorithm 2, equations 4 and 5.
    """
    gamma, num_accepted = len(draft_tokens), 0
    w: list[Number] = [1]
    for i, x in enumerate(draft_tokens, start=1):
        w.append(acceptance(w[i - 1] * target_probs[i - 1][x], draft_probs[i - 1][x]))
        h = survival(w[i], target_probs[i], draft_probs[i]) if i < gamma else w[i]
        if flip(tape, ("accept", i - 1), h):
            num_accepted = i
    if num_accepted == gamma:
        return gamma, choose(tape, ("final",), target_probs[gamma])
    rest = residual(target_probs[num_accepted], draft_probs[num_accepted], w[num_accepted])
    return num_accepted, choose(tape, ("final",), rest)


def match(tape: Tape, draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows) -> Verified:
    """Sample and match: draw each token from the target, and go on as long as it equals the draft's."""
    for i, x in enumerate(draft_tokens):
        y = choose(tape, ("emit", i), target_probs[i])
        if y != x:
            return i, y
    return len(draft_tokens), choose(tape, ("emit", len(draft_tokens)), target_probs[len(draft_tokens)])


def one_hot(tape: Tape, draft_tokens: Sequence[int], draft_probs: Rows, target_probs: Rows) -> Verified:
    """Token verification of drafts scored as point masses: accept with p(x), else draw from p without x."""
    point_masses = [[int(y == x) for y in range(len(target_probs[i]))] for i, x in enumerate(draft_tokens)]
    return token(tape, draft_tokens, point_masses, target_probs)


RULES: dict[str, Rule] = {"token": token, "block": block, "match": match, "one_hot": one_hot}

"""An edit read as arithmetic on arrays: its law in one round of a small case, and of one token at any size.

Nothing is enumerated branch by branch, so that every known fault can be compared with what was seen on every case.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case
from specverify.faults.edits import Array, BlockEdit, Edit, acceptance, normalised, without
from specverify.lumping import MAX_DRAFTS, MAX_IDENTITY, NEGLIGIBLE, Law, lump
from specverify.trace import Trace

__all__ = ["Outcomes", "first_token_law", "outcome_law_arrays", "outcomes"]


MOST = 1e300
"""What a ratio is cut at, where its divisor is too small for floats."""


class Outcomes(NamedTuple):
    """Every outcome of one round, also those of weight 0.

    Attributes:
        draft_tokens: int64 [n, G].
        num_accepted: int64 [n].
        next_token: int64 [n].
        weights: Their probabilities [n], in the arithmetic of the rows.
    """

    draft_tokens: IntArray
    num_accepted: IntArray
    next_token: IntArray
    weights: Array


@lru_cache(maxsize=4096)
def outcome_law_arrays(edit: Edit | BlockEdit, case: Case, tau: float = 0.0) -> Law | None:
    """Give the law of (drafted tokens, accepted length, next token) of an edit on a small case.

    Args:
        edit: An edit of the token or block rule.
        case: Any case.
        tau: Relative tolerance within which rounding decides whether p exceeds q.

    Returns:
        The law, or None for more than 8 tokens or 1024 drafts.

    Example:
        >>> case = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
        >>> law = outcome_law_arrays(Edit(), case)
        >>> law.weights.round(2).tolist()
        [0.2, 0.36, 0.24, 0.12, 0.08]
    """
    size, full = case.vocab_size, case.num_draft_tokens
    lens = lump(case, MAX_IDENTITY, tau) if size <= MAX_IDENTITY and size**full <= MAX_DRAFTS else None
    if lens is None:
        return None
    lengths = range(full + 1) if case.ragged else [full]
    parts = [outcomes(edit, case.target, case.draft, length) for length in lengths]
    drafts = [
        np.pad(x.draft_tokens, ((0, 0), (0, full - n)), constant_values=-1) for n, x in zip(lengths, parts, strict=True)
    ]
    own = np.repeat(lengths, [len(part.weights) for part in parts])
    num_accepted, next_token = (np.concatenate(column) for column in list(zip(*parts, strict=True))[1:3])
    weights = np.concatenate([part.weights for part in parts]) / len(parts)
    kept = np.flatnonzero(weights > NEGLIGIBLE)
    nothing = np.full((len(kept), full + 1), -1, dtype=np.int64)
    trace = Trace(np.concatenate(drafts)[kept], own[kept], num_accepted[kept], next_token[kept], nothing)
    return Law(lens.view(trace), weights[kept])


def outcomes(
    edit: Edit | BlockEdit, target: tuple[Array, ...], draft: tuple[Array, ...], num_draft_tokens: int
) -> Outcomes:
    """Give the law of one round, exact where the rows are Fractions.

    Args:
        edit: An edit of the token or block rule.
        target: For each position [n_i, V], a row for each prefix of that length in order, or one row for all of them.
        draft: Likewise.
        num_draft_tokens: How many tokens are drafted, at most the number of the draft's positions.
    """
    size = target[0].shape[-1]
    shape = (num_draft_tokens, size**num_draft_tokens)
    drafted = np.indices((size,) * num_draft_tokens, dtype=np.int64).reshape(shape).T
    rounds = _Round(drafted, target, draft)
    stops = _token_stops(edit, rounds) if isinstance(edit, Edit) else _block_stops(edit, rounds)
    raised = isinstance(edit, Edit) and edit.count_rejected
    weights = np.stack(stops, axis=1)  # [drafts, G + 1, V]
    rows, kept, token = (axis.ravel() for axis in np.indices(weights.shape))
    kept = np.where(kept < num_draft_tokens, kept + raised, kept)
    return Outcomes(drafted[rows], kept, token, weights.ravel())


class _Round:
    """All drafts of one length, each with the rows along it."""

    def __init__(self, drafted: IntArray, target: tuple[Array, ...], draft: tuple[Array, ...]) -> None:
        self.drafted = drafted
        self.length = drafted.shape[1]
        self._rows = [np.zeros(len(drafted), dtype=np.int64)]
        size = target[0].shape[-1]
        for i in range(self.length):
            self._rows.append(self._rows[-1] * size + drafted[:, i])
        self._levels = {"target": target, "draft": draft}

    def rows(self, model: str, position: int) -> Array:
        """Give the row of each draft at a position, [drafts, V]."""
        level = self._levels[model][position]
        return np.asarray(level[self._rows[position] if len(level) > 1 else np.zeros_like(self._rows[position])])

    def at(self, rows: Array, position: int) -> Array:
        """Give the entry of the drafted token in rows [drafts, V]."""
        return np.asarray(rows[np.arange(len(rows)), self.drafted[:, position]])


def _token_stops(edit: Edit, rounds: _Round) -> list[Array]:
    """Give for each accepted length the probabilities [drafts, V] of stopping there with a token."""
    claimed = rounds.rows("target", 0)  # without drafts nothing else is known
    drawn = reach = np.ones_like(claimed[:, 0])
    stops: list[Array] = []
    for i in range(rounds.length):
        p, q = rounds.rows("target", i), rounds.rows("draft", i)
        weights, claimed = normalised(edit.propose(q)), edit.claim(q)
        drawn = drawn * rounds.at(weights, i)
        chance = _accepted(edit, p, claimed, weights, i)
        accepted = rounds.at(chance, i)
        after = np.minimum(reach, accepted) if edit.shared == "positions" else reach * accepted
        lost = reach - after if edit.shared == "positions" else reach * (1 - accepted)
        stops.append(lost[:, None] * _replacement(edit, p, claimed, accepted, rounds.drafted[:, i]))
        reach = after
    bonus = normalised(edit.bonus(rounds.rows("target", rounds.length), claimed))
    return [drawn[:, None] * stop for stop in [*stops, reach[:, None] * bonus]]


def _accepted(edit: Edit, p: Array, claimed: Array, weights: Array, position: int) -> Array:
    """Give the probability that each token is accepted when it was drafted; ``weights`` is the law of the draft."""
    chance = edit.accept(p, claimed, position)
    if edit.shared != "draft":
        return chance
    before = np.cumsum(weights, axis=-1) - weights
    mass = np.minimum(np.maximum(chance - before, 0), weights)
    return np.asarray(mass / np.where(weights > 0, weights, 1))


def _replacement(edit: Edit, p: Array, claimed: Array, accepted: Array, tokens: IntArray) -> Array:
    """Give the law [drafts, V] of the token that replaces each draft's rejected one."""
    weights = edit.replace(p, claimed)
    if edit.drop_draft:
        weights = without(weights, tokens, p)
    if edit.shared != "replacement":
        return normalised(weights)
    upper = _upper_ends(weights)
    lower = np.concatenate([np.zeros_like(upper[:, :1]), upper[:, :-1]], axis=1)
    start = accepted[:, None]  # the uniform is known to lie above it
    inside = np.maximum(upper, start) - np.maximum(lower, start)
    return np.asarray(inside / np.where(start < 1, 1 - start, 1))


def _upper_ends(weights: Array) -> Array:
    """Give the upper end of each token's interval, the last being exactly 1."""
    total = np.cumsum(weights, axis=-1)
    return np.asarray(total / total[..., -1:])


def _block_stops(edit: BlockEdit, rounds: _Round) -> list[Array]:
    """Give for each accepted length the probabilities [drafts, V] of stopping there with a token."""
    n = rounds.length
    w, drawn = [np.ones_like(rounds.rows("target", 0)[:, 0])], np.ones_like(rounds.rows("target", 0)[:, 0])
    chances: list[Array] = []
    for i in range(n):
        p, q = rounds.at(rounds.rows("target", i), i), rounds.at(rounds.rows("draft", i), i)
        drawn = drawn * q
        with np.errstate(over="ignore"):  # by a subnormal q, which is never drafted
            joint = w[i] * p / np.where(q > 0, q, 1)
        w.append(acceptance(w[i] * p, q) if edit.capped else np.minimum(joint, MOST))
        rows = (rounds.rows("target", i + 1), rounds.rows("draft", i + 1)) if i + 1 < n else ()
        chances.append(edit.chance(w[-1], *rows) if rows else np.minimum(w[-1], 1))
    law = [edit.replace(w[i], rounds.rows("target", i), rounds.rows("draft", i)) for i in range(n)]
    law.append(rounds.rows("target", n))
    return [(drawn * _kept(edit, chances, i))[:, None] * normalised(law[i]) for i in range(n + 1)]


def _kept(edit: BlockEdit, chances: list[Array], kept: int) -> Array:
    """Give the probability that the last success is at ``kept``, or with ``stops`` the first failure after it."""
    result: Array = np.ones(1, dtype=np.int64)
    for i, chance in enumerate(chances, start=1):
        if i == kept or (edit.stops and i < kept):
            result = result * chance
        elif i > kept and not (edit.stops and i > kept + 1):
            result = result * (1 - chance)
    return result


def first_token_law(edit: Edit | BlockEdit, p: FloatArray, q: FloatArray | None) -> FloatArray:
    """Give the law of the first emitted token when one token is drafted, or none.

    Args:
        edit: An edit of the token or block rule; with one draft the edited block rules are the token rule.
        p: float64 [V], target row, V of any size.
        q: float64 [V], draft row; None where nothing is drafted, so that the bonus is the first token.

    Returns:
        float64 [V].

    Example:
        >>> first_token_law(Edit(replace=lambda p, q: p), np.array([0.6, 0.4]), np.array([0.8, 0.2])).round(3).tolist()
        [0.72, 0.28]
    """
    edit = edit if isinstance(edit, Edit) else Edit()
    if q is None:
        return np.asarray(normalised(edit.bonus(p, p)))
    drawn, claimed = normalised(edit.propose(q)), edit.claim(q)
    if edit.count_rejected:
        return np.asarray(drawn)
    accepted = _accepted(edit, p, claimed, drawn, 0)
    weights, lost = edit.replace(p, claimed), drawn * (1 - accepted)
    if edit.drop_draft:
        replaced = _drawn_without(weights, lost, p)
    elif edit.shared == "replacement":
        replaced = _above(_upper_ends(weights), drawn, accepted)
    else:
        replaced = lost.sum() * normalised(weights)
    return np.asarray(drawn * accepted + replaced)


def _drawn_without(weights: FloatArray, lost: FloatArray, p: FloatArray) -> FloatArray:
    """Sum over the rejected tokens, of mass ``lost``, the law of the weights without that token."""
    heavy = int(weights.argmax())
    others = weights.sum() - weights
    others[heavy] = 0  # the one difference that may cancel; its part is added apart
    mass = np.divide(lost, others, out=np.zeros_like(lost), where=others > 0)
    law = weights * (mass.sum() - mass)
    light = np.where(np.arange(len(weights)) == heavy, 0, weights)
    others[heavy] = light.sum()
    if others[heavy] > 0:
        law += lost[heavy] * (light / others[heavy])  # in this order: the rest may be subnormal
    return np.asarray(law + lost[others <= 0].sum() * p)


def _above(upper: FloatArray, drawn: FloatArray, accepted: FloatArray) -> FloatArray:
    """Sum over the drafts the lengths of the tokens' intervals above their chance of acceptance."""
    order = np.argsort(accepted, kind="stable")
    start = accepted[order]
    mass = np.concatenate([[0.0], np.cumsum(drawn[order])])
    moment = np.concatenate([[0.0], np.cumsum(drawn[order] * start)])
    ends = np.concatenate([[0.0], upper])
    below = np.searchsorted(start, ends, side="right")
    return np.asarray(np.maximum(np.diff(mass[below] * ends - moment[below]), 0))

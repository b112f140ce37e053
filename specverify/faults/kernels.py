"""An edit read as a vectorised kernel on given uniforms, so that a sampler with a fault is as fast as one without."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from specverify.arrays import BoolArray, FloatArray, IntArray
from specverify.faults.edits import Array, BlockEdit, Edit, acceptance, without
from specverify.reference import Kernel

__all__ = ["draw", "kernel", "round_kernel", "verify"]


def draw(weights: FloatArray, uniforms: FloatArray) -> IntArray:
    """Draw a token from each row of weights by inverse distribution function, never one of weight 0.

    Args:
        weights: float64 [N, V], at least 0, not all 0 in a row.
        uniforms: float64 [N], in [0, 1).

    Returns:
        int64 [N].

    Example:
        >>> draw(np.array([[1.0, 0.0, 1.0]]), np.array([0.5])).tolist()
        [2]
    """
    total = np.cumsum(weights, axis=1)
    tokens = (total <= (uniforms * total[:, -1])[:, None]).sum(axis=1)
    last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    return np.asarray(np.minimum(tokens, last), dtype=np.int64)


def kernel(edit: Edit | BlockEdit) -> Kernel:
    """Make the kernel that an edit is: from drafts, rows and uniforms to num_accepted and next_token.

    Args:
        edit: An edit of the token or block rule; one with shared = "draft" takes the drafts' uniforms for ``accept``.
    """
    return partial(verify, edit)


def verify(
    edit: Edit | BlockEdit,
    draft_tokens: IntArray,
    draft_probs: FloatArray,
    target_probs: FloatArray,
    accept: FloatArray,
    final: FloatArray,
    num_draft_tokens: IntArray | None = None,
) -> tuple[IntArray, IntArray]:
    """Verify a batch as an edit says.

    Args:
        edit: An edit of the token or block rule.
        draft_tokens: int64 [B, G]; what lies beyond a row's own length is not read.
        draft_probs: float64 [B, G, V].
        target_probs: float64 [B, G + 1, V].
        accept: float64 [B, G], uniforms of the tests.
        final: float64 [B], uniforms of the token after the accepted ones.
        num_draft_tokens: int64 [B]; G everywhere if left out.

    Returns:
        num_accepted int64 [B] and next_token int64 [B].

    Example:
        >>> p, q = np.array([[[0.6, 0.4], [0.6, 0.4]]]), np.array([[[0.8, 0.2]]])
        >>> verify(Edit(), np.array([[0]]), q, p, np.array([[0.8]]), np.array([0.5]))
        (array([0]), array([1]))
    """
    lengths = np.full(len(final), draft_tokens.shape[1]) if num_draft_tokens is None else num_draft_tokens
    own = np.arange(draft_tokens.shape[1]) < lengths[:, None]
    batch = _Batch(np.where(own, draft_tokens, 0), draft_probs, target_probs, own)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        decide = _token if isinstance(edit, Edit) else _block
        return decide(edit, batch, accept, final)  # type: ignore[arg-type]


class _Batch:
    """The arguments of a call, and the rows and entries that are read from them."""

    def __init__(self, tokens: IntArray, draft: FloatArray, target: FloatArray, own: BoolArray) -> None:
        self.tokens, self.draft, self.target, self.own = tokens, draft, target, own
        self.every = np.arange(len(tokens))
        self.lengths = own.sum(axis=1)

    def drafted(self, rows: Array, position: int) -> Array:
        """Give the entry of the drafted token in rows [B, V]."""
        return np.asarray(rows[self.every, self.tokens[:, position]])

    def draft_row(self, where: BoolArray, positions: IntArray) -> FloatArray:
        """Give the draft rows of the marked rows of the batch; the target's where nothing was drafted."""
        rows = np.flatnonzero(where)
        if not self.own.any():
            return np.asarray(self.target[rows, 0])
        found = np.array(self.draft[rows, np.maximum(positions[rows], 0)])
        bare = positions[rows] < 0
        found[bare] = self.target[rows[bare], 0]
        return found


def _token(edit: Edit, batch: _Batch, accept: FloatArray, final: FloatArray) -> tuple[IntArray, IntArray]:
    passed = batch.own.copy()
    for i in range(passed.shape[1]):
        q = edit.claim(batch.draft[:, i])
        chance = edit.accept(batch.drafted(batch.target[:, i], i), batch.drafted(q, i), i)
        passed[:, i] &= accept[:, 0 if edit.shared == "positions" else i] < chance
    kept = np.logical_and.accumulate(passed, axis=1).sum(axis=1)
    refused = kept < batch.lengths
    uniforms, following = final.copy(), np.empty(len(kept), dtype=np.int64)
    if refused.any():
        rows = np.flatnonzero(refused)
        p, q = batch.target[rows, kept[rows]], edit.claim(batch.draft_row(refused, kept))
        weights = edit.replace(p, q)
        if edit.drop_draft:
            weights = without(weights, batch.tokens[rows, kept[rows]], p)
        if edit.shared == "replacement":
            uniforms[rows] = accept[rows, kept[rows]]
        following[rows] = draw(weights, uniforms[rows])
    rows = np.flatnonzero(~refused)
    bonus = edit.bonus(batch.target[rows, kept[rows]], edit.claim(batch.draft_row(~refused, kept - 1)))
    following[rows] = draw(bonus, uniforms[rows])
    return kept + (refused & edit.count_rejected), following


def _block(edit: BlockEdit, batch: _Batch, accept: FloatArray, final: FloatArray) -> tuple[IntArray, IntArray]:
    size, gamma = batch.tokens.shape
    w = np.ones((size, gamma + 1))
    passed = batch.own.copy()
    for i in range(1, gamma + 1):
        p, q = batch.drafted(batch.target[:, i - 1], i - 1), batch.drafted(batch.draft[:, i - 1], i - 1)
        w[:, i] = acceptance(w[:, i - 1] * p, q) if edit.capped else w[:, i - 1] * p / np.where(q > 0, q, 1)
        chance = np.minimum(w[:, i], 1)
        inner = np.flatnonzero(i < batch.lengths)
        if len(inner):
            chance[inner] = edit.chance(w[inner, i], batch.target[inner, i], batch.draft[inner, i])
        passed[:, i - 1] &= accept[:, i - 1] < chance
    if edit.stops:
        passed = np.logical_and.accumulate(passed, axis=1)
    kept = (passed * np.arange(1, gamma + 1)).max(axis=1, initial=0)
    refused = kept < batch.lengths
    following = np.empty(size, dtype=np.int64)
    for rows, last in ((np.flatnonzero(refused), False), (np.flatnonzero(~refused), True)):
        p = batch.target[rows, kept[rows]]
        weights = p if last or not len(rows) else edit.replace(w[rows, kept[rows]], p, batch.draft[rows, kept[rows]])
        following[rows] = draw(weights, final[rows])
    return kept, following


def round_kernel(
    edit: Edit,
    draft_model: Callable[[IntArray], Any],
    target_model: Callable[[IntArray], Any],
    drafting: FloatArray,
    accept: FloatArray,
    final: FloatArray,
) -> tuple[IntArray, IntArray, IntArray]:
    """Draft and verify a batch as an edit says, all by inverse distribution function.

    Args:
        edit: An edit of the token rule.
        draft_model: From prefixes int64 [B, i] to log-probabilities float64 [B, V].
        target_model: Likewise.
        drafting: float64 [B, G], uniforms of the drafts.
        accept: float64 [B, G], uniforms of the tests; not read where the drafts' are shared.
        final: float64 [B], uniforms of the token after the accepted ones.

    Returns:
        draft_tokens int64 [B, G], num_accepted int64 [B] and next_token int64 [B].

    Example:
        >>> p, q = np.log([[0.6, 0.4]]), np.log([[0.8, 0.2]])
        >>> half = np.array([[0.5]])
        >>> round_kernel(Edit(), lambda tokens: q, lambda tokens: p, half, half + 0.3, half[0])
        (array([[0]]), array([0]), array([1]))
    """
    tokens = np.empty((len(final), 0), dtype=np.int64)
    draft_rows: list[FloatArray] = []
    for i in range(drafting.shape[1]):
        draft_rows.append(np.exp(draft_model(tokens)))
        tokens = np.hstack([tokens, draw(edit.propose(draft_rows[i]), drafting[:, i])[:, None]])
    target_rows = [np.exp(target_model(tokens[:, :i])) for i in range(drafting.shape[1] + 1)]
    shape = (len(final), 0, target_rows[0].shape[1])
    draft_probs = np.stack(draft_rows, axis=1) if draft_rows else np.empty(shape)
    coins = drafting if edit.shared == "draft" else accept
    return tokens, *verify(edit, tokens, draft_probs, np.stack(target_rows, axis=1), coins, final)

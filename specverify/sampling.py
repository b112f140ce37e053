"""The kit's own draws: drafts from q, and the completion of stopped blocks from p.

Both use inverse distribution functions in integers, whose error (below 1e-13 at 262144 tokens) is far below what any
sample can see, and never give a token of probability zero. Tokens are laid out position by position: what follows
works on one position at a time.
"""

from __future__ import annotations

import numpy as np

from specverify.arrays import IntArray
from specverify.cases import Case
from specverify.inverse import Inverse, draw_once
from specverify.trace import Trace
from specverify.tree import Tree, sibling_rows

__all__ = ["CaseSampler"]

PIECE = 2**20  # probabilities that are worked on at a time


class CaseSampler:
    """Draws drafts and completions for one case.

    Args:
        case: The case whose rows are drawn from.

    Example:
        >>> case = Case.from_rows("point", [0, 1], [1, 0], num_draft_tokens=2)
        >>> CaseSampler(case).draft(3, np.random.default_rng(0))[0].tolist()
        [[0, 0], [0, 0], [0, 0]]
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self._draft = [Inverse(rows) for rows in case.draft]
        self._target = [Inverse(rows) for rows in case.target]

    def draft(self, rows: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Draw the drafts of a batch.

        Args:
            rows: Number B of rows.
            rng: Source of the draws.

        Returns:
            draft_tokens int64 [B, G], -1 beyond a row's own length, and num_draft_tokens int64 [B]; for a case with a
            tree of N nodes int64 [B, N], -1 where a node does not exist.
        """
        length = self.case.num_draft_tokens
        lengths = np.full(rows, length, dtype=np.int64)
        if self.case.tree is not None:
            return self._drafted_tree(self.case.tree, rows, rng), lengths
        if self.case.ragged:
            lengths = rng.integers(0, length + 1, size=rows)
        tokens = np.empty((length, rows), dtype=np.int64).T
        index = self._root(rows)
        for position, model in enumerate(self._draft):
            tokens[:, position] = model.draw(index, rng)
            index = self._below(index, tokens[:, position])
        if self.case.ragged:
            tokens[np.arange(length) >= lengths[:, None]] = -1
        return tokens, lengths

    def _root(self, rows: int) -> IntArray:
        return np.broadcast_to(np.int64(0), rows)

    def _below(self, index: IntArray, tokens: IntArray) -> IntArray:
        """Number the prefixes that one more token makes, as Case.row_index does."""
        return index * self.case.vocab_size + tokens if self.case.contextual else index

    def _drafted_tree(self, tree: Tree, rows: int, rng: np.random.Generator) -> IntArray:
        tokens = np.full((rows, tree.nodes), -1, dtype=np.int64)
        base = self.case.vocab_size if self.case.contextual else 0
        for node, parent in enumerate(tree.parents):
            above = tree.numbers(tokens, base)[:, parent + 1]
            there = np.flatnonzero(above >= 0)
            earlier = [tokens[there, sibling] for sibling in tree.earlier(node)]
            tokens[there, node] = self._child(tree.mode, int(tree.depths[parent + 1]), above[there], earlier, rng)
        return tokens

    def _child(
        self, mode: str, position: int, index: IntArray, earlier: list[IntArray], rng: np.random.Generator
    ) -> IntArray:
        """Draw a node of each row, given its draft row and its earlier siblings."""
        rows = self.case.draft[position]
        if mode == "top":
            order = np.argsort(-rows, axis=1, kind="stable")
            return order[index, len(earlier)] if len(earlier) < rows.shape[1] else np.full_like(index, -1)
        if mode == "with_replacement" or not earlier:
            return self._draft[position].draw(index, rng).astype(np.int64)
        tokens, step = np.empty_like(index), max(1, PIECE // rows.shape[1])
        for start in range(0, len(index), step):
            part = slice(start, start + step)
            left = sibling_rows(rows[index[part]], [sibling[part] for sibling in earlier])
            tokens[part] = np.where(left.any(axis=1), draw_once(left, rng), -1)
        return tokens

    def complete(
        self,
        draft_tokens: IntArray,
        num_draft_tokens: IntArray,
        num_accepted: IntArray,
        next_token: IntArray,
        rng: np.random.Generator,
        *,
        whole: bool = True,
    ) -> Trace:
        """Complete what a sampler emitted to num_draft_tokens + 1 tokens with draws from the target.

        Args:
            draft_tokens: int64 [B, G].
            num_draft_tokens: int64 [B].
            num_accepted: int64 [B].
            next_token: int64 [B], -1 where none was emitted.
            rng: Source of the draws, independent of the sampler's randomness.
            whole: Whether all tokens are needed, or the first of each row is enough.

        Returns:
            The trace of the B rows.
        """
        emitted = draft_tokens, num_accepted, next_token
        completed = self._blocks(*emitted, rng) if whole else self._first_tokens(*emitted, rng)[:, None]
        return Trace(draft_tokens, num_draft_tokens, num_accepted, next_token, completed)

    def _blocks(
        self, draft_tokens: IntArray, num_accepted: IntArray, next_token: IntArray, rng: np.random.Generator
    ) -> IntArray:
        columns = np.empty((len(self._target), len(num_accepted)), dtype=np.int64)
        columns[:-1] = draft_tokens.T
        known = num_accepted + (next_token >= 0)
        index = self._root(len(num_accepted))
        for position, (model, column) in enumerate(zip(self._target, columns, strict=True)):
            stopped = np.flatnonzero(num_accepted == position)
            column[stopped] = next_token[stopped]
            owed = np.flatnonzero(known <= position)
            if len(owed):
                column[owed] = model.draw(index[owed], rng)
            index = self._below(index, column)
        return columns.T

    def _first_tokens(
        self, draft_tokens: IntArray, num_accepted: IntArray, next_token: IntArray, rng: np.random.Generator
    ) -> IntArray:
        first = next_token.copy()
        if self._draft:  # a product of numbers is several times as fast as a choice between them
            first += (num_accepted > 0) * (draft_tokens[:, 0] - next_token)
        owed = np.flatnonzero(first < 0) if first.min(initial=0) < 0 else ()
        if len(owed):
            first[owed] = self._target[0].draw(self._root(len(owed)), rng)
        return first

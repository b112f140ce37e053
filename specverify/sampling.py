"""The kit's own draws: drafts from q, and the completion of stopped blocks from p.

Both use inverse distribution functions in float64, whose error (below 1e-11 at 262144 tokens) is far below what any
sample can see, and never give a token of probability zero.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case
from specverify.trace import Trace

__all__ = ["CaseSampler"]


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
        self._draft = [_Rows(rows) for rows in case.draft]
        self._target = [_Rows(rows) for rows in case.target]

    def draft(self, rows: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Draw the drafts of a batch.

        Args:
            rows: Number B of rows.
            rng: Source of the draws.

        Returns:
            draft_tokens int64 [B, G], -1 beyond a row's own length, and num_draft_tokens int64 [B].
        """
        length = self.case.num_draft_tokens
        lengths = np.full(rows, length, dtype=np.int64)
        if self.case.ragged:
            lengths = rng.integers(0, length + 1, size=rows)
        tokens = np.empty((rows, length), dtype=np.int64)
        for position, model in enumerate(self._draft):
            tokens[:, position] = model.draw(self.case.row_index(tokens[:, :position]), rng)
        if self.case.ragged:
            tokens[np.arange(length) >= lengths[:, None]] = -1
        return tokens, lengths

    def complete(
        self,
        draft_tokens: IntArray,
        num_draft_tokens: IntArray,
        num_accepted: IntArray,
        next_token: IntArray,
        rng: np.random.Generator,
    ) -> Trace:
        """Complete what a sampler emitted to num_draft_tokens + 1 tokens with draws from the target.

        Args:
            draft_tokens: int64 [B, G].
            num_draft_tokens: int64 [B].
            num_accepted: int64 [B].
            next_token: int64 [B], -1 where none was emitted.
            rng: Source of the draws, independent of the sampler's randomness.

        Returns:
            The trace of the B rows.
        """
        bare = Trace(draft_tokens, num_draft_tokens, num_accepted, next_token, draft_tokens)
        completed = bare.emitted()
        for position, model in enumerate(self._target):
            owed = np.flatnonzero(completed[:, position] < 0)
            if len(owed):
                index = self.case.row_index(completed[owed, :position])
                completed[owed, position] = model.draw(index, rng)
        return replace(bare, completed=completed)


class _Rows:
    """Inverse distribution functions of many rows, searched as one: row i occupies the numbers from i to i + 1."""

    def __init__(self, rows: FloatArray) -> None:
        cumulative = np.cumsum(rows, axis=1)
        cumulative /= cumulative[:, -1:]
        self.vocab_size = rows.shape[1]
        self.flat = (cumulative + np.arange(len(rows))[:, None]).ravel()
        self.last = self.vocab_size - 1 - np.argmax(rows[:, ::-1] > 0, axis=1)

    def draw(self, index: IntArray, rng: np.random.Generator) -> IntArray:
        found = np.searchsorted(self.flat, rng.random(len(index)) + index, side="right")
        return np.asarray(np.minimum(found - index * self.vocab_size, self.last[index]), dtype=np.int64)

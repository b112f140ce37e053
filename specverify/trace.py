"""A trace is what one run of a sampler revealed: drafts, accepted lengths and tokens, with each block completed.

All statistics are functions of traces. A block that stopped early is completed with tokens drawn from the target, so
that the completed block of any lossless sampler has the target's joint law (strong losslessness).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specverify.arrays import BoolArray, IntArray

__all__ = ["Trace"]


@dataclass(frozen=True)
class Trace:
    """What was observed on n rows of a case with G draft tokens.

    Attributes:
        draft_tokens: int64 [n, G]; -1 beyond a row's own draft length.
        num_draft_tokens: int64 [n], each row's own draft length.
        num_accepted: int64 [n], the accepted length.
        next_token: int64 [n], the replacement or bonus token; -1 when none was emitted.
        completed: int64 [n, G + 1], the emitted tokens followed by target draws.

    Example:
        >>> one = np.array([1])
        >>> trace = Trace(np.array([[0, 1]]), 2 * one, one, one, np.array([[0, 1, 1]]))
        >>> trace.emitted().tolist(), trace.rejected.tolist()
        ([[0, 1, -1]], [True])
    """

    draft_tokens: IntArray
    num_draft_tokens: IntArray
    num_accepted: IntArray
    next_token: IntArray
    completed: IntArray

    def __len__(self) -> int:
        return len(self.num_accepted)

    @property
    def rejected(self) -> BoolArray:
        """Whether a drafted token was rejected: bool [n]."""
        return self.num_accepted < self.num_draft_tokens

    def emitted(self) -> IntArray:
        """Give the tokens that the sampler itself emitted: int64 [n, G + 1], -1 after them."""
        rows, width = self.draft_tokens.shape
        columns = np.full((width + 1, rows), -1, dtype=np.int64)
        for position, column in enumerate(columns):
            if position < width:
                np.copyto(column, self.draft_tokens[:, position], where=self.num_accepted > position)
            np.copyto(column, self.next_token, where=self.num_accepted == position)
        return columns.T

    def drafted_at(self, position: IntArray) -> IntArray:
        """Give each row's drafted token at its own ``position`` int64 [n]; -1 where there is none."""
        padded = np.pad(self.draft_tokens, ((0, 0), (0, 1)), constant_values=-1)
        return padded[np.arange(len(self)), position]

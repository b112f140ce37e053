"""A trace is what one run of a sampler revealed: drafts, accepted lengths and tokens, with each block completed.

All statistics are functions of traces. A block that stopped early is completed with tokens drawn from the target, so
that the completed block of any lossless sampler has the target's joint law (strong losslessness).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specverify.arrays import BoolArray, FloatArray, IntArray

__all__ = ["ROUNDS", "Rounds", "Trace"]

ROUNDS = 4  # reported rounds that are looked at: what comes later comes in few rows


@dataclass(frozen=True)
class Rounds:
    """What loops reported of their first rounds, R of each row.

    Attributes:
        draft_tokens: int64 [n, R, G], -1 where nothing was drafted.
        claimed: float64 [n, R, G, V], the laws that the drafts are said to be from.
        num_accepted: int64 [n, R], -1 where there was no such round.
        coins: float64 [n, R, 2 G + 1], the kit's own, with which the laws of different rows are counted together.
    """

    draft_tokens: IntArray
    claimed: FloatArray
    num_accepted: IntArray
    coins: FloatArray

    def part(self, rows: slice) -> Rounds:
        """Give what was reported of some rows."""
        return Rounds(self.draft_tokens[rows], self.claimed[rows], self.num_accepted[rows], self.coins[rows])

    @classmethod
    def joined(cls, parts: Sequence[Rounds], rng: np.random.Generator) -> Rounds:
        """Put the rows of several calls one after another, and draw their coins."""
        drafts, claimed, accepted = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("draft_tokens", "claimed", "num_accepted")
        )
        rows, number, width = drafts.shape
        return cls(drafts, claimed, accepted, rng.random((rows, number, 2 * width + 1)))


@dataclass(frozen=True)
class Trace:
    """What was observed on n rows of a case with G draft tokens.

    Attributes:
        draft_tokens: int64 [n, G]; -1 beyond a row's own draft length.
        num_draft_tokens: int64 [n], each row's own draft length.
        num_accepted: int64 [n], the accepted length.
        next_token: int64 [n], the replacement or bonus token; -1 when none was emitted.
        completed: int64 [n, G + 1], the emitted tokens followed by target draws; or [n, 1], the first of them, where
            the rest is drawn when blocks are counted.
        rounds: What a generator reported of its rounds, if it did; its new tokens are then the completed block.

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
    rounds: Rounds | None = None

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

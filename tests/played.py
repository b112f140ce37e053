"""Draws are checked at chosen words: a generator that plays them in place of random ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from specverify import inverse
from specverify.arrays import FloatArray, IntArray


class Played(np.random.Generator):
    """A generator that plays given words of 64 bits, one array a draw, and given lengths.

    Args:
        words: uint64 [n] for each draw.
        lengths: What is given for plain integers.
    """

    def __init__(self, *words: npt.NDArray[np.uint64] | Sequence[int], lengths: IntArray | None = None) -> None:
        super().__init__(np.random.PCG64(0))
        self.left = [np.array(some, dtype=np.uint64) for some in words]
        self.lengths = lengths
        self.rest = np.zeros(0, dtype=np.uint64)

    def heads(self, count: int, bits: int) -> npt.NDArray[Any]:
        """Play the first bits of the next words."""
        words = self.left.pop(0)
        assert words.shape == (count,)
        self.rest = words << np.uint64(bits)
        return (words >> np.uint64(64 - bits)).astype(np.uint16 if bits == 16 else np.uint32)

    def integers(self, low: int, high: int, size: int) -> npt.NDArray[Any]:  # type: ignore[override]  # what is played
        """Play the lengths."""
        assert self.lengths is not None
        assert self.lengths.shape == (size,)
        assert ((self.lengths >= low) & (self.lengths < high)).all()
        return self.lengths


def words_of(uniforms: FloatArray) -> npt.NDArray[np.uint64]:
    """Give the words that a generator makes these uniforms of."""
    return (uniforms * 2.0**53).astype(np.uint64) << np.uint64(11)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let both parts of the words of a played generator be what it plays."""
    heads, tails = inverse._heads, inverse._tails

    def some_heads(count: int, bits: int, rng: np.random.Generator) -> npt.NDArray[Any]:
        return rng.heads(count, bits) if isinstance(rng, Played) else heads(count, bits, rng)

    def some_tails(rows: IntArray, rng: np.random.Generator) -> npt.NDArray[np.uint64]:
        return rng.rest[rows] if isinstance(rng, Played) else tails(rows, rng)

    monkeypatch.setattr(inverse, "_heads", some_heads)
    monkeypatch.setattr(inverse, "_tails", some_tails)

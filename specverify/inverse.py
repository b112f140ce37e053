"""Tokens are drawn from fixed rows by one look-up in a table of the first bits of a random word, exactly.

Each row is cut into whole numbers of 2**62 parts, a token owns as many as its probability says, in the order of ids,
and a random word picks a part: the law that is drawn from is known as integers. A guide table (Chen and Asau, 1974)
holds the token of every cell of equal parts that one token owns alone; the few other cells are searched.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from specverify.arrays import FloatArray, IntArray

__all__ = ["Inverse", "draw_once", "parts"]

BITS = 62  # of a word that count: running sums of parts are then int64, and 2**-62 is far below what a sample can see
CELLS = 2**17  # of the guides of all rows together, which then stay in the cache; rows of more tokens get more
CELLS_PER_TOKEN = 64


def parts(rows: FloatArray) -> IntArray:
    """Share 2**62 parts among the tokens of each row.

    What rounding leaves over, below 1e-15 of all, goes to the most probable token; one of probability zero gets none.

    Args:
        rows: float64 [R, V], each >= 0; where a sum misses 1 by rounding, all tokens share the error.

    Returns:
        int64 [R, V], each row summing to 2**62.

    Example:
        >>> (parts(np.array([[0.75, 0.0, 0.25]])) / 2**62).tolist()
        [[0.75, 0.0, 0.25]]
    """
    total = rows.sum(axis=1, keepdims=True)
    shares = (rows / np.where(total > 0, total, 1) * 2.0**BITS).astype(np.int64)
    shares[np.arange(len(rows)), rows.argmax(axis=1)] += 2**BITS - shares.sum(axis=1)
    return shares


def draw_once(rows: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw one token from each row float64 [R, V], for rows that are not drawn from again: int64 [R]."""
    picked = _part(_words(len(rows), rng))
    return np.asarray((parts(rows).cumsum(axis=1) <= picked[:, None]).sum(axis=1))


class Inverse:
    """Inverse distribution functions of rows that are drawn from many times.

    Args:
        rows: float64 [R, V], each >= 0.

    Example:
        >>> rows = Inverse(np.array([[0.0, 1.0], [1.0, 0.0]]))
        >>> rows.draw(np.array([0, 1, 0]), np.random.default_rng(0)).tolist()
        [1, 0, 1]
    """

    def __init__(self, rows: FloatArray) -> None:
        count, self._size = rows.shape
        ends = parts(rows).cumsum(axis=1)
        cells = max(min(CELLS_PER_TOKEN * self._size, CELLS // count), self._size, 2)
        self._bits = cells.bit_length() - 1
        self._guide = _guide(ends, 2**self._bits)
        self._ends = ends.ravel()

    def draw(self, index: IntArray, rng: np.random.Generator) -> npt.NDArray[np.int32]:
        """Draw a token from the row of each number ``index`` int64 [n]: int32 [n]."""
        words = _words(len(index), rng)
        cells = (words >> np.uint64(64 - self._bits)).view(np.int64)
        if len(self._ends) > self._size:
            cells += index * (2**self._bits + 1)
        tokens = self._guide.take(cells)
        shared = np.flatnonzero(tokens < 0)
        if len(shared):
            following = self._guide.take(cells[shared] + 1)
            last = np.maximum(following, ~following)
            tokens[shared] = self._search(index[shared], ~tokens[shared], last, _part(words[shared]))
        return tokens

    def _search(
        self, index: IntArray, first: npt.NDArray[np.int32], last: npt.NDArray[np.int32], part: IntArray
    ) -> npt.NDArray[np.int32]:
        """Give the token of each row, from one to another, that owns a part, by bisection."""
        start = index * self._size
        for _ in range(int((last - first).max()).bit_length()):
            middle = (first + last) >> 1
            beyond = self._ends.take(start + middle) > part
            first, last = np.where(beyond, first, middle + 1), np.where(beyond, middle, last)
        return first


def _words(count: int, rng: np.random.Generator) -> npt.NDArray[np.uint64]:
    return rng.integers(0, 2**64, size=count, dtype=np.uint64)


def _part(words: npt.NDArray[np.uint64]) -> IntArray:
    return (words >> np.uint64(64 - BITS)).view(np.int64)


def _guide(ends: IntArray, cells: int) -> npt.NDArray[np.int32]:
    """Give the token that owns the first part of each cell, t as ~t where it does not own them all.

    Args:
        ends: int64 [R, V], running sums of parts.
        cells: Number C of cells of each row, a power of 2.

    Returns:
        int32 [R * (C + 1)]; behind the cells of each row stands its last token.
    """
    count, size = ends.shape
    width = 2**BITS // cells
    rows = np.arange(count)[:, None] * (cells + 1)
    ended = np.bincount((rows - (-ends // width)).ravel(), minlength=count * (cells + 1))
    first: npt.NDArray[np.int32] = (
        np.minimum(ended.reshape(count, -1).cumsum(axis=1), size - 1).astype(np.int32).ravel()
    )
    shared = (rows + ends // width)[ends % width > 0]
    first[shared] = np.where(first[shared] < 0, first[shared], ~first[shared])
    return first

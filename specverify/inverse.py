"""Tokens are drawn from fixed rows by one look-up in a table of the first bits of a random word, exactly.

Each row is cut into whole numbers of 2**62 parts, a token owns as many as its probability says, in the order of ids,
and a random word picks a part: the law that is drawn from is known as integers. A guide table (Chen and Asau, 1974)
holds the token of every cell of equal parts that one token owns alone; the few other cells are searched.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from specverify.arrays import FloatArray, IntArray

__all__ = ["Inverse", "draw_once", "parts"]

BITS = 62  # of a word that count: running sums of parts are then int64, and 2**-62 is far below what a sample can see
CELLS = 2**18  # of the guides of all rows together, which then stay in the cache; rows of more tokens get more
CELLS_PER_TOKEN = 64
LEAST = 2**8  # cells of a row

_Tokens: TypeAlias = npt.NDArray[np.int16] | npt.NDArray[np.int32]
_Heads: TypeAlias = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


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
    picked = rng.integers(0, 2**BITS, size=len(rows))
    return np.asarray((parts(rows).cumsum(axis=1) <= picked[:, None]).sum(axis=1))


class Inverse:
    """Inverse distribution functions of rows that are drawn from many times.

    Most draws take the first 16 or 32 bits of a word and one look-up.

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
        per_row = max(min(CELLS_PER_TOKEN * self._size, CELLS // count), self._size, LEAST)
        self._bits = (per_row - 1).bit_length()
        self._head = 16 if self._bits <= 16 else 32
        self._guide = _guide(ends, 2**self._bits)
        self._ends = ends.ravel()

    def draw(self, index: IntArray, rng: np.random.Generator) -> _Tokens:
        """Draw a token from the row of each number ``index`` int64 [n]: integers [n]."""
        heads = _heads(len(index), self._head, rng)
        cells = heads >> heads.dtype.type(self._head - self._bits)
        if len(self._ends) > self._size:
            cells = cells + index * (2**self._bits + 1)
        tokens = self._guide.take(cells, mode="clip")
        if tokens.min(initial=0) < 0:
            shared = np.flatnonzero(tokens < 0)
            part = self._part(heads[shared], _tails(shared, rng))
            first, following = ~tokens[shared].astype(np.int64), self._guide.take(cells[shared] + np.int64(1))
            tokens[shared] = self._search(index[shared], first, np.maximum(following, ~following), part)
        return tokens

    def _part(self, heads: _Heads, tails: npt.NDArray[np.uint64]) -> IntArray:
        """Give the part that each word picks, its first bits and those behind them being drawn apart."""
        words = heads.astype(np.uint64) << np.uint64(64 - self._head) | tails >> np.uint64(self._head)
        return (words >> np.uint64(64 - BITS)).view(np.int64)

    def _search(self, index: IntArray, first: IntArray, last: _Tokens, part: IntArray) -> IntArray:
        """Give the token of each row, from one to another, that owns a part, by bisection."""
        start = index * self._size
        for _ in range(int((last - first).max()).bit_length()):
            middle = (first + last) >> 1
            beyond = self._ends.take(start + middle) > part
            first, last = np.where(beyond, first, middle + 1), np.where(beyond, middle, last)
        return first


def _heads(count: int, bits: int, rng: np.random.Generator) -> _Heads:
    """Draw the first 16 or 32 bits of so many words, four or two from each word drawn."""
    words = rng.integers(0, 2**64, size=-(-count * bits // 64), dtype=np.uint64)
    return words.view(np.uint16)[:count] if bits == 16 else words.view(np.uint32)[:count]


def _tails(rows: IntArray, rng: np.random.Generator) -> npt.NDArray[np.uint64]:
    """Draw what follows the first bits of the words of some rows, as the first bits of words of their own."""
    return rng.integers(0, 2**64, size=len(rows), dtype=np.uint64)


def _guide(ends: IntArray, cells: int) -> _Tokens:
    """Give the token that owns the first part of each cell, t as ~t where it does not own them all.

    Args:
        ends: int64 [R, V], running sums of parts.
        cells: Number C of cells of each row, a power of 2.

    Returns:
        int16 or int32 [R * (C + 1)]; behind the cells of each row stands its last token.
    """
    count, size = ends.shape
    width = 2**BITS // cells
    rows = np.arange(count)[:, None] * (cells + 1)
    ended = np.bincount((rows - (-ends // width)).ravel(), minlength=count * (cells + 1))
    dtype = np.int16 if size <= 2**15 else np.int32
    first: _Tokens = np.minimum(ended.reshape(count, -1).cumsum(axis=1), size - 1).astype(dtype).ravel()
    shared = (rows + ends // width)[ends % width > 0]
    first[shared] = np.where(first[shared] < 0, first[shared], ~first[shared])
    return first

"""One token per row by inverse CDF over exact integers: no chunk size, thread count or order of sums can change it.

Weights are truncated to int64 multiples of 2^-62 and a uniform u picks the first token whose cumulated weight exceeds
floor(u * total). Integer addition is associative, and a token of weight zero is never drawn. The law is off by at most
V * (2^-62 + 2^-64) of total variation before normalisation. In wide rows float sums find that token, and integers are
made only where the rounding of those sums could change it.
"""

import math
import threading
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .refusals import unfit

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Doubles: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

__all__ = [
    "LIMIT",
    "NONE",
    "SAFE",
    "UNIT",
    "Doubles",
    "Floats",
    "Ints",
    "Weights",
    "block_size",
    "draw",
    "masses",
    "rounding",
]

UNIT = 2.0**62
LIMIT = 2 - 2.0**-20  # of a row's mass; below 2, so that no rounded sum hides an int64 overflow
SAFE = 1.5  # of a row's mass; what a float sum puts below it is below LIMIT in any order of summation
NONE: Final = -1  # instead of a token, where a row has no mass
BATCHED_VOCAB = 8192  # up to here one cumulated sum over many rows at once is faster than two levels row by row
_PIECE = 2**15  # tokens worked on at a time, so that the workspace stays in cache; a multiple of every block


class Weights(NamedTuple):
    """N rows of weights (scale * p - q)+, or p itself without a draft, that are made piece by piece.

    Row k reads ``target_probs[rows[k], positions[k]]``, likewise the draft; a scale that is left out is 1.
    """

    target_probs: Floats
    draft_probs: Floats | None
    rows: Ints
    positions: Ints
    scale: Doubles | None

    @property
    def vocab(self) -> int:
        """Number V of tokens."""
        return int(self.target_probs.shape[-1])

    @property
    def rough(self) -> np.dtype[Any]:
        """The type that float sums are made from; a scale is a float64, and so is what it scales."""
        least = np.dtype(np.float32 if self.scale is None else np.float64)
        given = self.target_probs if self.draft_probs is None else self.draft_probs
        return np.promote_types(np.promote_types(least, self.target_probs.dtype), given.dtype)

    def real(self, part: slice | int, tokens: slice, dtype: Any = np.float64) -> Floats:
        """Give the weights of some rows and tokens, worked out in a type: in scratch memory, or p itself."""
        where = self.rows[part], self.positions[part], tokens
        p = self.target_probs[where]
        if self.draft_probs is None:
            return p.astype(dtype, copy=False)
        scratch, zeros, _ = _scratch.of(p.size)
        out: Floats = np.ndarray(p.shape, dtype, scratch)
        if self.scale is None:
            np.subtract(p, self.draft_probs[where], out=out, dtype=dtype)
        else:
            np.multiply(p, self.scale[part, ..., None], out=out, dtype=dtype)
            np.subtract(out, self.draft_probs[where], out=out)
        np.maximum(out, np.ndarray(p.shape, dtype, zeros), out=out)
        return out

    def whole(self, part: slice | int, tokens: slice) -> tuple[Ints, Any]:
        """Give weights times 2^62, truncated, in scratch memory, and their masses, NaN where a weight is negative."""
        real = self.real(part, tokens)
        mass = real.sum(axis=-1)
        if self.draft_probs is None and not real.min() >= 0:  # a residual is never negative
            mass = np.where(real.min(axis=-1) >= 0, mass, np.nan)
        scratch, _, integers = _scratch.of(real.size)
        scaled, whole = np.ndarray(real.shape, np.float64, scratch), np.ndarray(real.shape, np.int64, integers)
        np.multiply(real, UNIT, out=scaled)
        np.copyto(whole, scaled, casting="unsafe")
        return whole, mass

    def batches(self) -> Iterator[tuple[slice, Ints]]:
        """Yield consecutive rows and their integers, some rows at a time."""
        step = max(1, _PIECE // self.vocab)
        for start in range(0, len(self.rows), step):
            part = slice(start, start + step)
            whole, mass = self.whole(part, slice(None))
            self.refuse(part, mass)
            yield part, whole

    def pieces(self) -> list[slice]:
        """Cut the tokens of a row."""
        return [slice(start, start + _PIECE) for start in range(0, self.vocab, _PIECE)]

    def sums(self, row: int) -> list[int]:
        """Return the integer sum of each piece of a row."""
        sums, total = [], 0.0
        for piece in self.pieces():
            whole, mass = self.whole(row, piece)
            sums.append(int(whole.sum()))
            total += float(mass)
        self.refuse(row, total)
        return sums

    def refuse(self, part: slice | int, mass: npt.ArrayLike) -> None:
        """Raise a ValueError unless each row's weights have a mass that sums of int64 can hold."""
        bad = np.atleast_1d(~(np.asarray(mass) < LIMIT))
        if bad.any():
            raise unfit(int(np.atleast_1d(self.rows[part])[bad][0]))


class _Scratch(threading.local):
    """Memory to work in, kept for each thread: for a single row, getting it anew takes longer than the work."""

    def __init__(self) -> None:
        self._arrays = np.empty(0), np.zeros(0), np.empty(0, np.int64)

    def of(self, size: int) -> tuple[Doubles, Doubles, Ints]:
        """Give reals, zeros and integers, at least so many of each.

        Nobody writes to the zeros: NumPy finds the larger of two arrays twice as fast as of an array and 0.
        """
        if len(self._arrays[0]) < size:
            self._arrays = np.empty(size), np.zeros(size), np.empty(size, np.int64)
        return self._arrays


_scratch = _Scratch()
_ZERO = np.zeros(1)


def block_size(vocab: int) -> int:
    """Return how many tokens a block has: a power of two near the root of their number, at most 256."""
    return min(256, 1 << round(math.log2(vocab) / 2))


def draw(weights: Weights, bits: npt.NDArray[np.uint64]) -> Ints:
    """Draw a token per row from 64 uniform bits each; it is NONE where all weights are 0."""
    if weights.vocab <= BATCHED_VOCAB:
        return _draw_batched(weights, bits)
    rough = weights.rough
    with np.errstate(invalid="ignore", over="ignore"):
        return np.array([_draw_row(weights, row, word, rough) for row, word in enumerate(bits.tolist())], np.int64)


def masses(weights: Weights) -> Doubles:
    """Return the mass of every row, as a float64 of its exact integer total."""
    with np.errstate(invalid="ignore", over="ignore"):
        if weights.vocab <= BATCHED_VOCAB:
            totals = [total for _, whole in weights.batches() for total in whole.sum(axis=1).tolist()]
        else:
            totals = [sum(weights.sums(row)) for row in range(len(weights.rows))]
    return np.array(totals, np.int64) / UNIT


def _draw_batched(weights: Weights, bits: npt.NDArray[np.uint64]) -> Ints:
    tokens = np.empty(len(bits), np.int64)
    with np.errstate(invalid="ignore", over="ignore"):
        for part, whole in weights.batches():
            cumulated = np.cumsum(whole, axis=1, out=whole)
            passed = cumulated > _high_word(bits[part], cumulated[:, -1])[:, None]
            tokens[part] = np.where(cumulated[:, -1] > 0, passed.argmax(axis=1), NONE)
    return tokens


def _draw_row(weights: Weights, row: int, word: int, rough: np.dtype[Any]) -> int:
    token = _by_floats(weights, row, word, rough)
    return _by_integers(weights, row, word) if token is None else token


def _by_integers(weights: Weights, row: int, word: int) -> int:
    """Find the piece of a row in which the cumulated weight passes the drawn one, then the token in it."""
    sums = weights.sums(row)
    rest = word * sum(sums) >> 64
    for piece, total in zip(weights.pieces(), sums, strict=True):
        if rest < total:
            whole, _ = weights.whole(row, piece)
            return int(piece.start) + int(whole.cumsum().searchsorted(rest, side="right"))
        rest -= total
    return NONE


def _by_floats(weights: Weights, row: int, word: int, rough: np.dtype[Any]) -> int | None:
    """Find the token that the integers give by sums over blocks; None where rounding, or a bad row, could change it."""
    vocab, sums = weights.vocab, [_ZERO]
    block = block_size(vocab)
    for piece in weights.pieces():
        real = weights.real(row, piece, rough)
        if weights.draft_probs is None and not real.min() >= 0:
            return None
        sums.append(np.add.reduceat(real, np.arange(0, len(real), block), dtype=np.float64))
    cumulated = np.concatenate(sums).cumsum()
    total = float(cumulated[-1])
    if not total < SAFE:
        return None
    drawn, off = word * 2.0**-64 * total, rounding(vocab, total, float(np.finfo(rough).eps))
    b = int(cumulated[1:-1].searchsorted(drawn, side="right"))
    inside = weights.real(row, slice(b * block, (b + 1) * block), rough)
    edges = np.concatenate((cumulated[b : b + 1], inside)).cumsum()
    k = int(edges.searchsorted(drawn - off, side="right"))
    return b * block + k - 1 if 0 < k < len(edges) and drawn + off < edges[k] else None


def rounding(vocab: int, total: float, epsilon: float) -> float:
    """Bound the error of a row's cumulated weight and of the drawn one together, both as sums of floats.

    Each is off by half an epsilon of every weight, by 2^-53 of the total for each float64 addition, of which there are
    fewer than V in any order, and by the truncation of V weights to multiples of 2^-62.
    """
    return total * (epsilon + (vocab + 64) * 2.0**-52) + vocab * 2.0**-60


def _high_word(bits: npt.NDArray[np.uint64], totals: Ints) -> Ints:
    """Return floor(bits * totals / 2^64), which is at least 0 and below the total."""
    t = totals.astype(np.uint64)
    low, half = np.uint64(2**32 - 1), np.uint64(32)
    uh, ul, th, tl = bits >> half, bits & low, t >> half, t & low
    middle = (ul * tl >> half) + (uh * tl & low) + (ul * th & low)
    high: npt.NDArray[np.uint64] = uh * th + (uh * tl >> half) + (ul * th >> half) + (middle >> half)
    return high.astype(np.int64)

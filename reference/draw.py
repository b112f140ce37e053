"""One token per row by inverse CDF over exact integers: no chunk size, thread count or order of sums can change it.

Weights are truncated to int64 multiples of 2^-62 and a uniform u picks the first token whose cumulated weight exceeds
floor(u * total). Integer addition is associative, and a token of weight zero is never drawn. The law is off by at most
V * (2^-62 + 2^-64) of total variation before normalisation.
"""

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .refusals import unfit

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Doubles: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

__all__ = ["LIMIT", "UNIT", "Doubles", "Floats", "Ints", "Weights", "block_size", "draw", "masses"]

UNIT = 2.0**62
LIMIT = 2 - 2.0**-20  # of a row's mass; below 2, so that no rounded sum hides an int64 overflow
BATCHED_VOCAB = 8192  # up to here one cumulated sum over many rows at once is faster than two levels row by row
_PIECE = 2**15  # tokens worked on at a time, so that the workspace stays in cache; a multiple of every block


@dataclass(frozen=True)
class Weights:
    """N rows of weights (scale * p - q)+, or p itself without a draft, that are made piece by piece in float64.

    Row k reads ``target_probs[rows[k], positions[k]]``, likewise the draft; a scale that is left out is 1.
    """

    target_probs: Floats
    draft_probs: Floats | None
    rows: Ints
    positions: Ints
    scale: Doubles | None

    def fill(self, part: slice | int, tokens: slice, real: Doubles, zeros: Doubles) -> Doubles:
        """Write the weights of some rows and tokens over the head of ``real``, and return that head.

        The zeros are an array of as many: NumPy finds the larger of two arrays twice as fast as of an array and 0.
        """
        where = self.rows[part], self.positions[part], tokens
        p = self.target_probs[where]
        real = real[: p.size].reshape(p.shape)
        if self.draft_probs is None:
            np.copyto(real, p)
            return real
        if self.scale is None:
            np.subtract(p, self.draft_probs[where], out=real, dtype=np.float64)
        else:
            np.multiply(p, self.scale[part, ..., None], out=real, dtype=np.float64)
            np.subtract(real, self.draft_probs[where], out=real)
        return np.maximum(real, zeros[: p.size].reshape(p.shape), out=real)

    def at(self, tokens: Ints) -> Ints:
        """Give the weights of every row at tokens int64 [N, k] of its own, times 2^62, truncated; 0 beyond the last."""
        vocab = self.target_probs.shape[-1]
        where = self.rows[:, None], self.positions[:, None], np.minimum(tokens, vocab - 1)
        real = self.target_probs[where].astype(np.float64)
        if self.draft_probs is not None:
            real = np.maximum(real * (1.0 if self.scale is None else self.scale[:, None]) - self.draft_probs[where], 0)
        whole: Ints = np.where(tokens < vocab, real * UNIT, 0).astype(np.int64)
        return whole

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
        """Give reals, zeros and integers, at least so many of each; nobody writes to the zeros."""
        if len(self._arrays[0]) < size:
            self._arrays = np.empty(size), np.zeros(size), np.empty(size, np.int64)
        return self._arrays


_scratch = _Scratch()


class _Integers:
    """The weights times 2^62, truncated, in scratch memory that every piece reuses."""

    def __init__(self, weights: Weights) -> None:
        vocab = weights.target_probs.shape[-1]
        self.weights = weights
        self.vocab = vocab
        self.step = max(1, _PIECE // vocab)  # rows of one batched piece
        size = min(vocab, _PIECE) if vocab > BATCHED_VOCAB else min(self.step, len(weights.rows)) * vocab
        self._real, self._zeros, self._whole = _scratch.of(size)

    def piece(self, part: slice | int, tokens: slice) -> tuple[Ints, Doubles]:
        """Return integers and float masses of some rows and tokens; the mass is NaN where a weight is negative."""
        with np.errstate(invalid="ignore", over="ignore"):
            real = self.weights.fill(part, tokens, self._real, self._zeros)
            mass = real.sum(axis=-1)
            if self.weights.draft_probs is None and not real.min() >= 0:  # a residual is never negative
                mass = np.where(real.min(axis=-1) >= 0, mass, np.nan)
            np.multiply(real, UNIT, out=real)
            whole = self._whole[: real.size].reshape(real.shape)
            np.copyto(whole, real, casting="unsafe")
        return whole, mass

    def batches(self) -> Iterator[tuple[slice, Ints]]:
        """Yield consecutive rows and their integers, some rows at a time."""
        for start in range(0, len(self.weights.rows), self.step):
            part = slice(start, start + self.step)
            whole, mass = self.piece(part, slice(None))
            self.weights.refuse(part, mass)
            yield part, whole

    def block_sums(self, row: int, block: int) -> Ints:
        """Return the sums of one row over blocks of tokens."""
        sums, total = [], 0.0
        for start in range(0, self.vocab, _PIECE):
            whole, mass = self.piece(row, slice(start, start + _PIECE))
            sums.append(np.add.reduceat(whole, np.arange(0, len(whole), block)))
            total += float(mass)
        self.weights.refuse(row, total)
        return np.concatenate(sums)


def block_size(vocab: int) -> int:
    """Return how many tokens a block has: a power of two near the root of their number, at most 256."""
    return min(256, 1 << round(math.log2(vocab) / 2))


def draw(weights: Weights, bits: npt.NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Draw a token per row from 64 uniform bits each; returns tokens and totals in units of 2^-62 (0: no token)."""
    if weights.target_probs.shape[-1] <= BATCHED_VOCAB:
        return _draw_batched(weights, bits)
    return _draw_two_level(weights, bits)


def masses(weights: Weights) -> Doubles:
    """Return the mass of every row, as a float64 of its exact integer total."""
    integers = _Integers(weights)
    if integers.vocab <= BATCHED_VOCAB:
        parts = [whole.sum(axis=1) for _, whole in integers.batches()]
        totals = np.concatenate(parts) if parts else np.empty(0, np.int64)
    else:
        totals = np.array([integers.block_sums(row, _PIECE).sum() for row in range(len(weights.rows))], np.int64)
    return totals / UNIT


def _draw_batched(weights: Weights, bits: npt.NDArray[np.uint64]) -> tuple[Ints, Ints]:
    tokens, totals = np.empty((2, len(bits)), np.int64)
    for part, whole in _Integers(weights).batches():
        cumulated = np.cumsum(whole, axis=1, out=whole)
        totals[part] = cumulated[:, -1]
        tokens[part] = (cumulated > _high_word(bits[part], totals[part])[:, None]).argmax(axis=1)
    return tokens, totals


def _draw_two_level(weights: Weights, bits: npt.NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Find the block in which the cumulated weight passes the drawn one, then the token in a rescan of that block."""
    if not len(bits):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    integers, rows = _Integers(weights), np.arange(len(bits))
    block = block_size(integers.vocab)
    sums = np.stack([integers.block_sums(row, block) for row in range(len(bits))])
    cumulated = np.cumsum(sums, axis=1)
    totals = cumulated[:, -1]
    drawn = _high_word(bits, totals)
    first = np.minimum((cumulated <= drawn[:, None]).sum(axis=1), sums.shape[1] - 1)
    rest = drawn - cumulated[rows, first] + sums[rows, first]
    within = np.cumsum(weights.at(first[:, None] * block + np.arange(block)), axis=1)
    tokens = first * block + (within <= rest[:, None]).sum(axis=1)
    return np.where(totals > 0, tokens, 0), totals


def _high_word(bits: npt.NDArray[np.uint64], totals: Ints) -> Ints:
    """Return floor(bits * totals / 2^64), which is at least 0 and below the total."""
    t = totals.astype(np.uint64)
    low, half = np.uint64(2**32 - 1), np.uint64(32)
    uh, ul, th, tl = bits >> half, bits & low, t >> half, t & low
    middle = (ul * tl >> half) + (uh * tl & low) + (ul * th & low)
    high: npt.NDArray[np.uint64] = uh * th + (uh * tl >> half) + (ul * th >> half) + (middle >> half)
    return high.astype(np.int64)

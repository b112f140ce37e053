"""A run of tokens worth 96 random bits never comes twice by chance, so one repeat proves shared randomness.

Runs at all places of all sequences are compared at once, by sorted hashes; what the hashes claim is then read off the
tokens themselves. Each of two runs, also of two that overlap, settles the other by equations without a cycle, so a
repeat has probability fair**-length exactly, and so has a mirror image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specverify.arrays import IntArray

__all__ = ["Repeat", "chance_of_repeat", "first_repeat", "run_length"]

BITS = 96
MOST_READ = 4096  # claims of the hashes that are read off the tokens; one that holds is enough

_Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Repeat:
    """Two runs of tokens that are the same, or mirror each other.

    Attributes:
        sequences: The sequence of the first run and that of the second.
        places: Where each starts.
        length: How many tokens long they are.
        mirrored: Whether each token of the second is fair - 1 minus that of the first.
    """

    sequences: tuple[int, int]
    places: tuple[int, int]
    length: int
    mirrored: bool

    @property
    def aligned(self) -> bool:
        """Whether two sequences repeat each other place by place."""
        return self.places[0] == self.places[1]


def run_length(fair: int) -> int:
    """Give how many tokens are worth 96 random bits.

    Example:
        >>> run_length(2), run_length(16), run_length(256)
        (96, 24, 12)
    """
    return math.ceil(BITS / math.log2(fair))


def chance_of_repeat(sequences: int, places: int, fair: int) -> float:
    """Give the chance that any two runs of independent fair tokens repeat or mirror each other, at most.

    Example:
        >>> chance_of_repeat(1, 97, 2) == 2**2 * 2.0**-96
        True
    """
    length = run_length(fair)
    return min(1.0, (sequences * max(0, places - length + 1)) ** 2 * float(fair) ** -length)


def first_repeat(tokens: IntArray, fair: int) -> Repeat | None:
    """Find a run that repeats or mirrors another; one that does so place by place where there is one.

    Args:
        tokens: int64 [sequences, places], each at least 0.
        fair: Number of equally likely tokens, 0 to fair - 1.

    Returns:
        The repeat, as long as it is; None where nothing repeats or the sequences are shorter than a run.

    Example:
        >>> row = np.arange(40) * 37 % 256
        >>> first_repeat(np.stack([row, row[::-1], row]), 256)
        Repeat(sequences=(0, 2), places=(0, 0), length=40, mirrored=False)
    """
    length = run_length(fair)
    if tokens.shape[1] < length:
        return None
    mirror = np.where(tokens < fair, fair - 1 - tokens, tokens + fair)  # what must not come has no mirror image
    both = np.concatenate([tokens, mirror])
    for first, second in _claims(_hashes(both, length), len(tokens)):
        found = _read(tokens, both, first, second)
        if found.length >= length:
            return found
    return None


def _read(tokens: IntArray, both: IntArray, first: tuple[int, int], second: tuple[int, int]) -> Repeat:
    """Read off the tokens how far the second run, perhaps mirrored, repeats the first."""
    a, b = tokens[first[0], first[1] :], both[second[0], second[1] :]
    shared = min(len(a), len(b))
    differ = np.flatnonzero(a[:shared] != b[:shared])
    mirrored, sequence = divmod(second[0], len(tokens))
    length = int(differ[0]) if len(differ) else shared
    return Repeat((first[0], sequence), (first[1], second[1]), length, bool(mirrored))


def _claims(hashes: _Hashes, real: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """List pairs of places (sequence, place) with equal hashes, the first among the real sequences."""
    flat = hashes.ravel()
    in_order = np.sort(flat)
    if not (in_order[1:] == in_order[:-1]).any():
        return []
    order = np.argsort(flat, kind="stable")
    same = np.flatnonzero(flat[order[1:]] == flat[order[:-1]])
    first, second = order[same], order[same + 1]
    width = hashes.shape[1]
    kept = first < real * width  # of two mirror images, one pair
    first, second = first[kept], second[kept]
    best = np.lexsort((first, second >= real * width, first % width != second % width))[:MOST_READ]
    pairs = zip(first[best].tolist(), second[best].tolist(), strict=True)
    return [(divmod(one, width), divmod(other, width)) for one, other in pairs]


def _hashes(tokens: IntArray, length: int) -> _Hashes:
    """Hash every run of a length: uint64 [sequences, places - length + 1], by runs of 1, 2, 4, ... joined in pairs."""
    table = np.random.default_rng(length).integers(0, 2**64, int(tokens.max()) + 1, dtype=np.uint64)
    level, factor, done, hashes = table[tokens], 0x9E3779B97F4A7C15, 0, None
    for bit in range(length.bit_length()):
        if length >> bit & 1:
            ahead = level[:, done:]
            hashes = ahead if hashes is None else hashes[:, : ahead.shape[1]] * np.uint64(factor) + ahead
            done += 1 << bit
        level = level[:, : -(1 << bit)] * np.uint64(factor) + level[:, 1 << bit :]
        factor = factor * factor % 2**64
    assert hashes is not None
    return hashes[:, : tokens.shape[1] - length + 1]

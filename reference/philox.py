"""One stream of random words for all back ends: a word depends on seed, trial, position and purpose alone.

Philox4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). The key is the seed,
the counter is (trial, low and high word; position; purpose). Of the four words of a position, two make the uniform of
its acceptance test and two the bits that draw the emitted token, if that position is the emitting one.
"""

import sys
from array import array
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from .refusals import seed_outside

__all__ = ["VERIFICATION", "Words", "philox4x32", "philox_draws"]

Words: TypeAlias = npt.NDArray[np.uint64]
"""Words of 32 bits, each in the low half of a uint64, where products of two words fit."""

VERIFICATION: Final = 0
"""Purpose of the words that a verification reads."""

ROUNDS: Final = 10
MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
WEYL: Final = (0x9E3779B9, 0xBB67AE85)
LOW: Final = 2**32 - 1

_HALF, _LOW = np.uint64(32), np.uint64(LOW)
_STEPS = np.arange(ROUNDS, dtype=np.uint64)[:, None] * np.array(WEYL, np.uint64)
_CHUNK = 2**14  # counters at a time, so that what is worked on stays in cache
_FEW = 100  # counters up to which Python's integers are faster than arrays


def philox4x32(counter: tuple[Words, Words, Words, Words], seed: int) -> tuple[Words, Words, Words, Words]:
    """Give the four words of each counter.

    Args:
        counter: four arrays of words of one shape, or of shapes that broadcast.
        seed: the key, in [0, 2**64).

    Returns:
        Four arrays of words, of that shape.

    Raises:
        ValueError: the seed is out of range.

    Example:
        >>> zero = np.zeros(1, np.uint64)
        >>> [f"{int(word[0]):08x}" for word in philox4x32((zero, zero, zero, zero), 0)]
        ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    shape = np.broadcast_shapes(*(words.shape for words in counter))
    even, odd = np.empty((2, 2, *shape), np.uint64)
    even[0], odd[0], even[1], odd[1] = counter
    _rounds(even, odd, key_words(seed))
    return even[0], odd[0], even[1], odd[1]


def _rounds(even: Words, odd: Words, key: tuple[int, int]) -> None:
    """Turn the counters into their words: (c0, c2) and (c1, c3) are worked on in pairs, [2, ...], and in place."""
    pair = (2,) + (1,) * (even.ndim - 1)
    multipliers = np.array(MULTIPLIERS, np.uint64).reshape(pair)
    keys = np.array(key, np.uint64) + _STEPS & _LOW
    product = np.empty_like(even)
    crossed = product[::-1]
    for k in keys.reshape(ROUNDS, *pair):
        np.multiply(even, multipliers, out=product)
        np.right_shift(crossed, _HALF, out=even)
        np.bitwise_xor(even, odd, out=even)
        np.bitwise_xor(even, k, out=even)
        np.bitwise_and(crossed, _LOW, out=odd)


def philox_draws(
    seed: int, size: int, num_draft_tokens: int, first_trial: int = 0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint64]]:
    """Draw what the verification of a batch reads; row k is trial ``first_trial + k``, whatever the batch is.

    Args:
        seed: in [0, 2**64).
        size: number B of rows.
        num_draft_tokens: number G of drafted tokens.
        first_trial: trial of row 0, at least 0; trials stay below 2**64.

    Returns:
        float64 [B, G], uniforms in [0, 1) on the grid of 2**-53, one for each acceptance test; and uint64 [B, G + 1],
        64 bits for each position that the emitted token may stand at.

    Raises:
        ValueError: the seed or a trial is out of range.

    Example:
        >>> accept, bits = philox_draws(7, 3, 2)
        >>> later = philox_draws(7, 1, 2, first_trial=2)
        >>> bool((accept[2] == later[0]).all()), bool((bits[2] == later[1]).all())
        (True, True)
    """
    demand_trials(first_trial, size)
    key, positions = key_words(seed), num_draft_tokens + 1
    if size * positions <= _FEW:
        accept, bits = _draws_of_few(key, range(first_trial, first_trial + size), positions)
    else:
        accept, bits = np.empty((2, size, positions), np.uint64)
        step = max(1, _CHUNK // positions)
        for start in range(0, size, step):
            trials = range(first_trial + start, first_trial + min(start + step, size))
            accept[start : start + step], bits[start : start + step] = _draws(key, trials, positions)
    return accept[:, :num_draft_tokens] * np.float64(2.0**-53), bits


def _draws(key: tuple[int, int], trials: range, positions: int) -> tuple[Words, Words]:
    """Give the 53 bits of each acceptance test and the 64 bits of each draw."""
    numbers = np.arange(len(trials), dtype=np.uint64)[:, None] + np.uint64(trials.start)
    even, odd = np.empty((2, 2, len(trials), positions), np.uint64)
    even[0], odd[0], even[1], odd[1] = numbers & _LOW, numbers >> _HALF, np.arange(positions), VERIFICATION
    _rounds(even, odd, key)
    return _joined(even[0], odd[0], even[1], odd[1], 1)


def _draws_of_few(key: tuple[int, int], trials: range, positions: int) -> tuple[Words, Words]:
    """Give the same from integers of Python that hold a word in every 64 bits: one step serves all counters."""
    counters = [(trial & LOW, trial >> 32, position, VERIFICATION) for trial in trials for position in range(positions)]
    words = zip(*counters, strict=True) if counters else [()] * 4
    c0, c1, c2, c3 = (int.from_bytes(array("Q", kind), sys.byteorder) for kind in words)
    ones = (1 << 64 * len(counters)) // (2**64 - 1)
    low, (k0, k1) = LOW * ones, key
    for _ in range(ROUNDS):
        a, b = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (b >> 32 & low) ^ c1 ^ k0 * ones, b & low, (a >> 32 & low) ^ c3 ^ k1 * ones, a & low
        k0, k1 = k0 + WEYL[0] & LOW, k1 + WEYL[1] & LOW
    found = (packed.to_bytes(8 * len(counters), sys.byteorder) for packed in _joined(c0, c1, c2, c3, ones))
    accept, bits = (np.frombuffer(kind, np.uint64).reshape(-1, positions) for kind in found)
    return accept, bits


def _joined(c0: Any, c1: Any, c2: Any, c3: Any, ones: int) -> tuple[Any, Any]:
    """Join the four words: the upper 27 and 26 bits of two, and all of the others; no bit leaves its 64."""
    return (c0 & (LOW - 31) * ones) << 21 | (c1 & (LOW - 63) * ones) >> 6, c2 << 32 | c3


def demand_trials(first_trial: int, size: int) -> None:
    """Raise a ValueError unless the trials of all rows are numbers of 64 bits."""
    if not 0 <= first_trial <= 2**64 - max(size, 1):
        raise seed_outside("the trials", first_trial)


def key_words(seed: int) -> tuple[int, int]:
    """Give the low and the high word of a seed, or raise a ValueError unless it has 64 bits."""
    if not 0 <= seed < 2**64:
        raise seed_outside("seed", seed)
    return seed & LOW, seed >> 32

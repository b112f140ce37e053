"""Token verification of whole batches compiled by numba, at the speed of memory: bit for bit what NumPy gives.

Each row reads the laws that its token is drawn from once, as float sums over blocks, and one block of them again; where
the rounding of those sums could change the token, integers are made of the row. Nothing is copied. Needs numba
(the extra ``fast``); compiling takes a second or two for each type of array, at the first call.
"""

from typing import Any, Final

import numpy as np
from numba import float64, int64, njit, uint64

from .draw import LIMIT, UNIT, Floats, Ints, block_size, rounding
from .philox import LOW, MULTIPLIERS, ROUNDS, VERIFICATION, WEYL, demand_trials, key_words
from .refusals import EMPTY, FINE, LENGTH, TOKEN, UNFIT, demand_shapes, demand_verified

__all__ = ["verify_token_fast"]

_M0, _M1, _W0, _W1 = (np.uint64(number) for number in (*MULTIPLIERS, *WEYL))
_MASK, _HALF, _PURPOSE = np.uint64(LOW), np.uint64(32), np.uint64(VERIFICATION)
_ROUNDS: Final = ROUNDS
_REDUCED: Final = {"reassoc", "nsz"}  # float sums in any order: no token depends on it

_compiled: Any = njit(error_model="numpy", nogil=True)
_reducing: Any = njit(error_model="numpy", nogil=True, fastmath=_REDUCED)
_rounding: Any = _compiled(rounding)


def verify_token_fast(
    draft_tokens: Ints,
    draft_probs: Floats,
    target_probs: Floats,
    seed: int,
    first_trial: int = 0,
    num_draft_tokens: Ints | None = None,
) -> tuple[Ints, Ints]:
    """Verify every row by the token rule, with the tokens that ``verify_token_seeded`` gives for the same seed.

    Args:
        draft_tokens: int64 [B, G], in [0, V); whatever lies beyond a row's own length is not read.
        draft_probs: float64 or float32 [B, G, V]; may be a view of one row for all. float16 is copied to float32.
        target_probs: the same of shape [B, G + 1, V]; row ``num_draft_tokens`` is the bonus row.
        seed: in [0, 2**64).
        first_trial: trial of row 0; row k is trial ``first_trial + k``, whatever the batch is.
        num_draft_tokens: int64 [B] in 0 .. G, a row's own draft length; G everywhere if left out.

    Returns:
        num_accepted int64 [B] and next_token int64 [B].

    Raises:
        ValueError: as ``verify_token_seeded`` does.

    >>> p, q = np.array([[[0.6, 0.4], [0.6, 0.4]]] * 3), np.array([[[0.8, 0.2]]] * 3)
    >>> verify_token_fast(np.array([[0], [0], [1]]), q, p, seed=5)
    (array([0, 1, 1]), array([1, 1, 0]))
    """
    size, gamma = draft_tokens.shape
    lengths = np.full(size, gamma) if num_draft_tokens is None else np.asarray(num_draft_tokens, np.int64)
    vocab = demand_shapes(draft_tokens, draft_probs, target_probs, draft_tokens, lengths, lengths)[2]
    demand_trials(first_trial, size)
    low, high = key_words(seed)
    found = np.empty((2, size), np.int64)
    sums = np.empty(-(-vocab // block_size(vocab)))
    draft, target = _one_row_for_all(draft_probs), _one_row_for_all(target_probs)
    tokens = np.ascontiguousarray(draft_tokens.astype(np.int64, casting="same_kind", copy=False))
    words = np.uint64(low), np.uint64(high), np.uint64(first_trial)
    fault, row = _verify(tokens, draft, target, lengths, words, block_size(vocab), sums, found)
    demand_verified(fault, row, gamma, vocab)
    return found[0], found[1]


def _one_row_for_all(probs: Floats) -> Floats:
    """Give contiguous probabilities, one row of them where all rows are one in memory."""
    rows = probs[:1] if probs.strides[0] == 0 else probs
    taken = np.float32 if probs.dtype in (np.float16, np.float32) else np.float64
    return np.ascontiguousarray(rows, taken)


@_compiled
def _philox(trial: Any, position: Any, low: Any, high: Any) -> Any:
    """Give the uniform of an acceptance test and the 64 bits of a draw."""
    c0, c1, c2, c3 = trial & _MASK, trial >> _HALF, uint64(position), _PURPOSE
    k0, k1 = low, high
    for _ in range(_ROUNDS):
        a, b = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = (b >> _HALF) ^ c1 ^ k0, b & _MASK, (a >> _HALF) ^ c3 ^ k1, a & _MASK
        k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
    uniform = (float64(c0 >> uint64(5)) * 2.0**26 + float64(c1 >> uint64(6))) * 2.0**-53
    return uniform, (c2 << _HALF) | c3


@_compiled
def _high_word(bits: Any, total: Any) -> Any:
    """Give floor(bits * total / 2^64)."""
    t = uint64(total)
    uh, ul, th, tl = bits >> _HALF, bits & _MASK, t >> _HALF, t & _MASK
    middle = ((ul * tl) >> _HALF) + ((uh * tl) & _MASK) + ((ul * th) & _MASK)
    return int64(uh * th + ((uh * tl) >> _HALF) + ((ul * th) >> _HALF) + (middle >> _HALF))


@_compiled
def _weight(p: Any, q: Any, residual: Any, v: Any) -> Any:
    """Give the weight of a token: p - q, not less than 0, or p itself."""
    weight = float64(p[v]) - float64(q[v]) if residual else float64(p[v])
    return 0.0 if residual and weight <= 0.0 else weight


@_reducing
def _residual(p: Any, q: Any) -> Any:
    """Sum (p - q)+ over a block, NaN where one is."""
    mass = 0.0
    for v in range(len(p)):
        weight = float64(p[v]) - float64(q[v])
        mass += 0.0 if weight <= 0.0 else weight
    return mass


@_reducing
def _plain(p: Any) -> Any:
    """Sum p over a block, and say whether one is negative."""
    mass, negative = 0.0, False
    for v in range(len(p)):
        negative |= p[v] < 0
        mass += float64(p[v])
    return mass, negative


@_compiled
def _sum_blocks(p: Any, q: Any, residual: Any, block: Any, sums: Any) -> Any:
    """Sum every block of a row; give the mass, NaN where a weight is NaN or negative."""
    mass, negative = 0.0, False
    for b in range(len(sums)):
        start, stop = b * block, min((b + 1) * block, len(p))
        if residual:
            sums[b] = _residual(p[start:stop], q[start:stop])
        else:
            sums[b], below = _plain(p[start:stop])
            negative |= below
        mass += sums[b]
    return np.nan if negative else mass


@_compiled
def _by_floats(p: Any, q: Any, residual: Any, bits: Any, block: Any, sums: Any, mass: Any) -> Any:
    """Find the token that the integers give by sums over blocks; -1 where rounding could change it."""
    drawn, off = float64(bits) * 2.0**-64 * mass, _rounding(len(p), mass, 0.0)
    b, below = 0, 0.0
    while b < len(sums) - 1 and below + sums[b] <= drawn:
        below += sums[b]
        b += 1
    for v in range(b * block, min((b + 1) * block, len(p))):
        above = below + _weight(p, q, residual, v)
        if drawn < above:
            return v if below <= drawn - off and drawn + off < above else -1
        below = above
    return -1


@_compiled
def _by_integers(p: Any, q: Any, residual: Any, bits: Any) -> Any:
    """Find the first token whose cumulated integer exceeds the drawn one; -1 where all are 0."""
    total = int64(0)
    for v in range(len(p)):
        total += int64(_weight(p, q, residual, v) * UNIT)
    rest = _high_word(bits, total)
    for v in range(len(p)):
        rest -= int64(_weight(p, q, residual, v) * UNIT)
        if rest < 0:
            return v
    return -1


@_compiled
def _draw(p: Any, q: Any, residual: Any, bits: Any, block: Any, sums: Any) -> Any:
    """Draw a token; give it and a fault."""
    mass = _sum_blocks(p, q, residual, block, sums)
    if not mass < LIMIT:
        return -1, UNFIT
    v = _by_floats(p, q, residual, bits, block, sums, mass)
    if v < 0:
        v = _by_integers(p, q, residual, bits)
    return v, (EMPTY if v < 0 else FINE)


@_compiled
def _row(tokens: Any, draft: Any, target: Any, length: Any, trial: Any, key: Any, block: Any, sums: Any) -> Any:
    """Verify one row; give the accepted length, the next token and a fault."""
    n, (uniform, bits) = 0, _philox(trial, 0, key[0], key[1])
    while n < length and uniform * (float64(draft[n, tokens[n]]) * UNIT) < float64(target[n, tokens[n]]) * UNIT:
        n += 1
        uniform, bits = _philox(trial, n, key[0], key[1])
    if n < length:
        token, fault = _draw(target[n], draft[n], True, bits, block, sums)
        if fault != EMPTY:
            return n, token, fault
    token, fault = _draw(target[n], target[n], False, bits, block, sums)
    return n, token, fault


@_compiled
def _verify(tokens: Any, draft: Any, target: Any, lengths: Any, words: Any, block: Any, sums: Any, found: Any) -> Any:
    """Verify all rows; give the first fault and its row."""
    gamma, vocab = tokens.shape[1], target.shape[2]
    for row in range(len(lengths)):
        if not 0 <= lengths[row] <= gamma:
            return LENGTH, row
        for i in range(lengths[row]):
            if not 0 <= tokens[row, i] < vocab:
                return TOKEN, row
    for row in range(len(lengths)):
        of_draft, of_target = draft[min(row, len(draft) - 1)], target[min(row, len(target) - 1)]
        trial = words[2] + uint64(row)
        n, token, fault = _row(tokens[row], of_draft, of_target, lengths[row], trial, words, block, sums)
        if fault != FINE:
            return fault, row
        found[0, row], found[1, row] = n, token
    return FINE, 0

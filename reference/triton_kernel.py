"""Token verification of whole batches in one Triton kernel: bit for bit what NumPy gives, the laws being read once.

One program verifies one row. The sums of exact integers over chunks of tokens stay in registers; once the drawn weight
is known, the chunk that holds its token is read again. Needs triton, and a GPU or its interpreter (TRITON_INTERPRET=1).
"""

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from .draw import LIMIT, UNIT
from .philox import ROUNDS, VERIFICATION, demand_trials, key_words
from .refusals import EMPTY, LENGTH, TOKEN, UNFIT, demand_shapes, demand_verified

__all__ = ["verify_token_triton"]

_CHUNK: Final = 4096  # tokens that a program holds at a time, at most
_UNIT: Final = tl.constexpr(UNIT)
_LIMIT: Final = tl.constexpr(LIMIT)
_PURPOSE: Final = tl.constexpr(VERIFICATION)
_ROUNDS: Final = tl.constexpr(ROUNDS)
_LENGTH, _TOKEN, _UNFIT, _EMPTY = (tl.constexpr(fault) for fault in (LENGTH, TOKEN, UNFIT, EMPTY))


def verify_token_triton(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    seed: int,
    first_trial: int = 0,
    num_draft_tokens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Verify every row by the token rule, with the tokens that ``verify_token_seeded`` gives for the same seed.

    Args:
        draft_tokens: int64 [B, G], in [0, V); whatever lies beyond a row's own length is not read.
        draft_probs: float64, float32, bfloat16 or float16 [B, G, V]; may be an expanded view. All on one device.
        target_probs: the same of shape [B, G + 1, V]; row ``num_draft_tokens`` is the bonus row.
        seed: in [0, 2**64).
        first_trial: trial of row 0; row k is trial ``first_trial + k``, whatever the batch is.
        num_draft_tokens: int64 [B] in 0 .. G, a row's own draft length; G everywhere if left out.

    Returns:
        num_accepted int64 [B] and next_token int64 [B], on the same device.

    Raises:
        ValueError: as ``verify_token_seeded`` does, once the device has done its work.

    Example:
        >>> p, q = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]] * 3), torch.tensor([[[0.8, 0.2]]] * 3)
        >>> verify_token_triton(torch.tensor([[0], [0], [1]]), q, p, seed=5)  # doctest: +SKIP
        (tensor([0, 1, 1]), tensor([1, 1, 0]))
    """
    size, gamma = draft_tokens.shape
    lengths = num_draft_tokens
    if lengths is None:
        lengths = torch.full((size,), gamma, device=draft_tokens.device)
    vocab = demand_shapes(draft_tokens, draft_probs, target_probs, draft_tokens, lengths, lengths)[2]
    demand_trials(first_trial, size)
    low, high = key_words(seed)
    found = torch.zeros((3, size), dtype=torch.int64, device=draft_tokens.device)
    chunk = min(_CHUNK, triton.next_power_of_2(vocab))
    chunks = triton.next_power_of_2(-(-vocab // chunk))
    tokens, draft, target = draft_tokens.contiguous(), _rows(draft_probs), _rows(target_probs)
    numbers = (first_trial & 2**32 - 1, first_trial >> 32, low, high, gamma, vocab)
    steps = (tokens.stride(0), *draft.stride()[:2], *target.stride()[:2])
    given = tokens, draft, target, lengths.contiguous(), found
    if size:
        _verify[size,](*given, size, *numbers, *steps, chunk, chunks, enable_fp_fusion=False)
    if found[2].any():  # here the host waits for the device
        row = int(found[2].nonzero()[0, 0])
        demand_verified(int(found[2, row]), row, gamma, vocab)
    return found[0], found[1]


def _rows(probs: Tensor) -> Tensor:
    """Give probabilities whose rows are each contiguous, other strides as they are; bfloat16 as its bits."""
    rows = probs if probs.stride(2) == 1 or probs.shape[2] == 1 else probs.contiguous()
    return rows.view(torch.int16) if rows.dtype == torch.bfloat16 else rows


@triton.jit
def _philox(c0, c1, c2, c3, key_low, key_high):
    """Give the four words of a counter."""
    key = key_high.to(tl.uint64) << 32 | key_low.to(tl.uint64)
    return tl.philox(key, c0, c1, c2, c3, _ROUNDS)


@triton.jit
def _words(low, high, key_low, key_high, position):
    """Give the four words of a position."""
    return _philox(low, high, position.to(tl.uint32), tl.full((), _PURPOSE, tl.uint32), key_low, key_high)


@triton.jit
def _real(loaded):
    """Give float64; bfloat16 comes as its bits, since the interpreter of Triton 3.9.0 loses its subnormal numbers."""
    if loaded.dtype == tl.int16:
        loaded = (loaded.to(tl.int32) << 16).to(tl.float32, bitcast=True)
    return loaded.to(tl.float64)


@triton.jit
def _integers(p, q, tokens, inside, residual):
    """Give weights of some tokens: as float64, and as int64 multiples of 2^-62; ``residual`` is 1 or 0."""
    less = tokens * 0 + residual > 0  # a block of truths: the interpreter cannot spread a single one
    weights = _real(tl.load(p + tokens, mask=inside, other=0))
    weights -= _real(tl.load(q + tokens, mask=inside & less, other=0))
    weights = tl.where(less & (weights <= 0.0), 0.0, weights)  # a NaN stays
    return weights, (weights * _UNIT).to(tl.int64)


@triton.jit
def _draw(p, q, residual, bits, vocab, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    """Draw a token; give it and a fault."""
    ids, within = tl.arange(0, CHUNKS), tl.arange(0, CHUNK)
    sums, mass, negative = tl.zeros((CHUNKS,), tl.int64), tl.zeros((), tl.float64), tl.zeros((), tl.int32)
    for k in range(0, tl.cdiv(vocab, CHUNK)):
        tokens = k * CHUNK + within
        weights, whole = _integers(p, q, tokens, tokens < vocab, residual)
        sums = tl.where(ids == k, tl.sum(whole), sums)
        mass += tl.sum(weights)
        negative += tl.sum((weights < 0.0).to(tl.int32))
    total = tl.sum(sums)
    drawn = tl.umulhi(bits, total.to(tl.uint64)).to(tl.int64)
    passed = tl.cumsum(sums, 0) <= drawn
    chunk = tl.minimum(tl.sum(passed.to(tl.int32)), CHUNKS - 1)
    rest = drawn - tl.sum(tl.where(passed, sums, 0))
    tokens = chunk * CHUNK + within
    weights, whole = _integers(p, q, tokens, tokens < vocab, residual)
    token = chunk * CHUNK + tl.sum((tl.cumsum(whole, 0) <= rest).to(tl.int32))
    fit = (mass < _LIMIT) & (negative == 0)
    fault = tl.where(fit, tl.where(total > 0, 0, _EMPTY), _UNFIT)
    return token, fault


@triton.jit(do_not_specialize=["trial_low", "trial_high", "key_low", "key_high"])
def _verify(
    tokens,
    draft,
    target,
    lengths,
    found,
    size,
    trial_low,
    trial_high,
    key_low,
    key_high,
    gamma,
    vocab,
    token_step,
    draft_step,
    draft_position,
    target_step,
    target_position,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
):
    """Verify one row: num_accepted, next_token and fault are stored one after another."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row)
    tokens += row * token_step
    draft += row * draft_step
    target += row * target_step
    trial = (trial_high.to(tl.uint64) << 32 | trial_low.to(tl.uint64)) + row.to(tl.uint64)
    low, high = (trial & 0xFFFFFFFF).to(tl.uint32), (trial >> 32).to(tl.uint32)
    fault = tl.where((length < 0) | (length > gamma), _LENGTH, 0)
    length = tl.where(fault == 0, length, 0)
    n = tl.zeros((), tl.int64)
    going = fault == 0
    for i in range(0, gamma):
        at = tl.full((), 0, tl.int64) + i
        own = i < length
        x = tl.load(tokens + i, mask=own, other=0)
        known = (x >= 0) & (x < vocab)
        fault = tl.where((fault == 0) & own & (known == 0), _TOKEN, fault)
        read = own & known
        p = _real(tl.load(target + at * target_position + x, mask=read, other=0)) * _UNIT
        q = _real(tl.load(draft + at * draft_position + x, mask=read, other=0)) * _UNIT
        w0, w1, w2, w3 = _words(low, high, key_low, key_high, i + tl.zeros((), tl.int32))
        uniform = ((w0 >> 5).to(tl.float64) * 67108864.0 + (w1 >> 6).to(tl.float64)) * 1.1102230246251565e-16
        going = going & read & (uniform * q < p)
        n += going.to(tl.int64)
    w0, w1, w2, w3 = _words(low, high, key_low, key_high, n)
    bits = w2.to(tl.uint64) << 32 | w3.to(tl.uint64)
    residual = ((n < length) & (fault == 0)).to(tl.int64)
    p, q = target + n * target_position, draft + tl.minimum(n, tl.maximum(gamma - 1, 0)) * draft_position
    token, drawn = _draw(p, q, residual, bits, vocab, CHUNK, CHUNKS)
    if (residual == 1) & (drawn == _EMPTY):
        token, drawn = _draw(p, q, residual * 0, bits, vocab, CHUNK, CHUNKS)
    fault = tl.where(fault == 0, drawn, fault)
    tl.store(found + row, n)
    tl.store(found + size + row, token.to(tl.int64))
    tl.store(found + 2 * size + row, fault.to(tl.int64))

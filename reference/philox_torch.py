"""The stream of ``philox`` in plain torch, on any device: the same words, each in the low half of an int64.

Products of int64 wrap, and a right shift copies the sign: only their bits count, and what is shifted in is masked off.
"""

import torch
from torch import Tensor

from .philox import LOW, MULTIPLIERS, ROUNDS, VERIFICATION, WEYL, demand_trials, key_words

__all__ = ["philox4x32_torch", "philox_draws_torch"]


def philox4x32_torch(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Give the four words of each counter.

    Args:
        counter: four int64 tensors of words in 0 .. 2**32 - 1, of shapes that broadcast.
        seed: the key, in [0, 2**64).

    Returns:
        Four int64 tensors of words, of that shape.

    Raises:
        ValueError: the seed is out of range.

    Example:
        >>> zero = torch.zeros(1, dtype=torch.int64)
        >>> [f"{int(word):08x}" for word in philox4x32_torch((zero, zero, zero, zero), 0)]
        ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    k0, k1 = key_words(seed)
    c0, c1, c2, c3 = counter
    for _ in range(ROUNDS):
        a, b = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (b >> 32 & LOW) ^ c1 ^ k0, b & LOW, (a >> 32 & LOW) ^ c3 ^ k1, a & LOW
        k0, k1 = (k0 + WEYL[0]) & LOW, (k1 + WEYL[1]) & LOW
    return c0, c1, c2, c3


def philox_draws_torch(
    seed: int, size: int, num_draft_tokens: int, first_trial: int = 0, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Draw what the verification of a batch reads, as ``philox_draws`` does, on a device.

    Args:
        seed: in [0, 2**64).
        size: number B of rows.
        num_draft_tokens: number G of drafted tokens.
        first_trial: trial of row 0, at least 0; trials stay below 2**64.
        device: where the tensors are.

    Returns:
        float64 [B, G], uniforms in [0, 1); and int64 [B, G + 1], the bits of the uint64 of ``philox_draws``.

    Raises:
        ValueError: the seed or a trial is out of range.

    Example:
        >>> accept, bits = philox_draws_torch(7, 3, 2)
        >>> tuple(accept.shape), tuple(bits.shape), bits.dtype
        ((3, 2), (3, 3), torch.int64)
    """
    demand_trials(first_trial, size)
    signed = first_trial - 2**64 if first_trial >= 2**63 else first_trial
    trials = (torch.arange(size, device=device) + signed)[:, None]  # wraps as the bits of a uint64 do
    positions = torch.arange(num_draft_tokens + 1, device=device)
    purpose = torch.full_like(positions, VERIFICATION)
    words = philox4x32_torch((trials & LOW, trials >> 32 & LOW, positions, purpose), seed)
    accept = ((words[0] >> 5) * 2**26 + (words[1] >> 6)).double() * 2.0**-53
    return accept[:, :num_draft_tokens], words[2] << 32 | words[3]

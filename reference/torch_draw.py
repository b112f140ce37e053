"""One token per row by inverse CDF over exact integers, in torch on any device: the tokens that ``draw`` gives.

Whole rows are read once, for the sums of exact integers over blocks of tokens; then one block of each is read again.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .draw import LIMIT, UNIT, block_size

__all__ = ["Sums", "TorchWeights", "draw_torch", "high_word", "masses_torch", "numbers", "sums_of_blocks"]

_PIECE = 2**21  # weights made at a time: 16 MiB in float64, and a few times as much in all

Sums = tuple[Tensor, Tensor]
"""Of every block of every row [N, blocks]: int64 multiples of 2^-62, and float64 mass, infinite where p is negative."""


@dataclass(frozen=True)
class TorchWeights:
    """N rows of weights: (scale * p - q)+ where ``residual`` holds, elsewhere p itself.

    Row k reads ``target_probs[rows[k], positions[k]]``, likewise the draft.
    """

    target_probs: Tensor
    draft_probs: Tensor
    rows: Tensor
    positions: Tensor
    scale: Tensor
    residual: Tensor

    @property
    def vocab(self) -> int:
        """Number V of tokens."""
        return int(self.target_probs.shape[2])

    @property
    def block(self) -> int:
        """Number of tokens in a block; no token that is drawn depends on it."""
        return block_size(self.vocab)

    def sums(self) -> tuple[Tensor, Tensor]:
        """Give the integer sums of all blocks [N, blocks], and which rows sums of int64 can hold."""
        whole, mass = self.block_sums()
        return whole, mass.sum(1) < LIMIT

    def block_sums(self) -> Sums:
        """Read all rows, some at a time."""
        parts = [self._summed(part) for part in self.pieces()] or [self._summed(slice(0))]
        whole, mass = map(torch.cat, zip(*parts, strict=True))
        return whole, mass

    def integers(self, part: slice, tokens: Tensor) -> Tensor:
        """Give the weights of some rows at tokens [n, block] of their own, as int64 multiples of 2^-62."""
        rows, positions, residual = (kind[part, None] for kind in (self.rows, self.positions, self.residual))
        weights = self.target_probs[rows, positions, tokens].double().mul_(self.scale[part, None])
        gamma = self.draft_probs.shape[1]
        if gamma:
            q = self.draft_probs[rows, positions.clamp(max=gamma - 1), tokens].masked_fill_(~residual, 0)
            weights.sub_(q).clamp_(min=0)
        return weights.mul_(UNIT).long()

    def pieces(self) -> Iterator[slice]:
        """Yield consecutive rows, so many that their weights fit in little memory."""
        step = max(1, _PIECE // self.vocab)
        return (slice(start, start + step) for start in range(0, len(self.rows), step))

    def _summed(self, part: slice) -> Sums:
        rows, positions, residual = self.rows[part], self.positions[part], self.residual[part, None]
        weights = self.target_probs[rows, positions].double().mul_(self.scale[part, None])
        gamma = self.draft_probs.shape[1]
        if gamma:
            q = self.draft_probs[rows, positions.clamp(max=gamma - 1)]
            weights.sub_(q.masked_fill_(~residual, 0))
        return sums_of_blocks(weights, torch.where(residual, 0.0, torch.inf), self.block)


def draw_torch(weights: TorchWeights, bits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Draw a token per row: tokens, totals in units of 2^-62 (0: no token), and which rows were fit to be drawn from.

    The block in which the cumulated weight passes the drawn one is found first, then the token inside that block.
    """
    whole, fit = weights.sums()
    cumulated, block = whole.cumsum(1), weights.block
    totals = cumulated[:, -1].clone()
    drawn = high_word(bits, totals)[:, None]
    first = (cumulated <= drawn).sum(1).clamp(max=whole.shape[1] - 1)[:, None]
    rest = drawn - (cumulated.gather(1, first) - whole.gather(1, first))
    tokens = torch.empty_like(totals)
    for part in weights.pieces():
        within = first[part] * block + numbers(bits, block)
        inside = weights.integers(part, within.clamp(max=weights.vocab - 1)).masked_fill_(within >= weights.vocab, 0)
        tokens[part] = first[part, 0] * block + (inside.cumsum(1) <= rest[part]).sum(1)
    return tokens, totals, fit


def masses_torch(weights: TorchWeights) -> tuple[Tensor, Tensor]:
    """Return the mass of every row, as a float64 of its exact integer total, and which rows were fit."""
    whole, fit = weights.sums()
    return whole.sum(1).double() / UNIT, fit


def numbers(like: Tensor, count: int) -> Tensor:
    """Give 0 .. count - 1 on the device of a tensor."""
    return torch.arange(count, device=like.device)


def sums_of_blocks(weights: Tensor, instead: Tensor | float, block: int) -> Sums:
    """Sum rows of weights, float64 [N, V], over blocks of tokens, with another weight instead of a negative one."""
    weights = torch.where(weights < 0, instead, weights)
    vocab = weights.shape[1]
    full = vocab // block * block
    parts = [weights[:, :full].view(len(weights), full // block, block)]
    parts += [weights[:, None, full:]] if full < vocab else []
    whole, mass = [(part * UNIT).long().sum(2) for part in parts], [part.sum(2) for part in parts]
    return torch.cat(whole, 1), torch.cat(mass, 1)


def high_word(bits: Tensor, totals: Tensor) -> Tensor:
    """Return floor(bits * totals / 2^64), the weight that 64 uniform bits draw.

    Args:
        bits: int64 [B], each the bits of a uint64.
        totals: int64 [B], in [0, 2^63).

    Returns:
        int64 [B]. Products of int64 wrap: only their bits count.

    Example:
        >>> high_word(torch.tensor([-(2**63)]), torch.tensor([7])).tolist()  # 2**63 is half of 2**64
        [3]
    """
    low = 2**32 - 1
    uh, ul, th, tl = bits >> 32 & low, bits & low, totals >> 32, totals & low
    middle = (ul * tl >> 32 & low) + (uh * tl & low) + (ul * th & low)
    return uh * th + (uh * tl >> 32 & low) + (ul * th >> 32) + (middle >> 32)

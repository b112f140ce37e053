"""Token and block verification of whole batches in plain torch, on any device: bit for bit what the NumPy kernels give.

Every number that a token depends on comes from integer sums or from single float64 operations, which all devices round
alike. Nothing waits for the device until the end: then one small tensor tells the host whether the arguments were fit
and whether some row is still without a token. Only a refusal, or an empty residual, costs further waits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .draw import LIMIT, UNIT, block_size
from .refusals import demand_shapes, no_mass, outside, unfit

__all__ = ["high_word", "verify_block_torch", "verify_token_torch"]

_PIECE = 2**21  # weights made at a time: 16 MiB in float64, and a few times as much in all


def verify_token_torch(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    accept: Tensor,
    final: Tensor,
    num_draft_tokens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Verify every row by the token rule, with the same tokens for the same uniforms as ``verify_token``.

    Args:
        draft_tokens: int64 [B, G], in [0, V); whatever lies beyond a row's own length is not read.
        draft_probs: float64, float32, bfloat16 or float16 [B, G, V]; may be an expanded view. All on one device.
        target_probs: the same of shape [B, G + 1, V]; row ``num_draft_tokens`` is the bonus row.
        accept: float [B, G], uniforms in [0, 1); one per drafted token.
        final: float [B], uniforms in [0, 1); one per row, for the emitted token.
        num_draft_tokens: int64 [B] in 0 .. G, a row's own draft length; G everywhere if left out.

    Returns:
        num_accepted int64 [B] and next_token int64 [B], on the same device.

    Raises:
        ValueError: as ``verify_token`` does, once the device has done its work.

    >>> p, q = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]]), torch.tensor([[[0.8, 0.2]]])
    >>> verify_token_torch(torch.tensor([[0]]), q, p, torch.tensor([[0.8]]), torch.tensor([0.5]))
    (tensor([0]), tensor([1]))
    """
    batch = _drafted(draft_tokens, draft_probs, target_probs, accept, final, num_draft_tokens)
    passed = (accept.double() * batch.q < batch.p) & batch.own
    num_accepted = passed.cumprod(1).sum(1)
    return num_accepted, _emit(batch, final, num_accepted, torch.ones_like(batch.lengths, dtype=torch.float64))


def verify_block_torch(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    accept: Tensor,
    final: Tensor,
    num_draft_tokens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Verify every row by the block rule, with the same tokens for the same uniforms as ``verify_block``.

    Arguments, results and errors are those of ``verify_token_torch``.
    """
    batch = _drafted(draft_tokens, draft_probs, target_probs, accept, final, num_draft_tokens)
    w = _joint_weights(batch)
    passed = (accept.double() < _survival(batch, w)) & batch.own
    ends = torch.arange(1, passed.shape[1] + 1, device=passed.device)
    num_accepted = torch.nn.functional.pad(passed * ends, (1, 0)).amax(1)
    return num_accepted, _emit(batch, final, num_accepted, w.gather(1, num_accepted[:, None])[:, 0])


@dataclass(frozen=True)
class _Batch:
    """The rows of a call, each drafted token's p and q times 2^62, and what has to hold of each row (see ``_settle``).

    The scaling is exact and takes part in no result, except that no product with a subnormal q can round up to q.
    """

    draft_probs: Tensor
    target_probs: Tensor
    p: Tensor
    q: Tensor
    own: Tensor
    lengths: Tensor
    demands: list[tuple[Tensor, Callable[[int], ValueError]]] = field(default_factory=list)

    def demand(self, holds: Tensor, refusal: Callable[[int], ValueError]) -> None:
        """Note what has to hold of every row, and the error for a row of which it does not."""
        self.demands.append((holds, refusal))


def _drafted(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    accept: Tensor,
    final: Tensor,
    num_draft_tokens: Tensor | None,
) -> _Batch:
    lengths = num_draft_tokens
    if lengths is None:
        lengths = torch.full(draft_tokens.shape[:1], draft_tokens.shape[1], device=draft_tokens.device)
    size, gamma, vocab = demand_shapes(draft_tokens, draft_probs, target_probs, accept, final, lengths)
    rows, positions = _numbers(final, size)[:, None], _numbers(final, gamma)
    own = positions < lengths[:, None]
    tokens = draft_tokens.clamp(0, vocab - 1)  # an index out of range would bring a CUDA device down
    p, q = (probs[rows, positions, tokens].double() * UNIT for probs in (target_probs, draft_probs))
    batch = _Batch(draft_probs, target_probs, p, q, own, lengths)
    _demand(batch, "num_draft_tokens", (lengths >= 0) & (lengths <= gamma), f"0 .. {gamma}")
    _demand(batch, "final", (final >= 0) & (final < 1), "[0, 1)")
    _demand(batch, "draft_tokens", ((tokens == draft_tokens) | ~own).all(1), f"[0, {vocab})")
    return batch


def _numbers(like: Tensor, count: int) -> Tensor:
    return torch.arange(count, device=like.device)


def _demand(batch: _Batch, what: str, holds: Tensor, domain: str) -> None:
    batch.demand(holds, lambda row: outside(what, domain, row))


def _joint_weights(batch: _Batch) -> Tensor:
    w = [torch.ones_like(batch.lengths, dtype=torch.float64)]
    for p, q in zip(batch.p.unbind(1), batch.q.unbind(1), strict=True):
        owed = w[-1] * p
        w.append(torch.where(q > 0, owed / q, (owed > 0).double()).clamp(max=1))
    return torch.stack(w, 1)


def _survival(batch: _Batch, w: Tensor) -> Tensor:
    size, gamma = batch.own.shape
    if gamma < 2:
        return w[:, 1:]
    rows, positions = _numbers(w, size).repeat_interleave(gamma - 1), _numbers(w, gamma)[1:].repeat(size)
    weights, read = w[:, 1:-1], batch.own[:, 1:]
    owed, fit = _masses(_Weights(batch, rows, positions, weights.flatten(), torch.ones_like(rows, dtype=torch.bool)))
    batch.demand((fit.view_as(read) | ~read).all(1), unfit)
    owed = owed.view_as(weights)
    failed = owed + (1 - weights)
    h = torch.where(failed > 0, owed / failed, 1.0)
    return torch.cat((torch.where(read, h, weights), w[:, -1:]), 1)


def _emit(batch: _Batch, final: Tensor, num_accepted: Tensor, kept: Tensor) -> Tensor:
    """Draw from (kept p - q)+ after a rejection, from p after none or where that residual is empty."""
    rejected = num_accepted < batch.lengths
    rows, scale = _numbers(final, len(final)), torch.where(rejected, kept, 1.0)
    next_token, totals, fit = _draw(_Weights(batch, rows, num_accepted, scale, rejected), final)
    batch.demand(fit | ~rejected, unfit)
    batch.demand(fit | rejected, unfit)
    if not _settle(batch, totals > 0):
        empty = (rejected & (totals == 0)).nonzero()[:, 0]
        none = torch.zeros_like(empty, dtype=torch.bool)
        plain = _Weights(batch, empty, num_accepted[empty], torch.ones_like(scale[empty]), none)
        next_token[empty], totals[empty], fit[empty] = _draw(plain, final[empty])
        batch.demand(fit, unfit)
        batch.demand(totals > 0, no_mass)
        _settle(batch, totals > 0)
    return next_token


def _settle(batch: _Batch, drawn: Tensor) -> bool:
    """Raise the first refusal, if any, and say whether every row has its token: here the host waits for the device."""
    *fine, complete = torch.stack([*(holds.all() for holds, _ in batch.demands), drawn.all()]).tolist()
    if not all(fine):
        holds, refusal = batch.demands[fine.index(False)]
        raise refusal(int((~holds).nonzero()[0, 0]))
    return bool(complete)


@dataclass(frozen=True)
class _Weights:
    """N rows of weights: (scale * p - q)+ where ``residual`` holds, elsewhere p itself; made piece by piece.

    Row k reads ``target_probs[rows[k], positions[k]]``, likewise the draft.
    """

    batch: _Batch
    rows: Tensor
    positions: Tensor
    scale: Tensor
    residual: Tensor

    def pieces(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield consecutive rows, their weights as int64 multiples of 2^-62 [n, blocks, block], and which are fit."""
        step = max(1, _PIECE // self.batch.target_probs.shape[-1])
        for start in range(0, len(self.rows), step):
            part = slice(start, start + step)
            yield part, *self._integers(part)

    def _integers(self, part: slice) -> tuple[Tensor, Tensor]:
        rows, positions, residual = self.rows[part], self.positions[part], self.residual[part, None]
        p = self.batch.target_probs[rows, positions]
        vocab, block = p.shape[1], block_size(p.shape[1])
        padded = p.new_zeros((len(rows), -(-vocab // block) * block), dtype=torch.float64)
        weights = padded[:, :vocab]
        weights.copy_(p).mul_(self.scale[part, None])
        gamma = self.batch.draft_probs.shape[1]
        if gamma:
            q = self.batch.draft_probs[rows, positions.clamp(max=gamma - 1)]
            weights.sub_(q.masked_fill_(~residual, 0))
            weights.clamp_(min=torch.where(residual, 0.0, -torch.inf))
        fit = (weights.amin(1) >= 0) & (weights.sum(1) < LIMIT)
        return padded.mul_(UNIT).long().view(len(rows), -1, block), fit


def _draw(weights: _Weights, final: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Draw a token per row: tokens, totals in units of 2^-62 (0: no token), and which rows were fit to be drawn from.

    The block in which the cumulated weight passes the drawn one is found first, then the token inside that block.
    """
    tokens, totals = torch.empty((2, len(final)), dtype=torch.int64, device=final.device)
    fit = torch.empty_like(tokens, dtype=torch.bool)
    for part, whole, fitting in weights.pieces():
        cumulated = whole.sum(2).cumsum(1)
        fit[part], totals[part] = fitting, cumulated[:, -1]
        drawn = high_word(final[part], totals[part])[:, None]
        first = (cumulated <= drawn).sum(1).clamp(max=whole.shape[1] - 1)[:, None]
        inside = whole[_numbers(final, len(whole)), first[:, 0]].cumsum(1)
        rest = drawn - (cumulated.gather(1, first) - inside[:, -1:])
        tokens[part] = first[:, 0] * whole.shape[2] + (inside <= rest).sum(1)
    return tokens, totals, fit


def _masses(weights: _Weights) -> tuple[Tensor, Tensor]:
    """Return the mass of every row, as a float64 of its exact integer total, and which rows were fit."""
    totals, fit = torch.empty_like(weights.rows), torch.empty_like(weights.residual)
    for part, whole, fitting in weights.pieces():
        fit[part], totals[part] = fitting, whole.sum((1, 2))
    return totals.double() / UNIT, fit


def high_word(final: Tensor, totals: Tensor) -> Tensor:
    """Return floor(floor(final * 2^64) * totals / 2^64), the weight that a uniform draws.

    Args:
        final: float64 or float32 [B], in [0, 1).
        totals: int64 [B], in [0, 2^63).

    Returns:
        int64 [B]. Products of int64 wrap: only their bits count.

    Example:
        >>> high_word(torch.tensor([0.5]), torch.tensor([7])).tolist()
        [3]
    """
    low = 2**32 - 1
    u = final.double() * 2.0**32
    uh, th, tl = u.long(), totals >> 32, totals & low
    ul = ((u - uh) * 2.0**32).long()
    middle = (ul * tl >> 32 & low) + (uh * tl & low) + (ul * th & low)
    return uh * th + (uh * tl >> 32 & low) + (ul * th >> 32) + (middle >> 32)

"""Token and block verification of whole batches in plain torch, on any device: bit for bit what the NumPy kernels give.

Every number that a token depends on comes from integer sums or from single float64 operations, which all devices round
alike. Nothing waits for the device until the end: then one small tensor tells the host whether the arguments were fit
and whether some row is still without a token. Only a refusal, or an empty residual, costs further waits.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .draw import UNIT
from .philox_torch import philox_draws_torch
from .refusals import demand_shapes, no_mass, outside, unfit
from .torch_draw import TorchWeights, draw_torch, masses_torch, numbers

__all__ = ["verify_block_torch", "verify_token_seeded_torch", "verify_token_torch"]


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
    num_accepted = _accepted(batch, accept)
    return num_accepted, _emit(batch, _bits(batch, final), num_accepted, _ones(batch))


def verify_token_seeded_torch(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    seed: int,
    first_trial: int = 0,
    num_draft_tokens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Verify every row by the token rule, with the tokens that ``verify_token_seeded`` gives for the same seed.

    Args:
        draft_tokens: as for ``verify_token_torch``, and so ``draft_probs``, ``target_probs`` and ``num_draft_tokens``.
        draft_probs: see there.
        target_probs: see there.
        seed: in [0, 2**64).
        first_trial: trial of row 0; row k is trial ``first_trial + k``, whatever the batch is.
        num_draft_tokens: see there.

    Returns:
        num_accepted int64 [B] and next_token int64 [B], on the same device.

    Raises:
        ValueError: as ``verify_token_torch`` does, or the seed or a trial is no number of 64 bits.

    >>> p, q = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]] * 3), torch.tensor([[[0.8, 0.2]]] * 3)
    >>> verify_token_seeded_torch(torch.tensor([[0], [0], [1]]), q, p, seed=5)
    (tensor([0, 1, 1]), tensor([1, 1, 0]))
    """
    return verify_seeded(TorchWeights, draft_tokens, draft_probs, target_probs, seed, first_trial, num_draft_tokens)


def verify_seeded(
    kind: type[TorchWeights],
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    seed: int,
    first_trial: int,
    num_draft_tokens: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Do what ``verify_token_seeded_torch`` does, with weights that a kind of ``TorchWeights`` sums."""
    size, gamma = draft_tokens.shape
    accept, bits = philox_draws_torch(seed, size, gamma, first_trial, draft_tokens.device)
    batch = _drafted(draft_tokens, draft_probs, target_probs, accept, bits[:, 0], num_draft_tokens, kind)
    num_accepted = _accepted(batch, accept)
    return num_accepted, _emit(batch, bits.gather(1, num_accepted[:, None])[:, 0], num_accepted, _ones(batch))


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
    return num_accepted, _emit(batch, _bits(batch, final), num_accepted, w.gather(1, num_accepted[:, None])[:, 0])


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
    kind: type[TorchWeights]
    demands: list[tuple[Tensor, Callable[[int], ValueError]]] = field(default_factory=list)

    def demand(self, holds: Tensor, refusal: Callable[[int], ValueError]) -> None:
        """Note what has to hold of every row, and the error for a row of which it does not."""
        self.demands.append((holds, refusal))

    def weights(self, rows: Tensor, positions: Tensor, scale: Tensor, residual: Tensor) -> TorchWeights:
        """Give the weights of rows of this batch."""
        probs = self.target_probs, self.draft_probs
        return self.kind(*probs, rows, positions, scale, residual)


def _drafted(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    accept: Tensor,
    final: Tensor,
    num_draft_tokens: Tensor | None,
    kind: type[TorchWeights] = TorchWeights,
) -> _Batch:
    lengths = num_draft_tokens
    if lengths is None:
        lengths = torch.full(draft_tokens.shape[:1], draft_tokens.shape[1], device=draft_tokens.device)
    size, gamma, vocab = demand_shapes(draft_tokens, draft_probs, target_probs, accept, final, lengths)
    rows, positions = numbers(final, size)[:, None], numbers(final, gamma)
    own = positions < lengths[:, None]
    tokens = draft_tokens.clamp(0, vocab - 1)  # an index out of range would bring a CUDA device down
    p, q = (probs[rows, positions, tokens].double() * UNIT for probs in (target_probs, draft_probs))
    batch = _Batch(draft_probs, target_probs, p, q, own, lengths, kind)
    _demand(batch, "num_draft_tokens", (lengths >= 0) & (lengths <= gamma), f"0 .. {gamma}")
    _demand(batch, "draft_tokens", ((tokens == draft_tokens) | ~own).all(1), f"[0, {vocab})")
    return batch


def _demand(batch: _Batch, what: str, holds: Tensor, domain: str) -> None:
    batch.demand(holds, lambda row: outside(what, domain, row))


def _accepted(batch: _Batch, accept: Tensor) -> Tensor:
    return ((accept.double() * batch.q < batch.p) & batch.own).cumprod(1).sum(1)


def _ones(batch: _Batch) -> Tensor:
    return torch.ones_like(batch.lengths, dtype=torch.float64)


def _bits(batch: _Batch, final: Tensor) -> Tensor:
    _demand(batch, "final", (final >= 0) & (final < 1), "[0, 1)")
    u = final.double() * 2.0**32
    high = u.long()
    return high << 32 | ((u - high) * 2.0**32).long()


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
    rows, positions = numbers(w, size).repeat_interleave(gamma - 1), numbers(w, gamma)[1:].repeat(size)
    weights, read = w[:, 1:-1], batch.own[:, 1:]
    owed, fit = masses_torch(batch.weights(rows, positions, weights.flatten(), torch.ones_like(rows, dtype=torch.bool)))
    batch.demand((fit.view_as(read) | ~read).all(1), unfit)
    owed = owed.view_as(weights)
    failed = owed + (1 - weights)
    h = torch.where(failed > 0, owed / failed, 1.0)
    return torch.cat((torch.where(read, h, weights), w[:, -1:]), 1)


def _emit(batch: _Batch, bits: Tensor, num_accepted: Tensor, kept: Tensor) -> Tensor:
    """Draw from (kept p - q)+ after a rejection, from p after none or where that residual is empty."""
    rejected = num_accepted < batch.lengths
    rows, scale = numbers(bits, len(bits)), torch.where(rejected, kept, 1.0)
    next_token, totals, fit = draw_torch(batch.weights(rows, num_accepted, scale, rejected), bits)
    batch.demand(fit | ~rejected, unfit)
    batch.demand(fit | rejected, unfit)
    if not _settle(batch, totals > 0):
        empty = (rejected & (totals == 0)).nonzero()[:, 0]
        none = torch.zeros_like(empty, dtype=torch.bool)
        plain = batch.weights(empty, num_accepted[empty], torch.ones_like(scale[empty]), none)
        next_token[empty], totals[empty], fit[empty] = draw_torch(plain, bits[empty])
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

"""Token verification in torch with its wide pass compiled: bit for bit what NumPy gives, near the speed of memory.

The one pass over whole rows, which sums exact integers over blocks of tokens, is a single loop that ``torch.compile``
makes of it: no weight is stored. All else is ``gpu`` and ``torch_draw``. Needs a C++ compiler and Python's headers,
as ``torch.compile`` does; compiling takes some seconds for each type of array and kind of shape, at the first call.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import FunctionType
from typing import Any, Final

import torch
from torch import Tensor

from .gpu import verify_seeded
from .torch_draw import Sums, TorchWeights, sums_of_blocks

__all__ = ["verify_token_compiled"]

_WIDE: Final = 2**13  # tokens from which on compiled loops are worth their calls
_BLOCK: Final = 256

if not any(map(shutil.which, (os.environ.get("CXX") or "g++", "clang++", "cl"))):
    raise ImportError(
        "expected a C++ compiler for torch.compile, found none: install g++, or call verify_token_seeded_torch"
    )


def verify_token_compiled(
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
        draft_probs: float64, float32, bfloat16 or float16 [B, G, V]; may be an expanded view. Compiled loops are for
            the CPU and for V >= 8192; elsewhere this is ``verify_token_seeded_torch``.
        target_probs: the same of shape [B, G + 1, V]; row ``num_draft_tokens`` is the bonus row.
        seed: in [0, 2**64).
        first_trial: trial of row 0; row k is trial ``first_trial + k``, whatever the batch is.
        num_draft_tokens: int64 [B] in 0 .. G, a row's own draft length; G everywhere if left out.

    Returns:
        num_accepted int64 [B] and next_token int64 [B], on the same device.

    Raises:
        ValueError: as ``verify_token_seeded`` does.
        RuntimeError: torch cannot compile here, for want of Python's headers, say.

    >>> p, q = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]] * 3), torch.tensor([[[0.8, 0.2]]] * 3)
    >>> verify_token_compiled(torch.tensor([[0], [0], [1]]), q, p, seed=5)
    (tensor([0, 1, 1]), tensor([1, 1, 0]))
    """
    given = draft_tokens, draft_probs, target_probs, seed, first_trial, num_draft_tokens
    return verify_seeded(_CompiledWeights, *given)


class _CompiledWeights(TorchWeights):
    """Weights whose wide rows are summed by compiled loops: those that read p and q, and those that read p alone."""

    @property
    def _compiled(self) -> bool:
        return self.vocab >= _WIDE and self.target_probs.device.type == "cpu"

    @property
    def block(self) -> int:
        """Number of tokens in a block: one for all wide rows, so that loops over it are compiled once."""
        return _BLOCK if self._compiled else super().block

    def block_sums(self) -> Sums:
        """Read all rows: whole blocks by compiled loops, tokens that fill none as ever."""
        if not self._compiled:
            return super().block_sums()
        full = self.vocab // _BLOCK * _BLOCK
        whole = self.rows.new_empty((len(self.rows), -(-self.vocab // _BLOCK)))
        mass = torch.empty_like(whole, dtype=torch.float64)
        for function, these in ((_residual, self.residual), (_plain, ~self.residual)):
            chosen = these.nonzero()[:, 0]
            if len(chosen):
                read = self.target_probs[..., :full], self.draft_probs[..., :full]
                where = (kind[chosen] for kind in (self.rows, self.positions, self.scale))
                whole[chosen, : full // _BLOCK], mass[chosen, : full // _BLOCK] = _run(function, *read, *where)
        if full < self.vocab:
            of_rest = replace(
                self, target_probs=self.target_probs[..., full:], draft_probs=self.draft_probs[..., full:]
            )
            sums = TorchWeights.block_sums(of_rest)
            whole[:, -1], mass[:, -1] = (kind.sum(1) for kind in sums)
        return whole, mass


def _residual(target_probs: Tensor, draft_probs: Tensor, rows: Tensor, positions: Tensor, scale: Tensor) -> Sums:
    p, q = target_probs[rows, positions].double(), draft_probs[rows, positions].double()
    return sums_of_blocks(p * scale[:, None] - q, 0.0, _BLOCK)


def _plain(target_probs: Tensor, _: Tensor, rows: Tensor, positions: Tensor, scale: Tensor) -> Sums:
    return sums_of_blocks(target_probs[rows, positions].double() * scale[:, None], torch.inf, _BLOCK)


def _run(function: Callable[..., Sums], *tensors: Tensor) -> Sums:
    try:
        return _compiled(function, *map(_sort, tensors))(*tensors)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise RuntimeError(
            f"expected torch.compile to find a C++ compiler and Python's headers (g++, python3-dev), got: {reason}; "
            f"install them, or call verify_token_seeded_torch"
        ) from error


def _sort(tensor: Tensor) -> tuple[Any, ...]:
    """Give what torch compiles anew for: the dtype, and which sizes and strides are 0 or 1."""
    return tensor.dtype, *(min(number, 2) for number in (*tensor.shape, *tensor.stride()))


@cache
def _compiled(function: FunctionType, *_: Any) -> Callable[..., Sums]:
    """Compile a function for one sort of arguments: torch allows few of them for one code object, so each has its own.

    The thresholds are for weights never to be stored. Vectors of 512 bits are not used: torch widens float32 to
    float64 by way of memory, and a processor then waits at each load for two stores, for three times the time.
    """
    own = FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
    options: dict[str, int] = {"realize_reads_threshold": 64, "realize_opcount_threshold": 512}
    if torch.backends.cpu.get_cpu_capability() == "AVX512":
        options["cpp.simdlen"] = 256
    compiled: Callable[..., Sums] = torch.compile(own, dynamic=True, fullgraph=True, options=options)
    return compiled

"""Verification steps that are measured against each other: all get the same drafts and laws, and draw their own coins.

Each is made for one batch, with all that an engine would have at hand laid out, and then called again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers.generation.utils import _speculative_sampling

from specverify.reference import (
    verify_token_compiled,
    verify_token_fast,
    verify_token_seeded,
    verify_token_seeded_torch,
)

__all__ = ["BASE", "CONTESTANTS", "Batch", "batch"]

BASE = "transformers, probabilities"
"""What all others are compared with."""


@dataclass(frozen=True)
class Batch:
    """Drafts and laws of one call: int64 [B, G], float [B, G, V] and [B, G + 1, V]."""

    draft_tokens: npt.NDArray[np.int64]
    draft_probs: npt.NDArray[Any]
    target_probs: npt.NDArray[Any]

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Give the same memory as tensors."""
        return tuple(map(torch.from_numpy, (self.draft_tokens, self.draft_probs, self.target_probs)))

    def bytes_read(self) -> float:
        """Give what the emitting rows hold: p and q after a rejection, p alone for a bonus."""
        length, vocab = self.draft_probs.shape[1:]
        stop, _ = verify_token_seeded(self.draft_tokens, self.draft_probs, self.target_probs, 0)
        return float(((stop < length) + 1).sum() * vocab * self.target_probs.itemsize)


def batch(size: int, length: int, vocab: int, dtype: str) -> Batch:
    """Make laws as models have them, softmax of normal logits, the draft's with noise; about 2 of 3 are accepted."""
    rng = np.random.default_rng([size, length, vocab])
    logits = 2 * rng.standard_normal((size, length + 1, vocab), dtype=np.float32)
    noisy = logits[:, :length] + rng.standard_normal((size, length, vocab), dtype=np.float32)
    target, draft = (_softmax(rows).astype(dtype) for rows in (logits, noisy))
    cumulative = draft.cumsum(axis=2, dtype=np.float64)
    u = rng.random((size, length, 1)) * cumulative[..., -1:]
    return Batch(np.minimum((cumulative < u).sum(axis=2), vocab - 1), draft, target)


def _softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    laws = np.exp(logits - logits.max(axis=2, keepdims=True))
    return np.asarray(laws / laws.sum(axis=2, keepdims=True))


class _Given:
    """Probabilities where logits are expected: their softmax is taken to be done."""

    def __init__(self, probs: torch.Tensor) -> None:
        self.probs, self.shape = probs, probs.shape

    def softmax(self, dim: int) -> torch.Tensor:
        """Give the probabilities."""
        assert dim == -1
        return self.probs


def _one_by_one(given: Batch, wrapped: Callable[[torch.Tensor], Any]) -> Callable[[], object]:
    tokens, draft, target = given.tensors()
    ids = torch.cat((tokens.new_zeros((len(tokens), 1)), tokens), dim=1)
    length = tokens.shape[1]
    rows = [(ids[i : i + 1], wrapped(draft[i : i + 1]), length, wrapped(target[i : i + 1])) for i in range(len(ids))]
    return lambda: [_speculative_sampling(*row) for row in rows]


def _transformers(given: Batch) -> Callable[[], object]:
    return _one_by_one(given, _Given)


def _transformers_logits(given: Batch) -> Callable[[], object]:
    return _one_by_one(given, torch.log)


def _batched_torch(given: Batch) -> Callable[[], object]:
    """Verify as batched engines usually do: gather, compare, one residual a row, ``torch.multinomial``."""
    tokens, draft, target = given.tensors()
    rows, length = torch.arange(len(tokens)), tokens.shape[1]

    def verify() -> tuple[torch.Tensor, torch.Tensor]:
        p = target[:, :length].gather(2, tokens[..., None])[..., 0]
        q = draft.gather(2, tokens[..., None])[..., 0]
        stop = (torch.rand_like(p) < p / q).cumprod(1).sum(1)
        weights = target[rows, stop]
        residual = (weights - draft[rows, stop.clamp(max=length - 1)]).clamp_(min=0)
        weights = torch.where((stop < length)[:, None], residual, weights)
        return stop, torch.multinomial(weights, 1)[:, 0]

    return verify


def _numpy(given: Batch) -> Callable[[], object]:
    return lambda: verify_token_seeded(given.draft_tokens, given.draft_probs, given.target_probs, 1)


def _fast(given: Batch) -> Callable[[], object]:
    return lambda: verify_token_fast(given.draft_tokens, given.draft_probs, given.target_probs, 1)


def _torch(given: Batch) -> Callable[[], object]:
    tokens, draft, target = given.tensors()
    return lambda: verify_token_seeded_torch(tokens, draft, target, 1)


def _compiled(given: Batch) -> Callable[[], object]:
    tokens, draft, target = given.tensors()
    return lambda: verify_token_compiled(tokens, draft, target, 1)


CONTESTANTS: dict[str, Callable[[Batch], Callable[[], object]]] = {
    BASE: _transformers,
    "transformers, logits": _transformers_logits,
    "batched torch, multinomial": _batched_torch,
    "reference, NumPy": _numpy,
    "reference, torch": _torch,
    "reference, torch compiled": _compiled,
    "reference, numba": _fast,
}
"""Name to what makes a step for a batch."""

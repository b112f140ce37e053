"""Batches on which kernels are compared: random ones, and those that make a kernel differ if it can.

They are NumPy arrays whose values the dtype of the comparison holds exactly: all kernels see the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from specverify.arrays import FloatArray, IntArray
from specverify.randomness import UNIFORMS_DTYPE
from specverify.reference import Kernel
from specverify.rounding import rounded

__all__ = ["KINDS", "Batch", "batch", "on_tensors", "tensors"]

_TINY = {"float64": 2.0**-1074, "float32": 2.0**-149, "bfloat16": 2.0**-133, "float16": 2.0**-24}
"""The smallest subnormal of each dtype."""


class Batch(NamedTuple):
    """The arguments of a kernel in their order; NumPy arrays, bfloat16 values in float32 ones."""

    draft_tokens: Any
    draft_probs: Any
    target_probs: Any
    accept: Any
    final: Any
    num_draft_tokens: Any


Rows = tuple[FloatArray, FloatArray]
"""Weights of drafts [B, G, V] and targets [B, G + 1, V] that have yet to be normalised."""


def _plain(draft: FloatArray, target: FloatArray) -> Rows:
    return draft, target


def _zeros(draft: FloatArray, target: FloatArray) -> Rows:
    """Leave about a third of the tokens of each row possible."""
    draft, target = (np.where(rows % 1e-3 < 3.3e-4, rows, 0) for rows in (draft, target))
    draft[..., 0] += 0.01
    target[..., -1] += 0.01
    return draft, target


def _one_hot(draft: FloatArray, target: FloatArray) -> Rows:
    """Leave the likeliest token of each row alone."""
    first, second = ((rows == rows.max(axis=-1, keepdims=True)).astype(np.float64) for rows in (draft, target))
    return first, second


def _disjoint(draft: FloatArray, target: FloatArray) -> Rows:
    """Give even tokens to the target and odd ones to the draft; one token alone leaves the draft none."""
    odd = np.arange(draft.shape[-1]) % 2
    return draft * odd, target * (1 - odd)


def _equal(draft: FloatArray, target: FloatArray) -> Rows:
    target[:, : draft.shape[1]] = draft
    return draft, target


KINDS: dict[str, Callable[[FloatArray, FloatArray], Rows]] = {
    "random": _plain,
    "zeros": _zeros,
    "one-hot": _one_hot,
    "disjoint": _disjoint,
    "equal": _equal,
    "subnormal": _plain,
}
"""What is done to random weights; "subnormal" then replaces all tokens but the last by multiples of the smallest."""


def batch(
    kind: str, size: int, num_draft_tokens: int, vocab_size: int, *, dtype: str, seed: int, ragged: bool = False
) -> Batch:
    """Make the arguments of one call.

    Args:
        kind: A key of KINDS.
        size: Number B of rows.
        num_draft_tokens: Number G of drafted tokens.
        vocab_size: Number V of tokens.
        dtype: The arrays hold values of "float64", "float32", "bfloat16" or "float16".
        seed: Of the random numbers.
        ragged: Whether rows have draft lengths from 0 to G.

    Example:
        >>> batch("one-hot", 1, 0, 3, dtype="float16", seed=0).target_probs.max().item()
        1.0
    """
    rng = np.random.default_rng([seed, size, num_draft_tokens, vocab_size])
    draft, target = KINDS[kind](*(rng.random((size, n, vocab_size)) ** 4 + 1e-9 for n in _lengths(num_draft_tokens)))
    draft, target = (rows / np.maximum(rows.sum(axis=-1, keepdims=True), 1e-9) for rows in (draft, target))
    if kind == "subnormal":
        for rows in (draft, target):
            rows[..., :-1] = rng.integers(0, 4, rows[..., :-1].shape) * _TINY[dtype]
            rows[..., -1] = 1
    tokens = rng.integers(0, vocab_size, (size, num_draft_tokens))
    likely = target[:, :-1].argmax(axis=-1)  # where vocabularies are large, others are hardly ever accepted
    tokens = np.where(rng.random(tokens.shape) < 0.5, likely, tokens)
    accept, final = (_uniforms(rng, shape, UNIFORMS_DTYPE[dtype]) for shape in (tokens.shape, size))
    lengths = rng.integers(0, num_draft_tokens + 1, size) if ragged else np.full(size, num_draft_tokens)
    tokens[np.arange(num_draft_tokens) >= lengths[:, None]] = -1
    return Batch(tokens, rounded(draft, dtype, "probs"), rounded(target, dtype, "probs"), accept, final, lengths)


def _lengths(num_draft_tokens: int) -> tuple[int, int]:
    return num_draft_tokens, num_draft_tokens + 1


def _uniforms(rng: np.random.Generator, shape: Any, dtype: str) -> npt.NDArray[Any]:
    """Draw uniforms of which some are the smallest and some the largest that there is."""
    uniforms = rng.random(shape, dtype=np.dtype(dtype).type)
    ends = rng.random(shape)
    last = 1 - np.finfo(dtype).epsneg
    return np.where(ends < 0.1, 0, np.where(ends > 0.9, last, uniforms)).astype(dtype)


def tensors(given: Batch, device: str, dtype: str) -> Batch:
    """Return the batch as tensors on a device, its rows in a dtype that holds their values exactly."""
    import torch

    placed = [torch.from_numpy(array).to(device) for array in given]
    placed[1:3] = [rows.to(getattr(torch, dtype)) for rows in placed[1:3]]
    return Batch(*placed)


def on_tensors(kernel: Callable[..., Any], device: str, dtype: str = "float64") -> Kernel:
    """Return a torch kernel as one of NumPy arrays."""

    def numpy_kernel(
        draft_tokens: IntArray, draft_probs: FloatArray, target_probs: FloatArray, accept: FloatArray, final: FloatArray
    ) -> tuple[IntArray, IntArray]:
        given = Batch(draft_tokens, draft_probs, target_probs, accept, final, np.full(*draft_tokens.shape))
        num_accepted, next_token = kernel(*tensors(given, device, dtype))
        return num_accepted.cpu().numpy(), next_token.cpu().numpy()

    return numpy_kernel

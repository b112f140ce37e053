"""Every call gets randomness that follows from its seed alone, and leaves no trace in the global generators.

What a verifier asks for is made here: seeds, generators, uniforms. One that asks for nothing draws from the global
generators of ``random``, NumPy and torch: they are seeded for every call and put back in the end.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from specverify.arrays import IntArray

__all__ = ["Uniforms", "draw_uniforms", "global_randomness", "make_generator", "row_seeds", "seed_globals", "stream"]

UNIFORMS_DTYPE = {"float64": "float64", "float32": "float32", "bfloat16": "float32", "float16": "float32"}
"""Type of the uniforms for arrays of a dtype: 8 or 11 bits would make a correct sampler wrong, whatever it does."""

_GRID_BITS = {"float64": 53, "float32": 24}

# Tags of the streams that are derived from a call's seed. None is 0: SeedSequence([s, 0]) equals SeedSequence(s).
ROW_SEEDS, UNIFORMS, BONUS = 1, 2, 3

_saved = False


@dataclass(frozen=True)
class Uniforms:
    """Injected randomness: everything that an inverse-distribution verifier needs.

    Attributes:
        accept: Float [B, G] in [0, 1): uniform of each acceptance test.
        final: Float [B] in [0, 1): uniform of the replacement or bonus token.
    """

    accept: Any
    final: Any


def stream(seed: int, tag: int) -> np.random.Generator:
    """Make the kit's own generator for one purpose of one call, independent of the sampler's.

    Args:
        seed: The call's seed.
        tag: The purpose, 1 or more.
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, tag])))


def row_seeds(seed: int, rows: int) -> IntArray:
    """Draw one seed per row, uniform in [0, 2**31): int64 [rows].

    Example:
        >>> row_seeds(7, 3).tolist() == row_seeds(7, 3).tolist()
        True
    """
    return stream(seed, ROW_SEEDS).integers(0, 2**31, size=rows, dtype=np.int64)


def draw_uniforms(seed: int, rows: int, num_draft_tokens: int, dtype: str) -> Uniforms:
    """Draw uniforms in [0, 1) on the grid of UNIFORMS_DTYPE.

    Args:
        seed: The call's seed.
        rows: Number B of rows.
        num_draft_tokens: Number G of drafted tokens.
        dtype: Of the verifier's arrays: the grid is 2**-53 for "float64", else 2**-24, that of float32.

    Returns:
        Float64 arrays whose values the type of the uniforms holds exactly.

    Example:
        >>> draw_uniforms(0, 2, 3, "float16").accept.shape
        (2, 3)
    """
    cells = 2.0 ** _GRID_BITS[UNIFORMS_DTYPE[dtype]]
    numbers = np.floor(stream(seed, UNIFORMS).random((num_draft_tokens + 1, rows)) * cells) / cells
    return Uniforms(accept=np.ascontiguousarray(numbers[:-1].T), final=numbers[-1])


def make_generator(seed: int, framework: str, device: str) -> Any:
    """Make the freshly seeded generator of a call: NumPy's default generator, or torch's on the device.

    Example:
        >>> make_generator(5, "numpy", "cpu").random() == np.random.default_rng(5).random()
        True
    """
    if framework == "torch":
        import torch

        return torch.Generator(device=device).manual_seed(seed)
    return np.random.default_rng(seed)


def seed_globals(seed: int) -> None:
    """Seed the global generators of ``random``, NumPy and, once it is loaded, torch.

    Each gets a seed of its own: NumPy and torch run the same algorithm and would otherwise give the same numbers.

    Example:
        >>> with global_randomness():
        ...     seed_globals(3)
        ...     first = random.random()
        ...     seed_globals(3)
        ...     first == random.random()
        True
    """
    random.seed(_mixed(seed, 1))
    np.random.seed(_mixed(seed, 2))  # noqa: NPY002 - the legacy generator is the one to be controlled
    torch = sys.modules.get("torch")
    if torch is not None:
        # torch.manual_seed visits every kind of device and takes 100 microseconds.
        torch.default_generator.manual_seed(_mixed(seed, 3))
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(_mixed(seed, 4))


@contextmanager
def global_randomness() -> Iterator[None]:
    """Put the global generators back at the end as they were at the start, also after an error.

    Entered once around many calls it saves them some 50 microseconds each; entered again inside, it does nothing.

    Example:
        >>> before = random.getstate()
        >>> with global_randomness():
        ...     seed_globals(1)
        >>> random.getstate() == before
        True
    """
    global _saved
    if _saved:
        yield
        return
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch = sys.modules.get("torch")
    torch_state = None if torch is None else torch.get_rng_state()
    cuda_state = torch.cuda.get_rng_state_all() if torch is not None and torch.cuda.is_initialized() else None
    _saved = True
    try:
        yield
    finally:
        _saved = False
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(torch_state)
        if torch is not None and cuda_state is not None:
            torch.cuda.set_rng_state_all(cuda_state)


def _mixed(seed: int, tag: int) -> int:
    """Map a seed below 2**32 to 32 bits, for each tag one to one: distinct seeds stay distinct (MurmurHash3)."""
    word = (seed ^ (tag * 0x9E3779B9)) & 0xFFFFFFFF
    word = (word ^ (word >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    word = (word ^ (word >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return word ^ (word >> 16)

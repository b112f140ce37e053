"""Numbers as samplers meet them: logits with -inf, uniforms on the grid of a float type, rows that a type can hold."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from hypothesis import strategies as st

from specverify.arrays import FloatArray

from .arguments import chosen
from .strategies import Row, distributions

__all__ = ["logits", "representable", "uniforms"]

_LARGEST_SHIFT: Final = 50.0
_BITS: Final = {"float64": 53, "float32": 24, "bfloat16": 8, "float16": 11}  # of the significand


def logits(vocab_size: int, *, kind: str | None = None) -> st.SearchStrategy[FloatArray]:
    """Generate logits, the logarithms of a row of ``distributions`` moved by a constant.

    Args:
        vocab_size: Number V of tokens, 1 to 256.
        kind: Kind of the row, as for ``distributions``.

    Returns:
        A strategy for float64 [V]: -inf for tokens of probability 0, and at least one finite value. Examples shrink
        towards the log-probabilities of the simplest row.

    Raises:
        ConfigError: There would be no tokens or too many, or no such kind is known.

    Example:
        >>> from hypothesis import find
        >>> from specverify.properties import logits, reproducible
        >>> np.exp(find(logits(2), lambda row: True, settings=reproducible)).round(6).tolist()
        [0.6, 0.4]
    """
    shifts = st.floats(-_LARGEST_SHIFT, _LARGEST_SHIFT)
    return st.builds(_moved, distributions(vocab_size, kind=kind), shifts)


def uniforms(dtype: str = "float64") -> st.SearchStrategy[float]:
    """Generate uniforms as a generator of a float type gives them, the end points 0 and 1 - 2**-bits often.

    They are for code that draws in the type itself, such as a kernel that compares a bfloat16 uniform with a
    probability. What the kit hands to verifiers of 16 bits is another grid: float32 uniforms, ``uniforms("float32")``.

    Args:
        dtype: "float64", "float32", "float16" or "bfloat16", whose grids have steps of 2**-53, 2**-24, 2**-11, 2**-8.

    Returns:
        A strategy for floats in [0, 1) that are exact multiples of the step. Examples shrink towards 0.

    Raises:
        ConfigError: The type is unknown.

    Example:
        >>> from hypothesis import find
        >>> from specverify.properties import reproducible, uniforms
        >>> find(uniforms("bfloat16"), lambda u: u > 0.5, settings=reproducible)
        0.50390625
    """
    bits = chosen("dtype", dtype, _BITS)
    last = 2**bits - 1
    return st.one_of(st.integers(0, last), st.sampled_from((0, last))).map(lambda step: step * 2.0**-bits)


def representable(vocab_size: int, dtype: str) -> st.SearchStrategy[Row]:
    """Generate exact rows that a float type holds without rounding, so that what is handed over is what was meant.

    Args:
        vocab_size: Number V of tokens, 1 to 256.
        dtype: "float64", "float32", "float16" or "bfloat16".

    Returns:
        A strategy for tuples of V Fractions that are multiples of 2**-bits and sum to 1: rows of ``distributions``
        on that grid, so that very small probabilities are 0. Examples shrink as those do.

    Raises:
        ConfigError: There would be no tokens or too many, or the type is unknown.

    Example:
        >>> from hypothesis import find
        >>> from specverify.properties import representable, reproducible
        >>> [str(x) for x in find(representable(2, "bfloat16"), lambda row: True, settings=reproducible)]
        ['77/128', '51/128']
    """
    steps = 2 ** chosen("dtype", dtype, _BITS)
    return distributions(vocab_size).map(lambda row: _on_grid(row, steps))


def _moved(row: Sequence[Fraction], shift: float) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.array(row, dtype=np.float64)) + shift, dtype=np.float64)


def _on_grid(row: Sequence[Fraction], steps: int) -> Row:
    """Round down to the grid, and give what is left to the likeliest token."""
    low = [int(x * steps) for x in row]
    low[row.index(max(row))] += steps - sum(low)
    return tuple(Fraction(step, steps) for step in low)

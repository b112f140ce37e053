"""A correct sampler in finite precision is not exact: its tolerance class states the error that is forgiven.

The classes hold the worst total variation found for correct arithmetic of each kind at three vocabulary sizes. Uniforms
of 8 or 11 bits make tokens impossible that are not: that is a defect, never a class.
"""

from __future__ import annotations

__all__ = ["DEFAULT_TOLERANCE", "TIE_TOLERANCE", "TOLERANCES", "allowance"]

VOCAB_SIZES = (1000, 32000, 128256)

TOLERANCES: dict[str, tuple[float, float, float]] = {
    "exact": (2e-14, 1e-12, 4e-12),  # float64 or integer distribution function, 53-bit uniforms
    "f32-uniform": (1.1e-5, 4e-4, 1.3e-3),  # 24-bit uniforms, accurate distribution function
    "f32-cdf": (1.0e-5, 3.2e-4, 1.3e-3),  # float32 distribution function, fine uniforms
    "float32": (2.1e-5, 7.2e-4, 2.6e-3),  # both of them: the two rows added
    "bf16-probs": (7.3e-4, 8.0e-4, 7.1e-4),  # probabilities stored with 8 bits
}
"""Allowed total variation of each class at the sizes of VOCAB_SIZES."""

DEFAULT_TOLERANCE = {"float64": "exact", "float32": "float32", "bfloat16": "bf16-probs", "float16": "bf16-probs"}
"""The class that a dtype gets when none is declared."""


def allowance(name: str, vocab_size: int) -> float:
    """Give the total variation that a tolerance class forgives at a vocabulary size.

    Args:
        name: A key of TOLERANCES.
        vocab_size: Number of tokens, 1 or more.

    Returns:
        The value at the next larger size of the table; beyond the table it grows in proportion to the size.

    Example:
        >>> allowance("float32", 5), allowance("exact", 2 * 128256)
        (2.1e-05, 8e-12)
    """
    for size, value in zip(VOCAB_SIZES, TOLERANCES[name], strict=True):
        if vocab_size <= size:
            return value
    return TOLERANCES[name][-1] * vocab_size / VOCAB_SIZES[-1]


TIE_TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Relative difference of p and q within which rounding may decide whether p exceeds q, by dtype."""

"""In a low-precision dtype the law that counts is that of the rounded rows, exactly as they were handed over.

Rows are rounded once; drafts are then drawn from, and outputs compared with, the law of what the sampler really got.
NumPy has no bfloat16: such rows stay float32 arrays that hold bfloat16 values, and become bfloat16 in torch unchanged.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from specverify.arrays import FloatArray

__all__ = ["Form", "law_of", "rounded"]

Form = Literal["probs", "logits"]
"""Whether rows are handed over as probabilities or as log-probabilities."""


def rounded(rows: FloatArray, dtype: str, form: Form) -> npt.NDArray[Any]:
    """Round rows of probabilities as they are handed over.

    Args:
        rows: Probabilities float64 [..., V].
        dtype: "float64", "float32", "bfloat16" or "float16".
        form: "probs", or "logits" for log-probabilities (-inf for 0).

    Returns:
        An array of that dtype; bfloat16 values in a float32 array.

    Example:
        >>> rounded(np.array([0.3, 0.7]), "bfloat16", "probs").tolist()
        [0.30078125, 0.69921875]
    """
    if form == "logits":
        with np.errstate(divide="ignore"):
            rows = np.log(rows)
    return _bfloat16(rows) if dtype == "bfloat16" else rows.astype(dtype)


def law_of(handed: npt.NDArray[Any], form: Form) -> FloatArray:
    """Give the law float64 [..., V] of rounded rows: what the null hypothesis is then about.

    Args:
        handed: Rows as handed over, none of them all zero.
        form: "probs": divided by their sum; "logits": softmax. Both are computed in float64.

    Example:
        >>> law_of(np.array([0.25, 0.25], dtype=np.float16), "probs").tolist()
        [0.5, 0.5]
    """
    weights = handed.astype(np.float64)
    if form == "logits":
        weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
    law: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return law


def _bfloat16(rows: FloatArray) -> npt.NDArray[np.float32]:
    """Round to 8 significant bits, ties to even: add half a unit of the kept bits, less one where they are even."""
    bits = rows.astype(np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    kept = (bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)
    return kept.view(np.float32)

"""One spelling for the array types that the statistics layer and the engine exchange."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""Probabilities, p-values and evidence: float64."""

IntArray: TypeAlias = npt.NDArray[np.int64]
"""Token ids, counts and lengths: int64."""

BoolArray: TypeAlias = npt.NDArray[np.bool_]
"""Masks and decisions: bool."""

__all__ = ["BoolArray", "FloatArray", "IntArray"]

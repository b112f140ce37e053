"""Hypothesis strategies for targets and drafts, and the laws of verification as property tests over them.

``pytest --pyargs specverify.properties`` runs the laws; the strategies also serve property tests of one's own code.
"""

from .numerics import logits, representable, uniforms
from .profile import reproducible
from .sampling import SamplingParameters, sampling_parameters
from .strategies import Row, conditional_tables, distributions, float_pairs, pairs

__all__ = [
    "Row",
    "SamplingParameters",
    "conditional_tables",
    "distributions",
    "float_pairs",
    "logits",
    "pairs",
    "representable",
    "reproducible",
    "sampling_parameters",
    "uniforms",
]

"""Hypothesis strategies for targets and drafts, and the laws of verification as property tests over them.

``pytest --pyargs specverify.properties`` runs the laws; the strategies also serve property tests of one's own code.
"""

from .profile import reproducible
from .strategies import conditional_tables, distributions, float_pairs, pairs

__all__ = ["conditional_tables", "distributions", "float_pairs", "pairs", "reproducible"]

"""The kit's own token verifier compiled by numba: what the exact NumPy kernel gives for the same seed, faster."""

from __future__ import annotations

from typing import Any

import numba

from specverify.contract import verifier
from specverify.reference import verify_token_fast

__all__ = ["reference_fast"]


@verifier(name="reference-fast", rule="token", readonly=True, version=f"numba {numba.__version__}")
def reference_fast(
    draft_tokens: Any, num_draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int
) -> tuple[Any, Any]:
    """Verify each token on its own: accept with min(1, p/q), else draw from the residual (p - q)+."""
    return verify_token_fast(draft_tokens, draft_probs, target_probs, seed, 0, num_draft_tokens)

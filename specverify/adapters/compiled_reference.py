"""The kit's own token verifier compiled by torch: what the exact NumPy kernel gives for the same seed, faster."""

from __future__ import annotations

from typing import Any

import torch

from specverify.contract import verifier
from specverify.reference import verify_token_compiled

__all__ = ["reference_compiled"]


@verifier(
    name="reference-compiled", rule="token", framework="torch", readonly=True, version=f"torch {torch.__version__}"
)
def reference_compiled(
    draft_tokens: Any, num_draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int
) -> tuple[Any, Any]:
    """Verify each token on its own: accept with min(1, p/q), else draw from the residual (p - q)+."""
    return verify_token_compiled(draft_tokens, draft_probs, target_probs, seed, 0, num_draft_tokens)

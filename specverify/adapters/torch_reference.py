"""The kit's own samplers on torch tensors: what ``reference`` and ``reference-block`` draw, on any device and dtype."""

from __future__ import annotations

from typing import Any

import torch

from specverify.contract import verifier
from specverify.randomness import Uniforms
from specverify.reference import verify_block_torch, verify_token_torch

__all__ = ["reference_torch", "reference_torch_block"]

VERSION = f"torch {torch.__version__}"


@verifier(name="reference-torch", rule="token", framework="torch", readonly=True, version=VERSION)
def reference_torch(
    draft_tokens: Any, num_draft_tokens: Any, draft_probs: Any, target_probs: Any, uniforms: Uniforms
) -> tuple[Any, Any]:
    """Verify each token on its own: accept with min(1, p/q), else draw from the residual (p - q)+."""
    return verify_token_torch(
        draft_tokens, draft_probs, target_probs, uniforms.accept, uniforms.final, num_draft_tokens
    )


@verifier(name="reference-torch-block", rule="block", framework="torch", readonly=True, version=VERSION)
def reference_torch_block(
    draft_tokens: Any, num_draft_tokens: Any, draft_probs: Any, target_probs: Any, uniforms: Uniforms
) -> tuple[Any, Any]:
    """Verify the drafted block as one, which keeps no fewer tokens on average than the token rule."""
    return verify_block_torch(
        draft_tokens, draft_probs, target_probs, uniforms.accept, uniforms.final, num_draft_tokens
    )

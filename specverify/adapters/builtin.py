"""The kit's own samplers: the reference kernels as verifiers, and one that is wrong in the best-known way."""

from __future__ import annotations

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.contract import verifier
from specverify.randomness import Uniforms
from specverify.reference import verify_block, verify_token

__all__ = ["naive_redraw", "reference", "reference_block"]


@verifier(name="reference", rule="token", readonly=True)
def reference(
    draft_tokens: IntArray,
    num_draft_tokens: IntArray,
    draft_probs: FloatArray,
    target_probs: FloatArray,
    uniforms: Uniforms,
) -> tuple[IntArray, IntArray]:
    """Verify each token on its own: accept with min(1, p/q), else draw from the residual (p - q)+."""
    return verify_token(draft_tokens, draft_probs, target_probs, uniforms.accept, uniforms.final, num_draft_tokens)


@verifier(name="reference-block", rule="block", readonly=True)
def reference_block(
    draft_tokens: IntArray,
    num_draft_tokens: IntArray,
    draft_probs: FloatArray,
    target_probs: FloatArray,
    uniforms: Uniforms,
) -> tuple[IntArray, IntArray]:
    """Verify the drafted block as one, which keeps no fewer tokens on average than the token rule."""
    return verify_block(draft_tokens, draft_probs, target_probs, uniforms.accept, uniforms.final, num_draft_tokens)


@verifier(name="naive-redraw", rule="token", readonly=True)
def naive_redraw(
    draft_tokens: IntArray,
    num_draft_tokens: IntArray,
    draft_probs: FloatArray,
    target_probs: FloatArray,
    uniforms: Uniforms,
) -> tuple[IntArray, IntArray]:
    """Accept as the token rule does, then wrongly draw from the target itself where the residual is due (fault K02)."""
    accept, final = uniforms.accept, uniforms.final
    num_accepted, _ = verify_token(draft_tokens, draft_probs, target_probs, accept, final, num_draft_tokens)
    # A draft cut after its accepted tokens is accepted whole, and what follows is a draw from the target.
    always = np.zeros_like(accept)
    return verify_token(draft_tokens, draft_probs, target_probs, always, final, num_accepted)

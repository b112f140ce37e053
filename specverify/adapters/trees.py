"""The kit's own tree samplers: the reference kernels for several drafts per position as verifiers."""

from __future__ import annotations

from specverify.arrays import FloatArray, IntArray
from specverify.contract import verifier
from specverify.randomness import Uniforms
from specverify.reference import verify_rrs, verify_target_only

__all__ = ["reference_rrs", "reference_target_only"]


@verifier(name="reference-rrs", rule="rrs", readonly=True)
def reference_rrs(
    parents: IntArray, draft_tokens: IntArray, draft_probs: FloatArray, target_probs: FloatArray, uniforms: Uniforms
) -> IntArray:
    """Test the siblings in turn, each against what its earlier ones left of the target."""
    return verify_rrs(parents, draft_tokens, draft_probs, target_probs, uniforms.accept, uniforms.final)


@verifier(name="reference-target-only", rule="target_only", readonly=True)
def reference_target_only(
    parents: IntArray, draft_tokens: IntArray, target_probs: FloatArray, uniforms: Uniforms
) -> IntArray:
    """Take the first of the distinct siblings at which the summed target exceeds the level's one coin."""
    return verify_target_only(parents, draft_tokens, target_probs, uniforms.accept, uniforms.final)

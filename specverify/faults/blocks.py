"""Faults of the block rule: joint weights, chances and replacements that do not belong together."""

from __future__ import annotations

from specverify.faults.edits import Array, BlockEdit, residual
from specverify.faults.record import Fault

__all__ = ["FAULTS"]


def _weight_itself(w: Array, p: Array, q: Array) -> Array:  # noqa: ARG001
    return w


def _token_residual(w: Array, p: Array, q: Array) -> Array:  # noqa: ARG001
    return residual(p, q)


FAMILY = "the family of block rules; see K27c"

FAULTS = (
    Fault(
        "K27a",
        "block_uncapped",
        "multiplies the ratios p/q along the block without cutting the product to 1 at every position",
        "the output is then right only if the rounds after it sample from a corrected target, which engines do not do",
        "cut the running product: w = min(1, w p/q)",
        exposed_by="two drafts",
        hidden_by="one draft, and counts of tokens per round, which even reach the bound",
        provenance=FAMILY,
        edit=BlockEdit(capped=False),
    ),
    Fault(
        "K27b",
        "block_h_equals_w",
        "keeps a prefix with the joint weight w itself, not with Z / (Z + 1 - w)",
        "that a longer prefix may still be kept is not allowed for, so that prefixes are kept too often",
        "compute Z = sum (w p - q)+ after the prefix and keep it with Z / (Z + 1 - w), except at the last position",
        exposed_by="two drafts",
        hidden_by="one draft",
        provenance=FAMILY,
        edit=BlockEdit(chance=_weight_itself),
    ),
    Fault(
        "K27c",
        "block_token_residual_cumulative",
        "tests the joint weight w at every position, and replaces from the token rule's residual (p - q)+",
        "two rules are mixed: a test of the whole prefix needs the residual (w p - q)+ and the chance that goes "
        "with it",
        "take either the token rule or the block rule, in all of its parts",
        exposed_by="two drafts",
        hidden_by="one draft, and the joint distance alone, which K27b shares on many inputs",
        provenance="vllm-project/vllm-ascend#7807, vllm-project/vllm-ascend#7808",
        edit=BlockEdit(chance=_weight_itself, replace=_token_residual),
    ),
    Fault(
        "K27d",
        "block_break",
        "stops at the first position that fails",
        "in the block rule a later success rescues the positions before it; the chances count on that",
        "look at every position and keep the last success",
        exposed_by="two drafts",
        hidden_by="one draft",
        edit=BlockEdit(stops=True),
    ),
    Fault(
        "K27e",
        "block_token_residual",
        "keeps prefixes by the block rule, but replaces from the token rule's residual (p - q)+",
        "what is owed after a prefix of joint weight w is (w p - q)+, which has another shape",
        "scale the target row by the joint weight before subtracting the draft row",
        exposed_by="two drafts and rows that depend on the context, after a prefix with w < 1",
        hidden_by="one draft, and rows that ignore the context",
        edit=BlockEdit(replace=_token_residual),
    ),
)
"""The faults of this family."""

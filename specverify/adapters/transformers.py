"""Hugging Face transformers: the verification step of assisted generation, called as ``generate`` calls it."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers.generation.utils import _speculative_sampling

from specverify.contract import verifier

__all__ = ["speculative_sampling"]


@verifier(
    name="transformers",
    rule="token",
    framework="torch",
    dtype="float32",
    max_batch=1,
    version=f"transformers {transformers.__version__}, torch {torch.__version__}",
)
def speculative_sampling(draft_tokens: Any, draft_logits: Any, target_logits: Any) -> Any:
    """Run transformers.generation.utils._speculative_sampling on one sequence.

    Args:
        draft_tokens: int64 tensor [1, G].
        draft_logits: float32 tensor [1, G, V].
        target_logits: float32 tensor [1, G + 1, V].

    Returns:
        int64 tensor [1, n + 1]: the n accepted tokens and one more.
    """
    # One prompt token: the function slices the last G ids, and for G = 0 that slice is the whole prompt.
    prompt = draft_tokens.new_zeros((1, 1))
    candidate_ids = torch.cat((prompt, draft_tokens), dim=1)
    tokens, _ = _speculative_sampling(candidate_ids, draft_logits, draft_tokens.shape[1], target_logits)
    return tokens

"""SGLang: the Triton kernel that verifies chains of drafts, called as its workers call it.

On a GPU it is compiled. Without one it runs in Triton's interpreter, where TRITON_INTERPRET=1 is set before the start.
All rows of a call have drafts of one length. The coins are injected, and the kernel draws the bonus token.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import torch
from torch.nn.functional import pad

from specverify.adapters.alone import load_alone, versions
from specverify.contract import verifier
from specverify.randomness import Uniforms

__all__ = ["chain", "chain_block"]

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
ENGINE = load_alone("sglang", "kernels/ops/speculative/reject_sampling.py", "pip install --no-deps sglang==0.5.23")
DECLARED: dict[str, Any] = {
    "framework": "torch",
    "device": "cpu" if INTERPRETED else "cuda",
    "dtype": "float32",
    "max_batch": 4 if INTERPRETED else None,  # a row takes some 30 ms there
    "version": versions("sglang", "triton") + (", interpreted" if INTERPRETED else ""),
}


def _verified(
    draft_tokens: Any, draft_probs: Any, target_probs: Any, uniforms: Uniforms, *, block: bool = False
) -> Any:
    """Run chain_speculative_sampling_triton; slot 0 of each of its rows is the token before the drafts.

    Args:
        draft_tokens: int64 tensor [B, G].
        draft_probs: float32 tensor [B, G, V].
        target_probs: float32 tensor [B, G + 1, V].
        uniforms: float32 tensors [B, G] and [B].
        block: Verify by the block rule.

    Returns:
        int32 tensor [B, G + 1]: the accepted tokens and one more, then -1.
    """
    batch, width = target_probs.shape[:2]
    slots = torch.arange(batch * width, device=draft_tokens.device).view(batch, width)
    predicts, index = slots.flatten().int().fill_(-1), slots.int().fill_(-1)
    accepted = predicts.new_zeros(batch)
    candidates, coins = pad(draft_tokens, (1, 0)), pad(uniforms.accept, (0, 1))  # one coin for each slot, as there
    links, unused = (slots, slots, slots), (1.0, 1.0, True)  # the kernel reads the first of the links alone
    given = candidates, *links, coins, uniforms.final, target_probs, draft_probs
    ENGINE.chain_speculative_sampling_triton(predicts, index, accepted, *given, *unused, block_verification=block)
    return predicts.view(batch, width).where(slots - slots[:, :1] <= accepted[:, None], -1)


chain = verifier(name="sglang-chain", rule="token", **DECLARED)(_verified)
chain_block = verifier(name="sglang-chain-block", rule="block", **DECLARED)(partial(_verified, block=True))

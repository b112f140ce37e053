"""SGLang: the Triton kernel that verifies chains of drafts, called as its workers call it.

On a GPU it is compiled. Without one it runs in Triton's interpreter, where TRITON_INTERPRET=1 is set before the start.
All rows of a call have drafts of one length. The coins are injected, and the kernel draws the bonus token.
"""

from __future__ import annotations

import os
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
    "version": versions("sglang", "triton") + (", interpreted" if INTERPRETED else ""),
}


@verifier(name="sglang-chain", rule="token", **DECLARED)
def chain(draft_tokens: Any, draft_probs: Any, target_probs: Any, uniforms: Uniforms) -> Any:
    """Run chain_speculative_sampling_triton: int64 [B, G], float32 [B, G, V] and [B, G + 1, V] to tokens [B, G + 1]."""
    return _verified(draft_tokens, draft_probs, target_probs, uniforms, block=False)


@verifier(name="sglang-chain-block", rule="block", **DECLARED)
def chain_block(draft_tokens: Any, draft_probs: Any, target_probs: Any, uniforms: Uniforms) -> Any:
    """Run the same kernel with block_verification."""
    return _verified(draft_tokens, draft_probs, target_probs, uniforms, block=True)


def _verified(draft_tokens: Any, draft_probs: Any, target_probs: Any, uniforms: Uniforms, *, block: bool) -> Any:
    """Pack a batch for the kernel, whose slot 0 is the token before the drafts; give its tokens, -1 after the last."""
    batch, width = target_probs.shape[:2]
    new = draft_tokens.new_full
    slots = torch.arange(batch * width, device=draft_tokens.device).view(batch, width)
    predicts, index = new((batch * width,), -1, dtype=torch.int32), new((batch, width), -1, dtype=torch.int32)
    accepted = new((batch,), 0, dtype=torch.int32)
    candidates, coins = pad(draft_tokens, (1, 0)), pad(uniforms.accept, (0, 1))  # one coin for each slot, as there
    links, unused = (slots, slots, slots), (1.0, 1.0, True)  # the kernel reads the first of the links alone
    given = candidates, *links, coins, uniforms.final, target_probs, draft_probs
    ENGINE.chain_speculative_sampling_triton(predicts, index, accepted, *given, *unused, block_verification=block)
    written = torch.arange(width, device=draft_tokens.device) <= accepted[:, None]
    return predicts.view(batch, width).where(written, -1)

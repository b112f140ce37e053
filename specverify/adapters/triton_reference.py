"""The kit's own token verifier as a Triton kernel: what the exact NumPy kernel gives for the same seed, on a GPU.

Without one it runs in Triton's interpreter, a row in milliseconds, where TRITON_INTERPRET=1 is set before the start.
"""

from __future__ import annotations

import os
from typing import Any

import triton

from specverify.contract import verifier
from specverify.reference import verify_token_triton

__all__ = ["reference_triton"]

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@verifier(
    name="reference-triton",
    rule="token",
    framework="torch",
    device="cpu" if INTERPRETED else "cuda",
    readonly=True,
    version=f"triton {triton.__version__}{', interpreted' if INTERPRETED else ''}",
)
def reference_triton(
    draft_tokens: Any, num_draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int
) -> tuple[Any, Any]:
    """Verify each token on its own: accept with min(1, p/q), else draw from the residual (p - q)+."""
    return verify_token_triton(draft_tokens, draft_probs, target_probs, seed, 0, num_draft_tokens)

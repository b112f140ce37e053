"""LMDeploy: the rejection sampler of its default backend, in torch, called as its speculative agent calls it.

All rows of a call have drafts of one length. It draws from torch's global generator; its caller draws the bonus token.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Generic, TypeVar

from specverify.adapters.alone import load_alone, stand_in, standing_in, versions
from specverify.contract import verifier

__all__ = ["rejection_sampling"]

INSTALL = "pip install --no-deps lmdeploy==0.18.0"
T = TypeVar("T")


class BuildSpec(Generic[T]):
    """Stands for the base of a class that is not used here; its own module needs the whole engine."""


def _engine() -> ModuleType:
    """Load the sampler and the interface that it names, without the packages around them."""
    with standing_in({"lmdeploy.pytorch.backends.base": stand_in("base", BuildSpec=BuildSpec)}):
        interface = load_alone("lmdeploy", "pytorch/backends/rejection_sampling.py", INSTALL)
    with standing_in({interface.__name__: interface}):
        return load_alone("lmdeploy", "pytorch/backends/default/rejection_sampling.py", INSTALL)


SAMPLER = _engine().DefaultRejectionSamplingImpl()


@verifier(name="lmdeploy", rule="token", framework="torch", dtype="float32", version=versions("lmdeploy", "torch"))
def rejection_sampling(draft_tokens: Any, draft_probs: Any, target_logits: Any, bonus_tokens: Any) -> Any:
    """Run DefaultRejectionSamplingImpl.forward on a batch that samples throughout.

    Args:
        draft_tokens: int64 tensor [B, G].
        draft_probs: float32 tensor [B, G, V].
        target_logits: float32 tensor [B, G + 1, V]; the sampler gets the rows of the drafts, not the one of the bonus.
        bonus_tokens: int64 tensor [B].

    Returns:
        int64 tensor [B, G + 1]: the accepted tokens and one more, then -1.
    """
    rows = target_logits[:, :-1]
    tokens, _, _ = SAMPLER.forward(rows, draft_tokens, bonus_tokens, is_greedy=None, draft_probs=draft_probs)
    return tokens

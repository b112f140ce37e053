"""Trees on torch: an independent sampler conforms in every dtype, whatever form of the rows it asks for."""

from typing import Any

import pytest

from specverify.checking import check
from specverify.contract import Verifier, verifier

torch = pytest.importorskip("torch")

LAWS = ["SV-TOK-001", "SV-JNT-001", "SV-LEN-001", "SV-RUL-001", "SV-SUP-001", "SV-RPL-001"]


def settle(parents: Any, tokens: Any, draft: Any, target: Any, generator: Any) -> Any:
    """Test the nodes in their order, every row standing at one of them."""
    rows, depth = torch.arange(len(tokens)), [0] * len(parents)
    at, length = torch.full((len(tokens),), -1), torch.zeros(len(tokens), dtype=torch.long)
    out = torch.full((len(tokens), len(parents) + 1), -1)
    left = target[:, 0].clone()
    for node, parent in enumerate(parents.tolist()):
        depth[node] = 1 + (depth[parent] if parent >= 0 else 0)
        x, s, here = tokens[:, node], draft[:, node], at == parent
        passed = here & (torch.rand(len(rows), generator=generator) * s[rows, x] < left[rows, x])
        out[passed, length[passed]] = x[passed]
        length, at = length + passed.long(), torch.where(passed, node, at)
        rest = (left - s).clamp(min=0)
        total = rest.sum(dim=1, keepdim=True)
        rest = torch.where(total > 0, rest / total.where(total > 0, 1), left)
        left = torch.where(passed[:, None], target[:, node + 1], torch.where((here & ~passed)[:, None], rest, left))
    out[rows, length] = torch.multinomial(left, 1, generator=generator)[:, 0]
    return out[:, : max(depth) + 1]


@verifier(name="probs", rule="rrs", framework="torch", dtype="float32")
def probs(parents: Any, draft_tokens: Any, draft_probs: Any, target_probs: Any, generator: Any) -> Any:
    """Take probabilities."""
    return settle(parents, draft_tokens, draft_probs, target_probs, generator)


@verifier(name="logits", rule="rrs", framework="torch", dtype="float64")
def logits(parents: Any, draft_tokens: Any, draft_logits: Any, target_logits: Any, generator: Any) -> Any:
    """Take log-probabilities."""
    return settle(parents, draft_tokens, draft_logits.exp(), target_logits.exp(), generator)


@verifier(name="bfloat16", rule="rrs", framework="torch", dtype="bfloat16")
def coarse(parents: Any, draft_tokens: Any, draft_probs: Any, target_probs: Any, generator: Any) -> Any:
    """Take rows of eight bits, and work on the laws that they are."""
    draft, target = draft_probs.double(), target_probs.double()
    draft, target = (rows / rows.sum(dim=-1, keepdim=True) for rows in (draft, target))
    return settle(parents, draft_tokens, draft, target, generator)


@verifier(name="writes", framework="torch", mutates=("draft_probs", "target_probs"))
def writes(parents: Any, draft_tokens: Any, draft_probs: Any, target_probs: Any, generator: Any) -> Any:
    """Overwrite what it was given."""
    found = settle(parents, draft_tokens, draft_probs, target_probs, generator)
    draft_probs.zero_()
    target_probs.zero_()
    return found


@pytest.mark.parametrize("sampler", [probs, logits, coarse, writes], ids=lambda sampler: str(sampler.name))
def test_torch_samplers_conform(sampler: Verifier) -> None:
    """Laws, support and replay hold, and nothing is warned about."""
    report = check(sampler, samples=1200, target_tv=0.4, only=LAWS)
    assert report.verdict == "conformant"
    assert report.document["warnings"] == []


def test_what_is_overwritten_without_being_declared_is_warned_about() -> None:
    """The arguments are private, so that nothing else is harmed."""
    report = check(verifier(name="writes", framework="torch")(writes.function), samples=50, only=["SV-TOK-001"])
    assert report.document["warnings"][-2:] == [
        "writes changed its argument draft_probs without mutates=(...)",
        "writes changed its argument target_probs without mutates=(...)",
    ]

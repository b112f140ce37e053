"""A sampler that works on CUDA tensors gets the same verdict as the same code on the CPU.

The samplers are a batched token verifier, written as engines write it, with a generator on the device; its naive
redraw, which must fail; and the verification step of transformers.
"""

from importlib.util import find_spec
from typing import Any

import pytest

from specverify import verifier
from specverify.contract import Verifier
from specverify.gpu_tests import checked, devices, failing, moved
from specverify.registry import load

dtypes = pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])


def token_verifier(device: str, *, redraw: bool = False) -> Verifier:
    """Make a batched token verifier on a device; with ``redraw`` it replaces from the target itself (fault K02)."""
    import torch

    @verifier(name=f"torch-{device}", rule="token", framework="torch", device=device, dtype="float32")
    def verify(draft_tokens: Any, draft_probs: Any, target_probs: Any, generator: Any) -> Any:
        size, gamma = draft_tokens.shape
        drafted = draft_tokens[..., None]
        p, q = (rows.gather(2, drafted)[..., 0] for rows in (target_probs[:, :gamma], draft_probs))
        coins = torch.rand((size, gamma), generator=generator, device=device)
        num_accepted = (coins * q < p).cumprod(1).sum(1)
        row = torch.arange(size, device=device)
        target = target_probs[row, num_accepted].double()  # exact: 16 bits would round the residual
        padded = torch.nn.functional.pad(draft_probs, (0, 0, 0, 1))  # after the last draft the residual is the target
        residual = target if redraw else (target - padded[row, num_accepted]).clamp(min=0)
        weights = torch.where(residual.any(1, keepdim=True), residual, target)  # rounding may leave no residual
        cumulative = weights.cumsum(1)
        point = torch.rand((size, 1), generator=generator, device=device, dtype=torch.float64) * cumulative[:, -1:]
        return num_accepted, torch.searchsorted(cumulative, point, right=True)[:, 0]

    return verify


@devices
@dtypes
def test_a_correct_verifier_passes_every_check(device: str, dtype: str) -> None:
    """The token verifier is run to the end and passes all that applies to it."""
    report = checked(moved(token_verifier(device), device, dtype), brief=500)
    assert failing(report) == []
    assert report.document["sampler"]["device"] == device
    assert "token" in report.rule["not_rejected"]


@devices
@dtypes
def test_its_naive_redraw_is_nonconformant(device: str, dtype: str) -> None:
    """The same code with a redraw from the target is nonconformant, and the report says what is wrong."""
    report = checked(moved(token_verifier(device, redraw=True), device, dtype), brief=2000)
    assert (report.verdict, report.lossless) == ("nonconformant", False)
    assert report.diagnosis[0]["fault"] == "K02"


@devices
@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed: specverify[transformers]")
def test_transformers_passes_every_check(device: str) -> None:
    """The verification step of transformers passes on tensors of the device, one row a call.

    It is run in float32 alone, to which transformers itself converts the scores that it verifies.
    """
    report = checked(moved(load("transformers"), device, "float32"), brief=50, samples=1000)
    assert failing(report) == []
    assert report.document["sampler"]["device"] == device

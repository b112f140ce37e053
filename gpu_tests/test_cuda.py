"""A sampler that works on CUDA tensors gets the same verdict as the same code on the CPU.

The sampler is a batched float32 token verifier, written as engines write it, with a generator on the device.
"""

import dataclasses
from importlib.util import find_spec
from typing import Any

import pytest

from specverify import Report, check, verifier
from specverify.checks import CATALOGUE
from specverify.contract import Verifier
from specverify.registry import load

ALPHA = 1e-10  # of finding fault with a correct sampler, whatever the seed


def has_cuda() -> bool:
    """Say whether torch is installed and sees a CUDA device; the module itself never needs torch."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: specverify[torch]")
needs_cuda = pytest.mark.skipif(not has_cuda(), reason="torch sees no CUDA device")
devices = pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=needs_torch), pytest.param("cuda", marks=needs_cuda)]
)


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
        target = target_probs[row, num_accepted]
        padded = torch.nn.functional.pad(draft_probs, (0, 0, 0, 1))  # after the last draft the residual is the target
        residual = target if redraw else (target - padded[row, num_accepted]).clamp(min=0)
        weights = torch.where(residual.any(1, keepdim=True), residual, target)  # rounding may leave no residual
        cumulative = weights.double().cumsum(1)
        point = torch.rand((size, 1), generator=generator, device=device, dtype=torch.float64) * cumulative[:, -1:]
        return num_accepted, torch.searchsorted(cumulative, point, right=True)[:, 0]

    return verify


def run(sampler: Verifier, *, samples: int) -> Report:
    """Check a sampler: in full on CUDA; on the CPU so many rows and no replays, to see that the code works."""
    if sampler.device == "cuda":
        return check(sampler, alpha=ALPHA, samples=1000 if sampler.max_batch == 1 else None)
    laws = [name for name in CATALOGUE if not name.startswith(("SV-RPL", "SV-IND"))]
    return check(sampler, alpha=ALPHA, samples=samples, only=laws)


def failing(report: Report) -> list[str]:
    """Return the checks that applied and did not pass."""
    return [entry["id"] for entry in report.checks if entry["status"] not in ("passed", "not_applicable")]


@devices
def test_a_correct_verifier_passes_every_check(device: str) -> None:
    """The token verifier is run to the end and passes all that applies to it."""
    report = run(token_verifier(device), samples=500)
    assert failing(report) == []
    assert report.document["sampler"]["device"] == device
    assert "token" in report.rule["not_rejected"]


@devices
def test_its_naive_redraw_is_nonconformant(device: str) -> None:
    """The same code with a redraw from the target is nonconformant, and the report says what is wrong."""
    report = run(token_verifier(device, redraw=True), samples=2000)
    assert (report.verdict, report.lossless) == ("nonconformant", False)
    assert report.diagnosis[0]["fault"] == "K02"


@devices
@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed: specverify[transformers]")
def test_transformers_passes_every_check(device: str) -> None:
    """The verification step of transformers' assisted generation passes on tensors of the device, one row a call."""
    report = run(dataclasses.replace(load("transformers"), device=device), samples=50)
    assert failing(report) == []
    assert report.document["sampler"]["device"] == device

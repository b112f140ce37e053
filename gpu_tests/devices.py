"""Every test of this suite runs on each device: in full on CUDA, briefly on the CPU; what is missing is named once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from importlib.util import find_spec

import pytest

from specverify import Case, Report, check
from specverify.contract import Verifier
from specverify.menu import menu
from specverify.tolerance import DEFAULT_TOLERANCE

__all__ = ["checked", "devices", "failing", "moved", "needs_cuda", "needs_torch"]

ALPHA = 1e-10  # of finding fault with a correct sampler, whatever the seed
BRIEF = ("AB", "zeros", "W402")  # the built-in cases that are run where the device is not CUDA


def has_cuda() -> bool:
    """Say whether torch is installed and sees a CUDA device; collecting the suite never needs torch."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: specverify[torch]")
needs_cuda = pytest.mark.skipif(not has_cuda(), reason="torch sees no CUDA device")
devices = pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=needs_torch), pytest.param("cuda", marks=needs_cuda)]
)


def moved(sampler: Verifier, device: str, dtype: str) -> Verifier:
    """Return a torch sampler as one of another device and dtype, with the tolerance class of that dtype.

    Example:
        >>> from specverify import verifier
        >>> half = moved(verifier(framework="torch")(lambda draft_tokens: draft_tokens), "cuda", "float16")
        >>> half.device, half.dtype, half.tolerance
        ('cuda', 'float16', 'bf16-probs')
    """
    return dataclasses.replace(sampler, device=device, dtype=dtype, tolerance=DEFAULT_TOLERANCE[dtype])


def checked(
    sampler: Verifier, *, brief: int, cases: Sequence[Case] | None = None, samples: int | None = None
) -> Report:
    """Check a sampler: in full on CUDA; elsewhere on a few cases and rows, to see that the code works.

    Args:
        sampler: The sampler, on its device.
        brief: Rows of every case where the device is not CUDA.
        cases: Cases in place of the built-in ones.
        samples: Rows of every case on CUDA in place of those of the profile.
    """
    if sampler.device == "cuda":
        return check(sampler, alpha=ALPHA, cases=cases, samples=samples)
    few = [case for case in menu() if case.name in BRIEF]
    return check(sampler, alpha=ALPHA, cases=cases or few, samples=brief)


def failing(report: Report) -> list[str]:
    """Return the checks that applied and did not pass."""
    return [entry["id"] for entry in report.checks if entry["status"] not in ("passed", "not_applicable")]

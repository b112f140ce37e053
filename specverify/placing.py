"""Arrays of the kit become what a sampler takes: its framework, on its device, in its float type."""

from __future__ import annotations

import sys
from typing import Any

import numpy.typing as npt

from specverify.contract import Verifier
from specverify.errors import ContractError, SamplerLoadError
from specverify.randomness import make_generator
from specverify.wording import brief, told

__all__ = ["Placed", "require_device"]


class Placed:
    """Moves private arrays to a sampler's framework and device, and floats to its float type.

    Args:
        verifier: The sampler.

    Example:
        >>> import numpy as np
        >>> from specverify.contract import verifier
        >>> Placed(verifier(dtype="float32")(lambda draft_tokens: None))(np.array([0.5])).dtype
        dtype('float32')
    """

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier

    def __call__(self, array: npt.NDArray[Any], floats: str | None = None) -> Any:
        """Move an array; ``floats`` is another float type than the sampler's."""
        floats = floats or self._verifier.dtype
        if self._verifier.framework == "numpy":
            return array.astype(floats, copy=False) if array.dtype.kind == "f" else array
        import torch

        dtype = getattr(torch, floats) if array.dtype.kind == "f" else torch.int64
        return torch.from_numpy(array).to(device=self._verifier.device, dtype=dtype)


def require_device(verifier: Verifier) -> None:
    """Raise a one-line error unless a sampler's framework is installed and can use its device.

    Raises:
        SamplerLoadError: It works on tensors, and torch is not installed.
        ContractError: Torch cannot use its device.
    """
    if verifier.framework == "numpy":
        return
    try:
        import torch
    except ImportError:
        raise SamplerLoadError(
            f"{verifier.kind} {brief(verifier.name)} needs torch, which is not installed: "
            f"install torch in this environment"
        ) from None
    try:
        torch.empty(1, device=verifier.device).cpu()  # the device "meta" can make, but not give back
        if "generator" in verifier.asks:
            make_generator(0, "torch", verifier.device)
    except Exception as error:  # each device has errors of its own
        interpreter = verifier.device == "cuda" and "triton" in sys.modules
        hint = ", or set TRITON_INTERPRET=1 for Triton's interpreter" if interpreter else ""
        raise ContractError(
            f"{verifier.kind} {brief(verifier.name)}: expected a device that torch can use here, got "
            f"{brief(verifier.device)} ({told(error, 200)}); declare one that it has{hint}"
        ) from None

"""What needs a CUDA device: kernels that agree with the CPU bit for bit, and samplers on the device that conform.

``pytest --pyargs specverify.gpu_tests`` runs it. Every test runs on the CPU too, briefly, so that its code is known to
work; without a CUDA device that is all, and the rest is skipped.
"""

from .devices import checked, devices, failing, moved, needs_cuda, needs_torch
from .inputs import KINDS, Batch, batch, on_tensors, tensors

__all__ = [
    "KINDS",
    "Batch",
    "batch",
    "checked",
    "devices",
    "failing",
    "moved",
    "needs_cuda",
    "needs_torch",
    "on_tensors",
    "tensors",
]

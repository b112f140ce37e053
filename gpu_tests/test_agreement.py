"""The torch kernels draw on a device what the NumPy kernels draw from the same uniforms, bit for bit.

NumPy has no bfloat16 and gets the same values in float32. A proof by cells ties the device to the rules themselves.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import specverify.reference
from specverify.gpu_tests import KINDS, Batch, batch, devices, on_tensors, tensors
from specverify.menu import menu
from specverify.reference import RULES, Kernel, cell_proof

RULES_ON_TORCH = ("token", "block")
SIZES = {"cpu": (2, 16, 3, 4096), "cuda": (16, 64, 2, 131072)}
"""Parts, rows of each, G and V of the largest batch on a device: on CUDA 2.7 GB of float32 rows, twice while joined."""

rules = pytest.mark.parametrize("rule", RULES_ON_TORCH)
dtypes = pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])


def kernels(rule: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the NumPy and the torch kernel of a rule; torch is imported only now."""
    return getattr(specverify.reference, f"verify_{rule}"), getattr(specverify.reference, f"verify_{rule}_torch")


def compared(rule: str, given: Batch, device: str, dtype: str) -> Any:
    """Compare the kernels on a batch, and return the accepted counts."""
    on_cpu, on_device = kernels(rule)
    expected = on_cpu(*given)
    found = on_device(*tensors(given, device, dtype))
    for array, tensor in zip(expected, found, strict=True):
        assert tensor.device.type == device
        assert np.array_equal(array, tensor.cpu().numpy())
    return expected[0]


@devices
@rules
@dtypes
def test_every_kind_of_batch_agrees(device: str, rule: str, dtype: str) -> None:
    """Zeros, single tokens, disjoint, equal and subnormal rows, drafts of every length: the same tokens."""
    counts = []
    for seed, kind in enumerate(KINDS):
        for vocab_size in (1, 2, 5, 1000):
            given = batch(kind, 64, 4, vocab_size, dtype=dtype, seed=seed, ragged=True)
            counts.append(compared(rule, given, device, dtype))
    assert set(np.concatenate(counts).tolist()) == {0, 1, 2, 3, 4}


@devices
@rules
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_large_vocabularies_in_large_batches_agree(device: str, rule: str, dtype: str) -> None:
    """On CUDA one call of 1024 rows of 131072 tokens gives what NumPy gives part by part, which spares the host."""
    import torch

    parts, *shape = SIZES[device]
    on_cpu, on_device = kernels(rule)
    expected, placed = [], []
    for seed in range(parts):
        given = batch("random", *shape, dtype=dtype, seed=seed)
        expected.append(on_cpu(*given))
        placed.append(tensors(given, device, dtype))
    found = on_device(*(torch.cat(arguments) for arguments in zip(*placed, strict=True)))
    for arrays, tensor in zip(zip(*expected, strict=True), found, strict=True):
        assert len(set(tensor.tolist())) > 1
        assert np.array_equal(np.concatenate(arrays), tensor.cpu().numpy())


@devices
@dtypes
def test_a_seed_gives_the_same_tokens_everywhere(device: str, dtype: str) -> None:
    """The stream of random words and the tokens drawn from it are those of NumPy, also where trials need 64 bits."""
    for seed, kind in enumerate(KINDS):
        given = batch(kind, 64, 4, 300, dtype=dtype, seed=seed, ragged=True)
        expected = specverify.reference.verify_token_seeded(*given[:3], seed, 2**40 - 30, given.num_draft_tokens)
        placed = tensors(given, device, dtype)
        kernel = specverify.reference.verify_token_seeded_torch
        found = kernel(*placed[:3], seed, 2**40 - 30, placed.num_draft_tokens)
        for array, tensor in zip(expected, found, strict=True):
            assert tensor.device.type == device
            assert np.array_equal(array, tensor.cpu().numpy())


@devices
@rules
@pytest.mark.parametrize("name", ["AB4", "C3", "zeros", "disjoint", "W402", "W637"])
def test_the_device_follows_the_rule_in_every_cell(device: str, rule: str, name: str) -> None:
    """No point of any cell of the uniforms' cube disagrees with the rule on a built-in case."""
    case = next(case for case in menu() if case.name == name)
    kernel: Kernel = on_tensors(kernels(rule)[1], device)
    proof = cell_proof(RULES[rule], kernel, case.target_row, case.draft_row, case.num_draft_tokens)
    assert proof.cells > 3
    assert proof.disagreements == 0

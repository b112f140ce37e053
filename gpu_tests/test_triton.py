"""The Triton kernel gives the tokens of NumPy on a CUDA device, for every type of array and up to large batches.

On the CPU it runs in Triton's interpreter alone, which the kit's own tests do.
"""

import numpy as np
import pytest

import specverify.reference
from specverify.gpu_tests import KINDS, Batch, batch, needs_cuda, tensors

pytestmark = [needs_cuda]


def compared(given: Batch, dtype: str, seed: int) -> None:
    """Compare one batch."""
    pytest.importorskip("triton", reason="needs triton")
    expected = specverify.reference.verify_token_seeded(*given[:3], seed, 2**32 - 9, given.num_draft_tokens)
    placed = tensors(given, "cuda", dtype)
    kernel = specverify.reference.verify_token_triton
    found = kernel(*placed[:3], seed, 2**32 - 9, placed.num_draft_tokens)
    for array, tensor in zip(expected, found, strict=True):
        assert tensor.device.type == "cuda"
        assert np.array_equal(array, tensor.cpu().numpy())


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_batch_agrees(kind: str, dtype: str) -> None:
    """Small and odd vocabularies, ragged drafts, zeros, subnormal numbers."""
    for seed, vocab_size in enumerate((1, 2, 5, 257, 5000)):
        compared(batch(kind, 64, 4, vocab_size, dtype=dtype, seed=seed, ragged=True), dtype, seed)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_large_vocabularies_agree(dtype: str) -> None:
    """64 rows of 131072 tokens."""
    compared(batch("random", 64, 4, 131072, dtype=dtype, seed=3), dtype, 2**64 - 1)

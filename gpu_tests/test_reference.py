"""The reference on torch tensors conforms on a device: in every dtype, at large vocabularies, in batches up to 1024."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from specverify import Case
from specverify.gpu_tests import checked, devices, failing, moved
from specverify.registry import load

dtypes = pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])


@devices
@dtypes
@pytest.mark.parametrize("name", ["reference-torch", "reference-torch-block"])
def test_the_reference_passes_every_check(device: str, name: str, dtype: str) -> None:
    """Token and block verification are run to the end and pass all that applies to them."""
    report = checked(moved(load(name), device, dtype), brief=300)
    assert failing(report) == []
    assert (report.document["sampler"]["device"], report.document["sampler"]["dtype"]) == (device, dtype)


def large_cases(*sizes: int) -> Iterator[Case]:
    """Make cases of large vocabularies whose draft and target are of Zipf's kind, in different orders."""
    for vocab_size in sizes:
        weights = 1 / np.arange(1.0, vocab_size + 1)
        target = weights / weights.sum()
        yield Case.from_rows(f"zipf-{vocab_size}", target, np.roll(target, 1), num_draft_tokens=2)


@devices
@dtypes
@pytest.mark.parametrize("max_batch", [1, 1024])
def test_large_vocabularies_pass(device: str, dtype: str, max_batch: int) -> None:
    """Vocabularies of 32000 and 131072 tokens pass, in single calls and in calls of as many rows as fit, up to 1024."""
    sampler = dataclasses.replace(moved(load("reference-torch"), device, dtype), max_batch=max_batch)
    cases = list(large_cases(*((32_000, 131_072) if device == "cuda" else (32_000,))))
    report = checked(sampler, cases=cases, brief=100, samples=2000)
    assert failing(report) == []
    assert report.document["timing"]["rows"] >= 100 * len(cases)

"""Each verification step by itself, under pytest-benchmark: for comparing two states of the code on one machine."""

import pytest
import torch
from contestants import CONTESTANTS, batch

SIZES = [(1, 4, 32_768), (64, 4, 32_768), (1024, 4, 1000)]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("name", CONTESTANTS)
def test_step(name: str, size: tuple[int, int, int], benchmark) -> None:  # type: ignore[no-untyped-def]
    """One call of the step."""
    torch.set_num_threads(1)
    benchmark.group = "x".join(map(str, size))
    benchmark(CONTESTANTS[name](batch(*size, "float32")))

"""The kit's own work on one unit, under pytest-benchmark: for comparing two states of the code on one machine."""

import pytest
from engine import bare, cases, unit_step

from specverify.adapters.builtin import reference
from specverify.cases import Case
from specverify.plan import plan


@pytest.mark.parametrize("kind", ["bare", "own"])
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_unit(case: Case, kind: str, benchmark) -> None:  # type: ignore[no-untyped-def]
    """One unit of an empty verifier in large calls, and as many bare draws."""
    benchmark.group = case.name
    benchmark(bare(case.vocab_size) if kind == "bare" else unit_step(plan(reference, cases=[case]).runs[0], 8192))

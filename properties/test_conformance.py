"""SV-*: a sampler passes every check of the catalogue that applies to it, each under its share of one error budget."""

from typing import Any


def test_conformance(specverify_sampler: Any, specverify_check: Any) -> None:
    """What a check claims holds of the sampler; where it cannot apply the reason is given."""
    specverify_check(specverify_sampler)

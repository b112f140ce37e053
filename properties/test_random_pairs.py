"""Random pairs: on targets and drafts that nobody chose, the sampler behaves as on the built-in ones.

Every pair has its share of one error budget, and a failure is confirmed on fresh samples: a correct sampler fails here
with probability at most 1e-6. What fails is shown by the smallest case, found among the exact laws of the known fault.
"""

import os
from collections.abc import Callable

import pytest

from specverify.contract import Verifier
from specverify.random_pairs import check_random_pairs


def option(request: pytest.FixtureRequest, name: str) -> int | None:
    """Return a whole number from the command line, or else from the environment."""
    given = request.config.getoption(f"--specverify-{name}", default=None)
    value = os.environ.get(f"SPECVERIFY_{name.upper()}") if given is None else given
    return None if value is None else int(value)


def test_random_pairs(
    specverify_sampler: Verifier, request: pytest.FixtureRequest, record_property: Callable[[str, str], None]
) -> None:
    """On every random pair of conditional tables the sampler follows its target, and the rule that it declares."""
    found = check_random_pairs(
        specverify_sampler,
        samples=option(request, "samples"),
        seed=option(request, "seed") or 0,
        target=request.node.callspec.id if hasattr(request.node, "callspec") else "reference",
    )
    if found.verdict == "not_applicable":
        pytest.skip(found.message)
    if found.verdict != "conformant":
        pytest.fail(found.message, pytrace=False)
    record_property("random_pairs", found.message)  # what the pass is worth
    print(found.message)

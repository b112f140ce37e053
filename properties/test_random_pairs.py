"""Random pairs: on targets and drafts that nobody chose, the sampler behaves as on the built-in ones.

All pairs share one error budget, as large as that of the checks of the catalogue and on top of it: a correct sampler
fails here with probability at most ``--specverify-alpha``. What fails is shown by the smallest case, found among the
exact laws of the known fault.
"""

import pytest

from specverify.contract import Verifier
from specverify.options import Options
from specverify.random_pairs import check_random_pairs


def test_random_pairs(
    specverify_sampler: Verifier, specverify_options: Options, request: pytest.FixtureRequest
) -> None:
    """On every random pair of conditional tables the sampler follows its target, and the rule that it declares."""
    found = check_random_pairs(
        specverify_sampler,
        samples=specverify_options.samples,
        seed=specverify_options.seed,
        alpha=specverify_options.alpha,
        timeout=specverify_options.timeout,
        known_failures=specverify_options.known_failures,
        target=specverify_options.target,
    )
    if found.verdict == "not_applicable":
        pytest.skip(found.message)
    if found.verdict != "conformant":
        pytest.fail(found.message, pytrace=False)
    request.node.user_properties.append(("specverify_random_pairs", found.message))  # what the pass is worth
    print(found.message)

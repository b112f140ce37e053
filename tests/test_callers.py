"""Whatever the caller has set, named or mistyped, is no finding against the sampler, and no crash of the kit."""

from typing import Any

import numpy as np
import pytest

from specverify import Case, check, verifier
from specverify.errors import ConfigError
from specverify.reference import verify_token
from specverify.registry import load

AB = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)


def test_a_name_that_no_file_could_hold_is_a_name() -> None:
    """Half of a surrogate pair in the name of a case changes nothing but the name in the report."""
    report = check(load("reference"), cases=[AB.renamed("\udcff")], samples=100)
    assert report.document["detectable_tv"]["case"] == "\\udcff"


@pytest.mark.filterwarnings("error")
def test_warnings_that_are_errors_elsewhere_are_no_findings() -> None:
    """A correct sampler that makes NumPy warn passes where the caller's filters make errors of warnings."""

    @verifier(rule="token", readonly=True)
    def warning(draft_tokens: Any, draft_probs: Any, target_probs: Any, uniforms: Any) -> Any:
        np.array([1.0]) / np.array([0.0])
        return verify_token(draft_tokens, draft_probs, target_probs, uniforms.accept, uniforms.final)

    report = check(warning, cases=[AB], samples=20_000, alpha=1e-10)
    assert report.verdict == "conformant"


@pytest.mark.parametrize("alpha", [1e-320, 1e-308, 5e-324, 1e-300])
def test_an_alpha_whose_shares_no_float_holds_is_refused(alpha: float) -> None:
    """The smallest floats leave nothing to share between the checks."""
    with pytest.raises(ConfigError, match="expected alpha to be a number between"):
        check(load("reference"), cases=[AB], samples=10, alpha=alpha)


def test_a_very_small_alpha_has_shares() -> None:
    """What is just above is split as any other."""
    assert check(load("naive-redraw"), cases=[AB], samples=20_000, alpha=1e-299).verdict == "nonconformant"

"""Options are filled in and checked before any sampler runs; what makes no sense is refused in one line."""
# ruff: noqa: ARG005 - a stub sampler is declared by its parameter names

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from specverify.checks import CATALOGUE
from specverify.contract import Verifier, verifier
from specverify.errors import ConfigError
from specverify.options import Options
from specverify.wording import brief


@pytest.fixture
def declared() -> Verifier:
    """Make a verifier that declares a rule."""
    return verifier(rule="token", name="declared")(lambda draft_tokens, seed: None)


@pytest.fixture
def plain() -> Verifier:
    """Make a verifier that declares none."""
    return verifier(name="plain")(lambda draft_tokens, seed: None)


def test_the_defaults(declared: Verifier) -> None:
    """Quick, seed 0, one false alarm in a million, everything checked, named after the sampler."""
    assert Options.checked(declared) == Options(
        profile="quick",
        seed=0,
        alpha=1e-6,
        target_tv=0.10,
        only=(),
        require="rule",
        samples=None,
        known_failures={},
        time_limit=None,
        timeout=None,
        target=None,
        stop_early=True,
        workers=1,
    )


def test_a_rule_is_required_where_one_is_declared(declared: Verifier, plain: Verifier) -> None:
    """Without a declared rule only losslessness is; either may be asked for where it makes sense."""
    assert Options.checked(declared).require == "rule"
    assert Options.checked(plain).require == "lossless"
    assert Options.checked(declared, require="lossless").require == "lossless"


@pytest.mark.parametrize(("profile", "target_tv"), [("quick", 0.10), ("ci", 0.05), ("release", 0.02)])
def test_the_target_follows_the_profile_unless_set(plain: Verifier, profile: str, target_tv: float) -> None:
    """Each profile has its own total variation to reach."""
    assert Options.checked(plain, profile=profile).target_tv == target_tv
    assert Options.checked(plain, profile=profile, target_tv=0.3).target_tv == 0.3


def test_values_are_kept_as_plain_numbers(plain: Verifier) -> None:
    """NumPy integers and whole seconds are taken, and reports get Python numbers."""
    options = Options.checked(plain, seed=np.int64(3), samples=np.int32(50), time_limit=2, target="file.py:f")  # type: ignore[arg-type]
    assert (options.seed, options.samples, options.time_limit, options.target) == (3, 50, 2.0, "file.py:f")
    assert [type(x) for x in (options.seed, options.samples, options.time_limit)] == [int, int, float]
    assert Options.checked(plain, seed=2**63 - 1).seed == 2**63 - 1


@pytest.mark.parametrize("value", [np.float32(0.25), np.float64(0.25), Fraction(1, 4), 0.25])
def test_any_real_number_is_taken(plain: Verifier, value: Any) -> None:
    """Real numbers of NumPy and fractions are numbers too, and are kept as plain floats."""
    options = Options.checked(plain, alpha=value, target_tv=value, time_limit=value)
    kept = (options.alpha, options.target_tv, options.time_limit)
    assert kept == (0.25, 0.25, 0.25)
    assert all(type(number) is float for number in kept)


@pytest.mark.parametrize(
    "only",
    [
        "SV-TOK-001,SV-ACC-001",
        "SV-TOK-001, SV-ACC-001",
        ["SV-TOK-001", "SV-ACC-001"],
        iter(["SV-TOK-001", "SV-ACC-001"]),
    ],
)
def test_checks_are_selected_by_id(plain: Verifier, only: Any) -> None:
    """A list, a comma-separated string or any iterable; structure and combined evidence always run."""
    options = Options.checked(plain, only=only)
    assert options.only == ("SV-TOK-001", "SV-ACC-001")
    selected = {check for check in CATALOGUE if options.selects(check)}
    assert selected == {"SV-TOK-001", "SV-ACC-001", "SV-STR-001", "SV-ALL-001", "SV-ALL-002"}
    assert all(Options.checked(plain).selects(check) for check in CATALOGUE)


def test_known_failures_are_copied(plain: Verifier) -> None:
    """What the caller does with the dict afterwards changes nothing."""
    reasons = {"SV-LEN-001": "issue 12"}
    options = Options.checked(plain, known_failures=reasons)
    reasons.clear()
    assert options.known_failures == {"SV-LEN-001": "issue 12"}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"profile": "quik"}, "expected a profile of quick, ci, release, got 'quik'; did you mean 'quick'?"),
    ({"profile": None}, "expected a profile of quick, ci, release, got None"),
    ({"profile": ["quick"]}, "expected a profile of quick, ci, release, got ['quick']"),
    ({"seed": -1}, f"expected seed to be an integer from 0 to {2**63 - 1}, got -1"),
    ({"seed": 2**63}, f"expected seed to be an integer from 0 to {2**63 - 1}, got {2**63}"),
    ({"seed": 1.0}, "expected seed to be an integer"),
    ({"seed": True}, "expected seed to be an integer"),
    ({"seed": None}, "expected seed to be an integer"),
    ({"alpha": 0}, "expected alpha to be a number between 0 and 1, such as 1e-6, got 0"),
    ({"alpha": 1.0}, "expected alpha to be a number between 0 and 1, such as 1e-6, got 1.0"),
    ({"alpha": math.nan}, "expected alpha to be a number between 0 and 1, such as 1e-6, got nan"),
    ({"alpha": "1e-6"}, "expected alpha to be a number between 0 and 1, such as 1e-6, got '1e-6'"),
    ({"alpha": True}, "expected alpha to be a number"),
    ({"alpha": np.bool_(True)}, "expected alpha to be a number"),
    (
        {"alpha": Fraction(1, 10**400)},
        "expected alpha to be a number between 0 and 1, such as 1e-6, got Fraction(1, 10",
    ),
    ({"seed": int}, "expected seed to be an integer"),
    ({"seed": 10**5000}, "expected seed to be an integer"),
    ({"only": ""}, "expected the id of a check, got ''"),
    ({"only": "SV-TOK-001,"}, "expected the id of a check, got ''"),
    ({"only": [""]}, "expected the id of a check, got ''"),
    ({"profile": "x" * 9999}, f"expected a profile of quick, ci, release, got '{'x' * 99}... (10,001 characters)"),
    ({"time_limit": 10**400}, "expected time_limit to be a positive number of seconds, got 1000"),
    ({"target_tv": 0.0}, "expected target_tv to be a number between 0 and 1, got 0.0"),
    ({"target_tv": 2}, "expected target_tv to be a number between 0 and 1, got 2"),
    ({"samples": 0}, "expected samples to be an integer from 1 to 1000000000, got 0"),
    ({"samples": 1e3}, "expected samples to be an integer from 1 to 1000000000, got 1000.0"),
    ({"only": "SV-TOK-01"}, "expected the id of a check, got 'SV-TOK-01'; did you mean 'SV-TOK-001'?"),
    ({"only": [3]}, "expected the id of a check, got 3"),
    ({"only": [["SV-TOK-001"]]}, "expected the id of a check, got ['SV-TOK-001']"),
    ({"only": 3}, "expected only to be a list of check ids, got 3"),
    ({"only": None}, "expected only to be a list of check ids, got None"),
    ({"require": "losless"}, "expected require to be 'lossless' or 'rule', got 'losless'"),
    ({"require": "rule"}, "expected a declared rule for require='rule', got none from plain; use @verifier(rule=...)"),
    ({"known_failures": {"SV-X": "why"}}, "expected the id of a check, got 'SV-X'"),
    ({"known_failures": {3: "why"}}, "expected the id of a check, got 3"),
    ({"known_failures": {"SV-LEN-001": " "}}, "expected a reason for the known failure SV-LEN-001, got ' '; say why"),
    ({"known_failures": {"SV-LEN-001": None}}, "expected a reason for the known failure SV-LEN-001, got None"),
    ({"known_failures": ["SV-LEN-001"]}, "expected known_failures to be a dict of reasons by check id, got ["),
    ({"time_limit": 0}, "expected time_limit to be a positive number of seconds, got 0"),
    ({"time_limit": math.nan}, "expected time_limit to be a positive number of seconds, got nan"),
    ({"time_limit": math.inf}, "expected time_limit to be a positive number of seconds, got inf"),
    ({"time_limit": "60"}, "expected time_limit to be a positive number of seconds, got '60'"),
]


@pytest.mark.parametrize(("wrong", "message"), REFUSED, ids=[brief(wrong, 60) for wrong, _ in REFUSED])
def test_what_makes_no_sense_is_refused_in_one_line(plain: Verifier, wrong: dict[str, Any], message: str) -> None:
    """The message says what was expected and what was got."""
    with pytest.raises(ConfigError) as raised:
        Options.checked(plain, **wrong)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)

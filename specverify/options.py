"""What a run was asked for, checked before any sampler runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

from specverify.checks import require_check
from specverify.contract import Verifier
from specverify.errors import ConfigError
from specverify.integers import integer
from specverify.known_failures import require_excusable
from specverify.nearest import did_you_mean
from specverify.schedule import PROFILES
from specverify.wording import brief, clip, printable

__all__ = ["ALWAYS", "MISS", "Options"]

MISS = 0.1
"""Probability beta of missing an error of the stated detectable size."""

MAX_SEED = 2**63
MAX_WORKERS = 256
MAX_SAMPLES = 10**9
MIN_ALPHA = 1e-300  # whose shares a float can hold
ALWAYS = ("SV-STR-001", "SV-ALL-001", "SV-ALL-002")
"""Checks that are part of every run, whatever was asked for."""


@dataclass(frozen=True)
class Options:
    """Options of a run; see :func:`specverify.check` for their meaning.

    Attributes:
        profile: "quick", "ci" or "release".
        seed: Root of every random number of the run.
        alpha: Error budget of the whole run.
        target_tv: Total variation that must be detectable for "conformant".
        only: Ids of the checks asked for; empty means all.
        require: "lossless" or "rule", what the verdict depends on.
        samples: Rows of every case, or None for those of the profile.
        known_failures: Reasons by check id.
        time_limit: Seconds after which the run ends, or None.
        timeout: Seconds that one call may take, or None.
        target: What names the sampler on the command line, or None.
        stop_early: Whether a proof of a fault ends the run; else each check is decided alone at its planned n.
        workers: Processes that share the work.
    """

    profile: str
    seed: int
    alpha: float
    target_tv: float
    only: tuple[str, ...]
    require: str
    samples: int | None
    known_failures: Mapping[str, str]
    time_limit: float | None
    timeout: float | None
    target: str | None
    stop_early: bool
    workers: int

    @classmethod
    def checked(
        cls,
        verifier: Verifier | None,
        *,
        profile: str = "quick",
        seed: int = 0,
        alpha: float = 1e-6,
        target_tv: float | None = None,
        only: Sequence[str] = (),
        require: str | None = None,
        samples: int | None = None,
        known_failures: Mapping[str, str] | None = None,
        time_limit: float | None = None,
        timeout: float | None = None,
        target: str | None = None,
        stop_early: bool = True,
        workers: int = 1,
    ) -> Options:
        """Fill in the defaults and refuse what makes no sense; without a verifier, as for one that declares no rule.

        Raises:
            ConfigError: In one line: what was expected, what was got, what to do.
        """
        if not isinstance(profile, str) or profile not in PROFILES:
            close = did_you_mean(str(profile), PROFILES)
            raise ConfigError(f"expected a profile of {', '.join(PROFILES)}, got {brief(profile)}{close}")
        return cls(
            profile=profile,
            seed=integer("seed", seed, 0, MAX_SEED - 1),
            alpha=_number("alpha", alpha, "between 0 and 1, such as 1e-6", least=MIN_ALPHA),
            target_tv=_number(
                "target_tv", PROFILES[profile].target_tv if target_tv is None else target_tv, "between 0 and 1"
            ),
            only=_chosen(only),
            require=_requirement(verifier, require),
            samples=None if samples is None else integer("samples", samples, 1, MAX_SAMPLES),
            known_failures=_reasons(known_failures),
            time_limit=_seconds("time_limit", time_limit),
            timeout=_seconds("timeout", timeout),
            target=target,
            stop_early=stop_early,
            workers=integer("workers", workers, 1, MAX_WORKERS),
        )

    def selects(self, check: str) -> bool:
        """Say whether a check was asked for; structure and combined evidence always are."""
        return not self.only or check in self.only or check in ALWAYS


def _chosen(only: object) -> tuple[str, ...]:
    """Give the chosen checks; whoever asks for the combined evidence asks for all of them, which is ()."""
    if not isinstance(only, Iterable):
        raise ConfigError(f"expected only to be a list of check ids, got {brief(only)}")
    chosen = tuple(map(str.strip, only.split(",")) if isinstance(only, str) else only)
    for name in chosen:
        require_check(name)
    return () if any(name.startswith("SV-ALL-") for name in chosen) else chosen


def _reasons(known_failures: object) -> dict[str, str]:
    if not isinstance(known_failures, Mapping | None):
        raise ConfigError(f"expected known_failures to be a dict of reasons by check id, got {brief(known_failures)}")
    reasons = dict(known_failures or {})
    for name, reason in reasons.items():
        require_excusable(name)
        if not isinstance(reason, str) or not reason.strip():
            raise ConfigError(
                f"expected a reason for the known failure {name}, got {brief(reason)}; say why it is known"
            )
    return reasons


def _requirement(verifier: Verifier | None, require: str | None) -> str:
    if require is None:
        return "lossless" if verifier is None or verifier.rule is None else "rule"
    if require not in ("lossless", "rule"):
        raise ConfigError(f"expected require to be 'lossless' or 'rule', got {brief(require)}")
    if require == "rule" and verifier is not None and verifier.rule is None:
        raise ConfigError(
            f"expected a declared rule for require='rule', got none from {clip(printable(verifier.name), 100)}; "
            f"use @verifier(rule=...)"
        )
    return require


def _number(name: str, value: object, domain: str, *, least: float = 0.0) -> float:
    number = _real(value)
    if not least < number < 1:
        raise ConfigError(f"expected {name} to be a number {domain}, got {brief(value)}")
    return number


def _seconds(name: str, value: object) -> float | None:
    if value is None:
        return None
    number = _real(value)
    if not 0 < number < math.inf:
        raise ConfigError(f"expected {name} to be a positive number of seconds, got {brief(value)}")
    return number


def _real(value: object) -> float:
    """Give any real number, those of NumPy included, as a float; NaN for what is none or too large for one."""
    try:
        return math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        return math.nan

"""A user's test file becomes a conformance suite: one test per sampler and check, known failures strict.

What is asked for is settled when tests are collected, where a mistake is an error of one line: the samplers, the
options (command line, then decorator, environment, configuration, default) and the known failures. Nothing runs there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from specverify.checks import CATALOGUE
from specverify.errors import SpecverifyError
from specverify.session import Sampler, Session, report_uncollected
from specverify.sharing import SharedCheck, SharedRun

__all__ = ["parametrize", "parametrize_with_checks", "prepare", "refuse_unmade"]


@dataclass(frozen=True)
class _Asked:
    """What a decorator asks for."""

    samplers: object
    known_failures: object
    options: Mapping[str, Any]


def parametrize_with_checks(
    samplers: Iterable[Sampler | str],
    *,
    known_failures: Mapping[str, Any] | None = None,
    profile: str | None = None,
    seed: int | None = None,
    alpha: float | None = None,
    samples: int | None = None,
    target_tv: float | None = None,
    timeout: float | None = None,
) -> pytest.MarkDecorator:
    """Make a test function of ``sampler`` and ``check`` one test per sampler and check.

    Options that are left out are those of the command line of pytest, the environment, the configuration, or their
    defaults; those of the command line also take the place of what is given here.

    Args:
        samplers: Verifiers, functions that verify, names as on the command line, or functions without parameters that
            make one, which are called when the first of its tests runs.
        known_failures: Reason by sampler and id of the check, or by the id alone for one sampler. Such a check runs
            and is expected to fail; its test fails once it does not.
        profile: Sample counts: "quick", "ci" or "release".
        seed: Root of every random number of the run.
        alpha: Most that the probability of failing a correct sampler may be, for all its tests together.
        samples: Rows of every case in place of those of the profile.
        target_tv: Total variation that must be detectable, else the test of SV-ALL-001 fails.
        timeout: Seconds that one call may take.

    Returns:
        The decorator.

    Example:
        >>> @parametrize_with_checks(["reference"])
        ... def test_conformance(sampler, check):
        ...     check(sampler)
    """
    given = {"profile": profile, "seed": seed, "alpha": alpha, "samples": samples}
    given |= {"target_tv": target_tv, "timeout": timeout}
    options = {name: value for name, value in given.items() if value is not None}
    several = isinstance(samplers, Iterable) and not isinstance(samplers, str)
    kept = tuple(samplers) if several else samplers  # every method of a class asks for them again
    return pytest.mark.specverify(_Asked(kept, {} if known_failures is None else known_failures, options))


def prepare(config: pytest.Config) -> None:
    """Settle what the options of the command line ask for, before anything is collected.

    Raises:
        UsageError: They ask for something impossible; one line says what.
    """
    try:
        Session.of(config)
    except SpecverifyError as error:
        raise pytest.UsageError(f"specverify: {error}") from None


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Make the tests of one function that asks for checks, or for the samplers of the command line."""
    try:
        session = Session.of(metafunc.config)
        for asked in _asked_for(metafunc.definition):
            runs = session.runs(asked.samplers, asked.options, asked.known_failures)
            _with_checks(metafunc, ("sampler", "check"), runs, indirect=False)
        if "specverify_check" in metafunc.fixturenames:
            _with_checks(metafunc, ("specverify_sampler", "specverify_check"), session.named_runs(), indirect=True)
        elif "specverify_sampler" in metafunc.fixturenames:
            named = session.named()
            metafunc.parametrize("specverify_sampler", list(named.values()), ids=list(named), indirect=True)
    except SpecverifyError as error:
        raise pytest.fail.Exception(f"specverify: {error}", pytrace=False) from None


def refuse_unmade(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Report tests that ask for checks and were made without any, such as those of unittest.TestCase."""
    for item in items:
        if _asked_for(item):
            problem = f"expected a function or a method of a plain class, got {item.nodeid}, which takes no parameters"
            report_uncollected(config, item.nodeid, f"{problem}; move it out of its unittest.TestCase")


def _asked_for(node: pytest.Item) -> list[_Asked]:
    """Give what the decorators of a test ask for."""
    given = (value for marker in node.iter_markers("specverify") for value in marker.args)
    return [value for value in given if isinstance(value, _Asked)]


def _with_checks(metafunc: pytest.Metafunc, names: Sequence[str], runs: Iterable[SharedRun], *, indirect: bool) -> None:
    """Make one test per run and check; where tests are distributed, those of one run stay together if they may."""
    distributed = metafunc.config.pluginmanager.hasplugin("xdist")
    tests = []
    for run in runs:
        marks = [pytest.mark.specverify, *([pytest.mark.xdist_group(run.label)] if distributed else [])]
        for check in CATALOGUE:
            tests.append(pytest.param(run.sampler, SharedCheck(check, run), id=f"{run.name}-{check}", marks=marks))
    metafunc.parametrize(names, tests, indirect=indirect)

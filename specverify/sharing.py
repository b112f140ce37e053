"""All tests of one sampler share one run, so that selecting, ordering or distributing them changes nothing.

Nothing runs before the first of them asks. Each check is decided alone by its share of the error budget of the full
list. A test that passes was run and decided; what cannot apply is skipped, everything else fails and says why.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import isfunction, signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import pytest

from specverify.checking import check
from specverify.contract import Verifier
from specverify.errors import ConfigError, SamplerLoadError, SpecverifyError
from specverify.generating import as_sampler
from specverify.reports import FORMS, Report, claim_parts, render, render_check
from specverify.wording import brief, told

__all__ = ["SharedCheck", "SharedRun", "is_factory"]

VERDICT = "SV-ALL-001"
"""The test that also fails where every check passes and the verdict is inconclusive all the same."""

_LONGEST_NAME = 200  # bytes: most file systems take 255, and what is not yet whole has a longer name

_FACTS = ("n", "p_value", "log10_e", "detectable_tv", "worst_case")


def is_factory(sampler: object) -> bool:
    """Say whether a sampler is to be made by calling it: no verifier is a plain function without parameters.

    Example:
        >>> is_factory(lambda: None), is_factory(lambda draft_tokens: None)
        (True, False)
    """
    return isfunction(sampler) and not signature(sampler).parameters


class SharedRun:
    """One run of the engine on one sampler, made when first asked for.

    Args:
        name: What the sampler is called in its tests.
        label: What the run is called in reports, no two being called the same.
        sampler: A verifier, a function that verifies, or a factory.
        options: Options of :func:`specverify.check`.
        folders: Where its report is written, by form: a name of ``FORMS``.

    Example:
        >>> from specverify.registry import load
        >>> shared = SharedRun("mine", "mine", load("reference"), {"samples": 400}, {})
        >>> shared.made, shared.report.verdict, shared.made
        (False, 'inconclusive', True)
    """

    def __init__(
        self,
        name: str,
        label: str,
        sampler: Callable[..., Any],
        options: Mapping[str, Any],
        folders: Mapping[str, Path],
    ) -> None:
        self.name = name
        self.label = label
        self.sampler = sampler
        self.options = options
        self._folders = folders
        self._written = False

    @property
    def file_stem(self) -> str:
        """Name the files of its report, less their suffix; a long name is cut, and its hash tells it from others."""
        kept = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in self.label)
        if len(kept.encode()) > _LONGEST_NAME:
            rest = hashlib.sha256(self.label.encode("utf-8", "backslashreplace")).hexdigest()[:12]
            kept = f"{kept.encode()[:_LONGEST_NAME].decode(errors='ignore')}-{rest}"
        return kept

    @property
    def made(self) -> bool:
        """Say whether it was run."""
        return "report" in self.__dict__

    @cached_property
    def problem(self) -> str | None:
        """Run it, if that was not done, and say why there is no report; None where there is one."""
        try:
            self.report  # noqa: B018
        except SpecverifyError as error:
            return str(error)
        return None

    @cached_property
    def report(self) -> Report:
        """Give what the run found.

        Raises:
            SpecverifyError: The factory failed, or what it made cannot be run.
        """
        return check(self._verifier(), **self.options, stop_early=False)

    def write(self) -> None:
        """Write the report in every form that was asked for, if that was not yet tried.

        Raises:
            ConfigError: One cannot be written; those before it are.
        """
        if self._written:
            return
        self._written = True
        for form, folder in self._folders.items():
            _write(self.report, form, folder / (self.file_stem + FORMS[form].suffix))

    def entry(self, check: str) -> dict[str, Any]:
        """Give the entry of one check in the report."""
        return next(entry for entry in self.report.checks if entry["id"] == check)

    def _verifier(self) -> Verifier:
        if not is_factory(self.sampler):
            return as_sampler(self.sampler)
        try:
            made = self.sampler()
        except Exception as error:
            raise SamplerLoadError(f"making the sampler with {self.name} failed: {told(error)}") from error
        return as_sampler(made)


@dataclass(eq=False, repr=False)
class SharedCheck:
    """One check of a shared run, as a test calls it.

    Attributes:
        id: Id of the check.
        run: The run.
        called: Whether it was called since this was last set to False.
    """

    id: str
    run: SharedRun
    called: bool = field(default=False, init=False)

    def __repr__(self) -> str:
        return f"<check {self.id} of {self.run.name}>"

    def __bool__(self) -> bool:
        """Refuse to be true: only a call says how the check ended."""
        raise TypeError(f"expected {self!r} to be called, got asked whether it is true; write check(sampler)")

    def __call__(self, sampler: object) -> None:
        """End the test as the check ended; the first of a run also fails where its report cannot be written.

        Args:
            sampler: The sampler that the test was given with this check.

        Raises:
            TypeError: It is another one, which has no run.
        """
        __tracebackhide__ = True
        if sampler is not self.run.sampler:
            raise TypeError(f"expected the sampler that came with {self!r}, got another; call check(sampler)")
        self.called = True
        problem = self.run.problem
        if problem is not None:
            pytest.fail(f"specverify: {problem}", pytrace=False)
        try:
            self.run.write()
        except ConfigError as error:
            raise pytest.fail.Exception(f"specverify: {error}\n\n{self._failure()}".rstrip(), pytrace=False) from None
        entry = self.run.entry(self.id)
        if entry["status"] == "known_failure":
            pytest.xfail(entry["reason"])
        failure = self._failure()  # also of a known failure under --runxfail
        if failure:
            pytest.fail(failure, pytrace=False)
        if entry["status"] == "not_applicable":
            pytest.skip(f"not applicable: {entry['reason']}")

    def _failure(self) -> str:
        """Give the text of a check that failed; nothing of one that passed or cannot apply."""
        report = self.run.report
        if self.id == VERDICT and report.verdict == "inconclusive":
            return render(report.document)
        failed = self.run.entry(self.id)["status"] not in ("passed", "not_applicable")
        return render_check(report.document, self.id) if failed else ""

    def properties(self) -> list[tuple[str, str | int | float]]:
        """Give what the test found as flat properties: Python's own numbers and text, without what is not known."""
        if not self.run.made:
            return []
        document, entry = self.run.report.document, self.run.entry(self.id)
        found = {
            "sampler": self.run.label,
            "check": self.id,
            "status": entry["status"],
            "reason": entry["reason"] or None,
            "verdict": document["verdict"],
            "limits": claim_parts(document)[0].strip() or None,
            "coverage": document["coverage"],
            **{name: document["options"][name] for name in ("profile", "seed", "alpha")},
            **{name: entry[name] for name in _FACTS},
        }
        return [(f"specverify_{name}", _flat(value)) for name, value in found.items() if _is_known(value)]


def _write(report: Report, form: str, file: Path) -> None:
    """Write one form; it takes its place at once, since other workers may write the same."""
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        report.write(partial, form=form)
        partial.replace(file)
    except (OSError, ConfigError) as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        reason = getattr(error.__cause__ or error, "strerror", None) or "it failed"
        raise ConfigError(
            f"cannot write the report to {brief(str(file))}: {reason}; name a folder you can write to"
        ) from error


def _is_known(value: object) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _flat(value: object) -> str | int | float:
    """Give a value in one of the types that can be sent from a worker: not even subclasses of them can."""
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else str(value)

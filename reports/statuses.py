"""A verdict and a status have one sign, one short word and one meaning, whichever form shows them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["ABSENT", "COMBINED", "FAILED", "STATUSES", "VERDICTS", "Sign", "failures", "known_failures", "proved"]

FAILED: Final = ("failed", "error")
"""The statuses of a check that failed."""

COMBINED: Final = ("SV-ALL-001", "SV-ALL-002")
"""The checks that weigh all others together; the first stands for losslessness, and so for the verdict."""

ABSENT: Final = "absent"
"""Stands where a report does not have a check that another one has."""

_KNOWN: Final = "known_failure"


@dataclass(frozen=True)
class Sign:
    """How a verdict or a status is shown where a sentence has no room.

    Attributes:
        plain: a sign of one letter or few, for a page.
        emoji: a sign for GitHub's Markdown.
        short: a word of at most eight letters, for a terminal.
        meaning: what it stands for, in words.
    """

    plain: str
    emoji: str
    short: str
    meaning: str


VERDICTS: Final[Mapping[str, Sign]] = {
    "conformant": Sign("✓", "✅", "conform.", "conformant"),
    "nonconformant": Sign("✗", "❌", "NONCONF.", "nonconformant"),
    "inconclusive": Sign("?", "❔", "inconcl.", "inconclusive"),
}
"""The sign of each verdict; the word always stands near it."""

STATUSES: Final[Mapping[str, Sign]] = {
    "passed": Sign("✓", "✅", "ok", "passed"),
    "failed": Sign("✗", "❌", "FAIL", "failed"),
    "error": Sign("!", "💥", "ERROR", "the check broke"),
    "inconclusive": Sign("?", "❔", "open", "not decided"),
    "not_applicable": Sign("n/a", "⬜", "n/a", "not applicable"),
    _KNOWN: Sign("k", "⚠️", "known", "listed as a known failure"),
    ABSENT: Sign("", "", "", "not in that report"),
}
"""The sign of each status of a check, and of a check that a report lacks."""


def failures(checks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Give the checks that failed and may not; those on the list of known failures are not among them.

    >>> failures([{"status": "failed"}, {"status": "known_failure"}, {"status": "passed"}])
    [{'status': 'failed'}]
    """
    return [check for check in checks if check["status"] in FAILED]


def known_failures(checks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Give the checks that found a fault which is on the list of known failures.

    >>> known_failures([{"status": "failed"}, {"status": "known_failure"}])
    [{'status': 'known_failure'}]
    """
    return [check for check in checks if check["status"] == _KNOWN]


def proved(check: Mapping[str, Any]) -> bool:
    """Whether a check found a fault, known or not.

    >>> proved({"status": "known_failure"}), proved({"status": "inconclusive"})
    (True, False)
    """
    return check["status"] in (*FAILED, _KNOWN)

"""A failure is tolerated only where it was written down: by sampler and check, with a reason, and read strictly.

The files of the command line, the configuration and the decorator of pytest share one language. A key that is the id
of a check is meant for the one sampler there is; every other key is the name of a sampler, whose table has the ids.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from specverify.checks import require_check
from specverify.errors import ConfigError
from specverify.nearest import did_you_mean
from specverify.wording import brief

__all__ = ["KnownFailure", "entries_by_sampler", "reasons_today", "require_excusable", "require_samplers"]

_KEYS: Final = ("reason", "issue", "until")
_ID: Final = "SV-"  # how the ids of checks begin


@dataclass(frozen=True)
class KnownFailure:
    """Why a check may fail, and for how long.

    Attributes:
        reason: Why that is tolerated, the issue appended in parentheses.
        last_day: The last day on which it is; None where there is no end.
    """

    reason: str
    last_day: datetime.date | None = None


def entries_by_sampler(entries: object, names: Iterable[str]) -> dict[str, dict[str, KnownFailure]]:
    """Read which checks of which sampler are known to fail, each with the reason why that is tolerated.

    An entry is a reason, or a table of ``reason`` (compulsory), ``issue`` (where it is tracked) and ``until`` (the last
    day on which it holds).

    Args:
        entries: Entries by name of the sampler and id of the check; by the id alone where there is one sampler.
        names: The samplers that an id alone may be meant for.

    Returns:
        Known failure by sampler and id of the check.

    Raises:
        ConfigError: An entry lacks a reason or has an unknown key, or no check of that id can be excused. Whether the
            samplers are there is for ``require_samplers`` to say, and whether an entry holds for ``reasons_today``.

    Example:
        >>> found = entries_by_sampler({"SV-RES-001": "rounds", "other": {"SV-LEN-001": "stops early"}}, ["mine"])
        >>> sorted(found), found["mine"]["SV-RES-001"].reason
        (['mine', 'other'], 'rounds')
    """
    if not isinstance(entries, Mapping):
        raise ConfigError(f"expected known failures as a table by sampler, got {brief(entries)}")
    single = tuple(dict.fromkeys(names))
    alone = {key: entry for key, entry in entries.items() if str(key).startswith(_ID)}
    if alone and len(single) != 1:
        raise ConfigError(f"expected known failures by sampler, got checks alone for {len(single)} samplers; name them")
    found = {str(name): _read(str(name), table) for name, table in entries.items() if name not in alone}
    if alone:
        found[single[0]] = _read(single[0], alone) | found.get(single[0], {})
    return found


def reasons_today(entries: Mapping[str, KnownFailure], *, today: datetime.date | None = None) -> dict[str, str]:
    """Give the reasons of those known failures that a run makes use of, which must still hold.

    Args:
        entries: Known failure by id of the check.
        today: The day to compare their last days with; the present one when left out.

    Returns:
        Reason by id of the check.

    Raises:
        ConfigError: One has expired.

    Example:
        >>> reasons_today({"SV-RES-001": KnownFailure("rounds")})
        {'SV-RES-001': 'rounds'}
    """
    day = today or datetime.date.today()
    for check, entry in entries.items():
        if entry.last_day is not None and entry.last_day < day:
            raise ConfigError(
                f"known failure {check}: expired on {entry.last_day}; repair the sampler, or renew the entry"
            )
    return {check: entry.reason for check, entry in entries.items()}


def require_excusable(check: object) -> None:
    """Refuse the id of a check that is not there, or that is all evidence together.

    Args:
        check: What is given as the id of a check that may fail.

    Raises:
        ConfigError: No such check can be excused; the nearest that is there gets named.

    Example:
        >>> require_excusable("SV-RES-001")
    """
    if require_check(check).startswith("SV-ALL-"):
        raise ConfigError(f"expected the checks that are known to fail, got {check}; it leaves those out by itself")


def require_samplers(named: Iterable[str], names: Iterable[str]) -> None:
    """Refuse known failures of a sampler that is not there, which would excuse nothing.

    Args:
        named: The samplers that entries are for.
        names: The samplers that there are.

    Raises:
        ConfigError: One is not there; the nearest that is gets named.

    Example:
        >>> require_samplers(["mine"], ["mine", "other"])
    """
    known = list(dict.fromkeys(names))
    for name in named:
        if name not in known:
            close = did_you_mean(name, known) or f"; there are {', '.join(known) or 'none'}"
            raise ConfigError(
                f"expected known failures of a sampler that is checked, got those of {brief(name)}{close}"
            )


def _read(sampler: str, entries: object) -> dict[str, KnownFailure]:
    if not isinstance(entries, Mapping):
        raise ConfigError(f"expected the known failures of {sampler} as a table by check, got {brief(entries)}")
    return {check: _entry(check, entry) for check, entry in entries.items()}


def _entry(check: str, entry: object) -> KnownFailure:
    """Check one entry and put why it is tolerated into one line."""
    require_excusable(check)
    where = f"known failure {check}:"
    entry = {"reason": entry} if isinstance(entry, str) else entry
    if not isinstance(entry, Mapping):
        raise ConfigError(
            f'{where} expected a reason or a table, got {brief(entry)}; write "{check}" = "why this is tolerated"'
        )
    for key in entry:
        if key not in _KEYS:
            raise ConfigError(
                f"{where} expected only {', '.join(_KEYS)}, got the key {brief(key)}; correct or remove it"
            )
    reason, issue = _text(check, entry, "reason"), _text(check, entry, "issue")
    if not reason:
        raise ConfigError(f'{where} expected a reason, got none; write reason = "why this is tolerated"')
    last_day = _day(check, entry["until"]) if "until" in entry else None
    return KnownFailure(f"{reason} ({issue})" if issue else reason, last_day)


def _text(check: str, entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise ConfigError(f"known failure {check}: expected text for {key}, got {brief(value)}; put it in quotes")
    return value.strip()


def _day(check: str, value: object) -> datetime.date:
    """Accept a TOML date, and the same in quotes."""
    try:
        if isinstance(value, datetime.datetime):
            return value.date()
        return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(str(value))
    except ValueError:
        raise ConfigError(
            f"known failure {check}: expected a date for until, got {brief(value)}; write it as 2027-01-31"
        ) from None

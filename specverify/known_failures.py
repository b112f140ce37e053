"""A failure is tolerated only where it was written down: by sampler and check, with a reason, and read strictly.

The files of the command line, the configuration and the decorator of pytest share one language. A key that is the id
of a check is meant for the one sampler there is; every other key is the name of a sampler, whose table has the ids.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any, Final

from specverify.checks import require_check
from specverify.errors import ConfigError
from specverify.nearest import did_you_mean
from specverify.wording import brief

__all__ = ["entries_by_sampler", "require_excusable", "require_samplers"]

_KEYS: Final = ("reason", "issue", "until")
_ID: Final = "SV-"  # how the ids of checks begin


def entries_by_sampler(
    entries: object, names: Iterable[str], *, today: datetime.date | None = None
) -> dict[str, dict[str, str]]:
    """Read which checks of which sampler are known to fail, each with the reason why that is tolerated.

    An entry is a reason, or a table of ``reason`` (compulsory), ``issue`` (where it is tracked) and ``until`` (the last
    day on which it holds).

    Args:
        entries: Entries by name of the sampler and id of the check; by the id alone where there is one sampler.
        names: The samplers that an id alone may be meant for.
        today: The day to compare ``until`` with; the present one when left out.

    Returns:
        Reason by sampler and id of the check, the issue appended in parentheses.

    Raises:
        ConfigError: An entry lacks a reason, has an unknown key or has expired, or no check of that id can be excused.
            Whether the samplers are there is for ``require_samplers`` to say.

    Example:
        >>> entries_by_sampler({"other": {"SV-LEN-001": "stops early"}, "SV-RES-001": "rounds"}, ["mine"])
        {'other': {'SV-LEN-001': 'stops early'}, 'mine': {'SV-RES-001': 'rounds'}}
    """
    if not isinstance(entries, Mapping):
        raise ConfigError(f"expected known failures as a table by sampler, got {brief(entries)}")
    day, single = today or datetime.date.today(), tuple(dict.fromkeys(names))
    alone = {key: entry for key, entry in entries.items() if str(key).startswith(_ID)}
    if alone and len(single) != 1:
        raise ConfigError(f"expected known failures by sampler, got checks alone for {len(single)} samplers; name them")
    found = {str(name): _reasons(str(name), table, day) for name, table in entries.items() if name not in alone}
    if alone:
        found[single[0]] = _reasons(single[0], alone, day) | found.get(single[0], {})
    return found


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


def _reasons(sampler: str, entries: object, today: datetime.date) -> dict[str, str]:
    if not isinstance(entries, Mapping):
        raise ConfigError(f"expected the known failures of {sampler} as a table by check, got {brief(entries)}")
    return {check: _reason(check, entry, today) for check, entry in entries.items()}


def _reason(check: str, entry: object, today: datetime.date) -> str:
    """Check one entry and put what it says into one line."""
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
    last_day = _day(check, entry.get("until", today))
    if last_day < today:
        raise ConfigError(f"{where} expired on {last_day}; repair the sampler, or renew the entry")
    return f"{reason} ({issue})" if issue else reason


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

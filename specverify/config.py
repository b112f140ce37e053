"""What a user writes down for the kit in files is read strictly: an unknown key is an error, never ignored."""

import datetime
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from specverify.errors import ConfigError
from specverify.wording import brief

__all__ = ["read_known_failures"]

_KEYS: Final = ("reason", "issue", "until")


def read_known_failures(path: str | Path, *, today: datetime.date | None = None) -> dict[str, str]:
    """Read which checks are known to fail, each with the reason why that is tolerated.

    The file is TOML, one table for each check: ``reason`` (compulsory), ``issue`` (where it is tracked) and ``until``
    (the last day on which the entry holds).

    Args:
        path: the file.
        today: the day to compare ``until`` with; the present one when left out.

    Returns:
        id of the check to reason, the issue appended in parentheses.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or an entry lacks a reason, has an unknown key or has
            expired. Whether the ids exist is for the suite to say.
    """
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read the known failures in {brief(str(path))}: {error.strerror}; name a TOML file"
        ) from error
    except ValueError as error:
        raise ConfigError(f"expected TOML in {path}, but {error}; correct the file") from error
    return {check: _reason(check, entry, today or datetime.date.today()) for check, entry in tables.items()}


def _reason(check: str, entry: object, today: datetime.date) -> str:
    """Check one entry and put what it says into one line."""
    where = f"known failure {check}:"
    if not isinstance(entry, Mapping):
        raise ConfigError(
            f'{where} expected a table, got {brief(entry)}; write ["{check}"] and reason = "..." below it'
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

"""What a user writes down for the kit in files is read strictly: an unknown key is an error, never ignored.

``[tool.specverify]`` of pyproject.toml, or specverify.toml, sets what the command line and pytest leave open. What is
given there or to a decorator comes first, then the environment, then the file, then the default.
"""

import datetime
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from specverify.errors import ConfigError
from specverify.nearest import did_you_mean
from specverify.wording import brief

__all__ = [
    "OPTIONS",
    "Settings",
    "entries_by_sampler",
    "read_known_failures",
    "read_settings",
    "read_toml",
    "require_samplers",
]

OPTIONS: Final[Mapping[str, type]] = {
    "profile": str,
    "seed": int,
    "alpha": float,
    "samples": int,
    "target_tv": float,
    "timeout": float,
}
"""Options of a run that can be set in a file, with their types; all doors call them by these names."""

_WORDS: Final = {str: "text", int: "an integer", float: "a number"}
_TABLES: Final = ("samplers", "known_failures")
_ENVIRONMENT: Final = {"profile": "SPECVERIFY_PROFILE", "seed": "SPECVERIFY_SEED"}
_KEYS: Final = ("reason", "issue", "until")
_ID: Final = "SV-"  # how the ids of checks begin


@dataclass(frozen=True)
class Settings:
    """What was set outside of the command line and the test files.

    Attributes:
        options: Values of those options that were set, by the names of OPTIONS.
        samplers: Samplers that pytest checks where the command line names none.
        known_failures: Reason by sampler and id of the check.

    Example:
        >>> Settings(known_failures={"mine": {"SV-RES-001": "issue 12"}}).known_of("my_file.py:mine", "mine")
        {'SV-RES-001': 'issue 12'}
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    samplers: tuple[str, ...] = ()
    known_failures: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def known_of(self, *names: str) -> dict[str, str]:
        """Give the known failures of a sampler that goes by several names."""
        return {check: reason for name in names for check, reason in self.known_failures.get(name, {}).items()}

    def excusing(self, known_failures: Mapping[str, Mapping[str, str]]) -> "Settings":
        """Give the same settings with more known failures."""
        samplers = {**self.known_failures, **known_failures}
        both = {name: {**self.known_failures.get(name, {}), **known_failures.get(name, {})} for name in samplers}
        return replace(self, known_failures=both)


def read_settings(folder: Path) -> Settings:
    """Read the environment and the nearest configuration, from a folder upwards.

    The first specverify.toml, or pyproject.toml with a table ``[tool.specverify]``, is the one. Paths of samplers in
    it start where it lies.

    Raises:
        ConfigError: It is not TOML, has an unknown key, or a value of the wrong type. Whether values and ids make
            sense is for the suite to say.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "specverify.toml").write_text("alpha = 1e-3", encoding="utf-8")
        >>> read_settings(folder).options["alpha"]
        0.001
    """
    file, table = _nearest_table(folder.resolve())
    for key in table:
        known = (*OPTIONS, *_TABLES)
        if key not in known:
            close = did_you_mean(key, known) or f"; known are {', '.join(known)}"
            raise ConfigError(f"expected a setting of specverify in {file}, got the key {brief(key)}{close}")
    options = {name: _typed(f"{name} in {file}", table[name], OPTIONS[name]) for name in OPTIONS if name in table}
    samplers = table.get("samplers", [])
    if not isinstance(samplers, list) or not all(isinstance(target, str) for target in samplers):
        raise ConfigError(
            f'expected samplers in {file} to be a list of names, got {brief(samplers)}; write ["reference"]'
        )
    known_failures = table.get("known_failures", {})
    if not isinstance(known_failures, dict):
        raise ConfigError(f"expected known_failures in {file} to be a table, got {brief(known_failures)}")
    return Settings(
        options | _environment(),
        tuple(_from_here(target, file.parent) for target in samplers),
        {name: _reasons(name, entries) for name, entries in known_failures.items()},
    )


def read_toml(path: str | Path, what: str) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: The file.
        what: What is read there, for messages.

    Raises:
        ConfigError: The file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {what} in {brief(str(path))}: {error.strerror}; name a TOML file") from error
    except ValueError as error:
        raise ConfigError(f"expected TOML in {path}, but {error}; correct the file") from error


def read_known_failures(path: str | Path, *, today: datetime.date | None = None) -> dict[str, str]:
    """Read which checks of one sampler are known to fail, each with the reason why that is tolerated.

    The file is TOML, one table for each check: ``reason`` (compulsory), ``issue`` (where it is tracked) and ``until``
    (the last day on which the entry holds). A reason alone may be written as text in place of the table.

    Args:
        path: the file.
        today: the day to compare ``until`` with; the present one when left out.

    Returns:
        id of the check to reason, the issue appended in parentheses.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or an entry lacks a reason, has an unknown key or has
            expired. Whether the ids exist is for the suite to say.
    """
    tables = read_toml(path, "the known failures")
    return {check: _reason(check, entry, today or datetime.date.today()) for check, entry in tables.items()}


def entries_by_sampler(entries: object, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Read known failures that were written by sampler, or by check alone where there is one sampler.

    Args:
        entries: Entries by name of the sampler and id of the check; without the name for a single sampler.
        names: The samplers that they may be meant for.

    Returns:
        Reason by sampler and id of the check.

    Raises:
        ConfigError: An entry is not as it should be. Whether the samplers are there is for require_samplers to say.

    Example:
        >>> entries_by_sampler({"SV-RES-001": "issue 12"}, ["mine"])
        {'mine': {'SV-RES-001': 'issue 12'}}
    """
    if not isinstance(entries, Mapping):
        raise ConfigError(f"expected known failures as a table by sampler, got {brief(entries)}")
    if entries and all(str(key).startswith(_ID) for key in entries):
        single = tuple(names)
        if len(single) != 1:
            raise ConfigError(
                f"expected known failures by sampler, got checks alone for {len(single)} samplers; name them"
            )
        entries = {single[0]: entries}
    return {str(name): _reasons(str(name), table) for name, table in entries.items()}


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


def _nearest_table(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Give the file that configures what lies below it, and its settings; none at all where there is no such file."""
    for place in (folder, *folder.parents):
        own, project = place / "specverify.toml", place / "pyproject.toml"
        if os.path.isfile(own):  # which passes over folders that may not be read
            return own, read_toml(own, "the configuration")
        tools = read_toml(project, "the configuration").get("tool", {}) if os.path.isfile(project) else {}
        if isinstance(tools, dict) and "specverify" in tools:
            table = tools["specverify"]
            if not isinstance(table, dict):
                raise ConfigError(f"expected tool.specverify in {project} to be a table, got {brief(table)}")
            return project, table
    return folder / "specverify.toml", {}


def _environment() -> dict[str, Any]:
    """Give the options that environment variables set; an empty variable is one that is not set."""
    found: dict[str, Any] = {}
    for name, variable in _ENVIRONMENT.items():
        text = os.environ.get(variable, "")
        if text:
            digits = OPTIONS[name] is int and text.isdecimal() and text.isascii()
            found[name] = _typed(variable, int(text) if digits else text, OPTIONS[name])
    return found


def _typed(what: str, value: object, kind: type) -> Any:
    accepted = (int, float) if kind is float else kind
    if isinstance(value, bool) or not isinstance(value, accepted):
        raise ConfigError(f"expected {what} to be {_WORDS[kind]}, got {brief(value)}")
    return value


def _from_here(target: str, folder: Path) -> str:
    """Give a sampler's name as it is written from the working directory; only paths depend on where they start."""
    path, colon, attribute = target.rpartition(":")
    if not colon or not (path.endswith(".py") or os.sep in path) or Path(path).is_absolute():
        return target
    return f"{os.path.relpath(folder / path)}:{attribute}"


def _reasons(sampler: str, entries: object) -> dict[str, str]:
    if not isinstance(entries, Mapping):
        raise ConfigError(f"expected the known failures of {sampler} as a table by check, got {brief(entries)}")
    return {check: _reason(str(check), entry, datetime.date.today()) for check, entry in entries.items()}


def _reason(check: str, entry: object, today: datetime.date) -> str:
    """Check one entry and put what it says into one line."""
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

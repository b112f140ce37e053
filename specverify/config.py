"""What a user writes down for the kit in files is read strictly: an unknown key is an error, never ignored.

``[tool.specverify]`` of pyproject.toml, or specverify.toml, sets what the command line and pytest leave open. What is
given there or to a decorator comes first, then the environment, then the file, then the default.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from specverify.errors import ConfigError
from specverify.known_failures import KnownFailure, entries_by_sampler, reasons_today
from specverify.nearest import did_you_mean
from specverify.wording import brief

__all__ = ["OPTIONS", "Settings", "read_settings", "read_toml"]

OPTIONS: Final[Mapping[str, type]] = {
    "profile": str,
    "seed": int,
    "alpha": float,
    "samples": int,
    "target_tv": float,
    "timeout": float,
    "workers": int,
}
"""Options of a run that can be set in a file, with their types; all doors call them by these names."""

_WORDS: Final = {str: "text", int: "an integer", float: "a number"}
_TABLES: Final = ("samplers", "known_failures")
_MOST_DIGITS: Final = 20  # no seed has more, and Python does not read thousands
_ENVIRONMENT: Final = {"profile": "SPECVERIFY_PROFILE", "seed": "SPECVERIFY_SEED"}


@dataclass(frozen=True)
class Settings:
    """What was set outside of the command line and the test files.

    Attributes:
        options: Values of those options that were set, by the names of OPTIONS.
        samplers: Samplers that pytest checks where the command line names none.
        known_failures: Known failure by sampler and id of the check.

    Example:
        >>> known = {"mine": {"SV-RES-001": KnownFailure("issue 12")}}
        >>> Settings(known_failures=known).known_of("my_file.py:mine", "mine")
        {'SV-RES-001': 'issue 12'}
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    samplers: tuple[str, ...] = ()
    known_failures: Mapping[str, Mapping[str, KnownFailure]] = field(default_factory=dict)

    def known_of(self, *names: str) -> dict[str, str]:
        """Give the reasons of the known failures of a sampler with several names, of which the last counts most.

        Raises:
            ConfigError: One of them has expired.
        """
        entries = (entry for name in names for entry in self.known_failures.get(name, {}).items())
        return reasons_today(dict(entries))

    def excusing(self, known_failures: Mapping[str, Mapping[str, KnownFailure]]) -> "Settings":
        """Give the same settings with more known failures."""
        samplers = {**self.known_failures, **known_failures}
        both = {name: {**self.known_failures.get(name, {}), **known_failures.get(name, {})} for name in samplers}
        return replace(self, known_failures=both)


def read_settings(folder: Path) -> Settings:
    """Read the environment and the nearest configuration, from a folder upwards.

    The first specverify.toml, or pyproject.toml with a table ``[tool.specverify]``, is the one. Paths of samplers in
    it start where it lies.

    Args:
        folder: Where the search begins.

    Returns:
        What was found; a variable of the environment takes the place of the file's value.

    Raises:
        ConfigError: It is not TOML, has an unknown key or a value of the wrong type, or excuses a check that is not
            there. Whether the other values make sense is for the suite to say.

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
    targets = tuple(_from_here(target, file.parent) for target in samplers)
    return Settings(
        options | _environment(),
        targets,
        entries_by_sampler(known_failures, targets),
    )


def read_toml(path: str | Path, what: str) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: The file.
        what: What is read there, for messages.

    Returns:
        Its tables and values.

    Raises:
        ConfigError: The file cannot be read or is not TOML.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "known.toml"
        >>> _ = file.write_text('SV-RES-001 = "issue 12"', encoding="utf-8")
        >>> read_toml(file, "the known failures")
        {'SV-RES-001': 'issue 12'}
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))  # some editors mark UTF-8
    except OSError as error:
        raise ConfigError(f"cannot read {what} in {brief(str(path))}: {error.strerror}; name a TOML file") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"expected TOML in {path}, but {error}; correct the file") from error


def _nearest_table(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Give the file that configures what lies below it, and its settings; none at all where there is no such file."""
    for place in (folder, *folder.parents):
        own, project = place / "specverify.toml", place / "pyproject.toml"
        if os.path.lexists(own):  # which passes over folders that may not be read
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
            digits = OPTIONS[name] is int and text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS
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

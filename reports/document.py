"""Whatever a run found is one JSON document, and reading it back gives the same report."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from specverify.errors import ConfigError
from specverify.wording import brief

from .forms import FORMS, save
from .shape import damage
from .terminal import render

__all__ = ["SCHEMA_VERSION", "Report"]

SCHEMA_VERSION: Final = "1.2"
"""The form that this version writes, described by ``report.schema.json`` beside this file."""

_NEEDED: Final = ("schema_version", "tool", "sampler", "verdict", "checks")


@dataclass(frozen=True, repr=False)
class Report:
    """The result of checking one sampler, as a typed view of the report document.

    Args:
        document: the document that ``report.schema.json`` describes, made of plain Python values. What no UTF-8 file
            can hold (lone surrogates, from names that are not text) is escaped.

    >>> report = Report({"verdict": "conformant", "lossless": True})
    >>> report.verdict, report.lossless
    ('conformant', True)
    """

    document: dict[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "document", _encodable(self.document))

    def __str__(self) -> str:
        """The terminal view, so that ``print(report)`` and a failing assert say what was found."""
        return render(self.document)

    def __repr__(self) -> str:
        """Name and verdict; the document is too long to show."""
        return f"<Report of {self.document.get('sampler', {}).get('name', '?')}: {self.document.get('verdict', '?')}>"

    @property
    def verdict(self) -> str:
        """One of "conformant", "nonconformant" and "inconclusive"."""
        return str(self.document["verdict"])

    @property
    def lossless(self) -> bool | None:
        """Whether the output follows the target; None where the evidence does not decide."""
        value: bool | None = self.document["lossless"]
        return value

    @property
    def rule(self) -> Mapping[str, Any]:
        """The declared rule, whether it is followed, and the known rules that are not contradicted."""
        value: Mapping[str, Any] = self.document["rule"]
        return value

    @property
    def checks(self) -> list[dict[str, Any]]:
        """The entry of every check, in the order of the catalogue."""
        return list(self.document["checks"])

    @property
    def diagnosis(self) -> list[dict[str, Any]]:
        """The catalogued faults that the behaviour matches, likeliest first."""
        return list(self.document["diagnosis"])

    def to_json(self) -> str:
        """The document as JSON text.

        Raises:
            ValueError: a number is NaN or infinite, which JSON cannot say.
        """
        return FORMS["json"].write(self.document)

    def write(self, path: str | Path, *, form: str = "json") -> None:
        """Write the report to a UTF-8 file; a file that cannot be written whole is not left behind.

        Args:
            path: the file.
            form: one of ``FORMS``: "json", "html", "markdown" or "junit".

        Raises:
            ConfigError: the file cannot be written, or there is no such form.
        """
        if form not in FORMS:
            raise ConfigError(f"expected a form among {', '.join(FORMS)}, got {brief(form)}; name one of them")
        save(FORMS[form].write(self.document), path)

    @classmethod
    def read(cls, path: str | Path) -> "Report":
        """Read a report that any 1.x version wrote.

        Raises:
            ConfigError: the file cannot be read, is no JSON, is no report or a damaged one, or has a newer major
                version.
        """
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8-sig"), parse_constant=_refuse_constant)
            _require_report(document, path)
            return cls(document)
        except OSError as error:
            raise ConfigError(
                f"cannot read the report {brief(str(path))}: {error.strerror}; name a file written with --json"
            ) from error
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"expected a JSON report, but {path} is not JSON ({error}); name a file written with --json"
            ) from error


def _encodable(value: Any) -> Any:
    """Copy plain values, with the text among them made such that UTF-8 can hold it."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _require_report(document: object, path: str | Path) -> None:
    """Refuse what only looks like a report, what a later version wrote, and what was damaged since."""
    missing = [name for name in _NEEDED if not isinstance(document, dict) or name not in document]
    if missing or not isinstance(document, dict):
        raise ConfigError(
            f"expected a specverify report, but {path} has no {missing[0]!r}; name a file written with --json"
        )
    version = str(document["schema_version"])
    known = SCHEMA_VERSION.split(".")[0]
    if version.split(".")[0] != known:
        raise ConfigError(
            f"expected a report of version {known}.x, but {path} has version {version}; "
            "read it with the specverify that wrote it"
        )
    found = damage(document)
    if found:
        raise ConfigError(f"expected a whole report, but {path} is damaged ({found}); write it again with --json")

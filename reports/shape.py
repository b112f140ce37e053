"""A file that is no report, or a damaged one, is named together with what is wrong in it, before anything is shown.

The form is that of ``report.schema.json``; of its vocabulary the parts that a view relies on are understood here.
Fields that are not described are accepted: a later minor version may have added them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Final

from specverify.wording import brief

from .agreement import contradictions

__all__ = ["damage"]

_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": lambda value: _is_number(value),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}

_LARGEST: Final = 1e300  # sums and axes of such numbers are finite still

Schema = Mapping[str, Any]


def damage(document: Any) -> str | None:
    r"""Say where a document departs from the form of a report.

    Args:
        document: what was read from a file.

    Returns:
        the first departure in one line, or None.

    Example:
        >>> damage({"schema_version": 1})
        'schema_version: expected string, got 1'
    """
    schema = _schema()
    return next(_departures(document, schema, ""), None) or next(contradictions(document), None)


@cache
def _schema() -> Schema:
    text = resources.files(__package__).joinpath("report.schema.json").read_text(encoding="utf-8")
    schema: Schema = json.loads(text)
    return schema


def _departures(value: Any, schema: Schema, where: str) -> Iterator[str]:
    """Walk a value along its schema; fields that are there come before those that are missing."""
    if "$ref" in schema:
        schema = _schema()["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        yield from _of_any(value, schema["anyOf"], where)
        return
    problem = _mismatch(value, schema)
    if problem:
        yield f"{where or 'the document'}: {problem}"
    elif isinstance(value, dict):
        yield from _of_fields(value, schema, where)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from _departures(item, schema["items"], f"{where}[{index}]")


def _of_any(value: Any, choices: list[Schema], where: str) -> Iterator[str]:
    """Accept what any choice accepts; else say what is wrong by the last, which is the one that is not null."""
    if all(any(True for _ in _departures(value, choice, where)) for choice in choices):
        yield from _departures(value, choices[-1], where)


def _of_fields(value: dict[str, Any], schema: Schema, where: str) -> Iterator[str]:
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        inner = fields.get(name, others)
        if isinstance(inner, Mapping):
            yield from _departures(item, inner, f"{where}.{name}" if where else name)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where or 'the document'}: expected the field {name!r}, got none"


def _mismatch(value: Any, schema: Schema) -> str | None:
    types = schema.get("type", ())
    types = [types] if isinstance(types, str) else types
    if types and not any(_TYPES[name](value) for name in types):
        return f"expected {' or '.join(types)}, got {brief(value)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"expected one of {', '.join(map(str, schema['enum']))}, got {brief(value)}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        return f"expected text like {schema['pattern']}, got {brief(value)}"
    if _is_number(value) and not _is_within(value, schema):
        return f"expected a number within its bounds, got {brief(value)}"
    if schema.get("format") == "date-time" and not _is_date(value):
        return f"expected a date and time, got {brief(value)}"
    return None


def _is_number(value: object) -> bool:
    """Say whether a value is a number with which a view can reckon; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_within(value: float, schema: Schema) -> bool:
    inside = schema.get("minimum", value) <= value <= schema.get("maximum", value)
    return inside and not ("exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"])


def _is_date(text: str) -> bool:
    """Say whether text is a date and time that has one in UTC: at the ends of the calendar some have none."""
    try:
        date = datetime.fromisoformat(text)
        _ = date.astimezone(UTC) if date.tzinfo else date
    except (ValueError, OverflowError):
        return False
    return True

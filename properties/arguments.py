"""A strategy that could generate nothing is refused when it is made, in one line."""

from collections.abc import Mapping
from typing import TypeVar

from specverify.errors import ConfigError
from specverify.nearest import did_you_mean
from specverify.wording import brief

__all__ = ["at_least", "chosen"]

T = TypeVar("T")


def at_least(name: str, value: int, least: int) -> int:
    """Give a size that is large enough; a smaller one is a ConfigError."""
    if value < least:
        raise ConfigError(f"expected {name} >= {least}, got {value}; pass {least} or more")
    return value


def chosen(name: str, value: str, known: Mapping[str, T]) -> T:
    """Give what a name stands for; an unknown one is a ConfigError that lists the known ones."""
    if value not in known:
        close = did_you_mean(str(value), known)
        raise ConfigError(f"expected {name} to be one of {', '.join(known)}, got {brief(value)}{close}")
    return known[value]

"""A strategy that could generate nothing, or nothing in time, is refused when it is made, in one line."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, TypeVar

import numpy as np

from specverify.errors import ConfigError
from specverify.integers import integer
from specverify.nearest import did_you_mean
from specverify.rows import exact_number
from specverify.wording import brief

__all__ = ["chosen", "fraction", "tokens"]

T = TypeVar("T")

_MOST_TOKENS: Final = 256  # rows of more take too many choices: Hypothesis ends an example after 8192 units of them


def tokens(value: object, *, name: str = "vocab_size", least: int = 1, most: int = _MOST_TOKENS) -> int:
    """Give a number of tokens for which rows can be generated; any other is a ConfigError."""
    return integer(name, value, least, most, instead="for more tokens draw a seed, and make the rows from it by NumPy")


def chosen(name: str, value: object, known: Mapping[str, T]) -> T:
    """Give what a name stands for; an unknown one is a ConfigError that lists the known ones."""
    if not isinstance(value, str) or value not in known:
        close = did_you_mean(value, known) if isinstance(value, str) else ""
        raise ConfigError(f"expected {name} to be one of {', '.join(known)}, got {brief(value)}{close}")
    return known[value]


def fraction(name: str, value: object, domain: str) -> Fraction:
    """Give any number, also one of NumPy or text like "1/2", as a Fraction; anything else is a ConfigError."""
    plain = value.item() if isinstance(value, np.generic) else value
    try:
        if isinstance(plain, bool):
            raise TypeError("a bool is no number here")
        return exact_number(plain)
    except (TypeError, ValueError, ArithmeticError):
        raise ConfigError(f"expected {name} to be {domain}, got {brief(value)}") from None

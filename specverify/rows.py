"""Rows of probabilities are checked in one place: what is no distribution is refused in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from operator import index as as_index
from typing import Any

import numpy as np
import numpy.typing as npt

from specverify.arrays import FloatArray
from specverify.errors import ConfigError
from specverify.wording import brief, told

__all__ = [
    "MAX_DRAFT_TOKENS",
    "Prefix",
    "draft_length",
    "exact_number",
    "frozen",
    "is_exact",
    "is_law",
    "prefix_row",
    "row_array",
    "rows_per_position",
    "table_level",
]

MAX_DRAFT_TOKENS = 1024
TOLERANCE = 1e-9
ROUNDING = 1e-6  # of rows that were made from checked ones
MAX_DIGITS = 400

Prefix = tuple[int, ...]


def _is_row(value: Any) -> bool:
    """Tell rows from what NumPy takes for one value: numbers, strings, mappings, sets, generators."""
    return isinstance(value, list | tuple) or np.ndim(value) > 0


def _check_row(name: str, model: str, row: Any) -> None:
    if not _is_row(row):
        raise ConfigError(f"case {brief(name)}: expected a {model} row as a list of probabilities, got {brief(row)}")


def rows_per_position(name: str, model: str, rows: Sequence[Any] | FloatArray, wanted: int) -> list[Any]:
    """Give one row per position from one row for all positions, or from as many as are wanted."""
    _check_row(name, model, rows)
    if len(rows) == 0:
        if wanted == 0:
            return []
        raise ConfigError(f"case {brief(name)}: expected a {model} row of at least one token, got none")
    if not _is_row(rows[0]):
        return [rows] * wanted
    if len(rows) != wanted:
        raise ConfigError(f"case {brief(name)}: expected one {model} row or {wanted} of them, got {len(rows)}")
    for row in rows:
        _check_row(name, model, row)
    return list(rows)


def table_level(name: str, model: str, table: Mapping[Prefix, Sequence[Any]], size: int, length: int) -> list[Any]:
    """Give the rows of all prefixes of one length, in the order of their numbers."""
    return [prefix_row(name, model, table, prefix) for prefix in product(range(size), repeat=length)]


def prefix_row(name: str, model: str, table: Mapping[Prefix, Sequence[Any]], prefix: Prefix) -> Sequence[Any]:
    """Give the row of a prefix, or say that it is missing."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"case {brief(name)}: expected {model} rows in a dict by prefix, got {brief(table)}")
    if prefix not in table:
        raise ConfigError(f"case {brief(name)}: expected a {model} row for prefix {prefix}, got none")
    _check_row(name, model, table[prefix])
    return table[prefix]


def draft_length(name: str, num_draft_tokens: object) -> int:
    """Give the draft length as an int from 0 to MAX_DRAFT_TOKENS, or refuse it."""
    try:
        length = -1 if isinstance(num_draft_tokens, bool) else as_index(num_draft_tokens)  # type: ignore[arg-type]
    except TypeError:
        length = -1
    if not 0 <= length <= MAX_DRAFT_TOKENS:
        raise ConfigError(
            f"case {brief(name)}: expected num_draft_tokens to be an integer from 0 to {MAX_DRAFT_TOKENS}, "
            f"got {brief(num_draft_tokens)}"
        )
    return length


def is_exact(row: Sequence[Any]) -> bool:
    """Say whether a row is given without floats."""
    return not isinstance(row, np.ndarray) and all(isinstance(value, (int, Fraction, str)) for value in row)


def row_array(name: str, where: str, level: list[Any], size: int, exact: bool) -> npt.NDArray[Any]:
    """Make one array of rows, of fractions or of float64, each checked to be a distribution."""
    rows = np.empty((len(level), size), dtype=object if exact else np.float64)
    for index, row in enumerate(level):
        here = where.format(index)
        if len(row) != size:
            raise ConfigError(f"case {brief(name)}: expected {size} tokens in every row, got {len(row)} in {here}")
        try:
            rows[index] = [exact_number(value) for value in row] if exact else _floats(row)
            _check_distribution(name, here, rows[index], exact)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise ConfigError(f"case {brief(name)}: expected numbers in {here}, got {told(error)}") from None
    return rows


def _floats(row: Sequence[Any]) -> FloatArray:
    values = row.tolist() if isinstance(row, np.ndarray) else row
    return np.array([float(exact_number(value)) if isinstance(value, str) else float(value) for value in values])


def exact_number(value: Any) -> Fraction:
    """Read a number; one whose digits would fill the memory is refused."""
    if isinstance(value, str):
        exponent = value.lower().partition("e")[2].strip().lstrip("+-").replace("_", "")
        if len(value) > MAX_DIGITS or (exponent.isdecimal() and int(exponent) > MAX_DIGITS):
            raise ValueError(f"{brief(value)}, a number of more than {MAX_DIGITS} digits")
    return Fraction(value)


def is_law(rows: Any) -> bool:
    """Say whether an array is one of rows that sum to 1, up to rounding.

    Example:
        >>> is_law(np.array([[0.5, 0.5]])), is_law(np.array([[0.5, 0.6]])), is_law([[0.5, 0.5]])
        (True, False, False)
    """
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype != np.float64 or not rows.size:
        return False
    return bool((rows >= 0).all() and (np.abs(rows.sum(axis=1) - 1) <= ROUNDING).all())


def _check_distribution(name: str, where: str, row: npt.NDArray[Any], exact: bool) -> None:
    total = sum(row) if exact else float(row.sum())
    if not all(row >= 0):
        bad = int(np.flatnonzero(~(row >= 0))[0])
        raise ConfigError(f"case {brief(name)}: expected probabilities >= 0 in {where}, got {row[bad]} at token {bad}")
    if (total != 1) if exact else not abs(total - 1) <= TOLERANCE:
        raise ConfigError(f"case {brief(name)}: expected {where} to sum to 1, got {total}; normalise it")


def frozen(rows: npt.NDArray[Any]) -> FloatArray:
    """Copy rows to float64, read-only."""
    array = np.array(rows, dtype=np.float64)
    array.flags.writeable = False
    return array

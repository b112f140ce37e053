"""A size or a seed is an integer within its limits, NumPy's too; anything else is refused in one line."""

from __future__ import annotations

from operator import index

from specverify.errors import ConfigError
from specverify.wording import brief

__all__ = ["integer"]


def integer(name: str, value: object, least: int, most: int, *, instead: str = "") -> int:
    """Give an integer of any type as an int.

    Args:
        name: What it is called, for the message.
        value: What was given; a bool is no integer.
        least: Smallest that is allowed.
        most: Largest that is allowed.
        instead: What to do where more is wanted, which ends the message of a larger one.

    Returns:
        The same number.

    Raises:
        ConfigError: It is no integer, or lies outside its limits.

    Example:
        >>> import numpy as np
        >>> integer("seed", np.int64(3), 0, 9)
        3
    """
    try:
        number = None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        advice = f"; {instead}" if instead and number is not None and number > most else ""
        raise ConfigError(f"expected {name} to be an integer from {least} to {most}, got {brief(value)}{advice}")
    return number

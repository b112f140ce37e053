"""Which cells of a check say most, and what is due in them, is decided once for words and pictures."""

import math
from typing import Final

from .claims import Document

__all__ = ["due", "furthest"]

_IMPOSSIBLE: Final = "what cannot happen"  # label of the cell whose tiny share is only lent, in every document
_TINY: Final = 1e-9


def due(check: Document, cell: int) -> float:
    """Give the events due in a cell: none in that of what cannot happen.

    >>> due({"labels": ["A", "what cannot happen"], "expected": [5.0, 1e-9]}, 1)
    0.0
    """
    return 0.0 if check["labels"][cell] == _IMPOSSIBLE else float(check["expected"][cell])


def furthest(check: Document) -> list[int]:
    """List the cells in which something was seen or due, the furthest from what was expected first.

    Distance is in standard deviations of a rare event, as in the message of a failed check.

    >>> furthest({"labels": ["A", "B", "C"], "observed": [110, 5, 0], "expected": [100.0, 1.0, 0.0]})
    [1, 0]
    """
    cells = [cell for cell, seen in enumerate(check["observed"]) if seen or due(check, cell)]
    return sorted(cells, key=lambda cell: -_distance(check["observed"][cell], check["expected"][cell]))


def _distance(seen: float, expected: float) -> float:
    return abs(seen - expected) / math.sqrt(max(expected, _TINY))

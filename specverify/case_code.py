"""A case as the line of Python that builds it again, so that what was found can be run anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from specverify.cases import Case, Prefix, Row

__all__ = ["MOST_WRITTEN", "case_code"]

MOST_WRITTEN = 512
"""Probabilities up to which a case is written out."""


def case_code(case: Case) -> str | None:
    """Give the call that builds a case again, equal to the last bit.

    Args:
        case: A case of one draft per position.

    Returns:
        One line of Python; None for a case of more than 512 probabilities, of a tree or of a loop.

    Example:
        >>> case_code(Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1))
        "specverify.Case.from_rows('AB', ['3/5', '2/5'], ['4/5', '1/5'], num_draft_tokens=1)"
    """
    size = sum(rows.size for rows in (*case.target, *case.draft))
    if case.tree is not None or case.loop is not None or size > MOST_WRITTEN:
        return None
    count = case.num_draft_tokens
    write = _table if case.contextual else _rows
    laws = f"{write(case.target_row, case, count + 1)}, {write(case.draft_row, case, count)}"
    ragged = ", ragged=True" if case.ragged else ""
    builder = "from_table" if case.contextual else "from_rows"
    return f"specverify.Case.{builder}({case.name!r}, {laws}, num_draft_tokens={count}{ragged})"


def _rows(row_of: Callable[[Prefix], Row], case: Case, depth: int) -> str:
    """Write the rows of all positions, or the one that they share."""
    rows = [_row(case, row_of((0,) * length)) for length in range(depth)]
    return rows[0] if rows and len(set(rows)) == 1 else f"[{', '.join(rows)}]"


def _table(row_of: Callable[[Prefix], Row], case: Case, depth: int) -> str:
    prefixes = [prefix for length in range(depth) for prefix in product(range(case.vocab_size), repeat=length)]
    return "{" + ", ".join(f"{prefix}: {_row(case, row_of(prefix))}" for prefix in prefixes) + "}"


def _row(case: Case, row: Sequence[object]) -> str:
    return str([str(x) if case.exact else x for x in row])

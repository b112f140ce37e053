"""What a report says of a check, a suspect or a law, in words that no form of it changes.

Everything here is plain text from the report document; how it is laid out and escaped is for each form to say.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import count, product
from typing import Final

from .cells import due, furthest
from .claims import Document
from .text import number, scientific

__all__ = ["cells", "example_title", "figures", "law", "p_value", "quantities", "suspects"]

_SHOWN_CELLS: Final = 3
_LIKELY: Final = 0.05
_CERTAIN: Final = 0.995
_VISIBLE: Final = 0.05
_SMALL: Final = 1e-4


def figures(check: Document) -> str:
    """The numbers of a check in one line: its worst case and events, then p-value and evidence, first what decided."""
    found = [f"case {check['worst_case']}"] if check["worst_case"] else []
    found += [f"n {check['n']:,}"] if check["n"] else []
    tail = [f"p {p_value(check)}"] if check["p_value"] is not None else []
    bet = [f"log10 E {check['log10_e']:,.1f}"] if check["log10_e"] is not None else []
    return ", ".join([*found, *(bet + tail if _bet_decided(check) else tail + bet)])


def _bet_decided(check: Document) -> bool:
    """Whether a check failed by its evidence, with a p-value above its level."""
    p, log10_e, level = check["p_value"], check["log10_e"], check["level"]
    return bool(level) and None not in (p, log10_e) and p > level and log10_e >= -math.log10(level)


def p_value(check: Document) -> str:
    """The p-value of a check, "-" where it has none."""
    return "-" if check["p_value"] is None else scientific(check["p_value"])


def cells(check: Document) -> Iterator[str]:
    """Describe the cells that depart most from what was expected, where the difference can be seen in the numbers."""
    found = ((check["labels"][cell], check["observed"][cell], due(check, cell)) for cell in furthest(check))
    departing = [cell for cell in found if abs(cell[1] - cell[2]) >= _VISIBLE]
    for label, observed, expected in departing[:_SHOWN_CELLS]:
        yield f"{label}: observed {observed:,.0f}, expected {expected:,.1f}"


def suspects(candidates: Sequence[Document]) -> list[tuple[str, str]]:
    """What the behaviour looks like, likeliest first, as name with weight and message; the unlikely are left out."""
    likely = [candidate for candidate in candidates if candidate["weight"] >= _LIKELY] or list(candidates[:1])
    found = []
    for candidate in likely:
        name = candidate["fault"] or ("unknown" if candidate["evidence"] is None else "other rule")
        weight = "" if candidate["weight"] > _CERTAIN else f" (weight {candidate['weight']:.2f})"
        found.append((name + weight, candidate["message"]))
    return found


def example_title(example: Document) -> str:
    """What the case of a counterexample shows: the fault, or, where only all cases together do, most of the evidence.

    >>> example_title({"shown_by": "all evidence"})
    'Case with most of the evidence; only all cases together show the fault'
    """
    if example.get("shown_by", "case") == "case":  # documents before version 1.2 do not say
        return "Smallest case that shows it"
    return "Case with most of the evidence; only all cases together show the fault"


def quantities(example: Document) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Each quantity of a counterexample, with the label, the exact and the observed value of each of its parts."""
    for quantity, exact in example["expected"].items():
        seen = example["observed"].get(quantity, {})
        parts = [(label, number(value, ".4f"), number(seen.get(label), ".4f")) for label, value in exact.items()]
        yield quantity, parts


def law(rows: Sequence[Sequence[float | str]], by: str = "", *, most_rows: int = 4, most_tokens: int = 8) -> list[str]:
    """The rows of a law; one too large to read is named by its shape, one that the document lacks by that.

    Args:
        rows: its rows.
        by: "context" or "position", by which several rows are then labelled.
        most_rows: rows that are shown.
        most_tokens: length up to which rows are shown.

    >>> law([["3/5", "2/5"]] * 3, most_rows=1)
    ['3/5  2/5', '(2 more rows in the report document)']
    >>> law([["3/5", "2/5"]] * 2, most_rows=1)[1]
    '(1 more row in the report document)'
    >>> law([[0.5, 0.5], [0.25, 0.75], [1 / 3, 2 / 3]], "context")
    ['first    0.5000  0.5000', 'after 0  0.2500  0.7500', 'after 1  0.3333  0.6667']
    """
    if not rows:
        return ["too large to show"]
    if any(len(row) > most_tokens for row in rows):
        return [f"{len(rows)} rows of {len(rows[0])}, in the report document"]
    left = len(rows) - most_rows
    more = [f"({left} more row{'' if left == 1 else 's'} in the report document)"] if left > 0 else []
    names = _row_names(len(rows[0]), by) if len(rows) > 1 else iter(())
    shown = [(next(names, ""), *map(_share, row)) for row in rows[:most_rows]]
    width = max(len(name) for name, *_ in shown)
    return ["  ".join([name.ljust(width)] * bool(width) + values) for name, *values in shown] + more


def _row_names(size: int, by: str) -> Iterator[str]:
    """Name rows by the tokens before them, in the order of the document, or by their position."""
    if by == "position":
        yield from (f"position {number}" for number in count(1))
    for length in count() if by == "context" else ():
        for tokens in product(range(size), repeat=length):
            yield f"after {' '.join(map(str, tokens))}" if tokens else "first"


def _share(value: float | str) -> str:
    """A probability by four decimals; fractions as they are, and what four decimals cannot show by two digits."""
    if isinstance(value, str):
        return value
    return f"{value:.4f}" if value == 0 or value >= _SMALL else scientific(value)

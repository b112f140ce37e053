"""What a report says of a check, a suspect or a law, in words that no form of it changes.

Everything here is plain text from the report document; how it is laid out and escaped is for each form to say.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from .claims import Document
from .text import number, scientific

__all__ = ["cells", "figures", "law", "p_value", "quantities", "suspects"]

_SHOWN_CELLS: Final = 3
_SHOWN_ROWS: Final = 4
_SHOWN_TOKENS: Final = 8
_LIKELY: Final = 0.05
_CERTAIN: Final = 0.995
_VISIBLE: Final = 0.05


def figures(check: Document) -> str:
    """The numbers of a check in one line: its worst case, events, p-value and evidence."""
    found = [f"case {check['worst_case']}"] if check["worst_case"] else []
    found += [f"n {check['n']:,}"] if check["n"] else []
    found += [f"p {p_value(check)}"] if check["p_value"] is not None else []
    found += [f"log10 E {check['log10_e']:,.1f}"] if check["log10_e"] is not None else []
    return ", ".join(found)


def p_value(check: Document) -> str:
    """The p-value of a check, "-" where it has none."""
    return "-" if check["p_value"] is None else scientific(check["p_value"])


def cells(check: Document) -> Iterator[str]:
    """Describe the cells that depart most from what was expected, in standard deviations."""
    every = zip(check["labels"], check["observed"], check["expected"], strict=True)
    departing = [cell for cell in every if abs(cell[1] - cell[2]) >= _VISIBLE]
    departing.sort(key=lambda cell: -abs(cell[1] - cell[2]) / max(cell[2], 1.0) ** 0.5)
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


def quantities(example: Document) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Each quantity of a counterexample, with the label, the exact and the observed value of each of its parts."""
    for quantity, exact in example["expected"].items():
        seen = example["observed"].get(quantity, {})
        parts = [(label, number(due, ".4f"), number(seen.get(label), ".4f")) for label, due in exact.items()]
        yield quantity, parts


def law(rows: Sequence[Sequence[float | str]]) -> list[str]:
    """The rows of a law; one too large to read is named by its shape."""
    if any(len(row) > _SHOWN_TOKENS for row in rows):
        return [f"{len(rows)} rows of {len(rows[0])}, in the report document"]
    shown = ["  ".join(map(str, row)) for row in rows[:_SHOWN_ROWS]]
    more = [f"({len(rows) - _SHOWN_ROWS} more rows in the report document)"] if len(rows) > _SHOWN_ROWS else []
    return [*shown, *more]

"""Ten reports fit one screen: what is compared is short in the matrix and in full in the key below it."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from .claims import Document
from .comparison import Column, Row, columns_of, rows_of
from .markup import Section, code, escaped, fitted, row
from .statuses import STATUSES, VERDICTS
from .text import breadth, columns, squeezed, wrap

__all__ = ["compare", "compare_markdown"]

_WIDTH: Final = 120
_AT_ONCE: Final = 10
_KEY_NAME: Final = 24
_KEY_RUN: Final = 64
_MARKDOWN_NAME: Final = 24
_LEGEND: Final = ", ".join(f"{sign.short or 'blank'} {sign.meaning}" for sign in STATUSES.values())


def compare(documents: Sequence[Document], sources: Sequence[str]) -> str:
    """Give the matrix of samplers by checks for a terminal of 120 columns.

    Args:
        documents: report documents, one or more.
        sources: the file of each.

    Returns:
        lines joined by newlines, with one at the end. Ten reports stand side by side, more follow below.

    Example:
        >>> compare([], [])
        ''
    """
    reports = columns_of(documents, sources)
    blocks = [reports[start : start + _AT_ONCE] for start in range(0, len(reports), _AT_ONCE)]
    tables = ["\n".join(_table(block, reports)) + "\n" for block in blocks]
    return "\n".join([*tables, *([_key(reports)] if reports else [])])


def _table(block: Sequence[Column], reports: Sequence[Column]) -> list[str]:
    """One block of columns, with the titles of the checks where there is room for them."""
    rows = list(rows_of(reports))
    label = max(breadth(entry.name) for entry in rows)
    width = min(24, (_WIDTH - label) // len(block) - 2)
    first = block[0].number - 1
    lines = [
        ["", *(f"({report.number})" for report in block)],
        ["", *(squeezed(report.name, width) for report in block)],
        *([entry.name, *_cells(entry, range(first, first + len(block)), width)] for entry in rows),
    ]
    plain = columns(lines, left=1 + len(block))
    titles = ["", "", *(entry.title for entry in rows)]
    titled = columns(list(zip(plain, titles, strict=True)), left=2)
    return titled if max(map(breadth, titled)) <= _WIDTH else plain


def _cells(entry: Row, places: Iterable[int], width: int) -> Iterator[str]:
    signs = STATUSES if entry.is_check else VERDICTS if entry.name == "verdict" else {}
    for place in places:
        text = entry.cells[place]
        yield squeezed(signs[text].short if text in signs else text, width)


def _key(reports: Sequence[Column]) -> str:
    """What stands for what: the reports by number, then the words."""
    named = [
        (f"({report.number})", squeezed(report.name, _KEY_NAME), squeezed(report.details, _KEY_RUN))
        for report in reports
    ]
    known = columns(named, left=3)
    room = _WIDTH - max(map(breadth, known)) - 2
    files = [squeezed(report.source, room) for report in reports]
    return "\n".join([*columns(list(zip(known, files, strict=True)), left=2), "", *wrap(_LEGEND)]) + "\n"


def compare_markdown(documents: Sequence[Document], sources: Sequence[str]) -> str:
    """Give the matrix of samplers by checks for the step summary of a GitHub workflow.

    Args:
        documents: report documents, one or more.
        sources: the file of each.

    Returns:
        the text, cut by section where it would be too long.

    Example:
        >>> compare_markdown([], []).splitlines()[0]
        '## Comparison of 0 reports'
    """
    reports = columns_of(documents, sources)
    head = ["", *(f"({report.number}) {_short(report)}" for report in reports)]
    title = f"## Comparison of {len(reports)} report{'' if len(reports) == 1 else 's'}\n\n"
    table = f"{row(head)}\n{row(['---'] * len(head))}\n"
    lines = [f"{row([_named(entry), *map(partial(_sign, entry), entry.cells)])}\n" for entry in rows_of(reports)]
    key = [f"- ({r.number}) {_full(r.name)} {escaped(r.details)}, {_full(r.source)}\n" for r in reports]
    legend = ", ".join(f"{sign.emoji or 'blank'} {sign.meaning}" for sign in STATUSES.values())
    return fitted(
        [Section(title + table, lines, "rows"), Section("\n", key, "reports"), Section(f"\n{legend}\n", [], "")]
    )


def _short(report: Column) -> str:
    return code(squeezed(report.name, _MARKDOWN_NAME))


def _full(text: str) -> str:
    return code(text, len(text))


def _named(entry: Row) -> str:
    return f"**{escaped(entry.name)}** {escaped(entry.title)}"


def _sign(entry: Row, text: str) -> str:
    if entry.is_check:
        return STATUSES[text].emoji
    return f"{VERDICTS[text].emoji} {text}" if entry.name == "verdict" else escaped(squeezed(text, _MARKDOWN_NAME))

"""Text that lines up: wrapped paragraphs, columns, and numbers a person can read."""

import re
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

__all__ = ["breadth", "columns", "entries", "hanging", "number", "scientific", "short", "squeezed", "table", "wrap"]

_WIDTH: Final = 100


def wrap(text: str, *, indent: str = "", label: str = "") -> list[str]:
    """Break text at spaces to 100 columns, with its later lines under its first.

    >>> wrap("one two", label="Said: ")
    ['Said: one two']
    """
    first, rest = indent + label, indent + " " * len(label)
    lines: list[str] = []
    for paragraph in text.splitlines():
        lines += textwrap.wrap(
            paragraph,
            _WIDTH,
            initial_indent=rest if lines else first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def columns(rows: Sequence[Sequence[str]], *, left: int) -> list[str]:
    """Align rows of equal length: the first ``left`` columns to the left, the others to the right.

    >>> columns([("token", "exact"), ("A", "0.6")], left=1)
    ['token  exact', 'A        0.6']
    """
    widths = [max(map(breadth, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_justified(row, widths, left)).rstrip() for row in rows]


def _justified(row: Sequence[str], widths: Sequence[int], left: int) -> Iterator[str]:
    for column, (text, width) in enumerate(zip(row, widths, strict=True)):
        space = " " * (width - breadth(text))
        yield text + space if column < left else space + text


def breadth(text: str) -> int:
    r"""Count the columns that text takes on a terminal: wide letters and emoji take two, combining marks none.

    >>> breadth("abc"), breadth("\u6f22"), breadth("e\u0301")
    (3, 2, 1)
    """
    return sum(_breadth(letter) for letter in text)


def _breadth(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def squeezed(text: str, width: int) -> str:
    """Cut text in its middle to so many columns: names that differ do so at an end.

    >>> squeezed("my_kernel_v1", 8), squeezed("short", 8)
    ('my_.._v1', 'short')
    """
    if breadth(text) <= width:
        return text
    head = _beginning(text, (width - 2) // 2)
    tail = _beginning(text[::-1], width - 2 - breadth(head))[::-1]
    return f"{head}..{tail}"


def _beginning(text: str, width: int) -> str:
    for end, letter in enumerate(text):
        width -= _breadth(letter)
        if width < 0:
            return text[:end]
    return text


def table(rows: Sequence[Sequence[str]], *, left: int) -> str:
    r"""Give columns as one text that ends its last line.

    >>> table([("n", "tv"), ("10", "0.5")], left=0)
    ' n   tv\n10  0.5\n'
    """
    return "\n".join(columns(rows, left=left)) + "\n"


def entries(items: Mapping[str, str]) -> str:
    r"""Give names with what they stand for, the explanations aligned and wrapped.

    >>> entries({"AB": "two tokens", "SUN": "mirror"})
    'AB   two tokens\nSUN  mirror\n'
    """
    width = max(map(len, items), default=0)
    return "".join(f"{line}\n" for name, text in items.items() for line in wrap(text, label=f"{name:<{width}}  "))


def hanging(text: str) -> str:
    r"""Break long lines, the rest of each below the text after its label ("Law:  ..."); keep the others as they are.

    >>> hanging("Law:  one\n\nTwo")
    'Law:  one\n\nTwo\n'
    """
    lines: list[str] = []
    for line in text.splitlines():
        label = re.match(r" *(?:\w+: +)?", line)
        margin = label.end() if label else 0
        lines += wrap(line[margin:], label=line[:margin]) or [""]
    return "\n".join(lines) + "\n"


def number(value: float | None, form: str) -> str:
    """Format a number, with "-" for one that is not there.

    >>> number(0.25, ".4f"), number(None, ".4f")
    ('0.2500', '-')
    """
    return "-" if value is None else format(value, form)


def short(value: float) -> str:
    """Format a share, a ratio or a count by its first four digits, and all of those before the point.

    >>> short(0.28484), short(-0.0), short(12345.6)
    ('0.2848', '0', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:z.4g}"


def scientific(value: float) -> str:
    """Format a probability as it is written by hand; one below 1 is never rounded to 1, one below 1e-300 not shown.

    >>> scientific(1e-06), scientific(0.9996), scientific(0.0)
    ('1e-6', '0.9996', '< 1e-300')
    """
    if value < 1e-300:
        return "< 1e-300"
    shown = (f"{value:.{digits}g}" for digits in range(2, 18))
    text = next(text for text in shown if float(text) < 1 or value >= 1)
    digits, _, exponent = text.partition("e")
    return f"{digits}e{int(exponent)}" if exponent else digits

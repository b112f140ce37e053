"""Foreign text stays text in GitHub's Markdown, and a document that grows too long is cut by section, never silently.

A step summary is dropped by GitHub as a whole above 1 MiB, so length is counted in the bytes of UTF-8.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from specverify.wording import clip, printable

__all__ = ["LIMIT", "Section", "code", "escaped", "fenced", "fitted", "row"]

LIMIT: Final = 1024 * 1024 - 1024
"""Bytes that a document may have: what GitHub takes, less a little for what else is in the same summary."""

_NOTE: Final = 200  # bytes that the note of a cut section may take
_SPECIAL: Final = re.compile(
    r"(?P<reference>[@#](?=\w)|:(?=[\w+-]+:))"  # GitHub makes people, issues and emoji of what follows
    r"|[\\`*_{}\[\]<>&#~|@$]|:(?=\S)|(?<=www)\.",
    re.IGNORECASE,
)
_INDENT: Final = re.compile(r"(?<=\n) +")


def escaped(text: str) -> str:
    """Write foreign text so that Markdown shows it as it is, in one line of the source.

    What has a meaning in Markdown or HTML becomes a character reference, which never has one. Block structure needs no
    escape: the text must not begin a line. Lines of the text are kept by ``<br>``.

    Args:
        text: any text.

    Example:
        >>> escaped("a|b <i>")
        'a&#124;b &#60;i&#62;'
    """
    shown = _SPECIAL.sub(_harmless, printable(text.strip(), lines=True))
    shown = _INDENT.sub(lambda found: "&nbsp;" * len(found[0]), shown)
    return shown.replace("\n", "<br>").replace("\t", " ")


def _harmless(found: re.Match[str]) -> str:
    """Write a character as a reference, in an element of its own where it must not meet the letters after it."""
    reference = f"&#{ord(found[0])};"
    return f"<span>{reference}</span>" if found["reference"] else reference


def code(text: str, limit: int = 100) -> str:
    """Write a name in the font of code, shown as it is and in its own direction.

    Example:
        >>> code("naive|redraw")
        '<code dir="auto">naive&#124;redraw</code>'
    """
    return f'<code dir="auto">{escaped(clip(text, limit))}</code>'


def fenced(text: str) -> str:
    r"""Write one line to be copied, between fences longer than any run of backticks in it.

    Example:
        >>> fenced("specverify check a")
        '```\nspecverify check a\n```'
    """
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}\n{printable(text)}\n{fence}"


def row(cells: Iterable[str]) -> str:
    """Write a row of a table from cells that are escaped.

    Example:
        >>> row(["a", "b"])
        '| a | b |'
    """
    return f"| {' | '.join(cells)} |"


@dataclass(frozen=True)
class Section:
    r"""A part of a document that may be cut.

    Attributes:
        head: what stands before the items and is never cut.
        items: what may be cut, from the end; each ends its own lines.
        name: what the items are called where some are left out.
        tail: what stands after them and is never cut.

    Example:
        >>> Section("### Failed checks\n\n", ["one\n"], "failed checks").tail
        ''
    """

    head: str
    items: Sequence[str]
    name: str
    tail: str = ""


def fitted(sections: Iterable[Section], limit: int = LIMIT) -> str:
    r"""Put sections together within a limit: each may take half of the room that those before it have left.

    Args:
        sections: the most important first.
        limit: bytes of UTF-8 that the whole may have.

    Returns:
        the document. A section that is cut says how many of its items are left out.

    Example:
        >>> print(fitted([Section("", ["a"] * 300, "letters")], 402))
        a
        Of 300 letters 299 are left out; the report document has all.
        <BLANKLINE>
        <BLANKLINE>
    """
    text, room = "", limit
    for section in sections:
        part = _cut(section, room // 2)
        text += part
        room -= _size(part)
    return text


def _cut(section: Section, room: int) -> str:
    room -= _size(section.head) + _size(section.tail) + _NOTE
    kept = 0
    for item in section.items:
        room -= _size(item)
        if room < 0:
            break
        kept += 1
    total, left_out = len(section.items), len(section.items) - kept
    note = f"\nOf {total:,} {section.name} {left_out:,} are left out; the report document has all.\n\n"
    return f"{section.head}{''.join(section.items[:kept])}{section.tail}{note if left_out else ''}"


def _size(text: str) -> int:
    return len(text.encode("utf-8"))

"""The HTML report is one file that anybody can open, read and keep: nothing is loaded, nothing runs.

The first screen says what the terminal's first line says, and shows it. Text of samplers is escaped, isolated from the
direction of the text around it, and cut where it is endless; the document has all of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from specverify.wording import clip

from . import pictures, speed
from .pictures import Picture
from .plots import draw
from .claims import Document, claim, facts, power, shown
from .text import number, scientific, short

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

__all__ = ["html"]

_MARKS: Final = {"conformant": "✓", "nonconformant": "✗", "inconclusive": "?"}
_LIKELY: Final = 0.05
_IN_FULL: Final = 10
_MESSAGE: Final = 1500
_LARGEST_LAW: Final = 16
_LAW_ROWS: Final = 13


@dataclass(frozen=True)
class _Figure:
    """A picture with its drawing, where there is one."""

    picture: Picture
    svg: "Markup | None"


def html(document: Document) -> str:
    """Give the HTML view of a report: one page that needs no other file.

    Args:
        document: a report document of any 1.x version.

    Returns:
        the page. With matplotlib (the extra ``plots``) it has pictures; without it their tables alone. The same
        document gives the same page.
    """
    document = shown(document)
    checks = document["checks"]
    failed = [check for check in checks if pictures.proved(check)]
    found = document["acceptance"]
    worst = pictures.strongest(checks)
    other = [check for check in checks if check not in worst]
    return _template().render(
        doc=document,
        mark=_MARKS[document["verdict"]],
        claim=claim(document),
        facts=facts(document),
        power=power(document),
        warnings=document["warnings"][document["verdict"] == "inconclusive" :],  # the sentence says the first
        cards=[(check, _figures(pictures.of_check(check))) for check in worst],
        overview=_figures(pictures.evidence(document), _first(checks, "SV-TOK-001", pictures.ratios)),
        likely=[one for one in document["diagnosis"] if one["weight"] >= _LIKELY] or document["diagnosis"][:1],
        example=_example(document["counterexample"]),
        failed=failed[:_IN_FULL],
        more_failed=failed[_IN_FULL:],
        said=speed.sentences(document) if found else [],
        headroom=speed.headroom(found) if found else [],
        lengths=_figures(
            pictures.positions(found.get("positions", ())) if found else None,
            _first(other, "SV-LEN-001", partial(pictures.of_check, named=True)),
        ),
        level=f"{pictures.LEVEL:.1%}",
    )


@cache
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "sci": lambda value: "-" if value is None else scientific(value),
        "num": number,
        "short": short,
        "words": lambda status: status.replace("_", " "),
        "message": lambda check: clip(check["message"] or check["reason"], _MESSAGE),
    }
    return environment.from_string(resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8"))


def _figures(*found: Picture | None) -> list[_Figure]:
    from markupsafe import Markup

    drawn = [(picture, draw(picture)) for picture in found if picture is not None]
    return [_Figure(picture, None if svg is None else Markup(svg)) for picture, svg in drawn]


def _first(checks: Sequence[Document], name: str, make: Callable[[Document], Picture | None]) -> Picture | None:
    return next((make(check) for check in checks if check["id"] == name), None)


def _example(example: Document | None) -> Mapping[str, Any] | None:
    """Make the counterexample ready to be shown: its laws, and what is exact beside what was observed."""
    if example is None:
        return None
    pairs = [
        (quantity, [(label, value, example["observed"].get(quantity, {}).get(label)) for label, value in exact.items()])
        for quantity, exact in example["expected"].items()
    ]
    return {**example, "laws": [_law("target p", example["p"]), _law("draft q", example["q"])], "pairs": pairs}


def _law(name: str, rows: Sequence[Sequence[float | str]]) -> tuple[str, list[str]]:
    """Give the rows of a law as text; one too large to read is named by its size."""
    if not rows or any(len(row) > _LARGEST_LAW for row in rows):
        return name, ["too large to show"]
    texts = ["  ".join(map(str, row)) for row in rows[:_LAW_ROWS]]
    more = len(rows) - _LAW_ROWS
    return name, [*texts, f"({more} more rows in the report document)"] if more > 0 else texts

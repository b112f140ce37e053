"""The HTML report is one file that anybody can open, read and keep: nothing is loaded, nothing runs.

The first screen says what the terminal's first line says, and shows it. Text of samplers is escaped, isolated from the
direction of the text around it, and cut where it is endless; the document has all of it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from specverify.wording import clip

from . import pictures, speed
from .claims import Document, bet, claim_parts, facts, power, shown
from .phrases import example_title, figures, law, quantities, suspects
from .pictures import Picture
from .plots import draw
from .statuses import VERDICTS, failures, known_failures
from .templates import template
from .text import number, scientific, short

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

__all__ = ["html"]

_IN_FULL: Final = 10
_MESSAGE: Final = 1500
_SENTENCE_END: Final = re.compile(r"\.\s+(?=[A-Z])")
_LAWS: Final = {"target p": "p", "draft q": "q"}
_LAW_TOKENS: Final = 16
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
    checks, miss = document["checks"], pictures.miss(document)
    failed = failures(checks)
    found = document["acceptance"]
    worst = pictures.strongest(checks)
    other = [check for check in checks if check not in worst]
    limit, sentence = claim_parts(document)
    cards = [(check, _figures(pictures.of_check(check, miss))) for check in worst]
    evidence = _figures(pictures.evidence(document))
    ratios = _figures(_first(checks, "SV-TOK-001", lambda check: pictures.ratios(check, miss)))
    lengths = _figures(
        pictures.positions(found.get("positions", ()), miss) if found else None,
        _first(other, "SV-LEN-001", lambda check: pictures.of_check(check, miss, named=True)),
    )
    figures = [*chain.from_iterable(drawn for _, drawn in cards), *evidence, *ratios, *lengths]
    return _template().render(
        doc=document,
        mark=VERDICTS[document["verdict"]].plain,
        limit=limit,
        sentence=sentence,
        facts=facts(document),
        power=power(document),
        bet=bet(document),
        warnings=document["warnings"][document["verdict"] == "inconclusive" :],  # the sentence says the first
        pictured=any(figure.svg for figure in figures),
        figured=bool(figures),
        cards=cards,
        evidence=evidence,
        ratios=ratios,
        likely=suspects(document["diagnosis"]),
        example=_example(document["counterexample"]),
        failed=failed[:_IN_FULL],
        more_failed=failed[_IN_FULL:],
        known=known_failures(checks),
        said=speed.sentences(document) if found else [],
        headroom=speed.headroom(found) if found else [],
        lengths=lengths,
    )


@cache
def _template() -> "Template":
    return template(
        "report.html",
        {
            "sci": lambda value: "-" if value is None else scientific(value),
            "num": number,
            "short": short,
            "words": lambda status: status.replace("_", " "),
            "message": lambda check: clip(check["message"] or check["reason"], _MESSAGE),
            "figures": figures,
            "first_sentence": lambda text: f"{_SENTENCE_END.split(text, maxsplit=1)[0].rstrip('.')}.",
        },
    )


def _figures(*found: Picture | None) -> list[_Figure]:
    from markupsafe import Markup

    drawn = [(picture, draw(picture)) for picture in found if picture is not None]
    return [_Figure(picture, None if svg is None else Markup(svg)) for picture, svg in drawn]


def _first(checks: Sequence[Document], name: str, make: Callable[[Document], Picture | None]) -> Picture | None:
    return next((make(check) for check in checks if check["id"] == name), None)


def _law(example: Document, key: str) -> list[str]:
    return law(example[key], example.get("rows_by", ""), most_rows=_LAW_ROWS, most_tokens=_LAW_TOKENS)


def _example(example: Document | None) -> Document | None:
    """Make the counterexample ready to be shown: its laws, and what is exact beside what was observed."""
    if example is None:
        return None
    laws = {name: _law(example, key) for name, key in _LAWS.items()}
    return {**example, "title": example_title(example), "laws": laws, "pairs": list(quantities(example))}

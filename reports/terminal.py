"""A person who reads only the first line knows the verdict and what it is worth; what is wrong follows, then details.

Every view here is made from the report document alone, so that a stored report reads exactly as the run did.
"""

import os
from collections.abc import Sequence
from typing import Final, TextIO

from .claims import Document, bet, claim, facts, shown
from .phrases import cells, example_title, figures, law, p_value, quantities, suspects
from .statuses import failures, known_failures
from .text import columns, number, wrap

__all__ = ["render", "render_check", "wants_color"]

_COLORS: Final = {"conformant": "32", "nonconformant": "31", "inconclusive": "33"}
_SHOWN_FAILURES: Final = 3


def render(document: Document, *, verbose: bool = False, color: bool = False) -> str:
    """The text view of a report, at most 100 columns wide where words can be broken.

    Args:
        document: a report document.
        verbose: show every failure in full, and a table of every check.
        color: mark the verdict with a terminal colour.

    Returns:
        lines joined by newlines, with one at the end. Control characters are escaped and endless text is cut; the
        document has all of it.
    """
    document = shown(document)
    sections = [
        _headline(document, color),
        _diagnosis(document["diagnosis"]),
        _counterexample(document["counterexample"]),
        _facts(document),
        _failures(document["checks"], len(document["checks"]) if verbose else _SHOWN_FAILURES),
        _known(document["checks"]),
        _table(document["checks"]) if verbose else [],
        _bet(document) if verbose or failures(document["checks"]) else [],
        _warnings(document["warnings"][document["verdict"] == "inconclusive" :]),
    ]
    return _joined(sections)


def render_check(document: Document, check: str) -> str:
    """What the text view says of one check that does not pass; of one that fails, what it looks like and where.

    Args:
        document: a report document.
        check: id of the check.

    Returns:
        lines joined by newlines, with one at the end.
    """
    document = shown(document)
    entry = next(entry for entry in document["checks"] if entry["id"] == check)
    if entry["status"] == "inconclusive":
        entry = {**entry, "reason": f"not decided: {entry['reason']}"}
    sections = [_check(entry)]
    if entry["message"]:
        sections += [_diagnosis(document["diagnosis"]), _counterexample(document["counterexample"])]
    if entry["log10_e"] is not None:
        sections.append(_bet(document))
    return _joined(sections)


def _joined(sections: Sequence[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def wants_color(stream: TextIO | None) -> bool:
    """Whether a stream is an open terminal whose user has not declined colour (NO_COLOR, TERM=dumb)."""
    if stream is None or stream.closed:
        return False
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _headline(document: Document, color: bool) -> list[str]:
    verdict = document["verdict"]
    lines = wrap(f"{document['sampler']['name']}: {verdict.upper()}{claim(document)}")
    if color:
        lines[0] = lines[0].replace(verdict.upper(), f"\033[1;{_COLORS[verdict]}m{verdict.upper()}\033[0m", 1)
    return lines


def _facts(document: Document) -> list[str]:
    return [line for name, text in facts(document).items() for line in wrap(text, label=f"{name + ':':<11}")]


def _failures(checks: Sequence[Document], in_full: int) -> list[str]:
    """Every failed check; the first ones with their message and the cells that say most."""
    failed = failures(checks)
    lines: list[str] = []
    for check in failed[:in_full]:
        lines += _check(check)
    for check in failed[in_full:]:
        lines += wrap(f"{check['title']}; {figures(check)}", label=f"  {check['id']}  ")
    return [f"FAILED ({len(failed)} of {len(checks)} checks)", *lines] if failed else []


def _known(checks: Sequence[Document]) -> list[str]:
    """Every known failure, with the reason that its entry in the list gives."""
    known = known_failures(checks)
    lines = [line for c in known for line in wrap(f"{c['title']}: {c['reason']}", label=f"  {c['id']}  ")]
    return [f"KNOWN FAILURES ({len(known)} of {len(checks)} checks)", *lines] if known else []


def _check(check: Document) -> list[str]:
    """One check in full: its message, or the reason for its status, and the cells that say most."""
    return [
        f"  {check['id']}  {check['title']}",
        *wrap(check["message"] or check["reason"], indent="      "),
        *(f"      {line}" for line in (figures(check), *cells(check)) if line),
    ]


def _diagnosis(candidates: Sequence[Document]) -> list[str]:
    lines = [line for name, text in suspects(candidates) for line in wrap(text, label=f"  {name}  ")]
    return ["WHAT IT LOOKS LIKE", *lines] if lines else []


def _counterexample(example: Document | None) -> list[str]:
    """The smallest input, with what should be and what was observed side by side."""
    if example is None:
        return []
    drafted = f"{example['draft']} drafted token{'' if example['draft'] == 1 else 's'}"
    rows = [("", "exact", "observed")]
    for quantity, parts in quantities(example):
        rows += [(quantity, "", ""), *((f"  {label}", due, seen) for label, due, seen in parts)]
    return [
        f"{example_title(example).upper()}: {example['case']}, {drafted}",
        *_law("target p", example, "p"),
        *_law("draft q", example, "q"),
        "",
        *(f"  {line}" for line in columns(rows, left=1)),
        "",
        f"  Reproduce: {example['reproduce']}",
    ]


def _law(name: str, example: Document, key: str) -> list[str]:
    lines = law(example[key], example.get("rows_by", ""))
    return [f"  {'' if index else name:<9} {text}" for index, text in enumerate(lines)]


def _table(checks: Sequence[Document]) -> list[str]:
    """Every check on one line."""
    rows = [("id", "status", "worst case", "p", "log10 E", "detectable TV")]
    for check in checks:
        numbers = (p_value(check), number(check["log10_e"], ".1f"), number(check["detectable_tv"], ".2g"))
        rows.append((check["id"], check["status"].replace("_", " "), check["worst_case"] or "-", *numbers))
    return ["CHECKS", *(f"  {line}" for line in columns(rows, left=3))]


def _bet(document: Document) -> list[str]:
    """What the evidence is that stands above, once."""
    return wrap(bet(document), label="E: ")


def _warnings(warnings: Sequence[str]) -> list[str]:
    return [line for warning in warnings for line in wrap(warning, label="Warning: ")]

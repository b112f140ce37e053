"""A picture shows what was counted beside what is exact; its table says the same in numbers.

Pictures are chosen and filled from the report document alone. How they are drawn is the business of ``plots``, and a
page without drawings shows their tables.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .cells import due, furthest
from .claims import Document
from .statuses import COMBINED, FAILED, proved
from .text import short

__all__ = ["Picture", "evidence", "interval", "miss", "of_check", "positions", "ratios", "strongest"]

_UNTOLD: Final = 10**6  # shares that a run compared, in documents before version 1.2: more than one ever did
_CELLS: Final = 10
_FAR: Final = 1e100  # p/q beyond which the draft as good as never gives a cell, or the target
_INTERVAL: Final = ("low", "high")

Row = tuple[str, tuple[float, ...]]


@dataclass(frozen=True)
class Picture:
    """One figure: what it shows, in words, in numbers, and how it is to be drawn.

    Args:
        key: name that is unique on a page, of letters, digits and hyphens.
        kind: "shares" (exact and observed), "ratios" (observed / exact over p/q) or "looks" (evidence over rows).
        title: what is shown.
        about: what the reader should see, for those who do not see it.
        axis: what the numbers are, with their unit.
        columns: names of the numbers of a row.
        rows: label and numbers. Shares: exact, observed, low, high. Ratios: p/q, observed / exact, low, high. Looks:
            rows verified, log10 of the evidence.
        threshold: log10 of the evidence that proves a fault, of looks alone.
    """

    key: str
    kind: str
    title: str
    about: str
    axis: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    threshold: float = math.inf


def miss(document: Document) -> float:
    """Give the probability with which one interval may miss, so that all of them hold together.

    The cells that are shown are the furthest of all that the run compared, so the error budget of the run is divided
    among those (Bonferroni). Whichever are chosen, with a correct sampler one of them misses with probability at most
    alpha.

    Args:
        document: a report document.

    >>> miss({"options": {"alpha": 0.01}, "compared_shares": 100})
    0.0001
    """
    return float(document["options"]["alpha"] / max(1, document.get("compared_shares", _UNTOLD)))


def interval(count: float, n: float, miss: float) -> tuple[float, float]:
    """Give the exact interval of a probability by Clopper and Pearson, which holds for the rarest events too.

    Args:
        count: events seen, 0 to n.
        n: events that could be seen, above 0.
        miss: largest probability with which the interval misses, in (0, 1).

    Returns:
        the ends, in [0, 1].

    >>> low, high = interval(500, 1000, 0.001)
    >>> round(low, 3), round(high, 3)
    (0.448, 0.552)
    """
    from scipy.special import betainccinv, betaincinv  # slow to import, and only pictures need it

    low = float(betaincinv(count, n - count + 1, miss / 2)) if count else 0.0
    high = float(betainccinv(count + 1, n - count, miss / 2)) if count < n else 1.0
    return 0.0 if math.isnan(low) else low, 1.0 if math.isnan(high) else high  # below 1e-290 the solver may give up


def strongest(checks: Sequence[Document], count: int = 3) -> list[Document]:
    """Choose the checks that say most: failures first, a broken contract before all, then by their evidence.

    Args:
        checks: the checks of a report.
        count: how many at most.

    Returns:
        checks that failed or can be drawn, the strongest of each area before the second of any; what combines other
        checks is not among them.
    """
    own = [check for check in checks if check["id"] not in COMBINED and (check["status"] in FAILED or _drawn(check))]
    first: list[Document] = []
    later: list[Document] = []
    for check in sorted(own, key=_rank):
        areas = {_area(other) for other in first if proved(other) == proved(check)}
        (later if _area(check) in areas else first).append(check)
    return sorted([*first, *later], key=lambda check: not proved(check))[:count]


def _area(check: Document) -> str:
    return str(check["id"].rpartition("-")[0])


def _rank(check: Document) -> tuple[bool, bool, bool, float]:
    failed = proved(check)
    return not failed, not failed or check["scope"] != "contract", not check["labels"], -_strength(check)


def _strength(check: Document) -> float:
    """Measure the evidence of a check in powers of ten; that of an impossible event has no bound."""
    if check["log10_e"] is not None:
        return float(check["log10_e"])
    return math.inf if check["p_value"] is None else -math.log10(max(check["p_value"], 1e-300))


def _drawn(check: Document) -> bool:
    return bool(check["labels"]) and check["cells"] is not None and check["n"] > 0


def of_check(check: Document, miss: float, *, named: bool = False) -> Picture | None:
    """Show the cells of a check that lie furthest from what was expected.

    Args:
        check: a check of a report.
        miss: largest probability with which each interval misses.
        named: begin the title with that of the check.

    Returns:
        the picture; None where the check has no cells to show.

    >>> check = {"id": "SV-TOK-001", "title": "first token", "labels": ["A", "B", "C"], "cells": 3, "n": 100}
    >>> of_check({**check, "observed": [70, 20, 10], "expected": [60.0, 25.0, 15.0]}, 1e-9).about
    'The largest difference is at A: observed 0.7, exact 0.6.'
    """
    if not check["labels"] or not check["n"]:
        return None
    name = f"{check['title']}: " if named else ""
    if not _drawn(check):
        return _compared(check, name)
    filled = furthest(check)
    cells = sorted(filled[:_CELLS])
    n, labels = check["n"], check["labels"]
    left_out = f", the {len(cells)} furthest of {check['cells']} cells" if len(cells) < len(filled) else ""
    rows = tuple((labels[c], _share(due(check, c), check["observed"][c], n, miss)) for c in cells)
    if not rows:
        return None
    worst = max(rows, key=lambda row: abs(row[1][1] - row[1][0]))
    return Picture(
        key=f"{check['id'].lower()}-shares",
        kind="shares",
        title=_begun(f"{name}shares of {n:,} events{left_out}"),
        about=f"The largest difference is at {worst[0]}: observed {short(worst[1][1])}, exact {short(worst[1][0])}.",
        axis="share of events",
        columns=("exact", "observed", *_INTERVAL),
        rows=rows,
    )


def _begun(title: str) -> str:
    return title[:1].upper() + title[1:]


def _share(expected: float, observed: float, n: float, miss: float) -> tuple[float, ...]:
    return expected / n, observed / n, *interval(observed, n, miss)


def _compared(check: Document, name: str) -> Picture:
    """Show one observed number beside the one that is due."""
    observed, expected = check["observed"][0], check["expected"][0]
    return Picture(
        key=f"{check['id'].lower()}-count",
        kind="shares",
        title=_begun(f"{name}observed and due in {check['n']:,} comparisons"),
        about=f"Observed {short(observed)}, due {short(expected)}.",
        axis="number",
        columns=("due", "observed"),
        rows=((check["labels"][0], (expected, observed)),),
    )


def ratios(check: Document, miss: float) -> Picture | None:
    """Show over p/q how often each cell comes that has an event due; None without two such cells.

    Args:
        check: a check of a report.
        miss: largest probability with which each interval misses.
    """
    n = check["n"]
    known = check.get("ratios") or [None] * len(check["labels"])
    cells = zip(check["labels"], known, check["observed"], check["expected"], strict=True)
    rows = tuple(
        (label, (ratio, observed / expected, *(end * n / expected for end in interval(observed, n, miss))))
        for label, ratio, observed, expected in cells
        if ratio and 1 / _FAR <= ratio <= _FAR and expected >= 1
    )
    if len(rows) < 2:
        return None
    low, high = (pick(rows, key=lambda row: row[1][1]) for pick in (min, max))
    return Picture(
        key=f"{check['id'].lower()}-ratios",
        kind="ratios",
        title=_begun(f"{check['title']}: observed over exact"),
        about=f"A correct sampler scatters about 1. The least is {short(low[1][1])} at p/q {short(low[1][0])}, "
        f"the most {short(high[1][1])} at p/q {short(high[1][0])}.",
        axis="observed / exact",
        columns=("p/q", "observed / exact", *_INTERVAL),
        rows=rows,
    )


def evidence(document: Document) -> Picture | None:
    """Show how the combined evidence grew; None for a report that lacks it, or where nothing was counted."""
    found: dict[str, Any] = document.get("evidence") or {"looks": []}
    looks = [(look["rows"], look["log10_e"]) for look in found["looks"] if look["rows"] and look["log10_e"] is not None]
    if not looks:
        return None
    threshold = found["threshold"]
    return Picture(
        key="evidence",
        kind="looks",
        title="Evidence against the sampler over the run",
        about=_grown(looks, threshold),
        axis="log10 E",
        columns=("rows", "log10 E"),
        rows=tuple((f"look {number}", look) for number, look in enumerate(looks, start=1)),
        threshold=threshold,
    )


def _grown(looks: Sequence[tuple[int, float]], threshold: float) -> str:
    """Say where the evidence ended, and whether it ever reached the threshold."""
    rows, end = looks[-1]
    bound = f"the threshold of {threshold:.1f} that proves a fault"
    proves = max(value for _, value in looks) >= threshold
    if len(looks) == 1:
        said = "above" if proves else "below"
        return f"At the only look, after {rows:,} rows, log10 E is {end:z,.1f}, {said} {bound}."
    said = "crosses" if proves else "stays below"
    return f"Over {len(looks)} looks log10 E {said} {bound}; it ends at {end:z,.1f} after {rows:,} rows."


def positions(entries: Iterable[Document], miss: float) -> Picture | None:
    """Show the acceptance rate of the tested drafts at every position; None where none was tested.

    Args:
        entries: the positions of a report's acceptance.
        miss: largest probability with which each interval misses.
    """
    rows = tuple(
        (f"position {number}", (entry["mean_overlap"], *_share(0, entry["accepted"], entry["tested"], miss)[1:]))
        for number, entry in enumerate(entries, start=1)
        if entry["tested"]
    )
    if not rows:
        return None
    said = "; ".join(f"{label} {values[1]:.1%}, {values[0]:.1%} by the token rule" for label, values in rows)
    return Picture(
        key="positions",
        kind="shares",
        title="Acceptance rate at each tested position",
        about=f"Accepted: {said}.",
        axis="share of tested drafts that were accepted",
        columns=("token rule, exact", "observed", *_INTERVAL),
        rows=rows,
    )

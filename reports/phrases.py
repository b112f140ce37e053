"""What a report says, in words that no form of it changes: terminal, Markdown and JUnit tell the same story.

Everything here is plain text from the report document; how it is laid out and escaped is for each form to say.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from specverify.wording import clip, printable

from .text import number, scientific

__all__ = ["FAILED", "cells", "facts", "figures", "headline", "law", "p_value", "presentable", "quantities", "suspects"]

FAILED: Final = ("failed", "error")
"""The statuses of a check that found something wrong."""

_SHOWN_CELLS: Final = 3
_SHOWN_ROWS: Final = 4
_SHOWN_TOKENS: Final = 8
_LIKELY: Final = 0.05
_CERTAIN: Final = 0.995
_VISIBLE: Final = 0.05
_EXACT: Final = "exact"
_NAME: Final = 100
_TEXT: Final = 4000

Document = Mapping[str, Any]


def presentable(document: Document) -> Document:
    """Copy a document with all text in it made harmless to show: control characters escaped, endless text cut.

    Only messages keep their line breaks.
    """
    sampler = {**document["sampler"], "name": clip(document["sampler"]["name"], _NAME)}
    shown: Document = _shown({**document, "sampler": sampler})
    return shown


def _shown(value: Any, lines: bool = False) -> Any:
    if isinstance(value, str):
        return clip(printable(value, lines=lines), _TEXT)
    if isinstance(value, Mapping):
        return {_shown(key): _shown(item, key == "message") for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_shown(item) for item in value]
    return value


def headline(document: Document) -> str:
    """Verdict, what it says, and what it is worth, in one or two sentences that begin with the verdict's name."""
    verdict = document["verdict"]
    sentence = {"conformant": _conformant, "nonconformant": _nonconformant, "inconclusive": _inconclusive}[verdict]
    return f"{verdict.upper()}{sentence(document)}"


def _conformant(document: Document) -> str:
    """What was shown: losslessness, or only the checks that were asked for, or only what is not a known failure."""
    alarms = f"false alarms at most {scientific(document['options']['alpha'])} per run"
    if document["lossless"] is False:
        return f" but for its known failures. Its output does not follow the target, as the list says; {alarms}."
    if document["lossless"] is None:
        return f" in the checks that were asked for. Whether it is lossless was not decided; {alarms}."
    also = f" and its own rule ({document['rule']['declared']})" if document["rule"]["conforms"] else ""
    return f". Its output follows the target{also}; {_power(document)}; {alarms}."


def _nonconformant(document: Document) -> str:
    """What is wrong, first what explains the rest: the form, the output, the rule, the list of known failures."""
    failed = [check for check in document["checks"] if check["status"] in FAILED]
    broken = [check for check in failed if check["scope"] == "contract"]
    if broken:
        return f". It breaks the contract of a sampler: {broken[0]['title']} ({broken[0]['id']} below)."
    if failed and not any(check["message"] for check in failed):
        return ". An entry among the known failures is no longer true."
    if document["lossless"] is False:
        what = "Its output does not follow the target"
    else:
        also = "Its output follows the target, but it" if document["lossless"] else "It"
        what = f"{also} does not follow the rule it declares ({document['rule']['declared']})"
    alarms = scientific(document["options"]["alpha"])
    return f". {what}; a correct sampler is called so with probability at most {alarms} per run."


def _inconclusive(document: Document) -> str:
    reason = document["warnings"][0] if document["warnings"] else "the evidence does not decide"
    new = "new " if document["summary"]["known_failures"] else ""
    return f". No {new}fault was proved, but that is no pass: {reason}."


def _power(document: Document) -> str:
    headline = document["detectable_tv"]
    if headline["value"] is None:
        return "no headline case ran to its planned size, so no detectable error can be stated"
    return (
        f"an error of total variation {headline['value']:.2g} or more in its output (case {headline['case']}, "
        f"{headline['cells']} cells) would have been caught with probability {1 - document['options']['beta']:g}"
    )


def facts(document: Document) -> dict[str, str]:
    """Coverage, rule, passes by area, precision and run: what puts the verdict in its place, by name."""
    passed = Counter(check["id"].rpartition("-")[0] for check in document["checks"] if check["status"] == "passed")
    tolerance = document["tolerance"]
    found = {
        "Checks": document["coverage"],
        "Rule": _rule(document["rule"], document["lossless"]),
        "Passed": ", ".join(f"{area} {count}" for area, count in passed.items()),
        "Detects": _by_size(document["detectable_tv"]["by_size"]) if document["verdict"] != "nonconformant" else "",
        "Precision": f"{tolerance['class']}, allowed total variation {tolerance['allowance']:.2g}",
        "Run": _run(document["options"], document["timing"]),
    }
    if tolerance["class"] == _EXACT:
        del found["Precision"]
    return {name: text for name, text in found.items() if text}


def _rule(rule: Document, lossless: bool | None) -> str:
    """The declared rule and whether it holds; for a lossless sampler of another rule, which rules it may follow."""
    outcome = {True: "conforms", False: "does not conform", None: "not decided"}[rule["conforms"]]
    declared = f"{rule['declared']} (declared): {outcome}" if rule["declared"] else "none declared"
    if rule["conforms"] or not lossless:
        return declared
    if rule["not_rejected"] is None:
        return declared
    return f"{declared}; not contradicted: {', '.join(rule['not_rejected']) or 'none of the known rules'}"


def _by_size(sizes: Sequence[Document]) -> str:
    """Say for each class of vocabularies what would have been caught in the law of the first token."""
    return ", ".join(f"{size['value']:.2g} at {size['case']} ({size['cells']} cells)" for size in sizes)


def _run(options: Document, timing: Document) -> str:
    amount = f"{timing['rows']:,} rows in {timing['calls']:,} calls, {timing['total_s']:.1f} s"
    return f"profile {options['profile']}, seed {options['seed']}, {amount}"


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

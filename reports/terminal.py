"""A person who reads only the first line knows the verdict and what it is worth; what is wrong follows, then details.

Every view here is made from the report document alone, so that a stored report reads exactly as the run did.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TextIO

from specverify.wording import clip, printable

from .text import columns, number, scientific, wrap

__all__ = ["render", "render_check", "wants_color"]

_COLORS: Final = {"conformant": "32", "nonconformant": "31", "inconclusive": "33"}
_FAILED: Final = ("failed", "error")
_SHOWN_FAILURES: Final = 3
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
    document = _presentable(document)
    sections = [
        _headline(document, color),
        _diagnosis(document["diagnosis"]),
        _counterexample(document["counterexample"]),
        _facts(document),
        _failures(document["checks"], len(document["checks"]) if verbose else _SHOWN_FAILURES),
        _table(document["checks"]) if verbose else [],
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
    document = _presentable(document)
    entry = next(entry for entry in document["checks"] if entry["id"] == check)
    if entry["status"] == "inconclusive":
        entry = {**entry, "reason": f"not decided: {entry['reason']}"}
    sections = [_check(entry)]
    if entry["message"]:
        sections += [_diagnosis(document["diagnosis"]), _counterexample(document["counterexample"])]
    return _joined(sections)


def _joined(sections: Sequence[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def _presentable(document: Document) -> Document:
    sampler = {**document["sampler"], "name": clip(document["sampler"]["name"], _NAME)}
    shown: Document = _shown({**document, "sampler": sampler})
    return shown


def _shown(value: Any, lines: bool = False) -> Any:
    """Copy plain values, with the text among them made safe for a terminal; only messages keep their lines."""
    if isinstance(value, str):
        return clip(printable(value, lines=lines), _TEXT)
    if isinstance(value, Mapping):
        return {_shown(key): _shown(item, key == "message") for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_shown(item) for item in value]
    return value


def wants_color(stream: TextIO | None) -> bool:
    """Whether a stream is an open terminal whose user has not declined colour (NO_COLOR, TERM=dumb)."""
    if stream is None or stream.closed:
        return False
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _headline(document: Document, color: bool) -> list[str]:
    """Verdict, what it says, and what it is worth."""
    verdict = document["verdict"]
    sentence = {"conformant": _conformant, "nonconformant": _nonconformant, "inconclusive": _inconclusive}[verdict]
    lines = wrap(f"{document['sampler']['name']}: {verdict.upper()}{sentence(document)}")
    if color:
        lines[0] = lines[0].replace(verdict.upper(), f"\033[1;{_COLORS[verdict]}m{verdict.upper()}\033[0m", 1)
    return lines


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
    failed = [check for check in document["checks"] if check["status"] in _FAILED]
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


def _facts(document: Document) -> list[str]:
    """Coverage, rule, passes by area, precision and run: what puts the verdict in its place."""
    passed = Counter(check["id"].rpartition("-")[0] for check in document["checks"] if check["status"] == "passed")
    tolerance = document["tolerance"]
    facts = {
        "Checks": document["coverage"],
        "Rule": _rule(document["rule"], document["lossless"]),
        "Passed": ", ".join(f"{area} {count}" for area, count in passed.items()),
        "Detects": _by_size(document["detectable_tv"]["by_size"]) if document["verdict"] != "nonconformant" else "",
        "Precision": f"{tolerance['class']}, allowed total variation {tolerance['allowance']:.2g}",
        "Run": _run(document["options"], document["timing"]),
    }
    if tolerance["class"] == _EXACT:
        del facts["Precision"]
    return [line for name, text in facts.items() if text for line in wrap(text, label=f"{name + ':':<11}")]


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


def _failures(checks: Sequence[Document], in_full: int) -> list[str]:
    """Every failed check; the first ones with their message and the cells that say most."""
    failed = [check for check in checks if check["status"] in _FAILED]
    lines: list[str] = []
    for check in failed[:in_full]:
        lines += _check(check)
    for check in failed[in_full:]:
        lines += wrap(f"{check['title']}; {_facts_of(check)}", label=f"  {check['id']}  ")
    return [f"FAILED ({len(failed)} of {len(checks)} checks)", *lines] if failed else []


def _check(check: Document) -> list[str]:
    """One check in full: its message, or the reason for its status, and the cells that say most."""
    return [
        f"  {check['id']}  {check['title']}",
        *wrap(check["message"] or check["reason"], indent="      "),
        *(f"      {line}" for line in (_facts_of(check), *_cells(check)) if line),
    ]


def _facts_of(check: Document) -> str:
    facts = [f"case {check['worst_case']}"] if check["worst_case"] else []
    facts += [f"n {check['n']:,}"] if check["n"] else []
    facts += [f"p {_tail(check)}"] if check["p_value"] is not None else []
    facts += [f"log10 E {check['log10_e']:,.1f}"] if check["log10_e"] is not None else []
    return ", ".join(facts)


def _cells(check: Document) -> Iterator[str]:
    """Describe the cells that depart most from what was expected, in standard deviations."""
    every = zip(check["labels"], check["observed"], check["expected"], strict=True)
    cells = [cell for cell in every if abs(cell[1] - cell[2]) >= _VISIBLE]
    cells.sort(key=lambda cell: -abs(cell[1] - cell[2]) / max(cell[2], 1.0) ** 0.5)
    for label, observed, expected in cells[:_SHOWN_CELLS]:
        yield f"{label}: observed {observed:,.0f}, expected {expected:,.1f}"


def _diagnosis(candidates: Sequence[Document]) -> list[str]:
    """What the behaviour looks like, by weight; what is unlikely is left to the document."""
    likely = [candidate for candidate in candidates if candidate["weight"] >= _LIKELY] or list(candidates[:1])
    lines: list[str] = []
    for candidate in likely:
        name = candidate["fault"] or ("unknown" if candidate["evidence"] is None else "other rule")
        weight = "" if candidate["weight"] > _CERTAIN else f" (weight {candidate['weight']:.2f})"
        lines += wrap(candidate["message"], label=f"  {name}{weight}  ")
    return ["WHAT IT LOOKS LIKE", *lines] if lines else []


def _counterexample(example: Document | None) -> list[str]:
    """The smallest input, with what should be and what was observed side by side."""
    if example is None:
        return []
    drafted = f"{example['draft']} drafted token{'' if example['draft'] == 1 else 's'}"
    rows = [("", "exact", "observed")]
    for quantity, exact in example["expected"].items():
        observed = example["observed"].get(quantity, {})
        rows.append((quantity, "", ""))
        for label, value in exact.items():
            rows.append((f"  {label}", number(value, ".4f"), number(observed.get(label), ".4f")))
    return [
        f"SMALLEST CASE THAT SHOWS IT: {example['case']}, {drafted}",
        *_law("target p", example["p"]),
        *_law("draft q", example["q"]),
        "",
        *(f"  {line}" for line in columns(rows, left=1)),
        "",
        f"  Reproduce: {example['reproduce']}",
    ]


def _law(name: str, rows: Sequence[Sequence[float | str]]) -> list[str]:
    """The rows of a law; one too large to read is named by its shape."""
    if any(len(row) > _SHOWN_TOKENS for row in rows):
        return [f"  {name:<9} {len(rows)} rows of {len(rows[0])}, in the report document"]
    shown = ["  ".join(map(str, row)) for row in rows[:_SHOWN_ROWS]]
    more = [f"({len(rows) - _SHOWN_ROWS} more rows in the report document)"] if len(rows) > _SHOWN_ROWS else []
    return [f"  {'' if index else name:<9} {text}" for index, text in enumerate([*shown, *more])]


def _table(checks: Sequence[Document]) -> list[str]:
    """Every check on one line."""
    rows = [("id", "status", "worst case", "p", "log10 E", "detectable TV")]
    for check in checks:
        numbers = (_tail(check), number(check["log10_e"], ".1f"), number(check["detectable_tv"], ".2g"))
        rows.append((check["id"], check["status"].replace("_", " "), check["worst_case"] or "-", *numbers))
    return ["CHECKS", *(f"  {line}" for line in columns(rows, left=3))]


def _tail(check: Document) -> str:
    return "-" if check["p_value"] is None else scientific(check["p_value"])


def _warnings(warnings: Sequence[str]) -> list[str]:
    return [line for warning in warnings for line in wrap(warning, label="Warning: ")]

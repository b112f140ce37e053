"""Every view says the same in the same words: the verdict, what it is worth, and what puts it in its place."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from specverify.wording import clip, printable

from .statuses import failures, known_failures
from .text import scientific

__all__ = ["Document", "bet", "claim", "claim_parts", "facts", "power", "shown"]

_EXACT: Final = "exact"
_NAME: Final = 100
_TEXT: Final = 4000
_NAMED: Final = 3

Document = Mapping[str, Any]


def shown(document: Document) -> Document:
    r"""Copy a report document with all text made safe to show: control characters escaped, endless text cut.

    >>> shown({"sampler": {"name": "a\x1b[2J"}, "message": "two\nlines"})
    {'sampler': {'name': 'a\\x1b[2J'}, 'message': 'two\nlines'}
    """
    sampler = {**document["sampler"], "name": clip(document["sampler"]["name"], _NAME)}
    safe: Document = _shown({**document, "sampler": sampler})
    return safe


def _shown(value: Any, lines: bool = False) -> Any:
    """Copy plain values, with the text among them made safe to show; only messages keep their lines."""
    if isinstance(value, str):
        return clip(printable(value, lines=lines), _TEXT)
    if isinstance(value, Mapping):
        return {_shown(key): _shown(item, key == "message") for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_shown(item) for item in value]
    return value


def claim(document: Document) -> str:
    """What follows the verdict in its first sentence: what it says of the sampler, and what it is worth.

    Args:
        document: a report document, as :func:`shown` gives it.

    Returns:
        text that begins right after the word of the verdict, usually with a full stop.
    """
    return ". ".join(claim_parts(document))


def claim_parts(document: Document) -> tuple[str, str]:
    """The same in two parts: what restricts the verdict, empty or beginning with a space, and the sentence after it.

    Args:
        document: a report document, as :func:`shown` gives it.
    """
    parts = {"conformant": _conformant, "nonconformant": _nonconformant, "inconclusive": _inconclusive}
    return parts[document["verdict"]](document)


def _conformant(document: Document) -> tuple[str, str]:
    """What was shown: losslessness, or only the checks that were asked for, or only what is not a known failure."""
    return _limits(document), f"{_shown_output(document)}; false alarms at most {_alarms(document)} per run."


def _limits(document: Document) -> str:
    """What the verdict does not cover: the checks that nobody asked for, and the failures that are known."""
    asked = document["lossless"] is None or document["options"]["only"]
    parts = [" in the checks that were asked for"] if asked else []
    known = [check["id"] for check in known_failures(document["checks"])]
    if known:
        more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
        parts.append(f" but for its known failures ({', '.join(known[:_NAMED])}{more})")
    return ",".join(parts)


def _shown_output(document: Document) -> str:
    """What a conformant sampler's output does, and the error in it that would have been caught."""
    if document["lossless"] is False:
        return "Its output does not follow the target, as the list says"
    if document["lossless"] is None:
        return "Whether it is lossless was not decided"
    rule = document["rule"]
    own = {True: f" and its own rule ({rule['declared']})", False: f", but not its own rule ({rule['declared']})"}
    return f"Its output follows the target{own.get(rule['conforms'], '')}; {power(document)}"


def _nonconformant(document: Document) -> tuple[str, str]:
    """What is wrong, the output, the form, the rule, the list of known failures."""
    failed = failures(document["checks"])
    broken = [check for check in failed if check["scope"] == "contract"]
    if broken:
        also = "Its output does not follow the target, and it" if document["lossless"] is False else "It"
        return "", f"{also} breaks the contract of a sampler: {broken[0]['title']} ({broken[0]['id']} below)."
    if failed and not any(check["message"] for check in failed):
        return "", "An entry among the known failures is no longer true."
    if document["lossless"] is False:
        what = "Its output does not follow the target"
    else:
        also = "Its output follows the target, but it" if document["lossless"] else "It"
        what = f"{also} does not follow the rule it declares ({document['rule']['declared']})"
    return "", f"{what}; a correct sampler is called so with probability at most {_alarms(document)} per run."


def _alarms(document: Document) -> str:
    return scientific(document["options"]["alpha"])


def _inconclusive(document: Document) -> tuple[str, str]:
    reason = document["warnings"][0] if document["warnings"] else "the evidence does not decide"
    new = "new " if document["summary"]["known_failures"] else ""
    return "", f"No {new}fault was proved, but that is no pass: {reason}."


def power(document: Document) -> str:
    """The smallest error that would have been caught, or that none can be stated."""
    headline = document["detectable_tv"]
    if headline["value"] is None:
        if document["verdict"] == "nonconformant" and document["summary"]["inconclusive"]:
            return (
                "the run ended early, with a fault proved, so it does not say how small an error it would have caught"
            )
        return "the run has no finished case that tells how small an error it would have caught"
    return (
        f"an error of total variation {headline['value']:.2g} or more in its output (case {headline['case']}, "
        f"{headline['cells']} cells) would have been caught with probability {1 - document['options']['beta']:g}"
    )


def bet(document: Document) -> str:
    """What E means, and at which value it proves a fault; empty where no check has evidence that could be shown.

    >>> bet({"checks": [{"log10_e": None}]})
    ''
    """
    if all(check["log10_e"] is None for check in document["checks"]):
        return ""
    found = document.get("evidence")  # documents before version 1.1 lack it
    proof = f", and {found['threshold']:.1f} or more over all checks proves a fault" if found else ""
    return (
        "the factor by which a bet against the sampler has multiplied its stake; "
        f"log10 E of 0 or less says nothing against it{proof}"
    )


def facts(document: Document) -> dict[str, str]:
    """Coverage, rule, passes by area, precision and run, by name: what puts the verdict in its place."""
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
    found = ", ".join(f"{size['value']:.2g} at {size['case']} ({size['cells']} cells)" for size in sizes)
    return f"in the first token {found}" if found else ""


def _run(options: Document, timing: Document) -> str:
    amount = f"{timing['rows']:,} rows in {timing['calls']:,} calls, {timing['total_s']:.1f} s"
    return f"profile {options['profile']}, seed {options['seed']}, {amount}"

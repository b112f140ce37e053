"""Numbers of a report that cannot stand beside each other are damage too, though each has the form that it should have.

A JSON Schema speaks of one place at a time; what is said here takes two.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from specverify.wording import brief

__all__ = ["contradictions"]

_ROUNDING: Final = 1e-9  # share by which sums of expected events may exceed their number

Part = Mapping[str, Any]


def contradictions(document: Part) -> Iterator[str]:
    """Name what contradicts something else in a document whose places are each as the schema has them.

    Args:
        document: a document without a departure from the schema.

    Returns:
        contradictions, each in one line that names the place first.
    """
    ids: set[str] = set()
    for index, check in enumerate(document["checks"]):
        if check["id"] in ids:
            yield f"checks[{index}].id: expected another check in every place, got {brief(check['id'])} again"
        ids.add(check["id"])
        yield from _of_check(check, f"checks[{index}]")
    if document["rule"]["conforms"] is not None and document["rule"]["declared"] is None:
        yield "rule.conforms: expected null where no rule is declared, got an answer"
    headline = document["detectable_tv"]
    if headline["value"] is not None and None in (headline["case"], headline["cells"]):
        yield "detectable_tv: expected a case and its cells beside the value, got null"
    yield from _of_acceptance(document["acceptance"])
    looks = document.get("evidence", {"looks": ()})["looks"]
    if any(later["rows"] < earlier["rows"] for earlier, later in pairwise(looks)):
        yield "evidence.looks: expected rows that grow from look to look, got fewer"


def _of_check(check: Part, where: str) -> Iterator[str]:
    """Name what is wrong between the numbers of one check."""
    labels, n = len(check["labels"]), check["n"]
    if not labels == len(check["observed"]) == len(check["expected"]):
        yield f"{where}: expected as many labels as observed and expected cells, got another number"
    if check.get("ratios") and len(check["ratios"]) != labels:
        yield f"{where}.ratios: expected none or as many as labels, got another number"
    if check["cells"] is None:
        return  # one number of a comparison, which is no part of the n comparisons
    if check["cells"] + 1 < labels:  # the label of what cannot happen stands for no cell of the law
        yield f"{where}.cells: expected at least as many as labels, got {check['cells']}"
    if any(count % 1 for count in check["observed"]):
        yield f"{where}.observed: expected whole numbers of events, got a broken one"
    for name in ("observed", "expected"):
        if sum(check[name]) > n * (1 + _ROUNDING):
            yield f"{where}.{name}: expected at most the n of the check in all, got more"


def _of_acceptance(acceptance: Part | None) -> Iterator[str]:
    """Name where more drafts were accepted than tested."""
    found = {} if acceptance is None else {"acceptance": acceptance}
    entries = acceptance.get("positions", ()) if acceptance else ()
    found |= {f"acceptance.positions[{index}]": entry for index, entry in enumerate(entries)}
    for where, entry in found.items():
        if entry["accepted"] > entry["tested"]:
            yield f"{where}.accepted: expected at most the tested ones, got more"

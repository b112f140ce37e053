"""Report documents that several tests read: real runs, made once, and the same as an older version wrote them."""

import copy
from functools import cache
from typing import Any

import specverify
from specverify.menu import menu
from specverify.registry import load

Document = dict[str, Any]

SAMPLERS = ("reference", "naive-redraw", "fault:K07", "fault:K15", "fault:K31")
"""A correct sampler, the wrong one of the demonstration, and three faults that show in different places."""


FEW_CASES = ("AB", "AB4", "T3", "W402", "softmax-32")


@cache
def _made(name: str) -> Document:
    cases = [case for case in menu() if case.name in FEW_CASES] if name.startswith("fault:") else None
    return specverify.check(load(name), samples=3000, target_tv=0.5, alpha=1e-9, target=name, cases=cases).document


def document(name: str) -> Document:
    """Give the report document of a small run of a sampler, a copy that may be changed."""
    return copy.deepcopy(_made(name))


def as_of_1_1(new: Document) -> Document:
    """Take out of a document what version 1.1 did not write."""
    old = copy.deepcopy(new)
    del old["compared_shares"]
    (old["counterexample"] or {}).pop("shown_by", None)
    return {**old, "schema_version": "1.1"}


def as_of_1_0(new: Document) -> Document:
    """Take out of a document what version 1.0 did not write."""
    old = as_of_1_1(new)
    del old["evidence"]
    for check in old["checks"]:
        del check["ratios"]
    for name in ("positions", "headroom_case", "headroom_observed", "headroom_bounds"):
        old["acceptance"].pop(name)
    for row in old["acceptance"]["speedup_model"]:
        del row["num_draft_tokens"]
    return {**old, "schema_version": "1.0"}

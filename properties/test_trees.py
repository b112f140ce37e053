"""Trees: with several drafts per position, a round continued by the target still has the target's joint law.

Source: Miao et al., arXiv 2305.09781; Chen et al., arXiv 2402.12374.
"""

import pytest
from hypothesis import given, settings

from specverify.cases import Case
from specverify.faults.trees import TREE_FAULT_RULES
from specverify.properties import conditional_tables, reproducible
from specverify.reference import (
    TREE_MODES,
    TREE_RULES,
    TreeRule,
    completed_law,
    rrs,
    target_law,
    target_only,
    tree_law,
)

PARENTS = (-1, 0, -1)  # two siblings, the first with a child of its own
DISTINCT = ("without_replacement", "top")
FORMS = [(name, mode) for name in TREE_RULES for mode in (DISTINCT if name == "target_only" else TREE_MODES)]
TABLES = conditional_tables(min_num_draft_tokens=2)


def lossless(rule: TreeRule, mode: str, case: Case) -> bool:
    """Say whether the completed round has the target's joint law."""
    law = tree_law(rule, PARENTS, mode, case.target_row, case.draft_row)
    return completed_law(law, case.target_row, 3) == target_law(case.target_row, 3)


@pytest.mark.parametrize(("rule", "mode"), FORMS)
@settings(reproducible, max_examples=50)  # a table of three tokens has many branches
@given(case=TABLES)
def test_the_completed_round_of_a_tree_follows_the_target(rule: str, mode: str, case: Case) -> None:
    """However siblings were drawn, P(the first three tokens are x) is the product of p(x_i | x^{i-1})."""
    assert lossless(TREE_RULES[rule], mode, case)


@pytest.mark.parametrize("fault", TREE_FAULT_RULES)
def test_every_known_fault_of_a_tree_rule_is_lossy(fault: str, witnesses: list[Case]) -> None:
    """Each catalogued fault of a tree verifier shows on a built-in table, in one of the ways to draw siblings."""
    shown = [case for case in witnesses if case.num_draft_tokens == 2]
    modes = DISTINCT if fault == "M12" else TREE_MODES  # M12 edits target_only, whose siblings are distinct
    assert not all(lossless(TREE_FAULT_RULES[fault], mode, case) for mode in modes for case in shown)
    assert all(lossless(target_only if fault == "M12" else rrs, mode, case) for mode in modes for case in shown)

"""Every fault of several drafts per position has its recorded law, and its sampler does what its rule says."""

from collections import defaultdict
from fractions import Fraction
from functools import partial

import pytest
from tree_cells import disagreements
from tree_inputs import as_law, full_tree, models, records

from specverify.faults.trees import TREE_FAULT_RULES, TREE_ROUNDS, verify_tree_fault
from specverify.reference import (
    Number,
    Outcome,
    branches,
    completed_law,
    target_law,
    total_variation,
    tree_law,
)

NAMES = {
    "M01": "duplicates_merged",
    "M02": "residual_not_renormalised",
    "M03": "sibling_tested_against_p",
    "M04": "final_draw_from_p",
    "M05": "one_coin_for_siblings",
    "M06": "without_replacement_scored_with_q",
    "M07": "top2_scored_with_q",
    "M08": "best_of_two_by_q",
    "M09": "kseq_rho1_clipped",
    "M10": "target_only_draft_probs_is_q",
    "M11": "target_only_duplicate_siblings",
    "M12": "target_only_coin_reused_down_path",
}
MODES = {"M06": "without_replacement", "M12": "top"}


def law_of(fault: str, name: str) -> dict[Outcome, Number]:
    """Return the law of one round of a fault on a recorded input."""
    target, draft = models(name)
    if fault in TREE_FAULT_RULES:
        tree = full_tree(2, 2) if fault == "M12" else (-1, -1)
        return tree_law(TREE_FAULT_RULES[fault], tree, MODES.get(fault, "with_replacement"), target, draft)
    law: defaultdict[Outcome, Number] = defaultdict(Fraction)
    for branch in branches(lambda tape: TREE_ROUNDS[fault](tape, target, draft)):
        law[Outcome(branch.output[:-1], len(branch.output) - 1, branch.output[-1])] += branch.weight
    return dict(law)


@pytest.mark.parametrize("fault", NAMES)
def test_recorded_laws_are_reproduced(fault: str) -> None:
    """First-token law and joint distance equal what is recorded, exactly, on every recorded input."""
    found = records(f"{fault}:{NAMES[fault]}")
    for record in found:
        target, _ = models(record["input"])
        law = law_of(fault, record["input"])
        if record["quantity"] == "first_token_law":
            assert completed_law(law, target, 1) == as_law(record["law"]), record["input"]
        else:
            assert total_variation(completed_law(law, target, 3), target_law(target, 3)) == Fraction(record["value"])
    assert len(found) == (10 if fault in ("M10", "M11", "M12") else 5)


@pytest.mark.parametrize("fault", TREE_FAULT_RULES)
def test_kernels_equal_their_rules(fault: str) -> None:
    """No point of any cell of any draft of a tree in depth-first order disagrees."""
    mode = "without_replacement" if fault in MODES else "with_replacement"
    compared, wrong = disagreements(
        TREE_FAULT_RULES[fault], partial(verify_tree_fault, fault), (-1, 0, -1), mode, "W637"
    )
    assert compared > 200
    assert wrong == 0

"""Lengths and speeds are those of the published formulas, and bounds are exact on the canonical inputs."""

from fractions import Fraction

import pytest

from specverify.cases import Case
from specverify.lengths import best_draft_length, full_joint_bound, one_position_bound, speedup
from specverify.menu import menu
from specverify.reference import RULES, expected_tokens, outcome_law

ROWS = {
    "AB": ("3/5 2/5", "4/5 1/5"),
    "C2": ("7/10 3/10", "3/10 7/10"),
    "C3": ("1/2 3/10 1/5", "1/5 1/5 3/5"),
    "T3": ("1/2 3/10 1/5", "3/10 1/5 1/2"),
    "SUN": ("1/3 2/3", "2/3 1/3"),
}
JOINT = {"AB": "63/25", "C2": "11/5", "C3": "53/25", "T3": "231/100", "SUN": "7/3", "W402": "299/126"}
TWO_DRAFTS = {"AB": "49/25", "C2": "181/100", "C3": "46/25", "T3": "39/20", "SUN": "17/9", "W402": "3077/1694"}


def case_named(name: str) -> Case:
    """Give a canonical input with two drafted tokens."""
    if name == "W402":
        return next(case for case in menu() if case.name == name)
    target, draft = (text.split() for text in ROWS[name])
    return Case.from_rows(name, target, draft, num_draft_tokens=2)


@pytest.mark.parametrize("name", JOINT)
def test_bounds_are_the_recorded_ones(name: str) -> None:
    """The full-joint bound for two drafts in a row, and the optimal transport bound for two at one position."""
    case = case_named(name)
    assert full_joint_bound(case) == pytest.approx(float(Fraction(JOINT[name])), rel=1e-14)
    bound = one_position_bound(case.target_row(()), case.draft_row(()), 2)
    assert bound == pytest.approx(float(Fraction(TWO_DRAFTS[name])), rel=1e-14)


@pytest.mark.parametrize("name", JOINT)
def test_no_rule_exceeds_the_bounds(name: str) -> None:
    """Every known rule stays within the full-joint bound; with one draft at one position the token rule reaches it."""
    case = case_named(name)
    for rule in RULES.values():
        law = outcome_law(rule, case.target_row, case.draft_row, 2)
        assert float(expected_tokens(law)) <= full_joint_bound(case) + 1e-12
    once = outcome_law(RULES["token"], case.target_row, case.draft_row, 1)
    one = one_position_bound(case.target_row(()), case.draft_row(()), 1)
    assert one == pytest.approx(float(expected_tokens(once)), rel=1e-14)


@pytest.mark.parametrize(
    ("rate", "cost", "length", "factor"),
    [
        (0.7, 0.01, 9, 2.97),
        (0.7, 0.05, 6, 2.35),
        (0.7, 0.1, 4, 1.98),
        (0.7, 0.2, 3, 1.58),
        (0.9, 0.01, 24, 7.49),
        (0.9, 0.05, 13, 4.67),
        (0.9, 0.1, 10, 3.43),
        (0.9, 0.2, 7, 2.37),
    ],
)
def test_the_best_draft_length_is_the_published_one(rate: float, cost: float, length: int, factor: float) -> None:
    """Length and factor at the best are those of the formula of arXiv 2211.17192, theorem 3.8."""
    assert best_draft_length(rate, cost) == length
    assert speedup(rate, length, cost) == pytest.approx(factor, abs=0.005)
    assert speedup(rate, length, cost) == pytest.approx((1 - rate ** (length + 1)) / ((1 - rate) * (length * cost + 1)))


def test_a_draft_that_costs_more_than_it_saves_is_a_loss() -> None:
    """Where no length helps the shortest is named, with a factor below 1."""
    assert best_draft_length(0.1, 0.5) == 1
    assert speedup(0.1, 1, 0.5) < 1

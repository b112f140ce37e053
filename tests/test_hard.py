"""Impossible events are found, one row being enough, and nothing possible is ever called impossible."""

from itertools import product

import numpy as np
import pytest

from specverify.cases import Case
from specverify.faults import CATALOGUE
from specverify.hard import HardChecks, Violation
from specverify.menu import menu
from specverify.reference import RULES, Rule, outcome_law
from specverify.trace import Trace

BY_NAME = {case.name: case for case in menu()}
SMALL = [case for case in menu() if case.vocab_size <= 8]
TAU = 1e-12


def rows(*outcomes: tuple[list[int], int, int]) -> Trace:
    """Make a trace of (draft tokens, accepted, next token) rows; -1 pads shorter drafts."""
    drafts = np.array([draft for draft, _, _ in outcomes], dtype=np.int64).reshape(len(outcomes), -1)
    accepted, following = (np.array([outcome[i] for outcome in outcomes], dtype=np.int64) for i in (1, 2))
    nothing = np.full((len(outcomes), drafts.shape[1] + 1), -1)
    return Trace(drafts, (drafts >= 0).sum(axis=1), accepted, following, nothing)


def find(case: Case, trace: Trace, token_rule: bool = True, tau: float = TAU) -> list[Violation]:
    """Find the impossible events of a trace."""
    return HardChecks(case, tau, token_rule).find(trace)


def support(rule: Rule, case: Case) -> Trace:
    """Make a trace of every outcome that a rule can have on a case, with every draft length if it is ragged."""
    lengths = range(case.num_draft_tokens + 1) if case.ragged else [case.num_draft_tokens]
    return rows(
        *(
            (
                [*draft, *[-1] * (case.num_draft_tokens - length)],
                accepted,
                -1 if following is None else following,
            )
            for length in lengths
            for draft, accepted, following, _ in outcome_law(rule, case.target_row, case.draft_row, length)
        )
    )


# --- controls --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_no_rule_breaks_the_support(case: Case, rule: str) -> None:
    """None of the outcomes of a lossless rule is called impossible for lossless rules."""
    assert find(case, support(RULES[rule], case), token_rule=False) == []


@pytest.mark.parametrize("tau", [1e-12, 1e-5, 2.0**-7])
@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_the_token_rule_breaks_nothing(case: Case, tau: float) -> None:
    """None of its own outcomes is called impossible under the token rule, whatever the tolerance."""
    assert find(case, support(RULES["token"], case), tau=tau) == []


@pytest.mark.parametrize("rule", ["match", "one_hot"])
def test_other_rules_do_what_the_token_rule_never_does(rule: str) -> None:
    """That is why SV-SUP-002 is asserted of a declared token rule alone."""
    found = find(BY_NAME["T3"], support(RULES[rule], BY_NAME["T3"]))
    assert {violation.check for violation in found} == {"SV-SUP-002"}


# --- support ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token_rule", [False, True])
def test_a_forbidden_token_is_found_wherever_it_was_emitted(token_rule: bool) -> None:
    """An accepted draft, a replacement and a bonus with p = 0 each break the support, under every rule."""
    case = BY_NAME["zeros"]  # token 1 has p = 0
    for draft, accepted, following in ([1, 0], 1, 2), ([0, 1], 2, 0), ([0, 3], 1, 1), ([0, 0], 2, 1):
        found = find(case, rows((draft, accepted, following)), token_rule)
        assert ("SV-SUP-001", 1) in {(v.check, v.count) for v in found}
        assert all(v.case == "zeros" for v in found)


def test_a_forbidden_draft_that_is_rejected_is_fine() -> None:
    """Only what is emitted counts: drafts may be anything."""
    assert find(BY_NAME["zeros"], rows(([1, 1], 0, 0), ([0, 1], 1, 2)), token_rule=False) == []


def test_the_support_depends_on_the_prefix() -> None:
    """A token that is allowed after one prefix and forbidden after another is judged by its own row."""
    target = {(): ["1/2", "1/2"], (0,): ["1", "0"], (1,): ["0", "1"]}
    case = Case.from_table("t", target, target, num_draft_tokens=1)
    allowed, forbidden = rows(([0], 1, 0), ([1], 1, 1)), rows(([0], 1, 1), ([1], 1, 0))
    assert find(case, allowed) == []
    assert [(v.check, v.count) for v in find(case, forbidden)] == [("SV-SUP-001", 2)]


def test_the_message_shows_the_first_row() -> None:
    """How many rows, the draft, how many were accepted, and the token with its p and q."""
    trace = rows(([0, 0], 2, 0), ([3, 0], 1, 1), ([0, 3], 1, 1))
    (found,) = find(BY_NAME["zeros"], trace, token_rule=False)
    assert found.message == (
        "a token that the target cannot give was emitted (2 of 3 rows; first: draft [3, 0], 1 accepted; "
        "token 1 at position 1 with p = 0, q = 0.25)"
    )
    (found,) = find(BY_NAME["zeros"], rows(([0, 0], 2, 1)), token_rule=False)
    assert found.message.endswith("first: draft [0, 0], 2 accepted; token 1 at position 2 with p = 0)")
    (found,) = find(BY_NAME["zeros"], rows(([1, 0], 2, -1)), token_rule=False)
    assert found.message.endswith("first: draft [1, 0], 2 accepted; token 1 at position 0 with p = 0, q = 0.25)")


# --- the token rule --------------------------------------------------------------------------------------------------


def test_rejecting_where_p_exceeds_q_is_found() -> None:
    """In AB token 1 has p > q, so it is never rejected."""
    found = find(BY_NAME["AB"], rows(([0], 1, 1), ([1], 0, 1)))
    assert [(v.check, v.count) for v in found] == [("SV-SUP-002", 1)]
    assert found[0].message == (
        "a draft with p >= q was rejected (1 of 2 rows; first: draft [1], 0 accepted; "
        "token 1 at position 0 with p = 0.4, q = 0.2)"
    )
    assert find(BY_NAME["AB"], rows(([1], 0, 1)), token_rule=False) == []


def test_a_replacement_without_residual_is_found() -> None:
    """In T3 the residual has no token 2: a redraw from the target shows within a few rejections."""
    found = find(BY_NAME["T3"], rows(([2, 0], 0, 2), ([2, 0], 0, 0)))
    assert [(v.check, v.count) for v in found] == [("SV-SUP-002", 1)]
    assert found[0].message.startswith(
        "a rejected draft was replaced by a token with p <= q, which has no residual mass (1 of 2 rows; first: draft "
        "[2, 0], 0 accepted; token 2 at position 0 with p = 0.2, q = 0.5"
    )
    assert find(BY_NAME["T3"], rows(([2, 0], 0, 2)), token_rule=False) == []


def test_later_positions_are_judged_by_their_own_rows() -> None:
    """W402 after prefix 1: token 0 has p < q, token 1 p > q."""
    case = BY_NAME["W402"]
    signs = np.sign(case.target[1][1] - case.draft[1][1]).tolist()
    assert signs == [-1, 1, 1]
    for x, y in product(range(3), repeat=2):
        found = find(case, rows(([1, x], 1, y)))
        assert len(found) == (signs[x] > 0) + (signs[y] < 0)


def test_bonus_and_shorter_drafts_are_not_replacements() -> None:
    """A bonus may be any possible token, also after a draft shorter than the others."""
    case = BY_NAME["W637-ragged"]
    assert find(case, rows(([1, -1], 1, 0), ([-1, -1], 0, 1), ([2, 0], 2, 0), ([1, -1], 1, 2))) == []
    assert find(case, rows(([1, -1], 0, 1))) != []


def test_ties_are_left_to_the_statistics() -> None:
    """Within the tolerance rounding decides; beyond it, it does not."""
    case = Case.from_rows("t", [0.5, 0.5], [0.5 + 1e-7, 0.5 - 1e-7], num_draft_tokens=1)
    trace = rows(([1], 0, 0))
    assert find(case, trace, tau=1e-5) == []
    assert len(find(case, trace, tau=1e-12)) == 2


def test_a_rejection_without_a_next_token_is_judged_by_its_draft_alone() -> None:
    """Nothing emitted cannot be a wrong replacement."""
    assert find(BY_NAME["AB"], rows(([0], 0, -1))) == []
    assert [v.message[:33] for v in find(BY_NAME["AB"], rows(([1], 0, -1)))] == ["a draft with p >= q was rejected "]


@pytest.mark.parametrize(
    ("fault", "seen"), [("K02", True), ("K03a", True), ("K07", True), ("K01", False), ("K12", False)]
)
def test_faults_that_do_the_impossible_are_convicted_without_statistics(fault: str, seen: bool) -> None:
    """Wrong residuals and ratios have outcomes of null probability zero; the others need counting."""
    found = find(BY_NAME["W402"], support(CATALOGUE[fault].rule, BY_NAME["W402"]))
    assert bool(found) == seen


def test_an_empty_trace_has_no_violations() -> None:
    """Nothing seen, nothing found."""
    none = np.zeros(0, dtype=np.int64)
    trace = Trace(np.zeros((0, 2), dtype=np.int64), none, none, none, np.zeros((0, 3), dtype=np.int64))
    assert find(BY_NAME["zeros"], trace) == []

"""The whole idea on two tokens, A and B: the target is 3/5, 2/5; the draft is 4/5, 1/5; one token is drafted.

The draft proposes A too often. Verification takes the surplus back: a drafted A is refused one time in four, and is
then replaced by B. Every number here is exact.
"""

from fractions import Fraction

import pytest

from specverify.faults import CATALOGUE
from specverify.reference import Outcome, Rule, completed_law, outcome_law, token

A, B = 0, 1
TARGET = (Fraction(3, 5), Fraction(2, 5))
DRAFT = (Fraction(4, 5), Fraction(1, 5))
naive_redraw = CATALOGUE["K02"].rule  # after a refusal draws from the target, instead of from the residual


def first_token(rule: Rule) -> dict[int, Fraction]:
    """Return the law of the first token that comes out."""
    law = completed_law(outcome_law(rule, lambda _: TARGET, lambda _: DRAFT, 1), lambda _: TARGET, 1)
    return {tokens[0]: Fraction(weight) for tokens, weight in law.items()}


def test_what_comes_out_is_the_target() -> None:
    """A with 3/5 and B with 2/5, as if the target had been sampled alone."""
    assert first_token(token) == {A: Fraction(3, 5), B: Fraction(2, 5)}


def test_how_it_comes_about() -> None:
    """A drafted A is kept with 3/4, else replaced by B; a drafted B is always kept. Then the target gives a bonus."""
    assert outcome_law(token, lambda _: TARGET, lambda _: DRAFT, 1) == {
        Outcome((A,), 0, B): Fraction(4, 5) * Fraction(1, 4),
        Outcome((A,), 1, A): Fraction(4, 5) * Fraction(3, 4) * Fraction(3, 5),
        Outcome((A,), 1, B): Fraction(4, 5) * Fraction(3, 4) * Fraction(2, 5),
        Outcome((B,), 1, A): Fraction(1, 5) * Fraction(3, 5),
        Outcome((B,), 1, B): Fraction(1, 5) * Fraction(2, 5),
    }


def test_how_often_a_draft_is_kept() -> None:
    """min(3/5, 4/5) + min(2/5, 1/5) = 4/5: one minus the distance of the two laws."""
    law = outcome_law(token, lambda _: TARGET, lambda _: DRAFT, 1)
    assert sum(weight for outcome, weight in law.items() if outcome.num_accepted == 1) == Fraction(4, 5)


def test_the_naive_redraw_is_wrong() -> None:
    """Replaced by a draw from the target, a refused A comes back with 3/5: A has 3/5 + 1/5 x 3/5 = 18/25, not 3/5."""
    assert first_token(naive_redraw) == {A: Fraction(18, 25), B: Fraction(7, 25)}


@pytest.mark.parametrize("fault", ["K04", "K05", "K12"])
def test_two_tokens_do_not_show_everything(fault: str) -> None:
    """Where only B can replace, wrong ways to choose the replacement come out right: more tokens are needed."""
    assert first_token(CATALOGUE[fault].rule) == first_token(token)

"""Lengths: how many drafted tokens survive. Lossless rules differ in speed alone, and in a known order.

Source: Sun et al., arXiv 2403.10444, for the block rule and its optimality.
"""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given

from specverify.cases import Case
from specverify.faults import CATALOGUE
from specverify.properties import conditional_tables, pairs, reproducible
from specverify.reference import (
    Number,
    Row,
    Rule,
    Tape,
    accept_tail,
    acceptance,
    block,
    choose,
    flip,
    match,
    one_hot,
    outcome_law,
    residual,
    survival,
    target_law,
    token,
    total_variation,
)


def tail(rule: Rule, case: Case) -> tuple[Number, ...]:
    """Return P(num_accepted >= i) for i = 1 .. gamma."""
    return accept_tail(outcome_law(rule, case.target_row, case.draft_row, case.num_draft_tokens))


def joint_bound(case: Case) -> tuple[Number, ...]:
    """Return the sum over x^i of min(p(x^i), q(x^i)) for i = 1 .. gamma: what no lossless rule exceeds."""
    lengths = range(1, case.num_draft_tokens + 1)
    return tuple(1 - total_variation(target_law(case.target_row, i), target_law(case.draft_row, i)) for i in lengths)


def at_least(long: Sequence[Number], short: Sequence[Number]) -> bool:
    """Say whether one tail is at least the other at every length."""
    return all(a >= b for a, b in zip(long, short, strict=True))


def block_weights(case: Case) -> tuple[Number, ...]:
    """Return the sum over x^i of q(x^i) w_i for i = 1 .. gamma, with w_i = min(1, w_{i-1} p/q)."""
    weights: dict[tuple[int, ...], Number] = {(): Fraction(1)}
    sums: list[Number] = []
    for i in range(1, case.num_draft_tokens + 1):
        drafts = target_law(case.draft_row, i)
        for x in drafts:
            p, q = case.target_row(x[:-1])[x[-1]], case.draft_row(x[:-1])[x[-1]]
            weights[x] = acceptance(weights[x[:-1]] * p, q)
        sums.append(sum(q * weights[x] for x, q in drafts.items()))
    return tuple(sums)


def block_break(
    tape: Tape, draft_tokens: Sequence[int], draft_probs: Sequence[Row], target_probs: Sequence[Row]
) -> tuple[int, int | None]:
    """Verify as the block rule does, but stop at the first position that fails (fault K27d)."""
    gamma, w = len(draft_tokens), acceptance(Fraction(1), Fraction(1))
    for i, x in enumerate(draft_tokens):
        kept, w = w, acceptance(w * target_probs[i][x], draft_probs[i][x])
        h = survival(w, target_probs[i + 1], draft_probs[i + 1]) if i + 1 < gamma else w
        if not flip(tape, ("accept", i), h):
            return i, choose(tape, ("final",), residual(target_probs[i], draft_probs[i], kept))
    return gamma, choose(tape, ("final",), target_probs[gamma])


def one_hot_redrawn(
    tape: Tape, draft_tokens: Sequence[int], draft_probs: Sequence[Row], target_probs: Sequence[Row]
) -> tuple[int, int | None]:
    """Score drafts as point masses, then replace the refused one from the whole target (fault K02)."""
    points = [[Fraction(y == x) for y in range(len(row))] for x, row in zip(draft_tokens, draft_probs, strict=True)]
    return CATALOGUE["K02"].rule(tape, draft_tokens, points, target_probs)


@reproducible
@given(pairs())
def test_without_context_the_token_rule_accepts_a_geometric_number(pair: tuple[Row, Row]) -> None:
    """With rows that ignore the context, P(num_accepted >= i) is the i-th power of 1 - TV(p, q)."""
    p, q = pair
    alpha = 1 - total_variation(dict(enumerate(p)), dict(enumerate(q)))
    assert tail(token, Case.from_rows("pair", p, q, num_draft_tokens=3)) == (alpha, alpha**2, alpha**3)


@reproducible
@given(conditional_tables())
def test_block_is_as_long_as_its_weights_say(case: Case) -> None:
    """Under the block rule P(num_accepted >= i) is the sum over x^i of q(x^i) w_i."""
    assert tail(block, case) == block_weights(case)


@reproducible
@given(conditional_tables())
def test_block_is_at_least_as_long_as_token(case: Case) -> None:
    """P(num_accepted >= i) under the block rule is at least that under the token rule, at every i."""
    assert at_least(tail(block, case), tail(token, case))


@pytest.mark.parametrize("rule", [token, block, match, one_hot])
@reproducible
@given(case=conditional_tables())
def test_no_rule_is_longer_than_the_joint_overlap(rule: Rule, case: Case) -> None:
    """P(num_accepted >= i) is at most the sum over x^i of min(p(x^i), q(x^i)), at every i."""
    assert at_least(joint_bound(case), tail(rule, case))


@reproducible
@given(conditional_tables())
def test_one_hot_is_match_in_law(case: Case) -> None:
    """Scoring sampled drafts as point masses, and matching them with a target sample, give the same outcomes."""
    laws = [outcome_law(rule, case.target_row, case.draft_row, case.num_draft_tokens) for rule in (one_hot, match)]
    assert laws[0] == laws[1]


def test_one_coin_for_all_positions_is_too_long(witnesses: list[Case]) -> None:
    """With one coin per block (fault K15) later positions are no longer accepted with their own probability."""
    assert any(tail(CATALOGUE["K15"].rule, case) != tail(token, case) for case in witnesses)


def test_a_block_that_stops_early_is_too_short(witnesses: list[Case]) -> None:
    """A block rule that stops at the first failing position (fault K27d) is shorter than even the token rule."""
    assert not all(at_least(tail(block_break, case), tail(token, case)) for case in witnesses)
    assert any(tail(block_break, case) != block_weights(case) for case in witnesses)


def test_accepting_everything_is_too_long(witnesses: list[Case]) -> None:
    """Accepting every draft (fault K01) exceeds what any lossless rule can."""
    assert not all(at_least(joint_bound(case), tail(CATALOGUE["K01"].rule, case)) for case in witnesses)


def test_a_one_hot_rule_that_redraws_from_the_target_is_not_match(witnesses: list[Case]) -> None:
    """Point masses with the whole target as the residual (fault K02) differ from a match in law."""
    laws = [
        [outcome_law(rule, case.target_row, case.draft_row, case.num_draft_tokens) for case in witnesses]
        for rule in (one_hot_redrawn, match)
    ]
    assert laws[0] != laws[1]

"""Acceptance: a drafted token is accepted with probability min(1, p/q), by a coin of its own.

Source: Leviathan et al., arXiv 2211.17192, Algorithm 1 and section 3.2.
"""

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given

from specverify.cases import Case, Prefix
from specverify.faults import CATALOGUE
from specverify.properties import conditional_tables, pairs, reproducible
from specverify.reference import Number, Row, Rule, accept_tail, outcome_law, target_law, token, total_variation


def accepted(rule: Rule, case: Case) -> dict[Prefix, Number]:
    """Return, by x^i, the probability that x^i is drafted and all of it accepted; never-accepted ones left out."""
    law: defaultdict[Prefix, Number] = defaultdict(Fraction)
    for outcome, weight in outcome_law(rule, case.target_row, case.draft_row, case.num_draft_tokens).items():
        for i in range(outcome.num_accepted):
            law[outcome.draft_tokens[: i + 1]] += weight
    return dict(law)


def overlaps(case: Case) -> dict[Prefix, Number]:
    """Return, by x^i, the product over j <= i of min(p(x_j | x^{j-1}), q(x_j | x^{j-1})); zeros left out."""
    law: dict[Prefix, Number] = {(): Fraction(1)}
    for prefix in [drafted for i in range(case.num_draft_tokens) for drafted in target_law(case.draft_row, i)]:
        target: Row = case.target_row(prefix)
        draft: Row = case.draft_row(prefix)
        for x, (p, q) in enumerate(zip(target, draft, strict=True)):
            law[(*prefix, x)] = law.get(prefix, 0) * min(p, q)
    return {prefix: weight for prefix, weight in law.items() if prefix and weight > 0}


@reproducible
@given(pairs())
def test_a_token_is_drafted_and_accepted_with_probability_min_p_q(pair: tuple[Row, Row]) -> None:
    """P(x is drafted and accepted) = q(x) min(1, p(x)/q(x)) = min(p(x), q(x)) for every token x."""
    case = Case.from_rows("pair", *pair, num_draft_tokens=1)
    assert accepted(token, case) == {(x,): min(p, q) for x, (p, q) in enumerate(zip(*pair, strict=True)) if p and q}


@reproducible
@given(pairs())
def test_the_acceptance_rate_is_one_minus_the_total_variation(pair: tuple[Row, Row]) -> None:
    """P(accept) = sum_x min(p(x), q(x)) = 1 - TV(p, q): no rule can accept more and stay lossless."""
    case = Case.from_rows("pair", *pair, num_draft_tokens=1)
    law = outcome_law(token, case.target_row, case.draft_row, 1)
    p, q = (dict(enumerate(row)) for row in pair)
    assert accept_tail(law) == (1 - total_variation(p, q),)


@reproducible
@given(conditional_tables())
def test_every_position_is_accepted_by_its_own_rows_and_its_own_coin(case: Case) -> None:
    """P(x^i is drafted and accepted) is the product of min(p, q) along x^i, each row being given the tokens before."""
    assert accepted(token, case) == overlaps(case)


@pytest.mark.parametrize("fault", ["K01", "K07", "K15"])
def test_faulty_acceptance_breaks_the_law(fault: str, witnesses: list[Case]) -> None:
    """Accepting all, by the inverted ratio, or by one coin for all positions, shows on a built-in table."""
    assert any(accepted(CATALOGUE[fault].rule, case) != overlaps(case) for case in witnesses)


@pytest.mark.parametrize("fault", ["K02", "K03a", "K05", "K12", "K31"])
def test_faults_of_other_clauses_keep_the_law(fault: str, witnesses: list[Case]) -> None:
    """A faulty replacement or bonus leaves acceptance as it should be: the clause tells which part is wrong."""
    assert all(accepted(CATALOGUE[fault].rule, case) == overlaps(case) for case in witnesses)

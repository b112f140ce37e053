"""Residual: a refused token is replaced by a draw from (p - q)+, normalised, whatever token was refused.

Source: Leviathan et al., arXiv 2211.17192, Algorithm 1; Chen et al., arXiv 2302.01318, Algorithm 2.
"""

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import TypeAlias

import pytest
from hypothesis import given

from specverify.cases import Case, Prefix
from specverify.faults import CATALOGUE
from specverify.properties import conditional_tables, pairs, reproducible
from specverify.reference import Number, Row, Rule, Tape, choose, outcome_law, residual, token, total_variation

Replacements: TypeAlias = dict[tuple[int, int], Number]


def replacements(rule: Rule, case: Case) -> dict[Prefix, Replacements]:
    """Return, by accepted prefix, the probability that token x is refused after it and replaced by y: {(x, y): ...}."""
    law: defaultdict[Prefix, defaultdict[tuple[int, int], Number]] = defaultdict(lambda: defaultdict(Fraction))
    for outcome, weight in outcome_law(rule, case.target_row, case.draft_row, case.num_draft_tokens).items():
        kept, y = outcome.num_accepted, outcome.next_token
        if kept < case.num_draft_tokens and y is not None:
            law[outcome.draft_tokens[:kept]][outcome.draft_tokens[kept], y] += weight
    return {prefix: dict(table) for prefix, table in law.items()}


def margins(table: Replacements) -> tuple[dict[int, Number], dict[int, Number]]:
    """Return the probabilities of the refused tokens, and those of their replacements."""
    refused: defaultdict[int, Number] = defaultdict(Fraction)
    replacing: defaultdict[int, Number] = defaultdict(Fraction)
    for (x, y), weight in table.items():
        refused[x] += weight
        replacing[y] += weight
    return dict(refused), dict(replacing)


def rows(case: Case, prefix: Prefix) -> tuple[Row, Row]:
    """Return p and q after a prefix."""
    return case.target_row(prefix), case.draft_row(prefix)


def follows_the_residual(rule: Rule, case: Case) -> bool:
    """Say whether the replacement after every prefix has the law (p - q)+ / sum (p - q)+."""
    for prefix, table in replacements(rule, case).items():
        target, draft = rows(case, prefix)
        rest = [max(p - q, 0) for p, q in zip(target, draft, strict=True)]
        due = {y: weight / sum(rest) for y, weight in enumerate(rest) if weight}
        _, replacing = margins(table)
        if {y: weight / sum(table.values()) for y, weight in replacing.items()} != due:
            return False
    return True


def avoids_over_drafted_tokens(rule: Rule, case: Case) -> bool:
    """Say whether every replacement is a token that the draft gives less than the target does."""
    return all(
        case.target_row(prefix)[y] > case.draft_row(prefix)[y]
        for prefix, table in replacements(rule, case).items()
        for _, y in table
    )


def ignores_the_refused_token(rule: Rule, case: Case) -> bool:
    """Say whether replacement and refused token are independent, given the accepted prefix."""
    for table in replacements(rule, case).values():
        refused, replacing = margins(table)
        total = sum(table.values())
        if any(table.get((x, y), 0) * total != refused[x] * replacing[y] for x, y in product(refused, replacing)):
            return False
    return True


def without_the_refused(
    tape: Tape, draft_tokens: Sequence[int], draft_probs: Sequence[Row], target_probs: Sequence[Row]
) -> tuple[int, int | None]:
    """Accept as the token rule does, then replace x by a draw from the target without x (fault K04)."""
    kept, y = token(tape, draft_tokens, draft_probs, target_probs)
    if kept < len(draft_tokens):
        left = [p if z != draft_tokens[kept] else 0 for z, p in enumerate(target_probs[kept])]
        y = choose(tape, ("redraw",), left)
    return kept, y


@pytest.fixture
def two_and_two() -> Case:
    """Make the smallest pair with two tokens that may be refused, and two that may replace them."""
    row = ["2/5", "3/10", "1/5", "1/10"]
    return Case.from_rows("two-and-two", row, row[::-1], num_draft_tokens=1)


@reproducible
@given(pairs())
def test_the_residual_has_the_mass_of_a_rejection(pair: tuple[Row, Row]) -> None:
    """The sum of (p - q)+ is TV(p, q), which is the probability of a rejection; it is empty only where p = q."""
    p, q = pair
    distance = total_variation(dict(enumerate(p)), dict(enumerate(q)))
    assert sum(residual(p, q)) == (distance if p != q else 1)


@reproducible
@given(conditional_tables())
def test_the_replacement_follows_the_normalised_residual(case: Case) -> None:
    """Given x^i accepted and x_{i+1} refused, the next token has the law (p - q)+ / sum (p - q)+ after x^i."""
    assert follows_the_residual(token, case)


@reproducible
@given(conditional_tables())
def test_a_replacement_is_never_an_over_drafted_token(case: Case) -> None:
    """A token with p(y) <= q(y) has had its share from accepted drafts, and never comes as a replacement."""
    assert avoids_over_drafted_tokens(token, case)


@reproducible
@given(conditional_tables(max_vocab_size=4, max_num_draft_tokens=1))
def test_the_replacement_is_independent_of_the_refused_token(case: Case) -> None:
    """Given x^i accepted, the replacement and the token that was refused are independent."""
    assert ignores_the_refused_token(token, case)


@pytest.mark.parametrize("fault", ["K02", "K03a", "K05", "K12"])
def test_a_faulty_replacement_breaks_its_law(fault: str, witnesses: list[Case]) -> None:
    """Drawing from p, from |p - q|, the likeliest residual token, or with the spent coin, shows on a built-in table."""
    assert not all(follows_the_residual(CATALOGUE[fault].rule, case) for case in witnesses)


@pytest.mark.parametrize("fault", ["K02", "K03a"])
def test_giving_over_drafted_tokens_again_is_seen(fault: str, witnesses: list[Case]) -> None:
    """Drawing from p, or from |p - q|, gives tokens out again that were drafted too often."""
    assert not all(avoids_over_drafted_tokens(CATALOGUE[fault].rule, case) for case in witnesses)


@pytest.mark.parametrize("rule", [CATALOGUE["K12"].rule, without_the_refused], ids=["K12", "K04"])
def test_a_replacement_that_knows_the_refused_token_is_seen(rule: Rule, two_and_two: Case) -> None:
    """Drawing with the coin that refused x, or from p without x, makes the replacement depend on x."""
    assert ignores_the_refused_token(token, two_and_two)
    assert not ignores_the_refused_token(rule, two_and_two)

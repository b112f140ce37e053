"""Filters: a sampler is exact for the filtered target if its draft is scored by the law that it was drawn from.

The same target must be used throughout a round; how the draft was filtered does not matter.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specverify.cases import Case
from specverify.faults import CATALOGUE, BlockEdit, Edit
from specverify.faults import exact_law as edited_law
from specverify.properties import (
    Row,
    SamplingParameters,
    conditional_tables,
    distributions,
    reproducible,
    sampling_parameters,
)
from specverify.reference import (
    RULES,
    Model,
    Number,
    Outcome,
    Rule,
    Tape,
    acceptance,
    choose,
    completed_law,
    flip,
    outcome_law,
    residual,
    target_law,
)

TOP_TWO = SamplingParameters(top_k=2)
COLD = SamplingParameters(temperature=Fraction(1, 2))
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
tables = conditional_tables()
parameters = sampling_parameters(3)


def follows(law: dict[Outcome, Number], target: Model, length: int) -> bool:
    """Say whether a round, continued by the target, has the target's joint law."""
    return completed_law(law, target, length) == target_law(target, length)


def lossless(rule: Rule, target: Model, draft: Model, num_draft_tokens: int) -> bool:
    """Say whether a rule is lossless when it uses one target and the draft's true law."""
    return follows(outcome_law(rule, target, draft, num_draft_tokens), target, num_draft_tokens + 1)


def ranks(row: Sequence[Number]) -> list[int]:
    """Return the tokens from the likeliest down, ties by id."""
    return sorted(range(len(row)), key=lambda x: (-row[x], x))


def tends_to_greedy(row: Row, law_of_power: Callable[[int], Row]) -> bool:
    """Say whether the laws at T = 1/n keep the bound on what the argmax does not have."""
    best, second = sorted(row, reverse=True)[:2]
    greedy = SamplingParameters(temperature=Fraction(0)).law(row).index(1)
    return all(1 - law_of_power(n)[greedy] <= len(row) * (second / best) ** n for n in (1, 4, 32))


@every_rule
@reproducible
@given(case=tables, target=parameters, draft=parameters)
def test_filters_of_target_and_draft_may_differ(
    rule: Rule, case: Case, target: SamplingParameters, draft: SamplingParameters
) -> None:
    """With p and q filtered each in its own way, the output has the law of the filtered p."""
    assert lossless(rule, target.of(case.target_row), draft.of(case.draft_row), case.num_draft_tokens)


def is_filtered(row: Row, law: Row) -> bool:
    """Say whether a law sums to 1, adds no token, and keeps the likeliest."""
    added = any(p == 0 < filtered for p, filtered in zip(row, law, strict=True))
    return sum(law) == 1 and not added and law[ranks(row)[0]] > 0


def in_proportion(row: Row, law: Row, power: int = 1) -> bool:
    """Say whether what is kept has the ratios of the row, raised to a power."""
    kept = [x for x in range(len(row)) if law[x] > 0]
    return all(law[x] * row[y] ** power == law[y] * row[x] ** power for x in kept for y in kept)


def keeps_top_k(row: Row, law: Row, k: int) -> bool:
    """Say whether the first k by probability are kept, and nothing else."""
    return {x for x in range(len(row)) if law[x] > 0} == {x for x in ranks(row)[:k] if row[x] > 0}


def keeps_top_p(row: Row, law: Row, mass: Fraction) -> bool:
    """Say whether the kept tokens, the likeliest ones, have the mass, and without the last of them have not."""
    kept = [x for x in ranks(row) if law[x] > 0]
    enough = sum(row[x] for x in kept) >= mass > sum(row[x] for x in kept[:-1])
    return enough and keeps_top_k(row, law, len(kept))


def keeps_min_p(row: Row, law: Row, share: Fraction) -> bool:
    """Say whether a token is kept exactly if it has that share of the largest probability."""
    return all((law[x] > 0) == (row[x] > 0 and row[x] >= share * max(row)) for x in range(len(row)))


@reproducible
@given(distributions(4), sampling_parameters(4))
def test_a_filtered_law_is_a_law_within_the_support(row: Row, given: SamplingParameters) -> None:
    """A filtered row sums to 1 and has no token that the row has not; the likeliest token is always kept."""
    assert is_filtered(row, given.law(row))


@reproducible
@given(distributions(4), st.integers(1, 4))
def test_top_k_keeps_the_k_likeliest_in_proportion(row: Row, k: int) -> None:
    """What is kept are the first k by probability, ties by id, and ratios among them stay."""
    law = SamplingParameters(top_k=k).law(row)
    assert keeps_top_k(row, law, k)
    assert in_proportion(row, law)


@reproducible
@given(distributions(4), st.integers(1, 10))
def test_top_p_keeps_the_fewest_likeliest_with_that_mass(row: Row, tenths: int) -> None:
    """The kept tokens have at least the mass asked for, and without the least likely of them they would not."""
    law = SamplingParameters(top_p=Fraction(tenths, 10)).law(row)
    assert keeps_top_p(row, law, Fraction(tenths, 10))
    assert in_proportion(row, law)


@reproducible
@given(distributions(4), st.integers(0, 10))
def test_min_p_keeps_what_is_not_much_less_likely_than_the_likeliest(row: Row, tenths: int) -> None:
    """A token is kept exactly if its probability is at least that share of the largest."""
    law = SamplingParameters(min_p=Fraction(tenths, 10)).law(row)
    assert keeps_min_p(row, law, Fraction(tenths, 10))
    assert in_proportion(row, law)


@reproducible
@given(distributions(4), st.integers(1, 4))
def test_a_temperature_is_a_power(row: Row, power: int) -> None:
    """At T = 1/n nothing is dropped, and ratios are n-th powers: p(x)^n / p(y)^n."""
    law = SamplingParameters(temperature=Fraction(1, power)).law(row)
    assert in_proportion(row, law, power)
    assert keeps_top_k(row, law, 4)


def test_wrong_filters_break_the_laws() -> None:
    """Each law refuses its usual mistake: no renormalising, all ties kept, one too few, an absolute min-p, T twice."""
    row, tied = tuple(Fraction(x, 10) for x in (5, 3, 2, 0)), tuple(Fraction(x, 10) for x in (4, 2, 2, 2))
    masked = (row[0], row[1], Fraction(0), Fraction(0))
    one, cold = (Fraction(1), *[Fraction(0)] * 3), SamplingParameters(temperature=Fraction(1, 4)).law(row)
    assert not is_filtered(row, masked)
    assert not keeps_top_k(tied, tied, 2)
    assert not keeps_top_p(row, one, Fraction(8, 10))
    assert not keeps_top_p(row, row, Fraction(8, 10))
    assert not keeps_min_p(row, one, Fraction(4, 10))
    assert not in_proportion(row, cold, 2)


@reproducible
@given(distributions(4))
def test_greedy_is_the_limit_of_low_temperatures(row: Row) -> None:
    """As T goes to 0 the argmax has all the mass but V (p2/p1)^(1/T) at most, p1 and p2 being the two largest."""
    assert tends_to_greedy(row, lambda power: SamplingParameters(temperature=Fraction(1, power)).law(row))


def test_an_ignored_temperature_does_not_tend_to_greedy() -> None:
    """A sampler that ignores the temperature (L01b), or applies its inverse (L02b), stays far from the argmax."""
    row = (Fraction(3, 5), Fraction(2, 5))
    assert not tends_to_greedy(row, lambda power: row)  # noqa: ARG005 - that is the fault
    assert not tends_to_greedy(row, lambda power: SamplingParameters(temperature=Fraction(1, power)).law(row)[::-1])


@pytest.mark.parametrize("fault", ["Q02a", "Q02b", "Q02c"])
def test_a_claim_that_is_not_the_law_drawn_is_seen(fault: str, witnesses: list[Case]) -> None:
    """Drafts from the top two scored by the raw row, by the unnormalised one, or the other way round, are lossy."""
    assert not all(_drafted_lossless(CATALOGUE[fault].edit, case) for case in witnesses)
    assert all(_drafted_lossless(Edit(), case) for case in witnesses)


def _drafted_lossless(edit: Edit | BlockEdit, case: Case) -> bool:
    law = edited_law(edit, case.target_row, case.draft_row, case.num_draft_tokens)
    return follows(law, case.target_row, case.num_draft_tokens + 1)


def several_targets(accepting: SamplingParameters, replacing: SamplingParameters, bonus: SamplingParameters) -> Rule:
    """Return the token rule with target rows of their own for the acceptance test, the replacement and the bonus."""

    def rule(
        tape: Tape, draft_tokens: Sequence[int], draft_probs: Sequence[Any], target_probs: Sequence[Any]
    ) -> tuple[int, int | None]:
        for i, x in enumerate(draft_tokens):
            p, q = target_probs[i], draft_probs[i]
            if not flip(tape, ("accept", i), acceptance(accepting.law(p)[x], q[x])):
                return i, choose(tape, ("final",), residual(replacing.law(p), q))
        return len(draft_tokens), choose(tape, ("final",), bonus.law(target_probs[len(draft_tokens)]))

    return rule


@pytest.mark.parametrize(
    "filters",
    [(SamplingParameters(), TOP_TWO, TOP_TWO), (TOP_TWO, TOP_TWO, SamplingParameters()), (TOP_TWO, TOP_TWO, COLD)],
    ids=["raw-acceptance-L11b", "raw-bonus-L11c", "cold-bonus-L11a"],
)
def test_two_targets_in_one_round_are_seen(filters: tuple[SamplingParameters, ...], witnesses: list[Case]) -> None:
    """With one p for the acceptance test, or the bonus, and another p elsewhere, the filtered target is missed."""
    assert all(_exact_for_top_two(several_targets(TOP_TWO, TOP_TWO, TOP_TWO), case) for case in witnesses)
    assert not all(_exact_for_top_two(several_targets(*filters), case) for case in witnesses)


def _exact_for_top_two(rule: Rule, case: Case) -> bool:
    law = outcome_law(rule, case.target_row, case.draft_row, case.num_draft_tokens)
    return follows(law, TOP_TWO.of(case.target_row), case.num_draft_tokens + 1)

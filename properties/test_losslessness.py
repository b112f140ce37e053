"""Losslessness: a round, continued by the target, has the target's joint law, whatever the draft is.

This is the strong notion, the one that lets rounds be chained; the law of the first token alone is weaker.
"""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings

from specverify.cases import Case
from specverify.faults import CATALOGUE
from specverify.properties import conditional_tables, reproducible
from specverify.reference import (
    RULES,
    Model,
    Rule,
    completed_law,
    outcome_law,
    round_law,
    target_law,
)

SHOWN = [fault for fault in CATALOGUE.values() if fault.has_law and not fault.drafts and fault.id != "K18"]
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def is_lossless(rule: Rule, target: Model, draft: Model, num_draft_tokens: int, *, length: int | None = None) -> bool:
    """Say whether the first tokens of the completed round, all of them or so many, follow the target exactly."""
    size = num_draft_tokens + 1 if length is None else length
    outcomes = outcome_law(rule, target, draft, num_draft_tokens)
    return completed_law(outcomes, target, size) == target_law(target, size)


def lossless_on(rule: Rule, case: Case, *, length: int | None = None) -> bool:
    """Say the same on a case."""
    return is_lossless(rule, case.target_row, case.draft_row, case.num_draft_tokens, length=length)


def likeliest(model: Model) -> Model:
    """Return the greedy limit of a model: all mass on its likeliest token, ties going to the lower id."""

    def row(prefix: tuple[int, ...]) -> Sequence[Fraction]:
        probs = list(model(prefix))
        return [Fraction(x == probs.index(max(probs))) for x in range(len(probs))]

    return row


@every_rule
@settings(reproducible, max_examples=300)  # the subtlest known fault, K27e, took up to 306 tables, 44 in the median
@given(case=conditional_tables())
def test_the_completed_round_follows_the_target(rule: Rule, case: Case) -> None:
    """P(the first gamma + 1 tokens are x) is the product of p(x_i | x^{i-1}), zeros included."""
    assert lossless_on(rule, case)


@every_rule
@reproducible
@given(case=conditional_tables())
def test_a_greedy_target_emits_its_own_continuation(rule: Rule, case: Case) -> None:
    """Where every target row is one-hot, whatever is emitted is the beginning of the one greedy continuation."""
    greedy = likeliest(case.target_row)
    (expected,) = target_law(greedy, case.num_draft_tokens + 1)
    emitted = round_law(outcome_law(rule, greedy, case.draft_row, case.num_draft_tokens))
    assert all(tokens == expected[: len(tokens)] for tokens in emitted)
    assert sum(emitted.values()) == 1


@every_rule
@reproducible
@given(case=conditional_tables())
def test_a_deterministic_draft_is_harmless(rule: Rule, case: Case) -> None:
    """Where every draft row is one-hot, as with n-grams or prompt lookup, the round still follows the target."""
    assert is_lossless(rule, case.target_row, likeliest(case.draft_row), case.num_draft_tokens)


@pytest.mark.parametrize(
    "rule",
    [fault.rule for fault in SHOWN],
    ids=[fault.id for fault in SHOWN],
)
def test_every_known_fault_is_lossy(rule: Rule, witnesses: list[Case]) -> None:
    """Each catalogued fault of a verifier shows on a built-in table, but for a lost tail, which needs a longer one."""
    assert not all(lossless_on(rule, case) for case in witnesses)


@pytest.mark.parametrize("rule", [CATALOGUE["K15"].rule, CATALOGUE["K31"].rule], ids=["K15", "K31"])
def test_the_first_token_does_not_show_every_fault(rule: Rule, witnesses: list[Case]) -> None:
    """One coin for all positions, or a bonus from the draft, keeps the law of the first token: only the joint tells."""
    assert all(lossless_on(rule, case, length=1) for case in witnesses)


def test_the_witnesses_are_lossless_under_every_rule(witnesses: list[Case]) -> None:
    """What the faults break on the built-in tables, no rule does."""
    assert all(lossless_on(rule, case) for rule, case in [(r, c) for r in RULES.values() for c in witnesses])
    assert len({case.name for case in witnesses}) == len(witnesses) > 10

"""The rows of every case are fixed before the run, by the profile, V and the sampler's largest batch alone."""

from itertools import pairwise
from typing import Any

import pytest

from specverify.contract import Verifier
from specverify.errors import ConfigError
from specverify.menu import menu
from specverify.schedule import (
    HEADLINES,
    LOOKS,
    MAX_BATCH,
    MAX_ELEMENTS,
    PROFILES,
    SIZES,
    SMALL_CALLS,
    TELLING,
    Planned,
    look_fractions,
    schedule,
)
from specverify.tolerance import allowance

NAMES = {case.name for case in menu()}
RAGGED = {case.name for case in menu() if case.ragged}


def sampler(*asks: str, **options: Any) -> Verifier:
    """Make a verifier that asks for these parameters besides the drafts."""
    return Verifier(print, "stub", frozenset({"draft_tokens", *asks}), **options)


def planned(verifier: Verifier, profile: str = "quick", samples: int | None = None) -> dict[str, Planned]:
    """Give the schedule of the menu by case name, without the witness table in small calls."""
    return {plan.case.name: plan for plan in schedule(verifier, profile, samples) if plan.case.name in NAMES}


def shown(plan: Planned) -> tuple[str, int, int]:
    """Give what tells two plans apart."""
    return plan.case.name, plan.rows, plan.batch


@pytest.mark.parametrize(("max_batch", "sizes"), [(None, {1, 5}), (8, {1, 5}), (5, {1}), (2, {1}), (1, set())])
def test_the_witness_table_runs_in_small_calls_too(max_batch: int | None, sizes: set[int]) -> None:
    """Calls of one row and of five are planned apart, where the sampler takes more than that."""
    plans = [plan for plan in schedule(sampler(max_batch=max_batch), "quick") if plan.case.name not in NAMES]
    assert {plan.batch for plan in plans} == sizes
    assert all(plan.rows == plan.batch * PROFILES["quick"].calls for plan in plans)
    assert all(plan.case.target is menu()[[c.name for c in menu()].index("W402")].target for plan in plans)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_options_give_the_same_plan(profile: str) -> None:
    """Nothing but the arguments decides, in the order of the menu."""
    one, other = (schedule(sampler("num_draft_tokens"), profile) for _ in range(2))
    assert list(map(shown, one)) == list(map(shown, other))
    assert [plan.case.name for plan in one] == [
        *(case.name for case in menu()),
        *(f"W402-calls-of-{batch}" for batch in SMALL_CALLS),
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_batched_samplers_get_the_rows_of_the_profile(profile: str) -> None:
    """One headline case per size class gets its larger number, every other case that of its class."""
    plans = planned(sampler(), profile)
    counts = PROFILES[profile]
    assert {plan.size_class: name for name, plan in plans.items() if plan.headline} == dict(HEADLINES)
    for plan in plans.values():
        rows = (counts.headline if plan.headline else counts.others)[plan.size_class]
        assert plan.rows == rows
        assert plan.case.vocab_size <= SIZES[plan.size_class]


def test_larger_profiles_get_more_rows() -> None:
    """Every case has more rows in ci than in quick, and more in release; the target shrinks."""
    quick, ci, release = (planned(sampler(), profile) for profile in PROFILES)
    assert all(quick[name].rows < ci[name].rows < release[name].rows for name in quick)
    assert PROFILES["quick"].target_tv > PROFILES["ci"].target_tv > PROFILES["release"].target_tv


def test_headline_and_telling_cases_are_on_the_menu() -> None:
    """The names in the schedule are those of cases."""
    assert set(HEADLINES.values()) | set(TELLING) <= NAMES
    assert set(HEADLINES) == set(SIZES)


def test_ragged_cases_are_for_samplers_that_ask_for_lengths() -> None:
    """A sampler that does not ask for num_draft_tokens never sees rows of other lengths."""
    assert set(planned(sampler())) == NAMES - RAGGED
    assert set(planned(sampler("num_draft_tokens"))) == NAMES
    assert set(planned(sampler(max_batch=1))) == set(TELLING) - RAGGED
    assert set(planned(sampler("num_draft_tokens", max_batch=1))) == set(TELLING)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("max_batch", [1, 2, 7])
def test_samplers_of_few_rows_get_few_telling_cases(profile: str, max_batch: int) -> None:
    """Each of these cases gets at most the profile's number of calls."""
    plans = planned(sampler(max_batch=max_batch), profile)
    assert set(plans) == set(TELLING) - RAGGED
    for plan in plans.values():
        assert plan.batch == max_batch
        assert plan.rows <= PROFILES[profile].calls * max_batch


def test_eight_rows_a_call_are_enough_for_every_case() -> None:
    """From there on all cases run, still within the number of calls."""
    plans = planned(sampler(max_batch=8))
    assert set(plans) == NAMES - RAGGED
    assert plans["W402"].rows == 8 * PROFILES["quick"].calls


@pytest.mark.parametrize("max_batch", [None, 1, 100])
def test_samples_replace_the_rows_of_the_profile(max_batch: int | None) -> None:
    """Every case gets just that many rows, whatever the batch."""
    plans = planned(sampler(max_batch=max_batch), "release", 777)
    assert {plan.rows for plan in plans.values()} == {777}


def test_calls_stay_within_memory() -> None:
    """No call hands over more probabilities than the limit, nor more rows than the largest batch."""
    for plan in planned(sampler()).values():
        per_row = (2 * plan.case.num_draft_tokens + 1) * plan.case.vocab_size
        assert 1 <= plan.batch <= MAX_BATCH
        assert plan.batch == 1 or plan.batch * per_row <= MAX_ELEMENTS
    assert planned(sampler(max_batch=64))["AB"].batch == 64
    assert planned(sampler())["AB"].batch == MAX_BATCH


def test_nothing_is_sampled_beyond_what_the_tolerance_forgives() -> None:
    """Rows end where the allowed error of the tolerance class would itself be seen."""
    plans = planned(sampler(tolerance="bf16-probs", dtype="bfloat16"), "release")
    for plan in plans.values():
        assert plan.rows <= 1 / (4 * allowance("bf16-probs", plan.case.vocab_size) ** 2)
    assert plans["W402"].rows == int(1 / (4 * 7.3e-4**2))


@pytest.mark.parametrize("samples", [None, 1, 1000])
def test_rows_grow_from_look_to_look_and_end_at_the_plan(samples: int | None) -> None:
    """Rows due never shrink, and the last look has them all, in every size class."""
    for plan in schedule(sampler("num_draft_tokens"), "quick", samples):
        due = [plan.rows_at(look) for look in range(LOOKS)]
        assert due == sorted(due)
        assert due[0] >= 1
        assert due[-1] == plan.rows


def test_small_vocabularies_run_ahead() -> None:
    """At the same look, tiny and small cases are 16 times as far as large ones, middle ones 4 times."""
    plans = planned(sampler())
    far = {name: plans[case].rows_at(2) / plans[case].rows for name, case in HEADLINES.items()}
    assert far["tiny"] / far["large"] == pytest.approx(16, rel=0.01)
    assert far["middle"] / far["large"] == pytest.approx(4, rel=0.01)


def test_looks_grow_by_a_fixed_factor() -> None:
    """Twelve looks, each 1.6 times as far as the one before, up to the end."""
    fractions = look_fractions()
    assert len(fractions) == LOOKS == 12
    assert fractions[-1] == 1
    assert all(b / a == pytest.approx(1.6) for a, b in pairwise(fractions))


@pytest.mark.parametrize("profile", ["fast", "Quick ", None, 3, ["quick"]])
def test_an_unknown_profile_is_refused(profile: Any) -> None:
    """In one line, with the names on offer."""
    with pytest.raises(ConfigError, match=r"^expected a profile of quick, ci, release, got .*$"):
        schedule(sampler(), profile)


@pytest.mark.parametrize("samples", [0, -5, 1.5, True, "9"])
def test_samples_must_be_a_positive_integer(samples: Any) -> None:
    """Anything else is refused in one line."""
    with pytest.raises(ConfigError, match=r"^expected samples to be an integer of at least 1, got .*$"):
        schedule(sampler(), "quick", samples)

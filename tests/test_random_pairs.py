"""Random pairs pass for every correct sampler, and a faulty one is shown by a small case that its exact laws give."""

import os
import re
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import just
from samplers import CONTROLS, token_sampler

import specverify
from specverify.cases import Case
from specverify.contract import Verifier, verifier
from specverify.errors import ConfigError
from specverify.faults import CATALOGUE
from specverify.random_pairs import RandomPairs, check_random_pairs, random_cases
from specverify.registry import load
from specverify.reports import Report
from specverify.shrinking import POWER, power, shrink

SAMPLES = 20_000
V2, V3 = (2, 1), (3, 1)
SMALLEST = {
    "K02": V2,
    "K03a": V2,
    "K04": V3,
    "K05": V3,
    "K07": V2,
    "K11b": V2,
    "K12": V3,
    "K14": V2,
    "Q01": V2,
    "K15": (2, 2),
    "K31": V2,
    "K27c": (2, 2),
}
"""Tokens and drafted tokens of the smallest case that can show a fault: one residual cell hides K04, K05 and K12, and
one drafted token hides K15 and K27c."""


def rows_of(case: Case) -> dict[str, list[str]]:
    """Return the first rows of a case as text."""
    return {"p": [str(x) for x in case.target_row(())], "q": [str(x) for x in case.draft_row(())]}


@pytest.fixture(scope="module")
def naive() -> RandomPairs:
    """Try the naive redraw on random pairs."""
    return check_random_pairs(load("naive-redraw"), target="naive-redraw")


@pytest.mark.parametrize("name", CONTROLS)
def test_a_correct_sampler_passes(name: str) -> None:
    """A control, unusual or not, fails on no random pair; false alarms at 1e-10 whatever the seed."""
    found = check_random_pairs(CONTROLS[name], pairs=4, samples=1000, alpha=1e-10)
    assert (found.verdict, found.pairs, found.samples, found.case) == ("conformant", 4, 1000, None)
    assert found.detectable_tv is not None
    assert 0.1 < found.detectable_tv < 0.4
    assert f"{found.detectable_tv:.2g} or more in its output" in found.message, "a pass says what it is worth"


def test_a_sampler_of_one_row_per_call_gets_few_rows() -> None:
    """Rows are bounded by calls, and the message states the larger error that may have been missed."""
    found = check_random_pairs(CONTROLS["lists"], pairs=2, alpha=1e-10)
    assert (found.verdict, found.samples) == ("conformant", 400)
    assert found.detectable_tv is not None
    assert found.detectable_tv > 0.15
    assert "a smaller one may have been missed" in found.message


@pytest.mark.parametrize("fault", SMALLEST)
def test_a_fault_is_shown_by_a_small_case(fault: str) -> None:
    """A sampler with a known fault fails, is named, and is shown on at most three tokens and two drafted tokens.

    All is evidence beyond 1e-20 on some of the pairs, so that the miss rate of any seed is far below 1e-9.
    """
    found = check_random_pairs(load(f"fault:{fault}"), target=f"fault:{fault}", pairs=20)
    assert (found.verdict, found.fault) == ("nonconformant", fault)
    assert found.case is not None
    assert (found.case.vocab_size, found.case.num_draft_tokens, found.case.exact) == (*SMALLEST[fault], True)
    assert power(fault, found.case, load(f"fault:{fault}"), samples=SAMPLES) >= POWER
    assert found.report is not None
    example = found.report.document["counterexample"]
    assert example["observed"] != example["expected"]
    assert found.message.startswith(f"fault:{fault}: a random pair of target and draft fails")


def test_the_naive_redraw_is_shown_by_the_two_token_example(naive: RandomPairs) -> None:
    """The counterexample is the simplest pair there is, with observed numbers next to the exact ones."""
    assert naive.case is not None
    assert rows_of(naive.case) == {"p": ["3/5", "2/5"], "q": ["4/5", "1/5"]}
    assert not naive.case.contextual
    assert naive.report is not None
    example = naive.report.document["counterexample"]
    assert example["expected"]["first token"] == pytest.approx({"token 0": 0.6, "token 1": 0.4})
    assert example["observed"]["first token"]["token 0"] == pytest.approx(
        0.72, abs=0.08
    )  # 25 standard deviations of 20,000 rows
    assert "redraws from the target" in naive.message


def test_the_line_reproduces_the_counts(naive: RandomPairs) -> None:
    """What follows "Reproduce:" is one line of Python that shows the same numbers again."""
    line = re.search(r"Reproduce: import specverify.registry; print\((.*)\)$", naive.message, re.MULTILINE)
    assert line is not None
    again = eval(line[1], {"specverify": specverify})
    assert naive.report is not None
    for part in ("observed", "expected"):
        assert again.document["counterexample"][part] == naive.report.document["counterexample"][part]


def test_an_unknown_fault_is_not_shrunk() -> None:
    """Where no known fault fits, the pair is shown as found, and the message says why."""
    sampler = token_sampler("lenient", accept=lambda p, q: np.minimum(1.0, 1.4 * p / np.maximum(q, 1e-300)))
    found = check_random_pairs(sampler)
    assert (found.verdict, found.fault) == ("nonconformant", None)
    assert "No known fault fits" in " ".join(found.message.split())
    assert found.case is not None
    assert found.case.name.startswith("pair ")
    assert "cases=[specverify.Case.from_" in found.message


def test_what_is_no_law_is_not_shrunk() -> None:
    """A fault of replay has no law of its own; the message says so."""
    fault = next(f.id for f in CATALOGUE.values() if f.shows == "replay" and f.runnable)
    found = check_random_pairs(load(f"fault:{fault}"), pairs=3, samples=2000)
    assert found.verdict == "nonconformant"
    assert "does not show in the law of a row" in " ".join(found.message.split())


def test_a_sampler_that_raises_is_reproduced() -> None:
    """Where a call fails no law is shown, and yet the message has the traceback and the line that runs the pair."""

    @verifier(name="raising")
    def raising(draft_tokens: Any) -> Any:
        raise ValueError(f"no kernel for {draft_tokens.shape}")

    found = check_random_pairs(raising, pairs=2, samples=100)
    assert found.verdict == "nonconformant"
    assert "no kernel for (" in found.message
    assert re.search(
        r"^  Reproduce: specverify.check\(raising, cases=\[specverify.Case.from_", found.message, re.MULTILINE
    )


def test_a_sampler_of_trees_is_not_judged() -> None:
    """A verifier of trees takes no pairs: it is told so, and is not called conformant."""
    found = check_random_pairs(load("reference-rrs"))
    assert (found.verdict, found.pairs) == ("not_applicable", 0)
    assert "verifies trees" in str(found)


def test_a_sampler_that_emits_nothing_is_not_called_conformant() -> None:
    """Where nothing of the sampler's was tested, the answer is inconclusive."""

    @verifier
    def silent(draft_tokens: Any) -> tuple[Any, Any]:
        return np.zeros(len(draft_tokens), dtype=int), np.full(len(draft_tokens), -1)

    found = check_random_pairs(silent, pairs=3, samples=500)
    assert (found.verdict, found.detectable_tv) == ("inconclusive", None)
    assert "no token was emitted" in found.message
    assert "would have been caught" not in found.message


def test_a_failure_that_does_not_come_again_is_inconclusive() -> None:
    """A sampler that is wrong in its first calls alone fails once, which is neither a proof nor a pass.

    What would have been caught is stated for the other pairs, which passed.
    """
    calls: list[int] = []
    lenient = token_sampler(accept=lambda p, q: np.minimum(1.0, 1.4 * p / np.maximum(q, 1e-300)))

    @verifier(rule="token", readonly=True)
    def warming_up(draft_tokens: Any, draft_probs: Any, target_probs: Any) -> Any:
        calls.append(len(draft_tokens))
        of_now = lenient if sum(calls) < 15_000 else token_sampler()
        return of_now.function(draft_tokens, draft_probs, target_probs, np.random.randint(2**31))  # noqa: NPY002

    found = check_random_pairs(warming_up, pairs=4, alpha=1e-10)
    assert (found.verdict, found.detectable_tv) == ("inconclusive", None)
    assert "INCONCLUSIVE, pair 1 failed, and did not fail again on 4 times as many fresh samples; an " in found.message
    assert "on any one of the other 3 would have been caught" in found.message


def once(event: str) -> Verifier:
    """Make a sampler that is correct but for one row, on the first pair with a token of probability zero."""
    done: list[int] = []

    @verifier(name="once", rule="token", readonly=True)
    def sampler(draft_tokens: Any, draft_probs: Any, target_probs: Any) -> Any:
        drawn = token_sampler().function(draft_tokens, draft_probs, target_probs, np.random.randint(2**31))  # noqa: NPY002
        accepted, following = map(np.array, drawn)
        rows, absent = np.nonzero(target_probs[:, 0] == 0)
        if not done and len(rows) and target_probs.shape[2] == 3 and event:
            done.append(rows[0])
            accepted[rows[0]], following[rows[0]] = 0, absent[0] if event == "impossible" else target_probs.shape[2]
        return accepted, following

    return sampler


@pytest.mark.parametrize(
    ("event", "told"),
    [("impossible", "a token that the target cannot give was emitted"), ("outside", "SV-STR-001"), ("", "none failed")],
)
def test_what_never_happens_needs_no_confirmation(event: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One token of probability zero, or one outside the vocabulary, is proof; the line is that of the run shown."""
    cases = [
        Case.from_rows("pair 1", ["1/2", "1/2"], ["3/4", "1/4"], num_draft_tokens=1),
        Case.from_rows("pair 2", ["1/2", "1/2", 0], ["1/3", "1/3", "1/3"], num_draft_tokens=1),
    ]
    monkeypatch.setattr("specverify.random_pairs.random_cases", lambda *_, **__: cases)
    found = check_random_pairs(once(event), samples=2000, alpha=1e-10)
    text = " ".join(found.message.split())
    assert told in text
    if event:
        assert found.verdict == "nonconformant"
        assert "by what a correct sampler never does, which needs no confirmation" in text
        assert re.search(r"Reproduce: specverify.check\(once, cases=\[.*_rows\('pair 2', .* samples=2000\)$", text)
    else:
        assert found.verdict == "conformant"


def test_cases_follow_the_seed() -> None:
    """The same seed draws the same cases, another seed others; all are different and named in turn."""
    drawn, same, others = (random_cases(20, seed=seed) for seed in (1, 1, 2))
    texts = [case.description for case in drawn]
    assert texts == [case.description for case in same] != [case.description for case in others]
    assert len(set(texts)) == 20
    assert [case.name for case in drawn] == [f"pair {number}" for number in range(1, 21)]
    assert {case.vocab_size for case in drawn} >= {2, 4}
    assert any(case.num_draft_tokens == 2 for case in drawn)


def test_a_pair_has_its_share_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs share one half of alpha, and confirmations the other: each run gets alpha / (2 pairs)."""
    levels: list[float] = []
    check = specverify.check

    def recorded(*args: Any, **options: Any) -> Any:
        levels.append(options["alpha"])
        return check(*args, **options)

    monkeypatch.setattr("specverify.random_pairs.check", recorded)
    check_random_pairs(load("reference"), pairs=5, samples=500, alpha=1e-3)
    assert levels == [1e-4] * 5


def test_shrinking_is_the_same_each_time() -> None:
    """The search among exact laws has no randomness of its own."""
    first, second = (shrink("K02", load("reference"), samples=SAMPLES) for _ in range(2))
    assert first is not None
    assert second is not None
    assert rows_of(first) == rows_of(second)
    assert first.target_row(()) != first.draft_row(())


def test_a_fault_that_no_small_case_shows_is_not_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lost tail needs thousands of tokens, and a shared draft coin a sampler that drafts."""
    monkeypatch.setattr("specverify.shrinking.SIZES", ((2, 1), (3, 1)))
    assert shrink("K18", load("reference"), samples=SAMPLES) is None
    assert shrink("K14", load("reference"), samples=SAMPLES) is None
    two_tokens = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
    assert power("K14", two_tokens, load("fault:K14"), samples=SAMPLES) > POWER
    assert power("K14", two_tokens, load("reference"), samples=SAMPLES) == 0


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, np.True_, "3", None, [], 1001, 10**12])
def test_a_wrong_number_of_pairs_is_refused(wrong: Any) -> None:
    """One line says what was expected."""
    with pytest.raises(ConfigError, match=r"^expected pairs to be an integer from 1 to 1000, got [^\n]+$"):
        check_random_pairs(load("reference"), pairs=wrong)
    with pytest.raises(ConfigError, match=r"^expected count to be an integer from 1 to 1000, got [^\n]+$"):
        random_cases(wrong)


@pytest.mark.parametrize("wrong", [-1, 2.5, True, "3", None, 2**63])
def test_a_wrong_seed_of_cases_is_refused(wrong: Any) -> None:
    """A seed is what it is for a check."""
    with pytest.raises(ConfigError, match=rf"^expected seed to be an integer from 0 to {2**63 - 1}, got [^\n]+$"):
        random_cases(1, seed=wrong)


def test_the_largest_numbers_are_taken() -> None:
    """What lies at a limit is not refused: a sampler that takes no pairs gets as far as saying so."""
    largest: dict[str, Any] = {"pairs": 1000, "samples": 250_000_000, "seed": 2**63 - 1, "alpha": 3e-297}
    assert check_random_pairs(load("reference-rrs"), **largest).verdict == "not_applicable"


def test_integers_of_numpy_are_numbers() -> None:
    """An integer of NumPy means what the same int means."""
    count: Any = np.int64(3)
    drawn, same = random_cases(3, seed=3), random_cases(count, seed=count)
    assert [case.description for case in drawn] == [case.description for case in same]
    options: dict[str, Any] = {"pairs": np.int64(2), "samples": np.int32(500), "seed": np.uint8(1)}
    found = check_random_pairs(load("reference"), **options, alpha=1e-10)
    assert (found.verdict, found.pairs, found.samples) == ("conformant", 2, 500)


def test_a_property_test_may_try_random_pairs() -> None:
    """Within a test of Hypothesis, whatever its settings, the same pairs come, and what fails is shrunk."""
    alone = check_random_pairs(load("naive-redraw"), pairs=3, samples=4000)
    seen: list[RandomPairs] = []

    @settings(database=None, deadline=None, max_examples=1)
    @given(just(4000))
    def within(samples: int) -> None:
        seen.append(check_random_pairs(load("naive-redraw"), pairs=3, samples=samples))

    within()
    assert alone.case is not None
    assert alone.case.name == "smallest"
    shown = [(found.fault, found.case.description, rows_of(found.case)) for found in (alone, *seen) if found.case]
    assert shown == [("K02", alone.case.description, rows_of(alone.case))] * 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"alpha": 2}, "expected alpha to be a number between 0 and 1, such as 1e-6, got 2"),
        ({"alpha": 1.0}, "expected alpha to be a number between 0 and 1, such as 1e-6, got 1.0"),
        ({"alpha": "x"}, "expected alpha to be a number between 0 and 1, such as 1e-6, got 'x'"),
        ({"alpha": 6e-299}, "expected alpha to be more than 6e-299 for 30 pairs, got 6e-299; take fewer pairs"),
        ({"samples": 0}, "expected samples to be an integer from 1 to 250000000, got 0"),
        ({"samples": "many"}, "expected samples to be an integer from 1 to 250000000, got 'many'"),
        ({"samples": True}, "expected samples to be an integer from 1 to 250000000, got True"),
        (
            {"samples": 250_000_001},
            "expected samples to be an integer from 1 to 250000000, got 250000001; a pair that fails is confirmed with "
            "4 times as many",
        ),
        ({"seed": -1}, f"expected seed to be an integer from 0 to {2**63 - 1}, got -1"),
        ({"seed": "x"}, f"expected seed to be an integer from 0 to {2**63 - 1}, got 'x'"),
        ({"timeout": 0}, "expected timeout to be a positive number of seconds, got 0"),
        ({"known_failures": {"SV-RES-001": ""}}, "expected a reason for the known failure SV-RES-001, got ''"),
    ],
)
@pytest.mark.parametrize("name", ["reference", "reference-rrs"])
def test_a_wrong_option_is_refused(name: str, options: dict[str, Any], told: str) -> None:
    """The value is named as it was given, before anything runs, and for a sampler that takes no pairs too."""
    with pytest.raises(ConfigError) as caught:
        check_random_pairs(load(name), **options)
    assert str(caught.value).startswith(told)


def test_too_few_rows_are_named() -> None:
    """Where nothing at all would have been seen, that is what the message says, and nothing of a target."""
    found = check_random_pairs(load("reference"), pairs=3, samples=20, alpha=1e-10)
    assert (found.verdict, found.detectable_tv) == ("inconclusive", None)
    assert "20 rows are too few to show any error of the output; take more samples" in found.message
    assert "target of" not in found.message


def test_the_lines_have_what_was_asked_for_alone(naive: RandomPairs) -> None:
    """No line that reproduces has a target of total variation, which has no say in a failure."""
    assert "target_tv" not in naive.message


def test_the_line_of_the_smallest_case_has_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the case that is shown has no counterexample of its own, the line is that of its run, not of another."""
    check = specverify.check

    def unshown(*args: Any, **options: Any) -> Any:
        return Report({**check(*args, **options).document, "counterexample": None})

    monkeypatch.setattr("specverify.random_pairs.check", unshown)
    found = check_random_pairs(load("naive-redraw"), pairs=3, samples=4000)
    assert found.case is not None
    assert found.case.name == "smallest"
    line = re.search(r"^  Reproduce: (.*)$", found.message, re.MULTILINE)
    assert line is not None
    assert line[1].partition("  #")[0].endswith("num_draft_tokens=1)], profile='quick', seed=0, samples=4000)")


BIASED = (
    "SV-RES-001",
    "SV-RES-002",
    "SV-TOK-001",
    "SV-TOK-002",
    "SV-TOK-003",
    "SV-JNT-001",
    "SV-POS-001",
    "SV-SUP-002",
    "SV-RUL-001",
)
"""Checks whose law a redraw from the target changes."""


def test_known_failures_are_left_out() -> None:
    """What is known to fail decides nothing, and no error of the output is said to be caught; all else does decide."""
    naive, known = load("naive-redraw"), dict.fromkeys(BIASED, "redraws")
    found = check_random_pairs(naive, pairs=10, samples=4000, known_failures=known, alpha=1e-10)
    assert (found.verdict, found.detectable_tv) == ("conformant", None)
    assert f"the known failures {', '.join(BIASED)} left out" in found.message
    assert "no error that would have been caught can be stated" in found.message
    found = check_random_pairs(naive, pairs=10, samples=4000, known_failures={"SV-LEN-001": "x"})
    assert found.verdict == "nonconformant"
    found = check_random_pairs(load("fault:K01"), pairs=10, samples=4000, known_failures=known)
    assert found.verdict == "nonconformant", "a fault of the acceptance is not excused"


def test_a_sampler_whose_calls_are_known_to_fail_is_not_judged() -> None:
    """Nothing can be counted of calls that fail, and their failure is no news."""
    found = check_random_pairs(load("reference"), known_failures={"SV-STR-001": "wrong shape"})
    assert (found.verdict, found.pairs) == ("not_applicable", 0)
    assert "known to fail: wrong shape" in str(found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the sampler is a function of this process")
def test_a_sampler_that_hangs_is_nonconformant() -> None:
    """With a timeout a call that does not return is a finding, and the search ends."""

    @verifier(name="hanging")
    def hanging(draft_tokens: Any) -> Any:  # noqa: ARG001 - declared, not read
        time.sleep(600)

    found = check_random_pairs(hanging, pairs=5, samples=100, timeout=0.3)
    assert found.verdict == "nonconformant"
    assert "SV-STR-001" in found.message

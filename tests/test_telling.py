"""What a report says beside its verdict is true: what speaks against the sampler, what was not seen, what was done."""

from typing import Any

import numpy as np
import pytest

from specverify import Case, Report, check, verifier
from specverify.arrays import FloatArray, IntArray
from specverify.checks import CATALOGUE
from specverify.contract import Verifier
from specverify.menu import menu
from specverify.randomness import Uniforms
from specverify.reference import verify_token
from specverify.registry import load
from specverify.suite import Progress

CASES = [case for case in menu() if case.name in ("AB", "T3", "W402")]


@verifier(name="lenient", rule="token", readonly=True)
def lenient(draft_tokens: IntArray, draft_probs: FloatArray, target_probs: FloatArray, uniforms: Uniforms) -> Any:
    """Accept a little too often."""
    return verify_token(draft_tokens, draft_probs, target_probs, uniforms.accept / 1.05, uniforms.final)


@verifier(name="no-bonus", rule="token", readonly=True)
def without_bonus(draft_tokens: IntArray) -> Any:
    """Reject every draft, so that there never is a bonus."""
    return np.zeros(len(draft_tokens), np.int64), np.zeros(len(draft_tokens), np.int64)


def globally_drawing(max_batch: int | None) -> Verifier:
    """Make a sampler that asks for a generator and draws from NumPy's global one."""

    @verifier(name="global", rule="token", max_batch=max_batch)
    def sampler(draft_tokens: Any, draft_probs: Any, target_probs: Any, generator: Any) -> Any:  # noqa: ARG001
        u = np.random.random((len(draft_tokens), draft_tokens.shape[1] + 1))  # noqa: NPY002
        return verify_token(draft_tokens, draft_probs, target_probs, u[:, :-1], u[:, -1])

    return sampler


def message(report: Report, check_id: str) -> str:
    """Return the message of one check."""
    return str(next(entry["message"] for entry in report.checks if entry["id"] == check_id))


def test_a_part_that_most_speaks_against_is_not_called_right() -> None:
    """Acceptance that is 5% too likely is not said to be as due, also where no check fails alone."""
    report = check(lenient, cases=CASES, samples=7000)
    assert report.verdict == "nonconformant"
    for candidate in report.diagnosis:
        right = candidate["message"].partition("as due: ")[2].split(". ")[0]
        assert "acceptance" not in right
        assert "the accepted length" not in right


def test_combined_evidence_names_only_what_it_counts() -> None:
    """The evidence against losslessness does not rest on checks of the declared rule."""
    report = check(lenient, cases=CASES, samples=20_000)
    named = [word.split("@")[0] for word in message(report, "SV-ALL-001").split() if word.startswith("SV-")]
    assert report.lossless is False
    assert {CATALOGUE[name].scope for name in named} <= {"lossless"}


@pytest.mark.parametrize("max_batch", [None, 1])
def test_a_draw_from_the_global_generator_is_the_diagnosis(max_batch: int | None) -> None:
    """Where replay fails for it, this is what it looks like, and no kernel with a missing barrier."""
    report = check(globally_drawing(max_batch), cases=CASES, samples=50)
    assert report.verdict == "nonconformant"
    assert [candidate["fault"] for candidate in report.diagnosis] == [None]
    assert "changed the global generator of numpy" in report.diagnosis[0]["message"]


def test_a_check_that_saw_no_event_has_not_passed() -> None:
    """Without a bonus the check of its law is open."""
    report = check(without_bonus, cases=CASES[:1], samples=200, only=["SV-BON-001"])
    entry = next(entry for entry in report.checks if entry["id"] == "SV-BON-001")
    assert (entry["status"], entry["n"]) == ("inconclusive", 0)


def test_too_few_events_are_told_with_the_number_due() -> None:
    """Whoever reads that too few rows were accepted learns how many a correct sampler shows."""
    report = check(without_bonus, cases=CASES[:1], samples=200, only=["SV-BON-001"])
    assert report.verdict == "inconclusive"
    assert "saw 0 rows of full acceptance, where a correct sampler shows 123" in report.document["warnings"][0]


def test_the_time_limit_holds_in_the_independence_stage() -> None:
    """No case of it is begun after the limit."""
    report = check(load("reference"), samples=100, time_limit=1e-9)
    assert report.verdict == "inconclusive"
    assert report.document["timing"]["rows"] == 0


def test_progress_is_told_from_the_first_case_on() -> None:
    """The independence stage, which takes longest for slow samplers, is told like all else."""
    told: list[Progress] = []
    check(load("reference"), samples=100, only=["SV-IND-001"], progress=told.append)
    assert [progress.rows_done for progress in told] == sorted({progress.rows_done for progress in told})
    assert told[0].rows_done < told[-1].rows_done == told[-1].rows_planned


def test_a_violation_is_told_with_the_rows_of_its_case() -> None:
    """The number of rows beside a case is that of the case."""
    case = Case.from_rows("sup", [1, 0], ["1/2", "1/2"], num_draft_tokens=1)
    report = check(load("fault:K01"), cases=[case, CASES[1]], samples=500, stop_early=False)
    entry = next(entry for entry in report.checks if entry["id"] == "SV-SUP-001")
    assert (entry["worst_case"], entry["n"]) == ("sup", 500)


@pytest.mark.parametrize("seed", [6, 8])
def test_a_single_event_that_only_one_fault_explains_names_it(seed: int) -> None:
    """One token of no weight in 60,000 rows is no law that is off, and yet only one known fault gives such tokens."""
    zeros = [case for case in menu() if case.name == "zeros"]
    report = check(load("fault:K21"), cases=zeros, samples=60_000, seed=seed)
    assert report.verdict == "nonconformant"
    assert [candidate["fault"] for candidate in report.diagnosis] == ["K21"]


def test_calls_are_counted_as_they_are_made() -> None:
    """Where the first call of every case raises, one call a case was made, however many were planned."""

    @verifier
    def raising(draft_tokens: Any) -> Any:
        raise RuntimeError(len(draft_tokens))

    report = check(raising, cases=CASES, samples=500, only=["SV-TOK-001"])
    assert report.document["timing"]["calls"] == len(CASES)

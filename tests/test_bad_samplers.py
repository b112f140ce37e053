"""Whatever a sampler does wrong is a finding about the sampler: one clear message, never a crash of the kit."""
# ruff: noqa: ARG001, ARG005 - a stub sampler is declared by its parameter names, whether it reads them or not

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samplers import CONTROLS

import specverify
from specverify import Report
from specverify.errors import ContractError

good = CONTROLS["correct"].function


def check(function: Callable[..., Any], **options: Any) -> Report:
    """Check a function on few rows."""
    return specverify.check(specverify.verifier(**options)(function), samples=300, target_tv=0.9, alpha=1e-10)


def entry(report: Report, check_id: str) -> dict[str, Any]:
    """Give the entry of one check."""
    return next(found for found in report.checks if found["id"] == check_id)


def spoiled(change: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    """Make a correct sampler whose result is changed."""

    def sampler(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        stop, following = good(draft_tokens, draft_probs, target_probs, seed)
        return change(stop, following, draft_tokens)

    return sampler


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda stop, following, _: (stop, following.astype(float)), "float"),
        (lambda stop, following, _: (stop, following * np.nan), "NaN"),
        (lambda stop, following, _: (stop[:-1], following[:-1]), "shape"),
        (lambda stop, following, _: (stop, following + 10**6), "token"),
        (lambda stop, following, draft: (stop + draft.shape[1] + 1, following), "accepted"),
        (lambda stop, following, _: (-1 - stop, following), "accepted"),
        (lambda stop, following, _: None, "None"),
        (lambda stop, following, _: "tokens", "str"),
        (lambda stop, following, _: (stop, following, stop), "3"),
        (lambda stop, following, _: {"stop": stop}, "dict"),
        (lambda stop, following, draft: np.full((len(draft), draft.shape[1] + 3), -1), "shape"),
        (lambda stop, following, draft: np.full((len(draft), draft.shape[1] + 1), -2), "-2"),
    ],
)
def test_malformed_output_is_one_message(change: Callable[..., Any], told: str) -> None:
    """A malformed result fails the structure check with the offending row, and the report is written."""
    report = check(spoiled(change))
    structure = entry(report, "SV-STR-001")
    assert (report.verdict, structure["status"]) == ("nonconformant", "failed")
    assert told in structure["message"]
    assert "Traceback" not in report.to_json()


def test_prefix_must_be_the_draft() -> None:
    """Tokens that do not begin with the drafted prefix are a structure fault."""

    def shifted(draft_tokens: Any, target_probs: Any) -> Any:
        vocab = target_probs.shape[2]
        return np.concatenate([(draft_tokens + 1) % vocab, draft_tokens[:, :1] * 0], axis=1)

    assert entry(check(shifted), "SV-STR-001")["status"] == "failed"


def test_exception_is_shown_shortened_and_other_cases_go_on() -> None:
    """A sampler that raises on one case fails with its own frames; the other cases run to the end."""

    def fragile(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        if target_probs.shape[2] == 1000:
            raise ZeroDivisionError("no plateau here")
        return good(draft_tokens, draft_probs, target_probs, seed)

    report = check(fragile)
    structure = entry(report, "SV-STR-001")
    assert structure["status"] == "failed"
    assert "ZeroDivisionError: no plateau here" in structure["message"]
    assert "in fragile" in structure["message"]
    assert "specverify/calling.py" not in structure["message"]
    assert structure["worst_case"] == "plateau-1000"
    assert entry(report, "SV-JNT-001")["n"] == 300


def test_every_case_failing_is_still_a_report() -> None:
    """A sampler that always raises gives a verdict, not a traceback."""

    def broken(draft_tokens: Any) -> Any:
        raise RuntimeError("always")

    report = check(broken)
    assert report.verdict == "nonconformant"
    assert entry(report, "SV-STR-001")["status"] == "failed"
    assert entry(report, "SV-TOK-001")["status"] == "inconclusive"


def test_forbidden_token_is_shown() -> None:
    """A token of target probability 0 is convicted by one occurrence, which is shown."""

    def forbidden(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        stop, following = good(draft_tokens, draft_probs, target_probs, seed)
        zero = target_probs[np.arange(len(stop)), stop] == 0
        following = np.where(zero.any(axis=1) & (np.arange(len(stop)) == 0), zero.argmax(axis=1), following)
        return stop, following

    support = entry(check(forbidden), "SV-SUP-001")
    assert support["status"] == "failed"
    assert "with p = 0" in support["message"]


def test_undeclared_writing_is_a_warning() -> None:
    """A sampler that changes its inputs is warned about unless it says so; the verdict does not depend on it."""

    def writes(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        result = good(draft_tokens, draft_probs, target_probs, seed)
        draft_probs[:] = 0
        return result

    report = check(writes)
    assert any("draft_probs" in warning for warning in report.document["warnings"])
    assert entry(report, "SV-STR-001")["status"] == "passed"
    assert not check(writes, mutates=("draft_probs",)).document["warnings"]


def test_same_result_for_every_seed() -> None:
    """A sampler that ignores its seed and repeats itself is found by replay."""

    def constant(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        return good(draft_tokens, draft_probs, target_probs, 7)

    replay = entry(check(constant), "SV-RPL-001")
    assert replay["status"] == "failed"
    assert "one and the same result" in replay["message"]


def test_other_result_for_the_same_seed() -> None:
    """A sampler that asks for a seed and does not follow it is found by replay, though its law is right."""
    own = np.random.default_rng(3)

    def restless(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        return good(draft_tokens, draft_probs, target_probs, int(own.integers(2**31)))

    report = check(restless)
    assert "two different results" in entry(report, "SV-RPL-001")["message"]
    assert [c["id"] for c in report.checks if c["status"] == "failed"] == ["SV-RPL-001"]


def test_rows_that_need_more_than_their_own_seed() -> None:
    """A sampler that claims per-row seeds but uses the batch is found by moving rows."""

    def batchwise(draft_tokens: Any, draft_probs: Any, target_probs: Any, seeds: Any) -> Any:
        return good(draft_tokens, draft_probs, target_probs, int(seeds[0]))

    def rowwise(draft_tokens: Any, draft_probs: Any, target_probs: Any, seeds: Any) -> Any:
        rows = [
            good(draft_tokens[i : i + 1], draft_probs[i : i + 1], target_probs[i : i + 1], int(seeds[i]))
            for i in range(len(seeds))
        ]
        return np.array([r[0][0] for r in rows]), np.array([r[1][0] for r in rows])

    wrong, right = (
        specverify.check(specverify.verifier(function), only=("SV-RPL-001",)) for function in (batchwise, rowwise)
    )
    assert "row" in entry(wrong, "SV-RPL-001")["message"]
    assert entry(right, "SV-RPL-001")["status"] == "passed"


def test_misspelt_parameter_is_answered_at_once() -> None:
    """An unknown parameter name is refused at the declaration, the nearest name first."""
    with pytest.raises(ContractError, match="draft_probs"):
        specverify.check(lambda draft_tokens, draft_prob: None)


def test_one_sequence_where_rows_were_given_is_hinted() -> None:
    """A sampler that handles one sequence and does not say so is told how to, first of all."""
    report = check(lambda draft_tokens: [[int(draft_tokens[0, 0]) if draft_tokens.size else 0]])
    assert "declares max_batch=1" in entry(report, "SV-STR-001")["message"]
    assert "breaks the contract of a sampler: output structure" in " ".join(str(report).split())


def test_tensors_expected_where_arrays_were_given_is_hinted() -> None:
    """A torch sampler that does not declare its framework is told how to."""
    report = check(lambda draft_tokens, target_probs: target_probs.gather(2, draft_tokens))
    assert "declare framework='torch'" in entry(report, "SV-STR-001")["message"]


def test_numpy_error_state_of_the_caller_does_not_matter() -> None:
    """Whoever has NumPy raise on underflow still gets a report."""
    with np.errstate(all="raise"):
        assert specverify.check(CONTROLS["correct"], samples=300, target_tv=0.9, alpha=1e-10).verdict == "conformant"

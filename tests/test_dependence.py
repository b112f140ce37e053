"""A sampler whose every marginal is right but whose rows or calls share randomness is found, and told how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samplers import CONTROLS, FAULTS, draw

import specverify
from specverify.cases import Case
from specverify.plan import plan
from specverify.registry import load

STAGE = ("SV-IND-001", "SV-IND-002", "SV-IND-003", "SV-RPL-001")
Uniforms = Callable[[np.random.Generator, int, int], Any]


def sampler(uniforms: Uniforms, name: str) -> Any:
    """Make a token verifier that draws all its uniforms, [B, G + 1], by the given function."""

    @specverify.verifier(rule="token", name=name, readonly=True)
    def verify(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        batch, length = draft_tokens.shape
        u = uniforms(np.random.default_rng(seed), batch, length + 1)
        rows = np.arange(batch)
        drafted = rows[:, None], np.arange(length), draft_tokens
        stop = np.cumprod(u[:, :length] * draft_probs[drafted] < target_probs[drafted], axis=1).sum(axis=1)
        target = target_probs[rows, stop]
        if not length:
            return stop, draw(target, u[:, -1])
        rest = np.maximum(target - draft_probs[rows, np.minimum(stop, length - 1)], 0)
        return stop, draw(np.where((stop == length)[:, None], target, rest), u[:, -1])

    return verify


def same_rows(rng: np.random.Generator, batch: int, width: int) -> Any:
    """One stream for all rows."""
    return np.repeat(rng.random((1, width)), batch, axis=0)


def distant_rows(rng: np.random.Generator, batch: int, width: int) -> Any:
    """Row i + 53 repeats row i."""
    return rng.random((min(batch, 53), width))[np.arange(batch) % 53 % batch]


def mirrored_rows(rng: np.random.Generator, batch: int, width: int) -> Any:
    """Odd rows use one minus the uniforms of the row before."""
    u = rng.random((batch, width))
    u[1::2] = 1 - u[: batch - batch % 2 : 2] - 2.0**-53
    return np.clip(u, 0, None)


def stratified_rows(rng: np.random.Generator, batch: int, width: int) -> Any:
    """Each column is spread evenly over [0, 1), in random order."""
    cells = np.stack([rng.permutation(batch) for _ in range(width)], axis=1)
    return (cells + rng.random((batch, width))) / batch


def few_streams(rng: np.random.Generator, batch: int, width: int) -> Any:
    """Thirty-two streams for all seeds."""
    return np.random.default_rng(int(rng.integers(32))).random((batch, width))


@pytest.mark.parametrize(
    ("uniforms", "failing", "told"),
    [
        (same_rows, "SV-IND-001", "rows at distance"),
        (distant_rows, "SV-IND-001", "rows at distance 53 are equal"),
        (mirrored_rows, "SV-IND-001", "rows at distance 1"),
        (stratified_rows, "SV-IND-003", "too evenly"),
        (few_streams, "SV-IND-002", "repeat the tokens of an earlier call"),
    ],
)
def test_shared_randomness_is_found(uniforms: Uniforms, failing: str, told: str) -> None:
    """Sharing is nonconformant, and the message says between what."""
    report = specverify.check(sampler(uniforms, uniforms.__name__), only=STAGE)
    entry = next(found for found in report.checks if found["id"] == failing)
    assert (report.verdict, entry["status"]) == ("nonconformant", "failed")
    assert told in entry["message"]


def test_independent_rows_pass() -> None:
    """The control: independent uniforms give no finding at alpha 1e-10, whatever the seed."""
    report = specverify.check(sampler(lambda rng, b, w: rng.random((b, w)), "independent"), only=STAGE, alpha=1e-10)
    assert [found["id"] for found in report.checks if found["status"] == "failed"] == []


def test_one_row_per_call_has_no_rows_to_compare() -> None:
    """For a sampler of one sequence the row checks are not applicable, and say so."""
    one = specverify.verifier(rule="token", max_batch=1, name="one")(CONTROLS["correct"].function)
    entries = {found["id"]: found for found in specverify.check(one, only=STAGE, alpha=1e-10).checks}
    assert entries["SV-IND-001"]["status"] == entries["SV-IND-003"]["status"] == "not_applicable"
    assert "one row per call" in entries["SV-IND-001"]["reason"]
    assert entries["SV-IND-002"]["status"] == "passed"


def test_stage_cases_are_fair_under_every_rule() -> None:
    """The two cases of the stage give fair bits whatever lossless rule verifies them: their target is uniform."""
    cases: list[Case] = [run.planned.case for run in plan(CONTROLS["correct"], only=STAGE).stage]
    for case in cases:
        row = case.target[0][0]
        assert set(np.unique(row).tolist()) <= {0.0, 1 / np.count_nonzero(row)}


@pytest.mark.parametrize("seed", [30552, 33119])
def test_equal_call_seeds_convict_nobody(seed: int) -> None:
    """Calls of one stage never get the same seed: at these master seeds plain draws would repeat one."""
    report = specverify.check(load("reference"), only=["SV-IND-002"], seed=seed)
    assert next(found for found in report.checks if found["id"] == "SV-IND-002")["status"] == "passed"


def test_a_wrong_law_is_not_called_dependence() -> None:
    """A sampler that accepts everything gives equal rows on the fair coin; that is its law, not dependence."""
    report = specverify.check(FAULTS["K01"], only=STAGE)
    entries = {found["id"]: found for found in report.checks}
    assert entries["SV-IND-001"]["status"] == "inconclusive"
    assert "fail their law" in entries["SV-IND-001"]["reason"]

"""A sampler whose every marginal is right but whose rows or calls share randomness is found, and told how."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samplers import CONTROLS, FAULTS, draw

import specverify
from specverify.cases import Case
from specverify.evidence import gof
from specverify.generating import as_sampler
from specverify.menu import menu
from specverify.plan import plan
from specverify.registry import load
from specverify.running import CaseRun, Unit
from specverify.schedule import Planned

STAGE = ("SV-IND-001", "SV-IND-002", "SV-IND-003", "SV-IND-004", "SV-RPL-001")
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


def two_rows(rng: np.random.Generator, batch: int, width: int) -> Any:
    """Row 300 repeats row 0, where there is one."""
    u = rng.random((batch, width))
    u[300:301] = u[0]
    return u


def shared_coins(rng: np.random.Generator, batch: int, width: int) -> Any:
    """The accept uniforms, and they alone, repeat every 3000 rows."""
    u = rng.random((batch, width))
    u[:, :-1] = u[np.arange(batch) % 3000, :-1]
    return u


def permuted_rows(rng: np.random.Generator, batch: int, width: int) -> Any:
    """The rows come in pairs, by a permutation that is the same in every call."""
    rows = np.random.default_rng(batch).permutation(batch)
    return rng.random((batch, width))[rows[rows // 2]]


def changing_pairs(rng: np.random.Generator, batch: int, width: int) -> Any:
    """Two rows share, others in every call."""
    u = rng.random((batch, width))
    u[rng.integers(batch)] = u[rng.integers(batch)]
    return u


def overlapping_calls(rng: np.random.Generator, batch: int, width: int) -> Any:
    """Every call starts somewhere in one long stream."""
    start = int(rng.integers(2**18))
    return np.random.Generator(np.random.PCG64(5).advance(width * start)).random((batch, width))


@pytest.mark.parametrize(
    ("uniforms", "failing", "told"),
    [
        (same_rows, "SV-IND-001", "rows at distance"),
        (distant_rows, "SV-IND-001", "rows at distance 53 are equal"),
        (mirrored_rows, "SV-IND-001", "rows at distance 1"),
        (stratified_rows, "SV-IND-003", "too evenly"),
        (two_rows, "SV-IND-004", "rows 0 and 300 of every call get the same tokens"),
        (shared_coins, "SV-IND-004", "rows 0 and 3000 of every call get the same tokens; 5192 of 8192 rows repeat"),
        (permuted_rows, "SV-IND-004", "of every call get the same tokens; 32 of 64 rows repeat another"),
        (changing_pairs, "SV-IND-004", "of 4096 rows give the token of an earlier row of their call"),
        (overlapping_calls, "SV-IND-004", "on repeat those of call"),
    ],
)
def test_shared_randomness_is_found(uniforms: Uniforms, failing: str, told: str) -> None:
    """Sharing is nonconformant, and the message says between what."""
    report = specverify.check(sampler(uniforms, uniforms.__name__), only=[failing])
    entry = next(found for found in report.checks if found["id"] == failing)
    assert (report.verdict, entry["status"]) == ("nonconformant", "failed")
    assert told in entry["message"]


@pytest.mark.parametrize(
    ("uniforms", "told"),
    [
        (few_streams, r"repeat each other: about (1[5-9]|[2-9]\d) distinct streams"),
        (distant_rows, "rows 0 and 53 of every call get the same tokens"),
    ],
)
def test_sharing_alone_is_nonconformant_in_a_whole_run(uniforms: Uniforms, told: str) -> None:
    """Rows i and i + 53, or 32 streams over all seeds: the run ends early, and says what is shared."""
    report = specverify.check(sampler(uniforms, uniforms.__name__), profile="ci")
    entry = next(found for found in report.checks if found["id"] == "SV-IND-004")
    assert (report.verdict, entry["status"]) == ("nonconformant", "failed")
    assert re.search(told, entry["message"])


@pytest.mark.parametrize("max_batch", [1, 2, 5])
def test_few_streams_of_few_rows_are_found(max_batch: int) -> None:
    """Where a call gives too little to know it again, it is counted how many calls repeat: 32 streams."""
    made = sampler(few_streams, "few").function
    few = specverify.verifier(rule="token", name="few", readonly=True, max_batch=max_batch)(made)
    report = specverify.check(few, only=["SV-IND-004"])
    entry = next(found for found in report.checks if found["id"] == "SV-IND-004")
    assert (report.verdict, entry["status"]) == ("nonconformant", "failed")
    assert re.search(r"repeat an earlier call, .* about (2[5-9]|3\d) distinct streams", entry["message"])


def shared_positions(first: int, second: int, change: Callable[[Any], Any] = lambda u: u) -> Uniforms:
    """Make uniforms in which one place of every row, of those long enough, is a function of another."""

    def uniforms(rng: np.random.Generator, batch: int, width: int) -> Any:
        u = rng.random((batch, width))
        if width > max(first, second, 1):
            u[:, second] = change(u[:, first])
        return u

    return uniforms


@pytest.mark.parametrize(
    "uniforms",
    [
        shared_positions(0, -1),
        shared_positions(1, -1),
        shared_positions(0, 1, lambda u: 1 - 2.0**-53 - u),
        shared_positions(0, 1, lambda u: (u + 0.5) % 1),
        shared_positions(1, 2),
        shared_positions(0, 3, lambda u: (u + 0.5) % 1),
    ],
    ids=["final=accept0", "final=accept1", "accept1=1-accept0", "accept1=accept0+.5", "accept2=accept1", "accept3"],
)
def test_uniforms_shared_by_positions_change_the_law_of_the_block(uniforms: Uniforms) -> None:
    """No check of its own is needed: the joint law of the completed block shows it, which needs no declared rule."""
    verifier = as_sampler(sampler(uniforms, "positions"))
    p_values = []
    for case in menu():
        if case.name in ("AB4", "C3", "W402"):
            run = CaseRun(Planned(case, "tiny", 60_000, 8192, False), verifier, None, 1e-12, 1, lambda _: True)
            run.seen.add(run.carry_out(Unit(60_000, (0, 0)))[0])
            joint = next(probe for probe in run.probes if probe.check == "SV-JNT-001")
            p_values.append(gof(run.count_of("SV-JNT-001"), joint.probs, rigorous=True).p_value)
    assert min(p_values) < 1e-12


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
    assert entries["SV-IND-002"]["status"] == entries["SV-IND-004"]["status"] == "passed"


def test_stage_cases_are_fair_under_every_rule() -> None:
    """The tokens compared are fair whatever lossless rule verifies them: equally likely, but for a drafted token 0."""
    cases: list[Case] = [run.planned.case for run in plan(CONTROLS["correct"], only=STAGE).stage]
    assert [case.name for case in cases] == ["coin", "flat", "wide", "crowd", "coin-crowd"]
    for case in cases:
        for rows in case.target:
            possible = np.unique(rows[0][1:])
            assert len(possible[possible > 0]) == 1


@pytest.mark.parametrize("seed", [30552, 33119])
def test_equal_call_seeds_convict_nobody(seed: int) -> None:
    """Calls of one stage never get the same seed: at these master seeds plain draws would repeat one."""
    report = specverify.check(load("reference"), only=["SV-IND-002"], seed=seed)
    assert next(found for found in report.checks if found["id"] == "SV-IND-002")["status"] == "passed"


def test_a_wrong_bonus_does_not_stand_in_the_way() -> None:
    """No token of the stage is a bonus, so that with one from the draft (K31) independence is decided all the same."""
    report = specverify.check(FAULTS["K31"], only=STAGE)
    assert {found["status"] for found in report.checks if found["id"] in STAGE} == {"passed"}


@pytest.mark.parametrize("name", ["K01", "K05"])
def test_a_wrong_law_is_not_called_dependence(name: str) -> None:
    """Equal rows of a sampler that accepts everything, or has one replacement, are its law, not dependence."""
    report = specverify.check(FAULTS[name], only=STAGE)
    entries = {found["id"]: found for found in report.checks}
    assert not any(entries[check]["status"] == "failed" for check in STAGE if check != "SV-RPL-001")
    assert entries["SV-IND-001"]["status"] == entries["SV-IND-004"]["status"] == "inconclusive"
    assert "fail their law" in entries["SV-IND-001"]["reason"]

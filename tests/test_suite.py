"""A run convicts faulty samplers, acquits correct ones however unusual, and says what it does not know."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import numpy as np
import pytest
from samplers import CONTROLS, FAULTS, match_sampler, one_hot_sampler, token_sampler

import specverify
from specverify import Report
from specverify.errors import ConfigError
from specverify.plan import plan
from specverify.registry import load
from specverify.reports import render
from specverify.suite import Progress

FEW = 2000
LOOSE = {"samples": 4000, "target_tv": 0.2, "alpha": 1e-10}  # what correct samplers are run at: seconds, no flake


def check(sampler: Any, **options: Any) -> Report:
    """Check a sampler; the report must fit the schema whatever it says."""
    report = specverify.check(sampler, **options)
    schema = json.loads((files("specverify.reports") / "report.schema.json").read_text("utf-8"))
    jsonschema.validate(json.loads(report.to_json()), schema)
    return report


def status(report: Report, check_id: str) -> str:
    """Give the status of one check."""
    return next(str(entry["status"]) for entry in report.checks if entry["id"] == check_id)


def text(report: Report) -> str:
    """Give the terminal view with its lines joined."""
    return " ".join(render(report.document).split())


def first_line(report: Report) -> str:
    """Give what the terminal says first."""
    return text(report).partition("Checks:")[0]


def counts(report: Report) -> list[tuple[str, list[int]]]:
    """Give what was counted."""
    return [(entry["id"], entry["observed"]) for entry in report.checks]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_convicted_and_named(fault: str, seed: int) -> None:
    """A faulty one-liner is nonconformant at the quick profile, and its diagnosis is the first and fits alone.

    The evidence at the first look is beyond 1e-20 for all of them, so the miss rate of any seed is far below 1e-9.
    """
    report = check(FAULTS[fault], seed=seed)
    assert (report.verdict, report.lossless, report.rule["conforms"]) == ("nonconformant", False, False)
    assert report.diagnosis[0]["fault"] == fault
    assert report.diagnosis[0]["weight"] > 0.999
    assert report.document["counterexample"]["observed"] != report.document["counterexample"]["expected"]


@pytest.mark.parametrize("name", CONTROLS)
def test_correct_sampler_is_acquitted(name: str) -> None:
    """A correct sampler, unusual or not, conforms to its own rule if any; false alarms at 1e-10 whatever the seed."""
    report, rule = check(CONTROLS[name], **LOOSE), CONTROLS[name].rule
    assert (report.verdict, report.lossless, report.rule["conforms"]) == ("conformant", True, True if rule else None)
    assert rule is None or rule in report.rule["not_rejected"]
    assert report.diagnosis == []
    assert report.document["counterexample"] is None
    assert report.document["detectable_tv"]["value"] <= 0.2


def test_undeclared_rule_is_named_not_asserted() -> None:
    """Without a declared rule losslessness decides, and the rules that are not contradicted are listed."""
    sampler = specverify.verifier(name="undeclared", readonly=True)(match_sampler.function)
    report = check(sampler, **LOOSE)
    assert (report.verdict, report.rule["declared"], report.rule["conforms"]) == ("conformant", None, None)
    assert list(report.rule["not_rejected"]) == ["match", "one_hot"]
    assert status(report, "SV-ACC-001") == "not_applicable"


@pytest.mark.parametrize("function", [match_sampler.function, one_hot_sampler.function])
def test_lossless_sampler_of_another_rule(function: Any) -> None:
    """A match sampler that claims the token rule is lossless all the same, and the diagnosis says what it is."""
    sampler = specverify.verifier(name="claims token", rule="token", readonly=True)(function)
    report = check(sampler, **LOOSE)
    assert (report.verdict, report.lossless, report.rule["conforms"]) == ("nonconformant", True, False)
    assert any("match" in candidate["message"] for candidate in report.diagnosis)
    lossless = check(sampler, **LOOSE, require="lossless")
    assert (lossless.verdict, lossless.lossless, lossless.rule["conforms"]) == ("conformant", True, None)


def test_block_rule_is_told_from_token() -> None:
    """The block kernel conforms to block, and is contradicted where it claims the token rule."""
    block = load("reference-block")
    assert list(check(block, **LOOSE).rule["not_rejected"]) == ["block"]
    as_token = specverify.verifier(rule="token", readonly=True, name="block as token")(block.function)
    report = check(as_token, **LOOSE)
    assert (report.verdict, report.lossless, report.rule["conforms"]) == ("nonconformant", True, False)


def test_unknown_fault_is_called_unknown() -> None:
    """A fault outside the catalogue is convicted, and no known fault is blamed."""
    sampler = token_sampler("lenient", accept=lambda p, q: np.minimum(1.0, 1.4 * p / np.maximum(q, 1e-300)))
    report = check(sampler)
    assert report.verdict == "nonconformant"
    assert [candidate["fault"] for candidate in report.diagnosis] == [None]
    assert "known faults explains what was seen" in report.diagnosis[0]["message"]


def test_two_token_table() -> None:
    """The naive redraw is shown on two tokens: exact .6/.4, observed near .72/.28, acceptance .8, residual always B."""
    document = check(load("naive-redraw")).document
    example = document["counterexample"]
    assert (example["case"], example["p"], example["q"]) == ("AB", [["3/5", "2/5"]], [["4/5", "1/5"]])
    assert example["expected"]["first token"] == pytest.approx({"token 0": 0.6, "token 1": 0.4})
    assert example["observed"]["first token"]["token 0"] == pytest.approx(0.72, abs=0.04)
    assert example["expected"]["acceptance rate"] == pytest.approx({"first draft": 0.8})
    assert example["expected"]["replacement"] == pytest.approx({"token 0": 0.0, "token 1": 1.0})
    assert document["diagnosis"][0]["fault"] == "K02"
    assert "redraws from the target" in document["diagnosis"][0]["message"]


def test_same_seed_same_counts() -> None:
    """The seed fixes all counts, and another seed gives others; the global generators do not matter."""
    first = check(load("reference"), samples=FEW, seed=5)
    np.random.seed(1)  # noqa: NPY002 - what a user's program may have done
    again, other = check(load("reference"), samples=FEW, seed=5), check(load("reference"), samples=FEW, seed=6)
    assert counts(first) == counts(again) != counts(other)


def test_selection_changes_no_counts() -> None:
    """``only`` runs the chosen checks on the same rows as the full run, and leaves the rest open."""
    whole, part = (check(load("reference"), samples=FEW, only=only) for only in ((), ("SV-LEN-001",)))
    ran = {entry["id"] for entry in part.checks if entry["status"] != "not_applicable"}
    assert ran == {"SV-STR-001", "SV-LEN-001", "SV-ALL-001", "SV-ALL-002"}
    assert (part.verdict, part.lossless, part.rule["conforms"]) == ("conformant", None, None)
    assert part.document["detectable_tv"]["value"] is None
    assert dict(counts(part))["SV-LEN-001"] == dict(counts(whole))["SV-LEN-001"]


def test_small_run_is_inconclusive() -> None:
    """Too few samples for the target total variation: inconclusive, with the number that was reached."""
    report = check(load("reference"), samples=500, alpha=1e-10)
    assert (report.verdict, report.lossless) == ("inconclusive", None)
    assert "above the target" in report.document["warnings"][0]
    assert "that is no pass: the detectable total variation" in first_line(report)
    assert check(load("reference"), samples=500, alpha=1e-10, target_tv=0.9).verdict == "conformant"


def test_time_limit_is_inconclusive() -> None:
    """A run that is cut off by the clock claims nothing."""
    report = check(load("reference"), time_limit=1e-6, alpha=1e-10)
    assert report.verdict == "inconclusive"
    assert "time limit" in report.document["warnings"][0]
    assert "time limit" in first_line(report)
    assert report.document["detectable_tv"] == {"value": None, "case": None, "cells": None, "by_size": []}
    assert status(report, "SV-JNT-001") == "inconclusive"


def test_silent_sampler_is_inconclusive() -> None:
    """A verifier that accepts nothing and emits nothing is completed by the kit alone: that is no pass."""
    silent = specverify.verifier(name="silent", readonly=True)(
        lambda draft_tokens: (np.zeros(len(draft_tokens), int), np.full(len(draft_tokens), -1))
    )
    report = check(silent, samples=FEW)
    assert (report.verdict, report.lossless) == ("inconclusive", None)
    assert "no token was emitted" in report.document["warnings"][0]


def test_skipped_bonus_is_lossless() -> None:
    """A sampler that emits no bonus is lossless, only slower (control N5)."""
    base = CONTROLS["correct"].function

    def skips(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        stop, following = base(draft_tokens, draft_probs, target_probs, seed)
        return stop, np.where(stop == draft_tokens.shape[1], -1, following)

    report = check(specverify.verifier(name="no bonus", readonly=True)(skips), **LOOSE)
    assert (report.verdict, report.lossless) == ("conformant", True)


def test_known_failures_are_strict() -> None:
    """What fails as listed does not fail the run; a stale entry does, and so does an unknown id."""
    known: dict[str, str] = {}
    report = check(FAULTS["K31"], **LOOSE)
    while failed := [c["id"] for c in report.checks if c["status"] == "failed" and not c["id"].startswith("SV-ALL")]:
        assert not known.keys() & set(failed)
        known |= dict.fromkeys(failed, "the bonus comes from the draft")
        report = check(FAULTS["K31"], **LOOSE, known_failures=known)
    assert report.document["summary"]["known_failures"] == len(known) >= 3
    assert (report.verdict, report.lossless) == ("conformant", False)
    assert "conformant but for its known failures" in first_line(report).lower()
    stale = check(load("reference"), **LOOSE, known_failures={"SV-BON-001": "long gone"})
    assert (stale.verdict, status(stale, "SV-BON-001"), stale.diagnosis) == ("nonconformant", "failed", [])
    assert "stale known failure: it passed, so remove the entry (long gone)" in text(stale)
    with pytest.raises(ConfigError, match="did you mean 'SV-BON-001'"):
        check(load("reference"), known_failures={"SV-BON-01": "typo"})


def test_progress_is_told() -> None:
    """Every case of every look is told, and the rows add up to the plan."""
    told: list[Progress] = []
    specverify.check(load("reference"), samples=FEW, progress=told.append)
    done = [progress.rows_done for progress in told]
    assert done == sorted(done)
    assert done[-1] == told[-1].rows_planned == plan(load("reference"), samples=FEW).rows


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, "expected alpha to be a number between 0 and 1"),
        ({"alpha": float("nan")}, "expected alpha"),
        ({"target_tv": 2}, "expected target_tv"),
        ({"profile": "fast"}, "expected a profile of quick, ci, release"),
        ({"seed": -1}, "expected seed to be an integer"),
        ({"samples": 0}, "expected samples to be an integer"),
        ({"only": ["SV-RES-1"]}, "did you mean 'SV-RES-001'"),
        ({"require": "fast"}, "expected require to be"),
        ({"time_limit": -1}, "expected time_limit"),
        ({"known_failures": {"SV-RES-001": " "}}, "expected a reason"),
        ({"known_failures": {"SV-ALL-001": "all"}}, "leaves those out by itself"),
        ({"progress": 5}, "expected progress to be a function"),
    ],
)
def test_wrong_use_is_one_line(options: dict[str, Any], message: str) -> None:
    """The kit's own wrong use is answered in one line, before anything runs."""
    with pytest.raises(ConfigError, match=message) as caught:
        specverify.check(load("reference"), **options)
    assert "\n" not in str(caught.value)


def test_required_rule_must_be_declared() -> None:
    """Requiring the rule of a sampler that declares none is wrong use."""
    with pytest.raises(ConfigError, match="expected a declared rule"):
        specverify.check(lambda draft_tokens: draft_tokens, require="rule")


def test_plan_says_what_would_be_caught() -> None:
    """The plan is made without running, and more samples detect less."""
    small, large = (plan(load("reference"), samples=n).describe() for n in (1000, 100_000))
    assert all(a["detectable_tv"] >= b["detectable_tv"] for a, b in zip(small, large, strict=True))
    assert {row["check"] for row in small} >= {"SV-TOK-001", "SV-JNT-001", "SV-RES-001"}


def test_plan_agrees_with_the_run() -> None:
    """What the plan promises for unconditional checks is what the report states afterwards."""
    options: dict[str, Any] = {"samples": 1000, "alpha": 1e-10}
    promised = {
        (row["check"], row["case"]): row["detectable_tv"] for row in plan(load("reference"), **options).describe()
    }
    report = check(load("reference"), **options)
    headline = report.document["detectable_tv"]
    assert headline["value"] == promised["SV-JNT-001", headline["case"]]
    assert headline["value"] == max(value for (name, _), value in promised.items() if name == "SV-JNT-001")


def test_the_combined_evidence_alone_means_everything() -> None:
    """Whoever asks for the combined evidence asks for all of the probes behind it."""
    report = check(load("reference"), **LOOSE, only=["SV-ALL-001"])
    left_out = {record["id"]: record["reason"] for record in report.checks if record["status"] == "not_applicable"}
    loops = dict.fromkeys(("SV-PRP-001", "SV-RND-001", "SV-RND-002"), "it is about loops that report rounds")
    assert (report.verdict, left_out) == ("conformant", {"SV-DRF-001": "the kit drafts for it", **loops})


def test_structure_alone_can_pass() -> None:
    """Structure is checked on every row, and passes as what was asked for."""
    report = check(load("reference"), samples=500, only=["SV-STR-001"])
    assert (report.verdict, status(report, "SV-STR-001")) == ("conformant", "passed")


def test_known_fault_runs_by_name() -> None:
    """A catalogued fault is runnable by id and by name, and is convicted and named."""
    assert load("fault:residual_target").name == load("fault:K02").name
    report = check(load("fault:K02"), samples=300)
    assert report.verdict == "nonconformant"
    assert report.diagnosis[0]["fault"] == "K02"


@pytest.mark.parametrize("row", [0, -1])
def test_a_fault_of_one_row_is_found(row: int) -> None:
    """A redraw from the target in the first or the last row of every call is convicted by the small calls."""
    good, bad = CONTROLS["correct"].function, FAULTS["K02"].function

    def sampler(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        stop, following = good(draft_tokens, draft_probs, target_probs, seed)
        wrong = bad(draft_tokens, draft_probs, target_probs, seed)
        stop[row], following[row] = wrong[0][row], wrong[1][row]
        return stop, following

    assert check(specverify.verifier(name="one row", readonly=True)(sampler)).verdict == "nonconformant"


def test_a_fault_of_single_rows_is_found() -> None:
    """A redraw from the target in calls of one row is convicted, though nearly all rows come in larger calls."""
    good, bad = CONTROLS["correct"].function, FAULTS["K02"].function

    def sampler(draft_tokens: Any, draft_probs: Any, target_probs: Any, seed: int) -> Any:
        return (bad if len(draft_tokens) == 1 else good)(draft_tokens, draft_probs, target_probs, seed)

    assert check(specverify.verifier(name="single", readonly=True)(sampler)).verdict == "nonconformant"

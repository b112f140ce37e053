"""What a report says of a generate loop is true of it: why checks did not run, what a call got, and what is wrong."""
# ruff: noqa: ARG001, ARG005 - parameters say what a loop is called with, whether it reads them or not

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import specverify
from specverify.contract import Verifier
from specverify.errors import ContractError
from specverify.faults.loop_samplers import loop_sampler
from specverify.faults.loop_steps import LoopEdit
from specverify.loop_menu import loop_menu
from specverify.reports import render

CASES = {case.name: case for case in loop_menu()}
LOOP = [CASES["loop"]]
CORRECT = LoopEdit()
FIRST = LoopEdit(bonus=lambda at: (1.0, *(0.0,) * (at.asked.vocab_size - 1)))
REFERENCE = loop_sampler(CORRECT, "correct", rule="token")


def entries(report: specverify.Report) -> dict[str, dict[str, Any]]:
    """Give the entries of the checks by id."""
    return {entry["id"]: entry for entry in report.checks}


def changed(change: Callable[[Any], Any], *, rule: str | None = "token", edit: LoopEdit = CORRECT) -> Verifier:
    """Make a loop of which another function changes what is returned."""
    inner = loop_sampler(edit, "inner", rule="token").function

    def loop(**given: Any) -> Any:
        return change(inner(**given))

    asked = [one for one in inspect.signature(inner).parameters.values() if one.name != "seeds"]
    loop.__signature__ = inspect.Signature(asked)  # type: ignore[attr-defined]
    return specverify.generator(rule=rule, name="changed")(loop)


def rolled(made: specverify.Generation) -> specverify.Generation:
    """Report another q than the one that the drafts were drawn from and scored with."""
    return specverify.Generation(
        made.tokens, [replace(one, draft_probs=np.roll(one.draft_probs, 1, axis=2)) for one in made.rounds]
    )


# --- rounds ----------------------------------------------------------------------------------------------------------


def test_a_loop_that_reports_its_rounds_is_not_said_to_report_none() -> None:
    """Where the checks of rounds were not asked for, the doubts say nothing of rounds that are missing."""
    report = specverify.check(REFERENCE, cases=LOOP, only=["SV-TOK-001"], samples=5000, target_tv=0.9)
    assert report.verdict == "conformant"
    untold = specverify.check(
        changed(lambda made: made.tokens), cases=LOOP, only=["SV-TOK-001"], samples=5000, target_tv=0.9
    )
    assert untold.verdict == "inconclusive"
    assert "reported no rounds" in untold.document["warnings"][0]


def test_a_loop_that_ended_early_without_rounds_reported_none() -> None:
    """What will never be known does not wait for more rows; checks of a verifier's rounds are said to be that."""
    report = specverify.check(loop_sampler(FIRST, "wrong"), cases=LOOP, samples=4000)
    found = entries(report)
    assert report.verdict == "nonconformant"
    assert any(entry["status"] == "inconclusive" for entry in report.checks)
    assert (found["SV-PRP-001"]["status"], found["SV-PRP-001"]["reason"]) == (
        "not_applicable",
        "the loop reported no rounds",
    )
    of_verifiers = ("SV-SUP-002", "SV-ACC-001", "SV-RES-001", "SV-RES-002", "SV-POS-001", "SV-BON-001", "SV-DRF-001")
    for check in (*of_verifiers, "SV-LEN-001", "SV-RUL-001"):
        assert found[check]["reason"] == "it is about single rounds of a verifier"


@pytest.mark.parametrize("rule", ["block", "one_hot", "tokenn"])
def test_a_rule_that_rounds_cannot_be_held_to_is_refused(rule: str) -> None:
    """When it is declared, in one line that names the rules that they can be held to."""
    with pytest.raises(ContractError) as raised:
        specverify.generator(rule=rule)(lambda target_model, prompt, max_new_tokens: None)
    assert f"expected rule to be token or match, which reported rounds can be held to, got '{rule}'" in str(
        raised.value
    )
    assert str(raised.value).startswith("generator ")
    assert "\n" not in str(raised.value)


def test_a_wrong_q_alone_is_not_said_to_make_the_output_wrong() -> None:
    """The text of the diagnosis says of the output what was shown of it."""
    report = specverify.check(changed(rolled, rule=None), cases=LOOP, samples=4000)
    said = report.diagnosis[0]["message"]
    assert (report.lossless is False, entries(report)["SV-PRP-001"]["status"]) == (False, "failed")
    assert "so that its output is not the target's" not in said
    assert "The output was not shown to be wrong" in said


def test_the_headline_says_that_the_output_is_wrong_whatever_else_is() -> None:
    """Drafts by another law than the scored q make the text wrong; the contract that is broken beside comes after."""
    report = specverify.check(changed(rolled, rule=None, edit=FIRST), cases=LOOP, samples=4000)
    assert {entries(report)[check]["status"] for check in ("SV-PRP-001", "SV-JNT-001")} == {"failed"}
    assert "NONCONFORMANT. Its output does not follow the target, and it breaks the contract" in " ".join(
        render(report.document).split()
    )


# --- calls -----------------------------------------------------------------------------------------------------------


def test_a_failed_call_shows_what_the_loop_got() -> None:
    """Prompt, numbers, the parameters that are set and the seed; no draft tokens, and no frame of the kit."""

    def fails(
        target_model: Any, prompt: Any, num_draft_tokens: int, max_new_tokens: int, top_k: int, top_p: float, seed: int
    ) -> None:
        target_model(prompt[0])

    report = specverify.check(fails, cases=[CASES["loop-top-k"]], samples=10, seed=3, only=["SV-TOK-001"])
    message = entries(report)["SV-STR-001"]["message"]
    assert "prompt [1, 0, 2], num_draft_tokens 2, max_new_tokens 4, seed " in message
    assert "top_k 2, top_p not set" in message
    assert "draft_tokens [" not in message.replace("num_draft_tokens", "")
    assert "loop_handing.py" not in message
    assert "test_loop_reports.py" in message


def test_a_tuple_of_tokens_and_rounds_is_told_the_form() -> None:
    """Two rows of tokens may be a tuple; a batch with rounds beside it is a Generation."""

    def pair(target_model: Any, prompt: Any, max_new_tokens: int) -> Any:
        return np.zeros((len(prompt), max_new_tokens), dtype=np.int64), []

    report = specverify.check(pair, cases=LOOP, samples=10)
    assert "expected specverify.Generation(tokens, rounds); return that" in entries(report)["SV-STR-001"]["message"]

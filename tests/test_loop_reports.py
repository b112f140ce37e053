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
from specverify.counterexample import reproduce
from specverify.errors import ContractError
from specverify.faults.loop_samplers import loop_sampler
from specverify.faults.loop_steps import LoopEdit
from specverify.judging import Judgement
from specverify.listing import explanations
from specverify.loop_menu import loop_menu
from specverify.plan import plan
from specverify.registry import load
from specverify.reports import FORMS, render
from specverify.results import came
from specverify.suite import Run

CASES = {case.name: case for case in loop_menu()}
LOOP = [CASES["loop"]]
CORRECT = LoopEdit()
FIRST = LoopEdit(bonus=lambda at: (1.0, *(0.0,) * (at.asked.vocab_size - 1)))
REFERENCE = loop_sampler(CORRECT, "correct", rule="token")


@specverify.generator
def IMPORTABLE(target_model: Any, prompt: Any, max_new_tokens: int, seed: int) -> Any:
    """Do nothing, under a name."""


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


# --- figures ---------------------------------------------------------------------------------------------------------


def test_an_impossible_event_has_no_large_p_value_beside_its_evidence() -> None:
    """The test at the planned n pools what cannot happen; the p-value that is shown counts it for itself."""

    def unlikely(made: specverify.Generation) -> specverify.Generation:
        rounds = [replace(one, num_accepted=one.num_accepted.copy()) for one in made.rounds]
        claimed = rounds[0].draft_probs
        claimed[::97, 0] = np.eye(claimed.shape[2])[(rounds[0].draft_tokens[::97, 0] + 1) % claimed.shape[2]]
        return specverify.Generation(made.tokens, rounds)

    report = specverify.check(changed(unlikely, rule=None), cases=LOOP, samples=2000)
    entry = entries(report)["SV-PRP-001"]
    assert entry["status"] == "failed"
    assert entry["p_value"] < 10 ** -entry["log10_e"] * 1e3
    assert "'what cannot happen' came 2" in entry["message"]
    assert "expected none" in entry["message"]


def test_a_single_event_is_told_as_one() -> None:
    """It came once, not 1 times; and of a cell that may come a few hundredths are expected, not none."""
    judgement = Judgement(Run(plan(REFERENCE, cases=LOOP, samples=20)))
    result = next(result for result in judgement.results if result.probe.check == "SV-JNT-001")
    rare = int(result.probe.probs[:-1].argmin())
    result.counts[rare] = 1
    assert f"came once in 1 events, expected {result.probe.probs[rare]:.3g}" in came(result)
    result.counts[-1] = 2
    assert came(result) == "'what cannot happen' came 2 times in 3 events, expected none"


def test_the_plain_case_is_shown_before_those_that_only_add_to_it() -> None:
    """Of all cases on which a check failed the smallest has the fewest features, then the fewest drafts."""
    names = ("loop-process-1", "loop-deep", "loop-hot", "loop-mates", "loop")
    report = specverify.check(loop_sampler(FIRST, "wrong"), cases=[CASES[name] for name in names], samples=4000)
    example = report.document["counterexample"]
    assert example["case"] == "loop"
    assert example["rows_by"] == "context"
    message = next(entry["message"] for entry in report.checks if entry["id"] == "SV-JNT-001")
    first = message.partition("On case ")[2].partition(",")[0]
    assert first == "loop" or "Also on loop, loop-" in message


def test_rows_of_a_law_say_which_context_they_follow() -> None:
    """With four decimals, in every form; stored reports that do not say what tells rows apart have no labels."""
    document = specverify.check(loop_sampler(FIRST, "wrong"), cases=LOOP, samples=4000).document
    for form in (render(document), FORMS["markdown"].write(document), FORMS["html"].write(document)):
        words = " ".join(form.split())
        assert "first 0.5625 0.3750 0.0625" in words
        assert "after 0 0.3750 0.1875 0.4375" in words
        assert "0.37500000000000006" not in form
    del document["counterexample"]["rows_by"]
    assert "after 0" not in render(document)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("loop-flat-256", "256 tokens, 1 drafted per round, 2 new ones after the prompt 0"),
        ("loop-end", "token 2 ends a sequence"),
        ("loop-mates", "beside rows with the prompt 2 2 0"),
        ("loop-process-2", "in a fresh process"),
        ("loop-grammar", "allowed_tokens: state 0 allows 0 (then state 1) or 2 (then state 0), state 1 allows 1"),
        ("loop-temperature", "first p:  0.6236  0.3494  0.0270"),
        ("coin", "case coin"),
    ],
)
def test_every_case_of_a_run_can_be_explained(name: str, told: str) -> None:
    """Those of the independence stage too; of a loop with what it is asked for, in words and four decimals."""
    text = explanations()[name]()
    assert told in text
    assert "Grammar(" not in text


def test_the_line_that_reproduces_keeps_what_was_asked_for() -> None:
    """The checks that were chosen, and of a function where it can be imported from, if anywhere."""
    only = ["SV-TOK-001", "SV-JNT-001"]
    for target, told in (
        ("fault:K01-loop", " --only SV-TOK-001,SV-JNT-001"),
        (None, "only=('SV-TOK-001', 'SV-JNT-001')"),
    ):
        made = plan(load("fault:K01-loop"), only=only, samples=2000, target=target)
        assert told in reproduce(made)
    assert reproduce(plan(IMPORTABLE, samples=2000)).endswith(f"# from {__name__} import IMPORTABLE")
    assert "#" not in reproduce(plan(loop_sampler(CORRECT, "mine"), samples=2000))

"""A loop is held to all that it asks for, however few sequences it takes, and to all that it reports."""
# ruff: noqa: ARG001 - parameters say what a loop is called with, whether it reads them or not

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import Parameter, Signature
from typing import Any

import numpy as np
import pytest
from test_generators import CASES, plain, reporting

import specverify
from specverify.cases import Case
from specverify.contract import Verifier
from specverify.errors import ConfigError, ContractError
from specverify.loop_handing import HandedLoop
from specverify.loop_menu import base_loop
from specverify.loop_schedule import loop_schedule
from specverify.loops import MarkovModel
from specverify.processing import Grammar, Sampling
from specverify.registry import load
from specverify.round_views import ROUNDED, RoundView
from specverify.trace import Rounds, Trace

PARAMETERS = {
    "top_k": "loop-top-k",
    "top_p": "loop-top-p",
    "min_p": "loop-min-p",
    "repetition_penalty": "loop-repetition",
    "frequency_penalty": "loop-frequency",
    "logit_bias": "loop-bias",
    "min_new_tokens": "loop-late-end",
    "allowed_tokens": "loop-grammar",
}


def ignoring(*names: str, **options: Any) -> Verifier:
    """Make a loop of single sequences that asks for parameters and ignores them."""

    def loop(**given: Any) -> Any:
        names = ("target_model", "prompt", "max_new_tokens", "seed", "temperature")
        return plain(**{name: given[name] for name in names})

    asked = ("target_model", "prompt", "max_new_tokens", "seed", "temperature", *names)
    loop.__signature__ = Signature(  # type: ignore[attr-defined]  # what is asked for
        [Parameter(name, Parameter.KEYWORD_ONLY) for name in asked]
    )
    return specverify.generator(max_batch=1, name="ignoring", **options)(loop)


def status(report: specverify.Report, check: str) -> tuple[str, str]:
    """Give the status of a check, and the reason for it."""
    entry = next(entry for entry in report.checks if entry["id"] == check)
    return entry["status"], entry["reason"]


@pytest.mark.parametrize(("parameter", "case"), PARAMETERS.items())
def test_a_loop_of_single_sequences_is_run_on_each_parameter(parameter: str, case: str) -> None:
    """The case of a parameter stands aside, so that its few rows do not set what is stated; it is run all the same."""
    planned = {one.case.name: one for one in loop_schedule(ignoring(parameter), "quick")}
    assert planned[case].size_class == "aside"
    assert planned["loop"].size_class == "tiny"
    assert case not in {one.case.name for one in loop_schedule(ignoring(), "quick")}


def test_a_parameter_that_single_sequences_ignore_is_found() -> None:
    """One call takes one sequence, and a top-k that is not applied still shows."""
    report = specverify.check(ignoring("top_k"), cases=[CASES["loop-top-k"]], samples=400, target_tv=0.9)
    assert report.verdict == "nonconformant"


@pytest.mark.parametrize("rule", ["block", "one_hot", "rrs"])
def test_a_rule_that_no_loop_can_be_held_to_is_refused(rule: str) -> None:
    """The rounds of a loop follow the token rule or the match rule, or none is declared."""
    with pytest.raises(ContractError, match=r"expected rule .*token.*match"):
        specverify.generator(rule=rule)(plain)


ONE = CASES["loop-one-draft"]


def one(loop: Callable[..., Any], case: Case = ONE, **options: Any) -> specverify.Report:
    """Check a loop that declares the token rule on one case."""
    sampler = specverify.generator(rule="token", name="one")(loop)
    return specverify.check(sampler, cases=[case], **{"samples": 3000, "target_tv": 0.9, **options})


@pytest.mark.parametrize("only", ["SV-JNT-001", "SV-PRP-001", "SV-RND-002"])
def test_rounds_that_were_reported_are_not_missed(only: str) -> None:
    """Whether rounds came does not depend on which checks were asked for."""
    assert one(reporting(), only=[only]).verdict == "conformant"


def test_rounds_that_were_not_reported_are_not_open() -> None:
    """A run that ends with its first fault says of checks of rounds that there were none."""

    def forgets(target_model: Any, prompt: Any, max_new_tokens: int, seed: int) -> Any:
        return plain(target_model, prompt[:, -1:], max_new_tokens, seed, 1.0)

    report = specverify.check(forgets, cases=[CASES["loop"]], samples=5000)
    assert report.verdict == "nonconformant"
    assert status(report, "SV-PRP-001") == ("not_applicable", "the loop reported no rounds")
    assert status(report, "SV-ACC-001") == ("not_applicable", "it is about single rounds of a verifier")


def test_rounds_in_some_calls_only_break_the_contract() -> None:
    """A report that comes and goes could leave out what is wrong."""
    loop = reporting()

    def sometimes(
        target_model: Any, draft_model: Any, prompt: Any, num_draft_tokens: int, max_new_tokens: int, seed: int
    ) -> Any:
        found = loop(target_model, draft_model, prompt, num_draft_tokens, max_new_tokens, seed)
        return replace(found, rounds=()) if seed % 2 else found

    report = one(sometimes, samples=100)
    told = next(entry["message"] for entry in report.checks if entry["id"] == "SV-STR-001")
    assert "expected all or none; report all rounds" in told


def test_rounds_on_some_cases_only_show_no_rule() -> None:
    """A loop that reports its rounds on one case and not on another is not held to its rule there."""
    loop = reporting()

    def sometimes(
        target_model: Any, draft_model: Any, prompt: Any, num_draft_tokens: int, max_new_tokens: int, seed: int
    ) -> Any:
        found = loop(target_model, draft_model, prompt, num_draft_tokens, max_new_tokens, seed)
        return found if num_draft_tokens == 1 else replace(found, rounds=())

    sampler = specverify.generator(rule="token", name="some")(sometimes)
    report = specverify.check(sampler, cases=[ONE, CASES["loop"]], samples=3000, target_tv=0.9)
    assert report.verdict == "inconclusive"
    assert any("reported no rounds on case loop, and did on others" in text for text in report.document["warnings"])


def test_what_follows_the_second_round_is_held_to_the_rule() -> None:
    """A loop that from its third round on draws from the target alone is lossless, and does not follow its rule."""

    def lazy(
        target_model: Any, draft_model: Any, prompt: Any, num_draft_tokens: int, max_new_tokens: int, seed: int
    ) -> Any:
        rng, size, rounds = np.random.default_rng(seed), target_model.vocab_size, []
        texts, start = [list(row) for row in prompt], prompt.shape[1]
        for number in range(max_new_tokens):
            drafts, claimed, accepted = np.full((len(prompt), 1), -1), np.zeros((len(prompt), 1, size)), []
            for row, text in enumerate(texts):
                p, q = (np.exp(model(np.array([text]))[0]) for model in (target_model, draft_model))
                x = int(rng.choice(size, p=q / q.sum()))
                drafts[row], claimed[row, 0] = x, q
                kept = number < 2 and rng.random() * q[x] < p[x]
                rest = p if number >= 2 else np.maximum(p - q, 0)
                if kept:
                    text.append(x)
                    rest = np.exp(target_model(np.array([text]))[0])
                text.append(int(rng.choice(size, p=rest / rest.sum())))
                accepted.append(int(kept))
            rounds.append(specverify.Round(drafts, claimed, accepted))
        return specverify.Generation([text[start : start + max_new_tokens] for text in texts], rounds)

    report = one(lazy)
    assert (report.verdict, report.lossless) == ("nonconformant", True)
    assert status(report, "SV-RND-001")[0] == "failed"


def test_drafts_of_rows_that_are_done_are_no_drafts() -> None:
    """What a batched loop leaves in rows that are done is not held to the reported q."""
    loop = reporting()

    def padded(
        target_model: Any, draft_model: Any, prompt: Any, num_draft_tokens: int, max_new_tokens: int, seed: int
    ) -> Any:
        found = loop(target_model, draft_model, prompt, num_draft_tokens, max_new_tokens, seed)
        rounds = []
        for step in found.rounds:
            done = step.num_accepted < 0
            claimed = np.where(done[:, None, None], np.eye(target_model.vocab_size)[-1], step.draft_probs)
            rounds.append(specverify.Round(np.where(done[:, None], 0, step.draft_tokens), claimed, step.num_accepted))
        return replace(found, rounds=rounds)

    assert one(padded).verdict == "conformant"


def test_ties_are_as_wide_as_the_rounding_of_the_type() -> None:
    """In 16 bits more is left to rounding than in 64."""
    nothing = np.zeros((1, 1, 1), dtype=np.int64)
    trace = Trace(nothing[0], nothing[0, 0], nothing[0, 0], nothing[0, 0], nothing[0])
    rounds = Rounds(nothing, np.zeros((1, 1, 1, 3)), nothing[0], np.zeros((1, 1, 3)))
    assert RoundView.of(ONE, trace, rounds).rounded == ROUNDED
    assert RoundView.of(ONE, trace, rounds, 1e-2).rounded == 1e-2


def test_a_convicted_loop_without_a_joint_law_is_reported() -> None:
    """Where only the first token was asked for, no fault is named, and the report is written."""
    report = specverify.check(load("fault:L01a"), only=["SV-TOK-001"], samples=500)
    assert report.verdict == "nonconformant"
    assert "do not serve to name a fault" in report.diagnosis[0]["message"]


def test_a_large_case_is_convicted_in_seconds() -> None:
    """The laws of all faults on a case of many paths take minutes: it names none."""
    rng = np.random.default_rng(1)
    models = []
    for _ in range(2):
        weights = rng.random((1, 5, 5)) + 0.2
        models.append(MarkovModel(np.log(weights / weights.sum(axis=2, keepdims=True)), 1))
    large = Case.from_loop("large", replace(base_loop(), target=models[0], draft=models[1], num_draft_tokens=3))

    def flat(target_model: Any, prompt: Any, max_new_tokens: int, seed: int) -> Any:
        return np.random.default_rng(seed).integers(0, 5, (len(prompt), max_new_tokens))

    report = specverify.check(flat, cases=[large], samples=4000)
    assert report.verdict == "nonconformant"
    assert "do not serve to name a fault" in report.diagnosis[0]["message"]


def test_a_row_padded_with_its_end_is_told_how_to_pad() -> None:
    """That is a matter of form: no fault that emits tokens after the end is named."""

    def ends(target_model: Any, prompt: Any, max_new_tokens: int, seed: int, temperature: float) -> Any:
        tokens = plain(target_model, prompt, max_new_tokens, seed, temperature)
        return np.where(tokens < 0, target_model.eos_token_id, tokens)

    report = specverify.check(ends, cases=[CASES["loop-end"]], samples=200)
    told = next(entry["message"] for entry in report.checks if entry["id"] == "SV-STR-001")
    assert "expected -1 after the end of sequence 2: pad with -1" in told
    assert not report.diagnosis


def test_cases_that_a_loop_cannot_follow_are_refused() -> None:
    """A parameter that it does not ask for, and mates for a loop of one sequence, are no fault of the loop."""
    with pytest.raises(ConfigError, match="which sets top_k; ask for top_k"):
        specverify.check(plain, cases=[CASES["loop-top-k"]], samples=10)
    with pytest.raises(ConfigError, match="with batch mates"):
        specverify.check(ignoring(), cases=[CASES["loop-mates"]], samples=10)


def test_a_grammar_takes_and_gives_tensors() -> None:
    """A loop on tensors calls its grammar with tensors and gets a mask of theirs."""
    torch = pytest.importorskip("torch")

    def loop(target_model: Any, prompt: Any, max_new_tokens: int, allowed_tokens: Any) -> Any:
        return None

    handed = HandedLoop(CASES["loop-grammar"], specverify.generator(framework="torch", dtype="float32")(loop))
    unknown = np.full((1, 3), -1)
    grammar = handed.batch(unknown, np.full(1, 3), 0).arguments["allowed_tokens"]
    mask = grammar(torch.zeros((2, 0), dtype=torch.int64))
    assert (mask.dtype, list(mask.shape), grammar.free) == (torch.bool, [2, 3], False)
    assert Grammar(((0, 1),), ((0, 0),), 2).free


def test_models_that_cannot_be_sent_to_a_process_are_told() -> None:
    """A model that only this process knows cannot be checked with a timeout: one line says so."""

    class Local(MarkovModel):
        """A model of this function alone."""

    target = base_loop().target
    assert isinstance(target, MarkovModel)
    local = Local(target.log_probs, target.order)
    case = Case.from_loop("local", replace(base_loop(), target=local, sampling=Sampling()))
    with pytest.raises(ConfigError, match="expected cases that another process can be given"):
        specverify.check(plain, cases=[case], samples=10, timeout=60.0)

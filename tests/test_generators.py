"""A generate loop is declared, called and read by contract, and its whole law is checked."""
# ruff: noqa: ARG001, ARG005 - parameters say what a loop is called with, whether it reads them or not

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import specverify
from specverify.calling import call
from specverify.cases import Case
from specverify.contract import Verifier
from specverify.errors import ConfigError, ContractError
from specverify.loop_handing import HandedLoop
from specverify.loop_menu import base_loop, loop_menu
from specverify.reading import OutputFault

CASES = {case.name: case for case in loop_menu()}
FEW = [CASES[name] for name in ("loop", "loop-no-draft", "loop-temperature", "loop-end", "loop-mates")]
ROWS = 5000


def _law(model: Any, contexts: Any, temperature: float) -> Any:
    weights = np.exp(model(contexts) / temperature)
    return weights / weights.sum(axis=1, keepdims=True)


def _draw(laws: Any, rng: np.random.Generator) -> Any:
    return (laws.cumsum(axis=1) <= rng.random((len(laws), 1)) * laws.sum(axis=1, keepdims=True)).sum(axis=1)


def plain(target_model: Any, prompt: Any, max_new_tokens: int, seed: int, temperature: float) -> Any:
    """Draw every token from the target: a loop without a draft, of all rows at once."""
    rng, contexts, eos = np.random.default_rng(seed), prompt, target_model.eos_token_id
    ended = np.zeros(len(prompt), dtype=bool)
    tokens = np.full((len(prompt), max_new_tokens), -1)
    for place in range(max_new_tokens):
        new = _draw(_law(target_model, contexts, temperature), rng)
        tokens[:, place] = np.where(ended, -1, new)
        ended |= new == eos
        contexts = np.concatenate([contexts, new[:, None]], axis=1)
    return tokens


def reporting(claim: Callable[[Any], Any] = lambda q: q, bonus: Callable[[Any], Any] = lambda p: p) -> Any:
    """Make a loop of one draft per round that reports its rounds; ``claim`` edits the q reported, ``bonus`` a law."""

    def loop(
        target_model: Any, draft_model: Any, prompt: Any, num_draft_tokens: int, max_new_tokens: int, seed: int
    ) -> specverify.Generation:
        rng, rounds = np.random.default_rng(seed), []
        rows, size = len(prompt), target_model.vocab_size
        texts = [list(row) for row in prompt]
        done, start = np.zeros(rows, dtype=bool), prompt.shape[1]
        while not done.all():
            drafts = np.full((rows, 1), -1)
            claimed, accepted = np.zeros((rows, 1, size)), np.full(rows, -1)
            for row in np.flatnonzero(~done):
                p = np.exp(target_model(np.array([texts[row]]))[0])
                q = np.exp(draft_model(np.array([texts[row]]))[0])
                x, said = int(_draw(q[None], rng)[0]), claim(q)
                drafts[row], claimed[row, 0] = x, said
                accepted[row] = int(rng.random() * said[x] < p[x])
                if accepted[row]:
                    texts[row].append(x)
                    p = bonus(np.exp(target_model(np.array([texts[row]]))[0]))
                else:
                    p = np.maximum(p - said, 0)
                texts[row].append(int(_draw(p[None], rng)[0]))
            rounds.append(specverify.Round(drafts, claimed, accepted))
            done = np.array([len(text) >= start + max_new_tokens for text in texts])
        return specverify.Generation([text[start : start + max_new_tokens] for text in texts], rounds)

    return loop


def _status(report: specverify.Report, check: str) -> str:
    return str(next(entry["status"] for entry in report.checks if entry["id"] == check))


def test_a_loop_that_draws_every_token_from_the_target_is_conformant() -> None:
    """Without drafts and rounds it is lossless; what is about rounds does not apply, and says why."""
    report = specverify.check(plain, cases=FEW, samples=ROWS)
    assert report.verdict == "conformant"
    assert report.document["sampler"]["kind"] == "generator"
    reasons = {entry["id"]: entry["reason"] for entry in report.checks if entry["status"] == "not_applicable"}
    assert reasons["SV-PRP-001"] == "the loop reported no rounds"
    assert report.document["acceptance"] is None


def test_a_loop_that_forgets_the_prompt_is_nonconformant() -> None:
    """Its contexts begin in another place, and its very first tokens follow another law."""

    def forgets(target_model: Any, prompt: Any, max_new_tokens: int, seed: int, temperature: float) -> Any:
        return plain(target_model, prompt[:, -1:], max_new_tokens, seed, temperature)

    report = specverify.check(forgets, cases=FEW[:1], samples=ROWS)
    assert (report.verdict, report.lossless, _status(report, "SV-JNT-001")) == ("nonconformant", False, "failed")


def test_rows_that_follow_their_batch_mates_are_nonconformant() -> None:
    """Rows of equal prompts hide it; on the case of mates the tokens are those of the other prompt."""

    def mixed(target_model: Any, prompt: Any, max_new_tokens: int, seed: int, temperature: float) -> Any:
        return plain(target_model, np.roll(prompt, 1, axis=0), max_new_tokens, seed, temperature)

    alone = specverify.check(mixed, cases=[CASES["loop"]], samples=ROWS)
    beside = specverify.check(mixed, cases=[CASES["loop-mates"]], samples=ROWS)
    assert (alone.verdict, beside.verdict) == ("conformant", "nonconformant")


def test_rounds_of_a_correct_loop_pass_and_count_for_the_rule() -> None:
    """Drafts follow the reported q, acceptance and what follows the token rule."""
    sampler = specverify.generator(rule="token", name="one")(reporting())
    report = specverify.check(sampler, cases=[CASES["loop-one-draft"]], samples=ROWS)
    assert (report.verdict, report.document["rule"]["conforms"]) == ("conformant", True)
    assert {_status(report, check) for check in ("SV-PRP-001", "SV-RND-001", "SV-RND-002")} == {"passed"}


def test_drafts_that_do_not_follow_the_reported_q_are_told() -> None:
    """A q reported in other columns than the draft's fails that check, and the diagnosis says what is wrong."""
    sampler = specverify.generator(rule="token", name="permuted")(reporting(claim=lambda q: np.roll(q, 1)))
    report = specverify.check(sampler, cases=[CASES["loop-one-draft"]], samples=ROWS)
    assert (report.verdict, _status(report, "SV-PRP-001")) == ("nonconformant", "failed")
    assert "do not follow the q that the loop reports" in report.diagnosis[0]["message"]


def test_a_bonus_of_another_law_fails_what_follows_the_drafts() -> None:
    """Acceptance is right, and the token after it is not."""
    greedy = reporting(bonus=lambda p: (p == p.max()) * 1.0)
    sampler = specverify.generator(rule="token", name="greedy")(greedy)
    report = specverify.check(sampler, cases=[CASES["loop-one-draft"]], samples=ROWS)
    assert (_status(report, "SV-RND-002"), _status(report, "SV-RND-001")) == ("failed", "inconclusive")
    assert report.diagnosis[0]["fault"] == "G06"


def test_a_rule_that_no_round_shows_is_no_pass() -> None:
    """Who declares a rule and reports no rounds is not held to it: the verdict says so."""
    report = specverify.check(specverify.generator(rule="token", name="plain")(plain), cases=FEW[:1], samples=20_000)
    assert (report.verdict, report.lossless) == ("inconclusive", True)
    assert any("reported no rounds" in warning for warning in report.document["warnings"])


def test_tokens_after_the_end_of_a_sequence_break_the_contract() -> None:
    """A loop that goes on past the end is told so, with its first row."""

    def endless(target_model: Any, prompt: Any, max_new_tokens: int, seed: int, temperature: float) -> Any:
        target_model.eos_token_id = None
        return plain(target_model, prompt, max_new_tokens, seed, temperature)

    report = specverify.check(endless, cases=[CASES["loop-end"]], samples=200)
    message = next(entry["message"] for entry in report.checks if entry["id"] == "SV-STR-001")
    assert "it goes on past the end of sequence" in message
    assert report.diagnosis[0]["fault"] == "G09"


def test_the_same_seed_must_give_the_same_text() -> None:
    """A loop that asks for a seed and draws from its own generator fails the replay."""
    own = np.random.default_rng(0)

    def unseeded(target_model: Any, prompt: Any, max_new_tokens: int, seed: int, temperature: float) -> Any:
        return plain(target_model, prompt, max_new_tokens, int(own.integers(2**31)), temperature)

    report = specverify.check(unseeded, only=["SV-RPL-001"], samples=100)
    assert (report.verdict, _status(report, "SV-RPL-001")) == ("nonconformant", "failed")


def test_a_loop_with_one_stream_for_all_calls_is_dependent() -> None:
    """Every call gives the same text: each law holds, and the calls are not independent."""

    def frozen(target_model: Any, prompt: Any, max_new_tokens: int, seed: int, temperature: float) -> Any:
        return plain(target_model, prompt, max_new_tokens, seed % 8, temperature)

    report = specverify.check(frozen, only=["SV-IND-002", "SV-IND-004"])
    assert report.verdict == "nonconformant"


def _called(function: Any, case: Case = CASES["loop"], rows: int = 2) -> Any:
    sampler: Verifier = specverify.generator(name="stub")(function)
    unknown = np.full((rows, case.num_draft_tokens), -1)
    return call(sampler, HandedLoop(case, sampler), unknown, np.full(rows, case.num_draft_tokens), 0)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (None, "got None for tokens"),
        ([[0, 1, 2, 0]], "got tokens of shape [1, 4], expected [2, at most 4]"),
        ([[0, 1, 2, 3]] * 2, "expected -1 to 2"),
        ([[0.5, 1, 2, 0]] * 2, "got floats such as 0.5 for tokens"),
        ([[0, 1, 2, -1]] * 2, "expected 4 tokens, and -1 only after an end of sequence"),
        ([[0, -1, 2, 0]] * 2, "expected -1 only after the last token"),
        ([[0, 1, 2, 0, 1]] * 2, "expected [2, at most 4]"),
        (
            specverify.Generation([[0, 1, 2, 0]] * 2, [3]),  # type: ignore[list-item]  # the fault that is told
            "round 0 is of type int, expected specverify.Round",
        ),
        (
            specverify.Generation([[0, 1, 2, 0]] * 2, None),  # type: ignore[arg-type]  # the fault that is told
            "rounds is of type NoneType, expected a list of specverify.Round; leave it out to report none",
        ),
        (
            specverify.Generation([[0, 1, 2, 0]] * 2, iter([])),  # type: ignore[arg-type]  # the fault that is told
            "rounds is of type list_iterator, expected a list of specverify.Round",
        ),
    ],
)
def test_what_is_no_text_is_refused_in_one_line(tokens: Any, message: str) -> None:
    """Every form that the contract excludes names the row, what was got and what was expected."""
    with pytest.raises(OutputFault) as raised:
        _called(lambda target_model, prompt, max_new_tokens: tokens)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("drafts", "claimed", "accepted", "message"),
    [
        ([[1, 1]], [[[1, 0, 0]] * 2], [2], "accepts 2 of the drafts [1, 1], and has the tokens [0, 1, 2, 0]"),
        ([[0, 1]], [[[0.2, 0.2, 0.2]] * 2], [2], "which is no law: it sums to 0.6"),
        ([[0, 1]], [[[1, 0, 0]] * 2], [3], "accepts 3 of the drafts [0, 1]"),
        ([[0, 1]], [[1, 0, 0]], [2], "draft_probs of round 0 has shape [1, 3], expected [1, at most 2, 3]"),
        ([[0, 1]], "q", [2], "draft_probs of round 0 is no array of numbers"),
        ([[0, 1]], [[[1, 0, 0]] * 2], [1], "the rounds of row 0 make 2 tokens"),
        ([[0, 1, 2]], [[[1, 0, 0]] * 2], [1], "draft_tokens of round 0 of shape [1, 3], expected [1, at most 2]"),
    ],
)
def test_rounds_that_do_not_make_the_text_are_refused(drafts: Any, claimed: Any, accepted: Any, message: str) -> None:
    """What is reported has to add up to the tokens, and every claimed q has to be a law."""
    text = specverify.Generation([[0, 1, 2, 0]], [specverify.Round(drafts, claimed, accepted)])
    with pytest.raises(OutputFault) as raised:
        _called(lambda target_model, prompt, max_new_tokens: text, rows=1)
    assert message in str(raised.value)


def test_a_model_refuses_what_is_no_context() -> None:
    """A one-line error says what the function of a model takes."""
    for contexts, message in (
        (np.zeros((2, 0), dtype=np.int64), "pass whole contexts"),
        (np.zeros(3, dtype=np.int64), "pass whole contexts"),
        (np.array([[0.5]]), "pass whole contexts"),
        (np.array([[3]]), "expected tokens in 0..2, got 3 to 3"),
        (np.array([[1, -1]]), "pass no padding"),
    ):
        found = []

        def asks(target_model: Any, prompt: Any, max_new_tokens: int, contexts: Any = contexts) -> Any:
            try:
                target_model(contexts)
            except specverify.errors.SpecverifyError as error:
                found.append(str(error))  # noqa: B023 - called at once
            return np.zeros((len(prompt), max_new_tokens), dtype=np.int64)

        _called(asks)
        assert message in found[0]


def test_a_generator_gets_what_it_asks_for() -> None:
    """Names decide: prompts by row, numbers as they are, parameters of sampling, and the models as functions."""
    seen: dict[str, Any] = {}

    def asks(
        target_model: Any,
        draft_model: Any,
        prompt: Any,
        num_draft_tokens: int,
        max_new_tokens: int,
        eos_token_id: int | None,
        seeds: Any,
        top_k: int,
        logit_bias: Any,
        allowed_tokens: Any,
    ) -> Any:
        seen.update(locals())
        return np.zeros((len(prompt), max_new_tokens), dtype=np.int64)

    _called(asks, CASES["loop-top-k"])
    loop = base_loop()
    assert seen["prompt"].tolist() == [list(loop.prompt)] * 2
    assert (seen["num_draft_tokens"], seen["max_new_tokens"], seen["eos_token_id"], seen["top_k"]) == (2, 4, None, 2)
    assert seen["logit_bias"].tolist() == [0, 0, 0]
    assert seen["allowed_tokens"](np.array([[0]])).tolist() == [[True] * 3]
    assert len(set(seen["seeds"].tolist())) == 2
    rows = np.array([loop.prompt, loop.prompt])
    assert (seen["target_model"](rows) == loop.target(rows)).all()
    assert (seen["draft_model"](rows.tolist()) == loop.draft(rows)).all()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda prompt, max_new_tokens: None,
            "expected a generator to ask for prompt, max_new_tokens and target_model",
        ),
        (lambda target_model, prompt, max_new_token: None, "nearest first: max_new_tokens"),
        (lambda target_model, prompt, max_new_tokens, uniforms: None, "unknown parameter 'uniforms'"),
    ],
)
def test_a_declaration_that_cannot_be_met_is_refused(function: Any, message: str) -> None:
    """A misspelt parameter costs a second and not a run."""
    with pytest.raises(ContractError) as raised:
        specverify.generator(function)
    assert message in str(raised.value)


def test_cases_of_rounds_are_not_for_loops() -> None:
    """Nor the other way round: both are told in one line."""
    rounds = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
    with pytest.raises(ConfigError, match="expected a case of a loop for the generator"):
        specverify.check(plain, cases=[rounds])
    with pytest.raises(ConfigError, match="expected a case of rows for the verifier"):
        specverify.check(lambda draft_tokens: draft_tokens, cases=[CASES["loop"]])


def test_counts_do_not_depend_on_workers() -> None:
    """Two processes count what one counts."""
    one, two = (specverify.check(plain, cases=FEW[:3], samples=2000, workers=n) for n in (1, 2))
    assert [entry["observed"] for entry in one.checks] == [entry["observed"] for entry in two.checks]

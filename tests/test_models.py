"""A verifier that drafts by itself gets the two models, and its drafts, acceptance and output are all checked."""

from typing import Any

import numpy as np
import pytest

import specverify
from specverify.calling import call
from specverify.contract import Verifier, verifier
from specverify.errors import ContractError
from specverify.handing import Handed
from specverify.menu import menu
from specverify.reading import OutputFault, read_drafted
from specverify.reference import RandomTape, choose, token
from specverify.registry import load

CASES = {case.name: case for case in menu()}


def drafting(*, sharpen: float = 1.0, told: bool = True, rule: str | None = "token") -> Verifier:
    """Make a slow correct sampler that drafts from the draft model, at a temperature that it scores with or hides."""

    @verifier(rule=rule, name="own drafts", max_batch=4)
    def sampler(draft_model: Any, target_model: Any, num_draft_tokens: Any, seed: int) -> Any:
        tape_rng = np.random.default_rng(seed)
        rows = []
        for length in num_draft_tokens.tolist():
            x: list[int] = []
            q, p = [], []
            for _ in range(length):
                raw = np.exp(draft_model(np.array([x], dtype=np.int64).reshape(1, -1)))[0]
                law = raw**sharpen / (raw**sharpen).sum()
                x.append(choose(RandomTape(tape_rng), ("draft",), law.tolist()))
                q.append((law if told else raw).tolist())
            for i in range(length + 1):
                p.append(np.exp(target_model(np.array([x[:i]], dtype=np.int64).reshape(1, -1)))[0].tolist())
            rows.append((x, *token(RandomTape(tape_rng), x, q, p)))
        drafts = np.array([x for x, _, _ in rows]).reshape(len(rows), -1)
        return drafts, [k for _, k, _ in rows], [y for _, _, y in rows]

    return sampler


def status(report: specverify.Report, check: str) -> str:
    """Give the status of a check."""
    return str(next(record["status"] for record in report.checks if record["id"] == check))


def test_models_give_the_rows_of_the_case() -> None:
    """Log-probabilities after every prefix, minus infinity for zeros, as many at once as asked for."""
    seen = {}

    @verifier
    def look(draft_model: Any, target_model: Any, num_draft_tokens: Any) -> Any:
        seen["q"] = draft_model(np.array([[2], [0]]))
        seen["p"] = target_model(np.array([[1, 2]]))
        seen["size"], seen["lengths"] = target_model.vocab_size, num_draft_tokens.tolist()
        return np.zeros((2, 1), dtype=int)

    case = CASES["W402"]
    call(look, Handed(case, look), np.zeros((2, 2), dtype=np.int64), np.array([2, 2]), 0)
    np.testing.assert_allclose(np.exp(seen["q"]), [[9 / 14, 2 / 7, 1 / 14], [9 / 19, 1 / 19, 9 / 19]])
    np.testing.assert_allclose(np.exp(seen["p"]), [[2 / 13, 5 / 13, 6 / 13]])
    assert (seen["size"], seen["lengths"]) == (3, [2, 2])


@pytest.mark.parametrize("tokens", [[[5]], [[0, 0, 0]], [0], [["a"]], [[0.5]]])
def test_a_wrong_question_to_a_model_is_explained(tokens: Any) -> None:
    """The sampler that asks for what is not there gets one line, and the run a finding, not a crash."""

    @verifier
    def wrong(target_model: Any) -> Any:
        target_model(np.array(tokens))

    with pytest.raises(Exception, match="target_model: expected"):
        call(wrong, Handed(CASES["T3"], wrong), np.zeros((1, 1), dtype=np.int64), np.array([1]), 0)


@pytest.mark.parametrize("asks", ["draft_tokens", "target_probs", "uniforms", "bonus_tokens"])
def test_models_and_drafts_of_the_kit_exclude_each_other(asks: str) -> None:
    """A verifier drafts by itself or verifies what the kit drafted; it cannot do both."""
    scope: dict[str, Any] = {}
    exec(f"def both(target_model, {asks}): pass", scope)
    with pytest.raises(ContractError, match="expected either models"):
        verifier(scope["both"])
    with pytest.raises(ContractError, match="draft_model alone"):
        verifier(lambda draft_model: draft_model)


def test_a_correct_drafter_is_conformant_and_hidden_temperature_is_not() -> None:
    """With q told as drawn the output is lossless whatever the temperature; told otherwise it is not (Q04a)."""
    options: dict[str, Any] = {"samples": 250, "target_tv": 0.5, "alpha": 1e-10}
    fair = specverify.check(drafting(), **options)
    assert (fair.verdict, status(fair, "SV-DRF-001")) == ("conformant", "passed")
    sharp = specverify.check(drafting(sharpen=2.0, rule=None), **options)
    assert (sharp.verdict, sharp.lossless) == ("conformant", True)
    hidden = specverify.check(drafting(sharpen=2.0, told=False), **options)
    assert (hidden.verdict, hidden.lossless) == ("nonconformant", False)
    assert hidden.diagnosis[0]["fault"] == "Q04a"


def test_a_sharper_draft_that_is_told_is_lossless_but_not_the_declared_rule() -> None:
    """The drafts no longer follow the draft model, which a declared rule includes: only that check family fails."""
    report = specverify.check(drafting(sharpen=2.0), samples=250, target_tv=0.5)
    assert report.verdict == "nonconformant"
    assert status(report, "SV-DRF-001") == "failed"
    assert report.lossless is not False


def test_tokens_alone_are_enough_where_no_rule_is_declared() -> None:
    """Whoever drafts inside and shows the text only is judged on losslessness."""
    inner = drafting().function

    @verifier(name="text only", max_batch=4)
    def text(draft_model: Any, target_model: Any, num_draft_tokens: Any, seed: int) -> Any:
        drafts, kept, following = inner(draft_model, target_model, num_draft_tokens, seed)
        return [[*x[:k].tolist(), y] + [-1] * (len(x) - k) for x, k, y in zip(drafts, kept, following, strict=True)]

    report = specverify.check(text, samples=250, target_tv=0.5, alpha=1e-10)
    assert (report.verdict, report.lossless) == ("conformant", True)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (([[0, 1]], [3], [0]), "num_accepted 3"),
        (([[0, 9]], [0], [0]), "draft_tokens"),
        (([[0, -1]], [2], [0]), "num_accepted 2, expected 0 to 1"),
        (([[-1, 0]], [0], [0]), "expected -1 only after the last"),
        (([[0, 1]], [1]), "tuple of 2"),
        ([[0, 1, 2]], "declares a rule"),
        (([[0.5, 1.0]], [1], [0]), "expected integers"),
    ],
)
def test_what_a_drafter_returns_is_read_strictly(result: Any, message: str) -> None:
    """Anything but the triple, or the tokens where no rule is declared, is a finding with its row."""
    with pytest.raises(OutputFault, match=message):
        read_drafted(result, (1, 2), 3, triple=True)


def test_ragged_cases_are_left_out() -> None:
    """The kit gives a drafter one length per call, so that the ragged case is not planned."""
    from specverify.plan import plan

    assert "W637-ragged" not in {run.name for run in plan(load("fault:Q01")).runs}

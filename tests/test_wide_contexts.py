"""Laws that depend on the tokens before them are checked whole with more than 8 tokens too, or the case is refused."""

from typing import Any

import numpy as np
import pytest

import specverify
from specverify.adapters.builtin import reference
from specverify.arrays import FloatArray
from specverify.cases import Case
from specverify.errors import ConfigError
from specverify.loops import Loop, MarkovModel

SIZE = 12


def rows(seed: int, count: int, size: int = SIZE) -> FloatArray:
    """Make random laws float64 [count, V]."""
    weights = np.random.default_rng(seed).random((count, size)) + 0.2
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def case() -> Case:
    """Make a case of 12 tokens, one draft, and rows that depend on it."""
    target, after, draft = rows(1, 1), rows(2, SIZE), rows(3, 1)
    laws: dict[tuple[int, ...], list[float]] = {(): target[0].tolist()}
    laws.update(((token,), row) for token, row in enumerate(after.tolist()))
    return Case.from_table("twelve", laws, {(): draft[0].tolist()}, num_draft_tokens=1)


def loop(max_new_tokens: int, size: int = SIZE, num_draft_tokens: int = 2) -> Loop:
    """Make a loop over random tables of a token's successors."""
    models = [MarkovModel(np.log(rows(seed, size, size))[None], 1) for seed in (4, 5)]
    return Loop(models[0], models[1], (0,), num_draft_tokens, max_new_tokens)


def check(sampler: Any, *cases: Case, samples: int = 4000) -> specverify.Report:
    """Check a sampler on some cases."""
    return specverify.check(sampler, cases=list(cases), samples=samples, target_tv=0.9)


def test_a_wrong_bonus_of_a_context_is_seen() -> None:
    """A bonus from the row of another context leaves the first token right, and fails the joint law."""

    def mixed(draft_tokens: Any, num_draft_tokens: Any, draft_probs: Any, target_probs: Any, uniforms: Any) -> Any:
        wrong = target_probs.copy()
        wrong[:, 1] = target_probs[::-1, 1]
        return reference.function(draft_tokens, num_draft_tokens, draft_probs, wrong, uniforms)

    assert check(reference, case()).verdict == "conformant"
    report = check(mixed, case())
    failed = {entry["id"] for entry in report.checks if entry["status"] == "failed"}
    assert "SV-JNT-001" in failed
    assert "SV-TOK-001" not in failed


def plain(flat_from: int) -> Any:
    """Make a loop that draws token by token, from the target up to one place and then from all tokens alike."""

    def drawn(target_model: Any, prompt: Any, max_new_tokens: int, seed: int) -> Any:
        rng, contexts = np.random.default_rng(seed), prompt
        for place in range(max_new_tokens):
            laws = np.exp(target_model(contexts))
            laws /= laws.sum(axis=1, keepdims=True)
            laws = laws if place < flat_from else np.full_like(laws, 1 / laws.shape[1])
            new = (laws.cumsum(axis=1) <= rng.random((len(laws), 1))).sum(axis=1)
            contexts = np.concatenate([contexts, new[:, None]], axis=1)
        return contexts[:, prompt.shape[1] :]

    return drawn


def test_later_tokens_of_a_wide_loop_are_seen() -> None:
    """A loop of 12 tokens that goes wrong at its third is found by the joint law alone."""
    wide = Case.from_loop("wide-loop", loop(3))
    assert check(plain(3), wide, samples=20_000).verdict == "conformant"
    report = check(plain(2), wide, samples=20_000)
    failed = {entry["id"] for entry in report.checks if entry["status"] == "failed"}
    assert "SV-JNT-001" in failed
    assert "SV-TOK-001" not in failed
    assert report.document["diagnosis"]


@pytest.mark.parametrize(("size", "length"), [(12, 5), (8, 6), (300, 3)])
def test_a_loop_of_too_many_runs_is_refused(size: int, length: int) -> None:
    """A loop whose joint law could not be enumerated would pass with any later tokens: it is no case."""
    with pytest.raises(ConfigError, match=r"at most 200,000 runs of new tokens, got V=.*; use fewer tokens"):
        Case.from_loop("too-wide", loop(length, size))


def test_rounds_may_go_beyond_the_last_token() -> None:
    """A loop of four drafts reports all that it accepted, of which two tokens were asked for."""

    def overdrafts(
        target_model: Any, draft_model: Any, prompt: Any, num_draft_tokens: int, max_new_tokens: int, seed: int
    ) -> Any:
        rng, width = np.random.default_rng(seed), num_draft_tokens

        def law(model: Any, contexts: Any) -> Any:
            weights = np.exp(model(contexts))
            return weights / weights.sum(axis=1, keepdims=True)

        contexts = prompt
        claimed = []
        for _ in range(width):
            claimed.append(law(draft_model, contexts))
            new = (claimed[-1].cumsum(axis=1) <= rng.random((len(prompt), 1))).sum(axis=1)
            contexts = np.concatenate([contexts, new[:, None]], axis=1)
        drafts, start, kept = contexts[:, prompt.shape[1] :], prompt.shape[1], np.zeros(len(prompt), dtype=int)
        tokens = np.zeros((len(prompt), max(width + 1, max_new_tokens)), dtype=int)
        for row in range(len(prompt)):
            while kept[row] < width:
                at, token = kept[row], drafts[row, kept[row]]
                p = law(target_model, contexts[row : row + 1, : start + at])[0]
                q = claimed[at][row]
                if rng.random() * q[token] >= p[token]:
                    rest = np.maximum(p - q, 0)
                    break
                kept[row] += 1
            else:
                rest = law(target_model, contexts[row : row + 1])[0]
            last = int((rest.cumsum() <= rng.random() * rest.sum()).sum())
            tokens[row, : kept[row] + 1] = [*drafts[row, : kept[row]], last]
            more = np.append(contexts[row, :start], tokens[row, : kept[row] + 1])
            while len(more) < start + max_new_tokens:
                laws = law(target_model, more[None, :])[0]
                more = np.append(more, int((laws.cumsum() <= rng.random()).sum()))
            tokens[row, :max_new_tokens] = more[start : start + max_new_tokens]
        rounds = [specverify.Round(drafts, np.stack(claimed, axis=1), kept)]
        left = np.full(len(prompt), -1)
        for at in range(1, max_new_tokens):  # what was still missing came one by one, in rounds without drafts
            here = np.where(kept + 1 <= at, 0, left)
            nothing = np.full((len(prompt), 0), -1)
            rounds.append(specverify.Round(nothing, np.zeros((len(prompt), 0, target_model.vocab_size)), here))
        return specverify.Generation(tokens[:, :max_new_tokens], rounds)

    short = Case.from_loop("short", loop(2, 3, num_draft_tokens=4))
    report = check(specverify.generator(rule="token")(overdrafts), short)
    assert report.verdict == "conformant"

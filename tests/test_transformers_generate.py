"""Transformers' generate samples from the law that is asked for, with every draft but those of another vocabulary."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from specverify import registry
from specverify.cases import Case
from specverify.evidence import gof
from specverify.generating import Generation
from specverify.loop_menu import EOS, base_loop, loop_menu
from specverify.loops import Loop, MarkovModel
from specverify.processing import Sampling

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
calls = pytest.importorskip("specverify.adapters.transformers_calls")
loops = pytest.importorskip("specverify.adapters.transformers_generate")
universals = pytest.importorskip("specverify.adapters.transformers_universal")
models = pytest.importorskip("specverify.transformers_models")

PENALTIES = Sampling(repetition_penalty=4.0, logit_bias=(-1.0, 0.0, 0.7))  # in this order they do not commute
CASES = {
    case.name: case
    for case in (
        *loop_menu(),
        *models.llama_cases(),
        Case.from_loop("penalties", replace(base_loop(), sampling=PENALTIES, prompt=(1, 1, 1))),
    )
}
LEVEL = 1e-9
ENOUGH = 200
REPEATING = (1, 0, 1, 0)  # a prompt in which every token was followed by one before


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Put torch's generator and number of threads back after each test."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        yield
    torch.set_num_threads(threads)


def asked(name: str) -> Loop:
    """Give what a generate loop is asked for on a case."""
    loop: Loop | None = CASES[name].loop
    assert loop is not None
    return loop


def arguments(sampler: Any, loop: Loop) -> dict[str, Any]:
    """Give what a generator is called with."""
    given = {
        "target_model_transformers": models.as_transformers(loop.target),
        "draft_model_transformers": models.as_transformers(loop.draft),
        "prompt": torch.tensor([loop.prompt]),
        "num_draft_tokens": loop.num_draft_tokens,
        "max_new_tokens": loop.max_new_tokens,
    }
    given |= {name: loop.sampling.argument(name, loop.vocab_size) for name in sampler.asks - given.keys()}
    return {name: given[name] for name in sampler.asks}


def generations(sampler: Any, loop: Loop, count: int, seed: int = 5) -> list[Generation]:
    """Call a generator so many times, in one stream of random numbers."""
    given = arguments(sampler, loop)
    torch.manual_seed(seed)
    return [sampler.function(**given) for _ in range(count)]


def counts(made: list[Generation], loop: Loop) -> np.ndarray:
    """Count the blocks of new tokens, the end of sequence standing for what follows it: int64 [V ** L]."""
    tokens = np.concatenate([one.tokens.numpy() for one in made])
    if loop.target.eos_token_id is not None:
        tokens = np.where(tokens < 0, loop.target.eos_token_id, tokens)
    size = loop.vocab_size
    number = tokens @ size ** np.arange(loop.max_new_tokens)[::-1]
    return np.bincount(number, minlength=size**loop.max_new_tokens)


def law(loop: Loop) -> np.ndarray:
    """Give the exact law of blocks, float64 [V ** L]."""
    due = np.ones(1)
    for level in Case.from_loop("law", loop).target:
        due = (due[:, None] * level).ravel()
    return due


def fits(made: list[Generation], loop: Loop, other: Loop | None = None) -> bool:
    """Say whether blocks, and first tokens, follow the law of a loop, by default the one that was asked for."""
    seen, due, size = counts(made, loop), law(other or loop), loop.vocab_size
    first = gof(seen.reshape(size, -1).sum(axis=1), due.reshape(size, -1).sum(axis=1))
    return gof(seen, due, rigorous=True).p_value > LEVEL and first.p_value > LEVEL


# --- the law ---------------------------------------------------------------------------------------------------------

ASSISTED = [
    *("loop", "loop-no-draft", "loop-temperature-top-k", "loop-filters", "penalties", "loop-grammar"),
    *("loop-end", "loop-late-end", "loop-llama-temperature"),
]


@pytest.mark.parametrize("name", ASSISTED)
def test_drafts_of_a_model_change_no_law(name: str) -> None:
    """With a draft model, tokens follow the exact law; not the law without the parameters, where there are any."""
    loop = asked(name)
    made = generations(loops.assisted, loop, ENOUGH)
    assert fits(made, loop)
    if loop.sampling.set_names:
        assert not fits(made, loop, replace(loop, sampling=Sampling()))


@pytest.mark.parametrize("name", ["loop", "loop-temperature-top-k", "penalties", "loop-late-end"])
def test_drafts_that_are_looked_up_change_no_law(name: str) -> None:
    """With drafts copied from the tokens before, tokens follow the exact law."""
    loop = replace(asked(name), prompt=REPEATING)
    assert fits(generations(loops.prompt_lookup, loop, ENOUGH), loop)


@pytest.mark.parametrize("cropped", [True, False])
def test_a_cache_that_keeps_rejected_drafts_is_seen(cropped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library's rollback does nothing, tokens follow another law than the one they follow with it."""
    # Likely after a and any other token is (a + 2) % 3: after 1 0 it is 0, where 2 1 is drafted. After 0 0 it is 2
    # then, but where the draft stays in the cache the context is 1 0, and it is 0.
    rows = np.full((1, 9, 3), 0.05)
    rows[0, np.arange(9), (np.arange(9) // 3 + 2) % 3] = 0.9
    table = MarkovModel(np.log(rows), 2)
    loop = Loop(table, table, prompt=(0, 2, 1, 0), num_draft_tokens=2, max_new_tokens=3)
    if not cropped:
        monkeypatch.setattr(transformers.DynamicCache, "crop", lambda *_: None)
    assert fits(generations(loops.prompt_lookup, loop, ENOUGH), loop) == cropped


def test_the_default_of_top_k_is_not_used() -> None:
    """More than 50 tokens remain possible where top-k keeps all of them."""
    assert calls.sampling_options(1.0, 0, 1.0, 0.0)["top_k"] == 0


def test_a_prompt_of_the_pads_id_is_not_masked() -> None:
    """A target whose padding is a token of the prompt gives the same tokens as one without."""
    loop = base_loop()
    given = arguments(loops.assisted, loop)
    torch.manual_seed(3)
    plain = [loops.assisted.function(**given).tokens.tolist() for _ in range(20)]
    given["target_model_transformers"].generation_config.pad_token_id = 0
    torch.manual_seed(3)
    assert [loops.assisted.function(**given).tokens.tolist() for _ in range(20)] == plain


# --- rounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eos", [None, EOS])
def test_rounds_add_up_to_the_tokens(eos: int | None) -> None:
    """A round drafts up to the last place but one, and its accepted drafts and one more token come next."""
    loop = base_loop(eos)
    for made in generations(loops.assisted, loop, 60):
        tokens, at = made.tokens[0].tolist(), 0
        for step in made.rounds:
            drafts, accepted = step.draft_tokens[0].tolist(), int(step.num_accepted[0])
            assert len(drafts) == min(2, 3 - at) or drafts[-1] == eos
            assert tuple(step.draft_probs.shape) == (1, len(drafts), 3)
            assert tokens[at : at + accepted] == drafts[:accepted]
            at += accepted + 1
        length = tokens.index(-1) if -1 in tokens else 4
        assert at >= length
        assert length == 4 or tokens[length - 1] == eos


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(repetition_penalty=1.6), Sampling(logit_bias=(-1, 0, 0.7))])
def test_the_claimed_law_is_the_drafts(sampling: Sampling) -> None:
    """Every draft is said to follow the draft model's law after the tokens and drafts before it."""
    loop, compared = replace(base_loop(), sampling=sampling), 0
    for made in generations(loops.assisted, loop, 40):
        tokens, at = made.tokens[0].tolist(), 0
        for step in made.rounds:
            drafts = step.draft_tokens[0].tolist()
            for place in range(len(drafts)):
                due = loop.draft_laws(np.array([tokens[:at] + drafts[:place]], dtype=np.int64))
                np.testing.assert_allclose(step.draft_probs[:, place].numpy(), due, atol=1e-6)
                compared += 1
            at += int(step.num_accepted[0]) + 1
    assert compared > 80


def test_drafts_follow_the_claimed_law_at_another_temperature() -> None:
    """First drafts follow what is reported of them, whatever the library makes of the temperature for the assistant."""
    made = generations(loops.assisted, asked("loop-temperature"), ENOUGH)
    seen = np.bincount([int(one.rounds[0].draft_tokens[0, 0]) for one in made], minlength=3)
    claimed = made[0].rounds[0].draft_probs[0, 0].double().numpy()
    assert gof(seen, claimed / claimed.sum()).p_value > LEVEL


def test_the_librarys_step_is_put_back() -> None:
    """After a call, and after one that the library refuses, its verification step is its own again."""
    step = transformers.generation.utils._speculative_sampling
    given = arguments(loops.assisted, base_loop())
    loops.assisted.function(**given)
    assert transformers.generation.utils._speculative_sampling is step
    with pytest.raises(ValueError, match="batch_size = 1"):
        loops.assisted.function(**given | {"prompt": torch.zeros((2, 3), dtype=torch.int64)})
    assert transformers.generation.utils._speculative_sampling is step


def test_a_seed_of_the_global_generator_gives_the_same_tokens() -> None:
    """All randomness is torch's own, so that a seeded call can be replayed."""
    for sampler in (loops.assisted, loops.prompt_lookup, universals.universal):
        once, again, other = (
            [one.tokens.tolist() for one in generations(sampler, base_loop(), 8, seed)] for seed in (1, 1, 2)
        )
        assert once == again != other


@pytest.mark.parametrize(
    ("name", "rule"),
    [("transformers-assisted", "token"), ("transformers-prompt-lookup", None), ("transformers-universal", "token")],
)
def test_the_loops_are_registered(name: str, rule: str | None) -> None:
    """Each is found by its name, takes one prompt, and records the versions."""
    found = registry.load(name)
    assert (found.name, found.kind, found.rule, found.dtype) == (name, "generator", rule, "float32")
    assert (found.max_batch, "frequency_penalty" in found.asks) == (1, False)
    assert found.version.startswith("transformers ")


# --- another vocabulary ----------------------------------------------------------------------------------------------

TRANSLATION = "_get_assistant_to_target_input_ids"
TWO = replace(base_loop(), max_new_tokens=2)  # one round of one draft


def shared_ids(assistance: Any) -> list[int]:
    """List the assistant's ids of the shared tokens as the library's translator does."""
    cached = transformers.generation.candidate_generator.AssistantVocabTranslatorCache
    translator = cached.get_translator(assistance.tokenizer, assistance.assistant_tokenizer, 3)
    return list(translator.target_to_assistant_input_ids.values())


def proposals_fit(made: list[Generation]) -> bool:
    """Say whether first proposals follow the law reported for them, which is the same in every call."""
    seen = np.bincount([int(one.rounds[0].draft_tokens[0, 0]) for one in made], minlength=3)
    reported = made[0].rounds[0].draft_probs[0, 0].double().numpy()
    return gof(seen, reported / reported.sum()).p_value > LEVEL


def test_universal_drafting_is_wrong_unless_the_shared_ids_ascend() -> None:
    """As shipped, proposals follow the reported law, and tokens the target's, only in a process with a lucky order."""
    made = generations(universals.universal, TWO, 2 * ENOUGH)
    ids = shared_ids(universals.as_shipped(3))
    assert proposals_fit(made) == (ids == sorted(ids))
    if ids == sorted(ids):
        assert fits(made, TWO)


@pytest.mark.parametrize("name", ["loop", "loop-temperature-top-k"])
def test_universal_drafting_is_right_in_the_order_of_the_assistants_ids(name: str) -> None:
    """With the shared tokens listed by the assistant's ids, and nothing else changed, both laws are right."""
    made = generations(universals.universal_ordered, asked(name), ENOUGH)
    assert (proposals_fit(made), fits(made, asked(name))) == (True, True)
    assert shared_ids(universals.as_ordered(3)) == sorted(shared_ids(universals.as_ordered(3)))


@pytest.mark.parametrize("descending", [False, True])
def test_the_order_of_the_shared_ids_is_the_cause(descending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the order is forced to descend, both laws are wrong in every process; where it ascends, both are right."""
    translator = transformers.generation.candidate_generator.AssistantToTargetTranslator
    translation = getattr(translator, TRANSLATION)

    def forced(self: Any) -> Any:
        to_target, to_assistant = translation(self)
        return to_target, dict(sorted(to_assistant.items(), key=lambda ids: ids[1], reverse=descending))

    monkeypatch.setattr(translator, TRANSLATION, forced)
    assistance, options = universals.assistance(3), calls.sampling_options(1.0, 0, 1.0, 0.0)
    target, prompt = models.as_transformers(TWO.target), torch.tensor([TWO.prompt])
    torch.manual_seed(8)
    made = [universals.with_assistance(target, prompt, 2, 2, options, assistance) for _ in range(2 * ENOUGH)]
    assert (proposals_fit(made), fits(made, TWO)) == ((False, False) if descending else (True, True))


def test_without_drafts_universal_drafting_is_plain_sampling() -> None:
    """The control without a draft follows the law, and reports no rounds."""
    loop = asked("loop-no-draft")
    made = generations(universals.universal, loop, ENOUGH)
    assert fits(made, loop)
    assert made[0].rounds == ()


def test_the_translation_is_put_back() -> None:
    """The counterfactual changes the library for the length of its own call."""
    translator = transformers.generation.candidate_generator.AssistantToTargetTranslator
    before = getattr(translator, TRANSLATION)
    given = arguments(universals.universal_ordered, base_loop())
    universals.universal_ordered.function(**given)
    with pytest.raises(AttributeError):
        universals.universal_ordered.function(**given | {"target_model_transformers": SimpleNamespace()})
    assert getattr(translator, TRANSLATION) is before


@pytest.mark.parametrize(("ended", "due"), [(True, 2), (False, 1)])
def test_a_release_that_counts_an_accepted_end_as_refused_is_read_rightly(
    ended: bool, due: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Release 4.57.1 takes one off where all drafts are accepted and the last one ends the sequence: both are kept."""
    drafts = torch.tensor([[1, 2]])
    counting = lambda ids, logits, length, new, is_done: (drafts, torch.tensor(length - 1))  # noqa: ARG005, E731
    monkeypatch.setattr(calls.utils, "_speculative_sampling", counting)
    with calls.recorded_rounds() as rounds:
        scores = torch.zeros((1, 2, 3)), torch.zeros((1, 3, 3))
        calls.utils._speculative_sampling(torch.tensor([[0, 1, 2]]), scores[0], 2, scores[1], torch.tensor(ended))
    assert rounds[0].num_accepted.tolist() == [due]

"""The law of a loop's new tokens is exact, and its built-in cases tell apart what loops confuse."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from specverify.cases import Case
from specverify.errors import ConfigError, ContractError
from specverify.loop_menu import BRACKETS, EOS, MATE, base_loop, flat_loop, loop_menu
from specverify.loops import Loop, MarkovModel, prefixes
from specverify.processing import PLAIN, Grammar, Sampling

MENU = {case.name: case for case in loop_menu()}
HALF = [[0.5, 0.5]]
# Two phases, order 1: row [phase][last token]; every number is another.
PHASED = MarkovModel(np.log([[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.4, 0.6]]]), 1)
COIN = MarkovModel(np.log([HALF]), 0)


def loop_of(name: str) -> Loop:
    """Give what a generator is asked for on a case of the menu."""
    loop = MENU[name].loop
    assert loop is not None
    return loop


def joint(case: Case) -> np.ndarray:
    """Give the law of all new tokens, float64 [V ** L], from the rows of the case."""
    law = np.ones(1)
    for level in case.target:
        law = (law[:, None] * level).ravel()
    return law


def tv(one: np.ndarray, other: np.ndarray) -> Any:
    """Give the total variation of laws along the last axis."""
    return np.abs(one - other).sum(axis=-1) / 2


# --- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "due"),
    [([0], [0.7, 0.3]), ([1], [0.4, 0.6]), ([1, 0], [0.9, 0.1]), ([0, 1], [0.8, 0.2]), ([1, 1, 0], [0.7, 0.3])],
)
def test_a_law_depends_on_the_last_token_and_the_length(context: list[int], due: list[float]) -> None:
    """Contexts of odd length have the rows of phase 1, those of even length the rows of phase 0."""
    np.testing.assert_allclose(np.exp(PHASED(np.array([context]))), [due])


def test_two_tokens_count_the_first_leading() -> None:
    """With order 2 the row is numbered by the last two tokens, and a missing one counts as 0."""
    rows = np.random.default_rng(0).dirichlet(np.ones(3), (1, 9))
    model = MarkovModel(np.log(rows), 2)
    for context, row in (([1, 2], 5), ([0, 2, 1], 7), ([2], 2), ([], 0)):
        np.testing.assert_allclose(np.exp(model(np.array([context], dtype=np.int64)))[0], rows[0, row])


def test_contexts_may_be_lists_and_of_any_integer_type() -> None:
    """What a loop writes for token ids gives the same rows, and many contexts at once one row each."""
    due = PHASED(np.array([[0, 1], [1, 0]]))
    assert due.shape == (2, 2)
    for kind in (np.int8, np.uint8, np.int32, np.uint64):
        assert (PHASED(np.array([[0, 1], [1, 0]], dtype=kind)) == due).all()
    assert (PHASED([[0, 1], [1, 0]]) == due).all()  # type: ignore[arg-type]
    assert PHASED(np.zeros((0, 3), dtype=np.int64)).shape == (0, 2)


@pytest.mark.parametrize("contexts", [[0], 0, [[0.5]], [[-1]], [[0, 2]], [[["a"]]], [[[0]]]])
def test_a_wrong_context_is_refused(contexts: Any) -> None:
    """A row instead of a batch, a float or a token that is not there is one line, not another row's law."""
    with pytest.raises(ContractError, match=r"^expected (contexts int|tokens in 0\.\.1)[^\n]*$"):
        PHASED(contexts)


@pytest.mark.parametrize(
    ("rows", "order", "message"),
    [
        (HALF, 0, "shape"),
        ([HALF], 1, "shape"),
        ([[[0.5, 0.6]]], 0, "sum to 1"),
        ([[[0.5, np.nan]]], 0, "sum to 1"),
        ([HALF], -1, "order"),
    ],
)
def test_rows_that_are_no_laws_are_refused(rows: Any, order: int, message: str) -> None:
    """A model has one law for each phase and each run of tokens."""
    with pytest.raises(ConfigError, match=rf"^expected [^\n]*{message}[^\n]*$"):
        MarkovModel(np.log(rows), order)


def test_a_model_keeps_its_rows() -> None:
    """What the caller does to the array, or the loop to a result, does not change the model."""
    rows = np.log([HALF])
    model = MarkovModel(rows, 0)
    rows[:] = 0
    model(np.array([[0]]))[:] = 0
    assert np.exp(model(np.array([[0]]))).tolist() == HALF


def test_prefixes_are_numbered_as_cases_number_them() -> None:
    """All runs of a length, the first token leading; one empty run of length 0."""
    for size, length in ((2, 3), (3, 2), (1, 4), (5, 1)):
        assert prefixes(size, length).tolist() == [list(run) for run in product(range(size), repeat=length)]
    assert prefixes(4, 0).shape == (1, 0)


# --- loops -----------------------------------------------------------------------------------------------------------


def test_laws_follow_the_prompt() -> None:
    """The prompt is part of the context, in its tokens and in its length."""
    for prompt, due in (((0,), [0.7, 0.3]), ((1,), [0.4, 0.6]), ((0, 1), [0.8, 0.2])):
        loop = Loop(PHASED, COIN, prompt, 1, 2)
        np.testing.assert_allclose(loop.target_laws(np.zeros((1, 0), dtype=np.int64)), np.array([due]))
        np.testing.assert_allclose(loop.draft_laws(np.zeros((1, 0), dtype=np.int64)), HALF)
    np.testing.assert_allclose(Loop(PHASED, COIN, (0,), 1, 2).target_laws(np.array([[1]])), [[0.8, 0.2]])


def test_sampling_parameters_act_on_both_models() -> None:
    """The target and the draft get the same parameters, and penalties see prompt and new tokens."""
    loop = Loop(PHASED, PHASED, (0,), 1, 2, Sampling(repetition_penalty=2, temperature=0.5))
    due = np.array([0.7**4, 0.3**2])
    for laws in (loop.target_laws, loop.draft_laws):
        np.testing.assert_allclose(laws(np.zeros((1, 0), dtype=np.int64)), [due / due.sum()])


def test_nothing_follows_the_end_but_the_end() -> None:
    """Once the end was generated it is certain; one in the prompt ends nothing, and drafts need no rule there."""
    ending = replace(PHASED, eos_token_id=1)
    loop = Loop(ending, ending, (1,), 1, 3)
    np.testing.assert_allclose(loop.target_laws(np.zeros((1, 0), dtype=np.int64)), [[0.4, 0.6]])
    laws = loop.target_laws(np.array([[0, 0], [1, 0], [0, 1]]))
    np.testing.assert_allclose(laws, [[0.7, 0.3], [0.0, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(loop.draft_laws(np.array([[1]])), [[0.8, 0.2]])


@pytest.mark.parametrize("name", ["loop", "loop-end", "loop-late-end", "loop-repetition", "loop-grammar", "loop-deep"])
def test_a_case_has_the_law_of_every_run(name: str) -> None:
    """The product of a case's rows is, for every run of new tokens, the product of the loop's laws one by one."""
    case, loop = MENU[name], loop_of(name)
    law, size, length = joint(case), loop.vocab_size, loop.max_new_tokens
    assert len(case.target) == len(case.draft) + 1 == length
    for number, run in enumerate(product(range(size), repeat=length)):
        due = 1.0
        for i, token in enumerate(run):
            context = np.array([[*loop.prompt, *run[:i]]])
            row = loop.sampling.law(
                loop.target(context), np.array([run[:i]], dtype=np.int64), loop.prompt, end_of(loop)
            )
            due *= float(token == end_of(loop)) if end_of(loop) in run[:i] else row[0, token]
        assert law[number] == pytest.approx(due, abs=1e-15)
    assert law.sum() == pytest.approx(1, abs=1e-12)


def test_the_same_loop_for_another_prompt() -> None:
    """Batch mates are asked for the same with their own prompt, and have no mates."""
    loop = loop_of("loop-mates").asked_of(MATE)
    assert (loop.prompt, loop.mate, loop.target) == (MATE, (), loop_of("loop-mates").target)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": (0, 2)}, "each token of prompt to be an integer from 0 to 1, got 2"),
        ({"prompt": (-1,)}, "each token of prompt to be an integer from 0 to 1, got -1"),
        ({"prompt": (0.0,)}, "each token of prompt"),
        ({"prompt": ()}, "a prompt of one token or more"),
        ({"mate": (0, 1)}, "a prompt of one token or more, and a mate of none or as many"),
        ({"mate": (2,)}, "each token of mate"),
        ({"max_new_tokens": 0}, "max_new_tokens to be an integer from 1"),
        ({"max_new_tokens": 2.0}, "max_new_tokens"),
        ({"num_draft_tokens": -1}, "num_draft_tokens to be an integer from 0"),
        ({"process": -1}, "process"),
        ({"draft": flat_loop(3).loop.draft}, "the draft model's vocabulary to be of 2 tokens"),  # type: ignore[union-attr]
        ({"target": replace(COIN, eos_token_id=2)}, "eos_token_id"),
        ({"sampling": Sampling(logit_bias=(0.0, 0.0, 1.0))}, "the logit_bias to be of 2 tokens"),
        ({"sampling": Sampling(allowed_tokens=BRACKETS)}, "the grammar to be of 2 tokens"),
    ],
)
def test_what_no_loop_can_be_asked_is_refused(changes: dict[str, Any], message: str) -> None:
    """One line says what was expected and what was given, when the loop is made."""
    arguments: dict[str, Any] = {"target": COIN, "draft": COIN, "prompt": (0,), "num_draft_tokens": 1}
    with pytest.raises(ConfigError, match=rf"^expected {message}[^\n]*$"):
        Loop(**{**arguments, "max_new_tokens": 2, **changes})


def test_a_case_that_is_too_large_or_has_no_law_is_refused() -> None:
    """Every run of new tokens is a cell, and every run has a next token."""
    with pytest.raises(
        ConfigError, match="expected at most 200,000 runs of new tokens, got V=2 with max_new_tokens=22"
    ):
        Case.from_loop("long", Loop(COIN, COIN, (0,), 1, 22))
    grammar = Grammar(((1,), (0,)), ((1, 1), (1, 1)), 2)
    stopping = Sampling(allowed_tokens=grammar, logit_bias=(-np.inf, 0.0))
    with pytest.raises(ConfigError, match=r"after the generated tokens \[0\], got none"):
        Case.from_loop("stopping", Loop(COIN, COIN, (0,), 1, 2, stopping))


def test_tokens_of_a_prompt_may_be_of_numpy() -> None:
    """A prompt is kept as a tuple of ints, whatever it was given as."""
    assert Loop(COIN, COIN, np.array([0, 1]), 1, 2).prompt == (0, 1)  # type: ignore[arg-type]


# --- the menu --------------------------------------------------------------------------------------------------------


def end_of(loop: Loop) -> int | None:
    """Give the token that ends a sequence."""
    return loop.target.eos_token_id


def live(case: Case) -> list[np.ndarray]:
    """Give the probability of every prefix of every length, 0 where the sequence has ended: what is drafted after."""
    assert case.loop is not None
    weights, weight = [], np.ones(1)
    for length, level in enumerate(case.target):
        ended = (prefixes(case.vocab_size, length) == end_of(case.loop)).any(axis=1)
        weights.append(np.where(ended | (weight < 1e-9), 0, weight))
        weight = (weight[:, None] * level).ravel()
    return weights


@pytest.mark.parametrize("name", MENU)
def test_no_two_rows_of_a_round_are_equal(name: str) -> None:
    """On every run that is possible, a round's target rows are all apart: a shifted row is another law."""
    case, loop = MENU[name], loop_of(name)
    size, weights = case.vocab_size, live(case)
    for first, level in enumerate(case.target):
        for steps in range(1, min(loop.num_draft_tokens, len(case.draft) - first) + 1):
            apart = tv(np.repeat(level, size**steps, axis=0), case.target[first + steps])
            assert apart[weights[first + steps] > 0].min() > 0.03


@pytest.mark.parametrize("name", [name for name in MENU if loop_of(name).sampling is PLAIN and "end" not in name])
def test_each_of_the_last_two_tokens_counts(name: str) -> None:
    """The rows after prefixes that differ in one of the last two tokens are apart: the cache of another is seen."""
    loop = loop_of(name)
    size, due = loop.vocab_size, prefixes(loop.vocab_size, 2)
    for length in range(2, 7):
        contexts = np.concatenate([np.zeros((len(due), length - 2), dtype=np.int64), due], axis=1)
        rows = np.exp(loop.target(contexts))
        apart = tv(rows[:, None], rows[None]) + np.eye(size**2)
        assert apart.min() > 0.03


@pytest.mark.parametrize("name", MENU)
def test_drafts_are_half_right(name: str) -> None:
    """At each position a draft is mostly accepted, and often enough rejected."""
    case = MENU[name]
    for p, q, weight in zip(case.target, case.draft, live(case), strict=False):
        accepted = (weight * np.minimum(p, q).sum(axis=1)).sum() / weight.sum()
        assert 0.5 - 1e-12 <= accepted < 0.97


@pytest.mark.parametrize("name", [name for name in MENU if loop_of(name).sampling != PLAIN])
def test_every_sampling_parameter_changes_the_law(name: str) -> None:
    """A loop that ignores a parameter of a case, any one of them, has another law of its new tokens."""
    loop = loop_of(name)
    for parameter in loop.sampling.set_names:
        without = replace(loop.sampling, **{parameter: getattr(PLAIN, parameter)})
        assert tv(joint(MENU[name]), joint(Case.from_loop("without", replace(loop, sampling=without)))) > 0.01


def test_every_sampling_parameter_has_a_case() -> None:
    """Each is set alone in a case, so that a loop is held to what it asks for."""
    alone = {next(iter(names)) for name in MENU if len(names := loop_of(name).sampling.set_names) == 1}
    assert alone == set(Sampling.__dataclass_fields__)


def test_the_repetition_penalty_depends_on_what_was_generated() -> None:
    """The prompt leaves tokens to count: a loop that penalises those of the prompt alone has another law."""
    loop = loop_of("loop-repetition")
    assert len(set(loop.prompt)) < loop.vocab_size - 1
    law = np.ones(1)
    for level in loop.levels(lambda runs: frozen_history(loop, runs), loop.max_new_tokens):
        law = (law[:, None] * level).ravel()
    assert tv(joint(MENU["loop-repetition"]), law) > 0.1


def frozen_history(loop: Loop, runs: np.ndarray) -> np.ndarray:
    """Give the laws of a loop whose penalty never hears of the new tokens."""
    contexts = np.concatenate([np.tile(loop.prompt, (len(runs), 1)), runs], axis=1).astype(np.int64)
    return loop.sampling.law(loop.target(contexts), np.zeros((len(runs), 0), dtype=np.int64), loop.prompt)


def test_the_filters_of_the_menu_depend_on_their_order() -> None:
    """Top-p before the temperature, or on what top-k did not renormalise, is another law."""
    loop = loop_of("loop-filters")
    s, due = loop.sampling, MENU["loop-filters"].target
    runs = [prefixes(3, length) for length in range(loop.max_new_tokens)]
    raw = [replace(loop, sampling=PLAIN).target_laws(run) for run in runs]
    late = [replace(s, temperature=1.0).filtered(rows) ** (1 / s.temperature) for rows in raw]
    hot = [replace(loop, sampling=Sampling(temperature=s.temperature)).target_laws(run) for run in runs]
    apart = [Sampling(top_k=s.top_k).filtered(rows) * Sampling(top_p=s.top_p).filtered(rows) for rows in hot]
    for wrong in (late, [np.sqrt(rows) for rows in apart]):
        levels = [rows / rows.sum(axis=1, keepdims=True) for rows in wrong]
        assert max(tv(a, b).max() for a, b in zip(levels, due, strict=True)) > 0.1


@pytest.mark.parametrize("name", MENU)
def test_no_filter_has_a_tie_to_decide(name: str) -> None:
    """Each token is clearly kept or clearly dropped: correct loops may cut ties, and round, as they like."""
    loop, sampling = loop_of(name), loop_of(name).sampling
    for length in range(loop.max_new_tokens):
        tempered = replace(loop, sampling=replace(sampling, top_k=0, top_p=1.0, min_p=0.0))
        laws = tempered.target_laws(prefixes(loop.vocab_size, length))
        ranked = -np.sort(-laws, axis=1)
        if sampling.top_k:
            assert (ranked[:, sampling.top_k - 1] / ranked[:, sampling.top_k]).min() > 1.2
            ranked = -np.sort(-Sampling(top_k=sampling.top_k).filtered(laws), axis=1)
        if sampling.top_p < 1:
            assert np.abs(np.cumsum(ranked, axis=1) - sampling.top_p).min() > 0.01
        if sampling.min_p:
            assert np.abs(ranked / ranked[:, :1] - sampling.min_p).min() > 0.01


def test_the_mates_of_the_menu_have_another_law() -> None:
    """A row that got the cache of its neighbour is far from its own law, and from the first token on."""
    loop = loop_of("loop-mates")
    other = Case.from_loop("other", loop.asked_of(loop.mate))
    assert tv(joint(MENU["loop-mates"]), joint(other)) > 0.1
    assert tv(MENU["loop-mates"].target[0], other.target[0]).min() > 0.1


def test_an_end_may_come_early_and_late() -> None:
    """At each position the sequence ends with a probability that is neither none nor all, but before a minimum not."""
    for name, least in (("loop-end", 0), ("loop-late-end", 2)):
        for length, (level, weight) in enumerate(zip(MENU[name].target, live(MENU[name]), strict=True)):
            ends = level[weight > 0, EOS]
            assert (ends == 0).all() if length < least else ((ends > 0.05) & (ends < 0.95)).all()


def test_the_names_of_the_menu_are_unique_and_described() -> None:
    """Every case can be named in a report, and says in one line what it is good for."""
    assert len(MENU) == len(loop_menu())
    assert all(case.description and "\n" not in case.description for case in MENU.values())


def test_processes_differ_by_name_only() -> None:
    """The case of a fresh process asks for what this one asks for."""
    fresh = [loop_of(name) for name in MENU if name.startswith("loop-process-")]
    assert [loop.process for loop in fresh] == [1, 2, 3]
    for loop in fresh:
        assert tv(joint(Case.from_loop("fresh", loop)), joint(MENU["loop"])) == 0


def test_the_base_of_the_menu_is_its_first_case() -> None:
    """What the cases vary is the loop of the first one."""
    assert tv(joint(Case.from_loop("base", base_loop())), joint(MENU["loop"])) == 0


def test_flat_tokens_are_fair_whatever_is_drafted() -> None:
    """The case for shared randomness has equal rows of any size, with drafts that are not."""
    case = flat_loop(7)
    assert all((np.abs(level - 1 / 7) < 1e-15).all() for level in case.target)
    assert tv(case.target[0], case.draft[0]).min() > 0.1

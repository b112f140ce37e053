"""Calls that are built and read together come to what they come to one by one, and go wrong as they do there."""

import random
from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from typing import Any

import numpy as np
import pytest

from specverify.calling import Caller, Reply, SamplerRaised, call
from specverify.contract import Verifier, verifier
from specverify.handing import Handed
from specverify.menu import menu, softmax_case
from specverify.randomness import global_randomness
from specverify.reading import OutputFault
from specverify.sampling import CaseSampler
from specverify.together import replies

CASES = {case.name: case for case in menu()} | {"softmax-300": softmax_case("softmax-300", 300, 2, 2.0)}
ROWS = 40


def one_by_one(*given: Any, **options: Any) -> Reply:
    """Make a call as ``call`` does, without being it."""
    return call(*given, **options)


def made(mine: Verifier, case: str = "W402", batch: int = 1, caller: Caller = call) -> Reply:
    """Make the calls of 40 rows, and give all that they came to."""
    handed = Handed(CASES[case], mine)
    drafts, lengths = CaseSampler(handed.case).draft(ROWS, np.random.default_rng(1))
    bounds = [(start, min(start + batch, ROWS)) for start in range(0, ROWS, batch)]
    seeds = list(range(100, 100 + len(bounds)))
    with global_randomness():
        found = list(replies(caller, mine, handed, drafts, lengths, bounds, seeds))
    assert [part.start for part, _ in found] == [0, *(part.stop for part, _ in found[:-1])]
    assert found[-1][0].stop == ROWS
    accepted, following = (np.concatenate([getattr(reply, name) for _, reply in found]) for name in FIELDS)
    warnings = dict.fromkeys(text for _, reply in found for text in reply.warnings)
    apart = caller is not call or not mine.asks.isdisjoint({"seeds", "bonus_tokens", "uniforms"})
    assert len(found) == (len(bounds) if apart else 2)
    return Reply(accepted, following, tuple(warnings))


FIELDS = ("num_accepted", "next_token")


def same(mine: Verifier, **options: Any) -> bool:
    """Say whether the calls of a verifier come to the same together and one by one."""
    together, apart = made(mine, **options), made(mine, **options, caller=one_by_one)
    return (
        np.array_equal(together.num_accepted, apart.num_accepted)
        and np.array_equal(together.next_token, apart.next_token)
        and together.warnings == apart.warnings
    )


def seeded(draft_tokens: Any, target_probs: Any, draft_probs: Any, seed: int) -> Any:
    """Return what depends on all that it was given."""
    rng = np.random.default_rng([seed, len(draft_tokens)])
    sums = (target_probs * np.arange(1, target_probs.size + 1).reshape(target_probs.shape)).sum(axis=(1, 2))
    marks = (1e6 * (sums + 3 * draft_probs.sum(axis=(1, 2)) + draft_tokens.sum(axis=1))).astype(np.int64)
    return np.zeros(len(draft_tokens), dtype=np.int64), (marks + rng.integers(0, 99)) % target_probs.shape[2]


@pytest.mark.parametrize("batch", [1, 3, 40])
@pytest.mark.parametrize("case", ["AB", "W402", "W637-ragged", "softmax-300"])
def test_each_call_has_rows_and_a_seed_of_its_own(case: str, batch: int) -> None:
    """Rows of tables, contexts, drafts and seeds are those of the call, in plain, contextual and ragged cases."""
    function: Any = seeded
    if case == "W637-ragged":

        def function(num_draft_tokens: Any, **given: Any) -> Any:
            accepted, following = seeded(**given)
            return np.minimum(accepted, num_draft_tokens), (following + num_draft_tokens) % 3

        function.__signature__ = _signature("num_draft_tokens", "draft_tokens", "target_probs", "draft_probs", "seed")
    mine = verifier(function)
    if batch < ROWS:
        assert same(mine, case=case, batch=batch)
    else:
        handed = Handed(CASES[case], mine)
        drafts, lengths = CaseSampler(handed.case).draft(ROWS, np.random.default_rng(1))
        [(part, reply)] = replies(call, mine, handed, drafts, lengths, [(0, ROWS)], [5])
        assert part == slice(0, ROWS)
        assert np.array_equal(reply.next_token, call(mine, handed, drafts, lengths, 5).next_token)


def _signature(*names: str) -> Any:
    return Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in names])


def test_a_generator_is_fresh_in_each_call() -> None:
    """One generator for all calls would give other numbers than one for each."""

    def drawn(draft_tokens: Any, generator: Any) -> Any:
        return np.zeros(len(draft_tokens), dtype=np.int64), generator.integers(0, 3, len(draft_tokens))

    assert same(verifier(drawn))
    assert len(set(made(verifier(drawn)).next_token.tolist())) == 3


@pytest.mark.parametrize("asked", ["seeds", "bonus_tokens", "uniforms"])
def test_what_is_drawn_for_each_call_is_not_built_for_many(asked: str) -> None:
    """Seeds of rows, bonus tokens and uniforms follow from the seed of a call: such calls are made one by one."""

    def drawn(draft_tokens: Any, **given: Any) -> Any:
        value = given[asked].final if asked == "uniforms" else given[asked]
        return draft_tokens[:, 0] * 0, (np.asarray(value) * 1000).astype(np.int64) % 3

    drawn.__signature__ = _signature("draft_tokens", asked)  # type: ignore[attr-defined]  # what is asked for
    assert same(verifier(drawn), batch=2)


@pytest.mark.parametrize("draw", [random.randrange, np.random.randint])  # the global generators
def test_global_generators_are_seeded_for_each_call(draw: Callable[[int], int]) -> None:
    """The global generators start anew in every call, whatever library they are of, as in calls made one by one."""
    mine = verifier(lambda draft_tokens: (draft_tokens[:, 0] * 0, np.array([draw(3)])))
    assert same(mine)
    assert len(set(made(mine).next_token.tolist())) == 3


def test_tensors_are_parts_too() -> None:
    """Tensors are cut as arrays are, and the global generator of torch starts anew in every call."""
    torch = pytest.importorskip("torch")

    def drawn(draft_tokens: Any, target_probs: Any) -> Any:
        assert target_probs.is_contiguous()
        more = (target_probs.sum(dim=(1, 2)) * 1e4).long() + draft_tokens.sum(dim=1)
        return torch.cat((draft_tokens[:, :0], ((more + torch.randint(0, 9, more.shape)) % 3)[:, None]), dim=1)

    assert same(verifier(framework="torch", dtype="float32")(drawn), batch=2)


@pytest.mark.parametrize("form", ["pairs", "tokens", "lists", "reused", "mixed", "narrow", "unsigned"])
def test_every_form_is_read(form: str) -> None:
    """Arrays are read together, other forms by themselves, and one array that is returned again and again is copied."""
    kept = np.empty((1, 3), dtype=np.int64)

    def returned(draft_tokens: Any, seed: int) -> Any:
        token = seed % 3
        rows = np.array([[*draft_tokens[0, : seed % 3], token, -1, -1][:3]])
        if form == "reused":
            kept[...] = rows
            return kept
        pair = np.array([seed % 3]), np.array([token])
        answers = {
            "pairs": pair,
            "tokens": rows,
            "lists": rows.tolist(),
            "mixed": (rows, rows.tolist(), pair, rows.astype(np.int8))[seed % 4],
            "narrow": rows[:, : seed % 3 + 1],
            "unsigned": tuple(part.astype(np.uint64) for part in pair),
        }
        return answers[form]

    mine = verifier(returned)
    assert same(mine)
    assert made(mine).next_token.tolist() == [seed % 3 for seed in range(100, 140)]


def wrong_at(seed_at: int, answer: Any) -> Verifier:
    """Make a verifier that is right but in the call of one seed."""

    def sometimes(draft_tokens: Any, seed: int) -> Any:
        if seed == seed_at:
            return answer() if callable(answer) else answer
        return np.zeros(len(draft_tokens), dtype=np.int64), np.ones(len(draft_tokens), dtype=np.int64)

    return verifier(sometimes)


def fails() -> None:
    """Fail."""
    raise ValueError("no such call")


@pytest.mark.parametrize(
    "answer",
    [
        (np.array([0, 9]), np.array([1, 1])),
        (np.array([0, 0]), np.array([1, 7])),
        np.array([[0, 0, 0], [9, -1, -1]]),
        np.array([[0, -1, 0], [1, -1, -1]]),
        np.array([0, 0]),
        (np.array([0.0, 0.0]), np.array([1, 1])),
        (np.array([2**63, 0], dtype=np.uint64), np.array([1, 1])),
        np.zeros((2, 9), dtype=np.int64),
        None,
        fails,
    ],
)
def test_what_is_wrong_is_told_as_in_its_own_call(answer: Any) -> None:
    """The message is that of the call made by itself: its row is counted there, and its input is shown."""
    told = []
    for caller in (call, one_by_one):
        with pytest.raises((OutputFault, SamplerRaised)) as caught:
            made(wrong_at(111, answer), batch=2, caller=caller)
        told.append((type(caught.value), str(caught.value)))
    assert told[0] == told[1]


def test_writing_to_an_argument_is_seen_and_reaches_no_other_call() -> None:
    """Each call has memory of its own: what one writes is told, and no later one finds it."""
    seen: list[float] = []

    def writes(draft_tokens: Any, target_probs: Any, seed: int) -> Any:
        seen.append(float(target_probs.sum()) + 0 * seed)
        target_probs[...] = 7.0
        return draft_tokens[:, 0] * 0, draft_tokens[:, 0] * 0

    for case in ("AB", "W402"):
        seen.clear()
        told = made(verifier(writes), case=case).warnings
        assert told == ("writes changed its argument target_probs without mutates=(...)",)
        assert max(seen) < 4
    assert made(verifier(mutates=("target_probs",))(writes)).warnings == ()


@pytest.mark.parametrize("caller", [call, one_by_one])
def test_each_call_is_told_as_it_begins(caller: Caller) -> None:
    """Calls are counted up to the one that raises, that one too, whether they are built together or not."""
    begun: list[None] = []
    mine = wrong_at(111, fails)
    handed = Handed(CASES["W402"], mine)
    drafts, lengths = CaseSampler(handed.case).draft(ROWS, np.random.default_rng(1))
    bounds = [(row, row + 1) for row in range(ROWS)]
    with pytest.raises(SamplerRaised):
        list(replies(caller, mine, handed, drafts, lengths, bounds, range(100, 140), lambda: begun.append(None)))
    assert len(begun) == 12


def test_calls_in_a_worker_are_made_one_by_one() -> None:
    """What makes calls elsewhere is asked for each."""
    asked: list[int] = []

    def elsewhere(*given: Any, **options: Any) -> Reply:
        asked.append(given[4])
        return call(*given, **options)

    made(verifier(seeded), caller=elsewhere)
    assert asked == list(range(100, 140))


@pytest.fixture(autouse=True)
def _globals_kept() -> Iterator[None]:
    with global_randomness():
        yield

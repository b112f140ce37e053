"""One call hands over exactly what was asked for, reads only what the contract allows, and leaves nothing changed."""
# ruff: noqa: ARG001, ARG005 - a stub sampler is declared by its parameter names, whether it reads them or not

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from specverify.calling import SamplerRaised, call
from specverify.cases import Case
from specverify.contract import Verifier, verifier
from specverify.handing import Handed
from specverify.randomness import global_randomness

DRAFT = np.array([[0, 1], [2, 0], [1, 2]])
FULL = np.array([2, 2, 2])
Sampler = Callable[..., Any]


@pytest.fixture(scope="module")
def table() -> Case:
    """Make a case of three tokens whose rows all differ."""
    rng = np.random.default_rng(5)
    target, draft = (
        {
            prefix: rng.dirichlet(np.ones(3)).tolist()
            for length in range(3)
            for prefix in product(range(3), repeat=length)
        }
        for _ in range(2)
    )
    return Case.from_table("table", target, draft, num_draft_tokens=2)


@pytest.fixture(scope="module")
def flat() -> Case:
    """Make a case whose rows ignore the tokens before them, with a zero."""
    return Case.from_rows("flat", ["1/2", "1/2", "0"], ["1/4", "1/4", "1/2"], num_draft_tokens=2)


class Recorder:
    """Calls a sampler and keeps a copy of what it was handed."""

    def __init__(self, case: Case, *names: str, **options: Any) -> None:
        signature = ", ".join(names)
        self.seen: dict[str, Any] = {}
        scope: dict[str, Any] = {"record": self._record}
        exec(f"def sampler({signature}): return record(dict({', '.join(f'{n}={n}' for n in names)}))", scope)
        self.verifier = verifier(**options)(scope["sampler"])
        self.handed = Handed(case, self.verifier)

    def _record(self, arguments: dict[str, Any]) -> Any:
        self.seen = arguments
        return np.full((self.rows, 1), -1)

    def __call__(self, draft: Any = DRAFT, lengths: Any = FULL, seed: int = 1) -> dict[str, Any]:
        """Call on a batch and give what was handed over."""
        self.rows = len(draft)
        call(self.verifier, self.handed, draft, lengths, seed)
        return self.seen


def ask(case: Case, *names: str, **options: Any) -> dict[str, Any]:
    """Give what a sampler gets that asks for these names."""
    return Recorder(case, *names, **options)()


# --- arguments -------------------------------------------------------------------------------------------------------


def test_rows_follow_the_drafted_prefix(table: Case) -> None:
    """Row i of a batch row is the law after its first i drafted tokens."""
    seen = ask(table, "draft_tokens", "draft_probs", "target_probs", "draft_logits", "target_logits")
    assert np.array_equal(seen["draft_tokens"], DRAFT)
    for row, tokens in enumerate(DRAFT.tolist()):
        for i in range(3):
            assert seen["target_probs"][row, i].tolist() == list(table.target_row(tuple(tokens[:i])))
        for i in range(2):
            assert seen["draft_probs"][row, i].tolist() == list(table.draft_row(tuple(tokens[:i])))
    assert np.array_equal(seen["draft_logits"], np.log(seen["draft_probs"]))
    assert np.array_equal(seen["target_logits"], np.log(seen["target_probs"]))


def test_shapes_dtypes_and_ownership(table: Case, flat: Case) -> None:
    """Arrays are int64 and the declared float, private, contiguous and writable."""
    for case in (table, flat):
        names = ("draft_tokens", "num_draft_tokens", "draft_probs", "target_logits", "bonus_tokens", "seeds")
        seen = ask(case, *names, dtype="float32")
        assert {name: seen[name].shape for name in names} == {
            "draft_tokens": (3, 2),
            "num_draft_tokens": (3,),
            "draft_probs": (3, 2, 3),
            "target_logits": (3, 3, 3),
            "bonus_tokens": (3,),
            "seeds": (3,),
        }
        for name in names:
            assert seen[name].dtype == (np.float32 if seen[name].ndim == 3 else np.int64)
            assert seen[name].flags.c_contiguous
            assert seen[name].flags.writeable
            assert seen[name].base is None or seen[name].base.shape == seen[name].shape
        assert not np.shares_memory(seen["draft_tokens"], DRAFT)


def test_readonly_gets_views_that_cannot_be_written(table: Case, flat: Case) -> None:
    """A read-only verifier gets broadcast views where rows do not differ, and writing to any argument raises."""
    seen = ask(flat, "draft_tokens", "draft_probs", "target_probs", readonly=True)
    assert seen["target_probs"].strides[0] == 0
    assert ask(table, "target_probs", readonly=True)["target_probs"].strides[0] > 0
    for array in seen.values():
        assert not array.flags.writeable
    writes = verifier(readonly=True)(lambda draft_tokens, target_probs: target_probs.fill(0))
    with pytest.raises(SamplerRaised, match="read-only"):
        call(writes, Handed(flat, writes), DRAFT, FULL, 0)


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("which", ["table", "flat"])
def test_ragged_rows_are_padded_beyond_their_own_draft(
    request: pytest.FixtureRequest, which: str, readonly: bool
) -> None:
    """Beyond a row's own length: draft_tokens -1, q zero, p uniform; its bonus row is at its own length."""
    case = request.getfixturevalue(which)
    draft, lengths = np.array([[-1, -1], [2, -1], [1, 2]]), np.array([0, 1, 2])
    names = ("draft_tokens", "num_draft_tokens", "draft_probs", "draft_logits", "target_probs", "target_logits")
    seen = Recorder(case, *names, readonly=readonly)(draft, lengths)
    assert np.array_equal(seen["draft_tokens"], draft)
    assert np.array_equal(seen["num_draft_tokens"], lengths)
    for row, length in enumerate(lengths):
        prefix = tuple(draft[row, :length].tolist())
        bonus = [float(value) for value in case.target_row(prefix)]
        assert seen["target_probs"][row, length].tolist() == bonus
        assert np.allclose(seen["target_probs"][row, length + 1 :], 1 / 3)
        assert np.allclose(seen["target_logits"][row, length + 1 :], np.log(1 / 3))
        assert not seen["draft_probs"][row, length:].any()
        assert (seen["draft_logits"][row, length:] == -np.inf).all()
        assert (seen["draft_probs"][row, :length].sum(axis=1) > 0.99).all()


def test_low_precision_law_is_that_of_the_rounded_rows(table: Case) -> None:
    """The null case holds the renormalised rounded rows; in float64 it is the case itself."""
    recorder = Recorder(table, "draft_probs", "target_probs", dtype="float16")
    seen = recorder()
    given = seen["target_probs"][:, 0].astype(np.float64)
    assert np.array_equal(recorder.handed.case.target[0][0], given[0] / given[0].sum())
    assert not np.array_equal(recorder.handed.case.target[0], table.target[0])
    assert Recorder(table, "target_probs").handed.case is table


def test_bonus_tokens_follow_the_bonus_row_and_the_seed() -> None:
    """The kit's bonus is drawn from each row's own bonus row, replays with the seed, and changes with it."""
    case = Case.from_rows("c", [[1, 0, 0], [0, 1, 0], ["0", "1/2", "1/2"]], [1, 0, 0], num_draft_tokens=2)
    draft, lengths = np.array([[-1, -1], [0, -1]] + [[0, 0]] * 64), np.array([0, 1] + [2] * 64)
    recorder = Recorder(case, "draft_tokens", "num_draft_tokens", "bonus_tokens", "seed")
    first, again, other = (recorder(draft, lengths, seed)["bonus_tokens"] for seed in (1, 1, 2))
    assert first[:2].tolist() == [0, 1]
    assert set(first[2:].tolist()) == {1, 2}
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_bonus_tokens_of_a_row_follow_from_its_own_seed() -> None:
    """With per-row seeds a row's bonus does not depend on where in the batch it stands."""
    case = Case.from_rows("c", [0.5, 0.5], [0.5, 0.5], num_draft_tokens=1)
    draft, lengths, seeds = np.zeros((40, 1), dtype=np.int64), np.ones(40, dtype=np.int64), np.arange(40)
    recorder = Recorder(case, "draft_tokens", "bonus_tokens", "seeds")
    recorder.rows = 40
    call(recorder.verifier, recorder.handed, draft, lengths, 1, seeds)
    forward = recorder.seen["bonus_tokens"]
    call(recorder.verifier, recorder.handed, draft, lengths, 2, seeds[::-1].copy())
    assert np.array_equal(recorder.seen["bonus_tokens"][::-1], forward)
    assert len(set(forward.tolist())) == 2


def test_seeds_generator_and_uniforms_follow_from_the_seed_alone(flat: Case) -> None:
    """The same seed gives the same randomness, another seed another, each in its domain."""
    recorder = Recorder(flat, "draft_tokens", "seed", "seeds", "generator", "uniforms")
    draws = []
    for seed in (3, 3, 4):
        seen = recorder(seed=seed)
        uniforms = seen["uniforms"]
        draws.append((seen["seed"], seen["seeds"].tolist(), seen["generator"].random(), uniforms.accept.tolist()))
        assert (uniforms.accept.shape, uniforms.final.shape) == ((3, 2), (3,))
        assert ((seen["seeds"] >= 0) & (seen["seeds"] < 2**31)).all()
    assert draws[0] == draws[1]
    assert all(a != b for a, b in zip(draws[0], draws[2], strict=True))


@pytest.mark.parametrize(("dtype", "bits"), [("float64", 53), ("float32", 24), ("float16", 24)])
def test_uniforms_fill_the_grid_of_their_type(flat: Case, dtype: str, bits: int) -> None:
    """Uniforms are multiples of 2**-bits below 1, and no coarser grid would hold them: in 16 bits those of float32."""
    recorder = Recorder(flat, "draft_tokens", "uniforms", dtype=dtype)
    rows = np.zeros((4000, 2), dtype=np.int64)
    uniforms = recorder(rows, np.full(4000, 2))["uniforms"]
    assert uniforms.accept.dtype == uniforms.final.dtype == np.dtype("float64" if bits == 53 else "float32")
    for values in (uniforms.accept, uniforms.final):
        scaled = values.astype(np.float64) * 2.0**bits
        assert (scaled == np.floor(scaled)).all()
        assert (scaled % 2 == 1).any()
        assert (scaled >= 0).all()
        assert (scaled < 2.0**bits).all()


# --- randomness ------------------------------------------------------------------------------------------------------


def draw_globally(draft_tokens: Any) -> Any:
    """Draw from both global generators of a NumPy sampler."""
    accepted = np.random.randint(0, 3, size=len(draft_tokens))  # noqa: NPY002
    return accepted, np.array([random.randrange(3) for _ in draft_tokens])


def test_global_generators_are_seeded_per_call_and_put_back(flat: Case) -> None:
    """A sampler that asks for no randomness replays with the seed, and the user's generators go on undisturbed."""
    stub = verifier(draw_globally)
    handed, draft = Handed(flat, stub), np.zeros((50, 2), dtype=np.int64)
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    replies = [call(stub, handed, draft, np.full(50, 2), seed) for seed in (1, 1, 2)]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[index]  # noqa: NPY002
    keys = [(reply.num_accepted.tolist(), reply.next_token.tolist()) for reply in replies]
    assert keys[0] == keys[1]
    assert keys[0][0] != keys[2][0]
    assert keys[0][1] != keys[2][1]


def test_global_generators_are_put_back_after_an_error(flat: Case) -> None:
    """Also a sampler that raises leaves the global generators as they were, in one scope around many calls too."""

    def stub(draft_tokens: Any) -> Any:
        raise ValueError(random.random())

    declared, before = verifier(stub), random.getstate()
    handed = Handed(flat, declared)
    with pytest.raises(SamplerRaised):
        call(declared, handed, DRAFT, FULL, 0)
    assert random.getstate() == before
    with global_randomness():
        for _ in range(2):
            with pytest.raises(SamplerRaised):
                call(declared, handed, DRAFT, FULL, 0)
        assert random.getstate() != before
    assert random.getstate() == before


def test_global_generators_get_different_streams(flat: Case) -> None:
    """NumPy and torch share an algorithm; neighbouring seeds and both generators must not share numbers."""
    seen = []

    def stub(draft_tokens: Any) -> Any:
        seen.append((random.getstate()[1][1], int(np.random.get_state()[1][1])))  # type: ignore[index]  # noqa: NPY002
        return draft_tokens

    declared = verifier(stub)
    handed = Handed(flat, declared)
    for seed in range(50):
        call(declared, handed, DRAFT, FULL, seed)
    assert len({number for pair in seen for number in pair}) == 100


def test_a_numpy_sampler_never_imports_torch() -> None:
    """Handing over, calling and reading a NumPy sampler leaves torch alone."""
    code = (
        "import sys, numpy as np; from specverify.calling import call; from specverify.cases import Case; "
        "from specverify.handing import Handed; "
        "from specverify.contract import verifier; v = verifier(lambda draft_tokens: draft_tokens); "
        "c = Case.from_rows('c', [1, 0], [1, 0], num_draft_tokens=1); "
        "call(v, Handed(c, v), np.array([[0]]), np.array([1]), 0); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- what it did beside ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["table", "flat"])
@pytest.mark.parametrize("name", ["draft_tokens", "draft_probs", "target_probs", "bonus_tokens", "seeds"])
def test_an_undeclared_change_is_a_warning(request: pytest.FixtureRequest, which: str, name: str) -> None:
    """Writing to an argument is a warning that names it, unless declared, and never reaches the next call."""

    def stub(draft_tokens: Any, draft_probs: Any, target_probs: Any, bonus_tokens: Any, seeds: Any) -> Any:
        before.append(locals()[name].copy())
        locals()[name][-1] = 0.25 if "probs" in name else 7
        return np.full((3, 3), -1)

    before: list[Any] = []
    case = request.getfixturevalue(which)
    told, declared = verifier(stub), verifier(mutates=(name,))(stub)
    handed = Handed(case, told)
    warnings = call(told, handed, DRAFT, FULL, 0).warnings
    assert warnings == (f"stub changed its argument {name} without mutates=(...)",)
    call(told, handed, DRAFT, FULL, 0)
    assert np.array_equal(before[0], before[1])
    assert call(declared, Handed(case, declared), DRAFT, FULL, 0).warnings == ()
    assert DRAFT.tolist() == [[0, 1], [2, 0], [1, 2]]


def test_a_reused_output_buffer_does_not_change_earlier_replies(flat: Case) -> None:
    """A reply is a copy: samplers may return the same buffer again."""
    accepted, following = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)
    stub = verifier(lambda draft_tokens: (accepted, following))
    reply = call(stub, Handed(flat, stub), DRAFT, FULL, 0)
    accepted[:], following[:] = 2, 2
    assert reply.num_accepted.tolist() == reply.next_token.tolist() == [0, 0, 0]


# --- exceptions ------------------------------------------------------------------------------------------------------


def inner() -> None:
    """Raise below the sampler."""
    raise ZeroDivisionError("by the sampler")


def test_an_exception_is_shown_with_the_samplers_frames_and_its_input(flat: Case) -> None:
    """Type, message, the sampler's own frames and the batch are shown; no frame of the kit is."""

    @verifier
    def raises(draft_tokens: Any, seed: int) -> Any:
        inner()

    with pytest.raises(SamplerRaised) as told:
        call(raises, Handed(flat, raises), np.zeros((5, 2), dtype=np.int64), np.full(5, 2), 77)
    text = told.value.message
    assert text.startswith("ZeroDivisionError: by the sampler\n")
    assert "in raises" in text
    assert "in inner" in text
    assert "specverify/calling.py" not in text
    assert text.endswith("with case 'flat', seed 77, 5 row(s), draft_tokens [[0, 0], [0, 0], [0, 0]] and so on")


def test_the_text_of_an_exception_is_short_and_harmless(flat: Case) -> None:
    """Endless messages are cut with their length told, control characters escaped, and a broken __str__ survived."""

    class Silent(Exception):
        def __str__(self) -> str:
            raise ValueError

    seen = []
    for error in (ValueError("\x1b[2Jred\udcff é\nsecond"), ValueError("x" * 100_000), Silent()):

        def stub(draft_tokens: Any, error: Exception = error) -> Any:
            raise error

        declared = verifier(stub)
        with pytest.raises(SamplerRaised) as told:
            call(declared, Handed(flat, declared), DRAFT, FULL, 0)
        seen.append(told.value.message)
    assert seen[0].startswith("ValueError: \\x1b[2Jred\\udcff é\nsecond\n")
    assert "x... (100,012 characters)\n" in seen[1]
    assert len(seen[1]) < 4000
    assert "Silent" in seen[2]


def test_numpys_handling_of_errors_is_put_back(flat: Case) -> None:
    """A sampler that makes NumPy raise on underflow changes neither the kit nor the user, also when it fails."""
    before = np.geterr()

    class Meddling:
        def __array__(self, *_: Any, **__: Any) -> Any:
            np.seterr(all="raise")
            return np.zeros((3, 1), dtype=np.int64)

    def returns(draft_tokens: Any) -> Any:
        np.seterr(all="raise")
        return draft_tokens

    def fails(draft_tokens: Any) -> Any:
        np.seterr(all="raise")
        raise ValueError

    for stub in (verifier(returns), verifier(lambda draft_tokens: Meddling())):
        call(stub, Handed(flat, stub), DRAFT, FULL, 0)
        assert np.geterr() == before
    stub = verifier(fails)
    with pytest.raises(SamplerRaised):
        call(stub, Handed(flat, stub), DRAFT, FULL, 0)
    assert np.geterr() == before


def test_a_deep_traceback_is_cut(flat: Case) -> None:
    """Endless recursion shows its first and last frames only."""

    @verifier
    def raises(draft_tokens: Any) -> Any:
        return raises(draft_tokens)

    with pytest.raises(SamplerRaised) as told:
        call(raises, Handed(flat, raises), DRAFT, FULL, 0)
    assert told.value.message.startswith("RecursionError")
    assert told.value.message.count("File ") <= 6


class Own(BaseException):
    """An exception that only its author knows."""


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (SystemExit(2), SamplerRaised),
        (GeneratorExit("x"), SamplerRaised),
        (asyncio.CancelledError(), SamplerRaised),
        (StopIteration(), SamplerRaised),
        (Own(), SamplerRaised),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_whatever_is_raised_is_a_finding_and_interruption_passes(flat: Case, error: BaseException, seen: Any) -> None:
    """A sampler that exits or raises anything has failed its check; the user's Ctrl-C stops the kit."""

    def stub(draft_tokens: Any) -> Any:
        raise error

    declared: Verifier = verifier(stub)
    with pytest.raises(seen):
        call(declared, Handed(flat, declared), DRAFT, FULL, 0)


def test_a_copy_is_served_again_only_while_no_call_writes_to_it(flat: Case) -> None:
    """A verifier that writes now and then is found each time, and the next call gets the rows of the case again."""
    seen, writes = [], iter([False, False, True, False, True, True, False])

    @verifier
    def now_and_then(draft_tokens: Any, target_probs: Any) -> Any:
        seen.append(target_probs.copy())
        if next(writes):
            target_probs[0, 0] = 0.0
        return draft_tokens

    handed = Handed(flat, now_and_then)
    found = [bool(call(now_and_then, handed, DRAFT, FULL, seed).warnings) for seed in range(7)]
    assert found == [False, False, True, False, True, True, False]
    assert all(np.array_equal(rows, seen[0]) for rows in seen)

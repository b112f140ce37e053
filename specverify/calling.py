"""One call of a verifier: build what it asks for, run it, read what came back, and note what it should not have done.

A wrong output or an exception of the sampler is a finding about the sampler, never a crash of the kit: whatever it
raises but the user's own interruption, and whatever it does to NumPy's handling of floating-point errors.
"""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from specverify.arrays import IntArray
from specverify.contract import Verifier
from specverify.declaring import RANDOMNESS
from specverify.errors import SpecverifyError
from specverify.handing import Batch, Handed
from specverify.loop_handing import AnyHanded, HandedLoop
from specverify.loop_reading import read_generated, with_host_arrays
from specverify.loops import Loop
from specverify.randomness import global_randomness, seed_globals
from specverify.reading import OutputFault, on_host, read, read_drafted, read_tree
from specverify.trace import Rounds
from specverify.wording import clip, printable

__all__ = [
    "GLOBAL",
    "Caller",
    "Reply",
    "SamplerRaised",
    "call",
    "described",
    "here",
    "invoke",
    "raw_call",
    "read_reply",
    "watched",
]

KIT = Path(__file__).parent
MAX_FRAMES = 6
SHOWN_ROWS = 3
LONGEST_MESSAGE = 2000
LONGEST_FRAME = 500
SHOWN_NAME = 100
GLOBAL = "changed the global generator"
"""What is said of a verifier that draws from another generator than the one that it asked for."""


@dataclass(frozen=True)
class Reply:
    """What one call of a verifier came to.

    Attributes:
        num_accepted: int64 [B], in 0 to the row's own draft length.
        next_token: int64 [B], the replacement or bonus token; -1 where none was emitted.
        warnings: What it did beside, such as writing to its arguments.
        draft_tokens: int64 [B, G], -1 beyond a row's own length, where the kit did not draft them itself; the accepted
            path in the case of a tree, all but the last of the new tokens of a generator; else None.
        rounds: What a generator reported of its rounds, or None.
    """

    num_accepted: IntArray
    next_token: IntArray
    warnings: tuple[str, ...] = ()
    draft_tokens: IntArray | None = None
    rounds: Rounds | None = None


class SamplerRaised(SpecverifyError):
    """A verifier raised: the check that called it fails with this message.

    Attributes:
        message: The traceback shortened to the sampler's own frames, and the input that caused it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Caller(Protocol):
    """What makes a call: :func:`call` in this process, or a worker in a process of its own."""

    def __call__(
        self,
        verifier: Verifier,
        handed: AnyHanded,
        draft_tokens: IntArray,
        num_draft_tokens: IntArray,
        seed: int,
        seeds: IntArray | None = None,
        *,
        watch: bool = False,
    ) -> Reply:
        """Call a verifier once on a batch, as :func:`call` does."""


@contextmanager
def here(caller: Caller | None = None) -> Iterator[Caller]:
    """Give what makes calls for as long as a unit runs: a caller, or :func:`call` in this process."""
    yield call if caller is None else caller


def call(
    verifier: Verifier,
    handed: AnyHanded,
    draft_tokens: IntArray,
    num_draft_tokens: IntArray,
    seed: int,
    seeds: IntArray | None = None,
    *,
    watch: bool = False,
) -> Reply:
    """Call a verifier once on a batch.

    Around many calls enter global_randomness(): the global generators are then saved and put back once.

    Args:
        verifier: What to call.
        handed: The case as this verifier gets it.
        draft_tokens: int64 [B, G], drawn from handed.case; -1 beyond a row's own length.
        num_draft_tokens: int64 [B]; less than G only for a verifier that asks for it.
        seed: In [0, 2**31); everything random in the call follows from it.
        seeds: int64 [B], the rows' own seeds, to replay single rows; left out, they follow from the seed.
        watch: Also warn when it asks for its randomness and yet moves the global generators (100 microseconds).

    Raises:
        OutputFault: What came back breaks the contract.
        SamplerRaised: The verifier raised.

    Example:
        >>> import numpy as np
        >>> from specverify.cases import Case
        >>> from specverify.contract import verifier
        >>> from specverify.handing import Handed
        >>> case = Case.from_rows("AB", ["3/5", "2/5"], ["4/5", "1/5"], num_draft_tokens=1)
        >>> echo = verifier(lambda draft_tokens: draft_tokens)
        >>> call(echo, Handed(case, echo), np.array([[1]]), np.array([1]), seed=0)
        Reply(num_accepted=array([0]), next_token=array([1]), warnings=(), draft_tokens=None, rounds=None)
    """
    batch = handed.batch(draft_tokens, num_draft_tokens, seed, seeds)
    result, warnings = raw_call(verifier, handed, batch, seed, watch=watch)
    if isinstance(handed, HandedLoop):
        return _generated(handed.loop, len(batch.integers["prompt"]), result, warnings)
    return read_reply(verifier, handed, result, draft_tokens, num_draft_tokens, warnings)


def read_reply(
    verifier: Verifier,
    handed: Handed,
    result: object,
    draft_tokens: IntArray,
    num_draft_tokens: IntArray,
    warnings: tuple[str, ...],
) -> Reply:
    """Read what a verifier returned from a call on a batch, by the form that it has to have."""
    size = handed.case.vocab_size
    drafts = None
    with np.errstate():  # a foreign array type may run code of its own when it is read
        if verifier.drafts:
            triple = verifier.rule is not None
            drafts, num_accepted, next_token = read_drafted(result, draft_tokens.shape, size, triple=triple)
        elif handed.case.tree is not None:
            drafts, num_accepted, next_token = read_tree(result, handed.case.tree, draft_tokens, size)
        else:
            num_accepted, next_token = read(result, draft_tokens, num_draft_tokens, size)
    return Reply(num_accepted, next_token, warnings, drafts)


def _generated(loop: Loop, rows: int, result: object, warnings: tuple[str, ...]) -> Reply:
    """Read new tokens as a block of which all but the last are accepted; batch mates are dropped."""
    with np.errstate():
        tokens, rounds = read_generated(result, rows, loop)
    own = slice(None, None, 2 if loop.mate else 1)
    tokens, rounds = tokens[own], None if rounds is None else rounds.part(own)
    return Reply(np.full(len(tokens), tokens.shape[1] - 1), tokens[:, -1], warnings, tokens[:, :-1], rounds)


def raw_call(
    verifier: Verifier, handed: AnyHanded, batch: Batch, seed: int, *, watch: bool = False
) -> tuple[object, tuple[str, ...]]:
    """Call a verifier once on a batch that was built, and give what it returned, unread, and the warnings.

    Args:
        verifier: What to call.
        handed: What the batch was built by.
        batch: The arguments.
        seed: The seed that it was built with.
        watch: As for :func:`call`.

    Returns:
        The result, tensors being brought to the host, and the warnings.

    Raises:
        SamplerRaised: The verifier raised.
    """
    with watched(verifier, handed, batch, seed, states=watch) as warnings:
        result = invoke(verifier, handed, batch.arguments, batch.integers["draft_tokens"], seed)
    return result, tuple(warnings)


@contextmanager
def watched(
    verifier: Verifier, handed: AnyHanded, batch: Batch, seed: int, *, states: bool = False
) -> Iterator[list[str]]:
    """Keep calls of a verifier from changing what is not theirs, and give the list of what they changed, at the end.

    Args:
        verifier: What is called.
        handed: What the batch was built by.
        batch: What is passed to the calls.
        seed: What the global generators are seeded with for a verifier that asks for no randomness.
        states: Whether to look at the global generators too.
    """
    threads, warnings = _torch_threads(), list[str]()
    unseeded = verifier.asks.isdisjoint(RANDOMNESS)
    before = _generators() if states and not unseeded else {}
    guard: AbstractContextManager[None] = global_randomness() if unseeded else nullcontext()
    with guard, np.errstate():
        if unseeded:
            seed_globals(seed)
        yield warnings
    warnings.extend(_side_effects(verifier, handed, batch, threads, before))


def invoke(
    verifier: Verifier, handed: AnyHanded, arguments: dict[str, Any], draft_tokens: IntArray, seed: int
) -> object:
    """Call a verifier once, and bring what it returned to the host.

    Raises:
        SamplerRaised: The verifier raised.
    """
    try:
        return with_host_arrays(on_host(verifier.function(**arguments)))
    except (KeyboardInterrupt, OutputFault):
        raise
    except BaseException as error:
        raise SamplerRaised(_report(error, handed, draft_tokens, seed)) from error


def _side_effects(
    verifier: Verifier, handed: AnyHanded, batch: Batch, threads: int | None, before: dict[str, object]
) -> Iterator[str]:
    """Say what a call changed beside: its arguments, the threads, the global generators."""
    for array in handed.changed(batch):
        yield f"{_named(verifier)} changed its argument {array} without mutates=(...)"
    if threads is not None and _torch_threads() != threads:
        yield f"{_named(verifier)} changed torch's number of threads from {threads} to {_torch_threads()}"
    after = _generators() if before else {}
    moved = [library for library, state in before.items() if after[library] != state]
    if moved:
        yield f"{_named(verifier)} {GLOBAL} of {' and '.join(moved)}, though it asks for randomness"


def _named(verifier: Verifier) -> str:
    return clip(printable(verifier.name), SHOWN_NAME)


def _torch_threads() -> int | None:
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())


def _generators() -> dict[str, object]:
    """Give the states of the global generators of the libraries that are loaded, in a form that compares."""
    legacy = np.random.get_state(legacy=False)  # noqa: NPY002 - the generator that others share
    numbers = [np.asarray(value).tolist() for value in legacy["state"].values()]
    states: dict[str, object] = {"random": random.getstate(), "numpy": (numbers, legacy["has_gauss"], legacy["gauss"])}
    torch = sys.modules.get("torch")
    return states if torch is None else {**states, "torch": torch.get_rng_state().numpy().tobytes()}


def described(handed: AnyHanded, draft_tokens: IntArray, seed: int) -> str:
    """Name the input of a call in one line: case, seed and first rows, or what a loop was asked for."""
    if isinstance(handed, HandedLoop):
        return handed.described(len(draft_tokens), seed)
    rows = f"{len(draft_tokens)} row(s), draft_tokens {clip(str(draft_tokens[:SHOWN_ROWS].tolist()), LONGEST_FRAME)}"
    more = " and so on" if len(draft_tokens) > SHOWN_ROWS else ""
    return f"with case {handed.case.name!r}, seed {seed}, {rows}{more}"


def _report(error: BaseException, handed: AnyHanded, draft_tokens: IntArray, seed: int) -> str:
    tree = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in tree if Path(frame.filename).parent != KIT]  # samplers of the kit are in its folders
    if len(frames) > MAX_FRAMES:
        frames = frames[:1] + frames[1 - MAX_FRAMES :]
    said = printable("".join(traceback.format_exception_only(error)), lines=True).rstrip("\n")
    lines = [
        clip(said, LONGEST_MESSAGE) + "\n",
        *(
            clip(printable(frame, lines=True).rstrip("\n"), LONGEST_FRAME) + "\n"
            for frame in traceback.format_list(frames)
        ),
        f"{described(handed, draft_tokens, seed)}{_hint(handed.verifier, said)}",
    ]
    return "".join(lines)


def _hint(verifier: Verifier, said: str) -> str:
    """Give the declaration that is probably missing when a sampler of tensors gets arrays."""
    expects_tensors = "numpy.ndarray" in said or "must be Tensor" in said
    if verifier.framework == "numpy" and expects_tensors:
        return "\nit was given NumPy arrays; if it works on tensors, declare framework='torch'"
    return ""

"""A worker makes the calls that the kit sends it, one after another, and ends when the kit hangs up or dies.

What runs here is the process on the other side of ``specverify.worker``. It is a session of its own, so that it can be
ended with all its children; it reads nothing, and what it prints goes to standard error.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, fields
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from specverify.arrays import IntArray
from specverify.calling import Reply, SamplerRaised, call
from specverify.cases import Case
from specverify.contract import Verifier
from specverify.errors import SpecverifyError
from specverify.loop_handing import AnyHanded, hand
from specverify.randomness import global_randomness
from specverify.reading import OutputFault
from specverify.registry import load
from specverify.threads import one_torch_thread
from specverify.wording import told

__all__ = ["Answer", "Request", "declaration", "keep_one_thread", "serve", "set_apart"]

FIRST_CALLS = 10  # calls after which a sampler has what it keeps: what its memory grows by later, it leaks
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux's prctl


@dataclass(frozen=True)
class Request:
    """A call to make.

    Attributes:
        number: Which of the cases sent so far it is on, counted from 0.
        draft_tokens: int64 [B, G].
        num_draft_tokens: int64 [B].
        seed: The call's seed.
        seeds: int64 [B], or None.
        watch: Whether the global generators are watched.
    """

    number: int
    draft_tokens: IntArray
    num_draft_tokens: IntArray
    seed: int
    seeds: IntArray | None
    watch: bool


@dataclass(frozen=True)
class Answer:
    """What a call came to.

    Attributes:
        outcome: The reply, or the error to raise in its place.
        grown: Bytes by which the memory of the process grew after the first calls.
    """

    outcome: Reply | Exception
    grown: int


def declaration(verifier: Verifier) -> dict[str, Any]:
    """Give everything that a verifier declares, to see whether two are the same but for the function.

    Example:
        >>> declaration(load("reference"))["rule"]
        'token'
    """
    return {field.name: getattr(verifier, field.name) for field in fields(verifier) if field.name != "function"}


def serve(connection: Connection, other_end: Connection | None, sampler: Verifier | str) -> None:
    """Say what the sampler declares, then answer each case by None or an error, and each request by an Answer.

    Args:
        connection: To the kit.
        other_end: The kit's end of it, where the process inherited that: it must be closed here to see the kit hang up.
        sampler: The sampler, or its name.
    """
    set_apart()
    if other_end is not None:
        other_end.close()
    with suppress(EOFError, OSError, KeyboardInterrupt):
        try:
            verifier = load(sampler) if isinstance(sampler, str) else sampler
        except SpecverifyError as error:
            connection.send(error)
            return
        connection.send(declaration(verifier))
        with global_randomness(), one_torch_thread(), np.errstate(all="warn", under="ignore"):
            if other_end is not None:
                keep_one_thread()
            _answer_all(connection, verifier)


def set_apart() -> None:
    """Leave the terminal and the standard streams to the kit, and the memory that its heap had freed to the system."""
    if hasattr(os, "setsid"):
        os.setsid()
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        with suppress(AttributeError):  # glibc alone has it; what is freed but resident would hide what a sampler keeps
            libc.malloc_trim(0)
    with suppress(OSError):  # whoever has closed a stream has nothing that could be disturbed
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)


def keep_one_thread() -> None:
    """Let the sampler ask in vain for more threads: torch's stayed behind at the fork, and it would wait for them."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads = lambda _: None  # type: ignore[attr-defined]


def _answer_all(connection: Connection, verifier: Verifier) -> None:
    cases: list[AnyHanded] = []
    calls = level = 0
    while True:
        request: Case | Request = connection.recv()
        if isinstance(request, Case):
            before = _resident()
            connection.send(_lay_out(request, verifier, cases))
            level += _resident() - before  # the kit's own tables are no growth of the sampler's
            continue
        outcome = _outcome(verifier, cases[request.number], request)
        calls += 1
        if calls <= FIRST_CALLS:
            level = _resident()
        connection.send(Answer(outcome, _resident() - level))


def _lay_out(case: Case, verifier: Verifier, cases: list[AnyHanded]) -> Exception | None:
    try:
        cases.append(hand(case, verifier))
    except Exception as error:  # such as a device that holds no second copy: nothing that a call did
        return error if isinstance(error, SpecverifyError) else RuntimeError(told(error))
    return None


def _outcome(verifier: Verifier, handed: AnyHanded, request: Request) -> Reply | Exception:
    given = request.draft_tokens, request.num_draft_tokens, request.seed, request.seeds
    try:
        return call(verifier, handed, *given, watch=request.watch)
    except (OutputFault, SamplerRaised) as error:
        return error
    except Exception as error:  # the kit's own: raised there as what it is, and not taken for the sampler's end
        return RuntimeError(told(error))


def _resident() -> int:
    """Give the resident memory of this process in bytes, without pages of files; 0 where the system does not tell.

    The system takes pages of files back whenever it likes, which would hide what a sampler keeps.
    """
    try:
        with open("/proc/self/statm", "rb") as pages:
            resident, shared = map(int, pages.read().split()[1:3])
            return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0

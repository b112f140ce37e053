"""Small calls are built and read many at a time: a sampler of single rows then takes nearly all of the time of its run.

Each call still has rows, a seed and arguments of its own. They are parts of arrays that were made for many calls, and
what the calls return is read as one. Nothing that a sampler can see depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from specverify.arrays import IntArray
from specverify.calling import Caller, Reply, call, invoke, read_reply, watched
from specverify.contract import Verifier
from specverify.declaring import ARRAYS, RANDOMNESS
from specverify.handing import Handed
from specverify.loop_handing import AnyHanded
from specverify.randomness import seed_globals
from specverify.reading import OutputFault

__all__ = ["replies"]

ELEMENTS = 2**19  # probabilities handed over to calls that are built together: what they fill stays in the cache
ARGUMENTS = frozenset(ARRAYS) - {"parents", "bonus_tokens", "seeds"} | {"seed", "generator"}
"""What a verifier may ask for whose calls are built together."""

Bounds: TypeAlias = Sequence[tuple[int, int]]


def replies(
    caller: Caller,
    verifier: Verifier,
    handed: AnyHanded,
    draft_tokens: IntArray,
    num_draft_tokens: IntArray,
    bounds: Bounds,
    seeds: Sequence[int],
    begun: Callable[[], None] = lambda: None,
) -> Iterator[tuple[slice, Reply]]:
    """Make calls one after another, and give what they came to, row for row.

    Args:
        caller: What makes the calls.
        verifier: What is called.
        handed: The case as this verifier gets it.
        draft_tokens: int64 [n, G], of the rows of all calls.
        num_draft_tokens: int64 [n].
        bounds: Where the rows of each call begin and end.
        seeds: The seed of each call.
        begun: Told before each call.

    Returns:
        Some rows and the reply to them, from the first to the last; several calls may share a reply.

    Raises:
        OutputFault: What came back breaks the contract.
        SamplerRaised: The verifier raised.
    """
    step = _calls_at_once(handed, bounds) if caller is call and _separable(verifier, handed) else 1
    first = 0
    while first < len(bounds):
        last = first + step if first else 1  # the first call is watched more closely
        rows = slice(bounds[first][0], bounds[min(last, len(bounds)) - 1][1])
        given = verifier, handed, draft_tokens[rows], num_draft_tokens[rows]
        if last - first == 1:
            begun()
            yield rows, caller(*given, seeds[first], watch=first == 0)
        else:
            inside = [(start - rows.start, stop - rows.start) for start, stop in bounds[first:last]]
            yield rows, _together(*given, inside, seeds[first:last], begun)
        first = last


def _separable(verifier: Verifier, handed: AnyHanded) -> bool:
    return isinstance(handed, Handed) and handed.case.tree is None and verifier.asks <= ARGUMENTS


def _calls_at_once(handed: AnyHanded, bounds: Bounds) -> int:
    largest = max(stop - start for start, stop in bounds)
    return max(1, ELEMENTS // ((2 * handed.case.num_draft_tokens + 1) * handed.case.vocab_size * largest))


def _together(
    verifier: Verifier,
    handed: AnyHanded,
    draft_tokens: IntArray,
    num_draft_tokens: IntArray,
    bounds: Bounds,
    seeds: Sequence[int],
    begun: Callable[[], None],
) -> Reply:
    assert isinstance(handed, Handed)
    batch = handed.batch(draft_tokens, num_draft_tokens, seeds[0])
    unseeded = verifier.asks.isdisjoint(RANDOMNESS)
    found = _Found(verifier, handed, draft_tokens, num_draft_tokens)
    with watched(verifier, handed, batch, seeds[0]) as warnings:
        made = zip(handed.parts(batch, bounds, seeds), bounds, seeds, strict=True)
        for arguments, (start, stop), seed in made:
            if unseeded:
                seed_globals(seed)
            begun()
            result = invoke(verifier, handed, arguments, draft_tokens[start:stop], seed)
            found.add(result, slice(start, stop))
    return replace(found.reply(), warnings=tuple(warnings))


class _Found:
    """What calls returned, kept as soon as it came: a sampler may return the same array from all of them."""

    def __init__(self, verifier: Verifier, handed: Handed, draft_tokens: IntArray, num_draft_tokens: IntArray) -> None:
        self._read = partial(read_reply, verifier, handed)
        self._given = draft_tokens, num_draft_tokens
        rows, width = draft_tokens.shape
        self._tokens = np.empty((rows, width + 1), dtype=np.int64)
        self._pairs = np.empty((2, rows), dtype=np.int64)
        self._reply = Reply(np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64))
        self._form: str | None = None
        self._waiting: list[slice] = []

    def add(self, result: object, rows: slice) -> None:
        """Take what a call returned for some rows."""
        form = self._keep(result, rows)
        if form is None or form != self._form:
            self._settle()
        self._form = form
        if form is None:
            self._put(result, rows)
        else:
            self._waiting.append(rows)

    def reply(self) -> Reply:
        """Give all that was returned.

        Raises:
            OutputFault: It breaks the contract; its row is counted in its own call.
        """
        self._settle()
        return self._reply

    def _keep(self, result: object, rows: slice) -> str | None:
        """Keep a plain result and name its form; None where it has to be read by itself."""
        count = rows.stop - rows.start
        if isinstance(result, tuple):
            if len(result) != 2 or not all(_plain(part) and part.shape == (count,) for part in result):
                return None
            self._pairs[0, rows], self._pairs[1, rows] = result
            return "pairs"
        if not _plain(result) or result.ndim != 2 or len(result) != count or result.shape[1] > self._tokens.shape[1]:
            return None
        self._tokens[rows, : result.shape[1]] = result
        self._tokens[rows, result.shape[1] :] = -1
        return "tokens"

    def _settle(self) -> None:
        """Read what is waiting, all of one form, as one result."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        kept = self._kept(slice(waiting[0].start, waiting[-1].stop))
        try:
            self._put(*kept)
        except OutputFault:
            for rows in waiting:
                self._put(*self._kept(rows))

    def _kept(self, rows: slice) -> tuple[object, slice]:
        return (tuple(self._pairs[:, rows]) if self._form == "pairs" else self._tokens[rows]), rows

    def _put(self, result: object, rows: slice) -> None:
        drafts, lengths = (array[rows] for array in self._given)
        reply = self._read(result, drafts, lengths, ())
        self._reply.num_accepted[rows], self._reply.next_token[rows] = reply.num_accepted, reply.next_token


def _plain(value: object) -> TypeGuard[npt.NDArray[Any]]:
    """Say whether a value is an array of integers that int64 holds, as most are."""
    return type(value) is np.ndarray and value.dtype.kind in "iu" and value.dtype != np.uint64

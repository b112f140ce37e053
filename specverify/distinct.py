"""Rows are counted by what they came to: a question is asked once of each distinct outcome, not once of each row.

Seen through a lens few outcomes are possible, and each has a number. A row's number is one sum of looked-up terms, and
after one count of the numbers the rows are no longer needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from specverify.arrays import FloatArray, IntArray
from specverify.lumping import Lumping, View
from specverify.trace import Trace
from specverify.views import decode_blocks, decode_outcomes

__all__ = ["Blocks", "Outcomes", "each_row", "first_tokens"]

NUMBERS_PER_ROW = 16  # beyond so many possible outcomes for each row, going through them costs more than the rows do
MAX_NUMBERS = 2**31 - 1

_Terms = npt.NDArray[np.int32]


class Outcomes:
    """Sees traces as their distinct outcomes: drafted tokens, accepted length and next token.

    Args:
        lens: What the outcomes are seen through.
        vocab_size: Number V of tokens before they are lumped.
    """

    def __init__(self, lens: Lumping, vocab_size: int) -> None:
        self._lens, self._size = lens, vocab_size
        base, full = lens.case.vocab_size + 1, lens.case.num_draft_tokens
        self._numbers = base ** (full + 1) * (full + 1)
        if self._numbers <= MAX_NUMBERS:
            digits = [cells + 1 for cells in _cells(lens, vocab_size)]  # no token, which is -1, counts as digit 0
            stops = [accepted * base + np.append(0, digit) for accepted, digit in enumerate(digits)]
            self._stops = np.concatenate(stops).astype(np.int32)
            places = base * (full + 1) * base ** np.arange(full)[::-1]
            terms = zip(digits, places, strict=False)
            self._drafts = [(np.append(digit, 0) * place).astype(np.int32) for digit, place in terms]

    def view(self, trace: Trace) -> View:
        """See a trace as its distinct outcomes, or row by row where too many are possible."""
        if _too_many(self._numbers, len(trace)):
            return self._lens.view(trace)
        stops = trace.num_accepted * (self._size + 1) + trace.next_token
        stops += 1
        numbers = self._stops.take(stops)
        for terms, column in zip(self._drafts, trace.draft_tokens.T, strict=True):
            numbers += terms.take(column)
        found, times = _counted(numbers, self._numbers)
        drafts, accepted, following = decode_outcomes(self._lens, found)
        full = drafts.shape[1]
        lengths = (drafts >= 0).sum(axis=1) if self._lens.case.tree is None else np.full(len(found), full)
        nothing = np.full((len(found), full + 1), -1, dtype=np.int64)
        seen = replace(self._lens, tables=None).view(Trace(drafts, lengths, accepted, following, nothing))
        return replace(seen, times=times)


class Blocks:
    """Sees distinct outcomes as the distinct completed blocks that they make.

    Rows with equal emitted tokens owe draws from the same law. So what they draw is drawn as counts, not row by row.

    Args:
        lens: What the outcomes were seen through.
        cells: How its tokens are lumped further; the same lens where they are not.
    """

    def __init__(self, lens: Lumping, cells: Lumping) -> None:
        self._case = cells.case
        same = (np.arange(lens.case.vocab_size),) * (cells.case.num_draft_tokens + 1)
        self._tables = same if cells is lens else cells.tables or same
        self._decoded = partial(decode_blocks, cells)

    def view(self, outcomes: View, rng: np.random.Generator) -> View:
        """Complete and see outcomes as their distinct blocks.

        Args:
            outcomes: What was seen through the lens.
            rng: Source of the draws, independent of the sampler's randomness.
        """
        times, base = outcomes.repeats, self._case.vocab_size
        numbers, emitted = np.zeros(len(times), dtype=np.int64), outcomes.trace.emitted()
        length = (emitted >= 0).sum(axis=1)
        counts = np.array([times[length == 0].sum()])
        for position, rows in enumerate(self._case.target):
            there = length > position
            numbers[there] = numbers[there] * base + self._tables[position].take(emitted[there, position])
            ended = length == position + 1
            stopped = np.bincount(numbers[ended], times[ended], base ** (position + 1))  # exact below 2**53
            counts = _continued(counts, rows, rng) + stopped.astype(np.int64)
        found = np.flatnonzero(counts)
        return _bare(self._decoded(found), counts[found])


def _continued(counts: IntArray, rows: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw how often each token follows each prefix: from counts int64 [n] of prefixes to int64 [n * V].

    Args:
        counts: How often each prefix came.
        rows: float64 [n, V], the law after each prefix; one row where it is the same after all.
        rng: Source of the draws.
    """
    after = np.zeros((len(counts), rows.shape[1]), dtype=np.int64)
    some = np.flatnonzero(counts)
    laws = rows[some if len(rows) > 1 else np.zeros_like(some)]
    after[some] = rng.multinomial(counts[some], laws / laws.sum(axis=1, keepdims=True))
    return after.ravel()


def first_tokens(trace: Trace, vocab_size: int) -> View:
    """See a trace as its distinct first tokens, which are not lumped."""
    found, times = _counted(trace.completed[:, 0], vocab_size)
    return _bare(found[:, None], times)


def each_row(trace: Trace) -> View:
    """See a trace as it is."""
    never = np.zeros(len(trace), dtype=np.bool_)
    return View(trace, never, never)


def _too_many(numbers: int, rows: int) -> bool:
    return numbers > min(NUMBERS_PER_ROW * rows, MAX_NUMBERS)


def _cells(lens: Lumping, vocab_size: int) -> Sequence[IntArray]:
    """Give the cell of each token at each position."""
    return lens.tables or (np.arange(vocab_size),) * (lens.case.num_draft_tokens + 1)


def _counted(numbers: IntArray | _Terms, size: int) -> tuple[IntArray, IntArray]:
    """Give the numbers that occur, and how often each does."""
    times = np.bincount(numbers, minlength=size)
    found = np.flatnonzero(times)
    return found, times[found]


def _bare(completed: IntArray, times: IntArray) -> View:
    """Make a view of completed tokens alone."""
    rows = len(completed)
    none, zero, never = np.full((rows, 0), -1), np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.bool_)
    return View(Trace(none, zero, zero, zero - 1, completed), never, never, times)

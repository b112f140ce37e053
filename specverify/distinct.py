"""Rows are counted by what they came to: a question is asked once of each distinct outcome, not once of each row.

Seen through a lens few outcomes are possible, and each has a number. A row's number is one sum of looked-up terms, and
after one count of the numbers the rows are no longer needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from specverify.arrays import IntArray
from specverify.lumping import Lumping, View
from specverify.trace import Trace
from specverify.views import decode_blocks, decode_outcomes

__all__ = ["Blocks", "Outcomes", "each_row", "first_tokens", "lengths"]

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
            # A last entry stands for no token, which is -1 and counts as digit 0.
            digits = [np.append(cells + 1, 0) for cells in _cells(lens, vocab_size)]
            stops = [accepted * base + digit for accepted, digit in enumerate(digits)]
            self._stops = np.concatenate(stops).astype(np.int32)
            places = base * (full + 1) * base ** np.arange(full)[::-1]
            self._drafts = [(digit * place).astype(np.int32) for digit, place in zip(digits, places, strict=False)]

    def view(self, trace: Trace) -> View:
        """See a trace as its distinct outcomes, or row by row where too many are possible."""
        if _too_many(self._numbers, len(trace)):
            return self._lens.view(trace)
        none = trace.next_token < 0
        stops = trace.num_accepted * (self._size + 1) + trace.next_token
        if none.any():
            stops[none] += self._size + 1
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
    """Sees traces as their distinct completed blocks.

    Args:
        lens: What the blocks are seen through.
        vocab_size: Number V of tokens before they are lumped.
    """

    def __init__(self, lens: Lumping, vocab_size: int) -> None:
        self._lens = lens
        base, width = lens.case.vocab_size, lens.case.num_draft_tokens + 1
        self._numbers = base**width
        if self._numbers <= MAX_NUMBERS:
            places = base ** np.arange(width)[::-1]
            terms = zip(_cells(lens, vocab_size), places, strict=True)
            self._terms = [(cells * place).astype(np.int32) for cells, place in terms]

    def view(self, trace: Trace) -> View:
        """See a trace as its distinct blocks, or row by row where too many are possible."""
        if _too_many(self._numbers, len(trace)):
            return self._lens.view(trace)
        numbers = np.zeros(len(trace), dtype=np.int32)
        for terms, column in zip(self._terms, trace.completed.T, strict=True):
            numbers += terms.take(column)
        found, times = _counted(numbers, self._numbers)
        return _bare(decode_blocks(self._lens, found), times)


def first_tokens(trace: Trace, vocab_size: int) -> View:
    """See a trace as its distinct first tokens, which are not lumped."""
    found, times = _counted(trace.completed[:, 0], vocab_size)
    return _bare(found[:, None], times)


def each_row(trace: Trace) -> View:
    """See a trace as it is."""
    never = np.zeros(len(trace), dtype=np.bool_)
    return View(trace, never, never)


def lengths(trace: Trace) -> View:
    """See a trace as its distinct lengths: tokens drafted, tokens accepted, and whether one more was emitted."""
    full = trace.draft_tokens.shape[1]
    numbers = (trace.num_draft_tokens * (full + 1) + trace.num_accepted) * 2 + (trace.next_token >= 0)
    found, times = _counted(numbers, 2 * (full + 1) ** 2)
    drafted, accepted = np.divmod(found // 2, full + 1)
    unknown, never = np.full((len(found), full), -1), np.zeros(len(found), dtype=np.bool_)
    return View(Trace(unknown, drafted, accepted, found % 2 - 1, unknown), never, never, times)


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

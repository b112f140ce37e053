"""The independence stage: cases whose rows give fair tokens under any lossless rule, and the checks that compare them.

The coin case tests the accept uniforms, the flat cases the final ones, the wide case both, also one row at a time;
crowds are the largest batches a sampler takes, since shared randomness may begin beyond any small number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from specverify.arrays import IntArray
from specverify.cases import Case
from specverify.distances import between_calls, between_rows, within_calls
from specverify.findings import Finding
from specverify.loop_menu import flat_loop
from specverify.menu import coin_case, crowd_case, flat_case, wide_case
from specverify.repeats import repeats

__all__ = ["StageCase", "cases", "find"]

CALLS = 512
COIN_ROWS = 512  # also the largest batch whose rows are compared at every distance
FLAT_ROWS = 128
WIDE_ROWS = 64
LOOP_ROWS = 32
LOOP_TOKENS = 256
CROWD_ROWS = 8192
CROWD_CALLS = 32
COIN_CROWD_CALLS = 96  # the fewest that make a row of coins a run that never repeats by chance


@dataclass(frozen=True)
class StageCase:
    """One case of the stage, as one sampler gets it.

    Attributes:
        case: The case.
        batch: Rows of every call.
        calls: Number of calls.
    """

    case: Case
    batch: int
    calls: int


def cases(max_batch: int | None, *, loops: bool = False) -> tuple[StageCase, ...]:
    """List the cases of the stage for a sampler.

    Args:
        max_batch: Largest number of rows that it takes, or None.
        loops: Whether it is a generate loop, which is dear: it gets one case of fair tokens.

    Returns:
        The cases in the order in which they are run; a sampler of few rows gets no crowds.

    Example:
        >>> [(stage.case.name, stage.batch, stage.calls) for stage in cases(1)]
        [('coin', 1, 512), ('flat', 1, 512), ('wide', 1, 512)]
    """
    if loops:
        return (StageCase(flat_loop(LOOP_TOKENS), min(LOOP_ROWS, max_batch or LOOP_ROWS), CALLS),)
    return tuple(_cases(max_batch or CROWD_ROWS))


def _cases(largest: int) -> Iterator[StageCase]:
    yield StageCase(coin_case(), min(COIN_ROWS, largest), CALLS)
    yield StageCase(flat_case(), min(FLAT_ROWS, largest), CALLS)
    wide = min(WIDE_ROWS, largest)
    yield StageCase(wide_case(), wide, max(WIDE_ROWS, CALLS // wide))
    if largest > FLAT_ROWS:
        yield StageCase(crowd_case(), min(CROWD_ROWS, largest), CROWD_CALLS)
    if largest > COIN_ROWS:
        yield StageCase(replace(coin_case(), name="coin-crowd"), min(CROWD_ROWS, largest), COIN_CROWD_CALLS)


def find(completed: IntArray, case: Case, selects: Callable[[str], bool] = lambda _: True) -> list[Finding]:
    """Run every dependence check that was asked for and that a case and its batch size allow.

    Args:
        completed: int64 [calls, rows, G + 1], the completed blocks.
        case: Case of one of :func:`cases`.
        selects: Whether a check was asked for, by id.

    Returns:
        One finding a check; calls of one row say nothing about distances between rows.
    """
    fair = int((case.target[-1][0] > 0).sum())
    tokens, places = completed[..., 0], None
    if case.name == wide_case().name:
        tokens, places = _first_other(completed, case.vocab_size)
    made: dict[str, Callable[[], Finding]] = {"SV-IND-004": lambda: repeats(tokens, case.name, fair, places)}
    if tokens.shape[1] <= COIN_ROWS:
        made["SV-IND-002"] = lambda: between_calls(tokens, case.name, fair)
        if tokens.shape[1] > 1:
            made["SV-IND-001"] = lambda: between_rows(tokens, case.name, fair)
            made["SV-IND-003"] = lambda: within_calls(tokens, case.name, fair)
    return [make() for check, make in made.items() if selects(check)]


def _first_other(completed: IntArray, vocab_size: int) -> tuple[IntArray, IntArray]:
    """Give the first token that is not the drafted token 0, counted from 0, and its place in the block."""
    others = completed != 0
    others[..., -1] = True
    places = others.argmax(axis=-1)
    tokens = np.take_along_axis(completed, places[..., None], axis=-1)[..., 0]
    return np.where(tokens > 0, tokens, vocab_size) - 1, places  # a last token 0 is wrong, and not one of the fair ones

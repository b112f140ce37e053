"""A model with the kit's laws as mlx-lm calls one, and the rounds of its speculative loop as its two models see them.

The cache holds the tokens themselves, so that a loop which trims it by a wrong number gets the law of another context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from specverify.generating import Round
from specverify.processing import Sampling

__all__ = ["TableModel", "begun_before", "rounds_of"]


class TableModel:
    """Laws by context, as mlx-lm calls a model: its logits are log-probabilities.

    Args:
        laws: From contexts int64 [1, t] to log-probabilities float32 [1, V].

    Attributes:
        layers: One, so that mlx-lm makes one cache of its own.
        calls: For each call, the tokens it was given, and the log-probabilities after the last of them, float32 [1, V].
    """

    def __init__(self, laws: Callable[[Any], Any]) -> None:
        self.layers = [None]
        self.calls: list[tuple[list[int], Any]] = []
        self._laws = laws

    def __call__(self, ids: Any, cache: Any) -> Any:
        """Give the logits after each of the tokens int [1, T], which follow those in the cache: float32 [1, T, V]."""
        states = ids.astype(mx.float32)[:, None, :, None]
        context = np.array(cache[0].update_and_fetch(states, states)[0])[:, 0, :, 0].astype(np.int64)
        first = context.shape[1] - ids.shape[1]
        rows = [self._laws(context[:, :end]) for end in range(first + 1, context.shape[1] + 1)]
        self.calls.append((context[0, first:].tolist(), rows[-1]))
        return mx.array(np.stack(rows, axis=1))


def rounds_of(target: TableModel, draft: TableModel, drafted: Sequence[bool], sampling: Sampling) -> Iterator[Round]:
    """Read the rounds off the calls: in each the target is given the last token and the drafts, and takes some of them.

    Args:
        target: The target, all of whose calls after the one that takes the prompt are rounds.
        draft: The draft, called once for each drafted token.
        drafted: For each new token, whether it is an accepted draft.
        sampling: What makes the law of a draft from the draft's log-probabilities.
    """
    laws, taken = iter(draft.calls), iter(drafted)
    for (_, *drafts), _ in target.calls:
        claimed = [sampling.law(next(laws)[1].astype(np.float64), np.zeros((1, 0), np.int64), ()) for _ in drafts]
        size = target.calls[0][1].shape[1]
        yield Round([drafts], np.reshape(claimed, (1, -1, size)), [_run(taken)])


def _run(taken: Iterator[bool]) -> int:
    """Count the accepted drafts up to the token that the target adds, and take them all off."""
    count = 0
    while next(taken, False):
        count += 1
    return count


def begun_before(end: int, rounds: Sequence[Round]) -> list[Round]:
    """Drop the rounds that begin after so many tokens: those after an end of sequence."""
    kept = 0
    for step in rounds:
        if end <= 0:
            break
        kept, end = kept + 1, end - step.num_accepted[0] - 1
    return list(rounds[:kept])

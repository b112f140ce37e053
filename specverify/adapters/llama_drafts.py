"""Drafts for llama-cpp-python, drawn from the kit's draft model, and the rounds that they make."""

from __future__ import annotations

from typing import Any

import numpy as np
from llama_cpp.llama_speculative import LlamaDraftModel

from specverify.generating import Round
from specverify.processing import Sampling

__all__ = ["Drafts", "rounds_of"]


class Drafts(LlamaDraftModel):  # type: ignore[misc]  # the base is not typed
    """Draws drafts from the kit's draft model, and keeps them: after how many tokens, which, and from which laws."""

    def __init__(self, model: Any, sampling: Sampling, count: int, seed: int) -> None:
        self.made: list[tuple[int, list[int], list[Any]]] = []
        self._model, self._sampling = model, sampling
        self._count, self._rng = count, np.random.default_rng(seed)

    def __call__(self, input_ids: Any, /, **options: Any) -> Any:  # noqa: ARG002 - as the base has it
        """Draft after the tokens so far, int32 [T]."""
        context, laws = input_ids.tolist(), []
        for _ in range(self._count):
            laws.append(self._law(context))
            context.append(int(self._rng.choice(len(laws[-1]), p=laws[-1])))
        self.made.append((len(input_ids), context[len(input_ids) :], laws))
        return np.array(context[len(input_ids) :], dtype=np.intc)

    def _law(self, context: list[int]) -> Any:
        scores = self._model(np.array([context])).astype(np.float64)
        return self._sampling.law(scores, np.zeros((1, 0), np.int64), ())[0]


def rounds_of(made: list[Any], tokens: list[int], before: int, until: int) -> list[Round]:
    """Give the first token, which comes without a draft, and the rounds after it: drafts that come are accepted."""
    size = len(made[0][2][0])
    rounds = [Round(np.zeros((1, 0), np.int64), np.zeros((1, 0, size)), [0])]
    for length, drafts, laws in made:
        start = length - before
        if start < until:
            same = np.array(drafts) == tokens[start : start + len(drafts)]
            rounds.append(Round([drafts], [laws], [int(np.logical_and.accumulate(same).sum())]))
    return rounds

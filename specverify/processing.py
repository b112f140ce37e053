"""Sampling parameters make the law that is really asked for: the target is the model's row after penalties and filters.

A generate loop is lossless towards this law, and towards no other: a filter that is lost on one row, or a penalty that
counts rejected drafts, is a wrong law. The order is bias, repetition and frequency penalty, minimum length, grammar,
temperature, top-k, top-p, min-p; a token whose score is -inf stays impossible throughout.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from specverify.arrays import BoolArray, FloatArray, IntArray

__all__ = ["PLAIN", "Grammar", "Sampling"]


@dataclass(frozen=True)
class Grammar:
    """A finite automaton that says which tokens may come next.

    Attributes:
        allowed: For each state, the tokens that may come.
        after: For each state and token, the state that follows.
        vocab_size: Number V of tokens.

    Example:
        >>> turns = Grammar(allowed=((0,), (1,)), after=((1, 1), (0, 0)), vocab_size=2)
        >>> turns(np.array([[0], [1]])).tolist()
        [[False, True], [False, True]]
    """

    allowed: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    vocab_size: int

    def __call__(self, generated: IntArray) -> BoolArray:
        """Say which tokens may follow the tokens generated so far: int64 [B, t], without the prompt, to bool [B, V]."""
        mask = np.zeros((len(self.allowed), self.vocab_size), dtype=np.bool_)
        for state, tokens in enumerate(self.allowed):
            mask[state, list(tokens)] = True
        return mask[self.states(np.asarray(generated))]

    def states(self, generated: IntArray) -> IntArray:
        """Give the state after the tokens generated so far: int64 [B]."""
        table, state = np.array(self.after), np.zeros(len(generated), dtype=np.int64)
        for column in range(generated.shape[1]):
            state = table[state, generated[:, column]]
        return state


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters, by the names under which a generator asks for them.

    Attributes:
        temperature: T > 0; scores are divided by it.
        top_k: How many of the likeliest tokens are kept; 0 keeps all.
        top_p: Within (0, 1]: the fewest likeliest tokens are kept that have this mass together.
        min_p: Within [0, 1]: tokens of less than this share of the likeliest one's probability are dropped.
        repetition_penalty: Scores of tokens that came before, in the prompt or since, are multiplied by it where they
            are negative and divided by it where they are positive (arXiv 1909.05858, section 4.1).
        frequency_penalty: Subtracted from a token's score once for each time that it was generated.
        logit_bias: V numbers that are added to the scores; empty adds nothing.
        min_new_tokens: The end of sequence is impossible until so many tokens were generated.
        allowed_tokens: A grammar, or None.

    Example:
        >>> Sampling(top_k=1).law(np.log([[0.6, 0.4]]), np.zeros((1, 0), np.int64), ()).tolist()
        [[1.0, 0.0]]
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[float, ...] = ()
    min_new_tokens: int = 0
    allowed_tokens: Grammar | None = None

    @property
    def set_names(self) -> frozenset[str]:
        """Name the parameters that change anything: a generator that does not ask for them cannot follow."""
        return frozenset(field.name for field in fields(self) if getattr(self, field.name) != field.default)

    def argument(self, name: str, vocab_size: int) -> Any:
        """Give what is passed for a parameter: as it is, but a bias as float64 [V] and no grammar as one of all."""
        if name == "logit_bias":
            return np.array(self.logit_bias or [0.0] * vocab_size)
        if name == "allowed_tokens" and self.allowed_tokens is None:
            return Grammar((tuple(range(vocab_size)),), ((0,) * vocab_size,), vocab_size)
        return getattr(self, name)

    def scores(
        self, log_probs: FloatArray, generated: IntArray, prompt: tuple[int, ...], eos: int | None = None
    ) -> FloatArray:
        """Give the scores before temperature and filters: what depends on the tokens before.

        Args:
            log_probs: float64 [n, V], what the model gives.
            generated: int64 [n, t], the tokens since the prompt.
            prompt: The prompt.
            eos: The token that ends a sequence, or None.
        """
        scores = log_probs + (np.array(self.logit_bias) if self.logit_bias else 0.0)
        counts = (generated[:, :, None] == np.arange(scores.shape[1])).sum(axis=1)
        before = (counts > 0) | np.isin(np.arange(scores.shape[1]), prompt)
        if self.repetition_penalty != 1:
            weight = np.where(scores < 0, self.repetition_penalty, 1 / self.repetition_penalty)
            scores = np.where(before, scores * weight, scores)
        scores = scores - self.frequency_penalty * counts
        if eos is not None and generated.shape[1] < self.min_new_tokens:
            scores[:, eos] = -np.inf
        if self.allowed_tokens is not None:
            scores = np.where(self.allowed_tokens(generated), scores, -np.inf)
        return scores

    def law(
        self, log_probs: FloatArray, generated: IntArray, prompt: tuple[int, ...], eos: int | None = None
    ) -> FloatArray:
        """Give the law that is asked for: float64 [n, V]; the arguments are those of ``scores``."""
        scores = self.scores(log_probs, generated, prompt, eos) / self.temperature
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return self.filtered(weights / weights.sum(axis=1, keepdims=True))

    def filtered(self, laws: FloatArray) -> FloatArray:
        """Keep the tokens that top-k, top-p and min-p keep, one after the other, and renormalise: float64 [n, V]."""
        if self.top_k:
            laws = _kept(laws, np.arange(laws.shape[1]) < self.top_k)
        if self.top_p < 1:
            ordered = -np.sort(-laws, axis=1)
            laws = _kept(laws, np.cumsum(ordered, axis=1) - ordered < self.top_p)
        return _normalised(np.where(laws >= self.min_p * laws.max(axis=1, keepdims=True), laws, 0.0))


def _kept(laws: FloatArray, ranks: BoolArray) -> FloatArray:
    """Keep the tokens of some ranks by probability, bool [V] or [n, V]; of equal ones the lower id ranks first."""
    order = np.argsort(-laws, axis=1, kind="stable")
    keep = np.zeros(laws.shape, dtype=np.bool_)
    np.put_along_axis(keep, order, np.broadcast_to(ranks, laws.shape), axis=1)
    return _normalised(np.where(keep, laws, 0.0))


def _normalised(laws: FloatArray) -> FloatArray:
    return np.asarray(laws / laws.sum(axis=1, keepdims=True))


PLAIN = Sampling()
"""What is asked for where nothing is: the model's own law."""

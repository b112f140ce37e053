"""Sampling parameters make the law that is really asked for: the target is the model's row after penalties and filters.

A generate loop is lossless towards this law, and towards no other: a filter that is lost on one row, or a penalty that
counts rejected drafts, is a wrong law. The order is bias, repetition and frequency penalty, minimum length, grammar,
temperature, top-k, top-p, min-p; a token whose score is -inf stays impossible throughout. Scores start as the model's
log-probabilities and are not normalised in between, on which a repetition penalty depends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf, isfinite
from typing import Any

import numpy as np

from specverify.arrays import BoolArray, FloatArray, IntArray
from specverify.errors import ConfigError
from specverify.integers import integer
from specverify.reading import on_host
from specverify.wording import brief

__all__ = ["PLAIN", "Grammar", "Sampling"]

LARGEST_COUNT = 2**31 - 1
EDGE = 1e-12  # a sum or share this near to top_p or min_p has reached it: rounding decides no tie


@dataclass(frozen=True)
class Grammar:
    """A finite automaton that says which tokens may come next.

    Attributes:
        allowed: For each state, the tokens that may come, one or more; the first state is that of the start.
        after: For each state and token, the state that follows.
        vocab_size: Number V of tokens.

    Raises:
        ConfigError: A state allows no token, or a token or state is not there.

    Example:
        >>> turns = Grammar(allowed=((0,), (1,)), after=((1, 1), (0, 0)), vocab_size=2)
        >>> turns(np.array([[0], [1]])).tolist()
        [[False, True], [False, True]]
    """

    allowed: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    vocab_size: int

    def __post_init__(self) -> None:
        states, size = len(self.allowed), integer("vocab_size of a grammar", self.vocab_size, 1, LARGEST_COUNT)
        if not states or len(self.after) != states or any(len(row) != size for row in self.after):
            raise ConfigError(
                f"expected a grammar with one list of allowed tokens and {size} following states for each state, got "
                f"{states} lists and {brief(self.after)}; give one state for each token"
            )
        for state, (tokens, following) in enumerate(zip(self.allowed, self.after, strict=True)):
            if not tokens:
                raise ConfigError(f"expected state {state} of a grammar to allow a token, got none; allow one or more")
            for token in tokens:
                integer(f"a token allowed in state {state} of a grammar", token, 0, size - 1)
            for other in following:
                integer(f"a state after state {state} of a grammar", other, 0, states - 1)

    def __call__(self, generated: IntArray) -> BoolArray:
        """Say which tokens may follow the tokens generated so far: int64 [B, t], without the prompt, to bool [B, V]."""
        mask = np.zeros((len(self.allowed), self.vocab_size), dtype=np.bool_)
        for state, tokens in enumerate(self.allowed):
            mask[state, list(tokens)] = True
        return mask[self.states(np.asarray(on_host(generated)))]

    @property
    def free(self) -> bool:
        """Whether it allows every token everywhere."""
        return all(set(tokens) == set(range(self.vocab_size)) for tokens in self.allowed)

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
        repetition_penalty: > 0; scores of tokens that came before, in the prompt or since, are multiplied by it where
            they are negative and divided by it where they are positive (arXiv 1909.05858, section 4.1).
        frequency_penalty: Any finite number, subtracted from a token's score once for each time that it was generated.
        logit_bias: V numbers that are added to the scores, -inf to rule a token out; empty adds nothing.
        min_new_tokens: The end of sequence is impossible until so many tokens were generated.
        allowed_tokens: A grammar, or None.

    Raises:
        ConfigError: A parameter lies outside its domain.

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

    def __post_init__(self) -> None:
        given = {
            "temperature": _number("temperature", self.temperature, "> 0", least=0, open_below=True),
            "top_k": integer("top_k", self.top_k, 0, LARGEST_COUNT),
            "top_p": _number("top_p", self.top_p, "within (0, 1]", least=0, most=1, open_below=True),
            "min_p": _number("min_p", self.min_p, "within [0, 1]", least=0, most=1),
            "repetition_penalty": _number("repetition_penalty", self.repetition_penalty, "> 0", 0, open_below=True),
            "frequency_penalty": _number("frequency_penalty", self.frequency_penalty, "finite"),
            "logit_bias": _bias(self.logit_bias),
            "min_new_tokens": integer("min_new_tokens", self.min_new_tokens, 0, LARGEST_COUNT),
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)
        if not isinstance(self.allowed_tokens, Grammar | None):
            raise ConfigError(f"expected allowed_tokens to be a Grammar or None, got {brief(self.allowed_tokens)}")

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

        Returns:
            float64 [n, V], a new array.
        """
        scores = log_probs + (np.array(self.logit_bias) if self.logit_bias else 0.0)
        if self.repetition_penalty != 1:
            weight = np.where(scores < 0, self.repetition_penalty, 1 / self.repetition_penalty)
            before = (_counts(generated, scores.shape[1]) > 0) | np.isin(np.arange(scores.shape[1]), prompt)
            scores = np.where(before, scores * weight, scores)
        if self.frequency_penalty:
            scores = scores - self.frequency_penalty * _counts(generated, scores.shape[1])
        if eos is not None and generated.shape[1] < self.min_new_tokens:
            scores[:, eos] = -np.inf
        if self.allowed_tokens is not None:
            scores = np.where(self.allowed_tokens(generated), scores, -np.inf)
        return scores

    def law(
        self, log_probs: FloatArray, generated: IntArray, prompt: tuple[int, ...], eos: int | None = None
    ) -> FloatArray:
        """Give the law that is asked for: float64 [n, V]; the arguments are those of ``scores``.

        Raises:
            ConfigError: The parameters leave no token possible.
        """
        scores = self.scores(log_probs, generated, prompt, eos)
        best = scores.max(axis=1, keepdims=True)
        if not np.isfinite(best).all():
            row = int(np.argmin(np.isfinite(best[:, 0])))
            cause = ", ".join(sorted(self.set_names)) or "the model alone"
            raise ConfigError(
                f"expected a token that is possible after the generated tokens {brief(generated[row].tolist())}, got "
                f"none under {cause}; allow one to which the model gives a probability"
            )
        # The difference first: of scores that overflow when divided none would be the best.
        with np.errstate(over="ignore"):
            weights = np.exp((scores - best) / self.temperature)
        return self.filtered(weights / weights.sum(axis=1, keepdims=True))

    def filtered(self, laws: FloatArray) -> FloatArray:
        """Keep the tokens that top-k, top-p and min-p keep, one after the other, and renormalise: float64 [n, V].

        Of equally likely tokens at the edge of top-k or top-p those with lower ids are kept; at that of min-p all are.
        """
        if self.top_k:
            laws = _kept(laws, np.arange(laws.shape[1]) < self.top_k)
        if self.top_p < 1:
            short = np.cumsum(-np.sort(-laws, axis=1), axis=1) < self.top_p - EDGE
            laws = _kept(laws, np.arange(laws.shape[1]) <= short.sum(axis=1, keepdims=True))
        if self.min_p:
            share = laws / laws.max(axis=1, keepdims=True)
            laws = _normalised(np.where(share >= self.min_p - EDGE, laws, 0.0))
        return laws


def _kept(laws: FloatArray, ranks: BoolArray) -> FloatArray:
    """Keep the tokens of some ranks by probability, bool [V] or [n, V]; of equal ones the lower id ranks first."""
    order = np.argsort(-laws, axis=1, kind="stable")
    keep = np.zeros(laws.shape, dtype=np.bool_)
    np.put_along_axis(keep, order, np.broadcast_to(ranks, laws.shape), axis=1)
    return _normalised(np.where(keep, laws, 0.0))


def _counts(generated: IntArray, size: int) -> IntArray:
    """Count each token in each row: int64 [n, t] to int64 [n, V]."""
    cells = generated + size * np.arange(len(generated))[:, None]
    return np.bincount(cells.ravel(), minlength=len(generated) * size).reshape(-1, size)


def _number(
    name: str, value: Any, domain: str, least: float = -inf, most: float = inf, *, open_below: bool = False
) -> float:
    """Give a finite number within its limits as a float."""
    try:
        number = inf if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = inf
    if not isfinite(number) or not least <= number <= most or (open_below and number == least):
        raise ConfigError(
            f"expected {name} to be a number {domain}, got {brief(value)}; leave it out to change nothing"
        )
    return number


def _bias(values: Sequence[float]) -> tuple[float, ...]:
    try:
        bias = tuple(float(value) for value in values)
    except (TypeError, ValueError, OverflowError):
        bias = (inf,)
    if not all(value < inf for value in bias):
        raise ConfigError(f"expected logit_bias to be V numbers, -inf allowed, got {brief(values)}; -inf rules out")
    return bias


def _normalised(laws: FloatArray) -> FloatArray:
    return np.asarray(laws / laws.sum(axis=1, keepdims=True))


PLAIN = Sampling()
"""What is asked for where nothing is: the model's own law."""

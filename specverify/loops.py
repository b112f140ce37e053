"""A loop is what a generate function is asked to do: two models, a prompt, a draft length and sampling parameters.

The law of the first tokens follows exactly from the target model and the sampling parameters, whatever the loop drafts
and caches on its way. The models depend on the position and on the last tokens, so that a row shifted by one, a cache
that keeps rejected drafts, or the context of another request gives another law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.errors import ConfigError, ContractError
from specverify.integers import integer
from specverify.processing import PLAIN, Sampling
from specverify.rows import MAX_DRAFT_TOKENS, is_law
from specverify.wording import brief

__all__ = ["LanguageModel", "Loop", "MarkovModel", "prefixes"]

MAX_PROCESS = 1024


class LanguageModel(Protocol):
    """Next-token laws by context.

    Attributes:
        vocab_size: Number V of tokens.
        eos_token_id: The token that ends a sequence, or None.
    """

    @property
    def vocab_size(self) -> int: ...  # noqa: D102 - an attribute of the class docstring

    @property
    def eos_token_id(self) -> int | None: ...  # noqa: D102 - likewise

    def __call__(self, tokens: IntArray) -> FloatArray:
        """Give log p(. | tokens), float64 [B, V], after contexts int64 [B, T] that begin with the prompt."""


@dataclass(frozen=True, eq=False)
class MarkovModel:
    """A model whose law depends on the last ``order`` tokens and on the length of the context modulo ``phases``.

    Attributes:
        log_probs: float64 [phases, V ** order, V].
        order: How many tokens count; where the context is shorter, token 0 stands for what is missing.
        eos_token_id: The token that ends a sequence, or None.

    Raises:
        ConfigError: The rows are no laws of that many contexts.

    Example:
        >>> always = MarkovModel(np.log([[[0.5, 0.5]]]), 0)
        >>> np.exp(always(np.array([[0, 1, 1]]))).tolist()
        [[0.5, 0.5]]
    """

    log_probs: FloatArray
    order: int
    eos_token_id: int | None = None

    def __post_init__(self) -> None:
        rows = np.array(self.log_probs, dtype=np.float64)
        if rows.ndim != 3 or not rows.size or rows.shape[1] != rows.shape[2] ** integer("order", self.order, 0, 64):
            raise ConfigError(
                f"expected log_probs float64 [phases, V ** order, V] with order {self.order}, got shape "
                f"{list(rows.shape)}; give one row for each phase and each run of {self.order} tokens"
            )
        if not is_law(np.exp(rows).reshape(-1, rows.shape[2])):
            raise ConfigError("expected rows of log_probs whose exponentials sum to 1, got others; normalise them")
        rows.flags.writeable = False
        object.__setattr__(self, "log_probs", rows)

    @property
    def vocab_size(self) -> int:
        """Number V of tokens."""
        return int(self.log_probs.shape[2])

    def __call__(self, tokens: IntArray) -> FloatArray:
        """Give log p(. | tokens), float64 [B, V], after contexts int [B, T].

        Raises:
            ContractError: The contexts have another shape or type, or are outside the vocabulary.
        """
        contexts = np.asarray(tokens)
        if contexts.ndim != 2 or (contexts.size and contexts.dtype.kind not in "iu"):
            raise ContractError(
                f"expected contexts int [B, T], got {contexts.dtype} of shape {list(contexts.shape)}; pass a batch"
            )
        length = contexts.shape[1]
        recent = contexts[:, max(0, length - self.order) :].astype(np.int64)
        if recent.size and not 0 <= recent.min() <= recent.max() < self.vocab_size:
            raise ContractError(
                f"expected tokens in 0..{self.vocab_size - 1}, got {recent.min()} to {recent.max()}; pass no padding"
            )
        place = self.vocab_size ** np.arange(recent.shape[1])[::-1]
        return np.asarray(self.log_probs[length % len(self.log_probs), recent @ place])


@dataclass(frozen=True, eq=False)
class Loop:
    """What a generate loop is asked for on a case.

    Attributes:
        target: The target model.
        draft: The draft model, of the same vocabulary.
        prompt: The tokens that are there before, one or more.
        num_draft_tokens: Tokens drafted in a round; 0 for the control without a draft.
        max_new_tokens: Number L of new tokens.
        sampling: Sampling parameters.
        mate: Prompt of the batch mates, which are not counted, as long as the prompt; empty where there are none.
        process: Number of the fresh process that it is run in; 0 for this one.

    Raises:
        ConfigError: The models, the prompts and the sampling parameters are not of one vocabulary, or a number lies
            outside its domain.

    Example:
        >>> coin = MarkovModel(np.log([[[0.5, 0.5]]]), 0)
        >>> loop = Loop(coin, coin, prompt=(0,), num_draft_tokens=2, max_new_tokens=3, sampling=Sampling(top_k=1))
        >>> loop.target_laws(np.array([[1, 0]])).tolist()
        [[1.0, 0.0]]
    """

    target: LanguageModel
    draft: LanguageModel
    prompt: tuple[int, ...]
    num_draft_tokens: int
    max_new_tokens: int
    sampling: Sampling = PLAIN
    mate: tuple[int, ...] = ()
    process: int = 0

    def __post_init__(self) -> None:
        size, eos = self.target.vocab_size, self.target.eos_token_id
        _same("the draft model's vocabulary", self.draft.vocab_size, size)
        integer("num_draft_tokens", self.num_draft_tokens, 0, MAX_DRAFT_TOKENS)
        integer("max_new_tokens", self.max_new_tokens, 1, MAX_DRAFT_TOKENS)
        integer("process", self.process, 0, MAX_PROCESS)
        if eos is not None:
            integer("eos_token_id", eos, 0, size - 1)
        for name, tokens in (("prompt", self.prompt), ("mate", self.mate)):
            ids = tuple(integer(f"each token of {name}", token, 0, size - 1) for token in tokens)
            object.__setattr__(self, name, ids)
        if not self.prompt or len(self.mate) not in (0, len(self.prompt)):
            raise ConfigError(
                f"expected a prompt of one token or more, and a mate of none or as many, got {brief(self.prompt)} and "
                f"{brief(self.mate)}; one batch has prompts of one length"
            )
        if self.sampling.logit_bias:
            _same("the logit_bias", len(self.sampling.logit_bias), size)
        if self.sampling.allowed_tokens is not None:
            _same("the grammar", self.sampling.allowed_tokens.vocab_size, size)

    @property
    def vocab_size(self) -> int:
        """Number V of tokens."""
        return self.target.vocab_size

    def target_laws(self, generated: IntArray) -> FloatArray:
        """Give the law of the next token after the tokens generated so far: int64 [n, t] to float64 [n, V].

        After the end of a sequence nothing comes but the end again.
        """
        laws = self._laws(self.target, generated)
        eos = self.target.eos_token_id
        if eos is not None:
            ended = (generated == eos).any(axis=1)
            laws = np.where(ended[:, None], np.arange(self.vocab_size) == eos, laws)
        return laws

    def draft_laws(self, generated: IntArray) -> FloatArray:
        """Give the law of a drafted token under the same sampling parameters: int64 [n, t] to float64 [n, V]."""
        return self._laws(self.draft, generated)

    def asked_of(self, prompt: tuple[int, ...]) -> Loop:
        """Give the same loop with another prompt, and no mates."""
        return replace(self, prompt=prompt, mate=())

    def _laws(self, model: LanguageModel, generated: IntArray) -> FloatArray:
        contexts = np.concatenate([np.tile(self.prompt, (len(generated), 1)), generated], axis=1).astype(np.int64)
        return self.sampling.law(model(contexts), generated, self.prompt, self.target.eos_token_id)

    def levels(self, laws: Callable[[IntArray], FloatArray], depth: int) -> tuple[FloatArray, ...]:
        """Give the laws after every run of 0 to depth - 1 tokens, float64 [V**i, V] each, as a case lays them out."""
        return tuple(laws(prefixes(self.vocab_size, length)) for length in range(depth))


def _same(what: str, size: int, wanted: int) -> None:
    if size != wanted:
        raise ConfigError(f"expected {what} to be of {wanted} tokens, as the target model is, got {size}; make it so")


def prefixes(vocab_size: int, length: int) -> IntArray:
    """List all runs of so many tokens: int64 [V ** length, length], the first token leading.

    Example:
        >>> prefixes(2, 2).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    place = vocab_size ** np.arange(length)[::-1]
    return np.arange(vocab_size**length)[:, None] // place % vocab_size

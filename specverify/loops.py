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
from specverify.processing import PLAIN, Sampling

__all__ = ["LanguageModel", "Loop", "MarkovModel", "prefixes"]


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

    Example:
        >>> always = MarkovModel(np.log([[[0.5, 0.5]]]), 0)
        >>> np.exp(always(np.array([[0, 1, 1]]))).tolist()
        [[0.5, 0.5]]
    """

    log_probs: FloatArray
    order: int
    eos_token_id: int | None = None

    @property
    def vocab_size(self) -> int:
        """Number V of tokens."""
        return int(self.log_probs.shape[2])

    def __call__(self, tokens: IntArray) -> FloatArray:
        """Give log p(. | tokens), float64 [B, V], after contexts int64 [B, T]."""
        rows, length = tokens.shape
        number = np.zeros(rows, dtype=np.int64)
        for column in range(max(0, length - self.order), length):
            number = number * self.vocab_size + tokens[:, column]
        return np.asarray(self.log_probs[length % len(self.log_probs), number])


@dataclass(frozen=True, eq=False)
class Loop:
    """What a generate loop is asked for on a case.

    Attributes:
        target: The target model.
        draft: The draft model.
        prompt: The tokens that are there before.
        num_draft_tokens: Tokens drafted in a round; 0 for the control without a draft.
        max_new_tokens: Number L of new tokens.
        sampling: Sampling parameters.
        mate: Prompt of the batch mates, whose tokens are not counted; empty where there are none.
        process: Number of the fresh process that it is run in; 0 for this one.
    """

    target: LanguageModel
    draft: LanguageModel
    prompt: tuple[int, ...]
    num_draft_tokens: int
    max_new_tokens: int
    sampling: Sampling = PLAIN
    mate: tuple[int, ...] = ()
    process: int = 0

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


def prefixes(vocab_size: int, length: int) -> IntArray:
    """List all runs of so many tokens: int64 [V ** length, length], the first token leading.

    Example:
        >>> prefixes(2, 2).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    number = np.arange(vocab_size**length)
    return (
        np.stack([number // vocab_size ** (length - 1 - i) % vocab_size for i in range(length)], axis=1)
        if length
        else np.zeros((1, 0), dtype=np.int64)
    )

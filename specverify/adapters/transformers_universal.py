"""Hugging Face transformers: ``generate`` with a draft model of another vocabulary, by way of two tokenizers.

The tokenizers have one character per token. The assistant knows every token of the target, in another order, and two
more; the library prunes it to the shared ones, and translates what it proposes, and its logits, into the target's ids.
Only a loop can show whether the two translations agree: the verification step is exact for whatever it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch
from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from transformers.generation.candidate_generator import AssistantToTargetTranslator

from specverify.adapters.transformers_calls import (
    VERSION,
    constant_drafts,
    new_tokens,
    padded,
    recorded_rounds,
    sampling_options,
    with_last_round,
)
from specverify.generating import Generation, generator
from specverify.transformers_models import random_llama

__all__ = ["Assistance", "as_shipped", "assistance", "universal", "universal_ordered", "with_assistance"]

LETTERS = 0x4E00  # no tokenizer joins, cleans up or marks what comes from here on
SEED = 39  # its laws of the shared tokens are so far from equal that any wrong order shows


class Assistance(NamedTuple):
    """Two tokenizers and an assistant, which belong together.

    The library prunes an assistant in place when the tokenizers first meet, in the order in which the assistant's then
    lists its vocabulary, and keeps that translation as long as they live. Each process draws an order of its own.

    Attributes:
        tokenizer: The target's, of V tokens.
        assistant_tokenizer: The assistant's, of V + 2.
        assistant_model: A random Llama of V + 2 tokens.
    """

    tokenizer: Any
    assistant_tokenizer: Any
    assistant_model: Any


def assistance(vocab_size: int) -> Assistance:
    """Make two tokenizers and an assistant for a target of V tokens.

    They meet in a first call, whose pruning draws random numbers that no later call draws.

    Example:
        >>> len(assistance(3).assistant_tokenizer)
        5
    """
    letters = [chr(LETTERS + token) for token in range(vocab_size + 1)]
    shared, (one, other) = [" ", *letters[: vocab_size - 1]], letters[vocab_size - 1 :]
    theirs = [" ", *reversed([*shared[1:], one]), other]  # the last comes first, and one of their own is among them
    others = Assistance(_tokenizer(shared), _tokenizer(theirs), random_llama(vocab_size + 2, SEED).model)
    with torch.random.fork_rng(devices=[]):
        target, prompt = random_llama(vocab_size, SEED).model, torch.zeros((1, 1), dtype=torch.int64)
        with_assistance(target, prompt, 1, 2, sampling_options(1.0, 0, 1.0, 0.0), others)
    return others


as_shipped, as_ordered = cache(assistance), cache(assistance)
"""What a process uses for a target of V tokens, by how the library translates: making it anew would double the time."""


@generator(
    name="transformers-universal", rule="token", framework="torch", dtype="float32", max_batch=1, version=VERSION
)
def universal(
    target_model_transformers: Any,
    prompt: Any,
    num_draft_tokens: int,
    max_new_tokens: int,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
) -> Generation:
    """Run ``generate(..., assistant_model, tokenizer, assistant_tokenizer)`` on one prompt, and report the rounds.

    Parameters that name tokens are not asked for: the library applies them to the pruned assistant's own numbering.

    Args:
        target_model_transformers: A PreTrainedModel.
        prompt: int64 tensor [1, T].
        num_draft_tokens: Tokens drafted in a round; 0 for plain ``generate``.
        max_new_tokens: Number L of new tokens.
        temperature: This and what follows as in ``specverify.processing.Sampling``.
        top_k: 0 keeps all.
        top_p: 1 keeps all.
        min_p: 0 keeps all.

    Returns:
        Tokens int64 [1, L], and rounds in the target's ids, whose law of the drafts is what the verification step got.
    """
    size = target_model_transformers.config.vocab_size
    options = sampling_options(temperature, top_k, top_p, min_p)
    return with_assistance(
        target_model_transformers, prompt, num_draft_tokens, max_new_tokens, options, as_shipped(size)
    )


@generator(rule="token", framework="torch", dtype="float32", max_batch=1, version=VERSION)
def universal_ordered(
    target_model_transformers: Any,
    prompt: Any,
    num_draft_tokens: int,
    max_new_tokens: int,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
) -> Generation:
    """Run what ``universal`` runs, with one change to the library: shared tokens are listed by the assistant's ids.

    Where this conforms and ``universal`` does not, the order is the cause.
    """
    size = target_model_transformers.config.vocab_size
    options = sampling_options(temperature, top_k, top_p, min_p)
    with _listed_by_assistant_id():
        return with_assistance(
            target_model_transformers, prompt, num_draft_tokens, max_new_tokens, options, as_ordered(size)
        )


def with_assistance(
    target: Any, prompt: Any, num_draft_tokens: int, length: int, options: dict[str, Any], others: Assistance
) -> Generation:
    """Run ``generate`` with these tokenizers and this assistant; the arguments are those of ``universal``."""
    if not num_draft_tokens:
        return Generation(padded(new_tokens(target, prompt, length, options), length))
    constant_drafts(others.assistant_model, num_draft_tokens)
    with recorded_rounds() as rounds:
        tokens = new_tokens(target, prompt, length, options | others._asdict())
    return Generation(padded(tokens, length), with_last_round(rounds, tokens, target.config.vocab_size))


def _tokenizer(letters: list[str]) -> Any:
    words = Tokenizer(WordLevel({letter: token for token, letter in enumerate(letters)}))
    words.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    words.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=words)


@contextmanager
def _listed_by_assistant_id() -> Iterator[None]:
    translation = AssistantToTargetTranslator._get_assistant_to_target_input_ids

    def ordered(translator: Any) -> Any:
        to_target, to_assistant = translation(translator)
        return to_target, dict(sorted(to_assistant.items(), key=lambda ids: int(ids[1])))

    AssistantToTargetTranslator._get_assistant_to_target_input_ids = ordered
    try:
        yield
    finally:
        AssistantToTargetTranslator._get_assistant_to_target_input_ids = translation

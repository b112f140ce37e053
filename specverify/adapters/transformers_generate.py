"""Hugging Face transformers: ``generate`` with a draft model, and with drafts looked up in the tokens before.

Both draw from torch's global generator. Asked for no drafts, both are plain ``generate``: the control.
"""

from __future__ import annotations

from typing import Any

from specverify.adapters.transformers_calls import (
    VERSION,
    allowing,
    constant_drafts,
    new_tokens,
    padded,
    recorded_rounds,
    sampling_options,
    with_last_round,
)
from specverify.generating import Generation, generator

__all__ = ["assisted", "prompt_lookup"]


@generator(name="transformers-assisted", rule="token", framework="torch", dtype="float32", max_batch=1, version=VERSION)
def assisted(
    target_model_transformers: Any,
    draft_model_transformers: Any,
    prompt: Any,
    num_draft_tokens: int,
    max_new_tokens: int,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    repetition_penalty: float,
    logit_bias: Any,
    min_new_tokens: int,
    allowed_tokens: Any,
) -> Generation:
    """Run ``generate(..., assistant_model=...)`` on one prompt, and report the rounds.

    Args:
        target_model_transformers: A PreTrainedModel.
        draft_model_transformers: Another; its generation_config is set to draft ``num_draft_tokens`` in a round.
        prompt: int64 tensor [1, T].
        num_draft_tokens: 0 for plain ``generate``.
        max_new_tokens: Number L of new tokens.
        temperature: This and what follows as in ``specverify.processing.Sampling``.
        top_k: 0 keeps all.
        top_p: 1 keeps all.
        min_p: 0 keeps all.
        repetition_penalty: 1 changes nothing.
        logit_bias: float tensor [V].
        min_new_tokens: Tokens before an end of sequence.
        allowed_tokens: A grammar.

    Returns:
        Tokens int64 [1, L], and rounds whose law of the drafts is what the library's verification step was given.
    """
    target, size = target_model_transformers, target_model_transformers.config.vocab_size
    options = sampling_options(temperature, top_k, top_p, min_p, repetition_penalty, logit_bias, min_new_tokens)
    options |= allowing(allowed_tokens, prompt.shape[1])
    if not num_draft_tokens:
        return Generation(padded(new_tokens(target, prompt, max_new_tokens, options), max_new_tokens))
    constant_drafts(draft_model_transformers, num_draft_tokens)
    options["assistant_model"] = draft_model_transformers
    with recorded_rounds() as rounds:
        tokens = new_tokens(target, prompt, max_new_tokens, options)
    return Generation(padded(tokens, max_new_tokens), with_last_round(rounds, tokens, size))


@generator(name="transformers-prompt-lookup", framework="torch", dtype="float32", max_batch=1, version=VERSION)
def prompt_lookup(
    target_model_transformers: Any,
    prompt: Any,
    num_draft_tokens: int,
    max_new_tokens: int,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    repetition_penalty: float,
    logit_bias: Any,
    min_new_tokens: int,
    allowed_tokens: Any,
) -> Generation:
    """Run ``generate(..., prompt_lookup_num_tokens=...)`` on one prompt: drafts are copied from the tokens before.

    It matches drafts with tokens of the target. No rounds are reported, and so no rule is declared: nothing of how such
    drafts are verified can be seen from outside.

    Args:
        target_model_transformers: A PreTrainedModel.
        prompt: int64 tensor [1, T].
        num_draft_tokens: The most that are looked up in a round; 0 for plain ``generate``.
        max_new_tokens: Number L of new tokens.
        temperature: This and what follows as in ``specverify.processing.Sampling``.
        top_k: 0 keeps all.
        top_p: 1 keeps all.
        min_p: 0 keeps all.
        repetition_penalty: 1 changes nothing.
        logit_bias: float tensor [V].
        min_new_tokens: Tokens before an end of sequence.
        allowed_tokens: A grammar.

    Returns:
        Tokens int64 [1, L].
    """
    options = sampling_options(temperature, top_k, top_p, min_p, repetition_penalty, logit_bias, min_new_tokens)
    options |= allowing(allowed_tokens, prompt.shape[1])
    options["prompt_lookup_num_tokens"] = num_draft_tokens or None
    return Generation(padded(new_tokens(target_model_transformers, prompt, max_new_tokens, options), max_new_tokens))

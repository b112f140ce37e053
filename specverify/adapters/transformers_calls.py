"""How ``generate`` of transformers is called so that it samples from the law asked for, and how its rounds are seen.

Each sampling parameter that is passed on means in the library what it means in ``specverify.processing``, and they are
applied in the same order. A frequency penalty is not passed on: ``generate`` has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch.nn import functional
from transformers.generation import utils

from specverify.generating import Round

__all__ = [
    "VERSION",
    "allowing",
    "constant_drafts",
    "new_tokens",
    "padded",
    "recorded_rounds",
    "sampling_options",
    "with_last_round",
]

VERSION = f"transformers {transformers.__version__}, torch {torch.__version__}"


def sampling_options(
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    repetition_penalty: float = 1.0,
    logit_bias: Any = (),
    min_new_tokens: int = 0,
) -> dict[str, Any]:
    """Give the options of ``generate`` for sampling parameters of ``specverify.processing.Sampling``.

    ``top_k`` is always passed, for the library's default is 50.

    Example:
        >>> sampling_options(0.7, 0, 1.0, 0.0)["top_k"]
        0
    """
    biases = {(token,): float(bias) for token, bias in enumerate(logit_bias)}
    return {
        "do_sample": True,
        "temperature": float(temperature),
        "top_k": int(top_k),
        "top_p": float(top_p),
        "min_p": float(min_p) or None,
        "repetition_penalty": float(repetition_penalty),
        "sequence_bias": biases if any(biases.values()) else None,
        "min_new_tokens": int(min_new_tokens) or None,
    }


def allowing(allowed_tokens: Callable[[Any], Any], prompt_length: int) -> dict[str, Any]:
    """Give a grammar, which gets the generated tokens alone, as the library's function of all tokens.

    A grammar that allows everything is left out: it would take a quarter of the time of a call.
    """
    if getattr(allowed_tokens, "free", False):
        return {}

    def allowed(_row: int, tokens: Any) -> list[int]:
        mask = torch.as_tensor(allowed_tokens(tokens[None, prompt_length:]))
        return [int(token) for token in mask[0].nonzero().flatten()]

    return {"prefix_allowed_tokens_fn": allowed}


def constant_drafts(draft_model: Any, num_draft_tokens: int) -> None:
    """Set a model to draft so many tokens in every round, however sure it is of them."""
    configuration = draft_model.generation_config
    configuration.num_assistant_tokens = num_draft_tokens
    configuration.num_assistant_tokens_schedule = "constant"
    configuration.assistant_confidence_threshold = 0.0


def new_tokens(model: Any, prompt: Any, max_new_tokens: int, options: Mapping[str, Any]) -> Any:
    """Call ``generate`` on one prompt, int64 [1, T], and give what it added, int64 [1, n]."""
    # Without a mask the library would make one that leaves out prompt tokens of the pad's id.
    mask = torch.ones_like(prompt)
    tokens = model.generate(prompt, attention_mask=mask, max_new_tokens=max_new_tokens, **options)
    return tokens[:, prompt.shape[1] :]


@contextmanager
def recorded_rounds() -> Iterator[list[Round]]:
    """Record each verification step of ``generate``: drafts, the law that it is told they follow, and how many pass.

    The library looks its step up in its module at each call, so that a wrapper put there sees them all.
    """
    rounds: list[Round] = []
    step = utils._speculative_sampling

    def recording(ids: Any, logits: Any, length: int, *rest: Any, **named: Any) -> Any:
        tokens, accepted = step(ids, logits, length, *rest, **named)
        drafts, count = ids[:, ids.shape[1] - length :], int(accepted)
        # Release 4.57.1 counts one less where all drafts are accepted and the last one ends the sequence.
        ended = named.get("is_done_candidate") or (len(rest) > 1 and rest[1] is not None and bool(rest[1]))
        if ended and count == length - 1 and torch.equal(tokens, drafts):
            count = length
        rounds.append(Round(drafts, logits.softmax(dim=-1), torch.tensor([count])))
        return tokens, accepted

    utils._speculative_sampling = recording
    try:
        yield rounds
    finally:
        utils._speculative_sampling = step


def with_last_round(rounds: list[Round], tokens: Any, vocab_size: int) -> list[Round]:
    """Add the round without a draft, and so without a verification step, by which the last place may be filled."""
    if sum(int(step.num_accepted[0]) + 1 for step in rounds) >= tokens.shape[1]:
        return rounds
    none = Round(tokens[:, :0], torch.zeros((1, 0, vocab_size)), torch.zeros(1, dtype=torch.int64))
    return [*rounds, none]


def padded(tokens: Any, max_new_tokens: int) -> Any:
    """Fill new tokens, int64 [1, n], up with -1 after the end of a sequence: int64 [1, max_new_tokens]."""
    return functional.pad(tokens, (0, max_new_tokens - tokens.shape[1]), value=-1)

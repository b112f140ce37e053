"""mlx-lm: ``speculative_generate_step`` with a draft model, on the CPU or on a GPU of Apple.

It draws from mlx's global generator. Its sampler applies the temperature after the filters, and the kit before them; of
the filters only top-k, for which this is the same, is passed on. Its penalties see no prompt but the last token.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import mlx.core as mx
from mlx_lm.generate import speculative_generate_step
from mlx_lm.sample_utils import make_sampler

from specverify.adapters.mlx_models import TableModel, begun_before, rounds_of
from specverify.generating import Generation, generator
from specverify.processing import Sampling

__all__ = ["speculative"]

VERSION = f"mlx-lm {version('mlx-lm')}, mlx {version('mlx')}"


@generator(name="mlx-lm", rule="match", dtype="float32", max_batch=1, version=VERSION)
def speculative(
    target_model: Any,
    draft_model: Any,
    prompt: Any,
    num_draft_tokens: int,
    max_new_tokens: int,
    eos_token_id: int | None,
    temperature: float,
    top_k: int,
    seed: int,
) -> Generation:
    """Run the loop on one prompt, and cut it after an end of sequence, which mlx-lm leaves to its caller too."""
    mx.random.seed(seed)
    target, draft = TableModel(target_model), TableModel(draft_model)
    sampler = make_sampler(temp=temperature, top_k=top_k if top_k < target_model.vocab_size else 0)
    loop = speculative_generate_step(
        mx.array(prompt[0]),
        target,
        draft,
        num_draft_tokens=num_draft_tokens,
        max_tokens=max_new_tokens,
        sampler=sampler,
    )
    made = [(int(token), drafted) for token, _, drafted in loop]
    if prompt.shape[1] > 1:  # all of the prompt but its last token was put into the caches by a call of its own
        del target.calls[0], draft.calls[0]
    tokens, drafted = [token for token, _ in made], [drafted for _, drafted in made]
    rounds = list(rounds_of(target, draft, drafted, Sampling(temperature=temperature, top_k=top_k)))
    end = tokens.index(eos_token_id) + 1 if eos_token_id in tokens else max_new_tokens
    return Generation([tokens[:end] + [-1] * (max_new_tokens - end)], begun_before(end, rounds))

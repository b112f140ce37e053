"""llama.cpp by way of llama-cpp-python: ``Llama.generate`` with a draft model of its Python interface.

It draws with llama.cpp's own sampler, which applies the temperature after the filters, and the kit before them; of the
filters only top-k, for which this is the same, is passed on.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import llama_cpp

from specverify.adapters.llama_drafts import Drafts, rounds_of
from specverify.generating import Generation, generator
from specverify.gguf_models import opened
from specverify.processing import Sampling

__all__ = ["VERSION", "drafting"]

VERSION = f"llama-cpp-python {llama_cpp.__version__}"


@generator(name="llama-cpp", rule="match", dtype="float32", max_batch=1, version=VERSION)
def drafting(
    target_model_gguf: str,
    draft_model: Any,
    prompt: Any,
    num_draft_tokens: int,
    max_new_tokens: int,
    temperature: float,
    top_k: int,
    seed: int,
) -> Generation:
    """Generate from one prompt, as far as the rounds go that begin before the last token, and report these."""
    drafts = Drafts(draft_model, Sampling(temperature=temperature, top_k=top_k), num_draft_tokens, seed)
    model = opened(target_model_gguf, "loop")
    model.draft_model = drafts if num_draft_tokens else None
    model.set_seed(seed)
    loop = model.generate(prompt[0].tolist(), temp=temperature, top_k=top_k, top_p=1.0, min_p=0.0)
    tokens = list(islice(loop, max_new_tokens + num_draft_tokens))
    rounds = rounds_of(drafts.made, tokens, prompt.shape[1], max_new_tokens) if num_draft_tokens else []
    return Generation([tokens[:max_new_tokens]], rounds)

"""llama.cpp by way of llama-cpp-python: drafting together with a logits processor, which gives the kit's laws.

The engine tells the processor which tokens came before, and the law of the next one is the kit's after just these. So
what is seen is whether it tells the truth about each place of a draft; its own scores count for nothing.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import llama_cpp
import numpy as np

from specverify.adapters.llama_cpp import VERSION
from specverify.adapters.llama_drafts import Drafts
from specverify.generating import generator
from specverify.gguf_models import as_gguf, opened
from specverify.loop_menu import flat_loop
from specverify.processing import Sampling

__all__ = ["processors"]


@generator(name="llama-cpp-processors", dtype="float32", max_batch=1, version=VERSION)
def processors(
    target_model: Any,
    draft_model: Any,
    prompt: Any,
    num_draft_tokens: int,
    max_new_tokens: int,
    eos_token_id: int | None,
    temperature: float,
    top_k: int,
    seed: int,
) -> Any:
    """Generate from one prompt, and cut it after an end of sequence, of which the engine's file knows none."""
    model = _model(target_model.vocab_size)
    drafts = Drafts(draft_model, Sampling(temperature=temperature, top_k=top_k), num_draft_tokens, seed)
    model.draft_model = drafts if num_draft_tokens else None
    model.set_seed(seed)
    laws = llama_cpp.LogitsProcessorList([lambda before, _: target_model(np.array([before]))[0]])
    options = {"temp": temperature, "top_k": top_k, "top_p": 1.0, "min_p": 0.0, "logits_processor": laws}
    tokens = list(islice(model.generate(prompt[0].tolist(), **options), max_new_tokens))
    end = tokens.index(eos_token_id) + 1 if eos_token_id in tokens else max_new_tokens
    return [tokens[:end] + [-1] * (max_new_tokens - end)]


def _model(vocab_size: int) -> Any:
    fair = flat_loop(vocab_size).loop
    assert fair is not None
    return opened(as_gguf(fair.target), "processors")

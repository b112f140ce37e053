"""llama.cpp by way of llama-cpp-python: ``Llama.generate`` with a draft model of its Python interface.

It draws with llama.cpp's own sampler, which applies the temperature after the filters, and the kit before them; of the
filters only top-k, for which this is the same, is passed on.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import llama_cpp
import numpy as np
from llama_cpp.llama_speculative import LlamaDraftModel

from specverify.generating import Generation, Round, generator
from specverify.gguf_models import opened
from specverify.processing import Sampling

__all__ = ["drafting"]

VERSION = f"llama-cpp-python {llama_cpp.__version__}"


class _Drafts(LlamaDraftModel):  # type: ignore[misc]  # the base is not typed
    """Draws drafts from the kit's draft model, and keeps them: after how many tokens, which, and from which laws."""

    def __init__(self, law: Any, count: int, seed: int) -> None:
        self.made: list[tuple[int, list[int], list[Any]]] = []
        self._law, self._count, self._rng = law, count, np.random.default_rng(seed)

    def __call__(self, input_ids: Any, /, **options: Any) -> Any:  # noqa: ARG002 - as the base has it
        """Draft after the tokens so far, int32 [T]."""
        context, laws = input_ids.tolist(), []
        for _ in range(self._count):
            laws.append(self._law(np.array([context])))
            context.append(int(self._rng.choice(len(laws[-1]), p=laws[-1])))
        self.made.append((len(input_ids), context[len(input_ids) :], laws))
        return np.array(context[len(input_ids) :], dtype=np.intc)


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
    sampling, none = Sampling(temperature=temperature, top_k=top_k), np.zeros((1, 0), np.int64)
    drafts = _Drafts(
        lambda context: sampling.law(draft_model(context).astype(np.float64), none, ())[0], num_draft_tokens, seed
    )
    model = opened(target_model_gguf, "loop")
    model.draft_model = drafts if num_draft_tokens else None
    model.set_seed(seed)
    loop = model.generate(prompt[0].tolist(), temp=temperature, top_k=top_k, top_p=1.0, min_p=0.0)
    tokens = list(islice(loop, max_new_tokens + num_draft_tokens))
    rounds = _rounds(drafts.made, tokens, prompt.shape[1], max_new_tokens) if num_draft_tokens else []
    return Generation([tokens[:max_new_tokens]], rounds)


def _rounds(made: list[Any], tokens: list[int], before: int, until: int) -> list[Round]:
    """Give the first token, which comes without a draft, and the rounds after it: drafts that come are accepted."""
    size = len(made[0][2][0])
    rounds = [Round(np.zeros((1, 0), np.int64), np.zeros((1, 0, size)), [0])]
    for length, drafts, laws in made:
        start = length - before
        if start < until:
            same = np.array(drafts) == tokens[start : start + len(drafts)]
            rounds.append(Round([drafts], [laws], [int(np.logical_and.accumulate(same).sum())]))
    return rounds

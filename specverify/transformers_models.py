"""Models of transformers with known laws: what the kit's models say, said through a forward pass with a real cache.

The cache holds the tokens themselves, so a loop that keeps rejected drafts, drops a slot or counts positions wrongly
gets the law of another context. Small random Llamas are there beside the tables: nothing in them is the kit's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import DynamicCache, GenerationMixin, LlamaConfig, LlamaForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case
from specverify.errors import ConfigError
from specverify.loops import LanguageModel, Loop, MarkovModel
from specverify.processing import PLAIN, Sampling
from specverify.wording import brief

__all__ = ["TransformersModel", "as_transformers", "llama_cases", "random_llama"]

# Releases before 5.20 or so say past_key_values where later ones say cache.
CACHE = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"

HIDDEN = 16
SPREAD = 1.5  # of the weights, over the root of their inputs: far from uniform, and the context counts
PROMPT = (1, 0, 3)
SEEDS = (2, 5)  # of the target's and the draft's weights: rows are .35 to .5 apart


@dataclass(frozen=True, eq=False)
class TransformersModel:
    """A causal model of transformers as the kit asks for laws: by full forward passes, without a cache.

    Attributes:
        model: The model; its laws are those of its logits, in float64 from there on.

    Example:
        >>> model = random_llama(4, seed=3)
        >>> round(float(np.exp(model(np.array([[1, 0, 3]]))).sum()), 6)
        1.0
    """

    model: Any

    @property
    def vocab_size(self) -> int:
        """Number V of tokens."""
        return int(self.model.config.vocab_size)

    @property
    def eos_token_id(self) -> int | None:
        """The token that ends a sequence, or None."""
        eos = self.model.generation_config.eos_token_id
        return None if eos is None else int(eos)

    def __call__(self, tokens: IntArray) -> FloatArray:
        """Give log p(. | tokens), float64 [B, V], after contexts int64 [B, T]."""
        with torch.no_grad():
            logits = self.model(input_ids=torch.as_tensor(tokens), use_cache=False).logits[:, -1]
        return np.asarray(torch.log_softmax(logits.double(), dim=-1).numpy())


class _TableConfig(PretrainedConfig):  # type: ignore[misc]  # the base is untyped
    model_type = "specverify_table"


class _TableModel(PreTrainedModel, GenerationMixin):  # type: ignore[misc]  # the bases are untyped
    """A MarkovModel whose memory is the cache: the keys are the tokens that were seen."""

    config_class = _TableConfig

    def __init__(self, config: Any, rows: Any) -> None:
        super().__init__(config)
        self.rows = torch.nn.Parameter(rows, requires_grad=False)  # [phases * V ** order, V]
        self.eval()

    def forward(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        position_ids: Any = None,
        cache: Any = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        **_: Any,
    ) -> Any:
        """Give the logits after each of the tokens int64 [B, T], which follow those in the cache: float32 [B, T, V]."""
        past = cache if cache is not None else past_key_values
        if past is None and use_cache:
            past = DynamicCache()
        seen = 0 if past is None else past.get_seq_length()
        tokens = input_ids
        if past is not None:
            states = input_ids[:, None, :, None]
            tokens = past.update(states, states, 0)[0][:, 0, :, 0]
        if position_ids is None:
            position_ids = torch.arange(seen, tokens.shape[1])[None]
        return CausalLMOutputWithPast(
            logits=self.rows[self._numbers(tokens, seen, attention_mask, position_ids)], **{CACHE: past}
        )

    def _numbers(self, tokens: Any, seen: int, attention_mask: Any, position_ids: Any) -> Any:
        """Number the rows after each token but the first ``seen``: int64 [B, T]."""
        size, order = self.config.vocab_size, self.config.order
        if attention_mask is not None:
            tokens = tokens * attention_mask  # a masked token is as good as missing, for which token 0 stands
        length = tokens.shape[1]
        padded = functional.pad(tokens, (order, 0))
        number = (position_ids + 1) % self.config.phases
        for back in range(order, 0, -1):
            number = number * size + padded[:, seen + order + 1 - back : length + order + 1 - back]
        return number.expand(len(tokens), -1)


def as_transformers(model: LanguageModel) -> Any:
    """Give a PreTrainedModel with the laws of a model, for ``generate`` and for a forward pass of one's own.

    Args:
        model: A MarkovModel, whose logits are then its log-probabilities in float32, or a TransformersModel.

    Returns:
        A new model of a table, or the model that a TransformersModel holds.

    Raises:
        ConfigError: It is neither.

    Example:
        >>> coin = as_transformers(MarkovModel(np.log([[[0.25, 0.75]]]), 0))
        >>> coin(torch.tensor([[0, 1]])).logits.exp()[0].tolist()
        [[0.25, 0.75], [0.25, 0.75]]
    """
    if isinstance(model, TransformersModel):
        return model.model
    if not isinstance(model, MarkovModel):
        raise ConfigError(
            f"expected a MarkovModel or a TransformersModel as a model of transformers, got {brief(model)}; "
            f"hold a PreTrainedModel in specverify.transformers_models.TransformersModel"
        )
    config = _TableConfig(
        vocab_size=model.vocab_size,
        order=model.order,
        phases=len(model.log_probs),
        hidden_size=1,
        num_hidden_layers=1,
        num_attention_heads=1,
        bos_token_id=None,
        eos_token_id=model.eos_token_id,
        pad_token_id=None,
    )
    return _TableModel(config, torch.tensor(model.log_probs.reshape(-1, model.vocab_size), dtype=torch.float32))


def random_llama(vocab_size: int, seed: int, eos_token_id: int | None = None) -> TransformersModel:
    """Give a one-layer Llama of random weights whose laws are far from uniform and depend on the whole context.

    Args:
        vocab_size: Number V of tokens.
        seed: Of NumPy's generator, which draws the weights.
        eos_token_id: The token that ends a sequence, or None.

    Example:
        >>> random_llama(4, seed=1).vocab_size
        4
    """
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=HIDDEN,
        intermediate_size=HIDDEN,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=None,
        eos_token_id=eos_token_id,
        pad_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):  # weights are first drawn from the global generator, for nothing
        model = LlamaForCausalLM(config).eval().requires_grad_(False)
    rng = np.random.default_rng(seed)
    for _, weight in sorted(model.named_parameters()):
        if weight.ndim > 1:
            drawn = rng.normal(0, SPREAD / weight.shape[1] ** 0.5, weight.shape)
            weight.copy_(torch.tensor(drawn, dtype=weight.dtype))
    return TransformersModel(model)


@cache
def llama_cases() -> tuple[Case, ...]:
    """Give the cases of two random Llamas, whose laws are enumerated from their own forward passes.

    Example:
        >>> [case.name for case in llama_cases()]
        ['loop-llama', 'loop-llama-temperature']
    """
    target, draft = (random_llama(4, seed) for seed in SEEDS)
    asked = {
        "loop-llama": (PLAIN, "two random Llamas"),
        "loop-llama-temperature": (Sampling(temperature=0.7, top_k=3), "temperature .7 with the three likeliest"),
    }
    return tuple(
        Case.from_loop(name, Loop(target, draft, PROMPT, 2, 3, sampling), description)
        for name, (sampling, description) in asked.items()
    )

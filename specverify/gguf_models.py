"""Models as GGUF files, for engines that load those: small random Llamas, and models without a memory.

The laws of a file are those that llama.cpp itself gives after each whole context, evaluated anew: what is checked is
what a loop makes of them, not the forward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gguf
import llama_cpp
import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case
from specverify.errors import ConfigError
from specverify.loops import LanguageModel, Loop, MarkovModel
from specverify.processing import PLAIN, Sampling
from specverify.wording import brief

__all__ = ["GgufModel", "as_gguf", "gguf_cases", "opened", "random_gguf"]

HIDDEN, HEADS = 16, 2
CONTEXT = 256  # the least that llama.cpp makes room for
SPREAD = 1.5  # of the weights, over the root of their inputs: far from uniform, and the context counts
PROMPT = (1, 0, 3)
SEEDS = (2, 5)  # of the target's and the draft's weights

BLOCK = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
NORMS = ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")


@dataclass(frozen=True)
class GgufModel:
    """A GGUF file as the kit asks for laws: whole contexts one by one, nothing being kept between them.

    Attributes:
        path: The file.
        vocab_size: Number V of tokens.
        eos_token_id: None: the files have no vocabulary, and no token that ends a sequence.
    """

    path: str
    vocab_size: int
    eos_token_id: int | None = None

    def __call__(self, tokens: IntArray) -> FloatArray:
        """Give log p(. | tokens), float64 [B, V], after contexts int64 [B, T]."""
        logits = np.array([self._logits(context) for context in tokens.tolist()], dtype=np.float64)
        shifted = logits - logits.max(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))

    def _logits(self, context: list[int]) -> Any:
        model = opened(self.path, "laws")
        model.reset()
        model.eval(context)
        return model.scores[len(context) - 1].copy()


@cache
def opened(path: str, purpose: str) -> Any:  # noqa: ARG001 - a model of its own for each purpose
    """Load a file once for each purpose: a loaded model has one cache."""
    return llama_cpp.Llama(
        path, n_ctx=CONTEXT, n_batch=CONTEXT, n_threads=1, n_threads_batch=1, logits_all=True, verbose=False
    )


@cache
def random_gguf(vocab_size: int, seed: int) -> GgufModel:
    """Write a one-layer Llama of random weights whose laws are far from uniform and depend on the whole context."""
    rng = np.random.default_rng(seed)
    rows = {"token_embd": vocab_size, "output": vocab_size} | {f"blk.0.{name}": HIDDEN for name in BLOCK}
    weights = {name: rng.normal(0, SPREAD / HIDDEN**0.5, (count, HIDDEN)) for name, count in rows.items()}
    return GgufModel(_written(f"random-{vocab_size}-{seed}", weights), vocab_size)


def as_gguf(model: LanguageModel) -> str:
    """Give a file with the laws of a model: a GgufModel, or a MarkovModel without a memory.

    Raises:
        ConfigError: It is neither.
    """
    if isinstance(model, GgufModel):
        return model.path
    if isinstance(model, MarkovModel) and model.log_probs.shape[:2] == (1, 1):
        return _memoryless(tuple(model.log_probs[0, 0].tolist()))
    raise ConfigError(f"expected a GgufModel, or a MarkovModel of order 0, as a GGUF file, got {brief(model)}")


@cache
def _memoryless(logits: tuple[float, ...]) -> str:
    # Layers of zeros pass the embedding on, which is all ones, so that the output is the sum of its weights.
    weights = {f"blk.0.{name}": np.zeros((HIDDEN, HIDDEN)) for name in BLOCK}
    weights["token_embd"] = np.ones((len(logits), HIDDEN))
    weights["output"] = np.tile(np.array(logits)[:, None] / HIDDEN, (1, HIDDEN))
    return _written(f"memoryless-{len(logits)}-{abs(hash(logits))}", weights)


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="specverify-gguf-")


def _written(name: str, weights: Mapping[str, FloatArray]) -> str:
    path = Path(_folder().name, f"{name}.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer, len(weights["output"]))
    for tensor, values in (weights | {norm: np.ones(HIDDEN) for norm in NORMS}).items():  # type: ignore[operator]
        writer.add_tensor(f"{tensor}.weight", values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(path)


def _describe(writer: Any, vocab_size: int) -> None:
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_block_count(1)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(vocab_size)
    writer.add_tokenizer_model("no_vocab")


@cache
def gguf_cases() -> tuple[Case, ...]:
    """Give the cases of two random Llamas, whose laws are enumerated from their own forward passes."""
    target, draft = (random_gguf(4, seed) for seed in SEEDS)
    asked = {
        "loop-gguf": (PLAIN, 2, "two random Llamas of llama.cpp"),
        "loop-gguf-no-draft": (PLAIN, 0, "the control without a draft"),
        "loop-gguf-temperature": (Sampling(temperature=0.7, top_k=3), 2, "temperature .7 with the three likeliest"),
    }
    return tuple(
        Case.from_loop(name, Loop(target, draft, PROMPT, drafts, 4, sampling), description)
        for name, (sampling, drafts, description) in asked.items()
    )

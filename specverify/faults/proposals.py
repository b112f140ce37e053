"""Faults of the proposal: the law that the verifier is told, q^, is not the law that the draft was drawn from."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from specverify.faults.edits import Array, Edit, normalised
from specverify.faults.record import Fault

__all__ = ["FAULTS"]


def _best(q: Array) -> Array:
    return np.where(np.arange(q.shape[-1]) == q.argmax(axis=-1)[..., None], 1 + 0 * q, 0 * q)


def _top_two(q: Array) -> Array:
    """Set all but the two largest to 0, ties going to the lower id."""
    kept = np.zeros(q.shape, dtype=np.bool_)
    np.put_along_axis(kept, np.argsort(-q, axis=-1, kind="stable")[..., :2], True, axis=-1)
    return np.where(kept, q, 0 * q)


def _sharpened(q: Array) -> Array:
    return normalised(q * q)


def _bfloat16(q: Array) -> Array:
    """Round to eight significant bits."""
    mantissa, exponent = np.frexp(q.astype(np.float64))
    rounded = np.ldexp(np.round(mantissa * 256) / 256, exponent)
    return rounded if q.dtype != object else np.vectorize(Fraction, otypes=[object])(rounded)


def _common(q: Array) -> Array:
    """Set every third token to 0, as outside the common vocabulary; q itself where nothing would be left."""
    rest = np.where(np.arange(q.shape[-1]) % 3 == 2, 0 * q, q)
    return np.where(rest.sum(axis=-1, keepdims=True) > 0, rest, q)


FILTERED = "huggingface/transformers#47932, huggingface/transformers#48007, mlx-node/mlx-node#11"
TOLD = "report to the verifier the very row that the draft was drawn from"

FAULTS = (
    Fault(
        "Q01",
        "argmax_draft_soft_q",
        "drafts the likeliest token, but reports the soft q as its law",
        "the draft was certain: dividing by q(x) < 1 accepts it too often, and the residual subtracts what was never "
        "drawn",
        "report a point mass for a draft that was not sampled, or sample it; likewise for beams and best-of drafts",
        exposed_by="two tokens and one draft that the engine draws itself",
        hidden_by="drafts that the test supplies",
        provenance="huggingface/transformers#32867, huggingface/transformers#33534, huggingface/transformers#28166, "
        "jaymody/speculative-sampling#3, apple/ml-recurrent-drafter#6",
        edit=Edit(propose=_best),
    ),
    Fault(
        "Q02a",
        "unfiltered_q",
        "drafts from the two likeliest tokens, but reports the row before that filter",
        "the reported q is too small on the tokens that are drafted, and positive on those that never are",
        TOLD + ", after its filters and normalised",
        exposed_by="three tokens and one draft that the engine draws itself with top-2",
        hidden_by="drafts that the test supplies, two tokens, and loose bounds on the divergence",
        provenance=FILTERED,
        edit=Edit(propose=_top_two),
    ),
    Fault(
        "Q02b",
        "masked_not_renormalised",
        "drafts from the two likeliest tokens, and reports the masked row without normalising it",
        "the reported q is too small by the mass of the filter on every token",
        "normalise the row after the filter, before it is reported",
        exposed_by="three tokens and one draft that the engine draws itself with top-2",
        hidden_by="drafts that the test supplies, and two tokens",
        provenance="the family of huggingface/transformers#47932",
        edit=Edit(propose=_top_two, claim=_top_two),
    ),
    Fault(
        "Q02c",
        "filtered_claim",
        "drafts from the whole row, but takes the two likeliest tokens of it, normalised, for its law",
        "drafts outside the filter have a reported q of 0 and are always accepted",
        TOLD,
        exposed_by="three tokens and one draft",
        hidden_by="two tokens",
        provenance="the family of huggingface/transformers#47932",
        edit=Edit(claim=lambda q: normalised(_top_two(q))),
    ),
    Fault(
        "Q03",
        "dtype_q",
        "draws the draft in bfloat16, but reports the row in higher precision",
        "the two laws differ in the third digit of every probability, which adds up over a large vocabulary",
        "report the rounded row, normalised, or draw from the exact one",
        exposed_by="a thousand tokens or more with drafts that the engine draws itself, and a great many rows",
        hidden_by="every threshold of a percent",
        provenance="deepseek-ai/DeepSpec#31, deepseek-ai/DeepSpec#48",
        edit=Edit(propose=_bfloat16),
    ),
    Fault(
        "Q04a",
        "temperature_draft",
        "draws the draft at temperature 1/2, but reports the row at temperature 1",
        "the drafted tokens are likelier than reported, and are accepted too often",
        TOLD + ", at its own temperature",
        exposed_by="two tokens and one draft that the engine draws itself",
        hidden_by="drafts that the test supplies, and temperature 1",
        provenance="ohdearquant/lattice#388, vllm-project/vllm#9834",
        edit=Edit(propose=_sharpened),
    ),
    Fault(
        "Q04b",
        "temperature_claim",
        "draws the draft at temperature 1, but takes the row at temperature 1/2 for its law",
        "unlikely drafts are likelier than reported, and are accepted too often",
        TOLD + ", at its own temperature",
        exposed_by="two tokens and one draft",
        hidden_by="temperature 1",
        provenance="ohdearquant/lattice#388",
        edit=Edit(claim=_sharpened),
    ),
    Fault(
        "Q05",
        "stale_or_permuted_rows",
        "takes another row for the draft's law: that of another request, step or column (here: ids shifted by one)",
        "acceptance and residual follow a law that the draft was not drawn from",
        "check how draft rows are gathered in ragged or reordered batches",
        exposed_by="a batch of two requests with different drafts",
        hidden_by="tests that repeat one pair of rows over the whole batch",
        provenance="vllm-project/vllm#53017, vllm-project/vllm#37237, vllm-project/vllm#35398, "
        "vllm-project/vllm#16899, NVIDIA/TensorRT-LLM#12588, 1CatAI/1Cat-vLLM#656",
        edit=Edit(claim=lambda q: np.roll(q, -1, axis=-1)),
    ),
    Fault(
        "Q06",
        "vocab_map",
        "reads the draft's row by the draft's own token ids (here: in reversed order)",
        "the probability of another token is used; where it is 0 the draft is accepted outright",
        "scatter the draft's row into the target's ids, with 0 for tokens that the draft lacks",
        exposed_by="three tokens whose ids differ between the two vocabularies",
        hidden_by="vocabularies that agree",
        provenance="alibaba/rtp-llm#1311, alibaba/rtp-llm#1295, NVIDIA-NeMo/Automodel#2447, verl-project/verl-SpeCo#66",
        edit=Edit(claim=lambda q: q[..., ::-1]),
    ),
    Fault(
        "Q08",
        "intersection_not_renormalised",
        "drafts from the common vocabulary, and reports the restricted row without normalising it",
        "the reported q is too small by the mass outside the common vocabulary (here: every third token)",
        "normalise the restricted row before it is reported",
        exposed_by="three tokens and a draft with mass on a token that the target lacks",
        hidden_by="vocabularies that agree",
        edit=Edit(propose=_common, claim=_common),
    ),
)
"""The faults of this family."""

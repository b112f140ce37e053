"""Faults of the acceptance test: drafts are accepted with a probability that is not min(1, p/q)."""

from __future__ import annotations

import numpy as np

from specverify.faults.edits import Array, Edit, acceptance
from specverify.faults.record import Fault

__all__ = ["FAULTS"]

GRID = 2**24
"""Points of a float32 uniform in [0, 1)."""


def _always(p: Array, q: Array, position: int) -> Array:  # noqa: ARG001
    return np.ones_like(p)


def _never(p: Array, q: Array, position: int) -> Array:  # noqa: ARG001
    return np.zeros_like(p)


def _lenient(factor: int, over: int) -> Edit:
    return Edit(accept=lambda p, q, position: acceptance(factor * p, over * q, position))


def _endpoint(p: Array, q: Array, position: int) -> Array:
    points = (acceptance(p, q, position) * GRID) // 1 + 1
    return np.asarray(np.minimum(points * (1 + 0 * p) / GRID, 1))


def _first_untested(p: Array, q: Array, position: int) -> Array:
    return acceptance(p, q, position) if position else np.ones_like(p)


FAULTS = (
    Fault(
        "K01",
        "accept_all",
        "accepts every drafted token",
        "the output follows the draft, not the target",
        "accept x only with probability min(1, p(x)/q(x)); look for a coin that is always 0 or a q that is read as 0",
        exposed_by="two tokens and one draft",
        provenance="vllm-project/vllm-ascend#13730, vllm-project/vllm-ascend#13470, huggingface/transformers#28508, "
        "openvinotoolkit/openvino.genai#2331, alibaba/rtp-llm#1311",
        edit=Edit(accept=_always),
    ),
    Fault(
        "K06",
        "accept_p_residual_full",
        "accepts x with probability p(x), and replaces a rejected draft from (p - q)+",
        "the two halves belong to different rules: p(x) accepts a draft that was certain, (p - q)+ is the residual of "
        "a sampled one",
        "divide by q(x) in the acceptance test, or score the draft as a point mass in both halves",
        exposed_by="two tokens and one draft",
        provenance="a q that is wired only half, compare vllm-project/vllm#40269",
        edit=Edit(accept=lambda p, q, position: p),  # noqa: ARG005
    ),
    Fault(
        "K07",
        "ratio_inverted",
        "accepts with min(1, q/p) instead of min(1, p/q)",
        "drafts are accepted where the draft exceeds the target",
        "swap target and draft in the acceptance ratio; papers disagree on which is called p",
        exposed_by="two tokens and one draft; three tokens tell it from K01",
        hidden_by="first-token comparisons with K01 over two tokens, where the laws agree",
        provenance="the clash of names is noted in alibaba/rtp-llm#1311; NVIDIA/TensorRT-LLM#6542 names the draft p",
        edit=Edit(accept=lambda p, q, position: acceptance(q, p, position)),
    ),
    Fault(
        "K08",
        "threshold_no_coin",
        "accepts a draft exactly when p >= q, without a coin",
        "drafts with p < q are never accepted, although that is due with probability p/q; their mass goes to others",
        "compare a fresh uniform with p(x)/q(x)",
        exposed_by="two tokens and one draft",
        provenance="vllm-project/vllm-project.github.io#80",
        edit=Edit(accept=lambda p, q, position: 1 * (p >= q)),  # noqa: ARG005
    ),
    Fault(
        "K09",
        "inplace_zero_target",
        "sets p(x) to 0 for the drafted token before its acceptance test reads it",
        "every draft is rejected and replaced by something else, so that no drafted token is ever emitted",
        "build the residual in a copy, after the acceptance test",
        exposed_by="two tokens and one draft that is not the mirror of the target",
        hidden_by="mirror pairs of two tokens, where the law comes out right, and a loose bound on the divergence",
        provenance="vllm-project/vllm-ascend#2881",
        edit=Edit(accept=_never, replace=lambda p, q: p, drop_draft=True),  # noqa: ARG005
    ),
    Fault(
        "K11",
        "leniency",
        "accepts with min(1, 11/10 p/q), a leniency factor above 1",
        "over-drafted tokens are accepted more often than due, so that the output leans towards the draft",
        "take the factor out, or declare the sampler as not following the target",
        exposed_by="two tokens and one draft, with enough rows for a distance of a few percent",
        hidden_by="coarse thresholds on distance or divergence",
        provenance="vllm-project/vllm#35355, vllm-project/vllm#5131, sgl-project/sglang#8068",
        edit=_lenient(11, 10),
    ),
    Fault(
        "K11b",
        "leniency_2",
        "accepts with min(1, 2 p/q), a leniency factor of 2",
        "over-drafted tokens are accepted up to twice as often as due, so that the output leans towards the draft",
        "take the factor out, or declare the sampler as not following the target",
        exposed_by="two tokens and one draft",
        provenance="vllm-project/vllm#35355, vllm-project/vllm#5131, sgl-project/sglang#8068",
        edit=_lenient(2, 1),
    ),
    Fault(
        "K17",
        "coin_endpoint",
        "lets a uniform of exactly 0 accept a token of target probability 0, by <= on a grid of 2^-24",
        "a token that must never come is emitted once in 2^24 times that it is drafted, and others slightly too often",
        "compare with <, and draw uniforms in [0, 1), not in (0, 1]",
        exposed_by="a drafted token with p(x) = 0, and a uniform forced to its end point",
        hidden_by="any sample of ordinary size, and continuous uniforms",
        provenance="sgl-project/sglang#35771, sgl-project/sglang#35788, sgl-project/sglang#35798",
        shows="numerics",
        edit=Edit(accept=_endpoint),
    ),
    Fault(
        "K22",
        "count_off_by_one",
        "counts a rejected draft as accepted, and emits its replacement after it",
        "the rejected draft stays in the text, so that the first token follows the draft",
        "count the drafts before the first rejection; check the axis and the -1 padding over which is summed",
        exposed_by="one draft that is rejected; a ragged batch with rows that have no draft",
        provenance="flashinfer-ai/flashinfer#879, NVIDIA/TensorRT-LLM#17890, vllm-project/vllm#29274",
        edit=Edit(count_rejected=True),
    ),
    Fault(
        "K25",
        "first_unverified",
        "accepts the first drafted token without testing it",
        "the first token of every round follows the draft",
        "start the loop of acceptance tests at the first draft",
        exposed_by="one draft",
        provenance="ohdearquant/lattice#243",
        edit=Edit(accept=_first_untested),
    ),
)
"""The faults of this family."""

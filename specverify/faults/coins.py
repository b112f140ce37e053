"""Faults of the randomness: one uniform serves two decisions, or several rows, or is coarser than what it decides."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from specverify.faults.edits import Array, Edit, from_target, residual
from specverify.faults.record import Fault

__all__ = ["FAULTS", "raced_again"]

GRID = 2**24
"""Points of a float32 uniform in [0, 1)."""


def raced_again(p: Array, q: Array) -> Array:
    """Give the law of the race min (q_j t + E_j) / r_j with t and E_j exponential: the residual race with old noise.

    The draft was the first to finish a race of clocks E / q, at a time t of mean 1 that tells nothing of the winner;
    every other clock has the fresh rest E_j left. Divided by t the finishing times are q_j / r_j plus rests, and with A
    the tokens with q_j / r_j < u the density of a win of y at u is r_y / (1 + R_A u - Q_A)^2.

    Args:
        p: Target row [..., V].
        q: Draft row [..., V].

    Returns:
        The weights of the replacement [..., V].

    Example:
        >>> raced_again(np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])).round(4).tolist()
        [0.8214, 0.1786, 0.0]
    """
    rest = np.maximum(p - q, 0)
    most = rest.max(axis=-1, keepdims=True)
    rest = rest / np.where(most > 0, most, 1)  # rates may be scaled: of the smallest floats no sum could be divided by
    live = rest > 0
    start = np.where(live, q / np.where(live, rest, 1), 0)
    order = np.argsort(np.where(live, start, np.inf), axis=-1, kind="stable")
    r, u, taken, own = (np.take_along_axis(x, order, axis=-1) for x in (rest, start, np.where(live, q, 0), live))
    r_sum, q_sum = np.cumsum(r, axis=-1), np.cumsum(taken, axis=-1)
    until = np.concatenate([u[..., 1:], u[..., -1:]], axis=-1)
    more = np.concatenate([own[..., 1:], np.zeros_like(own[..., :1])], axis=-1)
    begin = 1 / (1 + r_sum * u - q_sum)
    end = np.where(more, 1 / (1 + r_sum * until - q_sum), 0)
    part = np.where(own, (begin - end) / np.where(own, r_sum, 1), 0)
    won = r * np.cumsum(part[..., ::-1], axis=-1)[..., ::-1]
    law = np.array(won)
    np.put_along_axis(law, order, won, axis=-1)
    return np.where(live.any(axis=-1, keepdims=True), law, p)


def _without_tail(weights: Array) -> Array:
    return np.where(weights * GRID < weights.sum(axis=-1, keepdims=True), 0 * weights, weights)


def _with_zeros(weights: Array) -> Array:
    none = weights == 0
    share = weights.sum(axis=-1, keepdims=True) / (100_000 * np.maximum(none.sum(axis=-1, keepdims=True), 1))
    return np.where(none, share, weights)


def _on_draws(change: Callable[[Array], Array]) -> Edit:
    return Edit(replace=lambda p, q: change(residual(p, q)), bonus=lambda p, q: change(from_target(p, q)))


FAULTS = (
    Fault(
        "K12",
        "coin_reused_in_residual",
        "draws the replacement with the uniform that rejected the draft",
        "given a rejection that uniform lies in the upper part of [0, 1), so the early residual tokens come too rarely",
        "take a fresh uniform for the replacement",
        exposed_by="three tokens and one draft, with two residual cells, in more than one order of the ids",
        hidden_by="two tokens, acceptance rates, random rows (which average it out), and bounds on the divergence",
        provenance="vllm-project/vllm-ascend#16370",
        edit=Edit(shared="replacement"),
    ),
    Fault(
        "K13",
        "draft_noise_reused",
        "races for the replacement with the exponential (or Gumbel) noise that drew the draft",
        "after a lost race the noise is no longer fresh: tokens that were likely drafts come too rarely as replacement",
        "draw new noise for the replacement; sharing is harmless only where a draft is accepted by being equal",
        exposed_by="three tokens and one draft that the engine draws itself, with two residual cells",
        hidden_by="drafts that the test supplies, two tokens, acceptance rates, and 4096 tokens at 10 draws a cell",
        provenance="vllm-project/vllm#47386, vllm-project/vllm#54282, local-inference-lab/vllm#205, "
        "local-inference-lab/vllm#211, vllm-project/vllm-ascend#15739",
        edit=Edit(shared="noise", replace=raced_again),
    ),
    Fault(
        "K14",
        "draft_coin_shared",
        "tests a draft with the uniform that drew it",
        "the uniform lies in the drafted token's own interval, so that acceptance depends on where the token stands",
        "take a fresh uniform for the acceptance test",
        exposed_by="two tokens and one draft that the engine draws itself, in more than one order of the ids",
        hidden_by="drafts that the test supplies",
        provenance="ggml-org/llama.cpp#27694",
        edit=Edit(shared="draft"),
    ),
    Fault(
        "K15",
        "one_coin_per_block",
        "uses one uniform for the acceptance tests of all positions",
        "a position that is reached is accepted too often; the first token is right, the joint law is not",
        "take a fresh uniform for every position",
        exposed_by="two drafts, looking at the second position",
        hidden_by="tests of one draft, and histograms of the first token",
        provenance="flashinfer-ai/flashinfer#424",
        edit=Edit(shared="positions"),
    ),
    Fault(
        "K18",
        "noise_floor",
        "never draws a token of less than 2^-24 of the total weight, as float32 noise bottoms out",
        "the tail of the distribution is lost, although many small tokens together may be due often",
        "draw the noise in float64, or take log1p and keep the uniform away from 0",
        exposed_by="a likely token followed by very many tokens of some 2^-26 each",
        hidden_by="small vocabularies, and rows without a tail",
        provenance="vllm-project/vllm#43150, vllm-project/vllm#47524, vllm-project/vllm#46665, vllm-project/vllm#54843",
        edit=_on_draws(_without_tail),
    ),
    Fault(
        "K21",
        "zero_weight_draw",
        "draws tokens of weight 0 once in 100,000 times",
        "such a token is forbidden: by a grammar, a filter or the target itself",
        "skip cells of weight 0 in the inverse distribution function, and clamp to the last positive one",
        exposed_by="one legal token among very many, and about a million rows",
        hidden_by="target rows without zeros",
        provenance="pytorch/pytorch#48841, pytorch/pytorch#192577, huggingface/transformers#23088",
        edit=_on_draws(_with_zeros),
    ),
)
"""The faults of this family that have a law of their own."""

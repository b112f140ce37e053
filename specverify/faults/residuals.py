"""Faults of the replacement: what is drawn after a rejection is not the residual (p - q)+."""

from __future__ import annotations

import numpy as np

from specverify.faults.edits import Array, Edit, residual
from specverify.faults.record import Fault

__all__ = ["FAULTS"]


def _absolute(p: Array, q: Array) -> Array:
    difference = np.maximum(p - q, q - p)
    return np.where(difference.any(axis=-1, keepdims=True), difference, p)


def _floored(p: Array, q: Array) -> Array:
    return np.asarray(np.maximum(1000 * (p - q), 1))  # max(p - q, 1/1000), times 1000 to stay exact


def _mode(p: Array, q: Array) -> Array:
    rest = residual(p, q)
    best = rest.argmax(axis=-1)[..., None]
    return np.where(np.arange(rest.shape[-1]) == best, rest, 0 * rest)


def _spilled(p: Array, q: Array, onto: int) -> Array:
    rest: Array = np.maximum(p - q, 0)
    rest[..., onto] = rest[..., onto] + 1 - rest.sum(axis=-1)
    return rest


FAULTS = (
    Fault(
        "K02",
        "residual_target",
        "redraws from the target after a rejection",
        "what was rejected is rejected for having too little target mass; drawing from all of p gives some of it back, "
        "so the output keeps part of the draft's law",
        "draw the replacement from the positive part of p - q, normalised",
        exposed_by="two tokens and one draft",
        provenance="asked in NJUNLP/MCSD#5 and eth-sri/language-model-arithmetic#14; a standard negative control",
        edit=Edit(replace=lambda p, q: p),  # noqa: ARG005
    ),
    Fault(
        "K03a",
        "residual_abs",
        "replaces a rejected draft from |p - q|",
        "tokens that were drafted too often are given out again",
        "keep only the positive part of p - q before normalising",
        exposed_by="two tokens and one draft",
        provenance="huggingface/transformers#28508 (details of the residual)",
        edit=Edit(replace=_absolute),
    ),
    Fault(
        "K03b",
        "residual_swapped",
        "replaces a rejected draft from the positive part of q - p",
        "the difference is taken the wrong way round, so that rejected mass goes back to the tokens that were drafted "
        "too often, and the first token follows the draft",
        "subtract the draft from the target: the residual is (p - q)+; papers disagree on which is called p",
        exposed_by="two tokens and one draft; the accepted length tells it from a sampler that accepts everything",
        hidden_by="comparisons of the first token alone with K01, which has the same law there",
        provenance="huggingface/transformers#28508",
        edit=Edit(replace=lambda p, q: residual(q, p)),
    ),
    Fault(
        "K03c",
        "residual_floor",
        "raises every weight of the residual to at least a small constant (1/1000 here) before drawing",
        "tokens without residual mass are given out too, and over a large vocabulary they add up; the constant was "
        "meant to avoid a division by 0",
        "clamp at 0 and guard the empty residual apart, by falling back to p",
        exposed_by="two tokens and one draft, with many rows, since the error is of the size of the constant",
        hidden_by="a coarse threshold on the distance",
        provenance="vllm-project/vllm#2336 (clamp to the smallest positive number)",
        edit=Edit(replace=_floored),
    ),
    Fault(
        "K04",
        "residual_drop_one",
        "replaces a rejected draft from the target without that one token",
        "this is the residual of a draft that was certain; with a spread-out q the other over-drafted tokens come back "
        "too often",
        "draw from (p - q)+, or score the draft as a point mass in the acceptance test as well",
        exposed_by="three tokens and one draft",
        hidden_by="two tokens, where the residual has one cell either way",
        provenance="xLLM-AI/xllm#2175",
        edit=Edit(replace=lambda p, q: p, drop_draft=True),  # noqa: ARG005
    ),
    Fault(
        "K05",
        "residual_mode",
        "replaces a rejected draft by the most likely token of the residual",
        "the other residual tokens never come",
        "draw from the residual instead of taking its argmax",
        exposed_by="three tokens and one draft, with two residual cells",
        hidden_by="two tokens, and greedy decoding",
        provenance="EricLBuehler/mistral.rs#2424; claimed in vllm-project/vllm#8320",
        edit=Edit(replace=_mode),
    ),
    Fault(
        "K29",
        "residual_from_draft",
        "draws the replacement from the draft's law",
        "a rejected draft is replaced by another draft, so that the output keeps most of the draft's law",
        "draw the replacement from (p - q)+; the draft row is only subtracted",
        exposed_by="two tokens and one draft",
        edit=Edit(replace=lambda p, q: q),  # noqa: ARG005
    ),
    Fault(
        "K30a",
        "residual_spill_last",
        "walks the residual without normalising it, and gives what is left over to the last token id",
        "the residual sums to the rejection probability, not to 1: a uniform above that sum runs past every token",
        "compare the cumulated residual with the uniform times its sum",
        exposed_by="three tokens and one draft, with a residual cell that is not the last id",
        hidden_by="inputs whose only residual cell is the last id, such as AB",
        edit=Edit(replace=lambda p, q: _spilled(p, q, -1)),
    ),
    Fault(
        "K30b",
        "residual_spill_first",
        "walks the residual without normalising it, and falls back to token 0 when the uniform lies beyond it",
        "the residual sums to the rejection probability, not to 1: an argmax over no match at all returns id 0",
        "compare the cumulated residual with the uniform times its sum",
        exposed_by="two tokens and one draft, with a residual cell that is not id 0",
        hidden_by="inputs whose only residual cell is id 0, such as C2",
        edit=Edit(replace=lambda p, q: _spilled(p, q, 0)),
    ),
)
"""The faults of this family."""

"""Faults of logits processing in a loop: temperature, filters, penalties and masks that are lost or wrong on some rows.

Rows are those of the drafts and the bonus row after them; what is asked for is due on every one of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from specverify.arrays import FloatArray
from specverify.faults.loop_fault import LoopFault
from specverify.faults.loop_steps import LoopEdit, Place
from specverify.reference import Row, residual

__all__ = ["FAULTS", "mode"]

RAW: Mapping[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
UNPENALISED: Mapping[str, Any] = {"repetition_penalty": 1.0, "frequency_penalty": 0.0}


def mode(row: Row) -> Row:
    """Give all mass to the likeliest token, ties to the lower id.

    Example:
        >>> mode((0.2, 0.5, 0.3))
        (0.0, 1.0, 0.0)
    """
    best = max(range(len(row)), key=lambda x: row[x])
    return tuple(float(x == best) for x in range(len(row)))


def _inverted(row: Row) -> Row:
    return _normalised([1 / p if p > 0 else 0.0 for p in row])


def _normalised(weights: Row | FloatArray) -> Row:
    law = np.asarray(weights, dtype=np.float64)
    return tuple((law / law.sum()).tolist())


def _top_p(at: Place, row: Row, *, crossing: bool) -> Row:
    """Keep tokens until they have the mass that is asked for, with or without the one by which they reach it."""
    law, ids = np.array(row, dtype=np.float64), np.arange(len(row))
    ordered = np.argsort(-law, kind="stable")
    before = np.cumsum(law[ordered]) - (law[ordered] if crossing else 0)
    kept = ordered[(before < at.asked.sampling.top_p) | (ids == 0)]
    return _normalised(np.where(np.isin(ids, kept), law, 0.0))


def _top_p_of_raw_mass(at: Place) -> Row:
    kept, raw = at.p(top_p=1.0), at.p(**RAW)
    return _top_p(at, [a if b > 0 else 0.0 for a, b in zip(raw, kept, strict=True)], crossing=True)


def _top_p_too_few(at: Place) -> Row:
    row = at.p(top_p=1.0)
    return _top_p(at, row, crossing=False) if at.asked.sampling.top_p < 1 else row


def _masked(at: Place) -> Row:
    return [a if b > 0 else 0.0 for a, b in zip(at.p(**RAW), at.p(), strict=True)]


def _filtered_residual(at: Place, q: Row) -> Row:
    rest = _normalised(residual(at.p(), q))
    return tuple(at.asked.sampling.filtered(np.array([rest], dtype=np.float64))[0].tolist())


def _penalties_as_of_round(at: Place) -> Row:
    return at.p(history=at.done) if at.asked.penalised else at.p()


def _penalties_of_refused(at: Place) -> Row:
    return at.p(history=at.text + at.memory) if at.asked.penalised else at.p()


def _refused_recorded(at: Place, kept: int) -> Hashable:
    return tuple(sorted(at.memory + at.drafts[kept:])) if at.asked.penalised else ()


LOST_HERE = "the filter is part of the target: a row without it is another target"
EVERY_ROW = "process the rows of all drafts and the bonus row alike"

FAULTS = (
    LoopFault(
        "L01a",
        "sampling_by_argmax",
        "takes the likeliest token where it should draw",
        "at a temperature above 0 the target is a law, and not its most likely token",
        "draw from the target, and verify by the rule for sampling; compare by equality at temperature 0 only",
        exposed_by="two tokens, neither of which is certain",
        hidden_by="greedy decoding",
        provenance="sgl-project/sglang#39253, EricLBuehler/mistral.rs#2424; compare ggml-org/llama.cpp#5625",
        case="loop-hot",
        edit=LoopEdit(target=lambda at: mode(at.p())),
    ),
    LoopFault(
        "L01b",
        "temperature_ignored",
        "verifies at temperature 1, whatever was asked for",
        "the target is the row at the temperature that was asked for",
        "divide the scores of draft rows and the bonus row by the temperature",
        exposed_by="two tokens at any temperature but 1",
        hidden_by="temperature 1",
        provenance="vllm-project/vllm#9834, vllm-project/vllm#10198",
        case="loop-hot",
        edit=LoopEdit(target=lambda at: at.p(temperature=1.0)),
    ),
    LoopFault(
        "L02a",
        "temperature_twice",
        "divides the scores by the temperature twice",
        "the target is then that of the squared temperature",
        "apply the temperature in one place, before the rows are verified",
        exposed_by="two tokens at any temperature but 1",
        hidden_by="temperature 1",
        provenance="RL-Align/RL-Kernel#81",
        case="loop-temperature",
        edit=LoopEdit(target=lambda at: at.p(temperature=at.asked.sampling.temperature**2)),
    ),
    LoopFault(
        "L02b",
        "temperature_negative",
        "divides the scores by minus the temperature",
        "what should be likely becomes unlikely",
        "refuse temperatures below 0, and do not read a marker for greedy rows as a temperature",
        exposed_by="two tokens",
        hidden_by="rows with equal probabilities",
        provenance="vllm-project/tpu-inference#2860",
        case="loop",
        edit=LoopEdit(target=lambda at: _inverted(at.p())),
    ),
    LoopFault(
        "L03",
        "filter_order_or_edge",
        "takes top-p over the mass that top-k left, without normalising it",
        "less mass is left than 1, so that more tokens are kept than those of the mass that was asked for",
        "normalise after each filter, and filter in the order temperature, top-k, top-p, min-p",
        exposed_by="three tokens with both filters",
        hidden_by="either filter alone",
        provenance="the family of ml-explore/mlx-lm#388, PaddlePaddle/FastDeploy#4189",
        case="loop-filters",
        edit=LoopEdit(target=_top_p_of_raw_mass),
    ),
    LoopFault(
        "L03b",
        "filter_edge",
        "drops the token by which top-p reaches its mass",
        "the tokens that are kept must have the mass that was asked for, and so fall short of it",
        "keep a token if those before it have less than the mass",
        exposed_by="two tokens of which the likelier one has less than the mass",
        hidden_by="rows whose first token has the mass",
        provenance="the family of ml-explore/mlx-lm#388, PaddlePaddle/FastDeploy#4189",
        case="loop-top-p",
        edit=LoopEdit(target=_top_p_too_few),
    ),
    LoopFault(
        "L04",
        "filter_on_bonus_only",
        "filters the bonus row, and verifies drafts against rows without top-k, top-p and min-p",
        LOST_HERE,
        EVERY_ROW,
        exposed_by="two tokens of which a filter drops one, and one draft",
        hidden_by="runs without filters, and rounds without drafts",
        provenance="vllm-project/vllm#42744, vllm-project/vllm#42802, sgl-project/sglang#10617",
        case="loop-top-k",
        edit=LoopEdit(target=lambda at: at.p(**RAW), bonus=lambda at: at.p()),
    ),
    LoopFault(
        "L05",
        "bias_dropped",
        "adds the bias to the bonus row only, and not to the rows of drafts",
        "a token that is ruled out can be accepted or replace a draft",
        "repeat the bias for every row of the batch that is verified",
        exposed_by="a bias of -100 on one token, and one draft",
        hidden_by="rounds without drafts",
        provenance="vllm-project/vllm#38467, sgl-project/sglang#11555",
        case="loop-bias",
        edit=LoopEdit(target=lambda at: at.p(logit_bias=()), bonus=lambda at: at.p()),
    ),
    LoopFault(
        "L06",
        "penalty_missing",
        "applies no penalty to any row",
        "tokens that came before are then as likely as if they had not",
        "apply the penalties to the rows of drafts and to the bonus row, each for the tokens before it",
        exposed_by="a frequency penalty and two tokens",
        hidden_by="runs without penalties",
        provenance="vllm-project/vllm#18902, vllm-project/vllm#6718, sgl-project/sglang#33643, "
        "sgl-project/sglang#28200, NVIDIA/TensorRT-LLM#17701, mattn/tensai#244",
        case="loop-frequency",
        edit=LoopEdit(target=lambda at: at.p(**UNPENALISED)),
    ),
    LoopFault(
        "L06b",
        "penalty_per_step",
        "computes penalties once per round, from the tokens before it",
        "a draft of this round counts for the rows after it, and is left out",
        "count the accepted drafts of the round into the history of each later row",
        exposed_by="a frequency penalty, and a draft that repeats itself",
        hidden_by="runs without penalties, and rounds without drafts",
        provenance="the family of vllm-project/vllm#18902, sgl-project/sglang#33643",
        case="loop-frequency",
        edit=LoopEdit(target=_penalties_as_of_round),
    ),
    LoopFault(
        "L06c",
        "penalty_bonus_only",
        "applies penalties to the bonus row only",
        "drafts are accepted and replaced as if no token had come before",
        "apply the penalties to the rows of drafts too, each for the tokens before it",
        exposed_by="a frequency penalty, and one draft",
        hidden_by="runs without penalties, and rounds without drafts",
        provenance="the family of vllm-project/vllm#18902, sgl-project/sglang#33643",
        case="loop-repetition",
        edit=LoopEdit(target=lambda at: at.p(**UNPENALISED), bonus=lambda at: at.p()),
    ),
    LoopFault(
        "L07",
        "penalty_state_polluted",
        "records rejected drafts in the history that penalties count",
        "tokens are made less likely that are no part of the text",
        "record what was emitted, after the verification",
        exposed_by="a frequency penalty, a rejection, and the round after it",
        hidden_by="runs without penalties, and a single round",
        provenance="osaurus-ai/vmlx-swift#357, ml-explore/mlx-examples#1291, leehack/llamadart#268",
        case="loop-frequency",
        edit=LoopEdit(target=_penalties_of_refused, start=(), remember=_refused_recorded),
    ),
    LoopFault(
        "L08",
        "processor_skipped",
        "does not call the processor that says which tokens are allowed",
        "tokens come that it rules out",
        "call custom processors in every backend, or refuse requests that have one",
        exposed_by="any processor that rules out a token",
        hidden_by="runs without processors",
        provenance="sgl-project/sglang#27769, sgl-project/sglang#21724",
        case="loop-grammar",
        edit=LoopEdit(target=lambda at: at.p(allowed_tokens=None)),
    ),
    LoopFault(
        "L09",
        "grammar_row_unmasked",
        "masks the rows of drafts by the grammar, and leaves the bonus row unmasked",
        "a token that the grammar rules out can follow when all drafts were accepted",
        "advance the grammar over all drafts, and mask the row after them too",
        exposed_by="a grammar of two states, three tokens, and a round whose drafts are all accepted",
        hidden_by="rounds that end with a rejection",
        provenance="vllm-project/vllm#44292, vllm-project/vllm#54442, vllm-project/vllm#36138, "
        "local-inference-lab/vllm#476, dottxt-ai/outlines#845",
        case="loop-grammar",
        edit=LoopEdit(bonus=lambda at: at.p(allowed_tokens=None)),
    ),
    LoopFault(
        "L11a",
        "bonus_temperature",
        "draws the bonus at half the temperature of the other rows",
        "the token after a full acceptance has the same target as any other",
        "process the bonus row as the rows of drafts",
        exposed_by="two tokens, and a round whose drafts are all accepted",
        hidden_by="rounds that end with a rejection, and the first token",
        provenance="the family of vllm-project/vllm#42744",
        case="loop",
        edit=LoopEdit(bonus=lambda at: at.p(temperature=at.asked.sampling.temperature / 2)),
    ),
    LoopFault(
        "L11b",
        "accept_unfiltered",
        "tests drafts against rows without top-k, top-p and min-p, and draws replacement and bonus from filtered ones",
        LOST_HERE + ", and a residual of one target repairs no acceptance by another",
        EVERY_ROW,
        exposed_by="three tokens, top-2, and one draft",
        hidden_by="runs without filters, and rounds without drafts",
        case="loop-top-k",
        edit=LoopEdit(accept=lambda at: at.p(**RAW)),
    ),
    LoopFault(
        "L11c",
        "bonus_unfiltered",
        "filters the rows of drafts, and draws the bonus from a row without top-k, top-p and min-p",
        LOST_HERE,
        EVERY_ROW,
        exposed_by="two tokens of which a filter drops one, and a round whose drafts are all accepted",
        hidden_by="runs without filters",
        provenance="the family of vllm-project/vllm#44292",
        case="loop-top-k",
        edit=LoopEdit(bonus=lambda at: at.p(**RAW)),
    ),
    LoopFault(
        "L11e",
        "masked_p_not_renormalised",
        "verifies drafts against a row that was filtered and not normalised",
        "the probability of every token that is kept is too small, in the ratio and in the residual",
        "normalise the row after the filter, before the ratio and the residual are taken",
        exposed_by="three tokens, top-2, and one draft",
        hidden_by="runs without filters, and rounds without drafts",
        provenance="the mirror of huggingface/transformers#47932",
        case="loop-top-k",
        edit=LoopEdit(target=_masked),
    ),
    LoopFault(
        "L11f",
        "filter_on_residual",
        "applies top-k, top-p and min-p to the residual once more",
        "the residual is what is still owed: to leave some of it out is to owe it for ever",
        "filter the target once, before p - q is taken",
        exposed_by="three tokens, a filter that keeps one token of the residual, and one draft",
        hidden_by="runs without filters, two tokens, and residuals of one token",
        provenance="the family of EricLBuehler/mistral.rs#2424",
        case="loop-filters",
        edit=LoopEdit(replace=_filtered_residual),
    ),
    LoopFault(
        "C03",
        "silent_ignore",
        "accepts min_p and min_new_tokens, and does nothing with them",
        "who asks for a parameter is given another law without a word",
        "follow the parameter, or refuse it",
        exposed_by="any case with the parameter",
        hidden_by="runs at its default",
        provenance="NVIDIA/TensorRT-LLM#17701, NVIDIA/TensorRT-LLM#16590, mattn/tensai#244",
        case="loop-late-end",
        edit=LoopEdit(target=lambda at: at.p(min_p=0.0, min_new_tokens=0)),
    ),
)
"""The faults of this family."""

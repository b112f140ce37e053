"""Faults of the generate loop itself: caches, shifted rows, the bonus, other requests, stopping, and seeds.

Each is the correct loop with one law taken at another place, or with something remembered that should be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat

import numpy as np

from specverify.arrays import IntArray
from specverify.contract import Verifier
from specverify.faults.loop_fault import LoopFault
from specverify.faults.loop_processing import mode
from specverify.faults.loop_samplers import Streams, loop_sampler
from specverify.faults.loop_steps import LoopEdit, Place
from specverify.reference import Row

__all__ = ["FAULTS"]


def _from_slot_before(at: Place) -> Row:
    """After a draft, read the cache one slot early: the last token is seen as the one before it."""
    return at.p(context=(*at.context[:-1], at.context[-2])) if at.drafts else at.p()


def _refused_in_cache(at: Place) -> Row:
    """See the rejected drafts of the round before, in the cache where they were written."""
    cut = len(at.asked.prompt) + len(at.done) - 1
    return at.p(context=at.context[:cut] + at.memory + at.context[cut:])


def _one_row_on(at: Place) -> Row:
    return at.p() if at.draft is None else _after(at)


def _after(at: Place) -> Row:
    """Give the row after the token that was drafted here."""
    assert at.draft is not None
    return at._replace(drafts=(*at.drafts, at.draft)).p()


def _one_row_back(at: Place) -> Row:
    return at._replace(drafts=at.drafts[:-1]).p()


def _of_neighbour(at: Place) -> Row:
    return at.p(context=at.asked.neighbour + at.text)


def _prompt_fed_again(at: Place) -> Row:
    prompt = at.asked.prompt
    return at.p(context=prompt + prompt[-1:] + at.text) if at.memory else at.p()


def _called_before() -> Callable[[], bool]:
    """Make what says no the first time, and yes from then on."""
    calls: list[None] = []

    def before() -> bool:
        calls.append(None)
        return len(calls) > 1

    return before


def _one_stream(seeds: IntArray) -> Iterator[np.random.Generator]:
    """Let all rows draw from one generator in turn, which the first row's seed starts."""
    return repeat(np.random.default_rng(int(seeds[0])))


def _same_streams(seeds: IntArray) -> Iterator[np.random.Generator]:
    """Start the rows of every call from the same seeds."""
    return map(np.random.default_rng, range(len(seeds)))


def _own_stream() -> Streams:
    """Draw from a generator that goes on from call to call."""
    rng = np.random.default_rng(0)
    return lambda _: repeat(rng)


def _drawing(streams: Callable[[], Streams]) -> Callable[[str], Verifier]:
    return lambda name: loop_sampler(LoopEdit(), name, streams=streams())


ALREADY_CALLED = LoopEdit(target=_prompt_fed_again, start=True)

FAULTS = (
    LoopFault(
        "G02",
        "target_kv_slot",
        "reads the target's cache one slot early after a draft, and sees the token before it once more",
        "the row is the target's law in another context",
        "write keys and values of the drafts to the slots that the attention reads",
        exposed_by="a law that depends on the last token, and one draft",
        hidden_by="rows that ignore the context, and rounds without drafts",
        provenance="huggingface/text-generation-inference#2711, vllm-project/vllm#5412",
        case="loop",
        edit=LoopEdit(target=_from_slot_before),
    ),
    LoopFault(
        "G03",
        "no_rollback",
        "leaves the rejected drafts of a round in the target's cache during the next one",
        "the target then continues a text that was never emitted",
        "roll the state back to the last accepted token, recurrent and convolutional layers included",
        exposed_by="a law that depends on the last token, a rejection, and the round after it",
        hidden_by="rows that ignore the context, and a single round",
        provenance="ml-explore/mlx-lm#1109, ggml-org/llama.cpp#20075, spiritbuun/buun-llama-cpp#74",
        case="loop",
        edit=LoopEdit(target=_refused_in_cache, start=(), remember=lambda at, kept: at.drafts[kept:]),
    ),
    LoopFault(
        "G04",
        "late_reject",
        "draws the replacement from the row after the rejected draft",
        "that row is the law after a token that is not emitted, and no residual is taken off it",
        "draw it from the residual of the row at which the draft was rejected",
        exposed_by="two tokens, one draft, and a rejection",
        hidden_by="rounds whose drafts are all accepted",
        provenance="openvinotoolkit/openvino.genai#4190",
        case="loop",
        edit=LoopEdit(replace=lambda at, _: _after(at)),
    ),
    LoopFault(
        "G05",
        "row_shift",
        "verifies each draft against the row after it",
        "row i + 1 is the law of the token after the draft, not of the draft itself",
        "compare draft i with the row of the token before it",
        exposed_by="rows that differ by the token before them, and one draft",
        hidden_by="rows that are equal at all positions",
        provenance="mlx-node/mlx-node#11, antirez/ds4#358, huggingface/transformers#28166, "
        "vllm-project/tpu-inference#514",
        case="loop",
        edit=LoopEdit(target=_one_row_on),
    ),
    LoopFault(
        "G06",
        "bonus_argmax",
        "takes the likeliest token for the bonus",
        "the bonus is a draw from the target like any other token",
        "draw it, also where it is the token after the prompt",
        exposed_by="two tokens, and a round whose drafts are all accepted",
        hidden_by="greedy decoding, and the first token where there are drafts",
        provenance="Luce-Org/lucebox#374, Luce-Org/lucebox#413",
        case="loop",
        edit=LoopEdit(bonus=lambda at: mode(at.p())),
    ),
    LoopFault(
        "G07",
        "bonus_previous_row",
        "draws the bonus from the row before the last draft",
        "that is the law of the last draft once more, not of the token after it",
        "take the row after the last draft: one more than there are drafts",
        exposed_by="rows that differ by position, and a round whose drafts are all accepted",
        hidden_by="rows that are equal at all positions",
        provenance="kekzl/imp#683, mlc-ai/mlc-llm#2206; one reading of SafeAILab/EAGLE#47, which is not confirmed",
        case="loop",
        edit=LoopEdit(bonus=_one_row_back),
    ),
    LoopFault(
        "G08",
        "batch_mixup",
        "verifies the drafts of one request against the rows of its neighbour",
        "the text follows another request's prompt",
        "check how rows are gathered for the requests of a batch",
        exposed_by="a batch of two requests with different prompts",
        hidden_by="batches of one request, or of equal ones",
        provenance="vllm-project/vllm#14645, vllm-project/vllm#35398, huggingface/text-generation-inference#1411, "
        "vllm-project/tpu-inference#2608",
        case="loop-mates",
        edit=LoopEdit(target=_of_neighbour),
    ),
    LoopFault(
        "G09",
        "stop_mid_block",
        "keeps the tokens of a round that come after the end of the sequence",
        "a sequence ends with its first end token",
        "look for the end in every emitted token of a round, before the length is cut",
        exposed_by="an end token that is drafted first of two and accepted",
        hidden_by="models without an end token, and rounds of one token",
        provenance="huggingface/transformers#47912, sgl-project/sglang#33758, sgl-project/sglang#31599, "
        "LostRuins/koboldcpp#1276, vllm-project/vllm#47616, openvinotoolkit/openvino.genai#1951",
        shows="structure",
        case="loop-end",
        edit=LoopEdit(runs_on=True),
    ),
    LoopFault(
        "G10",
        "seed_contract",
        "ignores the seeds that it asked for, and draws from a generator of its own",
        "a call cannot be replayed",
        "start the generator of a call from its seed, or that of every row from the row's own",
        exposed_by="the same call twice",
        hidden_by="every law",
        provenance="vllm-project/vllm#6034, vllm-project/vllm#6038, vllm-project/vllm-ascend#13608",
        shows="replay",
        case="loop",
        build=_drawing(_own_stream),
    ),
    LoopFault(
        "G10b",
        "stream_moves_with_neighbours",
        "draws all rows of a batch from the first row's stream, one after the other",
        "what a row becomes depends on the rows before it, although it has a seed of its own",
        "give every row a generator of its own, started from the row's seed",
        exposed_by="a row alone and in a batch, with the same seed",
        hidden_by="every law, and the same batch twice",
        provenance="NVIDIA/TensorRT-LLM#17599, ohdearquant/lattice#974",
        shows="replay",
        case="loop",
        build=_drawing(lambda: _one_stream),
    ),
    LoopFault(
        "G10c",
        "seed_fixed",
        "ignores the seeds that it asked for, and starts every call from one of its own",
        "calls with different seeds give one and the same text, so that all of them are worth one",
        "start the generator of a call from its seed, or that of every row from the row's own",
        exposed_by="two calls with different seeds",
        hidden_by="the law of a single call, and the same call twice",
        provenance="the counterpart of G10, not reported in this form",
        shows="replay",
        case="loop",
        build=_drawing(lambda: _same_streams),
    ),
    LoopFault(
        "G13",
        "state_between_calls",
        "keeps the cache of an earlier call, and feeds the last token of the prompt to it once more",
        "from the second call on the text does not follow the prompt",
        "reset all state at the start of a call",
        exposed_by="two calls, and a law that depends on the context",
        hidden_by="the first call",
        provenance="NVIDIA/TensorRT-LLM#2263",
        case="loop",
        edit=ALREADY_CALLED,
        build=lambda name: loop_sampler(ALREADY_CALLED, name, start=_called_before()),
    ),
)
"""The faults of this family."""

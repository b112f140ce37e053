"""A loop of this kit as a generator that can be run: every row plays the rounds whose law is exact."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.contract import Verifier
from specverify.faults.loop_steps import Asked, LoopEdit, State, Tokens, Turn, ended, play_turn
from specverify.generating import Generation, Round, generator
from specverify.loops import LanguageModel
from specverify.processing import Grammar, Sampling
from specverify.reference import RandomTape

__all__ = ["loop_sampler", "own_streams"]

Streams: TypeAlias = Callable[[IntArray], Iterable[np.random.Generator]]
"""From the seeds of the rows to a generator for each."""


def own_streams(seeds: IntArray) -> Iterator[np.random.Generator]:
    """Give each row a generator from its own seed.

    Example:
        >>> len(list(own_streams(np.array([3, 4]))))
        2
    """
    return map(np.random.default_rng, seeds.tolist())


def loop_sampler(
    edit: LoopEdit,
    name: str,
    *,
    rule: str | None = None,
    streams: Streams | None = None,
    start: Callable[[], Hashable] | None = None,
) -> Verifier:
    """Make a generator of a loop.

    Args:
        edit: The loop.
        name: Its name.
        rule: The rule that it claims; one that claims a rule reports its rounds.
        streams: From the seeds of the rows to their generators, for one that asks for seeds of rows; left out, it asks
            for the seed of a call, and its rows draw from one generator in turn.
        start: Gives what the loop remembers before the first round of a call; left out, what ``edit`` says.

    Example:
        >>> loop_sampler(LoopEdit(), "mine").kind
        'generator'
    """

    def generate(
        target_model: LanguageModel,
        draft_model: LanguageModel,
        prompt: IntArray,
        num_draft_tokens: int,
        max_new_tokens: int,
        eos_token_id: int | None,
        temperature: float,
        top_k: int,
        top_p: float,
        min_p: float,
        repetition_penalty: float,
        frequency_penalty: float,
        logit_bias: FloatArray,
        min_new_tokens: int,
        allowed_tokens: Grammar,
        seed: int = 0,
        seeds: IntArray | None = None,
    ) -> Any:
        penalties = repetition_penalty, frequency_penalty, tuple(logit_bias.tolist())
        sampling = Sampling(temperature, top_k, top_p, min_p, *penalties, min_new_tokens, allowed_tokens)
        models, sizes = (target_model, draft_model), (num_draft_tokens, max_new_tokens)
        asked = _asked(prompt, lambda own, other: Asked(*models, own, *sizes, sampling, eos_token_id, other))
        first = State((), edit.start if start is None else start())
        rngs = repeat(np.random.default_rng(seed)) if streams is None or seeds is None else streams(seeds)
        turns = [_turns(edit, row, first, rng) for row, rng in zip(asked, rngs, strict=False)]
        tokens = _tokens(turns, max_new_tokens)
        return tokens if rule is None else Generation(tokens, _rounds(turns, num_draft_tokens, draft_model.vocab_size))

    bound: dict[str, Any] = {"seeds": None} if streams is None else {"seed": 0}  # what is bound is not asked for
    return generator(name=name, rule=rule)(partial(generate, **bound))


def _asked(prompt: IntArray, make: Callable[[Tokens, Tokens], Asked]) -> list[Asked]:
    """Give what each row is asked for; rows with the same prompt, and the same beside it, share it and its laws."""
    prompts: list[Tokens] = list(map(tuple, prompt.tolist()))
    pairs = list(zip(prompts, _beside(prompts), strict=True))
    made = {pair: make(*pair) for pair in set(pairs)}
    return [made[pair] for pair in pairs]


def _beside(prompts: list[Tokens]) -> list[Tokens]:
    """Give each row the prompt of the row below it, and the last one that of the row above."""
    return [*prompts[1:], prompts[max(len(prompts) - 2, 0)]]


def _turns(edit: LoopEdit, asked: Asked, state: State, rng: np.random.Generator) -> list[Turn]:
    turns: list[Turn] = []
    while not ended(asked, state):
        turns.append(play_turn(edit, asked, state, RandomTape(rng)))
        state = turns[-1].state
    return turns


def _tokens(rows: list[list[Turn]], max_new_tokens: int) -> IntArray:
    texts = [turns[-1].state.text for turns in rows]
    return np.array([(*text, *[-1] * (max_new_tokens - len(text))) for text in texts], dtype=np.int64)


def _rounds(rows: list[list[Turn]], num_draft_tokens: int, vocab_size: int) -> list[Round]:
    """Lay out the rounds of the rows side by side."""
    rounds = []
    for number in range(max(map(len, rows))):
        drafts = np.full((len(rows), num_draft_tokens), -1, dtype=np.int64)
        laws, kept = np.zeros((*drafts.shape, vocab_size)), np.full(len(rows), -1, dtype=np.int64)
        for row, turns in enumerate(rows):
            if number < len(turns):
                turn = turns[number]
                drafts[row, : len(turn.drafts)], kept[row] = turn.drafts, turn.num_accepted
                laws[row, : len(turn.drafts)] = np.array(turn.laws, dtype=np.float64).reshape(-1, vocab_size)
        rounds.append(Round(drafts, laws, kept))
    return rounds

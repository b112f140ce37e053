"""The built-in cases of generate loops: small models with a memory, and one case for every sampling parameter.

The laws depend on the position and on the last two tokens, the prompt's among them, so that no two rows of a round are
equal, and no filter has a tie to decide, which correct loops decide differently. A case without a draft is the control
of the harness itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np

from specverify.arrays import FloatArray
from specverify.cases import Case
from specverify.loops import Loop, MarkovModel
from specverify.processing import Grammar, Sampling

__all__ = ["PLAIN_CASE", "PROCESSES", "base_loop", "flat_loop", "loop_menu"]

ORDER = 2
PROMPT = (1, 0, 2)
MATE = (2, 2, 0)
PLAIN_CASE = "loop"
PROCESSES = 3  # fresh ones, beside this
EOS = 2
# An opening token (0) must be followed by a closing one (1) before it may come again; 2 is free.
BRACKETS = Grammar(allowed=((0, 2), (1, 2)), after=((1, 0, 0), (1, 0, 1)), vocab_size=3)

_SAMPLING = {
    "temperature": (Sampling(temperature=0.7), "temperature .7"),
    "hot": (Sampling(temperature=2.0), "temperature 2"),
    "top-k": (Sampling(top_k=2), "the two likeliest tokens"),
    "temperature-top-k": (Sampling(temperature=0.7, top_k=2), "temperature .7 with the two likeliest tokens"),
    "top-p": (Sampling(top_p=0.85), "the likeliest tokens of mass .85"),
    "min-p": (Sampling(min_p=0.35), "tokens of at least .35 times the likeliest one's probability"),
    "filters": (Sampling(temperature=0.7, top_k=2, top_p=0.715), "temperature, top-k and top-p, whose order matters"),
    "repetition": (Sampling(repetition_penalty=1.6), "what came before is less likely, drafts included"),
    "frequency": (Sampling(frequency_penalty=0.9), "what was generated is less likely each time"),
    "bias": (Sampling(logit_bias=(-100.0, 0.0, 0.7)), "a token that is ruled out and one that is favoured"),
    "grammar": (Sampling(allowed_tokens=BRACKETS), "a grammar of two states"),
}


@cache
def loop_menu() -> tuple[Case, ...]:
    """Give all built-in cases of generators.

    Example:
        >>> [case.name for case in loop_menu()][:3]
        ['loop', 'loop-no-draft', 'loop-one-draft']
    """
    base, ending = base_loop(), base_loop(EOS)
    cases = [
        Case.from_loop(PLAIN_CASE, base, "laws that depend on the position and the last two tokens"),
        Case.from_loop("loop-no-draft", replace(base, num_draft_tokens=0), "the control without a draft"),
        Case.from_loop("loop-one-draft", replace(base, num_draft_tokens=1), "one draft per round: several rounds"),
        Case.from_loop("loop-deep", _deep(), "four drafts per round"),
        Case.from_loop("loop-mates", replace(base, mate=MATE), "every other row has another prompt"),
    ]
    for name, (sampling, description) in _SAMPLING.items():
        # The penalty counts the prompt: one that holds every token would leave nothing to count.
        prompt = (PROMPT[0],) * len(PROMPT) if sampling.repetition_penalty != 1 else PROMPT
        cases.append(Case.from_loop(f"loop-{name}", replace(base, sampling=sampling, prompt=prompt), description))
    late = replace(ending, sampling=Sampling(min_new_tokens=2))
    cases += [
        Case.from_loop("loop-end", ending, "a token that ends the sequence, also inside a draft"),
        Case.from_loop("loop-late-end", late, "which may not come before the third token"),
        *_processes(base),
    ]
    return tuple(cases)


def base_loop(eos_token_id: int | None = None) -> Loop:
    """Give the loop that the cases vary: three tokens, two drafts per round, four new tokens."""
    target, draft = _models(_rows(3, shares=16, most=10), 3, 372, eos_token_id)
    return Loop(target, draft, prompt=PROMPT, num_draft_tokens=2, max_new_tokens=4)


@cache
def flat_loop(vocab_size: int, max_new_tokens: int = 2) -> Case:
    """Give the case whose tokens are all fair under any lossless loop: what repeats there is shared randomness."""
    fair = MarkovModel(np.full((1, 1, vocab_size), -np.log(vocab_size)), 0)
    skewed = np.log(np.arange(1, vocab_size + 1) / (vocab_size * (vocab_size + 1) / 2))
    loop = Loop(fair, MarkovModel(skewed[None, None], 0), (0,), 1, max_new_tokens)
    return Case.from_loop(f"loop-flat-{vocab_size}", loop, "fair tokens: dependence")


def _processes(base: Loop) -> Iterator[Case]:
    for process in range(1, PROCESSES + 1):
        yield Case.from_loop(f"loop-process-{process}", replace(base, process=process), "in a fresh process")


def _deep() -> Loop:
    target, draft = _models(_rows(2, shares=32, most=26), 5, 73)
    return Loop(target, draft, prompt=(0, 1, 1), num_draft_tokens=4, max_new_tokens=6)


def _models(rows: FloatArray, phases: int, seed: int, eos: int | None = None) -> tuple[MarkovModel, MarkovModel]:
    """Make a target of different rows, as many phases as a round has, and a draft that is half right."""
    rng = np.random.default_rng(seed)
    shape = (phases, rows.shape[1] ** ORDER, rows.shape[1])
    target, other = (rng.permutation(rows)[: shape[0] * shape[1]].reshape(shape) for _ in range(2))
    draft = (target + other) / 2
    return MarkovModel(np.log(target), ORDER, eos), MarkovModel(np.log(draft), ORDER, eos)


def _rows(size: int, shares: int, most: int) -> FloatArray:
    """List the laws of so many shares in which no two tokens have as many, none of them none, and none too many."""
    units = (row for row in product(range(1, most + 1), repeat=size) if sum(row) == shares and len(set(row)) == size)
    return np.array(list(units)) / shares

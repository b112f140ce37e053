"""Faults that emit more than the one token that may follow the accepted drafts: the structure check refuses them.

Their exact laws are those of the whole text that a round emits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.contract import Verifier, verifier
from specverify.faults.edits import Edit
from specverify.faults.kernels import draw, verify
from specverify.faults.record import Fault
from specverify.reference import Row, Tape, acceptance, choose, flip, residual, token

__all__ = ["FAULTS"]

Longer = tuple[int, int | None, tuple[int, ...]]


def _after_reject(tape: Tape, draft_tokens: Sequence[int], draft_probs: Sequence[Row], target: Sequence[Row]) -> Longer:
    emitted: list[int] = []
    refused: list[int] = []
    for i, x in enumerate(draft_tokens):
        p, q = target[i], draft_probs[i]
        kept = flip(tape, ("accept", i), acceptance(p[x], q[x]))
        emitted.append(x if kept else choose(tape, ("replace", i), residual(p, q)))
        refused += [] if kept else [i]
    emitted.append(choose(tape, ("final",), target[len(draft_tokens)]))
    accepted = min(refused, default=len(draft_tokens))
    return accepted, emitted[accepted], tuple(emitted[accepted + 1 :])


def _bonus_duplicated(
    tape: Tape, draft_tokens: Sequence[int], draft_probs: Sequence[Row], target: Sequence[Row]
) -> Longer:
    accepted, following, *_ = token(tape, draft_tokens, draft_probs, target)
    again = (following,) if accepted == len(draft_tokens) and following is not None else ()
    return accepted, following, again


def _stale_scores(tape: Tape, draft_tokens: Sequence[int], draft_probs: Sequence[Row], target: Sequence[Row]) -> Longer:
    accepted, following, *_ = token(tape, draft_tokens, draft_probs, target)
    if accepted == len(draft_tokens):
        return accepted, following, ()
    return accepted, following, (choose(tape, ("stale",), target[accepted + 1]),)


More = Callable[[np.random.Generator, IntArray, IntArray, FloatArray, FloatArray], IntArray]


def _sampler(emit: More) -> Callable[[str], Verifier]:
    """Make the builder of a sampler that returns whole lines of tokens."""

    def build(name: str) -> Verifier:
        @verifier(name=name, rule="token", readonly=True)
        def sampler(
            draft_tokens: IntArray,
            num_draft_tokens: IntArray,
            draft_probs: FloatArray,
            target_probs: FloatArray,
            seed: int,
        ) -> IntArray:
            return emit(np.random.default_rng(seed), draft_tokens, num_draft_tokens, draft_probs, target_probs)

        return sampler

    return build


def _verified(
    rng: np.random.Generator, drafts: IntArray, lengths: IntArray, draft: FloatArray, target: FloatArray
) -> tuple[IntArray, IntArray]:
    """Verify by the token rule; gives lines of G + 2 tokens, padded with -1, and the accepted lengths."""
    kept, following = verify(Edit(), drafts, draft, target, rng.random(drafts.shape), rng.random(len(drafts)), lengths)
    lines = np.pad(drafts, ((0, 0), (0, 2)))
    lines = np.where(np.arange(lines.shape[1]) < kept[:, None], lines, -1)
    lines[np.arange(len(lines)), kept] = following
    return lines, kept


def _twice(
    rng: np.random.Generator, drafts: IntArray, lengths: IntArray, draft: FloatArray, target: FloatArray
) -> IntArray:
    lines, kept = _verified(rng, drafts, lengths, draft, target)
    rows = np.flatnonzero(kept == lengths)
    lines[rows, kept[rows] + 1] = lines[rows, kept[rows]]
    return lines


def _stale(
    rng: np.random.Generator, drafts: IntArray, lengths: IntArray, draft: FloatArray, target: FloatArray
) -> IntArray:
    lines, kept = _verified(rng, drafts, lengths, draft, target)
    rows = np.flatnonzero(kept < lengths)
    lines[rows, kept[rows] + 1] = draw(target[rows, kept[rows] + 1], rng.random(len(rows)))
    return lines[:, :-1]


def _repaired(
    rng: np.random.Generator, drafts: IntArray, lengths: IntArray, draft: FloatArray, target: FloatArray
) -> IntArray:
    lines = np.full((len(drafts), drafts.shape[1] + 1), -1, dtype=np.int64)
    for i in range(drafts.shape[1]):
        own, here = (i < lengths).astype(np.int64), slice(i, i + 1)
        uniforms = rng.random((len(drafts), 1)), rng.random(len(drafts))
        kept, following = verify(Edit(), drafts[:, here], draft[:, here], target[:, i : i + 2], *uniforms, own)
        lines[:, i] = np.where(own == 0, -1, np.where(kept == 1, drafts[:, i], following))
    rows = np.arange(len(drafts))
    lines[rows, lengths] = draw(target[rows, lengths], rng.random(len(drafts)))
    return lines


FAULTS = (
    Fault(
        "K26",
        "after_reject",
        "keeps the drafts after a rejected one, each position being repaired on its own",
        "they were drafted, and are tested, after a prefix that is no longer the text",
        "end the round at the first rejection",
        exposed_by="two drafts, with rows that depend on the context",
        hidden_by="rows that ignore the context, and one draft",
        provenance="placeholder tests of vllm-project/vllm",
        shows="structure",
        longer=_after_reject,
        build=_sampler(_repaired),
    ),
    Fault(
        "K32",
        "bonus_duplicated",
        "emits the bonus token twice",
        "the second copy is no draw from the target",
        "append the bonus in one place only",
        exposed_by="one draft that is accepted",
        hidden_by="the first tokens of a round",
        provenance="compare kekzl/imp#683",
        shows="structure",
        longer=_bonus_duplicated,
        build=_sampler(_twice),
    ),
    Fault(
        "K33",
        "stale_scores",
        "draws the token after a replacement from the target row of the rejected draft",
        "that row belongs to a text that was not emitted",
        "end the round at the replacement, and score it in the next one",
        exposed_by="one draft, with rows that depend on the context",
        hidden_by="rows that ignore the context",
        provenance="compare openvinotoolkit/openvino.genai#4190",
        shows="structure",
        longer=_stale_scores,
        build=_sampler(_stale),
    ),
)
"""The faults of this family."""

"""Known faults are edits of the token rule, so the exact law of each is known as well as that of the correct rule.

A fault changes one decision of the rule: with which probability a draft is accepted, which uniform decides it, what a
rejected draft is replaced from, what the bonus is drawn from. The laws serve the diagnosis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.contract import Verifier, verifier
from specverify.reference import Name, Number, RandomTape, Row, Rule, Tape, acceptance, choose, flip, residual

__all__ = ["CATALOGUE", "Fault", "fault_sampler"]


@dataclass(frozen=True)
class Fault:
    """One known fault.

    Attributes:
        id: Stable id, such as K02.
        name: Short name.
        claim: What the sampler seems to do, to follow "it".
        wrong: Why that is wrong.
        advice: What to change.
        rule: The edited rule.
    """

    id: str
    name: str
    claim: str
    wrong: str
    advice: str
    rule: Rule

    @property
    def explain(self) -> str:
        """Give the whole record as text."""
        head = f"{self.id}  {self.name}\n\n"
        return f"{head}Mechanism: it {self.claim}.\nWrong:     {self.wrong}.\nRepair:    {self.advice}."


def _edited(
    *,
    accept: Callable[[Number, Number], Number] = acceptance,
    coin: Callable[[int], Name] = lambda i: ("accept", i),
    replacement: Callable[[Row, Row], Row] = residual,
    final: Callable[[int], Name] = lambda i: ("final",),  # noqa: ARG005 - the correct rule needs no position
    bonus: Callable[[Sequence[Row], Sequence[Row]], Row] = lambda draft, target: target[-1],  # noqa: ARG005
) -> Rule:
    """Make the token rule with some of its decisions replaced; with none replaced it is the token rule."""

    def rule(
        tape: Tape, draft_tokens: Sequence[int], draft_probs: Sequence[Row], target_probs: Sequence[Row]
    ) -> tuple[int, int | None]:
        for i, x in enumerate(draft_tokens):
            p, q = target_probs[i], draft_probs[i]
            if not flip(tape, coin(i), accept(p[x], q[x])):
                return i, choose(tape, final(i), replacement(p, q))
        rows = draft_probs[: len(draft_tokens)], target_probs[: len(draft_tokens) + 1]
        return len(draft_tokens), choose(tape, ("final",), bonus(*rows))

    return rule


def _mode(p: Row, q: Row) -> Row:
    rest = residual(p, q)
    best = list(rest).index(max(rest))
    return [int(x == best) for x in range(len(rest))]


_FAULTS = (
    Fault(
        "K01",
        "accept_all",
        "accepts every drafted token",
        "the output follows the draft, not the target",
        "accept x only with probability min(1, p(x)/q(x)); look for a coin that is always 0 or a q that is read as 0",
        _edited(accept=lambda p, q: 1),  # noqa: ARG005
    ),
    Fault(
        "K02",
        "residual_target",
        "redraws from the target after a rejection",
        "what was rejected is rejected for having too little target mass; drawing from all of p gives some of it back, "
        "so the output keeps part of the draft's law",
        "draw the replacement from the positive part of p - q, normalised",
        _edited(replacement=lambda p, q: p),  # noqa: ARG005
    ),
    Fault(
        "K03a",
        "residual_abs",
        "replaces a rejected draft from |p - q|",
        "tokens that were drafted too often are given out again",
        "keep only the positive part of p - q before normalising",
        _edited(replacement=lambda p, q: [max(a - b, b - a) for a, b in zip(p, q, strict=True)]),
    ),
    Fault(
        "K05",
        "residual_mode",
        "replaces a rejected draft by the most likely token of the residual",
        "the other residual tokens never come",
        "draw from the residual instead of taking its argmax",
        _edited(replacement=_mode),
    ),
    Fault(
        "K07",
        "ratio_inverted",
        "accepts with min(1, q/p) instead of min(1, p/q)",
        "drafts are accepted where the draft exceeds the target",
        "swap target and draft in the acceptance ratio; papers disagree on which is called p",
        _edited(accept=lambda p, q: acceptance(q, p)),
    ),
    Fault(
        "K12",
        "coin_reused_in_residual",
        "draws the replacement with the uniform that rejected the draft",
        "given a rejection that uniform lies in the upper part of [0, 1), so the early residual tokens come too rarely",
        "take a fresh uniform for the replacement",
        _edited(final=lambda i: ("accept", i)),
    ),
    Fault(
        "K15",
        "one_coin_per_block",
        "uses one uniform for the acceptance tests of all positions",
        "a position that is reached is accepted too often; the first token is right, the joint law is not",
        "take a fresh uniform for every position",
        _edited(coin=lambda i: ("accept", 0)),  # noqa: ARG005
    ),
    Fault(
        "K31",
        "bonus_from_draft",
        "draws the bonus token from the draft",
        "after full acceptance the next token follows q, not p",
        "draw the bonus from the target row after the last draft",
        _edited(bonus=lambda draft, target: draft[-1] if draft else target[-1]),
    ),
)


def fault_sampler(fault: Fault) -> Verifier:
    """Make a verifier that runs a fault row by row, slowly, as its rule is written.

    Example:
        >>> fault_sampler(CATALOGUE["K02"]).name
        'fault:K02'
    """

    @verifier(name=f"fault:{fault.id}", rule="token", max_batch=4)
    def sampler(
        draft_tokens: IntArray,
        num_draft_tokens: IntArray,
        draft_probs: FloatArray,
        target_probs: FloatArray,
        generator: np.random.Generator,
    ) -> tuple[list[int], list[int]]:
        results = []
        for x, n, q, p in zip(draft_tokens.tolist(), num_draft_tokens.tolist(), draft_probs, target_probs, strict=True):
            tape = RandomTape(generator)
            results.append(fault.rule(tape, x[:n], q[:n].tolist(), p[: n + 1].tolist()))
        return [k for k, _ in results], [-1 if token is None else token for _, token in results]

    return sampler


CATALOGUE = MappingProxyType({fault.id: fault for fault in _FAULTS})
"""The known faults by id."""

"""Loops that look wrong and are not: whatever is drafted, from whatever context, the law of the text is the target's.

A check that convicts one of them is wrong. Each is the correct loop with another way of drafting, or another lossless
rule.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import MappingProxyType

from specverify.contract import Verifier
from specverify.faults.loop_processing import mode
from specverify.faults.loop_samplers import loop_sampler
from specverify.faults.loop_steps import LoopEdit, Place
from specverify.processing import PLAIN
from specverify.reference import Row, match

__all__ = ["CONTROLS", "Control"]

UNPROCESSED = {field.name: getattr(PLAIN, field.name) for field in fields(PLAIN)}
UNSURE = 0.4


@dataclass(frozen=True)
class Control:
    """A loop that must pass.

    Attributes:
        why: Why it is right.
        edit: The loop.
        rule: The rule that its rounds follow.
    """

    why: str
    edit: LoopEdit
    rule: str = "token"

    def sampler(self, name: str) -> Verifier:
        """Make its generator, which reports its rounds."""
        return loop_sampler(self.edit, name, rule=self.rule)


def _hole_in_context(at: Place) -> Row:
    """Draft as if the last token but one were not there."""
    return at.q(context=at.context[:-2] + at.context[-1:])


def _looked_up(at: Place) -> Row | None:
    """Draft what followed the last token where it came before; nothing where it is new."""
    *before, last = at.context
    followers = [follower for token, follower in zip(before, at.context[1:], strict=True) if token == last]
    return tuple(float(x == followers[-1]) for x in range(at.asked.vocab_size)) if followers else None


def _until_unsure(at: Place) -> Row | None:
    """Stop after a draft that was unlikely, which is submitted like the others."""
    unsure = at.drafts and at._replace(drafts=at.drafts[:-1]).q()[at.drafts[-1]] < UNSURE
    return None if unsure else at.q()


CONTROLS = MappingProxyType(
    {
        "correct": Control("it is the loop of the papers", LoopEdit()),
        "match": Control("each token is the target's own draw, on either branch", LoopEdit(rule=match), "match"),
        "lookup": Control(
            "a draft that is certain is accepted with p(x), and replaced from p without x", LoopEdit(propose=_looked_up)
        ),
        "early-stop": Control(
            "a draft that is submitted, whatever it is, has been drawn from q", LoopEdit(propose=_until_unsure)
        ),
        "raw-drafts": Control(
            "drafts may be processed otherwise than the target if q is the law that they were drawn from",
            LoopEdit(propose=lambda at: at.q(**UNPROCESSED)),
        ),
        "greedy-drafts": Control(
            "the likeliest token is certain, and its q is a point mass", LoopEdit(propose=lambda at: mode(at.q()))
        ),
        "draft-kv-hole": Control(
            "a draft model that sees another context drafts worse, and q is what it drafts from (G01)",
            LoopEdit(propose=_hole_in_context),
        ),
        "overdraft": Control(
            "tokens beyond the length are cut, and those before do not see it", LoopEdit(overdrafts=True)
        ),
    }
)
"""The controls by name."""

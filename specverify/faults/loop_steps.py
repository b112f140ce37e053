"""A generate loop is a step of a hashable state on a tape: the same text is the loop and its faults.

A step is one round: draft from q, verify by the token rule with p, emit what was accepted and one token more. The state
is the tokens generated so far, and whatever a faulty loop remembers beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from specverify.loops import LanguageModel, Loop
from specverify.processing import Sampling
from specverify.reference import Row, Rule, Tape, acceptance, choose, flip, residual

__all__ = ["Asked", "LoopEdit", "Place", "State", "Tokens", "Turn", "ended", "may_draft", "play_turn", "replacement"]

Tokens: TypeAlias = tuple[int, ...]


class Asked:
    """What one row of a call is asked for; the laws that its models give are kept.

    Args:
        target: The target model, from contexts int64 [B, T] to log-probabilities float64 [B, V].
        draft: The draft model.
        prompt: The tokens before.
        num_draft_tokens: Tokens drafted in a round.
        max_new_tokens: Number L of new tokens.
        sampling: Sampling parameters.
        eos: The token that ends a sequence, or None.
        neighbour: Prompt of the row beside; its own where there is none.
    """

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel,
        prompt: Tokens,
        num_draft_tokens: int,
        max_new_tokens: int,
        sampling: Sampling,
        eos: int | None,
        neighbour: Tokens = (),
    ) -> None:
        self.models = {"target": target, "draft": draft}
        self.prompt, self.neighbour = prompt, neighbour or prompt
        self.num_draft_tokens, self.max_new_tokens = num_draft_tokens, max_new_tokens
        self.sampling, self.eos = sampling, eos
        self._laws: dict[Hashable, Row] = {}
        self._rows: dict[Hashable, Any] = {}

    @classmethod
    def of(cls, loop: Loop) -> Asked:
        """Read what a case asks for."""
        eos = loop.target.eos_token_id
        sizes = loop.num_draft_tokens, loop.max_new_tokens
        return cls(loop.target, loop.draft, loop.prompt, *sizes, loop.sampling, eos, loop.mate)

    @property
    def vocab_size(self) -> int:
        """Number V of tokens."""
        return self.models["target"].vocab_size

    @property
    def penalised(self) -> bool:
        """Whether tokens that came before are made less likely."""
        return self.sampling.repetition_penalty != 1 or self.sampling.frequency_penalty != 0

    def law(self, model: str, context: Tokens, history: Tokens, changes: tuple[tuple[str, Any], ...]) -> Row:
        """Give the law of a model after a context, processed for a history under changed sampling parameters."""
        key = (model, context, history, changes)
        if key not in self._laws:
            sampling = replace(self.sampling, **dict(changes)) if changes else self.sampling
            log_probs = self.models[model](np.array([context], dtype=np.int64))
            generated = np.array([history], dtype=np.int64).reshape(1, -1)
            self._laws[key] = tuple(sampling.law(log_probs, generated, self.prompt, self.eos)[0].tolist())
        return self._laws[key]

    def row(self, hook: Callable[..., Any], *arguments: Any) -> Any:
        """Give what a function makes of a place; it is asked once."""
        key = (hook, arguments)
        if key not in self._rows:
            self._rows[key] = hook(*arguments)
        return self._rows[key]


class Place(NamedTuple):
    """Where a law is asked for: after the tokens done and some drafts of this round.

    Attributes:
        asked: What is asked for.
        done: The tokens generated in the rounds before.
        drafts: The drafts of this round before this position.
        draft: The token that was drafted here; None for the bonus, and while it is being drafted.
        memory: What the loop remembers beside its tokens.
    """

    asked: Asked
    done: Tokens
    drafts: Tokens
    draft: int | None
    memory: Any

    @property
    def text(self) -> Tokens:
        """The generated tokens before this position."""
        return self.done + self.drafts

    @property
    def context(self) -> Tokens:
        """All tokens before this position, the prompt's first."""
        return self.asked.prompt + self.text

    def p(self, *, context: Tokens | None = None, history: Tokens | None = None, **changes: Any) -> Row:
        """Give the target's law here, as it is asked for.

        Args:
            context: What the model sees instead of the prompt and the text.
            history: What the processors see instead of the text.
            **changes: Sampling parameters that are lost or changed.
        """
        return self._law("target", context, history, changes)

    def q(self, *, context: Tokens | None = None, **changes: Any) -> Row:
        """Give the draft's law here, likewise."""
        return self._law("draft", context, None, changes)

    def _law(self, model: str, context: Tokens | None, history: Tokens | None, changes: dict[str, Any]) -> Row:
        seen = self.context if context is None else context
        return self.asked.law(model, seen, self.text if history is None else history, tuple(changes.items()))


def _draft_law(at: Place) -> Row:
    return at.q()


def _target_law(at: Place) -> Row:
    return at.p()


def _unchanged(at: Place, kept: int) -> Hashable:  # noqa: ARG001 - a correct loop remembers nothing
    return at.memory  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class LoopEdit:
    """The speculative loop with some of its decisions replaced; with nothing edited it is the loop itself.

    Attributes:
        propose: The law that a draft is drawn from, and that the verification takes for it; None drafts no further.
        target: The target's law at a draft, or after the last one.
        accept: The row whose value at the draft is tested against q; left out, ``target``.
        replace: From the place and q to the weights of the replacement; left out, (target - q)+.
        bonus: The weights of the token after the last draft; left out, ``target``.
        rule: Another rule that verifies all rows of ``target`` at once.
        overdrafts: Whether tokens beyond max_new_tokens are drafted too; they are cut.
        runs_on: Whether tokens after the end of a sequence are kept in the round that it came in.
        start: What it remembers before the first round.
        remember: From the place after all drafts, and how many were kept, to what it remembers after the round.
    """

    propose: Callable[[Place], Row | None] = _draft_law
    target: Callable[[Place], Row] = _target_law
    accept: Callable[[Place], Row] | None = None
    replace: Callable[[Place, Row], Row] | None = None
    bonus: Callable[[Place], Row] | None = None
    rule: Rule | None = None
    overdrafts: bool = False
    runs_on: bool = False
    start: Hashable = None
    remember: Callable[[Place, int], Hashable] = _unchanged


class State(NamedTuple):
    """Where a loop stands between two rounds: its new tokens, and what it remembers beside them."""

    text: Tokens
    memory: Hashable


class Turn(NamedTuple):
    """One round: the state after it, the drafts, the laws they were drawn from, and how many were accepted."""

    state: State
    drafts: Tokens
    laws: tuple[Row, ...]
    num_accepted: int


def ended(asked: Asked, state: State) -> bool:
    """Say whether nothing more is to come."""
    return len(state.text) >= asked.max_new_tokens or asked.eos in state.text


def play_turn(edit: LoopEdit, asked: Asked, state: State, tape: Tape) -> Turn:
    """Play one round: draft, verify, emit.

    Args:
        edit: The loop.
        asked: What it is asked for.
        state: Where it stands.
        tape: Where the uniforms come from; a fresh one for every round.
    """
    drafts, laws = _drafted(edit, asked, state, tape)
    kept, token = _verified(edit, asked, state, drafts, laws, tape)
    memory = edit.remember(Place(asked, state.text, drafts, None, state.memory), kept)
    emitted = (*drafts[:kept], token)
    if asked.eos in emitted and not edit.runs_on:
        emitted = emitted[: emitted.index(asked.eos) + 1]
    return Turn(State((state.text + emitted)[: asked.max_new_tokens], memory), drafts, laws, kept)


def may_draft(edit: LoopEdit, asked: Asked, state: State, drafts: Tokens) -> bool:
    """Say whether there is room for one more draft after these."""
    room = asked.num_draft_tokens if edit.overdrafts else asked.max_new_tokens - len(state.text) - 1
    return len(drafts) < min(asked.num_draft_tokens, room) and (edit.runs_on or asked.eos not in drafts)


def _drafted(edit: LoopEdit, asked: Asked, state: State, tape: Tape) -> tuple[Tokens, tuple[Row, ...]]:
    drafts: Tokens = ()
    laws: tuple[Row, ...] = ()
    while may_draft(edit, asked, state, drafts):
        q = asked.row(edit.propose, Place(asked, state.text, drafts, None, state.memory))
        if q is None:
            break
        drafts, laws = (*drafts, choose(tape, ("draft", len(drafts)), q)), (*laws, q)
    return drafts, laws


def _verified(
    edit: LoopEdit, asked: Asked, state: State, drafts: Tokens, laws: tuple[Row, ...], tape: Tape
) -> tuple[int, int]:
    places = [Place(asked, state.text, drafts[:i], x, state.memory) for i, x in enumerate((*drafts, None))]
    if edit.rule is not None:
        kept, token = edit.rule(tape, drafts, laws, [asked.row(edit.target, at) for at in places])
        assert token is not None
        return kept, token
    for i, x in enumerate(drafts):
        p, q = asked.row(edit.accept or edit.target, places[i]), laws[i]
        if not flip(tape, ("accept", i), acceptance(p[x], q[x])):
            return i, choose(tape, ("final",), asked.row(replacement, edit, places[i], q))
    return len(drafts), choose(tape, ("final",), asked.row(edit.bonus or edit.target, places[-1]))


def replacement(edit: LoopEdit, at: Place, q: Row) -> Row:
    """Give the weights of the token that replaces a rejected draft."""
    return residual(edit.target(at), q) if edit.replace is None else edit.replace(at, q)

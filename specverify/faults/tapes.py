"""An edit read as a rule under named lazy uniforms: its exact law follows from the enumeration that the rules use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from specverify.faults.edits import Array, BlockEdit, Edit, acceptance, as_array
from specverify.reference import Model, Name, Number, Outcome, Row, Rule, Tape, branch_law, choose, flip, outcome_law

__all__ = ["exact_law", "play", "rule"]


@lru_cache(maxsize=256)
def rule(edit: Edit | BlockEdit) -> Rule:
    """Make the rule that an edit is, for drafts that are given.

    Args:
        edit: An edit of the token or block rule. What it changes in the drafting is left out; see ``play``.

    Example:
        >>> from specverify.reference import ScriptedTape
        >>> script = ScriptedTape({("accept", 0): 0.8, ("final",): 0.5})
        >>> rule(Edit())(script, [0], [[0.8, 0.2]], [[0.6, 0.4], [0.6, 0.4]])
        (0, 1)
    """
    return partial(_token, edit) if isinstance(edit, Edit) else partial(_block, edit)


def play(edit: Edit | BlockEdit, target: Model, draft: Model, num_draft_tokens: int, tape: Tape) -> Outcome:
    """Play a whole round under a tape: draft with the uniforms ("draft", i), then verify.

    Args:
        edit: An edit of the token or block rule.
        target: Gives the target row after a prefix.
        draft: Gives the draft row after a prefix.
        num_draft_tokens: How many tokens are drafted.
        tape: Where the uniforms come from.
    """
    drawn: tuple[int, ...] = ()
    propose = getattr(edit, "propose", None)
    for i in range(num_draft_tokens):
        row = draft(drawn)
        drawn += (choose(tape, ("draft", i), row if propose is None else _row(propose, row)),)
    draft_probs = [draft(drawn[:i]) for i in range(num_draft_tokens)]
    target_probs = [target(drawn[:i]) for i in range(num_draft_tokens + 1)]
    return Outcome(drawn, *rule(edit)(tape, drawn, draft_probs, target_probs))


def exact_law(edit: Edit | BlockEdit, target: Model, draft: Model, num_draft_tokens: int) -> dict[Outcome, Number]:
    """Enumerate what an edit does in one round, exactly for rows of Fractions.

    Args:
        edit: An edit of the token or block rule.
        target: Gives the target row after a prefix.
        draft: Gives the draft row after a prefix.
        num_draft_tokens: How many tokens are drafted.

    Returns:
        The probability of every (drafted tokens, accepted length, next token).

    Example:
        >>> from fractions import Fraction
        >>> p, q = (Fraction(3, 5), Fraction(2, 5)), (Fraction(4, 5), Fraction(1, 5))
        >>> law = exact_law(Edit(shared="draft"), lambda prefix: p, lambda prefix: q, 1)
        >>> str(law[Outcome((0,), 0, 1)])
        '1/20'
    """
    if not edit.drafts:
        return outcome_law(rule(edit), target, draft, num_draft_tokens)
    return branch_law(partial(play, edit, target, draft, num_draft_tokens))


def _token(
    edit: Edit, tape: Tape, draft_tokens: Sequence[int], draft_probs: Sequence[Row], target_probs: Sequence[Row]
) -> tuple[int, int]:
    claimed: Row = target_probs[0]  # without drafts nothing else is known
    for i, x in enumerate(draft_tokens):
        p, claimed = target_probs[i], _row(edit.claim, draft_probs[i])
        if not flip(tape, _coin(edit, i), _row(edit.accept, p, claimed, position=i)[x]):
            weights = list(_row(edit.replace, p, claimed))
            if edit.drop_draft:
                weights[x] = 0
            name = ("accept", i) if edit.shared == "replacement" else ("final",)
            return i + edit.count_rejected, choose(tape, name, weights if any(weights) else p)
    return len(draft_tokens), choose(tape, ("final",), _row(edit.bonus, target_probs[len(draft_tokens)], claimed))


def _coin(edit: Edit, position: int) -> Name:
    if edit.shared == "draft":
        return ("draft", position)
    return ("accept", 0 if edit.shared == "positions" else position)


def _block(
    edit: BlockEdit, tape: Tape, draft_tokens: Sequence[int], draft_probs: Sequence[Row], target_probs: Sequence[Row]
) -> tuple[int, int]:
    gamma, kept = len(draft_tokens), 0
    w = [as_array([1])[0]]
    for i, x in enumerate(draft_tokens, start=1):
        p, q = w[-1] * target_probs[i - 1][x], draft_probs[i - 1][x]
        w.append(acceptance(as_array([p]), as_array([q]))[0] if edit.capped else p / q)
        h = min(w[i], 1) if i == gamma else _weighed(edit.chance, w[i], target_probs[i], draft_probs[i]).item()
        if flip(tape, ("accept", i - 1), h):
            kept = i
        elif edit.stops:
            break
    if kept == gamma:
        return gamma, choose(tape, ("final",), target_probs[gamma])
    weights = _weighed(edit.replace, w[kept], target_probs[kept], draft_probs[kept])
    return kept, choose(tape, ("final",), weights.tolist())


def _weighed(function: Callable[[Array, Array, Array], Array], w: Number, p: Row, q: Row) -> Array:
    return function(as_array([w])[0:1].reshape(()), as_array(p), as_array(q))


def _row(function: Callable[..., Array], *rows: Row, **extra: int) -> Row:
    """Apply a function of rows; its result is kept, for the enumeration asks again in every branch."""
    exact = not any(isinstance(number, float) for number in rows[0])  # equal keys must not mix the two arithmetics
    return _kept(function, exact, tuple(map(tuple, rows)), tuple(extra.values()))


@lru_cache(maxsize=2**14)
def _kept(
    function: Callable[..., Array], exact: bool, rows: tuple[tuple[Number, ...], ...], extra: tuple[int, ...]
) -> tuple[Any, ...]:
    del exact
    with np.errstate(all="ignore"):
        return tuple(function(*map(as_array, rows), *extra).tolist())

"""The questions that checks ask of a trace: which cell is this row in, or does the question not arise?

Every law that is tested beyond the first token is one of these few functions. Rejections that rounding decides (p and q
equal to within the tolerance) are left out by the rule questions, for correct samplers may differ there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from specverify.arrays import BoolArray, IntArray
from specverify.lumping import Lumping, View

__all__ = [
    "Question",
    "block_question",
    "decode_blocks",
    "decode_outcomes",
    "draft_question",
    "outcome_question",
    "rule_questions",
]


@dataclass(frozen=True)
class Question:
    """What one check asks of each row.

    Attributes:
        check: Id of the check.
        position: Drafted position that the question conditions on, or None; of reported rounds their number.
        lens: Which view answers it: "token" (nothing lumped), "rule", "block" or "rounds".
        ask: From a View, or of rounds a RoundView, gives int64 [n], -1 where the question does not arise.
        label: Says what an answer means.
    """

    check: str
    position: int | None
    lens: str
    ask: Callable[[Any], IntArray]
    label: Callable[[int], str]


def block_question(lens: Lumping) -> Question:
    """Ask for the completed block: all num_draft_tokens + 1 tokens."""
    size = lens.case.vocab_size
    width = lens.case.num_draft_tokens + 1

    def label(answer: int) -> str:
        return ", ".join(lens.labels[i][t] for i, t in enumerate(_digits(answer, size, width)))

    return Question("SV-JNT-001", None, "block", lambda view: _number(view.trace.completed, size), label)


def outcome_question(lens: Lumping) -> Question:
    """Ask for the whole outcome: drafted tokens, accepted length and next token."""
    size, full = lens.case.vocab_size, lens.case.num_draft_tokens

    def ask(view: View) -> IntArray:
        trace = view.trace
        code = _number(trace.draft_tokens + 1, size + 1)
        code = (code * (full + 1) + trace.num_accepted) * (size + 1) + trace.next_token + 1
        return np.where(view.tied_draft | view.tied_next, -1, code)

    def label(answer: int) -> str:
        rest, following = divmod(answer, size + 1)
        drafts, accepted = divmod(rest, full + 1)
        draft = [str(digit - 1) for digit in _digits(drafts, size + 1, full) if digit]
        return f"draft {' '.join(draft) or 'none'}, accepted {accepted}, next {following - 1 if following else 'none'}"

    return Question("SV-RUL-001", None, "rule", ask, label)


def draft_question(lens: Lumping) -> Question:
    """Ask for the whole draft, of a sampler that drafts by itself."""
    size, full = lens.case.vocab_size, lens.case.num_draft_tokens

    def label(answer: int) -> str:
        tokens = [digit - 1 for digit in _digits(answer, size + 1, full)]
        return "draft " + ", ".join(_name(lens, i, token) for i, token in enumerate(tokens))

    return Question("SV-DRF-001", None, "rule", lambda view: _number(view.trace.draft_tokens + 1, size + 1), label)


def rule_questions(lens: Lumping) -> Iterator[Question]:
    """Ask what the declared rule fixes beyond the output's law, position by position."""
    size, full = lens.case.vocab_size, lens.case.num_draft_tokens
    for position in range(full):
        name = partial(_name, lens, position)
        yield _rule("SV-ACC-001", position, _acceptance, partial(_acceptance_label, name))
        yield _rule("SV-RES-001", position, _replacement, partial(_next_label, name, "replaced by "))
        yield _rule("SV-RES-002", position, partial(_pair, size), partial(_pair_label, name, size))
        if position:
            yield _rule("SV-POS-001", position, _token_at, partial(_next_label, name, ""))
    if full:
        yield _rule("SV-BON-001", None, _bonus, lambda a: f"bonus {_name(lens, full, a - 1)}")
        yield _rule("SV-LEN-001", None, _length, lambda a: f"{a % (full + 1)} of {a // (full + 1)} accepted")


def _rule(check: str, position: int | None, ask: Callable[..., IntArray], label: Callable[[int], str]) -> Question:
    return Question(check, position, "rule", ask if position is None else partial(ask, position=position), label)


def _acceptance(view: View, position: int) -> IntArray:
    trace = view.trace
    answer = 2 * trace.draft_tokens[:, position] + (trace.num_accepted > position)
    return np.where(_tested(view, position) & ~_tied_at(view, position), answer, -1)


def _replacement(view: View, position: int) -> IntArray:
    return np.where(_rejected(view, position), view.trace.next_token + 1, -1)


def _pair(size: int, view: View, position: int) -> IntArray:
    trace = view.trace
    answer = trace.draft_tokens[:, position] * (size + 1) + trace.next_token + 1
    return np.where(_rejected(view, position), answer, -1)


def _token_at(view: View, position: int) -> IntArray:
    trace = view.trace
    token = np.where(trace.num_accepted > position, trace.draft_tokens[:, position], trace.next_token)
    return np.where(_tested(view, position) & ~_tied_at(view, position), token + 1, -1)


def _bonus(view: View) -> IntArray:
    trace = view.trace
    full = trace.draft_tokens.shape[1]
    return np.where((trace.num_draft_tokens == full) & (trace.num_accepted == full), trace.next_token + 1, -1)


def _length(view: View) -> IntArray:
    trace = view.trace
    answer = trace.num_draft_tokens * (trace.draft_tokens.shape[1] + 1) + trace.num_accepted
    return np.where(view.tied_draft, -1, answer)


def _tested(view: View, position: int) -> BoolArray:
    trace = view.trace
    return (trace.num_accepted >= position) & (trace.num_draft_tokens > position)


def _tied_at(view: View, position: int) -> BoolArray:
    return np.asarray(view.tied_draft & (view.trace.num_accepted == position))


def _rejected(view: View, position: int) -> BoolArray:
    stop = view.trace.num_accepted == position
    return np.asarray(_tested(view, position) & stop & ~view.tied_draft & ~view.tied_next)


def _number(tokens: IntArray, base: int) -> IntArray:
    number = np.zeros(len(tokens), dtype=np.int64)
    for column in range(tokens.shape[1]):
        number = number * base + tokens[:, column]
    return number


def _digits(number: int, base: int, width: int) -> list[int]:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, base)
        digits.append(digit)
    return digits[::-1]


def _acceptance_label(name: Callable[[int], str], answer: int) -> str:
    return f"{name(answer // 2)} {'accepted' if answer % 2 else 'rejected'}"


def _next_label(name: Callable[[int], str], before: str, answer: int) -> str:
    return f"{before}{name(answer - 1)}"


def _pair_label(name: Callable[[int], str], size: int, answer: int) -> str:
    draft, following = divmod(answer, size + 1)
    return f"{name(draft)} replaced by {name(following - 1)}"


def _name(lens: Lumping, position: int, token: int) -> str:
    return lens.labels[position][token] if token >= 0 else "nothing"


def decode_outcomes(lens: Lumping, answers: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Give back what answers to :func:`outcome_question` stand for.

    Returns:
        draft_tokens int64 [n, G] (-1 beyond a row's own length), num_accepted int64 [n], next_token int64 [n].
    """
    size, full = lens.case.vocab_size, lens.case.num_draft_tokens
    rest, following = np.divmod(answers, size + 1)
    drafts, accepted = np.divmod(rest, full + 1)
    return _columns(drafts, size + 1, full) - 1, accepted, following - 1


def decode_blocks(lens: Lumping, answers: IntArray) -> IntArray:
    """Give back what answers to :func:`block_question` stand for: int64 [n, G + 1]."""
    return _columns(answers, lens.case.vocab_size, lens.case.num_draft_tokens + 1)


def _columns(numbers: IntArray, base: int, width: int) -> IntArray:
    """Give the digits of each number: int64 [n, width]."""
    digits = np.empty((width, len(numbers)), dtype=np.int64)
    for column in digits[::-1]:
        numbers, column[:] = np.divmod(numbers, base)
    return digits.T

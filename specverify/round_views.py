"""A round that a loop reports is held to its word: drafts follow the claimed q, acceptance and what follows the rule.

The laws differ from row to row with the context. Each event is therefore turned into a number that is uniform on [0, 1)
whatever its law was: its place in the distribution function, spread by a coin of the kit's own over the event's mass
(the randomised probability integral transform). What is counted are the cells of that number; what has no mass is
impossible. Given that a position is reached, its number is uniform and independent of all before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from specverify.arrays import BoolArray, FloatArray, IntArray
from specverify.cases import Case
from specverify.declaring import LOOP_RULES
from specverify.trace import Rounds, Trace

__all__ = ["CELLS", "RoundQuestion", "RoundView", "round_questions"]

CELLS = 16
ROUNDED = 1e-6  # claimed laws are often float32: what is within this of certain may go either way


@dataclass(frozen=True, eq=False)
class RoundView:
    """The reported rounds of a trace, with the place where each begins.

    Attributes:
        case: The case.
        trace: The trace.
        rounds: What was reported.
        starts: int64 [n, R], how many new tokens there were before each round; beyond the last where there was none.
        rounded: What is within this of certain, or of a tie, may go either way.
    """

    case: Case
    trace: Trace
    rounds: Rounds
    starts: IntArray
    rounded: float = ROUNDED

    @classmethod
    def of(cls, case: Case, trace: Trace, rounds: Rounds, tau: float = 0.0) -> RoundView:
        """See the rounds of a trace; where rounding of the sampler's dtype goes further than usual, ``tau`` says."""
        emitted = np.where(rounds.num_accepted >= 0, rounds.num_accepted + 1, 0)
        return cls(case, trace, rounds, np.cumsum(emitted, axis=1) - emitted, max(ROUNDED, tau))

    def sums(self, cells: IntArray, number: int) -> IntArray:
        """Count the rows in each of so many cells; -1 is no cell."""
        return np.bincount(cells[cells >= 0], minlength=number)

    def target_laws(self, at: IntArray, tokens: IntArray) -> FloatArray:
        """Give p after the first ``at`` int64 [n] of runs of tokens, int64 [n, any]: float64 [n, V]."""
        laws = np.zeros((len(at), self.case.vocab_size))
        for length, level in enumerate(self.case.target):
            here = np.flatnonzero(at == length)
            laws[here] = level[self.case.row_index(tokens[here, :length])]
        return laws

    def runs(self, number: int) -> IntArray:
        """Give the tokens before a round followed by its drafts: int64 [n, L + G, or more where rounds go beyond L]."""
        tokens, width = self.trace.completed, self.rounds.draft_tokens.shape[2]
        beyond = max(0, int(self.starts.max(initial=0)) - tokens.shape[1])
        runs = np.pad(tokens, ((0, 0), (0, width + beyond)))
        rows = np.arange(len(runs))
        for place in range(width):
            runs[rows, self.starts[:, number] + place] = np.maximum(self.rounds.draft_tokens[:, number, place], 0)
        return runs


@dataclass(frozen=True)
class RoundQuestion:
    """Which cell a reported round falls into: an event of one round at one drafted position.

    Attributes:
        check: Id of the check.
        round: Number of the round.
        position: Drafted position in the round.
        rule: "token" or "match": what acceptance and replacement are held to.
    """

    check: str
    round: int
    position: int
    rule: str = ""

    def ask(self, view: RoundView) -> IntArray:
        """Give the cell of every row, int64 [n]: -1 where the question does not arise, CELLS for the impossible."""
        return {"SV-PRP-001": self._drafted, "SV-RND-001": self._accepted, "SV-RND-002": self._followed}[self.check](
            view
        )

    @property
    def number(self) -> int:
        """Number the question among those of its check on a case of a hundred positions at most."""
        return 100 * self.round + self.position

    def label(self, cell: int) -> str:
        """Say what a cell holds."""
        what = {"SV-PRP-001": "drafts", "SV-RND-001": "acceptance", "SV-RND-002": "replacement or bonus"}[self.check]
        return f"{what} of round {self.round + 1}, position {self.position + 1}, part {cell + 1} of {CELLS}"

    def _drafted(self, view: RoundView) -> IntArray:
        tokens = view.rounds.draft_tokens[:, self.round, self.position]
        laws = view.rounds.claimed[:, self.round, self.position]
        asked = (tokens >= 0) & (view.rounds.num_accepted[:, self.round] >= 0)  # rows that are done draft nothing
        return _cells(laws, tokens, view.rounds.coins[:, self.round, self.position], asked)

    def _accepted(self, view: RoundView) -> IntArray:
        drafts, accepted = view.rounds.draft_tokens[:, self.round], view.rounds.num_accepted[:, self.round]
        width, x = drafts.shape[1], drafts[:, self.position]
        at, rows = view.starts[:, self.round] + self.position, np.arange(len(x))
        p = view.target_laws(at, view.runs(self.round))[rows, x]
        q = _normal(view.rounds.claimed[:, self.round, self.position])[rows, x]
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = p if self.rule == "match" else np.where(q > 0, np.minimum(p / q, 1), p > 0)
        chance = np.where(chance > 1 - view.rounded, 1.0, chance)
        laws = np.stack([chance, 1 - chance], axis=1)
        reached = (accepted >= self.position) & (x >= 0) & (at < len(view.case.target)) & ~self._ended(view, at)
        tied = (np.abs(p - q) <= view.rounded * q) & (self.rule == "token")
        refused = np.where(accepted > self.position, 0, 1)
        return _cells(
            laws, refused, view.rounds.coins[:, self.round, width + self.position], reached & ~tied, ordered=False
        )

    def _followed(self, view: RoundView) -> IntArray:
        """Place the token after so many accepted drafts: from the residual where one was refused, else the bonus."""
        drafts, accepted = view.rounds.draft_tokens[:, self.round], view.rounds.num_accepted[:, self.round]
        width, rows = drafts.shape[1], np.arange(len(drafts))
        at = view.starts[:, self.round] + self.position
        p = view.target_laws(at, view.runs(self.round))
        refused = np.zeros(len(rows), dtype=np.bool_)
        laws = p
        if self.position < width:
            refused = drafts[:, self.position] >= 0
            laws = np.where(refused[:, None], self._residual(view, p, drafts[:, self.position]), p)
        asked = (accepted == self.position) & (at < len(view.case.target)) & ~self._ended(view, at)
        y = view.trace.completed[rows, np.minimum(at, view.trace.completed.shape[1] - 1)]
        asked &= ~(refused & (np.abs(laws[rows, y]) <= view.rounded) & (p[rows, y] > 0))
        return _cells(
            np.maximum(laws, 0),
            y,
            view.rounds.coins[:, self.round, 2 * width],
            asked & (laws > view.rounded).any(axis=1),
        )

    def _residual(self, view: RoundView, p: FloatArray, x: IntArray) -> FloatArray:
        if self.rule == "match":
            return np.where(np.arange(p.shape[1]) == x[:, None], -1.0, p)
        return np.asarray(p - _normal(view.rounds.claimed[:, self.round, self.position]))

    def _ended(self, view: RoundView, at: IntArray) -> BoolArray:
        """Say where the sequence ended before: then nothing follows."""
        assert view.case.loop is not None
        eos = view.case.loop.target.eos_token_id
        if eos is None:
            return np.zeros(len(at), dtype=np.bool_)
        before = np.arange(view.trace.completed.shape[1]) < at[:, None]
        return np.asarray(((view.trace.completed == eos) & before).any(axis=1))


def round_questions(rounds: int, num_draft_tokens: int, rule: str | None) -> Iterator[RoundQuestion]:
    """List the questions: drafts always, acceptance and what follows where a rule is declared."""
    for number in range(rounds):
        for position in range(num_draft_tokens):
            yield RoundQuestion("SV-PRP-001", number, position)
        if rule in LOOP_RULES:
            for position in range(num_draft_tokens):
                yield RoundQuestion("SV-RND-001", number, position, rule)
            for position in range(num_draft_tokens + 1):
                yield RoundQuestion("SV-RND-002", number, position, rule)


def _cells(laws: FloatArray, tokens: IntArray, coins: FloatArray, asked: BoolArray, ordered: bool = True) -> IntArray:
    """Give the cells of tokens under laws, float64 [n, any]; likelier tokens come first, so that flatter laws show."""
    laws = _normal(laws)
    rows = np.arange(len(tokens))
    if ordered:
        order = np.argsort(-laws, axis=1, kind="stable")
        laws = np.take_along_axis(laws, order, axis=1)
        tokens = (order == tokens[:, None]).argmax(axis=1)
    mass = laws[rows, tokens]
    place = np.cumsum(laws, axis=1)[rows, tokens] - mass + coins * mass
    cell = np.minimum((place * CELLS).astype(np.int64), CELLS - 1)
    return np.where(asked, np.where(mass > 0, cell, CELLS), -1)


def _normal(laws: FloatArray) -> FloatArray:
    total = laws.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(laws, total, out=np.zeros_like(laws), where=total > 0))

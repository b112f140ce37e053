"""Events of probability zero need no error budget: one occurrence proves the fault, and is shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specverify.arrays import BoolArray, IntArray
from specverify.cases import Case
from specverify.lumping import Lumping, View
from specverify.trace import Trace

__all__ = ["HardChecks", "Violation"]


@dataclass(frozen=True)
class Violation:
    """Impossible events of one check on one case.

    Attributes:
        check: Id of the check.
        case: Name of the case.
        count: How many rows.
        message: The first of them, for people.
    """

    check: str
    case: str
    count: int
    message: str


class HardChecks:
    """What must never happen on a case.

    Args:
        case: The case whose law is the null law.
        tau: Relative tolerance within which rounding decides whether p exceeds q.
        token_rule: Whether the sampler declares the token rule, which forbids more.
        lens: What distinct outcomes are seen through, where :meth:`suspects` is asked.

    Example:
        >>> case = Case.from_rows("zero", [1, 0], ["1/2", "1/2"], num_draft_tokens=1)
        >>> one, none = np.array([1]), np.array([-1])
        >>> trace = Trace(np.array([[1]]), one, one, none, np.array([[1, 0]]))
        >>> HardChecks(case, 1e-12, False).find(trace)[0].check
        'SV-SUP-001'
    """

    def __init__(self, case: Case, tau: float, token_rule: bool, lens: Lumping | None = None) -> None:
        self.case = case
        self._lens = lens
        self._forbidden = [rows == 0 for rows in case.target]
        self._sure: list[BoolArray] = []
        self._no_residual: list[BoolArray] = []
        if token_rule:
            pairs = list(zip(case.target, case.draft, strict=False))
            self._sure = [(p >= q * (1 + tau)) & (q > 0) for p, q in pairs]
            self._no_residual = [p <= q * (1 - tau) for p, q in pairs]
        self._marked = []
        if lens is not None and not case.contextual:
            both = enumerate(zip(self._sure, self._no_residual, strict=True))
            self._marked = [(self._cells(i, sure), self._cells(i, no_residual)) for i, (sure, no_residual) in both]

    def find(self, trace: Trace) -> list[Violation]:
        """List the violations in a trace."""
        emitted = trace.emitted()
        text = "a token that the target cannot give was emitted"
        found = [self._first("SV-SUP-001", text, trace, emitted, self._forbidden, anywhere=True)]
        if self._sure:
            text = "a draft with p >= q was rejected"
            found.append(self._first("SV-SUP-002", text, trace, trace.draft_tokens, self._sure))
            text = "a rejected draft was replaced by a token with p <= q, which has no residual mass"
            found.append(self._first("SV-SUP-002", text, trace, emitted, self._no_residual))
        return [violation for violation in found if violation is not None]

    def suspects(self, trace: Trace, outcomes: View) -> bool:
        """Say whether a trace of a case without contexts may hold a violation, in a fraction of the time of finding it.

        Args:
            trace: The trace.
            outcomes: Its distinct outcomes, seen through the lens.
        """
        assert self._lens is not None
        return self._emits_forbidden(trace) or self._stops_wrongly(outcomes.trace)

    def _emits_forbidden(self, trace: Trace) -> bool:
        for position, table in enumerate(self._forbidden):
            if table.any():
                stopped = trace.next_token[trace.num_accepted == position]
                if table[0].take(stopped[stopped >= 0]).any():
                    return True
                if position < trace.draft_tokens.shape[1]:
                    drafted = table[0].take(trace.draft_tokens[:, position])
                    if (drafted & (trace.num_accepted > position)).any():
                        return True
        return False

    def _stops_wrongly(self, trace: Trace) -> bool:
        """Look for rejected drafts, and for replacements, in cells with a token that can be none."""
        for position, (sure, no_residual) in enumerate(self._marked):
            here = np.flatnonzero(trace.rejected & (trace.num_accepted == position))
            drafted, following = trace.draft_tokens[here, position], trace.next_token[here]
            if sure.take(drafted).any() or no_residual.take(following).any():
                return True
        return False

    def _cells(self, position: int, marked: BoolArray) -> BoolArray:
        """Mark the cells that hold a marked token; a last one, which is that of no token, is not."""
        tokens = np.flatnonzero(marked[0])
        lens = self._lens
        assert lens is not None
        cells = tokens if lens.tables is None else lens.tables[position][tokens]
        found = np.zeros(lens.case.vocab_size + 1, dtype=np.bool_)
        found[cells] = True
        return found

    def _first(
        self,
        check: str,
        text: str,
        trace: Trace,
        tokens: IntArray,
        tables: list[BoolArray],
        anywhere: bool = False,
    ) -> Violation | None:
        """Look for tokens that their position's table marks, at the stop of rejected rows or up to the stop."""
        bad = np.zeros(tokens.shape, dtype=np.bool_)
        for position, table in enumerate(tables):
            if table.any():
                considered = trace.num_accepted >= position
                if not anywhere:
                    considered &= trace.rejected & (trace.num_accepted == position)
                bad[:, position] = considered & self._at(table, trace, tokens[:, position], position)
        count = int(bad.any(axis=1).sum())
        if not count:
            return None
        row, position = (int(k[0]) for k in np.nonzero(bad))
        shown = self._shown(trace, row, position, int(tokens[row, position]))
        return Violation(check, self.case.name, count, f"{text} ({count} of {len(trace)} rows; first: {shown})")

    def _at(self, table: BoolArray, trace: Trace, tokens: IntArray, position: int) -> BoolArray:
        """Look up each row's token at a position, given the drafted tokens before it; absent tokens are False."""
        rows = np.flatnonzero((tokens >= 0) & (trace.num_accepted >= position))
        found = np.zeros(len(tokens), dtype=np.bool_)
        found[rows] = table[self.case.row_index(trace.draft_tokens[rows, :position]), tokens[rows]]
        return found

    def _shown(self, trace: Trace, row: int, position: int, token: int) -> str:
        index = int(self.case.row_index(trace.draft_tokens[row, :position]))
        p = f"p = {self.case.target[position][index][token]:.4g}"
        if position < self.case.num_draft_tokens:
            p += f", q = {self.case.draft[position][index][token]:.4g}"
        draft, accepted = trace.draft_tokens[row].tolist(), int(trace.num_accepted[row])
        return f"draft {draft}, {accepted} accepted; token {token} at position {position} with {p}"

"""Events of probability zero need no error budget: one occurrence proves the fault, and is shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specverify.arrays import BoolArray, IntArray
from specverify.cases import Case
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

    Example:
        >>> case = Case.from_rows("zero", [1, 0], ["1/2", "1/2"], num_draft_tokens=1)
        >>> one, none = np.array([1]), np.array([-1])
        >>> trace = Trace(np.array([[1]]), one, one, none, np.array([[1, 0]]))
        >>> HardChecks(case, 1e-12, False).find(trace)[0].check
        'SV-SUP-001'
    """

    def __init__(self, case: Case, tau: float, token_rule: bool) -> None:
        self.case = case
        self._forbidden = [rows == 0 for rows in case.target]
        self._sure: list[BoolArray] = []
        self._no_residual: list[BoolArray] = []
        if token_rule:
            pairs = list(zip(case.target, case.draft, strict=False))
            self._sure = [(p >= q * (1 + tau)) & (q > 0) for p, q in pairs]
            self._no_residual = [p <= q * (1 - tau) for p, q in pairs]

    def find(self, trace: Trace) -> list[Violation]:
        """List the violations in a trace."""
        emitted = trace.emitted()
        support = np.zeros(len(trace), dtype=np.bool_)
        for position, forbidden in enumerate(self._forbidden):
            if forbidden.any():
                support |= self._at(forbidden, trace, emitted[:, position], position)
        found = [self._report("SV-SUP-001", trace, support, "a token that the target cannot give was emitted")]
        if self._sure:
            sure, replaced = np.zeros_like(support), np.zeros_like(support)
            for position, (accept, nothing) in enumerate(zip(self._sure, self._no_residual, strict=True)):
                stop = trace.rejected & (trace.num_accepted == position)
                sure |= stop & self._at(accept, trace, trace.draft_tokens[:, position], position)
                replaced |= stop & self._at(nothing, trace, trace.next_token, position)
            found.append(self._report("SV-SUP-002", trace, sure, "a draft with p >= q was rejected"))
            text = "a rejected draft was replaced by a token with p <= q, which has no residual mass"
            found.append(self._report("SV-SUP-002", trace, replaced, text))
        return [violation for violation in found if violation is not None]

    def _at(self, table: BoolArray, trace: Trace, tokens: IntArray, position: int) -> BoolArray:
        """Look up each row's token at a position, given the drafted tokens before it; absent tokens are False."""
        rows = np.flatnonzero((tokens >= 0) & (trace.num_accepted >= position))
        found = np.zeros(len(tokens), dtype=np.bool_)
        found[rows] = table[self.case.row_index(trace.draft_tokens[rows, :position]), tokens[rows]]
        return found

    def _report(self, check: str, trace: Trace, bad: BoolArray, text: str) -> Violation | None:
        count = int(bad.sum())
        if not count:
            return None
        row = int(np.argmax(bad))
        stop = int(trace.num_accepted[row])
        prefix = tuple(trace.draft_tokens[row, :stop].tolist())
        index = int(self.case.row_index(np.asarray(prefix, dtype=np.int64)))
        message = (
            f"{text} ({count} of {len(trace)} rows; first: draft {trace.draft_tokens[row].tolist()}, "
            f"{stop} accepted, then {_token(trace.next_token[row], self.case, stop, index)})"
        )
        return Violation(check, self.case.name, count, message)


def _token(token: int, case: Case, position: int, index: int) -> str:
    if token < 0:
        return "nothing"
    drafted = f", q = {case.draft[position][index][token]:.4g}" if position < case.num_draft_tokens else ""
    return f"token {token} with p = {case.target[position][index][token]:.4g}{drafted}"

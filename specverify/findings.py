"""What a dependence check found: the p-value, what is shared, and whether a wrong law alone would look the same."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EXPLAINED", "Finding"]

EXPLAINED = 1e-9  # chance above which the frequencies of single tokens explain a finding


@dataclass(frozen=True)
class Finding:
    """Result of one dependence check on one case.

    Attributes:
        check: Id of the check.
        case: Name of the case.
        p_value: Valid p-value, corrected for everything looked at.
        n: Comparisons behind it.
        observed: Equal pairs, or repeats, seen there.
        expected: Those due there.
        message: What it looks like, for people.
        explained: Whether independent rows with the observed frequencies of tokens would look the same.

    Example:
        >>> Finding("SV-IND-001", "coin", 1e-12, 100, 100, 50, "rows are equal", False).key
        'SV-IND-001 on coin'
    """

    check: str
    case: str
    p_value: float
    n: int
    observed: float
    expected: float
    message: str
    explained: bool

    @property
    def key(self) -> str:
        """Give the unique name."""
        return f"{self.check} on {self.case}"

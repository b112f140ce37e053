"""Rows and calls must not share randomness: fair tokens are compared at every distance between rows and between calls.

Both cases give fair random bits per row under any lossless rule. For one distance d the comparisons of rows i and i + d
form a forest, so their results are mutually independent and the number of equal (or mirrored) pairs is exactly
binomial. A wrong law also makes tokens equal: what the observed frequencies of single tokens explain is not dependence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case
from specverify.evidence import binomial_p, gof
from specverify.menu import coin_case, flat_case

__all__ = ["CALLS", "Finding", "between_calls", "between_rows", "cases", "find", "within_calls"]

CALLS = 512
FLAT_TOKENS = 256
EXPLAINED = 1e-9  # chance above which the frequencies of single tokens explain a finding
FINGERPRINT = 8  # tokens of eight bits; two calls agree on all of them with probability 2**-64


@dataclass(frozen=True)
class Finding:
    """Result of one dependence check on one case.

    Attributes:
        check: Id of the check.
        case: Name of the case.
        p_value: Valid p-value, corrected for all the distances looked at.
        n: Comparisons behind the worst distance.
        observed: Equal pairs seen there.
        expected: Equal pairs due there.
        message: What it looks like, for people.
        explained: Whether independent rows with the observed frequencies of tokens would look the same.
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


def cases() -> tuple[tuple[Case, int], ...]:
    """Give the cases of the independence stage and the largest number of rows per call of each."""
    return (coin_case(), 512), (flat_case(), 128)


def find(tokens: IntArray, case: Case) -> list[Finding]:
    """Run every dependence check that a case and its batch size allow.

    Args:
        tokens: int64 [calls, rows], the first token of each row.
        case: One of :func:`cases`.

    Returns:
        One finding a check; calls of one row say nothing about rows.
    """
    fair = int((case.target[0][0] > 0).sum())
    found = [between_calls(tokens, case.name, fair)]
    if tokens.shape[1] > 1:
        found += [between_rows(tokens, case.name, fair), within_calls(tokens, case.name, fair)]
    return found


def between_rows(tokens: IntArray, case: str, fair: int) -> Finding:
    """Compare the rows of each call at every distance.

    Args:
        tokens: int64 [calls, rows], each fair on 0 .. fair - 1 and at least two rows.
        case: Name of the case.
        fair: Number of equally likely tokens.

    Returns:
        The finding of SV-IND-001 for the most suspicious distance.
    """
    pairs = [(d, tokens[:, d:], tokens[:, :-d]) for d in range(1, tokens.shape[1])]
    return _worst("SV-IND-001", case, "rows", fair, pairs, _chances(tokens, fair))


def between_calls(tokens: IntArray, case: str, fair: int) -> Finding:
    """Compare the calls, row by row, at every distance; long calls that repeat exactly are found whatever the distance.

    Args:
        tokens: int64 [calls, rows], each fair on 0 .. fair - 1, and at least two calls.
        case: Name of the case.
        fair: Number of equally likely tokens.

    Returns:
        The finding of SV-IND-002 for the most suspicious distance.
    """
    calls, rows = tokens.shape
    chances = _chances(tokens, fair)
    found = _worst("SV-IND-002", case, "calls", fair, [(d, tokens[d:], tokens[:-d]) for d in range(1, calls)], chances)
    if fair == FLAT_TOKENS and rows >= FINGERPRINT:
        _, counts = np.unique(tokens[:, :FINGERPRINT], axis=0, return_counts=True)
        repeats = int(calls - len(counts))
        pairs = calls * (calls - 1) / 2
        chance = pairs * float(fair) ** -FINGERPRINT
        if repeats:  # says more than any one distance, and is below any sensible level
            text = f"{repeats} of {calls} calls with different seeds repeat the tokens of an earlier call"
            explained = pairs * chances["equal"] ** FINGERPRINT > EXPLAINED
            return Finding("SV-IND-002", case, min(chance, found.p_value), calls, repeats, 0.0, text, explained)
    return found


def within_calls(tokens: IntArray, case: str, fair: int) -> Finding:
    """Compare how often the lower half of the tokens comes in each call with its binomial law.

    Args:
        tokens: int64 [calls, rows], each fair on 0 .. fair - 1.
        case: Name of the case.
        fair: Number of equally likely tokens, even.

    Returns:
        The finding of SV-IND-003.
    """
    calls, rows = tokens.shape
    heads = (tokens < fair // 2).sum(axis=1)
    counts = np.bincount(heads, minlength=rows + 1)
    fit = gof(counts, _binomial(rows, 0.5), rigorous=True)
    explained = gof(counts, _binomial(rows, float(heads.mean() / rows)), rigorous=True).p_value > EXPLAINED
    spread, due = float(heads.var()), rows / 4
    word = "too evenly" if spread < due else "too unevenly"
    text = f"tokens are spread {word} over the rows of a call: variance {spread:.3g} per call, expected {due:.3g}"
    return Finding("SV-IND-003", case, fit.p_value, calls, spread, due, text, explained)


def _worst(
    check: str,
    case: str,
    what: str,
    fair: int,
    pairs: list[tuple[int, IntArray, IntArray]],
    chances: dict[str, float],
) -> Finding:
    """Find the distance with the smallest p-value and correct it for the number of distances and comparisons."""
    found = [
        (float(binomial_p(seen, a.size, 1 / fair)), int(seen), a.size, distance, word)
        for distance, a, b in pairs
        for word, seen in _matches(a, b, fair)
    ]
    p_value, seen, size, distance, word = min(found, key=lambda f: (f[0], -f[2]))
    share, due = seen / size, 1 / fair
    text = f"{what} at distance {distance} are {word} in {share:.2%} of {size} comparisons, expected {due:.2%}"
    explained = float(binomial_p(seen, size, chances[word])) > EXPLAINED
    return Finding(check, case, min(1.0, p_value * len(found)), size, seen, size / fair, text, explained)


def _chances(tokens: IntArray, fair: int) -> dict[str, float]:
    """Give the chance that two independent tokens of the observed frequencies are equal, or mirrored."""
    share = np.bincount(tokens.ravel(), minlength=fair) / tokens.size
    mirrored = float(share[:fair] @ share[:fair][::-1])
    return {"equal": min(1.0, float(share @ share)), "mirrored": min(1.0, mirrored)}


def _matches(a: IntArray, b: IntArray, fair: int) -> Iterator[tuple[str, int]]:
    yield "equal", int((a == b).sum())
    if fair > 2:  # of two tokens, mirrored means unequal: the two-sided test sees it
        yield "mirrored", int((a + b == fair - 1).sum())


def _binomial(n: int, chance: float) -> FloatArray:
    from scipy.stats import binom

    return np.asarray(binom.pmf(np.arange(n + 1), n, chance), dtype=np.float64)

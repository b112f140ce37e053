"""Rows and calls must not share randomness: fair tokens are compared at every distance between rows and between calls.

For one distance d the comparisons of rows i and i + d form a forest, so their results are mutually independent and the
number of equal (or mirrored) pairs is exactly binomial. A wrong law also makes tokens equal: what the observed
frequencies of single tokens explain is not dependence.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from specverify.arrays import FloatArray, IntArray
from specverify.evidence import binomial_p, gof
from specverify.findings import EXPLAINED, Finding

__all__ = ["between_calls", "between_rows", "within_calls"]


def between_rows(tokens: IntArray, case: str, fair: int) -> Finding:
    """Compare the rows of each call at every distance.

    Args:
        tokens: int64 [calls, rows], each fair on 0 .. fair - 1 and at least two rows.
        case: Name of the case.
        fair: Number of equally likely tokens.

    Returns:
        The finding of SV-IND-001 for the most suspicious distance.

    Example:
        >>> tokens = np.tile([0, 1, 1, 0], (20, 1))
        >>> between_rows(tokens, "coin", 2).message
        'rows at distance 2 are equal in 0.00% of 40 comparisons, expected 50.00%'
    """
    pairs = [(d, tokens[:, d:], tokens[:, :-d]) for d in range(1, tokens.shape[1])]
    return _worst("SV-IND-001", case, "rows", fair, pairs, _chances(tokens, fair))


def between_calls(tokens: IntArray, case: str, fair: int) -> Finding:
    """Compare the calls, row by row, at every distance.

    Args:
        tokens: int64 [calls, rows], each fair on 0 .. fair - 1, and at least two calls.
        case: Name of the case.
        fair: Number of equally likely tokens.

    Returns:
        The finding of SV-IND-002 for the most suspicious distance.

    Example:
        >>> tokens = np.tile(np.arange(8) * 31 % 256, (20, 1))
        >>> between_calls(tokens, "flat", 256).message
        'calls at distance 1 are equal in 100.00% of 152 comparisons, expected 0.39%'
    """
    pairs = [(d, tokens[d:], tokens[:-d]) for d in range(1, len(tokens))]
    return _worst("SV-IND-002", case, "calls", fair, pairs, _chances(tokens, fair))


def within_calls(tokens: IntArray, case: str, fair: int) -> Finding:
    """Compare how often the lower half of the tokens comes in each call with its binomial law.

    Args:
        tokens: int64 [calls, rows], each fair on 0 .. fair - 1.
        case: Name of the case.
        fair: Number of equally likely tokens, even.

    Returns:
        The finding of SV-IND-003.

    Example:
        >>> within_calls(np.tile([0, 1, 1, 0], (20, 1)), "coin", 2).message
        'tokens are spread too evenly over the rows of a call: variance 0 per call, expected 1'
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

"""Nothing long repeats anywhere: the check that finds shared randomness whatever its pattern.

Long runs are compared along the rows of each call and along the calls of each row, at all places at once. What a few
rows give is too short for that, so calls that repeat an earlier call are counted, and rows that repeat an earlier row
of their call. Each of these is a repeat with a chance, given what came before, of at most that of hitting one of the
earlier ones, so above its mean the count is bounded by a binomial tail (Hoeffding, 1956).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from specverify.arrays import FloatArray, IntArray
from specverify.findings import EXPLAINED, Finding
from specverify.runs import Repeat, chance_of_repeat, first_repeat, run_length

__all__ = ["repeats"]

CROWDED = 4  # below this many outcomes for each place a count of repeats tells nothing
LAST_PLACE = 4
SAME_PLACES = 1e-4  # chance above which repeated tokens come at places as independent as a wrong law would have them
MOST_STREAMS = 1e12


@dataclass(frozen=True)
class _Look:
    """One way of looking for repeats, and what it found; the attributes are those of Finding, but for the rank.

    Of several that tell, the one of lowest rank says most plainly what is shared.
    """

    rank: int
    p_value: float
    n: int
    observed: float
    expected: float
    message: str
    explained: bool = False


def repeats(tokens: IntArray, case: str, fair: int, places: IntArray | None = None) -> Finding:
    """Look for repeats of every kind.

    Args:
        tokens: int64 [calls, rows], each fair on 0 .. fair - 1.
        case: Name of the case.
        fair: Number of equally likely tokens, even.
        places: int64 [calls, rows], where in its block each token stands, independent of the token whatever its law
            before the last place; this tells streams that repeat from tokens that are too few.

    Returns:
        The finding of SV-IND-004: the most telling look, corrected for the number of looks.

    Example:
        >>> tokens = np.random.default_rng(0).integers(0, 256, (4, 40))
        >>> tokens[3, 5:35] = tokens[1, :30]
        >>> repeats(tokens, "flat", 256).message
        'the tokens of call 1 from row 0 on repeat those of call 3 from row 5 on, for 30 rows'
    """
    looks = [*_runs(tokens, fair), *_counts(tokens, fair, places)]
    if not looks:
        return Finding("SV-IND-004", case, 1.0, tokens.size, 0, 0, "too few tokens to look for repeats", False)
    telling = [look for look in looks if look.p_value <= EXPLAINED]
    best = min(telling, key=lambda look: (look.explained, look.rank), default=min(looks, key=lambda look: look.p_value))
    p_value = min(1.0, best.p_value * len(looks))
    return Finding("SV-IND-004", case, p_value, best.n, best.observed, best.expected, best.message, best.explained)


def _runs(tokens: IntArray, fair: int) -> Iterator[_Look]:
    """Compare long runs along the rows of the calls, then along the calls of the rows."""
    for along_calls in (False, True):
        sequences = np.ascontiguousarray(tokens.T) if along_calls else tokens
        if sequences.shape[1] < run_length(fair):
            continue
        found = first_repeat(sequences, fair)
        if found is None:
            yield _Look(0, 1.0, tokens.size, 0, 0, "no long run of tokens repeats")
            continue
        chance = chance_of_repeat(len(sequences), sequences.shape[1], fair)
        text = _rows_told(found, sequences) if along_calls else _calls_told(found, sequences)
        explained = _explained(found, tokens, along_calls, fair) > EXPLAINED
        yield _Look(0 if found.aligned else 2, chance, tokens.size, found.length, 0, text, explained)


def _calls_told(found: Repeat, calls: IntArray) -> str:
    (a, b), (r, s), verb = found.sequences, found.places, "mirror" if found.mirrored else "repeat"
    if a == b:
        return f"within call {a} the tokens from row {r} on {verb} those from row {s} on, for {found.length} rows"
    if found.aligned and found.length == calls.shape[1] and not found.mirrored:
        distinct = len(np.unique(calls, axis=0))
        return (
            f"calls {a} and {b}, with different seeds, repeat each other: about {_streams(len(calls), distinct)} "
            f"distinct streams, {distinct} of them in {len(calls)} calls"
        )
    return f"the tokens of call {a} from row {r} on {verb} those of call {b} from row {s} on, for {found.length} rows"


def _rows_told(found: Repeat, rows: IntArray) -> str:
    (a, b), (c, d) = found.sequences, found.places
    if found.aligned and found.length == rows.shape[1]:
        if found.mirrored:
            return f"rows {a} and {b} of every call get mirrored tokens"
        repeated = len(rows) - len(np.unique(rows, axis=0))
        more = f"; {repeated} of {len(rows)} rows repeat another" if repeated > 1 else ""
        return f"rows {a} and {b} of every call get the same tokens{more}"
    verb = "mirror" if found.mirrored else "repeat"
    return f"the tokens of row {a} from call {c} on {verb} those of row {b} from call {d} on, for {found.length} calls"


def _explained(found: Repeat, tokens: IntArray, along_calls: bool, fair: int) -> float:
    """Give the chance of such a repeat among independent tokens of the frequencies seen.

    It is the smaller of two: by the frequencies of the rows concerned, and by those within the run. A row that always
    gives one token, over and over, is explained by both.
    """
    step = np.arange(found.length)
    (a, b), (c, d) = found.sequences, found.places
    if along_calls:
        run, rows = tokens[c : c + found.length, a], np.array([[a], [b]])
    else:
        run, rows = tokens[a, c : c + found.length], np.stack([c + step, d + step])
    kinds = max(fair, int(tokens.max()) + 1)
    equal = _agreement(_shares(tokens, rows[0], kinds), _shares(tokens, rows[1], kinds), found.mirrored, fair)
    share = np.bincount(run, minlength=kinds)[None] / found.length
    alike = _agreement(share, share, False, fair)
    with np.errstate(divide="ignore"):
        by_rows = float(np.log(equal).sum()) * (found.length if along_calls else 1)
        by_run = float(np.log(alike).sum()) * found.length
    return math.exp(min(0.0, min(by_rows, by_run) + 2 * math.log(tokens.size)))


def _shares(tokens: IntArray, rows: IntArray, kinds: int) -> FloatArray:
    """Give the share of every token over the calls, for each of some rows: float64 [len(rows), kinds]."""
    places = np.arange(len(rows)) * kinds
    counts = np.bincount((tokens[:, rows] + places).ravel(), minlength=len(rows) * kinds)
    return np.asarray(counts.reshape(len(rows), kinds) / len(tokens))


def _agreement(one: FloatArray, other: FloatArray, mirrored: bool, fair: int) -> FloatArray:
    """Give the chance, row by row, that two independent tokens of these shares are equal, or mirrored."""
    if mirrored:
        one, other = one[:, :fair], other[:, fair - 1 :: -1]
    return np.asarray(np.minimum(1.0, (one * other).sum(axis=1)))


def _counts(tokens: IntArray, fair: int, places: IntArray | None) -> Iterator[_Look]:
    """Count calls that repeat an earlier call, and rows that repeat an earlier row of their call."""
    calls, rows = tokens.shape
    width = min(rows, run_length(fair))
    if calls > 1 and float(fair) ** width >= CROWDED * calls:
        first = _first_of(tokens[:, :width])
        look = _counted(first, (calls - 1) / 2, tokens, fair, width, None if places is None else places[:, :width])
        streams = _streams(calls, calls - int(look.observed))
        text = (
            f"{look.observed:.0f} of {calls} calls, with different seeds, repeat an earlier call, where "
            f"{look.expected:.3g} are due: about {streams} distinct streams"
        )
        yield replace(look, rank=1, message=text)
    if 1 < rows <= fair:
        own = tokens + (int(tokens.max()) + 1) * np.arange(calls)[:, None]  # so no token is that of another call
        look = _counted(_first_of(own.ravel()), (rows - 1) / 2, tokens, fair, 1, places)
        text = (
            f"{look.observed:.0f} of {tokens.size} rows give the token of an earlier row of their call, where at most "
            f"{look.expected:.4g} are due: rows share randomness, in pairs that may change from call to call"
        )
        yield replace(look, rank=3, message=text)


def _counted(
    first: IntArray, earlier: float, tokens: IntArray, fair: int, width: int, places: IntArray | None
) -> _Look:
    """Judge repeats: ``first`` gives the first equal one of each, ``earlier`` how many came before, on average."""
    n = len(first)
    again = np.flatnonzero(first < np.arange(n))
    due = earlier * float(fair) ** -width
    counts = np.bincount(tokens.ravel())
    equal = float(counts @ (counts - 1)) / max(1, tokens.size * (tokens.size - 1))  # of two tokens seen anywhere
    explained = _tail(len(again), n, earlier * equal**width) > EXPLAINED
    if explained and places is not None:
        explained = not _places_agree(places.reshape(n, width), again, first[again])
    return _Look(0, _tail(len(again), n, due), n, len(again), n * due, "", explained)


def _first_of(outcomes: IntArray) -> IntArray:
    """Give for every entry, or row of a matrix, the number of the first equal to it: int64 [n]."""
    _, first, kind = np.unique(outcomes, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[kind.ravel()], dtype=np.int64)


def _tail(count: int, n: int, mean: float) -> float:
    """Bound the chance of at least this count of n dependent events whose chances have a mean of at most this."""
    if count < n * mean + 1 or mean >= 1:
        return 1.0
    return float(special.betainc(count, n - count + 1, mean))


def _places_agree(places: IntArray, again: IntArray, first: IntArray) -> bool:
    """Say whether repeated tokens stand at the same places too often for tokens that a wrong law repeats.

    The last place is left out: what follows a draft that is kept whole may have a law of its own.
    """
    inner = places < LAST_PLACE
    both = (inner[again] & inner[first]).all(axis=1)
    same = int((places[again] == places[first]).all(axis=1)[both].sum())
    share = np.bincount(places[inner]) / max(1, inner.sum())
    return _tail(same, int(both.sum()), float(share @ share) ** places.shape[1]) <= SAME_PLACES


def _streams(calls: int, distinct: int) -> int:
    """Estimate how many streams there are when so many calls show so many distinct ones."""
    low, high = float(distinct), MOST_STREAMS
    for _ in range(100):
        middle = (low + high) / 2
        seen = -middle * math.expm1(calls * math.log1p(-1 / middle)) if middle > 1 else 1.0
        low, high = (middle, high) if seen < distinct else (low, middle)
    return round(low)

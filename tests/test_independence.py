"""Shared randomness between rows or calls is found at any distance, with exact p-values, and is never imagined."""

from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy import stats

from specverify.arrays import IntArray
from specverify.distances import between_calls, between_rows, within_calls
from specverify.findings import Finding
from specverify.independence import CALLS, cases, find

COIN, FLAT = 2, 256


def fair_tokens(fair: int, rows: int, seed: int, calls: int = 64) -> IntArray:
    """Make independent fair tokens [calls, rows]."""
    return np.random.default_rng([fair, rows, seed]).integers(0, fair, (calls, rows))


# --- exactness, by enumeration ---------------------------------------------------------------------------------------


def every_matrix(calls: int, rows: int, fair: int) -> list[IntArray]:
    """Give every possible matrix of tokens, all of them equally likely."""
    return [np.array(x).reshape(calls, rows) for x in product(range(fair), repeat=calls * rows)]


@pytest.mark.parametrize(("rows", "fair"), [(4, 2), (5, 3), (3, 4)])
def test_comparisons_at_one_distance_are_independent(rows: int, fair: int) -> None:
    """Over all equally likely rows every pattern of equal and unequal pairs at a distance is as likely as it should be.

    Hence the number of equal pairs is exactly binomial; that of mirrored pairs likewise.
    """
    matrices = every_matrix(1, rows, fair)
    for distance in range(1, rows):
        pairs = rows - distance
        both = [(t[0, distance:], t[0, :-distance]) for t in matrices]
        for matches in ([a == b for a, b in both], [a + b == fair - 1 for a, b in both]):
            patterns = Counter(tuple(match.tolist()) for match in matches)
            for pattern in product([False, True], repeat=pairs):
                due = Fraction(fair - 1) ** (pairs - sum(pattern)) / Fraction(fair) ** pairs
                assert Fraction(patterns[pattern], len(matrices)) == due


def test_equal_pairs_of_four_coins_are_binomial() -> None:
    """Rows of four coins: at distances 1 and 2 the counts of equal pairs are 1, 3, 3, 1 and 1, 2, 1 parts."""
    for distance in (1, 2):
        counts = Counter(int((t[:, distance:] == t[:, :-distance]).sum()) for t in every_matrix(1, 4, COIN))
        n = 4 - distance
        assert counts == {k: comb(n, k) * 16 // 2**n for k in range(n + 1)}


CHECKS: dict[str, Callable[[IntArray, str, int], Finding]] = {
    "between_rows": between_rows,
    "between_calls": between_calls,
    "within_calls": within_calls,
}


@pytest.mark.parametrize("check", ["between_rows", "between_calls"])
@pytest.mark.parametrize(("calls", "rows", "fair"), [(2, 4, 2), (4, 2, 2), (2, 2, 4), (3, 2, 4)])
def test_p_values_are_valid_over_all_matrices(check: str, calls: int, rows: int, fair: int) -> None:
    """Enumerating every matrix, P(p-value <= t) is at most t for every t that occurs."""
    matrices = every_matrix(calls, rows, fair)
    p_values = np.sort([CHECKS[check](tokens, "c", fair).p_value for tokens in matrices])
    share = np.arange(1, len(matrices) + 1) / len(matrices)
    last = np.append(np.diff(p_values) > 0, True)
    assert (share[last] <= p_values[last] + 1e-12).all()


def test_the_worst_distance_is_corrected_for_all_that_were_looked_at() -> None:
    """The p-value is the smallest exact binomial tail, doubled for both sides, times the number of comparisons made."""
    tokens = np.zeros((3, 4), dtype=np.int64)
    found = between_rows(tokens, "c", COIN)
    assert found.n == 9
    assert (found.observed, found.expected) == (9, 4.5)
    assert found.p_value == pytest.approx(3 * 2 * 0.5**9, rel=1e-12), "three distances, equal only"
    found = between_rows(tokens, "c", FLAT)
    assert found.p_value == pytest.approx(6 * 2 * 256.0**-9, rel=1e-9), "three distances, equal and mirrored"
    assert between_rows(np.array([[0, 1]]), "c", COIN).p_value == 1.0


# --- what must be found ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fair", [COIN, FLAT])
@pytest.mark.parametrize("distance", [1, 5, 31])
def test_rows_that_repeat_at_a_distance_are_found(fair: int, distance: int) -> None:
    """A stream that restarts every few rows: the distance is named, and the case."""
    tokens = fair_tokens(fair, 64, 1)
    tokens[:, distance:] = np.where(
        np.arange(64 - distance) // distance % 2 == 0, tokens[:, :-distance], tokens[:, distance:]
    )
    found = between_rows(tokens, "case", fair)
    assert found.p_value < 1e-12
    assert found.check == "SV-IND-001"
    assert found.key == "SV-IND-001 on case"
    assert f"rows at distance {distance} are equal in " in found.message


def test_one_seed_for_all_rows_is_found() -> None:
    """All rows of a call are the same."""
    tokens = np.repeat(fair_tokens(FLAT, 1, 2), 32, axis=1)
    found = between_rows(tokens, "c", FLAT)
    assert found.p_value < 1e-100
    assert "are equal in 100.00% of" in found.message
    assert "expected 0.39%" in found.message


@pytest.mark.parametrize("fair", [COIN, FLAT])
def test_mirrored_rows_are_found(fair: int) -> None:
    """Antithetic uniforms, u in one row and 1 - u in the next: equal never with two tokens, mirrored with more."""
    half = fair_tokens(fair, 32, 3)
    tokens = np.stack([half, fair - 1 - half], axis=2).reshape(64, 64)
    found = between_rows(tokens, "c", fair)
    assert found.p_value < 1e-12
    assert f"rows at distance 1 are {'mirrored' if fair == FLAT else 'equal'} in " in found.message


@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("distance", [1, 7])
def test_calls_that_repeat_at_a_distance_are_found(rows: int, distance: int) -> None:
    """A seed of few bits: the calls cycle, also when a call has one row only."""
    tokens = np.tile(fair_tokens(FLAT, rows, 4, calls=distance), (20, 1))
    found = between_calls(tokens, "c", FLAT)
    assert found.p_value < 1e-12
    assert found.check == "SV-IND-002"
    assert "calls" in found.message


def test_stratified_counts_are_found() -> None:
    """Half of every call's tokens come from the lower half: far too even."""
    rng = np.random.default_rng(6)
    for fair in (COIN, FLAT):
        strata = np.tile(np.arange(64) % 2, (CALLS, 1))
        tokens = rng.permuted(strata, axis=1) * (fair // 2) + rng.integers(0, max(1, fair // 2), (CALLS, 64))
        found = within_calls(tokens, "c", fair)
        assert found.p_value < 1e-12
        assert found.check == "SV-IND-003"
        assert found.message.startswith("tokens are spread too evenly over the rows of a call: variance 0 per call")


def test_clustered_counts_are_found() -> None:
    """Whole calls lean to one side: too uneven, though each token is fair."""
    rng = np.random.default_rng(7)
    lean = rng.choice([0.2, 0.8], CALLS)[:, None]
    found = within_calls((rng.random((CALLS, 64)) < lean).astype(np.int64), "c", COIN)
    assert found.p_value < 1e-12
    assert "too unevenly" in found.message
    assert found.expected == 16


# --- what must not be found ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("fair", [COIN, FLAT])
def test_fair_tokens_raise_no_alarm(check: str, fair: int) -> None:
    """Of 200 fair matrices none has a p-value below 1e-12, and about as few below 0.01 as there should be.

    For other seeds the first fails with probability at most 2e-10 and so does the second.
    """
    p_values = np.array([CHECKS[check](fair_tokens(fair, 16, seed), "c", fair).p_value for seed in range(200)])
    assert p_values.min() > 1e-12
    assert (p_values <= 0.01).sum() <= stats.binom.isf(2e-10, 200, 0.01)


# --- the stage -------------------------------------------------------------------------------------------------------

STAGES = {stage.case.name: stage for stage in cases(None)}


def fair_blocks(name: str, batch: int, calls: int, seed: int) -> IntArray:
    """Draw completed blocks [calls, batch, G + 1] from the target of a stage's case."""
    case = STAGES[name].case
    rng = np.random.default_rng([batch, calls, seed])
    drawn = [rng.choice(case.vocab_size, (calls, batch), p=rows[0]) for rows in case.target]
    return np.stack(drawn, axis=-1)


@pytest.mark.parametrize("name", STAGES)
def test_fair_blocks_of_a_full_stage_raise_no_alarm(name: str) -> None:
    """At the largest batches that the kit uses every check of every case has a p-value above 1e-12."""
    stage = STAGES[name]
    found = find(fair_blocks(name, stage.batch, stage.calls, 8), stage.case)
    assert [finding.case for finding in found] == [name] * len(found)
    assert min(finding.p_value for finding in found) > 1e-12


def test_the_stage_follows_the_largest_batch() -> None:
    """Crowds come where a call may have more rows than in the other cases; small calls are the more."""

    def sizes(max_batch: int | None) -> dict[str, tuple[int, int]]:
        return {stage.case.name: (stage.batch, stage.calls) for stage in cases(max_batch)}

    most = {"coin": (512, 512), "flat": (128, 512), "wide": (64, 64), "crowd": (8192, 32), "coin-crowd": (8192, 96)}
    assert sizes(None) == sizes(10**6) == most
    assert sizes(600) == most | {"crowd": (600, 32), "coin-crowd": (600, 96)}
    assert sizes(512) == {"coin": (512, 512), "flat": (128, 512), "wide": (64, 64), "crowd": (512, 32)}
    assert sizes(128) == {"coin": (128, 512), "flat": (128, 512), "wide": (64, 64)}
    assert sizes(3) == {"coin": (3, 512), "flat": (3, 512), "wide": (3, 170)}
    assert sizes(1) == {"coin": (1, 512), "flat": (1, 512), "wide": (1, 512)}


@pytest.mark.parametrize(("name", "fair"), [("coin", COIN), ("flat", FLAT)])
def test_calls_of_one_row_say_nothing_about_rows(name: str, fair: int) -> None:
    """With one row a call only calls are compared; with two all four checks run, by the case's number of tokens."""
    case = STAGES[name].case
    one, two = (fair_blocks(name, rows, 64, 9) for rows in (1, 2))
    assert [f.check for f in find(one, case)] == ["SV-IND-004", "SV-IND-002"]
    assert [f.check for f in find(two, case)] == ["SV-IND-004", "SV-IND-002", "SV-IND-001", "SV-IND-003"]
    assert find(two, case)[2] == between_rows(two[..., 0], name, fair)


def test_crowds_are_searched_for_repeats_only() -> None:
    """More rows than can be compared at every distance are left to the check that needs no distance."""
    blocks = fair_blocks("crowd", 513, 32, 10)
    assert [f.check for f in find(blocks, STAGES["crowd"].case)] == ["SV-IND-004"]


def test_the_wide_case_is_fair_wherever_its_token_stands() -> None:
    """The first token that is not the drafted 0 is compared, at any of its four places, and is counted from 0.

    Rows that share it are found though their places differ; a block of drafted tokens alone, which the target does not
    give, is no error.
    """
    blocks = fair_blocks("wide", 64, 64, 11)
    token = blocks[:, 0, 3].copy()
    blocks[:, 0, 0] = token
    blocks[:, 1, :3] = 0
    blocks[:, 1, 3] = token
    blocks[0, 2] = 0
    found = find(blocks, STAGES["wide"].case)[0]
    assert found.message.startswith("rows 0 and 1 of every call get the same tokens")
    assert found.p_value < 1e-20
    assert not blocks[0, 2].any(), "the blocks are left as they were"


def test_the_wide_case_has_four_equally_likely_places() -> None:
    """Its 4096 tokens are exactly equally likely at each place, the places nearly so: 3/4, 2/3, 1/2 and 0 are kept."""
    target = [rows[0] for rows in STAGES["wide"].case.target]
    kept = np.cumprod([1, *(row[0] for row in target[:3])])
    assert kept * [1 - row[0] for row in target[:4]] == pytest.approx([1 / 4] * 4, rel=1e-12)
    assert all(len(np.unique(row[1:])) == 1 for row in target)
    assert target[3][0] == target[4][0] == 0  # the fourth draft is never kept: no bonus is compared


def test_counts_within_calls_follow_the_binomial_law() -> None:
    """Enumerated calls of four coins are as frequent as the null says: the fit is perfect."""
    tokens = np.concatenate(every_matrix(1, 4, COIN) * 40)
    found = within_calls(tokens, "c", COIN)
    assert found.p_value == 1.0
    assert found.observed == found.expected == 1.0
    tally = defaultdict(int, Counter(tokens.sum(axis=1).tolist()))
    assert [tally[k] for k in range(5)] == [40, 160, 240, 160, 40]

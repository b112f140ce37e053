"""A run that comes twice is found wherever it stands, no p-value is too small, and a wrong law is no sharing."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from specverify.arrays import IntArray
from specverify.repeats import repeats
from specverify.runs import Repeat, chance_of_repeat, first_repeat, run_length

COIN, CROWD, FLAT, WIDE = 2, 16, 256, 4096


def fair_tokens(fair: int, calls: int, rows: int, seed: int = 0) -> IntArray:
    """Make independent fair tokens [calls, rows]."""
    return np.random.default_rng([fair, calls, rows, seed]).integers(0, fair, (calls, rows))


# --- runs ------------------------------------------------------------------------------------------------------------


def test_overlapping_runs_repeat_no_more_often_than_others() -> None:
    """Enumerated: two runs of three coins are equal, or mirrored, in one of eight rows, at every distance."""
    rows = [np.array(row) for row in product((0, 1), repeat=6)]
    for distance in (1, 2, 3):
        for mirrored in (False, True):
            hits = sum(bool((row[distance : distance + 3] == abs(mirrored - row[:3])).all()) for row in rows)
            assert Fraction(hits, len(rows)) == Fraction(1, 8)


def test_the_chance_of_a_repeat_counts_every_pair_of_places() -> None:
    """All unordered pairs of N places, equal and mirrored, are N squared; each has chance fair**-length."""
    assert [run_length(fair) for fair in (COIN, CROWD, FLAT, WIDE)] == [96, 24, 12, 8]
    assert chance_of_repeat(32, 8192, CROWD) == (32 * 8169) ** 2 * 16.0**-24
    assert chance_of_repeat(8192, 95, COIN) == 0
    assert chance_of_repeat(10**15, 96, COIN) == 1


@pytest.mark.parametrize("fair", [COIN, CROWD, FLAT, WIDE])
@pytest.mark.parametrize("mirrored", [False, True])
def test_a_planted_run_is_found_at_any_place(fair: int, mirrored: bool) -> None:
    """A run of just the needed length is found between any two places; one token less is not."""
    length, rng = run_length(fair), np.random.default_rng([fair, 1])
    for _ in range(20):
        tokens = fair_tokens(fair, 8, 3 * length, int(rng.integers(2**31)))
        one, other = rng.choice(8, 2, replace=False).tolist()
        place, there = rng.integers(1, 2 * length, 2).tolist()
        image = fair - 1 - tokens if mirrored else tokens.copy()
        tokens[other, there : there + length] = image[one, place : place + length]
        for step in (-1, length):  # the run goes no further
            tokens[other, there + step] = (image[one, place + step] + 1) % fair
        found = first_repeat(tokens, fair)
        assert found is not None
        assert found.mirrored == mirrored
        assert set(zip(found.sequences, found.places, strict=True)) == {(one, place), (other, there)}
        assert found.length == length
        tokens[other, there + length // 2] = (1 + tokens[other, there + length // 2]) % fair
        assert first_repeat(tokens, fair) is None


def test_fair_tokens_repeat_nowhere() -> None:
    """A hundred fair matrices hold no repeat; that one does has probability below 1e-18."""
    assert all(first_repeat(fair_tokens(CROWD, 16, 64, seed), CROWD) is None for seed in range(100))
    assert first_repeat(fair_tokens(FLAT, 16, 11), FLAT) is None, "shorter than a run"


def test_repeats_place_by_place_are_told_first() -> None:
    """Of several repeats the one in which two sequences agree from their start is told."""
    tokens = fair_tokens(FLAT, 6, 60)
    tokens[1, 10:40] = tokens[0, 20:50]
    tokens[5] = tokens[3]
    assert first_repeat(tokens, FLAT) == Repeat((3, 5), (0, 0), 60, False)


def test_tokens_that_must_not_come_have_no_mirror_image() -> None:
    """A forbidden token, above the fair ones, mirrors nothing, and equals itself."""
    tokens = np.full((1, 30), 300) + np.arange(30) * 7 % 30
    assert first_repeat(tokens, FLAT) is None
    assert first_repeat(np.tile(tokens, (2, 1)), FLAT) == Repeat((0, 1), (0, 0), 30, False)


# --- valid p-values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("calls", "rows", "fair"), [(3, 2, 4), (2, 3, 4), (1, 5, 6), (4, 2, 2)])
def test_p_values_are_valid_over_all_matrices(calls: int, rows: int, fair: int) -> None:
    """Enumerating every matrix, P(p-value <= t) is at most t for every t that occurs."""
    matrices = product(range(fair), repeat=calls * rows)
    counts = Counter(repeats(np.array(m).reshape(calls, rows), "c", fair).p_value for m in matrices)
    below, total = 0, sum(counts.values())
    for p_value in sorted(counts):
        below += counts[p_value]
        assert below / total <= p_value


def test_p_values_of_counts_are_those_of_a_binomial() -> None:
    """Four equal tokens of 4096 in one call of four: three repeats at a mean chance of 1.5/4096 each."""
    found = repeats(np.array([[7, 7, 7, 7]]), "c", WIDE)
    chance = 1.5 / 4096
    assert found.p_value == pytest.approx(4 * chance**3 * (1 - chance) + chance**4, rel=1e-9), "the only look"
    assert (found.check, found.n, found.observed) == ("SV-IND-004", 4, 3)
    assert found.expected == pytest.approx(4 * chance)


@pytest.mark.parametrize(("fair", "calls", "rows"), [(FLAT, 64, 24), (WIDE, 512, 1), (WIDE, 64, 64), (CROWD, 32, 700)])
def test_fair_tokens_raise_no_alarm(fair: int, calls: int, rows: int) -> None:
    """Of a hundred fair matrices none has a p-value below 1e-12: for other seeds that fails with chance 1e-10."""
    for seed in range(100):
        assert repeats(fair_tokens(fair, calls, rows, seed), "c", fair).p_value > 1e-12


def test_too_few_tokens_say_nothing() -> None:
    """One call of one coin leaves nothing to look at."""
    found = repeats(np.array([[1]]), "c", COIN)
    assert (found.p_value, found.message) == (1, "too few tokens to look for repeats")


# --- what must be found ----------------------------------------------------------------------------------------------


def told(tokens: IntArray, fair: int, places: IntArray | None = None) -> str:
    """Give the message about tokens that cannot be independent, having checked that it is proof."""
    found = repeats(tokens, "c", fair, places)
    assert found.p_value < 1e-12
    assert not found.explained
    return found.message


def test_rows_that_share_are_named_whatever_their_pattern() -> None:
    """Two of 700 rows, an arbitrary pairing, mirrored rows, and rows that share for some calls only."""
    tokens = fair_tokens(CROWD, 32, 700)
    tokens[:, 611] = tokens[:, 53]
    assert told(tokens, CROWD) == "rows 53 and 611 of every call get the same tokens"
    order = np.random.default_rng(1).permutation(700)
    tokens[:, order[350:]] = tokens[:, order[:350]]
    assert told(tokens, CROWD).endswith("of every call get the same tokens; 350 of 700 rows repeat another")
    tokens = fair_tokens(CROWD, 32, 700)
    tokens[:, 2] = 15 - tokens[:, 600]
    assert told(tokens, CROWD) == "rows 2 and 600 of every call get mirrored tokens"
    tokens = fair_tokens(FLAT, 40, 20)
    tokens[5:20, 3] = tokens[11:26, 17]
    assert "of row 17 from call 11 on" in told(tokens, FLAT)
    assert told(tokens, FLAT).endswith("for 15 calls")


def test_calls_that_share_are_named() -> None:
    """Two equal calls, streams that overlap, a call that repeats within itself, and calls that mirror each other."""
    tokens = fair_tokens(FLAT, 200, 40)
    tokens[150] = tokens[17]
    assert told(tokens, FLAT).startswith("calls 17 and 150, with different seeds, repeat each other: about 19")
    tokens = fair_tokens(FLAT, 20, 40)
    tokens[9, 25:] = tokens[4, :15]
    expected = "the tokens of call 4 from row 0 on repeat those of call 9 from row 25 on, for 15 rows"
    assert told(tokens, FLAT) == expected
    tokens = fair_tokens(FLAT, 20, 40)
    tokens[9, 25:] = tokens[9, :15]
    assert told(tokens, FLAT) == "within call 9 the tokens from row 0 on repeat those from row 25 on, for 15 rows"
    tokens = fair_tokens(FLAT, 20, 40)
    tokens[7] = 255 - tokens[3]
    expected = "the tokens of call 3 from row 0 on mirror those of call 7 from row 0 on, for 40 rows"
    assert told(tokens, FLAT) == expected


def test_one_stream_for_all_calls_is_no_matter_of_the_law() -> None:
    """Every call the same: each row has one token only, but the rows' tokens differ, so no law explains it."""
    tokens = np.tile(fair_tokens(FLAT, 1, 40), (20, 1))
    message = told(tokens, FLAT)
    assert message == (
        "calls 0 and 1, with different seeds, repeat each other: about 1 distinct streams, 1 of them in 20 calls"
    )


@pytest.mark.parametrize("streams", [8, 32, 500, 1500])
def test_few_streams_of_single_rows_are_counted(streams: int) -> None:
    """512 calls of one row: repeated tokens always stand at the same place, so it is the streams that are few."""
    rng = np.random.default_rng(streams)
    token, place = rng.integers(0, WIDE, streams), rng.integers(0, 4, streams)
    drawn = rng.integers(0, streams, (512, 1))
    message = told(token[drawn], WIDE, place[drawn])
    assert "of 512 calls, with different seeds, repeat an earlier call, where 31.9 are due" in message
    estimate = int(message.split("about ")[1].split()[0])
    assert 0.6 * streams < estimate < 1.1 * streams


@pytest.mark.parametrize(("rows", "streams"), [(2, 2000), (5, 4000)])
def test_few_streams_of_few_rows_are_counted(rows: int, streams: int) -> None:
    """Calls of a few rows are too short for a run, but not to repeat as a whole by chance."""
    tokens = fair_tokens(FLAT, streams, rows)[np.random.default_rng(2).integers(0, streams, 512)]
    assert "repeat an earlier call" in told(tokens, FLAT)


def test_pairs_that_change_from_call_to_call_are_counted() -> None:
    """One pair of 64 rows, another in every call: no two rows share twice."""
    tokens = fair_tokens(WIDE, 64, 64)
    rng = np.random.default_rng(3)
    for call in tokens:
        one, other = rng.choice(64, 2, replace=False)
        call[one] = call[other]
    message = told(tokens, WIDE)
    assert "of 4096 rows give the token of an earlier row of their call, where at most 31.5 are due" in message


# --- what a wrong law looks like -------------------------------------------------------------------------------------


def explained(tokens: IntArray, fair: int, places: IntArray | None = None) -> bool:
    """Say whether what repeats, and cannot be chance, is put down to the law."""
    found = repeats(tokens, "c", fair, places)
    assert found.p_value < 1e-12
    return found.explained


def test_a_wrong_law_is_not_called_sharing() -> None:
    """One token for all, a heavy token, and a stretch of rows that always give the same token."""
    assert explained(np.zeros((64, 40), dtype=np.int64), FLAT)
    rng = np.random.default_rng(4)
    assert explained((rng.random((512, 256)) < 0.1).astype(np.int64), COIN)
    heavy = np.where(rng.random((512, 128)) < 0.7, 9, fair_tokens(FLAT, 512, 128))
    assert explained(heavy, FLAT)
    tokens = fair_tokens(FLAT, 128, 128)
    tokens[:, 100:] = 5
    assert explained(tokens, FLAT)


def test_few_tokens_are_told_from_few_streams_by_their_places() -> None:
    """512 single rows with 32 tokens: at independent places it is the law, at the tokens' own places the streams."""
    rng = np.random.default_rng(5)
    tokens, places = rng.integers(0, 32, (512, 1)), rng.integers(0, 4, (512, 1))
    assert explained(tokens, WIDE, places)
    assert not explained(tokens, WIDE, tokens % 4)


def test_a_wrong_bonus_is_not_called_sharing() -> None:
    """A bonus that is always one token repeats at its own place only; that place is left out."""
    rng = np.random.default_rng(6)
    places = rng.integers(0, 5, (64, 64))
    assert explained(np.where(places == 4, WIDE, fair_tokens(WIDE, 64, 64)), WIDE, places)

"""The law that tokens are drawn from is known as integers: it is compared with the rows, and with what a draw gives."""

import math
from fractions import Fraction

import numpy as np
import pytest
from played import Played, played, words_of  # noqa: F401  # a fixture

from specverify import inverse
from specverify.arrays import FloatArray
from specverify.inverse import Inverse, draw_once, parts
from specverify.menu import menu

pytestmark = pytest.mark.usefixtures("played")

ALL = 2**62


def distance(shares: list[int], row: FloatArray) -> Fraction:
    """Give the total variation between integer shares of 2**62 and a row, exactly."""
    weights = [Fraction(x) for x in row.tolist()]
    total = sum(weights, Fraction(0))
    return sum((abs(Fraction(n, ALL) - x / total) for n, x in zip(shares, weights, strict=True)), Fraction(0)) / 2


def rows() -> dict[str, FloatArray]:
    """Give every row of the menu, and flat and steep ones of the largest vocabulary."""
    found = {f"{case.name}-{i}": level for case in menu() for i, level in enumerate((*case.target, *case.draft))}
    steep = 1.0 / np.arange(1, 262145)
    return found | {"flat": np.full((1, 262144), 1 / 262144), "steep": (steep / math.fsum(steep))[None, :]}


ROWS = rows()


@pytest.mark.parametrize("name", ROWS)
def test_the_law_drawn_from_is_the_row(name: str) -> None:
    """The parts of all tokens are all there are, their law is the row within 1e-12, and what is impossible has none."""
    shares = parts(ROWS[name])
    assert (shares.sum(axis=1) == ALL).all()
    assert (shares >= 0).all()
    assert not shares[ROWS[name] == 0].any()
    for mine, row in zip(shares, ROWS[name], strict=True):
        assert distance(mine.tolist(), row) < 1e-12


def test_a_law_in_single_precision_would_be_rejected() -> None:
    """The same comparison refuses running sums in float32, which lose 1e-7 and more."""
    row = ROWS["softmax-1024-0"][0]
    ends = (np.cumsum(row.astype(np.float32)).astype(np.float64) * ALL).astype(np.int64)
    ends[-1] = ALL
    assert distance(np.diff(ends, prepend=0).tolist(), row) > 1e-8


@pytest.mark.parametrize("name", ROWS)
def test_a_draw_gives_each_token_its_parts(name: str) -> None:
    """The first and the last part of every token give that token, whether its cell of the guide is shared or not."""
    for number, row in enumerate(ROWS[name]):
        shares = parts(row[None, :])[0]
        ends = np.cumsum(shares)
        owners = np.flatnonzero(shares)
        words = [4 * int(part) for part in np.concatenate([ends[owners] - shares[owners], ends[owners] - 1])]
        words[-1] = 2**64 - 1
        index = np.full(len(words), number)
        drawn = Inverse(ROWS[name]).draw(index, Played(words))
        assert np.array_equal(drawn, np.tile(owners, 2))
        if number == 2:
            break


def test_rows_drawn_from_once_give_the_same_tokens() -> None:
    """Without a guide the same parts give the same tokens."""
    table = ROWS["W402-1"]
    index = np.random.default_rng(0).integers(0, len(table), 5000)
    picked = np.random.default_rng(1).integers(0, ALL, 5000)
    once = draw_once(table[index], np.random.default_rng(1))
    assert np.array_equal(once, Inverse(table).draw(index, Played(picked.astype(np.uint64) << np.uint64(2))))


@pytest.mark.parametrize(("name", "bits"), [("softmax-32-0", 16), ("softmax-32000-0", 32)])
def test_a_word_is_what_a_uniform_is_made_of(name: str, bits: int) -> None:
    """A word gives the token whose part of [0, 1) its uniform lies in, by its first 16 bits or by 32."""
    row = Inverse(ROWS[name])
    assert row._head == bits
    uniforms = np.random.default_rng(3).random(20_000)
    drawn = row.draw(np.zeros(20_000, dtype=np.int64), Played(words_of(uniforms)))
    assert np.array_equal(drawn, np.searchsorted(np.cumsum(ROWS[name][0]), uniforms, side="right"))


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 1001])
def test_one_word_serves_several_draws(count: int, bits: int) -> None:
    """Every bit of a word is used once: the first bits of so many draws are the words drawn, end to end."""
    heads = inverse._heads(count, bits, np.random.default_rng(7))
    drawn = -(-count * bits // 64)
    words = np.random.default_rng(7).integers(0, 2**64, size=drawn, dtype=np.uint64)
    assert heads.tobytes() == words.tobytes()[: count * bits // 8]
    assert len(heads) == count


def test_what_follows_the_first_bits_is_drawn_anew() -> None:
    """Rows that the first bits leave open get further bits, independent of them, so that rare tokens keep their law.

    A token of 2**-19 that shares its cell with a common one comes about 32 times in 2**24 draws; a Poisson variable of
    that mean is 0 or above 96 with probability below 1e-13.
    """
    row = np.array([[1 - 2.0**-19, 2.0**-19]])
    drawn = Inverse(row).draw(np.zeros(2**24, dtype=np.int64), np.random.default_rng(11))
    assert 1 <= int((drawn == 1).sum()) <= 96

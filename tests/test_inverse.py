"""The law that tokens are drawn from is known as integers: it is compared with the rows, and with what a draw gives."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from specverify.arrays import FloatArray
from specverify.inverse import Inverse, draw_once, parts
from specverify.menu import menu

ALL = 2**62


class Words(np.random.Generator):
    """A generator that plays given words."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(np.random.PCG64(0))
        self.words = np.array(words, dtype=np.uint64)

    def integers(self, low: int, high: int, size: int, dtype: Any) -> npt.NDArray[Any]:  # type: ignore[override]
        """Play the words."""
        assert (low, high, size, dtype) == (0, 2**64, len(self.words), np.uint64)
        return self.words


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
        drawn = Inverse(ROWS[name]).draw(index, Words(words))
        assert np.array_equal(drawn, np.tile(owners, 2))
        if number == 2:
            break


def test_rows_drawn_from_once_give_the_same_tokens() -> None:
    """Without a guide the same words give the same tokens."""
    table = ROWS["W402-1"]
    index = np.random.default_rng(0).integers(0, len(table), 5000)
    once = draw_once(table[index], np.random.default_rng(1))
    assert np.array_equal(once, Inverse(table).draw(index, np.random.default_rng(1)))


def test_a_word_is_what_a_uniform_is_made_of() -> None:
    """A stream gives the token whose part of [0, 1) its own next uniform lies in."""
    row = ROWS["softmax-32-0"]
    drawn = Inverse(row).draw(np.zeros(20_000, dtype=np.int64), np.random.Generator(np.random.SFC64(3)))
    uniforms = np.random.Generator(np.random.SFC64(3)).random(20_000)
    assert np.array_equal(drawn, np.searchsorted(np.cumsum(row[0]), uniforms, side="right"))

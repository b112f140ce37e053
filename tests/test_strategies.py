"""The shipped strategies generate laws only, of every kind they promise, the same ones each time; they find faults."""
# ruff: noqa: ARG005 - every kind is asked about both rows, whether it looks at them or not

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis.strategies import SearchStrategy, integers

from specverify.cases import Case
from specverify.errors import ConfigError
from specverify.faults import CATALOGUE
from specverify.properties import conditional_tables, distributions, float_pairs, pairs, reproducible
from specverify.reference import completed_law, target_law

Row = tuple[Fraction, ...]
search = settings(reproducible, max_examples=1000, phases=[Phase.generate])  # stops at the first find, unshrunk


def support(row: Row) -> set[int]:
    """Return the tokens of positive probability."""
    return {token for token, probability in enumerate(row) if probability > 0}


@reproducible
@given(integers(1, 6).flatmap(lambda size: distributions(size).map(lambda row: (size, row))))
def test_rows_are_exact_laws(drawn: tuple[int, Row]) -> None:
    """A row has one Fraction for each token, none negative, and sums to exactly 1."""
    size, row = drawn
    assert len(row) == size
    assert all(isinstance(probability, Fraction) and probability >= 0 for probability in row)
    assert sum(row) == 1


@reproducible
@given(pairs(3))
def test_pairs_share_their_tokens(pair: tuple[Row, Row]) -> None:
    """Both rows of a pair are laws over the tokens asked for."""
    assert [len(row) for row in pair] == [3, 3]
    assert [sum(row) for row in pair] == [1, 1]


@pytest.mark.parametrize(
    "kind",
    [
        lambda p, q: support(p) == support(q) == {0, 1, 2} and p != q,
        lambda p, q: len(support(p)) == 2,
        lambda p, q: len(support(q)) == 1 and p != q,
        lambda p, q: p == q and len(support(p)) == 3,
        lambda p, q: len(set(p)) == 2 and len(support(p)) == 3,
        lambda p, q: sorted(p) == sorted(q) and p != q and any(a == b for a, b in zip(p, q, strict=True)),
        lambda p, q: not support(p) & support(q),
        lambda p, q: support(p) < support(q),
        lambda p, q: support(p) > support(q),
    ],
    ids=["dense", "zeros", "one-hot", "equal", "ties", "exchanged", "disjoint", "p-within-q", "q-within-p"],
)
def test_every_kind_of_pair_comes(kind: Callable[[Row, Row], bool]) -> None:
    """Dense, zeros, one-hot, ties; equal, exchanged, disjoint and nested pairs: all are generated."""
    assert find(pairs(3), lambda pair: kind(*pair), settings=search)


@reproducible
@given(float_pairs())
def test_float_rows_sum_to_one(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """Float rows are laws up to rounding, as a case demands them."""
    case = Case.from_rows("floats", *pair, num_draft_tokens=1)
    assert not case.exact
    assert all(abs(row.sum() - 1) < 1e-15 * len(row) for row in pair)


@pytest.mark.parametrize(
    "fault", [key for key, fault in CATALOGUE.items() if fault.has_law and not fault.plays and key != "K18"]
)
def test_random_tables_find_every_known_fault(fault: str) -> None:
    """Among a thousand tables at least one shows that the fault is not lossless; the lost tail needs a longer one."""

    def lossy(case: Case) -> bool:
        outcomes = CATALOGUE[fault].exact_law(case.target_row, case.draft_row, case.num_draft_tokens)
        length = case.num_draft_tokens + 1
        return completed_law(outcomes, case.target_row, length) != target_law(case.target_row, length)

    assert find(conditional_tables(), lossy, settings=search)


def test_a_table_says_its_rows() -> None:
    """The description of a table, which a falsifying example shows, has every row with its prefix."""
    case = find(
        conditional_tables(max_vocab_size=1, max_num_draft_tokens=2),
        lambda case: case.num_draft_tokens == 2,
        settings=reproducible,
    )
    assert case.description == "p(.): 1; q(.): 1; p(.|0): 1; q(.|0): 1; p(.|0,0): 1"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: distributions(0), r"expected vocab_size >= 1, got 0; pass 1 or more"),
        (lambda: pairs(-1), r"expected vocab_size >= 1, got -1"),
        (lambda: float_pairs(0), r"expected vocab_size >= 1, got 0"),
        (lambda: conditional_tables(max_vocab_size=0), r"expected max_vocab_size >= 1, got 0"),
        (lambda: conditional_tables(max_num_draft_tokens=-1), r"expected max_num_draft_tokens >= 0, got -1"),
    ],
)
def test_impossible_sizes_are_refused(make: Callable[[], SearchStrategy[object]], message: str) -> None:
    """A strategy that could generate nothing is refused when it is made, in one line."""
    with pytest.raises(ConfigError, match=message):
        make()


def test_examples_are_the_same_each_time() -> None:
    """Two runs under the shipped settings see the same examples in the same order."""
    seen: list[object] = []

    @reproducible
    @given(pairs())
    def record(pair: object) -> None:
        seen.append(pair)

    record()
    half = len(seen)
    record()
    assert seen[:half] == seen[half:]
    assert half >= 50


def test_the_profile_of_the_user_is_left_alone() -> None:
    """Importing the package changes no Hypothesis setting and registers no profile."""
    code = (
        "from hypothesis import settings\n"
        "before = settings.default, dict(settings._profiles)\n"
        "import specverify.properties\n"
        "print((settings.default, dict(settings._profiles)) == before)"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True, timeout=60)
    assert done.stdout == "True\n"

"""The shipped strategies generate laws only, of every kind they promise, the same ones each time; they find faults."""
# ruff: noqa: ARG005 - every kind is asked about both rows, whether it looks at them or not

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis.strategies import SearchStrategy, integers

from specverify.cases import Case
from specverify.errors import ConfigError
from specverify.faults import CATALOGUE
from specverify.properties import (
    Row,
    conditional_tables,
    distributions,
    float_pairs,
    logits,
    pairs,
    representable,
    reproducible,
    sampling_parameters,
    uniforms,
)
from specverify.reference import completed_law, target_law

SIMPLEST = (Fraction(3, 5), Fraction(2, 5)), (Fraction(4, 5), Fraction(1, 5))
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
        (lambda: distributions(0), "expected vocab_size to be an integer from 1 to 256, got 0"),
        (lambda: pairs(-1), "expected vocab_size to be an integer from 1 to 256, got -1"),
        (lambda: float_pairs(0), "expected vocab_size to be an integer from 1 to 128, got 0"),
        (
            lambda: conditional_tables(max_vocab_size=0),
            "expected max_vocab_size to be an integer from 1 to 256, got 0",
        ),
        (
            lambda: conditional_tables(min_vocab_size=3, max_vocab_size=2),
            "expected max_vocab_size to be an integer from 3 to 256, got 2",
        ),
        (
            lambda: conditional_tables(max_num_draft_tokens=-1),
            "expected max_num_draft_tokens to be an integer from 0 to 1024, got -1",
        ),
    ],
)
def test_impossible_sizes_are_refused(make: Callable[[], SearchStrategy[object]], message: str) -> None:
    """A strategy that could generate nothing is refused when it is made, in one line."""
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value) == message


SIZED: dict[str, Callable[[Any], SearchStrategy[object]]] = {
    "distributions": distributions,
    "pairs": pairs,
    "float_pairs": float_pairs,
    "logits": logits,
    "representable": lambda size: representable(size, "float32"),
    "sampling_parameters": sampling_parameters,
    "max_vocab_size": lambda size: conditional_tables(max_vocab_size=size),
    "min_vocab_size": lambda size: conditional_tables(min_vocab_size=size),
    "max_num_draft_tokens": lambda size: conditional_tables(max_num_draft_tokens=size),
    "min_num_draft_tokens": lambda size: conditional_tables(min_num_draft_tokens=size),
}
"""What takes a size, by name."""


@pytest.mark.parametrize("wrong", ["3", [], None, 2.5, float("nan"), True, np.True_, np.float64(2), {}], ids=repr)
@pytest.mark.parametrize("name", SIZED)
def test_what_is_no_size_is_refused(name: str, wrong: Any) -> None:
    """A size is an integer: text, lists, floats and bools are refused in one line, and None without a default."""
    if wrong is None and name in ("pairs", "float_pairs"):
        SIZED[name](wrong)
        return
    with pytest.raises(ConfigError, match=r"^expected \w+ to be an integer from \d+ to \d+, got [^\n]+$"):
        SIZED[name](wrong)


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
@pytest.mark.parametrize("name", SIZED)
def test_integers_of_numpy_are_sizes(name: str, kind: type) -> None:
    """An integer of NumPy means what the same int means: the simplest example is the same."""
    ours, theirs = (find(SIZED[name](size), lambda drawn: True, settings=search) for size in (2, kind(2)))
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("wrong", [257, 100_000, 2**31, 10**5000], ids=["257", "100000", "2**31", "10**5000"])
@pytest.mark.parametrize(
    "name", ["distributions", "pairs", "float_pairs", "logits", "representable", "max_vocab_size", "min_vocab_size"]
)
def test_too_many_tokens_are_refused(name: str, wrong: int) -> None:
    """Rows of more tokens than can be drawn are refused before anything is built, with what to do instead."""
    with pytest.raises(ConfigError, match=r"got .*; for more tokens draw a seed, and make the rows from it by NumPy$"):
        SIZED[name](wrong)


@pytest.mark.parametrize(("size", "length"), [(10, 9), (256, 1024), (38, 1), (1, 250), (2, 8), (4, 4)])
def test_too_large_tables_are_refused(size: int, length: int) -> None:
    """A table that has too many rows to be drawn is refused when it is asked for, with what to do instead."""
    told = f"got max_vocab_size {size} and max_num_draft_tokens {length}, which make more; for larger ones draw a seed"
    with pytest.raises(ConfigError, match=told):
        conditional_tables(max_vocab_size=size, max_num_draft_tokens=length)


@pytest.mark.parametrize(
    "largest",
    [
        pairs(256),
        representable(256, "float32"),
        float_pairs(128),
        *(
            conditional_tables(
                min_vocab_size=size, max_vocab_size=size, min_num_draft_tokens=length, max_num_draft_tokens=length
            )
            for size, length in ((37, 1), (3, 5), (1, 249))
        ),
    ],
    ids=["pairs", "representable", "float_pairs", "wide", "deep", "long"],
)
def test_the_largest_examples_are_drawn(largest: SearchStrategy[object]) -> None:
    """What is not refused does come: no health check of Hypothesis fails at the largest sizes."""
    drawn = 0

    @settings(reproducible, max_examples=15, phases=[Phase.generate])
    @given(largest)
    def count(example: object) -> None:  # noqa: ARG001 - that it came is all
        nonlocal drawn
        drawn += 1

    count()
    assert drawn == 15


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


@pytest.mark.parametrize("kind", ["dense", "sparse", "one_hot", "tied", "zipf", "tailed"])
def test_a_kind_of_row_is_what_it_says(kind: str) -> None:
    """Every row of a kind has what the kind promises, and the simplest one is as simple as that allows."""
    holds: dict[str, Callable[[Row], bool]] = {
        "dense": lambda row: support(row) == {0, 1, 2},
        "sparse": lambda row: 1 <= len(support(row)) <= 3,
        "one_hot": lambda row: len(support(row)) == 1,
        "tied": lambda row: len({p for p in row if p}) == 1,
        "zipf": lambda row: row[0] in (2 * row[1], 4 * row[1]) and row[0] in (3 * row[2], 9 * row[2]),
        "tailed": lambda row: sorted(row)[1] < Fraction(1, 2**22) and len(support(row)) == 3,
    }

    @reproducible
    @given(distributions(3, kind=kind))
    def hold(row: Row) -> None:
        assert sum(row) == 1
        assert holds[kind](row)

    hold()
    if kind == "dense":
        assert find(distributions(2, kind=kind), lambda row: True, settings=reproducible) == SIMPLEST[0]


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        ("independent", lambda p, q: support(p) == support(q) == {0, 1, 2}),
        ("shaped", lambda p, q: sum(p) == sum(q) == 1),
        ("equal", lambda p, q: p == q),
        ("near_equal", lambda p, q: sum(abs(a - b) for a, b in zip(p, q, strict=True)) <= Fraction(2, 10)),
        ("permuted", lambda p, q: sorted(p) == sorted(q)),
        ("mirrored", lambda p, q: p == q[::-1]),
        ("disjoint", lambda p, q: not support(p) & support(q)),
        ("target_within", lambda p, q: support(p) < support(q)),
        ("draft_within", lambda p, q: support(p) > support(q)),
    ],
)
def test_a_kind_of_pair_is_what_it_says(kind: str, holds: Callable[[Row, Row], bool]) -> None:
    """Every pair of a kind has what the kind promises; of the ones that differ, not all are the same."""
    seen: set[tuple[Row, Row]] = set()

    @reproducible
    @given(pairs(3, kind=kind))
    def hold(pair: tuple[Row, Row]) -> None:
        assert [sum(row) for row in pair] == [1, 1]
        assert holds(*pair)
        seen.add(pair)

    hold()
    assert len(seen) > 20
    assert any(p != q for p, q in seen) == (kind != "equal")


def test_what_shows_something_shrinks_to_the_two_token_example() -> None:
    """The simplest example of a target and a draft that differ is (3/5, 2/5) and (4/5, 1/5), in every strategy."""

    def differ(pair: tuple[Row, Row]) -> bool:
        return pair[0] != pair[1]

    assert find(pairs(), differ, settings=reproducible) == SIMPLEST
    assert find(pairs(2), differ, settings=reproducible) == SIMPLEST
    assert find(pairs(kind="independent"), differ, settings=reproducible) == SIMPLEST
    tables = conditional_tables(min_num_draft_tokens=1, max_num_draft_tokens=1)
    table = find(tables, lambda case: differ((case.target_row(()), case.draft_row(()))), settings=reproducible)
    assert (table.target_row(()), table.draft_row(())) == SIMPLEST
    floats = find(float_pairs(), lambda pair: bool((pair[0] != pair[1]).any()), settings=reproducible)
    assert [row.round(12).tolist() for row in floats] == [[0.6, 0.4], [0.8, 0.2]]


def test_a_fault_shrinks_to_the_two_token_example() -> None:
    """The simplest table on which the naive redraw is lossy is that example, one token drafted, without context."""

    def lossy(case: Case) -> bool:
        if not case.num_draft_tokens:
            return False
        outcomes = CATALOGUE["K02"].exact_law(case.target_row, case.draft_row, case.num_draft_tokens)
        return completed_law(outcomes, case.target_row, 1) != target_law(case.target_row, 1)

    case = find(conditional_tables(), lossy, settings=reproducible)
    assert case.num_draft_tokens == 1
    assert (case.target_row(()), case.draft_row(())) == SIMPLEST
    assert {case.target_row((x,)) for x in range(2)} == {SIMPLEST[0]}


@reproducible
@given(conditional_tables(min_vocab_size=2, max_vocab_size=3, min_num_draft_tokens=1, max_num_draft_tokens=1))
def test_tables_keep_their_smallest_sizes(case: Case) -> None:
    """No table has fewer tokens or drafted tokens than asked for, or more."""
    assert case.vocab_size in (2, 3)
    assert case.num_draft_tokens == 1


@pytest.mark.parametrize("kind", [None, "sparse", "tailed"])
def test_logits_are_logarithms_of_a_row(kind: str | None) -> None:
    """Logits have a finite value, -inf exactly where the row is 0, and give the row back by softmax."""
    infinite = 0

    @reproducible
    @given(logits(3, kind=kind))
    def hold(row: np.ndarray) -> None:
        nonlocal infinite
        weights = np.exp(row - row.max())
        law = weights / weights.sum()
        assert np.isfinite(row).any()
        assert not np.isnan(row).any()
        assert abs(law.sum() - 1) < 1e-12
        infinite += int(np.isinf(row).any())

    hold()
    assert (infinite > 0) == (kind != "tailed")


@pytest.mark.parametrize(("dtype", "bits"), [("float64", 53), ("float32", 24), ("float16", 11), ("bfloat16", 8)])
def test_uniforms_lie_on_the_grid_with_its_end_points(dtype: str, bits: int) -> None:
    """Every uniform is a multiple of 2**-bits below 1, and both ends come."""
    seen: set[float] = set()

    @reproducible
    @given(uniforms(dtype))
    def hold(u: float) -> None:
        assert 0 <= u < 1
        assert (Fraction(u) * 2**bits).denominator == 1
        seen.add(u)

    hold()
    assert {0.0, 1 - 2.0**-bits} <= seen
    assert len(seen) > 20


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_representable_rows_are_not_rounded(dtype: str) -> None:
    """A row of a float type is the same after a cast to that type, and still sums to exactly 1."""

    @reproducible
    @given(representable(4, dtype))
    def hold(row: Row) -> None:
        assert sum(row) == 1
        assert [Fraction(float(x)) for x in np.array(row, dtype=dtype)] == list(row)

    hold()


@reproducible
@given(representable(4, "bfloat16"))
def test_representable_rows_of_bfloat16_have_eight_bits(row: Row) -> None:
    """What NumPy cannot cast: every probability is an odd number of at most eight bits times a power of two."""
    assert sum(row) == 1
    assert all(x.numerator < 2**8 and x.denominator <= 2**8 for x in row)

"""A case holds exactly the rows it was given, numbered as its prefixes are, and refuses in one line what is no case."""

import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from specverify.cases import MAX_VOCAB_SIZE, Case, Prefix
from specverify.errors import ConfigError
from specverify.rows import MAX_DRAFT_TOKENS

HALF = ["1/2", "1/2"]
SIZE = 3


def rational(prefix: Prefix, shift: int) -> list[Fraction]:
    """Give a row of three fractions that no other prefix has."""
    weights = [1 + token + 5 * sum(x * 4**i for i, x in enumerate((*prefix, shift, len(prefix)))) for token in range(3)]
    weights[(sum(prefix) + shift) % 3] += 2
    return [Fraction(weight, sum(weights)) for weight in weights]


@pytest.fixture(scope="module")
def rows() -> tuple[dict[Prefix, list[Fraction]], dict[Prefix, list[Fraction]]]:
    """Make a target and a draft of three tokens and two drafts whose rows all differ."""
    prefixes = [prefix for length in range(3) for prefix in product(range(SIZE), repeat=length)]
    target, draft = ({prefix: rational(prefix, shift) for prefix in prefixes} for shift in (0, 2))
    assert len({tuple(row) for row in target.values()}) == len(prefixes)
    return target, draft


@pytest.fixture(scope="module")
def table(rows: tuple[Any, Any]) -> Case:
    """Make the contextual case of these rows."""
    return Case.from_table("table", *rows, num_draft_tokens=2)


# --- what a case holds -----------------------------------------------------------------------------------------------


def test_a_table_gives_back_every_row_as_fractions(rows: tuple[Any, Any], table: Case) -> None:
    """Every prefix has its own row, exact, and the float arrays are those fractions rounded once."""
    for side, model, get in ((0, table.target, table.target_row), (1, table.draft, table.draft_row)):
        for length, level in enumerate(model):
            for number, prefix in enumerate(product(range(SIZE), repeat=length)):
                assert get(prefix) == tuple(rows[side][prefix])
                assert level[number].tolist() == [float(x) for x in rows[side][prefix]]
    assert (table.exact, table.contextual, table.vocab_size, table.num_draft_tokens) == (True, True, 3, 2)
    assert [level.shape for level in table.target] == [(1, 3), (3, 3), (9, 3)]
    assert [level.shape for level in table.draft] == [(1, 3), (3, 3)]


def test_rows_are_numbered_as_the_prefixes_are(table: Case) -> None:
    """row_index counts prefixes in the order of itertools.product, for any leading shape."""
    for length in range(3):
        prefixes = np.array(list(product(range(SIZE), repeat=length)), dtype=np.int64).reshape(3**length, length)
        assert table.row_index(prefixes).tolist() == list(range(3**length))
    assert table.row_index(np.array([[[1, 2], [0, 1]], [[2, 2], [0, 0]]])).tolist() == [[5, 1], [8, 0]]


def test_without_context_every_prefix_has_row_zero() -> None:
    """A context-free case ignores the prefix, and has one row a position."""
    case = Case.from_rows("c", HALF, ["1/4", "3/4"], num_draft_tokens=2)
    assert not case.contextual
    assert case.row_index(np.array([[1, 1], [0, 1]])).tolist() == [0, 0]
    assert [level.shape for level in (*case.target, *case.draft)] == [(1, 2)] * 5
    assert case.target_row((1, 0)) == case.target_row(()) == (Fraction(1, 2), Fraction(1, 2))


def test_one_row_serves_all_positions_and_many_rows_one_each() -> None:
    """A single row is repeated; a list of rows is taken position by position, also as a two-dimensional array."""
    first, second, third = ["1/2", "1/2"], ["1/3", "2/3"], ["1/5", "4/5"]
    case = Case.from_rows("many", [first, second, third], [second, third], num_draft_tokens=2)
    assert [case.target_row((0,) * i)[0] for i in range(3)] == [Fraction(1, 2), Fraction(1, 3), Fraction(1, 5)]
    assert [case.draft_row((0,) * i)[0] for i in range(2)] == [Fraction(1, 3), Fraction(1, 5)]
    floats = np.array([[0.5, 0.5], [0.25, 0.75]])
    case = Case.from_rows("array", floats, floats[0], num_draft_tokens=1)
    assert [level.tolist() for level in case.target] == [[[0.5, 0.5]], [[0.25, 0.75]]]
    assert case.draft[0].tolist() == [[0.5, 0.5]]


def test_one_float_makes_the_whole_case_a_float_case() -> None:
    """Integers, fractions and their strings are exact; a float anywhere leaves no fractions."""
    assert Case.from_rows("c", [1, Fraction(0)], ["1", "0.0"], num_draft_tokens=1).exact
    mixed = Case.from_rows("c", HALF, [0.5, "1/2"], num_draft_tokens=1)
    assert not mixed.exact
    assert mixed.target_row(()) == (0.5, 0.5)
    assert not Case.from_rows("c", HALF, np.array([1, 0]), num_draft_tokens=1).exact


def test_nothing_drafted_is_a_case() -> None:
    """With no drafted token there is one target row and no draft row, from rows or from a table."""
    for case in (
        Case.from_rows("c", HALF, [], num_draft_tokens=0),
        Case.from_rows("c", HALF, HALF, num_draft_tokens=0),
        Case.from_table("c", {(): HALF}, {}, num_draft_tokens=0),
    ):
        assert (len(case.target), case.draft, case.num_draft_tokens, case.contextual) == (1, (), 0, False)
        assert case.exact


def test_arrays_are_read_only(table: Case) -> None:
    """Nobody can change a case, nor one made from it."""
    source = np.array([0.5, 0.5])
    case = Case.from_rows("c", source, source, num_draft_tokens=1)
    source[:] = [1.0, 0.0]
    assert case.target[0].tolist() == [[0.5, 0.5]]
    for one in (case, table, table.permuted([2, 0, 1], "p"), table.replace_rows(table.target, table.draft)):
        assert not any(level.flags.writeable for level in (*one.target, *one.draft))


def test_replaced_rows_are_floats_and_keep_the_rest() -> None:
    """A case with other rows forgets its fractions, and keeps its name, description and raggedness."""
    case = Case.from_rows("c", HALF, HALF, num_draft_tokens=1, description="why", ragged=True)
    other = case.replace_rows([np.array([[0.25, 0.75]])] * 2, [np.array([[1.0, 0.0]])])
    assert (other.name, other.description, other.ragged, other.exact) == ("c", "why", True, False)
    assert other.target_row((0,)) == (0.25, 0.75)
    assert other.draft_row(()) == (1.0, 0.0)
    assert case.exact, "the original stays as it was"


# --- renamed tokens --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_permuting_renames_tokens_in_prefixes_and_rows(table: Case, order: tuple[int, ...]) -> None:
    """Token v of the new case behaves as token order[v] of the old one, wherever it stands."""
    renamed = table.permuted(order, "renamed")
    assert (renamed.name, renamed.exact) == ("renamed", True)
    for length in range(3):
        for number, prefix in enumerate(product(range(3), repeat=length)):
            old = tuple(order[x] for x in prefix)
            assert renamed.target_row(prefix) == tuple(table.target_row(old)[order[v]] for v in range(3))
            assert renamed.target[length][number].tolist() == [float(x) for x in renamed.target_row(prefix)]
            if length < 2:
                assert renamed.draft_row(prefix) == tuple(table.draft_row(old)[order[v]] for v in range(3))


def test_permuting_a_context_free_case_renames_every_position() -> None:
    """Each position keeps its own row, reordered; NumPy ids will do."""
    case = Case.from_rows("c", [["1/2", "1/3", "1/6"], ["1", "0", "0"]], ["1/4", "0", "3/4"], num_draft_tokens=1)
    renamed = case.permuted(np.array([2, 0, 1]).tolist(), "r")
    assert renamed.target_row(()) == (Fraction(1, 6), Fraction(1, 2), Fraction(1, 3))
    assert renamed.target_row((0,)) == (0, 1, 0)
    assert renamed.draft_row(()) == (Fraction(3, 4), Fraction(1, 4), 0)


def test_permuting_there_and_back_changes_nothing(table: Case) -> None:
    """The inverse order undoes a renaming."""
    back = table.permuted([1, 2, 0], "there").permuted([2, 0, 1], "table")
    for one, other in zip((*back.target, *back.draft), (*table.target, *table.draft), strict=True):
        assert one.tolist() == other.tolist()


# --- the largest vocabulary ------------------------------------------------------------------------------------------


def test_the_largest_vocabulary_fits_in_flat_memory() -> None:
    """262144 tokens cost a few copies of the rows, and keep their law."""
    weights = 1.0 / np.arange(1, MAX_VOCAB_SIZE + 1)
    row = weights / weights.sum()
    tracemalloc.start()
    try:
        case = Case.from_rows("large", row, row[::-1], num_draft_tokens=1)
        renamed = case.permuted(range(MAX_VOCAB_SIZE)[::-1], "reversed")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert case.vocab_size == MAX_VOCAB_SIZE == 262144
    assert np.array_equal(case.target[1][0], row)
    assert np.array_equal(renamed.target[0][0], case.draft[0][0])
    assert peak < 24 * row.nbytes, "a table by prefix, or a matrix, would be far more"


# --- refusals --------------------------------------------------------------------------------------------------------


def from_rows(target: Any = HALF, draft: Any = HALF, num_draft_tokens: Any = 1) -> Callable[[], Case]:
    """Make a case later."""
    return lambda: Case.from_rows("bad", target, draft, num_draft_tokens=num_draft_tokens)


def from_table(target: Any, draft: Any = None, num_draft_tokens: Any = 1) -> Callable[[], Case]:
    """Make a case from a table later."""
    rows = {(): HALF, (0,): HALF, (1,): HALF}
    return lambda: Case.from_table("bad", target, rows if draft is None else draft, num_draft_tokens=num_draft_tokens)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "sum": (from_rows(["1/2", "1/3"]), "expected target row 0 of position 0 to sum to 1, got 5/6; normalise it"),
    "float sum": (from_rows([0.5, 0.5], [0.5, 0.4]), "draft row 0 of position 0 to sum to 1, got 0.9; normalise it"),
    "exact sums take no tolerance": (from_rows(["1/2", "4999999999999/10000000000000"]), "to sum to 1"),
    "infinite": (from_rows([np.inf, 0.0]), "to sum to 1, got inf"),
    "negative": (from_rows([1.5, -0.5]), "probabilities >= 0 in target row 0 of position 0, got -0.5 at token 1"),
    "negative fraction": (from_rows(HALF, ["3/2", "-1/2"]), "in draft row 0 of position 0, got -1/2 at token 1"),
    "NaN": (from_rows([np.nan, 1.0]), "in target row 0 of position 0, got nan at token 0"),
    "a later row": (
        from_table({(): HALF, (0,): HALF, (1,): ["1/2", "1/3"]}),
        "expected target row 1 of position 1 to sum to 1, got 5/6",
    ),
    "second position": (from_rows([HALF, ["1/2", "1/4"]]), "expected target row 0 of position 1 to sum to 1, got 3/4"),
    "lengths of rows": (from_rows(HALF, ["1/3"] * 3), "2 tokens in every row, got 3 in draft row 0 of position 0"),
    "number of rows": (from_rows(HALF, [HALF] * 3), "expected one draft row or 1 of them, got 3"),
    "number of target rows": (from_rows([HALF] * 3), "expected one target row or 2 of them, got 3"),
    "three dimensions": (from_rows(np.full((2, 2, 2), 0.5)), "expected numbers in target row 0"),
    "ragged": (from_rows([[[1], [1, 2]], [[1], [1]]]), "expected numbers in target row 0"),
    "row and number": (from_rows([HALF, 0.5]), "expected a target row as a list of probabilities, got 0.5"),
    "number and row": (from_rows([0.5, [0.5]]), "expected numbers in target row 0"),
    "no tokens": (from_rows([]), "expected a target row of at least one token, got none"),
    "no draft": (from_rows(HALF, []), "expected a draft row of at least one token, got none"),
    "empty rows": (from_rows([[], []]), "expected 1 to 262144 tokens, got 0"),
    "too many tokens": (from_rows(np.full(262145, 1 / 262145), [0.5]), "expected 1 to 262144 tokens, got 262145"),
    "None": (from_rows(None), "expected a target row as a list of probabilities, got None"),
    "draft None": (from_rows(HALF, None, 0), "expected a draft row as a list of probabilities, got None"),
    "number": (from_rows(0.5), "expected a target row as a list of probabilities, got 0.5"),
    "scalar array": (from_rows(np.array(0.5)), "expected a target row as a list of probabilities, got array(0.5)"),
    "by token": (from_rows({0: 0.5, 1: 0.5}), "as a list of probabilities, got {0: 0.5, 1: 0.5}"),
    "set": (from_rows({0.5}), "as a list of probabilities, got {0.5}"),
    "string": (from_rows("10", "01"), "as a list of probabilities, got '10'"),
    "bytes": (from_rows(b"\x01\x00"), "as a list of probabilities, got b"),
    "generator": (from_rows(x for x in HALF), "as a list of probabilities, got <generator"),
    "words": (from_rows(["half", "half"]), "position 0, got ValueError: Invalid literal for Fraction: 'half'"),
    "None inside": (from_rows([None, 1]), "expected numbers in target row 0"),
    "complex": (from_rows(np.array([0.5 + 1j, 0.5])), "expected numbers in target row 0"),
    "division by zero": (from_rows(["1/0", "1"]), "expected numbers in target row 0"),
    "too large for a float": (from_rows([10**400, 0.5]), "expected numbers in target row 0"),
    "too long to print": (from_rows([10**5000, 1]), "expected numbers in target row 0"),
    "negative gamma": (from_rows(num_draft_tokens=-1), "num_draft_tokens to be an integer from 0 to 1024, got -1"),
    "float gamma": (from_rows(num_draft_tokens=1.0), "num_draft_tokens to be an integer from 0 to 1024, got 1.0"),
    "bool gamma": (from_rows(num_draft_tokens=True), "num_draft_tokens to be an integer from 0 to 1024, got True"),
    "no gamma": (from_rows(num_draft_tokens=None), "num_draft_tokens to be an integer from 0 to 1024, got None"),
    "huge gamma": (from_rows(num_draft_tokens=10**12), "num_draft_tokens to be an integer from 0 to 1024, got 1000000"),
    "missing prefix": (from_table({(): HALF, (0,): HALF}), "expected a target row for prefix (1,), got none"),
    "missing draft prefix": (from_table({(): HALF, (0,): HALF, (1,): HALF}, {}), "expected a draft row for prefix ()"),
    "missing root": (from_table({(0,): HALF}), "expected a target row for prefix (), got none"),
    "ids for prefixes": (from_table({(): HALF, 0: HALF, 1: HALF}), "expected a target row for prefix (0,), got none"),
    "no table": (from_table(None), "expected target rows in a dict by prefix, got None"),
    "list for a table": (from_table([HALF]), "expected target rows in a dict by prefix, got [['1/2', '1/2']]"),
    "draft is no table": (from_table({(): HALF, (0,): HALF, (1,): HALF}, 3), "draft rows in a dict by prefix, got 3"),
    "table of numbers": (from_table({(): 0.5}), "expected a target row as a list of probabilities, got 0.5"),
    "table of dicts": (from_table({(): {0: 0.5, 1: 0.5}}), "expected a target row as a list of probabilities, got {0"),
    "rows of other lengths": (
        from_table({(): HALF, (0,): ["1"], (1,): HALF}),
        "2 tokens in every row, got 1 in target row 0 of position 1",
    ),
    "no tokens in a table": (from_table({(): []}), "expected 1 to 262144 tokens, got 0"),
    "large table": (
        from_table({(): [1 / 64] * 64}, None, 4),
        "at most 4000000 cells, got V=64 with num_draft_tok",
    ),
    "table with a huge gamma": (from_table({(): [1]}, None, 10**12), "num_draft_tokens to be an integer from 0 to"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_case_is_refused_in_one_clear_line(what: str) -> None:
    """The message names the case, what was expected and what was got, in one short line."""
    make, message = REFUSED[what]
    with pytest.raises(ConfigError) as raised:
        make()
    text = str(raised.value)
    assert text.startswith("case 'bad': expected ")
    assert message in text
    assert "\n" not in text
    assert len(text) < 200


ORDERS: dict[str, Any] = {
    "twice": [0, 0, 1],
    "short": [0, 1],
    "none": None,
    "floats": [1.0, 0.0, 2.0],
    "mixed": [None, 0, 1],
    "matrix": np.eye(3, dtype=int),
    "long": list(range(10000)),
}


@pytest.mark.parametrize("what", ORDERS)
def test_what_is_no_order_is_refused_in_one_line(table: Case, what: str) -> None:
    """A renaming needs every id once."""
    with pytest.raises(ConfigError, match=r"^case 'r': expected each of the ids 0..2 once, got .{1,90}$"):
        table.permuted(ORDERS[what], "r")


@pytest.mark.parametrize("prefix", [(0, 0, 0), (3,), (-1,), (0, 3)])
def test_a_prefix_outside_the_case_is_refused(table: Case, prefix: Prefix) -> None:
    """No row is given for a token outside the vocabulary, least of all that of another prefix."""
    with pytest.raises(ConfigError, match=r"^case 'table': expected a prefix of fewer than 3 tokens, each in 0..2"):
        table.target_row(prefix)
    with pytest.raises(ConfigError, match=r"fewer than 2 tokens"):
        table.draft_row((0, 0))


def test_the_longest_draft_is_accepted() -> None:
    """The limit itself is inside."""
    assert Case.from_rows("c", [1], [1], num_draft_tokens=MAX_DRAFT_TOKENS).num_draft_tokens == 1024


def test_rounding_of_float_rows_is_forgiven() -> None:
    """Float rows may miss 1 by up to a billionth, not by more."""
    Case.from_rows("c", [0.5, 0.5 + 9e-10], HALF, num_draft_tokens=1)
    with pytest.raises(ConfigError, match="sum to 1"):
        Case.from_rows("c", [0.5, 0.5 + 2e-9], HALF, num_draft_tokens=1)


@pytest.mark.parametrize("name", [5, None, b"x", "", " "])
def test_a_case_has_a_name_and_its_description_is_text(name: Any) -> None:
    """What cannot stand in a report is refused, however the case is made."""
    with pytest.raises(ConfigError, match="expected the name of a case as text, got "):
        Case.from_rows(name, HALF, HALF, num_draft_tokens=1)
    case = Case.from_rows("c", HALF, HALF, num_draft_tokens=1)
    with pytest.raises(ConfigError, match="expected the name of a case as text, got "):
        case.permuted([1, 0], name)
    with pytest.raises(ConfigError, match="expected a description as text, got 4; write one line"):
        Case.from_rows("c", HALF, HALF, num_draft_tokens=1, description=4)  # type: ignore[arg-type]


def test_any_integer_is_a_length() -> None:
    """The length of a draft may be an integer of NumPy."""
    assert Case.from_rows("c", HALF, HALF, num_draft_tokens=np.int64(2)).num_draft_tokens == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        (None, None),
        ([[0.5, 0.5]], []),
        ((np.array([[0.5, 0.6]]),), ()),
        ((np.array([[0.5, 0.5]], dtype=np.float32),), ()),
        ((np.array([[1.5, -0.5]]),), ()),
        ((np.array([0.5, 0.5]),), ()),
        ((np.array([[0.5, 0.5]]),), (np.array([[0.5, 0.5]]),)),
    ],
)
def test_what_is_no_case_cannot_be_made_by_hand(target: Any, draft: Any) -> None:
    """The class itself refuses what its builders would have refused."""
    with pytest.raises(ConfigError, match=r"use Case\.from_rows"):
        Case("x", target, draft)


@pytest.mark.parametrize("text", ["1e-99999999", "1E+99999999", "1e-99_999_999", "0." + "0" * 10_000 + "1"])
def test_a_text_of_endless_digits_is_refused(text: str) -> None:
    """A number that would fill the memory is refused at once, written out or with an exponent."""
    for rest in ("1/2", 0.5):
        with pytest.raises(ConfigError, match="more than 400 digits"):
            Case.from_rows("x", [text, rest], [], num_draft_tokens=0)

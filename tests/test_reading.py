"""What a verifier returned is read as the contract says, and anything else is one clear fault with its first row."""
# ruff: noqa: ARG005 - a stub sampler is declared by its parameter names, whether it reads them or not

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from specverify.calling import Reply, call
from specverify.cases import Case
from specverify.contract import verifier
from specverify.handing import Handed
from specverify.reading import OutputFault

DRAFT = np.array([[0, 1], [2, 0], [1, 2]])
FULL = np.array([2, 2, 2])
Sampler = Callable[..., Any]


def returned(result: Any, draft: Any = DRAFT, lengths: Any = FULL, size: int = 3) -> Reply:
    """Give the reply to a sampler that returns this."""
    case = Case.from_rows("c", np.full(size, 1 / size), np.full(size, 1 / size), num_draft_tokens=draft.shape[1])
    stub = verifier(lambda draft_tokens, num_draft_tokens, seed: result)
    return call(stub, Handed(case, stub), draft, lengths, 0)


@pytest.mark.parametrize("make", [lambda rows: rows, np.array, lambda rows: np.array(rows, dtype=np.uint8) % 255])
def test_tokens_form(make: Sampler) -> None:
    """The last token is the replacement or bonus, what precedes it the accepted prefix."""
    rows = [[0, 1, 2], [2, 2, 1], [0, 0, 1]]
    draft = np.array([[0, 1], [2, 2], [0, 0]])
    reply = returned(make(rows), draft)
    assert (reply.num_accepted.tolist(), reply.next_token.tolist()) == ([2, 2, 2], [2, 1, 1])
    assert reply.num_accepted.dtype == reply.next_token.dtype == np.int64


def test_tokens_form_of_stopped_rows() -> None:
    """The last token is never taken for an accepted one: it may be a replacement that equals the draft."""
    draft = np.array([[0, 1]] * 6)
    rows = [[2, -1, -1], [0, 2, -1], [0, 1, -1], [-1, -1, -1], [0, -1, -1], [0, 1, 1]]
    reply = returned(rows, draft, np.full(6, 2))
    assert reply.num_accepted.tolist() == [0, 1, 1, 0, 0, 2]
    assert reply.next_token.tolist() == [2, 2, 1, -1, 0, 1]


def test_fewer_columns_read_as_padding() -> None:
    """A narrower array, down to no column at all, is padded with -1."""
    assert returned([[2], [1], [0]]).next_token.tolist() == [2, 1, 0]
    assert returned([[], [], []]).num_accepted.tolist() == [0, 0, 0]


def test_ragged_rows_are_read_by_their_own_length() -> None:
    """A row of its own length 0 or 1 has its bonus there."""
    draft, lengths = np.array([[-1, -1], [2, -1], [2, -1], [-1, -1]]), np.array([0, 1, 1, 0])
    reply = returned([[1, -1, -1], [2, 0, -1], [2, -1, -1], [-1, -1, -1]], draft, lengths)
    assert reply.num_accepted.tolist() == [0, 1, 0, 0]
    assert reply.next_token.tolist() == [1, 0, 2, -1]


@pytest.mark.parametrize(
    "pair", [([0, 2, 1], [1, -1, 2]), (np.array([[0], [2], [1]]), np.array([1, -1, 2], dtype=np.int8))]
)
def test_pair_form(pair: Any) -> None:
    """The pair is read from lists and arrays, with or without a last axis of length 1."""
    reply = returned(pair)
    assert (reply.num_accepted.tolist(), reply.next_token.tolist()) == ([0, 2, 1], [1, -1, 2])


def test_no_draft_and_one_token() -> None:
    """With gamma = 0 and V = 1 either form is read."""
    draft, lengths = np.zeros((2, 0), dtype=np.int64), np.zeros(2, dtype=np.int64)
    assert returned([[0], [0]], draft, lengths, 1).next_token.tolist() == [0, 0]
    assert returned(([0, 0], [0, -1]), draft, lengths, 1).next_token.tolist() == [0, -1]


class Unreadable:
    """Something that fails when NumPy reads it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Fail."""
        raise self.error


GOOD = [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
MASKED: Any = np.ma.masked_equal(np.array(GOOD), 2)
FAULTS = {
    "none": (None, "got None for tokens, expected tokens .*; the return statement may be missing$"),
    "floats": (np.array(GOOD, dtype=float), r"got floats such as 0\.0 for tokens, expected integers"),
    "float list": ([[0.5, 1, 2]] * 3, r"floats such as 0\.5"),
    "nan": (np.full((3, 3), np.nan), "got NaN for tokens"),
    "bool": (np.ones((3, 3), dtype=bool), "booleans such as True"),
    "complex": (np.array(GOOD) * 1j, "complex numbers such as 0j"),
    "strings": ([["a", "b", "c"]] * 3, "strings such as 'a'"),
    "string": ("012", "strings such as '012'"),
    "objects": (np.array([[None] * 3] * 3), "ndarray of dtype object holding NoneType"),
    "object integers": (np.array(GOOD, dtype=object), "got ndarray of dtype object holding int for tokens"),
    "none inside": ([[0, None, 1]] * 3, "got list of dtype object holding NoneType"),
    "huge": ([[2**70, 0, 0]] * 3, "got integers beyond int64 for tokens"),
    "huge negative": ([[-(2**70), 0, 0]] * 3, "got integers beyond int64 for tokens"),
    "huge and negative": ([[2**63, -1, 0]] * 3, "got integers beyond int64 for tokens"),
    "huge objects": (np.array([[2**70, 0, 0]] * 3), "got integers beyond int64 for tokens"),
    "too long to print": ([[10**5000, 0, 0]] * 3, "got integers beyond int64 for tokens"),
    "masked": (MASKED, "got a masked array for tokens, .*; fill what is masked with -1$"),
    "masked rows": (list(MASKED), "got a masked array for tokens"),
    "masked pair": ((MASKED[:, 0], [0] * 3), "got a masked array for num_accepted"),
    "array of two lines": (
        Unreadable(ValueError("two\nlines\x1b")),
        r"no array \(ValueError: two lines\\x1b\), expected",
    ),
    "array that exits": (Unreadable(SystemExit(3)), r"no array \(SystemExit: 3\), expected"),
    "long string": ("x" * 9999, r"strings such as 'x{99}\.\.\. \(10,001 characters\) for tokens"),
    "uint64": (
        np.array([[2**64 - 1, 1, 2]] * 3, dtype=np.uint64),
        r"row 0 .* got tokens \[18446744073709551615, 1, 2\]",
    ),
    "dict": ({"tokens": GOOD}, "got dict for tokens"),
    "generator": ((row for row in GOOD), "got generator for tokens"),
    "ragged list": ([[0, 1, 2], [2], [1]], "got rows of different lengths for tokens, .*; pad shorter rows with -1$"),
    "rank 1": ([0, 1, 2], r"tokens of shape \[3\], expected \[3, at most 3\]"),
    "rank 3": ([GOOD], r"tokens of shape \[1, 3, 3\]"),
    "scalar": (3, r"tokens of shape \[\]"),
    "batch": (GOOD[:2], r"tokens of shape \[2, 3\]"),
    "columns": ([[0, 1, 2, -1]] * 3, r"tokens of shape \[3, 4\], expected \[3, at most 3\]"),
    "token V": (
        [GOOD[0], [2, 0, 3], GOOD[2]],
        r"row 1 \(draft_tokens \[2, 0\]\): got tokens \[2, 0, 3\], expected -1 to 2",
    ),
    "token -2": ([GOOD[0], GOOD[1], [1, -2, -1]], r"row 2 .* got tokens \[1, -2, -1\], expected -1 to 2"),
    "padding": ([GOOD[0], [2, -1, 1], GOOD[2]], r"row 1 .* got tokens \[2, -1, 1\], expected -1 only after"),
    "prefix": (
        [GOOD[0], GOOD[1], [0, 2, 0]],
        r"row 2 \(draft_tokens \[1, 2\]\): got tokens \[0, 2, 0\], expected every",
    ),
    "triple": (([0] * 3, [0] * 3, [0] * 3), "got a tuple of 3, expected tokens"),
    "one": (([0] * 3,), "got a tuple of 1"),
    "negative": (([0, -1, 0], [0] * 3), r"row 1 .* got num_accepted -1, expected 0 to 2, its draft length"),
    "too many": (([0, 0, 3], [0] * 3), r"row 2 .* got num_accepted 3, expected 0 to 2"),
    "next V": (([0] * 3, [0, 3, 0]), r"row 1 .* got next_token \[3\], expected -1 to 2"),
    "next -2": (([0] * 3, [0, 0, -2]), r"row 2 .* got next_token \[-2\]"),
    "next float": (([0] * 3, [0.0] * 3), "floats such as 0.0 for next_token"),
    "next none": (([0] * 3, None), "got None for next_token"),
    "lengths": (([0] * 3, [0] * 2), r"next_token of shape \[2\], expected \[3\]"),
    "swapped": ((GOOD, [0] * 3), r"num_accepted of shape \[3, 3\], expected \[3\]; a tuple is read as"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_the_contract_does_not_name_is_one_clear_fault(name: str) -> None:
    """Each wrong output gives one line: which row, what came back, what was expected."""
    result, message = FAULTS[name]
    with pytest.raises(OutputFault, match=message) as told:
        returned(result)
    assert "\n" not in told.value.message
    assert told.value.message[-1] not in ".?!"
    assert told.value.message == str(told.value)


def test_ragged_rows_have_their_own_limits() -> None:
    """A row of length 1 can accept one token and emit two."""
    draft, lengths = np.array([[2, -1]]), np.array([1])
    with pytest.raises(OutputFault, match="expected 0 to 1, its draft length"):
        returned(([2], [0]), draft, lengths)
    with pytest.raises(OutputFault, match="expected at most one token more than its draft has"):
        returned([[2, 0, 1]], draft, lengths)


def test_long_rows_are_shown_short() -> None:
    """A row of a long draft is cut in the message."""
    draft = np.zeros((1, 30), dtype=np.int64)
    with pytest.raises(OutputFault, match=r"got tokens \[0, 0, 0, 0, 0, 0, 0, 0, \.\.\.\], expected -1 to 2"):
        returned([[0] * 30 + [9]], draft, np.array([30]))

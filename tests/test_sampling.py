"""Drafts follow q and completions follow p, exactly: the draws are checked at chosen uniforms, not by sampling."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from played import Played, played, words_of  # noqa: F401  # a fixture

from specverify.arrays import FloatArray, IntArray
from specverify.cases import Case, Prefix, Row
from specverify.menu import menu
from specverify.sampling import CaseSampler
from specverify.trace import Trace

BY_NAME = {case.name: case for case in menu()}
LARGEST = 1 - 2.0**-53  # the largest uniform that a generator gives


pytestmark = pytest.mark.usefixtures("played")


class Given(Played):
    """A generator that plays given uniforms, one array a draw, and given lengths."""

    def __init__(self, *uniforms: FloatArray, lengths: IntArray | None = None) -> None:
        super().__init__(*map(words_of, uniforms), lengths=lengths)


def fractions(row: Row) -> list[Fraction]:
    """Give a row as fractions."""
    return [Fraction(x) for x in row]


def grid(row: Sequence[Fraction]) -> FloatArray:
    """Give the middles of equal parts of [0, 1), so many that each token owns a whole number of them."""
    parts = math.lcm(*(x.denominator for x in row))
    return (np.arange(parts) + 0.5) / parts


def due(row: Sequence[Fraction]) -> list[int]:
    """Give the tokens due on the grid: each as often as its probability says, in the order of ids."""
    parts = math.lcm(*(x.denominator for x in row))
    return [token for token, x in enumerate(row) for _ in range(int(x * parts))]


def inside(row: Sequence[Fraction], token: int) -> float:
    """Give the uniform in the middle of a token's part."""
    return float(sum(row[:token], Fraction(0)) + row[token] / 2)


EXACT = [case for case in menu() if case.exact and case.name != "tiny-ratio"]


@pytest.mark.parametrize("case", [case for case in EXACT if case.draft], ids=lambda case: case.name)
def test_drafts_follow_q_after_every_prefix(case: Case) -> None:
    """On a grid of uniforms each draft token comes exactly in its proportion, given any drafted prefix."""
    if case.ragged:
        case = Case.from_table(case.name, *_rows(case), num_draft_tokens=case.num_draft_tokens)
    prefixes = [(0,) * i for i in range(case.num_draft_tokens)]
    if case.contextual:
        prefixes = [s for i in range(case.num_draft_tokens) for s in product(range(case.vocab_size), repeat=i)]
    for prefix in prefixes:
        before = [fractions(case.draft_row(prefix[:i])) for i in range(len(prefix))]
        if not all(row[x] for row, x in zip(before, prefix, strict=True)):
            continue
        row = fractions(case.draft_row(prefix))
        points = grid(row)
        earlier = [np.full(len(points), inside(r, x)) for r, x in zip(before, prefix, strict=True)]
        later = [np.full(len(points), 0.5)] * (case.num_draft_tokens - len(prefix) - 1)
        drafts, lengths = CaseSampler(case).draft(len(points), Given(*earlier, points, *later))
        assert drafts[:, : len(prefix)].tolist() == [list(prefix)] * len(points)
        assert drafts[:, len(prefix)].tolist() == due(row)
        assert lengths.tolist() == [case.num_draft_tokens] * len(points)


def _rows(case: Case) -> tuple[dict[Prefix, Row], dict[Prefix, Row]]:
    prefixes = [s for i in range(case.num_draft_tokens + 1) for s in product(range(case.vocab_size), repeat=i)]
    target = {s: case.target_row(s) for s in prefixes}
    return target, {s: case.draft_row(s) for s in prefixes if len(s) < case.num_draft_tokens}


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case.name)
def test_completions_follow_p_after_every_prefix(case: Case) -> None:
    """What a block still owes is drawn from the target row of its own prefix, one token after another."""
    prefixes = [(0,) * i for i in range(case.num_draft_tokens + 1)]
    if case.contextual:
        prefixes = [s for i in range(case.num_draft_tokens + 1) for s in product(range(case.vocab_size), repeat=i)]
    width = case.num_draft_tokens + 1
    for prefix in prefixes:
        row = fractions(case.target_row(prefix))
        points = grid(row)
        n = len(points)
        drafts = np.tile([*prefix, *[0] * (width - 1 - len(prefix))], (n, 1)).astype(np.int64).reshape(n, width - 1)
        later = [np.full(n, 0.5)] * (width - len(prefix) - 1)
        full, stop, none = np.full(n, width - 1), np.full(n, len(prefix)), np.full(n, -1)
        trace = CaseSampler(case).complete(drafts, full, stop, none, Given(points, *later))
        assert trace.completed[:, : len(prefix)].tolist() == [list(prefix)] * n
        assert trace.completed[:, len(prefix)].tolist() == due(row)
        for block in trace.completed.tolist():
            for i in range(len(prefix) + 1, width):
                weights = fractions(case.target_row(tuple(block[:i])))
                sums = [sum(weights[: y + 1], Fraction(0)) for y in range(len(weights))]
                if Fraction(1, 2) not in sums:
                    assert block[i] == next(y for y, total in enumerate(sums) if total > Fraction(1, 2))


def test_a_token_starts_where_the_one_before_it_ends() -> None:
    """Parts are half open, [F(x - 1), F(x)), to the last bit; tokens of probability zero have none."""
    row = [0.0, 0.25, 0.0, 0.5, 0.25, 0.0]
    case = Case.from_rows("dyadic", row, row, num_draft_tokens=1)
    points = np.array([0.0, np.nextafter(0.25, 0), 0.25, np.nextafter(0.75, 0), 0.75, LARGEST])
    drafts, _ = CaseSampler(case).draft(6, Given(points))
    assert drafts[:, 0].tolist() == [1, 1, 3, 3, 4, 4]


def test_rows_that_miss_1_by_rounding_keep_their_proportions() -> None:
    """What a float row lacks or has too much is shared by all tokens, not given to the last."""
    for total in (1 - 9e-10, 1 + 9e-10):
        row = [total / 2, total / 2]
        drafts, _ = CaseSampler(Case.from_rows("c", row, row, num_draft_tokens=1)).draft(
            2, Given(np.array([0.5 - 1e-12, 0.5 + 1e-12]))
        )
        assert drafts[:, 0].tolist() == [0, 1]


@pytest.mark.parametrize("case", menu(), ids=lambda case: case.name)
def test_no_token_of_probability_zero_is_drawn_at_the_ends(case: Case) -> None:
    """The smallest and the largest uniform give a possible token, at every position and after every prefix."""
    rng = np.random.default_rng(4)
    width, n = case.num_draft_tokens + 1, 256
    for end in (0.0, 2.0**-53, LARGEST):
        for position in range(width):

            def uniforms(count: int, at: int = position, value: float = end) -> list[FloatArray]:
                return [np.full(n, value) if i == at else rng.random(n) for i in range(count)]

            lengths = np.full(n, width - 1)
            drafts, _ = CaseSampler(case).draft(n, Given(*uniforms(width - 1), lengths=lengths))
            for i, rows in enumerate(case.draft):
                assert (rows[case.row_index(drafts[:, :i]), drafts[:, i]] > 0).all()
            zero, none = np.zeros(n, dtype=np.int64), np.full(n, -1)
            blocks = CaseSampler(case).complete(drafts, lengths, zero, none, Given(*uniforms(width))).completed
            for i, rows in enumerate(case.target):
                assert (rows[case.row_index(blocks[:, :i]), blocks[:, i]] > 0).all()


def test_thresholds_of_the_largest_vocabulary_are_right_to_1e_11() -> None:
    """Every one of 262144 tokens is drawn from its own part of [0, 1), to within 1e-11 at both ends."""
    weights = 1.0 / np.arange(1, 262145)[::-1]
    row = weights / math.fsum(weights)
    ends = np.array(list(_exact_sums(row)))
    low, high = np.concatenate([[0.0], ends[:-1]]) + 1e-11, ends - 1e-11
    sampler = CaseSampler(Case.from_rows("large", row, row, num_draft_tokens=1))
    for points in (low, high):
        drafts, _ = sampler.draft(len(points), Given(points))
        assert np.array_equal(drafts[:, 0], np.arange(262144))


def _exact_sums(row: FloatArray) -> list[float]:
    """Give the running sums with an error of one rounding each, by keeping what every addition loses."""
    sums, total, lost = [], 0.0, 0.0
    for x in row.tolist():
        new = total + x
        lost += (total - new) + x if total >= x else (x - new) + total
        total = new
        sums.append(total + lost)
    return sums


def test_ragged_drafts_are_padded_beyond_their_own_length() -> None:
    """Each row has its own length, -1 beyond it, and the tokens before it are as if all were drawn."""
    case = BY_NAME["W637-ragged"]
    lengths = np.array([0, 1, 2, 2])
    uniforms = [np.array([0.3, 0.05, 0.9, 0.3]), np.array([0.2, 0.2, 0.2, 0.9])]
    drafts, got = CaseSampler(case).draft(4, Given(*uniforms, lengths=lengths))
    assert got.tolist() == [0, 1, 2, 2]
    assert drafts.tolist() == [[-1, -1], [0, -1], [2, 0], [1, 2]]


def test_all_lengths_of_a_ragged_case_occur() -> None:
    """Lengths are drawn from 0 to the full length; of 3000 each comes (none missing by chance: below 1e-500)."""
    _, lengths = CaseSampler(BY_NAME["W637-ragged"]).draft(3000, np.random.default_rng(2))
    assert set(lengths.tolist()) == {0, 1, 2}


def test_what_was_emitted_is_never_redrawn() -> None:
    """A completed block starts with the accepted prefix and the next token; only what is owed is drawn."""
    case = BY_NAME["W402"]
    drafts, two = np.array([[0, 1], [2, 0], [1, 1]]), np.full(3, 2)
    accepted, following = np.array([2, 0, 1]), np.array([2, 1, -1])
    # Owed: nothing in row 0, positions 1 and 2 in row 1 (after its replacement 1), likewise in row 2 (after draft 1).
    trace = CaseSampler(case).complete(drafts, two, accepted, following, Given(np.full(2, 0.1), np.full(2, 0.99)))
    assert trace.completed.tolist() == [[0, 1, 2], [1, 0, 2], [1, 0, 2]]
    assert trace.draft_tokens is drafts
    assert trace.next_token is following


def test_the_same_stream_gives_the_same_draws() -> None:
    """Drafts are a function of the generator's state alone."""
    sampler = CaseSampler(BY_NAME["W402"])
    one, other = (sampler.draft(100, np.random.default_rng(9))[0] for _ in range(2))
    assert np.array_equal(one, other)
    assert not np.array_equal(one, sampler.draft(100, np.random.default_rng(10))[0])


# --- traces ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def trace() -> Trace:
    """Make a trace of ragged rows: rejected, all accepted, no draft, nothing emitted at the stop."""
    return Trace(
        draft_tokens=np.array([[0, 1], [1, 0], [-1, -1], [2, -1], [2, 2]]),
        num_draft_tokens=np.array([2, 2, 0, 1, 2]),
        num_accepted=np.array([1, 2, 0, 0, 2]),
        next_token=np.array([2, 1, 0, 1, -1]),
        completed=np.zeros((5, 3), dtype=np.int64),
    )


def test_emitted_tokens_are_the_accepted_prefix_and_the_next_token(trace: Trace) -> None:
    """After them comes -1, also where no token was emitted at the stop."""
    assert trace.emitted().tolist() == [[0, 2, -1], [1, 0, 1], [0, -1, -1], [1, -1, -1], [2, 2, -1]]


def test_a_row_is_rejected_when_a_draft_was_left(trace: Trace) -> None:
    """A row without drafts, or with all of them accepted, is not."""
    assert trace.rejected.tolist() == [True, False, False, True, False]


def test_the_draft_at_the_stop_is_the_rejected_one(trace: Trace) -> None:
    """Where none was rejected there is none."""
    assert trace.drafted_at(trace.num_accepted).tolist() == [1, -1, -1, 2, -1]


def test_a_trace_without_drafts_is_fine() -> None:
    """With G = 0 everything is the bonus."""
    none = np.zeros((2, 0), dtype=np.int64)
    zero = np.zeros(2, dtype=np.int64)
    trace = Trace(none, zero, zero, np.array([1, -1]), np.zeros((2, 1), dtype=np.int64))
    assert trace.emitted().tolist() == [[1], [-1]]
    assert trace.drafted_at(zero).tolist() == [-1, -1]
    assert not trace.rejected.any()

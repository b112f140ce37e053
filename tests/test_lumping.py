"""On cells that keep p - q to one sign, the token rule on cells is exactly the token rule on tokens, seen through them.

The claim is proved by enumeration with fractions: the law on tokens, sent through the cells, is compared with the law
on the small case by ``==``.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from specverify.arrays import IntArray
from specverify.cases import Case, Prefix
from specverify.lumping import Law, Lumping, block_law, lump, rule_law
from specverify.menu import menu
from specverify.probes import CaseProbes
from specverify.reference import RULES, Model, Number, Outcome, Row, Rule, outcome_law, target_law
from specverify.trace import Trace

BY_NAME = {case.name: case for case in menu()}
TOTAL = 48  # all probabilities are multiples of 1/48, so that ties and zeros are common


def row(rng: np.random.Generator, size: int) -> list[Fraction]:
    """Make a random row of multiples of 1/48."""
    return [Fraction(int(count), TOTAL) for count in rng.multinomial(TOTAL, rng.dirichlet(np.ones(size)))]


def random_case(size: int, num_draft_tokens: int, seed: int) -> Case:
    """Make an exact context-free case whose rows differ by position.

    At the first position token 0 is tied (p = q = 1/4) and token 1 is drafted but forbidden (p = 0, q = 1/4).
    """
    rng = np.random.default_rng([size, num_draft_tokens, seed])
    target, draft = ([row(rng, size) for _ in range(n)] for n in (num_draft_tokens + 1, num_draft_tokens))
    quarter = Fraction(1, 4)
    target[0] = [quarter, Fraction(0), *(3 * quarter * x for x in row(rng, size - 2))]
    draft[0] = [quarter, quarter, *(2 * quarter * x for x in row(rng, size - 2))]
    return Case.from_rows("random", target, draft, num_draft_tokens=num_draft_tokens)


def by_hand(case: Case, tables: Sequence[IntArray], width: int) -> tuple[Model, Model]:
    """Sum the exact rows over the cells of each position."""

    def lumped(row: Row, table: IntArray) -> list[Number]:
        sums: list[Number] = [Fraction(0)] * width
        for token, probability in enumerate(row):
            sums[int(table[token])] += probability
        return sums

    return (
        lambda prefix: lumped(case.target_row((0,) * len(prefix)), tables[len(prefix)]),
        lambda prefix: lumped(case.draft_row((0,) * len(prefix)), tables[len(prefix)]),
    )


def seen_through(law: Mapping[Outcome, Number], tables: Sequence[IntArray]) -> dict[Outcome, Number]:
    """Send a law on tokens through the cells."""
    cells: defaultdict[Outcome, Number] = defaultdict(Fraction)
    for (draft, accepted, following, _), weight in law.items():
        assert following is not None
        drafted = tuple(int(tables[i][x]) for i, x in enumerate(draft))
        cells[Outcome(drafted, accepted, int(tables[accepted][following]))] += weight
    return dict(cells)


def laws(rule: Rule, case: Case, tables: Sequence[IntArray], width: int) -> tuple[object, object]:
    """Give a rule's law on tokens seen through the cells, and its law on the cells."""
    full = outcome_law(rule, case.target_row, case.draft_row, case.num_draft_tokens)
    small = outcome_law(rule, *by_hand(case, tables, width), case.num_draft_tokens)
    return seen_through(full, tables), small


def as_trace(law: Mapping[Outcome, Number], num_draft_tokens: int) -> tuple[Trace, list[float]]:
    """Write every outcome of a law as a row of a trace."""
    drafts = np.array([outcome.draft_tokens for outcome in law], dtype=np.int64).reshape(len(law), num_draft_tokens)
    accepted = np.array([outcome.num_accepted for outcome in law])
    following = np.array([-1 if outcome.next_token is None else outcome.next_token for outcome in law])
    nothing = np.full((len(law), num_draft_tokens + 1), -1)
    lengths = np.full(len(law), num_draft_tokens)
    return Trace(drafts, lengths, accepted, following, nothing), [float(weight) for weight in law.values()]


def by_row(trace: Trace, weights: Sequence[float]) -> dict[tuple[int, ...], float]:
    """Add up the weights of equal rows."""
    sums: defaultdict[tuple[int, ...], float] = defaultdict(float)
    columns = np.column_stack([trace.draft_tokens, trace.num_draft_tokens, trace.num_accepted, trace.next_token])
    for key, weight in zip(columns.tolist(), weights, strict=True):
        sums[tuple(key)] += weight
    return dict(sums)


def gap(law: Mapping[tuple[int, ...], float], other: Mapping[tuple[int, ...], float]) -> float:
    """Give the largest difference of two laws at any outcome."""
    return max(abs(law.get(key, 0.0) - other.get(key, 0.0)) for key in {**law, **other})


def lumped(case: Case, cells: int = 8) -> tuple[Lumping, tuple[IntArray, ...], int]:
    """Lump a case of many tokens, and give its tables and the number of cells too."""
    lens = lump(case, cells, 1e-12)
    assert lens is not None
    assert lens.tables is not None
    return lens, lens.tables, lens.case.vocab_size


SIZES = [(size, g, seed) for size in range(9, 15) for g, seeds in ((1, 4), (2, 2)) for seed in range(seeds)]


@pytest.mark.parametrize(("size", "num_draft_tokens", "seed"), SIZES)
def test_the_token_rule_on_cells_is_the_token_rule_seen_through_the_cells(
    size: int, num_draft_tokens: int, seed: int
) -> None:
    """The claim, with ``==`` on fractions; the float law that the kit uses agrees to 1e-12."""
    case = random_case(size, num_draft_tokens, seed)
    lens, tables, width = lumped(case, 4 if num_draft_tokens == 2 else 8)
    full = outcome_law(RULES["token"], case.target_row, case.draft_row, num_draft_tokens)
    small = outcome_law(RULES["token"], *by_hand(case, tables, width), num_draft_tokens)
    assert seen_through(full, tables) == small
    law = rule_law(RULES["token"], lens)
    assert law is not None
    expected = by_row(*as_trace(small, num_draft_tokens))
    assert gap(by_row(law.view.trace, law.weights.tolist()), expected) < 1e-12
    trace, weights = as_trace(full, num_draft_tokens)
    assert gap(by_row(lens.view(trace).trace, weights), expected) < 1e-12


def straddles(case: Case, table: IntArray) -> bool:
    """Say whether some cell holds tokens with p > q and tokens with p < q at the first position."""
    signs = defaultdict(set)
    for cell, sign in zip(table.tolist(), np.sign(case.target[0][0] - case.draft[0][0]).tolist(), strict=True):
        signs[cell].add(sign)
    return any({-1, 1} <= cell for cell in signs.values())


@pytest.mark.parametrize("seed", range(8))
def test_cells_on_both_sides_of_p_equal_q_break_the_claim(seed: int) -> None:
    """It is one sign a cell that does it: every straddling partition gives another law, every pure one the same."""
    case = random_case(9, 1, seed)
    rng = np.random.default_rng(seed)
    seen = set()
    for _ in range(20):
        table = rng.integers(0, 5, size=9)
        pushed, small = laws(RULES["token"], case, [table, table], 5)
        assert (pushed == small) != straddles(case, table)
        seen.add(straddles(case, table))
    sign = np.sign(case.target[0][0] - case.draft[0][0]).astype(np.int64) + 1
    pushed, small = laws(RULES["token"], case, [sign, sign], 3)
    assert pushed == small
    assert True in seen


def test_matching_is_not_known_on_cells() -> None:
    """Two different tokens of one cell do not match: the law of match on cells is another, so it is not given."""
    case = random_case(10, 1, 0)
    _, tables, width = lumped(case)
    pushed, small = laws(RULES["match"], case, tables, width)
    assert pushed != small
    probes = CaseProbes(case, 1e-12, "match")
    for rule in RULES:
        assert (probes.law(RULES[rule]) is None) == (rule != "token")
    assert {probe.question.lens for probe in probes.probes} == {"token", "block"}


@pytest.mark.parametrize("name", ["softmax-32", "softmax-50", "plateau-1000", "near-disjoint-509", "zipf-32003"])
def test_large_cases_keep_their_overlap_and_acceptance(name: str) -> None:
    """The cells of a large case have its overlap at every position, and sum to distributions."""
    lens, _, _ = lumped(BY_NAME[name])
    for small, full in ((lens.case.target, BY_NAME[name].target), (lens.case.draft, BY_NAME[name].draft)):
        assert len(small) == len(full)
        assert all(abs(level.sum() - 1) < 1e-11 for level in small)
    pairs = zip(lens.case.target, lens.case.draft, BY_NAME[name].target, BY_NAME[name].draft, strict=False)
    for p, q, target, draft in pairs:
        assert np.minimum(p, q).sum() == pytest.approx(np.minimum(target, draft).sum(), abs=1e-11)


def test_up_to_eight_tokens_nothing_is_lumped() -> None:
    """Small vocabularies are kept, contextual ones included; labels name the tokens."""
    lens = lump(BY_NAME["W402"], 8, 1e-12)
    assert lens is not None
    assert lens.tables is None
    assert lens.case is BY_NAME["W402"]
    assert lens.labels == (("token 0", "token 1", "token 2"),) * 3


def test_many_tokens_in_context_are_kept_or_cannot_be_lumped() -> None:
    """Their laws depend on which token of a cell it was: where their blocks are too many there is no lumping."""
    rows: dict[Prefix, list[Fraction]] = {
        p: [Fraction(1, 9)] * 9 for n in range(2) for p in product(range(9), repeat=n)
    }
    kept = lump(Case.from_table("t", rows, rows, num_draft_tokens=1), 8, 1e-12)
    assert kept is not None
    assert kept.tables is None
    flat = np.full((1, 500), 1 / 500)
    wide = Case.from_rows("w", flat[0], flat[0], num_draft_tokens=2)
    wide = wide.replace_rows([flat, np.repeat(flat, 500, axis=0), *wide.target[2:]], wide.draft)
    assert wide.contextual
    assert lump(wide, 8, 1e-12) is None


# --- views -----------------------------------------------------------------------------------------------------------


def test_a_view_lumps_every_token_at_its_own_position() -> None:
    """Drafts and completions by column, the next token by where the row stopped; -1 stays -1."""
    case = BY_NAME["softmax-50"]
    lens, tables, _ = lumped(case)
    rng = np.random.default_rng(1)
    drafts, completed = rng.integers(0, 50, (200, 3)), rng.integers(0, 50, (200, 4))
    lengths, accepted = rng.integers(0, 4, 200), rng.integers(0, 4, 200)
    accepted = np.minimum(accepted, lengths)
    drafts[np.arange(3) >= lengths[:, None]] = -1
    following = np.where(rng.random(200) < 0.2, -1, rng.integers(0, 50, 200))
    seen = lens.view(Trace(drafts, lengths, accepted, following, completed)).trace
    for r in range(200):
        assert seen.draft_tokens[r].tolist() == [-1 if x < 0 else tables[i][x] for i, x in enumerate(drafts[r])]
        assert seen.completed[r].tolist() == [tables[i][x] for i, x in enumerate(completed[r])]
        assert seen.next_token[r] == (-1 if following[r] < 0 else tables[accepted[r]][following[r]])
    assert seen.num_accepted is accepted


def test_ties_are_marked_where_rounding_may_decide() -> None:
    """A rejected draft or its replacement with p = q is marked, in context and out; accepted rows never are."""
    target: dict[Prefix, list[str]] = {
        (): ["1/2", "1/4", "1/4"],
        (0,): ["1/3"] * 3,
        (1,): ["1", "0", "0"],
        (2,): ["1", "0", "0"],
    }
    draft: dict[Prefix, list[str]] = {(): ["1/4", "1/2", "1/4"]}
    lens = lump(Case.from_table("t", target, draft, num_draft_tokens=1), 8, 1e-12)
    assert lens is not None
    rows = [(0, 0, 2), (1, 0, 0), (1, 0, 2), (2, 0, 0), (2, 1, 2), (2, 0, -1)]
    drafts, accepted, following = (np.array(column) for column in zip(*rows, strict=True))
    view = lens.view(
        Trace(drafts[:, None], np.ones(6, dtype=np.int64), accepted, following, np.zeros((6, 2), np.int64))
    )
    assert view.tied_draft.tolist() == [False, False, False, True, False, True]
    assert view.tied_next.tolist() == [True, False, True, False, False, False]


def test_ties_of_later_positions_depend_on_the_prefix() -> None:
    """The same token is tied after one prefix and not after another."""
    rows: dict[Prefix, list[str]] = {p: ["1/2", "1/2"] for n in range(3) for p in product(range(2), repeat=n)}
    draft: dict[Prefix, list[str]] = {(): ["1/4", "3/4"], (0,): ["1/2", "1/2"], (1,): ["1/4", "3/4"]}
    lens = lump(Case.from_table("t", rows, draft, num_draft_tokens=2), 8, 1e-12)
    assert lens is not None
    drafts, two = np.array([[0, 1], [1, 1]]), np.array([2, 2])
    view = lens.view(Trace(drafts, two, np.array([1, 1]), np.array([0, 0]), np.zeros((2, 3), np.int64)))
    assert view.tied_draft.tolist() == [True, False]


def test_ties_are_those_of_the_position_where_the_row_stopped() -> None:
    """A token tied at the first position is not tied where it was rejected, at the second."""
    draft = [["1/2", "1/2"], ["1/4", "3/4"]]
    lens = lump(Case.from_rows("t", ["1/2", "1/2"], draft, num_draft_tokens=2), 8, 1e-12)
    assert lens is not None
    drafts, two = np.array([[0, 1], [0, 1]]), np.array([2, 2])
    view = lens.view(Trace(drafts, two, np.array([0, 1]), np.array([1, 0]), np.zeros((2, 3), np.int64)))
    assert view.tied_draft.tolist() == view.tied_next.tolist() == [True, False]


# --- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["AB4", "W402", "T3", "zeros", "no-draft", "single", "softmax-32", "softmax-1024"])
def test_the_block_law_is_the_product_of_target_rows(name: str) -> None:
    """A completed block has the target's joint law, contextual or lumped."""
    lens = lump(BY_NAME[name], 4, 1e-12)
    assert lens is not None
    law = block_law(lens)
    assert law is not None
    rows = [level.tolist() for level in lens.case.target]
    width = lens.case.num_draft_tokens + 1
    due = target_law(lambda s: rows[len(s)][int(lens.case.row_index(np.array(s, dtype=np.int64)))], width)
    got = {
        tuple(block): w for block, w in zip(law.view.trace.completed.tolist(), law.weights.tolist(), strict=True) if w
    }
    assert got == pytest.approx(due, abs=1e-14)
    assert len(law.weights) == lens.case.vocab_size**width


def total(law: Law | None) -> float:
    """Add up all weights."""
    assert law is not None
    return float(law.weights.sum())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("case", [case for case in menu() if case.vocab_size <= 8], ids=lambda case: case.name)
def test_the_law_of_a_rule_is_the_enumerated_one(case: Case, rule: str) -> None:
    """Outcomes and weights are those of the exact reference; a ragged case mixes its lengths equally."""
    lens = lump(case, 8, 1e-12)
    assert lens is not None
    law = rule_law(RULES[rule], lens)
    assert total(law) == pytest.approx(1, abs=1e-12)
    assert law is not None
    lengths = range(case.num_draft_tokens + 1) if case.ragged else [case.num_draft_tokens]
    due: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for length in lengths:
        for outcome, weight in outcome_law(RULES[rule], case.target_row, case.draft_row, length).items():
            padding = (-1,) * (case.num_draft_tokens - length)
            last = -1 if outcome.next_token is None else outcome.next_token
            due[(*outcome.draft_tokens, *padding, length, outcome.num_accepted, last)] += float(weight) / len(lengths)
    assert gap(by_row(law.view.trace, law.weights.tolist()), due) < 1e-12


def test_too_many_drafts_or_blocks_are_not_enumerated() -> None:
    """Where enumeration would take too long there is no law, rather than a wrong or a late one."""
    wide = lump(Case.from_rows("w", np.full(64, 1 / 64), np.arange(1, 65) / 2080, num_draft_tokens=4), 8, 1e-12)
    assert wide is not None
    assert rule_law(RULES["token"], wide) is None
    deep = lump(Case.from_rows("d", np.full(8, 1 / 8), np.arange(1, 9) / 36, num_draft_tokens=6), 8, 1e-12)
    assert deep is not None
    assert block_law(deep) is None

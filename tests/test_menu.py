"""The menu has a case against every way in which random pairs hide faults, and each is what its description says."""

import json
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from specverify.cases import Case
from specverify.menu import coin_case, flat_case, menu

BY_NAME = {case.name: case for case in menu()}
INPUTS = json.loads(Path(__file__).with_name("data").joinpath("laws.json").read_text(encoding="utf-8"))["inputs"]


def overlap(case: Case, position: int = 0) -> float:
    """Give sum_x min(p, q) at the first prefix of a position."""
    return float(np.minimum(case.target[position][0], case.draft[position][0]).sum())


def test_names_are_unique_and_described() -> None:
    """Every case can be named in a report, and says in one line what it is good for."""
    assert len(BY_NAME) == len(menu())
    assert all(case.description and not set("\n{}") & set(case.description) for case in menu())


def test_small_vocabularies_come_first() -> None:
    """Tiny cases are all before the larger ones."""
    tiny = [case.vocab_size <= 8 for case in menu()]
    assert tiny == sorted(tiny, reverse=True)


@pytest.mark.parametrize("case", menu(), ids=lambda case: case.name)
def test_every_row_is_a_distribution(case: Case) -> None:
    """Rows of every position sum to 1, exactly where the case is exact, and are never negative."""
    for level in (*case.target, *case.draft):
        assert (level >= 0).all()
        assert np.abs(level.sum(axis=1) - 1).max() < 1e-12
    if case.exact and not case.contextual:
        assert sum(Fraction(x) for x in case.target_row((0,) * case.num_draft_tokens)) == 1


@pytest.mark.parametrize("name", INPUTS)
def test_the_canonical_cases_are_those_of_the_recorded_laws(name: str) -> None:
    """Every row of the examples and witness tables, after every prefix, with ``==``."""
    case = BY_NAME[name]
    for side, row in (("p", case.target_row), ("q", case.draft_row)):
        for length in range(case.num_draft_tokens + (side == "p")):
            for prefix in product(range(case.vocab_size), repeat=length):
                rows = INPUTS[name][side]
                due = rows[",".join(map(str, prefix))] if isinstance(rows, dict) else rows
                assert row(prefix) == tuple(Fraction(x) for x in due)


def test_the_canonical_pairs_have_their_known_overlaps() -> None:
    """The acceptance rate of the first position is the recorded one."""
    alphas = {"AB": "4/5", "C2": "3/5", "C3": "3/5", "T3": "7/10", "SUN": "2/3", "W402": "113/154", "W637": "97/176"}
    for name, alpha in alphas.items():
        case = BY_NAME[name]
        target, draft = ([Fraction(x) for x in row] for row in (case.target_row(()), case.draft_row(())))
        assert sum(map(min, target, draft)) == Fraction(alpha)


def test_the_witness_tables_depend_on_every_prefix() -> None:
    """All rows of W402 and W637 differ from one another at each length, so that no shifted row goes unseen."""
    for name in ("W402", "W637"):
        case = BY_NAME[name]
        assert case.contextual
        for level in (*case.target, *case.draft):
            assert len(np.unique(level, axis=0)) == len(level)


def test_the_reversed_witness_is_a_renaming() -> None:
    """Token ids are reversed in rows and prefixes, for faults that depend on token order."""
    straight, turned = BY_NAME["W402"], BY_NAME["W402-reversed"]
    assert turned.target_row((0, 2)) == straight.target_row((2, 0))[::-1]
    assert turned.draft_row((2,)) == straight.draft_row((0,))[::-1]


def test_the_edges_are_there() -> None:
    """Equal, disjoint and one-hot rows, a single token, no draft, and tokens of probability zero are on the menu."""
    assert overlap(BY_NAME["equal"]) == pytest.approx(1, abs=1e-15)
    assert overlap(BY_NAME["disjoint"]) == 0
    assert max(BY_NAME["one-hot-target"].target_row(())) == max(BY_NAME["one-hot-draft"].draft_row(())) == 1
    assert BY_NAME["single"].vocab_size == 1
    assert BY_NAME["no-draft"].num_draft_tokens == 0
    zeros = BY_NAME["zeros"]
    assert zeros.target[0][0][1] == 0
    assert zeros.draft[0][0][1] > 0, "the forbidden token is drafted"
    assert BY_NAME["tiny-ratio"].target_row(())[0] == Fraction(1, 10**8)
    assert 0 < BY_NAME["subnormal"].target[0][0][2] < np.finfo(np.float64).tiny
    assert 0 < overlap(BY_NAME["near-disjoint-509"]) < 1e-3
    assert (BY_NAME["zipf-32003"].target[0][0] == 0).sum() == 32003 // 9


def test_ties_are_exact_and_real() -> None:
    """The tie cases hold tokens with p = q beside tokens on both sides."""
    for name, tied in (("ties", 3), ("last-empty", 1)):
        signs = np.sign(BY_NAME[name].target[0][0] - BY_NAME[name].draft[0][0]).tolist()
        assert signs.count(0) == tied
        assert {-1.0, 1.0} <= set(signs)


def test_the_menu_is_varied() -> None:
    """Draft lengths 0 to 4, V in every size class and off the round numbers, context, ragged rows, rows by position."""
    assert {case.num_draft_tokens for case in menu()} == {0, 1, 2, 3, 4}
    sizes = {case.vocab_size for case in menu()}
    assert {1, 2, 3, 4, 5, 32, 50, 64, 509, 1000, 1024, 32000, 32003, 32502} == sizes
    assert [case.name for case in menu() if case.ragged] == ["W637-ragged"]
    assert all(case.vocab_size <= 8 for case in menu() if case.contextual)
    for name in ("softmax-32", "softmax-50", "softmax-1024", "softmax-32000"):
        case = BY_NAME[name]
        assert len(np.unique(np.concatenate(case.target), axis=0)) == case.num_draft_tokens + 1


def test_ramps_go_both_ways() -> None:
    """One target rises with the token id, the other falls."""
    up, down = BY_NAME["ramp-up-64"].target[0][0], BY_NAME["ramp-down-64"].target[0][0]
    assert (np.diff(up) > 0).all()
    assert np.array_equal(down, up[::-1])


def test_formulas_give_the_same_rows_on_every_platform() -> None:
    """The irregular rows come from a formula; their leading digits are recorded here."""
    row = BY_NAME["softmax-32"].target[0][0]
    assert row[:3].tolist() == pytest.approx([0.14537085323, 0.03584085044, 0.00091608666], rel=1e-8)
    assert BY_NAME["softmax-32000"].draft[1][0][31999] == pytest.approx(6.72429e-08, rel=1e-5)


def test_independence_cases_give_fair_tokens_under_any_lossless_rule() -> None:
    """The coin has two equal tokens, the flat case 256 that are never drafted."""
    coin, flat = coin_case(), flat_case()
    assert coin.target_row(()) == (Fraction(1, 2), Fraction(1, 2))
    assert coin.draft_row(()) == (1, 0)
    assert np.unique(flat.target[0][0]).tolist() == [0, 1 / 256]
    assert (flat.target[0][0][:256] > 0).all()
    assert overlap(flat) == 0
    assert {coin.name, flat.name}.isdisjoint(BY_NAME)


def test_the_menu_is_made_once() -> None:
    """Cases are shared, so that laws enumerated for one are found again."""
    assert menu() is menu()
    assert coin_case() is coin_case()

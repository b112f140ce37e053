"""Cells are cut from (p, q) alone, cover every token, and keep what the exact laws need: one sign of p - q each."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specverify.arrays import FloatArray
from specverify.partition import Partition, identity, index, mass, ratio, ties

many = settings(derandomize=True, deadline=None, max_examples=200)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[FloatArray, FloatArray]:
    """Two laws on the same tokens, with zeros, exact ties and near ties among them."""
    size = draw(st.integers(1, 40))
    weights = st.sampled_from([0, 0, 1, 1, 2, 3, 5, 8, 1e-3, 1e-9, 1e-200])
    p, q = (np.array(draw(st.lists(weights, min_size=size, max_size=size)), dtype=np.float64) for _ in range(2))
    p[draw(st.integers(0, size - 1))] += 1
    q[draw(st.integers(0, size - 1))] += 1
    return p / p.sum(), q / q.sum()


def check(part: Partition, target: FloatArray) -> None:
    """Assert what every partition keeps: all tokens, all cells used, probabilities under the target, one label each."""
    cells = len(part.probs)
    assert part.table.shape == target.shape
    assert sorted(set(part.table.tolist())) == list(range(cells))
    assert len(part.labels) == len(set(part.labels)) == cells
    for cell in range(cells):
        assert part.probs[cell] == pytest.approx(target[part.table == cell].sum(), abs=1e-12)


@pytest.mark.parametrize("cells", [2, 3, 8, 16])
@many
@given(pair=pairs())
def test_ratio_cells_never_straddle_p_equal_q(pair: tuple[FloatArray, FloatArray], cells: int) -> None:
    """No cell holds tokens on both sides, ties are apart, and ratios grow from cell to cell on each side."""
    target, draft = pair
    part = ratio(target, draft, cells)
    check(part, target)
    tied = ties(target, draft, 1e-12)
    for cell in range(len(part.probs)):
        here = part.table == cell
        kinds = {"=" if tied[v] else ">" if target[v] > draft[v] else "<" for v in np.flatnonzero(here)}
        assert len(kinds) == 1
        assert part.labels[cell].startswith(f"p {kinds.pop()} q")
    assert len(part.probs) <= 2 * max(1, cells // 2) + 1
    for side in ("p < q", "p > q"):
        mine = [cell for cell, label in enumerate(part.labels) if label.startswith(side)]
        for low, high in pairwise(mine):
            inside = [np.flatnonzero((part.table == cell) & (draft > 0)) for cell in (low, high)]
            if all(len(tokens) for tokens in inside):
                small, large = (target[tokens] / draft[tokens] for tokens in inside)
                assert small.max() <= large.min()


@many
@given(pair=pairs())
def test_sums_of_minimum_and_residual_survive_ratio_cells(pair: tuple[FloatArray, FloatArray]) -> None:
    """min(P, Q) of the sums is the sum of min(p, q), and likewise the residual, to within the tie tolerance."""
    target, draft = pair
    part = ratio(target, draft, 8)
    p, q = part.sums(target), part.sums(draft)
    assert np.minimum(p, q) == pytest.approx(part.sums(np.minimum(target, draft)), abs=1e-12)
    assert np.maximum(p - q, 0) == pytest.approx(part.sums(np.maximum(target - draft, 0)), abs=1e-12)


@many
@given(pair=pairs(), cells=st.integers(2, 20))
def test_mass_and_index_cells_cover_every_token(pair: tuple[FloatArray, FloatArray], cells: int) -> None:
    """Cells by p and by id use every number once; mass orders by p, index by id."""
    target, _ = pair
    by_mass, by_id = mass(target, cells), index(target, cells)
    check(by_mass, target)
    check(by_id, target)
    order = np.argsort(target, kind="stable")
    assert (np.diff(by_mass.table[order]) >= 0).all()
    assert (np.diff(by_id.table) >= 0).all()


def test_ties_are_relative_to_the_draft() -> None:
    """Equal to within tau of q counts as tied; a token that is never drafted never does."""
    target = np.array([0.25, 0.25 * (1 + 5e-13), 0.25 * (1 + 2e-12), 0.0, 0.25])
    draft = np.array([0.25, 0.25, 0.25, 0.0, 0.0])
    assert ties(target, draft, 1e-12).tolist() == [True, True, False, False, False]


def test_tokens_that_nobody_gives_go_with_p_below_q() -> None:
    """A token with p = q = 0 is no tie, and has no residual."""
    part = ratio(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.75, 0.0]), 4)
    assert part.labels[part.table[2]].startswith("p < q")


def test_a_wide_tolerance_gathers_near_ties() -> None:
    """The tie cell grows with the tolerance of the dtype."""
    target, draft = np.array([0.5, 0.3, 0.2]), np.array([0.501, 0.299, 0.2])
    assert [len(ratio(target, draft, 8, tau).probs) for tau in (1e-12, 2.0**-7)] == [3, 1]


def test_ratio_cells_have_about_equal_mass() -> None:
    """Of many tokens, each side is cut into half of the cells, none of them holding much more than its share."""
    rng = np.random.default_rng(3)
    target, draft = rng.dirichlet(np.ones(5000)), rng.dirichlet(np.ones(5000))
    part = ratio(target, draft, 16)
    assert len(part.probs) == 16
    above = np.array([label.startswith("p > q") for label in part.labels])
    shares = np.where(above, part.probs / part.probs[above].sum(), part.sums(draft) / part.sums(draft)[~above].sum())
    assert (np.abs(shares - 1 / 8) < 0.01).all()


def test_mass_cells_isolate_the_tail() -> None:
    """The rarest tokens, down to 1e-6 of the mass, have cells of their own, apart from the bulk."""
    target = np.array([5e-7, 5e-6, 5e-5, 5e-4, 5e-3, 0.0])
    target[5] = 1 - target.sum()
    part = mass(target, 4)
    assert part.labels == (
        "rarest 1e-06",
        "rarest 1e-05",
        "rarest 0.0001",
        "rarest 0.001",
        "rarest 0.01",
        "p rank group 5",
    )
    assert part.table.tolist() == [0, 1, 2, 3, 4, 5]


def test_index_cells_isolate_the_last_possible_token() -> None:
    """The last token with p > 0 starts a cell of its own, which impossible ones after it share."""
    part = index(np.array([0.4, 0.3, 0.2, 0.1, 0.0, 0.0]), 2)
    assert part.table.tolist() == [0, 1, 1, 2, 2, 2]
    assert part.labels == ("ids from 0", "ids from 1", "ids from 3")
    assert index(np.array([1.0, 0.0]), 4).table.tolist() == [0, 0]


@pytest.mark.parametrize("make", [lambda p: mass(p, 16), lambda p: index(p, 16), lambda p: ratio(p, p[::-1], 16)])
def test_cells_of_a_huge_vocabulary_stay_few(make: Callable[[FloatArray], Partition]) -> None:
    """The number of cells does not grow with V."""
    weights = 1.0 / np.arange(1, 262145)
    part = make(weights / weights.sum())
    check(part, weights / weights.sum())
    assert 8 <= len(part.probs) <= 22


def test_identity_keeps_tokens_apart() -> None:
    """One cell a token, with its probability; sums give any other law back."""
    part = identity(np.array([0.5, 0.0, 0.5]))
    check(part, np.array([0.5, 0.0, 0.5]))
    assert part.sums(np.array([0.1, 0.2, 0.7])).tolist() == [0.1, 0.2, 0.7]

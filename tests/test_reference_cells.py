"""The array kernels equal the rules in every cell of the uniforms' cube, and the comparison catches edited kernels."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cell_tables import Pair, random_table

from specverify.reference import RULES, CellProof, Kernel, Model, cell_points, cell_proof, verify_block, verify_token

KERNELS: dict[str, Kernel] = {"token": verify_token, "block": verify_block}
Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def witness() -> Callable[[str], Pair]:
    """Return the target and draft of a witness table by name."""
    inputs = json.loads(Path(__file__).with_name("data").joinpath("laws.json").read_text(encoding="utf-8"))["inputs"]

    def model(rows: dict[str, list[str]]) -> Model:
        return lambda prefix: [Fraction(x) for x in rows[",".join(map(str, prefix))]]

    return lambda name: (model(inputs[name]["p"]), model(inputs[name]["q"]))


@pytest.mark.parametrize(
    ("table", "rule", "cells"),
    [("W402", "token", 39), ("W402", "block", 45), ("W637", "token", 37), ("W637", "block", 35)],
)
def test_kernels_equal_the_rules_on_the_witness_tables(
    witness: Callable[[str], Pair], table: str, rule: str, cells: int
) -> None:
    """No point of any cell of a witness table disagrees."""
    assert cell_proof(RULES[rule], KERNELS[rule], *witness(table), 2) == CellProof(cells, 27 * cells, 0)


@pytest.mark.parametrize("rule", KERNELS)
@pytest.mark.parametrize(("vocab", "gamma", "tables"), [(2, 3, 24), (3, 2, 24), (4, 2, 12)])
def test_kernels_equal_the_rules_on_random_tables(rule: str, vocab: int, gamma: int, tables: int) -> None:
    """No point of any cell of 60 random tables with zeros disagrees."""
    zeros = 0
    for seed in range(tables):
        target, draft = random_table(seed, vocab)
        zeros += target(()).count(Fraction(0)) + draft(()).count(Fraction(0))
        proof = cell_proof(RULES[rule], KERNELS[rule], target, draft, gamma)
        assert proof.disagreements == 0, (seed, proof)
        assert proof.points == proof.cells * 3 ** (gamma + 1)
    assert zeros > 0


@pytest.mark.parametrize("rule", KERNELS)
def test_no_draft_is_proved_too(rule: str) -> None:
    """With nothing drafted the cells are those of one draw from the target."""
    target, draft = random_table(3, 4)
    assert cell_proof(RULES[rule], KERNELS[rule], target, draft, 0).disagreements == 0


def emitting(rows: Array, num_accepted: Array) -> Array:
    """Return the row of each sequence that emits its token; the last row where there is none."""
    picked: Array = rows[np.arange(len(rows)), np.minimum(num_accepted, rows.shape[1] - 1)]
    return picked


def draw(weights: Array, final: Array) -> Array:
    """Draw from weights: the bonus of a round without a draft."""
    none = np.empty((len(final), 0), np.int64)
    return verify_token(none, np.empty((*none.shape, weights.shape[1])), weights[:, None], none.astype(float), final)[1]


def residual_or_bonus(num_accepted: Array, draft_probs: Array, target_probs: Array, final: Array) -> Array:
    """Draw as the token rule does, whatever accepted."""
    p, q = emitting(target_probs, num_accepted), emitting(draft_probs, num_accepted)
    bonus = num_accepted == draft_probs.shape[1]
    return draw(np.where(bonus[:, None], p, np.maximum(p - q, 0)), final)


def inverted_ratio(x: Array, q: Array, p: Array, accept: Array, final: Array) -> tuple[Array, Array]:
    """Accept with min(1, q/p)."""
    q_x, p_x = np.take_along_axis(q, x[..., None], 2)[..., 0], np.take_along_axis(p[:, :-1], x[..., None], 2)[..., 0]
    num_accepted = np.logical_and.accumulate(accept * p_x < q_x, axis=1).sum(axis=1)
    return num_accepted, residual_or_bonus(num_accepted, q, p, final)


def redraw_from_target(x: Array, q: Array, p: Array, accept: Array, final: Array) -> tuple[Array, Array]:
    """Replace a refused draft by a draw from p."""
    num_accepted, _ = verify_token(x, q, p, accept, final)
    return num_accepted, draw(emitting(p, num_accepted), final)


def block_with_token_residual(x: Array, q: Array, p: Array, accept: Array, final: Array) -> tuple[Array, Array]:
    """Accept as the block rule does, and replace from (p - q)+."""
    num_accepted, _ = verify_block(x, q, p, accept, final)
    return num_accepted, residual_or_bonus(num_accepted, q, p, final)


@pytest.mark.parametrize(
    ("table", "rule", "kernel", "disagreements"),
    [
        ("W402", "token", inverted_ratio, 639),
        ("W402", "token", redraw_from_target, 180),
        ("W402", "block", block_with_token_residual, 18),
        ("W637", "block", block_with_token_residual, 0),  # a proof is for one table only: this one hides the fault
    ],
)
def test_edited_kernels_disagree(
    witness: Callable[[str], Pair], table: str, rule: str, kernel: Kernel, disagreements: int
) -> None:
    """The cell proof finds each planted fault, at as many points as are known."""
    assert cell_proof(RULES[rule], kernel, *witness(table), 2).disagreements == disagreements


def test_random_tables_catch_what_a_witness_table_hides() -> None:
    """The token residual under the block rule, which W637 hides, shows on several of 12 random tables."""
    proofs = [cell_proof(RULES["block"], block_with_token_residual, *positive_table(seed), 2) for seed in range(12)]
    assert sum(proof.disagreements > 0 for proof in proofs) >= 3


def positive_table(seed: int) -> Pair:
    """Return a random table of four tokens whose residuals are never empty: the edited kernel has no fallback."""
    target, draft = random_table(seed, 4)
    even = Fraction(1, 4)
    return (lambda s: [(2 * x + even) / 3 for x in target(s)]), (lambda s: [(x + even) / 2 for x in draft(s)])


def test_points_lie_inside_their_cells() -> None:
    """Three points per coordinate, delta from the ends, or a quarter of the cell where that is narrower."""
    sliver = Fraction(1, 10**7)
    points = cell_points(RULES["token"], [0], [[Fraction(1), Fraction(0)]], [[sliver, 1 - sliver], [1, 0]])
    assert points.cells == 2
    assert sorted(set(points.accept[:9, 0])) == pytest.approx([2.5e-8, 5e-8, 7.5e-8])
    assert sorted(set(points.accept[9:, 0])) == pytest.approx([1.1e-6, 0.50000005, 1 - 1e-6])
    assert sorted(set(points.final)) == pytest.approx([1e-6, 0.5, 1 - 1e-6])

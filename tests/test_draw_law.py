"""The draw from 131,072 tokens has the law of the given probabilities to 1e-13: computed in integers, nothing sampled.

An inverse CDF that cumulates to integer edges gives each of its uniforms to one token. Counting them is its exact law.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from importlib import import_module
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from specverify.reference import verify_token_seeded

Array = npt.NDArray[Any]
VOCAB = 131_072
ALLOWED = Fraction(1, 10**13)
draw_module = import_module("specverify.reference.draw")


def softmax(spread: float, dtype: str) -> Callable[[np.random.Generator], Array]:
    """Make laws as models have them."""

    def rows(rng: np.random.Generator) -> Array:
        weights = np.exp(spread * rng.standard_normal((2, VOCAB)))
        normalised: Array = (weights / weights.sum(axis=1, keepdims=True)).astype(dtype)
        return normalised

    return rows


def zipf(rng: np.random.Generator) -> Array:
    """Make laws of Zipf, in two orders."""
    weights = 1 / np.arange(1, VOCAB + 1)
    rows: Array = np.stack([weights, rng.permutation(weights)]) / weights.sum()
    return rows


LAWS = {
    "softmax float32": softmax(2, "float32"),
    "softmax float64": softmax(2, "float64"),
    "zipf float64": zipf,
}
laws = pytest.mark.parametrize("name", LAWS)
sources = pytest.mark.parametrize("residual", [False, True], ids=["bonus", "residual"])


def given(name: str, residual: bool) -> tuple[Array, Array | None]:
    """Return a target row and, for a residual, a draft row."""
    target, draft = LAWS[name](np.random.default_rng(0))
    return target, draft if residual else None


def exact(target: Array, draft: Array | None) -> list[int]:
    """Return p, or (p - q)+, as integers in one unit, without any rounding."""
    rows = [row.tolist() for row in (target, draft) if row is not None]
    unit = max(value.as_integer_ratio()[1] for row in rows for value in row)
    p, *q = ([top * (unit // bottom) for top, bottom in map(float.as_integer_ratio, row)] for row in rows)
    return [max(a - b, 0) for a, b in zip(p, q[0], strict=True)] if q else p


def real(target: Array, draft: Array | None) -> Array:
    """Return the weights in float64."""
    return target.astype(float) if draft is None else np.maximum(np.subtract(target, draft, dtype=float), 0)


def integer_edges(target: Array, draft: Array | None) -> list[int]:
    """Cumulate the weights as multiples of 2^-62, truncated."""
    return list(accumulate((int(w * 2.0**62) for w in real(target, draft).tolist()), initial=0))


def single_edges(target: Array, draft: Array | None) -> list[int]:
    """Cumulate in float32, whose numbers are integers in units of 2^-149."""
    return [0, *(int(edge * 2.0**149) for edge in real(target, draft).cumsum(dtype="float32").tolist())]


def firsts(edges: Sequence[int], uniforms: int) -> list[int]:
    """Return which of the uniforms u is the first with floor(u * total / uniforms) at or above each edge."""
    return [-(-edge * uniforms // edges[-1]) for edge in edges]


def distance(edges: Sequence[int], uniforms: int, weights: Sequence[int]) -> Fraction:
    """Return the total variation between the law of an inverse CDF and that of weights."""
    total = sum(weights)
    counts = (after - first for first, after in pairwise(firsts(edges, uniforms)))
    apart = sum(abs(count * total - weight * uniforms) for count, weight in zip(counts, weights, strict=True))
    return Fraction(apart, 2 * uniforms * total)


@laws
@sources
def test_the_law_of_the_draw_is_exact_to_1e_13(name: str, residual: bool) -> None:
    """64 uniform bits on cumulated integers give each token its probability."""
    rows = given(name, residual)
    assert distance(integer_edges(*rows), 2**64, exact(*rows)) < ALLOWED


FAULTS: dict[str, tuple[Callable[[Array, Array | None], list[int]], int]] = {
    "uniforms of 24 bits": (integer_edges, 2**24),
    "uniforms of 32 bits": (integer_edges, 2**32),
    "sums in float32": (single_edges, 2**64),
}


@pytest.mark.parametrize("fault", FAULTS)
@sources
def test_coarser_draws_are_farther_off(fault: str, residual: bool) -> None:
    """The same count finds the error of short uniforms and of cumulated float32."""
    edges, uniforms = FAULTS[fault]
    rows = given("softmax float32", residual)
    assert distance(edges(*rows), uniforms, exact(*rows)) > ALLOWED


def ends(edges: Sequence[int], rng: np.random.Generator) -> dict[int, int]:
    """Return the first, a middle and the last of the uniforms of some tokens, each with its token."""
    first = firsts(edges, 2**64)
    possible = [v for v in range(VOCAB) if first[v] < first[v + 1]]
    tokens = {0, possible[0], possible[-1], *rng.choice(possible, 40).tolist()} & set(possible)
    return {u: v for v in tokens for u in (first[v], (first[v] + first[v + 1]) // 2, first[v + 1] - 1)}


def drawn(target: Array, draft: Array | None, uniforms: Sequence[int]) -> list[int]:
    """Draw from one row by given uniforms."""
    zeros = np.zeros(len(uniforms), np.int64)
    of_draft = None if draft is None else draft[None, None]
    weights = draw_module.Weights(target[None, None], of_draft, zeros, zeros, None)
    tokens: list[int] = draw_module.draw(weights, np.array(uniforms, np.uint64)).tolist()
    return tokens


@laws
@sources
def test_the_kernel_draws_by_that_law(name: str, residual: bool) -> None:
    """At the first and last uniform of a token, where rounding would show, and in between."""
    rows = given(name, residual)
    expected = ends(integer_edges(*rows), np.random.default_rng(1))
    assert drawn(*rows, list(expected)) == list(expected.values())


@sources
def test_the_compiled_kernel_draws_by_that_law(residual: bool) -> None:
    """Likewise, wherever it takes its decision."""
    pytest.importorskip("numba", reason="needs numba (extra fast)")
    fast = import_module("specverify.reference.fast")
    target, draft = given("softmax float32", residual)
    sums, expected = np.empty(VOCAB // 256), ends(integer_edges(target, draft), np.random.default_rng(1))
    row = target, target if draft is None else draft, residual
    assert [fast._draw(*row, np.uint64(u), 256, sums)[0] for u in expected] == list(expected.values())


def test_float_sums_alone_would_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the allowance for their rounding, float sums give other tokens at the ends."""
    rows = given("softmax float32", True)
    expected = ends(integer_edges(*rows), np.random.default_rng(1))
    monkeypatch.setattr(draw_module, "rounding", lambda *_: 0.0)
    assert drawn(*rows, list(expected)) != list(expected.values())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_decide_nearly_every_row(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """At most 20 of 200 rows go to the integers, float32 weights being off by up to 2^-24 of themselves."""
    p, q = LAWS[f"softmax {dtype}"](np.random.default_rng(0))
    case = np.zeros((200, 1), np.int64), np.broadcast_to(q, (200, 1, VOCAB)), np.broadcast_to(p, (200, 2, VOCAB))
    found = verify_token_seeded(*case, 3)
    rows: list[int] = []
    by_integers = draw_module._by_integers

    def counted(weights: Any, row: int, word: int) -> Any:
        rows.append(row)
        return by_integers(weights, row, word)

    monkeypatch.setattr(draw_module, "_by_integers", counted)
    assert (verify_token_seeded(*case, 3)[1] == found[1]).all()
    assert len(rows) <= 20
    monkeypatch.setattr(draw_module, "SAFE", 0.0)  # now all rows do
    rows.clear()
    assert (verify_token_seeded(*case, 3)[1] == found[1]).all()
    assert len(rows) == 200

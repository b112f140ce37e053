"""Rows are positive integer weights, and then something done to them: zeros, ties, equal or disjoint pairs.

The weights are always drawn, and every special shape draws something more: examples with fewer choices count as
simpler, so that all of them shrink towards plain rows of the simplest weights.
"""

from collections.abc import Callable, Collection
from math import lcm
from typing import Final, TypeAlias

from hypothesis import strategies as st

__all__ = [
    "SIMPLEST_DRAFT",
    "SIMPLEST_TARGET",
    "Relation",
    "Shape",
    "Weights",
    "related",
    "relations",
    "shaped",
    "shapes",
    "weights",
]

Weights: TypeAlias = tuple[int, ...]
Shape: TypeAlias = Callable[[Weights], Weights]
Relation: TypeAlias = Callable[[Weights, Weights], tuple[Weights, Weights]]

# What weights shrink towards: that of token 0, that of every other token. Of two tokens: (3/5, 2/5) and (4/5, 1/5).
SIMPLEST_TARGET: Final = (3, 2)
SIMPLEST_DRAFT: Final = (4, 1)
_LARGEST: Final = 9
_TAILS: Final = (26, 130, 1060)  # bits by which a tail lies below its head: past a float32 grid, float32, float64
_NEAR: Final = (10, 1000, 100_000)  # near-equal rows differ by one part in so many


def weights(vocab_size: int, simplest: tuple[int, int]) -> st.SearchStrategy[Weights]:
    """Generate positive weights that shrink towards the simplest ones."""
    first, other = map(_close, simplest)
    return st.tuples(first, *[other] * (vocab_size - 1))


def shaped(vocab_size: int) -> dict[str, st.SearchStrategy[Shape]]:
    """Generate what is done to one row, by kind."""
    tokens = st.sampled_from(range(vocab_size))
    supports = st.sets(tokens, min_size=1)
    return {
        "dense": st.just(_unchanged),
        "sparse": supports.map(_kept),
        "one_hot": tokens.map(lambda token: _kept({token})),
        "tied": supports.map(_even),
        "zipf": st.sampled_from((1, 2)).map(_ranked),
        "tailed": st.tuples(tokens, st.sampled_from(_TAILS)).map(_headed),
    }


def shapes(vocab_size: int) -> st.SearchStrategy[Shape]:
    """Generate what is done to one row, of any kind."""
    return st.one_of(list(shaped(vocab_size).values()))


def related(vocab_size: int) -> dict[str, st.SearchStrategy[Relation]]:
    """Generate what is done to a pair, by kind; supports that differ need two tokens."""
    everything = range(vocab_size)
    shape = shapes(vocab_size)
    token = st.sampled_from(everything)
    found = {
        "independent": st.just(_each(_unchanged, _unchanged)),
        "shaped": st.builds(_each, shape, shape),
        "equal": st.builds(_equal, shape),  # not map, which one_of would count as one kind for each shape
        "permuted": st.permutations(everything).map(_exchanged),
        "mirrored": st.builds(_mirrored, shape),
        "near_equal": st.builds(_near, shape, token, token, st.sampled_from(_NEAR)),
    }
    if vocab_size > 1:
        some = st.sets(token, min_size=1, max_size=vocab_size - 1)
        found |= {
            "disjoint": some.map(lambda support: _each(_kept(support), _kept(set(everything) - support))),
            "target_within": some.map(lambda support: _each(_kept(support), _unchanged)),
            "draft_within": some.map(lambda support: _each(_unchanged, _kept(support))),
        }
    return found


def relations(vocab_size: int) -> st.SearchStrategy[Relation]:
    """Generate what is done to a pair, of any kind; about half are plain pairs, which show the subtlest faults."""
    kinds = related(vocab_size)
    plain = [st.just(_each(_unchanged, _unchanged)) for _ in range(len(kinds) - 2)]  # an equal one would count once
    return st.one_of([kinds["independent"], *plain, *(kinds[name] for name in kinds if name != "independent")])


def _close(centre: int) -> st.SearchStrategy[int]:
    return st.sampled_from(sorted(range(1, _LARGEST + 1), key=lambda weight: abs(weight - centre)))


def _unchanged(row: Weights) -> Weights:
    return row


def _kept(support: Collection[int]) -> Shape:
    return lambda row: tuple(weight * (token in support) for token, weight in enumerate(row))


def _even(support: Collection[int]) -> Shape:
    return lambda row: tuple(int(token in support) for token in range(len(row)))


def _ranked(power: int) -> Shape:
    """Give Zipf's law over the tokens, which are already in the order of their ranks."""
    return lambda row: tuple(lcm(*range(1, len(row) + 1)) ** power // (rank + 1) ** power for rank in range(len(row)))


def _headed(head: tuple[int, int]) -> Shape:
    token, bits = head
    return lambda row: tuple(weight << bits * (other == token) for other, weight in enumerate(row))


def _each(target: Shape, draft: Shape) -> Relation:
    return lambda p, q: (target(p), draft(q))


def _equal(shape: Shape) -> Relation:
    return lambda p, _: (shape(p), shape(p))


def _exchanged(order: list[int]) -> Relation:
    return lambda p, _: (p, tuple(p[token] for token in order))


def _mirrored(shape: Shape) -> Relation:
    return lambda p, _: (shape(p), shape(p)[::-1])


def _near(shape: Shape, gains: int, loses: int, parts: int) -> Relation:
    """Move one part in so many of the row's mass, or all that a token has where that is less."""

    def relation(p: Weights, _: Weights) -> tuple[Weights, Weights]:
        row = [weight * parts for weight in shape(p)]
        moved = min(sum(row) // parts, row[loses])
        near = list(row)
        near[loses] -= moved
        near[gains] += moved
        return tuple(row), tuple(near)

    return relation

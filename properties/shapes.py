"""Rows are positive integer weights, and then something done to them: zeros, ties, equal or disjoint pairs.

The weights are always drawn, and every special shape draws something more: examples with fewer choices count as
simpler, so that all of them shrink towards plain rows of the simplest weights.
"""

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from hypothesis import strategies as st

__all__ = ["SIMPLEST_DRAFT", "SIMPLEST_TARGET", "Relation", "Shape", "Weights", "relations", "shapes", "weights"]

Weights: TypeAlias = tuple[int, ...]
Shape: TypeAlias = Callable[[Weights], Weights]
Relation: TypeAlias = Callable[[Weights, Weights], tuple[Weights, Weights]]

# What weights shrink towards: that of token 0, that of every other token. Of two tokens: (3/5, 2/5) and (4/5, 1/5).
SIMPLEST_TARGET: Final = (3, 2)
SIMPLEST_DRAFT: Final = (4, 1)
_LARGEST: Final = 9


def weights(vocab_size: int, simplest: tuple[int, int]) -> st.SearchStrategy[Weights]:
    """Generate positive weights that shrink towards the simplest ones."""
    first, other = map(_near, simplest)
    return st.tuples(first, *[other] * (vocab_size - 1))


def shapes(vocab_size: int) -> st.SearchStrategy[Shape]:
    """Generate what is done to one row: nothing, zeros, a single token, equal weights."""
    tokens = st.sampled_from(range(vocab_size))
    supports = st.sets(tokens, min_size=1)
    return st.one_of(
        st.just(_unchanged), supports.map(_kept), tokens.map(lambda token: _kept({token})), supports.map(_even)
    )


def relations(vocab_size: int) -> st.SearchStrategy[Relation]:
    """Generate what is done to a pair: nothing, a shape each, equal, exchanged; disjoint or nested supports."""
    everything = range(vocab_size)
    shape = shapes(vocab_size)
    found = [
        *(st.just(_each(_unchanged, _unchanged)) for _ in range(5)),  # about half: plain pairs show the subtlest faults
        st.builds(_each, shape, shape),
        st.builds(_equal, shape),  # not map, which one_of would count as one kind for each shape
        st.permutations(everything).map(_exchanged),
    ]
    if vocab_size > 1:
        some = st.sets(st.sampled_from(everything), min_size=1, max_size=vocab_size - 1)
        found += [
            some.map(lambda support: _each(_kept(support), _kept(set(everything) - support))),
            some.map(lambda support: _each(_kept(support), _unchanged)),
            some.map(lambda support: _each(_unchanged, _kept(support))),
        ]
    return st.one_of(found)


def _near(centre: int) -> st.SearchStrategy[int]:
    return st.sampled_from(sorted(range(1, _LARGEST + 1), key=lambda weight: abs(weight - centre)))


def _unchanged(row: Weights) -> Weights:
    return row


def _kept(support: Collection[int]) -> Shape:
    return lambda row: tuple(weight * (token in support) for token, weight in enumerate(row))


def _even(support: Collection[int]) -> Shape:
    return lambda row: tuple(int(token in support) for token in range(len(row)))


def _each(target: Shape, draft: Shape) -> Relation:
    return lambda p, q: (target(p), draft(q))


def _equal(shape: Shape) -> Relation:
    return lambda p, _: (shape(p), shape(p))


def _exchanged(order: list[int]) -> Relation:
    return lambda p, _: (p, tuple(p[token] for token in order))

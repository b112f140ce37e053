"""Random targets and drafts of every shape that matters: dense, with zeros, one-hot, tied, equal, disjoint, nested.

Rows are tuples of Fractions that sum to exactly 1, so that laws can be compared with ``==``. Pairs and tables
shrink towards the two-token example: target (3/5, 2/5), draft (4/5, 1/5), one drafted token.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Final, TypeAlias

import numpy as np
from hypothesis import strategies as st

from specverify.arrays import FloatArray
from specverify.cases import Case, Prefix
from specverify.errors import ConfigError
from specverify.integers import integer
from specverify.rows import MAX_DRAFT_TOKENS

from .arguments import chosen, tokens
from .shapes import (
    SIMPLEST_DRAFT,
    SIMPLEST_TARGET,
    Relation,
    Shape,
    Weights,
    related,
    relations,
    shaped,
    shapes,
    weights,
)

__all__ = ["Row", "conditional_tables", "distributions", "float_pairs", "pairs"]

Row: TypeAlias = tuple[Fraction, ...]
"""Exact probabilities of the V tokens."""

_LARGEST_TILT: Final = 4.0
_USUAL_TOKENS: Final = 4  # most where no number is asked for
# Larger examples would be thrown away: Hypothesis ends each after 8192 units of choices, and tilts are long ones.
_MOST_TILTED: Final = 128
_MOST_ROWS: Final = 500
_MOST_PROBABILITIES: Final = 1500


def distributions(vocab_size: int, *, kind: str | None = None) -> st.SearchStrategy[Row]:
    """Generate next-token laws with exact probabilities.

    Args:
        vocab_size: Number V of tokens, 1 to 256.
        kind: "dense"; "sparse", with zeros; "one_hot"; "tied", with tokens of equal probability; "zipf", with
            probabilities like 1, 1/2, 1/3, ... or their squares; "tailed", all but one token below 2**-22, 2**-126 or
            2**-1056 (the last are subnormal in float64). Left out, all of these come.

    Returns:
        A strategy for tuples of V Fractions >= 0 that sum to 1. Examples shrink towards the row in which token 0 has
        weight 3 and every other token weight 2.

    Raises:
        ConfigError: There would be no tokens or too many, or no such kind is known.

    Example:
        >>> from hypothesis import find
        >>> from specverify.properties import distributions, reproducible
        >>> [str(probability) for probability in find(distributions(2), lambda row: True, settings=reproducible)]
        ['3/5', '2/5']
    """
    size = tokens(vocab_size)
    if kind is None:
        return _distributions(size)
    return _shaped(size, chosen("kind", kind, shaped(size)))


def pairs(vocab_size: int | None = None, *, kind: str | None = None) -> st.SearchStrategy[tuple[Row, Row]]:
    """Generate pairs of a target row p and a draft row q over the same tokens.

    Args:
        vocab_size: Number V of tokens, 1 to 256; left out, 1 to 4 (2 to 4 of one kind).
        kind: "independent"; "shaped", each of a kind of ``distributions``; "equal"; "near_equal", a part in ten, in a
            thousand or in a hundred thousand having moved; "permuted", the same row with its tokens exchanged, which
            gives ties between p and q; "mirrored", in reverse order. Of two tokens or more also "disjoint" supports,
            and one support strictly within the other: "target_within", "draft_within". Left out, all of these come.

    Returns:
        A strategy for pairs of rows as ``distributions`` generates them. Where more than one token is needed, examples
        shrink towards the two-token example p = (3/5, 2/5), q = (4/5, 1/5).

    Raises:
        ConfigError: There would be no tokens or too many, or no such kind is known of so many.

    Example:
        >>> from hypothesis import find
        >>> from specverify.properties import pairs, reproducible
        >>> p, q = find(pairs(), lambda pair: pair[0] != pair[1], settings=reproducible)
        >>> [str(x) for x in p], [str(x) for x in q]
        (['3/5', '2/5'], ['4/5', '1/5'])
    """
    if vocab_size is None:
        least = 1 if kind is None else 2
        pairs(least, kind=kind)  # refuses a wrong kind now, not when the first example is drawn
        return _between(least, _USUAL_TOKENS).flatmap(lambda size: pairs(size, kind=kind))
    size = tokens(vocab_size)
    return _pairs(size) if kind is None else _of_relation(size, chosen("kind", kind, related(size)))


def conditional_tables(
    *, max_vocab_size: int = 3, max_num_draft_tokens: int = 2, min_vocab_size: int = 1, min_num_draft_tokens: int = 0
) -> st.SearchStrategy[Case]:
    """Generate cases whose target and draft rows depend on the tokens before them.

    Args:
        max_vocab_size: Largest number V of tokens, 1 to 256.
        max_num_draft_tokens: Largest draft length G, 0 or more. A table has about V**G rows, at most 500 of them
            and 1500 probabilities, and the exact law of a rule on it takes about V**(2 G) runs of the rule.
        min_vocab_size: Smallest number V of tokens, 1 up to the largest.
        min_num_draft_tokens: Smallest draft length G, 0 up to the largest.

    Returns:
        A strategy for exact cases; their description lists the rows. Where more than one token is needed, examples
        shrink towards the two-token example, with rows that ignore the context.

    Raises:
        ConfigError: An argument is too small, a smallest size exceeds the largest, or the largest table is too large.

    Example:
        >>> from hypothesis import find
        >>> from specverify.properties import conditional_tables, reproducible
        >>> tables = conditional_tables(max_num_draft_tokens=1)
        >>> find(tables, lambda case: case.contextual, settings=reproducible).description
        'p(.): 3/5 2/5; q(.): 4/5 1/5; p(.|0): 3/5 2/5; p(.|1): 3/5 2/5'
    """
    size = tokens(min_vocab_size, name="min_vocab_size")
    largest = tokens(max_vocab_size, name="max_vocab_size", least=size)
    length = integer("min_num_draft_tokens", min_num_draft_tokens, 0, MAX_DRAFT_TOKENS)
    most = integer("max_num_draft_tokens", max_num_draft_tokens, length, MAX_DRAFT_TOKENS)
    _require_small(largest, most)
    lengths = [*range(max(1, length), most + 1), most, *range(length, 1)]
    return _tables(_between(size, largest), st.sampled_from(lengths))


def float_pairs(vocab_size: int | None = None) -> st.SearchStrategy[tuple[FloatArray, FloatArray]]:
    """Generate pairs of float rows for statistical tests: those of ``pairs`` with every weight scaled at random.

    Args:
        vocab_size: Number V of tokens, 1 to 128; left out, 1 to 4.

    Returns:
        A strategy for pairs of float64 [V] arrays that sum to 1 up to rounding. Zeros stay zeros. Where more than one
        token is needed, examples shrink towards the two-token example.

    Raises:
        ConfigError: There would be no tokens or too many.

    Example:
        >>> from hypothesis import find
        >>> from specverify.properties import float_pairs, reproducible
        >>> p, q = find(float_pairs(), lambda pair: pair[0][0] != pair[1][0], settings=reproducible)
        >>> p.round(3).tolist(), q.round(3).tolist()
        ([0.6, 0.4], [0.8, 0.2])
    """
    size = None if vocab_size is None else tokens(vocab_size, most=_MOST_TILTED)
    return pairs(size).flatmap(lambda pair: st.tuples(_tilted(pair[0]), _tilted(pair[1])))


@cache  # a table draws from the same strategy for every prefix, and making one takes longer than drawing from it
def _distributions(vocab_size: int) -> st.SearchStrategy[Row]:
    return _shaped(vocab_size, shapes(vocab_size))


def _shaped(vocab_size: int, shape: st.SearchStrategy[Shape]) -> st.SearchStrategy[Row]:
    drawn = st.tuples(weights(vocab_size, SIMPLEST_TARGET), shape)
    return drawn.map(lambda row: _normalised(row[1](row[0])))


@cache
def _pairs(vocab_size: int) -> st.SearchStrategy[tuple[Row, Row]]:
    return _of_relation(vocab_size, relations(vocab_size))


def _of_relation(vocab_size: int, relation: st.SearchStrategy[Relation]) -> st.SearchStrategy[tuple[Row, Row]]:
    p, q = weights(vocab_size, SIMPLEST_TARGET), weights(vocab_size, SIMPLEST_DRAFT)
    return st.builds(_related, p, q, relation)


def _related(target: Weights, draft: Weights, relation: Relation) -> tuple[Row, Row]:
    p, q = relation(target, draft)
    return _normalised(p), _normalised(q)


def _normalised(row: Weights) -> Row:
    return tuple(Fraction(weight, sum(row)) for weight in row)


def _tilted(row: Row) -> st.SearchStrategy[FloatArray]:
    tilt = st.floats(-_LARGEST_TILT, _LARGEST_TILT)
    return st.lists(tilt, min_size=len(row), max_size=len(row)).map(lambda tilts: _scaled(row, tilts))


def _scaled(row: Row, tilts: Sequence[float]) -> FloatArray:
    scaled = np.array(row, dtype=np.float64) * np.exp(tilts)
    return np.asarray(scaled / scaled.sum(), dtype=np.float64)


def _between(smallest: int, largest: int) -> st.SearchStrategy[int]:
    """Generate sizes: two are the simplest that show anything, and the largest, twice as likely, shows most."""
    return st.sampled_from([*range(max(2, smallest), largest + 1), largest, *range(smallest, 2)])


def _require_small(vocab_size: int, num_draft_tokens: int) -> None:
    """Refuse a table that has too many numbers to be drawn."""
    rows = 2 * sum(vocab_size**length for length in range(num_draft_tokens)) + vocab_size**num_draft_tokens
    if rows > _MOST_ROWS or rows * vocab_size > _MOST_PROBABILITIES:
        raise ConfigError(
            f"expected tables of at most {_MOST_ROWS} rows and {_MOST_PROBABILITIES} probabilities, got max_vocab_size "
            f"{vocab_size} and max_num_draft_tokens {num_draft_tokens}, which make more; for larger ones draw a seed, "
            f"and make a Case of rows by NumPy"
        )


@st.composite
def _tables(draw: st.DrawFn, sizes: st.SearchStrategy[int], lengths: st.SearchStrategy[int]) -> Case:
    size, num_draft_tokens = draw(sizes), draw(lengths)
    target: dict[Prefix, Row] = {}
    draft: dict[Prefix, Row] = {}
    for length in range(num_draft_tokens):
        for prefix in product(range(size), repeat=length):
            target[prefix], draft[prefix] = draw(_pairs(size))
    for prefix in product(range(size), repeat=num_draft_tokens):
        target[prefix] = draw(_distributions(size))
    text = "; ".join(_text(prefix, target, draft) for prefix in target)
    return Case.from_table("table", target, draft, num_draft_tokens=num_draft_tokens, description=text)


def _text(prefix: Prefix, target: Mapping[Prefix, Row], draft: Mapping[Prefix, Row]) -> str:
    given = f".|{','.join(map(str, prefix))}" if prefix else "."
    rows = (("p", target[prefix]), ("q", draft.get(prefix, ())))
    return "; ".join(f"{name}({given}): {' '.join(map(str, row))}" for name, row in rows if row)

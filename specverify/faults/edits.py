"""A fault is described once, as an edit of the token or the block rule, and every law and sampler of it follows.

The functions of an edit work on rows [..., V] with any leading axes, of float64 or of Fractions (dtype object): what is
exact stays exact. With nothing edited an edit is the rule itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from specverify.reference import Number

__all__ = [
    "Array",
    "BlockEdit",
    "Edit",
    "acceptance",
    "as_array",
    "from_target",
    "normalised",
    "residual",
    "survival",
    "unchanged",
    "without",
]

Array: TypeAlias = npt.NDArray[Any]
"""Rows, or one number for each of several rows: float64, or Fractions in an array of dtype object."""

Shared: TypeAlias = Literal["nothing", "positions", "replacement", "draft", "noise"]


def as_array(row: Sequence[Number]) -> Array:
    """Give a row as an array: float64 if any number in it is a float, else Fractions.

    Example:
        >>> as_array([1, Fraction(1, 2)]).tolist()
        [Fraction(1, 1), Fraction(1, 2)]
    """
    if any(isinstance(number, float) for number in row):
        return np.array(row, dtype=np.float64)
    return np.array([Fraction(number) for number in row], dtype=object)


def unchanged(q: Array) -> Array:
    """Give a row as it is."""
    return q


def acceptance(p: Array, q: Array, position: int = 0) -> Array:  # noqa: ARG001 - the correct rule needs no position
    """Give min(1, p / q) element by element; where q is 0, whether p is positive.

    Example:
        >>> acceptance(np.array([0.25, 0.0]), np.array([0.5, 0.0])).tolist()
        [0.5, 0.0]
    """
    drawn = q > 0
    with np.errstate(over="ignore"):
        ratio = np.minimum(p / np.where(drawn, q, 1), 1)
    return np.where(drawn, ratio, 1 * (p > 0))


def residual(p: Array, q: Array) -> Array:
    """Give the weights (p - q)+; p itself where they are all 0, which only rounding can reach.

    Example:
        >>> residual(np.array([0.75, 0.25]), np.array([0.25, 0.75])).tolist()
        [0.5, 0.0]
    """
    return carried(np.ones_like(p[..., 0]), p, q)


def from_target(p: Array, q: Array) -> Array:  # noqa: ARG001 - the correct bonus does not look at the draft
    """Give the target row p."""
    return p


def normalised(weights: Array) -> Array:
    """Divide each row of weights by its sum, which is positive."""
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights / (total * Fraction(1) if weights.dtype == object else total))


def without(weights: Array, tokens: npt.NDArray[np.int64], p: Array) -> Array:
    """Give rows [N, V] of weights with one token of each set to 0; the row of p where nothing else has weight."""
    rest = np.array(weights)
    rest[np.arange(len(rest)), tokens] = 0
    return np.where(rest.sum(axis=-1, keepdims=True) > 0, rest, p)


@dataclass(frozen=True)
class Edit:
    """The token rule with some of its decisions replaced.

    Attributes:
        propose: From the draft row q to the weights that drafts are really drawn from; weights need not sum to 1.
        claim: From q to the row that the verifier takes for the draft's law, q^.
        accept: From p, q^ and the position to the probability of acceptance, element by element.
        replace: From p and q^ to the weights of the replacement.
        drop_draft: Whether the weight of the rejected token is then set to 0.
        bonus: From the target row after the last draft, and q^ at the last draft, to the weights of the bonus.
        shared: Which uniform is used twice: "positions": the first position's decides all; "replacement": the one that
            rejected draws the replacement; "draft": the one that drew a draft decides its acceptance; "noise": the
            exponentials of the race that drew the draft are raced again for the replacement, ``replace`` giving the
            law of that.
        count_rejected: Whether a rejected draft counts as accepted.
    """

    propose: Callable[[Array], Array] = unchanged
    claim: Callable[[Array], Array] = unchanged
    accept: Callable[[Array, Array, int], Array] = acceptance
    replace: Callable[[Array, Array], Array] = residual
    drop_draft: bool = False
    bonus: Callable[[Array, Array], Array] = from_target
    shared: Shared = "nothing"
    count_rejected: bool = False

    @property
    def drafts(self) -> bool:
        """Whether the fault lies in the drafting, so that a sampler with it must draft by itself."""
        return self.propose is not unchanged or self.shared in ("draft", "noise")


def survival(w: Array, p: Array, q: Array) -> Array:
    """Give h = Z / (Z + 1 - w) with Z = sum (w p - q)+, the chance of the block rule; 1 where that is 0/0 or more.

    Args:
        w: Joint weight of each prefix, [...].
        p: Target row after it, [..., V].
        q: Draft row after it, [..., V].
    """
    owed = np.maximum(w[..., None] * p - q, 0).sum(axis=-1)
    whole = owed + (1 - w)
    return np.where(whole > 0, np.minimum(owed / np.where(whole > 0, whole, 1), 1), 1)


def carried(w: Array, p: Array, q: Array) -> Array:
    """Give the weights of the block rule's replacement, (w p - q)+; p itself where they are all 0."""
    rest = np.maximum(w[..., None] * p - q, 0)
    return np.where(rest.sum(axis=-1, keepdims=True) > 0, rest, p)


@dataclass(frozen=True)
class BlockEdit:
    """The block rule with some of its decisions replaced.

    Attributes:
        capped: Whether the joint weight is cut to 1 at every position.
        chance: From w, p and q to the chance that a prefix before the last is kept.
        replace: From w, p and q to the weights of the replacement.
        stops: Whether the first position that fails ends the search.
    """

    capped: bool = True
    chance: Callable[[Array, Array, Array], Array] = survival
    replace: Callable[[Array, Array, Array], Array] = carried
    stops: bool = False

    @property
    def drafts(self) -> bool:
        """Never: a block rule verifies what it is given."""
        return False

"""Sampling parameters change the target before anything is drawn; on rows of Fractions their laws are exact.

Losslessness is a claim about the law that was asked for: the row after temperature and filters. The parameters here
give that row, in the order temperature, top-k, top-p, min-p, each renormalised; ties go to the lower token id.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from specverify.cases import MAX_VOCAB_SIZE
from specverify.errors import ConfigError
from specverify.integers import integer
from specverify.wording import brief

from .arguments import fraction
from .strategies import Row

__all__ = ["SamplingParameters", "sampling_parameters"]

_COLDEST: Final = 4  # largest 1/T that is generated
_LARGEST_POWER: Final = 1000  # largest 1/T at all: the numbers of a row grow that many times as long


@dataclass(frozen=True)
class SamplingParameters:
    """Temperature and filters, and the exact law that they make of a row.

    Attributes:
        temperature: 0 for the greedy limit, or 1/n for a whole n from 1 to 1000: for other T p**(1/T) is no fraction.
            Among tokens that are equally likely the greedy limit is the lowest id, while T to 0 shares the mass.
        top_k: How many of the likeliest tokens are kept, 1 or more; None keeps all.
        top_p: Within (0, 1]: the fewest likeliest tokens are kept that have this mass together.
        min_p: Within [0, 1]: tokens of less than this share of the likeliest one's probability are dropped.

    Raises:
        ConfigError: A parameter lies outside its domain.

    Example:
        >>> row = (Fraction(1, 2), Fraction(3, 10), Fraction(1, 5))
        >>> [str(x) for x in SamplingParameters(temperature=Fraction(1, 2), top_k=2).law(row)]
        ['25/34', '9/34', '0']
    """

    temperature: Fraction = Fraction(1)
    top_k: int | None = None
    top_p: Fraction = Fraction(1)
    min_p: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        given = {
            "temperature": _temperature(self.temperature),
            "top_k": None if self.top_k is None else integer("top_k", self.top_k, 1, MAX_VOCAB_SIZE),
            "top_p": _share("top_p", self.top_p, "a number within (0, 1]"),
            "min_p": _share("min_p", self.min_p, "a number within [0, 1]", zero=True),
        }
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def law(self, row: Sequence[Fraction]) -> Row:
        """Give the law that is really asked for.

        Args:
            row: V Fractions that sum to 1.

        Returns:
            V Fractions that sum to 1; the support of the row, or a part of it.

        Raises:
            ConfigError: The row is no law.

        Example:
            >>> [str(x) for x in SamplingParameters(min_p=Fraction(1, 2)).law([Fraction(3, 5), Fraction(2, 5), 0])]
            ['3/5', '2/5', '0']
        """
        kept = _tempered(_law(row), self.temperature)
        for keeps in (self._within_top_k, self._within_top_p, self._within_min_p):
            kept = _renormalised(kept, keeps(kept))
        return kept

    def of(self, model: Callable[[tuple[int, ...]], Sequence[Any]]) -> Callable[[tuple[int, ...]], Row]:
        """Give the model whose every row has these parameters applied."""
        return cache(lambda prefix: self.law(model(prefix)))

    def _within_top_k(self, row: Row) -> list[int]:
        return _by_rank(row)[: self.top_k]

    def _within_top_p(self, row: Row) -> list[int]:
        kept: list[int] = []
        for token in _by_rank(row):
            if sum(row[x] for x in kept) >= self.top_p:
                break
            kept.append(token)
        return kept

    def _within_min_p(self, row: Row) -> list[int]:
        return [token for token, probability in enumerate(row) if probability >= self.min_p * max(row)]


def sampling_parameters(vocab_size: int) -> st.SearchStrategy[SamplingParameters]:
    """Generate sampling parameters whose laws are exact.

    Args:
        vocab_size: Number V of tokens, 1 to 262,144; top-k is at most as large.

    Returns:
        A strategy for ``SamplingParameters``: temperatures 0, 1, 1/2, 1/3 and 1/4, and every combination of filters.
        Examples shrink towards temperature 1 without filters.

    Raises:
        ConfigError: There would be no tokens or too many.

    Example:
        >>> from hypothesis import find
        >>> from specverify.properties import reproducible, sampling_parameters
        >>> find(sampling_parameters(3), lambda parameters: True, settings=reproducible).law((Fraction(1), Fraction(0)))
        (Fraction(1, 1), Fraction(0, 1))
    """
    size = integer("vocab_size", vocab_size, 1, MAX_VOCAB_SIZE)
    shares = st.integers(1, 9).map(lambda tenths: Fraction(tenths, 10))
    return st.builds(
        SamplingParameters,
        temperature=st.sampled_from([*(Fraction(1, n) for n in range(1, _COLDEST + 1)), Fraction(0)]),
        top_k=st.none() | st.integers(1, size),
        top_p=st.just(Fraction(1)) | shares,
        min_p=st.just(Fraction(0)) | shares,
    )


def _temperature(value: object) -> Fraction:
    domain = f"0 or 1/n for a whole n from 1 to {_LARGEST_POWER}"
    temperature = fraction("temperature", value, domain)
    if temperature and (temperature.numerator != 1 or temperature.denominator > _LARGEST_POWER):
        raise ConfigError(f"expected temperature to be {domain}, got {brief(value)}; no other has an exact law here")
    return temperature


def _share(name: str, value: object, domain: str, *, zero: bool = False) -> Fraction:
    share = fraction(name, value, domain)
    if not 0 <= share <= 1 or not (share or zero):
        raise ConfigError(f"expected {name} to be {domain}, got {brief(value)}; {int(not zero)} keeps everything")
    return share


def _law(row: object) -> Row:
    """Give a row as Fractions; what is no law is a ConfigError."""
    domain = "made of Fractions >= 0 that sum to 1"
    if isinstance(row, str | bytes) or not isinstance(row, Sequence | np.ndarray):
        raise ConfigError(f"expected the row to be {domain}, got {brief(row)}")
    law = tuple(fraction("the row", value, domain) for value in row)
    if sum(law) != 1 or min(law) < 0:
        raise ConfigError(f"expected the row to be {domain}, got {brief(row)}; divide it by its exact sum")
    return law


def _by_rank(row: Row) -> list[int]:
    """List the tokens from the likeliest down, ties by id."""
    return sorted(range(len(row)), key=lambda token: (-row[token], token))


def _tempered(row: Row, temperature: Fraction) -> Row:
    if temperature == 0:
        return tuple(Fraction(token == row.index(max(row))) for token in range(len(row)))
    return _renormalised([x**temperature.denominator for x in row], range(len(row)))


def _renormalised(row: Sequence[Fraction], kept: Sequence[int]) -> Row:
    total = sum(row[token] for token in kept)
    return tuple(x / total if token in kept else Fraction(0) for token, x in enumerate(row))

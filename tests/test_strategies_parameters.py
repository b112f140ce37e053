"""Sampling parameters give exact laws or are refused, and so is what is no kind and no law."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings

from specverify.errors import ConfigError
from specverify.properties import (
    Row,
    SamplingParameters,
    distributions,
    logits,
    pairs,
    representable,
    reproducible,
    sampling_parameters,
    uniforms,
)

search = settings(reproducible, max_examples=1000, phases=[Phase.generate])  # stops at the first find, unshrunk


@reproducible
@given(sampling_parameters(3), distributions(3))
def test_sampling_parameters_make_laws(given_parameters: SamplingParameters, row: Row) -> None:
    """Whatever the parameters, a row stays an exact law."""
    law = given_parameters.law(row)
    assert sum(law) == 1
    assert all(isinstance(x, Fraction) for x in law)


def test_sampling_parameters_of_every_kind_come() -> None:
    """Greedy and cold, each filter alone and all at once: all are generated."""
    kinds: list[Callable[[SamplingParameters], bool]] = [
        lambda given: given == SamplingParameters(),
        lambda given: given.temperature == 0,
        lambda given: given.temperature == Fraction(1, 3),
        lambda given: given.top_k is not None and given.top_p < 1 and given.min_p > 0,
    ]
    assert all(find(sampling_parameters(3), kind, settings=search) for kind in kinds)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": Fraction(2)},
        {"temperature": Fraction(2, 3)},
        {"temperature": Fraction(-1)},
        {"top_k": 0},
        {"top_p": Fraction(0)},
        {"min_p": Fraction(3, 2)},
        {"temperature": Fraction(1, 10**12)},
        {"temperature": "x"},
        {"temperature": None},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"temperature": "1/0"},
        {"temperature": "1e999999999"},
        {"temperature": []},
        {"temperature": True},
        {"top_k": "a"},
        {"top_k": 1.5},
        {"top_k": True},
        {"top_k": 2**31},
        {"top_p": "x"},
        {"top_p": None},
        {"top_p": np.float64("nan")},
        {"top_p": True},
        {"min_p": None},
        {"min_p": -1},
        {"min_p": np.True_},
    ],
    ids=str,
)
def test_parameters_without_an_exact_law_are_refused(wrong: dict[str, Any]) -> None:
    """p**(1/T) is a fraction for whole 1/T only, a short one for few; every other parameter has its domain."""
    with pytest.raises(ConfigError, match=rf"^expected {next(iter(wrong))} to be [^\n]+, got [^\n]+$"):
        SamplingParameters(**wrong)


@pytest.mark.parametrize("half", [Fraction(1, 2), 0.5, "1/2", np.float32(0.5)], ids=repr)
def test_parameters_are_kept_as_fractions(half: Any) -> None:
    """A number of any type is the same parameter, so that parameters of equal laws are equal."""
    given_as: dict[str, Any] = {"temperature": half, "top_k": np.int64(2), "top_p": half, "min_p": half}
    parameters = SamplingParameters(**given_as)
    assert parameters == SamplingParameters(Fraction(1, 2), 2, Fraction(1, 2), Fraction(1, 2))
    assert {type(number) for number in (parameters.temperature, parameters.top_p, parameters.min_p)} == {Fraction}
    assert type(parameters.top_k) is int


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize(
    "row",
    [(0, 0), (), (2, -1), (1, 1), ("x", 1), (None, 1), (float("nan"), 1), (0.7, 0.2, 0.1), None, 1, "10", {1: 1}],
    ids=repr,
)
def test_what_is_no_law_has_no_filtered_law(row: Any, temperature: int) -> None:
    """A row that is no exact law is refused in one line, whatever the parameters."""
    with pytest.raises(ConfigError, match=r"^expected the row to be made of Fractions >= 0 that sum to 1, got [^\n]+$"):
        SamplingParameters(temperature=Fraction(temperature)).law(row)


@pytest.mark.parametrize("row", [(Fraction(1, 2), Fraction(1, 2)), ["1/2", 0.5], np.array([0.5, 0.5])], ids=repr)
def test_an_exact_law_is_one_in_any_form(row: Any) -> None:
    """Numbers that sum to exactly 1 are a law, and come back as Fractions."""
    law = SamplingParameters().law(row)
    assert law == (Fraction(1, 2), Fraction(1, 2))
    assert {type(probability) for probability in law} == {Fraction}


@pytest.mark.parametrize(
    "make",
    [
        lambda: distributions(2, kind="zip"),
        lambda: pairs(2, kind="mirror"),
        lambda: uniforms("float8"),
        lambda: representable(2, "int8"),
        lambda: pairs(1, kind="disjoint"),
        lambda: pairs(kind="mirror"),
    ],
)
def test_unknown_kinds_are_refused(make: Callable[[], object]) -> None:
    """An unknown kind is refused when the strategy is made, in one line that lists the known ones."""
    with pytest.raises(ConfigError, match=r"^expected (kind|dtype) to be one of "):
        make()


@pytest.mark.parametrize("wrong", [[], {}, 3, True, ""], ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        lambda wrong: distributions(2, kind=wrong),
        lambda wrong: pairs(2, kind=wrong),
        lambda wrong: pairs(kind=wrong),
        lambda wrong: logits(2, kind=wrong),
        uniforms,
        lambda wrong: representable(3, wrong),
    ],
    ids=["distributions", "pairs", "pairs of any size", "logits", "uniforms", "representable"],
)
def test_what_is_no_kind_is_refused(make: Callable[[Any], object], wrong: Any) -> None:
    """A kind is a text: anything else, hashable or not, is answered as an unknown one."""
    with pytest.raises(ConfigError, match=r"^expected (kind|dtype) to be one of [^\n]+, got [^\n]+$"):
        make(wrong)

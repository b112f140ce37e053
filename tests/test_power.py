"""What a check would have caught is stated correctly: tables, worked examples, and power summed exactly."""

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from specverify.errors import ConfigError
from specverify.evidence import binomial_p, gof
from specverify.power import check_level, detectable_tv, mixture_tv, noncentrality, samples_for

CELLS = (2, 4, 8, 16, 32, 64, 128, 1024, 32768, 131072)
SINGLE = (38.1, 44.3, 51.9, 62.2, 76.6, 96.8, 125, 302, 1574, 3119)
SUITE = (52.4, 59.1, 67.7, 79.5, 96.2, 120, 153, 362, 1863, 3686)


def _printed(value: float) -> float:
    return round(value, 1) if value < 100 else round(value)


@pytest.mark.parametrize(("cells", "expected"), list(zip(CELLS, SINGLE, strict=True)))
def test_noncentrality_of_a_single_check(cells: int, expected: float) -> None:
    """Lambda* at level 1e-6 has the tabulated value for every number of cells."""
    assert _printed(noncentrality(cells, 1e-6)) == expected


@pytest.mark.parametrize(("cells", "expected"), list(zip(CELLS, SUITE, strict=True)))
def test_noncentrality_inside_a_suite(cells: int, expected: float) -> None:
    """Lambda* at the share of one check out of 64 at alpha 1e-6 has the tabulated value."""
    assert _printed(noncentrality(cells, check_level(1e-6, 64))) == expected


@pytest.mark.parametrize("cells", [2, 3, 17, 1024, 262144])
@pytest.mark.parametrize("level", [0.05, 1e-9, 1e-60])
@pytest.mark.parametrize("miss", [0.5, 0.1, 1e-6])
def test_noncentrality_solves_its_equation(cells: int, level: float, miss: float) -> None:
    """At lambda* the non-central chi-square law puts exactly `miss` below the rejection threshold."""
    threshold = stats.chi2.isf(level, cells - 1)
    assert stats.ncx2.cdf(threshold, cells - 1, noncentrality(cells, level, miss)) == pytest.approx(miss, rel=1e-6)


@pytest.mark.parametrize("rigorous", [False, True])
@pytest.mark.parametrize("cells", [2, 16, 1024, 262144])
def test_noncentrality_holds_out_at_extreme_levels(cells: int, rigorous: bool) -> None:
    """Lambda* stays finite and grows as the level falls, down to the smallest float."""
    levels = (0.5, 1e-3, 1e-30, 1e-100, 1e-300, 5e-324)
    values = [noncentrality(cells, level, rigorous=rigorous) for level in levels]
    assert all(math.isfinite(value) for value in values)
    assert values == sorted(values)
    assert len(set(values)) == len(values)


@pytest.mark.parametrize(("cells", "cost"), [(2, 1.37), (16, 1.64), (32, 1.84), (128, 2.5)])
def test_cost_of_the_rigorous_bound(cells: int, cost: float) -> None:
    """At level 1e-6 the rigorous p-value needs the stated multiple of samples."""
    ratio = noncentrality(cells, 1e-6, rigorous=True) / noncentrality(cells, 1e-6)
    assert ratio == pytest.approx(cost, abs=0.0071)


@pytest.mark.parametrize(("cells", "level"), [(3, 1e-6), (64, 1e-12), (200, 0.3)])
def test_rigorous_threshold_is_that_of_the_test(cells: int, level: float) -> None:
    """The rigorous test rejects on one side of the threshold that planning assumes, and not on the other."""
    needed = noncentrality(cells, level, 0.5, rigorous=True)
    threshold = stats.ncx2.ppf(0.5, cells - 1, needed)
    df = cells - 1
    log_p = -threshold / 2 + df * (1 + math.log(threshold / (2 * df)))
    assert log_p == pytest.approx(math.log(level), rel=1e-6)


def test_worked_example_detectable_tv() -> None:
    """Of 64 checks, one with 16 cells sees 0.10, 0.032, 0.010, 0.0032 and 0.0010 with 2e3 to 2e7 events."""
    level = check_level(1e-6, 64)
    seen = [float(f"{detectable_tv(2 * 10**power, 16, level):.2g}") for power in range(3, 8)]
    assert seen == [0.1, 0.032, 0.01, 0.0032, 0.001]


def test_worked_example_rejections() -> None:
    """TV 0.01 on the residual with 16 cells takes 198 830 rejections, at acceptance 0.6 some 497 000 blocks."""
    rejections = samples_for(0.01, 16, check_level(1e-6, 64))
    assert rejections == 198_830
    assert round(rejections / 0.4, -3) == 497_000


@pytest.mark.parametrize(("cells", "samples"), [(2, 95e3), (32, 191e3), (128, 313e3), (1024, 755e3), (131072, 7.8e6)])
def test_worked_example_single_test(cells: int, samples: float) -> None:
    """One test at level 1e-6 sees TV 0.01 with the stated number of samples."""
    assert samples_for(0.01, cells, 1e-6) == pytest.approx(samples, rel=0.006)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    tv=st.floats(1e-4, 1.0),
    cells=st.integers(2, 5000),
    level=st.floats(1e-40, 0.1),
    rigorous=st.booleans(),
)
def test_sample_size_and_detectable_tv_are_inverse(tv: float, cells: int, level: float, rigorous: bool) -> None:
    """The planned number of events detects the planned error, and one event fewer does not."""
    n = samples_for(tv, cells, level, rigorous=rigorous)
    assert detectable_tv(n, cells, level, rigorous=rigorous) <= tv * (1 + 1e-9)
    assert n == 1 or detectable_tv(n - 1, cells, level, rigorous=rigorous) >= min(1.0, tv * (1 - 1e-9))


def test_nothing_is_promised_without_evidence() -> None:
    """No events, a single cell or too few events give a detectable TV of 1, the weakest claim there is."""
    assert detectable_tv(0, 16, 1e-9) == 1.0
    assert detectable_tv(10**9, 1, 1e-9) == 1.0
    assert detectable_tv(3, 16, 1e-9) == 1.0
    assert noncentrality(1, 1e-9) == math.inf


def test_power_promised_is_power_delivered_by_the_exact_binomial() -> None:
    """At the detectable TV, two equal cells (the worst case) are rejected as often as promised, summed exactly."""
    n, level = 20_000, 1e-6
    biased = 0.5 + detectable_tv(n, 2, level)
    law = stats.binom.pmf(np.arange(n + 1), n, biased)
    p_values = binomial_p(np.arange(n + 1), n, 0.5)
    assert law[p_values <= level].sum() == pytest.approx(0.9, abs=0.01)
    assert law[p_values <= 3 * level].sum() > 0.9, "in a suite the exact test has no factor 3 to pay"


def test_power_promised_is_power_delivered_by_the_corrected_g() -> None:
    """At the detectable TV, 4 equal cells tilted in pairs (the worst case) are rejected as promised, exactly summed."""
    n, level = 60, 0.01
    tv = detectable_tv(n, 4, level)
    null, tilted = np.full(4, 0.25), 0.25 + tv / 2 * np.array([1, 1, -1, -1])
    tables = [(a, b, c, n - a - b - c) for a in range(n + 1) for b in range(n + 1 - a) for c in range(n + 1 - a - b)]
    law = stats.multinomial.pmf(tables, n, tilted)
    rejected = [gof(table, null).p_value <= 3 * level for table in tables]
    assert 0.89 <= law[rejected].sum() <= 0.95


def test_share_of_a_check() -> None:
    """A check's chi-square level is half of alpha, less the safety factor 3, over the number of checks."""
    assert check_level(1e-6, 1) == pytest.approx(1e-6 / 6)
    assert check_level(0.06, 10) == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: check_level(0.0, 3), "alpha=0.0"),
        (lambda: check_level(1.0, 3), "alpha=1.0"),
        (lambda: check_level(math.nan, 3), "alpha=nan"),
        (lambda: check_level(1e-6, 0), "num_checks=0"),
        (lambda: noncentrality(0, 1e-6), "cells=0"),
        (lambda: noncentrality(4, 0.0), "level=0.0"),
        (lambda: noncentrality(4, 1.5), "level=1.5"),
        (lambda: noncentrality(4, 1e-6, 0.0), "miss=0.0"),
        (lambda: noncentrality(4, 0.5, 0.6), "miss=0.6"),
        (lambda: detectable_tv(-1, 4, 1e-6), "n=-1"),
        (lambda: samples_for(0.0, 4, 1e-6), "tv=0.0"),
        (lambda: samples_for(1.1, 4, 1e-6), "tv=1.1"),
        (lambda: samples_for(1e-300, 27, 1e-6), "tv=1e-300"),
        (lambda: samples_for(0.01, 10**12, 1e-6), "cells=1000000000000"),
        (lambda: detectable_tv(10**400, 4, 1e-6), r"n=10{97}\.\.\. \(403 characters\)"),
        (lambda: mixture_tv(10**400, 4, 20.0), r"n=10{97}\.\.\. \(403 characters\)"),
        (lambda: mixture_tv(10, 10**400, 20.0), "cells=1000"),
        (lambda: check_level(1e-6, 10**400), "num_checks=1000"),
        (lambda: check_level(5e-324, 64), "alpha=5e-324"),
        (lambda: samples_for(0.01, 1, 1e-6), "cells=1"),
    ],
)
def test_impossible_requests_are_refused(call: Callable[[], object], named: str) -> None:
    """An argument outside its domain is refused in one line: what was expected, what was got, what to do."""
    with pytest.raises(ConfigError, match=r"^expected ") as caught:
        call()
    message = str(caught.value)
    assert re.search(named, message)
    assert "; " in message
    assert "\n" not in message

"""Counts become evidence as claimed: pooling, tails, multiplicity and the e-process, exactly wherever possible."""

import doctest
import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from specverify import evidence
from specverify.arrays import FloatArray
from specverify.errors import ConfigError
from specverify.evidence import (
    EProcess,
    Fit,
    binomial_p,
    gof,
    holm,
    log_e,
    mean_log_e,
    pearson,
    pool,
    required_count,
)

exhaustive = settings(derandomize=True, deadline=None, max_examples=100)


def tables(n: int, k: int) -> Iterator[tuple[int, ...]]:
    """All ways to put n events into k cells."""
    if k == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in tables(n - first, k - 1):
            yield (first, *rest)


def null_law(counts: tuple[int, ...], probs: tuple[Fraction, ...]) -> Fraction:
    """The exact multinomial probability of a table."""
    ways = math.factorial(sum(counts))
    for count in counts:
        ways //= math.factorial(count)
    return ways * math.prod((p**c for p, c in zip(probs, counts, strict=True)), start=Fraction(1))


def thirds(*numerators: int) -> tuple[Fraction, ...]:
    """Probabilities in proportion to the numerators."""
    return tuple(Fraction(numerator, sum(numerators)) for numerator in numerators)


@st.composite
def count_tables(draw: st.DrawFn, max_cells: int = 12) -> tuple[list[int], FloatArray]:
    """Counts and positive probabilities of the same cells."""
    k = draw(st.integers(1, max_cells))
    counts = draw(st.lists(st.integers(0, 60), min_size=k, max_size=k))
    weights = np.array(draw(st.lists(st.floats(1e-3, 1.0), min_size=k, max_size=k)))
    return counts, weights / weights.sum()


# Pooling


def test_pool_closes_a_group_when_it_reaches_the_least_expectation() -> None:
    """Cells are walked in ascending probability and close as soon as ten counts are expected."""
    counts, probs = pool([64, 5, 3, 20, 8], [0.625, 0.0625, 0.03125, 0.1875, 0.09375], 10)
    assert counts.tolist() == [3 + 5 + 8, 20, 64]
    assert probs.tolist() == [0.1875, 0.1875, 0.625]


def test_pool_gives_the_leftover_to_the_group_closed_last() -> None:
    """A last group that stays too small does not stand alone."""
    counts, probs = pool([7, 8, 9], [0.3125, 0.3125, 0.375], 14)
    assert counts.tolist() == [24]
    assert probs.tolist() == [1.0]
    counts, probs = pool([1, 2, 3, 4, 5], [0.1875, 0.1875, 0.1875, 0.1875, 0.25], 5)
    assert counts.tolist() == [3, 12]
    assert probs.tolist() == [0.375, 0.625]


def test_pool_leaves_rich_tables_alone() -> None:
    """Where every cell expects enough, only the order changes."""
    counts, probs = pool([60, 40], [0.625, 0.375], 10)
    assert counts.tolist() == [40, 60]
    assert probs.tolist() == [0.375, 0.625]
    counts, _ = pool([9, 11, 12], [0.3125, 0.3125, 0.375], 10)
    assert counts.tolist() == [9, 11, 12], "exactly ten expected counts are enough"


@exhaustive
@given(table=count_tables(), seed=st.integers(0, 99))
def test_pool_keeps_mass_and_never_looks_at_the_counts(table: tuple[list[int], FloatArray], seed: int) -> None:
    """Totals survive, every group is large enough, and the same n in other cells gives the same groups."""
    counts, probs = table
    pooled, mass = pool(counts, probs, 10)
    n = sum(counts)
    assert pooled.sum() == n
    assert mass.sum() == pytest.approx(1.0)
    assert len(mass) == 1 or (n * mass >= 10 - 1e-9).all()
    shuffled = np.random.default_rng(seed).permutation(counts)
    assert pool(shuffled, probs, 10)[1].tolist() == mass.tolist()


# Headline test


def test_two_cells_are_decided_by_the_exact_binomial() -> None:
    """With two cells the p-value is twice the smaller exact tail, without a safety factor."""
    fit = gof([70, 30], [0.5, 0.5])
    assert (fit.method, fit.df, fit.cells, fit.n) == ("binomial", 1, 2, 100)
    assert fit.p_value == pytest.approx(2 * stats.binom.cdf(30, 100, 0.5), rel=1e-12)


def test_corrected_g_follows_its_formula() -> None:
    """The statistic is G over Williams' factor and the p-value three times the chi-square tail."""
    counts, probs = [160, 240, 600], [0.125, 0.25, 0.625]
    fit = gof(counts, probs)
    g = 2 * sum(c * math.log(c / (1000 * p)) for c, p in zip(counts, probs, strict=True))
    expected = g / (1 + (8 + 4 + 1.6 - 1) / (6 * 1000 * 2))
    assert (fit.method, fit.df, fit.cells, fit.n) == ("g-williams", 2, 3, 1000)
    assert fit.statistic == pytest.approx(expected, rel=1e-12)
    assert fit.p_value == pytest.approx(3 * stats.chi2.sf(expected, 2), rel=1e-12)


def test_rigorous_bound_follows_its_formula() -> None:
    """The rigorous p-value is exp(-G/2) (e G / (2 df))^df above 2 df and 1 below."""
    counts, probs = [200, 200, 600], [0.125, 0.25, 0.625]
    g = 2 * sum(c * math.log(c / (1000 * p)) for c, p in zip(counts, probs, strict=True))
    fit = gof(counts, probs, rigorous=True)
    assert fit.method == "g-bound"
    assert fit.statistic == pytest.approx(g, rel=1e-12)
    assert fit.p_value == pytest.approx(math.exp(-g / 2) * (math.e * g / 4) ** 2, rel=1e-12)
    assert gof([126, 249, 625], probs, rigorous=True).p_value == 1.0


def test_far_tail_keeps_its_digits() -> None:
    """P-values near 1e-290 are exact to many digits, and beyond the range of floats they are 0, not an error."""
    fit = gof([1055, 1000, 125, 820], [0.25, 0.25, 0.25, 0.25])
    log_sf = stats.chi2(3).logsf(fit.statistic)
    assert -690 < log_sf < -230
    assert math.log(fit.p_value) == pytest.approx(math.log(3) + log_sf, rel=1e-10)
    assert gof([10**6, 0, 0], [0.25, 0.25, 0.5]).p_value == 0.0
    assert gof([10**6, 0, 0], [0.25, 0.25, 0.5], rigorous=True).p_value == 0.0


def test_one_hit_in_an_impossible_cell_is_proof() -> None:
    """A count where the null probability is 0 gives p-value 0, however few events there are."""
    for test in (gof, pearson):
        fit = test([3, 1, 0], [1.0, 0.0, 0.0])
        assert (fit.method, fit.p_value, fit.statistic, fit.n) == ("impossible", 0.0, math.inf, 4)


def test_an_impossible_cell_never_hit_changes_nothing() -> None:
    """Cells of probability 0 without counts leave statistic, degrees of freedom and p-value as they were."""
    assert gof([0, 40, 30, 30], [0.0, 0.375, 0.3125, 0.3125]) == gof([40, 30, 30], [0.375, 0.3125, 0.3125])
    assert gof([40, 60, 0], [0.375, 0.625, 0.0]).method == "binomial"


@pytest.mark.parametrize("counts", [[0, 0, 0], [4, 5, 6], [9, 0, 0]])
def test_too_few_events_are_not_a_test(counts: list[int]) -> None:
    """Fewer than two cells after pooling: not run, with p-value 1."""
    for test in (gof, pearson):
        fit = test(counts, [0.25, 0.25, 0.5])
        assert fit == Fit("none", 0.0, 0, 1.0, 1, sum(counts))


def test_pearson_is_scipys_chi_square() -> None:
    """Statistic and p-value equal those of `scipy.stats.chisquare`, for two cells as well."""
    for counts, probs in (([130, 240, 630], [0.125, 0.25, 0.625]), ([70, 30], [0.625, 0.375])):
        fit = pearson(counts, probs)
        expected = stats.chisquare(counts, [sum(counts) * p for p in probs])
        assert fit.method == "pearson"
        assert fit.df == len(counts) - 1
        assert fit.statistic == pytest.approx(expected.statistic, rel=1e-12)
        assert fit.p_value == pytest.approx(expected.pvalue, rel=1e-12)


def _false_alarms(
    probs: tuple[Fraction, ...], n: int, p_value: Callable[[tuple[int, ...]], float]
) -> tuple[FloatArray, FloatArray]:
    """P-values in ascending order and the exact null probability of one at most as large."""
    support = list(tables(n, len(probs)))
    law = np.array([float(null_law(table, probs)) for table in support])
    p_values = np.array([p_value(table) for table in support])
    order = np.argsort(p_values)
    return p_values[order], np.cumsum(law[order])


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 4, 15), (1, 1, 18)])
def test_false_alarm_rate_of_the_headline_by_enumeration(weights: tuple[int, ...]) -> None:
    """Over all tables of 200 events in 3 cells, p-values below a occur with probability at most a, at 1e-3 and 1e-6."""
    probs = thirds(*weights)
    p_values, alarms = _false_alarms(probs, 200, lambda table: gof(table, [float(p) for p in probs]).p_value)
    for level in (1e-3, 1e-6):
        rate = alarms[np.searchsorted(p_values, level, side="right") - 1]
        assert level / 5 < rate <= level


def test_false_alarm_rate_of_the_rigorous_bound_by_enumeration() -> None:
    """The rigorous p-value never understates its tail at any attained value, even with 3 events expected in a cell."""
    probs = thirds(1, 2, 17)
    p_values, alarms = _false_alarms(
        probs, 60, lambda table: gof(table, [float(p) for p in probs], min_expected=0, rigorous=True).p_value
    )
    last = np.append(np.diff(p_values) > 0, True)
    assert (alarms[last] <= p_values[last] + 1e-12).all()


def test_false_alarm_rate_of_pearson_is_why_it_decides_nothing() -> None:
    """With 10 counts expected in the rarest cell, Pearson's nominal 1e-6 is exceeded several times over."""
    probs = thirds(1, 1, 18)
    p_values, alarms = _false_alarms(probs, 200, lambda table: pearson(table, [float(p) for p in probs]).p_value)
    assert alarms[np.searchsorted(p_values, 1e-6, side="right") - 1] > 5e-6


# Binomial and Holm


@pytest.mark.parametrize("prob", [0.001, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("n", [1, 7, 200])
def test_binomial_p_is_twice_the_smaller_exact_tail(n: int, prob: float) -> None:
    """Every count agrees with the one-sided exact tests of SciPy, doubled and capped at 1."""
    p_values = binomial_p(np.arange(n + 1), n, prob)
    for count in range(n + 1):
        tails = [stats.binomtest(count, n, prob, alternative=side).pvalue for side in ("less", "greater")]
        assert p_values[count] == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-9)


def test_binomial_p_broadcasts_and_knows_the_edges() -> None:
    """Counts, trials and probabilities broadcast; certain and impossible events and empty experiments are right."""
    assert binomial_p([[0], [3]], [3, 5], 0.5).shape == (2, 2)
    assert binomial_p([0, 1, 3, 3, 2], [0, 3, 3, 3, 3], [0.5, 0.0, 0.0, 1.0, 1.0]).tolist() == [1.0, 0.0, 0.0, 1.0, 0.0]


@exhaustive
@given(p_values=st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.0125, 0.05 / 3, 0.025, 0.05]), max_size=6))
def test_holm_equals_closed_testing(p_values: list[float]) -> None:
    """A check is rejected if and only if every set of checks that holds it has a member below level / size."""
    level = 0.05
    subsets = [s for size in range(1, len(p_values) + 1) for s in itertools.combinations(range(len(p_values)), size)]
    expected = [
        all(min(p_values[j] for j in subset) <= level / len(subset) for subset in subsets if i in subset)
        for i in range(len(p_values))
    ]
    assert holm(p_values, level).tolist() == expected


def test_holm_by_hand() -> None:
    """The textbook example: 0.005 and 0.01 pass their steps, 0.03 fails at 0.025 and stops the rest."""
    assert holm([0.01, 0.04, 0.03, 0.005], 0.05).tolist() == [True, False, False, True]
    assert holm([1.0, 2e-7], 5e-7).tolist() == [False, True]


# The e-process


@pytest.mark.parametrize(
    ("probs", "n"),
    [(thirds(1, 1), 12), (thirds(1, 99), 9), (thirds(1, 2, 5), 8), (thirds(1, 3, 5, 7), 6), (thirds(1, 0, 3), 7)],
)
def test_e_value_has_mean_one(probs: tuple[Fraction, ...], n: int) -> None:
    """Summed over every table, null probability times e-value is exactly 1."""
    values = [float(p) for p in probs]
    terms = (
        float(null_law(t, probs)) * math.exp(log_e(t, values)) for t in tables(n, len(probs)) if null_law(t, probs)
    )
    assert math.fsum(terms) == pytest.approx(1.0, abs=1e-12)


@exhaustive
@given(table=count_tables(max_cells=6))
def test_e_process_is_a_martingale(table: tuple[list[int], FloatArray]) -> None:
    """From any state, the e-value expected after one more event is the present one."""
    counts, probs = table
    now = log_e(counts, probs)
    after = (
        p * math.exp(log_e(counts + step, probs) - now)
        for p, step in zip(probs, np.eye(len(probs), dtype=int), strict=True)
    )
    assert math.fsum(after) == pytest.approx(1.0, abs=1e-11)


@exhaustive
@given(table=count_tables(max_cells=6))
def test_e_value_equals_its_rational_definition(table: tuple[list[int], FloatArray]) -> None:
    """The log e-value is that of the mean over kappa = 1e1..1e7 of exact rising factorials."""
    counts, probs = table

    def rising(start: Fraction, steps: int) -> Fraction:
        return math.prod((start + i for i in range(steps)), start=Fraction(1))

    total = Fraction(0)
    for kappa in (10**power for power in range(1, 8)):
        alternative = math.prod(
            (rising(kappa * Fraction(p), c) / Fraction(p) ** c for p, c in zip(probs, counts, strict=True)),
            start=Fraction(1),
        )
        total += alternative / rising(Fraction(kappa), sum(counts))
    expected = total / 7
    log_expected = math.log(expected.numerator) - math.log(expected.denominator)
    assert log_e(counts, probs) == pytest.approx(log_expected, abs=1e-9)


def test_e_value_equals_the_log_gamma_formula_at_large_counts() -> None:
    """With a million events, the value agrees with the textbook log-gamma expression to its own accuracy."""
    counts, probs = np.array([250_400, 249_900, 499_000, 700]), np.array([0.25, 0.25, 0.4995, 0.0005])
    parts = []
    for kappa in 10.0 ** np.arange(1, 8):
        cells = (
            math.lgamma(kappa * p + c) - math.lgamma(kappa * p) - c * math.log(p)
            for c, p in zip(counts.tolist(), probs.tolist(), strict=True)
        )
        parts.append(math.fsum(cells) + math.lgamma(kappa) - math.lgamma(kappa + 1e6))
    assert log_e(counts, probs) == pytest.approx(mean_log_e(parts), abs=1e-5)


@exhaustive
@given(table=count_tables(), cut=st.floats(0, 1))
def test_updates_add_up(table: tuple[list[int], FloatArray], cut: float) -> None:
    """Two updates are one: the counts are the only state, so shards merge by addition."""
    counts, probs = table
    first = [int(cut * count) for count in counts]
    process = EProcess(probs)
    assert process.log_e == 0.0
    process.update(first)
    process.update(np.subtract(counts, first))
    assert process.counts.tolist() == counts
    assert process.log_e == log_e(counts, probs)


def test_ville_bound_by_exact_recursion() -> None:
    """Looking after every one of 200 events, a fair coin ever shows an e-value of 1/a with probability at most a."""
    for level in (0.2, 0.05):
        alive, crossed = {0: 1.0}, 0.0
        for n in range(1, 201):
            moved: dict[int, float] = {}
            for heads, mass in alive.items():
                for step in (0, 1):
                    moved[heads + step] = moved.get(heads + step, 0.0) + mass / 2
            alarms = {heads for heads in moved if log_e([heads, n - heads], [0.5, 0.5]) >= -math.log(level)}
            crossed += math.fsum(moved.pop(heads) for heads in alarms)
            alive = moved
        assert 0 < crossed <= level


def test_e_process_grows_at_the_rate_of_the_information() -> None:
    """Under a wrong law the log e-value is close to n KL, short of it by the price of not knowing the law."""
    null, wrong = np.array([0.5, 0.25, 0.25]), np.array([0.46, 0.25, 0.29])
    information = 100_000 * float((wrong * np.log(wrong / null)).sum())
    assert information - 12 < log_e((100_000 * wrong).round().astype(int), null) < information


def test_e_process_is_infinite_after_an_impossible_event() -> None:
    """A hit in a cell of probability 0 is proof, before and after anything else is seen."""
    process = EProcess([0.5, 0.5, 0.0])
    process.update([4, 5, 0])
    assert math.isfinite(process.log_e)
    process.update([0, 0, 1])
    assert process.log_e == math.inf
    process.update([50, 50, 0])
    assert process.log_e == math.inf


def test_e_process_survives_extreme_numbers() -> None:
    """Subnormal probabilities and a thousand billion counts give finite evidence without a warning."""
    with np.errstate(all="raise"):
        rare = log_e([2, 998], [5e-324, 1.0])
        many = log_e([5 * 10**11, 5 * 10**11], [0.5, 0.5])
    assert 700 < rare < 800
    assert -20 < many < 0


# Combination and required counts


def test_mean_of_e_values() -> None:
    """The mean is taken of the e-values, not of their logs; zero, infinite and huge evidence is carried through."""
    assert mean_log_e([math.log(2), math.log(4)]) == pytest.approx(math.log(3))
    assert mean_log_e([-math.inf, 0.0]) == pytest.approx(-math.log(2))
    assert mean_log_e([-math.inf, -math.inf]) == -math.inf
    assert mean_log_e([3.0, math.inf, -math.inf]) == math.inf
    assert mean_log_e([2000.0, -2000.0]) == pytest.approx(2000 - math.log(2))


@pytest.mark.parametrize("prob", [Fraction(0), Fraction(1, 50), Fraction(1, 2), Fraction(9, 10), Fraction(1)])
@pytest.mark.parametrize("n", [0, 1, 40, 120])
@pytest.mark.parametrize("miss", [1e-9, 0.25])
def test_required_count_by_exact_summation(n: int, prob: Fraction, miss: float) -> None:
    """Fewer events than required have exact probability below `miss`; one more could not be required."""
    law = [math.comb(n, r) * prob**r * (1 - prob) ** (n - r) for r in range(n + 1)]
    required = required_count(n, float(prob), miss=miss)
    exact_miss = Fraction(miss) * (1 + Fraction(1, 10**9) * (1 if miss < 0.1 else 0))
    assert sum(law[:required]) < exact_miss
    assert required == n or sum(law[: required + 1]) >= miss


def test_required_count_at_scale() -> None:
    """For a billion trials it is still the quantile that SciPy gives."""
    assert required_count(10**9, 0.2) == stats.binom.ppf(1e-9, 10**9, 0.2)


# Refusals


@pytest.mark.parametrize(
    "call",
    [
        lambda: gof([1, 2], [0.5, 0.6]),
        lambda: gof([1, 2], [-0.5, 1.5]),
        lambda: gof([1, 2], [math.nan, 1.0]),
        lambda: gof([1, 2, 3], [0.5, 0.5]),
        lambda: gof([1.0, 2.0], [0.5, 0.5]),
        lambda: gof([-1, 2], [0.5, 0.5]),
        lambda: gof([], []),
        lambda: gof([[1, 2]], [[0.5, 0.5]]),
        lambda: gof([1, 2], [0.5, 0.5], min_expected=-1),
        lambda: pool([1, 2], [0.5, 0.5], math.nan),
        lambda: pearson([1, 2], [0.5, 0.4]),
        lambda: log_e([1, 2], [0.5, 0.4]),
        lambda: EProcess([0.5]),
        lambda: EProcess([0.5, 0.5]).update([1]),
        lambda: EProcess([0.5, 0.5]).update([1, -1]),
        lambda: EProcess([0.5, 0.5]).update([0.5, 0.5]),
        lambda: binomial_p(4, 3, 0.5),
        lambda: binomial_p(-1, 3, 0.5),
        lambda: binomial_p(1, 3, 1.5),
        lambda: holm([0.1, math.nan], 0.05),
        lambda: holm([0.1, 1.1], 0.05),
        lambda: holm([0.1], 0.0),
        lambda: mean_log_e([]),
        lambda: mean_log_e([0.0, math.nan]),
        lambda: required_count(-1, 0.5),
        lambda: required_count(10, 1.5),
        lambda: required_count(10, 0.5, miss=0.0),
    ],
)
def test_impossible_requests_are_refused(call: Callable[[], object]) -> None:
    """An argument outside its domain is refused in one line: what was expected, what was got, what to do."""
    with pytest.raises(ConfigError, match=r"^expected .*got .*; ") as caught:
        call()
    assert "\n" not in str(caught.value)


def test_examples_of_the_documentation_run() -> None:
    """Every example in the docstrings of the module prints what it says."""
    outcome = doctest.testmod(evidence)
    assert outcome.attempted > 0
    assert outcome.failed == 0

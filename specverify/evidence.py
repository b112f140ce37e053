"""The evidence of every check is its counts against exactly known cell probabilities: counts in, numbers out.

Under a correct sampler the counts of a check are Multinomial(n, probs) with `probs` known, so one engine serves all
checks. `gof` gives the headline p-value at the planned n; `EProcess` gives evidence that may be read at any time.
Nothing here draws samples, and the counts are the only state, so shards merge by addition.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from specverify.arrays import BoolArray, FloatArray, IntArray
from specverify.errors import ConfigError

__all__ = [
    "KAPPAS",
    "EProcess",
    "Fit",
    "binomial_p",
    "gof",
    "holm",
    "log_e",
    "mean_log_e",
    "pearson",
    "pool",
    "required_count",
]

_SAFETY = 3.0  # the true tail of G-Williams at 10 expected counts was measured at up to 1.44 times the nominal one
KAPPAS = tuple(10.0**power for power in range(1, 8))
"""Concentrations of the Dirichlet mixture, averaged with equal weight."""

_KAPPAS: FloatArray = np.array(KAPPAS)[:, np.newaxis]

Method = Literal["g-williams", "g-bound", "binomial", "pearson", "impossible", "none"]


@dataclass(frozen=True)
class Fit:
    """How well counts agree with their null law.

    Attributes:
        method: "g-williams", "g-bound" (rigorous), "binomial" (two cells, exact), "pearson", "impossible" (a cell of
            null probability 0 was hit: p_value 0, statistic inf) or "none" (fewer than two cells after pooling: not
            run, p_value 1).
        statistic: the statistic that `method` names; for "binomial" the likelihood-ratio G, for orientation only.
        df: degrees of freedom, cells - 1.
        p_value: how often a correct sampler shows a statistic this large; for "g-williams" with the safety factor 3.
        cells: cells after pooling; for "impossible", which needs no pooling, all cells.
        n: number of events counted.
    """

    method: Method
    statistic: float
    df: int
    p_value: float
    cells: int
    n: int


def gof(counts: npt.ArrayLike, probs: npt.ArrayLike, *, min_expected: float = 10.0, rigorous: bool = False) -> Fit:
    """Test at the planned n whether counts follow their known cell probabilities: the headline test.

    The statistic is the likelihood ratio G = 2 sum c ln(c / (n pi)) after `pool`. Two cells are decided by the exact
    binomial. Otherwise Williams' correction makes G follow chi-square closely, and its tail is tripled to cover what
    error remains. With `rigorous` the p-value is instead the bound exp(-G/2) (e G / (2 df))^df of Agrawal (2020),
    valid for every n and number of cells but costing more samples: use it above 128 cells or for levels below 1e-9,
    where the factor 3 is unmeasured.

    Args:
        counts: int [K], each >= 0.
        probs: float64 [K], each >= 0, summing to 1.
        min_expected: least expected count of a cell after pooling.
        rigorous: use the bound instead of the corrected chi-square tail.

    Returns:
        The fit. The p-value is for the planned n only: never compute it while peeking.

    Raises:
        ConfigError: counts and probs do not describe one table.

    >>> fit = gof([2790, 7210], [0.4, 0.6])
    >>> fit.method, fit.p_value < 1e-100
    ('binomial', True)
    >>> gof([330, 338, 332], [1 / 3, 1 / 3, 1 / 3]).p_value
    1.0
    """
    table = _pooled(counts, probs, min_expected)
    if isinstance(table, Fit):
        return table
    seen, null = table
    n, k = int(seen.sum()), len(null)
    statistic = max(0.0, 2.0 * float(special.kl_div(seen, n * null).sum()))
    if k == 2:
        return Fit("binomial", statistic, 1, float(binomial_p(seen[0], n, null[0])), k, n)
    if rigorous:
        return Fit("g-bound", statistic, k - 1, _agrawal_bound(statistic, k - 1), k, n)
    statistic /= 1.0 + (float((1.0 / null).sum()) - 1.0) / (6.0 * n * (k - 1))
    return Fit("g-williams", statistic, k - 1, min(1.0, _SAFETY * _chi2_sf(statistic, k - 1)), k, n)


def pearson(counts: npt.ArrayLike, probs: npt.ArrayLike, *, min_expected: float = 10.0) -> Fit:
    """Give the textbook chi-square test that readers know, equal to `scipy.stats.chisquare` on the pooled cells.

    It is shown beside the headline and never used for the verdict. Its nominal p-value is right near 5% but not in the
    far tail where a suite of many checks decides: with 5 expected counts per cell (the textbook rule) false alarms at
    a nominal 1e-6 are up to 66 times as frequent, at 1e-9 up to 1300 times; with 10 still 16 and 239 times. G with
    Williams' correction stays within 1.44 times.

    Args:
        counts: int [K], each >= 0.
        probs: float64 [K], each >= 0, summing to 1.
        min_expected: least expected count of a cell after pooling.

    Returns:
        The fit, with method "pearson", "impossible" or "none".

    Raises:
        ConfigError: counts and probs do not describe one table.

    >>> fit = pearson([44, 56], [0.5, 0.5])
    >>> fit.df, round(fit.statistic, 2), round(fit.p_value, 3)
    (1, 1.44, 0.23)
    """
    table = _pooled(counts, probs, min_expected)
    if isinstance(table, Fit):
        return table
    seen, null = table
    n, k = int(seen.sum()), len(null)
    statistic = float(((seen - n * null) ** 2 / (n * null)).sum())  # written out: scipy.stats takes long to import
    return Fit("pearson", statistic, k - 1, _chi2_sf(statistic, k - 1), k, n)


def pool(counts: npt.ArrayLike, probs: npt.ArrayLike, min_expected: float) -> tuple[IntArray, FloatArray]:
    """Merge cells until each expects `min_expected` counts, by their probabilities and never by what was counted.

    Cells are walked in ascending probability; a group closes when it reaches `min_expected`; what is left at the end
    joins the group closed last.

    Args:
        counts: int [K], each >= 0.
        probs: float64 [K], each >= 0, summing to 1.
        min_expected: least expected count of a group, >= 0.

    Returns:
        Counts int64 [k] and probabilities float64 [k] of the groups, in the order in which they closed.

    Raises:
        ConfigError: counts and probs do not describe one table, or min_expected is negative.

    >>> counts, probs = pool([3, 4, 13, 80], [0.0625, 0.0625, 0.125, 0.75], 10)
    >>> counts.tolist(), probs.tolist()
    ([7, 13, 80], [0.125, 0.125, 0.75])
    """
    return _pool(*_validated(counts, probs), min_expected)


def binomial_p(count: npt.ArrayLike, n: npt.ArrayLike, prob: npt.ArrayLike) -> FloatArray:
    """Give the exact two-sided p-value of binomial counts: twice the smaller tail, at most 1.

    Args:
        count: int, any shape, 0 <= count <= n; the three broadcast against each other.
        n: int, any shape.
        prob: float, any shape, within [0, 1].

    Returns:
        float64 of the broadcast shape.

    Raises:
        ConfigError: a count lies outside [0, n] or a probability outside [0, 1].

    >>> float(binomial_p(0, 10, 0.5)) == 2 * 0.5**10
    True
    """
    c, m, p = (np.asarray(values, dtype=np.float64) for values in (count, n, prob))
    if not (np.all((c >= 0) & (c <= m)) and np.all((p >= 0) & (p <= 1))):
        raise ConfigError(
            "expected 0 <= count <= n and 0 <= prob <= 1, got a value outside; check the counts of this event"
        )
    upper = np.where(c > 0, special.betainc(np.maximum(c, 1), m - c + 1, p), 1.0)
    return np.asarray(np.minimum(1.0, 2.0 * np.minimum(_lower_tail(c, m, p), upper)), dtype=np.float64)


def holm(p_values: npt.ArrayLike, level: float) -> BoolArray:
    """Say which of m checks are rejected with probability at most `level` of any false rejection, by Holm's step-down.

    Args:
        p_values: float [m], each within [0, 1], one for every planned check: those not run count too, with p-value 1.
        level: family-wise error rate, within (0, 1).

    Returns:
        bool [m], True where the check is rejected.

    Raises:
        ConfigError: a p-value lies outside [0, 1] (or is NaN), or the level outside (0, 1).

    >>> holm([0.01, 0.04, 0.03, 0.005], 0.05).tolist()
    [True, False, False, True]
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not np.all((p >= 0) & (p <= 1)):
        raise ConfigError(
            "expected a list of p-values within [0, 1], got something else; give 1.0 for checks that did not run"
        )
    if not 0 < level < 1:
        raise ConfigError(f"expected a level within (0, 1), got {level}; use for instance 5e-7")
    order = np.argsort(p, kind="stable")
    rejected = np.zeros(p.shape, dtype=np.bool_)
    rejected[order] = np.logical_and.accumulate(p[order] <= level / np.arange(len(p), 0, -1))
    return rejected


class EProcess:
    """Evidence that may be read at any time: under a correct sampler it ever reaches 1/a with probability at most a.

    The e-value is the Dirichlet-multinomial likelihood of the counts, with parameters kappa * probs, over their null
    likelihood, averaged with equal weight over kappa = 1e1, 1e2, ..., 1e7 (Lindon and Malek, 2022). Its mean under the
    null is exactly 1 and it is a martingale, so Ville's inequality holds whatever the schedule of looks.

    Args:
        probs: float64 [K], each >= 0, summing to 1.

    Attributes:
        counts: int64 [K], all the state there is.

    Raises:
        ConfigError: probs is no distribution.

    >>> process = EProcess([0.25, 0.75])
    >>> process.update([700, 300])
    >>> process.log_e > 100
    True
    """

    def __init__(self, probs: npt.ArrayLike) -> None:
        self._probs = _distribution(probs)
        self.counts: IntArray = np.zeros(self._probs.shape, dtype=np.int64)

    def update(self, counts: npt.ArrayLike) -> None:
        """Add the counts of newly observed events.

        Args:
            counts: int [K], each >= 0.

        Raises:
            ConfigError: the counts do not fit the cells.
        """
        self.counts += _tally(counts, len(self.counts))

    @property
    def log_e(self) -> float:
        """Natural log of the e-value so far; inf once a cell of null probability 0 was hit."""
        return _log_mixture(self.counts, self._probs)


def log_e(counts: npt.ArrayLike, probs: npt.ArrayLike) -> float:
    """Give the natural log of the e-value of one table of counts, as `EProcess` would after seeing them in any order.

    Args:
        counts: int [K], each >= 0.
        probs: float64 [K], each >= 0, summing to 1.

    Returns:
        The log e-value; inf if a cell of probability 0 was hit.

    Raises:
        ConfigError: counts and probs do not describe one table.

    >>> log_e([0, 0], [0.5, 0.5])
    0.0
    """
    return _log_mixture(*_validated(counts, probs))


def mean_log_e(log_es: npt.ArrayLike) -> float:
    """Give the log of the mean of e-values, itself an e-value whatever the dependence between them.

    Args:
        log_es: float [m], m >= 1, natural logs of e-values; -inf and inf are allowed.

    Returns:
        ln((e_1 + ... + e_m) / m).

    Raises:
        ConfigError: there are no values, or one is NaN.

    >>> mean_log_e([0.0, float("-inf")]) == -math.log(2)
    True
    """
    values = np.asarray(log_es, dtype=np.float64)
    top = float(values.max(initial=-math.inf))
    if values.size == 0 or math.isnan(top):
        raise ConfigError(
            "expected at least one log e-value and no NaN, got otherwise; leave checks that cannot run out"
        )
    return top if math.isinf(top) else top + math.log(float(np.exp(values - top).mean()))


def required_count(n: int, prob: float, *, miss: float = 1e-9) -> int:
    """Give the least number of events that must be seen before a run may be called conformant.

    It is the `miss` quantile of Binomial(n, prob): a correct sampler shows fewer with probability below `miss`.

    Args:
        n: trials, >= 0.
        prob: exact null probability of the event, within [0, 1].
        miss: how often a correct sampler may fall short, within (0, 1).

    Returns:
        The required count, 0 where even no occurrence is likely enough.

    Raises:
        ConfigError: an argument lies outside its domain.

    >>> required_count(1000, 0.5), required_count(10, 0.5)
    (405, 0)
    """
    if n < 0 or not 0 <= prob <= 1 or not 0 < miss < 1:
        raise ConfigError(
            f"expected n >= 0, prob in [0, 1] and miss in (0, 1), got n={n}, prob={prob}, miss={miss}; correct them"
        )
    return bisect_left(range(n + 1), True, key=lambda count: bool(_lower_tail(count, n, prob) >= miss))


def _pooled(counts: npt.ArrayLike, probs: npt.ArrayLike, min_expected: float) -> tuple[IntArray, FloatArray] | Fit:
    """Give the pooled table, or the fit at once where no test is needed."""
    seen, null = _validated(counts, probs)
    n = int(seen.sum())
    if seen[null == 0].any():
        return Fit("impossible", math.inf, len(null) - 1, 0.0, len(null), n)
    seen, null = _pool(seen, null, min_expected)
    return (seen, null) if len(null) > 1 else Fit("none", 0.0, 0, 1.0, 1, n)


def _pool(seen: IntArray, null: FloatArray, min_expected: float) -> tuple[IntArray, FloatArray]:
    if not min_expected >= 0:
        raise ConfigError(
            f"expected min_expected >= 0, got {min_expected}; 10 is the value whose false-alarm rate is known"
        )
    order = np.argsort(null, kind="stable")
    starts, mass = [0], 0.0
    for i, expected in enumerate((seen.sum() * null[order]).tolist(), start=1):
        mass += expected
        if mass >= min_expected and mass > 0:
            starts.append(i)
            mass = 0.0
    starts = starts[:-1] or [0]  # the group still open joins the one closed last
    return np.add.reduceat(seen[order], starts), np.add.reduceat(null[order], starts)


def _validated(counts: npt.ArrayLike, probs: npt.ArrayLike) -> tuple[IntArray, FloatArray]:
    null = _distribution(probs)
    return _tally(counts, len(null)), null


def _distribution(probs: npt.ArrayLike) -> FloatArray:
    null = np.asarray(probs, dtype=np.float64)
    if null.ndim != 1 or not np.all(null >= 0) or not abs(null.sum() - 1) <= 1e-9:
        raise ConfigError(
            f"expected cell probabilities [K] >= 0 summing to 1, got shape {null.shape}, sum {null.sum()}; renormalise"
        )
    return null


def _tally(counts: npt.ArrayLike, cells: int) -> IntArray:
    seen = np.asarray(counts)
    if seen.dtype.kind not in "iu" or seen.shape != (cells,) or seen.min() < 0:
        got = f"{seen.dtype} {seen.shape}"
        raise ConfigError(
            f"expected integer counts [{cells}] >= 0, got {got}, least {seen.min(initial=0)}; count events per cell"
        )
    return seen.astype(np.int64, copy=False)


def _chi2_sf(statistic: float, df: int) -> float:
    return float(special.gammaincc(df / 2, statistic / 2))


def _agrawal_bound(statistic: float, df: int) -> float:
    ratio = statistic / (2 * df)
    return math.exp(df * (1 - ratio + math.log(ratio))) if ratio > 1 else 1.0


def _log_mixture(seen: IntArray, null: FloatArray) -> float:
    hit = seen > 0  # cells never hit drop out of the likelihood
    seen, null = seen[hit], null[hit]
    if not (len(seen) and null.all()):
        return math.inf if len(seen) else 0.0
    # The normaliser is the term of a last column that holds the total and has mass 1.
    terms = _log_rising(_KAPPAS * np.append(null, 1.0), np.append(seen, seen.sum()))
    return mean_log_e(terms[:, :-1].sum(axis=1) - terms[:, -1])


def _log_rising(a: FloatArray, n: IntArray) -> FloatArray:
    """Give ln of a (a+1) ... (a+n-1) / a^n, for n >= 1.

    With kappa pi for a, the ratio of Dirichlet-multinomial to multinomial likelihood is a product of these. For a >=
    64 it follows from Stirling's series, since subtracting two log-gammas near 1e8 would leave no more than 8
    decimals.
    """
    direct = special.gammaln(a + n) - special.gammaln(a + 1.0) - (n - 1) * np.log(a)  # finite for subnormal a too
    base = np.maximum(a, 64.0)
    top: FloatArray = base + n
    stirling = (top - 0.5) * np.log1p(n / base) - n + (_binet(top) - _binet(base))
    return np.where(a < 64.0, direct, stirling)


def _binet(x: FloatArray) -> FloatArray:
    """Give ln Gamma(x) - (x - 1/2) ln x + x - ln(2 pi) / 2, within 1e-15 for x >= 64."""
    y = 1.0 / (x * x)
    return (1 / 12 - y * (1 / 360 - y / 1260)) / x


def _lower_tail(count: npt.ArrayLike, n: npt.ArrayLike, prob: npt.ArrayLike) -> FloatArray:
    """P(X <= count) for X ~ Binomial(n, prob), accurate far into the tail."""
    above = np.subtract(n, count)
    tail = special.betainc(np.maximum(above, 1), np.add(count, 1), np.subtract(1.0, prob))
    return np.asarray(np.where(above > 0, tail, 1.0), dtype=np.float64)

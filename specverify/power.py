"""No pass without a stated power: what error a check would have caught, and how many events a given one takes.

Used before a run to plan it and after it to say what was shown. On any partition chi2(f || pi) >= 4 TV^2, so a sampler
at total variation TV from its null has a non-central chi-square statistic with non-centrality of at least 4 n TV^2.
The figures are thus for the worst case, an error spread in proportion to the null; concentrated errors are easier.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from scipy import special

from specverify.errors import ConfigError
from specverify.evidence import KAPPAS
from specverify.wording import clip

__all__ = ["check_level", "detectable_tv", "mixture_tv", "noncentrality", "samples_for"]

MIN_TV = 1e-9
MAX_COUNT = 10**9  # cells and checks
MAX_EVENTS = 10**24


@lru_cache(maxsize=4096)
def noncentrality(cells: int, level: float, miss: float = 0.1, *, rigorous: bool = False) -> float:
    """Give the non-centrality lambda* that a chi-square test of `cells` cells misses with probability `miss`.

    It solves ncx2.cdf(chi2.isf(level, cells - 1), cells - 1, lambda) = miss.

    Args:
        cells: cells after pooling, 1 to 1e9; with a single cell nothing can be seen and the answer is inf.
        level: chi-square level of the check, within (0, 1); `check_level` gives that of a check inside a suite.
        miss: probability of missing the error (1 - power), above 0 and below 1 - level.
        rigorous: the threshold is that of the rigorous p-value of `evidence.gof`, not of the chi-square tail.

    Returns:
        lambda*.

    Raises:
        ConfigError: an argument lies outside its domain.

    >>> round(noncentrality(16, 1e-6), 1)
    62.2
    """
    _require(1 <= cells <= MAX_COUNT, "1 to 1e9 cells", f"cells={cells}", "count the cells left after pooling")
    _require(0 < level < 1, "a level within (0, 1)", f"level={level}", "take it from check_level")
    _require(0 < miss < 1 - level, "miss above 0 and below 1 - level", f"miss={miss}, level={level}", "use 0.1")
    if cells == 1:
        return math.inf
    df = cells - 1
    threshold = _bound_threshold(df, level) if rigorous else 2.0 * float(special.gammainccinv(df / 2, level))
    return _root(lambda value: miss - float(special.chndtr(threshold, df, value)), threshold + 1.0)


def detectable_tv(n: int, cells: int, level: float, miss: float = 0.1, *, rigorous: bool = False) -> float:
    """Give the total variation that a check of n events detects with probability 1 - miss, whatever the error's shape.

    Args:
        n: events of that check, 0 to 1e24.
        cells: cells after pooling, 1 to 1e9.
        level: chi-square level of the check, within (0, 1).
        miss: probability of missing the error, above 0 and below 1 - level.
        rigorous: the check uses the rigorous p-value.

    Returns:
        1/2 sqrt(lambda* / n), at most 1; 1 where n = 0 or a single cell is left, since nothing would be seen.

    Raises:
        ConfigError: an argument lies outside its domain.

    >>> round(detectable_tv(20_000, 16, check_level(1e-6, 64)), 3)
    0.032
    """
    _require(0 <= n <= MAX_EVENTS, "n from 0 to 1e24", f"n={n}", "count the events of the check")
    needed = noncentrality(cells, level, miss, rigorous=rigorous)
    return min(1.0, 0.5 * math.sqrt(needed / n)) if n else 1.0


def samples_for(tv: float, cells: int, level: float, miss: float = 0.1, *, rigorous: bool = False) -> int:
    """Give the number of events a check needs to detect a total variation with probability 1 - miss.

    Args:
        tv: total variation to detect, 1e-9 to 1.
        cells: cells after pooling, >= 2.
        level: chi-square level of the check, within (0, 1).
        miss: probability of missing the error, above 0 and below 1 - level.
        rigorous: the check uses the rigorous p-value.

    Returns:
        The least n with lambda* <= 4 n tv^2.

    Raises:
        ConfigError: an argument lies outside its domain.

    >>> samples_for(0.01, 16, check_level(1e-6, 64))
    198830
    """
    _require(MIN_TV <= tv <= 1, "tv from 1e-9 to 1", f"tv={tv}", "use for instance 0.01")
    _require(cells >= 2, "at least 2 cells", f"cells={cells}", "use a finer partition, one cell sees nothing")
    return math.ceil(noncentrality(cells, level, miss, rigorous=rigorous) / (4.0 * tv * tv))


def mixture_tv(n: int, cells: int, log_threshold: float, miss: float = 0.1) -> float:
    """Give the total variation that the e-process of `evidence` detects by n events, cells of any size unpooled.

    Args:
        n: events of that check, 0 to 1e24.
        cells: cells, 1 to 1e9.
        log_threshold: natural logarithm of the e-value that decides, > 0.
        miss: probability of missing the error, within (0, 1).

    Returns:
        As `detectable_tv`, from ln DM ~ 1/2 n/(n + kappa) X2 - (cells - 1)/2 ln(1 + n/kappa) for the best kappa.

    Raises:
        ConfigError: an argument lies outside its domain.

    >>> round(mixture_tv(20_000, 16, math.log(2 * 64 / 1e-6)), 3)
    0.035
    """
    _require(0 <= n <= MAX_EVENTS, "n from 0 to 1e24", f"n={n}", "count the events of the check")
    _require(1 <= cells <= MAX_COUNT, "1 to 1e9 cells", f"cells={cells}", "count the cells")
    _require(log_threshold > 0, "log_threshold > 0", f"log_threshold={log_threshold}", "use for instance ln(2m/alpha)")
    if n == 0 or cells == 1:
        return 1.0
    df = cells - 1
    share = log_threshold + math.log(len(KAPPAS))  # one kappa must carry the average
    threshold = min(2 * (1 + k / n) * (share + df / 2 * math.log1p(n / k)) for k in KAPPAS)
    needed = _root(lambda value: miss - float(special.chndtr(threshold, df, value)), threshold + 1.0)
    return min(1.0, 0.5 * math.sqrt(needed / n))


def check_level(alpha: float, num_checks: int) -> float:
    """Give the chi-square level of one check inside a suite: alpha / (2 * 3 * num_checks).

    Half of alpha belongs to the fixed-n tests and half to the anytime evidence; 3 is the safety factor of the headline
    p-value; num_checks is the first, hardest step of Holm's procedure.

    Args:
        alpha: false-alarm budget of the suite, within (0, 1).
        num_checks: planned checks over all cases, 1 to 1e9.

    Returns:
        The level.

    Raises:
        ConfigError: an argument lies outside its domain.

    >>> f"{check_level(1e-6, 64):.1e}"
    '2.6e-09'
    """
    _require(0 < alpha < 1, "alpha within (0, 1)", f"alpha={alpha}", "use for instance 1e-6")
    _require(1 <= num_checks <= MAX_COUNT, "1 to 1e9 checks", f"num_checks={num_checks}", "count the planned checks")
    level = alpha / (2 * 3 * num_checks)
    _require(level > 0, "a share of alpha that a float can hold", f"alpha={alpha}", "use for instance 1e-6")
    return level


def _bound_threshold(df: int, level: float) -> float:
    """Give the G at which exp(-G/2) (e G / (2 df))^df is the level: t - 1 - ln t = -ln(level) / df, t = G / (2 df)."""
    excess = -math.log(level) / df
    return 2 * df * (1.0 + _root(lambda over: over - math.log1p(over) - excess, 1.0 + excess))


def _root(increasing: Callable[[float], float], guess: float) -> float:
    """Give the zero above 0 of a function that is negative at 0 and increases."""
    from scipy.optimize import brentq  # slow to import, and only planning needs it

    while increasing(guess) < 0:
        guess *= 2.0
    return float(brentq(increasing, 0.0, guess, rtol=1e-14))


def _require(holds: bool, expected: str, got: str, advice: str) -> None:
    if not holds:
        raise ConfigError(f"expected {expected}, got {clip(got, 100)}; {advice}")

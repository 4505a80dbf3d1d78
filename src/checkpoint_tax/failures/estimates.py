"""The mean time between failures with its interval, and tests of what the gaps are like."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from checkpoint_tax.errors import InputError

FloatArray = NDArray[np.float64]
#: Shape that the printed power is for.
POWER_SHAPE = 0.7
#: Above this number of failures the power is that of this number.
MOST_FAILURES = 500
#: Below it, counts in parts of the exposure are too few for the chi-square distribution.
FEWEST_FOR_DISPERSION = 10
_N_SAMPLES = 20_000
_N_DRAWS = 1_000_000
_LEVEL = 0.05


def mtbf_interval(
    n_failures: int, exposure: float, *, level: float = 0.95, ends_at_failure: bool = False
) -> tuple[float, float]:
    """Exact Poisson interval of the mean time between failures.

    Parameters
    ----------
    n_failures : int
        Failures seen, at least 0.
    exposure : float
        Time watched, above 0, in any unit.
    level : float
        Coverage, inside (0, 1).
    ends_at_failure : bool
        The exposure ends with the last failure instead of at a time of its own, so that the
        count is given and the time is random.

    Returns
    -------
    tuple of float
        Low and high, in the unit of `exposure`; the high one is infinite without failures.

    Raises
    ------
    InputError
        For a negative count, an exposure or level out of range.

    References
    ----------
    Garwood 1936: 2 T / chi2(1 - alpha/2; 2 n + 2) to 2 T / chi2(alpha/2; 2 n); with
    `ends_at_failure` both have 2 n degrees of freedom.
    """
    if n_failures < 0:
        raise InputError(f"n_failures = {n_failures} is refused; allowed: at least 0.")
    if not 0.0 < exposure < math.inf:
        raise InputError(f"exposure = {exposure:g} is refused; allowed: finite, above 0.")
    if not 0.0 < level < 1.0:
        raise InputError(f"level = {level:g} is refused; allowed: above 0 and below 1.")
    tail = (1.0 - level) / 2.0
    most = 2 * n_failures + (0 if ends_at_failure else 2)
    low = 2.0 * exposure / float(stats.chi2.isf(tail, most)) if most else 0.0
    if n_failures == 0:
        return low, math.inf
    return low, 2.0 * exposure / float(stats.chi2.ppf(tail, 2 * n_failures))


@dataclass(frozen=True)
class Test:
    """A test of one property.

    Attributes
    ----------
    name : str
        Which test.
    statistic : float
        Its value.
    p_value : float
        Two-sided.
    meaning : str
        What the value says.
    """

    __test__ = False

    name: str
    statistic: float
    p_value: float
    meaning: str


def laplace_trend(times: ArrayLike, exposure: float, *, ends_at_failure: bool = False) -> Test:
    """Laplace's test of a failure rate that rises or falls.

    Parameters
    ----------
    times : array_like, shape (n,)
        Instants of failures from the start of the exposure, inside it.
    exposure : float
        Time watched, in the same unit.
    ends_at_failure : bool
        The exposure ends with the last failure, which then carries no information.

    Returns
    -------
    Test
        Standard normal without a trend: below 0 the rate falls, above 0 it rises.

    Raises
    ------
    InputError
        With no failure to use, or times outside the exposure.

    References
    ----------
    Cox and Lewis 1966: U = (mean(t) - T/2) / (T sqrt(1 / (12 n))).
    """
    t = np.sort(np.asarray(times, dtype=np.float64).ravel())
    if not 0.0 < exposure < math.inf or np.any((t < 0.0) | (t > exposure)):
        raise InputError(f"exposure = {exposure:g} must be above 0 and hold every failure.")
    if ends_at_failure:
        t = t[:-1]
    if t.size == 0:
        raise InputError("the trend of no failures is not defined; give at least one.")
    value = (float(t.mean()) / exposure - 0.5) * math.sqrt(12.0 * t.size)
    p = 2.0 * float(stats.norm.sf(abs(value)))
    meaning = "no trend seen"
    if p < _LEVEL:
        meaning = "failures come more often with time" if value > 0 else "failures become rarer"
    return Test("Laplace trend", value, p, meaning)


def dispersion(times: ArrayLike, exposure: float) -> Test:
    """Index of dispersion of counts in equal parts of the exposure.

    Parameters
    ----------
    times : array_like, shape (n,)
        Instants of failures from the start of the exposure, inside it; n at least 10.
    exposure : float
        Time watched, in the same unit.

    Returns
    -------
    Test
        Variance over mean of the counts: about 1 for independent failures at one rate, more for
        bursts, less for regular ones. n // 2 parts, at most 50, so that a part expects 2 or more.

    Raises
    ------
    InputError
        With fewer than 10 failures or an exposure that is not positive.

    References
    ----------
    Cox and Lewis 1966: (parts - 1) times the index is about chi-square with parts - 1 degrees
    of freedom for a Poisson process.
    """
    t = np.asarray(times, dtype=np.float64).ravel()
    if t.size < FEWEST_FOR_DISPERSION or not 0.0 < exposure < math.inf:
        raise InputError(f"dispersion needs at least 10 failures in a time above 0, not {t.size}.")
    parts = min(t.size // 2, 50)
    counts = np.histogram(t, bins=parts, range=(0.0, exposure))[0]
    index = float(counts.var(ddof=1) / counts.mean())
    value = index * (parts - 1)
    p = 2.0 * min(float(stats.chi2.sf(value, parts - 1)), float(stats.chi2.cdf(value, parts - 1)))
    meaning = "as independent failures"
    if p < _LEVEL:
        meaning = "failures come in bursts" if index > 1 else "failures are spaced evenly"
    return Test("dispersion of counts", index, min(p, 1.0), meaning)


@dataclass(frozen=True)
class Power:
    """How often the likelihood-ratio test tells a Weibull shape from exponential.

    Attributes
    ----------
    n_failures : int
        Uncensored gaps.
    shape : float
        True shape.
    power : float
        Share of samples in which the test finds it at 5 %.
    standard_error : float
        Of `power`, by the number of samples, that of the critical value included.
    critical : float
        Value that 5 % of exponential samples of this size exceed; 3.84 for very many.
    """

    n_failures: int
    shape: float
    power: float
    standard_error: float
    critical: float


@lru_cache(maxsize=64)
def shape_power(n_failures: int, shape: float = POWER_SHAPE, n_samples: int | None = None) -> Power:
    """Simulate the power of the likelihood-ratio test of shape 1 at level 5 %.

    Parameters
    ----------
    n_failures : int
        Uncensored gaps, at least 2; more than `MOST_FAILURES` count as that many.
    shape : float
        True Weibull shape, in [0.2, 5].
    n_samples : int, optional
        Samples under each of the two shapes, at least 100; by default 20,000, and fewer for more
        than 50 failures, where the power is near 1.

    Returns
    -------
    Power
        The same for the same arguments.

    Raises
    ------
    InputError
        For arguments out of range.

    Notes
    -----
    The critical value is that of exponential samples of the same size, not the one of the
    chi-square distribution, which few failures exceed too often.
    """
    if n_failures < 2:
        raise InputError(f"n_failures = {n_failures} is refused; allowed: at least 2.")
    if not 0.2 <= shape <= 5.0:
        raise InputError(f"shape = {shape:g} [1] is refused; allowed: 0.2 to 5.")
    n = min(n_failures, MOST_FAILURES)
    if n_samples is None:
        n_samples = min(_N_SAMPLES, _N_DRAWS // n)
    if n_samples < 100:
        raise InputError(f"n_samples = {n_samples} is refused; allowed: at least 100.")
    rng = np.random.default_rng([n, 20231])
    null = _ratios(rng.exponential(size=(n_samples, n)))
    critical = float(np.quantile(null, 1.0 - _LEVEL))
    ratios = _ratios(rng.weibull(shape, size=(n_samples, n)))
    power = float((ratios > critical).mean())
    # The critical value's own error moves the power along the curve of power against level.
    low, high = np.quantile(null, [1.0 - 1.2 * _LEVEL, 1.0 - 0.8 * _LEVEL])
    slope = float((ratios > low).mean() - (ratios > high).mean()) / (0.4 * _LEVEL)
    variance = power * (1.0 - power) + slope**2 * _LEVEL * (1.0 - _LEVEL)
    error = math.sqrt(variance / n_samples)
    return Power(n_failures, shape, power, max(error, 1.0 / n_samples), critical)


def _ratios(samples: FloatArray) -> FloatArray:
    """Likelihood-ratio statistics of Weibull against exponential, a row a sample."""
    result = np.empty(samples.shape[0])
    rows = max(1, 1_000_000 // samples.shape[1])
    for first in range(0, samples.shape[0], rows):
        part = slice(first, first + rows)
        result[part] = _ratio_rows(np.log(samples[part]))
    return result


def _ratio_rows(logs: FloatArray) -> FloatArray:
    logs = logs - logs.max(axis=1, keepdims=True)
    mean_log = logs.mean(axis=1)
    shape = np.ones(len(logs))
    for _ in range(60):
        weights = np.exp(shape[:, None] * logs)
        s0 = weights.mean(axis=1)
        s1 = (weights * logs).mean(axis=1)
        s2 = (weights * logs * logs).mean(axis=1)
        slope = s1 / s0 - 1.0 / shape - mean_log
        curvature = (s2 * s0 - s1**2) / s0**2 + 1.0 / shape**2
        change = np.clip(slope / curvature, -2.0 * shape, 0.6 * shape)
        shape = shape - change
        if np.all(np.abs(change) < 1e-9 * shape):
            break
    n = logs.shape[1]
    log_s0 = np.log(np.exp(shape[:, None] * logs).mean(axis=1))
    log_s1 = np.log(np.exp(logs).mean(axis=1))
    weibull = n * (np.log(shape) - log_s0 + (shape - 1.0) * mean_log - 1.0)
    return np.asarray(2.0 * (weibull - n * (-log_s1 - 1.0)))


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of times of which some had not ended.

    Attributes
    ----------
    n : int
        How many.
    n_open : int
        Of these not ended: right-censored, never 0.
    p10_s, p50_s, p90_s : float or None
        Quantiles [s]; None if they lie beyond what has ended.
    longest_s : float or None
        Longest that has ended [s].
    """

    n: int
    n_open: int
    p10_s: float | None
    p50_s: float | None
    p90_s: float | None
    longest_s: float | None


def quantiles(ended_s: ArrayLike, open_s: ArrayLike = ()) -> Quantiles:
    """Quantiles by the Kaplan-Meier curve.

    Parameters
    ----------
    ended_s : array_like, shape (n,)
        Times that ended [s].
    open_s : array_like, shape (m,)
        Times that had not [s].

    Returns
    -------
    Quantiles
        The smallest time by which at least that share has ended.
    """
    ended = np.sort(np.asarray(ended_s, dtype=np.float64).ravel())
    still = np.asarray(open_s, dtype=np.float64).ravel()
    n = ended.size + still.size
    if ended.size == 0:
        return Quantiles(n, still.size, None, None, None, None)
    sample = stats.CensoredData(uncensored=ended, right=still)
    curve = stats.ecdf(sample).cdf
    found: list[float | None] = []
    for share in (0.1, 0.5, 0.9):
        reached = curve.quantiles[curve.probabilities >= share - 1e-12]
        found.append(float(reached[0]) if reached.size else None)
    return Quantiles(n, still.size, found[0], found[1], found[2], float(ended[-1]))

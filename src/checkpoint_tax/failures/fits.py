"""Distributions fitted to gaps between failures by censored maximum likelihood.

Gaps that a failure ends are observed; those that the log or a normal end cuts short are
right-censored. A gap written as 0, because stamps are rounded, lies between 0 and the rounding
and enters the likelihood as such.

Weibull uses its profile likelihood, which has one variable and one root; lognormal and gamma
are minimised over the logarithms of their parameters. All gaps are first divided by their mean,
so that no power overflows, however heavy the censoring.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

from checkpoint_tax.errors import InputError

FloatArray = NDArray[np.float64]
FAMILIES = ("exponential", "weibull", "lognormal", "gamma")


@dataclass(frozen=True)
class Fit:
    """One fitted distribution.

    Attributes
    ----------
    family : str
        One of `FAMILIES`.
    parameters : dict of str to float
        ``mean_s``; or ``shape`` and ``scale_s``; or ``log_mean`` (of seconds) and ``log_std``.
    mean_s : float
        Mean gap [s]; infinite if it overflows.
    log_likelihood : float
        Natural logarithm, for gaps in seconds.
    aic : float
        2 p - 2 log_likelihood with p parameters; less is better.
    """

    family: str
    parameters: Mapping[str, float]
    mean_s: float
    log_likelihood: float
    aic: float


@dataclass(frozen=True)
class _Gaps:
    observed: FloatArray
    censored: FloatArray
    n_zero: int
    zero_below: float
    unit_s: float

    @property
    def n_failures(self) -> int:
        return self.observed.size + self.n_zero


def fit_gaps(
    gaps_s: ArrayLike, censored_s: ArrayLike = (), *, zero_below_s: float = 1.0
) -> dict[str, Fit]:
    """Fit every family.

    Parameters
    ----------
    gaps_s : array_like, shape (n,)
        Gaps that a failure ended [s], not negative. A gap of 0 means one between 0 and
        `zero_below_s`.
    censored_s : array_like, shape (m,)
        Gaps that ended without a failure [s], not negative.
    zero_below_s : float
        Rounding of the stamps [s].

    Returns
    -------
    dict of str to Fit
        By family. With no failure it is empty; with fewer than two different gaps it holds the
        exponential only, which has one parameter.

    Raises
    ------
    InputError
        If a gap is negative or not finite.

    References
    ----------
    Kalbfleisch and Prentice, The Statistical Analysis of Failure Time Data, section 3.
    """
    gaps = _checked(gaps_s, censored_s, zero_below_s)
    if gaps.n_failures == 0 or gaps.unit_s == 0.0:
        return {}
    fits = {"exponential": _exponential(gaps)}
    different = np.unique(np.append(gaps.observed, [0.0] * (gaps.n_zero > 0)))
    if (different.size < 2 and gaps.censored.size == 0) or gaps.n_failures < 2:
        return fits
    for family, fit in (("weibull", _weibull), ("lognormal", _lognormal), ("gamma", _gamma)):
        found = fit(gaps)
        if found is not None:
            fits[family] = found
    return fits


def _checked(gaps_s: ArrayLike, censored_s: ArrayLike, zero_below_s: float) -> _Gaps:
    observed = np.asarray(gaps_s, dtype=np.float64).ravel()
    censored = np.asarray(censored_s, dtype=np.float64).ravel()
    for name, values in (("gaps", observed), ("censored gaps", censored)):
        bad = ~np.isfinite(values) | (values < 0.0)
        if bad.any():
            raise InputError(
                f"{name} = {values[bad][0]:g} s is refused; allowed: finite, at least 0."
            )
    if not 0.0 < zero_below_s < math.inf:
        raise InputError(f"zero_below_s = {zero_below_s:g} [s] is refused; allowed: above 0.")
    total = math.fsum(observed) + math.fsum(censored)
    n = observed.size + censored.size
    unit_s = total / n if n else 0.0
    if unit_s == 0.0:
        return _Gaps(observed[:0], censored[:0], 0, 0.0, 0.0)
    zero = observed == 0.0
    return _Gaps(
        observed[~zero] / unit_s,
        censored[censored > 0.0] / unit_s,
        int(zero.sum()),
        zero_below_s / unit_s,
        unit_s,
    )


def _finished(
    family: str, parameters: Mapping[str, float], mean: float, log_likelihood: float, gaps: _Gaps
) -> Fit:
    # A density over seconds is the density over units divided by the unit.
    value = log_likelihood - gaps.observed.size * math.log(gaps.unit_s)
    n_parameters = 1 if family == "exponential" else 2
    return Fit(family, parameters, mean * gaps.unit_s, value, 2.0 * n_parameters - 2.0 * value)


def _exponential(gaps: _Gaps) -> Fit:
    total = math.fsum(gaps.observed) + math.fsum(gaps.censored)
    if gaps.n_zero == 0:
        mean = total / gaps.n_failures
    else:

        def cost(log_rate: float) -> float:
            rate = math.exp(log_rate)
            below = gaps.n_zero * math.log(-math.expm1(-rate * gaps.zero_below))
            return rate * total - gaps.observed.size * log_rate - below

        middle = math.log(gaps.n_failures / total)
        found = optimize.minimize_scalar(
            cost, bounds=(middle - 30.0, middle + 30.0), method="bounded", options={"xatol": 1e-10}
        )
        mean = math.exp(-float(found.x))
    rate = 1.0 / mean
    value = gaps.observed.size * math.log(rate) - rate * total
    if gaps.n_zero:
        value += gaps.n_zero * math.log(-math.expm1(-rate * gaps.zero_below))
    return _finished("exponential", {"mean_s": mean * gaps.unit_s}, mean, value, gaps)


def _weibull(gaps: _Gaps) -> Fit | None:
    logs = np.log(gaps.observed)
    all_logs = np.concatenate([logs, np.log(gaps.censored)])

    def value(log_shape: float, log_scale: float) -> float:
        shape = math.exp(log_shape)
        hazard = np.exp(np.minimum(shape * (all_logs - log_scale), 700.0))
        total = logs.size * (log_shape - shape * log_scale) + (shape - 1.0) * float(logs.sum())
        total -= float(hazard.sum())
        if gaps.n_zero:
            below = math.exp(min(shape * (math.log(gaps.zero_below) - log_scale), 700.0))
            total += gaps.n_zero * _log1mexp(below)
        return total

    if gaps.n_zero:
        found = _minimum(lambda p: -value(p[0], p[1]), [(0.0, 0.0), (-0.5, 0.0), (-1.2, 0.5)])
        if found is None:
            return None
        log_shape, log_scale = found
    else:
        top = float(all_logs.max())
        weights_logs = all_logs - top

        def slope(shape: float) -> float:
            weights = np.exp(shape * weights_logs)
            mean_log = float((weights * weights_logs).sum() / weights.sum())
            return 1.0 / shape + float(logs.mean()) - top - mean_log

        low, high = 1e-3, 1.0
        while slope(high) > 0.0:
            low, high = high, 2.0 * high
            if high > 1e6:
                return None
        if slope(low) < 0.0:
            return None
        shape = float(optimize.brentq(slope, low, high, xtol=1e-13, rtol=1e-13))
        log_shape = math.log(shape)
        log_sum = float(special.logsumexp(shape * all_logs))
        log_scale = (log_sum - math.log(logs.size)) / shape
    shape, scale = math.exp(log_shape), math.exp(log_scale)
    mean = math.exp(min(log_scale + float(special.gammaln(1.0 + 1.0 / shape)), 700.0))
    parameters = {"shape": shape, "scale_s": scale * gaps.unit_s}
    return _finished("weibull", parameters, mean, value(log_shape, log_scale), gaps)


def _lognormal(gaps: _Gaps) -> Fit | None:
    logs, censored = np.log(gaps.observed), np.log(gaps.censored)

    def cost(p: FloatArray) -> float:
        middle, log_std = float(p[0]), float(p[1])
        std = math.exp(log_std)
        z = (logs - middle) / std
        total = float((0.5 * z * z + logs).sum()) + logs.size * (
            log_std + 0.5 * math.log(2 * math.pi)
        )
        total -= float(special.log_ndtr((middle - censored) / std).sum())
        if gaps.n_zero:
            below = (math.log(gaps.zero_below) - middle) / std
            total -= gaps.n_zero * float(special.log_ndtr(below))
        return total

    centre = float(logs.mean()) if logs.size else 0.0
    spread = max(float(logs.std()), 0.1) if logs.size else 1.0
    more = math.log(gaps.censored.size / gaps.n_failures + 1.0)
    starts = [(centre + more * w, math.log(spread) + 0.5 * w) for w in (0.0, 1.0, 2.0)]
    found = _minimum(cost, starts)
    if found is None:
        return None
    middle, std = found[0], math.exp(found[1])
    mean = math.exp(min(middle + 0.5 * std * std, 700.0))
    parameters = {"log_mean": middle + math.log(gaps.unit_s), "log_std": std}
    return _finished("lognormal", parameters, mean, -cost(np.array(found)), gaps)


def _gamma(gaps: _Gaps) -> Fit | None:
    logs = np.log(gaps.observed)

    def cost(p: FloatArray) -> float:
        shape, log_scale = math.exp(float(p[0])), float(p[1])
        scale = math.exp(log_scale)
        total = logs.size * (float(special.gammaln(shape)) + shape * log_scale)
        total -= (shape - 1.0) * float(logs.sum()) - float(gaps.observed.sum()) / scale
        total -= float(_log_gammaincc(shape, gaps.censored / scale).sum())
        if gaps.n_zero:
            below = float(special.gammainc(shape, gaps.zero_below / scale))
            total -= gaps.n_zero * (math.log(below) if below > 0.0 else -1e9)
        return total

    log_mean = math.log((gaps.censored.size + gaps.n_failures) / gaps.n_failures)
    starts = [(0.0, log_mean), (-0.5, log_mean + 0.5), (0.7, log_mean - 0.7)]
    found = _minimum(cost, starts)
    if found is None:
        return None
    shape, scale = math.exp(found[0]), math.exp(found[1])
    parameters = {"shape": shape, "scale_s": scale * gaps.unit_s}
    return _finished("gamma", parameters, shape * scale, -cost(np.array(found)), gaps)


def _log_gammaincc(shape: float, x: FloatArray) -> FloatArray:
    """Logarithm of the regularised upper incomplete gamma function, also where it underflows."""
    value = special.gammaincc(shape, x)
    far = value < 1e-290
    with np.errstate(divide="ignore"):
        result = np.log(value)
    if far.any():
        # Two terms of the asymptotic series, DLMF 8.11.2.
        y = x[far]
        series = 1.0 + (shape - 1.0) / y
        result[far] = (
            (shape - 1.0) * np.log(y) - y - special.gammaln(shape)
            + np.log(np.maximum(series, 1e-12))
        )  # fmt: skip
    return result


def _log1mexp(x: float) -> float:
    """Compute log(1 - exp(-x)) for x > 0."""
    return math.log(-math.expm1(-x)) if x > 0.0 else -1e9


def _minimum(
    cost: Callable[[FloatArray], float], starts: Sequence[tuple[float, float]]
) -> tuple[float, float] | None:
    """Smallest value over the starts, or None if the likelihood rises without a bound."""
    limit = 30.0

    def bounded(p: FloatArray) -> float:
        if not np.all(np.abs(p) < limit):
            return 1e100
        value = cost(p)
        return value if math.isfinite(value) else 1e100

    results = [
        optimize.minimize(
            bounded,
            start,
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-10, "maxiter": 4000, "maxfev": 8000},
        )
        for start in starts
    ]
    best = min(results, key=lambda result: float(result.fun))
    if not best.success or float(best.fun) >= 1e99 or np.any(np.abs(best.x) > limit - 1.0):
        return None
    return float(best.x[0]), float(best.x[1])


def likelihood_ratio(fits: Mapping[str, Fit]) -> tuple[float, float] | None:
    """Compare the Weibull fit with the exponential one, which is its shape 1.

    Parameters
    ----------
    fits : mapping of str to Fit
        From `fit_gaps`.

    Returns
    -------
    tuple of float, or None
        Twice the difference of log-likelihoods and its p-value by chi-square with 1 degree of
        freedom (Wilks); None without both fits.
    """
    if "exponential" not in fits or "weibull" not in fits:
        return None
    more = fits["weibull"].log_likelihood - fits["exponential"].log_likelihood
    statistic = max(0.0, 2.0 * more)
    return statistic, float(stats.chi2.sf(statistic, 1))

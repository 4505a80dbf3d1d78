"""Quantile functions as tables a kernel can look up at the cost of a cubic.

A random number u in (0, 1) is the probability that the time drawn is exceeded. Quantiles bend
hardest near u = 0 and u = 1, so the table is laid out like floating-point numbers: each half of
the interval is cut at w = 1/4, 1/8, ... (w the distance to the nearer end), and each piece into
64 cells of equal length. A cell spans at most 1/64 of its distance to the end, where a cubic
leaves relative errors below 1e-8 for every family used here, and its number and the place within
it are read off the bits of w, with no logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import special

from checkpoint_tax.scenario import Spread

__all__ = [
    "CELLS",
    "LOWEST_EXPONENT",
    "ROWS_PER_SIDE",
    "log_quantile",
    "log_quantile_by_length",
    "mean_of_least",
    "quantile_table",
]

CELLS = 64
"""Cells between two powers of 2."""

LOWEST_EXPONENT = -53
"""Exponent of the smallest distance to an end that 52 random bits give."""

ROWS_PER_SIDE = (-1 - LOWEST_EXPONENT) * CELLS

_SMALL = 1e-25

FloatArray = npt.NDArray[np.float64]


def quantile_table(log_quantile: Callable[[FloatArray], FloatArray], mean: float) -> FloatArray:
    """Table of a time's quantile function.

    Parameters
    ----------
    log_quantile : callable
        Logarithm of the time, in units of `mean`, that is exceeded with probability exp(-E), for
        an array of E.
    mean : float
        Unit of that time [s].

    Returns
    -------
    ndarray of float, shape (2 * ROWS_PER_SIDE, 4)
        One cell a row, by rising distance w to the nearer end, first for tails u = w, then for
        u = 1 - w: coefficients of the time [s] as a cubic in the place within the cell (0 to 1),
        lowest power first.
    """
    powers = 2.0 ** np.arange(LOWEST_EXPONENT, -1)
    starts = (powers[:, None] * (1.0 + np.arange(CELLS) / CELLS)).ravel()
    widths = np.repeat(powers / CELLS, CELLS)
    # Chebyshev's points leave the smallest error a cubic through four values can.
    place = 0.5 - 0.5 * np.cos(np.pi * (2.0 * np.arange(4) + 1.0) / 8.0)
    w = starts[:, None] + widths[:, None] * place
    values = np.concatenate([-np.log(w), -np.log1p(-w)])
    values = mean * np.exp(log_quantile(values))
    to_coefficients = np.linalg.inv(np.vander(place, 4, increasing=True))
    return np.ascontiguousarray(values @ to_coefficients.T)


def log_quantile(spread: Spread, standard: FloatArray) -> FloatArray:
    """Logarithm of the time of mean 1 that is exceeded with probability exp(-standard).

    Parameters
    ----------
    spread : Spread
        Any continuous family.
    standard : ndarray of float
        Standard exponential values [1], above 0.

    Returns
    -------
    ndarray of float, shape of `standard`
    """
    if spread.kind in ("exponential", "weibull"):
        inverse = 1.0 / spread.shape if spread.kind == "weibull" else 1.0
        return np.asarray(inverse * np.log(standard) - special.gammaln(1.0 + inverse))
    below, above = -np.expm1(-standard), np.exp(-standard)
    upper = standard > math.log(2.0)
    if spread.kind == "lognormal":
        normal = np.where(upper, -special.ndtri(above), special.ndtri(below))
        return np.asarray(spread.shape * normal - 0.5 * spread.shape**2)
    shape = spread.shape
    # P(x) = x^k / Gamma(k + 1) near 0 holds where a solver's answer would be no double.
    power = (np.log(below) + special.gammaln(shape + 1.0)) / shape
    tiny = (power < math.log(_SMALL)) & ~upper
    solved = np.where(upper, special.gammainccinv(shape, above), special.gammaincinv(shape, below))
    return np.asarray(np.where(tiny, power, np.log(np.where(tiny, 1.0, solved))) - math.log(shape))


def log_quantile_by_length(spread: Spread, standard: FloatArray) -> FloatArray:
    """Like `log_quantile`, for times drawn in proportion to their length.

    The life of a node that is running at a random moment is such a time: its density is x f(x)
    over the mean.

    Parameters
    ----------
    spread : Spread
        Family of the lives, mean 1; any continuous one.
    standard : ndarray of float
        Standard exponential values [1], above 0.

    Returns
    -------
    ndarray of float, shape of `standard`
    """
    if spread.kind == "lognormal":
        return np.asarray(log_quantile(spread, standard) + spread.shape**2)
    if spread.kind == "gamma":
        longer = Spread("gamma", spread.shape + 1.0)
        return np.asarray(log_quantile(longer, standard) + math.log1p(1.0 / spread.shape))
    # (x / scale)^k of a Weibull life is standard exponential; by length it is Gamma(1 + 1/k).
    inverse = 1.0 / spread.shape if spread.kind == "weibull" else 1.0
    powered = log_quantile(Spread("gamma", 1.0 + inverse), standard) + math.log1p(inverse)
    return np.asarray(inverse * powered - special.gammaln(1.0 + inverse))


def mean_of_least(spread: Spread, count: int) -> float:
    """Mean of the least of a number of independent times.

    Parameters
    ----------
    spread : Spread
        Family of each, mean 1; any continuous one.
    count : int
        How many [1].

    Returns
    -------
    float
        In units of the mean of one.
    """
    if spread.kind in ("exponential", "weibull"):
        shape = spread.shape if spread.kind == "weibull" else 1.0
        return float(count ** (-1.0 / shape))
    # E[x(E / n)] with E standard exponential; in log E the integrand is smooth and dies out at
    # both ends, where the trapezoid rule converges faster than any power of its step.
    log_e = np.arange(-60.0, 6.0, 1.0 / 64.0)
    weights = np.exp(log_e - np.exp(log_e))
    return float(np.sum(np.exp(log_quantile(spread, np.exp(log_e) / count)) * weights) / 64.0)

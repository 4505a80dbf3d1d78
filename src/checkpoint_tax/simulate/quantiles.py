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

import numpy as np
import numpy.typing as npt
from scipy import special

from checkpoint_tax.scenario import Spread

__all__ = ["CELLS", "LOWEST_EXPONENT", "ROWS_PER_SIDE", "log_quantile", "quantile_table"]

CELLS = 64
"""Cells between two powers of 2."""

LOWEST_EXPONENT = -53
"""Exponent of the smallest distance to an end that 52 random bits give."""

ROWS_PER_SIDE = (-1 - LOWEST_EXPONENT) * CELLS

_SMALL = 1e-25

FloatArray = npt.NDArray[np.float64]


def quantile_table(spread: Spread, mean: float) -> FloatArray:
    """Table of a time's quantile function.

    Parameters
    ----------
    spread : Spread
        Any continuous family.
    mean : float
        Mean of the time [s].

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
    values = mean * np.exp(log_quantile(spread, values))
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

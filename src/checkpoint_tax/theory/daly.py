"""Daly's two estimates of the interval for saves that block."""

import numpy as np
from numpy.typing import ArrayLike

from checkpoint_tax.theory import young
from checkpoint_tax.theory.validation import FloatArray, real


def first_order_interval_s(blocking_s: ArrayLike, job_mtbf_s: ArrayLike) -> FloatArray:
    """Work between two saves, first order.

    Parameters
    ----------
    blocking_s : array_like
        C, time one save stops training [s], at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.

    Returns
    -------
    ndarray
        ``sqrt(2 C M) - C`` [s], broadcast shape. Zero or negative for ``C >= 2 M``, where a
        first-order estimate means nothing; it is returned as it is, never clipped.

    Raises
    ------
    InputError
        If an input is out of range.

    References
    ----------
    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
    Future Generation Computer Systems 22(3), 2006, the perturbation solution at lowest order.
    """
    cost_s = real("blocking_s", blocking_s, at_least=0.0)
    return young.interval_s(cost_s, job_mtbf_s) - cost_s


def higher_order_interval_s(blocking_s: ArrayLike, job_mtbf_s: ArrayLike) -> FloatArray:
    """Work between two saves, Daly's higher-order estimate.

    Parameters
    ----------
    blocking_s : array_like
        C, time one save stops training [s], at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.

    Returns
    -------
    ndarray
        ``sqrt(2 C M) (1 + sqrt(C/(2M))/3 + (C/(2M))/9) - C`` for ``C < 2 M``, else ``M`` [s],
        broadcast shape.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    With ``s = sqrt(2C/M)`` this is ``M (s - s^2/3 + s^3/36)``: the first three terms of the
    exact optimum's own expansion, whose next term is ``s^4/270``.

    References
    ----------
    J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
    Future Generation Computer Systems 22(3), 2006.
    """
    cost_s = real("blocking_s", blocking_s, at_least=0.0)
    mtbf_s = real("job_mtbf_s", job_mtbf_s, above=0.0)
    half_ratio = np.minimum(cost_s / mtbf_s / 2.0, 1.0)
    correction = 1.0 + np.sqrt(half_ratio) / 3.0 + half_ratio / 9.0
    estimate_s = young.interval_s(cost_s, mtbf_s) * correction - cost_s
    return np.where(cost_s < 2.0 * mtbf_s, estimate_s, mtbf_s)[()]

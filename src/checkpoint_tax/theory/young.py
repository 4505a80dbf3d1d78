"""Young's first-order interval for saves that block."""

import numpy as np
from numpy.typing import ArrayLike

from checkpoint_tax.theory.validation import FloatArray, real


def interval_s(blocking_s: ArrayLike, job_mtbf_s: ArrayLike) -> FloatArray:
    """Time between two saves that minimises ``C/tau + tau/(2 M)``.

    Not to be confused with the exact best work interval (`renewal.best_work_s`), which is
    shorter by ``2C/3`` to next order.

    Parameters
    ----------
    blocking_s : array_like
        C, time one save stops training [s], at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.

    Returns
    -------
    ndarray
        ``sqrt(2 C M)`` [s], broadcast shape.

    Raises
    ------
    InputError
        If an input is out of range.

    References
    ----------
    J. W. Young, "A first order approximation to the optimum checkpoint interval",
    Communications of the ACM 17(9), 1974.
    """
    cost_s = real("blocking_s", blocking_s, at_least=0.0)
    mtbf_s = real("job_mtbf_s", job_mtbf_s, above=0.0)
    # Two roots, not the root of the product: the product can overflow, the result cannot.
    return np.sqrt(2.0 * cost_s) * np.sqrt(mtbf_s)


def implied_job_mtbf_s(interval_s: ArrayLike, blocking_s: ArrayLike) -> FloatArray:
    """Mean up-time for which an interval found in practice is Young's.

    Parameters
    ----------
    interval_s : array_like
        tau, time between two saves [s], above 0.
    blocking_s : array_like
        C, time one save stops training [s], above 0.

    Returns
    -------
    ndarray
        ``tau^2 / (2 C)`` [s], broadcast shape.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    `interval_s` of this module solved for M.
    """
    tau_s = real("interval_s", interval_s, above=0.0)
    cost_s = real("blocking_s", blocking_s, above=0.0)
    return tau_s * (tau_s / (2.0 * cost_s))

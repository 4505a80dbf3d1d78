"""The first-order waste sum for saves that block."""

import numpy as np
from numpy.typing import ArrayLike

from checkpoint_tax.theory import young
from checkpoint_tax.theory.validation import FloatArray, real


def first_order_losses(
    interval_s: ArrayLike, blocking_s: ArrayLike, job_mtbf_s: ArrayLike, restart_s: ArrayLike
) -> dict[str, FloatArray]:
    """Split the first-order waste into its three terms.

    Parameters
    ----------
    interval_s : array_like
        tau, time between two saves [s], above 0.
    blocking_s : array_like
        C, time one save stops training [s], at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.
    restart_s : array_like
        R, failure to first recomputed step [s], at least 0.

    Returns
    -------
    dict of str to ndarray
        ``save`` = C/tau, ``rework`` = tau/(2M), ``restart`` = R/M; pure numbers of the common
        broadcast shape. They are ratios to first order, so their sum may exceed 1.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    Not to be confused with `nonblocking.losses`, whose parts are exact and sum to 1.

    References
    ----------
    J. W. Young, Communications of the ACM 17(9), 1974, for the first two terms.
    """
    tau = real("interval_s", interval_s, above=0.0)
    cost = real("blocking_s", blocking_s, at_least=0.0)
    mtbf = real("job_mtbf_s", job_mtbf_s, above=0.0)
    restart = real("restart_s", restart_s, at_least=0.0)
    save, rework, lost = np.broadcast_arrays(cost / tau, tau / mtbf / 2.0, restart / mtbf)
    return {"save": save[()], "rework": rework[()], "restart": lost[()]}


def first_order(
    interval_s: ArrayLike, blocking_s: ArrayLike, job_mtbf_s: ArrayLike, restart_s: ArrayLike
) -> FloatArray:
    """Share of time wasted, to first order in everything over M.

    Parameters
    ----------
    interval_s : array_like
        tau, time between two saves [s], above 0.
    blocking_s : array_like
        C, time one save stops training [s], at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.
    restart_s : array_like
        R, failure to first recomputed step [s], at least 0.

    Returns
    -------
    ndarray
        ``C/tau + tau/(2M) + R/M`` (pure number), broadcast shape; may exceed 1, where first
        order means nothing. Never clipped.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    Sum of `first_order_losses`; see there for the source.
    """
    parts = first_order_losses(interval_s, blocking_s, job_mtbf_s, restart_s)
    return parts["save"] + parts["rework"] + parts["restart"]


def best_first_order(
    blocking_s: ArrayLike, job_mtbf_s: ArrayLike, restart_s: ArrayLike
) -> FloatArray:
    """Least first-order waste, reached at Young's interval.

    Parameters
    ----------
    blocking_s : array_like
        C, time one save stops training [s], above 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.
    restart_s : array_like
        R, failure to first recomputed step [s], at least 0.

    Returns
    -------
    ndarray
        ``sqrt(2C/M) + R/M`` (pure number), broadcast shape; may exceed 1.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    `first_order` at `young.interval_s`.
    """
    cost = real("blocking_s", blocking_s, above=0.0)
    return first_order(young.interval_s(cost, job_mtbf_s), cost, job_mtbf_s, restart_s)

"""From which scale on the best interval is the drain itself."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import hyp2f1

from checkpoint_tax.errors import InputError
from checkpoint_tax.theory import renewal
from checkpoint_tax.theory.validation import FloatArray, real


def drain_is_best(
    drain_s: ArrayLike, drain_tax: ArrayLike, job_mtbf_s: ArrayLike
) -> NDArray[np.bool_]:
    """Tell whether saving as often as the drain permits is best.

    Parameters
    ----------
    drain_s : array_like
        L, progress made under one drain, in undisturbed training time [s], above 0.
    drain_tax : array_like
        a, extra wall time per unit of progress under a drain (pure number), at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.

    Returns
    -------
    ndarray of bool
        Whether the free optimum with blocking cost ``a L`` is at or below L, broadcast shape.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    Saves wait for the drain before them, and training does not stop for a save.
    """
    drain = real("drain_s", drain_s, above=0.0)
    tax = real("drain_tax", drain_tax, unit="1", at_least=0.0)
    return renewal.best_work_s(tax * drain, job_mtbf_s) <= drain


def largest_mtbf_s(drain_s: ArrayLike, drain_tax: ArrayLike) -> FloatArray:
    """Mean up-time up to which the drain itself is the best interval, exact.

    Parameters
    ----------
    drain_s : array_like
        L, progress made under one drain, in undisturbed training time [s], above 0.
    drain_tax : array_like
        a, extra wall time per unit of progress under a drain (pure number), at least 0.

    Returns
    -------
    ndarray
        M [s], broadcast shape; infinite for ``a = 0``, where a drain costs nothing.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    The optimum equals L where ``-log(1 - x) = (1 + a) x`` with x = L/M. Its root other than 0 is
    ``x = 1 + W0(-b exp(-b))/b`` with b = 1 + a, or, without cancellation for small a,
    ``x = (a + y)/(1 + a)`` with ``-y - log(1 - y) = a - log(1 + a)``; ``x ~ 2a`` to first order.
    """
    drain = real("drain_s", drain_s, above=0.0)
    tax = real("drain_tax", drain_tax, unit="1", at_least=0.0)
    small = np.minimum(tax, 0.5)
    # a - log(1 + a) cancels for small a; Gauss's function gives it as a^2/2 times a factor near 1.
    excess = np.where(
        tax <= 0.5, small * small / 2.0 * hyp2f1(1.0, 2.0, 3.0, -small), tax - np.log1p(tax)
    )
    share = (tax + renewal.branch_root(excess)) / (1.0 + tax)
    with np.errstate(divide="ignore"):
        return drain / share


def largest_mtbf_first_order_s(drain_s: ArrayLike, drain_tax: ArrayLike) -> FloatArray:
    """Mean up-time up to which the drain itself is the best interval, first order.

    Parameters
    ----------
    drain_s : array_like
        L, progress made under one drain, in undisturbed training time [s], above 0.
    drain_tax : array_like
        a, extra wall time per unit of progress under a drain (pure number), at least 0.

    Returns
    -------
    ndarray
        ``L / (2 a)`` [s], broadcast shape; infinite for ``a = 0``.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    Young's interval for a cost ``a L`` set equal to L.
    """
    drain = real("drain_s", drain_s, above=0.0)
    tax = real("drain_tax", drain_tax, unit="1", at_least=0.0)
    with np.errstate(divide="ignore"):
        return drain / (2.0 * tax)


def smallest_n_gpus(
    drain_s: ArrayLike, drain_tax: ArrayLike, gpu_mtbf_s: ArrayLike
) -> NDArray[np.int64]:
    """Smallest job for which the drain itself is the best interval, exact.

    Parameters
    ----------
    drain_s : array_like
        L, progress made under one drain, in undisturbed training time [s], above 0.
    drain_tax : array_like
        a, extra wall time per unit of progress under a drain (pure number), at least 0.
    gpu_mtbf_s : array_like
        Mean up-time between failures of one GPU's share of the job [s], above 0.

    Returns
    -------
    ndarray of int64
        Number of GPUs, at least 1, broadcast shape. Intervals are taken as continuous; in whole
        steps a drain of S steps is already best at about a share 1/S fewer GPUs.

    Raises
    ------
    InputError
        If an input is out of range or the answer exceeds 2^53 GPUs.

    Notes
    -----
    ``ceil(gpu_mtbf_s / largest_mtbf_s)``: independent parts with exponential up-times.
    """
    part = real("gpu_mtbf_s", gpu_mtbf_s, above=0.0)
    count = np.maximum(np.ceil(part / largest_mtbf_s(drain_s, drain_tax)), 1.0)
    if np.any(count > 2.0**53):
        raise InputError(
            f"gpu_mtbf_s = {part.max():g} s needs more than 2^53 GPUs to reach the boundary;"
            " allowed: a value for which the answer stays below that"
        )
    return count.astype(np.int64)[()]

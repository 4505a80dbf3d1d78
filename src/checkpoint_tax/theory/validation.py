"""What the closed forms accept: finite real numbers in a stated range, scalars or arrays."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from checkpoint_tax.errors import InputError

FloatArray: TypeAlias = NDArray[np.float64]
FailureClock: TypeAlias = Literal["uptime", "wall"]


def real(
    name: str,
    value: ArrayLike,
    *,
    unit: str = "s",
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> FloatArray:
    """Return the input as float64 after checking it element by element.

    Parameters
    ----------
    name : str
        Parameter name for the message.
    value : array_like
        Scalar or array of any shape.
    unit : str
        Unit for the message, ``"1"`` for a pure number.
    above, at_least, at_most : float, optional
        Open lower, closed lower and closed upper bound; infinite values are always refused.

    Returns
    -------
    ndarray of float64
        Same shape as ``value``.

    Raises
    ------
    InputError
        If an element is not a real number, not finite, or out of range.
    """
    lower = f"above {above:g}" if above is not None else None
    if at_least is not None:
        lower = f"at least {at_least:g}"
    upper = f"at most {at_most:g}" if at_most is not None else None
    bounds = " and ".join(part for part in (lower, upper) if part) or "any"
    allowed = f"allowed: finite, {bounds} ({'pure number' if unit == '1' else f'in {unit}'})"
    raw = np.asarray(value)
    if raw.dtype.kind not in "iuf":
        raise InputError(f"{name} = {value!r} is not a real number; {allowed}")
    array = raw.astype(np.float64)
    bad = ~np.isfinite(array)
    if above is not None:
        bad |= array <= above
    if at_least is not None:
        bad |= array < at_least
    if at_most is not None:
        bad |= array > at_most
    if bad.any():
        shown = f"{array[bad].flat[0]:g}" + ("" if unit == "1" else f" {unit}")
        raise InputError(f"{name} = {shown} is refused; {allowed}")
    return array


def ratio(name: str, value_s: FloatArray, job_mtbf_s: FloatArray) -> FloatArray:
    """Express a checked duration in units of the job's mean up-time.

    Parameters
    ----------
    name : str
        Name of the duration for the message.
    value_s : ndarray
        Duration in s, not negative.
    job_mtbf_s : ndarray
        Mean up-time between failures in s, positive.

    Returns
    -------
    ndarray
        ``value_s / job_mtbf_s`` (pure number).

    Raises
    ------
    InputError
        If the quotient leaves the range of normal double precision, so that no digit of a result
        built on it could be trusted.
    """
    with np.errstate(over="ignore", under="ignore"):
        quotient = np.asarray(value_s / job_mtbf_s)
    lost = ~np.isfinite(quotient) | ((quotient < np.finfo(np.float64).tiny) & (value_s > 0))
    if lost.any():
        raise InputError(
            f"{name} / job_mtbf_s is {quotient[lost].flat[0]:g} (pure number), beyond double"
            " precision; allowed: 0, or between 2.3e-308 and 1.7e308"
        )
    return quotient


def clock(failure_clock: str) -> bool:
    """Tell whether failures also strike restarts.

    Parameters
    ----------
    failure_clock : {"uptime", "wall"}
        ``"uptime"``: nothing fails while the job restarts. ``"wall"``: a restart can itself fail.

    Returns
    -------
    bool
        True for the wall clock.

    Raises
    ------
    InputError
        For any other text.
    """
    if failure_clock not in ("uptime", "wall"):
        raise InputError(
            f"failure_clock = {failure_clock!r} is not known; allowed: 'uptime', 'wall'"
        )
    return failure_clock == "wall"

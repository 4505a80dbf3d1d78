"""Exact renewal results for saves that block, exponential failures."""

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import lambertw

from checkpoint_tax.theory.validation import FailureClock, FloatArray, clock, ratio, real

# Below this C/M the Lambert argument is too close to the branch point -1/e for lambertw.
_SERIES_UP_TO = 0.5
_SERIES_TERMS = 32


def expected_wall_s(
    work_s: ArrayLike,
    blocking_s: ArrayLike,
    job_mtbf_s: ArrayLike,
    restart_s: ArrayLike,
    *,
    failure_clock: FailureClock = "uptime",
    downtime_s: ArrayLike = 0.0,
) -> FloatArray:
    """Mean wall time to complete one interval of work and the save that ends it.

    Parameters
    ----------
    work_s : array_like
        w, undisturbed training time between two saves [s], above 0.
    blocking_s : array_like
        C, time one save stops training [s], at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.
    restart_s : array_like
        R, failure to first recomputed step [s], at least 0.
    failure_clock : {"uptime", "wall"}
        Whether a restart can itself fail (``"wall"``) or not.
    downtime_s : array_like
        D, wait after each failure in which nothing can fail [s], at least 0.

    Returns
    -------
    ndarray
        [s], broadcast shape. Infinite where an exponential leaves double precision
        (``(w + C)/M`` or ``R/M`` beyond about 709): such a job does not finish.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    Up-time clock: ``(M + R + D) (exp((w + C)/M) - 1)``.
    Wall clock: ``(M + D) exp(R/M) (exp((w + C)/M) - 1)``: attempts at a restart are geometric
    with success probability ``exp(-R/M)``, each preceded by D.

    References
    ----------
    J. T. Daly, Future Generation Computer Systems 22(3), 2006, the complete model, for the wall
    clock with D = 0; the other cases follow from the same renewal argument.
    """
    work = real("work_s", work_s, above=0.0)
    stop = real("blocking_s", blocking_s, at_least=0.0)
    mtbf = real("job_mtbf_s", job_mtbf_s, above=0.0)
    restart = real("restart_s", restart_s, at_least=0.0)
    idle = real("downtime_s", downtime_s, at_least=0.0)
    period = ratio("work_s + blocking_s", work + stop, mtbf)
    with np.errstate(over="ignore"):
        failures = np.expm1(period)
        if clock(failure_clock):
            return (mtbf + idle) * np.exp(ratio("restart_s", restart, mtbf)) * failures
        return (mtbf + restart + idle) * failures


def goodput(
    work_s: ArrayLike,
    blocking_s: ArrayLike,
    job_mtbf_s: ArrayLike,
    restart_s: ArrayLike,
    *,
    failure_clock: FailureClock = "uptime",
    downtime_s: ArrayLike = 0.0,
) -> FloatArray:
    """Share of the wall time spent on steps that were never lost, saves that block.

    Parameters
    ----------
    work_s : array_like
        w, undisturbed training time between two saves [s], above 0.
    blocking_s : array_like
        C, time one save stops training [s], at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.
    restart_s : array_like
        R, failure to first recomputed step [s], at least 0.
    failure_clock : {"uptime", "wall"}
        Whether a restart can itself fail (``"wall"``) or not.
    downtime_s : array_like
        D, wait after each failure in which nothing can fail [s], at least 0.

    Returns
    -------
    ndarray
        Pure number in [0, 1), broadcast shape. Exactly 0 where `expected_wall_s` is infinite.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    ``work_s / expected_wall_s(...)``; see there for the source.
    """
    wall_s = expected_wall_s(
        work_s,
        blocking_s,
        job_mtbf_s,
        restart_s,
        failure_clock=failure_clock,
        downtime_s=downtime_s,
    )
    return np.asarray(work_s, dtype=np.float64) / wall_s


def _branch_point_series() -> FloatArray:
    """Coefficients of x in powers of s where ``-x - log(1 - x) = s^2/2``, highest power first.

    Differentiating gives ``x x' = s (1 - x)``; equating powers of s yields the recurrence below.
    The series converges for ``s < 2 sqrt(pi)``.
    """
    power = [Fraction(0), Fraction(1)]
    for n in range(2, _SERIES_TERMS + 1):
        products = sum((power[i] * power[n + 1 - i] for i in range(2, n)), Fraction(0))
        power.append(-power[n - 1] / (n + 1) - products / 2)
    return np.array([float(term) for term in reversed(power)])


_SERIES = _branch_point_series()


def branch_root(cost: FloatArray) -> FloatArray:
    """Solve ``-x - log(1 - x) = cost`` for x in [0, 1), that is ``1 + W0(-exp(-cost - 1))``.

    Parameters
    ----------
    cost : ndarray
        Pure number, at least 0.

    Returns
    -------
    ndarray
        x, to a few units in the last place for every ``cost`` from 0 up.

    Notes
    -----
    Evaluated as written, the Lambert form loses all digits for ``cost`` below 1e-16 and half of
    them at 1e-8, because its argument rounds to the branch point -1/e. There the expansion
    about the branch point is used, in ``s = sqrt(2 cost)``.

    References
    ----------
    R. M. Corless et al., "On the Lambert W function", Advances in Computational Mathematics 5,
    1996, for the expansion about the branch point.
    """
    near = np.minimum(cost, _SERIES_UP_TO)
    far = np.maximum(cost, _SERIES_UP_TO)
    series = np.polyval(_SERIES, np.sqrt(2.0 * near))
    argument: FloatArray = -np.exp(-far - 1.0)
    direct = 1.0 + lambertw(argument, 0).real
    return np.where(cost <= _SERIES_UP_TO, series, direct)[()]


def best_work_s(blocking_s: ArrayLike, job_mtbf_s: ArrayLike) -> FloatArray:
    """Work between two saves that maximises the exact goodput.

    Parameters
    ----------
    blocking_s : array_like
        C, time one save stops training [s], at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.

    Returns
    -------
    ndarray
        ``M (1 + W0(-exp(-C/M - 1)))`` [s], broadcast shape; between 0 (for C = 0: a free save is
        best taken always) and M. It depends neither on the restart nor on the failure clock.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    Stationarity of ``w / (exp((w + C)/M) - 1)``: ``1 - exp(-(w + C)/M) = w/M``.

    References
    ----------
    J. T. Daly, Future Generation Computer Systems 22(3), 2006, whose equation for the exact
    optimum this solves with the principal branch of Lambert's function.
    """
    cost_s = real("blocking_s", blocking_s, at_least=0.0)
    mtbf_s = real("job_mtbf_s", job_mtbf_s, above=0.0)
    return mtbf_s * branch_root(ratio("blocking_s", cost_s, mtbf_s))

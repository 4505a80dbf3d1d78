"""Exact renewal results for saves that drain while training goes on.

One cycle form serves every kind of save. Per failure, let X be the up-time before it. From a
restored version, training runs untaxed for ``work_s - advance_s``, then a save starts: training
stops for ``stop_s``, and the drain becomes durable after another ``latency_work_s`` of progress,
of which each second takes ``1 + tax``. Saves start every ``work_s`` of progress. Hence

    P  = work_s + stop_s + tax * taxed_work_s                          (wall time of a cycle)
    t1 = work_s - advance_s + stop_s + latency_work_s * (1 + tax)      (first durable version)

and X secures ``n = 1 + floor((X - t1)/P)`` intervals of work, or none if X < t1, so that
``E[n] = exp(-t1/M) / (1 - exp(-P/M))``.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc

from checkpoint_tax.errors import InputError
from checkpoint_tax.theory import renewal
from checkpoint_tax.theory.validation import FailureClock, FloatArray, clock, ratio, real


def cycle_losses(
    work_s: ArrayLike,
    stop_s: ArrayLike,
    latency_work_s: ArrayLike,
    taxed_work_s: ArrayLike,
    tax: ArrayLike,
    advance_s: ArrayLike,
    job_mtbf_s: ArrayLike,
    restart_s: ArrayLike,
    *,
    failure_clock: FailureClock = "uptime",
    downtime_s: ArrayLike = 0.0,
) -> dict[str, FloatArray]:
    """Where the wall time goes, for any save cycle.

    Parameters
    ----------
    work_s : array_like
        Progress between two save starts, in undisturbed training time [s], above 0.
    stop_s : array_like
        Time one save stops training [s], at least 0.
    latency_work_s : array_like
        Progress made from drain start until the version is durable [s], at least 0.
    taxed_work_s : array_like
        Progress per cycle made under a drain [s], from 0 to the smaller of ``work_s`` and
        ``latency_work_s``.
    tax : array_like
        a, extra wall time per unit of progress under a drain (pure number), at least 0; may
        exceed 1.
    advance_s : array_like
        Progress by which the restored version is past its drain start [s], from 0 to the smaller
        of ``work_s`` and ``latency_work_s``.
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
    dict of str to ndarray
        ``goodput``, ``save``, ``rework``, ``restart``, ``straggler`` (0: not modelled here) and
        ``idle``; pure numbers of the common broadcast shape that sum to 1. Each is computed
        from positive terms, without taking one minus the rest, so small parts keep their digits.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    In units of M, with f the time to the first save, p = P/M, and q = 1 - exp(-p): per unit of
    up-time the save takes ``exp(-f) (1 - exp(-s) + exp(-s) (1 - exp(-tau)) a/(1 + a)) / q`` where
    s is the stop and tau the wall time under a drain. Rework is the mean progress at a failure
    minus the secured work, rearranged so that nothing cancels. Up-time is ``1/(1 + R/M + D/M)``
    of the wall time on the up-time clock and ``exp(-R/M)/(1 + D/M)`` on the wall clock: no
    exponential can overflow, and a hopeless job shows goodput 0.

    References
    ----------
    Renewal-reward argument of this study; for ``tax = latency_work_s = 0`` it is Daly's model
    (Future Generation Computer Systems 22(3), 2006).
    """
    work_s = real("work_s", work_s, above=0.0)
    stop_s = real("stop_s", stop_s, at_least=0.0)
    latency_work_s = real("latency_work_s", latency_work_s, at_least=0.0)
    taxed_work_s = real("taxed_work_s", taxed_work_s, at_least=0.0)
    tax = real("tax", tax, unit="1", at_least=0.0)
    advance_s = real("advance_s", advance_s, at_least=0.0)
    mtbf_s = real("job_mtbf_s", job_mtbf_s, above=0.0)
    restart_s = real("restart_s", restart_s, at_least=0.0)
    downtime_s = real("downtime_s", downtime_s, at_least=0.0)
    for name, part in (("taxed_work_s", taxed_work_s), ("advance_s", advance_s)):
        longest = np.minimum(work_s, latency_work_s)
        too_long = part > longest
        if np.any(too_long):
            raise InputError(
                f"{name} = {np.broadcast_to(part, too_long.shape)[too_long].flat[0]:g} s is"
                " refused; allowed: from 0 to the smaller of work_s and latency_work_s"
            )

    work = ratio("work_s", work_s, mtbf_s)
    stop = ratio("stop_s", stop_s, mtbf_s)
    first_save = ratio("work_s - advance_s", work_s - advance_s, mtbf_s)
    drain_wall = ratio("taxed_work_s * (1 + tax)", taxed_work_s * (1.0 + tax), mtbf_s)
    # What is left of the latency after a whole cycle under tax: only drains that overlap have it.
    overhang = ratio(
        "(latency_work_s - taxed_work_s) * (1 + tax)",
        (latency_work_s - taxed_work_s) * (1.0 + tax),
        mtbf_s,
    )
    free = ratio("work_s - taxed_work_s", work_s - taxed_work_s, mtbf_s)
    period = ratio("period_s", work_s + stop_s + tax * taxed_work_s, mtbf_s)
    restart = ratio("restart_s", restart_s, mtbf_s)
    idle = ratio("downtime_s", downtime_s, mtbf_s)

    cycle_fails = -np.expm1(-period)
    reaches_save = np.exp(-first_save)
    reaches_drain = np.exp(-first_save - stop)
    under_drain = -np.expm1(-drain_wall)
    left_after_drain = np.exp(-drain_wall)
    # x - (1 - exp(-x)) and 1 - exp(-x) (1 + x), both kept exact for small x.
    shortfall = -free * np.expm1(-free) - gammainc(2.0, free)
    partial_drain = gammainc(2.0, drain_wall)

    good = work * np.exp(-first_save - stop - drain_wall - overhang) / cycle_fails
    save = (
        reaches_save * -np.expm1(-stop) + reaches_drain * under_drain * (tax / (1.0 + tax))
    ) / cycle_fails
    rework = (
        -np.expm1(-first_save)
        + reaches_drain
        * (
            partial_drain / (1.0 + tax)
            + left_after_drain * (work * -np.expm1(-overhang) - shortfall)
        )
        / cycle_fails
    )

    if clock(failure_clock):
        up = np.exp(-restart) / (1.0 + idle)
        restarting = -np.expm1(-restart) / (1.0 + idle)
        waiting = idle / (1.0 + idle)
    else:
        up = 1.0 / (1.0 + restart + idle)
        restarting = restart * up
        waiting = idle * up
    parts = np.broadcast_arrays(good * up, save * up, rework * up, restarting, 0.0, waiting)
    names = ("goodput", "save", "rework", "restart", "straggler", "idle")
    return {name: part[()] for name, part in zip(names, parts, strict=True)}


def cycle_goodput(
    work_s: ArrayLike,
    stop_s: ArrayLike,
    latency_work_s: ArrayLike,
    taxed_work_s: ArrayLike,
    tax: ArrayLike,
    advance_s: ArrayLike,
    job_mtbf_s: ArrayLike,
    restart_s: ArrayLike,
    *,
    failure_clock: FailureClock = "uptime",
    downtime_s: ArrayLike = 0.0,
) -> FloatArray:
    """Share of the wall time spent on steps that were never lost, for any save cycle.

    Parameters
    ----------
    work_s, stop_s, latency_work_s, taxed_work_s, tax, advance_s : array_like
        The save cycle, see `cycle_losses` [s; tax: 1].
    job_mtbf_s, restart_s : array_like
        Mean up-time between failures, and failure to first recomputed step [s].
    failure_clock : {"uptime", "wall"}
        Whether a restart can itself fail (``"wall"``) or not.
    downtime_s : array_like
        Wait after each failure in which nothing can fail [s].

    Returns
    -------
    ndarray
        ``work_s E[n] / wall time per failure`` (pure number), broadcast shape.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    The ``goodput`` entry of `cycle_losses`; see there for the source.
    """
    return cycle_losses(
        work_s,
        stop_s,
        latency_work_s,
        taxed_work_s,
        tax,
        advance_s,
        job_mtbf_s,
        restart_s,
        failure_clock=failure_clock,
        downtime_s=downtime_s,
    )["goodput"]


def losses(
    work_s: ArrayLike,
    drain_s: ArrayLike,
    drain_tax: ArrayLike,
    job_mtbf_s: ArrayLike,
    restart_s: ArrayLike,
    *,
    target_fraction: ArrayLike = 0.0,
    stop_s: ArrayLike = 0.0,
    failure_clock: FailureClock = "uptime",
    downtime_s: ArrayLike = 0.0,
) -> dict[str, FloatArray]:
    """Where the wall time goes when each drain ends before the next save starts.

    Parameters
    ----------
    work_s : array_like
        Progress between two save starts [s], at least ``drain_s`` and above 0.
    drain_s : array_like
        L, progress made under one drain, in undisturbed training time [s], at least 0.
    drain_tax : array_like
        a, extra wall time per unit of progress under a drain (pure number), at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.
    restart_s : array_like
        R, failure to first recomputed step [s], at least 0.
    target_fraction : array_like
        f, position of the restored version in the drain window (pure number), 0 to 1: 0 oldest,
        1/2 median, 1 newest.
    stop_s : array_like
        Time one save stops training before its drain starts [s], at least 0.
    failure_clock : {"uptime", "wall"}
        Whether a restart can itself fail (``"wall"``) or not.
    downtime_s : array_like
        D, wait after each failure in which nothing can fail [s], at least 0.

    Returns
    -------
    dict of str to ndarray
        As `cycle_losses`.

    Raises
    ------
    InputError
        If an input is out of range, or an interval is shorter than its drain: what happens
        then depends on the drain mode, which `cycle_losses` expresses.

    Notes
    -----
    `cycle_losses` with latency L and advance f L; see there for the source.
    """
    work = real("work_s", work_s, above=0.0)
    drain = real("drain_s", drain_s, at_least=0.0)
    tax = real("drain_tax", drain_tax, unit="1", at_least=0.0)
    fraction = real("target_fraction", target_fraction, unit="1", at_least=0.0, at_most=1.0)
    short = work < drain
    if np.any(short):
        raise InputError(
            f"work_s = {np.broadcast_to(work, short.shape)[short].flat[0]:g} s is refused;"
            " allowed: at least drain_s (a shorter interval needs a drain mode: cycle_losses)"
        )
    return cycle_losses(
        work,
        stop_s,
        drain,
        drain,
        tax,
        fraction * drain,
        job_mtbf_s,
        restart_s,
        failure_clock=failure_clock,
        downtime_s=downtime_s,
    )


def goodput(
    work_s: ArrayLike,
    drain_s: ArrayLike,
    drain_tax: ArrayLike,
    job_mtbf_s: ArrayLike,
    restart_s: ArrayLike,
    *,
    target_fraction: ArrayLike = 0.0,
    stop_s: ArrayLike = 0.0,
    failure_clock: FailureClock = "uptime",
    downtime_s: ArrayLike = 0.0,
) -> FloatArray:
    """Share of the wall time spent on steps that were never lost, saves that drain.

    Parameters
    ----------
    work_s : array_like
        Progress between two save starts [s], at least ``drain_s`` and above 0.
    drain_s : array_like
        L, progress made under one drain, in undisturbed training time [s], at least 0.
    drain_tax : array_like
        a, extra wall time per unit of progress under a drain (pure number), at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.
    restart_s : array_like
        R, failure to first recomputed step [s], at least 0.
    target_fraction : array_like
        f, position of the restored version in the drain window (pure number), 0 to 1: 0 oldest,
        1/2 median, 1 newest.
    stop_s : array_like
        Time one save stops training before its drain starts [s], at least 0.
    failure_clock : {"uptime", "wall"}
        Whether a restart can itself fail (``"wall"``) or not.
    downtime_s : array_like
        D, wait after each failure in which nothing can fail [s], at least 0.

    Returns
    -------
    ndarray
        Pure number in [0, 1], broadcast shape.

    Raises
    ------
    InputError
        If an input is out of range or an interval is shorter than its drain.

    Notes
    -----
    On the up-time clock, with w = ``work_s`` and s = ``stop_s``, this is
    ``w exp(-(w - f L + s + L (1 + a))/M) / ((1 - exp(-(w + s + a L)/M)) (M + R + D))``: blocking
    saves of cost ``s + a L``, times ``exp(-(1 - f) L/M)``. The ``goodput`` entry of `losses`.
    """
    return losses(
        work_s,
        drain_s,
        drain_tax,
        job_mtbf_s,
        restart_s,
        target_fraction=target_fraction,
        stop_s=stop_s,
        failure_clock=failure_clock,
        downtime_s=downtime_s,
    )["goodput"]


def best_work_s(
    drain_s: ArrayLike,
    drain_tax: ArrayLike,
    job_mtbf_s: ArrayLike,
    *,
    stop_s: ArrayLike = 0.0,
) -> FloatArray:
    """Progress between two save starts that maximises goodput when a drain must end first.

    Parameters
    ----------
    drain_s : array_like
        L, progress made under one drain, in undisturbed training time [s], at least 0.
    drain_tax : array_like
        a, extra wall time per unit of progress under a drain (pure number), at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above 0.
    stop_s : array_like
        Time one save stops training before its drain starts [s], at least 0.

    Returns
    -------
    ndarray
        The blocking optimum for a cost of ``stop_s + a L``, or L if that is longer [s], broadcast
        shape. It depends neither on the restart nor on the restored version.

    Raises
    ------
    InputError
        If an input is out of range.

    Notes
    -----
    The goodput is the blocking one times a factor free of the interval, and has one maximum, so
    the constraint ``work_s >= L`` binds exactly where the free optimum is below L.
    """
    drain = real("drain_s", drain_s, at_least=0.0)
    tax = real("drain_tax", drain_tax, unit="1", at_least=0.0)
    stop = real("stop_s", stop_s, at_least=0.0)
    return np.maximum(renewal.best_work_s(stop + tax * drain, job_mtbf_s), drain)


def aupy_interval_s(
    drain_s: ArrayLike,
    drain_tax: ArrayLike,
    job_mtbf_s: ArrayLike,
    restart_s: ArrayLike,
    *,
    downtime_s: ArrayLike = 0.0,
) -> FloatArray:
    """First-order period for saves that overlap training, after Aupy et al.

    Not to be confused with the work between two saves: a period of wall time T holds
    ``T - a L`` of progress.

    Parameters
    ----------
    drain_s : array_like
        L, progress made under one drain, in undisturbed training time [s], at least 0.
    drain_tax : array_like
        a, extra wall time per unit of progress under a drain (pure number), at least 0.
    job_mtbf_s : array_like
        M, mean up-time between failures of the job [s], above ``L + R + D``.
    restart_s : array_like
        R, failure to first recomputed step [s], at least 0.
    downtime_s : array_like
        D, wait after each failure in which nothing can fail [s], at least 0.

    Returns
    -------
    ndarray
        The larger of ``sqrt(2 a L (M - (D + R + L)))`` and ``L (1 + a)`` [s], wall time,
        broadcast shape.

    Raises
    ------
    InputError
        If an input is out of range, or a failure costs more than M, where the first-order model
        has no optimum.

    Notes
    -----
    The paper's save takes wall time C, in which a share w of full speed is kept. Matching wall
    time and progress gives ``C = L (1 + a)`` and ``w C = L``, so ``w = 1/(1 + a)`` and
    ``(1 - w) C = a L``. A failure costs ``D + R + w C + T/2``; minimising
    ``T / ((T - (1 - w) C) (1 - (D + R + w C + T/2)/M))`` over T leaves
    ``T^2 = 2 (1 - w) C (M - (D + R + w C))``. The exact optimum lacks the ``D + R + L`` term.

    References
    ----------
    G. Aupy, A. Benoit, T. Herault, Y. Robert, J. Dongarra, "Optimal checkpointing period: time
    vs. energy", arXiv:1310.8456, the time-optimal period.
    """
    drain = real("drain_s", drain_s, at_least=0.0)
    tax = real("drain_tax", drain_tax, unit="1", at_least=0.0)
    mtbf = real("job_mtbf_s", job_mtbf_s, above=0.0)
    restart = real("restart_s", restart_s, at_least=0.0)
    idle = real("downtime_s", downtime_s, at_least=0.0)
    spare = real(
        "job_mtbf_s - (downtime_s + restart_s + drain_s)",
        mtbf - (idle + restart + drain),
        above=0.0,
    )
    period: FloatArray = np.sqrt(2.0 * tax * drain) * np.sqrt(spare)
    return np.maximum(period, drain * (1.0 + tax))

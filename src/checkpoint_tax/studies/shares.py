"""Long-run shares of wall time: exact where a closed form holds, simulated elsewhere."""

from __future__ import annotations

import math

from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario import Scenario, save_cycle
from checkpoint_tax.simulate import Estimate, simulate
from checkpoint_tax.theory import nonblocking

__all__ = ["SHARES", "exact_shares", "has_closed_form", "shares"]

SHARES = ("goodput", "save", "rework", "restart", "straggler", "idle")


def has_closed_form(job: Scenario) -> bool:
    """Whether the long-run shares of a job are known exactly.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    bool
        True for exponential up-times, whatever the mode of saving.
    """
    return job.is_exponential


def exact_shares(
    job: Scenario, interval_steps: float | None = None, *, job_mtbf_s: float | None = None
) -> dict[str, float]:
    """Exact long-run shares of wall time.

    Parameters
    ----------
    job : Scenario
        With exponential up-times.
    interval_steps : float, optional
        Interval between saves [steps], not necessarily whole; the job's own if left out.
    job_mtbf_s : float, optional
        Mean up-time between failures [s] in place of the job's own.

    Returns
    -------
    dict of str to float
        The names of `SHARES`; pure numbers that sum to 1.

    Raises
    ------
    InputError
        If up-times are not exponential, or a number is out of range.
    """
    if not has_closed_form(job):
        raise InputError(
            f"failure_shape = {job.failure_shape:g} [1]; allowed for exact shares: 1 (exponential)."
        )
    cycle = save_cycle(job, interval_steps)
    parts = nonblocking.cycle_losses(
        cycle.work_s,
        cycle.stop_s,
        cycle.latency_work_s,
        cycle.taxed_work_s,
        cycle.tax,
        cycle.advance_s,
        job.job_mtbf_s if job_mtbf_s is None else job_mtbf_s,
        job.restart_s,
        failure_clock=job.failure_clock,
        downtime_s=job.idle_s,
    )
    return {name: float(parts[name]) for name in SHARES}


def shares(
    job: Scenario, interval_steps: int | None = None, *, half_width: float = 2e-4
) -> dict[str, Estimate]:
    """Long-run shares of wall time of any job.

    Parameters
    ----------
    job : Scenario
    interval_steps : int, optional
        Interval between saves [steps]; the job's own if left out.
    half_width : float
        Precision of goodput where it must be simulated [share of wall time].

    Returns
    -------
    dict of str to Estimate
        The names of `SHARES`; intervals of zero length where a closed form holds.
    """
    if has_closed_form(job):
        return {
            name: Estimate(value, value, value)
            for name, value in exact_shares(job, interval_steps).items()
        }
    if interval_steps is not None:
        job = job.replace(checkpoint_interval_steps=interval_steps)
    result = simulate(job, half_width=half_width)
    found = {"goodput": result.goodput, **result.losses}
    assert math.isclose(math.fsum(e.value for e in found.values()), 1.0, rel_tol=1e-9)
    return {name: found[name] for name in SHARES}

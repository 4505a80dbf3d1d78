"""How the first post seems to count: in whole steps.

Four conventions that the post does not state, read off its printed shares. Each was found in the
figures, not assumed: the tax column does not fall from 3 to 30 steps as it would if the first
interval after a restart went untaxed; at short intervals rework is half a step short of the
continuous value; at long ones it does not profit from failures that come before the first save is
due; and in table 2 the shares leave about one step a failure that is booked nowhere.
"""

from __future__ import annotations

import math

import numpy as np

from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario import Scenario

__all__ = ["COUNTED", "counted_shares"]

COUNTED = ("goodput", "save", "rework", "restart", "unbooked")


def counted_shares(
    job: Scenario, up_time_s: float, interval_steps: int | None = None
) -> dict[str, float]:
    """Shares of wall time of a run that is counted in whole steps.

    Parameters
    ----------
    job : Scenario
        An asynchronous job in mode ``compressed`` that restores the oldest version.
    up_time_s : float
        Up-time per failure that the run drew [s], longer than one step under the tax.
    interval_steps : int, optional
        Interval between saves [steps]; the job's own if left out.

    Returns
    -------
    dict of str to float
        ``goodput``, ``save`` (the tax), ``rework``, ``restart`` and ``unbooked`` (the step in
        which the failure falls); pure numbers that sum to 1.

    Raises
    ------
    InputError
        For another kind of job or too short an up-time.

    Notes
    -----
    Each step lasts ``t (1 + a m/k)`` with m = min(k, S), from the first one after a restart on.
    A step survives with probability q, so that a failure comes after n whole steps with
    ``E[n + 1] = 1/(1 - q)``, which is ``up_time_s`` over the length of a step. What is restored is
    the newest multiple of k that lies m steps back, also where that is older than the version
    restored last: a failure always loses ``m + (n - m) mod k`` steps. Both are rounded to whole
    steps, and a remainder has ``P(n mod k = j) = q^j (1 - q)/(1 - q^k)``.
    """
    if (job.save_kind, job.drain_mode, job.target) != ("asynchronous", "compressed", "oldest"):
        raise InputError(
            "the post's accounting is known for asynchronous, compressed saves of the oldest"
            f" version only; the job has {job.save_kind}, {job.drain_mode}, {job.target}."
        )
    k = job.checkpoint_interval_steps if interval_steps is None else interval_steps
    drain = min(k, round(job.drain_steps))
    tax = job.drain_tax * drain / k
    step_s = job.step_s * (1.0 + tax)
    if not up_time_s > step_s:
        raise InputError(f"up_time_s = {up_time_s:g} [s]; allowed: above one step of {step_s:g} s.")
    log_survives = math.log1p(-step_s / up_time_s)
    whole = up_time_s / step_s - 1.0
    remainder = np.arange(k)
    weight = np.exp(remainder * log_survives)
    lost = drain + float(np.dot((remainder - drain) % k, weight) / weight.sum())
    wall_s = up_time_s + job.restart_s
    return {
        "goodput": (whole - lost) * job.step_s / wall_s,
        "save": whole * tax * job.step_s / wall_s,
        "rework": lost * job.step_s / wall_s,
        "restart": job.restart_s / wall_s,
        "unbooked": step_s / wall_s,
    }

"""Target, capture window and interval together, with the gradients that a repair needs charged.

One link moves the state and the gradients. It moves the state alone in the job's drain, and each
byte costs training the same time wherever it comes from, so that a drain drawn out on purpose
taxes each step less and all of its steps the same. Shards captured over W steps need the gradients
of `reconcile.traffic`; what the link cannot move within the window makes the drain longer than it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from checkpoint_tax.errors import InputError
from checkpoint_tax.reconcile.traffic import BF16_BYTES, STATE_BYTES, replay_bytes_per_parameter
from checkpoint_tax.scenario import Scenario
from checkpoint_tax.theory import nonblocking

__all__ = ["REPAIRS", "Repair", "WindowPlan", "best_window_plan", "window_plan"]

Repair = Literal["staged", "oldest", "median", "newest"]
REPAIRS: tuple[Repair, ...] = ("staged", "oldest", "median", "newest")
"""What is restored: a staged copy of the state at the drain's start, which needs memory for that
copy and no gradients, or torn shards brought to one version."""

_FRACTIONS = {"staged": 0.0, "oldest": 0.0, "median": 0.5, "newest": 1.0}
_WIDEST = 4.0
"""Longest window that is tried, in drains of the state alone."""


@dataclass(frozen=True)
class WindowPlan:
    """One way to save, at its best interval.

    Attributes
    ----------
    repair : str
        One of `REPAIRS`.
    window_steps : int
        Steps over which the shards are captured [steps].
    bytes_per_parameter : float
        State and gradients that one save moves [B per parameter].
    drain_steps : float
        Progress under one drain, gradients included [steps].
    interval_steps : int
        Best interval between saves, at least the drain [steps].
    age_steps : float
        Progress between the version restored and the end of its drain [steps].
    goodput : float
        Exact, at the best interval [share of wall time].
    """

    repair: Repair
    window_steps: int
    bytes_per_parameter: float
    drain_steps: float
    interval_steps: int
    age_steps: float
    goodput: float


def window_plan(
    job: Scenario,
    repair: Repair,
    *,
    window_steps: int | None = None,
    gradient_bytes: int = BF16_BYTES,
    state_bytes: int = STATE_BYTES,
    charged: bool = True,
) -> WindowPlan:
    """The best interval for one repair and one window.

    Parameters
    ----------
    job : Scenario
        With exponential up-times; its drain is the time in which the link moves the state alone.
        Saves are taken to be asynchronous and to wait for the drain before them.
    repair : {"staged", "oldest", "median", "newest"}
        What is restored.
    window_steps : int, optional
        Steps of the capture [steps], at least the job's drain; the drain itself if left out.
    gradient_bytes : int
        Bytes of one gradient element: 2 for bf16, 4 for fp32.
    state_bytes : int
        Bytes of state per parameter.
    charged : bool
        Whether the gradients are charged; without, only the age of the version counts.

    Returns
    -------
    WindowPlan

    Raises
    ------
    InputError
        If up-times are not exponential, the repair is unknown or the window is too short.
    """
    if job.failure_shape != 1.0:
        raise InputError(
            f"failure_shape = {job.failure_shape:g} [1]; allowed for a plan of windows: 1"
            " (exponential up-times)"
        )
    if repair not in _FRACTIONS:
        raise InputError(f"repair = {repair!r} is not known; allowed: {', '.join(REPAIRS)}")
    state_steps = job.drain_steps
    shortest = max(1, math.ceil(state_steps - 1e-9))
    window = shortest if window_steps is None else int(window_steps)
    if window < shortest:
        raise InputError(
            f"window_steps = {window} steps is refused; allowed: at least the {shortest} in which"
            " the link moves the state"
        )
    gradients = 0.0
    if charged and repair != "staged":
        gradients = replay_bytes_per_parameter(window, repair, gradient_bytes=gradient_bytes)
    moved = state_bytes + gradients
    capture = state_steps if window_steps is None else max(state_steps, float(window))
    drain = max(capture, state_steps * moved / state_bytes)
    drain_s = drain * job.step_s
    cost_s = job.drain_tax * job.drain_s * moved / state_bytes
    tax = cost_s / drain_s if drain_s > 0.0 else 0.0
    advance = _FRACTIONS[repair] * capture
    best_s = float(nonblocking.best_work_s(drain_s, tax, job.job_mtbf_s, stop_s=job.staging_s))

    def goodput(steps: int) -> float:
        return float(
            nonblocking.cycle_goodput(
                steps * job.step_s,
                job.staging_s,
                drain_s,
                drain_s,
                tax,
                advance * job.step_s,
                job.job_mtbf_s,
                job.restart_s,
                failure_clock=job.failure_clock,
                downtime_s=job.idle_s,
            )
        )

    least = max(1, math.ceil(drain - 1e-9))
    # Rounding may put a whole drain a hair above its own steps.
    drain_s = min(drain_s, least * job.step_s)
    near = {max(least, math.floor(best_s / job.step_s)), max(least, math.ceil(best_s / job.step_s))}
    found, steps = max((goodput(k), k) for k in near)
    return WindowPlan(repair, window, moved, drain, steps, drain - advance, found)


def best_window_plan(
    job: Scenario,
    repair: Repair,
    *,
    gradient_bytes: int = BF16_BYTES,
    state_bytes: int = STATE_BYTES,
) -> WindowPlan:
    """The best window and interval for one repair, gradients charged.

    Parameters
    ----------
    job : Scenario
        As for `window_plan`.
    repair : {"staged", "oldest", "median", "newest"}
        What is restored.
    gradient_bytes : int
        Bytes of one gradient element: 2 for bf16, 4 for fp32.
    state_bytes : int
        Bytes of state per parameter.

    Returns
    -------
    WindowPlan
        The shortest of equally good windows, among every one up to four times the job's drain;
        about sixty of them where those are more.

    Raises
    ------
    InputError
        As `window_plan`.
    """
    shortest = max(1, math.ceil(job.drain_steps - 1e-9))
    longest = max(shortest + 1, math.ceil(_WIDEST * shortest))
    stride = max(1, (longest - shortest) // 60)
    plans = [
        window_plan(
            job, repair, window_steps=w, gradient_bytes=gradient_bytes, state_bytes=state_bytes
        )
        for w in (None, *range(shortest + stride, longest + 1, stride))
    ]
    return max(plans, key=lambda plan: (plan.goodput, -plan.window_steps))

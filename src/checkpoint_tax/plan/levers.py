"""What one unit of each parameter is worth in goodput."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

from checkpoint_tax.plan.interval import exact_goodput, exact_losses
from checkpoint_tax.scenario import PARAMETERS, SaveCycle, Scenario, save_cycle
from checkpoint_tax.theory import nonblocking
from checkpoint_tax.units import HOUR_S, PER_CENT

__all__ = ["Lever", "cycle_shares", "levers", "tied_to_drain"]

_RELATIVE_STEP = 1e-3
"""Step of a difference over the value: the five points leave an error near its fourth power."""


@dataclass(frozen=True)
class Lever:
    """What a parameter is worth, to first order.

    Attributes
    ----------
    name : str
        The scenario's parameter.
    value : float
        Its value, in `unit`.
    unit : str
        ``"h"``, ``"s"`` or ``"1"``.
    elasticity : float
        Per cent of goodput for one per cent more of the parameter, d ln(goodput) / d ln(value);
        0 where the value is 0.
    points : float
        Percentage points of goodput for one unit more.
    per : str
        That unit: ``"1 h"``, ``"1 s"`` or ``"0.01"``.
    """

    name: str
    value: float
    unit: str
    elasticity: float
    points: float
    per: str


def levers(scenario: Scenario, interval_steps: int) -> dict[str, Lever]:
    """Derivatives of goodput, for exponential failures.

    Parameters
    ----------
    scenario : Scenario
        The job, with exponential up-times.
    interval_steps : int
        The best interval [steps].

    Returns
    -------
    dict of str to Lever
        The MTBF, what a save stops and drains, the tax of the drain, each part of a restart, and
        the wait for a spare.

    Raises
    ------
    InputError
        If up-times are not exponential.

    Notes
    -----
    The interval is held, which is exact to first order where it is an interior optimum: the
    derivative along it is 0 there. Where the best interval is the drain itself it follows the
    drain, so that the optimum is chosen again. Restart and wait are differentiated exactly, with
    u = M + R + D (up-time clock): d ln(goodput)/dR = d ln(goodput)/dD = -1/u; on the wall clock
    -1/M and -1/(M + D). The rest are differences over five points.
    """
    goodput = exact_goodput(scenario, interval_steps)
    mtbf_s, idle_s = scenario.job_mtbf_s, scenario.idle_s
    cycle = save_cycle(scenario, interval_steps)

    def at_mtbf(value_s: float) -> float:
        return cycle_shares(scenario, cycle, value_s)["goodput"]

    def at(name: str) -> Callable[[float], float]:
        def value_at(value: float) -> float:
            changed = scenario.replace(**{name: value})
            steps = float(interval_steps)
            if name == "drain_s" and tied_to_drain(scenario, interval_steps):
                steps *= value / scenario.drain_s
            return exact_losses(changed, steps)["goodput"]

        return value_at

    found = [_lever("job_mtbf_h", mtbf_s / HOUR_S, "h", HOUR_S * _slope(at_mtbf, mtbf_s), goodput)]
    if scenario.save_kind == "blocking":
        names = ["blocking_s"]
    else:
        names = ["staging_s", "drain_s", "drain_tax"]
    for name in names:
        value = float(getattr(scenario, name))
        unit = "1" if name == "drain_tax" else "s"
        # From 0 the difference goes forward, by a step that is small beside what it acts on.
        scale = 1.0 if unit == "1" else min(cycle.work_s, mtbf_s)
        top = PARAMETERS[name].high
        found.append(_lever(name, value, unit, _slope(at(name), value, scale, top), goodput))
    if scenario.failure_clock == "wall":
        by_restart, by_idle = -1.0 / mtbf_s, -1.0 / (mtbf_s + idle_s)
    else:
        by_restart = by_idle = -1.0 / (mtbf_s + scenario.restart_s + idle_s)
    for part, value in scenario.restart_parts.items():
        found.append(_lever(f"{part}_s", value, "s", goodput * by_restart, goodput))
    found.append(_lever("idle_s", idle_s, "s", goodput * by_idle, goodput))
    return {lever.name: lever for lever in found}


def cycle_shares(scenario: Scenario, cycle: SaveCycle, job_mtbf_s: float) -> dict[str, float]:
    """Exact shares of wall time for a save cycle and an MTBF that are not the scenario's own.

    Parameters
    ----------
    scenario : Scenario
        Gives the restart, the wait and the failure clock.
    cycle : SaveCycle
        The save cycle.
    job_mtbf_s : float
        Mean up-time between failures [s]; may be infinite.

    Returns
    -------
    dict of str to float
        Goodput and losses [1]; they sum to 1.
    """
    if math.isinf(job_mtbf_s):
        goodput = cycle.work_s / cycle.period_s
        rest = dict.fromkeys(("rework", "restart", "straggler", "idle"), 0.0)
        return {"goodput": goodput, "save": 1.0 - goodput, **rest}
    shares = nonblocking.cycle_losses(
        **dataclasses.asdict(cycle), job_mtbf_s=job_mtbf_s, restart_s=scenario.restart_s,
        failure_clock=scenario.failure_clock, downtime_s=scenario.idle_s,
    )  # fmt: skip
    return {name: float(share) for name, share in shares.items()}


def tied_to_drain(scenario: Scenario, interval_steps: int) -> bool:
    """Whether a best interval is set by the drain, and so moves with it.

    Parameters
    ----------
    scenario : Scenario
        The job.
    interval_steps : int
        Its best interval [steps].

    Returns
    -------
    bool
        False for a drain within one step, where the step is the bound, and for a compressed drain
        in a shorter interval, which costs no bandwidth.
    """
    if scenario.save_kind == "blocking" or scenario.drain_steps < 1.0:
        return False
    if interval_steps > math.ceil(scenario.drain_steps):
        return False
    return scenario.drain_mode != "compressed" or interval_steps >= scenario.drain_steps


def _slope(
    function: Callable[[float], float], at: float, scale: float = 1.0, top: float = math.inf
) -> float:
    """Derivative by five points: central, forward from 0, or back from the largest value."""
    if 0.0 < at <= top / (1.0 + 2.0 * _RELATIVE_STEP):
        h = _RELATIVE_STEP * at
        near = function(at + h) - function(at - h)
        far = function(at + 2.0 * h) - function(at - 2.0 * h)
        return (8.0 * near - far) / (12.0 * h)
    h = _RELATIVE_STEP * scale if at == 0.0 else -_RELATIVE_STEP * at
    weights = (-25.0, 48.0, -36.0, 16.0, -3.0)
    return math.fsum(w * function(at + i * h) for i, w in enumerate(weights)) / (12.0 * h)


def _lever(name: str, value: float, unit: str, slope: float, goodput: float) -> Lever:
    """Make a lever of a derivative per `unit`."""
    size, per = (0.01, "0.01") if unit == "1" else (1.0, f"1 {unit}")
    return Lever(
        name=name,
        value=value,
        unit=unit,
        elasticity=value * slope / goodput if value > 0.0 and goodput > 0.0 else 0.0,
        points=slope * size / PER_CENT,
        per=per,
    )

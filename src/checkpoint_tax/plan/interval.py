"""The best checkpoint interval as a set: the optimum and everything as good as it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario import Scenario, save_cycle
from checkpoint_tax.simulate import Estimate, sweep_intervals
from checkpoint_tax.theory import nonblocking

__all__ = ["BestInterval", "best_interval", "exact_goodput", "exact_losses", "save_cost_s"]

_SKIP_LIMIT_STEPS = 20_000
"""Longest drain [steps] below which every interval of mode `skip` is looked at: its goodput jumps
wherever the drain is a whole number of intervals, so no search by slopes can be trusted there."""

_LONGEST_STEPS = 1_000_000_000
"""Where the search for the end of a flat range stops."""


@dataclass(frozen=True)
class BestInterval:
    """The best interval and the range of intervals that are as good.

    Attributes
    ----------
    steps : int
        Interval with the highest goodput [steps]; the longest one among equals.
    goodput : Estimate
        Goodput there [share of wall time]; an interval of zero length where it is exact.
    practical_steps : tuple of int
        Shortest and longest interval around `steps` within `practical_points` of it [steps].
    statistical_steps : tuple of int
        Shortest and longest interval around `steps` that the evidence cannot tell from the best:
        exact ties for a closed form; for a simulation, paired differences that are not significant
        at 5 % over all intervals tried together (Bonferroni) [steps].
    practical_points : float
        What counts as equally good [percentage points of goodput].
    method : str
        ``"closed form"`` or ``"simulation"``.
    at_drain_boundary : bool
        Whether the best interval is the drain itself: saving as fast as the bandwidth allows.
    """

    steps: int
    goodput: Estimate
    practical_steps: tuple[int, int]
    statistical_steps: tuple[int, int]
    practical_points: float
    method: str
    at_drain_boundary: bool


def exact_goodput(scenario: Scenario, interval_steps: float | None = None) -> float:
    """Exact long-run goodput of a scenario with exponential failures.

    Parameters
    ----------
    scenario : Scenario
        The job.
    interval_steps : float, optional
        Checkpoint interval [steps]; the scenario's own if left out.

    Returns
    -------
    float
        Share of wall time [1].

    Raises
    ------
    InputError
        If up-times are not exponential: no closed form is known then.
    """
    _require_exponential(scenario)
    return float(_exact(scenario, interval_steps))


def exact_losses(scenario: Scenario, interval_steps: float | None = None) -> dict[str, float]:
    """Exact long-run shares of wall time of a scenario with exponential failures.

    Parameters
    ----------
    scenario : Scenario
        The job.
    interval_steps : float, optional
        Checkpoint interval [steps]; the scenario's own if left out.

    Returns
    -------
    dict of str to float
        ``goodput``, ``save``, ``rework``, ``restart``, ``straggler`` and ``idle`` [1]; sum 1.

    Raises
    ------
    InputError
        If up-times are not exponential: no closed form is known then.
    """
    _require_exponential(scenario)
    return _exact_losses(scenario, interval_steps)


def _require_exponential(scenario: Scenario) -> None:
    if scenario.failure_shape != 1.0:
        raise InputError(
            f"failure_shape = {scenario.failure_shape} [1]; allowed for a closed form: 1 "
            "(exponential up-times); simulate other shapes."
        )
    if not scenario.is_exponential:
        raise InputError(
            f"world = {scenario.world.plain()} [1]; allowed for a closed form: an empty world; "
            "simulate others."
        )


def _exact(scenario: Scenario, interval_steps: float | None) -> float:
    return _exact_losses(scenario, interval_steps)["goodput"]


def _exact_losses(scenario: Scenario, interval_steps: float | None) -> dict[str, float]:
    cycle = save_cycle(scenario, interval_steps)
    shares = nonblocking.cycle_losses(
        cycle.work_s,
        cycle.stop_s,
        cycle.latency_work_s,
        cycle.taxed_work_s,
        cycle.tax,
        cycle.advance_s,
        scenario.job_mtbf_s,
        scenario.restart_s,
        failure_clock=scenario.failure_clock,
        downtime_s=scenario.idle_s,
    )
    return {name: float(share) for name, share in shares.items()}


def best_interval(
    scenario: Scenario,
    *,
    method: str = "auto",
    practical_points: float = 0.05,
    half_width: float = 1e-4,
    seed: int = 0,
    threads: int | None = None,
) -> BestInterval:
    """Find the best checkpoint interval and the range as good as it.

    Parameters
    ----------
    scenario : Scenario
        The job; its own interval is not used.
    method : {"auto", "closed form", "simulation"}
        ``auto`` takes the closed form where one holds (exponential failures).
    practical_points : float
        Goodput difference that does not matter [percentage points].
    half_width : float
        Precision of each simulated goodput [share of wall time].
    seed : int
        As for `checkpoint_tax.simulate.simulate`.
    threads : int, optional
        As for `checkpoint_tax.simulate.simulate`.

    Returns
    -------
    BestInterval

    Raises
    ------
    InputError
        For an unknown method, or a closed form asked for where none is known.
    """
    if method not in ("auto", "closed form", "simulation"):
        raise InputError(f"method = {method!r}; allowed: 'auto', 'closed form' or 'simulation'.")
    if not (math.isfinite(practical_points) and 0.0 <= practical_points <= 100.0):
        raise InputError(
            f"practical_points = {practical_points} [percentage points]; allowed: 0 to 100."
        )
    if method == "closed form":
        _require_exponential(scenario)
    exact = method == "closed form" or (method == "auto" and scenario.is_exponential)
    if exact:
        return _by_closed_form(scenario, practical_points)
    return _by_simulation(scenario, practical_points, half_width, seed, threads)


def save_cost_s(scenario: Scenario) -> float:
    """Wall time that one save costs, where its drain keeps up.

    Parameters
    ----------
    scenario : Scenario
        The job.

    Returns
    -------
    float
        The stop, and for an asynchronous save also the tax of its drain [s]: the C of the
        classic formulas.
    """
    if scenario.save_kind == "blocking":
        return scenario.blocking_s
    return scenario.staging_s + scenario.drain_tax * scenario.drain_s


def _search_limit(scenario: Scenario) -> int:
    """An interval beyond which goodput only falls [steps]: far past every optimum there is."""
    first_order_s = math.sqrt(2.0 * save_cost_s(scenario) * scenario.job_mtbf_s)
    drain_s = 0.0 if scenario.save_kind == "blocking" else scenario.drain_s
    # Clustered failures (shape < 1) leave long quiet gaps and lengthen the best interval.
    stretch = 4.0 * max(1.0, 1.0 / scenario.failure_shape)
    steps = math.ceil(stretch * (first_order_s + drain_s) / scenario.step_s) + 16
    return int(min(_LONGEST_STEPS, steps))


def _grid(low: int, high: int, points: int) -> list[int]:
    return sorted({round(x) for x in np.geomspace(low, high, points)} | {low, high})


def _refine(value: Callable[[int], float], candidates: list[int]) -> int:
    """Best whole interval by narrowing a grid around its best point; the longest among equals."""
    while True:
        best = max(candidates, key=lambda k: (value(k), k))
        i = candidates.index(best)
        low = candidates[max(i - 1, 0)]
        high = candidates[min(i + 1, len(candidates) - 1)]
        if high - low <= 2:
            return best
        candidates = sorted({*_grid(low, high, 24), best})


def _reach(good: Callable[[int], bool], best: int, end: int, single_steps_to: int) -> int:
    """Last interval of the unbroken good run from `best` towards `end`.

    Strides double, then the edge is bisected; that trusts goodput to fall steadily away from the
    best, so up to `single_steps_to`, where it may not, every interval is looked at.
    """
    towards = 1 if end > best else -1
    inside, stride = best, 1
    while inside != end:
        wary = min(inside, inside + towards) <= single_steps_to
        ahead = inside + towards * (1 if wary else stride)
        ahead = min(ahead, end) if towards > 0 else max(ahead, end)
        if not good(ahead):
            while abs(ahead - inside) > 1:
                middle = (inside + ahead) // 2
                inside, ahead = (middle, ahead) if good(middle) else (inside, middle)
            return inside
        inside, stride = ahead, 2 * stride
    return inside


def _by_closed_form(scenario: Scenario, practical_points: float) -> BestInterval:
    known: dict[int, float] = {}

    def value(k: int) -> float:
        if k not in known:
            known[k] = _exact(scenario, float(k))
        return known[k]

    limit = _search_limit(scenario)
    candidates = _grid(1, limit, 48)
    drain = 0.0 if scenario.save_kind == "blocking" else scenario.drain_steps
    ceiling = math.ceil(drain)
    if 1 <= ceiling <= limit:
        candidates = sorted({*candidates, ceiling})
    wary_to = 0
    if scenario.save_kind != "blocking" and scenario.drain_mode == "skip" and drain > 1:
        wary_to = ceiling
        if drain > _SKIP_LIMIT_STEPS:
            raise InputError(
                f"drain_s = {scenario.drain_s:g} [s] is {drain:.0f} steps; allowed with "
                f"drain_mode = 'skip': at most {_SKIP_LIMIT_STEPS} steps."
            )
        below = max(range(1, ceiling + 1), key=lambda k: (value(k), k))
        beyond = _refine(value, [k for k in candidates if k >= ceiling])
        best = max(below, beyond, key=lambda k: (value(k), k))
    else:
        best = _refine(value, candidates)
    top = value(best)

    def around(tolerance: float) -> tuple[int, int]:
        def good(k: int) -> bool:
            return value(k) >= top - tolerance

        return _reach(good, best, 1, wary_to), _reach(good, best, _LONGEST_STEPS, wary_to)

    return BestInterval(
        steps=best,
        goodput=Estimate(top, top, top),
        practical_steps=around(practical_points / 100.0),
        statistical_steps=around(0.0),
        practical_points=practical_points,
        method="closed form",
        at_drain_boundary=_at_boundary(scenario, best),
    )


def _at_boundary(scenario: Scenario, best: int) -> bool:
    return scenario.save_kind == "asynchronous" and best <= math.ceil(scenario.drain_steps)


def _by_simulation(
    scenario: Scenario,
    practical_points: float,
    half_width: float,
    seed: int,
    threads: int | None,
) -> BestInterval:
    low, high = 1, _search_limit(scenario)
    candidates = _grid(low, high, 24)
    while True:
        sweep = sweep_intervals(
            scenario, candidates, half_width=half_width, seed=seed, threads=threads
        )
        best = sweep.best()
        # Bonferroni over the intervals tried together.
        tail = 0.025 / max(len(candidates) - 1, 1)
        shortfalls = [sweep.shortfall(i, tail) for i in range(len(candidates))]
        alike = [s.low <= 0.0 for s in shortfalls]
        near = [s.value <= practical_points / 100.0 for s in shortfalls]
        first, last = _run_of([a or n for a, n in zip(alike, near, strict=True)], best)
        new_low = candidates[max(first - 1, 0)]
        new_high = candidates[min(last + 1, len(candidates) - 1)]
        spacing = max(b - a for a, b in itertools.pairwise(candidates))
        if (new_low, new_high) == (low, high) or spacing <= 1:
            break
        low, high = new_low, new_high
        candidates = sorted({*np.linspace(low, high, 49).round().astype(int).tolist()})
    a0, a1 = _run_of(alike, best)
    n0, n1 = _run_of(near, best)
    return BestInterval(
        steps=candidates[best],
        goodput=sweep.goodput()[best],
        practical_steps=(candidates[n0], candidates[n1]),
        statistical_steps=(candidates[a0], candidates[a1]),
        practical_points=practical_points,
        method="simulation",
        at_drain_boundary=_at_boundary(scenario, candidates[best]),
    )


def _run_of(flags: list[bool], inside: int) -> tuple[int, int]:
    """First and last position of the unbroken run of true flags around `inside`."""
    first = last = inside
    while first > 0 and flags[first - 1]:
        first -= 1
    while last + 1 < len(flags) and flags[last + 1]:
        last += 1
    return first, last

"""From a world as a person describes it to the numbers the kernels take."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from checkpoint_tax.scenario import SaveCycle, Scenario, Spread
from checkpoint_tax.scenario.world import FailureModel
from checkpoint_tax.simulate.quantiles import quantile_table
from checkpoint_tax.simulate.world_kernels import (
    FIXED,
    SAMPLES,
    TABLE,
    WEIBULL,
    Cycle,
    Draws,
    Rules,
)

__all__ = ["cycle_numbers", "gap_spread", "mean_restart_parts", "rules_of"]

_ROUNDING = 1e-12

FloatArray = npt.NDArray[np.float64]


def gap_spread(scenario: Scenario) -> Spread:
    """Spread of up-times between failures.

    Parameters
    ----------
    scenario : Scenario
        The job.

    Returns
    -------
    Spread
        The world's, else the Weibull of the job's ``failure_shape``.
    """
    chosen = scenario.world.failures.gaps
    return Spread("weibull", scenario.failure_shape) if chosen is None else chosen


def _draws(times: list[tuple[Spread, float]]) -> Draws:
    """Times to draw, each a spread and its mean [s], as the kernels take them."""
    count = len(times)
    kinds = np.full(count, FIXED)
    scales, inverse_shapes = np.zeros(count), np.ones(count)
    firsts, counts = np.zeros(count, np.int64), np.zeros(count, np.int64)
    tables: list[FloatArray] = []
    samples: list[float] = []
    for i, (spread, mean) in enumerate(times):
        scales[i] = mean
        if mean == 0.0 or spread.kind == "fixed":
            continue
        kinds[i] = WEIBULL
        if spread.kind == "weibull":
            inverse_shapes[i] = 1.0 / spread.shape
            scales[i] = mean / math.gamma(1.0 + inverse_shapes[i])
        elif spread.kind == "samples":
            kinds[i], firsts[i], counts[i] = SAMPLES, len(samples), len(spread.samples)
            samples += [value * (mean / spread.sample_mean) for value in spread.samples]
        elif spread.kind != "exponential" and (spread.kind, spread.shape) != ("gamma", 1.0):
            kinds[i], firsts[i] = TABLE, len(tables)
            tables.append(quantile_table(spread, mean))
    return Draws(
        kinds=kinds,
        scales=scales,
        inverse_shapes=inverse_shapes,
        tables=np.array(tables) if tables else np.zeros((1, 1, 4)),
        samples=np.array(samples or [0.0]),
        firsts=firsts,
        counts=counts,
    )


def _rate(chance: float) -> float:
    """Rate r with exp(-r) = chance, 0 for a chance of 0: how kernels count tries in one draw."""
    return -math.log(chance) if chance > 0.0 else 0.0


def rules_of(scenario: Scenario) -> Rules | None:
    """Reduce a scenario's world to the kernels' rules.

    Parameters
    ----------
    scenario : Scenario
        The job.

    Returns
    -------
    Rules or None
        None where the plain engine does: exponential or Weibull gaps and nothing else.
    """
    world = scenario.world
    gaps = gap_spread(scenario)
    if gaps.kind in ("exponential", "weibull") and replace(world, failures=FailureModel()).is_plain:
        return None
    restart, saves = world.restart, world.saves
    parts = [(getattr(restart, part), seconds) for part, seconds in scenario.restart_parts.items()]
    return Rules(
        draws=_draws([(gaps, scenario.job_mtbf_s), *parts]),
        block=world.failures.block,
        draw_restart=int(scenario.failure_clock == "wall"),
        wall_clock=int(scenario.failure_clock == "wall"),
        attempt_rate=_rate(restart.attempt_fails),
        attempts=math.inf if restart.attempts is None else float(restart.attempts),
        retry_wait=restart.retry_wait_s,
        manual=restart.manual_s,
        hang_share=restart.hang_share,
        hang_detect=restart.hang_detect_s,
        silent_rate=_rate(saves.silent),
        # The count is of sound saves before the first that hangs.
        save_hang_rate=-math.log1p(-saves.hang),
        save_hang=saves.hang_s,
        idle=scenario.idle_s,
    )


def cycle_numbers(cycle: SaveCycle) -> Cycle:
    """Save cycle in the form the kernels take.

    Parameters
    ----------
    cycle : SaveCycle
        Of the scenario.

    Returns
    -------
    Cycle
        All times in s.
    """
    durable_after = cycle.stop_s + cycle.latency_work_s * (1.0 + cycle.tax)
    periods = math.floor(durable_after / cycle.period_s)
    rest = durable_after - periods * cycle.period_s
    # A drain that ends just as the next save starts must do so in doubles, too: that save may hang.
    if cycle.period_s - rest <= _ROUNDING * cycle.period_s:
        periods, rest = periods + 1, 0.0
    elif rest <= _ROUNDING * cycle.period_s:
        rest = 0.0
    return Cycle(
        first_save=cycle.first_save_s,
        period=cycle.period_s,
        work=cycle.work_s,
        stop=cycle.stop_s,
        taxed=cycle.taxed_work_s,
        tax=cycle.tax,
        advance=cycle.advance_s,
        durable_periods=float(periods),
        durable_rest=rest,
    )


def mean_restart_parts(scenario: Scenario) -> dict[str, float]:
    """Mean time spent in each part of one restart that nothing interrupts.

    Parameters
    ----------
    scenario : Scenario
        The job.

    Returns
    -------
    dict of str to float
        Mean [s] by part, failed attempts and waits included.
    """
    rules = scenario.world.restart
    fails, limit = rules.attempt_fails, rules.attempts
    reach_limit = 0.0 if limit is None else fails**limit
    failed = fails * (1.0 - reach_limit) / (1.0 - fails)
    means = {
        part: seconds if part == "detect" else seconds * (1.0 + failed)
        for part, seconds in scenario.restart_parts.items()
    }
    share = rules.hang_share
    means["detect"] = (1.0 - share) * means["detect"] + share * rules.hang_detect_s
    means["reschedule"] += failed * rules.retry_wait_s + reach_limit * rules.manual_s
    return means

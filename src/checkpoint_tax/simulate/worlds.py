"""From a world as a person describes it to the numbers the kernels take."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from checkpoint_tax.scenario import SaveCycle, Scenario, Spread
from checkpoint_tax.scenario.world import FailureModel, NodeModel, ShockModel
from checkpoint_tax.simulate.kernels import BLOCK
from checkpoint_tax.simulate.node_kernels import Lemons, Pool
from checkpoint_tax.simulate.quantiles import (
    log_quantile,
    log_quantile_by_length,
    mean_of_least,
    quantile_table,
)
from checkpoint_tax.simulate.world_kernels import (
    FIXED,
    SAMPLES,
    TABLE,
    WEIBULL,
    Cycle,
    Draws,
    Rules,
)
from checkpoint_tax.units import HOUR_S

__all__ = [
    "cycle_numbers",
    "gap_spread",
    "mean_gap_s",
    "mean_restart_parts",
    "rules_of",
    "warm_up_blocks",
]

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


@dataclass(frozen=True)
class _Time:
    """A time to draw: spread and mean [s], or any quantile function in units of the mean."""

    spread: Spread
    mean: float
    log_quantile: Callable[[FloatArray], FloatArray] | None = None


def _draws(times: list[_Time]) -> Draws:
    """Times to draw, as the kernels take them."""
    count = len(times)
    kinds = np.full(count, FIXED)
    scales, inverse_shapes = np.zeros(count), np.ones(count)
    firsts, counts = np.zeros(count, np.int64), np.zeros(count, np.int64)
    tables: list[FloatArray] = []
    samples: list[float] = []
    for i, time in enumerate(times):
        spread, mean = time.spread, time.mean
        scales[i] = mean
        tabled = time.log_quantile
        if mean == 0.0 or (spread.kind == "fixed" and tabled is None):
            continue
        kinds[i] = WEIBULL
        if tabled is None and spread.kind in ("lognormal", "gamma") and not _is_exponential(spread):
            tabled = partial(log_quantile, spread)
        if tabled is not None:
            kinds[i], firsts[i] = TABLE, len(tables)
            tables.append(quantile_table(tabled, mean))
        elif spread.kind == "weibull":
            inverse_shapes[i] = 1.0 / spread.shape
            scales[i] = mean / math.gamma(1.0 + inverse_shapes[i])
        elif spread.kind == "samples":
            kinds[i], firsts[i], counts[i] = SAMPLES, len(samples), len(spread.samples)
            samples += [value * (mean / spread.sample_mean) for value in spread.samples]
    return Draws(
        kinds=kinds,
        scales=scales,
        inverse_shapes=inverse_shapes,
        tables=np.array(tables) if tables else np.zeros((1, 1, 4)),
        samples=np.array(samples or [0.0]),
        firsts=firsts,
        counts=counts,
    )


def _is_exponential(spread: Spread) -> bool:
    return spread.kind == "exponential" or (
        spread.kind in ("gamma", "weibull") and spread.shape == 1.0
    )


def _rate(chance: float) -> float:
    """Rate r with exp(-r) = chance, 0 for a chance of 0: how kernels count tries in one draw."""
    return -math.log(chance) if chance > 0.0 else 0.0


def rules_of(scenario: Scenario, *, always: bool = False) -> Rules | None:
    """Reduce a scenario's world to the kernels' rules.

    Parameters
    ----------
    scenario : Scenario
        The job.
    always : bool
        Give rules even where the plain engine does without.

    Returns
    -------
    Rules or None
        None where the plain engine does: exponential or Weibull gaps of the job, nothing else.
    """
    world = scenario.world
    gaps = gap_spread(scenario)
    renewal = gaps.kind in ("exponential", "weibull") and world.failures.whose == "job"
    # The sizes of shocks and of nodes matter only to what counts nodes.
    rest = replace(
        world,
        failures=FailureModel(),
        nodes=NodeModel(),
        shocks=ShockModel(),
    )
    if renewal and rest.is_plain and not always:
        return None
    restart, saves, stragglers, spares = world.restart, world.saves, world.stragglers, world.spares
    wall_clock = scenario.failure_clock == "wall"
    lemons, standard = _lemons(scenario)
    gap_time, long_lives, nodes_age = _gap_times(scenario)
    parts = [
        _Time(getattr(restart, part), seconds) for part, seconds in scenario.restart_parts.items()
    ]
    pool = Pool(
        spares=-1 if spares.nodes is None else spares.nodes,
        n_nodes=scenario.n_nodes,
        shrinks=int(spares.when_empty == "shrink"),
        most_missing=float(
            scenario.n_nodes - max(1, math.ceil(scenario.n_nodes * spares.least_share))
        ),
    )
    restart_varies = (
        restart.attempt_fails > 0.0
        or restart.hang_share > 0.0
        or any(time.mean > 0.0 and time.spread.kind != "fixed" for time in parts)
    )
    radii, shares = world.shocks.radii()
    return Rules(
        draws=_draws(
            [
                standard or gap_time,
                *parts,
                _Time(spares.repair, spares.repair_h * HOUR_S),
                long_lives,
            ]
        ),
        block=world.failures.block,
        draw_restart=int(wall_clock or pool.spares >= 0),
        restart_varies=int(restart_varies),
        wall_clock=int(wall_clock),
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
        slow_share=stragglers.share,
        slowdown=stragglers.slowdown,
        find=stragglers.find_s,
        swap=stragglers.swap_s,
        nodes_age=int(nodes_age),
        n_nodes=scenario.n_nodes,
        pool=pool,
        lemons=lemons,
        strikes=world.lemons.strikes,
        radii=np.array(radii, dtype=np.float64),
        radius_ends=np.cumsum(shares),
    )


def _gap_times(scenario: Scenario) -> tuple[_Time, _Time, bool]:
    """Gap of the job or life of a node, a node's life by length, and whether nodes age."""
    failures, spread = scenario.world.failures, gap_spread(scenario)
    nothing = _Time(Spread(), 0.0)
    gap = scenario.job_mtbf_s * scenario.world.shocks.records
    if failures.whose == "job":
        return _Time(spread, gap), nothing, False
    nodes = scenario.n_nodes
    life = gap * nodes
    if failures.renewed == "failed":
        by_length = partial(log_quantile_by_length, spread)
        return _Time(spread, life), _Time(spread, life, by_length), True
    if spread.kind in ("exponential", "weibull"):
        # The least of n Weibull lives is Weibull again.
        return _Time(spread, life * mean_of_least(spread, nodes)), nothing, False

    def least(standard: FloatArray) -> FloatArray:
        # All n outlast x with probability S(x)^n = exp(-E).
        return log_quantile(spread, standard / nodes)

    return _Time(spread, life, least), nothing, False


def _lemons(scenario: Scenario) -> tuple[Lemons, _Time | None]:
    """Rates of sound nodes and lemons, such that the job's mean gap is what it says.

    A node is sound, or a lemon with some strikes; it leaves each of the `strikes` states of a lemon
    at one rate, so that all are equally likely, and as many nodes turn lemon as are found out.
    """
    model = scenario.world.lemons
    if model.share == 0.0:
        return Lemons(0.0, 0.0, 1.0, 1.0), None
    odds = model.strikes * model.share / (model.factor * (1.0 - model.share))
    sound = 1.0 / (1.0 + odds)
    gap = scenario.job_mtbf_s * scenario.world.shocks.records
    rate = 1.0 / (gap * scenario.n_nodes * (sound + model.factor * (1.0 - sound)))
    return Lemons(rate, model.share, model.factor, sound), _Time(Spread("exponential"), 1.0)


def mean_gap_s(scenario: Scenario) -> float:
    """Mean up-time between interruptions of the job.

    Parameters
    ----------
    scenario : Scenario
        The job.

    Returns
    -------
    float
        The job's MTBF [s], unless that counts failed nodes rather than interruptions, or restarts
        make every node as new.
    """
    failures = scenario.world.failures
    gap = scenario.job_mtbf_s * scenario.world.shocks.records
    if failures.whose == "job" or failures.renewed == "failed":
        return gap
    return gap * scenario.n_nodes * mean_of_least(gap_spread(scenario), scenario.n_nodes)


def warm_up_blocks(scenario: Scenario) -> int:
    """Blocks of failures until a pool of spares has forgotten that it started full.

    Parameters
    ----------
    scenario : Scenario
        The job.

    Returns
    -------
    int
        Blocks to play uncounted [1]; 0 without a pool. After them a repair under way at the start
        is still under way with probability 1e-4, even if the job never waits or restarts.
    """
    spares = scenario.world.spares
    # Without a spare each failure waits for its own repair, and nothing is remembered.
    if spares.nodes is None or (spares.nodes == 0 and spares.when_empty == "wait"):
        return 0
    mean = spares.repair_h * HOUR_S
    if spares.repair.kind == "samples":
        times = np.array(spares.repair.samples) / spares.repair.sample_mean
    elif spares.repair.kind == "fixed":
        times = np.ones(1)
    else:
        exceeded = (np.arange(200_000) + 0.5) / 200_000
        times = np.exp(log_quantile(spares.repair, -np.log(exceeded)))
    low, high = 0.0, float(times.max())
    for _ in range(60):
        middle = 0.5 * (low + high)
        # What is left of a repair under way: P(left > t) = E[max(r - t, 0)] / E[r].
        if np.mean(np.maximum(times - middle, 0.0)) > 1e-4 * np.mean(times):
            low = middle
        else:
            high = middle
    return math.ceil(high * mean / mean_gap_s(scenario) / BLOCK) if mean > 0.0 else 0


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

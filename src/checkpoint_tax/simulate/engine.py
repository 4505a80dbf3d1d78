"""The simulator's public face: checks, streams, threads and stopping rules around the kernels.

A *batch* is the smallest unit of evidence: `BATCH_FAILURES` successive failures with a random
stream of its own, addressed by (seed, purpose, batch number). Threads share out whole batches and
each batch writes its own row, so results are the same bits for any number of threads, and one
scenario's batch ``b`` meets the same standardised gaps as another's: comparisons use common random
numbers without asking for them.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario import Scenario, save_cycle
from checkpoint_tax.simulate import kernels, world_kernels
from checkpoint_tax.simulate.results import Estimate, IntervalSweep, Runs, Simulation, interval
from checkpoint_tax.simulate.world_kernels import Cycle, Rules
from checkpoint_tax.simulate.worlds import (
    cycle_numbers,
    gap_spread,
    mean_gap_s,
    mean_restart_parts,
    rules_of,
    warm_up_blocks,
)

__all__ = ["goodput_difference", "lost_work_s", "simulate", "simulate_runs", "sweep_intervals"]

BATCH_BLOCKS = 2
BATCH_FAILURES = BATCH_BLOCKS * kernels.BLOCK
PILOT_BATCHES = 64
FAILURE_LIMIT = 10_000_000
"""Failures after which a run is given up as never finishing."""

# Streams for different questions must not overlap even for one seed.
_LONG_RUN = np.uint64(1)
_FINISH = np.uint64(2)
_LOST = np.uint64(3)

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _World:
    """A scenario reduced to the numbers the kernels take (seconds)."""

    scale: float
    inverse_shape: float
    wall_clock: bool
    restart: float
    idle: float
    first_save: float
    period: float
    work: float
    stop: float
    taxed: float
    tax: float
    advance: float
    durable_after: float
    part_ends: FloatArray
    mean_gap: float
    mean_parts: tuple[float, ...]
    cycle: Cycle
    rules: Rules | None
    """What goes beyond the plain engine; None where nothing does."""
    scenario: Scenario
    warm_blocks: int
    """Blocks played uncounted at the start of each batch."""
    blocks: int
    """Blocks counted in each batch: more where there is a start to forget."""

    @property
    def batch_failures(self) -> int:
        """Failures counted in each batch."""
        return self.blocks * kernels.BLOCK

    @property
    def fragile(self) -> float:
        """Part of the restart that a failure can hit."""
        return self.restart if self.wall_clock else 0.0

    @property
    def mean_cycle(self) -> float | None:
        """Expected wall time from one failure to the next, where it is known exactly.

        A save that hangs ends a segment before its gap does, and then it is not; nor is the wait
        for a pool of spares.
        """
        rules = self.rules
        if rules is not None and (rules.save_hang_rate > 0.0 or rules.pool.spares >= 0):
            return None
        return self.mean_gap + self.idle + (0.0 if self.wall_clock else sum(self.mean_parts))

    @property
    def durable(self) -> tuple[float, float]:
        periods = math.floor(self.durable_after / self.period)
        return float(periods), self.durable_after - periods * self.period


def _world(scenario: Scenario) -> _World:
    cycle = save_cycle(scenario)
    spread = gap_spread(scenario)
    shape = spread.shape if spread.kind == "weibull" else 1.0
    mean = mean_gap_s(scenario)
    warm = warm_up_blocks(scenario)
    parts = np.cumsum(np.array(list(scenario.restart_parts.values()), dtype=np.float64))
    return _World(
        scale=mean / math.gamma(1.0 + 1.0 / shape),
        inverse_shape=1.0 / shape,
        wall_clock=scenario.failure_clock == "wall",
        restart=scenario.restart_s,
        idle=scenario.idle_s,
        first_save=cycle.first_save_s,
        period=cycle.period_s,
        work=cycle.work_s,
        stop=cycle.stop_s,
        taxed=cycle.taxed_work_s,
        tax=cycle.tax,
        advance=cycle.advance_s,
        durable_after=cycle.stop_s + cycle.latency_work_s * (1.0 + cycle.tax),
        part_ends=parts,
        mean_gap=mean,
        mean_parts=tuple(mean_restart_parts(scenario).values()),
        cycle=cycle_numbers(cycle),
        rules=rules_of(scenario),
        scenario=scenario,
        warm_blocks=warm,
        blocks=max(BATCH_BLOCKS, 4 * warm),
    )


def _aligned(worlds: Sequence[_World]) -> list[_World]:
    """Give worlds that are to be compared batches of one length, so that draws stay common."""
    warm = max(world.warm_blocks for world in worlds)
    blocks = max(world.blocks for world in worlds)
    return [
        world
        if (world.warm_blocks, world.blocks) == (warm, blocks)
        else replace(
            world,
            warm_blocks=warm,
            blocks=blocks,
            rules=world.rules or rules_of(world.scenario, always=True),
        )
        for world in worlds
    ]


def _check_seed(seed: int) -> np.uint64:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise InputError(f"seed = {seed!r} [1]; allowed: a whole number from 0 to 2^64 - 1.")
    return np.uint64(int(seed))


def _check_count(name: str, value: int, low: int, high: int) -> int:
    whole = not isinstance(value, bool) and isinstance(value, int | np.integer)
    if not whole or not low <= value <= high:
        raise InputError(f"{name} = {value!r} [1]; allowed: a whole number from {low} to {high}.")
    return int(value)


def _threads(threads: int | None) -> int:
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return _check_count("threads", threads, 1, 1024)


def _share_out(rows: int, threads: int, least: int, run: Callable[[int, int], None]) -> None:
    """Call ``run(start, stop)`` over contiguous shares of `rows`, in threads when worth it."""
    workers = max(1, min(threads, rows // least))
    edges = [rows * i // workers for i in range(workers + 1)]
    if workers == 1:
        run(0, rows)
        return
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(run, a, b) for a, b in itertools.pairwise(edges)]:
            done.result()


def _batches(world: _World, seed: np.uint64, first: int, count: int, threads: int) -> FloatArray:
    """Batch sums, one row each: gap, up-time, durable saves, progress, then restart columns.

    Those are times before each part's end for the plain engine, the parts themselves for worlds.
    """
    rules = world.rules
    if rules is not None:
        sums = np.empty((count, world_kernels.N_COLUMNS))

        def run_world(start: int, stop: int) -> None:
            world_kernels.world_long_run(
                seed,
                _LONG_RUN,
                np.uint64(first + start),
                world.warm_blocks,
                world.blocks,
                rules,
                world.cycle,
                sums[start:stop],
            )

        _share_out(count, threads, 32, run_world)
        return sums
    ends = world.part_ends if world.wall_clock else world.part_ends[:0]
    out = np.empty((count, 4 + ends.size))
    periods, rest = world.durable

    def run(start: int, stop: int) -> None:
        kernels.long_run(
            seed,
            _LONG_RUN,
            np.uint64(first + start),
            BATCH_BLOCKS,
            world.scale,
            world.inverse_shape,
            world.fragile,
            world.first_save,
            world.period,
            world.work,
            world.stop,
            world.taxed,
            world.tax,
            periods,
            rest,
            ends,
            out[start:stop],
        )

    _share_out(count, threads, 32, run)
    return out


@dataclass(frozen=True)
class _Columns:
    """Batch means per failure by meaning (seconds): a row of `_batches` taken apart."""

    gap: FloatArray
    cycle: FloatArray
    useful: FloatArray
    save: FloatArray
    rework: FloatArray
    parts: tuple[FloatArray, ...]
    slowed: FloatArray
    idle: FloatArray


def _columns(world: _World, sums: FloatArray) -> _Columns:
    count = world.batch_failures
    gap, up, progress = sums[:, 0], sums[:, 1], sums[:, 3]
    useful = sums[:, 2] * world.work
    idle = np.full(len(sums), count * world.idle)
    slowed = np.zeros(len(sums))
    parts: tuple[FloatArray, ...]
    if world.rules is not None:
        slowed = sums[:, world_kernels.SLOWED_COLUMN]
        idle = idle + sums[:, world_kernels.IDLE_COLUMN]
    if world.rules is not None and world.rules.draw_restart:
        parts = tuple(sums[:, 4 + i] for i in range(world.part_ends.size))
    elif not world.wall_clock:
        parts = tuple(np.full(len(sums), count * part) for part in world.mean_parts)
    else:
        ends = np.column_stack([np.zeros(len(sums)), sums[:, 4:]])
        parts = tuple(ends[:, i + 1] - ends[:, i] for i in range(world.part_ends.size))
    return _Columns(
        gap=gap / count,
        cycle=np.sum([up, *parts, idle], axis=0) / count,
        useful=useful / count,
        save=(up - slowed - progress) / count,
        rework=(progress - useful) / count,
        parts=tuple(part / count for part in parts),
        slowed=slowed / count,
        idle=idle / count,
    )


class _Shares:
    """Turns batch sums into shares of wall time with intervals.

    With the control variate, each column is regressed on the gap, whose mean is known, and so is
    the wall time per failure unless its expectation is known itself; a share is then the quotient
    of the two. Without it, a share is a ratio of sums. The variance of a quotient follows from the
    residuals (delta method). Batches are independent and identically distributed in every case.
    """

    def __init__(self, world: _World, columns: _Columns, control: bool) -> None:
        self._n = columns.gap.size
        self._control = control and self._n > 2
        self._gap = columns.gap
        self._mean_gap = world.mean_gap
        self._mean_cycle = world.mean_cycle
        if self._mean_cycle is None:
            self._cycle = columns.cycle
        else:
            self._cycle = self._gap + (self._mean_cycle - world.mean_gap)

    def _adjusted(self, per_failure: FloatArray) -> FloatArray:
        # A variate that does not vary (one batch repeated) would divide by 0.
        centred = self._gap - math.fsum(self._gap) / self._n
        spread = math.fsum(centred * centred)
        slope = math.fsum(centred * per_failure) / spread if spread > 0.0 else 0.0
        return np.asarray(per_failure - slope * (self._gap - self._mean_gap))

    def series(self, per_failure: FloatArray) -> FloatArray:
        """One value a batch whose mean is the share: for paired comparisons."""
        cycle = self._cycle
        if self._control:
            per_failure = self._adjusted(per_failure)
            if self._mean_cycle is not None:
                return np.asarray(per_failure / self._mean_cycle)
            cycle = self._adjusted(cycle)
        share = math.fsum(per_failure) / math.fsum(cycle)
        mean_cycle = math.fsum(cycle) / self._n
        return np.asarray(share + (per_failure - share * cycle) / mean_cycle)

    def estimate(self, column: FloatArray) -> Estimate:
        return interval(self.series(column), self._n - (2 if self._control else 1))


def _goodput_series(world: _World, sums: FloatArray) -> FloatArray:
    columns = _columns(world, sums)
    return _Shares(world, columns, True).series(columns.useful)


def _check_half_width(half_width: float) -> float:
    number = isinstance(half_width, int | float | np.floating) and not isinstance(half_width, bool)
    if not number or not (math.isfinite(half_width) and 0.0 < half_width < 1.0):
        raise InputError(
            f"half_width = {half_width!r} [share of wall time]; allowed: strictly between 0 and 1."
        )
    return float(half_width)


def _batch_cap(max_failures: int, world: _World) -> int:
    """Batches that a cap on failures leaves."""
    size = world.batch_failures
    return _check_count("max_failures", max_failures, 4 * size, 2**62) // size


def _until(
    half_width: float,
    max_batches: int,
    extend: Callable[[int, int], None],
    current: Callable[[], Estimate],
) -> bool:
    """Grow the sample until the interval is narrow enough; say whether it was."""
    done = min(PILOT_BATCHES, max_batches)
    extend(0, done)
    while True:
        reached = current().half_width
        if reached <= half_width:
            return True
        if done >= max_batches:
            return False
        # Aim 10 % beyond what the present variance asks for, so that most runs need one step;
        # never more than 16 times at once, since that variance is itself an estimate.
        wanted = math.ceil(1.1 * done * (reached / half_width) ** 2)
        target = min(max_batches, max(done + PILOT_BATCHES, min(wanted, 16 * done)))
        extend(done, target - done)
        done = target


def simulate(
    scenario: Scenario,
    *,
    half_width: float = 1e-4,
    seed: int = 0,
    threads: int | None = None,
    control_variate: bool = True,
    max_failures: int = 2**32,
) -> Simulation:
    """Estimate the long-run shares of wall time, to a precision that is asked for.

    Parameters
    ----------
    scenario : Scenario
        The job.
    half_width : float
        Half-width of the 95 % interval of goodput at which to stop [share of wall time].
    seed : int
        Any whole number from 0 to 2^64 - 1; a seed gives the same digits on every rerun and for
        every number of threads.
    threads : int, optional
        Threads to use; default, as many as the process may run on. No digit depends on it.
    control_variate : bool
        Use the exactly known mean of the gaps between failures to narrow the intervals.
    max_failures : int
        Stop there even if the half-width was not met; the result's ``met`` then says so.

    Returns
    -------
    Simulation
        Goodput, losses by category and the restart by part, each with its interval.

    Raises
    ------
    InputError
        For a half-width, seed, thread count or cap out of range.

    Notes
    -----
    A failure costs the same whatever the interval, the drain or the number of saves between
    failures: where it falls in the cycle of saves follows from one division.
    """
    half_width = _check_half_width(half_width)
    key = _check_seed(seed)
    workers = _threads(threads)
    world = _world(scenario)
    cap = _batch_cap(max_failures, world)
    sums = np.empty((0, 0))

    def extend(first: int, count: int) -> None:
        nonlocal sums
        more = _batches(world, key, first, count, workers)
        sums = np.concatenate([sums, more]) if sums.size else more

    def goodput() -> Estimate:
        columns = _columns(world, sums)
        return _Shares(world, columns, control_variate).estimate(columns.useful)

    met = _until(half_width, cap, extend, goodput)
    columns = _columns(world, sums)
    view = _Shares(world, columns, control_variate)
    losses = {
        "save": view.estimate(columns.save),
        "rework": view.estimate(columns.rework),
        "restart": view.estimate(np.sum(columns.parts, axis=0)),
        "straggler": view.estimate(columns.slowed),
        "idle": view.estimate(columns.idle),
    }
    by_part = dict(zip(scenario.restart_parts, columns.parts, strict=True))
    return Simulation(
        scenario=scenario,
        goodput=view.estimate(columns.useful),
        losses=losses,
        restart_parts={name: view.estimate(column) for name, column in by_part.items()},
        n_failures=len(sums) * world.batch_failures,
        met=met,
    )


def goodput_difference(
    scenario: Scenario,
    baseline: Scenario,
    *,
    half_width: float = 1e-4,
    seed: int = 0,
    threads: int | None = None,
    max_failures: int = 2**32,
) -> Estimate:
    """Goodput of `scenario` less that of `baseline`, with common random numbers.

    Parameters
    ----------
    scenario, baseline : Scenario
        The jobs to compare; both meet the same standardised gaps between failures.
    half_width : float
        Half-width of the 95 % interval of the difference at which to stop [share of wall time].
    seed : int
        As for `simulate`.
    threads : int, optional
        As for `simulate`.
    max_failures : int
        As for `simulate`.

    Returns
    -------
    Estimate
        Difference in shares of wall time [1]. If the cap on failures was reached first, its
        half-width is larger than asked for.

    Raises
    ------
    InputError
        For a half-width, seed, thread count or cap out of range.
    """
    half_width = _check_half_width(half_width)
    key = _check_seed(seed)
    workers = _threads(threads)
    worlds = _aligned([_world(scenario), _world(baseline)])
    cap = _batch_cap(max_failures, worlds[0])
    sums = [np.empty((0, 0)), np.empty((0, 0))]

    def extend(first: int, count: int) -> None:
        for i, world in enumerate(worlds):
            more = _batches(world, key, first, count, workers)
            sums[i] = np.concatenate([sums[i], more]) if sums[i].size else more

    def current() -> Estimate:
        a, b = (_goodput_series(world, s) for world, s in zip(worlds, sums, strict=True))
        return interval(a - b, a.size - 2)

    _until(half_width, cap, extend, current)
    return current()


def sweep_intervals(
    scenario: Scenario,
    intervals_steps: Sequence[int],
    *,
    half_width: float = 1e-4,
    seed: int = 0,
    threads: int | None = None,
    max_failures: int = 2**32,
) -> IntervalSweep:
    """Goodput at several checkpoint intervals, with common random numbers.

    Parameters
    ----------
    scenario : Scenario
        The job; its own interval is not used.
    intervals_steps : sequence of int
        Checkpoint intervals to try [steps], each at least 1.
    half_width : float
        Half-width of the widest 95 % interval among the values at which to stop [share].
    seed : int
        As for `simulate`.
    threads : int, optional
        As for `simulate`.
    max_failures : int
        As for `simulate`; the cap holds for each interval.

    Returns
    -------
    IntervalSweep
        Estimates, and paired differences between any two of them.

    Raises
    ------
    InputError
        For an interval, half-width, seed, thread count or cap out of range.
    """
    half_width = _check_half_width(half_width)
    key = _check_seed(seed)
    workers = _threads(threads)
    worlds = [_world(scenario.replace(checkpoint_interval_steps=int(k))) for k in intervals_steps]
    if not worlds:
        raise InputError("intervals_steps = [] [steps]; allowed: at least one interval.")
    cap = _batch_cap(max_failures, worlds[0])
    sums = [np.empty((0, 0)) for _ in worlds]

    def extend(first: int, count: int) -> None:
        for i, world in enumerate(worlds):
            more = _batches(world, key, first, count, workers)
            sums[i] = np.concatenate([sums[i], more]) if sums[i].size else more

    def series() -> FloatArray:
        return np.array([_goodput_series(world, s) for world, s in zip(worlds, sums, strict=True)])

    def widest() -> Estimate:
        rows = series()
        return max((interval(r, r.size - 2) for r in rows), key=lambda e: e.half_width)

    met = _until(half_width, cap, extend, widest)
    return IntervalSweep(tuple(int(k) for k in intervals_steps), series(), met)


def lost_work_s(
    scenario: Scenario, *, n_failures: int = 102_400, seed: int = 0, threads: int | None = None
) -> FloatArray:
    """Progress lost by each of a number of independent failures.

    Parameters
    ----------
    scenario : Scenario
        The job.
    n_failures : int
        How many failures to draw [1].
    seed : int
        As for `simulate`.
    threads : int, optional
        As for `simulate`.

    Returns
    -------
    ndarray of float, shape (n_failures,)
        Lost progress [s of undisturbed training]; divide by ``step_s`` for steps.

    Raises
    ------
    InputError
        For a count, seed or thread count out of range.
    """
    n_failures = _check_count("n_failures", n_failures, 1, 2**32)
    key = _check_seed(seed)
    world = _world(scenario)
    periods, rest = world.durable
    rows = -(-n_failures // kernels.BLOCK)
    out = np.empty((rows, kernels.BLOCK))

    rules = world.rules

    def run(start: int, stop: int) -> None:
        if rules is not None:
            world_kernels.world_lost_work(
                key, _LOST, np.uint64(start), rules, world.cycle, out[start:stop]
            )
            return
        kernels.lost_work(
            key,
            _LOST,
            np.uint64(start),
            world.scale,
            world.inverse_shape,
            world.fragile,
            world.first_save,
            world.period,
            world.work,
            world.stop,
            world.taxed,
            world.tax,
            periods,
            rest,
            out[start:stop],
        )

    _share_out(rows, _threads(threads), 64, run)
    return out.reshape(-1)[:n_failures]


def simulate_runs(
    scenario: Scenario,
    *,
    n_runs: int = 1024,
    relative_half_width: float | None = None,
    probability: float = 0.5,
    seed: int = 0,
    threads: int | None = None,
    max_runs: int = 2**20,
) -> Runs:
    """Play whole runs of ``scenario.run_steps`` steps: the finish time as a distribution.

    A run starts without a restart, from an initial state that counts as its first checkpoint, and
    ends with its last step. Failures wait for no save: what was not durable is made again.

    Parameters
    ----------
    scenario : Scenario
        The job; ``run_steps`` sets the length of a run.
    n_runs : int
        Number of independent runs [1], or the first try where a precision is asked for.
    relative_half_width : float, optional
        Double the number of runs until the 95 % interval of the quantile `probability` of the
        finish time is at most this share of it [1].
    probability : float
        The quantile that `relative_half_width` speaks of, strictly between 0 and 1 [1].
    seed : int
        As for `simulate`. Run ``i`` of a seed is the same whatever `n_runs` is.
    threads : int, optional
        As for `simulate`.
    max_runs : int
        Where doubling stops even if the precision was not met [1].

    Returns
    -------
    Runs
        Finish times, shares of wall time and failures of each run.

    Raises
    ------
    InputError
        For an argument out of range, or for a job that makes no progress: one whose runs meet
        the limit on failures before they finish.
    """
    n_runs = _check_count("n_runs", n_runs, 2, 2**26)
    key = _check_seed(seed)
    workers = _threads(threads)
    runs = _play(scenario, key, 0, n_runs, workers)
    if relative_half_width is None:
        return runs
    relative_half_width = _check_half_width(relative_half_width)
    max_runs = _check_count("max_runs", max_runs, n_runs, 2**26)
    while runs.finish_s.size < max_runs:
        estimate = runs.quantile(probability)
        if estimate.half_width <= relative_half_width * estimate.value:
            break
        more = min(runs.finish_s.size, max_runs - runs.finish_s.size)
        runs = _join(runs, _play(scenario, key, runs.finish_s.size, more, workers))
    return runs


def _join(a: Runs, b: Runs) -> Runs:
    return replace(
        a,
        finish_s=np.concatenate([a.finish_s, b.finish_s]),
        fractions={k: np.concatenate([a.fractions[k], b.fractions[k]]) for k in a.fractions},
        n_failures=np.concatenate([a.n_failures, b.n_failures]),
    )


def _play(scenario: Scenario, key: np.uint64, first: int, n_runs: int, threads: int) -> Runs:
    world = _world(scenario)
    needed = scenario.run_steps * scenario.step_s
    n_parts = world.part_ends.size
    out = np.empty((n_runs, 6 + n_parts))

    rules = None if world.rules is None else world.rules._replace(draw_restart=1)

    def run(start: int, stop: int) -> None:
        if rules is not None:
            world_kernels.world_finish_runs(
                key,
                _FINISH,
                np.uint64(first + start),
                rules,
                world.cycle,
                needed,
                FAILURE_LIMIT,
                out[start:stop],
            )
            return
        kernels.finish_runs(
            key,
            _FINISH,
            np.uint64(first + start),
            world.scale,
            world.inverse_shape,
            1.0 if world.wall_clock else 0.0,
            world.restart,
            world.idle,
            needed,
            world.period,
            world.work,
            world.stop,
            world.taxed,
            world.tax,
            world.advance,
            world.durable_after,
            world.part_ends,
            FAILURE_LIMIT,
            out[start:stop],
        )

    _share_out(n_runs, threads, 8, run)
    unfinished = int(np.count_nonzero(out[:, 4] == 0.0))
    if unfinished:
        raise InputError(
            f"run_steps = {scenario.run_steps} [steps]: {unfinished} of {n_runs} runs met "
            f"{FAILURE_LIMIT:,} failures without finishing; allowed: a job that secures progress "
            f"between failures (MTBF {scenario.job_mtbf_s:g} s, save cycle {world.period:g} s)."
        )
    seconds = {
        "goodput": np.full(n_runs, needed),
        "save": out[:, 1] - out[:, 2],
        "rework": out[:, 2] - needed,
        # The plain engine adds up times before the end of each part, so that its last is all.
        "restart": out[:, 4 + n_parts] if rules is None else np.sum(out[:, 5:11], axis=1),
        "straggler": np.zeros(n_runs) if rules is None else out[:, 11],
        "idle": out[:, 3],
    }
    # Rounding can leave a loss of 0 at -1e-10 s; a time is not negative.
    tiny = 1e-9 * needed
    for name in ("save", "rework"):
        column = seconds[name]
        seconds[name] = np.where((column < 0.0) & (column > -tiny), 0.0, column)
    finish = np.sum(list(seconds.values()), axis=0)
    return Runs(
        scenario=scenario,
        finish_s=finish,
        fractions=_exact_fractions(seconds, finish),
        n_failures=out[:, 0].astype(np.int64),
    )


def _exact_fractions(seconds: dict[str, FloatArray], finish: FloatArray) -> dict[str, FloatArray]:
    """Shares whose correctly rounded sum is exactly 1 in every run.

    Dividing each time by the total leaves the sum an ulp away from 1; the largest share is
    therefore taken as 1 less the others. Its rounding error is at most 2^-54, half the spacing of
    doubles below 1, so that the exact sum rounds to 1.
    """
    table = np.array([column / finish for column in seconds.values()])
    largest = np.argmax(table, axis=0)
    columns = np.arange(table.shape[1])
    table[largest, columns] = 0.0
    # fsum rounds once, so that the largest share is the double nearest to what is left.
    table[largest, columns] = [math.fsum([1.0, *-table[:, run]]) for run in columns]
    return dict(zip(seconds, table, strict=True))

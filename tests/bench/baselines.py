"""The same loop, written the ways it would be without this package: NumPy, and SimPy events."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import simpy

from checkpoint_tax.scenario import Scenario, save_cycle


def numpy_loop(scenario: Scenario, failures: int, block: int = 100_000) -> tuple[float, float]:
    """Vectorised NumPy in blocks that fit the cache; returns ns per failure and goodput."""
    c = save_cycle(scenario)
    rng = np.random.default_rng(1)
    slow = 1.0 + c.tax
    taxed_wall = c.taxed_work_s * slow
    secured = up_time = made = 0.0
    start = time.perf_counter()
    for _ in range(failures // block):
        x = rng.exponential(scenario.job_mtbf_s, block)
        since = x - c.first_save_s
        started = np.floor(since / c.period_s)
        phase = since - started * c.period_s
        saves = np.maximum(started + (phase >= c.stop_s + c.latency_work_s * slow), 0.0)
        running = np.maximum(phase - c.stop_s, 0.0)
        inside = np.minimum(running / slow, c.taxed_work_s)
        inside += np.maximum(running - taxed_wall, 0.0)
        progress = np.where(since < 0.0, x, c.first_save_s + started * c.work_s + inside)
        secured += saves.sum() * c.work_s
        up_time += x.sum()
        made += progress.sum()
    took = time.perf_counter() - start
    done = failures // block * block
    return took / done * 1e9, secured / (up_time + done * scenario.restart_s)


def simpy_steps(scenario: Scenario, failures: int) -> tuple[float, float]:
    """Step through every save and drain as SimPy events; returns ns per failure and goodput."""
    c = save_cycle(scenario)
    rng = np.random.default_rng(1)
    env = simpy.Environment()
    state = {"secured": 0.0}

    def drain() -> Iterator[simpy.Event]:
        yield env.timeout(c.latency_work_s * (1.0 + c.tax))
        state["secured"] += c.work_s

    def train() -> Iterator[simpy.Event]:
        draining: simpy.Process | None = None
        try:
            while True:
                # The first part of an interval is slowed by the drain of the save before it.
                taxed = 0.0 if draining is None else c.taxed_work_s
                yield env.timeout(c.work_s + c.tax * taxed)
                draining = env.process(drain())
        except simpy.Interrupt:
            if draining is not None and draining.is_alive:
                # A drain cut short secures nothing.
                draining.defused = True
                state["secured"] -= c.work_s

    def fail() -> Iterator[simpy.Event]:
        for _ in range(failures):
            job = env.process(train())
            yield env.timeout(rng.exponential(scenario.job_mtbf_s))
            job.interrupt()
            yield env.timeout(scenario.restart_s)

    start = time.perf_counter()
    process = env.process(fail())
    env.run(process)
    took = time.perf_counter() - start
    return took / failures * 1e9, state["secured"] / env.now

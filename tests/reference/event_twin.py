"""A slow, obvious twin of the simulator: one job, played event by event in plain Python.

It knows nothing of cycles, periods or floors. It holds a clock, the progress made, the drains in
flight and the newest version that could be restored, and walks from one event to the next. The
modes are read from their descriptions: who waits, who is dropped, who shares bandwidth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from checkpoint_tax.scenario import Scenario

FRACTION = {"oldest": 0.0, "median": 0.5, "newest": 1.0}


def exponential(uniform: float) -> float:
    return -math.log(uniform)


MASK = 2**64 - 1


def threefry(counter: tuple[int, int], key: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x64 with 20 rounds in unbounded integers, as its paper words it."""
    rotations = (16, 42, 12, 31, 16, 32, 24, 21)
    keys = (key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAA9FC1A22)
    x, y = (counter[0] + keys[0]) & MASK, (counter[1] + keys[1]) & MASK
    for turn in range(20):
        x = (x + y) & MASK
        r = rotations[turn % 8]
        y = ((y << r | y >> (64 - r)) & MASK) ^ x
        if turn % 4 == 3:
            s = turn // 4 + 1
            x = (x + keys[s % 3]) & MASK
            y = (y + keys[(s + 1) % 3] + s) & MASK
    return x, y


def standard_gaps(seed: int, purpose: int, replica: int, blocks: int) -> list[float]:
    """Standard exponential gaps of one replica, in the order the simulator meets them."""
    gaps: list[float] = []
    for block in range(blocks):
        pairs = [threefry((block * 256 + i, replica), (seed, purpose)) for i in range(256)]
        words = [a for a, _ in pairs] + [b for _, b in pairs]
        gaps += [exponential(((w >> 12) + 0.5) / 2.0**52) for w in words]
    return gaps


@dataclass
class Segment:
    """What one stretch from a (re)start to a failure left behind (seconds)."""

    progress: float
    saves: int
    restored: float
    elapsed: float


@dataclass
class Job:
    """A job that was restored from a version `lead` seconds of progress past its save's start."""

    scenario: Scenario
    lead: float
    drains: list[list[float]] = field(default_factory=list)

    def cadence(self) -> float:
        """Progress between two saves, found by walking along the steps at which saves fall due."""
        s = self.scenario
        k, drain = s.checkpoint_interval_steps * s.step_s, s.drain_s
        if s.save_kind == "blocking" or s.drain_mode == "compressed":
            return k
        if s.drain_mode == "skip":
            due = k
            while due < drain * (1 - 1e-12):
                due += k
            return due
        return drain if k < drain else k

    def drain_length(self) -> float:
        s = self.scenario
        k = s.checkpoint_interval_steps * s.step_s
        if s.save_kind == "blocking":
            return 0.0
        if k >= s.drain_s:
            return s.drain_s
        if s.drain_mode == "compressed":
            return k
        return s.drain_s * (s.overlap_drains if s.drain_mode == "overlap" else 1)

    def play(self, up_time: float, goal: float = math.inf) -> tuple[Segment, bool]:
        """Walk event by event until the failure or the goal; say whether the goal was reached."""
        s = self.scenario
        blocking = s.save_kind == "blocking"
        stop = s.blocking_s if blocking else s.staging_s
        every, length = self.cadence(), self.drain_length()
        clock = progress = 0.0
        next_save = every - self.lead
        saves, restored = 0, 0.0
        self.drains = []
        while True:
            slow = 1.0 + s.drain_tax if self.drains else 1.0
            events = [next_save, goal]
            if self.drains:
                events.append(self.drains[0][1])
            target = min(events)
            arrival = clock + (target - progress) * slow
            if arrival > up_time:
                progress += (up_time - clock) / slow
                return Segment(progress, saves, restored, up_time), False
            clock, progress = arrival, target
            if progress == goal:
                return Segment(progress, saves, restored, clock), True
            if self.drains and progress == self.drains[0][1]:
                start, _ = self.drains.pop(0)
                saves += 1
                restored = start + FRACTION[s.target] * length
            if progress == next_save:
                start = progress
                next_save = start + every
                if clock + stop > up_time:
                    return Segment(progress, saves, restored, up_time), False
                clock += stop
                if blocking or length == 0.0:
                    saves += 1
                    restored = start
                else:
                    self.drains.append([start, start + length])


@dataclass
class Run:
    wall: float
    failures: int
    save: float
    rework: float
    restart: float
    idle: float


def play_run(scenario: Scenario, standard: list[float]) -> Run:
    """One whole run with exponential failures, told by its event list."""
    s = scenario
    gaps = iter(standard)
    needed = s.run_steps * s.step_s
    secured = lead = wall = save = rework = restart = idle = 0.0
    failures = 0
    first = True
    while True:
        gap = next(gaps) * s.job_mtbf_s
        if not first:
            if s.failure_clock == "wall":
                if gap < s.restart_s:
                    failures += 1
                    wall += gap + s.idle_s
                    restart += gap
                    idle += s.idle_s
                    continue
                gap -= s.restart_s
            wall += s.restart_s
            restart += s.restart_s
        first = False
        segment, finished = Job(s, lead).play(gap, needed - secured)
        wall += segment.elapsed
        save += segment.elapsed - segment.progress
        if finished:
            return Run(wall, failures, save, rework, restart, idle)
        failures += 1
        wall += s.idle_s
        idle += s.idle_s
        rework += segment.progress - segment.restored
        secured += segment.restored
        if segment.saves:
            lead = FRACTION[s.target] * Job(s, lead).drain_length()

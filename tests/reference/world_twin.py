"""A slow, obvious twin of the simulator's worlds: one run, told event by event in plain Python.

Distributions come from SciPy, random bits from the twin's own Threefry, and the job is walked from
one event to the next: a save starts, hangs, or is durable; a part of a restart ends; a node comes
back. Nothing here knows of cycles, tables or blocks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from event_twin import FRACTION, Job, threefry
from scipy import stats

from checkpoint_tax.scenario import Scenario, Spread

LONG_RUN, FINISH, LOST = 1, 2, 3
GAPS, PARTS, FAILED, HANG, SILENT, SAVE_HANG = 0, 1, 7, 8, 9, 10


def uniforms(seed: int, purpose: int, replica: int, stream: int) -> Iterator[float]:
    """Numbers in (0, 1) of one stream, in the order the simulator meets them."""
    block = 0
    while True:
        key = (seed, purpose + 256 * stream)
        pairs = [threefry((block * 256 + i, replica), key) for i in range(256)]
        for word in [a for a, _ in pairs] + [b for _, b in pairs]:
            yield ((word >> 12) + 0.5) / 2.0**52
        block += 1


def quantile(spread: Spread, mean: float, exceeded: float) -> float:
    """The time of this spread and mean that is exceeded with the given probability."""
    if mean == 0.0 or spread.kind == "fixed":
        return mean
    if spread.kind == "samples":
        return spread.samples[int(exceeded * len(spread.samples))] * mean / spread.sample_mean
    return mean * float(law(spread.kind, spread.shape).isf(exceeded))


@functools.cache
def law(kind: str, k: float) -> stats.rv_continuous:
    """SciPy's distribution of mean 1."""
    if kind == "exponential":
        return stats.expon()
    if kind == "weibull":
        return stats.weibull_min(k, scale=1.0 / math.gamma(1.0 + 1.0 / k))
    if kind == "gamma":
        return stats.gamma(k, scale=1.0 / k)
    return stats.lognorm(k, scale=math.exp(-0.5 * k * k))


def sound_before_first(chance_of_bad: float, draw: float) -> int:
    """Tries that go well before the first bad one, by looking at one try after the other."""
    count, reached = 0, 1.0
    while chance_of_bad > 0.0:
        reached *= 1.0 - chance_of_bad
        if draw > reached:
            return count
        count += 1
    return 10**18


@dataclass
class Walk:
    """What one segment left behind: effective seconds, progress, and what could be restored."""

    time: float
    progress: float
    stall: float
    restorable: list[float] = field(default_factory=list)
    finished: bool = False
    hung: bool = False


def walk(job: Scenario, lead: float, up_time: float, goal: float, hung_save: int) -> Walk:
    """Train until the failure, the goal, or the start of the save that hangs."""
    twin = Job(job, lead)
    blocking = job.save_kind == "blocking"
    stop = job.blocking_s if blocking else job.staging_s
    every, length = twin.cadence(), twin.drain_length()
    clock = progress = 0.0
    next_save = every - lead
    started = 0
    restorable: list[float] = []
    drains: list[float] = []
    while True:
        slow = 1.0 + job.drain_tax if drains else 1.0
        target = min([next_save, goal, *(start + length for start in drains[:1])])
        arrival = clock + (target - progress) * slow
        if arrival > up_time:
            progress += (up_time - clock) / slow
            return Walk(up_time, progress, 0.0, restorable)
        clock, progress = arrival, target
        if progress == goal:
            return Walk(clock, progress, 0.0, restorable, finished=True)
        if drains and progress == drains[0] + length:
            restorable.append(drains.pop(0) + FRACTION[job.target] * length)
        if progress == next_save:
            if started == hung_save:
                return Walk(clock, progress, 0.0, restorable, hung=True)
            started += 1
            start, next_save = progress, progress + every
            if clock + stop > up_time:
                return Walk(up_time, progress, 0.0, restorable)
            clock += stop
            if blocking or length == 0.0:
                restorable.append(start)
            else:
                drains.append(start)


class Luck:
    """The draws of one replica, one value at a time."""

    def __init__(self, job: Scenario, seed: int, purpose: int, replica: int) -> None:
        self.job = job
        self.streams = {
            n: uniforms(seed, purpose, replica, n)
            for n in (GAPS, *range(PARTS, PARTS + 6), FAILED, HANG, SILENT, SAVE_HANG)
        }
        self.place = self.left = 0

    def gap(self) -> float:
        draw = next(self.streams[GAPS])
        model = self.job.world.failures
        spread = model.gaps or Spread("weibull", self.job.failure_shape)
        if spread.kind != "samples":
            return quantile(spread, self.job.job_mtbf_s, draw)
        if self.left == 0:
            self.place, self.left = int(draw * len(spread.samples)), model.block
        gap = spread.samples[self.place % len(spread.samples)]
        self.place, self.left = self.place + 1, self.left - 1
        return gap * self.job.job_mtbf_s / spread.sample_mean

    def restart(self) -> list[tuple[str, float]]:
        """Steps of one restart in the order they happen, each a part's name and its seconds."""
        rules = self.job.world.restart
        parts = {
            name: quantile(getattr(rules, name), mean, next(self.streams[PARTS + i]))
            for i, (name, mean) in enumerate(self.job.restart_parts.items())
        }
        is_hang = next(self.streams[HANG]) < rules.hang_share
        steps = [("detect", rules.hang_detect_s if is_hang else parts.pop("detect"))]
        parts.pop("detect", None)
        draw, failures, reached = next(self.streams[FAILED]), 0, 1.0
        while rules.attempt_fails > 0.0:
            reached *= rules.attempt_fails
            if draw > reached or failures == rules.attempts:
                break
            failures += 1
        for _ in range(failures):
            steps += [*parts.items(), ("reschedule", rules.retry_wait_s)]
        if failures == rules.attempts:
            steps.append(("reschedule", rules.manual_s))
        return [*steps, *parts.items()]

    def bad_saves(self) -> int:
        """Newest saves that cannot be restored: look at them from the newest backwards."""
        draw, count, reached = next(self.streams[SILENT]), 0, 1.0
        while self.job.world.saves.silent > 0.0:
            reached *= self.job.world.saves.silent
            if draw > reached:
                break
            count += 1
        return count

    def hung_save(self) -> int:
        draw = next(self.streams[SAVE_HANG])
        return sound_before_first(self.job.world.saves.hang, draw)


@dataclass
class Story:
    """One run's times by category [s]."""

    failures: int = 0
    save: float = 0.0
    rework: float = 0.0
    idle: float = 0.0
    useful: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def restart(self) -> float:
        return math.fsum(self.parts.values())

    @property
    def wall(self) -> float:
        return self.useful + self.save + self.rework + self.restart + self.idle


def tell_run(job: Scenario, seed: int, replica: int) -> Story:
    """One whole run."""
    luck = Luck(job, seed, FINISH, replica)
    story = Story(parts=dict.fromkeys(job.restart_parts, 0.0))
    needed = story.useful = job.run_steps * job.step_s
    on_the_wall = job.failure_clock == "wall"
    secured = lead = 0.0
    first = True
    while True:
        left = luck.gap()
        steps, bad, hung_save = luck.restart(), luck.bad_saves(), luck.hung_save()
        if not first:
            story.idle += job.idle_s
            for name, seconds in steps:
                spent = min(seconds, left) if on_the_wall else seconds
                story.parts[name] += spent
                if on_the_wall:
                    left -= spent
            if on_the_wall and left == 0.0:
                story.failures += 1
                continue
        first = False
        done = walk(job, lead, left, needed - secured, hung_save)
        story.save += done.time - done.progress
        if done.finished:
            return story
        story.failures += 1
        if done.hung:
            stall = job.world.saves.hang_s
            story.save += min(stall, left - done.time) if on_the_wall else stall
        sound = done.restorable[: max(len(done.restorable) - bad, 0)]
        restored = sound[-1] if sound else 0.0
        story.rework += done.progress - restored
        secured += restored
        if sound:
            lead = FRACTION[job.target] * Job(job, lead).drain_length()

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
SLOW, LOST_NODES, REPAIR, NODES, AGES, WHO, AGAIN = 11, 12, 13, 14, 15, 17, 18


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


def by_length(spread: Spread, mean: float, exceeded: float) -> float:
    """Like `quantile`, for a time drawn in proportion to its length."""
    k = spread.shape
    if spread.kind == "lognormal":
        return mean * float(stats.lognorm(k, scale=math.exp(0.5 * k * k)).isf(exceeded))
    if spread.kind == "gamma":
        return mean * float(stats.gamma(k + 1.0, scale=1.0 / k).isf(exceeded))
    k = k if spread.kind == "weibull" else 1.0
    standard = float(stats.gamma(1.0 + 1.0 / k).isf(exceeded))
    return mean * standard ** (1.0 / k) / math.gamma(1.0 + 1.0 / k)


@dataclass
class Walk:
    """What one segment left behind: wall seconds, progress, and what could be restored."""

    time: float
    trained: float
    progress: float
    restorable: list[float] = field(default_factory=list)
    finished: bool = False
    hung: bool = False


class Pace:
    """Undisturbed seconds per second of a segment: full, slow until found, 0 during the swap."""

    def __init__(self, job: Scenario, slow: bool) -> None:
        rules = job.world.stragglers
        self.stages = [(math.inf, 1.0)]
        if slow:
            found = rules.find_s
            self.stages = [
                (found, 1.0 / (1.0 + rules.slowdown)),
                (found + rules.swap_s, 0.0),
                (math.inf, 1.0),
            ]

    def when(self, clock: float, effort: float) -> float:
        """Clock at which `effort` more undisturbed seconds are done; none are done at once."""
        if effort == 0.0:
            return clock
        for end, pace in self.stages:
            if clock >= end:
                continue
            if pace > 0.0 and clock + effort / pace <= end:
                return clock + effort / pace
            effort -= (end - clock) * pace
            clock = end
        raise AssertionError

    def done(self, clock: float, until: float) -> float:
        """Undisturbed seconds done between two clocks."""
        effort = 0.0
        for end, pace in self.stages:
            stop = min(max(end, clock), until)
            effort += (stop - clock) * pace
            clock = stop
        return effort


def walk(
    job: Scenario, lead: float, up_time: float, goal: float, hung_save: int, slow: bool = False
) -> Walk:
    """Train until the failure, the goal, or the start of the save that hangs."""
    twin, pace = Job(job, lead), Pace(job, slow)
    blocking = job.save_kind == "blocking"
    stop = job.blocking_s if blocking else job.staging_s
    every, length = twin.cadence(), twin.drain_length()
    clock = trained = progress = 0.0
    next_save = every - lead
    started = 0
    restorable: list[float] = []
    drains: list[float] = []
    while True:
        tax = 1.0 + job.drain_tax if drains else 1.0
        target = min([next_save, goal, *(start + length for start in drains[:1])])
        effort = (target - progress) * tax
        arrival = pace.when(clock, effort)
        if arrival > up_time:
            effort = pace.done(clock, up_time)
            return Walk(up_time, trained + effort, progress + effort / tax, restorable)
        clock, trained, progress = arrival, trained + effort, target
        if progress == goal:
            return Walk(clock, trained, progress, restorable, finished=True)
        if drains and progress == drains[0] + length:
            restorable.append(drains.pop(0) + FRACTION[job.target] * length)
        if progress == next_save:
            if started == hung_save:
                return Walk(clock, trained, progress, restorable, hung=True)
            started += 1
            start, next_save = progress, progress + every
            if pace.when(clock, stop) > up_time:
                effort = pace.done(clock, up_time)
                return Walk(up_time, trained + effort, progress, restorable)
            clock, trained = pace.when(clock, stop), trained + stop
            if blocking or length == 0.0:
                restorable.append(start)
            else:
                drains.append(start)


class Spares:
    """Nodes one by one: each is in the job, free, or back from repair at a time."""

    def __init__(self, job: Scenario) -> None:
        self.rules = job.world.spares
        self.whole = self.running = job.n_nodes
        self.free = self.rules.nodes or 0
        self.returns: list[float] = []
        least = 1.0 if self.rules.when_empty == "wait" else self.rules.least_share
        self.least = max(1, math.ceil(self.whole * least))
        self.now = 0.0

    def come_back(self) -> None:
        self.returns.sort()
        while self.returns and self.returns[0] <= self.now:
            self.returns.pop(0)
            self.free += 1

    def replace(self, lost: int, repair: float) -> float:
        """Wait until the job may restart; returns how long."""
        lost = min(lost, self.running)
        self.running -= lost
        self.come_back()
        self.returns += [self.now + repair] * lost
        began = self.now
        while self.running + self.free < self.least:
            self.now = max(self.now, min(self.returns))
            self.come_back()
        self.join()
        return self.now - began

    def join(self) -> None:
        joining = min(self.free, self.whole - self.running)
        self.running, self.free = self.running + joining, self.free - joining

    def train(self, seconds: float) -> float:
        """Pass what takes a whole job `seconds`; returns the extra time."""
        began = self.now
        left = seconds
        # Some may have come back during the restart.
        self.come_back()
        self.join()
        while self.running < self.whole:
            pace = self.running / self.whole
            end = min(self.returns)
            if (end - self.now) * pace >= left:
                self.now += left / pace
                return self.now - began - seconds
            left -= (end - self.now) * pace
            self.now = end
            self.come_back()
            self.join()
        self.now += left
        return self.now - began - seconds


class Luck:
    """The draws of one replica, one value at a time."""

    def __init__(self, job: Scenario, seed: int, purpose: int, replica: int) -> None:
        self.job = job
        self.streams = {n: uniforms(seed, purpose, replica, n) for n in range(19)}
        self.place = self.left = 0
        self.mean = job.job_mtbf_s * job.world.shocks.records
        self.spread = job.world.failures.gaps or Spread("weibull", job.failure_shape)
        self.due: list[float] = []
        self.kinds: list[int] = []
        if job.world.failures.whose == "nodes":
            life = self.mean * job.n_nodes
            for _ in range(job.n_nodes):
                longer = by_length(self.spread, life, next(self.streams[NODES]))
                self.due.append(longer * next(self.streams[AGES]))
        if job.world.lemons.share > 0.0:
            self.begin_lemons()

    def begin_lemons(self) -> None:
        """Give each node a kind as in the long run: -1 sound, else the strikes it has.

        The long run is found by letting one node's chain step until nothing changes.
        """
        rules = self.job.world.lemons
        chances = [1.0, *[0.0] * rules.strikes]
        rates = [1.0, *[rules.factor] * rules.strikes]
        for _ in range(200_000):
            flow = [c * r * 1e-2 / rules.factor for c, r in zip(chances, rates, strict=True)]
            after = [c - f for c, f in zip(chances, flow, strict=True)]
            renewed = flow[0] + flow[-1]
            for k in range(1, rules.strikes):
                after[k + 1] += flow[k]
            after[1] += renewed * rules.share
            after[0] += renewed * (1.0 - rules.share)
            if max(abs(a - c) for a, c in zip(after, chances, strict=True)) < 1e-17:
                break
            chances = after
        for _ in range(self.job.n_nodes):
            draw, kind = next(self.streams[NODES]), -1
            while kind < rules.strikes - 1 and draw >= math.fsum(chances[: kind + 2]):
                kind += 1
            self.kinds.append(kind)
        mean_rate = math.fsum(c * r for c, r in zip(chances, rates, strict=True))
        self.rate = 1.0 / (self.mean * self.job.n_nodes * mean_rate)

    def lemon_gap(self) -> float:
        rules = self.job.world.lemons
        self.kinds.sort()
        weights = [1.0 if kind < 0 else rules.factor for kind in self.kinds]
        total = math.fsum(weights)
        gap = -math.log(next(self.streams[GAPS])) / (self.rate * total)
        place, node = next(self.streams[WHO]) * total, 0
        while place >= weights[node]:
            place -= weights[node]
            node += 1
        again = next(self.streams[AGAIN]) < rules.share
        if 0 <= self.kinds[node] < rules.strikes - 1:
            self.kinds[node] += 1
        else:
            self.kinds[node] = 0 if again else -1
        return gap

    def gap(self) -> float:
        if self.kinds:
            return self.lemon_gap()
        if self.due and self.job.world.failures.renewed == "all":
            # Everything is new, so the job's gap is the least of as many lives: each is exceeded
            # with probability u^(1/n) at what the least exceeds with probability u.
            exceeded = next(self.streams[GAPS]) ** (1.0 / self.job.n_nodes)
            return quantile(self.spread, self.mean * self.job.n_nodes, exceeded)
        if self.due:
            first = min(self.due)
            self.due.remove(first)
            life = quantile(self.spread, self.mean * self.job.n_nodes, next(self.streams[GAPS]))
            self.due = [*(time - first for time in self.due), life]
            return first
        draw = next(self.streams[GAPS])
        model = self.job.world.failures
        spread = self.spread
        if spread.kind != "samples":
            return quantile(spread, self.mean, draw)
        if self.left == 0:
            self.place, self.left = int(draw * len(spread.samples)), model.block
        gap = spread.samples[self.place % len(spread.samples)]
        self.place, self.left = self.place + 1, self.left - 1
        return gap * self.mean / spread.sample_mean

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

    def slow(self) -> bool:
        return next(self.streams[SLOW]) < self.job.world.stragglers.share

    def lost_nodes(self) -> tuple[int, float]:
        """Nodes the failure takes, and their time to repair."""
        draw, reached = next(self.streams[LOST_NODES]), 0.0
        rules = self.job.world.spares
        repair = quantile(rules.repair, rules.repair_h * 3600.0, next(self.streams[REPAIR]))
        for nodes, share in zip(*self.job.world.shocks.radii(), strict=True):
            reached += share
            if draw < reached:
                return nodes, repair
        return nodes, repair

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
    straggler: float = 0.0
    useful: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def restart(self) -> float:
        return math.fsum(self.parts.values())

    @property
    def wall(self) -> float:
        return self.useful + self.save + self.rework + self.restart + self.idle + self.straggler


def tell_run(job: Scenario, seed: int, replica: int) -> Story:
    """One whole run."""
    luck = Luck(job, seed, FINISH, replica)
    spares = Spares(job) if job.world.spares.nodes is not None else None
    story = Story(parts=dict.fromkeys(job.restart_parts, 0.0))
    needed = story.useful = job.run_steps * job.step_s
    on_the_wall = job.failure_clock == "wall"
    secured = lead = 0.0
    first = True
    taken = 0
    while True:
        left = luck.gap()
        steps, bad, hung_save, slow = (
            luck.restart(),
            luck.bad_saves(),
            luck.hung_save(),
            luck.slow(),
        )
        takes, repair = luck.lost_nodes()
        if not first:
            story.idle += job.idle_s
            if spares is not None:
                story.idle += spares.replace(taken, repair)
                spares.now += job.idle_s
            for name, seconds in steps:
                spent = min(seconds, left) if on_the_wall else seconds
                story.parts[name] += spent
                if spares is not None:
                    spares.now += spent
                if on_the_wall:
                    left -= spent
            if on_the_wall and left == 0.0:
                story.failures += 1
                taken = takes
                continue
        first = False
        done = walk(job, lead, left, needed - secured, hung_save, slow)
        story.save += done.trained - done.progress
        story.straggler += done.time - done.trained
        stall = 0.0
        if done.hung:
            stall = job.world.saves.hang_s
            stall = min(stall, left - done.time) if on_the_wall else stall
            story.save += stall
        if spares is not None:
            story.idle += spares.train(done.time + stall)
        if done.finished:
            return story
        story.failures += 1
        taken = 0 if done.hung else takes
        sound = done.restorable[: max(len(done.restorable) - bad, 0)]
        restored = sound[-1] if sound else 0.0
        story.rework += done.progress - restored
        secured += restored
        if sound:
            lead = FRACTION[job.target] * Job(job, lead).drain_length()

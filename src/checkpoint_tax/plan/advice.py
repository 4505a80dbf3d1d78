"""A plan for a job: how often to save, what that gives, how sure it is, and what would help."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures import Anchor, FailureLog, compare_anchors, read_failures, scale_mtbf
from checkpoint_tax.plan.interval import BestInterval, best_interval, exact_losses, save_cost_s
from checkpoint_tax.plan.levers import Lever, cycle_shares, levers, tied_to_drain
from checkpoint_tax.scenario import SaveCycle, Scenario, save_cycle
from checkpoint_tax.simulate import Estimate, goodput_difference, simulate, simulate_runs
from checkpoint_tax.theory import renewal, young
from checkpoint_tax.units import HOUR_S, PER_CENT, duration_text

__all__ = ["Finish", "Plan", "plan"]

Regime: TypeAlias = Literal["interior", "boundary", "restart-dominated", "save cannot keep up"]

_HALF_WIDTH = 5e-4
"""Precision of a simulated goodput: half of what counts as equally good."""

_N_RUNS = 1024
_MOST_FAILURES = 10_000
"""Failures up to which a run is played whole; by then the spread of a run follows a square root."""

_FEWEST_SAVES = 100
"""Durable saves in a played run below which a longer run cannot be told from it."""

_YOUNG_TOLERANCE = 0.1
"""Error of Young's interval from which on its first-order formula is called invalid."""

_SAME_MTBF = 0.02
"""Two values of an MTBF that differ by less are taken as the same number, rounded."""


@dataclass(frozen=True)
class Finish:
    """When a run of the scenario's length is done, at the recommended interval.

    Attributes
    ----------
    undisturbed_s : float
        Without failures and saves [s].
    mean_s : float
        In the long run, length over goodput [s].
    median_s, p90_s : Estimate
        Quantiles over runs, the MTBF taken as it is [s].
    mtbf_range_s : tuple of float
        The mean for the high and the low end of the MTBF [s].
    n_gpus : int
        GPUs that are paid for meanwhile.
    """

    undisturbed_s: float
    mean_s: float
    median_s: Estimate
    p90_s: Estimate
    mtbf_range_s: tuple[float, float]
    n_gpus: int

    def gpu_h(self, time_s: float) -> float:
        """Cost of a time.

        Parameters
        ----------
        time_s : float
            Wall time [s].

        Returns
        -------
        float
            GPU-hours.
        """
        return self.n_gpus * time_s / HOUR_S


@dataclass(frozen=True)
class Plan:
    """What to do with a job, and why.

    Attributes
    ----------
    scenario : Scenario
        The job as planned for, its MTBF from the log if there is one.
    best : BestInterval
        The best interval.
    range_steps : tuple of int
        The recommended interval as a range [steps]: all within `best.practical_points` of the best,
        less those shorter than the drain where saves would wait for it.
    goodput : Estimate
        At the recommended interval; its interval spans the MTBF's, with the interval held.
    losses : dict of str to float
        Shares of wall time there [1]; with goodput they sum to 1.
    regime : str
        ``"interior"``: failures and the cost of a save set the interval.
        ``"restart-dominated"``: so too, but restart and waiting lose more than saves and rework.
        ``"boundary"``: the best interval is the drain itself, whatever loses most.
        ``"save cannot keep up"``: the first save of a new start is durable only after the MTBF, so
        that most starts are lost.
    mtbf_s : float
        Of the job [s].
    mtbf_interval_s : tuple of float or None
        Exact Poisson 95 % interval from the log [s]; None without one: the MTBF is taken as known.
    mtbf_from : str
        Where the MTBF is from.
    best_at_mtbf_ends : tuple of int or None, or None
        Best interval at the low and at the high end of the MTBF [steps]; an end beyond reach is
        None.
    finish : Finish or None
        None where the job makes too little headway to tell.
    current_steps : int
        The interval in use now [steps].
    current_losses : dict of str to float
        Shares of wall time there, goodput included [1].
    gain : float
        Goodput of the recommended interval less that of the one in use [1].
    young_steps : int
        Young's interval, for the wall time that one save costs [steps].
    young_regret : float
        Goodput of the recommended interval less that of Young's [1].
    implied_mtbf_s : float or None
        The MTBF for which the interval in use is Young's [s]; None where saves cost nothing.
    levers : dict of str to Lever
        What one unit of each parameter is worth.
    warnings : tuple of str
        What to know before using the numbers.
    """

    scenario: Scenario
    best: BestInterval
    range_steps: tuple[int, int]
    goodput: Estimate
    losses: dict[str, float]
    regime: Regime
    mtbf_s: float
    mtbf_interval_s: tuple[float, float] | None
    mtbf_from: str
    best_at_mtbf_ends: tuple[int | None, int | None] | None
    finish: Finish | None
    current_steps: int
    current_losses: dict[str, float]
    gain: float
    young_steps: int
    young_regret: float
    implied_mtbf_s: float | None
    levers: dict[str, Lever]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Arrange the plan for JSON.

        Returns
        -------
        dict
            Only numbers, texts, lists, dicts and None; an infinite number is None. Goodput,
            losses and regret are shares of wall time; `levers` also holds the interval in use,
            with the points that leaving it gains.
        """
        ends = self.mtbf_interval_s
        found: dict[str, Any] = {lever.name: _plain(lever) for lever in self.levers.values()}
        found["checkpoint_interval_steps"] = {
            "value": self.current_steps,
            "unit": "steps",
            "best": self.best.steps,
            "points": self.gain / PER_CENT,
            "implied_mtbf_h": None if self.implied_mtbf_s is None else self.implied_mtbf_s / HOUR_S,
        }
        return {
            "interval_steps": self.best.steps,
            "interval_range_steps": list(self.range_steps),
            "goodput": self.goodput.value,
            "goodput_interval": [self.goodput.low, self.goodput.high],
            "losses": dict(self.losses),
            "regime": self.regime,
            "mtbf_h": self.mtbf_s / HOUR_S,
            "mtbf_interval_h": None if ends is None else [_finite(end / HOUR_S) for end in ends],
            "finish_h": None if self.finish is None else _finish_dict(self.finish),
            "young_regret": self.young_regret,
            "levers": found,
            "warnings": list(self.warnings),
        }


def plan(
    scenario: Scenario,
    *,
    log: FailureLog | str | Path | None = None,
    tz: str | None = None,
    log_gpus: int | None = None,
    mtbf_is_given: bool = True,
    practical_points: float = 0.05,
    seed: int = 0,
    threads: int | None = None,
) -> Plan:
    """Plan the checkpoints of a job.

    Parameters
    ----------
    scenario : Scenario
        The job; its interval counts as the one in use now.
    log : FailureLog or path, optional
        Failures seen: the MTBF and its interval are then the log's.
    tz : str, optional
        Zone of times in the log that name none.
    log_gpus : int, optional
        GPUs of the jobs in the log [1], at least 1; those of the scenario if left out. To another
        size the MTBF is carried by the rule of parts.
    mtbf_is_given : bool
        Whether the scenario's own MTBF is the user's, not a default.
    practical_points : float
        Goodput difference that does not matter [percentage points].
    seed : int
        As for `checkpoint_tax.simulate.simulate`.
    threads : int, optional
        As for `checkpoint_tax.simulate.simulate`.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        For a log that cannot be read or gives no time watched, or an option out of range.

    Notes
    -----
    Exponential up-times are answered by closed forms, others by simulation; the finish time is
    always played.
    """
    if log is None and (tz is not None or log_gpus is not None):
        name = "tz" if tz is not None else "log_gpus"
        raise InputError(f"{name} is of use only with a log of failures; give the log too.")
    if isinstance(log, FailureLog):
        if tz is not None:
            raise InputError(f"tz = {tz} comes too late for a log that has been read.")
    elif log is not None:
        log = read_failures(log, tz=tz)
    warnings: list[str] = []
    rate = _mtbf(scenario, log, log_gpus, mtbf_is_given, warnings)
    job = scenario if rate.job_mtbf_h is None else scenario.replace(job_mtbf_h=rate.job_mtbf_h)
    work = _Work(job, seed, threads)
    best = best_interval(
        job, practical_points=practical_points, half_width=_HALF_WIDTH, seed=seed, threads=threads
    )
    shares = work.shares(best.steps)
    goodput = shares.pop("goodput")
    goodput = work.with_mtbf_ends(best.steps, goodput, rate.ends_s)
    losses = {name: share.value for name, share in shares.items()}
    current = {n: s.value for n, s in work.shares(job.checkpoint_interval_steps).items()}
    cost_s = save_cost_s(job)
    young_s = float(young.interval_s(cost_s, job.job_mtbf_s))
    young_steps = min(max(1, round(young_s / job.step_s)), 10**12)
    at_best = dataclasses.replace(best, goodput=goodput)
    range_steps = _range(job, best)
    regime = _regime(job, best, losses)
    bests = _best_at_ends(job, rate.ends_s)
    finish = _finish(job, best.steps, goodput, seed, threads)
    _warn_of_formula(job, cost_s, young_s, warnings)
    _warn_of_saves(job, best, warnings)
    _warn_of_regime(job, best, regime, losses, finish, warnings)
    if bests is not None and not all(_within(k, range_steps) for k in bests):
        low, high = (f"{k} steps" if k is not None else "no bound" for k in bests)
        warnings.append(
            f"the log has too few failures to settle the interval: best are {low} at the low end"
            f" of the MTBF and {high} at its high end, {best.steps} at its value."
        )
    if not job.is_exponential:
        warnings.append(
            f"{_what_is_simulated(job)}: shares are simulated, and the levers are those of"
            " exponential failures with the same means."
        )
    return Plan(
        scenario=job,
        best=at_best,
        range_steps=range_steps,
        goodput=goodput,
        losses=losses,
        regime=regime,
        mtbf_s=job.job_mtbf_s,
        mtbf_interval_s=rate.ends_s,
        mtbf_from=rate.origin,
        best_at_mtbf_ends=bests,
        finish=finish,
        current_steps=job.checkpoint_interval_steps,
        current_losses=current,
        gain=work.gain(best.steps, job.checkpoint_interval_steps),
        young_steps=young_steps,
        young_regret=work.gain(best.steps, young_steps),
        implied_mtbf_s=_implied_mtbf_s(job, cost_s),
        levers=levers(_exponential(job), best.steps),
        warnings=tuple(warnings),
    )


@dataclass(frozen=True)
class _Rate:
    """The MTBF to plan with: None where the scenario's own stays."""

    job_mtbf_h: float | None
    ends_s: tuple[float, float] | None
    origin: str


def _mtbf(
    scenario: Scenario,
    log: FailureLog | None,
    log_gpus: int | None,
    mtbf_is_given: bool,
    warnings: list[str],
) -> _Rate:
    own = "the scenario" if mtbf_is_given else "the first post's default, not your job"
    if log is None:
        warnings.append(
            f"the MTBF of {duration_text(scenario.job_mtbf_s)} is from {own} and is taken as known:"
            " the interval of goodput leaves its uncertainty out; give a log of failures (--log)."
        )
        return _Rate(None, None, own)
    if log_gpus is not None and (isinstance(log_gpus, bool) or log_gpus < 1):
        raise InputError(f"log_gpus = {log_gpus} [1] is refused; allowed: at least 1.")
    if log.mtbf_interval_s is None or log.exposure_s is None:
        raise InputError(
            f"the log (kind {log.kind}) gives no time watched, so no MTBF; read it by the command"
            " failures, which takes --since and --until, and set job_mtbf_h."
        )
    n_gpus = log_gpus or scenario.n_gpus
    factor = n_gpus / scenario.n_gpus
    ends_s = (log.mtbf_interval_s[0] * factor, log.mtbf_interval_s[1] * factor)
    own_anchor = Anchor(own, scenario.job_mtbf_s, scenario.n_gpus, "gpu_mtbf_h or job_mtbf_h")
    if log.mtbf_s is None:
        warnings.append(
            f"the log has no failure in {duration_text(log.exposure_s)}: the MTBF is from {own},"
            f" its interval, above {duration_text(ends_s[0])}, from the log."
        )
        if scenario.job_mtbf_s < ends_s[0]:
            warnings.append("the scenario's MTBF lies below all that the log allows.")
        rate = _Rate(None, ends_s, own)
    else:
        anchor = Anchor(
            "the log", log.mtbf_s, n_gpus, f"{log.n_failures} failures, kind {log.kind}", "",
            *log.mtbf_interval_s,
        )  # fmt: skip
        scaled = scale_mtbf(anchor, scenario.n_gpus)
        comparison = compare_anchors([own_anchor, anchor], scenario.n_gpus)
        if mtbf_is_given and not comparison.agree:
            sentence = comparison.sentence.partition(" No average")[0]
            warnings.append(f"{sentence} The plan uses the log.")
        rate = _Rate(scaled.mtbf_s / HOUR_S, ends_s, str(scaled))
    if log.exposure_by.startswith("wall time"):
        warnings.append(
            f"the log's exposure is {log.exposure_by}: the mean up-time is shorter than its MTBF by"
            " what follows a failure on average."
        )
    if log_gpus is None and log.nodes is not None:
        warnings.append(
            f"the log's jobs of {log.nodes[1]:.4g} nodes are taken to have the scenario's"
            f" {scenario.n_gpus} GPUs; give their number (--log-gpus) if it is another."
        )
    _warn_of_planned(scenario, log, factor, warnings)
    if log.likelihood_ratio is not None and log.likelihood_ratio[1] < 0.05:
        warnings.append(f"up-times are planned for as exponential, but the log says: {log.verdict}")
    restart = log.restart
    if restart.p10_s is not None and restart.p90_s is not None:
        planned_s = scenario.restart_s + scenario.idle_s
        if not restart.p10_s <= planned_s <= restart.p90_s:
            warnings.append(
                f"a restart takes {duration_text(planned_s)} in the scenario, but"
                f" {duration_text(restart.p10_s)} to {duration_text(restart.p90_s)} (10 % to 90 %,"
                " waiting for nodes or repair included) in the log."
            )
    warnings.extend(f"log: {sentence}" for sentence in log.warnings)
    return rate


def _warn_of_planned(
    scenario: Scenario, log: FailureLog, factor: float, warnings: list[str]
) -> None:
    n_planned = log.classes.get("planned", 0)
    if not n_planned or log.exposure_s is None:
        return
    n_failures = 0 if log.mtbf_s is None else round(log.exposure_s / log.mtbf_s)
    mixed_s = factor * log.exposure_s / (n_failures + n_planned)
    warnings.append(
        f"planned interruptions are left out of the MTBF ({n_planned} in the log), since a save"
        f" just before one loses no work; counted as failures they make it"
        f" {duration_text(mixed_s)}. Their restarts are not in the losses."
    )
    is_mixed = math.isclose(scenario.job_mtbf_s, mixed_s, rel_tol=_SAME_MTBF)
    apart = log.mtbf_s is None or not math.isclose(
        scenario.job_mtbf_s, log.mtbf_s * factor, rel_tol=_SAME_MTBF
    )
    if is_mixed and apart:
        warnings.append(
            f"the scenario's MTBF of {duration_text(scenario.job_mtbf_s)} is what comes out if all"
            " planned interruptions are counted as failures."
        )


class _Work:
    """Shares of one job at several intervals: exact where a closed form holds."""

    def __init__(self, job: Scenario, seed: int, threads: int | None) -> None:
        self._job = job
        self._exact = job.is_exponential
        self._seed, self._threads = seed, threads

    def shares(self, steps: int) -> dict[str, Estimate]:
        if self._exact:
            shares = exact_losses(self._job, steps)
            return {name: Estimate(share, share, share) for name, share in shares.items()}
        return self._simulated(self._job, steps)

    def _simulated(self, job: Scenario, steps: int) -> dict[str, Estimate]:
        found = simulate(
            job.replace(checkpoint_interval_steps=steps), half_width=_HALF_WIDTH, seed=self._seed,
            threads=self._threads,
        )  # fmt: skip
        return {"goodput": found.goodput, **found.losses}

    def gain(self, steps: int, other_steps: int) -> float:
        if steps == other_steps:
            return 0.0
        if self._exact:
            one, other = (exact_losses(self._job, k)["goodput"] for k in (steps, other_steps))
            return one - other
        return goodput_difference(
            self._job.replace(checkpoint_interval_steps=steps),
            self._job.replace(checkpoint_interval_steps=other_steps),
            half_width=_HALF_WIDTH, seed=self._seed,
        ).value  # fmt: skip

    def with_mtbf_ends(
        self, steps: int, goodput: Estimate, ends_s: tuple[float, float] | None
    ) -> Estimate:
        """Widen a goodput to the ends of the MTBF, with which it rises."""
        if ends_s is None:
            return goodput
        cycle = save_cycle(self._job, steps)
        ends = []
        for end_s in ends_s:
            if self._exact or math.isinf(end_s):
                value = cycle_shares(self._job, cycle, end_s)["goodput"]
                ends.append(Estimate(value, value, value))
            else:
                changed = self._job.replace(job_mtbf_h=end_s / HOUR_S)
                ends.append(self._simulated(changed, steps)["goodput"])
        return Estimate(goodput.value, ends[0].low, ends[1].high)


def _exponential(job: Scenario) -> Scenario:
    """The same means without anything beyond them, for which closed forms hold."""
    if job.is_exponential:
        return job
    # A world's lists of samples may have set means; they stay when the world goes.
    parts = {f"{part}_s": time_s for part, time_s in job.restart_parts.items()}
    mtbf_h = job.job_mtbf_s / HOUR_S
    return job.replace(**parts, job_mtbf_h=mtbf_h, failure_shape=1.0, world={})


def _what_is_simulated(job: Scenario) -> str:
    if job.failure_shape != 1.0:
        return f"failure_shape = {job.failure_shape:g}"
    return f"world = {job.world.plain()}"


def _regime(job: Scenario, best: BestInterval, losses: dict[str, float]) -> Regime:
    if save_cycle(job, best.steps).first_durable_s >= job.job_mtbf_s:
        return "save cannot keep up"
    if tied_to_drain(job, best.steps):
        return "boundary"
    if losses["restart"] + losses["idle"] > losses["save"] + losses["rework"]:
        return "restart-dominated"
    return "interior"


def _range(job: Scenario, best: BestInterval) -> tuple[int, int]:
    """Range as good as the best, less intervals that only make saves wait for each other."""
    low, high = best.practical_steps
    if job.save_kind == "asynchronous" and job.drain_mode in ("wait", "overlap"):
        low = max(low, min(best.steps, math.ceil(job.drain_steps * (1.0 - 1e-12))))
    return low, high


def _best_at_ends(
    job: Scenario, ends_s: tuple[float, float] | None
) -> tuple[int | None, int | None] | None:
    if ends_s is None or not job.is_exponential:
        return None

    def best(end_s: float) -> int | None:
        if not job.step_s <= end_s < math.inf:
            return None
        return best_interval(job.replace(job_mtbf_h=end_s / HOUR_S)).steps

    return best(ends_s[0]), best(ends_s[1])


def _within(steps: int | None, ends: tuple[int, int]) -> bool:
    return steps is not None and ends[0] <= steps <= ends[1]


def _implied_mtbf_s(job: Scenario, cost_s: float) -> float | None:
    if cost_s == 0.0:
        return None
    return float(young.implied_job_mtbf_s(job.checkpoint_interval_steps * job.step_s, cost_s))


def _finish(
    job: Scenario, steps: int, goodput: Estimate, seed: int, threads: int | None
) -> Finish | None:
    """Play runs; one with very many failures is played in part and carried on by its spread."""
    length_s = job.run_steps * job.step_s
    if goodput.value <= 0.0:
        return None
    gap_s = job.job_mtbf_s
    if job.failure_clock == "uptime":
        gap_s += job.restart_s + job.idle_s
    n_failures = length_s / goodput.value / gap_s
    part = min(1.0, _MOST_FAILURES / n_failures)
    played_steps = math.ceil(job.run_steps * part)
    if part < 1.0 and played_steps < _FEWEST_SAVES * steps:
        return None
    runs = simulate_runs(
        job.replace(checkpoint_interval_steps=steps, run_steps=played_steps),
        n_runs=_N_RUNS, seed=seed, threads=threads,
    )  # fmt: skip
    mean_s = length_s / goodput.value
    played_s = played_steps * job.step_s / goodput.value
    stretch = math.sqrt(job.run_steps / played_steps)

    def whole(time_s: float) -> float:
        return time_s if part == 1.0 else mean_s + (time_s - played_s) * stretch

    quantiles = []
    for probability in (0.5, 0.9):
        q = runs.quantile(probability)
        quantiles.append(Estimate(whole(q.value), whole(q.low), whole(q.high)))
    return Finish(
        undisturbed_s=length_s,
        mean_s=mean_s,
        median_s=quantiles[0],
        p90_s=quantiles[1],
        mtbf_range_s=(
            length_s / goodput.high,
            length_s / goodput.low if goodput.low > 0.0 else math.inf,
        ),
        n_gpus=job.n_gpus,
    )


def _warn_of_formula(job: Scenario, cost_s: float, young_s: float, warnings: list[str]) -> None:
    if cost_s == 0.0:
        return
    error = young_s / float(renewal.best_work_s(cost_s, job.job_mtbf_s)) - 1.0
    if abs(error) > _YOUNG_TOLERANCE:
        warnings.append(
            f"first-order formulas are invalid here: a save costs C = {duration_text(cost_s)},"
            f" C/M = {cost_s / job.job_mtbf_s:.3g}, and Young's interval is"
            f" {100 * abs(error):.3g} % too long."
        )


def _warn_of_saves(job: Scenario, best: BestInterval, warnings: list[str]) -> None:
    if job.save_kind == "blocking":
        return
    if job.drain_s * job.drain_tax == 0.0:
        warnings.append(
            "the drain is taken to cost nothing (drain_s times drain_tax is 0): the tax of"
            " asynchronous saves is left out, and goodput with it."
        )
    steps, due_s = job.checkpoint_interval_steps, job.checkpoint_interval_steps * job.step_s
    if steps >= job.drain_steps * (1.0 - 1e-12):
        return
    does = {
        "wait": "each save waits for the drain before it, so the interval is that of the drain",
        "skip": "saves that fall due during a drain are dropped",
        "overlap": "drains overlap and share their bandwidth",
        "compressed": "the drain is taken to speed up at no charge, which no storage does",
    }[job.drain_mode]
    sentence = (
        f"the interval in use, {steps} steps ({duration_text(due_s)}), is below the drain,"
        f" {job.drain_steps:.4g} steps ({duration_text(job.drain_s)}): {does}."
    )
    if job.drain_mode == "wait" and job.is_exponential:
        blocked = cycle_shares(job, _stopped_cycle(job), job.job_mtbf_s)
        sentence += (
            " If training stops until that drain has ended, the wait is charged as save time:"
            f" goodput {100 * blocked['goodput']:.2f} % instead of"
            f" {100 * exact_losses(job, steps)['goodput']:.2f} %."
        )
    warnings.append(sentence)


def _stopped_cycle(job: Scenario) -> SaveCycle:
    """Cycle of a job whose interval is below its drain and whose training stops for the rest of it.

    A period is one drain and the stop for staging, and k steps are made in it. The wait is written
    before the progress, which moves no durable time.
    """
    due_s = job.checkpoint_interval_steps * job.step_s
    return SaveCycle(
        work_s=due_s,
        stop_s=job.staging_s + (job.drain_s - due_s) * (1.0 + job.drain_tax),
        latency_work_s=due_s,
        taxed_work_s=due_s,
        tax=job.drain_tax,
        advance_s=job.target_fraction * due_s,
    )


def _warn_of_regime(
    job: Scenario,
    best: BestInterval,
    regime: Regime,
    losses: dict[str, float],
    finish: Finish | None,
    warnings: list[str],
) -> None:
    if regime == "save cannot keep up":
        durable_s = save_cycle(job, best.steps).first_durable_s
        warnings.append(
            f"a save is durable {duration_text(durable_s)} after a start, but the job fails every"
            f" {duration_text(job.job_mtbf_s)}: most starts are lost whole; no interval helps, only"
            " a faster save or fewer failures."
        )
    if tied_to_drain(job, best.steps):
        warnings.append("the best interval is the drain itself: bandwidth, not failures, sets it.")
    if losses["restart"] + losses["idle"] > losses["save"] + losses["rework"]:
        warnings.append("restart and waiting lose more than saves and rework: shorten them first.")
    if finish is None:
        warnings.append("the job makes too little headway: no time to finish can be given.")


def _plain(lever: Lever) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(lever).items() if name != "name"}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _finish_dict(finish: Finish) -> dict[str, Any]:
    median_s, p90_s = finish.median_s, finish.p90_s
    return {
        "median": median_s.value / HOUR_S,
        "p90": p90_s.value / HOUR_S,
        "median_interval": [median_s.low / HOUR_S, median_s.high / HOUR_S],
        "p90_interval": [p90_s.low / HOUR_S, p90_s.high / HOUR_S],
        "undisturbed": finish.undisturbed_s / HOUR_S,
        "mean": finish.mean_s / HOUR_S,
        "mean_at_mtbf_ends": [_finite(end / HOUR_S) for end in finish.mtbf_range_s],
        "gpu_h": {
            "median": finish.gpu_h(median_s.value),
            "p90": finish.gpu_h(p90_s.value),
            "lost_at_median": finish.gpu_h(median_s.value - finish.undisturbed_s),
        },
    }

"""What the chapter on intervals recomputes for each claim of the posts.

Everything is computed for the posts' own parameters. Where a post says "about" or "worth more"
without a number, the tolerance that decides is a constant here and is named in the reason.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from checkpoint_tax.ledger import Computed, load_facts
from checkpoint_tax.plan import best_interval, exact_goodput
from checkpoint_tax.report.prose import percent, points
from checkpoint_tax.resources import presets
from checkpoint_tax.scenario import Scenario, load_scenario, save_cycle
from checkpoint_tax.theory import availability, nonblocking, renewal, waste, young
from checkpoint_tax.units import HOUR_S, MINUTE_S

__all__ = ["claims", "example_jobs"]

MATTERS = 5e-4
"""Smallest difference of goodput that counts [share of wall time]: 0.05 points."""

ABOUT = 0.1
"""How far a formula that is called rough may be off, as a share of the exact waste [1]."""

SEVERAL = (2.0, 9.0)
"""What "several" means, as the list of claims reads it."""

MONTH_DAYS = 30.0
N_NODES = 64
GUIDE_RANGE_MIN = (10.0, 20.0)

_CASES = {
    "before": (60.0, 900.0),
    "faster saves": (5.0, 900.0),
    "faster saves and restarts": (5.0, 300.0),
}
"""Blocking time and restart [s] of the second post's worked example."""

_TAX_SIZES = (512, 2048, 8192, 16384, 65536)


def example_jobs() -> dict[str, Scenario]:
    """The three cases of the second post's worked example.

    Returns
    -------
    dict of str to Scenario
        By name; one step is one second there.
    """
    base = load_scenario("post-64-nodes")
    return {
        case: base.replace(blocking_s=stop_s, restart_unsplit_s=restart_s)
        for case, (stop_s, restart_s) in _CASES.items()
    }


def claims() -> dict[str, Computed]:
    """What was recomputed for each claim of the chapter.

    Returns
    -------
    dict of str to Computed
        By claim id, in the claims' units.
    """
    return {**_formula_claims(), **_rate_claims(), **_example_claims(), **_advice_claims()}


def _goodput(work_s: float, job: Scenario) -> float:
    return float(
        renewal.goodput(
            work_s,
            job.blocking_s,
            job.job_mtbf_s,
            job.restart_s,
            failure_clock=job.failure_clock,
            downtime_s=job.idle_s,
        )
    )


def _best_goodput(job: Scenario) -> float:
    return _goodput(float(renewal.best_work_s(job.blocking_s, job.job_mtbf_s)), job)


def _young_s(job: Scenario) -> float:
    return float(young.interval_s(job.blocking_s, job.job_mtbf_s))


def _blocking_post(n_gpus: int) -> Scenario:
    return load_scenario("post-16k").replace(n_gpus=n_gpus, save_kind="blocking")


# The formula itself


def _formula_claims() -> dict[str, Computed]:
    return {
        "tax.text.lost_share": _lost_share(),
        "tax.concl.sqrt_minimises": _square_root_minimises(),
        "tax.concl.restart_drops_out": _restart_drops_out(),
        "guide.concl.three_parts": _three_parts(),
        "guide.concl.interval_minimises": _interval_minimises(),
        "guide.concl.waste_formula": _waste_formula(),
    }


def _mean_lost_share(work_s: float, stop_s: float, mtbf_s: float) -> float:
    """Mean progress lost at a failure over the work between two saves."""
    rework = nonblocking.cycle_losses(work_s, stop_s, 0.0, 0.0, 0.0, 0.0, mtbf_s, 0.0)["rework"]
    return float(rework) * mtbf_s / work_s


def _lost_share() -> Computed:
    shares = {}
    for n_gpus in _TAX_SIZES:
        job = _blocking_post(n_gpus)
        shares[n_gpus] = _mean_lost_share(_young_s(job), job.blocking_s, job.job_mtbf_s)
    limit = _mean_lost_share(1e-6, 0.0, 1.0)
    low, high = min(shares.values()), max(shares.values())
    return Computed(
        value=shares[16384],
        holds_under_post=math.isclose(limit, 0.5, abs_tol=1e-6),
        condition="the interval is short against the time between failures and a save takes no "
        "time of its own",
        note=f"at the post's five sizes, at the formula's interval, the exact mean is {low:.3f} to "
        f"{high:.3f} of an interval, since failures during a save lose all of it",
    )


def _square_root_minimises() -> Computed:
    cost, mtbf = np.meshgrid(np.geomspace(1e-3, 1e4, 29), np.geomspace(1e2, 1e8, 25))
    tau = young.interval_s(cost, mtbf)
    factors = 1.0 + np.concatenate([-np.geomspace(1e-4, 0.9, 40), np.geomspace(1e-4, 9.0, 40)])
    others = waste.first_order(tau * factors[:, None, None], cost, mtbf, 0.0)
    holds = bool(np.all(others > waste.first_order(tau, cost, mtbf, 0.0)))
    return Computed(
        holds_under_post=holds,
        holds_in_general=holds,
        note=f"no other interval gave a smaller sum in {cost.size} combinations of C and M",
    )


def _restart_drops_out() -> Computed:
    job = _blocking_post(16384)
    steps = {
        best_interval(job.replace(relaunch_s=relaunch_s, failure_clock=clock)).steps
        for relaunch_s in (0.0, 300.0, 3600.0)
        for clock in ("uptime", "wall")
    }
    holds = len(steps) == 1
    moved = availability.saxena_interval_s(job.blocking_s, job.job_mtbf_s, job.restart_s)
    still = availability.saxena_interval_s(job.blocking_s, job.job_mtbf_s, 0.0)
    return Computed(
        holds_under_post=holds,
        holds_in_general=holds,
        note="the exact optimum does not contain it either, whether or not restarts can fail; an "
        f"availability objective would, and its interval is {percent(float(moved / still) - 1, 1)} "
        "longer for it",
    )


def _three_parts() -> Computed:
    def missing(job: Scenario) -> float:
        cycle = save_cycle(job)
        parts = nonblocking.cycle_losses(
            cycle.work_s,
            cycle.stop_s,
            cycle.latency_work_s,
            cycle.taxed_work_s,
            cycle.tax,
            cycle.advance_s,
            job.job_mtbf_s,
            job.restart_s,
            downtime_s=job.idle_s,
        )
        return float(1.0 - sum(parts[name] for name in ("goodput", "save", "rework", "restart")))

    example = max(abs(missing(job)) for job in example_jobs().values())
    published = {name: missing(load_scenario(name)) for name in presets()}
    most = max(published, key=lambda name: published[name])
    return Computed(
        holds_under_post=example < 1e-12,
        holds_in_general=published[most] < 1e-12,
        condition="waiting for a spare or a repair counts as restart and no machine slows the "
        "others down",
        note=f"in preset {most} up to {percent(published[most], 0)} of the time is such a wait",
    )


def _interval_minimises() -> Computed:
    def regret(ratio: float) -> float:
        best = renewal.goodput(renewal.best_work_s(ratio, 1.0), ratio, 1.0, 0.0)
        return float(best - renewal.goodput(young.interval_s(ratio, 1.0), ratio, 1.0, 0.0))

    longest = float(brentq(lambda ratio: regret(ratio) - MATTERS, 1e-6, 1.0))
    jobs = example_jobs().values()
    under_post = max(_best_goodput(job) - _goodput(_young_s(job), job) for job in jobs)
    return Computed(
        holds_under_post=under_post <= MATTERS,
        holds_in_general=regret(1.0) <= MATTERS,
        condition=f"a save is short against the time between failures: up to C/M = {longest:.3f} "
        f"the formula loses at most {points(MATTERS)} against the exact optimum",
        note=f"it loses {points(under_post)} in the example",
    )


def _waste_formula() -> Computed:
    def excess(job: Scenario) -> tuple[float, float]:
        exact = 1.0 - _best_goodput(job)
        formula = float(waste.best_first_order(job.blocking_s, job.job_mtbf_s, job.restart_s))
        return formula - exact, (formula - exact) / exact

    example = {case: excess(job) for case, job in example_jobs().items()}
    large = {n_gpus: excess(_blocking_post(n_gpus)) for n_gpus in _TAX_SIZES}
    worst = max(large, key=lambda n_gpus: large[n_gpus][1])
    return Computed(
        holds_under_post=max(abs(share) for _, share in example.values()) <= ABOUT,
        holds_in_general=abs(large[worst][1]) <= ABOUT,
        condition="save, interval and restart are short against the time between failures",
        note=f"in the example it is {points(min(d for d, _ in example.values()))} to "
        f"{points(max(d for d, _ in example.values()))} above the exact waste, for the first "
        f"post's blocking saves at {worst:,} GPUs {points(large[worst][0])}",
    )


# Failure rates


def _rate_claims() -> dict[str, Computed]:
    facts = {key: fact.value for key, fact in load_facts().items()}
    job = example_jobs()["before"]
    node = job.replace(n_gpus=job.n_gpus // N_NODES)
    ratio = node.job_mtbf_s / job.job_mtbf_s
    scaled, measured = facts["rsc1_mtbf_1024_h"], facts["rsc_measured_mtbf_1024_h"]
    return {
        "guide.concl.failures_linear": Computed(
            holds_under_post=math.isclose(ratio, N_NODES),
            holds_in_general=abs(measured / scaled - 1.0) <= ABOUT,
            condition="nodes fail independently of each other and at one rate",
            note="in Meta's research clusters the rate per node of cluster RSC-1 gives "
            f"{scaled:g} h at 1,024 GPUs, where {measured:g} h were measured",
        ),
        "guide.text.failure_ratio": Computed(
            value=ratio, note="nodes that fail independently at one rate"
        ),
        "guide.text.ratio_nodes": Computed(
            value=ratio, note="the ratio of failure rates in the same sentence"
        ),
    }


# The worked example


def _example_claims() -> dict[str, Computed]:
    jobs = example_jobs()
    before, after = jobs["before"], jobs["faster saves and restarts"]
    least = {
        case: float(waste.best_first_order(job.blocking_s, job.job_mtbf_s, job.restart_s))
        for case, job in jobs.items()
    }
    exact = {case: 1.0 - _best_goodput(job) for case, job in jobs.items()}

    def waste_of(case: str) -> Computed:
        job = jobs[case]
        return Computed(
            value=100.0 * least[case],
            note=f"with C = {job.blocking_s:g} s and R = {job.restart_s:g} s at the formula's "
            f"interval of {_young_s(job):,.0f} s; the exact waste is {percent(exact[case])}",
        )

    return {
        "guide.text.job_nodes": Computed(
            value=before.gpu_mtbf_h / (before.n_gpus / N_NODES) / (before.job_mtbf_s / HOUR_S),
            note="the sentence on scaling speaks of the same job",
        ),
        "guide.text.mtbf_h": Computed(value=43200.0 / HOUR_S),
        "guide.text.mtbf_s": Computed(value=12.0 * HOUR_S),
        "guide.text.restart_min": Computed(value=900.0 / MINUTE_S),
        "guide.text.restart_s": Computed(value=15.0 * MINUTE_S),
        "guide.text.waste_before": waste_of("before"),
        "guide.text.waste_after": waste_of("faster saves and restarts"),
        "guide.concl.blocking_over_tuning": _blocking_over_tuning(before, jobs["faster saves"]),
        "guide.concl.restart_dominates": _restart_dominates(jobs["faster saves"], after),
        "guide.concl.node_days": _node_days(
            least["before"] - least["faster saves and restarts"],
            exact["before"] - exact["faster saves and restarts"],
        ),
    }


def _blocking_over_tuning(before: Scenario, after: Scenario) -> Computed:
    best_s = float(renewal.best_work_s(before.blocking_s, before.job_mtbf_s))
    top = _best_goodput(before)
    gain = _best_goodput(after) - top

    def surplus(factor: float) -> float:
        return top - _goodput(factor * best_s, before) - gain

    tuning = top - _goodput(_young_s(before), before)
    longer = float(brentq(surplus, 1.0, 20.0))
    shorter = 1.0 / float(brentq(surplus, 1.0 / 20.0, 1.0))
    return Computed(
        holds_under_post=gain > tuning,
        holds_in_general=surplus(10.0) <= 0.0,
        condition=f"the interval in use is less than {longer:.1f} times too long or "
        f"{shorter:.1f} times too short",
        note=f"saves of {after.blocking_s:g} s instead of {before.blocking_s:g} s gain "
        f"{points(gain)}, the exact interval instead of the formula's {points(tuning)}",
    )


def _restart_dominates(cheap: Scenario, cheaper: Scenario) -> Computed:
    def losses(job: Scenario) -> dict[str, float]:
        best_s = renewal.best_work_s(job.blocking_s, job.job_mtbf_s)
        parts = nonblocking.cycle_losses(
            best_s, job.blocking_s, 0.0, 0.0, 0.0, 0.0, job.job_mtbf_s, job.restart_s
        )
        return {name: float(parts[name]) for name in ("save", "rework", "restart")}

    def surplus(restart_s: float) -> float:
        parts = losses(cheap.replace(restart_unsplit_s=restart_s))
        return parts["restart"] - max(parts["save"], parts["rework"])

    threshold_s = float(brentq(surplus, 1.0, cheap.restart_s))
    return Computed(
        holds_under_post=surplus(cheap.restart_s) > 0.0,
        holds_in_general=surplus(cheaper.restart_s) > 0.0,
        condition=f"a restart takes more than {threshold_s:.0f} s, for saves of "
        f"{cheap.blocking_s:g} s and a failure every {cheap.job_mtbf_s / HOUR_S:g} h",
        note=f"in the example's last case, {cheaper.restart_s:g} s, restarts take "
        f"{percent(losses(cheaper)['restart'])} and rework {percent(losses(cheaper)['rework'])}",
    )


def _node_days(formula: float, exact: float) -> Computed:
    month = N_NODES * MONTH_DAYS
    low, high = SEVERAL
    smallest, largest = (days / (formula * MONTH_DAYS) for days in SEVERAL)
    return Computed(
        holds_under_post=low <= formula * month <= high,
        holds_in_general=low <= exact * month <= high,
        condition=f"the job had {math.ceil(smallest)} to {math.floor(largest)} nodes",
        note=f"{N_NODES} nodes times {MONTH_DAYS:g} days times the difference are "
        f"{formula * month:.0f} node-days by the formula and {exact * month:.0f} exactly",
    )


# Advice


def _advice_claims() -> dict[str, Computed]:
    return {
        "guide.concl.recompute_on_resize": _recompute_on_resize(),
        "guide.concl.faq_blocking_time": _faq_blocking_time(),
        "guide.text.interval_min": _usual_interval(),
    }


def _recompute_on_resize() -> Computed:
    jobs = example_jobs()

    def kept(growth: float, job: Scenario) -> float:
        mtbf_s = job.job_mtbf_s / growth
        arguments = (job.blocking_s, mtbf_s, job.restart_s)
        best = renewal.goodput(renewal.best_work_s(job.blocking_s, mtbf_s), *arguments)
        return float(best - renewal.goodput(_young_s(job), *arguments))

    growth = {
        job.blocking_s: float(brentq(lambda g, job=job: kept(g, job) - MATTERS, 1.05, 10.0))
        for job in jobs.values()
    }
    slack = " and ".join(
        f"{percent(g - 1.0, 0)} with saves of {stop_s:g} s" for stop_s, g in growth.items()
    )
    return Computed(
        holds_under_post=all(kept(2.0, job) > MATTERS for job in jobs.values()),
        holds_in_general=min(growth.values()) <= 1.05,
        condition=f"the job grows by more than {slack}; below that the old interval loses less "
        f"than {points(MATTERS)}",
        note="doubling the example's size and keeping its interval loses "
        f"{points(min(kept(2.0, job) for job in jobs.values()))} to "
        f"{points(max(kept(2.0, job) for job in jobs.values()))}",
    )


def _faq_blocking_time() -> Computed:
    post = load_scenario("post-16k")
    guide = example_jobs()["faster saves"]
    untaxed = guide.replace(
        save_kind="asynchronous", staging_s=guide.blocking_s, drain_tax=0.0, drain_s=60.0
    )
    formula_s = float(young.interval_s(untaxed.staging_s, untaxed.job_mtbf_s))
    best = best_interval(untaxed).goodput.value
    under_post = best - exact_goodput(untaxed, formula_s / untaxed.step_s)
    # With no blocking time at all the formula says "always", and saves follow each other.
    regret = best_interval(post).goodput.value - exact_goodput(post, 1.0)
    return Computed(
        holds_under_post=under_post <= MATTERS,
        holds_in_general=regret <= MATTERS,
        condition="the write in the background slows no step down",
        note=f"with the first post's tax of {percent(post.drain_tax, 0)} a save costs "
        f"{post.staging_s + post.drain_tax * post.drain_s:.1f} s though it blocks for none, and "
        f"saving as the formula then says loses {points(regret)}",
    )


def _usual_interval() -> Computed:
    job = example_jobs()["faster saves"]
    blocking_s = [(MINUTE_S * minutes) ** 2 / (2.0 * job.job_mtbf_s) for minutes in GUIDE_RANGE_MIN]
    other = load_scenario("llama3-405b").replace(save_kind="blocking", blocking_s=job.blocking_s)
    return Computed(
        value=float(renewal.best_work_s(job.blocking_s, job.job_mtbf_s)) / MINUTE_S,
        condition=f"a save blocks for {blocking_s[0]:.1f} to {blocking_s[1]:.1f} s at one failure "
        f"every {job.job_mtbf_s / HOUR_S:g} h",
        note=f"the example's {job.blocking_s:g} s; with the failures of the Llama 3 405B run they "
        f"give {_young_s(other) / MINUTE_S:.1f} min",
    )

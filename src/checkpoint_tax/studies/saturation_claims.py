"""What the chapter on the saturating cost recomputes for each claim of both posts.

Everything is computed for the first post's own parameters. "Under the post" means its own drain
mode, in which a drain that is given k steps takes k steps at the same tax; "in general" means saves
that wait for the drain before them, since a drain has a bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from scipy.optimize import brentq

from checkpoint_tax.ledger import Computed
from checkpoint_tax.plan import BestInterval, best_interval, exact_goodput
from checkpoint_tax.report.prose import percent, points
from checkpoint_tax.scenario import Scenario
from checkpoint_tax.studies.daly_claims import SPEEDS_UP, fed_steps
from checkpoint_tax.studies.post_accounting import counted_shares
from checkpoint_tax.studies.post_runs import (
    drawn_mtbf_s,
    one_run,
    one_run_given_restart,
    post_scenario,
)
from checkpoint_tax.studies.post_tables import printed_rows, table_1_jobs, table_2_jobs
from checkpoint_tax.studies.shares import exact_shares
from checkpoint_tax.theory import boundary, nonblocking
from checkpoint_tax.units import HOUR_S, PER_CENT

__all__ = [
    "claims",
    "drawn_up_time_s",
    "interval_losses",
    "largest_mtbf_s",
    "restart_outgrows_n",
]

MATTERS = 5e-4
"""Smallest difference of goodput that counts [share of wall time]: 0.05 points."""

NEGLIGIBLE = 0.01
"""What may be called negligible [share of wall time]."""

ROUNDING = 0.005
"""Half a unit of the last printed digit of a share [%]."""

PROPORTIONAL = 0.02
"""How far a ratio may be from proportional and still be called so [1]."""

CLAIMED_N = 8192
"""The row of table 1 at which the post says that restarts take over [GPUs]."""

_LARGEST_N = 2**26


def drawn_up_time_s() -> float:
    """Up-time per failure that the post's runs at 16,384 GPUs drew.

    Returns
    -------
    float
        From the restart share of table 1 [s].
    """
    job = post_scenario()
    share = printed_rows(1)[job.n_gpus]["async_restart_percent"] * PER_CENT
    return drawn_mtbf_s(share, job.restart_s)


def largest_mtbf_s(job: Scenario) -> float:
    """Job MTBF up to which the drain itself is the best interval, if saves wait.

    Parameters
    ----------
    job : Scenario
        With a drain longer than 0; taken to be asynchronous.

    Returns
    -------
    float
        M [s]; infinite where saves cost nothing.
    """
    if job.staging_s == 0.0:
        return float(boundary.largest_mtbf_s(job.drain_s, job.drain_tax))
    drain_s = job.drain_s

    def beyond(log_mtbf: float) -> float:
        free_s = nonblocking.best_work_s(
            0.0, 0.0, math.exp(log_mtbf), stop_s=job.staging_s + job.drain_tax * drain_s
        )
        return float(free_s) - drain_s

    # The free optimum lies below M, so that M = L is still inside; Young bounds it from above.
    cost_s = job.staging_s + job.drain_tax * drain_s
    low, high = math.log(drain_s), math.log(drain_s + 4.0 * (drain_s + cost_s) ** 2 / cost_s)
    return math.exp(brentq(beyond, low, high, xtol=1e-13))


def interval_losses(job: Scenario) -> dict[str, float]:
    """Exact shares of wall time at the best interval, a step or longer, whole or not.

    Parameters
    ----------
    job : Scenario
        Asynchronous, with saves that wait for the drain.

    Returns
    -------
    dict of str to float
        As `exact_shares`.
    """
    best_s = nonblocking.best_work_s(
        job.drain_s, job.drain_tax, job.job_mtbf_s, stop_s=job.staging_s
    )
    return exact_shares(job, max(float(best_s) / job.step_s, 1.0))


def restart_outgrows_n(
    job: Scenario, found: Callable[[Scenario], dict[str, float]] | None = None
) -> int | None:
    """Smallest job in which restarts cost more than saves and rework together.

    Parameters
    ----------
    job : Scenario
        Its number of GPUs is not used; the MTBF of one GPU's share is.
    found : callable, optional
        Shares of a job; `interval_losses` if left out.

    Returns
    -------
    int or None
        GPUs; None if no job up to 2^26 GPUs, or up to one failure a step, is large enough.
    """
    shares_of = interval_losses if found is None else found
    part_h = job.gpu_mtbf_h
    largest = min(_LARGEST_N, int(part_h * HOUR_S / job.step_s))

    def outgrown(n_gpus: int) -> bool:
        parts = shares_of(job.replace(n_gpus=n_gpus, gpu_mtbf_h=part_h))
        return parts["restart"] > parts["save"] + parts["rework"]

    low, high = 1, largest
    if not outgrown(high):
        # Restarts grow as 1/M and rework at last faster: look for a size between.
        sizes = [2**i for i in range(largest.bit_length()) if outgrown(2**i)]
        if not sizes:
            return None
        high = sizes[0]
    if outgrown(low):
        return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if outgrown(middle) else (middle, high)
    return high


def claims() -> dict[str, Computed]:
    """What this chapter recomputed for each of its claims.

    Returns
    -------
    dict of str to Computed
        By claim id, in the claims' units.
    """
    return {**_table_2(), **_text(), **_mechanism(), **_optimum(), **_restart(), **_guide()}


def _table_2() -> dict[str, Computed]:
    found = {}
    drawn_s = drawn_up_time_s()
    table = printed_rows(2)
    for steps, job in table_2_jobs().items():
        row = f"tax.t2.k{steps}"
        printed = table[steps]["rework_percent"]
        reach = ROUNDING + one_run_given_restart(job, "rework")
        implied, low, high = (
            _interval_with_rework(job, drawn_s, printed + shift) for shift in (0.0, -reach, reach)
        )
        found[f"{row}.k"] = Computed(
            implied,
            low,
            high,
            note="the interval that the printed rework gives, counted in whole steps at the "
            "failures that the restart share implies",
        )
        exact, counted = exact_shares(job), counted_shares(job, drawn_s)
        for column, share in {"goodput": "goodput", "rework": "rework", "tax": "save"}.items():
            cell = one_run(job, share, exact[share] / PER_CENT)
            found[f"{row}.{column}"] = replace(
                cell,
                note=f"{cell.note}; counted in whole steps at the failures that the restart share "
                f"implies it is {percent(counted[share])}",
            )
    return found


def _interval_with_rework(job: Scenario, up_time_s: float, rework_percent: float) -> float:
    """Interval [steps] at which a run counted in whole steps loses this much; between whole."""

    def rework(steps: int) -> float:
        return counted_shares(job, up_time_s, steps)["rework"] / PER_CENT

    steps = 1
    while rework(steps + 1) < rework_percent:
        steps += 1
    below, above = rework(steps), rework(steps + 1)
    return steps + (rework_percent - below) / (above - below)


def _text() -> dict[str, Computed]:
    jobs = table_2_jobs()
    job = table_1_jobs("asynchronous")[post_scenario().n_gpus]
    exact = exact_shares(job)
    below = {k: exact_shares(j)["save"] for k, j in jobs.items() if k <= j.drain_steps}
    pinned = one_run(job, "save", exact["save"] / PER_CENT)
    return {
        "tax.text.tax_pinned": replace(
            pinned,
            note=f"{pinned.note}; the first interval after a restart goes untaxed, so that it "
            f"falls from {percent(max(below.values()))} at {min(below)} steps to "
            f"{percent(min(below.values()))} at {max(below)}",
        ),
        "tax.text.restart_16k": one_run(job, "restart", exact["restart"] / PER_CENT),
        "tax.text.rework_16k": one_run(job, "rework", exact["rework"] / PER_CENT),
    }


def _mechanism() -> dict[str, Computed]:
    """Conclusions about what more frequent saves cost."""
    jobs = table_2_jobs()
    drain = jobs[3].drain_steps
    speeds_up = {k: exact_shares(j) for k, j in jobs.items()}
    waits = {k: exact_shares(j.replace(drain_mode="wait")) for k, j in jobs.items()}
    below = [k for k in jobs if k <= drain]
    beyond = [k for k in jobs if k > drain]
    first, last = min(below), max(below)
    far = max(beyond)
    # Saves per unit of time go as 1/k; a cost per save would go with them.
    steady = speeds_up[first]["save"] / speeds_up[last]["save"] - 1.0 < PROPORTIONAL
    per_save = _proportional(waits[far]["save"] / waits[last]["save"], last / far)
    found = {
        "tax.concl.async_breaks_per_save_cost": Computed(
            holds_under_post=steady,
            holds_in_general=not per_save,
            condition="saves come closer together than one drain and more of them are made all "
            f"the same, which needs that {SPEEDS_UP}",
            note=f"beyond the drain the cost is one per save: {percent(waits[last]['save'])} at "
            f"{last} steps and {percent(waits[far]['save'])} at {far}; below it a save that waits "
            "is not one more save",
        ),
        "tax.concl.tax_pins": Computed(
            holds_under_post=steady,
            holds_in_general=all(
                math.isclose(waits[k]["save"], waits[last]["save"], rel_tol=1e-9) for k in below
            ),
            note=f"with saves that wait it is {percent(waits[last]['save'])} at every interval up "
            f"to {last} steps, since all of them are the same interval; where saves that fall due "
            f"during a drain are dropped it moves, to {percent(_skipped(jobs[20]))} at 20 steps",
        ),
    }
    factor = drain / first
    found["tax.concl.no_added_traffic"] = Computed(
        holds_under_post=factor <= 1.0,
        holds_in_general=math.isclose(
            waits[first]["goodput"], waits[last]["goodput"], rel_tol=1e-9
        ),
        condition="a save waits for the drain before it, and then rework no longer falls either",
        note=f"in its own figures a whole state is durable every {first} steps, {factor:.0f} times "
        "the traffic of one drain after the other",
    )
    ratio = speeds_up[first]["rework"] / speeds_up[last]["rework"]
    found["tax.concl.rework_linear"] = Computed(
        holds_under_post=_proportional(ratio, first / last),
        holds_in_general=_proportional(
            waits[first]["rework"] / waits[last]["rework"], first / last
        ),
        condition=SPEEDS_UP,
        note=f"if saves wait, rework is {percent(waits[first]['rework'])} at {first} steps as at "
        f"{last}",
    )
    return found


def _proportional(ratio: float, expected: float) -> bool:
    return abs(ratio / expected - 1.0) < PROPORTIONAL


def _skipped(job: Scenario) -> float:
    return exact_shares(job.replace(drain_mode="skip"))["save"]


def _optimum() -> dict[str, Computed]:
    """Conclusions about the best interval."""
    job = post_scenario()
    job_waits = job.replace(drain_mode="wait")
    speeds_up, waits = best_interval(job), best_interval(job_waits)
    drain = round(job.drain_steps)
    largest_s = largest_mtbf_s(job)
    smallest_n = int(boundary.smallest_n_gpus(job.drain_s, job.drain_tax, job.gpu_mtbf_h * HOUR_S))
    fed = fed_steps(job.n_gpus)
    at_fed = exact_goodput(job_waits, fed)
    recovers = waits.goodput.value - at_fed < MATTERS
    floor = speeds_up.steps == 1
    scale = f"the job fails at least every {largest_s:,.0f} s, here from {smallest_n:,} GPUs on"
    fits = (
        f"if saves wait, the formula with C = a L gives {fed:.1f} steps where the exact best "
        f"interval is {waits.steps}"
    )
    loss = waits.goodput.value - exact_goodput(job_waits, drain)
    interior = (
        f"if saves wait, at {job.n_gpus:,} GPUs {waits.steps} steps are best, {points(loss)} above "
        f"one drain of {drain}"
    )
    return {
        "tax.concl.daly_inapplicable": Computed(
            holds_under_post=floor and _formula_misses(job, speeds_up, fed),
            holds_in_general=not recovers,
            condition=SPEEDS_UP,
            note=fits,
        ),
        "tax.concl.no_c_recovers": Computed(
            holds_under_post=floor,
            holds_in_general=not recovers,
            condition=f"{SPEEDS_UP}, so that the best interval is the shortest there is",
            note=fits,
        ),
        "tax.concl.boundary_optimum": Computed(
            holds_under_post=floor,
            holds_in_general=waits.at_drain_boundary,
            condition=f"{SPEEDS_UP}, or {scale}",
            note=interior,
        ),
        "tax.concl.save_as_fast_as_drain": Computed(
            holds_under_post=floor,
            holds_in_general=loss < MATTERS,
            condition=f"{SPEEDS_UP}, or {scale}",
            note=interior,
        ),
    }


def _formula_misses(job: Scenario, best: BestInterval, fed: float) -> bool:
    return best.goodput.value - exact_goodput(job, fed) > MATTERS


def _restart() -> dict[str, Computed]:
    """Conclusions about restart against rework."""
    job = table_1_jobs("asynchronous")[post_scenario().n_gpus]
    job_waits = job.replace(drain_mode="wait")
    here, waits = exact_shares(job), interval_losses(job_waits)
    quick = job_waits.replace(detect_s=0.0, relaunch_s=0.0)
    same = best_interval(quick).steps == best_interval(job_waits).steps
    table = printed_rows(1)
    at_claim, at_job = _printed_losses(table[CLAIMED_N]), _printed_losses(table[job.n_gpus])
    in_its_mode = restart_outgrows_n(job, exact_shares)
    if_saves_wait = restart_outgrows_n(job_waits)
    newest = restart_outgrows_n(job_waits.replace(target="newest"))
    assert in_its_mode is not None
    assert if_saves_wait is not None
    assert newest is not None
    return {
        "tax.concl.restart_breaks_rework_only": Computed(
            holds_under_post=here["restart"] > NEGLIGIBLE,
            holds_in_general=waits["restart"] > NEGLIGIBLE,
            note=f"restarts take {percent(waits['restart'])} at {job.n_gpus:,} GPUs"
            + (
                "; the formula does not need the assumption, though: the exact best interval is "
                "the same with no restart at all"
                if same
                else ""
            ),
        ),
        "tax.concl.frequency_not_dominant": Computed(
            holds_under_post=here["restart"] > here["rework"],
            holds_in_general=waits["restart"] > waits["save"] + waits["rework"],
            condition=f"only rework answers to the interval, because {SPEEDS_UP}",
            note=f"if saves wait, saves and rework at the best interval cost "
            f"{percent(waits['save'] + waits['rework'])} against {percent(waits['restart'])} of "
            f"restarts, and restarts outgrow them from {if_saves_wait:,} GPUs on",
        ),
        "tax.concl.restart_past_8k": Computed(
            holds_under_post=at_claim["restart"] > max(at_claim["tax"], at_claim["rework"]),
            holds_in_general=if_saves_wait <= CLAIMED_N,
            condition=f"the job has {in_its_mode:,} GPUs or more in the post's own drain mode, "
            f"{if_saves_wait:,} if saves wait, {newest:,} if they wait and the newest version is "
            "restored",
            note=f"the post itself prints {at_claim['restart']:.2f} % restart against "
            f"{at_claim['tax']:.2f} % tax and {at_claim['rework']:.2f} % rework at {CLAIMED_N:,} "
            f"GPUs, and {at_job['restart']:.2f} % against {at_job['tax'] + at_job['rework']:.2f} % "
            f"together at {job.n_gpus:,}",
        ),
    }


def _printed_losses(row: Mapping[str, float]) -> dict[str, float]:
    return {name: row[f"async_{name}_percent"] for name in ("restart", "tax", "rework")}


def _guide() -> dict[str, Computed]:
    """The second post's remark on saves that overlap."""
    job = post_scenario(drain_mode="wait", checkpoint_interval_steps=10)
    waits = exact_goodput(job)
    overlaps = exact_goodput(job.replace(drain_mode="overlap"))
    longer = best_interval(job)
    faster = exact_goodput(job.replace(drain_s=10 * job.step_s))
    holds = overlaps < waits < min(longer.goodput.value, faster)
    return {
        "guide.concl.overlap_means_too_short": Computed(
            holds_under_post=holds,
            holds_in_general=holds,
            note=f"for the first post's job and saves due every {job.checkpoint_interval_steps} "
            f"steps of a {job.drain_steps:.0f}-step drain: {percent(overlaps)} with two drains at "
            f"once, {percent(waits)} if they wait, {percent(longer.goodput.value)} with the "
            f"interval raised to {longer.steps} steps, {percent(faster)} with storage fast enough "
            "for the interval",
        )
    }

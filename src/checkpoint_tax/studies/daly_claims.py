"""What the chapter on Daly's formula recomputes for each claim of the first post.

Everything is computed for the post's own parameters and in its own drain mode; where a conclusion
depends on that mode, it is judged again with saves that wait for the drain before them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from checkpoint_tax.ledger import Computed
from checkpoint_tax.plan import best_interval, exact_goodput
from checkpoint_tax.report.prose import listed, percent, points
from checkpoint_tax.scenario import Scenario
from checkpoint_tax.studies.post_accounting import counted_shares
from checkpoint_tax.studies.post_runs import (
    drawn_mtbf_s,
    one_run,
    one_run_best_interval,
    one_run_gap,
    post_scenario,
    run_length,
)
from checkpoint_tax.studies.post_tables import (
    POST_GRID_STEPS,
    grid_neighbours,
    printed_rows,
    table_1_jobs,
)
from checkpoint_tax.studies.shares import exact_shares
from checkpoint_tax.theory import young
from checkpoint_tax.units import HOUR_S, PER_CENT

__all__ = ["SPEEDS_UP", "claims", "daly_steps", "fed_steps", "text_jobs"]

SPEEDS_UP = "a drain that is not given time ends earlier at no extra cost (compressed)"
"""The assumption behind the post's asynchronous figures, as the verdicts name it."""

MATTERS = 5e-4
"""Smallest difference of goodput that counts [share of wall time]: 0.05 points."""

ROUNDING = 0.005
"""Half a unit of the last printed digit, of an MTBF [h] and of a share [%]."""

PRINTED_COST_S = (6.3, 0.05)
"""The tax of one drain as the post prints it, and half a unit of its last digit [s]."""

FACTOR = 10.0
"""What the post calls an order of magnitude."""

_GRID_NOTE = (
    f"supposing that the post tried {len(POST_GRID_STEPS)} intervals from {POST_GRID_STEPS[0]} to "
    f"{POST_GRID_STEPS[-1]:,} steps"
)
_NORMAL_95 = 1.959964


def daly_steps(n_gpus: int) -> float:
    """Interval of the square-root formula for the post's blocking save.

    Parameters
    ----------
    n_gpus : int
        GPUs in the job.

    Returns
    -------
    float
        ``sqrt(2 C M) / t`` [steps].
    """
    job = post_scenario(n_gpus=n_gpus)
    return float(young.interval_s(job.blocking_s, job.job_mtbf_s)) / job.step_s


def fed_steps(n_gpus: int) -> float:
    """Interval of the square-root formula when it is fed with the tax of one whole drain.

    Parameters
    ----------
    n_gpus : int
        GPUs in the job.

    Returns
    -------
    float
        ``sqrt(2 a L M) / t`` [steps].
    """
    job = post_scenario(n_gpus=n_gpus)
    cost_s = job.drain_tax * job.drain_s
    return float(young.interval_s(cost_s, job.job_mtbf_s)) / job.step_s


def claims() -> dict[str, Computed]:
    """What this chapter recomputed for each of its claims.

    Returns
    -------
    dict of str to Computed
        By claim id, in the claims' units.
    """
    return {
        **_inputs(),
        **_intervals(),
        **_table_shares(),
        **_text(),
        **_conclusions(),
    }


def _inputs() -> dict[str, Computed]:
    """What the post's other figures say about the numbers it assumes."""
    found = {}
    table = printed_rows(1)
    rows = {
        n: (row["job_mtbf_h"] - ROUNDING, row["job_mtbf_h"] + ROUNDING) for n, row in table.items()
    }
    for n_gpus, (low_h, high_h) in rows.items():
        others = [m for m in rows if m != n_gpus]
        part_low = max(m * rows[m][0] for m in others)
        part_high = min(m * rows[m][1] for m in others)
        middle = (part_low + part_high) / (low_h + high_h)
        found[f"tax.t1.n{n_gpus}.n"] = Computed(
            middle,
            part_low / high_h,
            part_high / low_h,
            note="MTBF times N of the other rows over the MTBF of this one",
        )
    job = post_scenario()
    row = "the row of table 1 that the text speaks of"
    found["tax.text.job_gpus"] = Computed(job.n_gpus, note=row)
    found["tax.text.sim_gpus"] = Computed(job.n_gpus, note=row)

    step, drain = _step_and_drain()
    found["tax.text.step_s"] = Computed(
        *step, note="from the formula's intervals, the tax of a drain and the tax column"
    )
    found["tax.text.drain_steps"] = Computed(*drain, note="from the same three figures")

    n_gpus = max(table)
    share = table[n_gpus]["async_restart_percent"]
    mtbf_s = post_scenario(n_gpus=n_gpus).job_mtbf_s
    restart = share * PER_CENT / (1.0 - share * PER_CENT) * mtbf_s
    failures = run_length().expected_failures[-1]
    chance = _NORMAL_95 * restart / math.sqrt(failures)
    note = (
        f"the restart share at {n_gpus:,} GPUs gives {restart:.0f} ± {chance:.0f} s in all, of "
        "which the other part is taken off"
    )
    for name, part in (("detect_s", job.relaunch_s), ("relaunch_s", job.detect_s)):
        value = restart - part
        found[f"tax.text.{name}"] = Computed(value, value - chance, value + chance, note=note)
    return found


def _step_and_drain() -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Step [s] and drain [steps] with ranges, from figures that state neither.

    The formula's interval k and the MTBF M give C/t^2 = k^2/(2M), which is S/t for a blocking save
    as long as a drain. The tax of one drain a S t is printed, and a follows from the tax column.
    """
    ratios_low, ratios_high = [], []
    for row in printed_rows(1).values():
        steps, mtbf_h = row["daly_steps"], row["job_mtbf_h"]
        ratios_low.append((steps - 0.5) ** 2 / (2.0 * HOUR_S * (mtbf_h + ROUNDING)))
        ratios_high.append((steps + 0.5) ** 2 / (2.0 * HOUR_S * (mtbf_h - ROUNDING)))
    per_step_low, per_step_high = max(ratios_low), min(ratios_high)
    sweep = printed_rows(2).values()
    pinned = max(row["tax_percent"] for row in sweep)
    work = [
        row["goodput_percent"] + row["rework_percent"]
        for row in sweep
        if row["tax_percent"] == pinned
    ]
    tax_low = max((pinned - ROUNDING) / (w + 2.0 * ROUNDING) for w in work)
    tax_high = min((pinned + ROUNDING) / (w - 2.0 * ROUNDING) for w in work)
    cost_s, half = PRINTED_COST_S
    drain_low, drain_high = (cost_s - half) / tax_high, (cost_s + half) / tax_low
    middle_s, middle_ratio = cost_s / ((tax_low + tax_high) / 2.0), per_step_low + per_step_high
    middle_ratio /= 2.0
    step = (
        math.sqrt(middle_s / middle_ratio),
        math.sqrt(drain_low / per_step_high),
        math.sqrt(drain_high / per_step_low),
    )
    drain = (
        math.sqrt(middle_s * middle_ratio),
        math.sqrt(drain_low * per_step_low),
        math.sqrt(drain_high * per_step_high),
    )
    return step, drain


def _intervals() -> dict[str, Computed]:
    found = {}
    for n_gpus, printed in printed_rows(1).items():
        row = f"tax.t1.n{n_gpus}"
        job = post_scenario(n_gpus=n_gpus)
        found[f"{row}.mtbf_h"] = Computed(job.job_mtbf_s / HOUR_S)
        found[f"{row}.daly_k"] = Computed(daly_steps(n_gpus))
        found[f"{row}.blk_k"] = _best_on_grid(job.replace(save_kind="blocking"))
        if printed["async_best_relation"] == "=":
            found[f"{row}.asy_k"] = _best_on_grid(job)
        else:
            found[f"{row}.asy_k"] = _below_the_grid(job)
    return found


def _best_on_grid(job: Scenario) -> Computed:
    exact = {k: exact_goodput(job, k) for k in POST_GRID_STEPS}
    best = max(exact, key=lambda k: exact[k])
    low, _, high = one_run_best_interval(job, POST_GRID_STEPS)
    free = best_interval(job)
    first, last = free.practical_steps
    return Computed(
        best,
        min(low, best),
        max(high, best),
        note=f"of all whole intervals {free.steps:,} is best, and {first:,} to {last:,} lie within "
        f"{free.practical_points:g} points; {_GRID_NOTE}",
    )


def _below_the_grid(job: Scenario) -> Computed:
    free = best_interval(job)
    waits = best_interval(job.replace(drain_mode="wait"))
    end = POST_GRID_STEPS[0]
    on_grid = max(POST_GRID_STEPS, key=lambda k: exact_goodput(job, k))
    note = f"if saves wait for the drain the best interval is {waits.steps}"
    if on_grid != end:
        gap = exact_goodput(job, on_grid) - exact_goodput(job, end)
        note += f"; of intervals from {end} on the best is {on_grid}, by {points(gap)}"
    return Computed(free.steps, free.steps, free.steps, condition=SPEEDS_UP, note=note)


def _table_shares() -> dict[str, Computed]:
    found = {}
    for n_gpus, job in table_1_jobs("blocking").items():
        percent_ = exact_shares(job)["goodput"] / PER_CENT
        found[f"tax.t1.n{n_gpus}.blk_gp"] = one_run(job, "goodput", percent_)
    for n_gpus, job in table_1_jobs("asynchronous").items():
        exact = exact_shares(job)
        columns = {"asy_gp": "goodput", "rework": "rework", "restart": "restart", "tax": "save"}
        for column, share in columns.items():
            cell = one_run(job, share, exact[share] / PER_CENT)
            if column == "tax":
                cell = replace(cell, note=f"{cell.note}; {_taxed_from_the_start(job)}")
            found[f"tax.t1.n{n_gpus}.{column}"] = cell
    return found


def _taxed_from_the_start(job: Scenario) -> str:
    printed = printed_rows(1)[job.n_gpus]["async_restart_percent"]
    drawn_s = drawn_mtbf_s(printed * PER_CENT, job.restart_s)
    return (
        "with the tax charged from the first step after a restart on, and the failures that its "
        f"restart share implies, {percent(counted_shares(job, drawn_s)['save'], 3)}"
    )


def text_jobs() -> dict[str, Scenario]:
    """The three asynchronous jobs that the post's text compares at 16,384 GPUs.

    Returns
    -------
    dict of str to Scenario
        ``best``, at the interval whose figures table 1 prints as the best; ``daly``, at the
        formula's interval for the blocking save; ``fed``, at the formula's interval for the tax.
    """
    job = table_1_jobs("asynchronous")[post_scenario().n_gpus]
    return {
        "best": job,
        "daly": job.replace(checkpoint_interval_steps=round(daly_steps(job.n_gpus))),
        "fed": job.replace(checkpoint_interval_steps=round(fed_steps(job.n_gpus))),
    }


def _text() -> dict[str, Computed]:
    jobs = text_jobs()
    job = jobs["best"]
    exact = {name: exact_goodput(j) / PER_CENT for name, j in jobs.items()}
    return {
        "tax.text.failures_every_h": Computed(job.job_mtbf_s / HOUR_S),
        "tax.text.daly_k_16k": Computed(daly_steps(job.n_gpus)),
        "tax.text.amortised_cost_s": Computed(job.drain_tax * job.drain_s),
        "tax.text.async_cost_k": Computed(fed_steps(job.n_gpus)),
        "tax.text.gp_at_daly_k": one_run(jobs["daly"], "goodput", exact["daly"]),
        "tax.text.best_gp": one_run(job, "goodput", exact["best"]),
        "tax.text.async_cost_gp": one_run(jobs["fed"], "goodput", exact["fed"]),
        "tax.text.daly_loss_points": one_run_gap(job, jobs["daly"], exact["best"] - exact["daly"]),
        "tax.text.async_cost_loss_points": one_run_gap(
            job, jobs["fed"], exact["best"] - exact["fed"]
        ),
    }


def _conclusions() -> dict[str, Computed]:
    table = printed_rows(1)
    sizes = list(table)
    blocking = {n: best_interval(post_scenario(n_gpus=n, save_kind="blocking")) for n in sizes}
    lost = {
        n: blocking[n].goodput.value
        - exact_goodput(post_scenario(n_gpus=n, save_kind="blocking"), daly_steps(n))
        for n in sizes
    }
    beyond = {n: daly_steps(n) - blocking[n].steps for n in sizes}
    found = {
        "tax.concl.daly_within_grid_step": Computed(
            holds_under_post=all(
                table[n]["blocking_best_steps"] in grid_neighbours(daly_steps(n)) for n in sizes
            ),
            holds_in_general=all(_near(blocking[n].steps, daly_steps(n)) for n in sizes),
            note=f"the formula exceeds the exact best interval by {min(beyond.values()):.0f} to "
            f"{max(beyond.values()):.0f} steps in every row, about 2C/3, and loses "
            f"at most {points(max(lost.values()))}; {_GRID_NOTE}",
        )
    }

    job = post_scenario()
    speeds_up, waits = best_interval(job), best_interval(job.replace(drain_mode="wait"))
    daly, fed = daly_steps(job.n_gpus), fed_steps(job.n_gpus)
    factors = {n: daly_steps(n) / table[n]["async_best_steps"] for n in sizes}
    rows = [n for n in sizes if factors[n] > FACTOR]
    ratios = {
        n: daly_steps(n) / best_interval(post_scenario(n_gpus=n, drain_mode="wait")).steps
        for n in sizes
    }
    found["tax.concl.async_order_of_magnitude"] = Computed(
        holds_under_post=daly / speeds_up.steps > FACTOR,
        holds_in_general=all(ratio > FACTOR for ratio in ratios.values()),
        condition=f"{SPEEDS_UP}, and then from {min(rows):,} GPUs on",
        note=f"in the printed rows below that it is {_factors(factors, sizes, rows)}; if saves "
        f"wait it is {min(ratios.values()):.1f} to {max(ratios.values()):.1f}, at most about "
        f"sqrt(1/a) = {1.0 / math.sqrt(job.drain_tax):.1f}",
    )
    found["tax.concl.optimum_at_floor"] = Computed(
        holds_under_post=speeds_up.steps == 1,
        holds_in_general=waits.at_drain_boundary,
        condition=SPEEDS_UP,
        note=f"if saves wait the best interval is {waits.steps} steps, well above the drain of "
        f"{job.drain_steps:.0f}, with a goodput of {percent(waits.goodput.value)}",
    )
    gap = speeds_up.goodput.value - exact_goodput(job, round(fed))
    off = waits.goodput.value - exact_goodput(job.replace(drain_mode="wait"), round(fed))
    found["tax.concl.async_cost_no_fix"] = Computed(
        holds_under_post=gap > MATTERS,
        holds_in_general=off > MATTERS,
        condition=SPEEDS_UP,
        note=f"if saves wait, the formula fed with a L gives {fed:.1f} steps and the exact best "
        f"interval is {waits.steps}, {'better' if off > 0 else 'apart'} by {points(off)}",
    )
    return found


def _near(best: int, formula: float) -> bool:
    """Whether at most one grid interval lies between the two."""
    low, high = sorted((float(best), formula))
    return sum(low < k < high for k in POST_GRID_STEPS) <= 1


def _factors(factors: dict[int, float], sizes: list[int], rows: list[int]) -> str:
    others = [f"{factors[n]:.1f} at {n:,}" for n in sizes if n not in rows]
    return listed(others) if others else "above ten too"

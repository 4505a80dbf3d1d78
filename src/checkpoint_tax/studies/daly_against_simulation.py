"""Whether the square-root formula finds the best interval: the first post's table 1, both halves.

The post's rows are always those of its own parameters; the last part asks the same about the
reader's job.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair
import numpy as np
import pandas as pd

from checkpoint_tax.ledger import Computed, ledger_frame
from checkpoint_tax.plan import BestInterval, best_interval, exact_goodput
from checkpoint_tax.report.prose import Prose, listed, percent, points
from checkpoint_tax.report.sweep_charts import sweep_chart
from checkpoint_tax.report.tables import Column, Table, span, table
from checkpoint_tax.report.verdicts import VERDICT_CLASSES, verdict_counts, verdict_table
from checkpoint_tax.scenario import Scenario
from checkpoint_tax.simulate import sweep_intervals
from checkpoint_tax.studies import daly_claims
from checkpoint_tax.studies.daly_claims import daly_steps, fed_steps
from checkpoint_tax.studies.post_accounting import counted_shares
from checkpoint_tax.studies.post_runs import (
    drawn_mtbf_s,
    one_run_best_interval,
    one_run_given_restart,
    post_scenario,
    run_length,
)
from checkpoint_tax.studies.post_tables import (
    POST_GRID_STEPS,
    printed_rows,
    simulate_cells,
    table_1_jobs,
    table_2_jobs,
)
from checkpoint_tax.studies.shares import exact_shares, has_closed_form, shares
from checkpoint_tax.theory import young
from checkpoint_tax.units import HOUR_S, PER_CENT, duration_text

__all__ = [
    "CHAPTER",
    "answer",
    "asynchronous_chart",
    "asynchronous_frame",
    "asynchronous_table",
    "blocking_chart",
    "blocking_frame",
    "blocking_table",
    "claims",
    "conclusions_table",
    "goodput_frame",
    "goodput_table",
    "job_chart",
    "job_frame",
    "job_table",
    "length_frame",
    "length_table",
    "misses_frame",
    "misses_table",
    "shares_frame",
    "shares_table",
    "what_misses_say",
]

CHAPTER = "daly-against-simulation"

BEST_HALF_WIDTH = 3e-4
"""Precision of each goodput in the search for a best interval by simulation [share]."""

POINT_HALF_WIDTH = 5e-4
"""Precision of each simulated point of a chart [share of wall time]."""

DEPTH = 0.06
"""How far below the best a curve is drawn [share of wall time]."""

_REACH = 5.0
_SHARE_NAMES = {"asy_gp": "goodput", "rework": "rework", "restart": "restart", "tax": "tax"}


@functools.cache
def _claims() -> dict[str, Computed]:
    return daly_claims.claims()


def claims() -> dict[str, Computed]:
    """What this chapter recomputed for each of its claims, for the post's own parameters.

    Returns
    -------
    dict of str to Computed
        By claim id, in the claims' units.
    """
    return dict(_claims())


@functools.cache
def _ledger() -> pd.DataFrame:
    frame = ledger_frame(_claims())
    return frame[frame["chapter"] == CHAPTER].set_index("claim_id", drop=False)


@functools.cache
def _cells() -> pd.DataFrame:
    return simulate_cells().set_index("claim_id")


@functools.lru_cache(maxsize=64)
def _best(job: Scenario) -> BestInterval:
    return best_interval(job, half_width=BEST_HALF_WIDTH)


# Blocking saves: where the best interval lies


@functools.cache
def blocking_frame() -> pd.DataFrame:
    """Best intervals of the five rows with blocking saves, by formula, closed form and simulation.

    Returns
    -------
    pandas.DataFrame
        One row a size; intervals in steps with the ends of the ranges as good as the best
        (0.05 points), and what the formula's interval loses [share of wall time].
    """
    rows = []
    for n_gpus, printed in printed_rows(1).items():
        job = post_scenario(n_gpus=n_gpus, save_kind="blocking")
        exact = _best(job)
        simulated = best_interval(job, method="simulation", half_width=BEST_HALF_WIDTH)
        low, _, high = one_run_best_interval(job, POST_GRID_STEPS)
        formula = daly_steps(n_gpus)
        rows.append(
            {
                "n_gpus": n_gpus,
                "job_mtbf_h": job.job_mtbf_s / HOUR_S,
                "daly_steps": formula,
                "printed_steps": printed["blocking_best_steps"],
                "one_run_low": low,
                "one_run_high": high,
                "exact_steps": exact.steps,
                "exact_low": exact.practical_steps[0],
                "exact_high": exact.practical_steps[1],
                "simulated_steps": simulated.steps,
                "simulated_low": simulated.practical_steps[0],
                "simulated_high": simulated.practical_steps[1],
                "daly_loses": exact.goodput.value - exact_goodput(job, formula),
                "verdict": _ledger().loc[f"tax.t1.n{n_gpus}.blk_k", "verdict"],
            }
        )
    return pd.DataFrame(rows)


def _ranged(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """The frame with a text for each pair of columns with the ends of a range."""
    return frame.assign(
        **{
            f"{name}_range": [
                span(low, high, 0)
                for low, high in zip(frame[f"{name}_low"], frame[f"{name}_high"], strict=True)
            ]
            for name in names
        }
    )


def blocking_table() -> Table:
    """The blocking half of table 1, intervals.

    Returns
    -------
    Table
    """
    frame = blocking_frame()
    worst = frame["daly_loses"].max()
    excess = (frame["daly_steps"] - frame["exact_steps"]).max()
    return table(
        _ranged(frame, "one_run", "exact", "simulated"),
        {
            "n_gpus": Column("GPUs", digits=0),
            "job_mtbf_h": Column("MTBF", "h", 2),
            "daly_steps": Column("formula", "steps", 0),
            "printed_steps": Column("post's best", "steps", 0),
            "one_run_range": Column("one run would print"),
            "exact_steps": Column("exact best", "steps", 0),
            "exact_range": Column("as good: exact", below=""),
            "simulated_steps": Column("simulated best", "steps", 0),
            "simulated_range": Column("as good: simulated"),
            "daly_loses": Column("formula loses", "points", 2, scale=1.0 / PER_CENT),
            "verdict": Column("verdict"),
        },
        name="blocking-intervals",
        caption="Best intervals with blocking saves. The formula's are up to "
        f"{_count(excess)} steps too long and lose {_at_most(worst)}. As good means "
        f"within {_best(post_scenario(save_kind='blocking')).practical_points:g} points of the "
        "best.",
        classes={"verdict": VERDICT_CLASSES},
    )


def blocking_chart() -> altair.LayerChart:
    """Goodput against the interval with blocking saves, all five sizes.

    Returns
    -------
    altair.LayerChart
    """
    lines, simulated, marks = [], [], []
    for n_gpus, printed in printed_rows(1).items():
        job = post_scenario(n_gpus=n_gpus, save_kind="blocking")
        series = f"{n_gpus:,}"
        best = _best(job)
        steps = _steps(best.steps / _REACH, best.steps * _REACH, 60)
        lines += _line(job, series, steps, best.goodput.value - DEPTH)
        close = [k for k in POST_GRID_STEPS if best.steps / 3.0 < k < best.steps * 3.0]
        lowest = best.goodput.value - DEPTH
        simulated += [p for p in _points(job, series, close) if p["low"] >= lowest]
        formula = round(daly_steps(n_gpus))
        marks += [
            {
                "series": series,
                "steps": formula,
                "goodput": exact_goodput(job, formula),
                "mark": "interval of the formula",
            },
            {
                "series": series,
                "steps": printed["blocking_best_steps"],
                "goodput": printed["blocking_goodput_percent"] * PER_CENT,
                "mark": "printed in the post",
            },
        ]
    frame = blocking_frame()
    return sweep_chart(
        pd.DataFrame(lines),
        pd.DataFrame(simulated),
        pd.DataFrame(marks),
        legend="GPUs",
        caption="Blocking saves: the formula's interval lies on the flat top of every curve, and "
        f"loses {_at_most(frame['daly_loses'].max())}. Lines: closed form; dots: simulated, "
        "with 95 % intervals mostly smaller than the dot.",
        description="Goodput in percent against the interval between saves in steps, on a "
        "logarithmic axis, one flat-topped curve for each of five sizes of the job, higher and "
        "further right for smaller jobs. Simulated points lie on the curves, the formula's "
        "intervals near their tops; the post's printed values scatter around them.",
    )


# Goodput and losses: printed, exact, simulated, and what one run would print


def _cell_row(claim_id: str) -> dict[str, object]:
    judged = _ledger().loc[claim_id]
    simulated = _cells().loc[claim_id]
    return {
        "printed": judged["value"],
        "exact": judged["computed"],
        "simulated": simulated["value"],
        "simulated_low": simulated["low"],
        "simulated_high": simulated["high"],
        "one_run_low": judged["low"],
        "one_run_high": judged["high"],
        "verdict": judged["verdict"],
    }


_CELL_COLUMNS: Mapping[str, Column] = {
    "printed": Column("printed", "%", 2),
    "exact": Column("exact", "%", 2),
    "simulated": Column("simulated", "%", 3, low="simulated_low", high="simulated_high"),
    "one_run_range": Column("one run would print", "%"),
    "verdict": Column("verdict"),
}


def _with_run_range(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(
        one_run_range=[
            span(low, high, 2)
            for low, high in zip(frame["one_run_low"], frame["one_run_high"], strict=True)
        ]
    )


def goodput_frame() -> pd.DataFrame:
    """Goodput with blocking saves at the intervals the post prints.

    Returns
    -------
    pandas.DataFrame
        One row a size; goodput in percent: printed, exact, simulated with its 95 % interval, and
        the range that one run of the post's inferred length would print.
    """
    return pd.DataFrame(
        [
            {
                "n_gpus": n_gpus,
                "interval_steps": job.checkpoint_interval_steps,
                **_cell_row(f"tax.t1.n{n_gpus}.blk_gp"),
            }
            for n_gpus, job in table_1_jobs("blocking").items()
        ]
    )


def goodput_table() -> Table:
    """The blocking half of table 1, goodput.

    Returns
    -------
    Table
    """
    frame = goodput_frame()
    gap = (frame["printed"] - frame["exact"]).abs().max()
    return table(
        _with_run_range(frame),
        {
            "n_gpus": Column("GPUs", digits=0),
            "interval_steps": Column("interval", "steps", 0),
            **_CELL_COLUMNS,
        },
        name="blocking-goodput",
        caption="Goodput with blocking saves, at the interval that the post prints. It is off by "
        f"up to {gap:.2f} points, which single runs of its length are.",
        classes={"verdict": VERDICT_CLASSES},
    )


def shares_frame() -> pd.DataFrame:
    """Goodput and losses with asynchronous saves at the intervals the post prints.

    Returns
    -------
    pandas.DataFrame
        One row a cell of the asynchronous half of table 1, in percent, in the post's own mode.
    """
    return pd.DataFrame(
        [
            {
                "n_gpus": n_gpus,
                "interval_steps": job.checkpoint_interval_steps,
                "share": name,
                **_cell_row(f"tax.t1.n{n_gpus}.{column}"),
            }
            for column, name in _SHARE_NAMES.items()
            for n_gpus, job in table_1_jobs("asynchronous").items()
        ]
    )


def shares_table() -> Table:
    """The asynchronous half of table 1, all four shares.

    Returns
    -------
    Table
    """
    frame = shares_frame()
    wrong = frame[frame["verdict"] == "differs"]
    found = (
        f"{len(wrong)} of {len(frame)} cells lie outside, all of them in the "
        f"column {listed(sorted(set(wrong['share'])))}"
        if len(wrong)
        else f"all {len(frame)} cells lie inside"
    )
    return table(
        _with_run_range(frame),
        {
            "n_gpus": Column("GPUs", digits=0),
            "share": Column("share"),
            "interval_steps": Column("interval", "steps", 0),
            **_CELL_COLUMNS,
        },
        name="asynchronous-shares",
        caption="Asynchronous saves in the post's own mode, in which a drain that is given less "
        f"time ends earlier. Of what one run would print, {found}.",
        classes={"verdict": VERDICT_CLASSES},
    )


# Asynchronous saves: where the best interval lies


@functools.cache
def asynchronous_frame() -> pd.DataFrame:
    """Best intervals with asynchronous saves, in the post's mode and if saves wait.

    Returns
    -------
    pandas.DataFrame
        One row a size; intervals in steps, goodput and losses as shares of wall time. ``formula``
        is fed with the blocking time, ``fed`` with the tax of one drain.
    """
    rows = []
    for n_gpus, printed in printed_rows(1).items():
        job = post_scenario(n_gpus=n_gpus)
        waiting = job.replace(drain_mode="wait")
        speeds_up, waits = _best(job), _best(waiting)
        formula, fed = round(daly_steps(n_gpus)), round(fed_steps(n_gpus))
        relation = "" if printed["async_best_relation"] == "=" else "<"
        rows.append(
            {
                "n_gpus": n_gpus,
                "printed": f"{relation}{printed['async_best_steps']}",
                "compressed_steps": speeds_up.steps,
                "compressed_low": speeds_up.practical_steps[0],
                "compressed_high": speeds_up.practical_steps[1],
                "compressed_goodput": speeds_up.goodput.value,
                "wait_steps": waits.steps,
                "wait_low": waits.practical_steps[0],
                "wait_high": waits.practical_steps[1],
                "wait_goodput": waits.goodput.value,
                "fed_steps": fed,
                "fed_loses": waits.goodput.value - exact_goodput(waiting, fed),
                "formula_steps": formula,
                "formula_loses": waits.goodput.value - exact_goodput(waiting, formula),
                "verdict": _ledger().loc[f"tax.t1.n{n_gpus}.asy_k", "verdict"],
            }
        )
    return pd.DataFrame(rows)


def asynchronous_table() -> Table:
    """The asynchronous half of table 1, intervals.

    Returns
    -------
    Table
    """
    frame = asynchronous_frame()
    return table(
        _ranged(frame, "compressed", "wait"),
        {
            "n_gpus": Column("GPUs", digits=0),
            "printed": Column("post's best", below=""),
            "compressed_range": Column("as good, post's mode"),
            "compressed_goodput": Column("goodput there", "%", 2, scale=1.0 / PER_CENT),
            "wait_range": Column("as good, saves wait"),
            "wait_goodput": Column("goodput there", "%", 2, scale=1.0 / PER_CENT),
            "fed_steps": Column("formula fed with the tax", "steps", 0),
            "fed_loses": Column("loses", "points", 2, scale=1.0 / PER_CENT),
            "formula_steps": Column("formula fed with C", "steps", 0),
            "formula_loses": Column("loses", "points", 2, scale=1.0 / PER_CENT),
        },
        name="asynchronous-intervals",
        caption="Asynchronous saves, best intervals in steps. If a save waits for the drain before "
        "it, the formula fed with the tax of one drain loses "
        f"{_at_most(frame['fed_loses'].max())}; fed with the blocking time it loses up to "
        f"{points(frame['formula_loses'].max())}. A drain lasts "
        f"{post_scenario().drain_steps:.0f} steps.",
    )


def asynchronous_chart() -> altair.LayerChart:
    """Goodput against the interval with asynchronous saves at the post's 16,384 GPUs.

    Returns
    -------
    altair.LayerChart
    """
    job = post_scenario()
    modes = {"post's mode": job, "saves wait": job.replace(drain_mode="wait")}
    lines, simulated, marks = [], [], []
    for series, mode_job in modes.items():
        lines += _line(mode_job, series, _steps(1, 400, 90), 0.0)
        simulated += _points(mode_job, series, (3, 10, 20, 30, 60, 120, 300))
    exact = {name: exact_goodput(job, k) for name, k in _formula_intervals(job).items()}
    for name, steps in _formula_intervals(job).items():
        marks.append(
            {
                "series": "saves wait",
                "steps": steps,
                "goodput": exact[name],
                "mark": f"formula fed with the {name}",
            }
        )
    for steps, row in printed_rows(2).items():
        marks.append(
            {
                "series": "post's mode",
                "steps": steps,
                "goodput": row["goodput_percent"] * PER_CENT,
                "mark": "printed in the post",
            }
        )
    waits = _best(modes["saves wait"])
    return sweep_chart(
        pd.DataFrame(lines),
        pd.DataFrame(simulated),
        pd.DataFrame(marks),
        legend="asynchronous saves",
        caption=f"At {job.n_gpus:,} GPUs the two ways to save part below one drain "
        f"({job.drain_steps:.0f} steps). If saves wait, the best interval is {waits.steps} steps "
        "and the formula finds it, once it is fed with the tax.",
        description="Goodput in percent against the interval in steps, on a logarithmic axis. "
        "Above 30 steps both curves are one and fall towards long intervals. Below, the curve of "
        "the post's mode rises all the way to 1 step, the other is level. The post's printed "
        "points lie below its curve.",
    )


def _formula_intervals(job: Scenario) -> dict[str, int]:
    return {"blocking time": round(daly_steps(job.n_gpus)), "tax": round(fed_steps(job.n_gpus))}


# What the misses of the printed figures say


def misses_frame() -> pd.DataFrame:
    """Goodput of the post's sweep, explained step by step.

    Returns
    -------
    pandas.DataFrame
        One row an interval of table 2; percent. ``stated`` is exact at the stated failure rate,
        ``drawn`` exact at the rate that the printed restart share implies, ``counted`` the same
        counted in whole steps; ``chance`` is half the range left to chance then; ``left_over`` is
        what the printed shares of the row leave for restarts.
    """
    job = post_scenario()
    share = printed_rows(1)[job.n_gpus]["async_restart_percent"]
    drawn_s = drawn_mtbf_s(share * PER_CENT, job.restart_s)
    rows = []
    for steps, job_ in table_2_jobs().items():
        printed = printed_rows(2)[steps]
        named = printed["goodput_percent"] + printed["rework_percent"] + printed["tax_percent"]
        rows.append(
            {
                "interval_steps": steps,
                "printed": printed["goodput_percent"],
                "stated": exact_shares(job_)["goodput"] / PER_CENT,
                "drawn": exact_shares(job_, job_mtbf_s=drawn_s)["goodput"] / PER_CENT,
                "counted": counted_shares(job_, drawn_s)["goodput"] / PER_CENT,
                "chance": one_run_given_restart(job_, "goodput"),
                "left_over": 100.0 - named,
                "restart": share,
            }
        )
    return pd.DataFrame(rows)


def misses_table() -> Table:
    """The misses of table 2, explained step by step.

    Returns
    -------
    Table
    """
    frame = misses_frame()
    gaps = {
        name: (frame["printed"] - frame[name]).abs().max()
        for name in ("stated", "drawn", "counted")
    }
    return table(
        frame.assign(
            counted_low=frame["counted"] - frame["chance"],
            counted_high=frame["counted"] + frame["chance"],
        ),
        {
            "interval_steps": Column("interval", "steps", 0),
            "printed": Column("printed", "%", 2),
            "stated": Column("exact, stated rate", "%", 2),
            "drawn": Column("exact, drawn rate", "%", 2),
            "counted": Column(
                "and counted in steps", "%", 2, low="counted_low", high="counted_high"
            ),
            "left_over": Column("left for restarts", "%", 2),
        },
        name="misses",
        caption="Goodput of the post's sweep. The largest miss shrinks from "
        f"{gaps['stated']:.2f} points to {gaps['drawn']:.2f} with the failures that the run drew, "
        f"and to {gaps['counted']:.2f} when it is counted in whole steps as well; ± is what the "
        "places of those failures leave to chance.",
    )


def length_frame() -> pd.DataFrame:
    """Failures that the post's runs drew, and the length that their scatter implies.

    Returns
    -------
    pandas.DataFrame
        One row a size: printed restart share [%], up-time per failure [h] drawn and stated,
        excess of failures [1], failures that a run of the inferred length expects and the excess
        that one standard deviation of them is [1].
    """
    length = run_length()
    rows = []
    for n_gpus, excess, expected in zip(
        length.n_gpus, length.drawn_excess, length.expected_failures, strict=True
    ):
        job = post_scenario(n_gpus=n_gpus)
        rows.append(
            {
                "n_gpus": n_gpus,
                "restart": printed_rows(1)[n_gpus]["async_restart_percent"],
                "stated_h": job.job_mtbf_s / HOUR_S,
                "drawn_h": job.job_mtbf_s / HOUR_S / (1.0 + excess),
                "excess": excess,
                "expected_failures": expected,
                "deviation": 1.0 / math.sqrt(expected),
            }
        )
    return pd.DataFrame(rows)


def length_table() -> Table:
    """Failures that the post's runs drew.

    Returns
    -------
    Table
    """
    length = run_length()
    return table(
        length_frame(),
        {
            "n_gpus": Column("GPUs", digits=0),
            "restart": Column("restart, printed", "%", 2),
            "stated_h": Column("MTBF, stated", "h", 2),
            "drawn_h": Column("MTBF, drawn", "h", 2),
            "excess": Column("failures beyond expected", "%", 1, scale=1.0 / PER_CENT),
            "expected_failures": Column("failures expected", digits=0),
            "deviation": Column("one deviation", "%", 1, scale=1.0 / PER_CENT),
        },
        name="drawn-failures",
        caption="Failures that the runs behind table 1 drew, from their restart shares. Such a "
        f"scatter fits runs of {_count(length.steps)} steps (95 % interval "
        f"{_count(length.low_steps)} to {_count(length.high_steps)}).",
    )


def what_misses_say() -> Prose:
    """What else the printed shares reveal, in words.

    Returns
    -------
    Prose
    """
    frame = misses_frame()
    length = run_length()
    job = post_scenario()
    drawn_s = drawn_mtbf_s(float(frame["restart"].iloc[0]) * PER_CENT, job.restart_s)
    excess = job.job_mtbf_s / drawn_s - 1.0
    spare = frame["left_over"] - frame["restart"]
    step = counted_shares(job, drawn_s)["unbooked"] / PER_CENT
    judged = _ledger()
    cells = judged[(judged["kind"] == "statistical") & (judged["unit"] == "%")]
    outside = {
        steps: _outside(cells, math.sqrt(length.steps / steps))
        for steps in (length.low_steps, length.steps, length.high_steps)
    }
    return Prose(
        f"A restart share of {frame['restart'].iloc[0]:.2f} % means one failure in "
        f"{_count(drawn_s)} s of up-time instead of {_count(job.job_mtbf_s)} s: the run drew "
        f"{percent(excess, 0)} more failures than expected. Table 2's rows leave "
        f"{frame['left_over'].min():.2f} to {frame['left_over'].max():.2f} % for restarts, "
        f"{spare.min():.2f} to {spare.max():.2f} points more than table 1 prints; one step a "
        f"failure would be {step:.2f} %, so the step in which a failure falls seems to be booked "
        "nowhere. The tax column and the rework fit a program that counts whole steps, charges the "
        "tax from the first step after a restart on, and always falls back by one drain and what "
        "is left over of an interval.\n\n"
        f"How many of the {len(cells)} shares lie outside the range of one run depends on the "
        f"inferred length: {outside[length.low_steps]} if the runs had "
        f"{_count(length.low_steps)} steps, {outside[length.steps]} at the estimate, "
        f"{outside[length.high_steps]} at {_count(length.high_steps)}."
    )


def _outside(cells: pd.DataFrame, stretch: float) -> int:
    """Printed shares outside their range if it were this much wider [1]."""
    low = cells["computed"] - stretch * (cells["computed"] - cells["low"]) - cells["rounding"]
    high = cells["computed"] + stretch * (cells["high"] - cells["computed"]) + cells["rounding"]
    return int(((cells["value"] < low) | (cells["value"] > high)).sum())


# The reader's job


def job_frame(job: Scenario) -> pd.DataFrame:
    """The formula against the best interval for one job, saved in both ways.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    pandas.DataFrame
        One row a way to save and a cost to feed the formula with [s]: interval of the formula and
        best interval with the range as good [steps], goodput at both [1]. The formula's interval
        is missing where the cost is 0 or the interval shorter than one step.
    """
    rows = []
    blocking = job.replace(save_kind="blocking")
    asynchronous = job.replace(save_kind="asynchronous")
    own_cost = asynchronous.staging_s + asynchronous.drain_tax * asynchronous.drain_s
    cases: list[tuple[str, Scenario, str, float]] = [
        ("blocking", blocking, "time it stops training", blocking.blocking_s),
        ("asynchronous", asynchronous, "time a blocking save would stop", blocking.blocking_s),
        ("asynchronous", asynchronous, "staging and tax of one drain", own_cost),
    ]
    for saves, scheme, fed_with, cost_s in cases:
        best = _best(scheme)
        steps = round(float(young.interval_s(cost_s, job.job_mtbf_s)) / job.step_s)
        at_formula = shares(scheme, steps)["goodput"].value if steps >= 1 else math.nan
        rows.append(
            {
                "saves": saves,
                "fed_with": fed_with,
                "cost_s": cost_s,
                "formula_steps": float(steps) if steps >= 1 else math.nan,
                "best_steps": best.steps,
                "best_low": best.practical_steps[0],
                "best_high": best.practical_steps[1],
                "best_goodput": best.goodput.value,
                "formula_goodput": at_formula,
                # Two simulated values can be out of order by chance.
                "formula_loses": max(0.0, best.goodput.value - at_formula),
            }
        )
    return pd.DataFrame(rows)


def job_table(job: Scenario) -> Table:
    """The formula against the best interval for one job.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    Table
    """
    return table(
        _ranged(job_frame(job), "best"),
        {
            "saves": Column("saves"),
            "fed_with": Column("formula fed with"),
            "cost_s": Column("cost", "s", 1),
            "formula_steps": Column("formula", "steps", 0),
            "best_steps": Column("best", "steps", 0),
            "best_range": Column("as good"),
            "best_goodput": Column("best goodput", "%", 2, scale=1.0 / PER_CENT),
            "formula_loses": Column("formula loses", "points", 2, scale=1.0 / PER_CENT),
        },
        name="job-formula",
        caption=f"This job, {job.n_gpus:,} GPUs and one failure in {_span(job.job_mtbf_s)}, saved "
        f"in both ways (asynchronous: mode {job.drain_mode}, target {job.target}).",
    )


def job_chart(job: Scenario) -> altair.LayerChart:
    """Goodput against the interval for one job, saved in both ways.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    altair.LayerChart
    """
    lines, simulated, marks = [], [], []
    frame = job_frame(job)
    for kind in ("blocking", "asynchronous"):
        scheme = job.replace(save_kind=kind)
        best = _best(scheme)
        reach = _steps(best.steps / 10.0, best.steps * 10.0, 60)
        lowest = best.goodput.value - DEPTH
        if has_closed_form(job):
            lines += _line(scheme, kind, reach, lowest)
        few = _steps(best.steps / 8.0, best.steps * 8.0, 9)
        simulated += [p for p in _points(scheme, kind, few) if p["low"] >= lowest]
        for row in frame[frame["saves"] == kind].to_dict("records"):
            if math.isnan(row["formula_goodput"]) or row["formula_goodput"] < lowest:
                continue
            marks.append(
                {
                    "series": kind,
                    "steps": row["formula_steps"],
                    "goodput": row["formula_goodput"],
                    "mark": f"formula: {row['fed_with']}",
                }
            )
    columns = ["series", "steps", "goodput"]
    gap = _best(job.replace(save_kind="asynchronous")).goodput.value
    gap -= _best(job.replace(save_kind="blocking")).goodput.value
    ahead = "asynchronous" if gap > 0.0 else "blocking"
    return sweep_chart(
        pd.DataFrame(lines, columns=columns),
        pd.DataFrame(simulated, columns=[*columns, "low", "high"]),
        pd.DataFrame(marks, columns=[*columns, "mark"]),
        legend="saves",
        caption=f"This job at {job.n_gpus:,} GPUs: at their best intervals {ahead} saves are ahead "
        f"by {points(abs(gap))}. {'Lines: closed form; dots' if lines else 'Dots'}: simulated, "
        "with 95 % intervals.",
        description="Goodput in percent against the interval in steps, on a logarithmic axis, one "
        "curve for blocking and one for asynchronous saves, with marks at the formula's intervals.",
    )


def _span(time_s: float) -> str:
    return duration_text(time_s)


# Conclusions and answer


def conclusions_table() -> Table:
    """What the post's text says of table 1, with verdicts.

    Returns
    -------
    Table
    """
    own = _ledger()
    texts = own[~own["claim_id"].str.contains(r"\.t1\.")]
    return verdict_table(
        texts.reset_index(drop=True),
        name="conclusions",
        caption=f"The text on table 1: {verdict_counts(texts)}. With the table's cells the "
        f"chapter's {len(own)} claims are: {verdict_counts(own)}.",
    )


def answer(job: Scenario) -> Prose:
    """The chapter's answer in three sentences.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    Prose
    """
    rows, drains = blocking_frame(), asynchronous_frame()
    post = post_scenario()
    excess = rows["daly_steps"] - rows["exact_steps"]
    at_post = drains.set_index("n_gpus").loc[post.n_gpus]
    first = (
        "**For saves that block, yes:** in all "
        f"{len(rows)} rows of the post's table the formula's interval is {excess.min():.0f} to "
        f"{excess.max():.0f} steps above the exact best one, which loses "
        f"{_at_most(rows['daly_loses'].max())} of goodput."
    )
    second = (
        "For saves that drain while training goes on it is right as well, once it is fed with what "
        f"a save costs, the tax on one drain: at {post.n_gpus:,} GPUs it then gives "
        f"{at_post['fed_steps']:.0f} steps, the exact best interval is "
        f"{at_post['wait_steps']:.0f}, and the post's “<10” comes from a simulator whose "
        "drains speed up for free when saves come faster."
    )
    return Prose(f"{first} {second} {_third_sentence(job)}")


def _third_sentence(job: Scenario) -> str:
    rows = job_frame(job)
    own = rows[rows["saves"] == job.save_kind].iloc[-1]
    best = _best(job)
    low, high = best.practical_steps
    here = shares(job)["goodput"].value
    loses = max(0.0, best.goodput.value - here)
    around = f"{_count(low)} to {_count(high)} are as good" if low < high else "no other is"
    if math.isnan(own["formula_steps"]):
        formula = "the formula gives no whole step"
    else:
        formula = f"the formula gives {_count(own['formula_steps'])} steps"
    verdict = ""
    if not math.isnan(own["formula_loses"]):
        verdict = f" and loses {points(own['formula_loses'])}"
    return (
        f"For this job ({job.n_gpus:,} GPUs, {job.save_kind} saves, one failure in "
        f"{_span(job.job_mtbf_s)}) {formula}{verdict}; the best interval is "
        f"{_count(best.steps)} steps ({around}) with a goodput of "
        f"{percent(best.goodput.value)}, and its own {_count(job.checkpoint_interval_steps)} "
        f"lose {points(loses)}."
    )


# Shared parts


def _count(value: float) -> str:
    """A whole number as prose writes it."""
    return f"{value:,.0f}"


def _at_most(share: float) -> str:
    text = points(share)
    return text if text.startswith("less") else f"at most {text}"


def _steps(low: float, high: float, count: int) -> list[int]:
    grid = np.geomspace(max(low, 1.0), max(high, 2.0), count)
    return sorted({max(1, round(k)) for k in grid.tolist()})


def _line(job: Scenario, series: str, steps: Sequence[int], lowest: float) -> list[dict[str, Any]]:
    found = [(k, exact_goodput(job, k)) for k in steps]
    return [
        {"series": series, "steps": k, "goodput": value} for k, value in found if value >= lowest
    ]


def _points(job: Scenario, series: str, steps: Sequence[int]) -> list[dict[str, Any]]:
    sweep = sweep_intervals(job, steps, half_width=POINT_HALF_WIDTH)
    return [
        {"series": series, "steps": k, "goodput": e.value, "low": e.low, "high": e.high}
        for k, e in zip(sweep.steps, sweep.goodput(), strict=True)
    ]

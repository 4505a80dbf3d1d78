"""Whether the cost of saving saturates, and where the break really is: the first post's table 2.

Table 2 is always at the post's own parameters; sweeps, boundary, map and levers follow the
reader's job, taken to save asynchronously.
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
from checkpoint_tax.report.prose import Prose, percent, points
from checkpoint_tax.report.regime_charts import regime_chart
from checkpoint_tax.report.sweep_charts import loss_scale_chart, sweep_chart
from checkpoint_tax.report.tables import Column, Table, number, span, table
from checkpoint_tax.report.verdicts import VERDICT_CLASSES, verdict_counts, verdict_table
from checkpoint_tax.scenario import Scenario
from checkpoint_tax.simulate import sweep_intervals
from checkpoint_tax.studies import saturation_claims
from checkpoint_tax.studies.post_runs import post_scenario
from checkpoint_tax.studies.post_tables import printed_rows, simulate_cells, table_2_jobs
from checkpoint_tax.studies.regimes import (
    DRAIN,
    INTERIOR,
    THIS_JOB,
    boundary_frame,
    regime,
    regime_frame,
)
from checkpoint_tax.studies.saturation_claims import (
    interval_losses,
    largest_mtbf_s,
    restart_outgrows_n,
)
from checkpoint_tax.studies.shares import exact_shares, has_closed_form, shares
from checkpoint_tax.theory import boundary
from checkpoint_tax.units import GB_BYTES, HOUR_S, PER_CENT, TB_BYTES, duration_text

__all__ = [
    "CHAPTER",
    "answer",
    "boundary_rows_frame",
    "boundary_table",
    "claims",
    "conclusions_table",
    "drain_map",
    "jobs_table",
    "lever_frame",
    "lever_table",
    "loss_chart",
    "loss_frame",
    "loss_table",
    "mode_chart",
    "mode_frame",
    "mode_table",
    "table_2_frame",
    "table_2_table",
    "takeover_frame",
    "target_chart",
    "tax_map",
]

CHAPTER = "cost-saturates"

POINT_HALF_WIDTH = 3e-4
"""Precision of each simulated point [share of wall time]."""

BEST_HALF_WIDTH = 3e-4
"""Precision in the search for a best interval where no closed form holds [share]."""

MODES: Mapping[str, Mapping[str, object]] = {
    "wait": {"drain_mode": "wait", "target": "oldest"},
    "skip": {"drain_mode": "skip", "target": "oldest"},
    "overlap (2)": {"drain_mode": "overlap", "overlap_drains": 2, "target": "oldest"},
    "compressed": {"drain_mode": "compressed", "target": "oldest"},
}
"""What a save may do that falls due during a drain."""

TARGETS: Mapping[str, Mapping[str, object]] = {
    f"{target} version": {"drain_mode": "wait", "target": target}
    for target in ("oldest", "median", "newest")
}
"""Which version a restored checkpoint may hold, with saves that wait."""

STATE_BYTES = 1.2 * TB_BYTES
"""State that the post says its job saves."""

TAXES = (0.01, 0.03, 0.1, 0.3)
DRAINS_S = (10.0, 67.0, 210.0, 1000.0)
MAP_GPUS = (128.0, 1e6)
MAP_DRAINS_S = (1.0, 5000.0)
MAP_TAXES = (1e-3, 20.0)

MATTERS = 5e-4
"""Smallest difference of goodput that counts [share of wall time]: 0.05 points."""

DEPTH = 0.035
"""How far below the best a curve is drawn [share of wall time]."""

_SCALE_SIZES = (512, 262144)
_COLUMNS = {"goodput": "goodput", "rework": "rework", "tax": "tax"}


@functools.cache
def _claims() -> dict[str, Computed]:
    return saturation_claims.claims()


def claims() -> dict[str, Computed]:
    """What this chapter recomputed for each of its claims, for the posts' own parameters.

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


@functools.lru_cache(maxsize=128)
def _best(job: Scenario) -> BestInterval:
    return best_interval(job, half_width=BEST_HALF_WIDTH)


def _drained(job: Scenario, **changes: object) -> Scenario:
    return job.replace(save_kind="asynchronous", **changes)


# The post's table 2


def table_2_frame() -> pd.DataFrame:
    """Every cell of table 2: printed, exact, simulated, and what one run would print.

    Returns
    -------
    pandas.DataFrame
        One row a cell, shares in percent, in the post's own mode.
    """
    rows = []
    for column, name in _COLUMNS.items():
        for steps in table_2_jobs():
            claim_id = f"tax.t2.k{steps}.{column}"
            judged, simulated = _ledger().loc[claim_id], _cells().loc[claim_id]
            rows.append(
                {
                    "share": name,
                    "interval_steps": steps,
                    "printed": judged["value"],
                    "exact": judged["computed"],
                    "simulated": simulated["value"],
                    "simulated_low": simulated["low"],
                    "simulated_high": simulated["high"],
                    "one_run_low": judged["low"],
                    "one_run_high": judged["high"],
                    "verdict": judged["verdict"],
                }
            )
    return pd.DataFrame(rows)


def table_2_table() -> Table:
    """Table 2, recomputed.

    Returns
    -------
    Table
    """
    frame = table_2_frame()
    inside = int((frame["verdict"] != "differs").sum())
    gap = (frame["exact"] - frame["printed"]).where(frame["share"] == "goodput")
    return table(
        frame.assign(
            one_run_range=[
                span(low, high, 2)
                for low, high in zip(frame["one_run_low"], frame["one_run_high"], strict=True)
            ]
        ),
        {
            "interval_steps": Column("interval", "steps", 0),
            "share": Column("share"),
            "printed": Column("printed", "%", 2),
            "exact": Column("exact", "%", 2),
            "simulated": Column("simulated", "%", 3, low="simulated_low", high="simulated_high"),
            "one_run_range": Column("one run would print", "%"),
            "verdict": Column("verdict"),
        },
        name="table-2",
        caption=f"The post's sweep at {post_scenario().n_gpus:,} GPUs, in its own mode. It prints "
        f"{gap.min():.2f} to {gap.max():.2f} points less goodput than the exact result, always to "
        f"the same side, since all rows met the same failures; {inside} of {len(frame)} cells are "
        "within what one run prints.",
        classes={"verdict": VERDICT_CLASSES},
    )


# The same sweep under every mode and target


def mode_frame(job: Scenario) -> pd.DataFrame:
    """Goodput of one job at a few intervals, under every mode and target.

    Parameters
    ----------
    job : Scenario
        Taken to save asynchronously.

    Returns
    -------
    pandas.DataFrame
        One row an interval [steps] and a last one with the best interval of each column; a column
        a mode or target [share of wall time], ``NAME best_steps`` [steps] in the last row only,
        ``speed`` how many times faster than its bandwidth a compressed drain is [1], and ``rate``
        the bandwidth that takes for the post's state [B/s].
    """
    drain = job.drain_steps
    rows: list[dict[str, Any]] = []
    schemes = {**MODES, **{name: TARGETS[name] for name in list(TARGETS)[1:]}}
    for steps in _shown_steps(job):
        row: dict[str, Any] = {"interval": f"{steps:,}", "steps": steps}
        for name, changes in schemes.items():
            row[name] = shares(_drained(job, **changes), steps)["goodput"].value
        row["speed"] = max(1.0, drain / steps)
        row["rate"] = STATE_BYTES / (min(steps, drain) * job.step_s) if drain > 0.0 else math.nan
        rows.append(row)
    last: dict[str, Any] = {"interval": "best", "steps": math.nan, "speed": math.nan}
    for name, changes in schemes.items():
        best = _best(_drained(job, **changes))
        last[name] = best.goodput.value
        last[f"{name} best_steps"] = best.steps
    rows.append(last)
    return pd.DataFrame(rows)


def _shown_steps(job: Scenario) -> list[int]:
    """Table 2's own intervals for the post's drain; else like it around one drain and the best."""
    drain = job.drain_steps
    if math.isclose(drain, post_scenario().drain_steps):
        return sorted({*printed_rows(2), _best(_drained(job, **MODES["wait"])).steps})
    best = _best(_drained(job, **MODES["wait"])).steps
    around = [drain / 10, drain / 3, drain / 1.5, drain, 2 * drain, best / 2, best, 2 * best]
    return sorted({max(1, round(k)) for k in around})


def mode_table(job: Scenario) -> Table:
    """Goodput of one job under every mode and target.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    Table
    """
    frame = mode_frame(job)
    schemes = [name for name in (*MODES, *TARGETS) if name in frame]
    shown = frame.assign(
        row=["best" if label == "best" else "" for label in frame["interval"]],
        faster=[f"{number(value, 1)}\u00a0×" if value > 1.0 else "" for value in frame["speed"]],
        **{
            f"{name} at": [
                "" if math.isnan(steps) else f"at {number(steps, 0)}"
                for steps in frame[f"{name} best_steps"]
            ]
            for name in schemes
        },
    )
    columns = {"steps": Column("interval", "steps", 0, below="row")}
    columns |= {
        name: Column(name, "%", 2, scale=1.0 / PER_CENT, below=f"{name} at") for name in schemes
    }
    if (frame["speed"] > 1.0).any():
        columns["faster"] = Column("drain runs, compressed")
        post = post_scenario()
        if (job.drain_s, job.step_s) == (post.drain_s, post.step_s):
            shown["rate_gb"] = shown["rate"] / GB_BYTES
            columns["rate_gb"] = Column(f"the post's {STATE_BYTES / TB_BYTES:g} TB at", "GB/s", 0)
    waits = _best(_drained(job, **MODES["wait"]))
    return table(
        shown,
        columns,
        name="modes",
        caption=f"Goodput of this job ({job.n_gpus:,} GPUs, a drain of "
        f"{number(job.drain_steps, 1 if job.drain_steps < 10 else 0)} steps) by what a save does "
        "that falls due during a drain, and by the version restored. If saves wait, "
        f"{_count(waits.steps)} steps are best. Compressed drains run faster than their "
        "bandwidth at no charge.",
    )


def mode_chart(job: Scenario) -> altair.LayerChart:
    """Goodput against the interval under every mode.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    altair.LayerChart
    """
    waits, speeds_up = (_best(_drained(job, **MODES[m])) for m in ("wait", "compressed"))
    gap = speeds_up.goodput.value - waits.goodput.value
    found = (
        f"goodput rises below one drain only if drains speed up for free: {points(gap)} by "
        f"{_steps_text(speeds_up.steps)}"
        if speeds_up.steps < job.drain_steps
        else "a drain is so short that its mode does not matter"
    )
    return _sweep(
        job,
        MODES,
        legend="mode",
        caption=f"This job at {job.n_gpus:,} GPUs, oldest version restored: {found}. If saves wait "
        f"the best interval is {_steps_text(waits.steps)}. {_how_drawn(job)}",
        description="Goodput in percent against the interval in steps, on a logarithmic axis, for "
        "four modes. Above one drain the four curves are one. Below, compressed rises towards "
        "short intervals, wait is level, overlap is level and lower, skip is a saw.",
        marks=_printed_marks(job),
    )


def target_chart(job: Scenario) -> altair.LayerChart:
    """Goodput against the interval for every version restored, with saves that wait.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    altair.LayerChart
    """
    best = {name: _best(_drained(job, **changes)) for name, changes in TARGETS.items()}
    oldest, newest = best["oldest version"], best["newest version"]
    gain = newest.goodput.value - oldest.goodput.value
    return _sweep(
        job,
        TARGETS,
        legend="restored",
        caption=f"If saves wait, restoring the newest version of a drain instead of the oldest is "
        f"worth {points(gain)}, and does not move the best interval "
        f"({_steps_text(oldest.steps)} and {_count(newest.steps)}). {_how_drawn(job)}",
        description="Goodput in percent against the interval in steps, on a logarithmic axis, for "
        "three restored versions: three curves of one shape, newest above median above oldest, "
        "each level below one drain and with its top at the same interval.",
        marks=[],
    )


def _how_drawn(job: Scenario) -> str:
    drawn = "Lines: closed form; dots" if has_closed_form(job) else "Dots"
    return f"{drawn}: simulated with common random numbers, 95 % intervals."


def _printed_marks(job: Scenario) -> list[dict[str, Any]]:
    if job.replace(drain_mode="compressed") != post_scenario():
        return []
    return [
        {
            "series": "compressed",
            "steps": steps,
            "goodput": row["goodput_percent"] * PER_CENT,
            "mark": "printed in the post",
        }
        for steps, row in printed_rows(2).items()
    ]


def _sweep(
    job: Scenario,
    schemes: Mapping[str, Mapping[str, object]],
    *,
    legend: str,
    caption: str,
    description: str,
    marks: list[dict[str, Any]],
) -> altair.LayerChart:
    few, many = _sweep_steps(job)
    lines: list[dict[str, Any]] = []
    dots: list[dict[str, Any]] = []
    for name, changes in schemes.items():
        scheme = _drained(job, **changes)
        lowest = _best(scheme).goodput.value - DEPTH
        if has_closed_form(job):
            exact = [(k, exact_goodput(scheme, k)) for k in many]
            lines += [
                {"series": name, "steps": k, "goodput": value}
                for k, value in exact
                if value >= lowest
            ]
        sweep = sweep_intervals(scheme, few, half_width=POINT_HALF_WIDTH)
        dots += [
            {"series": name, "steps": k, "goodput": e.value, "low": e.low, "high": e.high}
            for k, e in zip(sweep.steps, sweep.goodput(), strict=True)
            if e.low >= lowest
        ]
    columns = ["series", "steps", "goodput"]
    return sweep_chart(
        pd.DataFrame(lines, columns=columns),
        pd.DataFrame(dots, columns=[*columns, "low", "high"]),
        pd.DataFrame(marks, columns=[*columns, "mark"]),
        legend=legend,
        caption=caption,
        description=description,
    )


def _sweep_steps(job: Scenario) -> tuple[list[int], list[int]]:
    """A few intervals to simulate and many for the lines [steps]."""
    best = _best(_drained(job, **MODES["wait"])).steps
    drain = max(1, round(job.drain_steps))
    low, high = min(drain, best) / 30.0, max(4.0 * drain, 8.0 * best)
    few = _geometric(low, high, 17)
    many = set(_geometric(low, high, 100))
    if drain <= 120:  # a drain in whole intervals makes teeth, and each one shows
        many |= set(range(1, drain + 1))
    return few, sorted(many | {drain, best})


def _geometric(low: float, high: float, count: int) -> list[int]:
    grid = np.geomspace(max(low, 1.0), max(high, 2.0), count)
    return sorted({max(1, round(k)) for k in grid.tolist()})


# Where the break is


def boundary_rows_frame() -> pd.DataFrame:
    """The boundary test for the post's five sizes, with saves that wait.

    Returns
    -------
    pandas.DataFrame
        One row a size: MTBF and the largest one for which one drain after the other is best [s],
        exactly and to first order; best interval and drain [steps]; what one drain after the other
        loses [share of wall time].
    """
    rows = []
    for n_gpus in printed_rows(1):
        job = post_scenario(n_gpus=n_gpus, drain_mode="wait")
        best = _best(job)
        drain = round(job.drain_steps)
        rows.append(
            {
                "n_gpus": n_gpus,
                "job_mtbf_s": job.job_mtbf_s,
                "largest_s": largest_mtbf_s(job),
                "first_order_s": float(
                    boundary.largest_mtbf_first_order_s(job.drain_s, job.drain_tax)
                ),
                "best_steps": best.steps,
                "best_low": best.practical_steps[0],
                "best_high": best.practical_steps[1],
                "drain_steps": drain,
                "drain_loses": best.goodput.value - exact_goodput(job, drain),
                "regime": regime(job),
            }
        )
    return pd.DataFrame(rows)


def boundary_table() -> Table:
    """The boundary test for the post's five sizes.

    Returns
    -------
    Table
    """
    frame = boundary_rows_frame()
    job = post_scenario()
    smallest = int(boundary.smallest_n_gpus(job.drain_s, job.drain_tax, job.gpu_mtbf_h * HOUR_S))
    row = frame.iloc[0]
    return table(
        frame.assign(
            as_good=[
                span(low, high, 0)
                for low, high in zip(frame["best_low"], frame["best_high"], strict=True)
            ]
        ),
        {
            "n_gpus": Column("GPUs", digits=0),
            "job_mtbf_s": Column("MTBF", "s", 0),
            "best_steps": Column("best", "steps", 0),
            "as_good": Column("as good"),
            "drain_loses": Column("one drain loses", "points", 2, scale=1.0 / PER_CENT),
            "regime": Column("best is"),
        },
        name="boundary",
        caption="If saves wait, one drain after the other is best where the job fails at least "
        f"every {_count(row['largest_s'])} s (to first order L/2a = "
        f"{_count(row['first_order_s'])} s): with the post's numbers from {smallest:,} GPUs on.",
    )


def drain_map(job: Scenario) -> altair.LayerChart:
    """Map of the two regimes over size and length of a drain.

    Parameters
    ----------
    job : Scenario
        Its failure rate sets the scale of sizes, its tax one of the lines.

    Returns
    -------
    altair.LayerChart
    """
    taxes = _with_own(TAXES, job.drain_tax)
    lines = boundary_frame(
        job.gpu_mtbf_h,
        vertical="drain_s",
        fixed=taxes,
        first_order=job.drain_tax,
        n_range=MAP_GPUS,
    )
    lines["series"] = [f"{float(s):.3%}".rstrip("0%").rstrip(".") + " %" for s in lines["series"]]
    frame = regime_frame(job)
    lines = _between(lines, "drain_s", MAP_DRAINS_S)
    return regime_chart(
        lines,
        _on_map(frame, "drain_s", MAP_DRAINS_S),
        vertical="drain_s",
        size_title=_size_title(job),
        sizes=MAP_GPUS,
        heights=MAP_DRAINS_S,
        regimes=(DRAIN, INTERIOR),
        legend="tax",
        caption=f"Above its line a job does best with one drain after the other; "
        f"{_regime_counts(frame)} Jobs stand where their time between failures puts them, whatever "
        "their own size.",
        description="Length of a drain in seconds against the number of GPUs, both logarithmic. "
        "Falling boundary lines, one for each tax, lower for smaller taxes; above a line one drain "
        "after the other is best. Published jobs are marked; nearly all lie far below the lines.",
    )


def tax_map(job: Scenario) -> altair.LayerChart:
    """Map of the two regimes over size and tax.

    Parameters
    ----------
    job : Scenario
        Its failure rate sets the scale of sizes, its drain one of the lines.

    Returns
    -------
    altair.LayerChart
    """
    drains = _with_own(DRAINS_S, job.drain_s) if job.drain_s > 0.0 else DRAINS_S
    lines = boundary_frame(
        job.gpu_mtbf_h,
        vertical="drain_tax",
        fixed=drains,
        first_order=job.drain_s,
        n_range=MAP_GPUS,
    )
    lines = _between(lines, "drain_tax", MAP_TAXES)
    lines["series"] = [f"{float(s):g} s" for s in lines["series"]]
    frame = regime_frame(job)
    others = frame[frame["job"] != THIS_JOB]
    far = others.iloc[int(others["drain_tax"].to_numpy().argmax())]
    return regime_chart(
        lines,
        _on_map(frame, "drain_tax", MAP_TAXES),
        vertical="drain_tax",
        size_title=_size_title(job),
        sizes=MAP_GPUS,
        heights=MAP_TAXES,
        regimes=(DRAIN, INTERIOR),
        legend="drain",
        caption="Below its line a job does best with one drain after the other: a small tax pushes "
        f"the boundary towards smaller jobs. A tax is not always small: “{far['job']}” measured "
        f"{percent(far['drain_tax'], 0)}.",
        description="Tax under a drain against the number of GPUs, both logarithmic. Rising "
        "boundary lines, one for each length of a drain, higher for longer drains; below a line "
        "one drain after the other is best. Published jobs are marked.",
    )


def _size_title(job: Scenario) -> str:
    return f"GPUs, each failing once in {job.gpu_mtbf_h:,.0f} h of up-time"


def _between(lines: pd.DataFrame, column: str, span: tuple[float, float]) -> pd.DataFrame:
    """The lines a little beyond the map, which clips them."""
    return lines[lines[column].between(span[0] / 2.0, span[1] * 2.0)]


def _with_own(values: Sequence[float], own: float) -> tuple[float, ...]:
    """The values with the one nearest to the reader's own replaced by it."""
    if own <= 0.0:
        return tuple(values)
    nearest = min(values, key=lambda value: abs(math.log(value / own)))
    return tuple(sorted(own if value == nearest else value for value in values))


def _on_map(frame: pd.DataFrame, vertical: str, span: tuple[float, float]) -> pd.DataFrame:
    """The jobs that lie on a map; labels of jobs that share a place would cover each other."""
    inside = frame[
        frame[vertical].between(*span) & frame["n_gpus"].between(MAP_GPUS[0], MAP_GPUS[1])
    ].copy()
    seen: list[tuple[float, float]] = []
    labels = []
    for row in inside.to_dict("records"):
        place = (math.log(row["n_gpus"]), math.log(row[vertical]))
        crowded = any(abs(place[0] - x) < 1.0 and abs(place[1] - y) < 0.3 for x, y in seen)
        labels.append("" if crowded else row["label"])
        seen.append(place)
    inside["label"] = labels
    return inside.drop(columns=["best_steps", "best_s", "largest_mtbf_h", "margin"])


def _regime_counts(frame: pd.DataFrame) -> str:
    at = frame[frame["regime"] == DRAIN]
    if not len(at):
        return f"none of the {len(frame)} jobs does."
    return f"{len(at)} of the {len(frame)} jobs do ({'; '.join(at['job'])})."


def jobs_table(job: Scenario) -> Table:
    """The jobs of the maps, with what had to be assumed.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    Table
    """
    frame = regime_frame(job)
    return table(
        frame.assign(
            mtbf=[_unbroken(HOUR_S * value) for value in frame["job_mtbf_h"]],
            best=[_unbroken(value) for value in frame["best_s"]],
            drain=[_unbroken(value) for value in frame["drain_s"]],
            ratio=[number(value, 1 if value < 100.0 else 0) for value in frame["margin"]],
            missing=[f"assumed: {text}" for text in frame["assumed"]],
        ),
        {
            "job": Column("job", below="missing"),
            "own_n_gpus": Column("GPUs", digits=0),
            "mtbf": Column("MTBF"),
            "drain": Column("drain"),
            "drain_tax": Column("tax", "%", 0, scale=1.0 / PER_CENT),
            "ratio": Column("MTBF over boundary"),
            "best": Column("best interval"),
            "regime": Column("best is"),
        },
        name="published-jobs",
        caption="The jobs of the maps, as if all saved asynchronously and saves waited: "
        f"{_regime_counts(frame)} A job whose MTBF is below the boundary's (ratio below 1) does "
        "best with one drain after the other.",
    )


def _unbroken(time_s: float) -> str:
    return duration_text(time_s).replace(" ", "\u00a0")


# Restart against rework


def _scale_schemes(job: Scenario) -> dict[str, tuple[Scenario, bool]]:
    """Ways to save over the size of the job, and whether each is at its best interval."""
    own = job.replace(gpu_mtbf_h=job.gpu_mtbf_h)
    return {
        "post's mode, 10 steps": (post_scenario(checkpoint_interval_steps=10), False),
        "saves wait, oldest version": (_drained(own, **MODES["wait"]), True),
        "saves wait, newest version": (_drained(own, **TARGETS["newest version"]), True),
    }


def _losses_at(scheme: Scenario, best: bool) -> dict[str, float]:
    return interval_losses(scheme) if best else exact_shares(scheme)


def loss_frame(job: Scenario) -> pd.DataFrame:
    """Losses over the size of the job, in the post's mode and if saves wait.

    Parameters
    ----------
    job : Scenario
        Taken with exponential failures.

    Returns
    -------
    pandas.DataFrame
        Columns ``panel``, ``n_gpus``, ``loss`` (restart, rework or tax) and ``share`` [1].
    """
    rows = []
    exponential = job.replace(failure_shape=1.0, world={})
    for panel, (scheme, best) in _scale_schemes(exponential).items():
        part_h = scheme.gpu_mtbf_h
        largest = min(_SCALE_SIZES[1], int(part_h * HOUR_S / scheme.step_s))
        for n_gpus in _geometric(_SCALE_SIZES[0], largest, 28):
            found = _losses_at(scheme.replace(n_gpus=n_gpus, gpu_mtbf_h=part_h), best)
            rows += [
                {"panel": panel, "n_gpus": n_gpus, "loss": loss, "share": found[name]}
                for loss, name in (("restart", "restart"), ("rework", "rework"), ("saves", "save"))
                if found[name] > 1e-5
            ]
    return pd.DataFrame(rows)


def takeover_frame(job: Scenario) -> pd.DataFrame:
    """Size from which on restarts cost more than saves and rework together.

    Parameters
    ----------
    job : Scenario
        Taken with exponential failures.

    Returns
    -------
    pandas.DataFrame
        One row a panel: ``n_gpus`` of the takeover (missing if there is none), and the three
        shares at the post's 16,384 and 8,192 GPUs.
    """
    rows = []
    exponential = job.replace(failure_shape=1.0, world={})
    for panel, (scheme, best) in _scale_schemes(exponential).items():
        found = restart_outgrows_n(scheme, functools.partial(_losses_at, best=best))
        rows.append({"panel": panel, "n_gpus": math.nan if found is None else float(found)})
    return pd.DataFrame(rows)


def loss_chart(job: Scenario) -> altair.Chart:
    """Losses over the size of the job.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    altair.Chart
    """
    takeovers = takeover_frame(job)
    texts = [
        f"{row['panel']}: "
        + ("at no size" if math.isnan(row["n_gpus"]) else f"from {row['n_gpus']:,.0f} GPUs on")
        for row in takeovers.to_dict("records")
    ]
    return loss_scale_chart(
        loss_frame(job),
        panels=list(takeovers["panel"]),
        caption="Restarts cost more than saves and rework together "
        f"({'; '.join(texts)}). The first panel is the post's job, the others are this one at its "
        "best interval for each size.",
        description="Share of time lost to restarts, rework and saves against the number of GPUs, "
        "both logarithmic, in three panels. All losses rise with size; the line of restarts is the "
        "steepest and overtakes the others late.",
    )


def loss_table(job: Scenario) -> Table:
    """Losses at the post's two sizes, and where restarts take over.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    Table
    """
    exponential = job.replace(failure_shape=1.0, world={})
    rows = []
    takeover = dict(zip(*(takeover_frame(job)[c] for c in ("panel", "n_gpus")), strict=True))
    for panel, (scheme, best) in _scale_schemes(exponential).items():
        for n_gpus in (8192, 16384, 65536):
            part_h = scheme.gpu_mtbf_h
            if part_h * HOUR_S / n_gpus < scheme.step_s:
                continue
            found = _losses_at(scheme.replace(n_gpus=n_gpus, gpu_mtbf_h=part_h), best)
            rows.append(
                {
                    "panel": panel,
                    "n_gpus": n_gpus,
                    **found,
                    "takeover": "none"
                    if math.isnan(takeover[panel])
                    else f"{takeover[panel]:,.0f} GPUs",
                }
            )
    scale = 1.0 / PER_CENT
    return table(
        pd.DataFrame(rows),
        {
            "panel": Column("saves"),
            "n_gpus": Column("GPUs", digits=0),
            "restart": Column("restart", "%", 2, scale=scale),
            "rework": Column("rework", "%", 2, scale=scale),
            "save": Column("tax", "%", 2, scale=scale),
            "takeover": Column("restarts outgrow both from"),
        },
        name="losses",
        caption="What is lost, and the size from which on restarts cost more than saves and rework "
        "together.",
    )


def lever_frame(job: Scenario) -> pd.DataFrame:
    """What halving each cost is worth to one job, at the best interval before and after.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    pandas.DataFrame
        One row a lever: ``goodput`` after [1], ``gain`` [share of wall time] and ``best_steps``.
    """
    parts = {f"{name}_s": seconds / 2.0 for name, seconds in job.restart_parts.items()}
    levers: dict[str, dict[str, object]] = {
        "restart time, half": dict(parts),
        "failure rate, half": {"gpu_mtbf_h": 2.0 * job.gpu_mtbf_h},
    }
    if job.save_kind == "blocking":
        levers["time a save stops training, half"] = {"blocking_s": job.blocking_s / 2.0}
        levers["saves in the background instead"] = {"save_kind": "asynchronous"}
    else:
        levers["drain, half as long"] = {"drain_s": job.drain_s / 2.0}
        levers["tax under a drain, half"] = {"drain_tax": job.drain_tax / 2.0}
        if job.target != "newest" and job.drain_mode != "overlap":
            levers["newest version restored"] = {"target": "newest"}
    if job.idle_s > 0.0:
        levers["wait for spares, half"] = {"idle_s": job.idle_s / 2.0}
    base = _best(job)
    here = shares(job)["goodput"].value
    rows: list[dict[str, Any]] = [
        {
            "lever": f"interval: {base.steps:,} steps instead of {job.checkpoint_interval_steps:,}",
            "goodput": base.goodput.value,
            # Two simulations of one interval would differ by chance.
            "gain": 0.0
            if base.steps == job.checkpoint_interval_steps
            else base.goodput.value - here,
            "best_steps": base.steps,
        }
    ]
    for name, changes in levers.items():
        best = _best(job.replace(**changes))
        rows.append(
            {
                "lever": name,
                "goodput": best.goodput.value,
                "gain": best.goodput.value - base.goodput.value,
                "best_steps": best.steps,
            }
        )
    return pd.DataFrame(rows)


def lever_table(job: Scenario) -> Table:
    """What halving each cost is worth to one job.

    Parameters
    ----------
    job : Scenario

    Returns
    -------
    Table
    """
    frame = lever_frame(job)
    top = frame.iloc[int(frame["gain"].to_numpy().argmax())]
    return table(
        frame,
        {
            "lever": Column("lever"),
            "best_steps": Column("best interval", "steps", 0),
            "goodput": Column("goodput", "%", 2, scale=1.0 / PER_CENT),
            "gain": Column("gain", "points", 2, scale=1.0 / PER_CENT),
        },
        name="levers",
        caption=f"This job, {job.save_kind} saves: what each change alone is worth, with the "
        f"interval at its best before and after. Most: {top['lever']}, {points(top['gain'])}.",
    )


# Conclusions and answer


def conclusions_table() -> Table:
    """What the posts conclude from table 2, with verdicts and conditions.

    Returns
    -------
    Table
    """
    own = _ledger()
    texts = own[own["kind"] == "conclusion"]
    return verdict_table(
        texts.reset_index(drop=True),
        name="conclusions",
        caption=f"The conclusions: {verdict_counts(texts)}. With the cells of table 2 and the "
        f"figures in the text the chapter's {len(own)} claims are: {verdict_counts(own)}.",
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
    post = post_scenario()
    waiting = post.replace(drain_mode="wait")
    waits = _best(waiting)
    drain = round(post.drain_steps)
    smallest = int(boundary.smallest_n_gpus(post.drain_s, post.drain_tax, post.gpu_mtbf_h * HOUR_S))
    takeover = restart_outgrows_n(waiting)
    first = (
        "**The tax saturates, but what the post gains below one drain it gains from a drain that "
        f"speeds up for free:** if saves wait for the drain, every interval up to {drain} steps is "
        f"the same {percent(exact_goodput(waiting, drain))}, and {waits.steps} steps are best with "
        f"{percent(waits.goodput.value)}."
    )
    second = (
        f"The break is real where the job fails at least every "
        f"{_count(largest_mtbf_s(post))} s, which with the post's numbers begins at "
        f"{smallest:,} GPUs: not at its {post.n_gpus:,}, but at its {max(printed_rows(1)):,}; and "
        f"restarts outgrow saves and rework from {takeover:,} GPUs on."
    )
    return Prose(f"{first} {second} {_third_sentence(job)}")


def _third_sentence(job: Scenario) -> str:
    own = _drained(job, drain_mode="wait")
    best = _best(own)
    low, high = best.practical_steps
    around = f"{_count(low)} to {_count(high)} are as good" if low < high else "no other is"
    who = f"For this job ({job.n_gpus:,} GPUs, one failure in {duration_text(job.job_mtbf_s)}"
    if job.save_kind == "blocking":
        who += ", blocking saves taken into the background"
    who += ")"
    saves = (
        f"the best interval is {_steps_text(best.steps)} ({around}) with a goodput of "
        f"{percent(best.goodput.value)}"
    )
    if job.drain_s == 0.0:
        return f"{who} a save has no drain and there is no boundary; {saves}."
    largest_s = largest_mtbf_s(own)
    if math.isinf(largest_s):
        return f"{who} a drain costs nothing, so one after the other is best; {saves}."
    shape = "" if has_closed_form(job) else " for exponential failures"
    ratio = job.job_mtbf_s / largest_s
    boundary_text = f"the boundary{shape} lies at one failure in {duration_text(largest_s)}"
    if ratio <= 1.0:
        return (
            f"{who} one drain after the other is best: {boundary_text}, and it fails more often; "
            f"{saves}."
        )
    here = shares(own, max(1, math.ceil(own.drain_steps)))["goodput"].value
    loss = max(0.0, best.goodput.value - here)
    return (
        f"{who} one drain after the other is not best but loses {points(loss)}: {boundary_text}, "
        f"{_times(ratio)} more often than it fails; {saves}."
    )


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio < 10.0 else f"{_count(ratio)} times"


def _count(value: float) -> str:
    """A whole number as prose writes it."""
    return f"{value:,.0f}"


def _steps_text(steps: float) -> str:
    return "1 step" if steps == 1 else f"{_count(steps)} steps"

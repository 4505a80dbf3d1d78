"""Which interval balances the cost of saves against the cost of failures.

The second post's worked example, the formulas beside the exact optimum, and the same for the
reader's own job.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import altair
import numpy as np
import pandas as pd

from checkpoint_tax.ledger import Computed, ledger_frame, load_facts
from checkpoint_tax.plan import BestInterval, best_interval, exact_goodput
from checkpoint_tax.report.interval_charts import flatness_chart as draw_flatness
from checkpoint_tax.report.interval_charts import interval_error_chart as draw_interval_error
from checkpoint_tax.report.interval_charts import loss_chart as draw_losses
from checkpoint_tax.report.prose import Prose, listed, percent, points
from checkpoint_tax.report.tables import Column, Table, table
from checkpoint_tax.report.verdicts import verdict_counts, verdict_table
from checkpoint_tax.scenario import Scenario, load_scenario, save_cycle
from checkpoint_tax.simulate import Estimate, simulate, sweep_intervals
from checkpoint_tax.studies import interval_claims
from checkpoint_tax.theory import availability, daly, ettr, nonblocking, renewal, waste, young
from checkpoint_tax.units import DAY_S, HOUR_S, MINUTE_S, duration_text

__all__ = [
    "CHAPTER",
    "answer",
    "asynchronous_frame",
    "asynchronous_table",
    "claims",
    "cost_s",
    "cross_check_frame",
    "cross_check_table",
    "example_frame",
    "example_table",
    "flatness_chart",
    "flatness_frame",
    "interval_error_chart",
    "interval_error_frame",
    "interval_error_table",
    "job_frame",
    "job_table",
    "loss_chart",
    "loss_frame",
    "loss_table",
    "practical_frame",
    "practical_table",
    "ratio_frame",
    "ratio_table",
    "verdicts",
]

CHAPTER = "interval-mathematics"

PRACTICAL_POINTS = 0.05
"""Goodput difference that does not matter [percentage points]."""

ERROR_RATIOS = (0.001, 0.01, 0.1, 0.5, 1.0)
"""C/M at which the formulas are tabulated [1]."""

SIMULATED_HALF_WIDTH = 1e-4
"""Precision of each simulated goodput [share of wall time]."""

CATEGORIES: Mapping[str, str] = {
    "save": "saves",
    "rework": "work lost and made again",
    "restart": "restarts",
    "idle": "waiting for a spare or a repair",
}

_FORMULAS = {
    "Young": young.interval_s,
    "Daly, first order": daly.first_order_interval_s,
    "Daly, higher order": daly.higher_order_interval_s,
}
_BLOOM_RESTART_S = 1800.0


def claims() -> dict[str, Computed]:
    """What this chapter recomputed for each of its claims, for the posts' own parameters.

    Returns
    -------
    dict of str to Computed
        By claim id, in the claims' units.
    """
    return interval_claims.claims()


def cost_s(job: Scenario) -> float:
    """What one save costs in the formulas' terms.

    Parameters
    ----------
    job : Scenario
        The job.

    Returns
    -------
    float
        Wall time that one save adds [s]: the stop of a blocking save; of an asynchronous one its
        staging and the tax on one drain, ``staging_s + drain_tax * drain_s``.
    """
    if job.save_kind == "blocking":
        return job.blocking_s
    return job.staging_s + job.drain_tax * job.drain_s


# The worked example


def example_frame() -> pd.DataFrame:
    """The second post's example: formula, exact result and simulation side by side.

    Returns
    -------
    pandas.DataFrame
        One row a case; times in s, shares of wall time as pure numbers: ``formula_waste`` at
        Young's interval, ``exact_waste`` at the exact best one, whose goodput was also simulated.
    """
    rows = []
    for case, job in interval_claims.example_jobs().items():
        mtbf_s, stop_s, restart_s = job.job_mtbf_s, job.blocking_s, job.restart_s
        young_s = float(young.interval_s(stop_s, mtbf_s))
        best_s = float(renewal.best_work_s(stop_s, mtbf_s))
        goodput = float(renewal.goodput(best_s, stop_s, mtbf_s, restart_s))
        at_young = float(renewal.goodput(young_s, stop_s, mtbf_s, restart_s))
        simulated = _simulated_goodput(
            job.replace(checkpoint_interval_steps=round(best_s / job.step_s))
        )
        rows.append(
            {
                "case": case,
                "blocking_s": stop_s,
                "restart_s": restart_s,
                "young_s": young_s,
                "best_s": best_s,
                "formula_waste": float(waste.best_first_order(stop_s, mtbf_s, restart_s)),
                "exact_waste": 1.0 - goodput,
                "goodput": goodput,
                "simulated": simulated.value,
                "simulated_low": simulated.low,
                "simulated_high": simulated.high,
                "regret": goodput - at_young,
            }
        )
    return pd.DataFrame(rows)


@functools.lru_cache(maxsize=32)
def _simulated_goodput(job: Scenario) -> Estimate:
    return simulate(job, half_width=SIMULATED_HALF_WIDTH).goodput


def example_table() -> Table:
    """The worked example as a table.

    Returns
    -------
    Table
    """
    frame = example_frame()
    excess = frame["formula_waste"] - frame["exact_waste"]
    covered = (frame["simulated_low"] <= frame["goodput"]) & (
        frame["goodput"] <= frame["simulated_high"]
    )
    return table(
        frame,
        {
            "case": Column("case"),
            "blocking_s": Column("save C", "s", 0),
            "restart_s": Column("restart R", "s", 0),
            "young_s": Column("Young", "s", 0),
            "best_s": Column("exact best", "s", 0),
            "formula_waste": Column("waste, formula", "%", 2, scale=100),
            "exact_waste": Column("waste, exact", "%", 2, scale=100),
            "goodput": Column("goodput, exact", "%", 3, scale=100),
            "simulated": Column(
                "goodput, simulated", "%", 3, 100, "simulated_low", "simulated_high"
            ),
        },
        name="example",
        caption=f"The example at a mean time between failures of 12 h: the formula's waste is "
        f"{100 * excess.min():.2f} to {100 * excess.max():.2f} points above the exact one, its "
        f"interval's goodput {points(frame['regret'].max())} below the best at worst, and "
        f"{covered.sum()} of {len(frame)} simulated 95 % intervals hold the exact goodput.",
    )


# The formulas against the exact optimum


def interval_error_frame(ratios: Sequence[float] = ERROR_RATIOS) -> pd.DataFrame:
    """Relative error of each formula's interval, by C/M.

    Parameters
    ----------
    ratios : sequence of float
        C/M [1], each above 0.

    Returns
    -------
    pandas.DataFrame
        Columns ``cost_over_mtbf`` [1], ``exact_over_mtbf`` [1] and, for each formula, its error
        as a share of the exact best interval.
    """
    costs = np.asarray(ratios, dtype=float)
    exact = renewal.best_work_s(costs, 1.0)
    errors = {name: formula(costs, 1.0) / exact - 1.0 for name, formula in _FORMULAS.items()}
    return pd.DataFrame({"cost_over_mtbf": costs, "exact_over_mtbf": exact, **errors})


def interval_error_table() -> Table:
    """The interval error as a table.

    Returns
    -------
    Table
    """
    columns = {
        "cost_over_mtbf": Column("C/M", digits=3),
        "exact_over_mtbf": Column("exact best interval over M", digits=4),
    }
    columns |= {name: Column(name, "% off", 3, scale=100) for name in _FORMULAS}
    return table(
        interval_error_frame(),
        columns,
        name="interval-error",
        caption="How much longer (+) or shorter (−) each formula's interval is than the exact one.",
    )


def interval_error_chart() -> altair.Chart:
    """The interval error as a chart.

    Returns
    -------
    altair.Chart
    """
    frame = interval_error_frame([float(x) for x in np.geomspace(1e-3, 1.0, 61)])
    frame["cost_over_mtbf"] = frame["cost_over_mtbf"].round(9)
    long = frame.drop(columns="exact_over_mtbf").melt(
        "cost_over_mtbf", var_name="formula", value_name="error"
    )
    return draw_interval_error(long.round({"error": 6}))


# How flat the optimum is


def practical_frame(job: Scenario) -> pd.DataFrame:
    """Best interval and the range as good as it: the example's cases and the reader's job.

    Parameters
    ----------
    job : Scenario
        The reader's job.

    Returns
    -------
    pandas.DataFrame
        One row a job; intervals in s, ``span`` is the longest over the shortest good interval.
    """
    rows = []
    for case, one in _cases(job).items():
        best = _best(one)
        low, high = best.practical_steps
        rows.append(
            {
                "case": case,
                "cost_s": cost_s(one),
                "mtbf_h": one.job_mtbf_s / HOUR_S,
                "best_s": best.steps * one.step_s,
                "low_s": low * one.step_s,
                "high_s": high * one.step_s,
                "span": high / low,
                "goodput": best.goodput.value,
            }
        )
    return pd.DataFrame(rows)


def practical_table(job: Scenario) -> Table:
    """Best intervals with their ranges as a table.

    Parameters
    ----------
    job : Scenario
        The reader's job.

    Returns
    -------
    Table
    """
    frame = practical_frame(job)
    return table(
        frame,
        {
            "case": Column("job"),
            "cost_s": Column("cost of a save", "s", 1),
            "mtbf_h": Column("mean time between failures", "h", 2),
            "low_s": Column("shortest as good", "s", 0),
            "best_s": Column("best", "s", 0),
            "high_s": Column("longest as good", "s", 0),
            "span": Column("longest over shortest", digits=2),
        },
        name="practical",
        caption=f"Intervals within {PRACTICAL_POINTS:g} points of the best goodput: the longest "
        f"is {frame['span'].min():.2f} to {frame['span'].max():.2f} times the shortest.",
    )


def flatness_frame(job: Scenario) -> pd.DataFrame:
    """Goodput lost by an interval other than the best.

    Parameters
    ----------
    job : Scenario
        The reader's job.

    Returns
    -------
    pandas.DataFrame
        Columns ``case``, ``relative`` (interval over the best one), ``interval`` (in words) and
        ``lost`` [share of wall time].
    """
    rows = []
    for case, one in _cases(job).items():
        best = _best(one)
        steps = _steps_around(best.steps, 4.0, 49)
        for k, goodput in zip(steps, _goodputs(one, steps), strict=True):
            rows.append(
                {
                    "case": case,
                    "relative": round(k / best.steps, 6),
                    "interval": _interval_text(one, k),
                    "lost": round(best.goodput.value - goodput.value, 8),
                }
            )
    return pd.DataFrame(rows)


def flatness_chart(job: Scenario) -> altair.LayerChart:
    """The loss by a wrong interval as a chart.

    Parameters
    ----------
    job : Scenario
        The reader's job.

    Returns
    -------
    altair.LayerChart
    """
    frame = flatness_frame(job)
    doubled = [
        float(near["lost"].iloc[int((near["relative"] - 2.0).abs().argmin())])
        for _, near in frame.groupby("case", sort=False)
    ]
    return draw_flatness(
        frame,
        tolerance=PRACTICAL_POINTS / 100.0,
        caption="The optimum is flat: an interval twice the best one loses between "
        f"{points(min(doubled))} and {points(max(doubled))}; the dashed line marks "
        f"{PRACTICAL_POINTS:g} points.",
    )


# Other figures of merit and published arithmetic


def ratio_frame() -> pd.DataFrame:
    """Goodput beside two other figures of merit, for the worked example.

    Returns
    -------
    pandas.DataFrame
        One row a case: exact goodput at the exact best interval, the first-order effective
        training time ratio there, and the period that maximises availability beside the exact
        best one (work and save) [s].
    """
    rows = []
    for case, job in interval_claims.example_jobs().items():
        arguments = (job.blocking_s, job.job_mtbf_s, job.restart_s)
        best_s = float(renewal.best_work_s(*arguments[:2]))
        rows.append(
            {
                "case": case,
                "goodput": float(renewal.goodput(best_s, *arguments)),
                "ettr": float(ettr.kokolis(best_s, *arguments)),
                "period_s": best_s + job.blocking_s,
                "saxena_s": float(availability.saxena_interval_s(*arguments)),
            }
        )
    return pd.DataFrame(rows)


def ratio_table() -> Table:
    """Other figures of merit as a table.

    Returns
    -------
    Table
    """
    frame = ratio_frame()
    apart = (frame["ettr"] - frame["goodput"]).abs().max()
    longer = (frame["saxena_s"] / frame["period_s"] - 1.0).max()
    return table(
        frame,
        {
            "case": Column("case"),
            "goodput": Column("goodput, exact", "%", 2, scale=100),
            "ettr": Column("ETTR, first order", "%", 2, scale=100),
            "period_s": Column("best period for goodput", "s", 0),
            "saxena_s": Column("best period for availability", "s", 0),
        },
        name="ratios",
        caption=f"ETTR and goodput differ by {points(apart)} at most; the availability optimum is "
        f"up to {percent(longer, 1)} longer, because it contains the restart time.",
    )


def cross_check_frame() -> pd.DataFrame:
    """What follows from figures that others published.

    Returns
    -------
    pandas.DataFrame
        Columns ``source``, ``given`` (the published figures), ``follows`` (what is computed from
        them), ``value`` (in `unit`), ``unit`` and ``digits`` (decimals that are meant).
    """
    facts = {key: fact.value for key, fact in load_facts().items()}
    bloom = f"a failure a week, saves of {facts['bloom_blocking_s']:g} s"
    bloom_s = (facts["bloom_blocking_s"], facts["bloom_days_per_failure"] * DAY_S)
    rows: list[tuple[str, str, str, float, str, int]] = [
        (
            "BLOOM-176B",
            f"{bloom}; restarts of {_BLOOM_RESTART_S:,.0f} s assumed",
            "period with the best availability",
            float(availability.saxena_interval_s(*bloom_s, _BLOOM_RESTART_S)),
            "s",
            0,
        ),
        (
            "BLOOM-176B",
            bloom,
            "period with the best goodput, exact",
            float(renewal.best_work_s(*bloom_s)) + bloom_s[0],
            "s",
            0,
        ),
    ]
    for when in ("before", "after"):
        steps, stop_s = facts[f"dlrover_{when}_steps"], facts[f"dlrover_{when}_blocking_s"]
        implied_s = young.implied_job_mtbf_s(steps * facts["dlrover_step_s"], stop_s)
        rows.append(
            (
                f"DLRover, GLM-65B, {when} its change",
                f"{steps:g} steps of {facts['dlrover_step_s']:g} s, saves of {stop_s:g} s",
                "time between failures for which this is Young's interval",
                float(implied_s) / HOUR_S,
                "h",
                1,
            )
        )
    tiercheck_s = facts["tiercheck_interval_min"] * MINUTE_S
    rows.append(
        (
            "TierCheck, 405B parameters",
            f"{facts['tiercheck_interval_min']:g} min, saves of "
            f"{facts['tiercheck_blocking_s']:g} s, waste {facts['tiercheck_waste']:g} %",
            "waste if this is Young's interval",
            100.0 * 2.0 * facts["tiercheck_blocking_s"] / tiercheck_s,
            "%",
            1,
        )
    )
    for stop_s in (40.0, 200.0):
        loss = waste.first_order_losses(90.0 * DAY_S / 720.0, stop_s, 1.0, 0.0)["save"]
        rows.append(
            (
                "ml-engineering guide",
                f"720 saves of {stop_s:g} s in 90 days",
                "time that saves take",
                100.0 * float(loss),
                "%",
                3,
            )
        )
    return pd.DataFrame(rows, columns=["source", "given", "follows", "value", "unit", "digits"])


def cross_check_table() -> Table:
    """What follows from others' figures as a table.

    Returns
    -------
    Table
    """
    facts = {key: fact.value for key, fact in load_facts().items()}
    frame = cross_check_frame()
    value = frame["value"]
    frame["shown"] = [
        f"{number:,.{digits}f}\u00a0{unit}"
        for number, digits, unit in zip(value, frame["digits"], frame["unit"], strict=True)
    ]
    return table(
        frame,
        {
            "source": Column("job", below="given"),
            "follows": Column("what follows"),
            "shown": Column("value"),
        },
        name="cross-checks",
        caption=f"The availability optimum is {percent(value[0] / value[1] - 1.0, 1)} longer than "
        "the exact one for goodput; both of DLRover's intervals suit one time between failures to "
        f"within {percent(abs(value[2] / value[3] - 1.0), 0)}; TierCheck's waste of "
        f"{facts['tiercheck_waste']:g} % is Young's, {value[4]:.1f} %.",
    )


# Asynchronous saves in the same terms


def asynchronous_frame() -> pd.DataFrame:
    """What an asynchronous save costs, with and without its tax.

    Returns
    -------
    pandas.DataFrame
        One row a case: ``cost_s`` [s], ``mtbf_h`` [h], Young's and the exact best interval [s],
        and the share of time that saves and lost work take at the best one.
    """
    facts = {key: fact.value for key, fact in load_facts().items()}
    blocking, staging = facts["nemo_blocking_s"], facts["nemo_async_blocking_s"]
    post = load_scenario("post-16k")
    day_s = DAY_S
    cases = {
        "NeMo Automodel, 8B parameters, blocking save": (blocking, day_s),
        "the same save, asynchronous, tax left out": (staging, day_s),
        f"the same, with a tax of {percent(post.drain_tax, 0)} on a drain of {blocking:g} s": (
            staging + post.drain_tax * blocking,
            day_s,
        ),
        "first post's job, 16,384 GPUs, tax alone": (cost_s(post), post.job_mtbf_s),
    }
    rows = []
    for case, (cost, mtbf_s) in cases.items():
        rows.append(
            {
                "case": case,
                "cost_s": cost,
                "mtbf_h": mtbf_s / HOUR_S,
                "young_s": float(young.interval_s(cost, mtbf_s)),
                "best_s": float(renewal.best_work_s(cost, mtbf_s)),
                "waste": float(waste.best_first_order(cost, mtbf_s, 0.0)),
            }
        )
    return pd.DataFrame(rows)


def asynchronous_table() -> Table:
    """Asynchronous saves in the formulas' terms as a table.

    Returns
    -------
    Table
    """
    facts = {key: fact.value for key, fact in load_facts().items()}
    frame = asynchronous_frame()
    measured = facts["nemo_step_saving_s"] / facts["nemo_step_alone_s"] - 1.0
    tax = percent(load_scenario("post-16k").drain_tax, 0)
    gain, taxed = (frame["waste"][0] - frame["waste"][row] for row in (1, 2))
    return table(
        frame,
        {
            "case": Column("case"),
            "cost_s": Column("cost of a save", "s", 2),
            "mtbf_h": Column("mean time between failures", "h", 2),
            "young_s": Column("Young", "s", 0),
            "best_s": Column("exact best", "s", 0),
            "waste": Column("saves and lost work", "%", 2, scale=100),
        },
        name="asynchronous",
        caption=f"Blocking for less time saves {points(gain)} as long as the background write is "
        f"free; a tax of {tax} leaves {points(taxed)}. Taxes can be larger: in the same project a "
        f"save at every step, not awaited, made a step {measured + 1:.1f} times as long.",
    )


# The reader's job


def job_frame(job: Scenario) -> pd.DataFrame:
    """Intervals that rules give for a job, and what each costs.

    Parameters
    ----------
    job : Scenario
        The reader's job.

    Returns
    -------
    pandas.DataFrame
        One row a rule: ``interval_s`` as the rule gives it [s], ``steps`` in whole steps (at
        least one; missing where the rule gives no interval at all), and there ``goodput`` with
        its 95 % interval and what is ``lost`` against the best [shares of wall time].
    """
    mtbf_s, cost = job.job_mtbf_s, cost_s(job)
    best = _best(job)
    rules = {"present setting": job.checkpoint_interval_steps * job.step_s}
    if job.save_kind == "asynchronous":
        rules["Young, blocking time alone"] = float(young.interval_s(job.staging_s, mtbf_s))
        rules["Young, tax included"] = float(young.interval_s(cost, mtbf_s))
    else:
        rules["Young"] = float(young.interval_s(cost, mtbf_s))
    rules["Daly, first order"] = float(daly.first_order_interval_s(cost, mtbf_s))
    rules["Daly, higher order"] = float(daly.higher_order_interval_s(cost, mtbf_s))
    rules["exact optimum for that cost"] = float(renewal.best_work_s(cost, mtbf_s))
    rules["best interval in whole steps"] = best.steps * job.step_s
    steps = [
        float(max(1, round(interval_s / job.step_s))) if interval_s > 0.0 else math.nan
        for interval_s in rules.values()
    ]
    asked = sorted({int(k) for k in steps if not math.isnan(k)})
    known = dict(zip(asked, _goodputs(job, asked), strict=True))
    nothing = Estimate(math.nan, math.nan, math.nan)
    found = [nothing if math.isnan(k) else known[int(k)] for k in steps]
    top = known[best.steps].value
    return pd.DataFrame(
        {
            "rule": list(rules),
            "interval_s": list(rules.values()),
            "steps": steps,
            "goodput": [one.value for one in found],
            "low": [one.low for one in found],
            "high": [one.high for one in found],
            "lost": [top - one.value for one in found],
        }
    )


def job_table(job: Scenario) -> Table:
    """Intervals for the reader's job as a table.

    Parameters
    ----------
    job : Scenario
        The reader's job.

    Returns
    -------
    Table
    """
    exact = _is_exact(job)
    return table(
        job_frame(job),
        {
            "rule": Column("rule"),
            "interval_s": Column("interval", "s", 1),
            "steps": Column("in whole steps", "steps", 0),
            "goodput": Column("goodput", "%", 2, 100, *(() if exact else ("low", "high"))),
            "lost": Column("lost against the best", "points", 3 if exact else 2, scale=100),
        },
        name="job",
        caption=f"Rules for this job, where a save costs {cost_s(job):.4g} s and the job fails "
        f"every {duration_text(job.job_mtbf_s)} on average "
        f"({'exact' if exact else 'simulated'}; an interval below one step counts as one).",
    )


def loss_frame(job: Scenario) -> pd.DataFrame:
    """Where the time goes at the best interval: formula, exact and simulated.

    Parameters
    ----------
    job : Scenario
        The reader's job.

    Returns
    -------
    pandas.DataFrame
        One row a loss category; shares of wall time. ``formula`` is the first-order term,
        ``exact`` is missing where no closed form is known.
    """
    best = _best(job)
    present = job.replace(checkpoint_interval_steps=best.steps)
    simulated = simulate(present, half_width=SIMULATED_HALF_WIDTH).losses
    cycle = save_cycle(present)
    formula = waste.first_order_losses(cycle.work_s, cost_s(job), job.job_mtbf_s, job.restart_s) | {
        "idle": np.float64(job.idle_s / job.job_mtbf_s)
    }
    exact = _exact_losses(present) if _is_exact(job) else dict.fromkeys(CATEGORIES, math.nan)
    return pd.DataFrame(
        [
            {
                "category": category,
                "loss": words,
                "formula": float(formula[category]),
                "exact": exact[category],
                "simulated": simulated[category].value,
                "low": simulated[category].low,
                "high": simulated[category].high,
            }
            for category, words in CATEGORIES.items()
        ]
    )


def loss_table(job: Scenario) -> Table:
    """Where the time goes at the best interval as a table.

    Parameters
    ----------
    job : Scenario
        The reader's job.

    Returns
    -------
    Table
    """
    frame = loss_frame(job)
    frame = frame[frame[["formula", "simulated"]].sum(axis="columns") > 0.0]
    total = frame[["formula", "exact", "simulated"]].sum(min_count=len(frame))
    known = total["simulated"] if math.isnan(total["exact"]) else total["exact"]
    latency = (1.0 - job.target_fraction) * save_cycle(job, _best(job).steps).latency_work_s
    why = ""
    if latency > 0.0:
        why = (
            " The formula has no term for the work made between the start of a drain and its "
            f"end, which a failure takes too: {points(latency / job.job_mtbf_s)} to first order."
        )
    return table(
        frame,
        {
            "loss": Column("loss"),
            "formula": Column("formula", "%", 3, scale=100),
            "exact": Column("exact", "%", 3, scale=100),
            "simulated": Column("simulated", "%", 3, 100, "low", "high"),
        },
        name="losses",
        caption=f"At the best interval the formula's terms sum to {percent(total['formula'])}"
        f"{' (too much for a first-order formula)' if total['formula'] > 1.0 else ''}, "
        f"the losses to {percent(known)}.{why}",
    )


def loss_chart(job: Scenario) -> altair.LayerChart:
    """Where the time goes against the interval, as a chart.

    Parameters
    ----------
    job : Scenario
        The reader's job.

    Returns
    -------
    altair.LayerChart
    """
    best = _best(job)
    rows = [
        {"steps": k, "category": category, "share": round(share, 6)}
        for k in _steps_around(best.steps, 8.0, 49)
        for category, share in _losses(job.replace(checkpoint_interval_steps=k)).items()
    ]
    frame = pd.DataFrame(rows)
    frame = frame[frame.groupby("category")["share"].transform("max") > 0.0]
    at_best = _losses(job.replace(checkpoint_interval_steps=best.steps))
    parts = [
        f"{name} {percent(at_best[category])}"
        for category, name in CATEGORIES.items()
        if at_best[category] >= 5e-5
    ]
    where = f"At the best interval, {_interval_text(job, best.steps)}"
    why = "; shorter intervals lose more to saves, longer ones to work made again"
    if best.at_drain_boundary:
        where, why = f"{where}, which is the drain itself", ""
    if best.steps == 1:
        why = ""
    return draw_losses(
        frame,
        best_steps=best.steps,
        caption=f"{where}, the losses are {listed(parts)}{why}.",
    )


# What the chapter says


def answer(job: Scenario) -> Prose:
    """The chapter's answer in three sentences.

    Parameters
    ----------
    job : Scenario
        The reader's job.

    Returns
    -------
    Prose
    """
    best = _best(job)
    low, high = best.practical_steps
    tolerance = f"{PRACTICAL_POINTS:g} points of goodput"
    if best.goodput.value < PRACTICAL_POINTS / 100.0:
        advice = f"no interval brings more than {tolerance}"
    else:
        drain = ", as often as the drain permits" if best.at_drain_boundary else ""
        within = (
            f"every interval from {low:,} to {high:,} steps is as good to within {tolerance}"
            if high > low
            else f"no other interval comes within {tolerance}"
        )
        advice = f"it is best to save **{_every_text(job, best.steps)}**{drain}, and {within}"
    first = (
        f"For a job of {_gpus_text(job)} that fails every {duration_text(job.job_mtbf_s)} on "
        f"average, with {_saves_text(job)}, {advice}."
    )
    example = example_frame().iloc[0]
    errors = interval_error_frame().iloc[-1]
    third = (
        "The formulas are first-order: with the second post's saves of "
        f"{example['blocking_s']:g} s every 12 h their interval is "
        f"{percent(example['young_s'] / example['best_s'] - 1.0, 1)} too long, which costs "
        f"{points(example['regret'])}, and their waste of {percent(example['formula_waste'])} "
        f"stands for an exact {percent(example['exact_waste'])}; where a save lasts as long as "
        f"the time between failures, Young's interval is {percent(errors['Young'], 0)} too long."
    )
    return Prose(f"{first} {_second_sentence(job, best)} {third}")


def _second_sentence(job: Scenario, best: BestInterval) -> str:
    shares = _losses(job.replace(checkpoint_interval_steps=best.steps))
    parts = [
        f"{name} ({percent(shares[category])})"
        for category, name in CATEGORIES.items()
        if shares[category] >= 5e-5
    ]
    goodput = percent(best.goodput.value)
    if best.goodput.half_width > 0.0:
        goodput = f"{goodput[:-2]} ± {percent(best.goodput.half_width)}"
    losses = f"the rest goes to {listed(parts)}" if parts else "nothing is lost"
    cost = cost_s(job)
    steps = max(1, round(float(young.interval_s(cost, job.job_mtbf_s)) / job.step_s))
    if cost == 0.0:
        formula = "the square-root formula gives no interval for a save that costs nothing"
    elif steps == best.steps:
        formula = "the square-root formula with that cost gives the same interval"
    else:
        top, other = _goodputs(job, [best.steps, steps])
        formula = (
            f"the square-root formula with that cost gives {_steps_text(steps)} and loses "
            f"{points(top.value - other.value)} against it"
        )
    return f"Goodput is then **{goodput}** and {losses}; {formula}."


def _saves_text(job: Scenario) -> str:
    cost = cost_s(job)
    if job.save_kind == "blocking":
        return (
            f"blocking saves of {duration_text(cost)}" if cost > 0.0 else "saves that cost nothing"
        )
    drains = f"asynchronous saves that drain for {duration_text(job.drain_s)}"
    if cost == 0.0:
        return f"{drains} at no cost"
    return f"{drains} and cost as much as blocking ones of {duration_text(cost)}"


def verdicts() -> Table:
    """The posts' printed numbers of this chapter beside the recomputed ones.

    Returns
    -------
    Table
    """
    frame = ledger_frame(claims())
    own = frame[frame["chapter"] == CHAPTER]
    return verdict_table(
        own, name="verdicts", caption=f"The chapter's {len(own)} claims: {verdict_counts(own)}."
    )


# Shared parts


@functools.lru_cache(maxsize=32)
def _best(job: Scenario) -> BestInterval:
    return best_interval(job, practical_points=PRACTICAL_POINTS, half_width=SIMULATED_HALF_WIDTH)


def _is_exact(job: Scenario) -> bool:
    return job.is_exponential


def _cases(job: Scenario) -> dict[str, Scenario]:
    """The reader's job beside the example; its last case differs in the restart only."""
    example = list(interval_claims.example_jobs().items())[:2]
    return {"this job": job, **{f"example, {case}": one for case, one in example}}


def _steps_around(best_steps: int, factor: float, count: int) -> list[int]:
    grid = np.geomspace(best_steps / factor, best_steps * factor, count)
    return sorted({max(1, round(k)) for k in grid.tolist()} | {best_steps})


def _goodputs(job: Scenario, steps: Sequence[int]) -> list[Estimate]:
    """Goodput at each interval [share of wall time]: exact, or simulated with shared draws."""
    if _is_exact(job):
        values = [exact_goodput(job, float(k)) for k in steps]
        return [Estimate(value, value, value) for value in values]
    return sweep_intervals(job, steps, half_width=SIMULATED_HALF_WIDTH).goodput()


def _exact_losses(job: Scenario) -> dict[str, float]:
    cycle = save_cycle(job)
    losses = nonblocking.cycle_losses(
        cycle.work_s,
        cycle.stop_s,
        cycle.latency_work_s,
        cycle.taxed_work_s,
        cycle.tax,
        cycle.advance_s,
        job.job_mtbf_s,
        job.restart_s,
        failure_clock=job.failure_clock,
        downtime_s=job.idle_s,
    )
    return {category: float(losses[category]) for category in CATEGORIES}


def _losses(job: Scenario) -> dict[str, float]:
    """Loss shares at the job's own interval: exact, or simulated where no closed form is known."""
    if _is_exact(job):
        return _exact_losses(job)
    found = simulate(job, half_width=10.0 * SIMULATED_HALF_WIDTH).losses
    return {category: found[category].value for category in CATEGORIES}


def _gpus_text(job: Scenario) -> str:
    return "1 GPU" if job.n_gpus == 1 else f"{job.n_gpus:,} GPUs"


def _steps_text(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps:,} steps"


def _every_text(job: Scenario, steps: int) -> str:
    if steps == 1:
        return f"at every step ({duration_text(job.step_s)})"
    return f"every {_interval_text(job, steps)}"


def _interval_text(job: Scenario, steps: int) -> str:
    return f"{_steps_text(steps)} ({duration_text(steps * job.step_s)})"

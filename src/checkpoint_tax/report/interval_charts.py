"""Charts about the interval between saves: how far formulas miss it, and how little that costs."""

from collections.abc import Mapping

import altair
import pandas as pd

from checkpoint_tax.report.charts import PALETTE, described
from checkpoint_tax.report.prose import listed
from checkpoint_tax.report.tables import MINUS

LOSS_COLOURS: Mapping[str, str] = {
    "save": PALETTE[0],
    "rework": PALETTE[1],
    "restart": PALETTE[3],
    "idle": PALETTE[6],
}
"""One colour for each loss category, in every chart."""


def interval_error_chart(errors: pd.DataFrame) -> altair.Chart:
    """Error of each approximate interval against the length of a save.

    Parameters
    ----------
    errors : pandas.DataFrame
        Columns ``cost_over_mtbf`` [1], ``formula`` (text) and ``error`` [share of the exact best
        interval].

    Returns
    -------
    altair.Chart
    """
    last = errors[errors["cost_over_mtbf"] == errors["cost_over_mtbf"].max()]
    ends = listed([f"{_signed(row.error)} ({row.formula})" for row in last.itertuples()])
    worst = last["cost_over_mtbf"].iloc[0]
    chosen = altair.selection_point(fields=["formula"], bind="legend")
    chart = (
        altair.Chart(errors.assign(percent=100.0 * errors["error"]), width="container")
        .mark_line()
        .encode(
            x=altair.X("cost_over_mtbf:Q")
            .scale(type="log")
            .axis(format="~g")
            .title("length of a save over mean time between failures, C/M"),
            y=altair.Y("percent:Q").title("interval longer than the exact optimum [%]"),
            color=altair.Color("formula:N").title("formula").sort(None),
            opacity=altair.condition(chosen, altair.value(1.0), altair.value(0.15)),
            tooltip=[
                altair.Tooltip("formula:N"),
                altair.Tooltip("cost_over_mtbf:Q", title="C/M", format=".3g"),
                altair.Tooltip("percent:Q", title="error [%]", format="+.3f"),
            ],
        )
        .add_params(chosen)
    )
    return described(
        chart,
        caption=f"Where a save lasts {_multiple(worst)} the time between failures, the intervals "
        f"are off by {ends}; short saves make all of them good.",
        description="Error in percent of three approximate intervals against the length of a "
        "save over the mean time between failures, on a logarithmic axis: all three start near "
        f"zero, and at the right end they are {ends}.",
    )


def _signed(share: float) -> str:
    return f"{100.0 * share:+.0f} %".replace("-", MINUS)


def _multiple(ratio: float) -> str:
    return "as long as" if ratio == 1.0 else f"{ratio:g} times"


def flatness_chart(losses: pd.DataFrame, *, tolerance: float, caption: str) -> altair.LayerChart:
    """Goodput lost by an interval other than the best, for several jobs.

    Parameters
    ----------
    losses : pandas.DataFrame
        Columns ``case`` (text), ``relative`` (interval over the best one [1]), ``interval`` (the
        interval in words) and ``lost`` [share of wall time].
    tolerance : float
        Loss that counts as none [share of wall time], drawn as a line.
    caption : str
        The finding.

    Returns
    -------
    altair.LayerChart
    """
    shown = losses.assign(points=100.0 * losses["lost"])
    chosen = altair.selection_point(fields=["case"], bind="legend")
    lines = (
        altair.Chart(shown, width="container")
        .mark_line()
        .encode(
            x=altair.X("relative:Q")
            .scale(type="log", nice=False)
            .axis(values=[0.25, 0.5, 1, 2, 4], format="~g")
            .title("interval over the best one"),
            y=altair.Y("points:Q").title("goodput lost [percentage points]"),
            color=altair.Color("case:N")
            .title(None)
            .sort(None)
            .legend(orient="bottom", columns=2, labelLimit=400),
            opacity=altair.condition(chosen, altair.value(1.0), altair.value(0.15)),
            tooltip=[
                altair.Tooltip("case:N"),
                altair.Tooltip("interval:N"),
                altair.Tooltip("relative:Q", title="over the best", format=".3g"),
                altair.Tooltip("points:Q", title="lost [points]", format=".3f"),
            ],
        )
        .add_params(chosen)
    )
    limit = (
        altair.Chart(pd.DataFrame({"points": [100.0 * tolerance]}))
        .mark_rule(strokeDash=[4, 4])
        .encode(y="points:Q")
    )
    return described(
        altair.layer(lines, limit),
        caption=caption,
        description="Goodput lost in percentage points against the interval over the best one, "
        f"for {shown['case'].nunique()} jobs: each curve is flat around 1 and rises to both "
        f"sides; a dashed line marks {100.0 * tolerance:g} points.",
    )


def loss_chart(losses: pd.DataFrame, *, best_steps: int, caption: str) -> altair.LayerChart:
    """Where the time goes, against the interval.

    Parameters
    ----------
    losses : pandas.DataFrame
        Columns ``steps`` (interval [steps]), ``category`` (key of `LOSS_COLOURS`) and ``share``
        [share of wall time].
    best_steps : int
        Best interval [steps], drawn as a line.
    caption : str
        The finding.

    Returns
    -------
    altair.LayerChart
    """
    shown = losses.assign(
        percent=100.0 * losses["share"],
        order=losses["category"].map({name: place for place, name in enumerate(LOSS_COLOURS)}),
    )
    names = [name for name in LOSS_COLOURS if name in set(losses["category"])]
    areas = (
        altair.Chart(shown, width="container")
        .mark_area(opacity=0.85)
        .encode(
            x=altair.X("steps:Q")
            .scale(type="log", nice=False)
            .axis(format="~s", tickCount=6)
            .title("interval between two saves [steps]"),
            y=altair.Y("percent:Q").title("loss [% of wall time]"),
            color=altair.Color("category:N")
            .title("loss")
            .scale(domain=names, range=[LOSS_COLOURS[name] for name in names]),
            order=altair.Order("order:Q"),
            tooltip=[
                altair.Tooltip("category:N", title="loss"),
                altair.Tooltip("steps:Q", title="interval [steps]", format=","),
                altair.Tooltip("percent:Q", title="share [%]", format=".2f"),
            ],
        )
    )
    best = (
        altair.Chart(pd.DataFrame({"steps": [best_steps]}))
        .mark_rule(strokeDash=[4, 4])
        .encode(x="steps:Q", tooltip=[altair.Tooltip("steps:Q", title="best interval [steps]")])
    )
    return described(
        altair.layer(areas, best),
        caption=caption,
        description="Stacked shares of wall time lost to "
        f"{listed(names)} against the interval in steps, on a logarithmic axis; a dashed line "
        f"marks the best interval of {best_steps:,} steps.",
    )

"""Charts of goodput against the interval between saves: curves, simulated points, marks."""

from collections.abc import Sequence

import altair
import pandas as pd

from checkpoint_tax.report.charts import PALETTE, described

_SHAPES = ("diamond", "triangle-up", "square", "cross")


def sweep_chart(
    lines: pd.DataFrame,
    points: pd.DataFrame,
    marks: pd.DataFrame,
    *,
    legend: str,
    caption: str,
    description: str,
) -> altair.LayerChart:
    """Goodput against the interval for several series.

    Parameters
    ----------
    lines : pandas.DataFrame
        Closed forms: ``series`` (text, in order of the legend), ``steps`` [steps] and ``goodput``
        [share of wall time]. May be empty.
    points : pandas.DataFrame
        Simulated: ``series``, ``steps``, ``goodput``, ``low``, ``high``. May be empty.
    marks : pandas.DataFrame
        Single intervals worth a mark: ``series``, ``steps``, ``goodput`` and ``mark`` (what the
        mark stands for, at most four kinds). May be empty.
    legend : str
        Heading of the series.
    caption : str
        The finding.
    description : str
        For readers who do not see the chart.

    Returns
    -------
    altair.LayerChart
    """
    order = list(dict.fromkeys([*lines["series"], *points["series"]]))
    colour = (
        altair.Color("series:N")
        .title(legend)
        .scale(domain=order, range=list(PALETTE[: len(order)]))
        .legend(orient="bottom", columns=3, labelLimit=300, symbolType="stroke")
    )
    chosen = altair.selection_point(fields=["series"], bind="legend")
    faded = altair.condition(chosen, altair.value(1.0), altair.value(0.12))
    x = altair.X("steps:Q").scale(type="log", nice=False).title("interval between saves [steps]")
    y = altair.Y("percent:Q").scale(zero=False).title("goodput [%]")
    tooltip = [
        altair.Tooltip("series:N", title=legend),
        altair.Tooltip("steps:Q", title="interval [steps]", format=",d"),
        altair.Tooltip("percent:Q", title="goodput [%]", format=".2f"),
    ]
    layers: list[altair.Chart] = []
    if len(lines):
        layers.append(
            altair.Chart(_percent(lines))
            .mark_line()
            .encode(x=x, y=y, color=colour, opacity=faded, tooltip=tooltip)
        )
    if len(points):
        drawn = altair.Chart(_percent(points))
        layers.append(
            drawn.mark_rule(strokeWidth=1.5).encode(
                x=x, y=altair.Y("low:Q"), y2="high:Q", color=colour, opacity=faded
            )
        )
        layers.append(
            drawn.mark_circle(size=34).encode(
                x=x,
                y=y,
                color=colour,
                opacity=faded,
                tooltip=[
                    *tooltip,
                    altair.Tooltip("low:Q", title="95 % from", format=".3f"),
                    altair.Tooltip("high:Q", title="to", format=".3f"),
                ],
            )
        )
    if len(marks):
        kinds = list(dict.fromkeys(marks["mark"]))
        layers.append(
            altair.Chart(_percent(marks))
            .mark_point(size=110, filled=True)
            .encode(
                x=x,
                y=y,
                color=colour,
                opacity=faded,
                shape=altair.Shape("mark:N")
                .title(None)
                .scale(domain=kinds, range=list(_SHAPES[: len(kinds)]))
                .legend(orient="bottom", direction="vertical", labelLimit=400),
                tooltip=[altair.Tooltip("mark:N", title="mark"), *tooltip],
            )
        )
    layers[0] = layers[0].add_params(chosen)
    return described(
        altair.layer(*layers).properties(width="container"),
        caption=caption,
        description=description,
    )


def _percent(frame: pd.DataFrame) -> pd.DataFrame:
    shown = frame.assign(percent=100.0 * frame["goodput"]).drop(columns="goodput")
    for bound in ("low", "high"):
        if bound in shown:
            shown[bound] = 100.0 * shown[bound]
    return shown


def loss_scale_chart(
    losses: pd.DataFrame,
    *,
    panels: Sequence[str],
    caption: str,
    description: str,
) -> altair.Chart:
    """Losses against the size of the job, one panel a way of saving.

    Parameters
    ----------
    losses : pandas.DataFrame
        Columns ``panel`` (text), ``n_gpus`` [1], ``loss`` (text) and ``share`` [share of wall
        time].
    panels : sequence of str
        The panels in order.
    caption : str
        The finding.
    description : str
        For readers who do not see the chart.

    Returns
    -------
    altair.Chart
    """
    order = list(dict.fromkeys(losses["loss"]))
    chart = (
        altair.Chart(losses.assign(percent=100.0 * losses["share"]).drop(columns="share"))
        .mark_line()
        .encode(
            x=altair.X("n_gpus:Q")
            .scale(type="log", nice=False)
            .axis(format="~s", values=[1000, 4000, 16000, 64000])
            .title("GPUs"),
            y=altair.Y("percent:Q").scale(type="log").axis(format="~g").title("share of time [%]"),
            color=altair.Color("loss:N")
            .title(None)
            .scale(domain=order, range=[PALETTE[3], PALETTE[1], PALETTE[0]][: len(order)])
            .legend(orient="bottom", labelLimit=300),
            tooltip=[
                altair.Tooltip("panel:N", title="saves"),
                altair.Tooltip("n_gpus:Q", title="GPUs", format=",d"),
                altair.Tooltip("loss:N"),
                altair.Tooltip("percent:Q", title="share [%]", format=".2f"),
            ],
        )
        .properties(width=185, height=240)
        .facet(
            altair.Facet("panel:N")
            .sort(list(panels))
            .title(None)
            .header(labelFontSize=12, labelLimit=200),
            columns=3,
        )
    )
    return described(chart, caption=caption, description=description)

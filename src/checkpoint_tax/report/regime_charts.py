"""Maps of where the best interval is the drain itself, with published jobs on them."""

import altair
import pandas as pd

from checkpoint_tax.report.charts import PALETTE, described

_AXES = {
    "drain_s": ("length of a drain [s]", "~g"),
    "drain_tax": ("tax under a drain", "~%"),
}


def regime_chart(
    lines: pd.DataFrame,
    jobs: pd.DataFrame,
    *,
    vertical: str,
    size_title: str,
    sizes: tuple[float, float],
    heights: tuple[float, float],
    legend: str,
    regimes: tuple[str, str],
    caption: str,
    description: str,
) -> altair.LayerChart:
    """Boundary lines over the size of the job, and jobs as points.

    Parameters
    ----------
    lines : pandas.DataFrame
        Columns ``n_gpus`` [1], `vertical`, ``series`` (text, in order) and ``order`` ("exact" or
        "first order").
    jobs : pandas.DataFrame
        Columns ``job`` (text), ``n_gpus`` (the size at this job's failure rate a GPU [1]),
        ``own_n_gpus`` [1], ``job_mtbf_h`` [h], ``drain_s`` [s], ``drain_tax`` [1], ``regime`` and
        ``assumed`` (texts).
    vertical : {"drain_s", "drain_tax"}
        What the vertical axis shows.
    size_title : str
        Title of the axis of sizes, which says what a GPU's failure rate is there.
    sizes, heights : tuple of float
        Ends of the two axes, in the units of the columns.
    legend : str
        Heading of the series of lines.
    regimes : tuple of str
        The regime above the boundary and the other one.
    caption : str
        The finding.
    description : str
        For readers who do not see the chart.

    Returns
    -------
    altair.LayerChart
    """
    title, form = _AXES[vertical]
    series = list(dict.fromkeys(lines["series"]))
    x = (
        altair.X("n_gpus:Q")
        .scale(type="log", domain=list(sizes), nice=False)
        .axis(format="~s", tickCount=6)
        .title(size_title)
    )
    y = (
        altair.Y(f"{vertical}:Q")
        .scale(type="log", domain=list(heights), nice=False)
        .axis(format=form, tickCount=6)
        .title(title)
    )
    drawn = (
        altair.Chart(lines)
        .mark_line(clip=True)
        .encode(
            x=x,
            y=y,
            color=altair.Color("series:N")
            .title(legend)
            .scale(domain=series, range=[PALETTE[i] for i in (4, 0, 2, 5)][: len(series)])
            .legend(orient="bottom", symbolType="stroke", columns=2),
            strokeDash=altair.StrokeDash("order:N")
            .title(None)
            .scale(domain=["exact", "first order"], range=[[1, 0], [5, 4]])
            .legend(orient="bottom", direction="vertical", symbolType="stroke"),
            tooltip=[
                altair.Tooltip("series:N", title=legend),
                altair.Tooltip("order:N", title="boundary"),
                altair.Tooltip("n_gpus:Q", title="GPUs", format=",.0f"),
                altair.Tooltip(f"{vertical}:Q", title=title, format=".3~g"),
            ],
        )
    )
    found = [regime for regime in regimes if regime in set(jobs["regime"])]
    colours = dict(zip(regimes, (PALETTE[3], PALETTE[6]), strict=True))
    marks = altair.Chart(jobs).encode(x=x, y=y)
    dots = marks.mark_point(size=70, filled=True, opacity=1.0, clip=True).encode(
        fill=altair.Fill("regime:N")
        .title("best for the job")
        .scale(domain=found, range=[colours[regime] for regime in found])
        .legend(orient="bottom", direction="vertical", labelLimit=300),
        tooltip=[
            altair.Tooltip("job:N"),
            altair.Tooltip("own_n_gpus:Q", title="GPUs", format=",d"),
            altair.Tooltip("job_mtbf_h:Q", title="MTBF [h]", format=".3~g"),
            altair.Tooltip("drain_s:Q", title="drain [s]", format=".3~g"),
            altair.Tooltip("drain_tax:Q", title="tax", format=".3~%"),
            altair.Tooltip("regime:N", title="best"),
            altair.Tooltip("assumed:N"),
        ],
    )
    names = marks.mark_text(align="left", dx=7, dy=-5, fontSize=10, clip=True).encode(
        text="label:N", fill=altair.value(PALETTE[6])
    )
    return described(
        altair.layer(drawn, dots, names).properties(width="container", height=360),
        caption=caption,
        description=description,
    )

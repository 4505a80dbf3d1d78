"""Maps of where the best interval is the drain itself, with published jobs on them."""

import altair
import pandas as pd

from checkpoint_tax.report.charts import PALETTE, described

_AXES = {
    "n_gpus": ("GPUs at this job's failure rate each", "~s"),
    "drain_s": ("length of a drain [s]", "~g"),
    "drain_tax": ("tax under a drain", "~%"),
}
_REGIMES = ("one drain after the other", "an interval above the drain")


def regime_chart(
    lines: pd.DataFrame,
    jobs: pd.DataFrame,
    *,
    vertical: str,
    legend: str,
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
    legend : str
        Heading of the series of lines.
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
    x_range = [float(lines["n_gpus"].min()), float(lines["n_gpus"].max())]
    y_range = [float(lines[vertical].min()), float(lines[vertical].max())]
    x = (
        altair.X("n_gpus:Q")
        .scale(type="log", domain=x_range, nice=False)
        .axis(format=_AXES["n_gpus"][1], tickCount=6)
        .title(_AXES["n_gpus"][0])
    )
    y = (
        altair.Y(f"{vertical}:Q")
        .scale(type="log", domain=y_range, nice=False)
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
            .legend(orient="bottom", symbolType="stroke"),
            strokeDash=altair.StrokeDash("order:N")
            .title(None)
            .scale(domain=["exact", "first order"], range=[[1, 0], [5, 4]])
            .legend(orient="bottom", symbolType="stroke"),
            tooltip=[
                altair.Tooltip("series:N", title=legend),
                altair.Tooltip("order:N", title="boundary"),
                altair.Tooltip("n_gpus:Q", title="GPUs", format=",.0f"),
                altair.Tooltip(f"{vertical}:Q", title=title, format=".3~g"),
            ],
        )
    )
    found = [regime for regime in _REGIMES if regime in set(jobs["regime"])]
    colours = dict(zip(_REGIMES, (PALETTE[3], PALETTE[6]), strict=True))
    marks = altair.Chart(jobs).encode(x=x, y=y)
    dots = marks.mark_point(size=70, filled=True, opacity=1.0, clip=True).encode(
        fill=altair.Fill("regime:N")
        .title("best for the job")
        .scale(domain=found, range=[colours[regime] for regime in found])
        .legend(orient="bottom", labelLimit=300),
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

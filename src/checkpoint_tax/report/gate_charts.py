"""Charts of rollbacks through gradient spikes."""

import altair
import pandas as pd

from checkpoint_tax.report.charts import PALETTE, described


def spike_chart(
    points: pd.DataFrame, bound: pd.DataFrame, *, caption: str, description: str
) -> altair.LayerChart:
    """Error of one step undone against the size of the spike.

    Parameters
    ----------
    points : pandas.DataFrame
        Columns ``array`` (text), ``spike`` [1] and ``error`` [1].
    bound : pandas.DataFrame
        Columns ``spike`` [1] and ``error`` [1]: the plain bound on the second moment.
    caption : str
        The finding.
    description : str
        For readers who do not see the chart.

    Returns
    -------
    altair.LayerChart
    """
    order = list(dict.fromkeys(points["array"]))
    x = altair.X("spike:Q").scale(type="log").title("gradient enlarged by")
    y = (
        altair.Y("error:Q")
        .scale(type="log")
        .axis(format="~e")
        .title("relative error after one step back")
    )
    dots = (
        altair.Chart(points)
        .mark_circle(size=70)
        .encode(
            x=x,
            y=y,
            color=altair.Color("array:N")
            .title(None)
            .scale(domain=order, range=list(PALETTE[: len(order)]))
            .legend(orient="bottom"),
            tooltip=[
                altair.Tooltip("array:N"),
                altair.Tooltip("spike:Q", title="enlarged by", format=",.0f"),
                altair.Tooltip("error:Q", title="error", format=".1e"),
            ],
        )
    )
    line = (
        altair.Chart(bound)
        .mark_line(color=PALETTE[6], strokeDash=[5, 4])
        .encode(x=x, y=y, tooltip=[altair.Tooltip("error:Q", title="bound", format=".1e")])
    )
    return described(
        altair.layer(line, dots).properties(width="container"),
        caption=caption,
        description=description,
    )

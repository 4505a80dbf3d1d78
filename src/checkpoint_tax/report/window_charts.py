"""Charts of capture windows: torn states, the bytes of a repair, and what each target is worth."""

from collections.abc import Mapping

import altair
import pandas as pd

from checkpoint_tax.report.charts import PALETTE, described


def torn_chart(
    errors: pd.DataFrame, *, printed: float, caption: str, description: str
) -> altair.LayerChart:
    """Error of a torn state against the learning rate.

    Parameters
    ----------
    errors : pandas.DataFrame
        Columns ``stream`` (text), ``lr`` [1], ``error`` [1], ``divergence`` [1] and
        ``warmup_steps`` [steps].
    printed : float
        The post's error, drawn as a line [1].
    caption : str
        The finding.
    description : str
        For readers who do not see the chart.

    Returns
    -------
    altair.LayerChart
    """
    order = list(dict.fromkeys(errors["stream"]))
    dots = (
        altair.Chart(errors)
        .mark_circle(size=60)
        .encode(
            x=altair.X("lr:Q").scale(type="log").axis(format="~e").title("learning rate"),
            y=altair.Y("error:Q")
            .scale(type="log")
            .axis(format="~e")
            .title("relative error of the weights"),
            color=altair.Color("stream:N")
            .title("gradients")
            .scale(domain=order, range=list(PALETTE[: len(order)]))
            .legend(orient="bottom"),
            tooltip=[
                altair.Tooltip("stream:N", title="gradients"),
                altair.Tooltip("lr:Q", title="learning rate", format="~e"),
                altair.Tooltip("warmup_steps:Q", title="steps before the window"),
                altair.Tooltip("error:Q", title="error", format=".1e"),
                altair.Tooltip("divergence:Q", title="after resuming", format=".1e"),
            ],
        )
    )
    line = (
        altair.Chart(pd.DataFrame({"error": [printed], "mark": ["printed in the post"]}))
        .mark_rule(strokeDash=[5, 4], color=PALETTE[6])
        .encode(y="error:Q", tooltip=[altair.Tooltip("mark:N", title="line")])
    )
    return described(
        altair.layer(dots, line).properties(width="container"),
        caption=caption,
        description=description,
    )


def bytes_chart(
    lines: pd.DataFrame, *, states: Mapping[str, float], caption: str, description: str
) -> altair.LayerChart:
    """Bytes of gradients a parameter against the window, with the state's own.

    Parameters
    ----------
    lines : pandas.DataFrame
        Columns ``series`` (text), ``window_steps`` [steps] and ``bytes`` [B per parameter].
    states : mapping of str to float
        Name of a state to its bytes per parameter [B], drawn as lines.
    caption : str
        The finding.
    description : str
        For readers who do not see the chart.

    Returns
    -------
    altair.LayerChart
    """
    order = list(dict.fromkeys(lines["series"]))
    y_title = "gradients shipped [B per parameter]"
    drawn = (
        altair.Chart(lines)
        .mark_line()
        .encode(
            x=altair.X("window_steps:Q").title("capture window [steps]"),
            y=altair.Y("bytes:Q").title(y_title),
            color=altair.Color("series:N")
            .title(None)
            .scale(domain=order, range=list(PALETTE[: len(order)]))
            .legend(orient="bottom", columns=2, labelLimit=300, symbolType="stroke"),
            tooltip=[
                altair.Tooltip("series:N", title="repair"),
                altair.Tooltip("window_steps:Q", title="window [steps]"),
                altair.Tooltip("bytes:Q", title="gradients [B]", format=".1f"),
            ],
        )
    )
    marks = pd.DataFrame({"state": list(states), "bytes": list(states.values())})
    rules = (
        altair.Chart(marks)
        .mark_rule(strokeDash=[5, 4], color=PALETTE[6])
        .encode(
            y="bytes:Q",
            tooltip=[
                altair.Tooltip("state:N"),
                altair.Tooltip("bytes:Q", title="state [B]", format=".0f"),
            ],
        )
    )
    return described(
        altair.layer(drawn, rules).properties(width="container"),
        caption=caption,
        description=description,
    )


def worth_chart(
    lines: pd.DataFrame, *, own_steps: float, caption: str, description: str
) -> altair.LayerChart:
    """Goodput of each repair against the time in which the link moves the state.

    Parameters
    ----------
    lines : pandas.DataFrame
        Columns ``repair`` (text), ``gradients`` (text: whether they are charged), ``steps``
        [steps] and ``goodput`` [share of wall time].
    own_steps : float
        The reader's own, drawn as a line [steps].
    caption : str
        The finding.
    description : str
        For readers who do not see the chart.

    Returns
    -------
    altair.LayerChart
    """
    order = list(dict.fromkeys(lines["repair"]))
    kinds = list(dict.fromkeys(lines["gradients"]))
    drawn = (
        altair.Chart(lines.assign(percent=100.0 * lines["goodput"]).drop(columns="goodput"))
        .mark_line()
        .encode(
            x=altair.X("steps:Q").title("drain of the state alone [steps]"),
            y=altair.Y("percent:Q").scale(zero=False).title("goodput [%]"),
            color=altair.Color("repair:N")
            .title("restored")
            .scale(domain=order, range=list(PALETTE[: len(order)]))
            .legend(orient="bottom", symbolType="stroke"),
            strokeDash=altair.StrokeDash("gradients:N")
            .title("gradients")
            .scale(domain=kinds, range=[[1, 0], [6, 4]][: len(kinds)])
            .legend(orient="bottom", symbolType="stroke"),
            tooltip=[
                altair.Tooltip("repair:N", title="restored"),
                altair.Tooltip("gradients:N"),
                altair.Tooltip("steps:Q", title="drain [steps]", format=".1f"),
                altair.Tooltip("percent:Q", title="goodput [%]", format=".2f"),
            ],
        )
    )
    line = (
        altair.Chart(pd.DataFrame({"steps": [own_steps], "mark": ["this job"]}))
        .mark_rule(strokeDash=[2, 3], color=PALETTE[6])
        .encode(x="steps:Q", tooltip=[altair.Tooltip("mark:N", title="line")])
    )
    return described(
        altair.layer(drawn, line).properties(width="container"),
        caption=caption,
        description=description,
    )

"""Charts: the look they share, and what makes each readable without seeing it.

A chart leaves a notebook as a plain Vega-Lite spec, small and the same on every run, so that its
numbers can be compared and reviewed. Colours that depend on light or dark belong to the page.
"""

from typing import Any

import altair

CHART_MIME = "application/vnd.vegalite.v6+json"
CAPTION_KEY = "caption"

PALETTE = ("#2f7ebc", "#d9730d", "#2e9e73", "#c2548f", "#8c6bc8", "#a5861b", "#7a8793")
"""Colours of series, in order: apart for common kinds of colour blindness, readable on white and
on near-black."""

_NAME = "checkpoint-tax"
_WIDTH_PIXELS = 640
_HEIGHT_PIXELS = 320


def enable() -> None:
    """Make Altair emit plain specs with the study's look; called when a chapter opens.

    Altair's own default puts a random identifier and the address of a script into each output:
    it needs a network, and never gives the same output twice.
    """
    altair.renderers.register(_NAME, _mime_bundle)
    altair.renderers.enable(_NAME)
    altair.theme.register(_NAME, enable=True)(_theme)


def described(chart: Any, *, caption: str, description: str) -> Any:
    """A chart with what every chart of the book must have.

    Parameters
    ----------
    chart : altair.Chart
        Or any other kind of Altair's; layered and concatenated ones too.
    caption : str
        The finding in a sentence, shown below the chart.
    description : str
        What the chart shows, for readers who do not see it.

    Returns
    -------
    altair.Chart
        A copy, of the same kind.

    Raises
    ------
    ValueError
        If one of the two texts is empty.
    """
    for name, text in (("caption", caption), ("description", description)):
        if not text.strip():
            raise ValueError(f"the {name} of a chart is empty, but it must say what it shows")
    copy = chart.copy(deep=True)
    copy.description = description
    copy.usermeta = {CAPTION_KEY: caption}
    return copy


def _mime_bundle(spec: dict[str, Any], **_: Any) -> dict[str, Any]:
    return {CHART_MIME: spec, "text/plain": f"Chart: {spec.get('description', 'no description')}"}


def _theme() -> altair.theme.ThemeConfig:
    return {
        "config": {
            "font": "system-ui, sans-serif",
            "view": {"continuousWidth": _WIDTH_PIXELS, "continuousHeight": _HEIGHT_PIXELS},
            "range": {"category": list(PALETTE)},
            "mark": {"color": PALETTE[0]},
            "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
            "legend": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
            "line": {"strokeWidth": 2},
        }
    }

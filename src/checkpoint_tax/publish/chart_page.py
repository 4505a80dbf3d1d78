"""Puts Altair's charts into pages: a MyST-NB renderer for their specs and a Sphinx extension.

A notebook holds each chart as a plain Vega-Lite spec. The page gets the spec, its caption, its
description as alternative text, and a drawing of it for readers without scripts.
"""

import html
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from checkpoint_tax.publish.static_site import DOWNLOAD_MIME, VEGALITE_VERSION
from checkpoint_tax.report.charts import CAPTION_KEY, CHART_MIME

_CHART_CLASS = "study-chart"
_log = logging.getLogger(__name__)


def chart_html(spec: Mapping[str, Any], drawing: str) -> str:
    """HTML of one chart.

    Parameters
    ----------
    spec : mapping
        Vega-Lite spec with a ``description`` and, under ``usermeta``, a caption.
    drawing : str
        The chart as SVG, for readers without scripts.

    Returns
    -------
    str
    """
    description = html.escape(str(spec.get("description", "")))
    caption = html.escape(str(spec.get("usermeta", {}).get(CAPTION_KEY, "")))
    # "</" would end the script element early, wherever in the spec it stands.
    data = json.dumps(spec, sort_keys=True).replace("</", "<\\/")
    return (
        f'<figure class="{_CHART_CLASS}">'
        f'<div class="{_CHART_CLASS}-drawing" role="img" aria-label="{description}"></div>'
        f'<script type="application/json">{data}</script>'
        f"<noscript>{drawing}</noscript>"
        f"<figcaption>{caption}</figcaption></figure>"
    )


class ChartRenderer:
    """MyST-NB's plugin for chart specs; found through the package's entry points."""

    mime_priority_overrides: ClassVar[list[tuple[str, str, int | None]]] = [
        ("*", CHART_MIME, 1),
    ]

    @staticmethod
    def handle_mime(renderer: Any, data: Any, inline: bool) -> list[nodes.Element] | None:
        """Render one output.

        Parameters
        ----------
        renderer : myst_nb.core.render.NbElementRenderer
        data : myst_nb.core.render.MimeData
        inline : bool

        Returns
        -------
        list of docutils.nodes.Element or None
            None for a kind of output that is not ours.
        """
        if data.mime_type == DOWNLOAD_MIME:
            return []  # becomes a file beside the page; its link is the output's HTML
        if data.mime_type != CHART_MIME:
            return None
        spec = dict(data.content)
        where = (renderer.source, data.line)
        for key, present in (
            ("description (its alternative text)", spec.get("description")),
            ("caption", spec.get("usermeta", {}).get(CAPTION_KEY)),
        ):
            if not present:
                _log.warning("a chart has no %s", key, location=where)
        return [nodes.raw("", chart_html(spec, _drawing(spec, where)), format="html")]


def _drawing(spec: Mapping[str, Any], where: tuple[str, int | None]) -> str:
    import vl_convert

    fixed = {**spec, "width": 640} if spec.get("width") == "container" else dict(spec)
    try:
        return str(vl_convert.vegalite_to_svg(fixed, vl_version=VEGALITE_VERSION))
    except ValueError as error:  # a spec can be valid and still draw nothing
        _log.warning("a chart cannot be drawn: %s", str(error).splitlines()[0], location=where)
        return ""


def add_chart_script(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Load Vega on the pages that have charts, and on no others.

    Parameters
    ----------
    app : sphinx.application.Sphinx
    pagename, templatename : str
    context : dict
    doctree : docutils.nodes.document or None
    """
    if f'class="{_CHART_CLASS}"' in context.get("body", ""):
        app.add_js_file("../vendor/charts.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension.

    Parameters
    ----------
    app : sphinx.application.Sphinx

    Returns
    -------
    dict
    """
    app.connect("html-page-context", add_chart_script)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

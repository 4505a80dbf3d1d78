"""The picture in the README: a chart of the committed book, drawn without a browser."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from checkpoint_tax.errors import InputError
from checkpoint_tax.publish.static_site import VEGALITE_VERSION

#: Chapter whose first chart is shown, and where its picture lies in the project.
PICTURED_CHAPTER = "cost-saturates"
PICTURE = "book/_static/cost-saturates.svg"

_WIDTH = 640


def first_chart(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """First chart among a notebook's outputs.

    Parameters
    ----------
    notebook : mapping
        With outputs.

    Returns
    -------
    dict
        Its Vega-Lite spec.

    Raises
    ------
    InputError
        If the notebook shows no chart.
    """
    # Kept out of the module: it draws Altair in, which asking for help should not wait for.
    from checkpoint_tax.report.charts import CHART_MIME

    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            spec = output.get("data", {}).get(CHART_MIME)
            if spec is not None:
                return dict(spec)
    raise InputError("the notebook shows no chart; execute it first.")


def chart_digest(spec: Mapping[str, Any]) -> str:
    """Digest of what a chart shows, by which a picture of it can be told to be current.

    Parameters
    ----------
    spec : mapping
        Vega-Lite spec.

    Returns
    -------
    str
    """
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()


def picture(spec: Mapping[str, Any]) -> str:
    """Draw a chart on white, with the digest of its spec in a comment.

    Parameters
    ----------
    spec : mapping
        Vega-Lite spec.

    Returns
    -------
    str
        SVG.
    """
    import vl_convert

    # A README has a page colour of its own, so the picture brings its background along.
    fixed = {**spec, "width": _WIDTH, "background": "white"}
    drawn = str(vl_convert.vegalite_to_svg(fixed, vl_version=VEGALITE_VERSION))
    return f"{drawn}\n<!-- {chart_digest(spec)} -->\n"

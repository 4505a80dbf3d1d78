"""Tables for reading: units in the heads, only the digits that are meant, ranges beside values.

Built on pandas' Styler with a fixed name in place of its random one, so that a table is the same
on every run. Colours come from the page's style sheet, which follows light and dark.
"""

import html
import math
import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

MISSING = "–"
MINUS = "\u2212"
DOWNLOAD_MIME = "text/csv"

_TABLE_CLASS = "study-table"
_EMPTY_STYLE = re.compile(r"<style[^>]*>\s*</style>\s*")


@dataclass(frozen=True)
class Column:
    """How one column is shown.

    Attributes
    ----------
    heading : str
        Head of the column.
    unit : str
        Shown in brackets under the heading; empty for a pure number or a text.
    digits : int or None
        Decimals of a number; None for a text, which is set to the left.
    scale : float
        Factor from the frame's unit to the shown one, such as 100 for percent.
    low, high : str
        Columns of the frame with the bounds of a 95 % interval; empty for an exact number. The
        shown value is then followed by the interval's half-width, or by its bounds where the
        value does not lie in their middle.
    link : str
        Column of the frame with the address a text points to; where that is empty, no link.
    below : str
        Column of the frame whose text stands in small print under a text.
    """

    heading: str
    unit: str = ""
    digits: int | None = None
    scale: float = 1.0
    low: str = ""
    high: str = ""
    link: str = ""
    below: str = ""


@dataclass(frozen=True)
class Table:
    """A finished table; displays itself in a notebook, the same on every run.

    Attributes
    ----------
    html : str
        For pages.
    text : str
        For readers of plain text.
    """

    html: str
    text: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}


def number(value: object, digits: int) -> str:
    """A number with a fixed count of decimals and thin spaces between thousands.

    Parameters
    ----------
    value : object
        A number, or something missing (None, NaN), shown as a dash.
    digits : int
        Decimals.

    Returns
    -------
    str
    """
    if not isinstance(value, numbers.Real) or math.isnan(float(value)):
        return MISSING
    shown = f"{float(value):,.{digits}f}".replace(",", "\u2009")
    is_zero = not any(character in "123456789" for character in shown)
    return shown.lstrip("-") if is_zero else shown.replace("-", MINUS)


def span(low: float, high: float, digits: int) -> str:
    """A range of numbers that no line break parts.

    Parameters
    ----------
    low, high : float
    digits : int
        Decimals of each number.

    Returns
    -------
    str
        ``low to high``, or one number where both show the same.
    """
    ends = [number(end, digits).replace("\u2009", "\u202f") for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else "\u00a0to\u00a0".join(ends)


def with_range(value: float, low: float, high: float, digits: int) -> str:
    """A value with its 95 % interval.

    Parameters
    ----------
    value, low, high : float
    digits : int
        Decimals of each number.

    Returns
    -------
    str
        ``value ± half-width`` where the interval is symmetric to the shown digits, otherwise
        ``value [low, high]``.
    """
    shown = number(value, digits)
    bounds = (number(low, digits), number(high, digits))
    if MISSING in (shown, *bounds):
        return shown
    below, above = number(value - low, digits), number(high - value, digits)
    if below == above:
        return f"{shown} ± {above}"
    return f"{shown} [{bounds[0]}, {bounds[1]}]"


def table(
    frame: pd.DataFrame,
    columns: Mapping[str, Column],
    *,
    name: str,
    caption: str,
    classes: Mapping[str, Mapping[object, str]] | None = None,
) -> Table:
    """A frame as a table for reading.

    Parameters
    ----------
    frame : pandas.DataFrame
        Numbers in the study's units, one row per case.
    columns : mapping
        Column of the frame to how it is shown, in order; others are left out.
    name : str
        Identifier of the table, unique in its chapter: letters, digits and hyphens.
    caption : str
        What the table says.
    classes : mapping, optional
        Column to a mapping from cell value to a class of the style sheet, such as
        ``{"verdict": {"differs": "verdict-differs"}}``.

    Returns
    -------
    Table

    Raises
    ------
    KeyError
        If the frame lacks a named column.
    """
    index = pd.RangeIndex(len(frame))
    plain = pd.DataFrame({key: _texts(frame, key, c) for key, c in columns.items()}, index=index)
    shown = pd.DataFrame(
        {key: _marked(frame, plain[key], column) for key, column in columns.items()}, index=index
    )
    marks = pd.DataFrame("", index=shown.index, columns=shown.columns)
    for key, column in columns.items():
        if column.digits is None:
            marks[key] = "text"
    for key, of_value in (classes or {}).items():
        added = [of_value.get(value, "") for value in frame[key]]
        marks[key] = [
            f"{mark} {more}".strip() for mark, more in zip(marks[key], added, strict=True)
        ]
    styler = shown.style
    styler.set_uuid(name)
    styler.set_caption(html.escape(caption))
    styler.set_table_attributes(f'class="{_TABLE_CLASS}"')
    styler.set_td_classes(marks)
    styler.hide(axis="index")
    styler.relabel_index([_head(column) for column in columns.values()], axis="columns")
    heads = [f"{c.heading} [{c.unit}]" if c.unit else c.heading for c in columns.values()]
    text = plain.set_axis(heads, axis="columns").to_string(index=False)
    page = _EMPTY_STYLE.sub("", styler.to_html()).replace("<th id", '<th scope="col" id')
    for place, column in enumerate(columns.values()):
        if column.digits is None:
            head = f"col_heading level0 col{place}"
            page = page.replace(f'class="{head}"', f'class="{head} text"')
    return Table(
        html=page,
        text=f"{caption}\n\n{text}",
    )


def _head(column: Column) -> str:
    heading = html.escape(column.heading)
    return f"{heading}<br>[{html.escape(column.unit)}]" if column.unit else heading


def _texts(frame: pd.DataFrame, key: str, column: Column) -> list[str]:
    if column.digits is None:
        return [MISSING if _is_missing(value) else str(value) for value in frame[key]]
    digits, scale = column.digits, column.scale
    values = _scaled(frame, key, scale)
    if not (column.low and column.high):
        return [number(value, digits) for value in values]
    bounds = zip(_scaled(frame, column.low, scale), _scaled(frame, column.high, scale), strict=True)
    return [
        with_range(value, low, high, digits)
        for value, (low, high) in zip(values, bounds, strict=True)
    ]


def _marked(frame: pd.DataFrame, texts: "pd.Series[str]", column: Column) -> list[str]:
    """The texts of one column as HTML."""
    marked = [html.escape(text) for text in texts]
    if column.link:
        marked = [
            text if _is_missing(address) else f'<a href="{html.escape(str(address))}">{text}</a>'
            for text, address in zip(marked, frame[column.link], strict=True)
        ]
    if column.below:
        marked = [
            text if _is_missing(more) else f"{text}<br><small>{html.escape(str(more))}</small>"
            for text, more in zip(marked, frame[column.below], strict=True)
        ]
    return marked


def _is_missing(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _scaled(frame: pd.DataFrame, key: str, scale: float) -> list[float]:
    return [math.nan if _is_missing(value) else float(value) * scale for value in frame[key]]


@dataclass(frozen=True)
class Download:
    """A CSV file that a chapter offers: shown as a link, written beside the page by the build.

    Attributes
    ----------
    filename : str
        Name of the file, such as ``"claims.csv"``.
    text : str
        Its content.
    """

    filename: str
    text: str

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        name = html.escape(self.filename)
        return (
            {
                "text/html": f'<a href="{name}" download>{name}</a>',
                "text/plain": self.filename,
                DOWNLOAD_MIME: self.text,
            },
            {DOWNLOAD_MIME: {"filename": self.filename}},
        )

"""Tables and charts as a reader meets them: digits, units, ranges, and the same text each time."""

import math

import altair
import pandas
import pytest

from checkpoint_tax.publish.static_site import downloads, with_values
from checkpoint_tax.report import charts, tables

FRAME = pandas.DataFrame(
    {
        "n": [512, 16384],
        "goodput": [0.964, 0.7822],
        "low": [0.9639, 0.78],
        "high": [0.9641, 0.79],
        "word": ["differs", "a <b"],
    }
)
COLUMNS = {
    "n": tables.Column("GPUs", "1", 0),
    "goodput": tables.Column("goodput", "%", 2, 100, "low", "high"),
    "word": tables.Column("verdict"),
}


def make_table():
    return tables.table(
        FRAME,
        COLUMNS,
        name="t1",
        caption="p < q",
        classes={"word": {"differs": "verdict-differs"}},
    )


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1234567.891, 1, "1\u2009234\u2009567.9"),
        (-0.5, 2, "\u22120.50"),
        (-0.004, 2, "0.00"),
        (0.0, 0, "0"),
        (16384, 0, "16\u2009384"),
        (math.nan, 2, "–"),
        (None, 2, "–"),
    ],
)
def test_numbers_show_the_digits_that_are_meant(value, digits, text):
    assert tables.number(value, digits) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (92.46, 92.45, 92.47, "92.46 ± 0.01"),
        (92.46, 92.40, 92.47, "92.46 [92.40, 92.47]"),
        (92.46, 92.47, 92.49, "92.46 [92.47, 92.49]"),
        (92.46, math.nan, math.nan, "92.46"),
        (math.nan, 1.0, 2.0, "–"),
    ],
)
def test_a_range_is_shown_as_a_half_width_only_where_it_is_one(value, low, high, text):
    assert tables.with_range(value, low, high, 2) == text


def test_a_table_names_units_and_ranges_and_escapes_texts():
    page = make_table().html
    assert "goodput<br>[%]</th>" in page
    assert ">96.40 ± 0.01</td>" in page
    assert ">78.22 [78.00, 79.00]</td>" in page
    assert 'class="data row0 col2 text verdict-differs" >differs</td>' in page
    assert ">a &lt;b</td>" in page
    assert "<caption>p &lt; q</caption>" in page
    assert page.count('<th scope="col"') == 3


def test_a_table_is_the_same_text_on_every_run_and_brings_no_colours():
    first, second = (make_table()._repr_mimebundle_() for _ in range(2))
    assert first == second
    assert set(first) == {"text/html", "text/plain"}
    assert "style" not in first["text/html"]
    assert "T_t1_row0_col0" in first["text/html"]
    assert first["text/plain"].splitlines()[0] == "p < q"


def test_a_table_of_a_missing_column_is_refused():
    with pytest.raises(KeyError, match="absent"):
        tables.table(FRAME, {"absent": tables.Column("x", "s", 1)}, name="t", caption="c")


def chart():
    return altair.Chart(FRAME).mark_point().encode(x="n:Q", y="goodput:Q")


def test_a_chart_leaves_a_notebook_as_the_same_plain_spec_every_time():
    charts.enable()
    bundles = [
        charts.described(chart(), caption="c", description="d")._repr_mimebundle_(None, None)
        for _ in range(2)
    ]
    assert bundles[0] == bundles[1]
    assert set(bundles[0]) == {charts.CHART_MIME, "text/plain"}
    spec = bundles[0][charts.CHART_MIME]
    assert spec["description"] == "d"
    assert spec["usermeta"] == {charts.CAPTION_KEY: "c"}
    assert spec["config"]["range"]["category"] == list(charts.PALETTE)
    assert bundles[0]["text/plain"] == "Chart: d"


@pytest.mark.parametrize(
    "texts", [{"caption": " ", "description": "d"}, {"caption": "c", "description": ""}]
)
def test_a_chart_without_words_is_refused(texts):
    with pytest.raises(ValueError, match="of a chart is empty"):
        charts.described(chart(), **texts)


def test_describing_a_chart_leaves_the_original_alone():
    original = chart()
    charts.described(original, caption="c", description="d")
    assert original.description is altair.Undefined


def test_a_download_becomes_a_file_of_its_own_name():
    data, metadata = tables.Download("claims.csv", "a,b\n1,2\n")._repr_mimebundle_()
    output = {"data": data, "metadata": metadata}
    assert downloads({"cells": [{"outputs": [output]}]}) == {"claims.csv": "a,b\n1,2\n"}
    metadata["text/csv"]["filename"] = "../../claims.csv"
    assert list(downloads({"cells": [{"outputs": [output]}]})) == ["claims.csv"]


def test_a_parameters_cell_is_shown_with_the_values_used():
    import ast

    statement = ast.parse("step_s = 6.5").body[0]
    shown = with_values(
        "n_gpus: int = 3  # [1] GPUs\nstep_s: float = 7.0  # [s] one step", {"step_s": statement}
    )
    assert shown == "n_gpus: int = 3  # [1] GPUs\nstep_s: float = 6.5  # [s] one step"

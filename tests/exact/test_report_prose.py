"""Numbers in sentences, and tables with links and small print."""

import pandas as pd
import pytest

from checkpoint_tax.ledger import ledger_frame
from checkpoint_tax.report.parameters import parameters_table
from checkpoint_tax.report.prose import Prose, listed, percent, points
from checkpoint_tax.report.tables import Column, table
from checkpoint_tax.report.verdicts import VERDICT_CLASSES, verdict_counts, verdict_table


def test_shares_are_written_in_percent():
    assert percent(0.915749) == "91.57 %"
    assert percent(0.4, 0) == "40 %"


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (0.0049, "0.49 points"),
        (0.00005, "0.01 points"),
        (0.0000499, "less than 0.01 points"),
        (-0.0049, "-0.49 points"),
        (0.0, "less than 0.01 points"),
    ],
)
def test_a_difference_too_small_to_matter_is_not_given_digits(difference, text):
    assert points(difference) == text


@pytest.mark.parametrize(
    ("parts", "text"),
    [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_things_are_listed_as_in_a_sentence(parts, text):
    assert listed(parts) == text


def test_prose_shows_itself_as_text():
    shown = Prose("It is **53 steps**.")._repr_mimebundle_()
    assert shown == {"text/markdown": "It is **53 steps**.", "text/plain": "It is **53 steps**."}


def test_a_link_and_small_print_are_escaped_and_left_out_of_plain_text():
    frame = pd.DataFrame({"name": ["a<b", "c"], "page": ['x.html?a="&b', ""], "more": ["<i>", ""]})
    shown = table(
        frame, {"name": Column("name", link="page", below="more")}, name="t", caption="Links"
    )
    assert (
        '<a href="x.html?a=&quot;&amp;b">a&lt;b</a><br><small>&lt;i&gt;</small></td>' in shown.html
    )
    assert ">c</td>" in shown.html
    assert shown.text.split() == ["Links", "name", "a<b", "c"]


def test_every_verdict_has_its_class_and_its_count_in_words():
    frame = ledger_frame({})
    assert verdict_counts(frame[frame["chapter"] == "ledger"]) == (
        "15 reproduced, 5 not computable here"
    )
    assert set(frame["verdict"]) <= set(VERDICT_CLASSES)


def test_a_claim_without_a_number_shows_a_dash_and_names_no_chapter_that_has_no_page():
    frame = ledger_frame({})
    later = frame[frame["chapter"] == "later"].head(1)
    shown = verdict_table(later, name="t", caption="Later", pages={"ledger": "ledger.html"})
    assert "<a " not in shown.html
    assert [cell.count("–") for cell in shown.text.splitlines()[-1:]] == [2]


def test_parameters_show_their_values_as_a_person_types_them():
    frame = pd.DataFrame(
        {
            "name": ["n_gpus", "gpu_mtbf_h", "target"],
            "value": [16384, 90205.09, "oldest"],
            "unit": ["1", "h", "word"],
            "meaning": ["GPUs", "mean", "version"],
            "kind": ["published"] * 3,
            "source": ["post"] * 3,
        }
    )
    text = parameters_table(frame).text
    assert "16,384" in text
    assert "90,205.09" in text
    assert "published: post" in text
    some = parameters_table(frame, {"target": str, "n_gpus": int}).text
    assert "oldest" in some
    assert "gpu_mtbf_h" not in some

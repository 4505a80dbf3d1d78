"""The ledger's page: every claim once, from every study, and a file that says the same."""

import io
import re
import types
from pathlib import Path

import pandas as pd
import pytest

from checkpoint_tax import studies
from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger import VERDICTS, Computed, ledger_frame, load_claims, write_csv
from checkpoint_tax.resources import data_path
from checkpoint_tax.studies import STUDIES, interval_mathematics
from checkpoint_tax.studies import ledger_page as page

ONLY_INTERVALS = {"interval-mathematics": "interval_mathematics"}


def test_every_chapter_that_recomputes_claims_has_its_study():
    chapters = {claim.chapter for claim in load_claims()} - {"ledger", "later"}
    assert set(STUDIES) == chapters


def test_all_studies_together_compute_what_is_theirs():
    collected = page.collect()
    assert interval_mathematics.claims().items() <= collected.items()
    own = {claim.claim_id for claim in load_claims() if claim.chapter in STUDIES}
    assert collected.keys() <= own


def test_a_chapter_that_does_not_exist_yet_stays_open():
    collected = page.collect({**ONLY_INTERVALS, "cost-saturates": "no_such_study"})
    frame = ledger_frame(collected).set_index("claim_id")
    assert set(frame.loc[frame["chapter"] == "cost-saturates", "verdict"]) == {"open"}
    assert "open" not in set(frame.loc[frame["chapter"] == "interval-mathematics", "verdict"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda found: found.pop("guide.text.mtbf_h"), "leaves out claim 'guide.text.mtbf_h'"),
        (
            lambda found: found.update({"tax.t1.n512.daly_k": Computed(value=1736.0)}),
            "another chapter's, claim 'tax.t1.n512.daly_k'",
        ),
    ],
)
def test_a_study_that_answers_for_the_wrong_claims_is_refused(monkeypatch, change, words):
    found = interval_mathematics.claims()
    change(found)
    monkeypatch.setattr(
        page.importlib, "import_module", lambda _: types.SimpleNamespace(claims=lambda: found)
    )
    with pytest.raises(InputError, match=re.escape(words)):
        page.collect(ONLY_INTERVALS)


def test_every_claim_stands_on_the_page_once():
    shown = pd.concat([page.section_frame(section) for section in page.SECTIONS])
    listed = [claim.claim_id for claim in load_claims()]
    assert len(listed) == len(shown)
    assert sorted(shown["claim_id"]) == sorted(listed)


def test_an_unknown_section_is_refused_by_name():
    with pytest.raises(InputError, match="'tables'; allowed are tax-table-1, "):
        page.section_frame("tables")


def test_a_row_shows_what_was_printed_computed_and_judged():
    text = page.section_table("guide-text").text
    (row,) = [line for line in text.splitlines() if "before its improvements" in line]
    assert re.search(r"7\.4%\s+7\.35\u00a0%\s+reproduced\s+Recomputed 7\.35 %, which", row)
    (row,) = [line for line in text.splitlines() if "Time between its unexpected" in line]
    assert "3.093\u00a0h [2.810, 3.410]" in row


def test_chapters_are_linked_where_they_exist():
    html = page.section_table("guide-conclusions").html
    assert '<a href="interval-mathematics.html">interval mathematics</a>' in html
    assert "later.html" not in html
    assert "verdict-partly" in html


def test_counts_add_up_and_chapters_stand_in_reading_order():
    claims = load_claims()
    for by, rows in (("post", 2), ("chapter", len(STUDIES) + 2), ("kind", 6)):
        lines = page.counts_by(by).text.splitlines()[2:]
        assert len(lines) == 1 + rows + 1
        totals = [int(line.split()[-1]) for line in lines[1:]]
        assert sum(totals[:-1]) == totals[-1] == len(claims)
        for line in lines[1:]:
            numbers = [int(part) for part in line.split() if part.isdigit()]
            assert sum(numbers[-7:-1]) == numbers[-1]
    lines = page.counts_by("chapter").text.splitlines()[3:]
    assert "interval mathematics" in lines[0]
    assert "a later chapter" in lines[-2]


def test_open_claims_are_counted_by_what_they_wait_for():
    frame = page.frame()
    table = page.open_table().text
    n_open = int((frame["verdict"] == "open").sum())
    assert table.startswith(f"The {n_open} open claims")
    assert sum(int(line.split()[-1]) for line in table.splitlines()[3:]) == n_open


def test_the_answer_counts_what_the_frame_holds():
    counted = page.frame()["verdict"].value_counts()
    text = page.answer().markdown
    n_open = counted.get("open", 0)
    assert f"{len(page.frame())} claims" in text
    assert f"{n_open} wait for a later chapter" in text
    assert f"{counted['reproduced']} reproduced" in text
    assert f"{counted['differs']} different" in text
    assert f"{counted['not computable here']} that only the vendor" in text
    # Dots of numbers aside, three sentences.
    assert len(re.split(r"\. (?=[A-Z])", text)) == 3


def test_the_file_is_the_frame(tmp_path):
    download = page.claims_file()
    assert download.filename == "claims.csv"
    write_csv(page.frame(), tmp_path / "claims.csv")
    assert download.text == (tmp_path / "claims.csv").read_text(encoding="utf-8")
    back = pd.read_csv(io.StringIO(download.text), keep_default_na=False, dtype=str)
    assert back["claim_id"].tolist() == [claim.claim_id for claim in load_claims()]
    assert set(back["verdict"]) <= set(VERDICTS)


def test_no_verdict_is_typed_anywhere():
    """Verdicts stand neither in the list of claims nor in a study: only the rules make them."""
    assert "verdict" not in data_path("claims.csv").read_text(encoding="utf-8").splitlines()[0]
    folder = Path(studies.__file__).parent
    for path in folder.glob("*.py"):
        assert "Verdict(" not in path.read_text(encoding="utf-8"), path.name

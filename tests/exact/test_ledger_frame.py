"""The ledger as a table: one row a claim, counts that add up, a file that reads back."""

from pathlib import Path

import pandas as pd
import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger import (
    FRAME_COLUMNS,
    VERDICTS,
    Computed,
    chance_count,
    counts,
    ledger_frame,
    load_claims,
    post_table,
    write_csv,
)

CLAIMS = load_claims()
FOUND = {
    "tax.t1.n16384.daly_k": Computed(306.87),
    "tax.t1.n16384.asy_gp": Computed(92.861, 91.9, 93.7),
    "tax.t1.n16384.blk_gp": Computed(78.89, 78.5, 79.3),
    "tax.concl.boundary_optimum": Computed(
        holds_under_post=True, holds_in_general=False, condition="drains shrink"
    ),
}


def test_one_row_a_claim_in_their_order() -> None:
    frame = ledger_frame({})
    assert tuple(frame.columns) == FRAME_COLUMNS
    assert list(frame["claim_id"]) == [claim.claim_id for claim in CLAIMS]


def test_nothing_computed_leaves_all_but_the_sourced_claims_open() -> None:
    frame = ledger_frame({})
    assert set(frame.loc[frame["verdict"] != "open", "chapter"]) == {"ledger"}
    assert set(frame.loc[frame["verdict"] == "open", "chapter"]).isdisjoint({"ledger"})


def test_computed_numbers_and_verdicts_land_in_their_rows() -> None:
    frame = ledger_frame(FOUND).set_index("claim_id")
    assert dict(frame.loc[list(FOUND), "verdict"]) == {
        "tax.t1.n16384.daly_k": "reproduced",
        "tax.t1.n16384.asy_gp": "within its noise",
        "tax.t1.n16384.blk_gp": "differs",
        "tax.concl.boundary_optimum": "true only when",
    }
    row = frame.loc["tax.t1.n16384.asy_gp"]
    assert (row["computed"], row["low"], row["high"]) == (92.861, 91.9, 93.7)
    # The conclusion has no number; 14 sourced facts have one.
    assert frame["computed"].notna().sum() == len(FOUND) - 1 + 14


@pytest.mark.parametrize(
    ("claim_id", "message"),
    [
        ("tax.t1.n1024.blk_gp", "not in the list of claims"),
        ("guide.text.days", "decided by the sourced facts alone"),
        ("guide.text.shard_gb", "give it its chapter"),
    ],
)
def test_a_claim_that_is_not_the_chapters_is_refused(claim_id: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ledger_frame({claim_id: Computed(1.0)})


@pytest.mark.parametrize("by", ["chapter", "post", "kind"])
def test_counts_add_up(by: str) -> None:
    table = counts(ledger_frame(FOUND), by)
    assert list(table.columns) == [*VERDICTS, "claims"]
    assert table.loc["all", "claims"] == len(CLAIMS)
    assert (table[list(VERDICTS)].sum(axis=1) == table["claims"]).all()
    assert (table.drop(index="all").sum() == table.loc["all"]).all()
    assert table.loc["all", "differs"] == 1


def test_counts_refuse_another_column() -> None:
    with pytest.raises(InputError, match="allowed are chapter, post, kind"):
        counts(ledger_frame({}), "unit")


def test_chance_count_sees_judged_statistical_claims_only() -> None:
    found = FOUND | {"tax.t1.n512.blk_gp": Computed(note="no length fits")}
    chance = chance_count(ledger_frame(found))
    assert (chance.judged, chance.outside) == (2, 1)
    assert chance.expected == pytest.approx(0.1, rel=1e-12)


def test_the_file_reads_back_without_loss(tmp_path: Path) -> None:
    frame = ledger_frame(FOUND)
    path = tmp_path / "new" / "claims.csv"
    write_csv(frame, path)
    read = pd.read_csv(path, keep_default_na=False, na_values={"computed": [""]})
    assert list(read["reason"]) == list(frame["reason"])
    assert read["computed"].equals(frame["computed"])
    first = path.read_bytes()
    write_csv(frame, path)
    assert path.read_bytes() == first
    assert b"\r" not in first


@pytest.mark.parametrize("number", [0, 5, True])
def test_there_are_four_post_tables(number: int) -> None:
    with pytest.raises(InputError, match="allowed are 1, 2, 3, 4"):
        post_table(number)

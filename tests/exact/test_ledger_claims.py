"""The list of claims refuses rows that contradict themselves."""

import csv
from dataclasses import asdict
from pathlib import Path

import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger import load_claims
from checkpoint_tax.ledger.claims import COLUMNS

GOOD = {
    "claim_id": "tax.t1.n512.blk_gp",
    "post": "tax",
    "place": "table 1",
    "statement": "goodput",
    "printed": "96.42%",
    "relation": "=",
    "value": "96.42",
    "unit": "%",
    "rounding": "0.005",
    "kind": "statistical",
    "chapter": "daly-against-simulation",
    "fact": "",
    "reason": "",
}
FACT = {
    "claim_id": "guide.text.days",
    "post": "guide",
    "printed": "54-day",
    "value": "54",
    "rounding": "0.5",
    "unit": "d",
    "kind": "external-fact",
    "chapter": "ledger",
    "fact": "llama3_days",
}
CONCLUSION = {
    "claim_id": "tax.concl.free",
    "kind": "conclusion",
    "relation": "",
    "value": "",
    "unit": "",
    "rounding": "",
}


def write(path: Path, *rows: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> Path:
    with path.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_good_rows_load_in_order(tmp_path: Path) -> None:
    rows = [GOOD, GOOD | FACT, GOOD | CONCLUSION]
    claims = load_claims(write(tmp_path / "claims.csv", *rows))
    assert [claim.claim_id for claim in claims] == [row["claim_id"] for row in rows]
    numbers = {"value": 96.42, "rounding": 0.005}
    assert asdict(claims[0]) == GOOD | numbers
    assert asdict(claims[1]) == GOOD | FACT | {"value": 54.0, "rounding": 0.5}
    assert asdict(claims[2]) == GOOD | CONCLUSION | {"value": None, "rounding": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim_id": ""}, "claim_id is empty"),
        ({"statement": ""}, "statement is empty"),
        ({"printed": ""}, "printed is empty"),
        ({"unit": ""}, "unit is empty"),
        ({"value": ""}, "value is empty"),
        ({"place": " table 1"}, "begins or ends with a blank"),
        ({"claim_id": "tax.blk_gp"}, "claim_id must read"),
        ({"claim_id": "tax.text.Blk"}, "claim_id must read"),
        ({"post": "guide"}, "post is 'guide'"),
        ({"kind": "guess"}, "kind is 'guess'"),
        ({"chapter": "epilogue"}, "chapter is 'epilogue'"),
        ({"relation": "≈"}, "relation is '≈'"),
        ({"value": "96.4x"}, "must be numbers"),
        ({"value": "NaN"}, "must be finite"),
        ({"value": "96.43"}, "is not the 96.42 that is printed"),
        ({"rounding": "0.05"}, "is not the 0.005 of the printed text"),
        ({"rounding": "0"}, "is not the 0.005 of the printed text"),
        ({"kind": "conclusion"}, "does not fit the id"),
        ({"claim_id": "tax.concl.free"}, "does not fit the id"),
        ({"fact": "llama3_days"}, "and nothing else, names its fact"),
        (FACT | {"fact": ""}, "and nothing else, names its fact"),
        (FACT | {"chapter": "cost-saturates"}, "belongs to chapter 'ledger'"),
        (FACT | {"fact": "vendor"}, "a reason is needed"),
        ({"chapter": "later"}, "a reason is needed"),
        ({"reason": "needs more"}, "a reason is needed"),
    ],
)
def test_a_bad_row_is_named_and_refused(
    tmp_path: Path, change: dict[str, str], message: str
) -> None:
    good = GOOD | {"claim_id": "tax.t1.n2048.blk_gp"}
    path = write(tmp_path / "claims.csv", good, GOOD | change)
    with pytest.raises(InputError, match=message) as refusal:
        load_claims(path)
    assert "row 3" in str(refusal.value)


def test_a_zero_may_be_claimed_exactly(tmp_path: Path) -> None:
    zero = GOOD | {"printed": "0.0", "value": "0", "unit": "1", "rounding": "0"}
    (claim,) = load_claims(write(tmp_path / "claims.csv", zero))
    assert claim.rounding == 0


def test_an_id_used_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="used twice"):
        load_claims(write(tmp_path / "claims.csv", GOOD, GOOD))


def test_a_missing_column_is_refused(tmp_path: Path) -> None:
    columns = tuple(name for name in COLUMNS if name != "rounding")
    with pytest.raises(InputError, match="must have the columns"):
        load_claims(write(tmp_path / "claims.csv", GOOD, columns=columns))


@pytest.mark.parametrize("tail", [",surplus\n", "\n"])
def test_a_row_of_another_length_is_refused(tmp_path: Path, tail: str) -> None:
    fields = list(GOOD.values())[: None if "surplus" in tail else -1]
    path = tmp_path / "claims.csv"
    path.write_text(",".join(COLUMNS) + "\n" + ",".join(fields) + tail, encoding="utf-8")
    with pytest.raises(InputError, match="must have 13 fields"):
        load_claims(path)

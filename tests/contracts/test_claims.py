"""The data folder agrees with itself, with its README and with the posts' printed tables."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from checkpoint_tax.ledger import CHAPTERS, POSTS, load_claims, load_facts, post_table
from checkpoint_tax.resources import data_path

CLAIMS = {claim.claim_id: claim for claim in load_claims()}
DATA = data_path("claims.csv").parent

# Printed rows times printed columns, the labels of the rows among them.
TABLES = {"tax.t1": 5 * 10, "tax.t2": 7 * 4, "tax.t3": 3 * 4, "tax.t4": 4 * 3}

# Column of the chart table -> column of the claim, and the prefix of the row's claims.
COLUMNS = {
    1: {
        "n_gpus": "n",
        "job_mtbf_h": "mtbf_h",
        "daly_steps": "daly_k",
        "blocking_best_steps": "blk_k",
        "blocking_goodput_percent": "blk_gp",
        "async_best_steps": "asy_k",
        "async_goodput_percent": "asy_gp",
        "async_rework_percent": "rework",
        "async_restart_percent": "restart",
        "async_tax_percent": "tax",
    },
    2: {
        "interval_steps": "k",
        "goodput_percent": "goodput",
        "rework_percent": "rework",
        "tax_percent": "tax",
    },
    3: {
        "gradient_traffic": "traffic",
        "parameter_relative_l2": "p",
        "first_moment_relative_l2": "m",
        "second_moment_relative_l2": "v",
    },
    4: {
        "spike_factor": "spike",
        "squared_gradient_share": "ratio",
        "second_moment_relative_error": "err",
    },
}
ROWS = {1: ("n_gpus", "n"), 2: ("interval_steps", "k"), 3: ("target", ""), 4: ("spike_factor", "x")}


@pytest.mark.parametrize(("table", "cells"), TABLES.items())
def test_every_cell_of_a_printed_table_is_a_claim(table: str, cells: int) -> None:
    assert sum(claim_id.startswith(f"{table}.") for claim_id in CLAIMS) == cells


def test_no_other_table_is_claimed() -> None:
    tables = {tuple(i.split(".")[:2]) for i in CLAIMS if i.split(".")[1] not in ("text", "concl")}
    assert {".".join(table) for table in tables} == set(TABLES)


@pytest.mark.parametrize("number", COLUMNS)
def test_chart_tables_hold_the_claimed_numbers(number: int) -> None:
    table = post_table(number)
    label, prefix = ROWS[number]
    compared = 0
    for row in table.to_dict("records"):
        for column, slug in COLUMNS[number].items():
            claim = CLAIMS[f"tax.t{number}.{prefix}{row[label]}.{slug}"]
            assert row[column] == claim.value
            compared += 1
        if number == 1:
            best = CLAIMS[f"tax.t1.n{row['n_gpus']}.asy_k"]
            assert row["async_best_relation"] == best.relation
    assert compared == TABLES[f"tax.t{number}"]


def test_table_cells_of_one_column_share_unit_and_kind_but_for_exact_zeros() -> None:
    columns: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for claim in CLAIMS.values():
        _, table, _, *column = [*claim.claim_id.split("."), ""]
        if table in ("text", "concl") or claim.value == 0:
            continue
        columns.setdefault((table, column[0]), set()).add((claim.unit, claim.kind))
    assert {key: kinds for key, kinds in columns.items() if len(kinds) > 1} == {}


def test_shares_of_a_row_of_table_1_sum_to_one_but_for_the_step_in_flight() -> None:
    # The post counts rework in whole steps, so half a step (7 s) is missing per failure, which
    # takes the printed MTBF and a restart of 390 s. Each share is printed to 0.01 points.
    for n_gpus in (512, 2048, 8192, 16384, 65536):
        row = {column: CLAIMS[f"tax.t1.n{n_gpus}.{column}"].value for column in COLUMNS[1].values()}
        shares = [row[column] or 0.0 for column in ("asy_gp", "rework", "restart", "tax")]
        in_flight = 100 * 3.5 / (3600 * (row["mtbf_h"] or 0.0) + 390)
        assert abs(sum(shares) + in_flight - 100) <= 4 * 0.005


def test_a_number_printed_in_a_table_and_in_the_text_is_the_same() -> None:
    pairs = {
        "tax.text.daly_k_16k": "tax.t1.n16384.daly_k",
        "tax.text.restart_16k": "tax.t1.n16384.restart",
        "tax.text.rework_16k": "tax.t1.n16384.rework",
        "tax.text.tax_pinned": "tax.t2.k3.tax",
        "tax.t2.k10.goodput": "tax.t1.n16384.asy_gp",
        "tax.t2.k10.rework": "tax.t1.n16384.rework",
        "tax.t2.k10.tax": "tax.t1.n16384.tax",
        "tax.text.wall_s16": "tax.t3.newest.traffic",
        "guide.text.faq_size_8b_gb": "guide.text.size_8b_gb",
        "guide.text.faq_size_70b_gb": "guide.text.size_70b_gb",
    }
    for one, other in pairs.items():
        assert (CLAIMS[one].value, CLAIMS[one].unit) == (CLAIMS[other].value, CLAIMS[other].unit)


def test_both_posts_and_every_chapter_have_claims() -> None:
    assert {claim.post for claim in CLAIMS.values()} == set(POSTS)
    assert set(Counter(claim.chapter for claim in CLAIMS.values())) == set(CHAPTERS)


def test_tables_1_and_2_and_the_interval_section_have_a_chapter() -> None:
    interval = [i for i, claim in CLAIMS.items() if claim.place == "the interval math"]
    tables = [i for i in CLAIMS if i.startswith(("tax.t1.", "tax.t2."))]
    assert len(interval) == 17
    assert {i for i in tables + interval if CLAIMS[i].chapter == "later"} == set()


def test_every_named_fact_exists_in_the_unit_of_its_claim() -> None:
    facts = load_facts()
    for claim in CLAIMS.values():
        if claim.fact and claim.fact != "vendor":
            assert facts[claim.fact].unit == claim.unit, claim.claim_id


def test_readme_names_every_file_and_every_column() -> None:
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    files = sorted(path for path in DATA.iterdir() if path.name != "README.md")
    overview, *sections = readme.split("\n## ")
    described = {section.splitlines()[0]: section for section in sections}
    assert [path.name for path in files] == sorted(described)
    for path in files:
        assert f"| `{path.name}` |" in overview
        for column in _header(path):
            assert f"`{column}`" in described[path.name], f"{path.name}: {column}"


def _header(path: Path) -> list[str]:
    if path.suffix == ".json":
        return list(json.loads(path.read_text(encoding="utf-8")))
    with path.open(encoding="utf-8", newline="") as lines:
        return next(csv.reader(lines))

"""The command ``failures``: what it prints and what it refuses."""

import json
from pathlib import Path

import pytest

from checkpoint_tax.cli import main

LOGS = Path(__file__).resolve().parents[1] / "logs"
Captured = pytest.CaptureFixture[str]


def test_json_is_what_python_gives(capsys: Captured) -> None:
    from checkpoint_tax.failures import as_json, read_failures

    path = LOGS / "sacct.txt"
    assert main(["failures", str(path), "--tz", "America/Los_Angeles", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps(as_json(read_failures(path, tz="America/Los_Angeles"))))
    assert round(found["mtbf_h"], 2) == 54.23
    assert "20 %" not in found["verdict"]
    assert found["verdict"].startswith("cannot distinguish")


def test_text_shows_raw_and_merged_side_by_side_and_every_line(capsys: Captured) -> None:
    assert main(["failures", str(LOGS / "incidents.csv"), "--tz", "America/Los_Angeles"]) == 0
    text = capsys.readouterr().out
    assert "raw records           8       20.77 h" in text
    assert "merged within 10 min  6       29.07 h" in text
    assert "4  merged   into the interruption of line 3: 0 s after line 3, same node gpu021" in text
    assert "13  dropped  exact duplicate of line 3" in text


def test_the_window_is_an_option(capsys: Captured) -> None:
    path = str(LOGS / "incidents.csv")
    wide = ["failures", path, "--tz", "America/Los_Angeles", "--window", "3h", "--json"]
    assert main(wide) == 0
    assert json.loads(capsys.readouterr().out)["n_events"] == 4


def test_columns_are_mapped(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("a=b,why\n2025-01-01T00:00:00Z,ECC\n2025-01-01T06:00:00Z,ECC\n")
    assert main(["failures", str(path), "--map", "a=b=start", "--map", "why=cause", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean_gap_h"] == 6.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["none.txt"], "none.txt: the log cannot be read"),
        (["sacct.txt", "--tz", "Nowhere"], "tz = 'Nowhere'"),
        (["sacct.txt", "--kind", "x"], "kind = 'x'"),
        (["sacct.txt", "--map", "x"], "--map x must have the form"),
        (["sacct.txt", "--map", "JobID=id", "--map", "JobID=name"], "--map JobID is given twice"),
        (["sacct.txt", "--window", "soon"], "window = 'soon' is not a time span"),
        (["workers_syslog.log"], "--year"),
    ],
)
def test_refused(capsys: Captured, arguments: list[str], sentence: str) -> None:
    assert main(["failures", str(LOGS / arguments[0]), *arguments[1:]]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert sentence in captured.err

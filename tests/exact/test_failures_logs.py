"""Every kind of log with its usual dirt: what counts, what does not, and why."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures import FailureLog, as_json, read_failures
from checkpoint_tax.units import HOUR_S

LOGS = Path(__file__).resolve().parents[1] / "logs"
PACIFIC = "America/Los_Angeles"


def fates(log: FailureLog) -> dict[int, str]:
    found: dict[int, str] = {}
    for record in log.records:
        for line in range(record.line, record.last_line + 1):
            found.setdefault(line, record.state)
    return found


def why(log: FailureLog, line: int) -> str:
    return next(r.why for r in log.records if r.line <= line <= r.last_line)


def warned(log: FailureLog, *words: str) -> bool:
    return any(all(word in sentence for word in words) for sentence in log.warnings)


def written(tmp_path: Path, text: str, name: str = "log.txt") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_slurm_allocations_by_elapsed_and_state() -> None:
    log = read_failures(LOGS / "sacct.txt", tz=PACIFIC)
    assert (log.kind, log.n_failures, log.n_events, log.n_censored) == ("sacct", 3, 3, 3)
    assert log.exposure_s == 162 * HOUR_S + 42 * 60 + 10
    assert log.mtbf_s == pytest.approx(54.2342592593 * HOUR_S, rel=1e-9)
    assert log.classes == {"infrastructure": 3, "application": 1, "planned": 0, "unknown": 0}
    states = fates(log)
    assert [line for line in states if states[line] == "kept"] == [2, 6, 8, 9, 10, 11, 14]
    assert why(log, 15) == "exact duplicate of line 14"
    # Queueing apart from the rest: three restarts of one id, all of it waiting for nodes.
    assert (log.queue.p10_s, log.queue.p50_s, log.queue.longest_s) == (480.0, 720.0, 67200.0)
    assert log.without_queue.longest_s == 0.0
    assert log.nodes == (64.0, 64.0, 64.0)


def test_the_run_across_a_clock_change_lasts_what_elapsed_says() -> None:
    log = read_failures(LOGS / "sacct.txt", tz=PACIFIC)
    assert 9 * HOUR_S in log.censored_s
    assert not warned(log, "Elapsed was taken")
    assert warned(read_failures(LOGS / "sacct.txt"), "line 9", "hour of a clock change")


def test_slurm_rows_with_every_other_dirt() -> None:
    log = read_failures(LOGS / "sacct_autumn.txt", tz="Europe/Berlin")
    assert log.exposure_s == 66 * HOUR_S
    assert log.classes == {"infrastructure": 5, "application": 1, "planned": 2, "unknown": 0}
    assert (log.n_events, log.n_untimed, log.n_failures, log.n_censored) == (4, 1, 5, 2)
    assert fates(log)[5] == fates(log)[16] == "broken"
    assert warned(log, "line 5", "broken")
    assert warned(log, "line 16", "HALTED")
    assert why(log, 9) == "the header once more"
    assert why(log, 14) == "CANCELLED before it started"
    assert "by line 13" in why(log, 12)  # running in an older print, cancelled in a newer one
    assert fates(log)[18] == "merged"  # the second part of a heterogeneous job
    # A launch that failed at once: a gap of 0, told openly.
    assert 0.0 in log.gaps_s
    assert warned(log, "gaps written as 0")


def test_restarts_without_rows_are_counted_without_a_time() -> None:
    log = read_failures(LOGS / "sacct_last_rows.txt")
    assert (log.n_failures, log.n_events, log.n_untimed) == (3, 1, 2)
    assert log.exposure_s == 36 * HOUR_S
    assert warned(log, "Restarts counts 2 more restarts", "sacct -D")


def test_array_ids_stay_text(tmp_path: Path) -> None:
    rows = [
        "JobID|State|Start|End|Elapsed",
        "123_4|NODE_FAIL|2025-01-01T00:00:00|2025-01-01T10:00:00|10:00:00",
        "1234|NODE_FAIL|2025-01-01T00:00:00|2025-01-01T10:00:00|10:00:00",
    ]
    log = read_failures(written(tmp_path, "\n".join(rows)), tz="UTC")
    assert log.n_failures == 2


def test_incidents_of_mixed_zones_are_merged_into_interruptions() -> None:
    log = read_failures(LOGS / "incidents.csv", tz=PACIFIC)
    assert (log.kind, log.n_events, log.n_untimed, log.n_failures) == ("incidents", 6, 1, 7)
    assert log.merged.mean_gap_s == pytest.approx(104664.05, abs=1e-3)  # 29.07 h
    assert log.mtbf_s == log.merged.mean_gap_s
    assert (log.raw.n, log.merged.n, log.raw.n_zero_gaps) == (8, 6, 1)
    assert log.classes["planned"] == 1
    assert {n for n, state in fates(log).items() if state == "merged"} == {4, 6}
    assert warned(log, "line 8", "ends before it starts")
    assert warned(log, "line 10", "start is unknown")
    assert log.restart.longest_s == 2.5 * HOUR_S  # across the clock change, not 3.5 h


def test_local_times_among_zoned_ones_are_not_guessed_at() -> None:
    log = read_failures(LOGS / "incidents.csv")
    assert log.n_untimed == 3
    assert warned(log, "local time without a zone", "--tz")


def test_a_time_that_was_watched_sets_the_exposure() -> None:
    log = read_failures(
        LOGS / "incidents.csv", tz=PACIFIC, since="2025-03-08", until="2025-03-18 00:00"
    )
    assert log.exposure_s == 10 * 24 * HOUR_S - HOUR_S  # one of the days has 23 hours
    assert log.mtbf_s == log.exposure_s / 7
    assert log.n_censored == 1
    assert "line" not in "".join(w for w in log.warnings if "watched" in w)
    late = read_failures(
        LOGS / "incidents.csv", tz=PACIFIC, since="2025-03-12", until="2025-03-18 00:00"
    )
    assert late.n_events == 3
    assert why(late, 2) == "outside the time from since to until"


def test_topology_keeps_apart_what_the_window_would_join() -> None:
    log = read_failures(LOGS / "incidents_racks.csv", tz="Europe/Berlin")
    assert "same rack=r1" in why(log, 4)
    assert fates(log)[5] == "kept"  # five minutes after the first, in another rack
    assert "nested in the outage of n101" in why(log, 6)
    assert log.n_events == 5
    assert log.classes == {"infrastructure": 4, "application": 1, "planned": 0, "unknown": 2}
    assert fates(log)[11] == fates(log)[15] == "broken"
    assert fates(log)[12] == "kept"  # its cause spans two lines
    assert warned(log, "day first")
    assert log.restart.n_open == 1


def test_local_times_that_exist_twice_or_never() -> None:
    log = read_failures(LOGS / "incidents_folds.csv", tz=PACIFIC)
    assert warned(log, "line 3", "exists twice")
    assert warned(log, "line 5", "does not exist")
    assert warned(log, "line 6", "CET")
    assert log.n_untimed == 1
    assert (log.n_events, log.raw.n) == (6, 7)
    assert log.restart.p10_s == 40 * 60  # 01:30 to 01:10 of the second hour
    assert "unplanned" not in why(log, 9)


def test_slurm_node_events() -> None:
    log = read_failures(LOGS / "node_events.txt", tz="America/Chicago")
    assert (log.kind, log.n_events, log.n_untimed) == ("sacctmgr", 4, 1)
    assert log.merged.mean_gap_s == 68 * HOUR_S
    assert log.classes == {"infrastructure": 5, "application": 0, "planned": 3, "unknown": 1}
    assert [fates(log)[line] for line in (4, 5, 6)] == ["merged"] * 3
    assert why(log, 10) == "during the planned work of line 9"
    assert log.restart.n_open == 1
    assert warned(log, "1 outages are still open", "not 0")


def test_pager_lines_of_three_makers() -> None:
    log = read_failures(LOGS / "pager.jsonl")
    assert (log.kind, log.n_events, log.n_untimed) == ("pager", 4, 2)
    assert [fates(log)[line] for line in (2, 3, 5)] == ["merged"] * 3
    assert fates(log)[8] == fates(log)[11] == "broken"
    assert "was acknowledged" in why(log, 2)
    assert why(log, 5) == "the end of the incident of line 4"
    assert log.classes["planned"] == 1
    assert log.restart.p50_s == HOUR_S


def test_wandb_runs_are_in_utc() -> None:
    log = read_failures(LOGS / "wandb_runs.csv", tz=PACIFIC)
    assert (log.kind, log.n_failures, log.n_censored) == ("wandb", 2, 2)
    assert log.exposure_s == 416950.0
    assert log.mtbf_s == 208475.0
    assert log.classes["application"] == 1
    assert fates(log)[8] == "dropped"
    assert warned(log, "line 8", "debug")
    assert warned(log, "are in UTC")
    assert log.restart.p10_s == 1299.0


def test_a_resumed_run_is_one_run() -> None:
    log = read_failures(LOGS / "wandb_resumed.csv")
    assert log.exposure_s == 35 * HOUR_S
    assert (log.n_failures, log.n_events, log.n_untimed) == (2, 1, 1)
    assert log.classes["planned"] == 1
    assert "by line 3" in why(log, 2)
    assert fates(log)[10] == fates(log)[11] == "broken"
    assert log.restart.p50_s == 1200.0


def test_worker_logs_take_the_year_from_a_dated_line() -> None:
    log = read_failures(LOGS / "workers.log", tz="UTC")
    assert log.kind == "workers"
    assert log.classes == {"infrastructure": 1, "application": 1, "planned": 0, "unknown": 1}
    assert (log.n_failures, log.raw.n) == (2, 7)
    # Up: 22:00-23:30, 23:40-03:40, 03:50-09:50 and 10:00-12:00 across the year's end.
    assert log.exposure_s == pytest.approx(13.5 * HOUR_S, abs=1.0)
    assert (log.restart.n, round(log.restart.p50_s or 0)) == (3, 600)
    assert fates(log)[7] == "dropped"  # a signal to the others is no failure of its own


def test_worker_logs_without_a_date_ask_for_the_year() -> None:
    with pytest.raises(InputError, match="--year"):
        read_failures(LOGS / "workers_syslog.log")
    log = read_failures(LOGS / "workers_syslog.log", year=2025, tz="UTC")
    assert (log.n_failures, log.merged.mean_gap_s) == (2, 18060.0)
    leap = read_failures(LOGS / "workers_syslog.log", year=2024, tz="UTC")
    assert leap.merged.mean_gap_s == 18060.0 + 24 * HOUR_S


def test_a_count_without_times_is_a_rate() -> None:
    log = read_failures(LOGS / "pytorchjob.yaml")
    assert (log.kind, log.n_failures, log.n_events, log.n_untimed) == ("pytorchjob", 7, 2, 5)
    assert log.exposure_s == pytest.approx(120 * HOUR_S + 120.0)
    assert log.fits == {}
    assert "rate, not a distribution" in log.verdict
    assert log.restart.n_open == 1  # restarting without an end
    assert warned(log, "open outage is censored, not 0")
    assert fates(log)[22] == "broken"


def test_restarts_of_pods_are_not_summed() -> None:
    log = read_failures(LOGS / "pytorchjob.yaml")
    assert "1 failures with a time, 2 only counted" in why(log, 24)


def test_columns_of_ones_own(tmp_path: Path) -> None:
    text = "when it broke,who,what\n2025-01-01T00:00:00Z,a,ECC\n2025-01-02T00:00:00Z,b,ECC\n"
    path = written(tmp_path, text)
    with pytest.raises(InputError, match="not recognised"):
        read_failures(path)
    log = read_failures(path, mapping={"When It Broke": "start", "what": "cause"})
    assert log.merged.mean_gap_s == 24 * HOUR_S
    with pytest.raises(InputError, match="no column 'when'"):
        read_failures(path, kind="incidents", mapping={"when it broke": "start", "when": "end"})
    with pytest.raises(InputError, match="'begin' is not a name"):
        read_failures(path, kind="incidents", mapping={"when it broke": "begin"})


def test_a_length_needs_a_unit(tmp_path: Path) -> None:
    text = "start,duration_min,cause\n2025-01-01T00:00:00Z,30,ECC\n2025-01-02T00:00:00Z,90,ECC\n"
    assert read_failures(written(tmp_path, text)).restart.longest_s == 5400.0
    log = read_failures(written(tmp_path, text.replace("_min", "")))
    assert log.restart.n == 0
    assert warned(log, "has no unit")


def test_packed_wide_and_windows_files_read_the_same(tmp_path: Path) -> None:
    text = (LOGS / "incidents.csv").read_text(encoding="utf-8")
    packed, wide, windows = (tmp_path / name for name in ("a.csv.gz", "b.csv", "c.csv"))
    packed.write_bytes(gzip.compress(text.encode()))
    wide.write_bytes(text.encode("utf-16"))
    windows.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    expected = as_json(read_failures(LOGS / "incidents.csv", tz=PACIFIC))
    for path in (packed, wide, windows):
        assert as_json(read_failures(path, tz=PACIFIC)) == expected


def test_progress_adds_up_to_the_size() -> None:
    seen: list[int] = []
    read_failures(LOGS / "sacct.txt", tz=PACIFIC, progress=seen.append)
    assert sum(seen) == (LOGS / "sacct.txt").stat().st_size


def test_json_has_its_keys_and_no_infinity() -> None:
    keys = {
        "kind", "n_events", "n_failures", "n_untimed", "n_censored", "exposure_h", "mtbf_h",
        "mtbf_interval_h", "mean_gap_h", "restart_s", "fits", "verdict", "records", "warnings",
    }  # fmt: skip
    for path in sorted(LOGS.iterdir()):
        found = as_json(read_failures(path, tz="UTC", year=2025))
        assert keys <= set(found)
        json.dumps(found, allow_nan=False)
        assert all({"line", "kept", "why"} <= set(r) for r in found["records"])


@pytest.mark.parametrize("path", sorted(LOGS.iterdir()), ids=lambda path: path.name)
def test_every_line_has_a_fate(path: Path) -> None:
    """Nothing is left out in silence; a header and blanks are no records."""
    log = read_failures(path, tz="UTC", year=2025)
    if log.kind == "pytorchjob":
        return
    told = fates(log)
    lines = path.read_text(encoding="utf-8").splitlines()
    missing = [n for n, text in enumerate(lines, 1) if text.strip() and n not in told]
    continued = {13} if path.name == "incidents_racks.csv" else set()
    is_table = log.kind in ("sacct", "sacctmgr", "incidents", "wandb")
    assert len(set(missing) - continued) == is_table  # the header


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tz": "Mars/Olympus"}, "tz = 'Mars/Olympus' is not a time zone"),
        ({"kind": "parquet"}, "kind = 'parquet' is not a kind of log"),
        ({"year": 99}, "year = 99 is refused"),
        ({"window_s": -1.0}, "window = -1"),
        ({"window_s": float("nan")}, "window = nan"),
        ({"since": "2025-01-01"}, "since and until are given together"),
        ({"since": "2025-01-02", "until": "2025-01-01"}, "is not after"),
        ({"since": "soon", "until": "2025-01-01"}, "since = 'soon' is not a time"),
        ({"kind": "sacct"}, "no header with JobID"),
        ({"kind": "workers", "mapping": {"a": "start"}}, "map is of no use"),
    ],
)
def test_refused_options(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        read_failures(LOGS / "incidents.csv", **arguments)
    assert sentence in str(refused.value)


def test_no_log_at_all(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, written(tmp_path, "", "empty")):
        with pytest.raises(InputError):
            read_failures(path)

"""What holds for every log: order, copies and units must not matter."""

import csv
import io
import itertools
import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint_tax.failures import FailureLog, fit_gaps, mtbf_interval, read_failures
from checkpoint_tax.failures.events import Incident
from checkpoint_tax.failures.grouping import merge
from checkpoint_tax.failures.lines import rows
from checkpoint_tax.failures.stamps import Clock, utc_text, zone_named

START_S = 1_735_689_600  # 2025-01-01T00:00:00Z
ZONES = ("America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe")
STATES = ("NODE_FAIL", "FAILED", "TIMEOUT", "COMPLETED", "RUNNING", "CANCELLED by 7")
runs = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(1, 10**6), st.sampled_from(STATES)),
    min_size=1, max_size=12, unique_by=lambda run: run[0],
)  # fmt: skip
incidents = st.lists(
    st.tuples(st.floats(0, 1e5), st.floats(0, 1e4), st.integers(0, 3)), max_size=20
)


def read(text: str, **options: str) -> FailureLog:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.txt"
        path.write_text(text, encoding="utf-8")
        return read_failures(path, **options)


def sacct(rows: list[tuple[int, int, str]]) -> list[str]:
    lines = []
    for number, (start, length, state) in enumerate(rows):
        begin, end = (utc_text(START_S + t)[:-1] for t in (start, start + length))
        end = "Unknown" if state == "RUNNING" else end
        hours = f"{length // 3600:02d}:{length // 60 % 60:02d}:{length % 60:02d}"
        lines.append(f"{100 + number}|{state}|{begin}|{end}|{hours}")
    return lines


@settings(max_examples=40, deadline=None)
@given(rows=runs, data=st.data())
def test_order_copies_and_steps_change_nothing(
    rows: list[tuple[int, int, str]], data: st.DataObject
) -> None:
    header, lines = "JobID|State|Start|End|Elapsed", sacct(rows)
    plain = read("\n".join([header, *lines]), tz="UTC")
    steps = [line.replace("|", ".batch|", 1) for line in lines]
    copies = data.draw(st.lists(st.sampled_from(lines), max_size=3))
    mixed = data.draw(st.permutations([*lines, *steps, *copies]))
    other = read("\n".join([header, *mixed, "cut"]), tz="UTC")
    assert plain.exposure_s == sum(length for _, length, _ in rows)
    for name in ("exposure_s", "n_failures", "n_censored", "mtbf_s", "classes", "merged"):
        assert getattr(other, name) == getattr(plain, name)
    assert other.count("broken") == 1


@given(rows=incidents, window_s=st.floats(0, 1e4))
def test_groups_hold_every_record_once(
    rows: list[tuple[float, float, int]], window_s: float
) -> None:
    found = [
        Incident(line, line, "", start, start + length, nodes=frozenset({f"n{node}"}))
        for line, (start, length, node) in enumerate(rows)
    ]
    groups = merge(found, window_s)
    members = sorted(i.line for group in groups for i in group.incidents)
    assert members == list(range(len(rows)))
    starts = [group.start_s for group in groups]
    assert starts == sorted(starts)
    # Two groups begin within one window only if nothing joins them, which without topology
    # cannot be.
    assert all(later - earlier > window_s for earlier, later in itertools.pairwise(starts))
    # Merging what is merged changes nothing.
    again = merge([group.incidents[0] for group in groups], window_s)
    assert len(again) <= len(groups)


@given(
    gaps=st.lists(st.floats(1e-2, 1e2), min_size=2, max_size=12, unique=True),
    censored=st.lists(st.floats(1e-2, 1e2), max_size=12),
    power=st.integers(-9, 9),
)
@settings(max_examples=40, deadline=None)
def test_fits_do_not_depend_on_the_unit(
    gaps: list[float], censored: list[float], power: int
) -> None:
    unit = 2.0**power
    one = fit_gaps(gaps, censored)
    other = fit_gaps([g * unit for g in gaps], [c * unit for c in censored])
    assert set(one) == set(other)
    for family, fit in one.items():
        assert other[family].log_likelihood + len(gaps) * math.log(unit) == pytest.approx(
            fit.log_likelihood, abs=1e-6
        )
    if "weibull" in one:
        assert one["weibull"].log_likelihood >= one["exponential"].log_likelihood - 1e-9


@given(n=st.integers(0, 1000), exposure=st.floats(1e-3, 1e9))
def test_the_interval_holds_the_estimate(n: int, exposure: float) -> None:
    low, high = mtbf_interval(n, exposure)
    assert 0.0 < low < (exposure / n if n else math.inf) <= high


#: Clocks go back at these instants: Los Angeles, Berlin, and by half an hour Lord Howe Island.
BACK_S = (1_762_074_000, 1_761_440_400, 1_743_865_200)
instants = st.integers(START_S, START_S + 10**8) | st.builds(
    lambda back_s, more_s: back_s + more_s, st.sampled_from(BACK_S), st.integers(-7200, 7200)
)


@given(time_s=instants, zone=st.sampled_from(ZONES))
def test_a_local_time_is_read_back_as_its_instant(time_s: int, zone: str) -> None:
    """One of the two readings is right, and an honest stamp says when there are two."""
    from datetime import datetime

    local = datetime.fromtimestamp(time_s, zone_named(zone)).replace(tzinfo=None)
    stamp = Clock(zone_named(zone)).read(local.isoformat(sep=" "))
    assert time_s in (stamp.time_s, stamp.later_s)
    assert stamp.time_s == time_s or "twice" in stamp.why


@given(
    content=st.lists(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=8),
                 min_size=2, max_size=2), max_size=6,
    )
)  # fmt: skip
def test_what_a_csv_writer_wrote_is_read_back(content: list[list[str]]) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(content)
    lines = enumerate(out.getvalue().split("\n"), 1)
    assert [row.fields for row in rows(lines, ",", 2)] == content

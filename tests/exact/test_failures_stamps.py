"""Stamps: every form of one instant, and the forms that are none."""

from datetime import UTC, datetime

import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures.events import WHOLE_CLUSTER, node_names
from checkpoint_tax.failures.stamps import Clock, YearlessClock, duration_s, zone_named

NOON = datetime(2025, 3, 11, 14, 40, tzinfo=UTC).timestamp()
PACIFIC = Clock(zone_named("America/Los_Angeles"))


@pytest.mark.parametrize(
    "text",
    [
        "2025-03-11T14:40:00Z", "2025-03-11 14:40:00+00:00", "2025-03-11T15:40:00+0100",
        "2025-03-11T07:40:00", "2025-03-11 07:40", "2025-03-11_07:40:00", "2025-03-11 07:40:00 PDT",
        "03/11/2025 7:40 AM", "3/11/25 07:40", "11.03.2025 07:40", "2025/03/11 07:40:00",
        "Mar 11 2025 7:40AM", "11-Mar-2025 07:40", "11 March 2025 07:40",
        "Tue, 11 Mar 2025 14:40:00 GMT", "1741704000", "1741704000.000", "1741704000000",
        "1741704000000000", "1741704000000000000", ' "2025-03-11T14:40:00Z" ',
        "20250311T144000Z", "2025-03-11T14:40:00.000000000Z",
    ],
)  # fmt: skip
def test_forms_of_one_instant(text: str) -> None:
    assert PACIFIC.read(text).time_s == NOON


@pytest.mark.parametrize(
    "text", ["", "Unknown", "unknown ", "None", "N/A", "0001-01-01T00:00:00Z", "null"]
)
def test_what_is_not_known_is_missing(text: str) -> None:
    stamp = PACIFIC.read(text)
    assert stamp.time_s is None
    assert stamp.is_missing


@pytest.mark.parametrize(
    "text", ["2025-02-30 10:00", "25:00", "13/13/2025", "2025-03-11 25:00", "yesterday", "12345",
             "1825-01-01", "2025-03-11 10:00 EST"]
)  # fmt: skip
def test_what_is_no_time_says_so(text: str) -> None:
    stamp = PACIFIC.read(text)
    assert stamp.time_s is None
    assert not stamp.is_missing
    assert stamp.why


def test_a_time_that_exists_twice_has_both_readings() -> None:
    stamp = PACIFIC.read("2025-11-02 01:30:00")
    assert stamp.time_s is not None
    assert stamp.later_s == stamp.time_s + 3600
    assert "twice" in stamp.why
    assert PACIFIC.read("2025-11-02 01:30:00 PST").time_s == stamp.later_s


def test_a_time_that_does_not_exist_follows_the_clock_before_the_jump() -> None:
    stamp = PACIFIC.read("2025-03-09 02:30:00")
    assert stamp.time_s == PACIFIC.read("2025-03-09 01:30:00").time_s + 3600
    assert "does not exist" in stamp.why
    assert PACIFIC.read("2025-03-09 03:00:00").why == ""


def test_year_of_stamps_without_one() -> None:
    clock = YearlessClock(Clock(None), 2024)
    stamps = [clock.read(12, 31, "23:00:00"), clock.read(1, 1, "01:00:00"),
              clock.read(12, 31, "23:59:59"), clock.read(1, 1, "02:00:00")]  # fmt: skip
    times = [s.time_s or 0.0 for s in stamps]
    assert [t - times[0] for t in times] == [0.0, 7200.0, 3599.0, 10800.0]
    assert clock.read(2, 29, "00:00:00").time_s is None  # 2025 has none


@pytest.mark.parametrize(
    ("text", "time_s"),
    [("1-06:30:00", 109800), ("11:30:00", 41400), ("02:10", 130), ("23382", 23382), ("10m", 600),
     ("1d 2h", 93600), ("1h30m", 5400), ("250ms", 0.25), ("Unknown", None), ("", None)],
)  # fmt: skip
def test_time_spans(text: str, time_s: float | None) -> None:
    assert duration_s(text) == time_s


def test_lists_of_nodes() -> None:
    assert node_names("gpu[001-003,07],GPU050 ") == {"gpu001", "gpu002", "gpu003", "gpu07",
                                                     "gpu050"}  # fmt: skip
    assert node_names("n1.site.example:9100; n2") == {"n1", "n2"}
    assert node_names("10.0.0.1:9100") == {"10.0.0.1"}
    assert node_names(" ALL ") == WHOLE_CLUSTER
    assert node_names("None assigned") == frozenset()


def test_a_zone_must_exist() -> None:
    with pytest.raises(InputError):
        zone_named("../etc/passwd")

"""Times as logs write them, read into seconds of UTC without guessing.

A stamp that could mean two instants, or none, says so in its note; a stamp that means no
instant at all has no time. Nothing here raises for a bad stamp: a log with one is still read.
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from checkpoint_tax.errors import InputError
from checkpoint_tax.units import DAY_S, HOUR_S, MINUTE_S

_MISSING = {
    "", "-", "--", "?", "n/a", "na", "nan", "nat", "nil", "none", "none assigned", "not set",
    "null", "tbd", "unknown", "undefined", "(null)", "<n/a>",
}  # fmt: skip
_OPEN = {"ongoing", "open", "now", "still open", "in progress", "active", "unresolved"}
_EPOCH = re.compile(r"\d{9,10}(\.\d*)?|\d{12,13}|\d{15,16}|\d{18,19}")
_SLASHED = re.compile(r"(\d{1,2})([/.])(\d{1,2})\2(\d{4}|\d{2})\b[ ,T]*(.*)")
_YEAR_FIRST = re.compile(r"(\d{4})[/.](\d{1,2})[/.](\d{1,2})\b(.*)")
_CLOCK_TIME = re.compile(
    r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?\s*([AaPp]\.?[Mm]\.?)?\s*(\S.*)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{2}):?(\d{2})?")
_ZONE_NAME = re.compile(r"[A-Za-z]{1,5}")
_NAMED_MONTH = ("%d-%b-%Y", "%d %b %Y", "%b %d %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y")
_FIRST_YEAR, _LAST_YEAR = 2000, 2100

AMBIGUOUS = "this local time exists twice; the first was taken, so it may be an hour later"
SKIPPED = "this local time does not exist (clocks went forward); read by the clock before the jump"
NO_ZONE = "a local time without a zone"


@dataclass(frozen=True, slots=True)
class Stamp:
    """One time of a log.

    Attributes
    ----------
    time_s : float or None
        Seconds since 1970 in UTC; None if the text gives no usable instant.
    why : str
        Why there is no time, or what is uncertain about it; empty for a plain stamp.
    is_missing : bool
        The log says that it does not know.
    is_open : bool
        The log says that the end has not come yet.
    had_zone : bool
        The text itself names its zone.
    later_s : float or None
        The other reading of a local time that exists twice.
    resolution_s : float
        Size of the last written place: a day, a minute, a second or less.
    order : str
        ``"month"`` or ``"day"`` if a date such as 13/01/2025 proves which comes first,
        ``"either"`` if it cannot, empty for other forms.
    """

    time_s: float | None
    why: str = ""
    is_missing: bool = False
    is_open: bool = False
    had_zone: bool = False
    later_s: float | None = None
    resolution_s: float = 1.0
    order: str = ""


_NOT_KNOWN = Stamp(None, "not given", is_missing=True)


def zone_named(name: str) -> ZoneInfo:
    """Find a time zone.

    Parameters
    ----------
    name : str
        Name of the IANA database, such as ``"America/Los_Angeles"`` or ``"UTC"``.

    Returns
    -------
    zoneinfo.ZoneInfo

    Raises
    ------
    InputError
        If no zone has this name.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"tz = {name!r} is not a time zone; give a name such as America/Los_Angeles or UTC."
        ) from None


class Clock:
    """Reads stamps of one log.

    Parameters
    ----------
    zone : zoneinfo.ZoneInfo or None
        Zone of times that name none.
    day_first : bool
        Whether 03/11/2025 is the third of November.
    zone_is_needed : bool
        Refuse local times if no zone is known, because others in the log have one. If False,
        they are read as if no clock was ever changed.
    """

    def __init__(
        self, zone: ZoneInfo | None, *, day_first: bool = False, zone_is_needed: bool = False
    ) -> None:
        self.zone = zone
        self.day_first = day_first
        self.zone_is_needed = zone_is_needed
        #: What the stamps read so far have shown: how dates are ordered, where zones stand.
        self.orders: set[str] = set()
        self.saw_zone = False
        self.saw_local = False

    def read(self, text: str) -> Stamp:
        """Read one stamp.

        Parameters
        ----------
        text : str
            As the log writes it.

        Returns
        -------
        Stamp
        """
        text = text.strip().strip("'\"").strip()
        low = text.lower()
        if low in _MISSING or low.startswith("0001-01-01"):
            return _NOT_KNOWN
        if low in _OPEN:
            return Stamp(None, "still open", is_open=True)
        try:
            stamp = self._parse(text)
        except (ValueError, OverflowError):
            stamp = None
        if stamp is None:
            return Stamp(None, f"{text[:40]!r} is not a time that can be read")
        if stamp.time_s is not None and not _in_range(stamp.time_s):
            if stamp.time_s == 0.0:
                return _NOT_KNOWN
            return Stamp(None, f"{text[:40]!r} lies outside the years {_FIRST_YEAR}-{_LAST_YEAR}")
        self.orders.add(stamp.order)
        self.saw_zone |= stamp.had_zone
        self.saw_local |= not stamp.had_zone
        return stamp

    def local(self, moment: datetime, resolution_s: float = 1.0, zone_name: str = "") -> Stamp:
        """Place a local time in UTC.

        Parameters
        ----------
        moment : datetime.datetime
            Without a zone.
        resolution_s : float
            Size of the last written place [s].
        zone_name : str
            Abbreviation such as PDT beside the time, if there was one.

        Returns
        -------
        Stamp
        """
        moment = moment.replace(tzinfo=None)
        plain_s = (moment - datetime(1970, 1, 1)) / timedelta(seconds=1)
        if self.zone is None:
            if zone_name:
                return Stamp(
                    None, f"the zone {zone_name!r} is not unique; give the zone of the log (--tz)"
                )
            if self.zone_is_needed:
                return Stamp(None, f"{NO_ZONE}; give the zone of the log (--tz)")
            return Stamp(plain_s, resolution_s=resolution_s)
        first = moment.replace(tzinfo=self.zone)
        second = first.replace(fold=1)
        offsets = [_offset_s(first), _offset_s(second)]
        if zone_name:
            names = [str(first.tzname()).upper(), str(second.tzname()).upper()]
            if zone_name.upper() not in names:
                return Stamp(
                    None,
                    f"the zone {zone_name!r} is not used by {self.zone.key} at that time",
                )
            at = names.index(zone_name.upper())
            return Stamp(plain_s - offsets[at], had_zone=True, resolution_s=resolution_s)
        time_s = plain_s - offsets[0]
        if offsets[0] == offsets[1]:
            return Stamp(time_s, resolution_s=resolution_s)
        if offsets[0] > offsets[1]:
            later_s = plain_s - offsets[1]
            return Stamp(time_s, AMBIGUOUS, later_s=later_s, resolution_s=resolution_s)
        return Stamp(time_s, SKIPPED, resolution_s=resolution_s)

    def _parse(self, text: str) -> Stamp | None:
        if _EPOCH.fullmatch(text):
            digits = len(text.partition(".")[0])
            scale = 10.0 ** (3 * max(0, (digits - 10 + 2) // 3)) if digits > 10 else 1.0
            return Stamp(float(text) / scale, had_zone=True)
        if text[:4].isdigit() and text[4:5] in "-0123456789" and len(text) >= 8:
            return self._iso(text)
        if match := _YEAR_FIRST.fullmatch(text):
            year, month, day, rest = match.groups()
            return self._with_time(date(int(year), int(month), int(day)), rest.strip(" T,"))
        if match := _SLASHED.fullmatch(text):
            return self._slashed(*match.groups())
        return self._worded(text)

    def _iso(self, text: str) -> Stamp | None:
        if len(text) == 19 and text[10] in "T ":
            return self.local(datetime.fromisoformat(text))
        body = text.replace("_", "T", 1) if re.match(r"\d{4}-\d\d-\d\d_", text) else text
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", body) or re.fullmatch(r"\d{8}", body):
            return self.local(datetime.fromisoformat(body), DAY_S)
        match = re.fullmatch(r"(\d{4}-\d{1,2}-\d{1,2})[T ]+(.+)", body)
        if match is None:
            return self._placed(datetime.fromisoformat(body))
        year, month, day = (int(part) for part in match[1].split("-"))
        return self._with_time(date(year, month, day), match[2])

    def _slashed(self, first: str, mark: str, second: str, year: str, rest: str) -> Stamp | None:
        one, two = int(first), int(second)
        full_year = int(year) + (2000 if len(year) == 2 else 0)
        if mark == ".":
            return self._with_time(date(full_year, two, one), rest)
        order = "day" if one > 12 else "month" if two > 12 else "either" if one != two else ""
        day_first = order == "day" or (self.day_first and order != "month")
        month, day = (two, one) if day_first else (one, two)
        stamp = self._with_time(date(full_year, month, day), rest)
        return None if stamp is None else replace(stamp, order=order)

    def _worded(self, text: str) -> Stamp | None:
        if re.match(r"[A-Z][a-z]{2}, \d", text):
            return self._placed(parsedate_to_datetime(text))
        match = re.fullmatch(r"(.*?\d{4}),?[ T]+(\d{1,2}:\d{2}.*)|(.*\d{4})", text)
        if match is None:
            return None
        day_text = " ".join((match[1] or match[3]).split())
        for form in _NAMED_MONTH:
            try:
                day = datetime.strptime(day_text, form)  # placed in a zone below
            except ValueError:
                continue
            return self._with_time(day.date(), match[2] or "")
        return None

    def _with_time(self, day: date, rest: str) -> Stamp | None:
        start = datetime(day.year, day.month, day.day)
        if not rest.strip():
            return self.local(start, DAY_S)
        match = _CLOCK_TIME.fullmatch(rest.strip())
        if match is None:
            return None
        hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
        if match[5]:
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + (12 if match[5].lower().startswith("p") else 0)
        fraction = float(f"0.{match[4]}") if match[4] else 0.0
        leap = second == 60  # a leap second is the next minute's first
        moment = start.replace(hour=hour, minute=minute, second=59 if leap else second)
        resolution_s = MINUTE_S if match[3] is None else 10.0 ** -min(len(match[4] or ""), 9)
        return self._zoned(moment, (match[6] or "").strip(), resolution_s, fraction + leap)

    def _zoned(
        self, moment: datetime, zone: str, resolution_s: float, extra_s: float
    ) -> Stamp | None:
        if zone.upper() in ("Z", "UTC", "GMT", "ZULU"):
            zone = "+00:00"
        if match := _OFFSET.fullmatch(zone):
            sign = -1.0 if match[1] == "-" else 1.0
            offset_s = sign * (int(match[2]) * HOUR_S + int(match[3] or 0) * MINUTE_S)
            plain_s = (moment - datetime(1970, 1, 1)) / timedelta(seconds=1)
            return Stamp(plain_s - offset_s + extra_s, had_zone=True, resolution_s=resolution_s)
        if zone and not _ZONE_NAME.fullmatch(zone):
            return None
        stamp = self.local(moment, resolution_s, zone)
        if stamp.time_s is None:
            return stamp
        later_s = None if stamp.later_s is None else stamp.later_s + extra_s
        return replace(stamp, time_s=stamp.time_s + extra_s, later_s=later_s)

    def _placed(self, moment: datetime) -> Stamp:
        if moment.tzinfo is None:
            return self.local(moment)
        return Stamp(moment.timestamp(), had_zone=True)


def _offset_s(moment: datetime) -> float:
    offset = moment.utcoffset()
    return 0.0 if offset is None else offset.total_seconds()


def _in_range(time_s: float) -> bool:
    first = datetime(_FIRST_YEAR, 1, 1, tzinfo=UTC).timestamp()
    last = datetime(_LAST_YEAR, 1, 1, tzinfo=UTC).timestamp()
    return first <= time_s <= last


def utc_text(time_s: float) -> str:
    """Write an instant.

    Parameters
    ----------
    time_s : float
        Seconds since 1970 [s].

    Returns
    -------
    str
        Such as ``"2025-03-09T10:05:00Z"``.
    """
    return datetime.fromtimestamp(round(time_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class YearlessClock:
    """Gives stamps without a year the year of the log.

    Parameters
    ----------
    clock : Clock
        Places the result in a zone.
    year : int or None
        Year of the first stamp, if the user knows it.
    """

    def __init__(self, clock: Clock, year: int | None) -> None:
        self.clock = clock
        self.year = year
        self._month: int | None = None

    def see(self, year: int, month: int) -> None:
        """Take note of a line that does carry its year.

        Parameters
        ----------
        year, month : int
            Of that line.
        """
        self.year, self._month = year, month

    def read(self, month: int, day: int, clock_time: str) -> Stamp:
        """Read a stamp of month, day and time.

        Parameters
        ----------
        month, day : int
            As written.
        clock_time : str
            ``HH:MM:SS`` with or without a fraction.

        Returns
        -------
        Stamp
            Without a time if the year is not known or has no such day. A month that falls by
            more than half a year is the next year's.
        """
        if self.year is None:
            return Stamp(None, "the stamp has no year")
        if self._month is not None and self._month - month > 6:
            self.year += 1
        elif self._month is not None and month - self._month > 6:
            # A late line of December after the first of January.
            return self.clock.read(f"{self.year - 1:04d}-{month:02d}-{day:02d} {clock_time}")
        self._month = month
        return self.clock.read(f"{self.year:04d}-{month:02d}-{day:02d} {clock_time}")


_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d{1,2}):(\d{2}(?:\.\d+)?)|(\d+(?:\.\d+)?)")
_WORDED_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[dhms])[a-z]*", re.IGNORECASE)
_UNIT_S: dict[str, float] = {"d": DAY_S, "h": HOUR_S, "m": MINUTE_S, "s": 1.0, "ms": 1e-3}


def duration_s(text: str) -> float | None:
    """Read a time span.

    Parameters
    ----------
    text : str
        ``1-06:30:00``, ``11:30:00``, ``02:10``, ``1d 2h 3m 4s`` or seconds.

    Returns
    -------
    float or None
        Seconds; None if the text is no time span.
    """
    text = text.strip()
    if match := _DURATION.fullmatch(text):
        if match[5] is not None:
            return float(match[5])
        days, hours = float(match[1] or 0), float(match[2] or 0)
        return days * DAY_S + hours * HOUR_S + float(match[3]) * MINUTE_S + float(match[4])
    parts = _WORDED_DURATION.findall(text)
    rest = _WORDED_DURATION.sub("", text).strip(" ,")
    if parts and not rest:
        return sum(float(size) * _UNIT_S[unit.lower()] for size, unit in parts)
    return None

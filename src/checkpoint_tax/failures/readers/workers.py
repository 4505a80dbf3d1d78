"""Logs of torchelastic agents and NCCL workers, and kernel lines between them.

One interruption makes hundreds of lines, since every rank tells of it. They are merged while
reading, so that memory grows with interruptions and not with ranks.
"""

import re
from dataclasses import dataclass

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures.causes import APPLICATION, INFRASTRUCTURE, PLANNED, UNKNOWN, class_of
from checkpoint_tax.failures.events import Reading, Run
from checkpoint_tax.failures.lines import DROPPED, KEPT, MERGED, Source
from checkpoint_tax.failures.stamps import Clock, YearlessClock
from checkpoint_tax.units import duration_text

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATED = re.compile(
    r"(?<!\d)(20\d\d)[-/](\d\d)[-/](\d\d)[T _](\d\d:\d\d)(:\d\d(?:[.,]\d+)?)?"
    r"(?:\s?(Z|UTC|[+-]\d\d:?\d\d)(?![\d:]))?"
)
_YEARLESS = re.compile(
    r"(?:^|[\s\[(])[IWEFC](\d{1,2})(\d\d) (\d\d:\d\d)(:\d\d(?:\.\d+)?)(?!\d)"
    r"|^([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d:\d\d)(:\d\d(?:\.\d+)?)"
)
#: A line that tells of a failure, the likeliest words first.
_EVENT = re.compile(
    r"failed \(exitcode: ?-?\d+\)|Watchdog caught collective operation timeout|\bNVRM: Xid\b"
    r"|\bXid\b.{0,40}\b\d+\b|NCCL WARN\b.*(?i:error|fail|timed? ?out|closed|reset|abort)"
    r"|\bnccl(System|Remote|Internal|UnhandledCuda)Error\b|unhandled (system|cuda) error"
    r"|Some NCCL operations have failed or timed out|ChildFailedError|[Ww]orker ?group FAILED"
    r"|Root Cause \(first observed failure\)|DistBackendError|Rendezvous\w*Error"
    r"|Signal \d+ \(SIG\w+\) received by PID|SignalException"
    r"|uncorrectable ECC|fallen off the bus|CUDA error:|CUDA out of memory"
    r"|^(\[?rank ?\d+\]?:? *)*[A-Za-z_][\w.]*(Error|Exception)(:|$)|Segmentation fault"
    r"|heartbeat monitor timed out|[Hh]eartbeat.{0,30}(timed out|timeout)"
)
_MACHINE = re.compile(
    r"Watchdog caught|\bXid\b|NCCL|\bnccl\w+Error|ECC|fallen off|DistBackendError|[Hh]eartbeat"
    r"|Rendezvous\w*(Connection|Timeout|Closed)\w*Error|unhandled system error"
)
_FROM_OUTSIDE = re.compile(r"Signal (15|2) \(|got signal: (15|2)\b")
_AGAIN = re.compile(
    r"[Rr]endezvous complete|[Ss]tarting worker (group|process)|Resum(ed|ing) (from|training)"
    r"|resum(ed|ing) (from|training)|[Ll]oaded checkpoint|[Ss]uccessfully loaded checkpoint"
)
_STEP = re.compile(
    r"(?i)\b(iteration|iter|step|global_step)[ =:]+\d+\b.*\b(loss|lr|tokens|time|ms|grad)\b"
)
_QUICK = re.compile(
    r"rror|xcept|exitcode|atchdog|Xid|NCCL WARN|nccl|FAILED|Root Cause|Signal|fault|eartbeat"
    r"|fallen|out of memory|ECC"
)
_AFTER = re.compile(r"closing signal SIGTERM|Sending process \d+")


@dataclass(slots=True)
class _Interruption:
    line: int
    position: int
    first_s: float | None
    last_s: float | None
    failure_class: str = UNKNOWN
    class_line: int = 0
    lines: int = 1


def read(source: Source, reading: Reading, year: int | None, window_s: float) -> None:
    """Read the log.

    Parameters
    ----------
    source : Source
        The log.
    reading : Reading
        To be filled.
    year : int or None
        Year of the first stamp.
    window_s : float
        Records within it of the first belong to one interruption [s].

    Raises
    ------
    InputError
        If stamps have no year and neither a dated line nor `year` gives it.
    """
    first_year = _first_year(source, year)
    reading.yearless = YearlessClock(reading.clock, first_year)
    _Workers(reading, window_s).run(source)


def _first_year(source: Source, year: int | None) -> int | None:
    """Year of the first stamp without one, by the first dated line of the log."""
    if year is not None:
        return year
    first_month: int | None = None
    for _, text in source.lines(silent=True):
        if match := _DATED.search(text):
            dated_year, month = int(match[1]), int(match[2])
            return dated_year - (first_month is not None and first_month > month)
        if first_month is None and (match := _YEARLESS.search(text)):
            first_month = _month(match)
    if first_month is not None:
        raise InputError(
            f"{source.path}: its stamps have no year and no line is dated; give the year of the"
            " first stamp with --year."
        )
    return None


def _month(match: re.Match[str]) -> int | None:
    if match[1]:
        return int(match[1])
    name = match[5].lower()
    return _MONTHS.index(name) + 1 if name in _MONTHS else None


class _Stamps:
    """Finds the instant of a line; each minute is placed in its zone once."""

    def __init__(self, clock: Clock, yearless: YearlessClock, reading: Reading) -> None:
        self._clock, self._yearless, self._reading = clock, yearless, reading
        self._minute = ""
        self._minute_s: float | None = None

    def find(self, line: int, text: str) -> float | None:
        if match := _DATED.search(text):
            year, month, day, minute, seconds, zone = match.groups()
            key = f"{year}-{month}-{day} {minute}{zone or ''}"
            if key != self._minute:
                self._yearless.see(int(year), int(month))
                stamp = self._clock.read(f"{year}-{month}-{day} {minute}:00{zone or ''}")
                self._keep(line, key, stamp.time_s, stamp.why)
        elif match := _YEARLESS.search(text):
            seconds = match[4] or match[8]
            minute = match[3] or match[7]
            month_number = _month(match)
            if month_number is None:
                return None
            day = match[2] or match[6]
            key = f"{month_number} {day} {minute}"
            if key != self._minute:
                stamp = self._yearless.read(month_number, int(day), f"{minute}:00")
                self._keep(line, key, stamp.time_s, stamp.why)
        else:
            return None
        if self._minute_s is None:
            return None
        return self._minute_s + float((seconds or ":0")[1:].replace(",", "."))

    def _keep(self, line: int, key: str, time_s: float | None, why: str) -> None:
        self._minute, self._minute_s = key, time_s
        if why:
            self._reading.warnings.at(line, why)


class _Workers:
    def __init__(self, reading: Reading, window_s: float) -> None:
        assert reading.yearless is not None
        self.reading, self.window_s = reading, window_s
        self.stamps = _Stamps(reading.clock, reading.yearless, reading)
        self.now_s: float | None = None
        self.first_s: float | None = None
        self.up_since_s: float | None = None
        self.last_s: float | None = None
        self.current: _Interruption | None = None
        self.is_up = True
        self.saw_again = self.saw_step = False
        self.ends: list[tuple[_Interruption, float | None]] = []

    def run(self, source: Source) -> None:
        book = self.reading.book
        last_line = 0
        for number, text in source.lines():
            last_line = number
            self._advance(number, text)
            if _QUICK.search(text) and _EVENT.search(text) and not _AFTER.search(text):
                self._event(number, text)
                continue
            if self.current is not None and not self.is_up and self._is_back(text):
                self._back(number)
                continue
            if _STEP.search(text):
                self.saw_step = True
            book.extend(number, DROPPED, "tells of no failure")
        self._finish(last_line)

    def _advance(self, number: int, text: str) -> None:
        time_s = self.stamps.find(number, text)
        if time_s is None:
            return
        if self.now_s is not None and time_s < self.now_s - 60.0:
            what = "its stamp is earlier than the line before by more than a minute (a clock that"
            what += " was set, or lines of several nodes)"
            self.reading.warnings.at(number, what)
        self.now_s = time_s
        if self.first_s is None:
            self.first_s = self.up_since_s = time_s
        self.last_s = time_s if self.last_s is None else max(self.last_s, time_s)

    def _is_back(self, text: str) -> bool:
        if _STEP.search(text):
            self.saw_step = True
            return True
        if _AGAIN.search(text):
            self.saw_again = True
            return not self.saw_step  # once steps are logged, the first of them is the return
        return False

    def _event(self, number: int, text: str) -> None:
        book, now_s = self.reading.book, self.now_s
        failure_class = _class(text)
        if now_s is not None:
            self.reading.raw_starts_s.append(now_s)
        current = self.current
        if current is not None and self._belongs(current):
            book.add(number, MERGED, f"the interruption of line {current.line}")
            current.lines += 1
            current.last_s = now_s if now_s is not None else current.last_s
            if current.failure_class == UNKNOWN and failure_class != UNKNOWN:
                current.failure_class, current.class_line = failure_class, number
            return
        self._close_run()
        position = book.add(number, KEPT, "")
        self.current = _Interruption(number, position, now_s, now_s, failure_class, number)
        self.ends.append((self.current, self.up_since_s))
        self.is_up = False

    def _belongs(self, current: _Interruption) -> bool:
        if self.now_s is None or current.first_s is None:
            return not self.is_up
        if abs(self.now_s - current.first_s) <= self.window_s:
            return True
        return not self.is_up and (self.saw_again or self.saw_step)

    def _back(self, number: int) -> None:
        current, now_s = self.current, self.now_s
        assert current is not None
        self.is_up = True
        self.up_since_s = now_s
        why = f"back after the interruption of line {current.line}"
        self.reading.book.add(number, DROPPED, why)
        if now_s is not None and current.first_s is not None and now_s >= current.first_s:
            self.reading.restarts_s.append((now_s - current.first_s, True))

    def _close_run(self) -> None:
        if self.current is not None and not self.is_up:
            # No line told of the return: the job is taken as up since the last record.
            self.up_since_s = self.current.last_s

    def _finish(self, last_line: int) -> None:
        reading = self.reading
        for number, (event, since_s) in enumerate(self.ends):
            self._run_before(event, since_s, number)
        current = self.current
        if current is not None and not self.is_up and (self.saw_again or self.saw_step):
            if self.last_s is not None and current.first_s is not None:
                reading.restarts_s.append((self.last_s - current.first_s, False))
                reading.warnings.say(
                    f"the log ends during the interruption of line {current.line}: that restart"
                    " is censored, not 0."
                )
        else:
            self._close_run()
            if self.last_s is not None and self.up_since_s is not None:
                up_s = max(0.0, self.last_s - self.up_since_s)
                reading.runs.append(
                    Run(last_line, -1, "", "", up_s, self.up_since_s, self.last_s, False)
                )
        if self.ends and not self.saw_again and not self.saw_step:
            reading.warnings.say(
                "no line tells when training was back, so the time of a restart is not known and"
                " counts as run time."
            )

    def _run_before(self, event: _Interruption, since_s: float | None, number: int) -> None:
        reading = self.reading
        of = "a line" if event.lines == 1 else f"{event.lines} lines"
        kind = event.failure_class
        told = f", by line {event.class_line}" if kind != UNKNOWN else ""
        if event.first_s is None:
            why = f"{kind} failure at an unknown time, told by {of}: only counted"
            if kind in (INFRASTRUCTURE, UNKNOWN):
                reading.untimed += 1
                reading.only_rate = True
            else:
                reading.put_aside(kind)
        else:
            up_s = max(0.0, event.first_s - since_s) if since_s is not None else None
            length = "an unknown time" if up_s is None else duration_text(up_s)
            what = "stopped from outside" if kind == PLANNED else f"{kind} failure{told}"
            why = f"{what}, after {length}; told by {of}"
            reading.runs.append(
                Run(event.line, event.position, "", "", up_s, since_s, event.first_s, True, kind)
            )
        reading.book.change(event.position, KEPT, why)


def _class(text: str) -> str:
    if _FROM_OUTSIDE.search(text):
        return PLANNED
    if _MACHINE.search(text):
        return INFRASTRUCTURE
    found = class_of(text)
    # Words such as "host" or "node" in a line of a worker do not name a cause.
    return found if found == APPLICATION else UNKNOWN

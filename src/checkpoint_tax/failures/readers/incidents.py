"""Lists of incidents: a CSV file of any tracker, or JSON lines from a pager."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures.causes import APPLICATION, PLANNED, class_of, is_planned, is_serious
from checkpoint_tax.failures.events import Incident, Reading, node_names, plain_text
from checkpoint_tax.failures.lines import (
    BROKEN,
    DROPPED,
    KEPT,
    LONGEST_LINE,
    MERGED,
    Source,
    plain_name,
)
from checkpoint_tax.failures.readers.tables import Table, header_of
from checkpoint_tax.failures.stamps import Clock, Stamp, duration_s, zone_named
from checkpoint_tax.units import HOUR_S, MINUTE_S

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": (
        "id", "incidentid", "incident", "incidentkey", "dedupkey", "incidentnumber", "ticketid",
        "ticket", "alertid", "eventid", "fingerprint", "alias", "key", "number",
    ),
    "start": (
        "start", "starttime", "startedat", "startsat", "started", "startutc", "starttimestamp",
        "begin", "begintime", "beginsat", "began", "begun", "startdate", "startdatetime",
        "starttimeutc", "startlocal", "incidentstart", "incidentstarttime", "outagestart",
        "failuretime", "eventtime", "incidenttime", "downsince", "reportedat", "reported",
        "triggeredat", "openedat", "opened", "opentime",
        "createdat", "created", "occurredat", "onset", "detectedat", "detected", "from", "failedat",
        "timestamp", "datetime", "time", "ts", "date", "firedat",
    ),
    "end": (
        "end", "endtime", "endedat", "endsat", "ended", "endutc", "endtimestamp", "resolvedat",
        "resolved", "resolvetime", "resolutiontime", "closedat", "closed", "closetime", "finish",
        "finishedat", "finished", "recoveredat", "recovered", "restoredat", "until", "to",
        "enddate", "enddatetime", "endtimeutc", "endlocal", "incidentend", "incidentendtime",
        "outageend", "upsince", "fixedat", "fixed",
    ),
    "elapsed": (
        "duration", "durations", "durationsec", "durationseconds", "durationmin", "durationmins",
        "durationminutes", "durationh", "durationhours", "downtime", "downtimemin",
        "downtimeminutes", "downtimeh", "downtimehours", "outageminutes",
    ),
    "tz": ("tz", "timezone", "tzname"),
    "nodes": (
        "nodes", "node", "nodename", "nodelist", "hosts", "host", "hostname", "hostnames",
        "affectednodes", "affectedhosts", "machine", "machines", "server", "instance", "source",
    ),
    "severity": ("severity", "sev", "priority", "urgency", "level", "impact"),
    "cause": (
        "cause", "rootcause", "reason", "summary", "title", "description", "message", "alertname",
        "details", "category", "type", "component",
    ),
    "status": ("status", "state", "eventtype", "event", "action"),
    "rack": ("rack", "rackid"),
    "switch": ("switch", "leaf", "leafswitch", "tor"),
    "domain": ("powerdomain", "domain", "pdu", "pod", "zone", "datacenter"),
}  # fmt: skip
PLACES = ("rack", "switch", "domain")
NEEDED = (("start",),)
_ENDED = {"resolved", "resolve", "closed", "close", "ok", "recovered", "recovery", "restored",
          "ended", "done", "completed", "cleared"}  # fmt: skip
_ONLY_TOLD = {"acknowledged", "acknowledge", "ack", "assigned", "annotated", "escalated",
              "escalate", "delegated", "reassigned", "note", "commented", "prioritychanged",
              "statusupdatepublished", "responderadded"}  # fmt: skip
_NO_EVENT = {"suppressed", "falsealarm", "falsepositive", "test", "heartbeat", "duplicate",
             "invalid", "snoozed", "cancelled", "canceled"}  # fmt: skip
_STILL = {"open", "opened", "ongoing", "firing", "triggered", "active", "inprogress",
          "investigating", "new", "acknowledged"}  # fmt: skip


class Intake:
    """Turns fields into incidents, whatever the file that they come from.

    Parameters
    ----------
    reading : Reading
        To be filled.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._by_id: dict[str, Incident] = {}
        self._clocks: dict[str, Clock] = {}

    def take(self, line: int, fields: Mapping[str, str]) -> None:
        """Take one record.

        Parameters
        ----------
        line : int
            Its number.
        fields : mapping of str to str
            Text by role.
        """
        book, warnings = self.reading.book, self.reading.warnings
        status = _status(fields.get("status", ""))
        if status in _NO_EVENT:
            book.add(line, DROPPED, f"status {status}: no failure")
            return
        cause = fields.get("cause", "")
        failure_class = class_of(f"{cause} {status if status == 'maintenance' else ''}")
        severity = fields.get("severity", "")
        incident_id = fields.get("id", "")
        known = self._by_id.get(incident_id) if incident_id else None
        if status in _ONLY_TOLD and (known is not None or not fields.get("start")):
            book.add(line, MERGED, f"only says that incident {incident_id} was {status}")
            return
        serious = is_serious(severity) if severity else None
        if severity and serious is None:
            warnings.at(line, f"severity {severity[:20]!r} is not known, so it counts as serious")
        start, end = self._times(line, fields, status)
        if known is not None and status in _ENDED and self._ends(line, known, start, end):
            return
        if (
            status in _ENDED
            and end.is_missing
            and start.time_s is not None
            and ("end" not in self.reading.roles)
        ):
            # A list of events, whose beginning was not seen: the time is that of the end.
            start, end = Stamp(None, "not given", is_missing=True), start
        incident = self._incident(line, fields, status, start, end, failure_class)
        if failure_class == PLANNED:
            incident.position = book.add(line, DROPPED, "planned: no failure")
            self.reading.planned.append(incident)
            return
        if serious is False:
            book.add(line, DROPPED, f"severity {severity.strip()}: interrupts no job")
            return
        if failure_class == APPLICATION:
            self.reading.put_aside(APPLICATION)
            why = "application: a class of its own, no infrastructure failure"
            incident.position = book.add(line, KEPT, why)
            return
        if start.time_s is None:
            why = f"{failure_class} failure at an unknown time: counted, but in no gap"
            warnings.at(line, f"its start is unknown ({start.why}), so it is in no gap")
        else:
            why = f"{failure_class} failure"
            if start.why:
                warnings.at(line, start.why)
        incident.position = book.add(line, KEPT, why)
        self.reading.incidents.append(incident)
        if incident_id:
            self._by_id.setdefault(incident_id, incident)

    def _times(self, line: int, fields: Mapping[str, str], status: str) -> tuple[Stamp, Stamp]:
        clock, warnings = self.reading.clock, self.reading.warnings
        if name := fields.get("tz", ""):
            clock = self._clock_of(line, name, clock)
        start, end = clock.read(fields.get("start", "")), clock.read(fields.get("end", ""))
        if end.is_missing and start.time_s is not None and fields.get("elapsed"):
            end = self._end_by_length(line, start.time_s, fields["elapsed"])
        if end.time_s is None and not end.is_missing and not end.is_open:
            warnings.at(line, f"its end is not usable, {end.why}")
        if start.time_s is None or end.time_s is None:
            return start, end
        later_s = end.later_s if end.later_s is not None else end.time_s
        if end.time_s < start.time_s <= later_s:
            return start, Stamp(later_s)
        if end.time_s < start.time_s:
            warnings.at(line, "it ends before it starts: the start is kept, the end is unknown")
            return start, Stamp(None, "before the start", is_missing=True)
        return start, end

    def _clock_of(self, line: int, name: str, clock: Clock) -> Clock:
        """Clock of a row that names its own zone."""
        if name not in self._clocks:
            try:
                zone = zone_named("UTC" if name.upper() in ("Z", "GMT") else name)
            except InputError:
                self.reading.warnings.at(line, f"{name[:30]!r} is not a time zone")
                return clock
            self._clocks[name] = Clock(zone, day_first=clock.day_first)
            self._clocks[name].orders = clock.orders
        return self._clocks[name]

    def _end_by_length(self, line: int, start_s: float, text: str) -> Stamp:
        """End of an incident by its length, whose unit the text or the column must name."""
        length_s = duration_s(text)
        if length_s is not None and re.fullmatch(r"[\d.]+", text):
            column = plain_name(self.reading.roles.get("elapsed", ""))
            unit = re.search(r"(s|sec|seconds|min|mins|minutes|h|hours)$", column)
            if unit is None or column in ("duration", "downtime"):
                self.reading.warnings.at(line, f"the length {text} has no unit and is not used")
                return Stamp(None, "not given", is_missing=True)
            length_s *= {"s": 1.0, "m": MINUTE_S, "h": HOUR_S}[unit[1][0]]
        if length_s is None:
            self.reading.warnings.at(line, f"its length {text[:30]!r} cannot be read")
            return Stamp(None, "not given", is_missing=True)
        return Stamp(start_s + length_s)

    def _ends(self, line: int, known: Incident, start: Stamp, end: Stamp) -> bool:
        """Let a later record of one incident end it."""
        at_s = end.time_s if end.time_s is not None else start.time_s
        if at_s is None or (known.start_s is not None and at_s < known.start_s):
            return False
        known.end_s, known.is_open = max(at_s, known.end_s or at_s), False
        self.reading.book.add(line, MERGED, f"the end of the incident of line {known.line}")
        return True

    def _incident(
        self, line: int, fields: Mapping[str, str], status: str, start: Stamp, end: Stamp,
        failure_class: str,
    ) -> Incident:  # fmt: skip
        places = frozenset(
            f"{place}={fields[place].lower()}" for place in PLACES if fields.get(place)
        )
        return Incident(
            line=line, position=-1, incident_id=fields.get("id", ""), start_s=start.time_s,
            end_s=end.time_s, is_open=end.is_open or (end.is_missing and status in _STILL),
            nodes=node_names(fields.get("nodes", "")), places=places,
            failure_class=failure_class, resolution_s=start.resolution_s,
        )  # fmt: skip


def _status(text: str) -> str:
    """Reduce "incident.resolved" and "In progress" to a plain word."""
    word = plain_name(text.rpartition(".")[2])
    return "maintenance" if is_planned(text) else word


def read_csv(source: Source, reading: Reading, mapping: Mapping[str, str]) -> None:
    """Read a CSV file of incidents.

    Parameters
    ----------
    source : Source
        The log.
    reading : Reading
        To be filled.
    mapping : mapping of str to str
        The user's column to role.

    Raises
    ------
    InputError
        If no column holds the start.
    """
    header = header_of(source, COLUMNS, NEEDED, mapping, (",", ";", "\t", "|"))
    if header is None:
        raise InputError(
            f"{source.path}: no header with a column for the start of an incident; name it with"
            " --map COLUMN=start."
        )
    table = Table(source, reading, header, COLUMNS, mapping)
    intake = Intake(reading)
    for row in table:
        if not table.is_repeated(row):
            intake.take(row.line, {role: table.get(row, role) for role in table.roles})


def read_json_lines(source: Source, reading: Reading, mapping: Mapping[str, str]) -> None:
    """Read JSON lines of a pager.

    Parameters
    ----------
    source : Source
        The log: an object a line, or an array of objects written one a line.
    reading : Reading
        To be filled.
    mapping : mapping of str to str
        The user's key (its last part suffices) to role.

    Raises
    ------
    InputError
        If a role in `mapping` does not exist.
    """
    for key, role in mapping.items():
        if role not in COLUMNS:
            raise InputError(
                f"map {key}={role}: {role!r} is not a name here; allowed: {', '.join(COLUMNS)}."
            )
    intake = Intake(reading)
    seen: dict[int, int] = {}
    for number, text in source.lines():
        body = text.strip().rstrip(",").strip()
        if number == 1 or body in ("[", "]"):
            body = body.removeprefix("[").strip()
        body = body if body.startswith("{") else body.removesuffix("]")
        if not body:
            continue
        problem = "the line is longer than 1 MiB" if len(text) >= LONGEST_LINE else ""
        try:
            content = None if problem else json.loads(body)
        except (ValueError, RecursionError):
            problem = "it is not JSON"
        if not problem and not isinstance(content, dict):
            problem = "it is not a JSON object"
        if problem:
            reading.book.add(number, BROKEN, problem)
            reading.warnings.at(number, f"broken, {problem}; the rest was read")
            continue
        first = seen.setdefault(hash(body), number)
        if first != number:
            reading.book.add(number, DROPPED, f"exact duplicate of line {first}")
            continue
        taken = False
        for entry in _alerts(content):
            fields = _fields(entry, mapping)
            if fields.get("start") or fields.get("end") or fields.get("id"):
                reading.roles.update({role: role for role in fields if role != "end"})
                intake.take(number, fields)
                taken = True
        if not taken:
            reading.book.add(number, DROPPED, "no id and no time: no incident")


def _alerts(content: Any) -> Iterator[Mapping[str, Any]]:
    """A webhook holds several alerts in one object."""
    alerts = content.get("alerts")
    if isinstance(alerts, list) and alerts and all(isinstance(a, dict) for a in alerts):
        yield from alerts
    else:
        yield content


def _fields(content: Mapping[str, Any], mapping: Mapping[str, str]) -> dict[str, str]:
    """Text by role; a key nearer to the top is taken before one deeper down."""
    by_name: dict[str, tuple[int, str]] = {}
    for depth, key, value in _leaves(content, 0):
        name = plain_name(key)
        if name not in by_name or depth < by_name[name][0]:
            by_name[name] = (depth, plain_text(value).strip())
    fields: dict[str, str] = {}
    for key, role in mapping.items():
        name = plain_name(re.split(r"[./]", key)[-1])
        if name in by_name:
            fields[role] = by_name[name][1]
    for role, names in COLUMNS.items():
        if role not in fields:
            value = _first(by_name, names)
            if value is not None:
                fields[role] = value
    return fields


def _first(by_name: Mapping[str, tuple[int, str]], names: Sequence[str]) -> str | None:
    filled = (by_name[name][1] for name in names if name in by_name and by_name[name][1])
    return next(filled, None)


def _leaves(content: Mapping[str, Any], depth: int) -> Iterator[tuple[int, str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict):
            if depth < 6:
                yield from _leaves(value, depth + 1)
        elif not isinstance(value, list) or not any(isinstance(v, (dict, list)) for v in value):
            yield depth, str(key), value

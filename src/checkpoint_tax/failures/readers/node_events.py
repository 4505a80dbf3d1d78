"""``sacctmgr show event -P``: nodes that went down or were drained."""

from collections.abc import Mapping

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures.causes import INFRASTRUCTURE, UNKNOWN, is_planned
from checkpoint_tax.failures.events import Incident, Reading, node_names
from checkpoint_tax.failures.lines import DROPPED, KEPT, Row, Source
from checkpoint_tax.failures.readers.tables import Table, header_of
from checkpoint_tax.failures.stamps import duration_s

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "nodes": ("nodename", "node", "nodes"),
    "start": ("timestart", "start", "starttime"),
    "end": ("timeend", "end", "endtime"),
    "elapsed": ("duration",),
    "state": ("state", "stateraw"),
    "cause": ("reason",),
    "event": ("event", "eventraw"),
}
NEEDED = (("nodes",), ("start",), ("state",))
_DOWN = {"DOWN", "FAIL", "FAILING", "ERROR", "NOT_RESPONDING", "NO_RESPOND", "POWER_FAIL"}
_DRAIN = {"DRAIN", "DRAINED", "DRAINING", "DRNG"}
_PLANNED = {"MAINT", "MAINTENANCE", "REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED", "RESV",
            "RESERVED", "PLANNED", "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP",
            "POWER_UP", "FUTURE"}  # fmt: skip


def read(source: Source, reading: Reading, mapping: Mapping[str, str]) -> None:
    """Read the log.

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
        If there is no header with the columns needed.
    """
    header = header_of(source, COLUMNS, NEEDED, mapping)
    if header is None:
        raise InputError(
            f"{source.path}: no header with NodeName, TimeStart and State, as sacctmgr show event"
            " -P prints it; name the columns with --map."
        )
    table = Table(source, reading, header, COLUMNS, mapping, quoted=False)
    for row in table:
        _row(row, table, reading)


def _row(row: Row, table: Table, reading: Reading) -> None:
    get, book, warnings = table.get, reading.book, reading.warnings
    nodes = node_names(get(row, "nodes"))
    if not nodes:
        book.add(row.line, DROPPED, "an event of the cluster's registration, of no node")
        return
    if table.is_repeated(row):
        return
    states = {part.strip("*~#$@^!%-") for part in get(row, "state").upper().split("+")}
    start, end = (reading.clock.read(get(row, role)) for role in ("start", "end"))
    for stamp, role in ((start, "start"), (end, "end")):
        if stamp.time_s is None and not stamp.is_missing and not stamp.is_open:
            warnings.at(row.line, f"its {role} is not usable, {stamp.why}")
        elif stamp.time_s is not None and stamp.why:
            warnings.at(row.line, stamp.why)
    length_s = duration_s(get(row, "elapsed"))
    end_s = end.time_s
    if start.time_s is not None and end_s is not None and end_s < start.time_s:
        if end.later_s is not None and end.later_s >= start.time_s:
            end_s = end.later_s
        else:
            warnings.at(row.line, "it ends before it starts: the start is kept, the end is unknown")
            end_s = None
    start_s = start.time_s
    if start_s is None and end_s is not None and length_s is not None:
        start_s = end_s - length_s
    incident = Incident(
        line=row.line, position=-1, incident_id="", start_s=start_s, end_s=end_s,
        is_open=end_s is None and (end.is_missing or end.is_open), nodes=nodes,
        failure_class=INFRASTRUCTURE, resolution_s=start.resolution_s,
    )  # fmt: skip
    says_planned = states & _PLANNED and not states & {"FAIL", "ERROR"}
    if says_planned or is_planned(get(row, "cause")):
        incident.position = book.add(row.line, DROPPED, "planned: no failure")
        reading.planned.append(incident)
    elif states & _DOWN:
        why = "infrastructure failure"
        if start_s is None:
            why += " at an unknown time: counted, but in no gap"
            warnings.at(row.line, f"its start is unknown ({start.why}), so it is in no gap")
        incident.position = book.add(row.line, KEPT, why)
        reading.incidents.append(incident)
    elif states & _DRAIN:
        reading.put_aside(UNKNOWN)
        book.add(row.line, DROPPED, "a drain lets the job on the node end by itself")
    else:
        book.add(row.line, DROPPED, f"state {get(row, 'state')[:30]}: no failure")

"""A wandb export of runs: one row a run, times in UTC without a mark of it."""

import re
from collections.abc import Mapping

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures.causes import APPLICATION, INFRASTRUCTURE, PLANNED
from checkpoint_tax.failures.events import Reading, Run
from checkpoint_tax.failures.lines import DROPPED, KEPT, MERGED, Row, Source
from checkpoint_tax.failures.readers.tables import Table, header_of
from checkpoint_tax.failures.stamps import duration_s

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "runid", "runpath", "path"),
    "name": ("name", "displayname", "runname"),
    "state": ("state", "status", "runstate"),
    "start": ("created", "createdat", "createdtime", "starttime", "startedat", "start"),
    "elapsed": ("runtime", "summarywandbruntime", "wandbruntime", "duration"),
    "end": ("heartbeatat", "heartbeat", "lastheartbeat", "updatedat", "updated", "stoppedat"),
    "tags": ("tags", "tag"),
}
NEEDED = (("state",), ("start",), ("elapsed", "end"))
_ENDS = {
    "crashed": INFRASTRUCTURE, "failed": APPLICATION, "preempted": PLANNED, "preempting": PLANNED,
    "finished": "censored", "killed": "censored", "running": "censored", "stopped": "censored",
    "paused": "censored", "completed": "censored", "pending": "no run", "queued": "no run",
}  # fmt: skip
_NOT_PRODUCTION = {"debug", "debugging", "dev", "dryrun", "sanity", "scratch", "smoke", "smoketest",
                   "test", "testing", "tests"}  # fmt: skip


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
            f"{source.path}: no header with State, Created and Runtime or heartbeatAt, as a wandb"
            " export of runs has; name the columns with --map."
        )
    table = Table(source, reading, header, COLUMNS, mapping)
    runs: dict[str, Run] = {}
    states: dict[str, str] = {}
    for row in table:
        _row(row, table, reading, runs, states)


def _row(
    row: Row, table: Table, reading: Reading, runs: dict[str, Run], states: dict[str, str]
) -> None:
    get, book, warnings = table.get, reading.book, reading.warnings
    if table.is_repeated(row):
        return
    state = get(row, "state").lower()
    if state not in _ENDS:
        table.broken(row.line, f"{state[:30]!r} is not a state of a run")
        return
    if tags := _tags(get(row, "tags")) & _NOT_PRODUCTION:
        book.add(row.line, DROPPED, f"tagged {', '.join(sorted(tags))}: not production")
        warnings.at(row.line, f"left out because it is tagged {', '.join(sorted(tags))}")
        return
    if _ENDS[state] == "no run":
        book.add(row.line, DROPPED, f"{state}: it did not run")
        return
    start, end = (reading.clock.read(get(row, role)) for role in ("start", "end"))
    for role, stamp in (("start", start), ("end", end)):
        if stamp.time_s is None and not stamp.is_missing and not stamp.is_open:
            warnings.at(row.line, f"{role} is not usable, {stamp.why}")
    start_s, end_s = start.time_s, end.time_s
    if start_s is not None and end_s is not None and end_s < start_s:
        warnings.at(row.line, "its heartbeat is older than its start and taken as unknown")
        end_s = None
    up_s = _up_s(row.line, get(row, "elapsed"), start_s, end_s, reading)
    failed = _ENDS[state] != "censored"
    if end_s is None and start_s is not None and up_s is not None:
        end_s = start_s + up_s
    if up_s is None and failed and end_s is None:
        if _ENDS[state] == INFRASTRUCTURE:
            reading.untimed += 1
        else:
            reading.put_aside(_ENDS[state])
        book.add(row.line, KEPT, f"{state} at an unknown time: only counted")
        return
    run = Run(
        line=row.line, position=-1, run_id=get(row, "id"), name=get(row, "name"), up_s=up_s,
        start_s=start_s, end_s=end_s, failed=failed,
        failure_class=_ENDS[state] if failed else "",
    )  # fmt: skip
    other = runs.get(run.run_id) if run.run_id else None
    if other is None:
        run.position = book.add(row.line, KEPT, _reason(state, run))
        reading.runs.append(run)
        runs[run.run_id] = run
        states[run.run_id] = state
        return
    if (run.end_s or 0.0, run.up_s or 0.0) >= (other.end_s or 0.0, other.up_s or 0.0):
        other.up_s, other.start_s, other.end_s = run.up_s, other.start_s or run.start_s, run.end_s
        other.failed, other.failure_class = run.failed, run.failure_class
        book.change(other.position, KEPT, f"{_reason(state, other)} (by line {row.line})")
    book.add(row.line, MERGED, f"the same run as line {other.line}, exported at another time")


def _up_s(
    line: int, text: str, start_s: float | None, end_s: float | None, reading: Reading
) -> float | None:
    wall_s = None if start_s is None or end_s is None else end_s - start_s
    up_s = duration_s(text)
    if up_s is None:
        if wall_s is None:
            reading.warnings.at(line, "its run time is unknown and missing from the exposure")
        else:
            reading.warnings.at(line, "no Runtime, so heartbeat - created is its run time")
        return wall_s
    if wall_s is not None and up_s > wall_s + 60.0:
        reading.warnings.at(line, "Runtime is longer than heartbeat - created; Runtime was taken")
    return up_s


def _tags(text: str) -> set[str]:
    return {re.sub(r"[^a-z0-9]", "", tag.lower()) for tag in re.split(r"[,;|\s]+", text)} - {""}


def _reason(state: str, run: Run) -> str:
    # No length in it: a reason is stored once, whatever the number of runs.
    what = state if run.up_s is not None else f"{state} after an unknown time"
    if not run.failed:
        return f"{what}: exposure, right-censored"
    if run.failure_class == INFRASTRUCTURE:
        return f"{what}: infrastructure failure (its heartbeat stopped)"
    return f"{what}: {run.failure_class}; exposure, no infrastructure failure"

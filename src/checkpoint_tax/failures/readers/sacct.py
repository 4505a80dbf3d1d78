"""``sacct -P``, with or without ``-D``: allocations of jobs.

Job steps repeat their allocation and are left out. Exposure is the Elapsed of each allocation,
which knows nothing of clock changes; End - Start does.
"""

import math
import re
from collections.abc import Mapping

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures.causes import APPLICATION, INFRASTRUCTURE, PLANNED, is_planned
from checkpoint_tax.failures.events import Reading, Run, node_names
from checkpoint_tax.failures.lines import DROPPED, KEPT, MERGED, Row, Source
from checkpoint_tax.failures.readers.tables import Table, header_of
from checkpoint_tax.failures.stamps import Stamp, duration_s
from checkpoint_tax.units import HOUR_S

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("jobid", "jobidraw"),
    "name": ("jobname", "name"),
    "state": ("state", "jobstate"),
    "submit": ("eligible", "submit"),
    "start": ("start", "starttime"),
    "end": ("end", "endtime"),
    "elapsed": ("elapsed", "elapsedraw", "elapsedtime"),
    "nodes": ("nnodes", "allocnodes", "nodes"),
    "restarts": ("restarts", "restartcnt"),
    "cause": ("admincomment", "systemcomment", "reason", "comment"),
}
NEEDED = (("id",), ("state",), ("start", "elapsed"))

_SHORT = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING",
    "CG": "COMPLETING", "DL": "DEADLINE", "F": "FAILED", "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED", "R": "RUNNING",
    "RH": "REQUEUE_HOLD", "RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED",
    "S": "SUSPENDED", "TO": "TIMEOUT", "CANCELED": "CANCELLED", "NODEFAIL": "NODE_FAIL",
}  # fmt: skip
#: How each state ends an allocation: a class of failure, "censored" or "no run".
_ENDS = {
    "NODE_FAIL": INFRASTRUCTURE, "BOOT_FAIL": INFRASTRUCTURE, "LAUNCH_FAILED": INFRASTRUCTURE,
    "RECONFIG_FAIL": INFRASTRUCTURE, "STOPPED": "censored",
    "REQUEUED": INFRASTRUCTURE, "REQUEUE_HOLD": INFRASTRUCTURE, "SPECIAL_EXIT": APPLICATION,
    "FAILED": APPLICATION, "OUT_OF_MEMORY": APPLICATION, "PREEMPTED": PLANNED,
    "CANCELLED": "censored", "COMPLETED": "censored", "COMPLETING": "censored",
    "DEADLINE": "censored", "RESIZING": "censored", "RUNNING": "censored",
    "SIGNALING": "censored", "STAGE_OUT": "censored", "SUSPENDED": "censored",
    "TIMEOUT": "censored", "REVOKED": "no run", "PENDING": "no run", "CONFIGURING": "no run",
    "RESV_DEL_HOLD": "no run",
}  # fmt: skip
_ID = re.compile(r"\d+(_\d+)?(\+\d+)?")
_RUNNING = {"RUNNING", "SUSPENDED", "COMPLETING", "SIGNALING", "STAGE_OUT"}


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
            f"{source.path}: no header with JobID, State and Start or Elapsed; print the log with"
            " sacct -D -P -o JobID,JobName,State,Submit,Start,End,Elapsed,NNodes (not with -n)."
        )
    table = Table(source, reading, header, COLUMNS, mapping, quoted=False)
    _Reader(table, reading).run()


class _Reader:
    def __init__(self, table: Table, reading: Reading) -> None:
        self.table, self.reading = table, reading
        self.by_start: dict[tuple[str, object], Run] = {}
        self.states: dict[int, str] = {}
        self.restarts: dict[str, int] = {}
        self.rows_of: dict[str, int] = {}

    def run(self) -> None:
        for row in self.table:
            self._row(row)
        warnings = self.reading.warnings
        if self.rows_of and max(self.rows_of.values()) == 1 and not self.restarts:
            warnings.say(
                "no job has more than one row: if jobs were requeued and the log was made without"
                " sacct -D, their earlier runs and failures are missing; make it with -D."
            )
        hidden = {
            job: count - (self.rows_of.get(job, 1) - 1)
            for job, count in self.restarts.items()
            if count > self.rows_of.get(job, 1) - 1
        }
        if hidden:
            missing = sum(hidden.values())
            self.reading.untimed += missing
            warnings.say(
                f"Restarts counts {missing} more restarts than the log has rows for (jobs"
                f" {', '.join(list(hidden)[:5])}): counted as failures without a time, but their"
                " run time is missing, so the MTBF comes out too short; make the log with sacct -D."
            )
        _check_overlaps(self.reading)

    def _row(self, row: Row) -> None:
        get, book = self.table.get, self.reading.book
        job = get(row, "id")
        state = _state(get(row, "state"))
        if "." in job:
            book.add(row.line, DROPPED, "a job step; its allocation has a row of its own")
            return
        if "[" in job:
            book.add(row.line, DROPPED, "tasks of a job array that have not started")
            return
        if not _ID.fullmatch(job):
            self.table.broken(row.line, f"{job[:30]!r} is not a job id")
            return
        if self.table.is_repeated(row):
            return
        if state not in _ENDS:
            self.table.broken(row.line, f"{state[:30]!r} is not a state of a job")
            return
        if _ENDS[state] == "no run":
            book.add(row.line, DROPPED, f"{state}: it did not run")
            return
        times = [self._stamp(row, role) for role in ("submit", "start", "end")]
        self._allocation(row, job, state, *times)

    def _stamp(self, row: Row, role: str) -> Stamp:
        stamp = self.reading.clock.read(self.table.get(row, role))
        if stamp.time_s is None and not stamp.is_missing and not stamp.is_open:
            self.reading.warnings.at(row.line, f"{role} is not usable, {stamp.why}")
        return stamp

    def _allocation(
        self, row: Row, job: str, state: str, submit: Stamp, start: Stamp, end: Stamp
    ) -> None:
        warnings, get = self.reading.warnings, self.table.get
        start_s, end_s = start.time_s, end.time_s
        up_s = duration_s(get(row, "elapsed"))
        if start_s is None and not up_s and _ENDS[state] == "censored":
            self.reading.book.add(row.line, DROPPED, f"{state} before it started")
            return
        if start_s is None and end_s is None and not up_s:
            if _ENDS[state] == INFRASTRUCTURE:
                self.reading.untimed += 1
                self.reading.book.add(row.line, KEPT, f"{state} at an unknown time: only counted")
            else:
                self.reading.put_aside(_ENDS[state])
                self.reading.book.add(row.line, KEPT, f"{state} at an unknown time: set aside")
            return
        start_s, end_s = _settled(start, end, up_s)
        if start_s is not None and end_s is not None and end_s < start_s:
            warnings.at(row.line, "it ends before it starts, so its end is taken as unknown")
            end_s = None
        for stamp in (start, end):
            if stamp.time_s is not None and stamp.why and up_s is None:
                warnings.at(row.line, stamp.why)
        if up_s is None:
            if start_s is not None and end_s is not None:
                up_s = end_s - start_s
                warnings.at(row.line, "no Elapsed, so End - Start is its run time")
            else:
                warnings.at(row.line, "its run time is unknown and missing from the exposure")
        elif start_s is not None and end_s is not None and abs(end_s - start_s - up_s) > 2.0:
            self._disagreement(row.line, end_s - start_s - up_s)
        if start_s is None and end_s is not None and up_s is not None:
            start_s = end_s - up_s
        if end_s is None and start_s is not None and up_s is not None and state not in _RUNNING:
            end_s = start_s + up_s
        self._keep(row, job, state, submit.time_s, start_s, end_s, up_s)

    def _disagreement(self, line: int, more_s: float) -> None:
        if abs(abs(more_s) - HOUR_S) <= 2.0 and self.reading.clock.zone is None:
            what = (
                "End - Start and Elapsed differ by the hour of a clock change; Elapsed was taken"
                " (give the zone of the log with --tz)"
            )
        else:
            what = (
                "End - Start and Elapsed differ (a suspension, a clock that was set, or another"
                " --tz); Elapsed was taken"
            )
        self.reading.warnings.at(line, what)

    def _keep(
        self, row: Row, job: str, state: str, submit_s: float | None,
        start_s: float | None, end_s: float | None, up_s: float | None,
    ) -> None:  # fmt: skip
        get, book = self.table.get, self.reading.book
        failure_class = _ENDS[state]
        if failure_class in (INFRASTRUCTURE, APPLICATION) and is_planned(get(row, "cause")):
            failure_class = PLANNED
        failed = failure_class != "censored"
        plain = job.partition("+")[0]
        if (restarts := get(row, "restarts")).isdigit() and int(restarts):
            self.restarts[plain] = max(self.restarts.get(plain, 0), int(restarts))
        key = (plain, start_s if start_s is not None else f"end {end_s}")
        run = Run(
            line=row.line, position=-1, run_id=plain, name=get(row, "name"), up_s=up_s,
            start_s=start_s, end_s=end_s, failed=failed,
            failure_class=failure_class if failed else "", submit_s=submit_s,
            nodes=_count(get(row, "nodes")),
        )  # fmt: skip
        if (other := self.by_start.get(key)) is not None:
            self._same_allocation(run, other, state, job)
            return
        run.position = book.add(row.line, KEPT, _reason(state, run))
        self.by_start[key] = run
        self.states[row.line] = state
        self.rows_of[plain] = self.rows_of.get(plain, 0) + 1
        self.reading.runs.append(run)

    def _same_allocation(self, run: Run, other: Run, state: str, job: str) -> None:
        """Join a second row of one allocation: a later print of it, or part of one job."""
        book = self.reading.book
        what = "another part of the same job" if "+" in job else "the same allocation"
        was_running = self.states[other.line] in _RUNNING
        is_running = state in _RUNNING
        news = (was_running and not is_running) or (
            was_running == is_running and (run.up_s or 0.0) > (other.up_s or 0.0)
        )
        if "+" in job and run.nodes is not None:
            other.nodes = (other.nodes or 0.0) + run.nodes
        if news or (run.failed and not other.failed and not is_running):
            other.up_s, other.end_s = run.up_s, run.end_s
            other.failed, other.failure_class = run.failed, run.failure_class
            self.states[other.line] = state
            book.change(other.position, KEPT, f"{_reason(state, other)} (by line {run.line})")
        book.add(run.line, MERGED, f"{what} as line {other.line}")


def _state(text: str) -> str:
    """Reduce "CANCELLED by 5021", "cancelled+" and "CA" to one word."""
    word = text.strip().upper().replace(" BY ", " ").split(" ")[0].rstrip("+*").replace("-", "_")
    return _SHORT.get(word, word)


def _reason(state: str, run: Run) -> str:
    # No length in it: a reason is stored once, whatever the number of runs.
    what = state if run.up_s is not None else f"{state} after an unknown time"
    if not run.failed:
        return f"{what}: exposure, right-censored"
    if run.failure_class == INFRASTRUCTURE:
        cause = " (sacct does not say why)" if state.startswith("REQUEUE") else ""
        return f"{what}: infrastructure failure{cause}"
    return f"{what}: {run.failure_class}; exposure, no infrastructure failure"


def _settled(start: Stamp, end: Stamp, up_s: float | None) -> tuple[float | None, float | None]:
    """Choose between the two readings of a local time that exists twice, by Elapsed."""
    starts = [t for t in (start.time_s, start.later_s) if t is not None]
    ends = [t for t in (end.time_s, end.later_s) if t is not None]
    if not starts or not ends or up_s is None:
        return start.time_s, end.time_s
    return min(
        ((s, e) for s in starts for e in ends), key=lambda pair: abs(pair[1] - pair[0] - up_s)
    )


def _count(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return float(len(node_names(text))) or None
    return value if math.isfinite(value) and value > 0 else None


def _check_overlaps(reading: Reading) -> None:
    last: dict[str, Run] = {}
    timed = [run for run in reading.runs if run.start_s is not None]
    for run in sorted(timed, key=lambda run: run.start_s or 0.0):
        before = last.get(run.run_id)
        if (
            before is not None
            and before.end_s is not None
            and run.start_s is not None
            and run.start_s < before.end_s - 60.0
        ):
            reading.warnings.at(
                run.line, f"job {run.run_id} starts again before its run of line {before.line} ends"
            )
        last[run.run_id] = run

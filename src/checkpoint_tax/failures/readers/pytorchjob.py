"""Kubernetes: the status of PyTorchJobs and their pods, as ``kubectl get -o yaml`` prints it.

A status keeps counts and the last change of each condition, not a history: what it gives is a
rate. Several prints of one job in one file give the times that they show.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures.causes import APPLICATION, PLANNED, UNKNOWN, class_of
from checkpoint_tax.failures.events import Reading, Run
from checkpoint_tax.failures.lines import BROKEN, DROPPED, KEPT, MERGED, Source
from checkpoint_tax.units import duration_text

LARGEST_BYTES = 64 << 20
_LINE = "__line__"


class _Loader(yaml.BaseLoader):
    """Every value as text, and the line where each mapping starts."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        found = super().construct_mapping(node, deep=True)
        found[_LINE] = node.start_mark.line + 1
        return found


@dataclass
class _Job:
    line: int
    position: int
    name: str
    count: int = 0
    start_s: float | None = None
    last_s: float | None = None
    ended: str = ""
    end_s: float | None = None
    restarting: dict[float, str] = field(default_factory=dict)
    running_s: set[float] = field(default_factory=set)
    nodes: float | None = None
    is_terminating: bool = False


def read(source: Source, reading: Reading, until_s: float | None, window_s: float) -> None:
    """Read the log.

    Parameters
    ----------
    source : Source
        The log.
    reading : Reading
        To be filled.
    until_s : float or None
        When the status was printed [s since 1970], which it does not say itself.
    window_s : float
        Failures of pods within it are one interruption [s].

    Raises
    ------
    InputError
        If the file is too large for a status, is not YAML or holds no job.
    """
    if source.size_bytes > LARGEST_BYTES:
        raise InputError(f"{source.path}: {source.size_bytes} bytes are too many for a status.")
    jobs: dict[str, _Job] = {}
    for entry in _entries(source, reading):
        _take(entry, jobs, reading)
    if not jobs:
        raise InputError(f"{source.path}: no status of a PyTorchJob or pod in it.")
    for job in jobs.values():
        _settle(job, reading, until_s, window_s)


def _entries(source: Source, reading: Reading) -> list[dict[str, Any]]:
    """Objects of every document; a broken document is named and the rest still read."""
    documents: list[tuple[int, list[str]]] = [(1, [])]
    for number, text in source.lines():
        if text.rstrip() == "---":
            documents.append((number + 1, []))
        else:
            documents[-1][1].append(text)
    found: list[dict[str, Any]] = []
    for first, lines in documents:
        try:
            content = yaml.load("\n" * (first - 1) + "\n".join(lines), Loader=_Loader)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            line = first if mark is None else mark.line + 1
            reading.book.add(line, BROKEN, "it is not valid YAML")
            reading.warnings.at(line, "broken, it is not valid YAML; other documents were read")
            continue
        if isinstance(content, dict):
            items = content.get("items")
            found += [c for c in (items if isinstance(items, list) else [content])
                      if isinstance(c, dict)]  # fmt: skip
    return found


def _part(content: Any, *keys: str) -> Any:
    for key in keys:
        content = content.get(key) if isinstance(content, Mapping) else None
    return content


def _list(content: Any) -> list[Mapping[str, Any]]:
    return [c for c in content if isinstance(c, Mapping)] if isinstance(content, list) else []


def _number(text: Any) -> int:
    return int(text) if isinstance(text, str) and text.isdigit() else 0


def _take(entry: Mapping[str, Any], jobs: dict[str, _Job], reading: Reading) -> None:
    line = int(entry.get(_LINE, 1))
    status = entry.get("status")
    if not isinstance(status, Mapping):
        reading.book.add(line, DROPPED, "an object without a status")
        return
    labels = _part(entry, "metadata", "labels") or {}
    is_pod = entry.get("kind") == "Pod" or "containerStatuses" in status
    owner = next(
        (str(v) for k, v in labels.items() if k.endswith(("job-name", "training.kubeflow.org/job"))
         and isinstance(v, str)),
        "",
    ) if isinstance(labels, Mapping) else ""  # fmt: skip
    name = (owner if is_pod else "") or str(_part(entry, "metadata", "name") or f"line {line}")
    job = jobs.get(name)
    if job is None:
        job = jobs[name] = _Job(line, reading.book.add(line, KEPT, ""), name)
    else:
        what = "a pod" if is_pod else "another print"
        reading.book.add(line, MERGED, f"{what} of job {name}, line {job.line}")

    def time_of(text: Any, where: int = line) -> float | None:
        stamp = reading.clock.read(text if isinstance(text, str) else "")
        if stamp.time_s is None and not stamp.is_missing:
            reading.warnings.at(where, stamp.why)
        if stamp.time_s is not None:
            job.last_s = max(job.last_s or stamp.time_s, stamp.time_s)
        return stamp.time_s

    created_s = time_of(_part(entry, "metadata", "creationTimestamp"))
    start_s = time_of(status.get("startTime")) or created_s
    if start_s is not None:
        job.start_s = min(job.start_s or start_s, start_s)
    time_of(status.get("lastReconcileTime"))
    end_s = time_of(status.get("completionTime"))
    job.end_s = end_s if end_s is not None else job.end_s
    job.is_terminating |= time_of(_part(entry, "metadata", "deletionTimestamp")) is not None
    if is_pod:
        _take_pod(status, job, time_of)
        return
    for condition in _list(status.get("conditions")):
        _take_condition(condition, job, time_of)
    roles = status.get("replicaStatuses")
    failed = [_number(_part(s, "failed")) for s in roles.values()] if isinstance(roles, Mapping) \
        else []  # fmt: skip
    job.count = max(job.count, sum(failed), _number(status.get("restartCount")),
                    _number(status.get("restarts")))  # fmt: skip
    specs = _part(entry, "spec", "pytorchReplicaSpecs")
    if isinstance(specs, Mapping):
        replicas = sum(_number(_part(s, "replicas")) for s in specs.values())
        job.nodes = float(replicas) or None


def _take_condition(condition: Mapping[str, Any], job: _Job, time_of: Any) -> None:
    kind = str(condition.get("type", "")).lower()
    at_s = time_of(condition.get("lastTransitionTime"), int(condition.get(_LINE, job.line)))
    if at_s is None:
        return
    words = f"{condition.get('reason', '')} {condition.get('message', '')}"
    is_now = str(condition.get("status", "")).lower() == "true"
    if kind == "restarting":
        # The false condition keeps the time when it ended, which the running one has too.
        if is_now:
            job.restarting[at_s] = _class(words)
        else:
            job.count = max(job.count, 1)
    elif kind == "running" and is_now:
        job.running_s.add(at_s)
    elif kind == "suspended" and is_now:
        job.ended = PLANNED
        job.end_s = at_s
    elif kind in ("failed", "succeeded", "complete") and is_now:
        job.ended = kind if kind != "failed" else _class(words)
        job.end_s = job.end_s or at_s


def _take_pod(status: Mapping[str, Any], job: _Job, time_of: Any) -> None:
    for container in _list(status.get("containerStatuses")):
        # Every pod restarts at one interruption, so that the sum over pods is no count of them.
        job.count = max(job.count, _number(container.get("restartCount")))
        ended = _part(container, "lastState", "terminated")
        if isinstance(ended, Mapping):
            at_s = time_of(ended.get("finishedAt"), int(container.get(_LINE, job.line)))
            if at_s is not None and str(ended.get("exitCode", "")) != "0":
                job.restarting[at_s] = _class(f"{ended.get('reason', '')} {ended.get('message')}")
        since_s = time_of(_part(container, "state", "running", "startedAt"))
        if since_s is not None:
            job.running_s.add(since_s)


def _class(words: str) -> str:
    if "OOMKilled" in words:
        return APPLICATION
    if "Preempt" in words:
        return PLANNED
    for word in ("NodeLost", "Evicted", "NodeShutdown", "DeletionByTaintManager", "UnexpectedAdmi"):
        if word in words:
            return "infrastructure"
    found = class_of(words)
    return found if found == APPLICATION else UNKNOWN


def _settle(job: _Job, reading: Reading, until_s: float | None, window_s: float) -> None:
    warnings = reading.warnings
    times: list[float] = []
    for at_s in sorted(job.restarting):
        if not times or at_s - times[-1] > window_s:
            times.append(at_s)
        reading.raw_starts_s.append(at_s)
    failed_at_end = job.ended not in ("", "succeeded", "complete", PLANNED)
    untimed = max(0, job.count - len(times) - failed_at_end)
    end_s = job.end_s
    if end_s is None:
        end_s = until_s if until_s is not None else job.last_s
        if until_s is None:
            warnings.say(
                f"job {job.name} has not ended and its status does not say when it was printed:"
                " exposure ends at the last time in it; give the time of the print with --until."
            )
    if job.is_terminating and job.end_s is None:
        warnings.say(f"job {job.name} is being deleted and has not ended: an open outage.")
    since_s = job.start_s
    is_down = False
    for at_s in times:
        up_s = None if since_s is None else max(0.0, at_s - since_s)
        reading.runs.append(
            Run(job.line, job.position, job.name, job.name, up_s, since_s, at_s, True,
                job.restarting[at_s], nodes=job.nodes)
        )  # fmt: skip
        back = [s for s in job.running_s if s >= at_s]
        since_s = min(back, default=None)
        is_down = not back
        if back:
            reading.restarts_s.append((min(back) - at_s, True))
        elif end_s is not None and job.end_s is None:
            reading.restarts_s.append((max(0.0, end_s - at_s), False))
            warnings.say(
                f"job {job.name} is restarting without an end: an open outage is censored, not 0."
            )
    length_s = None if since_s is None or end_s is None else max(0.0, end_s - since_s)
    if not is_down:
        reading.runs.append(
            Run(job.line, job.position, job.name, job.name, length_s, since_s, end_s,
                failed_at_end, job.ended if failed_at_end else "", nodes=job.nodes)
        )  # fmt: skip
        if length_s is None:
            warnings.at(job.line, "its run time is unknown and missing from the exposure")
    reading.untimed += untimed
    reading.only_rate |= untimed > 0
    length = "an unknown time" if length_s is None else duration_text(length_s)
    reading.book.change(
        job.position, KEPT,
        f"job {job.name}: {len(times) + failed_at_end} failures with a time, {untimed} only"
        f" counted, {job.ended or 'not ended'}, {length} since its last start",
    )  # fmt: skip

"""A log read to the end: failures, exposure, the MTBF, and what the gaps can tell."""

import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures.causes import APPLICATION, CLASSES, INFRASTRUCTURE, PLANNED, UNKNOWN
from checkpoint_tax.failures.detection import detect_kind, kind_named
from checkpoint_tax.failures.estimates import (
    FEWEST_FOR_DISPERSION,
    POWER_SHAPE,
    Power,
    Quantiles,
    Test,
    dispersion,
    laplace_trend,
    mtbf_interval,
    quantiles,
    shape_power,
)
from checkpoint_tax.failures.events import Incident, Reading, Run
from checkpoint_tax.failures.fits import Fit, fit_gaps, likelihood_ratio
from checkpoint_tax.failures.grouping import WINDOW_S, Group, during, merge
from checkpoint_tax.failures.lines import DROPPED, KEPT, MERGED, Progress, Record, Source
from checkpoint_tax.failures.readers import (
    incidents,
    node_events,
    pytorchjob,
    sacct,
    wandb_runs,
    workers,
)
from checkpoint_tax.failures.stamps import NO_ZONE, Clock, zone_named
from checkpoint_tax.units import HOUR_S, duration_text

_COUNTED = (INFRASTRUCTURE, UNKNOWN)
_SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Side:
    """Failures counted in one way: raw, or merged into interruptions.

    Attributes
    ----------
    n : int
        With a time.
    mean_gap_s : float or None
        Mean time from one to the next [s].
    n_zero_gaps : int
        Gaps written as 0.
    weibull_shape : float or None
        Fitted to the gaps; below 1 for bursts.
    """

    n: int
    mean_gap_s: float | None
    n_zero_gaps: int
    weibull_shape: float | None


@dataclass(frozen=True)
class FailureLog:
    """What a log of failures says, and what became of each line.

    Attributes
    ----------
    kind, kind_why : str
        Kind of log, and what it was recognised by.
    n_events : int
        Interruptions by infrastructure (or an unknown cause) with a usable time.
    n_failures : int
        Those and the untimed.
    n_untimed : int
        Failures that are only counted.
    n_censored : int
        Runs that ended without a failure, or have not ended.
    classes : dict of str to int
        Interruptions of each class; only infrastructure and unknown make the MTBF.
    exposure_s : float or None
        Time watched [s].
    exposure_by : str
        What the exposure is.
    mtbf_s : float or None
        Exposure over failures [s].
    mtbf_interval_s : tuple of float or None
        Exact Poisson 95 % interval [s]; its high end may be infinite.
    gaps_s, censored_s : tuple of float
        What is fitted: gaps that a failure ended, and those cut short [s].
    resolution_s : float
        Rounding of the stamps [s].
    raw, merged : Side
        Failures before and after merging, from start to start.
    window_s : float
        Of merging [s].
    fits : dict of str to Fit
        By family.
    tests : tuple of Test
        Trend and dispersion, where there are failures enough.
    likelihood_ratio : tuple of float, or None
        Statistic and p-value of Weibull against exponential.
    power : Power or None
        Of that test with so many failures.
    verdict : str
        What can be said of the distribution.
    restart, queue, without_queue : Quantiles
        Time from a failure to the next run, and its two parts where the log tells them apart.
    nodes : tuple of float, or None
        Smallest, mean by exposure and largest number of nodes of the runs.
    warnings : tuple of str
        What to know before using the numbers.
    roles : dict of str to str
        Column by role.
    """

    kind: str
    kind_why: str
    n_events: int
    n_failures: int
    n_untimed: int
    n_censored: int
    classes: Mapping[str, int]
    exposure_s: float | None
    exposure_by: str
    mtbf_s: float | None
    mtbf_interval_s: tuple[float, float] | None
    gaps_s: tuple[float, ...]
    censored_s: tuple[float, ...]
    resolution_s: float
    raw: Side
    merged: Side
    window_s: float
    fits: Mapping[str, Fit]
    tests: tuple[Test, ...]
    likelihood_ratio: tuple[float, float] | None
    power: Power | None
    verdict: str
    restart: Quantiles
    queue: Quantiles
    without_queue: Quantiles
    nodes: tuple[float, float, float] | None
    warnings: tuple[str, ...]
    roles: Mapping[str, str]
    _book: Any = field(repr=False, default=())

    @property
    def records(self) -> Iterator[Record]:
        """The fate of each line, in the order of reading.

        Returns
        -------
        iterator of Record
        """
        return iter(self._book)

    def count(self, state: str) -> int:
        """Count the records of one fate.

        Parameters
        ----------
        state : str
            ``"kept"``, ``"merged"``, ``"dropped"`` or ``"broken"``.

        Returns
        -------
        int
        """
        return int(self._book.count(state))


@dataclass(frozen=True)
class _Options:
    year: int | None
    mapping: Mapping[str, str]
    window_s: float
    since_s: float | None
    until_s: float | None


def read_failures(
    path: str | Path,
    *,
    tz: str | None = None,
    kind: str | None = None,
    year: int | None = None,
    mapping: Mapping[str, str] | None = None,
    window_s: float = WINDOW_S,
    since: str | None = None,
    until: str | None = None,
    progress: Progress | None = None,
) -> FailureLog:
    """Read a log of failures.

    Parameters
    ----------
    path : str or pathlib.Path
        The log; may be packed by gzip.
    tz : str, optional
        Zone of times that name none, such as ``"America/Los_Angeles"``. A wandb export is in UTC.
    kind : str, optional
        One of `detection.KINDS`; recognised by the first lines if left out.
    year : int, optional
        Year of the first stamp, for logs of workers whose stamps have none.
    mapping : mapping of str to str, optional
        Column of the file to the role it plays, where names are not recognised.
    window_s : float
        Records within it of the first are one interruption [s].
    since, until : str, optional
        The time that was watched, for logs of incidents and for a status; without them a list of
        incidents is watched from its first to its last event.
    progress : callable, optional
        Called with the bytes read since its last call.

    Returns
    -------
    FailureLog

    Raises
    ------
    InputError
        If there is no such file, its kind is not recognised, an option is refused, or it lacks
        what its kind must have. Broken lines are named in the warnings and refuse nothing.
    """
    source = Source(Path(path), progress)
    columns = dict(mapping or {})
    if not 0.0 <= window_s < math.inf:
        raise InputError(f"window = {window_s:g} [s] is refused; allowed: finite, at least 0.")
    if year is not None and not 2000 <= year <= 2100:
        raise InputError(f"year = {year} is refused; allowed: 2000 to 2100.")
    if kind is None:
        found, why = detect_kind(source, columns)
    else:
        found, why = kind_named(kind), "named by --kind"
    is_utc = found == "wandb"
    zone_name = "UTC" if is_utc else tz
    zone = None if zone_name is None else zone_named(zone_name)
    options = _Options(
        year, columns, window_s,
        _instant("since", since, Clock(zone)), _instant("until", until, Clock(zone)),
    )  # fmt: skip
    if (options.since_s is None) != (options.until_s is None) and found != "pytorchjob":
        raise InputError("since and until are given together or not at all.")
    if (options.until_s or math.inf) <= (options.since_s or 0.0):
        raise InputError(f"until = {until} is not after since = {since}.")
    reading = _read(source, found, Clock(zone), options)
    shown = reading.clock.orders
    if "day" in shown and "month" not in shown:
        # A date such as 13/01/2025 proves that all are written day first.
        reading = _read(source, found, Clock(zone, day_first=True), options)
        reading.warnings.say("dates such as 03/11/2025 are read day first, as others show.")
    elif "either" in shown and "month" not in shown:
        reading.warnings.say(
            "dates such as 03/11/2025 are read month first; no date in the log proves it."
        )
    elif {"day", "month"} <= shown:
        reading.warnings.say("some dates are month first and some day first; others: month first.")
    if zone is None and reading.clock.saw_local:
        if reading.clock.saw_zone:
            day_first = reading.clock.day_first
            reading = _read(
                source, found, Clock(None, day_first=day_first, zone_is_needed=True), options
            )
            reading.warnings.say(
                f"some times have a zone and some have none: {NO_ZONE} is not used; give the zone"
                " of the log with --tz."
            )
        else:
            reading.warnings.say(
                "no zone is given (--tz): local times are read as if no clock was ever changed."
            )
    if is_utc and tz not in (None, "UTC"):
        reading.warnings.say(f"wandb exports are in UTC: --tz {tz} is not used.")
    return _assess(reading, why, options)


def _instant(name: str, text: str | None, clock: Clock) -> float | None:
    if text is None:
        return None
    stamp = clock.read(text)
    if stamp.time_s is None:
        raise InputError(f"{name} = {text!r} is not a time; write such as 2025-03-09T10:00:00Z.")
    return stamp.time_s


def _read(source: Source, kind: str, clock: Clock, options: _Options) -> Reading:
    basis = "incidents" if kind in ("incidents", "pager", "sacctmgr") else "runs"
    reading = Reading(kind, basis, clock)
    columns = options.mapping
    if kind == "sacct":
        sacct.read(source, reading, columns)
    elif kind == "wandb":
        wandb_runs.read(source, reading, columns)
    elif kind == "sacctmgr":
        node_events.read(source, reading, columns)
    elif kind == "incidents":
        incidents.read_csv(source, reading, columns)
    elif kind == "pager":
        incidents.read_json_lines(source, reading, columns)
    elif columns:
        raise InputError(f"map is of no use here: a log of kind {kind} has no columns.")
    elif kind == "workers":
        workers.read(source, reading, options.year, options.window_s)
    else:
        pytorchjob.read(source, reading, options.until_s, options.window_s)
    return reading


@dataclass
class _Count:
    """What runs or incidents come to, before anything is estimated."""

    starts_s: list[float]
    gaps_s: list[float]
    censored_s: list[float]
    exposure_s: float | None
    exposure_by: str
    classes: dict[str, int]
    n_untimed: int
    n_censored: int
    resolution_s: float
    ends_at_failure: bool
    raw_starts_s: list[float]
    clock_times_s: list[float]
    down_s: list[tuple[float, bool]]
    queue_s: list[float]
    restart_s: list[float]
    #: Failures that the exposure is divided by, where that is not all of them.
    n_rate: int | None = None


def _assess(reading: Reading, why: str, options: _Options) -> FailureLog:
    count = _count_runs(reading) if reading.basis == "runs" else _count_incidents(reading, options)
    n_events = len(count.starts_s)
    n_failures = n_events + count.n_untimed
    n_rate = n_failures if count.n_rate is None else count.n_rate
    mtbf_s: float | None = None
    interval: tuple[float, float] | None = None
    if count.exposure_s is not None and count.exposure_s > 0.0:
        interval = mtbf_interval(n_rate, count.exposure_s, ends_at_failure=count.ends_at_failure)
        mtbf_s = count.exposure_s / n_rate if n_rate else None
    fits: dict[str, Fit] = {}
    if not reading.only_rate:
        fits = fit_gaps(count.gaps_s, count.censored_s, zero_below_s=count.resolution_s)
    n_zero = sum(gap == 0.0 for gap in count.gaps_s)
    if n_zero:
        reading.warnings.say(
            f"gaps written as 0, because stamps are rounded to {duration_text(count.resolution_s)}:"
            f" {n_zero}; they are fitted as lying between 0 and that."
        )
    ratio = likelihood_ratio(fits)
    power = shape_power(len(count.gaps_s)) if len(count.gaps_s) >= 2 else None
    merged = _side(count.starts_s, count.resolution_s)
    is_same = count.raw_starts_s == count.starts_s
    raw = merged if is_same else _side(count.raw_starts_s, count.resolution_s)
    ended = [length for length, is_ended in count.down_s if is_ended]
    still = [length for length, is_ended in count.down_s if not is_ended]
    nodes = _nodes(reading)
    if nodes is not None and nodes[0] < nodes[2]:
        reading.warnings.say(
            f"runs have {nodes[0]:g} to {nodes[2]:g} nodes: the MTBF is that of a mixture, and of"
            f" {nodes[1]:.4g} nodes in the mean over time."
        )
    return FailureLog(
        kind=reading.kind, kind_why=why, n_events=n_events, n_failures=n_failures,
        n_untimed=count.n_untimed, n_censored=count.n_censored, classes=count.classes,
        exposure_s=count.exposure_s, exposure_by=count.exposure_by, mtbf_s=mtbf_s,
        mtbf_interval_s=interval, gaps_s=tuple(count.gaps_s), censored_s=tuple(count.censored_s),
        resolution_s=count.resolution_s,
        raw=raw,
        merged=merged,
        window_s=options.window_s,
        fits=fits, tests=_tests(count), likelihood_ratio=ratio, power=power,
        verdict=_verdict(reading, count, fits, ratio, power),
        restart=quantiles(ended, still), queue=quantiles(count.queue_s),
        without_queue=quantiles(count.restart_s), nodes=nodes,
        warnings=tuple(reading.warnings.all()), roles=dict(reading.roles), _book=reading.book,
    )  # fmt: skip


def _side(starts_s: list[float], resolution_s: float) -> Side:
    starts = np.sort(np.asarray(starts_s, dtype=np.float64))
    gaps = np.diff(starts)
    fit = None
    if gaps.size and gaps.sum() > 0.0:
        fit = fit_gaps(gaps, zero_below_s=resolution_s).get("weibull")
    return Side(
        n=int(starts.size),
        mean_gap_s=float(gaps.mean()) if gaps.size else None,
        n_zero_gaps=int((gaps == 0.0).sum()),
        weibull_shape=None if fit is None else fit.parameters["shape"],
    )


def _count_runs(reading: Reading) -> _Count:
    runs = sorted(reading.runs, key=lambda run: (run.end_s is None, run.end_s or 0.0, run.line))
    classes = dict.fromkeys(CLASSES, 0)
    starts: list[float] = []
    gaps: list[float] = []
    censored: list[float] = []
    clock_times: list[float] = []
    on_clock_s = 0.0
    untimed = reading.untimed
    n_censored = 0
    for run in runs:
        counts = run.failed and run.failure_class in _COUNTED
        on_clock_s += run.up_s or 0.0
        if run.failed:
            classes[run.failure_class] += 1
        else:
            n_censored += 1
        if counts and run.end_s is not None:
            starts.append(run.end_s)
            clock_times.append(on_clock_s)
        elif counts and run.up_s is None:
            untimed += 1
        elif counts:
            # How long it ran is known, on what day is not: enough for a gap and the count.
            untimed += 1
        if run.up_s is not None:
            (gaps if counts else censored).append(run.up_s)
    classes[UNKNOWN] += reading.untimed if reading.only_rate else 0
    classes[INFRASTRUCTURE] += 0 if reading.only_rate else reading.untimed
    for name, number in reading.set_aside.items():
        classes[name] += number
    exposure_s = math.fsum(gaps) + math.fsum(censored)
    down, queue, restart = _downtimes(reading, runs)
    raw = sorted(reading.raw_starts_s) if len(reading.raw_starts_s) else starts
    if classes[APPLICATION] and exposure_s > 0.0:
        long = [r for r in runs if r.failure_class == APPLICATION and (r.up_s or 0.0) > HOUR_S]
        if long:
            total = len(starts) + untimed + len(long)
            reading.warnings.say(
                f"{len(long)} failures counted as the application's came after more than an hour;"
                f" if the machine caused them, the MTBF is {exposure_s / total / HOUR_S:.4g} h."
            )
    return _Count(
        starts_s=starts, gaps_s=gaps, censored_s=censored,
        exposure_s=exposure_s if runs else None,
        exposure_by="run time of all runs, restarts left out", classes=classes, n_untimed=untimed,
        n_censored=n_censored, resolution_s=_resolution_s(gaps), ends_at_failure=False,
        raw_starts_s=list(raw), clock_times_s=clock_times, down_s=down, queue_s=queue,
        restart_s=restart,
    )  # fmt: skip


def _resolution_s(times_s: list[float]) -> float:
    """Largest of a day, an hour, a minute and a second that every time is a multiple of."""
    whole = [t for t in times_s if t > 0.0]
    for size in (86400.0, 3600.0, 60.0):
        if len(whole) >= 3 and all(t % size == 0.0 for t in whole):
            return size
    return 1.0


def _downtimes(
    reading: Reading, runs: list[Run]
) -> tuple[list[tuple[float, bool]], list[float], list[float]]:
    """Time from each failure to the next start of the same work, and its parts."""
    if reading.restarts_s or reading.kind in ("workers", "pytorchjob"):
        known = [length for length, ended in reading.restarts_s if ended]
        return list(reading.restarts_s), [], known
    timed = sorted(
        (run for run in runs if run.start_s is not None), key=lambda run: run.start_s or 0.0
    )
    by_id: dict[str, list[Run]] = {}
    by_name: dict[str, list[Run]] = {}
    for run in timed:
        by_id.setdefault(run.run_id, []).append(run)
        by_name.setdefault(_stem(run.name), []).append(run)
    down: list[tuple[float, bool]] = []
    queue: list[float] = []
    restart: list[float] = []
    for run in runs:
        if not run.failed or run.failure_class not in _COUNTED or run.end_s is None:
            continue
        following = _following(run, by_id.get(run.run_id, []))
        if following is None and run.name:
            following = _following(run, by_name.get(_stem(run.name), []))
        if following is None or following.start_s is None:
            continue
        whole_s = following.start_s - run.end_s
        down.append((whole_s, True))
        if following.submit_s is not None and following.submit_s <= following.start_s:
            waited_s = following.start_s - max(following.submit_s, run.end_s)
            queue.append(waited_s)
            restart.append(whole_s - waited_s)
        elif reading.kind != "sacct":
            restart.append(whole_s)
    if queue:
        reading.warnings.say(
            "the accounting sees no relaunch inside an allocation (processes, loading, warm-up):"
            " restart_s is the time from a failure to the next start, the queue in it."
        )
    return down, queue, restart


def _stem(name: str) -> str:
    """Name without the mark of a single run, so that train-a and train-b are one piece of work."""
    return re.sub(r"([-_. ](\d+|[a-z]|r\d+|try\d+|restart\d*|v\d+|attempt\d*))+$", "", name.lower())


def _following(run: Run, others: list[Run]) -> Run | None:
    """First of the same work, by start, that starts after the run ended."""
    assert run.end_s is not None
    at = bisect_left(others, run.end_s, key=lambda other: other.start_s or 0.0)
    while at < len(others) and others[at] is run:
        at += 1
    return others[at] if at < len(others) else None


def _count_incidents(reading: Reading, options: _Options) -> _Count:
    book, warnings = reading.book, reading.warnings
    classes = dict.fromkeys(CLASSES, 0)
    for name, number in reading.set_aside.items():
        classes[name] += number
    planned = sorted(reading.planned, key=lambda work: work.start_s or 0.0)
    classes[PLANNED] += len(planned)
    failures: list[Incident] = []
    for incident in reading.incidents:
        work = during(incident, planned)
        outside = incident.start_s is not None and options.since_s is not None and not (
            options.since_s <= incident.start_s <= (options.until_s or math.inf)
        )  # fmt: skip
        if work is not None:
            book.change(incident.position, DROPPED, f"during the planned work of line {work.line}")
        elif outside:
            book.change(incident.position, DROPPED, "outside the time from since to until")
        else:
            failures.append(incident)
    groups = merge(failures, options.window_s)
    last_s = max((max(g.start_s, g.end_s or g.start_s) for g in groups), default=None)
    _note_groups(groups, reading)
    for group in groups:
        classes[_group_class(group)] += 1
    named = {i.incident_id for g in groups for i in g.incidents if i.incident_id}
    untimed = 0
    for incident in failures:
        if incident.start_s is not None:
            continue
        if incident.incident_id in named:
            book.change(incident.position, MERGED, "another record of the same incident")
            continue
        untimed += 1
        classes[incident.failure_class] += 1
        if incident.incident_id:
            named.add(incident.incident_id)
    starts = [group.start_s for group in groups]
    gaps = [float(gap) for gap in np.diff(starts)]
    down: list[tuple[float, bool]] = []
    for group in groups:
        if group.end_s is not None:
            down.append((group.end_s - group.start_s, True))
        elif group.is_open and last_s is not None:
            until_s = options.until_s if options.until_s is not None else last_s
            down.append((max(0.0, until_s - group.start_s), False))
    open_ones = sum(not ended for _, ended in down)
    if open_ones:
        warnings.say(
            f"{open_ones} outages are still open: they are censored at the end of the log, not 0."
        )
    resolutions = [i.resolution_s for g in groups for i in g.incidents]
    resolution_s = max([1.0, *resolutions], default=1.0)
    raw = [i.start_s for i in failures if i.start_s is not None]
    count = _Count(
        starts_s=starts, gaps_s=gaps, censored_s=[], exposure_s=None, exposure_by="none",
        classes=classes, n_untimed=untimed, n_censored=0, resolution_s=resolution_s,
        ends_at_failure=False, raw_starts_s=raw, clock_times_s=[], down_s=down, queue_s=[],
        restart_s=[length for length, ended in down if ended],
    )  # fmt: skip
    _watch(count, reading, options)
    return count


def _watch(count: _Count, reading: Reading, options: _Options) -> None:
    """Settle how long incidents were watched for."""
    if options.since_s is not None and options.until_s is not None:
        count.exposure_s = options.until_s - options.since_s
        count.exposure_by = "wall time from since to until, repairs included"
        count.clock_times_s = [t - options.since_s for t in count.starts_s]
        last_s = count.starts_s[-1] if count.starts_s else options.since_s
        count.censored_s = [options.until_s - last_s]
        count.n_censored = 1
        return
    if len(count.starts_s) < 2:
        reading.warnings.say(
            "fewer than two events with a time give no exposure; say what was watched with --since"
            " and --until."
        )
        return
    first_s, last_s = count.starts_s[0], count.starts_s[-1]
    count.exposure_s = last_s - first_s
    count.exposure_by = "wall time from the first to the last event, repairs included"
    count.ends_at_failure = True
    count.clock_times_s = [t - first_s for t in count.starts_s[1:]]
    count.n_rate = len(count.gaps_s)
    text = (
        "a list of incidents does not say when it was watched: exposure runs from the first event"
        " to the last, so its MTBF is the mean gap; give --since and --until if you know them."
    )
    if count.n_untimed:
        value = count.exposure_s / (len(count.gaps_s) + count.n_untimed) / HOUR_S
        text += f" With the {count.n_untimed} untimed failures in it, it is {value:.4g} h."
    reading.warnings.say(text)


def _note_groups(groups: list[Group], reading: Reading) -> None:
    for group in groups:
        first, *others = group.incidents
        if not others:
            continue
        why = reading.book.why(first.position)
        reading.book.change(
            first.position, KEPT, f"{why}; one interruption with {len(others)} more records"
        )
        for incident, reason in zip(others, group.reasons[1:], strict=True):
            reading.book.change(
                incident.position, MERGED, f"into the interruption of line {first.line}: {reason}"
            )


def _group_class(group: Group) -> str:
    found = {incident.failure_class for incident in group.incidents}
    return INFRASTRUCTURE if INFRASTRUCTURE in found else UNKNOWN


def _nodes(reading: Reading) -> tuple[float, float, float] | None:
    known = [(run.nodes, run.up_s or 0.0) for run in reading.runs if run.nodes is not None]
    if not known:
        return None
    total_s = math.fsum(up_s for _, up_s in known)
    sizes = [size for size, _ in known]
    mean = math.fsum(size * up_s for size, up_s in known) / total_s if total_s else sizes[0]
    return min(sizes), mean, max(sizes)


def _tests(count: _Count) -> tuple[Test, ...]:
    times, exposure_s = count.clock_times_s, count.exposure_s
    if exposure_s is None or exposure_s <= 0.0:
        return ()
    exposure_s = max([exposure_s, *times])
    found = []
    if len(times) - count.ends_at_failure >= 2:
        found.append(laplace_trend(times, exposure_s, ends_at_failure=count.ends_at_failure))
    inside = times[:-1] if count.ends_at_failure else times
    if len(inside) >= FEWEST_FOR_DISPERSION:
        found.append(dispersion(inside, exposure_s))
    return tuple(found)


def _verdict(
    reading: Reading, count: _Count, fits: Mapping[str, Fit],
    ratio: tuple[float, float] | None, power: Power | None,
) -> str:  # fmt: skip
    n = len(count.gaps_s)
    if reading.only_rate:
        return (
            "cannot distinguish: a count without times is a rate, not a distribution; gaps are not"
            " known"
        )
    if ratio is None or power is None or "weibull" not in fits:
        few = "no gap is" if n == 0 else "1 gap is" if n == 1 else f"{n} gaps are"
        return f"cannot distinguish: {few} ended by a failure, too few to fit a shape"
    statistic, p = ratio
    shape = fits["weibull"].parameters["shape"]
    able = (
        f"the likelihood-ratio test finds shape {POWER_SHAPE:g} in {100 * power.power:.0f} %"
        f" (+- {100 * power.standard_error:.1f}) of samples of {n} failures"
    )
    if statistic <= power.critical:
        return (
            f"cannot distinguish exponential from Weibull (fitted shape {shape:.3g}, p ="
            f" {p:.2g}); {able}"
        )
    best = min(fits.values(), key=lambda fit: fit.aic).family
    way = "gaps cluster, the hazard falls" if shape < 1 else "the hazard rises after a restart"
    return (
        f"not exponential (fitted Weibull shape {shape:.3g}, p = {p:.2g}: {way}); least AIC:"
        f" {best}; {able}"
    )


def as_json(log: FailureLog, *, records: bool = True) -> dict[str, Any]:
    """Arrange a log's results for JSON.

    Parameters
    ----------
    log : FailureLog
        From `read_failures`.
    records : bool
        Whether to list the records.

    Returns
    -------
    dict
        Only numbers, texts, lists, dicts and None; an infinite number is None.
    """
    content: dict[str, Any] = {
        "kind": log.kind,
        "kind_why": log.kind_why,
        "n_events": log.n_events,
        "n_failures": log.n_failures,
        "n_untimed": log.n_untimed,
        "n_censored": log.n_censored,
        "classes": dict(log.classes),
        "exposure_h": _hours(log.exposure_s),
        "exposure_by": log.exposure_by,
        "mtbf_h": _hours(log.mtbf_s),
        "mtbf_interval_h": None
        if log.mtbf_interval_s is None
        else [_hours(end) for end in log.mtbf_interval_s],
        "mean_gap_h": _hours(log.merged.mean_gap_s),
        "window_s": log.window_s,
        "raw": _side_json(log.raw),
        "merged": _side_json(log.merged),
        "restart_s": {
            **_quantiles_json(log.restart),
            "queue": _quantiles_json(log.queue),
            "without_queue": _quantiles_json(log.without_queue),
        },
        "fits": {family: _fit_json(fit) for family, fit in log.fits.items()},
        "tests": [
            {"name": t.name, "statistic": t.statistic, "p_value": t.p_value, "meaning": t.meaning}
            for t in log.tests
        ],
        "likelihood_ratio": None
        if log.likelihood_ratio is None
        else {"statistic": log.likelihood_ratio[0], "p_value": log.likelihood_ratio[1]},
        "power": None
        if log.power is None
        else {
            "shape": log.power.shape,
            "n_failures": log.power.n_failures,
            "power": log.power.power,
            "standard_error": log.power.standard_error,
        },
        "verdict": log.verdict,
        "anchor": {
            "mtbf_h": _hours(log.mtbf_s),
            "nodes": None if log.nodes is None else log.nodes[1],
            "nodes_range": None if log.nodes is None else [log.nodes[0], log.nodes[2]],
        },
        "columns": dict(log.roles),
        "warnings": list(log.warnings),
    }
    if records:
        content["records"] = [record_json(record) for record in log.records]
    return content


def write_json(log: FailureLog, stream: TextIO) -> None:
    """Write a log's results as JSON, one record after another.

    Parameters
    ----------
    log : FailureLog
        From `read_failures`.
    stream : text file
        Written to; the records of a large log are never held all at once.
    """
    head = json.dumps(as_json(log, records=False), indent=2, allow_nan=False)
    stream.write(head.removesuffix("\n}") + ',\n  "records": [')
    for number, record in enumerate(log.records):
        stream.write((",\n    " if number else "\n    ") + json.dumps(record_json(record)))
    stream.write("\n  ]\n}\n")


def record_json(record: Record) -> dict[str, Any]:
    """Arrange one record for JSON.

    Parameters
    ----------
    record : Record
        Of a log.

    Returns
    -------
    dict
        ``line``, ``kept``, ``state`` and ``why``; ``last_line`` for a stretch of lines.
    """
    found: dict[str, Any] = {"line": record.line}
    if record.last_line != record.line:
        found["last_line"] = record.last_line
    return {**found, "kept": record.state == KEPT, "state": record.state, "why": record.why}


def _hours(time_s: float | None) -> float | None:
    return None if time_s is None or not math.isfinite(time_s) else time_s / HOUR_S


def _side_json(side: Side) -> dict[str, Any]:
    return {
        "n_events": side.n,
        "mean_gap_h": _hours(side.mean_gap_s),
        "n_zero_gaps": side.n_zero_gaps,
        "weibull_shape": side.weibull_shape,
    }


def _quantiles_json(found: Quantiles) -> dict[str, Any]:
    return {
        "n": found.n,
        "n_open": found.n_open,
        "p10": found.p10_s,
        "p50": found.p50_s,
        "p90": found.p90_s,
        "longest": found.longest_s,
    }


def _fit_json(fit: Fit) -> dict[str, Any]:
    parameters = {
        name.replace("_s", "_h") if name.endswith("_s") else name: value / HOUR_S
        if name.endswith("_s")
        else value - math.log(HOUR_S)
        if name == "log_mean"
        else value
        for name, value in fit.parameters.items()
    }
    return {
        **parameters,
        "mean_h": _hours(fit.mean_s),
        "log_likelihood": fit.log_likelihood,
        "aic": fit.aic,
    }

"""What a log says, in lines for a terminal."""

import math
from collections.abc import Iterator, Sequence

from checkpoint_tax.failures.detection import KINDS
from checkpoint_tax.failures.estimates import Quantiles
from checkpoint_tax.failures.fits import Fit
from checkpoint_tax.failures.lines import BROKEN, DROPPED, KEPT, MERGED, Record
from checkpoint_tax.failures.log import FailureLog, Side
from checkpoint_tax.units import HOUR_S, duration_text

#: Stretches of lines that are shown; all of them are in the JSON.
MOST_RECORDS = 200


def describe(log: FailureLog) -> Iterator[str]:
    """Write a log's results.

    Parameters
    ----------
    log : FailureLog
        The log.

    Yields
    ------
    str
        One line after another.
    """
    yield f"kind        {log.kind}: {KINDS[log.kind]} ({log.kind_why})"
    states = ", ".join(f"{log.count(s)} {s}" for s in (KEPT, MERGED, DROPPED, BROKEN))
    yield f"records     {states}"
    classes = ", ".join(f"{number} {name}" for name, number in log.classes.items())
    yield f"failures    {classes}"
    yield (
        f"            {log.n_failures} count for the MTBF, {log.n_untimed} of them without a time;"
        f" {log.n_censored} runs censored"
    )
    if log.exposure_s is None:
        yield "exposure    not known"
    else:
        yield f"exposure    {duration_text(log.exposure_s)} ({log.exposure_by})"
    yield f"MTBF        {_mtbf(log)}"
    if log.nodes is not None:
        yield f"anchor      that is the MTBF of a job of {log.nodes[1]:.4g} nodes"
    yield ""
    yield from _table(
        [
            ("from start to start", "events", "mean gap", "gaps of 0", "Weibull shape"),
            ("raw records", *_side(log.raw)),
            (f"merged within {duration_text(log.window_s)}", *_side(log.merged)),
        ]
    )
    if log.fits:
        yield ""
        yield from _table(
            [
                ("fitted to gaps", "parameters", "mean gap", "AIC"),
                *(_fit(fit) for fit in log.fits.values()),
            ]
        )
    for test in log.tests:
        yield f"{test.name}: {test.statistic:.3g}, p = {test.p_value:.2g}: {test.meaning}"
    yield f"verdict     {log.verdict}"
    yield ""
    yield from _table(
        [
            ("restart", "seen", "still open", "10 %", "median", "90 %", "longest"),
            ("failure to next start", *_quantiles(log.restart)),
            ("  waiting for nodes", *_quantiles(log.queue)),
            ("  the rest", *_quantiles(log.without_queue)),
        ]
    )
    yield ""
    yield "line by line"
    yield from _records(log)
    if log.warnings:
        yield ""
        yield from (f"warning: {sentence}" for sentence in log.warnings)


def _mtbf(log: FailureLog) -> str:
    if log.mtbf_interval_s is None:
        return "not known without an exposure"
    low, high = log.mtbf_interval_s
    if math.isinf(high):
        return f"above {duration_text(low)} (95 %, exact Poisson; no failure seen)"
    value = "unknown" if log.mtbf_s is None else duration_text(log.mtbf_s)
    return f"{value}, 95 % from {duration_text(low)} to {duration_text(high)} (exact Poisson)"


def _side(side: Side) -> tuple[str, ...]:
    return (
        str(side.n),
        _length(side.mean_gap_s),
        str(side.n_zero_gaps),
        "-" if side.weibull_shape is None else f"{side.weibull_shape:.3g}",
    )


def _fit(fit: Fit) -> tuple[str, ...]:
    parts = []
    for name, value in fit.parameters.items():
        if name.endswith("_s"):
            parts.append(f"{name.removesuffix('_s')} {duration_text(value)}")
        elif name == "log_mean":
            parts.append(f"median {duration_text(math.exp(min(value, 700.0)))}")
        else:
            parts.append(f"{name.replace('_', ' ')} {value:.4g}")
    mean = "beyond all bounds" if fit.mean_s > 1e6 * HOUR_S else duration_text(fit.mean_s)
    return fit.family, ", ".join(parts), mean, f"{fit.aic:.2f}"


def _quantiles(found: Quantiles) -> tuple[str, ...]:
    times = (found.p10_s, found.p50_s, found.p90_s, found.longest_s)
    return (str(found.n), str(found.n_open), *(_length(time_s) for time_s in times))


def _length(time_s: float | None) -> str:
    return "-" if time_s is None else duration_text(time_s)


def _records(log: FailureLog) -> Iterator[str]:
    shown = 0
    stretch: Record | None = None
    last = 0
    for record in log.records:
        if (
            stretch is not None
            and (record.state, record.why) == (stretch.state, stretch.why)
            and record.line == last + 1
        ):
            last = record.last_line
            continue
        if stretch is not None:
            yield _record(stretch, last)
            shown += 1
        if shown == MOST_RECORDS:
            yield "  ... all of them with --json"
            return
        stretch, last = record, record.last_line
    if stretch is not None:
        yield _record(stretch, last)


def _record(record: Record, last: int) -> str:
    lines = str(record.line) if last == record.line else f"{record.line}-{last}"
    return f"  {lines:>11}  {record.state:<7}  {record.why}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()

"""The command ``checkpoint-tax``: look at a job, judge it, run a chapter for it.

Rooms that take long to import are imported inside the command that needs them, so that
``--help``, ``presets`` and ``check`` answer at once.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from checkpoint_tax.errors import InputError
from checkpoint_tax.publish import commands as book
from checkpoint_tax.publish.chapters import BuildFailed
from checkpoint_tax.publish.notebook import (
    ChapterError,
    declared_parameters,
    parameter_table,
    run_chapter,
)
from checkpoint_tax.resources import presets as preset_names
from checkpoint_tax.scenario import (
    PARAMETERS,
    ParameterFile,
    Scenario,
    read_parameters,
    save_cycle,
)
from checkpoint_tax.units import DIMENSIONLESS, duration_text

if TYPE_CHECKING:
    from checkpoint_tax.failures import FailureLog

NAME = "checkpoint-tax"

app = typer.Typer(
    name=NAME,
    help="What saving state and failing costs a large training job.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.add_typer(book.app, name="book")

_BYTES_WORTH_A_BAR = 4_000_000
_WHOLE = re.compile(r"[+-]?\d{1,400}")
_DECIMAL = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|nan|inf(inity)?)", re.IGNORECASE)

Job = Annotated[
    str, typer.Argument(metavar="FILE_OR_PRESET", help="A YAML file or a preset's name.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="NAME VALUE", help="Set one parameter; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(help="Seed, 0 to 2^64 - 1; the digits follow from it.")]
Threads = Annotated[
    int | None, typer.Option(help="Threads; all if left out. No digit depends on it.")
]
Zone = Annotated[
    str | None, typer.Option(help="Zone of times that name none, as America/Los_Angeles.")
]
Kind = Annotated[str | None, typer.Option(help="Kind of log, if it is not to be recognised.")]
Year = Annotated[int | None, typer.Option(help="Year of the first stamp that has none.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="COLUMN=NAME", help="What a column is; repeatable."),
]
Window = Annotated[
    str, typer.Option(help="Records this long after the first are one interruption.")
]
Since = Annotated[str | None, typer.Option(help="Begin of the time that was watched.")]
Until = Annotated[str | None, typer.Option(help="End of the time that was watched.")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the command's name; the process's own arguments if left out.

    Returns
    -------
    int
        0 for success, 1 for a chapter or a book that failed or a state with findings, 2 for a
        refused input or a wrong usage. A refused input is one line on standard error.
    """
    try:
        app(args=_join_pairs(sys.argv[1:] if arguments is None else arguments), prog_name=NAME)
    except InputError as error:
        return _fail(error, 2)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BuildFailed as error:
        print(f"\nThe book was not built.\n{error}", file=sys.stderr)
        return 1
    except ChapterError as error:
        return _fail(error, 1)
    return 0


def _join_pairs(arguments: Sequence[str]) -> list[str]:
    """Join each ``-p NAME VALUE`` to ``-p NAME=VALUE``, since typer repeats no option of two."""
    joined: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        joined.append(argument)
        if argument == "--":
            break
        if argument in ("-p", "--parameter"):
            pair = next(rest, None)
            if pair is not None and "=" not in pair:
                value = next(rest, None)
                pair = pair if value is None else f"{pair}={value}"
            joined.extend([] if pair is None else [pair])
    return [*joined, *rest]


def _fail(error: Exception, status: int) -> int:
    print(f"{NAME}: {' '.join(str(error).split())}", file=sys.stderr)
    return status


def _show_version(wanted: bool) -> None:
    if wanted:
        from checkpoint_tax import __version__

        print(f"{NAME} {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command("presets")
def list_presets() -> None:
    """List the jobs that ship with the study."""
    for name in preset_names():
        job = read_parameters(name).scenario()
        print(
            f"{name:<16} {job.n_gpus:>6} GPUs, a failure every"
            f" {duration_text(job.job_mtbf_s)}, {job.save_kind} saves"
        )


@app.command()
def check(file_or_preset: Job, parameter: Changes = None, as_json: AsJson = False) -> None:
    """Validate a job and print every parameter with its unit and source."""
    content, job = _job(file_or_preset, parameter)
    derived = {
        "job_mtbf_s": job.job_mtbf_s,
        "restart_s": job.restart_s,
        "drain_steps": job.drain_steps,
        "period_s": save_cycle(job).period_s,
        "first_durable_s": save_cycle(job).first_durable_s,
    }
    if as_json:
        _print_json({"parameters": job.as_dict(), "derived": derived, "sources": content.sources})
        return
    rows = [
        (row["name"], _number(row["value"]), _unit(row["unit"]), row["kind"], row["meaning"])
        for row in parameter_table(job, content.sources).to_dict("records")
    ]
    _print_rows([("parameter", "value", "unit", "known as", "meaning"), *rows])
    print()
    _print_rows(
        [
            ("follows from these", "", ""),
            ("job MTBF", duration_text(job.job_mtbf_s), ""),
            ("restart", duration_text(job.restart_s), "failure to first recomputed step"),
            ("drain", f"{job.drain_steps:.4g} steps", "of progress made under it"),
            ("save period", duration_text(derived["period_s"]), "wall time of one interval"),
            ("first save durable", duration_text(derived["first_durable_s"]), "after a restart"),
        ]
    )


@app.command()
def simulate(
    file_or_preset: Job,
    half_width: Annotated[
        float, typer.Option(help="Half-width of the 95 % interval of goodput [share of wall time].")
    ] = 1e-4,
    seed: Seed = 0,
    threads: Threads = None,
    parameter: Changes = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a job to the precision asked for: goodput and where the rest goes."""
    _, job = _job(file_or_preset, parameter)
    from checkpoint_tax.simulate import Estimate
    from checkpoint_tax.simulate import simulate as run

    result = run(job, half_width=half_width, seed=seed, threads=threads)
    shares: dict[str, Estimate] = {"goodput": result.goodput, **result.losses}
    if as_json:
        _print_json(
            {
                "parameters": job.as_dict(),
                "seed": seed,
                "half_width": half_width,
                "met": result.met,
                "n_failures": int(result.n_failures),
                "shares": {name: _estimate(share) for name, share in shares.items()},
                "restart_parts": {
                    name: _estimate(share) for name, share in result.restart_parts.items()
                },
            }
        )
        return
    rows = [
        (name, f"{100 * share.value:.3f}", f"{100 * share.low:.3f}", f"{100 * share.high:.3f}")
        for name, share in shares.items()
    ]
    _print_rows([("share of wall time", "%", "95 % from", "to"), *rows])
    print(f"\n{int(result.n_failures)} failures, seed {seed}")
    if not result.met:
        print(f"The half-width {half_width:g} was not met before the cap on failures.")


@app.command()
def interval(
    file_or_preset: Job,
    parameter: Changes = None,
    as_json: AsJson = False,
) -> None:
    """Print the best checkpoint interval as a range, beside the classic formulas."""
    _, job = _job(file_or_preset, parameter)
    from checkpoint_tax.plan import best_interval

    best = best_interval(job)
    formulas = _classic_intervals_s(job)
    if as_json:
        _print_json(
            {
                "parameters": job.as_dict(),
                "best": {
                    "steps": int(best.steps),
                    "goodput": _estimate(best.goodput),
                    "practical_steps": [int(k) for k in best.practical_steps],
                    "statistical_steps": [int(k) for k in best.statistical_steps],
                    "practical_points": best.practical_points,
                    "method": best.method,
                    "at_drain_boundary": bool(best.at_drain_boundary),
                },
                "formulas_s": formulas,
            }
        )
        return
    low, high = best.practical_steps
    rows = [
        ("best", str(best.steps), duration_text(best.steps * job.step_s), best.method),
        (
            "as good",
            f"{low} to {high}",
            f"{duration_text(low * job.step_s)} to {duration_text(high * job.step_s)}",
            f"within {best.practical_points:g} points of goodput",
        ),
    ]
    for name, time_s in formulas.items():
        rows.append((name, f"{time_s / job.step_s:.1f}", duration_text(time_s), "formula"))
    _print_rows([("interval", "steps", "time", "from"), *rows])
    print(f"\ngoodput there: {100 * best.goodput.value:.2f} %")
    if best.at_drain_boundary:
        print("The best interval is the drain itself: bandwidth, not failures, sets it.")


@app.command("plan")
def plan_job(
    file_or_preset: Job,
    log: Annotated[
        Path | None, typer.Option(metavar="LOG", help="A log of failures: its MTBF is used.")
    ] = None,
    log_gpus: Annotated[
        int | None, typer.Option(help="GPUs of the jobs in the log; else those of the scenario.")
    ] = None,
    tz: Zone = None,
    kind: Kind = None,
    year: Year = None,
    columns: Columns = None,
    window: Window = "10m",
    since: Since = None,
    until: Until = None,
    seed: Seed = 0,
    threads: Threads = None,
    parameter: Changes = None,
    as_json: AsJson = False,
) -> None:
    """Plan a job's saves: the interval, what it gives, how sure that is, what would help.

    With a log, --tz to --until say how to read it, as for the command failures.
    """
    content, job = _job(file_or_preset, parameter)
    from checkpoint_tax.plan import plan
    from checkpoint_tax.plan.description import describe

    options = {"tz": tz, "kind": kind, "year": year, "since": since, "until": until}
    if log is None:
        for name, value in {**options, "map": columns}.items():
            if value is not None:
                raise InputError(f"--{name} is of use only with a log of failures (--log).")
    given = {*content.values, *_changes(parameter, {})}
    found = plan(
        job,
        log=None if log is None else _read_log(log, columns, window, **options),
        log_gpus=log_gpus,
        mtbf_is_given=bool(given & {"gpu_mtbf_h", "job_mtbf_h"}),
        seed=seed,
        threads=threads,
    )
    if as_json:
        _print_json(found.as_dict())
        return
    for line in describe(found):
        print(line)


@app.command("inspect")
def inspect_state(
    path: Annotated[
        Path, typer.Argument(help="A torch.save or safetensors file, or a distributed checkpoint.")
    ],
    against: Annotated[
        Path | None, typer.Option(help="Another checkpoint of the same training.")
    ] = None,
    step: Annotated[
        int | None, typer.Option(help="The step it should be at; else read from its name.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at a saved training state for version skew; status 1 if there are findings.

    No code of the file is run. A clean answer is no proof: not every skew leaves a trace.
    """
    from checkpoint_tax.reconcile.inspect import inspect_checkpoint

    seen = inspect_checkpoint(path, against=against, step=step)
    if as_json:
        _print_json(seen.as_dict())
    else:
        counters = ", ".join(f"{count:g}" for count in seen.counters[:5]) or "none"
        if len(seen.counters) > 5:
            counters += f" and {len(seen.counters) - 5} more"
        _print_rows(
            [
                ("format", seen.format),
                ("parameters with state", f"{seen.n_parameters}"),
                ("elements of moments", f"{seen.n_moment_elements}"),
                ("step counters at", counters),
                ("step expected", seen.step_source),
            ]
        )
        for finding in seen.findings:
            print(f"\nFINDING {finding.kind}: {finding.sentence}.")
        print()
        for note in seen.notes:
            print(f"note: {note}.")
        if seen.clean:
            print("Nothing found; not every skew leaves a trace.")
    if not seen.clean:
        raise typer.Exit(1)


@app.command()
def failures(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A log of failures, also in gzip.")],
    tz: Zone = None,
    kind: Kind = None,
    year: Year = None,
    columns: Columns = None,
    window: Window = "10m",
    since: Since = None,
    until: Until = None,
    as_json: AsJson = False,
) -> None:
    """Read a log of failures: which count, the MTBF with its interval, what the gaps tell."""
    from checkpoint_tax.failures.description import describe
    from checkpoint_tax.failures.log import write_json

    result = _read_log(log, columns, window, tz=tz, kind=kind, year=year, since=since, until=until)
    if as_json:
        write_json(result, sys.stdout)
        return
    for line in describe(result):
        print(line)


def _read_log(log: Path, columns: list[str] | None, window: str, **options: Any) -> "FailureLog":
    """Read a log, with a bar on a terminal if it is large."""
    from checkpoint_tax.failures.log import read_failures
    from checkpoint_tax.failures.stamps import duration_s

    window_s = duration_s(window)
    if window_s is None:
        raise InputError(f"window = {window!r} is not a time span; write such as 10m or 600.")
    mapping: dict[str, str] = {}
    for pair in columns or ():
        column, separator, role = pair.rpartition("=")
        if not separator or not column or not role:
            raise InputError(f"--map {pair} must have the form COLUMN=NAME.")
        if column in mapping:
            raise InputError(f"--map {column} is given twice; keep one of the two.")
        mapping[column] = role
    size_bytes = log.stat().st_size if log.is_file() else 0
    shows = sys.stderr.isatty() and size_bytes > _BYTES_WORTH_A_BAR
    with typer.progressbar(
        length=size_bytes, label=f"reading {log.name}", file=sys.stderr, hidden=not shows
    ) as bar:
        return read_failures(
            log, mapping=mapping, window_s=window_s, progress=bar.update if shows else None,
            **options,
        )  # fmt: skip


@app.command("run")
def run_notebook(
    notebook: Annotated[Path, typer.Argument(help="A chapter, such as book/NAME.ipynb.")],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Where the executed one goes.")],
    parameter: Changes = None,
    file: Annotated[
        str | None, typer.Option("-f", "--file", help="A YAML file or a preset's name.")
    ] = None,
) -> None:
    """Execute one chapter with other numbers, every one of them checked first."""
    own_types = declared_parameters(notebook).own_types
    content = None if file is None else read_parameters(file, own_types)
    changes = _changes(parameter, own_types)
    values = {**(content.values if content else {}), **changes}
    if content and content.sources:
        # A number set here no longer has the source that the file gives for its own.
        values["sources"] = {n: s for n, s in content.sources.items() if n not in changes}
    run_chapter(notebook, output, values, progress=sys.stderr.isatty())
    print(output)


def _job(file_or_preset: str, parameter: list[str] | None) -> tuple[ParameterFile, Scenario]:
    content = read_parameters(file_or_preset)
    changes = _changes(parameter, {})
    job = content.scenario().replace(**changes)
    kept = {name: source for name, source in content.sources.items() if name not in changes}
    return ParameterFile(content.name, content.values, kept), job


def _changes(parameter: list[str] | None, own_types: Mapping[str, str]) -> dict[str, object]:
    changes: dict[str, object] = {}
    for pair in parameter or ():
        name, separator, text = pair.partition("=")
        if not separator:
            raise InputError(f"-p {name} lacks its value: write -p NAME VALUE.")
        if name in changes:
            raise InputError(f"-p {name} is given twice; keep one of the two.")
        changes[name] = _read(name, text, own_types)
    return changes


def _read(name: str, text: str, own_types: Mapping[str, str]) -> object:
    """Read a value by the type its parameter declares, so that a text is never guessed at."""
    kind = PARAMETERS[name].type if name in PARAMETERS else own_types.get(name, "text")
    if kind == "bool" and text in ("True", "true", "False", "false"):
        return text in ("True", "true")
    if kind in ("int", "float"):
        if _WHOLE.fullmatch(text):
            return int(text)
        if _DECIMAL.fullmatch(text):
            return float(text)
    return text


def _classic_intervals_s(job: Scenario) -> dict[str, float]:
    """Intervals [s] by published formulas, with the wall time that one save costs as C."""
    from checkpoint_tax.theory import daly, renewal, young

    cost_s = job.blocking_cost_s
    if job.save_kind == "asynchronous":
        cost_s += job.drain_tax * job.drain_s
    if cost_s == 0.0:
        return {}
    return {
        "Young 1974": float(young.interval_s(cost_s, job.job_mtbf_s)),
        "Daly 2006, first order": float(daly.first_order_interval_s(cost_s, job.job_mtbf_s)),
        "Daly 2006, higher order": float(daly.higher_order_interval_s(cost_s, job.job_mtbf_s)),
        "exact (Lambert W)": float(renewal.best_work_s(cost_s, job.job_mtbf_s)),
    }


def _estimate(estimate: Any) -> dict[str, float]:
    return {
        "value": float(estimate.value),
        "low": float(estimate.low),
        "high": float(estimate.high),
    }


def _number(value: object) -> str:
    if isinstance(value, Mapping):
        # A world's sections by name: its settings would widen every row.
        return "+".join(value) or "none"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _unit(unit: str) -> str:
    return "" if unit in (DIMENSIONLESS, "word") else unit


def _print_json(content: Mapping[str, object]) -> None:
    print(json.dumps(content, indent=2, allow_nan=False, default=dict))


def _print_rows(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())

"""The cells of the first post's tables 1 and 2, by simulation, to a precision that is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from checkpoint_tax.ledger.tables import post_table
from checkpoint_tax.scenario import Scenario
from checkpoint_tax.simulate import Estimate, IntervalSweep, simulate, sweep_intervals
from checkpoint_tax.studies.post_runs import post_scenario
from checkpoint_tax.units import PER_CENT

__all__ = [
    "CELL_COLUMNS",
    "POST_GRID_STEPS",
    "best_on_grid",
    "grid_neighbours",
    "printed_rows",
    "simulate_cells",
    "table_1_jobs",
    "table_2_jobs",
]

POST_GRID_STEPS = (10, 20, 30, 40, 60, 80, 120, 200, 300, 500, 800, 1200, 2000, 3000)
"""Intervals that the post's sweep is assumed to have tried [steps]: those its tables print from
10 on, with 80, 800 and 3000 where the printed ones leave a gap or the end open."""

CELL_COLUMNS = (
    "claim_id",
    "table",
    "n_gpus",
    "interval_steps",
    "share",
    "value",
    "low",
    "high",
    "n_failures",
    "met",
)

_PILOT_HALF_WIDTH = 4e-3
_FINER = 4.0
_TABLE_SHARES: Mapping[str, str] = {"rework": "rework", "restart": "restart", "tax": "save"}


def printed_rows(number: int) -> dict[int, dict[str, Any]]:
    """Rows of a printed table by their first column.

    Parameters
    ----------
    number : int
        1 (by number of GPUs) or 2 (by interval in steps).

    Returns
    -------
    dict of int to dict
        Column name to what is printed; shares in percent.
    """
    rows = post_table(number).to_dict("records")
    return {int(next(iter(row.values()))): {str(k): v for k, v in row.items()} for row in rows}


def table_1_jobs(kind: str) -> dict[int, Scenario]:
    """The jobs of one half of table 1, at the interval that the post prints for each.

    Parameters
    ----------
    kind : {"blocking", "asynchronous"}

    Returns
    -------
    dict of int to Scenario
        By number of GPUs. Where the post prints "<10" its figures are those of 10 steps.
    """
    column = "blocking_best_steps" if kind == "blocking" else "async_best_steps"
    return {
        n_gpus: post_scenario(n_gpus=n_gpus, save_kind=kind, checkpoint_interval_steps=row[column])
        for n_gpus, row in printed_rows(1).items()
    }


def table_2_jobs() -> dict[int, Scenario]:
    """The jobs of table 2.

    Returns
    -------
    dict of int to Scenario
        By interval [steps].
    """
    return {steps: post_scenario(checkpoint_interval_steps=steps) for steps in printed_rows(2)}


def grid_neighbours(steps: float, grid: Sequence[int] = POST_GRID_STEPS) -> tuple[int, ...]:
    """Grid intervals next to an interval, which a search on the grid cannot tell apart from it.

    Parameters
    ----------
    steps : float
        Any interval [steps].
    grid : sequence of int
        Ascending [steps].

    Returns
    -------
    tuple of int
        The two grid intervals around it; one where it lies on the grid or beyond an end.
    """
    if steps in grid:
        return (int(steps),)
    below = [k for k in grid if k < steps][-1:]
    above = [k for k in grid if k > steps][:1]
    return tuple(below + above)


def best_on_grid(
    job: Scenario,
    grid: Sequence[int] = POST_GRID_STEPS,
    *,
    half_width: float = 1e-4,
    seed: int = 0,
    threads: int | None = None,
) -> tuple[int, Estimate]:
    """Best interval of a grid, by simulation with common random numbers.

    Parameters
    ----------
    job : Scenario
        Its own interval is not used.
    grid : sequence of int
        Intervals to choose from [steps].
    half_width : float
        Where the search stops if two intervals are still alike [share of wall time].
    seed : int
        As for `checkpoint_tax.simulate.simulate`.
    threads : int, optional
        Threads to use; no digit depends on it.

    Returns
    -------
    steps : int
        The best interval [steps]; the longest among equals.
    lead : Estimate
        Goodput lead over the second best, from paired differences [1]. If its interval reaches
        0 the two cannot be told apart at this precision.

    Notes
    -----
    Intervals that lose for certain are dropped as precision grows, so that effort goes to those
    that compete. Dropping is at 5 % over all intervals together (Bonferroni).
    """
    tried = list(grid)
    precision = max(_PILOT_HALF_WIDTH, half_width)
    while True:
        sweep = sweep_intervals(job, tried, half_width=precision, seed=seed, threads=threads)
        best = sweep.best()
        alike = _alike(sweep, len(grid))
        done = len(alike) == 1 or precision <= half_width
        if done:
            others = [sweep.shortfall(i) for i in range(len(tried)) if i != best]
            lead = min(others, key=lambda e: e.value) if others else Estimate(1.0, 1.0, 1.0)
            return tried[best], lead
        tried = alike
        precision = max(precision / _FINER, half_width)


def _alike(sweep: IntervalSweep, n_tried: int) -> list[int]:
    tail = 0.025 / max(n_tried - 1, 1)
    return [k for i, k in enumerate(sweep.steps) if sweep.shortfall(i, tail).low <= 0.0]


def simulate_cells(
    half_width: float = 1e-4, threads: int | None = None, *, seed: int = 0
) -> pd.DataFrame:
    """Every cell of tables 1 and 2 that the post simulated, simulated here.

    Parameters
    ----------
    half_width : float
        Largest half-width of the 95 % interval of any share [share of wall time]; 1e-4 is 0.01
        points.
    threads : int, optional
        Threads to use; no digit depends on it.
    seed : int
        As for `checkpoint_tax.simulate.simulate`.

    Returns
    -------
    pandas.DataFrame
        One row a cell, columns `CELL_COLUMNS`. A share is in percent, at the interval that the
        post prints. A cell that holds a best interval has ``share = "best interval"`` and the
        best one of `POST_GRID_STEPS` in steps as `value`, with no interval; where the post prints
        "<10" the best among 1 to 9 and the grid. ``met`` says whether the precision was reached.
    """
    rows: list[dict[str, object]] = []
    below = tuple(range(1, POST_GRID_STEPS[0]))
    printed = printed_rows(1)
    for kind, mark in (("blocking", "blk"), ("asynchronous", "asy")):
        for n_gpus, job in table_1_jobs(kind).items():
            row = f"tax.t1.n{n_gpus}"
            grid: tuple[int, ...] = POST_GRID_STEPS
            if kind == "asynchronous" and printed[n_gpus]["async_best_relation"] == "<":
                grid = below + grid
            best, _ = best_on_grid(job, grid, half_width=half_width, seed=seed, threads=threads)
            rows.append(
                {
                    "claim_id": f"{row}.{mark}_k",
                    "table": 1,
                    "n_gpus": n_gpus,
                    "interval_steps": best,
                    "share": "best interval",
                    "value": float(best),
                    "met": True,
                }
            )
            names = {f"{mark}_gp": "goodput"}
            if kind == "asynchronous":
                names |= _TABLE_SHARES
            rows += _cells(job, row, 1, names, half_width, seed, threads)
    for steps, job in table_2_jobs().items():
        names = {"goodput": "goodput", "rework": "rework", "tax": "save"}
        rows += _cells(job, f"tax.t2.k{steps}", 2, names, half_width, seed, threads)
    return pd.DataFrame(rows, columns=list(CELL_COLUMNS))


def _cells(
    job: Scenario,
    row: str,
    table: int,
    names: Mapping[str, str],
    half_width: float,
    seed: int,
    threads: int | None,
) -> list[dict[str, object]]:
    """The shares of one row; simulated again with more failures if one of them is too wide."""
    asked = half_width
    while True:
        result = simulate(job, half_width=asked, seed=seed, threads=threads)
        found = {"goodput": result.goodput, **result.losses}
        widest = max(found[name].half_width for name in names.values())
        if widest <= half_width or not result.met:
            break
        asked *= min(0.9, 0.95 * half_width / widest)
    return [
        {
            "claim_id": f"{row}.{column}",
            "table": table,
            "n_gpus": job.n_gpus,
            "interval_steps": job.checkpoint_interval_steps,
            "share": name,
            "value": found[name].value / PER_CENT,
            "low": found[name].low / PER_CENT,
            "high": found[name].high / PER_CENT,
            "n_failures": result.n_failures,
            "met": widest <= half_width,
        }
        for column, name in names.items()
    ]

"""What the first post's unstated simulation runs can and cannot say.

The post prints one number a cell, from runs of a length it does not give, with no interval. Two
things can be recovered from its own figures. The printed restart share fixes how many failures a
run drew per hour of up-time; and how far those rates scatter around the stated one fixes how long
the runs were. From the length follows how widely a printed digit scatters.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from checkpoint_tax.ledger import Computed
from checkpoint_tax.ledger.tables import post_table
from checkpoint_tax.plan import exact_goodput
from checkpoint_tax.scenario import Scenario, load_scenario
from checkpoint_tax.simulate import simulate_runs
from checkpoint_tax.units import PER_CENT

__all__ = [
    "RunLength",
    "drawn_mtbf_s",
    "infer_run_length",
    "one_run",
    "one_run_best_interval",
    "one_run_gap",
    "one_run_given_restart",
    "post_scenario",
    "run_length",
]

N_RUNS = 4000
"""Runs simulated for a range: its ends are known to about 0.1 of a standard deviation."""

SEED = 20_260

HOPELESS = 0.1
"""Goodput below the best [1] that no run here makes up: over ten standard deviations."""
RANGE = (0.025, 0.975)


@functools.cache
def _post_job() -> Scenario:
    return load_scenario("post-16k")


def post_scenario(**changes: object) -> Scenario:
    """Return the first post's job in its own drain mode, with changes.

    Parameters
    ----------
    **changes : object
        Scenario parameters to replace.

    Returns
    -------
    Scenario
        Preset ``post-16k`` with ``drain_mode="compressed"``, the mode its printed rows imply.
    """
    return _post_job().replace(**{"drain_mode": "compressed", **changes})


def drawn_mtbf_s(restart_share: float, restart_s: float) -> float:
    """Up-time per failure that a run drew, from the restart share it printed.

    Parameters
    ----------
    restart_share : float
        Share of wall time spent restarting [1], strictly between 0 and 1.
    restart_s : float
        R, time one restart takes [s].

    Returns
    -------
    float
        Up-time per failure [s]. Of wall time 1 per failure, R is restart and the rest up-time.
    """
    return restart_s * (1.0 / restart_share - 1.0)


@dataclass(frozen=True)
class RunLength:
    """Length of the post's runs, inferred from how its failure counts scatter.

    Attributes
    ----------
    steps : int
        Moment estimate [steps].
    low_steps, high_steps : int
        95 % interval [steps].
    n_gpus : tuple of int
        Rows used [GPUs].
    drawn_excess : tuple of float
        Failures drawn relative to expected, less 1, by row [1].
    expected_failures : tuple of float
        Failures that a run of `steps` expects, by row [1].
    """

    steps: int
    low_steps: int
    high_steps: int
    n_gpus: tuple[int, ...]
    drawn_excess: tuple[float, ...]
    expected_failures: tuple[float, ...]


@functools.cache
def run_length() -> RunLength:
    """Infer the length of the runs behind table 1.

    Returns
    -------
    RunLength
    """
    table = post_table(1)
    return infer_run_length(
        dict(zip(table["n_gpus"].tolist(), table["async_restart_percent"].tolist(), strict=True))
    )


def infer_run_length(restart_percent: Mapping[int, float]) -> RunLength:
    """Infer how long runs were from how their restart shares scatter.

    Parameters
    ----------
    restart_percent : mapping of int to float
        Printed restart share [%] of one run by number of GPUs.

    Returns
    -------
    RunLength

    Notes
    -----
    A run of W steps expects n = W c failures, with c the failures per step of its row, and draws
    n (1 + e) where e has variance 1/n. Hence W sum(c e^2) is chi-squared with one degree of
    freedom a row, if all rows ran equally many steps on streams of their own. The rounding of the
    printed shares is below the scatter in each row and is left out.
    """
    sizes, excess, per_step = [], [], []
    for n_gpus, percent in restart_percent.items():
        job = post_scenario(n_gpus=n_gpus, checkpoint_interval_steps=10)
        drawn = drawn_mtbf_s(percent * PER_CENT, job.restart_s)
        sizes.append(n_gpus)
        excess.append(job.job_mtbf_s / drawn - 1.0)
        wall_per_step = job.step_s / exact_goodput(job)
        per_step.append(wall_per_step / (job.job_mtbf_s + job.restart_s))
    scatter = float(np.dot(per_step, np.square(excess)))
    low, high = stats.chi2(len(sizes)).ppf(RANGE) / scatter
    steps = round(len(sizes) / scatter)
    return RunLength(
        steps=steps,
        low_steps=round(low),
        high_steps=round(high),
        n_gpus=tuple(sizes),
        drawn_excess=tuple(excess),
        expected_failures=tuple(steps * c for c in per_step),
    )


@functools.cache
def _shares(job: Scenario) -> dict[str, npt.NDArray[np.float64]]:
    runs = simulate_runs(job.replace(run_steps=run_length().steps), n_runs=N_RUNS, seed=SEED)
    return dict(runs.fractions)


def one_run(job: Scenario, share: str, exact_percent: float) -> Computed:
    """Range within which one run of the post's length would print a share.

    Parameters
    ----------
    job : Scenario
        The job of the cell.
    share : str
        ``goodput``, ``save``, ``rework`` or ``restart``.
    exact_percent : float
        Exact long-run share [%].

    Returns
    -------
    Computed
        The exact share with the range that holds 95 % of single runs [%].
    """
    return _one_run(_shares(job)[share], exact_percent)


def _one_run(sample: npt.NDArray[np.float64], exact_percent: float) -> Computed:
    low, high = np.quantile(sample, RANGE) / PER_CENT
    length = run_length()
    return Computed(
        value=exact_percent,
        low=float(min(low, exact_percent)),
        high=float(max(high, exact_percent)),
        note=f"range of one run of {length.steps:,} steps, the length inferred from table 1",
    )


def one_run_gap(job: Scenario, other: Scenario, exact_points: float) -> Computed:
    """Range within which one pair of runs would print the goodput of `job` less that of `other`.

    Parameters
    ----------
    job, other : Scenario
        Jobs whose runs meet the same failures.
    exact_points : float
        Exact long-run difference [percentage points].

    Returns
    -------
    Computed
        The exact difference with the range that holds 95 % of single pairs [percentage points].
    """
    return _one_run(_shares(job)["goodput"] - _shares(other)["goodput"], exact_points)


def one_run_given_restart(job: Scenario, share: str) -> float:
    """Scatter of a share that is left once a run's restart share is known.

    Parameters
    ----------
    job : Scenario
        The job of the cell.
    share : str
        ``goodput``, ``save`` or ``rework``.

    Returns
    -------
    float
        Half the width of the range that holds 95 % of single runs [percentage points], after a
        straight line in the restart share is taken out: how many failures a run drew explains most
        of its scatter, where in their intervals they fell explains this rest.
    """
    runs = _shares(job)
    slope, intercept = np.polyfit(runs["restart"], runs[share], 1)
    low, high = np.quantile(runs[share] - slope * runs["restart"] - intercept, RANGE) / PER_CENT
    return float(high - low) / 2.0


def one_run_best_interval(job: Scenario, grid_steps: tuple[int, ...]) -> tuple[int, int, int]:
    """Interval that one run of the post's length would have found best on a grid.

    Parameters
    ----------
    job : Scenario
        The job of the row.
    grid_steps : tuple of int
        Intervals tried [steps].

    Returns
    -------
    tuple of int
        Lower end, median and upper end of the range that holds 95 % of single runs [steps]. Every
        interval of a run meets the same failures, as a simulation with one seed would have it.
    """
    exact = {k: exact_goodput(job.replace(checkpoint_interval_steps=k)) for k in grid_steps}
    # Runs of intervals this far from the best take long and cannot win.
    grid_steps = tuple(k for k in grid_steps if exact[k] > max(exact.values()) - HOPELESS)
    table = np.array(
        [_shares(job.replace(checkpoint_interval_steps=k))["goodput"] for k in grid_steps]
    )
    best = np.sort(np.array(grid_steps)[np.argmax(table, axis=0)])
    low, middle, high = np.quantile(best, (RANGE[0], 0.5, RANGE[1]), method="inverted_cdf")
    return int(low), int(middle), int(high)

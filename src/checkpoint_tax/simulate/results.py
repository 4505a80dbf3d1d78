"""What a simulation returns: estimates with their intervals, never bare numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario import Scenario

__all__ = ["Estimate", "IntervalSweep", "Runs", "Simulation"]

TAIL = 0.025
"""Probability left outside on each side of an interval."""


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % confidence interval.

    Attributes
    ----------
    value : float
        Point estimate, in the unit of the quantity it estimates.
    low, high : float
        Ends of the interval, same unit. Equal to `value` for a quantity that is known exactly.
    """

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the length of the interval, in the unit of the value."""
        return 0.5 * (self.high - self.low)

    def covers(self, truth: float) -> bool:
        """Say whether a value lies inside the interval, ends included.

        Parameters
        ----------
        truth : float
            In the unit of the estimate.

        Returns
        -------
        bool
        """
        return self.low <= truth <= self.high

    def __format__(self, spec: str) -> str:
        """Format value and interval alike, ``0.9108 (0.9107, 0.9109)``."""
        low, value, high = (format(x, spec) for x in (self.low, self.value, self.high))
        return f"{value} ({low}, {high})"


def interval(series: npt.NDArray[np.float64], degrees: int, tail: float = TAIL) -> Estimate:
    """Student interval of the mean of independent values.

    Parameters
    ----------
    series : ndarray of float, shape (n,)
        Independent, identically distributed values, any unit.
    degrees : int
        Degrees of freedom: ``n`` less the parameters fitted to the series [1].
    tail : float
        Probability left outside on each side [1].

    Returns
    -------
    Estimate
        In the unit of the series.
    """
    n = series.size
    value = math.fsum(series) / n
    deviations = series - value
    variance = math.fsum(deviations * deviations) / degrees
    half = -float(special.stdtrit(degrees, tail)) * math.sqrt(variance / n)
    return Estimate(value, value - half, value + half)


@dataclass(frozen=True)
class IntervalSweep:
    """Goodput at several checkpoint intervals, all under the same random numbers.

    Attributes
    ----------
    steps : tuple of int, length n
        Checkpoint intervals [steps].
    series : ndarray of float, shape (n, n_batches)
        One goodput a batch and interval [1]; a column belongs to one batch of gaps.
    met : bool
        Whether the half-width asked for was reached before the cap on failures.
    """

    steps: tuple[int, ...]
    series: npt.NDArray[np.float64]
    met: bool

    def goodput(self) -> list[Estimate]:
        """Goodput at each interval.

        Returns
        -------
        list of Estimate
            Shares of wall time with their 95 % intervals [1], in the order of `steps`.
        """
        return [interval(row, row.size - 2) for row in self.series]

    def best(self) -> int:
        """Position of the highest estimate.

        Returns
        -------
        int
            Index into `steps`; the last one among equals.
        """
        values = np.array([math.fsum(row) for row in self.series])
        return int(np.flatnonzero(values == values.max())[-1])

    def shortfall(self, position: int, tail: float = TAIL) -> Estimate:
        """How much worse than the best an interval is, from paired differences.

        Parameters
        ----------
        position : int
            Index into `steps`.
        tail : float
            Probability left outside on each side [1].

        Returns
        -------
        Estimate
            Goodput of the best less goodput at `position` [1].
        """
        gap = self.series[self.best()] - self.series[position]
        return interval(gap, gap.size - 2, tail)


@dataclass(frozen=True)
class Simulation:
    """Long-run shares of wall time for one scenario.

    Attributes
    ----------
    scenario : Scenario
        What was simulated.
    goodput : Estimate
        Share of wall time spent on steps that were never lost [1].
    losses : mapping of str to Estimate
        Shares of wall time [1]: ``save``, ``rework``, ``restart``, ``straggler``, ``idle``. With
        goodput they sum to 1.
    restart_parts : mapping of str to Estimate
        The restart share by named part [1].
    n_failures : int
        Failures simulated [1].
    met : bool
        Whether the half-width asked for was reached before the cap on failures.
    """

    scenario: Scenario
    goodput: Estimate
    losses: Mapping[str, Estimate]
    restart_parts: Mapping[str, Estimate]
    n_failures: int
    met: bool


@dataclass(frozen=True)
class Runs:
    """Independent whole runs of ``scenario.run_steps`` steps each.

    Attributes
    ----------
    scenario : Scenario
        What was simulated.
    finish_s : ndarray of float, shape (n_runs,)
        Wall time of each run [s].
    fractions : mapping of str to ndarray of float, shape (n_runs,)
        Share of each run's wall time [1]: ``goodput``, ``save``, ``rework``, ``restart``,
        ``straggler``, ``idle``. For every run ``math.fsum`` of the six is exactly 1.
    n_failures : ndarray of int, shape (n_runs,)
        Failures in each run [1].
    """

    scenario: Scenario
    finish_s: npt.NDArray[np.float64]
    fractions: Mapping[str, npt.NDArray[np.float64]]
    n_failures: npt.NDArray[np.int64]

    def quantile(self, probability: float) -> Estimate:
        """Quantile of the finish time with a distribution-free 95 % interval.

        Parameters
        ----------
        probability : float
            Which quantile, strictly between 0 and 1 [1].

        Returns
        -------
        Estimate
            Finish time [s]; the ends are order statistics chosen from the binomial distribution
            of the number of runs below the quantile (infinite where too few runs were played).

        Raises
        ------
        InputError
            If `probability` is not strictly between 0 and 1.
        """
        return sample_quantile(self.finish_s, probability)

    def mean(self) -> Estimate:
        """Mean finish time.

        Returns
        -------
        Estimate
            With its 95 % Student interval [s].
        """
        return interval(self.finish_s, self.finish_s.size - 1)


def sample_quantile(sample: npt.NDArray[np.float64], probability: float) -> Estimate:
    """Quantile of an independent sample with its distribution-free 95 % interval.

    Parameters
    ----------
    sample : ndarray of float, shape (n,)
        Independent values, any unit.
    probability : float
        Which quantile, strictly between 0 and 1 [1].

    Returns
    -------
    Estimate
        In the unit of the sample.

    Raises
    ------
    InputError
        If `probability` is not strictly between 0 and 1.
    """
    if not 0.0 < probability < 1.0:
        raise InputError(f"probability = {probability} [1]; allowed: strictly between 0 and 1.")
    ordered = np.sort(sample)
    n = ordered.size
    below = stats.binom(n, probability)
    # P(low-th order statistic > quantile) = P(B <= low - 1) <= TAIL, and likewise above.
    low = int(below.ppf(TAIL))
    while low > 0 and below.cdf(low - 1) > TAIL:
        low -= 1
    high = int(below.ppf(1.0 - TAIL)) + 1
    while high <= n and below.sf(high - 1) > TAIL:
        high += 1
    return Estimate(
        float(np.quantile(ordered, probability)),
        float(ordered[low - 1]) if low >= 1 else -np.inf,
        float(ordered[high - 1]) if high <= n else np.inf,
    )

"""Monte Carlo simulation of failures: compiled kernels behind a checking facade.

This room never imports the closed forms: that the two agree is the evidence for both.
"""

from checkpoint_tax.simulate.engine import (
    goodput_difference,
    lost_work_s,
    simulate,
    simulate_runs,
    sweep_intervals,
)
from checkpoint_tax.simulate.results import Estimate, IntervalSweep, Runs, Simulation

__all__ = [
    "Estimate",
    "IntervalSweep",
    "Runs",
    "Simulation",
    "goodput_difference",
    "lost_work_s",
    "simulate",
    "simulate_runs",
    "sweep_intervals",
]

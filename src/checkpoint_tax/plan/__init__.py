"""Decisions: where theory and simulator meet, each used where it applies."""

from checkpoint_tax.plan.interval import BestInterval, best_interval, exact_goodput
from checkpoint_tax.plan.window import WindowPlan, best_window_plan, window_plan

__all__ = [
    "BestInterval",
    "WindowPlan",
    "best_interval",
    "best_window_plan",
    "exact_goodput",
    "window_plan",
]

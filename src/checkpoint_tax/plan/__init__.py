"""Decisions: where theory, simulator and logs meet, each used where it applies."""

from checkpoint_tax.plan.advice import Finish, Plan, plan
from checkpoint_tax.plan.interval import BestInterval, best_interval, exact_goodput
from checkpoint_tax.plan.levers import Lever
from checkpoint_tax.plan.window import WindowPlan, best_window_plan, window_plan

__all__ = [
    "BestInterval",
    "Finish",
    "Lever",
    "Plan",
    "WindowPlan",
    "best_interval",
    "best_window_plan",
    "exact_goodput",
    "plan",
    "window_plan",
]

"""Decisions: where theory and simulator meet, each used where it applies."""

from checkpoint_tax.plan.interval import BestInterval, best_interval, exact_goodput

__all__ = ["BestInterval", "best_interval", "exact_goodput"]

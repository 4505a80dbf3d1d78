"""Decisions: where theory and simulator meet, each used where it applies."""

from .interval import BestInterval, best_interval

__all__ = ["BestInterval", "best_interval"]

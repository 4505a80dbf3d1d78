"""Optimizers as pure functions on immutable states: one published method per module."""

from checkpoint_tax.reconcile.optimizers.adam import Adam
from checkpoint_tax.reconcile.optimizers.adamw_post import AdamWPost
from checkpoint_tax.reconcile.optimizers.adamw_torch import AdamWTorch
from checkpoint_tax.reconcile.optimizers.lion import Lion
from checkpoint_tax.reconcile.optimizers.optimizer import Optimizer, state_arrays
from checkpoint_tax.reconcile.optimizers.sgd import SGD
from checkpoint_tax.reconcile.optimizers.states import AdamState, MomentumState, State

__all__ = [
    "SGD",
    "Adam",
    "AdamState",
    "AdamWPost",
    "AdamWTorch",
    "Lion",
    "MomentumState",
    "Optimizer",
    "State",
    "state_arrays",
]

"""Immutable optimizer states of one shard."""

from typing import NamedTuple, TypeAlias

from checkpoint_tax.reconcile.updates import Array


class AdamState(NamedTuple):
    """State of Adam's forms: weights, first moment, second moment and step count."""

    p: Array
    m: Array
    v: Array
    t: int


class MomentumState(NamedTuple):
    """State of SGD and Lion: weights, momentum buffer and step count."""

    p: Array
    m: Array
    t: int


State: TypeAlias = AdamState | MomentumState

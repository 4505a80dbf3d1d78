"""AdamW in the order of operations of PyTorch's CPU code without fused multiply-add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from checkpoint_tax.reconcile.optimizers.adam_algebra import (
    AdamForm,
    library_moments,
    library_moments_back,
    library_quotient,
    library_quotient_set,
)
from checkpoint_tax.reconcile.optimizers.balls import Ball, Rounding
from checkpoint_tax.reconcile.optimizers.optimizer import Balls, cast, in_type, no_decay_of_one
from checkpoint_tax.reconcile.optimizers.states import AdamState
from checkpoint_tax.reconcile.updates import Array, Update


@dataclass(frozen=True)
class AdamWTorch(AdamForm):
    """AdamW as the library orders it: decay first, first moment by interpolation, two roots.

    The sets of `earlier` also hold for the library's fused operations and for its vector square
    root, which only round less or by one unit in the last place.

    Attributes
    ----------
    name : str
        Name for people.
    """

    name: ClassVar[str] = "AdamW, torch's form"

    def step(self, state: AdamState, update: Update, gradient: Array) -> AdamState:
        """The library's forward step.

        Parameters
        ----------
        state : AdamState
            State before the step.
        update : Update
            The step's numbers.
        gradient : ndarray
            Effective gradient.

        Returns
        -------
        AdamState
            State after the step.
        """
        kept = in_type(1 - update.lr * update.decay(state.p), state.p.dtype)
        m, v = library_moments(state, update, gradient)
        return AdamState(state.p * kept + library_quotient(m, v, update), m, v, update.step)

    def back(self, state: AdamState, update: Update, gradient: Array) -> AdamState:
        """Inverse that removes each rounding of the step as far as one value can.

        Parameters
        ----------
        state : AdamState
            State after the step.
        update : Update
            The step's numbers.
        gradient : ndarray
            Effective gradient.

        Returns
        -------
        AdamState
            State before the step, up to rounding.
        """
        dtype = state.p.dtype
        kept = cast(1 - update.lr * update.decay(state.p), dtype)
        undone = state.p - library_quotient(state.m, state.v, update)
        p = (undone.astype(np.float64) / kept).astype(dtype)
        m, v = library_moments_back(state, update, gradient)
        return AdamState(p, m, v, state.t - 1)

    def refuse_if_not_one_to_one(self, update: Update) -> None:
        """Refuse decay rates of zero and a weight decay that leaves nothing.

        Parameters
        ----------
        update : Update
            The step's numbers.

        Returns
        -------
        None
            Raises `NoInverse` where the step has no inverse.
        """
        super().refuse_if_not_one_to_one(update)
        no_decay_of_one(update)

    def weights_earlier(self, balls: Balls, update: Update, rounding: Rounding) -> Ball:
        """Every weight that the step can have started from.

        Parameters
        ----------
        balls : dict of str to Ball
            States after the step.
        update : Update
            The step's numbers.
        rounding : Rounding
            Of the state's type.

        Returns
        -------
        Ball
            Weights before the step.
        """
        quotient = library_quotient_set(balls, update, rounding)
        kept = cast(1 - update.lr * update.decay(balls["p"].mid), rounding.dtype)
        return (balls["p"].rounded(rounding) - quotient).rounded(rounding) / Ball.exact(kept)

"""Adam with the decay added to the gradient, in the library's order of operations."""

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
from checkpoint_tax.reconcile.optimizers.optimizer import Balls, cast, in_type
from checkpoint_tax.reconcile.optimizers.states import AdamState
from checkpoint_tax.reconcile.updates import Array, Update


def decayed_gradient(p: Array, update: Update, gradient: Array) -> Array:
    """Gradient with the decay of the weights added, in the state's type.

    Parameters
    ----------
    p : ndarray
        Weights before the step.
    update : Update
        The step's numbers.
    gradient : ndarray
        Effective gradient.

    Returns
    -------
    ndarray
        ``gradient + weight_decay p``.
    """
    decay = update.decay(p)
    if not np.any(decay):
        return gradient
    return gradient + in_type(decay, p.dtype) * p


def decayed_gradient_set(weights: Ball, update: Update, gradient: Array) -> Ball:
    """The set of gradients with the decay added that the step can have used.

    Parameters
    ----------
    weights : Ball
        Weights before the step.
    update : Update
        The step's numbers.
    gradient : ndarray
        Effective gradient, in the state's type.

    Returns
    -------
    Ball
        ``gradient + weight_decay p``.
    """
    decay = cast(update.decay(gradient), gradient.dtype)
    if not np.any(decay):
        return Ball.exact(gradient)
    rounding = Rounding.of(gradient.dtype)
    product = (Ball.exact(decay) * weights).rounded(rounding)
    return (Ball.exact(gradient) + product).rounded(rounding)


@dataclass(frozen=True)
class Adam(AdamForm):
    """Adam; its decay couples the weights to the moments, so weights are rolled back first.

    Attributes
    ----------
    name : str
        Name for people.
    """

    name: ClassVar[str] = "Adam"

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
        m, v = library_moments(state, update, decayed_gradient(state.p, update, gradient))
        return AdamState(state.p + library_quotient(m, v, update), m, v, update.step)

    def back(self, state: AdamState, update: Update, gradient: Array) -> AdamState:
        """Inverse: the weights from the later moments, then the moments from the weights.

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
        p = state.p - library_quotient(state.m, state.v, update)
        m, v = library_moments_back(state, update, decayed_gradient(p, update, gradient))
        return AdamState(p, m, v, state.t - 1)

    def used_gradient(self, weights: Ball, update: Update, gradient: Array) -> Ball:
        """Gradient that entered the moments, with the decay.

        Parameters
        ----------
        weights : Ball
            Weights before the step.
        update : Update
            The step's numbers.
        gradient : ndarray
            Effective gradient.

        Returns
        -------
        Ball
            As uncertain as the weights, times the decay.
        """
        return decayed_gradient_set(weights, update, gradient)

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
        return balls["p"].rounded(rounding) - library_quotient_set(balls, update, rounding)

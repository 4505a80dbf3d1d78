"""Lion: the sign of an interpolated momentum, which a shipped gradient makes invertible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from checkpoint_tax.reconcile.optimizers.adam_algebra import weighted_moment_earlier
from checkpoint_tax.reconcile.optimizers.balls import Ball, Float64Array, Rounding
from checkpoint_tax.reconcile.optimizers.momentum_algebra import MomentumForm, at_least_usual
from checkpoint_tax.reconcile.optimizers.optimizer import (
    Balls,
    cast,
    in_type,
    moment_decays,
    no_decay_of_one,
)
from checkpoint_tax.reconcile.optimizers.states import MomentumState
from checkpoint_tax.reconcile.updates import Array, Update


@dataclass(frozen=True)
class Lion(MomentumForm):
    """``p = p (1 - lr wd) - lr sign(b1 m + (1-b1) g)``, then ``m = b2 m + (1-b2) g``.

    The sign is taken of the earlier momentum, which the later one and the gradient give back:
    ``m = (m' - (1-b2) g) / b2``. Only where ``b1 m + (1-b1) g`` is within rounding of zero can
    the recovered sign differ, and then the weight is off by one or two learning rates.

    Attributes
    ----------
    name : str
        Name for people.
    """

    name: ClassVar[str] = "Lion"

    def step(self, state: MomentumState, update: Update, gradient: Array) -> MomentumState:
        """One step of Lion.

        Parameters
        ----------
        state : MomentumState
            State before the step.
        update : Update
            The step's numbers.
        gradient : ndarray
            Effective gradient.

        Returns
        -------
        MomentumState
            State after the step.
        """
        p, m, _ = state
        b1, b2 = update.betas
        kept = in_type(1 - update.lr * update.decay(p), p.dtype)
        direction = np.sign(b1 * m + (1 - b1) * gradient)
        later = b2 * m + (1 - b2) * gradient
        return MomentumState(p * kept - update.lr * direction, later, update.step)

    def refuse_if_not_one_to_one(self, update: Update) -> None:
        """Refuse a decay rate of zero and a weight decay that leaves nothing.

        Parameters
        ----------
        update : Update
            The step's numbers.

        Returns
        -------
        None
            Raises `NoInverse` where the step has no inverse.
        """
        moment_decays(update, {"betas[1]": update.betas[1]})
        no_decay_of_one(update)

    def back(self, state: MomentumState, update: Update, gradient: Array) -> MomentumState:
        """Inverse: the momentum first, then the sign it had.

        Parameters
        ----------
        state : MomentumState
            State after the step.
        update : Update
            The step's numbers.
        gradient : ndarray
            Effective gradient.

        Returns
        -------
        MomentumState
            State before the step, up to rounding.
        """
        dtype = state.p.dtype
        b1, b2 = update.betas
        added = ((1 - b2) * gradient).astype(np.float64)
        m = ((state.m - added) / cast(b2, dtype)).astype(dtype)
        direction = np.sign(b1 * m + (1 - b1) * gradient)
        kept = cast(1 - update.lr * update.decay(state.p), dtype)
        undone = state.p + (update.lr * direction).astype(np.float64)
        return MomentumState((undone / kept).astype(dtype), m, state.t - 1)

    def earlier(self, balls: Balls, update: Update, gradient: Array) -> Balls:
        """Every state that the step can have started from.

        Parameters
        ----------
        balls : dict of str to Ball
            States after the step.
        update : Update
            The step's numbers.
        gradient : ndarray
            Effective gradient, in the state's type.

        Returns
        -------
        dict of str to Ball
            States before the step.
        """
        dtype = gradient.dtype
        rounding = Rounding.of(dtype)
        b1, b2 = update.betas
        used = Ball.exact(gradient)
        none = used.most == 0

        def share(weight: float) -> Ball:
            product = (Ball.exact(cast(weight, dtype)) * used).rounded(rounding)
            return Ball(product.mid, np.where(none, 0.0, product.radius))

        rate = float(np.asarray(cast(b2, dtype)))
        m = weighted_moment_earlier(balls["m"], share(1 - b2), rate, rounding)
        kept_part = (Ball.exact(cast(b1, dtype)) * m).rounded(rounding)
        nothing = (m.mid == 0) & (m.radius == 0)
        kept_part = Ball(kept_part.mid, np.where(nothing, 0.0, kept_part.radius))
        mixed = kept_part + share(1 - b1)
        # The sum's own rounding keeps its sign, so only the rounding of its parts counts.
        moved = Ball.exact(cast(update.lr, dtype)) * mixed.sign()
        kept = cast(1 - update.lr * update.decay(gradient), dtype)
        undone = balls["p"].rounded(rounding) + moved
        return {"p": undone.rounded(rounding) / Ball.exact(kept), "m": m}

    def scales(self, balls: Balls, update: Update, rounding: Rounding) -> dict[str, Float64Array]:
        """Scales of Lion, whose every step has the size of the learning rate.

        Parameters
        ----------
        balls : dict of str to Ball
            The earlier state.
        update : Update
            The step that was taken from it.
        rounding : Rounding
            Of the state's type.

        Returns
        -------
        dict of str to ndarray
            For a weight its own magnitude or one learning rate; for the momentum its own
            magnitude or the root mean square over the shard.
        """
        tiny = rounding.smallest_normal
        return {
            "p": np.maximum(balls["p"].least, max(update.lr, tiny)),
            "m": at_least_usual(balls["m"].least, tiny),
        }

"""SGD with momentum, dampening and Nesterov's look-ahead, in the library's order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from checkpoint_tax.reconcile.errors import NoInverse
from checkpoint_tax.reconcile.optimizers.adam import decayed_gradient, decayed_gradient_set
from checkpoint_tax.reconcile.optimizers.adam_algebra import weighted_moment_earlier
from checkpoint_tax.reconcile.optimizers.balls import Ball, Rounding
from checkpoint_tax.reconcile.optimizers.momentum_algebra import MomentumForm
from checkpoint_tax.reconcile.optimizers.optimizer import Balls, cast
from checkpoint_tax.reconcile.optimizers.states import MomentumState
from checkpoint_tax.reconcile.updates import Array, Update


@dataclass(frozen=True)
class SGD(MomentumForm):
    """``g' = g + wd p``; ``m = mu m + (1 - damp) g'`` (the first step: ``m = g'``); then
    ``p = p - lr m``, or ``p - lr (g' + mu m)`` for Nesterov, or ``p - lr g'`` without momentum.

    Attributes
    ----------
    name : str
        Name for people.
    """

    name: ClassVar[str] = "SGD"

    def step(self, state: MomentumState, update: Update, gradient: Array) -> MomentumState:
        """The library's forward step.

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
            State after the step; the buffer is left alone by a step without momentum.
        """
        used = decayed_gradient(state.p, update, gradient)
        m, direction = state.m, used
        if update.momentum:
            # The library makes the buffer of the first gradient itself, whatever the dampening.
            m = used if update.step == 1 else m * update.momentum + (1 - update.dampening) * used
            direction = used + update.momentum * m if update.nesterov else m
        return MomentumState(state.p - update.lr * direction, m, update.step)

    def refuse_if_not_one_to_one(self, update: Update) -> None:
        """Refuse a step whose decay cancels the weights.

        Parameters
        ----------
        update : Update
            The step's numbers.

        Returns
        -------
        None
            Raises `NoInverse` where the step has no inverse.
        """
        product = np.asarray(update.lr * np.asarray(update.weight_decay))
        if (update.nesterov or not update.momentum) and (product >= 1).any():
            raise NoInverse(
                f"lr * weight_decay = {float(product.max()):g} in step {update.step} leaves"
                " nothing of the weights; allowed: below 1 (pure number)"
            )

    def back(self, state: MomentumState, update: Update, gradient: Array) -> MomentumState:
        """Inverse in double precision: weights, then the gradient they saw, then the buffer.

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
        lr, mu = cast(update.lr, dtype), cast(update.momentum, dtype)
        decay = cast(update.decay(state.p), dtype)
        wide, later = gradient.astype(np.float64), state.m.astype(np.float64)
        if update.momentum and not update.nesterov:
            p = (state.p + (update.lr * state.m).astype(np.float64)).astype(dtype)
        else:
            direction = wide + mu * later if update.nesterov else wide
            p = ((state.p + lr * direction) / (1.0 - lr * decay)).astype(dtype)
        if not update.momentum:
            return MomentumState(p, state.m, state.t - 1)
        used = decayed_gradient(p, update, gradient)
        added = ((1 - update.dampening) * used).astype(np.float64)
        return MomentumState(p, ((later - added) / mu).astype(dtype), state.t - 1)

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
        lr = Ball.exact(cast(update.lr, dtype))
        mu = float(np.asarray(cast(update.momentum, dtype)))
        after = balls["p"].rounded(rounding)
        if update.momentum and not update.nesterov:
            weights = after + (lr * balls["m"]).rounded(rounding)
        else:
            known = Ball.exact(gradient)
            if update.nesterov:
                known = known + (Ball.exact(mu) * balls["m"]).rounded(rounding)
            weights = self._weights_from_gradient(after, known, update, gradient, rounding)
        if not update.momentum:
            return {"p": weights, "m": balls["m"]}
        used = decayed_gradient_set(weights, update, gradient)
        share = Ball.exact(cast(1 - update.dampening, dtype))
        added = (share * used).rounded(rounding)
        added = Ball(added.mid, np.where(used.most == 0, 0.0, added.radius))
        return {"p": weights, "m": weighted_moment_earlier(balls["m"], added, mu, rounding)}

    @staticmethod
    def _weights_from_gradient(
        after: Ball, known: Ball, update: Update, gradient: Array, rounding: Rounding
    ) -> Ball:
        """Solve ``after = p - lr (known + wd p)``, rounded at each operation, for every p."""
        lr = float(np.asarray(cast(update.lr, rounding.dtype)))
        decay = cast(update.decay(after.mid), rounding.dtype)
        kept = 1.0 - lr * decay
        found = (after + Ball.exact(lr) * known) / Ball.exact(kept)
        decayed = decay * found.most
        # Product with the decay, sum with the look-ahead, product with lr; and the sum of gradient
        # and decay, which is rounded before a look-ahead that may cancel it.
        size = 3.0 * (known.most + decayed) + np.abs(gradient.astype(np.float64)) + decayed
        moved = lr * rounding.unit * size + (2.0 + 2.0 * lr) * rounding.floor
        return found.widened(moved / kept * 1.001)

"""What optimizers with one buffer share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkpoint_tax.reconcile.optimizers.balls import Float64Array, Rounding
from checkpoint_tax.reconcile.optimizers.optimizer import Balls, Optimizer
from checkpoint_tax.reconcile.optimizers.states import MomentumState
from checkpoint_tax.reconcile.updates import Array, Update


def at_least_usual(least: Float64Array, tiny: float) -> Float64Array:
    """Each magnitude, or the root mean square of the shard where that is larger.

    Parameters
    ----------
    least : ndarray
        Magnitudes.
    tiny : float
        Smallest normal number.

    Returns
    -------
    ndarray
        Same shape, at least ``tiny``.
    """
    usual = float(np.sqrt(np.mean(np.square(least)))) if least.size else 0.0
    return np.maximum(least, max(usual * (1 - 1e-9), tiny))


@dataclass(frozen=True)
class MomentumForm(Optimizer[MomentumState]):
    """Weights and one buffer."""

    def init(self, p: Array) -> MomentumState:
        """State before the first update.

        Parameters
        ----------
        p : ndarray
            Initial weights, float32 or float64.

        Returns
        -------
        MomentumState
            Zero buffer and ``t = 0``.
        """
        state = MomentumState(p, np.zeros_like(p), 0)
        self.check(state)
        return state

    def scales(self, balls: Balls, update: Update, rounding: Rounding) -> dict[str, Float64Array]:
        """Scales of optimizers without a second moment.

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
            For each array its own magnitude, or the root mean square over the shard where that
            is larger; never less than the smallest normal number.
        """
        tiny = rounding.smallest_normal
        return {name: at_least_usual(ball.least, tiny) for name, ball in balls.items()}

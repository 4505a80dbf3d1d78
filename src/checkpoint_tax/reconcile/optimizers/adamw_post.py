"""AdamW as the first post writes it, forwards and backwards, in the state's own type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from checkpoint_tax.reconcile.optimizers.adam_algebra import AdamForm, weighted_moment_earlier
from checkpoint_tax.reconcile.optimizers.balls import Ball, Rounding
from checkpoint_tax.reconcile.optimizers.optimizer import Balls, cast, in_type, no_decay_of_one
from checkpoint_tax.reconcile.optimizers.states import AdamState
from checkpoint_tax.reconcile.updates import Array, Update


@dataclass(frozen=True)
class AdamWPost(AdamForm):
    """The formula of the first post; not the library's order of operations.

    ``m = b1 m + (1-b1) g``, ``v = b2 v + (1-b2) g g``,
    ``p = p - lr (mh / (sqrt(vh) + eps) + wd p)`` with ``mh = m / (1-b1^t)``,
    ``vh = v / (1-b2^t)``. Its inverse works in the state's type too, as the post's does.

    Attributes
    ----------
    name : str
        Name for people.
    """

    name: ClassVar[str] = "AdamW, the post's form"

    def step(self, state: AdamState, update: Update, gradient: Array) -> AdamState:
        """The post's forward step.

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
        p, m, v, _ = state
        (b1, b2), t = update.betas, update.step
        decay = in_type(update.decay(p), p.dtype)
        m = b1 * m + (1 - b1) * gradient
        v = b2 * v + (1 - b2) * gradient * gradient
        mh, vh = m / (1 - b1**t), v / (1 - b2**t)
        return AdamState(p - update.lr * (mh / (np.sqrt(vh) + update.eps) + decay * p), m, v, t)

    def back(self, state: AdamState, update: Update, gradient: Array) -> AdamState:
        """The post's rollback.

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
        p, m, v, t = state
        b1, b2 = update.betas
        kept = in_type(1 - update.lr * update.decay(p), p.dtype)
        mh, vh = m / (1 - b1**t), v / (1 - b2**t)
        return AdamState(
            (p + update.lr * mh / (np.sqrt(vh) + update.eps)) / kept,
            (m - (1 - b1) * gradient) / b1,
            (v - (1 - b2) * gradient * gradient) / b2,
            t - 1,
        )

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

    def first_moment_earlier(
        self, after: Ball, used: Ball, update: Update, like: Array, rounding: Rounding
    ) -> Ball:
        """Every first moment that the step can have started from, by a weighted sum.

        Parameters
        ----------
        after : Ball
            First moment after the step.
        used : Ball
            Gradient that entered the moments.
        update : Update
            The step's numbers.
        like : ndarray
            Gives the type.
        rounding : Rounding
            Of the state's type.

        Returns
        -------
        Ball
            First moment before the step.
        """
        share = Ball.exact(cast(1 - update.betas[0], like.dtype))
        added = (share * used).rounded(rounding)
        added = Ball(added.mid, np.where(used.most == 0, 0.0, added.radius))
        decay = float(np.asarray(cast(update.betas[0], like.dtype)))
        return weighted_moment_earlier(after, added, decay, rounding)

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
        dtype, unit = rounding.dtype, rounding.unit
        (b1, b2), t = update.betas, update.step
        mh = (balls["m"] / Ball.exact(cast(1 - b1**t, dtype))).rounded(rounding)
        vh = (balls["v"] / Ball.exact(cast(1 - b2**t, dtype))).rounded(rounding)
        divisor = vh.root().rounded(rounding, 2) + Ball.exact(cast(update.eps, dtype))
        ratio = (mh / divisor.rounded(rounding)).rounded(rounding)
        lr = cast(update.lr, dtype)
        decay = cast(update.decay(balls["p"].mid), dtype)
        undone = balls["p"].rounded(rounding) + Ball.exact(lr) * ratio
        kept = 1.0 - lr * decay
        found = undone / Ball.exact(kept)
        # The decay's product, its sum with the ratio and the product with lr are rounded too.
        decayed = decay * found.most
        moved = unit * lr * (3.0 * decayed + 2.0 * ratio.most) + (2.0 + lr) * rounding.floor
        return found.widened(moved / kept * 1.001)

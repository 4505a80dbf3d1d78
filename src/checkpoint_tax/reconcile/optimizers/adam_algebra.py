"""What Adam's forms share: both moments, their inverses and the sets these leave."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from checkpoint_tax.reconcile.errors import NoInverse
from checkpoint_tax.reconcile.optimizers.balls import Ball, Float64Array, Rounding
from checkpoint_tax.reconcile.optimizers.optimizer import (
    Balls,
    Optimizer,
    cast,
    moment_decays,
)
from checkpoint_tax.reconcile.optimizers.states import AdamState
from checkpoint_tax.reconcile.updates import Array, Update


def weighted_moment_earlier(
    after: Ball,
    contribution: Ball,
    decay: float,
    rounding: Rounding,
) -> Ball:
    """Solve ``after = fl(fl(decay x) + contribution)`` for every x.

    Parameters
    ----------
    after : Ball
        Moment after the step.
    contribution : Ball
        What the step added, with its own rounding.
    decay : float
        Decay rate in the state's type.
    rounding : Rounding
        Of the state's type.

    Returns
    -------
    Ball
        Moment before the step.
    """
    found = (after.rounded(rounding) - contribution).rounded(rounding) / Ball.exact(decay)
    # Above one half no multiple of the smallest number decays to zero, so zero stays zero.
    nothing = (after.mid == 0) & (after.radius == 0) & (contribution.most <= rounding.floor)
    nothing &= decay > 0.5
    added = (contribution.mid == 0) & nothing
    return Ball(found.mid, np.where(added, 0.0, found.radius))


def interpolated_moment_earlier(
    after: Ball,
    gradient: Ball,
    weight: float,
    rounding: Rounding,
) -> Ball:
    """Solve ``after = x + weight (gradient - x)``, rounded at each operation, for every x.

    Parameters
    ----------
    after : Ball
        Moment after the step.
    gradient : Ball
        Gradient that the step used.
    weight : float
        One minus the decay rate, in the state's type, below 1.
    rounding : Rounding
        Of the state's type.

    Returns
    -------
    Ball
        Moment before the step.
    """
    # A weight that rounds to one leaves a divisor of zero, and nothing is known.
    kept = Ball.exact(1.0 - weight)
    left = after.rounded(rounding) - Ball.exact(weight) * gradient
    # Difference and product are rounded before the sum; for weights above one half the library
    # interpolates from the gradient's side, with 1 - weight as the factor, rounded once more.
    factor = weight if weight < 0.5 else 2.0 * (1.0 - weight)
    spread = (gradient.most + (left / kept).most) * 1.001
    moved = 2.0 * rounding.unit * factor * spread + 2.0 * rounding.floor
    found = left.widened(moved) / kept
    nothing = (after.mid == 0) & (after.radius == 0) & (gradient.most == 0) & (weight < 0.5)
    return Ball(found.mid, np.where(nothing, 0.0, found.radius))


@dataclass(frozen=True)
class AdamForm(Optimizer[AdamState]):
    """Adam's moments with whatever each form does to the weights.

    Attributes
    ----------
    amsgrad : bool
        Refused: the running maximum forgets which value it replaced.
    """

    amsgrad: bool = False

    def __post_init__(self) -> None:
        if self.amsgrad:
            raise NoInverse(
                "amsgrad = True keeps only the largest second moment, so no step can be undone and"
                " its state has a part more; allowed: False"
            )

    def init(self, p: Array) -> AdamState:
        """State before the first update.

        Parameters
        ----------
        p : ndarray
            Initial weights, float32 or float64.

        Returns
        -------
        AdamState
            Zero moments and ``t = 0``.
        """
        state = AdamState(p, np.zeros_like(p), np.zeros_like(p), 0)
        self.check(state)
        return state

    def scales(self, balls: Balls, update: Update, rounding: Rounding) -> dict[str, Float64Array]:
        """Scales of Adam's forms.

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
            For a weight its own magnitude or one learning rate, the size of a step; for m its
            own magnitude or the root of v, the size of a usual gradient; for v its own; never
            less than the smallest normal number.
        """
        tiny = rounding.smallest_normal
        low = np.maximum(balls["v"].mid - balls["v"].radius, 0.0)
        return {
            "p": np.maximum(balls["p"].least, max(update.lr, tiny)),
            "m": np.maximum(np.maximum(balls["m"].least, np.sqrt(low)), tiny),
            "v": np.maximum(low, tiny),
        }

    def refuse_if_not_one_to_one(self, update: Update) -> None:
        """Refuse decay rates of zero.

        Parameters
        ----------
        update : Update
            The step's numbers.

        Returns
        -------
        None
            Raises `NoInverse` where the step has no inverse.
        """
        moment_decays(update, {"betas[0]": update.betas[0], "betas[1]": update.betas[1]})

    @abstractmethod
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

    def used_gradient(self, weights: Ball, update: Update, gradient: Array) -> Ball:
        """Gradient that entered the moments.

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
            Exact, unless the form adds the decay to it.
        """
        return Ball.exact(gradient)

    def first_moment_earlier(
        self, after: Ball, used: Ball, update: Update, like: Array, rounding: Rounding
    ) -> Ball:
        """Every first moment that the step can have started from, by interpolation.

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
        weight = float(np.asarray(cast(1 - update.betas[0], like.dtype)))
        return interpolated_moment_earlier(after, used, weight, rounding)

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
        weights = self.weights_earlier(balls, update, rounding)
        used = self.used_gradient(weights, update, gradient)
        share = Ball.exact(cast(1 - update.betas[1], dtype))
        # An underflowing square is rounded to within the floor of the state's type.
        square = (share * used).rounded(rounding) * used
        square = square.rounded(rounding)
        square = Ball(square.mid, np.where(used.most == 0, 0.0, square.radius))
        decay = float(np.asarray(cast(update.betas[1], dtype)))
        first = self.first_moment_earlier(balls["m"], used, update, gradient, rounding)
        second = weighted_moment_earlier(balls["v"], square, decay, rounding)
        return {"p": weights, "m": first, "v": second}


def library_scalars(update: Update) -> tuple[float, float, float]:
    """Bias corrections as the library forms them, in double precision.

    Parameters
    ----------
    update : Update
        The step's numbers.

    Returns
    -------
    tuple of float
        ``1 - b1^t``, ``sqrt(1 - b2^t)`` and ``-(lr / (1 - b1^t))``.
    """
    first = 1 - update.betas[0] ** update.step
    root = (1 - update.betas[1] ** update.step) ** 0.5
    return first, root, -(update.lr / first)


def library_quotient(m: Array, v: Array, update: Update) -> Array:
    """What the library adds to the weights, operation by operation in the state's type.

    Parameters
    ----------
    m : ndarray
        First moment after the step.
    v : ndarray
        Second moment after the step.
    update : Update
        The step's numbers.

    Returns
    -------
    ndarray
        ``(-(lr / c1) m) / (sqrt(v) / sqrt(c2) + eps)``, type of ``m``.
    """
    _, root, factor = library_scalars(update)
    return (factor * m) / (np.sqrt(v) / root + update.eps)


def library_quotient_set(balls: Balls, update: Update, rounding: Rounding) -> Ball:
    """The set that `library_quotient` can come from, whatever square root was used.

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
        What was added to the weights.
    """
    _, root, factor = library_scalars(update)
    dtype = rounding.dtype
    # Vector libraries round the square root to within one unit in the last place, not a half.
    deviation = balls["v"].root().rounded(rounding, 2) / Ball.exact(cast(root, dtype))
    divisor = deviation.rounded(rounding) + Ball.exact(cast(update.eps, dtype))
    numerator = (Ball.exact(cast(factor, dtype)) * balls["m"]).rounded(rounding)
    return (numerator / divisor.rounded(rounding)).rounded(rounding)


def library_moments(state: AdamState, update: Update, gradient: Array) -> tuple[Array, Array]:
    """Both moments after a step in the library's order, without fused operations.

    Parameters
    ----------
    state : AdamState
        State before the step.
    update : Update
        The step's numbers.
    gradient : ndarray
        Gradient that enters the moments.

    Returns
    -------
    tuple of ndarray
        First and second moment, in the state's type.
    """
    # The library rounds the weight to the state's type before it asks on which side of 1/2 it is.
    weight = float(state.m.dtype.type(1 - update.betas[0]))
    difference = gradient - state.m
    # Exact, as the weight is at least a half where it is used.
    rest = 1.0 - weight
    m = state.m + weight * difference if weight < 0.5 else gradient - difference * rest
    v = state.v * update.betas[1] + ((1 - update.betas[1]) * gradient) * gradient
    return m, v


def library_moments_back(state: AdamState, update: Update, gradient: Array) -> tuple[Array, Array]:
    """Both moments before a step, in double precision, rounded where the step rounded.

    Parameters
    ----------
    state : AdamState
        State after the step.
    update : Update
        The step's numbers.
    gradient : ndarray
        Gradient that entered the moments.

    Returns
    -------
    tuple of ndarray
        First and second moment, in the state's type.
    """
    dtype = state.m.dtype
    used = gradient.astype(np.float64)
    weight = cast(1 - update.betas[0], dtype)
    m = (state.m - weight * used) / (1.0 - weight)
    square = ((1 - update.betas[1]) * gradient).astype(np.float64) * used
    kept = (state.v - square).astype(dtype)
    v = kept.astype(np.float64) / cast(update.betas[1], dtype)
    return m.astype(dtype), v.astype(dtype)

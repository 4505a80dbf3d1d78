"""How far a rollback can be trusted, element by element, and when it is refused.

Undoing one step of the second moment subtracts the step's share ``rho = (1-b2) g^2 / v`` of it,
so a rounding of the later value, at most u of it, becomes ``u / (1 - rho)`` of the earlier one.
The next step back amplifies what it finds in the same way: ``e <- (e + u) / (1 - rho)``. That is
the gate in its plainest form, and a threshold on rho is a tolerance in disguise,
``rho <= 1 - u / tolerance``.

The decision here rests on more than that form: on sets that hold every state the steps can have
started from, for the weights and both moments, every rounding of step and inverse included.

An error is always a fraction of something; per element, and stated for the true earlier state:

- a weight: of its own magnitude, or of one learning rate (Adam's forms, Lion) or the root mean
  square of the shard's weights (SGD) where that is larger, since a weight that crosses zero has no
  relative accuracy of its own;
- the first moment: of its own magnitude, or of the root of the second moment (Adam's forms) or
  the root mean square of the shard's buffer (SGD, Lion) where that is larger;
- the second moment: of itself;
- below the smallest normal number, of that number.

The sets know rounding to nearest with gradual underflow, fused multiply-add or not, and square
roots within one unit in the last place. A process that flushes subnormal numbers to zero is
outside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from checkpoint_tax.reconcile.errors import BadUpdate, ReconcileError, RollbackRefused
from checkpoint_tax.reconcile.optimizers.balls import Ball, Float64Array, Rounding
from checkpoint_tax.reconcile.optimizers.optimizer import Optimizer, state_arrays
from checkpoint_tax.reconcile.optimizers.states import State
from checkpoint_tax.reconcile.updates import Array, Update

S = TypeVar("S", bound=State)

UNIT_FP32 = 2.0**-24


def step_share(gradient: Array, v: Array, beta2: float) -> Float64Array:
    """Share of the second moment that the step's own gradient makes up, per element.

    Parameters
    ----------
    gradient : ndarray
        Effective gradient of the step.
    v : ndarray
        Second moment after the step.
    beta2 : float
        Its decay rate.

    Returns
    -------
    ndarray of float64
        ``rho = (1-b2) g^2 / v``; 0 where both are 0.
    """
    square = (1 - beta2) * np.square(gradient.astype(np.float64))
    with np.errstate(all="ignore"):
        return np.where((square == 0) & (v == 0), 0.0, square / v.astype(np.float64))


def tolerance_of_share(share: ArrayLike, *, unit: float = UNIT_FP32) -> Float64Array:
    """Relative error of the second moment that a threshold on the share lets pass in one step.

    Parameters
    ----------
    share : array_like
        rho, in [0, 1].
    unit : float
        Rounding unit u, ``2^-24`` for float32.

    Returns
    -------
    ndarray of float64
        ``u / (1 - rho)``, infinite at 1.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(unit / (1.0 - np.asarray(share, dtype=np.float64)))


def share_of_tolerance(tolerance: float, *, unit: float = UNIT_FP32) -> float:
    """Largest share for which one step back stays within a tolerance.

    Parameters
    ----------
    tolerance : float
        Relative error allowed for the second moment, above 0.
    unit : float
        Rounding unit u.

    Returns
    -------
    float
        ``1 - u / tolerance``; below 0 where no step back is accurate enough.
    """
    return 1.0 - unit / checked_tolerance(tolerance)


def compounded_share_error(shares: Sequence[ArrayLike], *, unit: float = UNIT_FP32) -> Float64Array:
    """Relative error of the second moment after several steps back, in the plainest form.

    Parameters
    ----------
    shares : sequence of array_like
        rho of each step, the latest step first.
    unit : float
        Rounding unit u.

    Returns
    -------
    ndarray of float64
        ``e <- (e + u) / (1 - rho)`` applied once per step from ``e = 0``.
    """
    error = np.asarray(0.0)
    with np.errstate(divide="ignore"):
        for share in shares:
            error = np.asarray((error + unit) / (1.0 - np.asarray(share, dtype=np.float64)))
    return error


def checked_tolerance(tolerance: float | None) -> float:
    """Tolerance as a number.

    Parameters
    ----------
    tolerance : float or None
        None stands for 1: an error as large as what it is an error of promises nothing.

    Returns
    -------
    float
        Above 0, at most 1.

    Raises
    ------
    BadUpdate
        If it is out of range.
    """
    if tolerance is None:
        return 1.0
    number = float(tolerance)
    if not 0 < number <= 1:
        raise BadUpdate(
            f"tolerance = {number:g} is refused; allowed: above 0, at most 1 (pure number)"
        )
    return number


@dataclass(frozen=True, eq=False)
class Rollback(Generic[S]):
    """A state rolled back by some steps, and how far each element can be off.

    Attributes
    ----------
    state : AdamState or MomentumState
        The earlier state, up to the errors promised.
    updates_undone : int
        How many updates, skipped ones included.
    promised : dict of str to ndarray
        Per array of the state, the largest error of each element as a fraction of its scale
        (see the module); infinite where nothing can be promised.
    allowed_error : dict of str to ndarray
        The same in the arrays' own units, not as a fraction.
    reason : ReconcileError or None
        Why the shard may not be rolled back whatever the tolerance, where that is so: a step that
        cannot be undone, or an element that was lost.
    """

    state: S
    updates_undone: int
    promised: dict[str, Float64Array]
    allowed_error: dict[str, Float64Array]
    reason: ReconcileError | None = None

    @property
    def worst(self) -> dict[str, float]:
        """Largest promised error over the elements, per array of the state."""
        return {
            name: float(error.max()) if error.size else 0.0 for name, error in self.promised.items()
        }

    def refusal(self, tolerance: float | None) -> ReconcileError | None:
        """Why the rollback may not be used.

        Parameters
        ----------
        tolerance : float or None
            Largest error allowed; None allows any that says something, up to 1.

        Returns
        -------
        ReconcileError or None
            None if every element can be promised within the tolerance.
        """
        if self.reason is not None:
            return self.reason
        allowed = checked_tolerance(tolerance)
        for name, error in self.promised.items():
            refused = ~(error <= allowed)
            if refused.any():
                at = int(np.flatnonzero(refused)[0])
                return RollbackRefused(
                    f"{name} can be off by {error.flat[at]:.2g} of its scale at element {at} of"
                    f" {error.size} after {self.updates_undone} steps back; tolerance = "
                    f"{allowed:g} (pure number)"
                )
        return None


def _allowed_error(
    last: Rollback[S], earlier: S, balls: dict[str, Ball]
) -> dict[str, Float64Array]:
    allowed: dict[str, Float64Array] = {}
    before = state_arrays(last.state)
    for name, value in state_arrays(earlier).items():
        ball = balls[name]
        error = np.abs(value - ball.mid) + ball.radius
        # The difference and the sum are rounded in double precision.
        error = error * (1 + 2.0**-50) + np.where(error == 0, 0.0, np.abs(ball.mid) * 2.0**-52)
        known = np.isfinite(value) & np.isfinite(error) & np.isfinite(last.allowed_error[name])
        if name == "v":
            known &= (value > 0) | ((value == 0) & (before[name] == 0))
        allowed[name] = np.where(known, error, np.inf)
    return allowed


def _as_fraction(
    allowed: dict[str, Float64Array], scales: dict[str, Float64Array]
) -> dict[str, Float64Array]:
    promised: dict[str, Float64Array] = {}
    for name, error in allowed.items():
        fraction = np.where(error == 0, 0.0, error / scales[name] * (1 + 2.0**-50))
        # A scale that is not finite is no scale: nothing is promised by it.
        promised[name] = np.where(np.isfinite(scales[name]), fraction, np.inf)
    return promised


def rollbacks(
    state: S, updates: Sequence[Update], optimizer: Optimizer[S]
) -> Iterator[Rollback[S]]:
    """Undo updates one after another, saying after each how far off the state can be.

    Parameters
    ----------
    state : AdamState or MomentumState
        Captured state; its values are exact.
    updates : sequence of Update
        The latest first.
    optimizer : Optimizer
        The one that made the steps.

    Yields
    ------
    Rollback
        After each update undone. Where a step cannot be undone for any element (the first one,
        for instance), the last rollback carries the reason and the state that could not be left.

    Raises
    ------
    ReconcileError
        If an update does not fit the state.
    """
    optimizer.check(state)
    rounding = Rounding.of(state.p.dtype)
    balls = {name: Ball.exact(value) for name, value in state_arrays(state).items()}
    none = {name: np.zeros(ball.mid.shape) for name, ball in balls.items()}
    last = Rollback(state, 0, none, none)
    with np.errstate(all="ignore"):
        for update in updates:
            try:
                last, balls = _undo(last, balls, update, optimizer, rounding)
            except ReconcileError as reason:
                lost = {name: np.full(ball.mid.shape, np.inf) for name, ball in balls.items()}
                yield Rollback(last.state, last.updates_undone, lost, lost, reason)
                return
            yield last


def _undo(
    last: Rollback[S],
    balls: dict[str, Ball],
    update: Update,
    optimizer: Optimizer[S],
    rounding: Rounding,
) -> tuple[Rollback[S], dict[str, Ball]]:
    undone = last.updates_undone + 1
    optimizer.refuse_rollback(last.state, update)
    if update.skipped:
        return replace(last, updates_undone=undone), balls
    gradient = update.effective_gradient(last.state.p)
    earlier = optimizer.back(last.state, update, gradient)
    reason = last.reason
    try:
        optimizer.refuse_lost(last.state, earlier)
    except ReconcileError as lost:
        # The shard is refused, yet its other elements are followed on: a caller may want to know
        # which ones would have been accepted.
        reason = reason or lost
    if optimizer.exact_inverse:
        balls = {name: Ball.exact(value) for name, value in state_arrays(earlier).items()}
        return Rollback(earlier, undone, last.promised, last.allowed_error, reason), balls
    balls = optimizer.earlier(balls, update, gradient)
    allowed = _allowed_error(last, earlier, balls)
    promised = _as_fraction(allowed, optimizer.scales(balls, update, rounding))
    return Rollback(earlier, undone, promised, allowed, reason), balls


def relative_errors(
    state: S, truth: S, update: Update, optimizer: Optimizer[S]
) -> dict[str, Float64Array]:
    """Errors of a rolled-back state against the true one, as fractions of the promise's scales.

    Parameters
    ----------
    state : AdamState or MomentumState
        What was found.
    truth : AdamState or MomentumState
        What it should be.
    update : Update
        The step that was taken from the true state.
    optimizer : Optimizer
        The one that made the steps.

    Returns
    -------
    dict of str to ndarray of float64
        Per array of the state, elements as there.
    """
    true = state_arrays(truth)
    exact = {name: Ball.exact(value) for name, value in true.items()}
    scales = optimizer.scales(exact, update, Rounding.of(truth.p.dtype))
    found = state_arrays(state)
    return {
        name: np.abs(found[name].astype(np.float64) - exact[name].mid) / scales[name]
        for name in true
    }


def refused_elements(promised: dict[str, Float64Array], tolerance: float) -> NDArray[np.bool_]:
    """Elements that a tolerance refuses.

    Parameters
    ----------
    promised : dict of str to ndarray
        Promised errors per array.
    tolerance : float
        Largest error allowed.

    Returns
    -------
    ndarray of bool
        True where any array's promise is above it.
    """
    allowed = checked_tolerance(tolerance)
    return np.logical_or.reduce([~(error <= allowed) for error in promised.values()])

"""What every optimizer offers: a step, its inverse, and how far the inverse can be off."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from checkpoint_tax.reconcile.errors import (
    AcrossFirstStep,
    BadWindow,
    NoInverse,
    NonFiniteState,
    SecondMomentLost,
    StepMismatch,
)
from checkpoint_tax.reconcile.optimizers.balls import Ball, Float64Array, Rounding
from checkpoint_tax.reconcile.optimizers.states import State
from checkpoint_tax.reconcile.updates import Array, Update, whole

S = TypeVar("S", bound=State)
Balls: TypeAlias = dict[str, Ball]
Coefficient: TypeAlias = float | NDArray[np.float64]


def cast(value: Coefficient, dtype: np.dtype[Any]) -> Coefficient:
    """A coefficient as an operation in the state's type uses it, held in double precision.

    Parameters
    ----------
    value : float or ndarray
        Coefficient in double precision.
    dtype : dtype
        Type of the state.

    Returns
    -------
    float or ndarray of float64
        The value after rounding to ``dtype``.
    """
    if isinstance(value, np.ndarray):
        return value.astype(dtype).astype(np.float64)
    return float(dtype.type(value))


def in_type(value: Coefficient, dtype: np.dtype[Any]) -> float | Array:
    """A coefficient that does not widen an operation in the state's type.

    Parameters
    ----------
    value : float or ndarray
        Coefficient in double precision.
    dtype : dtype
        Type of the state.

    Returns
    -------
    float or ndarray
        A Python float as it is (NumPy rounds it to the array's type), an array rounded.
    """
    return value.astype(dtype) if isinstance(value, np.ndarray) else value


def state_arrays(state: State) -> dict[str, Array]:
    """Arrays of a state by name.

    Parameters
    ----------
    state : AdamState or MomentumState
        Any state.

    Returns
    -------
    dict of str to ndarray
        ``p``, ``m`` and, for Adam's forms, ``v``.
    """
    return {name: value for name, value in state._asdict().items() if name != "t"}


@dataclass(frozen=True)
class Optimizer(ABC, Generic[S]):
    """One optimizer: no hyper-parameters of its own, since each update ships them.

    `forward` is what the training side did, bit for bit, in the state's own type; `inverse`
    undoes one step up to rounding; `earlier` bounds what the step can have started from.

    Attributes
    ----------
    name : str
        Name for people.
    exact_inverse : bool
        Whether `back` gives the earlier state bit for bit, as it does with recorded corrections.
    """

    name: ClassVar[str]
    exact_inverse: ClassVar[bool] = False

    @abstractmethod
    def init(self, p: Array) -> S:
        """State before the first update.

        Parameters
        ----------
        p : ndarray
            Initial weights.

        Returns
        -------
        AdamState or MomentumState
            Zero moments and ``t = 0``.
        """

    @abstractmethod
    def step(self, state: S, update: Update, gradient: Array) -> S:
        """The update's arithmetic, without checks; called by `forward`.

        Parameters
        ----------
        state : AdamState or MomentumState
            State before the step.
        update : Update
            The step's numbers.
        gradient : ndarray
            Effective gradient.

        Returns
        -------
        AdamState or MomentumState
            State after the step.
        """

    @abstractmethod
    def back(self, state: S, update: Update, gradient: Array) -> S:
        """The inverse's arithmetic, without checks; called by `inverse`.

        Parameters
        ----------
        state : AdamState or MomentumState
            State after the step.
        update : Update
            The step's numbers.
        gradient : ndarray
            Effective gradient.

        Returns
        -------
        AdamState or MomentumState
            State before the step, up to rounding; may hold NaN where the step has no inverse.
        """

    @abstractmethod
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

    @abstractmethod
    def scales(self, balls: Balls, update: Update, rounding: Rounding) -> dict[str, Float64Array]:
        """What errors of a rolled-back state are relative to, element by element.

        Parameters
        ----------
        balls : dict of str to Ball
            The earlier state; a scale never exceeds the one of any state in the balls.
        update : Update
            The step that was taken from it.
        rounding : Rounding
            Of the state's type.

        Returns
        -------
        dict of str to ndarray
            Scales, above 0, in the unit of each array.
        """

    def refuse_if_not_one_to_one(self, update: Update) -> None:
        """Refuse a step whose hyper-parameters destroy part of the earlier state.

        Parameters
        ----------
        update : Update
            The step's numbers.

        Returns
        -------
        None
            Raises `NoInverse` where the step has no inverse.
        """

    def check(self, state: S) -> None:
        """Refuse a state whose arrays do not belong together.

        Parameters
        ----------
        state : AdamState or MomentumState
            Any state.

        Returns
        -------
        None
            Raises `BadWindow` or `BadUpdate` for a state that cannot be worked with.
        """
        p = state.p
        for name, value in state_arrays(state).items():
            if not isinstance(value, np.ndarray) or value.dtype not in (np.float32, np.float64):
                raise BadWindow(f"{name} is no array of floats; allowed: float32 or float64")
            if value.shape != p.shape or value.dtype != p.dtype:
                raise BadWindow(
                    f"{name} is {value.dtype} of shape {value.shape}; allowed: as the weights,"
                    f" {p.dtype} of shape {p.shape}"
                )
        whole("t", state.t, at_least=0)

    def forward(self, state: S, update: Update) -> S:
        """State after the update.

        Parameters
        ----------
        state : AdamState or MomentumState
            State before it.
        update : Update
            The step's numbers; a skipped step returns the state as it is.

        Returns
        -------
        AdamState or MomentumState
            New arrays of the same type; ``t`` is a Python integer.

        Raises
        ------
        ReconcileError
            If the update does not fit the state, or was not made at its step count.
        """
        self.check(state)
        t = int(state.t)
        expected = t if update.skipped else t + 1
        if update.step != expected:
            raise StepMismatch(
                f"step = {update.step} of an update for a state at t = {t} steps;"
                f" allowed: {expected}"
            )
        if update.skipped:
            return state
        return self.step(state, update, update.effective_gradient(state.p))

    def refuse_rollback(self, state: S, update: Update) -> None:
        """Refuse a rollback that cannot be done whatever the numbers in the arrays are.

        Parameters
        ----------
        state : AdamState or MomentumState
            State after the update.
        update : Update
            The step's numbers.

        Returns
        -------
        None
            Raises a named error where there is no way back.
        """
        self.check(state)
        t = int(state.t)
        if update.step != t:
            raise StepMismatch(
                f"step = {update.step} of an update to undo in a state at t = {t} steps;"
                f" allowed: {t}"
            )
        if update.skipped:
            return
        if t == 1:
            raise AcrossFirstStep(
                "t = 1 step cannot be rolled back: the state before the first update is the"
                " initial one; allowed: t of at least 2 steps"
            )
        self.refuse_if_not_one_to_one(update)

    def inverse(self, state: S, update: Update) -> S:
        """State before the update, up to the rounding that `earlier` bounds.

        Parameters
        ----------
        state : AdamState or MomentumState
            State after the update.
        update : Update
            The step's numbers; a skipped step returns the state as it is.

        Returns
        -------
        AdamState or MomentumState
            New arrays of the same type; ``t`` is a Python integer.

        Raises
        ------
        ReconcileError
            If the update does not fit the state, is the first one, destroys part of the earlier
            state, or if the result is not finite or has a second moment that cancelled.
        """
        self.refuse_rollback(state, update)
        if update.skipped:
            return state
        gradient = update.effective_gradient(state.p)
        with np.errstate(all="ignore"):
            earlier = self.back(state, update, gradient)
        self.refuse_lost(state, earlier)
        return earlier

    def refuse_lost(self, later: S, earlier: S) -> None:
        """Refuse a rolled-back state that is not finite or lost its second moment.

        Parameters
        ----------
        later : AdamState or MomentumState
            What was rolled back.
        earlier : AdamState or MomentumState
            The result.

        Returns
        -------
        None
            Raises `NonFiniteState` or `SecondMomentLost`.
        """
        arrays = state_arrays(earlier)
        v = arrays.get("v")
        if v is not None:
            gone = (v == 0) & (state_arrays(later)["v"] != 0)
            cancelled = v < 0 if self.exact_inverse else (v < 0) | gone
            if cancelled.any():
                at = int(np.flatnonzero(cancelled)[0])
                raise SecondMomentLost(
                    f"v = {v.flat[at]:g} at element {at} after rolling back step {later.t}:"
                    " the gradient of the step makes up all of it; allowed: above 0"
                )
        for name, value in arrays.items():
            if not np.isfinite(value).all():
                at = int(np.flatnonzero(~np.isfinite(value))[0])
                raise NonFiniteState(
                    f"{name} = {value.flat[at]} at element {at} after rolling back step {later.t};"
                    " allowed: finite"
                )

    def replay(self, state: S, updates: Sequence[Update]) -> S:
        """State after several updates.

        Parameters
        ----------
        state : AdamState or MomentumState
            State before the first of them.
        updates : sequence of Update
            In the order in which they were made.

        Returns
        -------
        AdamState or MomentumState
            State after the last.
        """
        for update in updates:
            state = self.forward(state, update)
        return state


def no_decay_of_one(update: Update) -> None:
    """Refuse a decoupled decay that multiplies the weights by nothing.

    Parameters
    ----------
    update : Update
        The step's numbers.

    Returns
    -------
    None
        Raises `NoInverse` if ``lr * weight_decay`` is 1 or more.
    """
    product = np.max(np.asarray(update.lr * np.asarray(update.weight_decay)))
    if product >= 1:
        raise NoInverse(
            f"lr * weight_decay = {product:g} in step {update.step} leaves nothing of the weights;"
            " allowed: below 1 (pure number)"
        )


def moment_decays(update: Update, named: Mapping[str, float]) -> None:
    """Refuse decay rates of zero, which forget the moment.

    Parameters
    ----------
    update : Update
        The step's numbers.
    named : mapping of str to float
        Decay rates by name.

    Returns
    -------
    None
        Raises `NoInverse` for a rate of 0.
    """
    for name, rate in named.items():
        if rate == 0:
            raise NoInverse(
                f"{name} = 0 in step {update.step} forgets the earlier moment;"
                " allowed: above 0 (pure number)"
            )

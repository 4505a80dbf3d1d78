"""What the training side ships for one step of one shard: the gradient and all it was used with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from checkpoint_tax.reconcile.errors import BadUpdate

Array: TypeAlias = NDArray[Any]


def whole(name: str, value: object, *, at_least: int, unit: str = "steps") -> int:
    """Return a whole number, refusing everything that only looks like one.

    Parameters
    ----------
    name : str
        Parameter name for the message.
    value : object
        A Python or NumPy integer; a float is refused even when it is integral, because a step
        count that went through half precision has already lost its last digits.
    at_least : int
        Smallest value allowed.
    unit : str
        Unit for the message.

    Returns
    -------
    int
        The number as a Python integer.

    Raises
    ------
    BadUpdate
        If the value is no integer or too small.
    """
    allowed = f"allowed: an integer of at least {at_least} ({unit})"
    if isinstance(value, bool | np.bool_):
        raise BadUpdate(f"{name} = {value!r} is a truth value; {allowed}")
    if not isinstance(value, int | np.integer):
        raise BadUpdate(f"{name} = {value!r} is not an integer; {allowed}")
    number = int(value)
    if number < at_least:
        raise BadUpdate(f"{name} = {number} {unit} is too small; {allowed}")
    return number


def _real(name: str, value: Any, low: float, high: float, *, open_high: bool = False) -> float:
    bracket = ")" if open_high else "]"
    within = f"at least {low:g}" if high == math.inf else f"in [{low:g}, {high:g}{bracket}"
    allowed = f"allowed: finite, {within} (pure number)"
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        raise BadUpdate(f"{name} = {value!r} is not a real number; {allowed}")
    # A Python float never widens a float32 array; a NumPy float64 scalar would.
    number = float(value)
    if not math.isfinite(number) or not low <= number <= high or (open_high and number == high):
        raise BadUpdate(f"{name} = {number:g} is refused; {allowed}")
    return number


@dataclass(frozen=True, eq=False)
class Update:
    """One step of one shard, with every number the step used.

    Nothing is taken from a configuration or a folder name: schedules, clipping, masks and
    skipped steps change from step to step, and a replay with yesterday's value is silently wrong.
    An optimizer reads the fields it knows and ignores the others.

    Attributes
    ----------
    gradient : ndarray or None
        Gradient of the shard as the backward pass left it, shape of the shard, in a floating type
        no wider than the state's. May be None for a skipped step only.
    step : int
        The optimizer's step count after this update; 1 for the first. A skipped step does not
        advance the count, so it carries the count it found (possibly 0).
    lr : float
        Learning rate of this step, at least 0.
    betas : tuple of float
        Decay rates of the moments (Adam's forms and Lion), each in [0, 1).
    eps : float
        Added to the root of the second moment (Adam's forms), at least 0.
    weight_decay : float or ndarray
        Decay coefficient; an array of the shard's shape holds it per element, 0 where a mask
        excludes the element.
    clip_coefficient : float
        What the clipping multiplied the gradient by, in [0, 1].
    maximize : bool
        Whether the step climbs: the gradient's sign is turned.
    skipped : bool
        Whether the loss scaler skipped the step, in which case nothing changes.
    momentum : float
        Decay of the buffer of SGD, in [0, 1).
    dampening : float
        Share of the gradient withheld from the buffer of SGD, in [0, 1].
    nesterov : bool
        Whether SGD looks ahead.
    """

    gradient: Array | None
    step: int
    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float | Array = 0.0
    clip_coefficient: float = 1.0
    maximize: bool = False
    skipped: bool = False
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        def fix(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for name in ("maximize", "skipped", "nesterov"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise BadUpdate(f"{name} = {value!r} is no truth value; allowed: True, False")
            fix(name, bool(value))
        fix("step", whole("step", self.step, at_least=0 if self.skipped else 1))
        fix("lr", _real("lr", self.lr, 0.0, math.inf))
        if len(self.betas) != 2:
            raise BadUpdate(f"betas = {self.betas!r} must be two numbers; allowed: each in [0, 1)")
        fix("betas", tuple(_real("betas", b, 0.0, 1.0, open_high=True) for b in self.betas))
        fix("eps", _real("eps", self.eps, 0.0, math.inf))
        fix("clip_coefficient", _real("clip_coefficient", self.clip_coefficient, 0.0, 1.0))
        fix("momentum", _real("momentum", self.momentum, 0.0, 1.0, open_high=True))
        fix("dampening", _real("dampening", self.dampening, 0.0, 1.0))
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise BadUpdate(
                f"nesterov with momentum = {self.momentum:g} and dampening = {self.dampening:g};"
                " allowed: momentum above 0 and dampening 0"
            )
        if isinstance(self.weight_decay, np.ndarray) and self.weight_decay.ndim:
            decay = self.weight_decay
            if decay.dtype.kind != "f":
                raise BadUpdate(
                    f"weight_decay is an array of {decay.dtype}; allowed: coefficients of a"
                    " floating type, not a mask of truth values"
                )
            if not np.isfinite(decay).all() or (decay < 0).any():
                raise BadUpdate(
                    "weight_decay holds an element that is negative or not finite;"
                    " allowed: finite, at least 0 (pure number)"
                )
        else:
            fix("weight_decay", _real("weight_decay", self.weight_decay, 0.0, math.inf))
        if self.gradient is None:
            if not self.skipped:
                raise BadUpdate(f"gradient of step {self.step} is missing; allowed: an array")
        elif not isinstance(self.gradient, np.ndarray) or self.gradient.dtype.kind != "f":
            raise BadUpdate(
                f"gradient of step {self.step} is no array of a floating type;"
                " allowed: float16, float32 or float64"
            )

    def effective_gradient(self, like: Array) -> Array:
        """Gradient as the optimizer used it: in the state's type, clipped, with its sign.

        Parameters
        ----------
        like : ndarray
            An array of the state: gives shape and type.

        Returns
        -------
        ndarray
            Same shape and type as ``like``; not to be written to.

        Raises
        ------
        BadUpdate
            If the shapes differ or the gradient's type is wider than the state's.
        """
        gradient = self.gradient
        if gradient is None:
            raise BadUpdate(f"gradient of step {self.step} is missing; allowed: an array")
        if gradient.shape != like.shape or not np.can_cast(gradient.dtype, like.dtype, "safe"):
            raise BadUpdate(
                f"gradient of step {self.step} is {gradient.dtype} of shape {gradient.shape}; "
                f"allowed: the shard's shape {like.shape} and a type no wider than {like.dtype}"
            )
        gradient = gradient.astype(like.dtype, copy=False)
        if self.clip_coefficient != 1.0:
            gradient = gradient * self.clip_coefficient
        return -gradient if self.maximize else gradient

    def decay(self, like: Array) -> float | NDArray[np.float64]:
        """Weight decay in double precision, as a number or as an array of the shard's shape.

        Parameters
        ----------
        like : ndarray
            An array of the state: gives the shape.

        Returns
        -------
        float or ndarray of float64
            The coefficient, not yet multiplied by the learning rate.

        Raises
        ------
        BadUpdate
            If a mask has another shape than the shard.
        """
        if isinstance(self.weight_decay, np.ndarray):
            if self.weight_decay.shape != like.shape:
                raise BadUpdate(
                    f"weight_decay has shape {self.weight_decay.shape};"
                    f" allowed: a number or the shard's shape {like.shape}"
                )
            return self.weight_decay.astype(np.float64)
        return self.weight_decay

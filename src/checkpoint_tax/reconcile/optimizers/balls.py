"""Numbers known up to an error: a midpoint and a radius per element, in double precision.

A rounded operation ``r = fl(x)`` fixes x only up to half a unit in the last place of r, so the
state before a step is a set, not a point. Each optimizer describes its inverse on such sets once;
the set then bounds the error of any way to evaluate the inverse, over any number of steps, without
a separate analysis. The radii also carry the rounding of the double-precision work itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Float64Array: TypeAlias = NDArray[np.float64]

# Three roundings of double precision cover what any one operation below does to its midpoint and
# radius; the factor is applied to both.
_SLACK = 2.0**-51


@dataclass(frozen=True, eq=False)
class Rounding:
    """Rounding to nearest of one floating type.

    Attributes
    ----------
    dtype : dtype
        The type.
    unit : float
        Largest relative error of one operation in the normal range, ``2^-24`` for float32.
    floor : float
        Largest absolute error below it: half the smallest subnormal number, more for float64.
    smallest_normal : float
        Where the normal range begins.
    """

    dtype: np.dtype[Any]
    unit: float
    floor: float
    smallest_normal: float

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> Rounding:
        """Rounding of a NumPy floating type.

        Parameters
        ----------
        dtype : dtype
            float16, float32 or float64.

        Returns
        -------
        Rounding
            Its constants.
        """
        info = np.finfo(dtype)
        # The double-precision work underflows like double-precision states do, so there the
        # floor has to cover both.
        shares = 0.5 if info.bits < 64 else 4.0
        floor = shares * float(info.smallest_subnormal)
        return cls(np.dtype(dtype), float(info.eps) / 2, floor, float(info.smallest_normal))


@dataclass(frozen=True, eq=False)
class Ball:
    """All numbers within a distance of a midpoint, element by element.

    Attributes
    ----------
    mid : ndarray of float64
        Midpoints.
    radius : ndarray of float64
        Largest distances, broadcastable to ``mid``; infinity or NaN means that nothing is known.
    """

    mid: Float64Array
    radius: Float64Array

    @classmethod
    def exact(cls, value: Any) -> Ball:
        """Numbers known exactly.

        Parameters
        ----------
        value : array_like
            Numbers that double precision holds.

        Returns
        -------
        Ball
            Radius 0.
        """
        mid = np.asarray(value, dtype=np.float64)
        return cls(mid, np.zeros_like(mid))

    @property
    def most(self) -> Float64Array:
        """Largest magnitude in the ball."""
        return np.abs(self.mid) + self.radius

    @property
    def least(self) -> Float64Array:
        """Smallest magnitude in the ball."""
        return np.maximum(np.abs(self.mid) - self.radius, 0.0)

    def _of(self, mid: Float64Array, radius: Float64Array) -> Ball:
        return Ball(mid, radius * (1 + _SLACK) + np.abs(mid) * _SLACK)

    def __neg__(self) -> Ball:
        return Ball(-self.mid, self.radius)

    def __add__(self, other: Ball) -> Ball:
        return self._of(self.mid + other.mid, self.radius + other.radius)

    def __sub__(self, other: Ball) -> Ball:
        return self + -other

    def __mul__(self, other: Ball) -> Ball:
        radius = np.abs(self.mid) * other.radius + self.radius * other.most
        return self._of(self.mid * other.mid, radius)

    def __truediv__(self, other: Ball) -> Ball:
        mid = self.mid / other.mid
        # A divisor that may be zero leaves a quotient of which nothing is known.
        known = np.abs(other.mid) > other.radius
        radius = (self.radius + np.abs(mid) * other.radius) / np.where(known, other.least, 1.0)
        return self._of(mid, np.where(known, radius, np.inf))

    def root(self) -> Ball:
        """Square root of the part of the ball that is not negative.

        Returns
        -------
        Ball
            Nothing is known of the root where the whole ball is negative.
        """
        high = np.sqrt(self.mid + self.radius)
        low = np.sqrt(np.maximum(self.mid - self.radius, 0.0))
        mid = (high + low) / 2
        return Ball(mid, (high - low) / 2 + 2 * _SLACK * high)

    def sign(self) -> Ball:
        """Sign, certain only where the ball does not reach both sides of zero.

        Returns
        -------
        Ball
            Midpoint -1, 0 or 1 with radius 0 where certain, else 0 with radius 1.
        """
        certain = (np.abs(self.mid) > self.radius) | ((self.mid == 0) & (self.radius == 0))
        return Ball(np.where(certain, np.sign(self.mid), 0.0), np.where(certain, 0.0, 1.0))

    def widened(self, radius: Any) -> Ball:
        """The ball with a larger radius.

        Parameters
        ----------
        radius : array_like
            What is added, not negative.

        Returns
        -------
        Ball
            Same midpoints.
        """
        return Ball(self.mid, (self.radius + radius) * (1 + _SLACK))

    def rounded(self, rounding: Rounding, operations: int = 1) -> Ball:
        """Where rounding may have moved the number to, or from: to nearest is symmetric here.

        Parameters
        ----------
        rounding : Rounding
            Of the type the operation was done in.
        operations : int
            How many roundings of about this number.

        Returns
        -------
        Ball
            Same midpoints.
        """
        # |fl(x) - x| is at most unit |x| and at most unit |fl(x)|; two roundings compound, which
        # the small factor covers for any count below a thousand.
        move = operations * (rounding.unit * self.most * (1 + 1e-3) + rounding.floor)
        return self.widened(move)

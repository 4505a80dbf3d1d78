"""What a reconciliation ships: gradient slices, bytes per parameter, and the age of its result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from checkpoint_tax.reconcile.errors import BadWindow
from checkpoint_tax.reconcile.updates import whole
from checkpoint_tax.reconcile.window import targets

Target: TypeAlias = Literal["newest", "median", "oldest"]

BF16_BYTES = 2
FP32_BYTES = 4
# Weights and two moments in fp32; a bf16 copy of the weights on top in mixed precision.
STATE_BYTES = 12
STATE_WITH_BF16_COPY_BYTES = 14


def slices(versions: Sequence[int], target: int, sizes: Sequence[float] | None = None) -> float:
    """Gradient bytes needed, in units of the parameters' bytes in the gradient's type.

    Parameters
    ----------
    versions : sequence of int
        Captured versions [iterations], at least one.
    target : int
        Version to reach [iterations].
    sizes : sequence of float, optional
        Parameters of each shard; equal when left out.

    Returns
    -------
    float
        ``sum_i size_i |v_i - T| / sum_i size_i``.

    Raises
    ------
    BadWindow
        If there are no versions, or sizes that do not fit them.
    """
    targets(versions, sizes)
    weights = [1.0] * len(versions) if sizes is None else list(sizes)
    total = math.fsum(weights)
    if total == 0:
        raise BadWindow("sizes are all 0; allowed: at least one above 0 (parameters)")
    return math.fsum(w * abs(v - target) for v, w in zip(versions, weights, strict=True)) / total


def consecutive_slices(window_steps: int, target: Target) -> float:
    """Gradient traffic of S equal shards captured at S consecutive steps.

    Linear in the window: ``(S-1)/2`` to the newest or the oldest, ``S/4`` to the median of an
    even S and ``(S^2-1)/(4S)`` of an odd one. The volume is quadratic only where it is counted in
    shards, whose size shrinks as the window grows.

    Parameters
    ----------
    window_steps : int
        S, at least 1 [steps].
    target : {"newest", "median", "oldest"}
        Version to reach.

    Returns
    -------
    float
        In units of the parameters' bytes in the gradient's type.

    Raises
    ------
    BadWindow
        For an unknown target.
    """
    s = whole("window_steps", window_steps, at_least=1)
    if target in ("newest", "oldest"):
        return (s - 1) / 2
    if target != "median":
        raise BadWindow(f"target = {target!r} is not known; allowed: 'newest', 'median', 'oldest'")
    return s / 4 if s % 2 == 0 else (s * s - 1) / (4 * s)


def median_ratio(window_steps: int) -> float:
    """Traffic to the median as a share of the traffic to the newest, for consecutive steps.

    Parameters
    ----------
    window_steps : int
        S, at least 2 [steps].

    Returns
    -------
    float
        ``S / (2 (S-1))`` for even S, ``(S+1) / (2 S)`` for odd; 1/2 in the limit.

    Raises
    ------
    BadUpdate
        If the window is a single step, which ships nothing.
    """
    s = whole("window_steps", window_steps, at_least=2)
    return consecutive_slices(s, "median") / consecutive_slices(s, "newest")


def replay_bytes_per_parameter(
    window_steps: int, target: Target, *, gradient_bytes: int = BF16_BYTES
) -> float:
    """Gradient bytes shipped per parameter of the model.

    Parameters
    ----------
    window_steps : int
        S, at least 1 [steps].
    target : {"newest", "median", "oldest"}
        Version to reach.
    gradient_bytes : int
        Bytes of one gradient element: 2 for bf16, 4 for fp32.

    Returns
    -------
    float
        Bytes per parameter; ``S - 1`` for bf16 gradients and the newest target.

    Raises
    ------
    ReconcileError
        If an input is out of range.
    """
    width = whole("gradient_bytes", gradient_bytes, at_least=1, unit="bytes")
    return width * consecutive_slices(window_steps, target)


def window_passing_state_steps(
    target: Target, *, gradient_bytes: int = BF16_BYTES, state_bytes: int = STATE_BYTES
) -> int:
    """Smallest window whose gradients weigh as much as the state they repair.

    Parameters
    ----------
    target : {"newest", "median", "oldest"}
        Version to reach.
    gradient_bytes : int
        Bytes of one gradient element: 2 for bf16, 4 for fp32.
    state_bytes : int
        Bytes of state per parameter: 12 for fp32 weights and moments, 14 with a bf16 copy.

    Returns
    -------
    int
        Smallest S with replay bytes at or above the state's [steps].

    Raises
    ------
    ReconcileError
        If an input is out of range.
    """
    size = whole("state_bytes", state_bytes, at_least=1, unit="bytes")
    s = 1
    while replay_bytes_per_parameter(s, target, gradient_bytes=gradient_bytes) < size:
        s += 1
    return s


def age_steps(window_steps: int, target: Target) -> int:
    """How many steps older the restored state is than the newest one of the window.

    Parameters
    ----------
    window_steps : int
        S, at least 1 [steps].
    target : {"newest", "median", "oldest"}
        Version restored.

    Returns
    -------
    int
        0 for the newest, ``S - 1`` for the oldest, about half for the median [steps].

    Raises
    ------
    ReconcileError
        If an input is out of range.
    """
    s = whole("window_steps", window_steps, at_least=1)
    consecutive_slices(s, target)
    named = targets(range(s))
    return named.newest - int(getattr(named, target))

"""Capture windows: shards taken at different steps, and the way to one step for all of them.

Shard i is captured at version v_i, the number of iterations done; skipped iterations count. The
updates between the captured versions and the target T are shipped: ``|v_i - T|`` slices for a
shard, so the cheapest T is a median of the versions, weighted by the shards' sizes. A shard that
was captured after T has to be rolled back, so one that may not be forces ``T >= v_i``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from checkpoint_tax.reconcile.errors import (
    BadWindow,
    MissingUpdate,
    NonFiniteState,
    NoTarget,
    SecondMomentLost,
    StepMismatch,
)
from checkpoint_tax.reconcile.gate import Rollback, checked_tolerance, rollbacks
from checkpoint_tax.reconcile.optimizers.optimizer import Optimizer, state_arrays
from checkpoint_tax.reconcile.optimizers.states import State
from checkpoint_tax.reconcile.updates import Update, whole

S = TypeVar("S", bound=State)
ShardName: TypeAlias = Hashable


class Targets(NamedTuple):
    """The three named versions of a window."""

    newest: int
    median: int
    oldest: int


@dataclass(frozen=True, eq=False)
class Capture(Generic[S]):
    """One shard as the drain copied it.

    Attributes
    ----------
    shard : hashable
        Name of the shard.
    version : int
        Iterations done when it was copied, skipped ones included.
    state : AdamState or MomentumState
        Its state, whose ``t`` counts the steps that were not skipped.
    """

    shard: ShardName
    version: int
    state: S

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "version", whole("version", self.version, at_least=0, unit="iterations")
        )


@dataclass(frozen=True, eq=False)
class Window(Generic[S]):
    """Captured shards, and the updates shipped beside them.

    Attributes
    ----------
    captures : tuple of Capture
        One per shard, at least one.
    updates : mapping
        ``updates[shard][k]`` is the update of that shard from version ``k - 1`` to ``k``.
    """

    captures: tuple[Capture[S], ...]
    updates: Mapping[ShardName, Mapping[int, Update]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "captures", tuple(self.captures))
        names = [capture.shard for capture in self.captures]
        if not names:
            raise BadWindow("captures = () holds no shard; allowed: at least one (shards)")
        if len(set(names)) < len(names):
            raise BadWindow(f"captures = {names} names a shard twice; allowed: each once (shards)")

    @property
    def versions(self) -> list[int]:
        """Version of each capture."""
        return [capture.version for capture in self.captures]

    @property
    def sizes(self) -> list[int]:
        """Number of parameters of each capture."""
        return [int(capture.state.p.size) for capture in self.captures]

    def path(self, capture: Capture[S], target: int) -> list[Update]:
        """Updates between a capture and a target, in the order in which they are to be used.

        Parameters
        ----------
        capture : Capture
            One of the window's.
        target : int
            Version to reach.

        Returns
        -------
        list of Update
            The earliest first on the way forward, the latest first on the way back.

        Raises
        ------
        MissingUpdate
            If a slice was not shipped.
        """
        shipped = self.updates.get(capture.shard, {})
        if target >= capture.version:
            wanted = list(range(capture.version + 1, target + 1))
        else:
            wanted = list(range(capture.version, target, -1))
        for version in wanted:
            if version not in shipped:
                raise MissingUpdate(
                    f"update of shard {capture.shard!r} to version {version} is not in the window;"
                    f" allowed: every version between {capture.version} and {target} (iterations)"
                )
        return [shipped[version] for version in wanted]


@dataclass(frozen=True, eq=False)
class Reconciled(Generic[S]):
    """All shards at one version.

    Attributes
    ----------
    states : dict
        State per shard name.
    target : int
        Version reached.
    asked : str or int
        Target asked for; "median" may have been moved up by the gate.
    traffic : float
        Gradient bytes shipped, in units of the parameters' bytes in the same type.
    promised_error : dict of str to float
        Largest error of any element per array of the state, as a fraction of its scale (see
        `checkpoint_tax.reconcile.gate`); 0 where all shards were replayed forwards.
    promised_by_shard : dict
        The same per shard that was rolled back.
    gated : tuple
        Shards that could not be rolled back as far as the target asked for.
    """

    states: dict[ShardName, S]
    target: int
    asked: str | int
    traffic: float
    promised_error: dict[str, float]
    promised_by_shard: dict[ShardName, dict[str, float]]
    gated: tuple[ShardName, ...] = ()


def torn_state(window: Window[S]) -> dict[ShardName, S]:
    """The captured shards side by side, each at its own version: what a careless load restores.

    Parameters
    ----------
    window : Window
        Any window.

    Returns
    -------
    dict
        State per shard name.
    """
    return {capture.shard: capture.state for capture in window.captures}


def best_target(
    versions: Sequence[int],
    sizes: Sequence[float] | None = None,
    *,
    floors: Iterable[int] = (),
) -> int:
    """Version that the fewest gradient slices lead to, under floors.

    Parameters
    ----------
    versions : sequence of int
        Captured versions [iterations], at least one; need not be consecutive nor sorted.
    sizes : sequence of float, optional
        Weight of each shard, its number of parameters; equal when left out.
    floors : iterable of int
        Versions that the target may not go below.

    Returns
    -------
    int
        The newest T that minimises ``sum_i size_i |v_i - T|`` subject to ``T >= floor``.

    Raises
    ------
    BadWindow
        If there are no versions, or sizes that do not fit them.
    """
    taken = [whole("version", v, at_least=0, unit="iterations") for v in versions]
    weights = [1.0] * len(taken) if sizes is None else [float(size) for size in sizes]
    if not taken or len(weights) != len(taken):
        raise BadWindow(
            f"{len(weights)} sizes for {len(taken)} versions;"
            " allowed: as many as versions, at least one (shards)"
        )
    if not all(0 <= weight < np.inf for weight in weights):
        raise BadWindow(f"sizes = {weights} is refused; allowed: finite, at least 0 (parameters)")
    # The sum is convex and piecewise linear with its corners at the versions: its right-hand
    # slope at T is the weight at or below T less the weight above, and the newest minimiser is
    # the first version at which that slope is positive.
    order = sorted(zip(taken, weights, strict=True))
    total = sum(weights)
    below = 0.0
    median = order[-1][0]
    for version, weight in order:
        below += weight
        if 2 * below > total:
            median = version
            break
    return max([median, *floors])


def targets(versions: Sequence[int], sizes: Sequence[float] | None = None) -> Targets:
    """The newest, median and oldest version of a window.

    Parameters
    ----------
    versions : sequence of int
        Captured versions [iterations], at least one.
    sizes : sequence of float, optional
        Weight of each shard; equal when left out.

    Returns
    -------
    Targets
        The median is weighted; of several equally cheap ones it is the newest, which is both the
        freshest and the one with the least to roll back.

    Raises
    ------
    BadWindow
        If there are no versions, or sizes that do not fit them.
    """
    median = best_target(versions, sizes)
    return Targets(max(versions), median, min(versions))


def _refuse_unusable(capture: Capture[S], what: str, state: S) -> None:
    for name, value in state_arrays(state).items():
        if not np.isfinite(value).all():
            at = int(np.flatnonzero(~np.isfinite(value))[0])
            raise NonFiniteState(
                f"{name} = {value.flat[at]} at element {at} of shard {capture.shard!r} {what};"
                " allowed: finite"
            )
        if name == "v" and (value < 0).any():
            at = int(np.flatnonzero(value < 0)[0])
            raise SecondMomentLost(
                f"v = {value.flat[at]:g} at element {at} of shard {capture.shard!r} {what};"
                " allowed: at least 0"
            )


def _refuse_gradients(capture: Capture[S], path: Sequence[Update]) -> None:
    for update in path:
        gradient = update.gradient
        if not update.skipped and gradient is not None and not np.isfinite(gradient).all():
            raise NonFiniteState(
                f"gradient of step {update.step} of shard {capture.shard!r} is not finite, and the"
                " step was not skipped; allowed: finite"
            )


def _rolled_back(
    window: Window[S], capture: Capture[S], target: int, optimizer: Optimizer[S]
) -> list[Rollback[S]]:
    path = window.path(capture, target)
    _refuse_gradients(capture, path)
    return list(rollbacks(capture.state, path, optimizer))


def lowest_version(
    window: Window[S],
    capture: Capture[S],
    target: int,
    optimizer: Optimizer[S],
    tolerance: float | None,
) -> int:
    """Lowest version, not below a target, that a captured shard may be rolled back to.

    Parameters
    ----------
    window : Window
        The window of the capture.
    capture : Capture
        A shard.
    target : int
        Where to stop trying [iterations].
    optimizer : Optimizer
        The one that made the steps.
    tolerance : float or None
        Largest error allowed as a fraction of each element's scale; None for any up to 1.

    Returns
    -------
    int
        The captured version itself for a shard that may not be rolled back at all.
    """
    lowest = capture.version
    # A slice that is not there or not finite stops the way back where it stands.
    path = _usable(window, capture, target)
    for rollback in rollbacks(capture.state, path, optimizer):
        if rollback.refusal(tolerance) is not None:
            break
        lowest = capture.version - rollback.updates_undone
    return lowest


def _usable(window: Window[S], capture: Capture[S], target: int) -> list[Update]:
    usable: list[Update] = []
    for version in range(capture.version, target, -1):
        update = window.updates.get(capture.shard, {}).get(version)
        if update is None:
            break
        gradient = update.gradient
        if not update.skipped and gradient is not None and not np.isfinite(gradient).all():
            break
        usable.append(update)
    return usable


def reconcile(
    window: Window[S],
    target: str | int,
    optimizer: Optimizer[S],
    tolerance: float | None = None,
) -> Reconciled[S]:
    """Bring every shard of a window to one version.

    Parameters
    ----------
    window : Window
        Captured shards and shipped updates.
    target : {"newest", "median", "oldest"} or int
        Version to reach. "median" is the cheapest version that the gate allows: where a shard
        may not be rolled back to the median, the cheapest at or above where it may go. The other
        targets are reached or refused.
    optimizer : Optimizer
        The one that made the steps.
    tolerance : float, optional
        Largest error allowed for any element of a rolled-back shard, as a fraction of its scale
        (see `checkpoint_tax.reconcile.gate`). Without one, any promised error up to 1 is
        accepted, and the promise says how large it is.

    Returns
    -------
    Reconciled
        States, bit for bit where a shard was replayed forwards, and the promised error.

    Raises
    ------
    ReconcileError
        By name, whatever stands in the way: a missing slice, a step count that does not fit, the
        first step, a number that is not finite, a second moment that cancels, an update without
        an inverse, or an error above the tolerance.
    """
    checked_tolerance(tolerance)
    for capture in window.captures:
        optimizer.check(capture.state)
        _refuse_unusable(capture, "as captured", capture.state)
    named = targets(window.versions, window.sizes)
    gated: tuple[ShardName, ...] = ()
    if isinstance(target, str):
        if target not in Targets._fields:
            raise NoTarget(
                f"target = {target!r} is not known; allowed: 'newest', 'median', 'oldest' or a"
                " version (iterations)"
            )
        version = int(getattr(named, target))
        if target == "median":
            floors = [
                lowest_version(window, capture, version, optimizer, tolerance)
                for capture in window.captures
            ]
            pairs = zip(window.captures, floors, strict=True)
            gated = tuple(
                capture.shard for capture, low in pairs if version < low <= capture.version
            )
            version = best_target(window.versions, window.sizes, floors=floors)
    else:
        version = whole("target", target, at_least=0, unit="iterations")
    return _at(window, version, target, optimizer, tolerance, gated)


def _at(
    window: Window[S],
    version: int,
    asked: str | int,
    optimizer: Optimizer[S],
    tolerance: float | None,
    gated: tuple[ShardName, ...],
) -> Reconciled[S]:
    states: dict[ShardName, S] = {}
    promised: dict[ShardName, dict[str, float]] = {}
    shipped = 0
    for capture in window.captures:
        path = window.path(capture, version)
        _refuse_gradients(capture, path)
        shipped += capture.state.p.size * sum(not update.skipped for update in path)
        if version >= capture.version:
            with np.errstate(all="ignore"):
                state = optimizer.replay(capture.state, path)
            _refuse_unusable(capture, f"replayed to version {version}", state)
        else:
            steps = _rolled_back(window, capture, version, optimizer)
            for rollback in steps:
                refusal = rollback.refusal(tolerance)
                if refusal is not None:
                    raise type(refusal)(f"shard {capture.shard!r} at version {version}: {refusal}")
            state = steps[-1].state
            promised[capture.shard] = steps[-1].worst
        states[capture.shard] = state
    _refuse_different_counts(states, version)
    total = sum(window.sizes)
    arrays = state_arrays(next(iter(states.values())))
    worst = {
        name: max((error[name] for error in promised.values()), default=0.0) for name in arrays
    }
    traffic = shipped / total if total else 0.0
    return Reconciled(states, version, asked, traffic, worst, promised, gated)


def _refuse_different_counts(states: Mapping[ShardName, S], version: int) -> None:
    counts = {int(state.t) for state in states.values()}
    if len(counts) > 1:
        raise StepMismatch(
            f"t = {sorted(counts)} steps at version {version} in one window; allowed: one count"
        )

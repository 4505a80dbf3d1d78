"""Replay of AdamW on the host, bit for bit what PyTorch's CPU optimizers compute.

PyTorch's three implementations do not compute the same bits, nor does one of them on two machines:
a `Variant` says which order of operations applies. `reconcile.torch_probe` finds the one that the
installed library runs; nothing here needs the library.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from checkpoint_tax.reconcile import adamw_kernels as kernels
from checkpoint_tax.reconcile.errors import BadUpdate, BadWindow, StepMismatch
from checkpoint_tax.reconcile.optimizers import AdamState
from checkpoint_tax.reconcile.updates import Update, whole

__all__ = ["Placement", "Variant", "replay"]

_ROOTS = {"ieee": kernels.IEEE, "library": kernels.LIBRARY, "reciprocal": kernels.RECIPROCAL}
_THREAD_SHARE = 64 * kernels.BLOCK
"""Fewest elements worth a thread."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Variant:
    """Order of operations of one implementation on one machine.

    Attributes
    ----------
    fused_multiply_add : bool
        Whether products that feed a sum are left unrounded.
    root : str
        ``"ieee"``: correctly rounded. ``"library"``: the vector library's function at
        ``root_function``. ``"reciprocal"``: the same bits as the library's, computed here from
        the x86 estimate of a reciprocal root; values outside its main path still go to
        ``root_function``.
    root_function : int
        Address in this process of ``function(n, source, target, mode)``; 0 for ``"ieee"``.
    tail_width : int
        The last ``numel % tail_width`` elements of a tensor take the scalar order; 0 for none.
    """

    fused_multiply_add: bool = True
    root: Literal["ieee", "library", "reciprocal"] = "ieee"
    root_function: int = 0
    tail_width: int = 0

    def __post_init__(self) -> None:
        if self.root not in _ROOTS:
            raise BadWindow(f"root = {self.root!r}; allowed: {', '.join(_ROOTS)}")
        if (self.root != "ieee") != (self.root_function != 0):
            raise BadWindow(
                f"root_function = {self.root_function} (address) with root = {self.root!r};"
                " allowed: 0 for ieee, the address of a function otherwise"
            )
        whole("tail_width", self.tail_width, at_least=0, unit="elements")


@dataclass(frozen=True)
class Placement:
    """Where a shard lies in the tensor that the optimizer stepped.

    Only the fused optimizer needs it: its scalar end is at the tensor's end, not at the shard's.

    Attributes
    ----------
    offset : int
        Position of the shard's first element in the flattened tensor [elements].
    numel : int or None
        Elements of the whole tensor; None for a shard that reaches its end.
    """

    offset: int = 0
    numel: int | None = None

    def tail_start(self, size: int, width: int) -> int:
        """First element of the shard that belongs to the tensor's scalar end.

        Parameters
        ----------
        size : int
            Elements of the shard.
        width : int
            Vector width of the scalar end, 0 for none.

        Returns
        -------
        int
            Position in the shard, in [0, size].

        Raises
        ------
        BadWindow
            If the shard does not fit into the tensor.
        """
        offset = whole("offset", self.offset, at_least=0, unit="elements")
        numel = offset + size if self.numel is None else self.numel
        if whole("numel", numel, at_least=0, unit="elements") < offset + size:
            raise BadWindow(
                f"numel = {numel} elements is too small for a shard of {size} at {offset};"
                f" allowed: at least {offset + size}"
            )
        if width == 0:
            return size
        return min(max(numel - numel % width - offset, 0), size)


WHOLE = Placement()


def _rounded(value: float) -> np.float32:
    return np.float32(value)


def step_row(update: Update, decay: float, variant: Variant) -> Floats:
    """Numbers of one step, formed in double precision as the library forms them.

    Parameters
    ----------
    update : Update
        The step.
    decay : float
        Its weight decay.
    variant : Variant
        Decides whether the division by a constant may be replaced.

    Returns
    -------
    ndarray of float32
        The row that `adamw_kernels.take_step` reads.
    """
    (b1, b2), t = update.betas, update.step
    w1 = _rounded(1 - b1)
    high = not abs(w1) < 0.5
    rb = _rounded((1 - b2**t) ** 0.5)
    scale = -update.clip_coefficient if update.maximize else update.clip_coefficient
    return np.array(
        [
            1 - update.lr * decay,
            w1 - _rounded(1) if high else w1,
            b2,
            1 - b2,
            rb,
            # Markstein: from a rounded reciprocal two fused operations divide exactly.
            _rounded(1) / rb if variant.fused_multiply_add else 0.0,
            -(update.lr / (1 - b1**t)),
            update.eps,
            scale,
            float(high),
        ],
        np.float32,
    )


def applied(updates: Sequence[Update], t: int) -> list[Update]:
    """The updates that change anything, checked to follow one another from step ``t``.

    Parameters
    ----------
    updates : sequence of Update
        In the order in which they were made.
    t : int
        Step count before the first of them.

    Returns
    -------
    list of Update
        Without the skipped ones.

    Raises
    ------
    StepMismatch
        If a step is missing, repeated or out of order.
    """
    taken = []
    for update in updates:
        if update.step != t + (not update.skipped):
            raise StepMismatch(
                f"update at step {update.step} follows a state at step {t}; allowed: "
                f"step {t} if it was skipped, else step {t + 1}"
            )
        if not update.skipped:
            taken.append(update)
            t = update.step
    return taken


def flat_float32(name: str, array: NDArray[Any], size: int | None = None) -> Floats:
    """A contiguous flat view (or copy) of an array, which must be float32.

    Parameters
    ----------
    name : str
        Name for messages.
    array : ndarray
        Any shape.
    size : int or None
        Number of elements it must have.

    Returns
    -------
    ndarray of float32
        One-dimensional.

    Raises
    ------
    BadWindow
        If the type or the size is another one.
    """
    if array.dtype != np.float32 or (size is not None and array.size != size):
        wanted = "float32" if size is None else f"float32, {size} elements"
        raise BadWindow(f"{name} is {array.dtype} of {array.size} elements; allowed: {wanted}")
    return np.ascontiguousarray(array).reshape(-1)


def gradient_addresses(
    updates: Sequence[Update], size: int
) -> tuple[list[Floats], NDArray[np.uintp]]:
    """Gradients as flat float32 arrays and their addresses.

    Parameters
    ----------
    updates : sequence of Update
        None of them skipped.
    size : int
        Elements of the shard.

    Returns
    -------
    list of ndarray
        To be kept alive while the addresses are used.
    ndarray of uintp
        One address per update.

    Raises
    ------
    BadUpdate
        If a gradient has another size or is wider than float32.
    """
    kept = []
    for update in updates:
        gradient = update.gradient
        if gradient is None or gradient.size != size or gradient.dtype.itemsize > 4:
            found = "missing" if gradient is None else f"{gradient.dtype} of {gradient.size}"
            raise BadUpdate(
                f"gradient of step {update.step} is {found} elements; allowed: float16 or"
                f" float32, {size} elements"
            )
        kept.append(np.ascontiguousarray(gradient, np.float32).reshape(-1))
    return kept, np.array([g.ctypes.data for g in kept], np.uintp)


def decay_runs(updates: Sequence[Update], size: int) -> list[tuple[int, int, list[float]]]:
    """Stretches of the shard in which every step's weight decay is one number.

    Parameters
    ----------
    updates : sequence of Update
        None of them skipped.
    size : int
        Elements of the shard.

    Returns
    -------
    list of (int, int, list of float)
        First element, end and the decay of each step.

    Raises
    ------
    BadUpdate
        If a mask has another size than the shard.
    """
    masks: dict[int, NDArray[Any]] = {}
    cuts = {0, size}
    for k, update in enumerate(updates):
        if isinstance(update.weight_decay, np.ndarray):
            mask = update.weight_decay.reshape(-1)
            if mask.size != size:
                raise BadUpdate(
                    f"weight_decay of step {update.step} has {mask.size} elements;"
                    f" allowed: a number or {size} elements"
                )
            masks[k] = mask
            cuts.update((np.flatnonzero(mask[1:] != mask[:-1]) + 1).tolist())
    edges = sorted(cuts)
    return [
        (
            start,
            stop,
            [
                float(masks[k][start]) if k in masks else float(update.weight_decay)
                for k, update in enumerate(updates)
            ],
        )
        for start, stop in itertools.pairwise(edges)
    ]


def share_out(
    size: int,
    threads: int | None,
    work: Callable[[int, int], Any],
    *,
    unit: int = kernels.BLOCK,
) -> list[Any]:
    """Call ``work(start, stop)`` on stretches that cover a shard, each in a thread.

    Parameters
    ----------
    size : int
        Elements (or chunks) of the shard.
    threads : int or None
        Threads to use; None for as many as the process may run on.
    work : callable
        Releases the interpreter's lock.
    unit : int
        Stretches start at multiples of this.

    Returns
    -------
    list
        What the calls returned, in the order of the stretches.
    """
    if threads is None:
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    whole("threads", threads, at_least=1, unit="threads")
    units = -(-size // unit)
    workers = min(threads, size // _THREAD_SHARE if unit > 1 else units)
    if workers <= 1:
        return [work(0, size)]
    edges = [min(size, unit * (units * i // workers)) for i in range(workers + 1)]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, edges[:-1], edges[1:]))


def replay(
    state: AdamState,
    updates: Sequence[Update],
    *,
    variant: Variant,
    placement: Placement = WHOLE,
    threads: int | None = None,
    in_place: bool = False,
) -> AdamState:
    """Bring a shard forward through its updates, in one pass over memory.

    Parameters
    ----------
    state : AdamState
        Float32 arrays of one size.
    updates : sequence of Update
        The steps to take, each following the one before it.
    variant : Variant
        Order of operations.
    placement : Placement
        Where the shard lies in its tensor.
    threads : int or None
        Threads to use; None for as many as the process may run on. No bit depends on it.
    in_place : bool
        Whether to write into the given arrays, which must then be contiguous.

    Returns
    -------
    AdamState
        The state after the last update.

    Raises
    ------
    StepMismatch
        If the updates do not follow the state.
    BadUpdate, BadWindow
        If sizes or types do not fit.
    """
    taken = applied(updates, whole("t", state.t, at_least=0))
    size = state.p.size
    arrays = [flat_float32(n, a, size) for n, a in zip("pmv", state[:3], strict=True)]
    if in_place:
        for name, flat, given in zip("pmv", arrays, state[:3], strict=True):
            if not np.shares_memory(flat, given) and size:
                raise BadWindow(f"{name} is not contiguous; allowed in place: contiguous arrays")
        p, m, v = arrays
    elif taken:
        p, m, v = (np.empty_like(a) for a in arrays)
    else:
        p, m, v = (a.copy() for a in arrays)
    tail_start = placement.tail_start(size, variant.tail_width)
    kept, addresses = gradient_addresses(taken, size)
    root = _ROOTS[variant.root]

    if taken:
        for begin, end, decays in decay_runs(taken, size):
            rows = np.stack([step_row(u, d, variant) for u, d in zip(taken, decays, strict=True)])

            def work(start: int, stop: int, begin: int = begin, rows: Floats = rows) -> None:
                kernels.replay_range(
                    *arrays,
                    p,
                    m,
                    v,
                    addresses,
                    rows,
                    variant.fused_multiply_add,
                    root,
                    np.uintp(variant.root_function),
                    begin + start,
                    begin + stop,
                    tail_start,
                )

            share_out(end - begin, threads, work)
    del kept
    shape = state.p.shape
    t = taken[-1].step if taken else state.t
    return AdamState(p.reshape(shape), m.reshape(shape), v.reshape(shape), t)

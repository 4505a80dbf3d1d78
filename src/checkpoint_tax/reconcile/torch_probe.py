"""Which order of operations the installed PyTorch runs on this machine, found by asking it.

The same release computes other bits with other vector instructions, and its square root comes
from a vector library that picks its code by the processor's brand. So nothing is looked up: at
the first use a few random steps are taken by the library and by the variants of
`reconcile.replay`, and one that gives the same bits everywhere is kept. Where none does, replay is
done by the library itself, slower, and says so.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from checkpoint_tax.reconcile import adamw_kernels as kernels
from checkpoint_tax.reconcile.errors import BadWindow
from checkpoint_tax.reconcile.optimizers import AdamState
from checkpoint_tax.reconcile.replay import (
    WHOLE,
    Placement,
    Variant,
    applied,
    decay_runs,
    flat_float32,
    gradient_addresses,
    replay,
)
from checkpoint_tax.reconcile.updates import Update

__all__ = ["IMPLEMENTATIONS", "Implementation", "Replayer", "find_variant", "replayer"]

Implementation: TypeAlias = Literal["single", "foreach", "fused"]
IMPLEMENTATIONS: tuple[Implementation, ...] = get_args(Implementation)
"""The library's ``foreach=False``, ``foreach=True`` and ``fused=True``."""

_PROBE_SIZES = (4096 + 15, 40_000 + 9, 7)
"""Below and above the library's threshold for a second thread, and less than a vector; the first
two leave different rests for vectors of 8 and 16."""

_PERIOD = 64
"""Elements: a multiple of every vector width, so what lies before a shard counts modulo this."""


@dataclass(frozen=True)
class Replayer:
    """How to replay one of the library's implementations here.

    Attributes
    ----------
    implementation : str
        ``"single"``, ``"foreach"`` or ``"fused"``.
    variant : Variant or None
        Order of operations found; None if the library replays by itself.
    explanation : str
        One sentence for people.
    """

    implementation: Implementation
    variant: Variant | None
    explanation: str

    def __call__(
        self,
        state: AdamState,
        updates: Sequence[Update],
        *,
        placement: Placement = WHOLE,
        threads: int | None = None,
    ) -> AdamState:
        """Bring a shard forward through its updates, bit for bit as the library would.

        Parameters
        ----------
        state : AdamState
            Float32 arrays of one size.
        updates : sequence of Update
            The steps to take, each following the one before it.
        placement : Placement
            Where the shard lies in the tensor that the optimizer stepped.
        threads : int or None
            Threads to use; ignored where the library replays.

        Returns
        -------
        AdamState
            The state after the last update.
        """
        if self.variant is None:
            return replay_with_library(state, updates, self.implementation, placement)
        return replay(state, updates, variant=self.variant, placement=placement, threads=threads)


@functools.cache
def replayer(implementation: Implementation) -> Replayer:
    """Probe the installed library once and say how its steps are replayed.

    Parameters
    ----------
    implementation : {"single", "foreach", "fused"}
        Which of the library's optimizers stepped the state.

    Returns
    -------
    Replayer
        Callable; its ``explanation`` says what was found.

    Raises
    ------
    ImportError
        If PyTorch is not installed.
    BadWindow
        If there is no such implementation.
    """
    import torch

    variant = find_variant(implementation)
    library = f"PyTorch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"
    if variant is None:
        return Replayer(
            implementation,
            None,
            f"no known order of operations gives the bits of the {implementation} AdamW of"
            f" {library} on this machine: it replays by itself, slower",
        )
    products = "unrounded products" if variant.fused_multiply_add else "rounded products"
    root = {
        "ieee": "IEEE square root",
        "library": "the vector library's square root",
        "reciprocal": "the vector library's square root, recomputed",
    }[variant.root]
    tail = f", scalar tail of numel % {variant.tail_width}" if variant.tail_width else ""
    return Replayer(
        implementation,
        variant,
        f"the {implementation} AdamW of {library} is replayed with {products}, {root}{tail}",
    )


def vector_library_root() -> int:
    """Address of the vector library's square root inside the installed PyTorch.

    Returns
    -------
    int
        0 where there is none (builds without that library).
    """
    import torch

    for name in ("libtorch_cpu.so", "torch_cpu.dll", "libtorch_cpu.dylib"):
        path = Path(torch.__file__).parent / "lib" / name
        if path.exists():
            try:
                function = ctypes.CDLL(str(path)).vmsSqrt
            except (OSError, AttributeError):
                return 0
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


def _every_significand() -> NDArray[np.float32]:
    # The estimate scales by exact powers of 4, so two binades show every case of the main path.
    two_binades = np.arange(0x3F800000, 0x40800000, dtype=np.uint32)
    rng = np.random.default_rng(20)
    anywhere = rng.integers(0, 0x7F800000, 1 << 18, dtype=np.uint32)
    special = np.array([0, 1, 0x7FFFFF, 0x800000, 0x7F7FF000, 0x7F7FF001, 0x7F7FFFFF], np.uint32)
    return np.concatenate([two_binades, anywhere, special]).view(np.float32)


@functools.cache
def _root_can_be_recomputed(function: int) -> bool:
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        return False
    values = _every_significand()
    ours, theirs = np.empty_like(values), np.empty_like(values)
    kernels.library_roots(values, theirs, kernels.LIBRARY, np.uintp(function))
    kernels.library_roots(values, ours, kernels.RECIPROCAL, np.uintp(function))
    return bool(np.array_equal(ours.view(np.uint32), theirs.view(np.uint32)))


def candidates(implementation: Implementation) -> Iterator[Variant]:
    """Variants to try, the likeliest first.

    Parameters
    ----------
    implementation : {"single", "foreach", "fused"}
        Only the fused optimizer has a scalar end; only the others use the vector library.

    Yields
    ------
    Variant
        Each at most once.
    """
    if implementation == "fused":
        for width in (8, 16, 4, 0):
            yield Variant(tail_width=width)
        yield Variant(fused_multiply_add=False)
        return
    function = vector_library_root()
    for fused in (True, False):
        if function and _root_can_be_recomputed(function):
            yield Variant(fused, "reciprocal", function)
        elif function:
            yield Variant(fused, "library", function)
    for fused in (True, False):
        yield Variant(fused)


def _probe_steps(size: int, b1: float, b2: float) -> tuple[AdamState, list[Update]]:
    rng = np.random.default_rng(size)

    def draw(scale: float) -> NDArray[np.float32]:
        return (scale * rng.standard_normal(size) * np.exp(rng.normal(0, 1, size))).astype("f4")

    state = AdamState(draw(0.1), draw(0.01), draw(0.01) ** 2, 6)
    updates = []
    for step in range(7, 13):
        gradient = draw(1e-2 * 30.0 ** (step == 9))
        gradient[rng.random(size) < 0.02] = 0
        decay = 0.1 * (step % 3 > 0)
        updates.append(
            Update(gradient, step, 3e-4 * step, (b1, b2), 1e-8, decay, maximize=step == 11)
        )
    return state, updates


def same_bits(a: AdamState, b: AdamState) -> bool:
    """Whether two states hold the same bits and the same step.

    Parameters
    ----------
    a, b : AdamState
        Float32 states.

    Returns
    -------
    bool
        NaNs count as equal only if their bits are.
    """
    return a.t == b.t and all(
        np.array_equal(x.view(np.uint32), y.view(np.uint32))
        for x, y in zip(a[:3], b[:3], strict=True)
    )


def find_variant(implementation: Implementation) -> Variant | None:
    """Try the variants against the installed library.

    Parameters
    ----------
    implementation : {"single", "foreach", "fused"}
        Which of the library's optimizers.

    Returns
    -------
    Variant or None
        The first that gives the library's bits in every probe.

    Raises
    ------
    BadWindow
        If there is no such implementation.
    """
    if implementation not in IMPLEMENTATIONS:
        raise BadWindow(
            f"implementation = {implementation!r}; allowed: {', '.join(IMPLEMENTATIONS)}"
        )
    probes = []
    for size in _PROBE_SIZES:
        for b1, b2 in ((0.9, 0.95), (0.3, 0.999)):
            state, updates = _probe_steps(size, b1, b2)
            probes.append(
                (state, updates, replay_with_library(state, updates, implementation, WHOLE))
            )
    for variant in candidates(implementation):
        if all(
            same_bits(replay(state, updates, variant=variant, threads=1), found)
            for state, updates, found in probes
        ):
            return variant
    return None


def replay_with_library(
    state: AdamState,
    updates: Sequence[Update],
    implementation: Implementation,
    placement: Placement,
) -> AdamState:
    """Replay by the library's own optimizer, whatever its order of operations.

    Parameters
    ----------
    state : AdamState
        Float32 arrays of one size.
    updates : sequence of Update
        The steps to take, each following the one before it.
    implementation : {"single", "foreach", "fused"}
        Which of the library's optimizers.
    placement : Placement
        Where the shard lies in its tensor: it is padded so that its elements take the same
        vector or scalar code as there.

    Returns
    -------
    AdamState
        The state after the last update.
    """
    taken = applied(updates, state.t)
    size = state.p.size
    given = [flat_float32(name, a, size) for name, a in zip("pmv", state[:3], strict=True)]
    results = [np.empty(size, np.float32) for _ in range(3)]
    gradients, _ = gradient_addresses(taken, size)
    placement.tail_start(size, 0)
    numel = placement.offset + size if placement.numel is None else placement.numel
    t = state.t
    for start, stop, decays in decay_runs(taken, size) if taken else [(0, size, [])]:
        part = [
            replace(update, gradient=g[start:stop], weight_decay=decay)
            for update, g, decay in zip(taken, gradients, decays, strict=True)
        ]
        before, after = placement.offset + start, numel - placement.offset - stop
        front = before % _PERIOD
        back = after if after < _PERIOD else _PERIOD + after % _PERIOD
        stepped = _step_library(
            [a[start:stop] for a in given], t, part, implementation, front, back
        )
        for result, array in zip(results, stepped, strict=True):
            result[start:stop] = array
    shape = state.p.shape
    p, m, v = (result.reshape(shape) for result in results)
    return AdamState(p, m, v, taken[-1].step if taken else t)


def _step_library(
    arrays: Sequence[NDArray[np.float32]],
    t: int,
    updates: Sequence[Update],
    implementation: Implementation,
    front: int,
    back: int,
) -> list[NDArray[np.float32]]:
    import torch

    def padded(array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.pad(array, (front, back)).astype(np.float32, copy=False))

    weights = torch.nn.Parameter(padded(arrays[0]))
    optimizer = torch.optim.AdamW(
        [weights], foreach=implementation == "foreach", fused=implementation == "fused" or None
    )
    optimizer.state[weights] = {
        "step": torch.tensor(float(t)),
        "exp_avg": padded(arrays[1]),
        "exp_avg_sq": padded(arrays[2]),
    }
    for update in updates:
        optimizer.param_groups[0].update(
            lr=update.lr,
            betas=update.betas,
            eps=update.eps,
            weight_decay=update.weight_decay,
            maximize=update.maximize,
        )
        gradient = padded(np.asarray(update.gradient))
        if update.clip_coefficient != 1:
            gradient.mul_(update.clip_coefficient)
        weights.grad = gradient
        optimizer.step()
    kept = optimizer.state[weights]
    inner = slice(front, front + arrays[0].size)
    return [
        tensor.detach().numpy()[inner] for tensor in (weights, kept["exp_avg"], kept["exp_avg_sq"])
    ]

"""Measure replay and exact rollback against PyTorch, the post's formula and the machine's floors.

Every quantity is timed in turn, several rounds in one run, and compared by medians. Two clocks:
wall time on all cores, which others' work on the machine disturbs, and the processor time of one
thread, which it disturbs less. Floors of a k-step replay, per parameter: moving 4k + 24 bytes at
the speed of copying, and k divisions and square roots at the speed of a loop of nothing else.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from checkpoint_tax.compilation import kernel
from checkpoint_tax.reconcile.corrections import record, roll_back
from checkpoint_tax.reconcile.optimizers import AdamState, AdamWPost
from checkpoint_tax.reconcile.replay import Variant, replay
from checkpoint_tax.reconcile.updates import Update

SIZE = 1 << 23
ROUNDS = 5
COPY_BYTES = 1 << 26
CACHED = 2048
REPEATS = 2000
BETAS = (0.9, 0.95)
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1

Timed = Callable[[], object]


@kernel
def _divide_and_root(x, y, repeats):
    for _ in range(repeats):
        for i in range(x.shape[0]):
            y[i] = np.float32(1.5) / (np.sqrt(x[i]) + np.float32(1e-8))


def job(k: int) -> tuple[AdamState, list[Update]]:
    """A shard in the middle of training and its next k updates."""
    rng = np.random.default_rng(k)

    def noise(scale: float) -> np.ndarray:
        return rng.standard_normal(SIZE, dtype=np.float32) * np.float32(scale)

    state = AdamState(noise(0.02), noise(3e-4), noise(1e-3) ** 2, 300)
    updates = [
        Update(noise(1e-3), step, 3e-4, BETAS, weight_decay=0.1) for step in range(301, 301 + k)
    ]
    return state, updates


def floors(k: int, threads: int) -> tuple[Timed, Timed, float]:
    """Copying what a k-step replay moves, its divisions and roots, and the share timed of each."""
    source = np.ones(COPY_BYTES // 8, np.float64)
    target = np.ones_like(source)
    x = np.linspace(1, 2, CACHED, dtype=np.float32)

    def copy(part: int) -> None:
        part_of = slice(part * source.size // threads, (part + 1) * source.size // threads)
        target[part_of] = source[part_of]

    def root(part: int) -> None:
        _divide_and_root(x, np.empty_like(x), REPEATS)

    def on_all(work: Callable[[int], None]) -> Timed:
        if threads == 1:
            return lambda: work(0)
        return lambda: list(ThreadPoolExecutor(threads).map(work, range(threads)))

    moved = 2 * COPY_BYTES
    needed = (4 * k + 24) * SIZE
    return on_all(copy), on_all(root), needed / moved


def torch_steps(implementation: str, threads: int, k: int) -> Timed:
    """The library taking the same k steps."""
    import torch

    state, updates = job(k)
    weights = torch.nn.Parameter(torch.from_numpy(state.p.copy()))
    optimizer = torch.optim.AdamW(
        [weights],
        lr=3e-4,
        betas=BETAS,
        weight_decay=0.1,
        foreach=implementation == "foreach",
        fused=implementation == "fused" or None,
    )
    optimizer.state[weights] = {
        "step": torch.tensor(300.0),
        "exp_avg": torch.from_numpy(state.m.copy()),
        "exp_avg_sq": torch.from_numpy(state.v.copy()),
    }
    gradients = [torch.from_numpy(u.gradient) for u in updates]

    def run() -> None:
        torch.set_num_threads(threads)
        for gradient in gradients:
            weights.grad = gradient
            optimizer.step()

    return run


def post_steps(k: int) -> Timed:
    """The first post's formula in NumPy taking the same k steps."""
    state, updates = job(k)

    def run() -> None:
        found = state
        for update in updates:
            found = AdamWPost().step(found, update, update.gradient)

    return run


def timed(run: Timed, clock: Callable[[], float]) -> float:
    """Seconds of one call."""
    start = clock()
    run()
    return clock() - start


def measure(k: int, threads: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Times of everything for one k, in rounds."""
    from checkpoint_tax.reconcile.torch_probe import replayer

    state, updates = job(k)
    variants = {"as fused": Variant(), "as foreach": replayer("foreach").variant}
    runs: dict[str, Timed] = {}
    copy, root, copies = floors(k, threads)
    runs["floor: bytes at copying speed"] = copy
    runs["floor: divisions and roots"] = root
    for name, variant in variants.items():
        if variant is not None:
            own = AdamState(*(a.copy() for a in state[:3]), state.t)

            def ours(own: AdamState = own, variant: Variant = variant) -> None:
                replay(own, updates, variant=variant, threads=threads, in_place=True)

            runs[f"replay {name}"] = ours
    runs["torch fused"] = torch_steps("fused", threads, k)
    runs["torch foreach"] = torch_steps("foreach", threads, k)
    if threads == 1:
        runs["the post's NumPy"] = post_steps(k)

    later = state
    records = {}
    for update in updates:
        before, later = later, replay(later, [update], variant=Variant())
        records[update.step] = record(before, later, update)
    last, final = updates[-1], later
    runs["rollback with corrections"] = lambda: roll_back(final, updates, records, threads=threads)
    runs["recording corrections (one step)"] = lambda: record(before, final, last, threads=threads)

    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(ROUNDS + 1):
        for name, run in runs.items():
            took = timed(run, clock)
            if turn:
                times[name].append(took)
    bits = statistics.mean(r.bits_per_element for r in records.values())
    times["floor: bytes at copying speed"] = [
        t * copies for t in times["floor: bytes at copying speed"]
    ]
    roots_timed = CACHED * REPEATS * threads
    times["floor: divisions and roots"] = [
        t * k * SIZE / roots_timed for t in times["floor: divisions and roots"]
    ]
    times["recording corrections (one step)"] = [
        t * k for t in times["recording corrections (one step)"]
    ]
    times["bits"] = [bits]
    return times


def table(k: int, threads: int, clock: Callable[[], float]) -> None:
    """Print the rows of one k."""
    times = measure(k, threads, clock)
    (bits,) = times.pop("bits")
    ours = times["replay as fused"]
    floors_s = {name: statistics.median(t) for name, t in times.items() if name[:5] == "floor"}
    larger = max(floors_s, key=lambda name: floors_s[name])
    print(f"{'':36}{'M param-steps/s':>16}{'replay is':>12}{'of larger floor':>17}")
    for name, values in times.items():
        rate = k * SIZE / statistics.median(values) / 1e6
        # Ratios within a round, so that a slow moment of the machine hits both sides.
        faster = statistics.median(t / o for t, o in zip(values, ours, strict=True))
        share = statistics.median(f / t for f, t in zip(times[larger], values, strict=True))
        print(f"{name:36}{rate:16,.0f}{faster:11.2f}x{100 * share:16.0f}%")
    print(
        f"the larger floor is '{larger[7:]}'; corrections take {bits:.2f} bits per element and"
        f" step, {100 * bits / 32:.1f} % of a float32 gradient"
    )


def main() -> None:
    """Print the tables."""
    if importlib.util.find_spec("torch") is None:
        print("\nPyTorch is not installed: replay is not measured (make test-torch sets it up)")
        return
    # One thread first: a library that once had more may keep them.
    for threads, clock, what in (
        (1, time.thread_time, "processor time of one core"),
        (CORES, time.perf_counter, f"wall time on {CORES} cores"),
    ):
        for k in (8, 16):
            print(f"\nreplay of {k} steps, {SIZE:,} parameters, {what}")
            table(k, threads, clock)


if __name__ == "__main__":
    main()

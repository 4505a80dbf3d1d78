"""Measure the simulator against other ways to run the same loop, all in one go.

Machines differ and are noisy: the table gives ratios of medians measured in turn within one run.
Run it with ``make bench``.
"""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import replay as replay_bench
import worlds
from baselines import numpy_loop, simpy_steps

from checkpoint_tax.plan import exact_goodput
from checkpoint_tax.scenario import Scenario
from checkpoint_tax.simulate import engine
from checkpoint_tax.studies.post_tables import simulate_cells

HERE = Path(__file__).parent
FAILURES = 8_000_000
ROUNDS = 5
JOB = Scenario(checkpoint_interval_steps=53)
"""The first post's job at 16,384 GPUs with saves that wait, at its best interval; the C loop
has these numbers written in."""
OFTEN = JOB.replace(checkpoint_interval_steps=5, drain_mode="compressed")
"""The same job saving as often as the first post's simulation allows; our cost is the same."""


def simulator(failures: int) -> tuple[float, float]:
    """The long-run kernel on one thread; returns ns per failure and goodput."""
    world = engine._world(JOB)
    batches = failures // engine.BATCH_FAILURES
    start = time.perf_counter()
    sums = engine._batches(world, np.uint64(1), 0, batches, 1)
    took = time.perf_counter() - start
    done = batches * engine.BATCH_FAILURES
    wall = sums[:, 0].sum() + done * JOB.restart_s
    return took / done * 1e9, float(sums[:, 2].sum() * world.work / wall)


def c_loop(flags: list[str], folder: Path) -> Callable[[int], tuple[float, float]] | None:
    """Compile the C loop; returns a function giving ns per failure and goodput."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    program = folder / ("loop" + "".join(flags).replace("=", "-"))
    source = HERE / "failure_loop.c"
    subprocess.run([compiler, "-O3", *flags, str(source), "-o", str(program), "-lm"], check=True)

    def run(failures: int) -> tuple[float, float]:
        out = subprocess.run(
            [str(program), str(failures)], capture_output=True, text=True, check=True
        ).stdout.split()
        ns, gap, _, secured, _ = map(float, out)
        return ns, secured / (gap + JOB.restart_s)

    return run


def check_goodput(name: str, goodput: float, failures: int, job: Scenario) -> None:
    """A loop that computes something else would make its timing worthless."""
    # One failure's goodput scatters by 9 % of the share without a control variate; 6 errors.
    allowed = 6 * 0.09 / failures**0.5
    exact = exact_goodput(job)
    if abs(goodput - exact) > allowed:
        raise SystemExit(f"{name}: goodput {goodput:.5f}, exact {exact:.5f} +- {allowed:.5f}")


def start_up(cache: Path) -> float:
    """Seconds for a new process to import the package and simulate one scenario."""
    code = (
        "from checkpoint_tax.scenario import Scenario\n"
        "from checkpoint_tax.simulate import simulate\n"
        "simulate(Scenario())\n"
    )
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "NUMBA_CACHE_DIR": str(cache)}, check=True
    )
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cold = start_up(folder / "cache")
        warm = statistics.median(start_up(folder / "cache") for _ in range(3))

        loops: dict[str, tuple[Callable[[int], tuple[float, float]], int]] = {
            "this simulator": (simulator, FAILURES)
        }
        for label, flags in (("C, gcc -O3", []), ("C, gcc -O3 -march=native", ["-march=native"])):
            loop = c_loop(flags, folder)
            if loop is None:
                print("gcc is not installed: the C rows are left out")
                break
            loops[label] = (loop, FAILURES)
        loops["NumPy, vectorised"] = (lambda n: numpy_loop(JOB, n), FAILURES // 4)
        loops["SimPy, every save an event"] = (lambda n: simpy_steps(JOB, n), 1_000)
        loops["SimPy, ten times as many saves"] = (lambda n: simpy_steps(OFTEN, n), 200)

        times: dict[str, list[float]] = {label: [] for label in loops}
        simulator(FAILURES)
        for _ in range(ROUNDS):
            for label, (loop, failures) in loops.items():
                ns, goodput = loop(failures)
                check_goodput(label, goodput, failures, OFTEN if "ten times" in label else JOB)
                times[label].append(ns)

    print(
        f"\n{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}\n"
    )
    ours = statistics.median(times["this simulator"])
    print(f"{'one failure and its accounting, one core':44}{'ns':>14}{'simulator / it':>18}")
    for label, values in times.items():
        ns = statistics.median(values)
        print(f"{label:44}{ns:14,.1f}{ours / ns:18.2g}")

    simulate_cells(half_width=1e-2)
    start = time.perf_counter()
    cells = simulate_cells(half_width=1e-4)
    took = time.perf_counter() - start
    print(
        f"\n{'every cell of both tables to 0.01 points':44}{took:12.2f} s"
        f"   ({len(cells)} cells, aim 5 s on two cores)"
    )
    print(f"{'import, compile and simulate, no cache':44}{cold:12.2f} s")
    print(f"{'import and simulate, compiled before':44}{warm:12.2f} s   (aim 3 s)")
    replay_bench.main()
    worlds.main()


if __name__ == "__main__":
    main()

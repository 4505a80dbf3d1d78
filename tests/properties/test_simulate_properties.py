"""What must hold for every job: losses add up, digits do not depend on threads, seeds differ."""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkpoint_tax
from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario import Scenario
from checkpoint_tax.simulate import (
    goodput_difference,
    lost_work_s,
    simulate,
    simulate_runs,
    sweep_intervals,
)
from checkpoint_tax.simulate.results import sample_quantile

JOBS = st.builds(
    lambda **values: Scenario(
        **{**values, "target": "oldest"} if values["drain_mode"] == "overlap" else values
    ),
    n_gpus=st.integers(256, 200_000),
    save_kind=st.sampled_from(["asynchronous", "blocking"]),
    drain_mode=st.sampled_from(["wait", "skip", "overlap", "compressed"]),
    target=st.sampled_from(["oldest", "median", "newest"]),
    checkpoint_interval_steps=st.integers(1, 400),
    drain_tax=st.floats(0.0, 3.0),
    staging_s=st.floats(0.0, 30.0),
    detect_s=st.floats(0.0, 600.0),
    idle_s=st.floats(0.0, 600.0),
    failure_clock=st.sampled_from(["uptime", "wall"]),
    run_steps=st.integers(1, 3000),
)


@settings(max_examples=80, deadline=None)
@given(JOBS, st.integers(0, 2**64 - 1))
def test_shares_of_every_run_sum_to_exactly_one(scenario, seed):
    runs = simulate_runs(scenario, n_runs=16, seed=seed)
    names = ["goodput", "save", "rework", "restart", "straggler", "idle"]
    assert list(runs.fractions) == names
    for i in range(16):
        shares = [float(runs.fractions[name][i]) for name in names]
        assert math.fsum(shares) == 1.0
        assert min(shares) >= 0.0
    useful = scenario.run_steps * scenario.step_s
    assert np.allclose(runs.fractions["goodput"] * runs.finish_s, useful, rtol=1e-12, atol=0.0)


@settings(max_examples=40, deadline=None)
@given(JOBS, st.integers(0, 2**64 - 1))
def test_long_run_shares_are_shares(scenario, seed):
    result = simulate(scenario, half_width=0.5, seed=seed)
    shares = [result.goodput.value, *(e.value for e in result.losses.values())]
    assert math.fsum(shares) == pytest.approx(1.0, abs=1e-12)
    assert min(shares) >= -1e-12
    assert math.fsum(e.value for e in result.restart_parts.values()) == pytest.approx(
        result.losses["restart"].value, abs=1e-12
    )


def test_more_time_between_failures_never_hurts():
    # Common random numbers: the same standardised gaps, stretched, so it holds pathwise.
    values = [
        simulate(Scenario(n_gpus=n), half_width=1e-4, seed=1).goodput.value
        for n in (131072, 65536, 16384, 4096, 1024)
    ]
    assert values == sorted(values)


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_digits_do_not_depend_on_threads_or_reruns(seed):
    scenario = Scenario(checkpoint_interval_steps=53, failure_clock="wall")

    def digits(threads):
        result = simulate(scenario, half_width=2e-5, seed=seed, threads=threads)
        runs = simulate_runs(
            scenario.replace(run_steps=2000), n_runs=64, seed=seed, threads=threads
        )
        lost = lost_work_s(scenario, n_failures=70_000, seed=seed, threads=threads)
        sweep = sweep_intervals(scenario, [30, 60], half_width=1e-4, seed=seed, threads=threads)
        return (
            repr(result),
            runs.finish_s.tobytes(),
            lost.tobytes(),
            sweep.series.tobytes(),
        )

    one = digits(1)
    assert digits(2) == one
    assert digits(4) == one
    assert digits(1) == one


def test_a_run_is_the_same_in_a_small_and_a_large_sample():
    scenario = Scenario(run_steps=2000)
    few = simulate_runs(scenario, n_runs=10, seed=3)
    many = simulate_runs(scenario, n_runs=40, seed=3)
    assert np.array_equal(few.finish_s, many.finish_s[:10])
    asked = simulate_runs(scenario, n_runs=10, seed=3, relative_half_width=0.005)
    assert asked.finish_s.size > 10
    assert np.array_equal(few.finish_s, asked.finish_s[:10])
    assert asked.quantile(0.5).half_width <= 0.005 * asked.quantile(0.5).value


def test_seeds_share_no_replica():
    scenario = Scenario(run_steps=20_000)
    seen = [
        set(simulate_runs(scenario, n_runs=500, seed=seed).finish_s.tolist())
        for seed in (0, 1, 2, 3, 2**32, 2**63, 2**64 - 1)
    ]
    for i, mine in enumerate(seen):
        assert len(mine) == 500
        for other in seen[:i]:
            assert not mine & other
    losses = [set(lost_work_s(scenario, n_failures=5000, seed=s).tolist()) for s in (1, 2)]
    assert not losses[0] & losses[1]


def test_a_failure_costs_the_same_whatever_lies_between_failures():
    # From less than one save a failure to 200,000 of them, and from 64 to 10^6 GPUs. A loop over
    # saves would differ by up to that factor. Processor time in alternating rounds keeps most of
    # what else the machine does out of the least of seven, and a factor 4 leaves room for the rest.
    jobs = (
        Scenario(n_gpus=10**6, drain_s=70.0),
        Scenario(n_gpus=64, checkpoint_interval_steps=1, drain_mode="compressed"),
        Scenario(n_gpus=64, drain_s=70_000.0, checkpoint_interval_steps=1),
    )
    size = {"half_width": 1e-12, "max_failures": 2**20, "threads": 1}
    least = [math.inf] * len(jobs)
    for _ in range(7):
        for i, job in enumerate(jobs):
            start = time.thread_time()
            result = simulate(job, **size)
            least[i] = min(least[i], time.thread_time() - start)
            assert result.n_failures == 2**20
    assert max(least) < 4.0 * min(least)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "7", True, None])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(InputError, match=r"seed = .*allowed: a whole number from 0 to 2\^64 - 1"):
        simulate(Scenario(), seed=seed)


@pytest.mark.parametrize("half_width", [0.0, -1e-3, math.nan, math.inf, 1.0, "1e-4", True])
def test_a_half_width_out_of_range_is_refused(half_width):
    for call in (
        lambda: simulate(Scenario(), half_width=half_width),
        lambda: goodput_difference(Scenario(), Scenario(), half_width=half_width),
        lambda: sweep_intervals(Scenario(), [3], half_width=half_width),
    ):
        with pytest.raises(InputError, match=r"half_width = .*allowed: strictly between 0 and 1"):
            call()


@pytest.mark.parametrize("threads", [0, -1, 1.0, True])
def test_a_thread_count_out_of_range_is_refused(threads):
    with pytest.raises(InputError, match=r"threads = .*allowed"):
        simulate(Scenario(), threads=threads)


def test_a_job_that_secures_nothing_is_reported_not_played_for_ever():
    # Up-times of 1 s on average cannot hold a save that takes 210 s.
    hopeless = Scenario(
        save_kind="blocking", job_mtbf_h=7.5 / 3600, checkpoint_interval_steps=40, run_steps=4000
    )
    with pytest.raises(InputError, match="without finishing"):
        simulate_runs(hopeless, n_runs=2)
    assert simulate(hopeless, half_width=0.01).goodput.value < 1e-6


def test_the_cap_is_said_not_hidden():
    result = simulate(Scenario(), half_width=1e-9, max_failures=2**17)
    assert not result.met
    assert result.n_failures == 2**17
    assert result.goodput.half_width > 1e-9


def test_a_quantile_of_too_few_values_has_an_open_interval():
    estimate = sample_quantile(np.arange(3.0), 0.99)
    assert estimate.high == math.inf
    with pytest.raises(InputError, match=r"probability = 1\.0"):
        sample_quantile(np.arange(3.0), 1.0)


def _in_a_new_process(code, **environment):
    env = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_interpreted_kernels_give_the_same_bits():
    code = (
        "import json, numpy as np\n"
        "from checkpoint_tax.scenario import Scenario\n"
        "from checkpoint_tax.simulate import lost_work_s, simulate_runs\n"
        "s = Scenario(run_steps=4000, checkpoint_interval_steps=53, failure_clock='wall')\n"
        "a = lost_work_s(s, n_failures=512, seed=5, threads=1)\n"
        "b = simulate_runs(s, n_runs=2, seed=5, threads=1).finish_s\n"
        "print(json.dumps([a.tobytes().hex(), b.tobytes().hex()]))\n"
    )
    assert _in_a_new_process(code, NUMBA_DISABLE_JIT="1") == _in_a_new_process(code)


def test_an_install_that_cannot_be_written_still_works(tmp_path):
    # A copy of the package whose cache folder's name is taken by a file, and no usable home: the
    # library's own cache locations all fail, as in a read-only install.
    source = Path(checkpoint_tax.__file__).parent
    copy = tmp_path / "lib" / "checkpoint_tax"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "simulate" / "__pycache__").write_text("in the way")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    code = (
        f"import json, sys; sys.path.insert(0, {str(tmp_path / 'lib')!r})\n"
        "from checkpoint_tax.scenario import Scenario\n"
        "import checkpoint_tax\n"
        "from checkpoint_tax.simulate import simulate\n"
        "r = simulate(Scenario(), half_width=0.01)\n"
        "print(json.dumps([checkpoint_tax.__file__, r.goodput.value]))\n"
    )
    nowhere = {"HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none", "NUMBA_CACHE_DIR": ""}
    where, value = _in_a_new_process(code, TMPDIR=str(scratch), **nowhere)
    assert where == str(copy / "__init__.py")
    assert value == simulate(Scenario(), half_width=0.01).goodput.value
    assert list(scratch.glob("checkpoint-tax-numba-*/**/*.nbi")), "no cache in the fallback folder"
    # Not even a temporary folder: compiled in memory.
    (scratch / "file").write_text("")
    _, again = _in_a_new_process(code, TMPDIR="/proc/none", **nowhere)
    assert again == value

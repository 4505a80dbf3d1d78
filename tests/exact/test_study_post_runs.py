"""What is inferred about the post's runs: their length, their scatter, and how they count."""

import numpy as np
import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.plan import best_interval
from checkpoint_tax.simulate import simulate_runs
from checkpoint_tax.studies import post_runs
from checkpoint_tax.studies.post_accounting import COUNTED, counted_shares
from checkpoint_tax.studies.post_runs import (
    drawn_mtbf_s,
    infer_run_length,
    one_run,
    one_run_best_interval,
    one_run_gap,
    one_run_given_restart,
    post_scenario,
    run_length,
)
from checkpoint_tax.studies.post_tables import printed_rows
from checkpoint_tax.studies.shares import exact_shares
from checkpoint_tax.units import PER_CENT

SIZES = (512, 2048, 8192, 16384, 65536)


def test_the_post_job_saves_in_the_mode_its_figures_imply():
    job = post_scenario()
    assert (job.n_gpus, job.drain_mode, job.save_kind) == (16384, "compressed", "asynchronous")
    assert post_scenario(drain_mode="wait", n_gpus=512).drain_mode == "wait"


def test_a_restart_share_gives_back_the_up_time_it_came_from():
    # R/(M + R) = 3.73 % with R = 390 s.
    assert drawn_mtbf_s(390.0 / (10_066.0 + 390.0), 390.0) == pytest.approx(10_066.0, rel=1e-12)
    assert drawn_mtbf_s(0.0373, 390.0) == pytest.approx(10_065.76, abs=0.01)


def test_the_excess_of_failures_is_read_off_the_printed_restart_shares():
    length = run_length()
    assert length.n_gpus == SIZES
    # 16,384 GPUs: 10,986 s stated over 10,066 s drawn, 9 % more failures.
    assert length.drawn_excess[3] == pytest.approx(10_986.328 / 10_065.76 - 1.0, abs=1e-5)
    assert np.round(length.drawn_excess, 3).tolist() == [-0.007, 0.041, 0.109, 0.091, 0.0]
    assert length.low_steps < length.steps < length.high_steps


def test_the_length_follows_from_the_scatter_by_hand():
    # Excesses of 10 % in every row: sum(c e^2) with c failures a step of 7 s over goodput.
    shares = {n: 100.0 * 390.0 / (390.0 + 50_000 * 3600 / n / 1.1) for n in SIZES}
    rate = 0.0
    for n in SIZES:
        job = post_scenario(n_gpus=n, checkpoint_interval_steps=10)
        goodput = exact_shares(job)["goodput"]
        rate += 7.0 / goodput / (job.job_mtbf_s + 390.0)
    assert infer_run_length(shares).steps == pytest.approx(5.0 / (rate * 0.01), rel=1e-4)


@pytest.mark.parametrize("true_steps", [150_000, 600_000])
def test_the_interval_covers_the_true_length_at_its_rate(true_steps):
    """Synthetic tables: five runs of one length, restart shares rounded as the post prints them.

    With 1,000 tables a coverage of 95 % scatters by 0.69 points; three of them: false alarm 3e-3,
    and the seeds are fixed.
    """
    tables = 1000
    shares = {}
    for place, n_gpus in enumerate(SIZES):
        job = post_scenario(n_gpus=n_gpus, checkpoint_interval_steps=10, run_steps=true_steps)
        runs = simulate_runs(job, n_runs=tables, seed=900 + place)
        shares[n_gpus] = np.round(runs.fractions["restart"] / PER_CENT, 2)
    # A run of the smallest job without any failure shows a share of 0 and implies nothing.
    usable = [i for i in range(tables) if shares[512][i] > 0.0]
    covered = [
        length.low_steps <= true_steps <= length.high_steps
        for length in (
            infer_run_length({n: float(column[i]) for n, column in shares.items()}) for i in usable
        )
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.021)


def test_one_run_prints_within_its_range_at_its_rate():
    """Fresh runs fall into the 95 % range at 95 %; 4,000 each: deviation 0.5 points, 4 of them."""
    job = post_scenario(checkpoint_interval_steps=30)
    exact = exact_shares(job)
    fresh = simulate_runs(job.replace(run_steps=run_length().steps), n_runs=4000, seed=77)
    for share in ("goodput", "rework", "restart", "save"):
        found = one_run(job, share, exact[share] / PER_CENT)
        values = fresh.fractions[share] / PER_CENT
        inside = np.mean((found.low <= values) & (values <= found.high))
        assert inside == pytest.approx(0.95, abs=0.02), share
        assert found.low < found.value < found.high
        assert f"{run_length().steps:,} steps" in found.note


def test_the_gap_of_two_intervals_scatters_less_than_either():
    job = post_scenario(checkpoint_interval_steps=10)
    other = job.replace(checkpoint_interval_steps=53)
    gap = one_run_gap(job, other, 1.29)
    single = one_run(job, "goodput", 92.86)
    assert gap.low < 1.29 < gap.high
    assert gap.high - gap.low < 0.75 * (single.high - single.low)


def test_knowing_the_failures_leaves_little_to_chance():
    # Lost steps are uniform over one interval: 30/sqrt(12) steps a failure, n of them.
    job = post_scenario(checkpoint_interval_steps=30)
    n = run_length().expected_failures[3]
    by_hand = 1.96 * 30.0 / np.sqrt(12.0) * np.sqrt(n) * 7.0 / (n * (10_986.0 + 390.0)) * 100.0
    # By hand only to first order: a late failure after a long gap loses the same share of more
    # time, and some come before the first save. 15 % covers both and the 4,000 runs.
    assert one_run_given_restart(job, "rework") == pytest.approx(by_hand, rel=0.15)


def test_the_best_interval_of_one_run_holds_the_exact_one():
    grid = (200, 300, 500, 800, 1200, 2000, 3000)
    low, middle, high = one_run_best_interval(post_scenario(n_gpus=512, save_kind="blocking"), grid)
    assert low <= middle <= high
    assert {low, middle, high} <= set(grid)
    exact = best_interval(post_scenario(n_gpus=512, save_kind="blocking")).steps
    assert low <= exact <= high
    # Where the competition is far off, every run finds the same.
    large = one_run_best_interval(post_scenario(n_gpus=65536, save_kind="blocking"), (80, 120, 200))
    assert large == (120, 120, 120)


def test_hopeless_intervals_do_not_change_the_winner():
    job = post_scenario(n_gpus=65536, save_kind="blocking")
    assert one_run_best_interval(job, (120, 3000)) == (120, 120, 120)
    assert post_runs.HOPELESS == 0.1


def played(k, drain, tax, up_time_s, restart_s, step_s, n_failures, seed):
    """The same accounting, failure by failure: whole steps until the one that fails."""
    rng = np.random.default_rng(seed)
    lag = min(k, drain)
    long_step = step_s * (1.0 + tax * lag / k)
    position = rng.geometric(long_step / up_time_s, n_failures) - 1
    restored = (position - lag) // k * k
    wall = n_failures * (restart_s + long_step) + position.sum() * long_step
    return {
        "goodput": restored.sum() * step_s / wall,
        "save": position.sum() * (long_step - step_s) / wall,
        "rework": (position - restored).sum() * step_s / wall,
        "restart": n_failures * restart_s / wall,
        "unbooked": n_failures * long_step / wall,
    }


@pytest.mark.parametrize("k", [3, 30, 40])
def test_counting_in_steps_is_what_playing_failures_gives(k):
    # Some 100 steps a failure, a million failures: by the delta method a share deviates by
    # at most 0.0004; four of them, with a fixed seed.
    closed = counted_shares(post_scenario(checkpoint_interval_steps=k), 700.0)
    found = played(k, 30, 0.03, 700.0, 390.0, 7.0, 1_000_000, seed=5)
    assert tuple(closed) == COUNTED
    assert sum(closed.values()) == pytest.approx(1.0, abs=1e-12)
    for name in COUNTED:
        assert closed[name] == pytest.approx(found[name], abs=0.0016), name


def test_counted_in_steps_at_the_drawn_rate_the_sweep_is_reproduced():
    drawn_s = drawn_mtbf_s(0.0373, 390.0)
    for steps, printed in printed_rows(2).items():
        job = post_scenario(checkpoint_interval_steps=steps)
        found = counted_shares(job, drawn_s)
        assert found["goodput"] / PER_CENT == pytest.approx(printed["goodput_percent"], abs=0.036)
        assert found["rework"] / PER_CENT == pytest.approx(printed["rework_percent"], abs=0.05)
        # The tax needs no chance: it rounds to what is printed in every row.
        assert round(found["save"] / PER_CENT, 2) == printed["tax_percent"]


def test_counting_in_steps_refuses_what_it_does_not_know():
    with pytest.raises(InputError, match="wait"):
        counted_shares(post_scenario(drain_mode="wait"), 10_000.0)
    with pytest.raises(InputError, match="up_time_s = 7"):
        counted_shares(post_scenario(), 7.0)

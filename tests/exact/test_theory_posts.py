"""The numbers the two posts print, and those other people report, in closed form.

A printed value is met when the exact one lies within half a unit of its last printed digit.
"""

import numpy as np
import pytest

from checkpoint_tax.theory import (
    availability,
    boundary,
    daly,
    ettr,
    nonblocking,
    renewal,
    waste,
    young,
)

STEP_S = 7.0
GPU_MTBF_S = 50_000 * 3600.0
RESTART_S = 390.0
BLOCKING_S = 210.0
DRAIN_S = 210.0
TAX = 0.03
JOB_MTBF_S = GPU_MTBF_S / 16_384


def assert_prints(value, printed, digits):
    """Compare with printed numbers to half a unit of their last digit."""
    np.testing.assert_allclose(value, printed, rtol=0, atol=0.5 * 10.0**-digits)


def test_daly_column_of_the_first_post():
    mtbf_s = GPU_MTBF_S / np.array([512, 2048, 8192, 16_384, 65_536])
    steps = young.interval_s(BLOCKING_S, mtbf_s) / STEP_S
    assert_prints(steps, [1736, 868, 434, 307, 153], 0)


def test_blocking_goodput_at_the_posts_own_intervals():
    mtbf_s = GPU_MTBF_S / np.array([512, 2048, 8192, 16_384, 65_536])
    work_s = STEP_S * np.array([2000, 1200, 500, 300, 120])
    percent = 100 * renewal.goodput(work_s, BLOCKING_S, mtbf_s, RESTART_S)
    assert_prints(percent, [96.44, 92.45, 85.09, 78.89, 57.51], 2)


def test_sweep_with_drains_compressed_into_short_intervals():
    work_s = STEP_S * np.array([3, 5, 10, 20, 30, 40, 60])
    percent = 100 * nonblocking.goodput(
        work_s, np.minimum(work_s, DRAIN_S), TAX, JOB_MTBF_S, RESTART_S
    )
    assert_prints(percent, [93.49, 93.31, 92.86, 91.97, 91.08, 91.46, 91.54], 2)


def test_sweep_with_saves_that_wait_for_the_drain_before_them():
    work_s = np.maximum(STEP_S * np.array([3, 5, 10, 20, 30]), DRAIN_S)
    percent = 100 * nonblocking.goodput(work_s, DRAIN_S, TAX, JOB_MTBF_S, RESTART_S)
    assert_prints(percent, np.full(5, 91.08), 2)


def test_best_interval_is_interior_at_16384_gpus():
    assert_prints(nonblocking.best_work_s(DRAIN_S, TAX, JOB_MTBF_S) / STEP_S, 53, 0)
    steps = np.arange(30, 200)
    goodput = nonblocking.goodput(steps * STEP_S, DRAIN_S, TAX, JOB_MTBF_S, RESTART_S)
    assert steps[np.argmax(goodput)] == 53


def test_goodput_by_restored_version_at_the_best_interval():
    percent = 100 * nonblocking.goodput(
        53 * STEP_S, DRAIN_S, TAX, JOB_MTBF_S, RESTART_S, target_fraction=[0.0, 0.5, 1.0]
    )
    assert_prints(percent, [91.57, 92.45, 93.34], 2)


def test_young_fed_with_the_amortised_drain_cost_gives_53_steps():
    assert_prints(young.interval_s(TAX * DRAIN_S, JOB_MTBF_S) / STEP_S, 53, 0)


def test_boundary_scale_of_the_posts_drain():
    assert_prints(boundary.largest_mtbf_first_order_s(DRAIN_S, TAX), 3500.0, 9)
    assert 3500 < boundary.largest_mtbf_s(DRAIN_S, TAX) < 3700
    # The reference solves -log(1 - x) = 1.03 x in 120-digit decimals: x = 0.05768130299956083682.
    np.testing.assert_allclose(
        boundary.largest_mtbf_s(DRAIN_S, TAX), 210 / 0.05768130299956083682, rtol=1e-15
    )
    assert 49_000 < boundary.smallest_n_gpus(DRAIN_S, TAX, GPU_MTBF_S) < 51_000


@pytest.mark.parametrize(("n_gpus", "best"), [(16_384, False), (65_536, True)])
def test_checkpointing_as_fast_as_possible_is_right_only_at_scale(n_gpus, best):
    assert boundary.drain_is_best(DRAIN_S, TAX, GPU_MTBF_S / n_gpus) == best


def test_smallest_job_sits_on_the_boundary():
    n_gpus = boundary.smallest_n_gpus(DRAIN_S, TAX, GPU_MTBF_S)
    assert boundary.drain_is_best(DRAIN_S, TAX, GPU_MTBF_S / n_gpus)
    assert not boundary.drain_is_best(DRAIN_S, TAX, GPU_MTBF_S / (n_gpus - 1))


def test_boundary_in_whole_steps_agrees_with_an_argmax():
    steps = np.arange(30, 200)
    best = {
        n: steps[np.argmax(nonblocking.goodput(steps * 7.0, 210, TAX, GPU_MTBF_S / n, 390))]
        for n in (47_000, 49_442, 65_536)
    }
    assert best == {47_000: 31, 49_442: 30, 65_536: 30}


def test_worked_example_of_the_second_post():
    blocking_s, restart_s = np.array([60, 5, 5]), np.array([900, 900, 300])
    interval_s = young.interval_s(blocking_s, 43_200)
    assert_prints(interval_s, [2277, 657, 657], 0)
    assert_prints(interval_s[0] / 60, 37.9, 1)
    percent = 100 * waste.first_order(interval_s, blocking_s, 43_200, restart_s)
    # 7.3538, 3.6048 and 2.2159 %: the post prints two of them with one digit less.
    assert_prints(percent, [7.35, 3.60, 2.22], 2)
    np.testing.assert_allclose(
        100 * waste.best_first_order(blocking_s, 43_200, restart_s), percent, rtol=1e-14
    )


def test_exact_best_goodput_of_the_second_posts_example():
    blocking_s, restart_s = np.array([60, 5, 5]), np.array([900, 900, 300])
    work_s = renewal.best_work_s(blocking_s, 43_200)
    percent = 100 * renewal.goodput(work_s, blocking_s, 43_200, restart_s)
    assert_prints(percent, [92.89, 96.48, 97.81], 2)


COST_RATIOS = np.array([0.001, 0.01, 0.1, 0.5, 1.0])


@pytest.mark.parametrize(
    ("method", "percent"),
    [
        (young.interval_s, [1.508, 4.885, 16.710, 43.207, 68.077]),
        (daly.first_order_interval_s, [-0.762, -2.532, -9.387, -28.397, -50.771]),
        (daly.higher_order_interval_s, [-0.000, -0.001, -0.040, -0.551, -1.817]),
    ],
)
def test_interval_error_against_the_exact_optimum(method, percent):
    mtbf_s = 43_200.0
    exact_s = renewal.best_work_s(COST_RATIOS * mtbf_s, mtbf_s)
    error = 100 * (method(COST_RATIOS * mtbf_s, mtbf_s) / exact_s - 1)
    assert_prints(error, percent, 3)


def test_daly_higher_order_switches_to_the_mtbf_at_twice_the_mtbf():
    np.testing.assert_array_equal(
        daly.higher_order_interval_s([199.999, 200.0, 1e6], 100.0)[1:], [100.0, 100.0]
    )
    assert daly.higher_order_interval_s(199.999, 100.0) != 100.0


def test_one_level_of_the_scr_model():
    """Failures strike work, writes and recoveries alike: the wall clock, no immune down-time.

    The regression values of LLNL's SCR-model carry 12 digits.
    """
    wall_s = renewal.expected_wall_s(
        [500, 1000, 2000, 4000], 438, 1 / 8.329e-6, 438, failure_clock="wall"
    )
    np.testing.assert_allclose(
        wall_s, [945.115266514, 1451.93317035, 2471.92293696, 4537.56673943], rtol=5e-12
    )


# What people who run such jobs report.


def test_many_small_saves_cost_little():
    every_s = 90 * 86_400 / 720
    save = waste.first_order_losses(every_s, [40, 200], 1e9, 0)["save"]
    assert_prints(save * 720 * every_s / 3600, [8.0, 40.0], 1)
    assert_prints(100 * save, [0.370, 1.85], 2)


def test_blocking_against_staged_saves_of_an_8b_model():
    interval_s = young.interval_s([27.34, 0.54], 86_400)
    assert_prints(interval_s[0], 2174, 0)
    assert_prints(interval_s[1], 305.4701, 4)
    percent = 100 * waste.first_order(interval_s, [27.34, 0.54], 86_400, 0)
    assert_prints(percent[0], 2.5, 1)
    assert_prints(percent[1], 0.35, 2)


def test_cadences_in_production_imply_the_same_mtbf():
    hours = young.implied_job_mtbf_s([250 * 21.6, 10 * 21.6], [120, 0.2]) / 3600
    assert_prints(hours[0], 33.75, 9)
    assert_prints(hours[1], 32.4, 9)


def test_differential_checkpoints_every_four_minutes_are_young():
    mtbf_s = young.implied_job_mtbf_s(240, 2.5)
    np.testing.assert_allclose(mtbf_s, 11_520, rtol=1e-15)
    assert_prints(100 * waste.best_first_order(2.5, mtbf_s, 0), 2.1, 1)


def test_availability_optimum_of_a_176b_job():
    week_s = 7 * 86_400.0
    assert_prints(availability.saxena_interval_s(40, week_s, 1800), 7006, 0)
    assert_prints(renewal.best_work_s(40, week_s) + 40, 6969, 0)


def test_ettr_by_hand():
    # 1 - (900 + 3600/2)/43200 = 0.9375; 1 + 60/3600 = 61/60.
    np.testing.assert_allclose(ettr.kokolis(3600, 60, 43_200, 900), 0.9375 * 60 / 61, rtol=1e-15)


def test_ettr_turns_negative_rather_than_being_clipped():
    assert ettr.kokolis(3600, 60, 1000, 900) < 0


def test_availability_by_hand():
    # (1 - 60/3660) * 43200 / (43200 + 900 + 1830)
    np.testing.assert_allclose(
        availability.saxena(3660, 60, 43_200, 900), 3600 / 3660 * 43_200 / 45_930, rtol=1e-15
    )

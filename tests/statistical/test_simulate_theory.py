"""Simulator against closed forms: agreement within error, coverage, and order of convergence.

Every seed is fixed, so a test is not flaky; the stated false-alarm rates are those of choosing
the seeds afresh for a correct program.
"""

import math

import numpy as np
import pytest
from scipy import stats

from checkpoint_tax.plan import best_interval
from checkpoint_tax.plan.interval import exact_goodput
from checkpoint_tax.scenario import Scenario, save_cycle
from checkpoint_tax.simulate import (
    goodput_difference,
    lost_work_s,
    simulate,
    simulate_runs,
    sweep_intervals,
)
from checkpoint_tax.theory import nonblocking

WORLDS = [
    {},
    {"save_kind": "blocking", "checkpoint_interval_steps": 300},
    {"save_kind": "blocking", "checkpoint_interval_steps": 120, "n_gpus": 65536},
    {"checkpoint_interval_steps": 53},
    {"checkpoint_interval_steps": 53, "target": "median"},
    {"checkpoint_interval_steps": 30, "target": "newest"},
    {"checkpoint_interval_steps": 10, "drain_mode": "compressed"},
    {"checkpoint_interval_steps": 20, "drain_mode": "skip", "staging_s": 4.0},
    {"checkpoint_interval_steps": 7, "drain_mode": "overlap", "overlap_drains": 3},
    {"checkpoint_interval_steps": 53, "failure_clock": "wall", "idle_s": 120.0},
    {"n_gpus": 131072, "failure_clock": "wall", "target": "median", "drain_tax": 1.5},
    {"n_gpus": 400000, "checkpoint_interval_steps": 60, "drain_s": 100.0},
]


def _closed_form(scenario):
    c = save_cycle(scenario)
    return nonblocking.cycle_losses(
        c.work_s,
        c.stop_s,
        c.latency_work_s,
        c.taxed_work_s,
        c.tax,
        c.advance_s,
        scenario.job_mtbf_s,
        scenario.restart_s,
        failure_clock=scenario.failure_clock,
        downtime_s=scenario.idle_s,
    )


def _z(estimate, truth, confidence_z=1.96):
    """Distance from the truth in standard errors; 0 when an exactly known value agrees."""
    if estimate.half_width < 1e-15:
        return 0.0 if math.isclose(estimate.value, truth, rel_tol=1e-12, abs_tol=1e-15) else 99.0
    return (estimate.value - truth) / (estimate.half_width / confidence_z)


@pytest.mark.parametrize("control_variate", [True, False])
@pytest.mark.parametrize("world", WORLDS, ids=lambda w: "-".join(map(str, w.values())) or "post")
def test_every_share_agrees_with_the_closed_form(world, control_variate):
    # 24 cases of up to 5 shares, limit 5 standard errors: false alarm below 1e-4 in all.
    scenario = Scenario(**world)
    result = simulate(scenario, half_width=4e-5, seed=11, control_variate=control_variate)
    assert result.met
    exact = _closed_form(scenario)
    assert abs(_z(result.goodput, float(exact["goodput"]))) < 5.0
    for name, estimate in result.losses.items():
        assert abs(_z(estimate, float(exact[name]))) < 5.0, name
    total = result.goodput.value + math.fsum(e.value for e in result.losses.values())
    assert abs(total - 1.0) < 1e-12


@pytest.mark.parametrize("control_variate", [True, False])
@pytest.mark.parametrize("share", ["goodput", "save", "rework"])
def test_intervals_cover_the_truth_as_often_as_they_say(share, control_variate):
    # Binomial(600, 0.95): the acceptance range below has a false-alarm rate of 1e-4 for each of
    # six cases, were the coverage exactly 95 %; stopping when narrow enough may cost a little of
    # it, and that is what is tested.
    scenario = Scenario(n_gpus=65536, checkpoint_interval_steps=40)
    truth = float(_closed_form(scenario)[share])
    hits = 0
    for seed in range(600):
        result = simulate(
            scenario,
            half_width=2e-4 if control_variate else 1e-3,
            seed=seed,
            threads=1,
            control_variate=control_variate,
        )
        hits += (result.goodput if share == "goodput" else result.losses[share]).covers(truth)
    low, high = stats.binom.ppf([5e-5, 1 - 5e-5], 600, 0.95)
    assert low <= hits <= high


def test_interval_of_the_median_finish_covers_as_often_as_it_says():
    # 400 tries of 64 runs; the truth is taken from 200,000 runs of another seed, whose own error
    # is 50 times smaller. Order statistics are conservative: at least 95 %. False alarm 1e-4.
    scenario = Scenario(run_steps=3000)
    truth = simulate_runs(scenario, n_runs=200_000, seed=10**9).quantile(0.5).value
    hits = sum(
        simulate_runs(scenario, n_runs=64, seed=seed, threads=1).quantile(0.5).covers(truth)
        for seed in range(400)
    )
    assert hits >= stats.binom.ppf(1e-4, 400, 0.95)


def test_error_falls_with_the_root_of_the_sample():
    # Half-widths from 64 batches scatter by 9 %; over a factor 64 in failures the fitted order
    # is 0.5 within 0.05 (false alarm below 1e-3).
    scenario = Scenario()
    sizes = [2**16, 2**18, 2**20, 2**22]
    widths = [
        simulate(scenario, half_width=1e-9, seed=5, max_failures=n).goodput.half_width
        for n in sizes
    ]
    order = np.polyfit(np.log(sizes), np.log(widths), 1)[0]
    assert abs(order + 0.5) < 0.05


def test_the_control_variate_narrows_the_interval_for_the_same_failures():
    scenario = Scenario(checkpoint_interval_steps=53)
    size = {"half_width": 1e-9, "seed": 3, "max_failures": 2**18}
    with_it = simulate(scenario, **size)
    without = simulate(scenario, control_variate=False, **size)
    assert with_it.n_failures == without.n_failures == 2**18
    assert not with_it.met
    # A difference of a factor 4 or more, where both widths are known to 5 %.
    assert with_it.goodput.half_width < 0.25 * without.goodput.half_width


def test_common_random_numbers_resolve_a_small_difference():
    a = Scenario(checkpoint_interval_steps=53)
    b = a.replace(checkpoint_interval_steps=54)
    truth = exact_goodput(a) - exact_goodput(b)
    difference = goodput_difference(a, b, half_width=2e-6, seed=1)
    assert abs(_z(difference, truth)) < 4.5  # false alarm 1e-5
    assert difference.half_width <= 2e-6


@pytest.mark.parametrize(
    "world",
    [{}, {"save_kind": "blocking"}, {"n_gpus": 65536}, {"drain_mode": "compressed"}],
    ids=str,
)
def test_best_interval_by_simulation_is_that_of_the_closed_form(world):
    # The true optimum is in the set the simulation cannot tell from its best (5 % by Bonferroni
    # for fresh seeds) and simulated practical ranges are within the grid's spacing of the exact.
    scenario = Scenario(**world)
    exact = best_interval(scenario)
    simulated = best_interval(scenario, method="simulation", seed=2)
    assert exact.method == "closed form"
    assert simulated.method == "simulation"
    assert simulated.statistical_steps[0] <= exact.steps <= simulated.statistical_steps[1]
    assert abs(_z(simulated.goodput, exact_goodput(scenario, simulated.steps))) < 4.5
    assert simulated.at_drain_boundary == exact.at_drain_boundary
    for mine, theirs in zip(simulated.practical_steps, exact.practical_steps, strict=True):
        assert abs(mine - theirs) <= max(3, 0.05 * theirs)


def test_sweep_agrees_with_the_closed_form_at_each_interval():
    steps = [3, 30, 40, 53, 60, 100, 300]
    scenario = Scenario()
    sweep = sweep_intervals(scenario, steps, half_width=5e-5, seed=8)
    assert sweep.met
    for k, estimate in zip(steps, sweep.goodput(), strict=True):
        assert abs(_z(estimate, exact_goodput(scenario, k))) < 5.0  # false alarm 4e-6
    assert steps[sweep.best()] == 53
    assert sweep.shortfall(0).low > 0.0
    assert sweep.shortfall(sweep.best()).value == 0.0


def test_mean_lost_work_agrees_with_the_closed_form():
    scenario = Scenario(checkpoint_interval_steps=53)
    lost = lost_work_s(scenario, n_failures=200_000, seed=4)
    per_failure = scenario.job_mtbf_s + scenario.restart_s
    truth = float(_closed_form(scenario)["rework"]) * per_failure
    error = np.std(lost) / math.sqrt(lost.size)
    assert abs(np.mean(lost) - truth) < 4.5 * error  # false alarm 1e-5
    assert lost.min() >= 0.0
    assert lost.max() <= (53 + 30) * scenario.step_s


def test_weibull_gaps_keep_the_mean_and_show_their_shape():
    # With one save per 1e9 steps nothing is ever durable, so lost work is the gap itself.
    scenario = Scenario(save_kind="blocking", checkpoint_interval_steps=10**9, failure_shape=0.7)
    gaps = lost_work_s(scenario, n_failures=400_000, seed=6)
    error = np.std(gaps) / math.sqrt(gaps.size)
    assert abs(np.mean(gaps) - scenario.job_mtbf_s) < 4.5 * error  # false alarm 1e-5
    scale = scenario.job_mtbf_s / math.gamma(1.0 + 1.0 / 0.7)
    fit = stats.kstest(gaps[:50_000], stats.weibull_min(0.7, scale=scale).cdf)
    assert fit.pvalue > 1e-4  # false alarm 1e-4
    wrong = stats.kstest(gaps[:50_000], stats.expon(scale=scenario.job_mtbf_s).cdf)
    assert wrong.pvalue < 1e-12


def test_long_runs_approach_the_long_run_share():
    scenario = Scenario(run_steps=200_000, checkpoint_interval_steps=53)
    runs = simulate_runs(scenario, n_runs=2000, seed=12)
    # A run of 200,000 steps meets 140 failures; start and end effects are below one interval in
    # 140, weighed by its loss of a few percent: 2e-4. The error of the mean is 1e-4.
    mean = float(np.mean(runs.fractions["goodput"]))
    error = float(np.std(runs.fractions["goodput"])) / math.sqrt(2000)
    assert abs(mean - exact_goodput(scenario)) < 4.5 * error + 2e-4

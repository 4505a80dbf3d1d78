"""Worlds against closed forms and limits, within errors whose false-alarm rate is stated.

Every seed is fixed, so a test is not flaky; the rates are those of choosing seeds afresh for a
correct program.
"""

import math

import numpy as np
import pytest
from scipy import stats

from checkpoint_tax.scenario import Scenario, save_cycle
from checkpoint_tax.simulate import goodput_difference, lost_work_s, simulate, simulate_runs

BASE = Scenario(checkpoint_interval_steps=53, gpu_mtbf_h=20_000.0)
M = BASE.job_mtbf_s


def z(estimate, truth):
    """Distance from the truth in standard errors; 0 when an exactly known value agrees."""
    if estimate.half_width < 1e-15:
        return 0.0 if math.isclose(estimate.value, truth, rel_tol=1e-12, abs_tol=1e-15) else 99.0
    return (estimate.value - truth) / (estimate.half_width / 1.96)


def durable_times(job, count=20_000):
    """When each save of a segment becomes durable [s after the restart]."""
    cycle = save_cycle(job)
    return cycle.first_durable_s + cycle.period_s * np.arange(count)


def renewal_goodput(job, exceeded):
    """Exact goodput for any up-times that are renewed at restarts: E[saves] work / E[cycle]."""
    saves = math.fsum(exceeded(durable_times(job)))
    wall = job.job_mtbf_s + job.restart_s + job.idle_s
    return saves * save_cycle(job).work_s / wall


LAWS = {
    "lognormal 1.2": ({"lognormal": 1.2}, stats.lognorm(1.2, scale=M * math.exp(-0.72))),
    "lognormal 0.3": ({"lognormal": 0.3}, stats.lognorm(0.3, scale=M * math.exp(-0.045))),
    "gamma 0.5": ({"gamma": 0.5}, stats.gamma(0.5, scale=M / 0.5)),
    "gamma 4": ({"gamma": 4}, stats.gamma(4.0, scale=M / 4.0)),
    "weibull 0.6": ({"weibull": 0.6}, stats.weibull_min(0.6, scale=M / math.gamma(1 + 1 / 0.6))),
    "gamma 1": ({"gamma": 1}, stats.expon(scale=M)),
}


@pytest.mark.parametrize("name", LAWS)
def test_renewal_worlds_have_the_goodput_of_renewal_theory(name):
    gaps, law = LAWS[name]
    for target in ("oldest", "newest"):
        job = BASE.replace(world={"failures": {"gaps": gaps}}, target=target)
        result = simulate(job, half_width=4e-5, seed=21)
        # Limit 4.5 standard errors: false alarm 1e-5 each.
        assert abs(z(result.goodput, renewal_goodput(job, law.sf))) < 4.5


@pytest.mark.parametrize("name", LAWS)
def test_gaps_follow_their_law(name):
    gaps, law = LAWS[name]
    # Nothing is ever saved, so the work lost is the gap itself.
    job = BASE.replace(
        save_kind="blocking",
        checkpoint_interval_steps=10**9,
        world={"failures": {"gaps": gaps}},
    )
    sample = lost_work_s(job, n_failures=60_000, seed=5)
    assert stats.kstest(sample, law.cdf).pvalue > 1e-4  # false alarm 1e-4


@pytest.mark.parametrize("block", [1, 3, 700])
def test_replayed_gaps_give_the_average_over_the_list(block):
    hours = [0.0, 0.2, 4.0, 1.5, 1.4, 0.1, 9.0]
    job = Scenario(world={"failures": {"gaps": hours, "block": block}})
    assert job.job_mtbf_s == pytest.approx(3600 * np.mean(hours), rel=1e-12)
    gaps = np.array(hours) * 3600.0
    truth = renewal_goodput(job, lambda t: (gaps[:, None] > t).mean(axis=0))
    assert abs(z(simulate(job, half_width=1e-4, seed=3).goodput, truth)) < 4.5  # 1e-5
    # A mean that the job names stretches the list.
    longer = job.replace(job_mtbf_h=20.0)
    gaps *= 20.0 / np.mean(hours)
    truth = renewal_goodput(longer, lambda t: (gaps[:, None] > t).mean(axis=0))
    assert abs(z(simulate(longer, half_width=1e-4, seed=3).goodput, truth)) < 4.5


def test_replayed_blocks_keep_neighbours_together():
    job = Scenario(
        save_kind="blocking",
        checkpoint_interval_steps=10**9,
        world={"failures": {"gaps": [float(i) for i in range(1, 101)], "block": 8}},
        job_mtbf_h=50.5,
    )
    gaps = np.rint(lost_work_s(job, n_failures=512, seed=1) / 3600.0).reshape(-1, 8)
    assert np.all((gaps[:, 1:] - gaps[:, :-1]) % 100 == 1)
    assert len(set(gaps[:, 0])) > 30


@pytest.mark.parametrize("chance", [0.02, 0.3, 0.9])
def test_silent_failures_have_their_closed_form(chance):
    # The newest sound save among n: P(at least j secured) sums over g bad ones after it.
    job = BASE.replace(world={"saves": {"silent": chance}})
    cycle = save_cycle(job)
    ratio = math.exp(-cycle.period_s / M)
    reach = math.exp(-cycle.first_durable_s / M)
    saves = reach / (1.0 - ratio) * (1.0 - chance) / (1.0 - chance * ratio)
    truth = saves * cycle.work_s / (M + job.restart_s)
    result = simulate(job, half_width=4e-5, seed=2)
    assert abs(z(result.goodput, truth)) < 4.5
    total = result.goodput.value + math.fsum(e.value for e in result.losses.values())
    assert abs(total - 1.0) < 1e-12


def test_silent_failures_stretch_the_interval_by_one_over_one_less_p():
    # Saves of no cost, failures rare: the work lost is half an interval at p = 0. With silent
    # failures the newest sound save lies p / (1 - p) intervals further back on average, and sound
    # saves are tau / (1 - p) apart.
    chance = 0.25
    job = Scenario(save_kind="blocking", blocking_s=0.0, gpu_mtbf_h=1e7)
    tau = job.checkpoint_interval_steps * job.step_s
    plain = lost_work_s(job, n_failures=100_000, seed=9)
    world = lost_work_s(
        job.replace(world={"saves": {"silent": chance}}), n_failures=100_000, seed=9
    )
    extra = (world - plain) / tau
    error = np.std(extra) / math.sqrt(extra.size)
    assert np.array_equal(extra.round(6), extra.round())
    assert abs(np.mean(extra) - chance / (1.0 - chance)) < 4.5 * error  # 1e-5
    # tau / (1 - p) apart: one save and the bad ones behind it.
    assert abs(1.0 + np.mean(extra) - 1.0 / (1.0 - chance)) < 4.5 * error


@pytest.mark.parametrize("chance", [0.003, 0.2])
def test_saves_that_hang_have_their_closed_form(chance):
    job = BASE.replace(world={"saves": {"hang": chance, "hang_s": 700.0}})
    cycle = save_cycle(job)
    i = np.arange(20_000)
    starts = cycle.first_save_s + i * cycle.period_s
    sound = (1.0 - chance) ** i
    alive = np.exp(-starts / M)
    # A save counts if neither it nor an earlier one hung and its drain ended in time.
    saves = math.fsum((1.0 - chance) * sound * np.exp(-durable_times(job) / M))
    hung = math.fsum(chance * sound * alive)
    up = M * (1.0 - math.exp(-cycle.first_save_s / M)) + M * math.fsum(
        (1.0 - chance) * sound * (alive - np.exp(-(starts + cycle.period_s) / M))
    )
    wall = up + 700.0 * hung + job.restart_s
    result = simulate(job, half_width=1e-4, seed=8)
    assert abs(z(result.goodput, saves * cycle.work_s / wall)) < 4.5
    assert abs(z(result.losses["restart"], job.restart_s / wall)) < 4.5
    without = simulate(job, half_width=2e-4, seed=8, control_variate=False)
    assert abs(z(without.goodput, saves * cycle.work_s / wall)) < 4.5


RESTARTS = {
    "detect": {"gamma": 0.5},
    "relaunch": "exponential",
    "attempt_fails": 0.35,
    "retry_wait_s": 40.0,
}


def test_on_the_uptime_clock_only_the_mean_restart_matters():
    rules = {**RESTARTS, "attempts": 2, "manual_s": 5000.0, "hang_share": 0.2}
    job = BASE.replace(world={"restart": rules})
    q = 0.35
    failed = q + q * q
    mean = 0.8 * 90.0 + 0.2 * 1800.0 + 300.0 * (1 + failed) + 40.0 * failed + 5000.0 * q * q
    truth = BASE.replace(detect_s=mean, relaunch_s=0.0)
    ours, theirs = (simulate(s, half_width=5e-5, seed=1) for s in (job, truth))
    assert ours.goodput.value == pytest.approx(theirs.goodput.value, rel=1e-13)
    # Whole runs draw every restart; their mean agrees within its error.
    runs = simulate_runs(job.replace(run_steps=20_000), n_runs=3000, seed=6)
    drawn = runs.fractions["restart"] * runs.finish_s
    each = drawn.sum() / runs.n_failures.sum()
    error = np.std(drawn - each * runs.n_failures) / math.sqrt(3000) / runs.n_failures.mean()
    assert abs(each - mean) < 4.5 * error  # false alarm 1e-5


def test_on_the_wall_clock_a_restart_is_survived_with_its_laplace_transform():
    job = BASE.replace(failure_clock="wall", idle_s=50.0, world={"restart": RESTARTS})
    cycle = save_cycle(job)

    def survived(scale, shape=1.0):
        return (1.0 + scale / shape / M) ** -shape

    # Attempts of one restart take alike, so the sum over attempts is taken inside the mean.
    nodes, weights = np.polynomial.laguerre.laggauss(60)
    once = np.exp(-300.0 * nodes / M)
    attempts = math.fsum(weights * 0.65 * once / (1.0 - 0.35 * once * math.exp(-40.0 / M)))
    alive = survived(90.0, 0.5) * attempts
    ratio = math.exp(-cycle.period_s / M)
    saves = alive * math.exp(-cycle.first_durable_s / M) / (1.0 - ratio)
    truth = saves * cycle.work_s / (M + 50.0)
    result = simulate(job, half_width=1e-4, seed=4)
    assert abs(z(result.goodput, truth)) < 4.5
    # All that is not up-time after a restart, nor idle, is restart.
    restart = 1.0 - (alive * M + 50.0) / (M + 50.0)
    assert abs(z(result.losses["restart"], restart)) < 4.5


def test_worlds_are_compared_with_common_random_numbers():
    job = BASE.replace(world={"failures": {"gaps": {"lognormal": 1.0}}, "saves": {"silent": 0.1}})
    size = {"half_width": 1e-9, "max_failures": 2**18, "seed": 1}
    other = job.replace(checkpoint_interval_steps=54)
    paired = goodput_difference(job, other, **size).half_width
    alone = [simulate(s, **size).goodput.half_width for s in (job, other)]
    # Under half the variance that independent draws would have; it is known to 9 %.
    assert paired**2 < 0.5 * (alone[0] ** 2 + alone[1] ** 2)
    # Against the plain job too the difference is right.
    law = stats.lognorm(1.0, scale=M * math.exp(-0.5))
    lognormal = job.replace(world={"failures": {"gaps": {"lognormal": 1.0}}})
    truth = renewal_goodput(lognormal, law.sf) - renewal_goodput(BASE, stats.expon(scale=M).sf)
    difference = goodput_difference(lognormal, BASE, half_width=5e-5, seed=1)
    assert abs(z(difference, truth)) < 4.5  # false alarm 1e-5

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


# ---- stragglers


def test_stragglers_take_their_share_of_wall_time():
    # A slow node, brought in with probability q, takes s / (1 + s) of the up-time until it is
    # found or the job fails, and then the swap, as far as the job lives to see it.
    q, s, find, swap = 0.4, 0.25, 5000.0, 600.0
    rules = {"share": q, "slowdown": s, "find_s": find, "swap_s": swap}
    job = BASE.replace(world={"stragglers": rules})
    slow = M * (1.0 - math.exp(-find / M))
    swapping = M * (math.exp(-find / M) - math.exp(-(find + swap) / M))
    lost = q * (slow * s / (1.0 + s) + swapping)
    wall = M + job.restart_s
    # A save is durable once the job outlives the wall time its progress takes.
    times = durable_times(job)
    found = find / (1.0 + s)
    late = np.where(times > found, times + found * s + swap, times * (1.0 + s))
    saves = (1.0 - q) * np.exp(-times / M) + q * np.exp(-late / M)
    truth = math.fsum(saves) * save_cycle(job).work_s / wall
    result = simulate(job, half_width=4e-5, seed=14)
    assert abs(z(result.goodput, truth)) < 4.5  # false alarm 1e-5 each
    assert abs(z(result.losses["straggler"], lost / wall)) < 4.5


def test_stragglers_that_slow_nothing_are_no_stragglers():
    plain = simulate(BASE, half_width=1e-4, seed=1)
    for rules in ({"share": 1.0, "slowdown": 0.0}, {"share": 0.0, "slowdown": 0.5}):
        ours = simulate(BASE.replace(world={"stragglers": rules}), half_width=1e-4, seed=1)
        assert ours.goodput.value == pytest.approx(plain.goodput.value, rel=1e-13)
        assert ours.losses["straggler"].value == 0.0


# ---- spares and repairs

REPAIRS = ["fixed", "exponential", {"lognormal": 1.0}, [1.0, 1.0, 10.0]]


@pytest.mark.parametrize("repair", REPAIRS, ids=str)
def test_waiting_for_spares_is_erlangs_loss(repair):
    # With no restart time, failures find j of S spares in repair like calls in Erlang's system of
    # S + 1 lines: the job waits while S + 1 are out, and does not fail then. The formula knows the
    # repair only by its mean (insensitivity), and so must the simulator.
    spares, hours = 2, 4.0
    job = BASE.replace(
        detect_s=0.0,
        relaunch_s=0.0,
        world={"spares": {"nodes": spares, "repair_h": hours, "repair": repair}},
    )
    load = hours * 3600.0 / M
    terms = [load**j / math.factorial(j) for j in range(spares + 2)]
    waiting = terms[-1] / math.fsum(terms)
    result = simulate(job, half_width=1e-4, seed=17)
    assert abs(z(result.losses["idle"], waiting)) < 4.5  # false alarm 1e-5 each
    plain = simulate(BASE.replace(detect_s=0.0, relaunch_s=0.0), half_width=1e-5, seed=17)
    assert abs(z(result.goodput, plain.goodput.value * (1.0 - waiting))) < 4.6


def test_without_a_spare_the_job_waits_for_the_repair():
    job = BASE.replace(world={"spares": {"nodes": 0, "repair_h": 2.0, "repair": {"gamma": 3}}})
    waited = BASE.replace(idle_s=7200.0)
    ours, theirs = simulate(job, half_width=1e-4, seed=3), simulate(waited, half_width=1e-5, seed=3)
    assert abs(z(ours.goodput, theirs.goodput.value)) < 4.6
    assert abs(z(ours.losses["idle"], theirs.losses["idle"].value)) < 4.6


@pytest.mark.parametrize("when_empty", ["wait", "shrink"])
def test_enough_spares_are_as_good_as_none_needed(when_empty):
    rules = {"nodes": 100_000, "repair_h": 100.0, "when_empty": when_empty}
    shocks = {"levels": {"rack": {"nodes": 16, "share": 0.3}}}
    ours = simulate(
        BASE.replace(world={"spares": rules, "shocks": shocks}), half_width=1e-3, seed=3
    )
    assert ours.losses["idle"].value == 0.0
    plain = simulate(BASE, half_width=1e-5, seed=3)
    assert abs(z(ours.goodput, plain.goodput.value)) < 4.6


def test_shrinking_is_a_loss_of_the_missing_nodes():
    # Two nodes, no spare, fixed repair r: half the job runs at half speed, and fails half as
    # often, while the other half is repaired. By Little's law nodes out = failures x repair.
    job = Scenario(
        n_gpus=16,
        job_mtbf_h=3.0,
        checkpoint_interval_steps=100,
        detect_s=0.0,
        relaunch_s=0.0,
        world={
            "spares": {"nodes": 0, "repair_h": 1.0, "when_empty": "shrink", "least_share": 0.5},
        },
    )
    up = 3.0 * 3600.0
    result = simulate(job, half_width=1e-4, seed=6)
    # A whole-job second of work is made at the pace of the nodes there are, so that up-time per
    # failure counted that way is the MTBF, and everything beyond it is idle.
    cycle = up / (1.0 - result.losses["idle"].value)
    out = 3600.0 / cycle
    # Either node is out for the repair. Time with one missing costs half of itself; with both the
    # job waits, which costs all: idle = (one out) / 2 + (both out) = (nodes out) / 2.
    assert result.losses["idle"].value == pytest.approx(out / 2.0, abs=4.5e-4)


def test_a_restart_without_nodes_missing_costs_the_same_in_every_pool():
    # The pool's worlds draw every restart: shares of a fixed one must be the plain ones.
    job = BASE.replace(world={"spares": {"nodes": 10_000, "repair_h": 1.0}})
    plain = simulate(BASE, half_width=1e-4, seed=2)
    ours = simulate(job, half_width=1e-4, seed=2)
    assert ours.losses["restart"].value == pytest.approx(plain.losses["restart"].value, rel=2e-3)
    assert abs(z(ours.losses["restart"], BASE.restart_s / (M + BASE.restart_s))) < 4.5


# ---- topology


def test_blast_radius_one_is_independent_failures():
    one = {"levels": {"gpu": {"nodes": 1, "share": 0.6}, "node": {"nodes": 1, "share": 0.3}}}
    spares = {"nodes": 3, "repair_h": 8.0}
    plain = simulate(BASE.replace(world={"spares": spares}), half_width=2e-4, seed=5)
    for counted in ("interruptions", "parts"):
        shocks = {**one, "counted": counted}
        ours = simulate(
            BASE.replace(world={"spares": spares, "shocks": shocks}), half_width=2e-4, seed=5
        )
        assert ours.goodput.value == pytest.approx(plain.goodput.value, rel=1e-13)
    without = BASE.replace(world={"shocks": {**one, "counted": "parts"}})
    assert simulate(without, seed=5).goodput == simulate(BASE, seed=5).goodput


def test_counted_parts_interrupt_the_job_once_a_shock():
    # A third of the records come from racks of 10: per interruption there are
    # 1 / (2/3 + 1/30) records, and the job's mean gap is that many times longer.
    shocks = {"counted": "parts", "levels": {"rack": {"nodes": 10, "share": 1 / 3}}}
    job = BASE.replace(world={"shocks": shocks})
    longer = BASE.replace(gpu_mtbf_h=20_000.0 / (2 / 3 + 1 / 30))
    ours, theirs = simulate(job, seed=4), simulate(longer, seed=4)
    assert ours.goodput.value == pytest.approx(theirs.goodput.value, rel=1e-12)


def test_wider_blasts_need_more_spares():
    # The same nodes out on average, in batches of 8: waits must grow.
    narrow = {"spares": {"nodes": 16, "repair_h": 12.0}}
    wide = {
        "spares": {"nodes": 16, "repair_h": 12.0},
        "shocks": {"levels": {"rack": {"nodes": 8, "share": 1.0}}},
    }
    worlds = [BASE.replace(world=w) for w in (narrow, wide)]
    few, many = (simulate(w, half_width=1e-3, seed=2).losses["idle"] for w in worlds)
    assert many.low > few.high + 0.05


# ---- nodes


NODE_LAWS = [{"weibull": 0.7}, {"lognormal": 1.0}, {"gamma": 0.5}, "exponential"]


def test_one_node_that_ages_is_the_job_itself():
    for gaps in NODE_LAWS[:3]:
        of_job = BASE.replace(world={"failures": {"gaps": gaps}})
        world = {"failures": {"gaps": gaps, "whose": "nodes"}, "nodes": {"gpus": BASE.n_gpus}}
        for renewed in ("failed", "all"):
            of_node = BASE.replace(
                world={**world, "failures": {**world["failures"], "renewed": renewed}}
            )
            a, b = (
                simulate(s, half_width=5e-5, seed=s1).goodput
                for s, s1 in ((of_job, 1), (of_node, 2))
            )
            # Independent seeds: errors add in squares. False alarm 1e-5 each.
            assert abs(a.value - b.value) < 4.5 / 1.96 * math.hypot(a.half_width, b.half_width)


@pytest.mark.parametrize("gaps", NODE_LAWS, ids=str)
def test_many_ageing_nodes_fail_like_a_poisson_process(gaps):
    # Palm and Khintchine: superposed renewals become exponential, and the mean gap is exact.
    job = BASE.replace(
        save_kind="blocking",
        checkpoint_interval_steps=10**9,
        world={"failures": {"gaps": gaps, "whose": "nodes"}},
    )
    sample = lost_work_s(job, n_failures=512 * 40, seed=5)
    error = M / math.sqrt(sample.size)
    assert abs(sample.mean() - M) < 4.5 * error
    assert stats.kstest(sample, stats.expon(scale=M).cdf).pvalue > 1e-4


@pytest.mark.parametrize("gaps", NODE_LAWS[:3], ids=str)
def test_ageing_nodes_start_as_they_are_in_the_long_run(gaps):
    # Four nodes: gaps are far from exponential, and a wrong start would show in the first ones.
    job = BASE.replace(
        save_kind="blocking",
        checkpoint_interval_steps=10**9,
        world={"failures": {"gaps": gaps, "whose": "nodes"}, "nodes": {"gpus": 4096}},
    )
    sample = lost_work_s(job, n_failures=512 * 4000, seed=5).reshape(-1, 512)
    for part in (sample[:, 0], sample[:, 1:6].ravel(), sample[:, 500:].ravel()):
        # Neighbours are correlated, so the error is taken from means over whole rows' parts.
        assert abs(part.mean() - M) < 5.0 * part.std() / math.sqrt(len(part) / 3.0)
    early, late = sample[:, 0], sample[:, -1]
    assert stats.ks_2samp(early, late).pvalue > 1e-4  # false alarm 1e-4


@pytest.mark.parametrize("gaps", NODE_LAWS, ids=str)
def test_nodes_all_made_new_fail_like_the_least_of_their_lives(gaps):
    count = 2048
    job = BASE.replace(
        save_kind="blocking",
        checkpoint_interval_steps=10**9,
        world={"failures": {"gaps": gaps, "whose": "nodes", "renewed": "all"}},
    )
    laws = {
        "weibull": lambda k: stats.weibull_min(k, scale=1 / math.gamma(1 + 1 / k)),
        "lognormal": lambda k: stats.lognorm(k, scale=math.exp(-0.5 * k * k)),
        "gamma": lambda k: stats.gamma(k, scale=1 / k),
    }
    if gaps == "exponential":
        law = stats.expon()
    else:
        ((family, k),) = gaps.items()
        law = laws[family](k)
    life = M * count
    sample = lost_work_s(job, n_failures=40_000, seed=8)
    fit = stats.kstest(sample, lambda x: -np.expm1(count * law.logsf(x / life)))
    assert fit.pvalue > 1e-4  # false alarm 1e-4
    # The mean gap that the shares rest on is that law's own.
    result = simulate(job, half_width=0.01, seed=8)
    mean = BASE.restart_s / result.losses["restart"].value - BASE.restart_s
    assert abs(sample.mean() - mean) < 4.5 * sample.std() / math.sqrt(sample.size)


# ---- lemons


def test_lemons_that_fail_like_the_others_are_none():
    lemons = BASE.replace(world={"lemons": {"share": 0.3, "factor": 1.0}})
    ours, plain = (simulate(s, half_width=1e-4, seed=2) for s in (lemons, BASE))
    assert ours.goodput.value == pytest.approx(plain.goodput.value, rel=1e-12)


@pytest.mark.parametrize("strikes", [1, 3])
def test_a_job_of_one_node_alternates_between_sound_and_lemon(strikes):
    # One node: gaps are exponential at one of two rates. Of all failures, those of the lemon are
    # strikes x share / (1 - share) for each of the sound one's, since as many nodes turn lemon as
    # are found out.
    share, factor = 0.2, 8.0
    job = BASE.replace(
        world={
            "lemons": {"share": share, "factor": factor, "strikes": strikes},
            "nodes": {"gpus": BASE.n_gpus},
        }
    )
    odds = strikes * share / (1.0 - share)
    of_lemons = odds / (1.0 + odds)
    sound = M / (1.0 - of_lemons + of_lemons / factor)

    def exceeded(t):
        return (1.0 - of_lemons) * np.exp(-t / sound) + of_lemons * np.exp(-t * factor / sound)

    result = simulate(job, half_width=5e-5, seed=12)
    assert abs(z(result.goodput, renewal_goodput(job, exceeded))) < 4.5  # false alarm 1e-5
    # A batch starts as in the long run: its first gap has the same law.
    first = job.replace(save_kind="blocking", checkpoint_interval_steps=10**9)
    sample = lost_work_s(first, n_failures=512 * 8000, seed=3).reshape(-1, 512)
    assert stats.kstest(sample[:, 0], lambda t: 1.0 - exceeded(t)).pvalue > 1e-4
    assert stats.kstest(sample[:, 511], lambda t: 1.0 - exceeded(t)).pvalue > 1e-4


def test_lemons_cluster_failures_and_keep_their_mean():
    job = BASE.replace(
        save_kind="blocking",
        checkpoint_interval_steps=10**9,
        world={"lemons": {"share": 0.02, "factor": 500.0, "strikes": 10}},
    )
    sample = lost_work_s(job, n_failures=512 * 2000, seed=3).reshape(-1, 512)
    means = sample.mean(axis=1)
    assert abs(means.mean() - M) < 4.5 * means.std() / math.sqrt(len(means))  # false alarm 1e-5
    # Rows of independent exponentials would scatter by 1 / sqrt(512); these scatter more.
    assert means.std() * math.sqrt(512) > 1.2 * M


# ---- everything at once


def test_long_runs_approach_the_long_run_shares_with_everything_switched_on():
    # Two programs tell the same world: batches in blocks, and whole runs failure by failure. Runs
    # of 350 failures start with a full pool and a job that has lost nothing: 2e-3 is left for it.
    job = Scenario(
        n_gpus=1024,
        job_mtbf_h=2.0,
        checkpoint_interval_steps=60,
        failure_clock="wall",
        target="median",
        run_steps=200_000,
        idle_s=60.0,
        world={
            "restart": {"relaunch": {"lognormal": 0.8}, "attempt_fails": 0.2, "hang_share": 0.1},
            "saves": {"silent": 0.05, "hang": 0.002},
            "stragglers": {"share": 0.3, "slowdown": 0.3, "swap_s": 200.0},
            "spares": {
                "nodes": 2,
                "repair_h": 6.0,
                "repair": "exponential",
                "when_empty": "shrink",
                "least_share": 0.96,
            },
            "shocks": {
                "levels": {
                    "software": {"nodes": 0, "share": 0.3},
                    "rack": {"nodes": 4, "share": 0.1},
                }
            },
        },
    )
    result = simulate(job, half_width=1e-4, seed=3)
    runs = simulate_runs(job, n_runs=1500, seed=4)
    total = runs.finish_s.sum()
    for name, share in {"goodput": result.goodput, **result.losses}.items():
        drawn = runs.fractions[name] * runs.finish_s
        mean = drawn.sum() / total
        error = np.std(drawn - mean * runs.finish_s) / math.sqrt(1500) / runs.finish_s.mean()
        error = math.hypot(error, share.half_width / 1.96)
        assert abs(mean - share.value) < 4.5 * error + 2e-3, name
        # No category is idle here, so that none is passed over.
        assert share.value > 0.005, name

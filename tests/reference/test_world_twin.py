"""Every world of the simulator against its event-list twin, run by run and failure by failure."""

import functools

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy import stats
from world_twin import LOST, Luck, tell_run, walk

from checkpoint_tax.scenario import Scenario, Spread, save_cycle
from checkpoint_tax.simulate import lost_work_s, simulate_runs
from checkpoint_tax.simulate.quantiles import log_quantile, quantile_table

# A run is hundreds of draws long: shrinking a failing one would take minutes and help nobody.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)

SPREADS = ["exponential", {"lognormal": 1.1}, {"gamma": 0.6}, {"weibull": 0.8}, [1.0, 2.0, 40.0]]

GAPS = st.one_of(
    st.fixed_dictionaries(
        {
            "gaps": st.sampled_from(
                [{"lognormal": 1.4}, {"gamma": 0.5}, {"weibull": 0.7}, "exponential"]
            )
        }
    ),
    st.fixed_dictionaries(
        {"gaps": st.just([0.0, 3, 1, 0.2, 9, 5, 0.5]), "block": st.integers(1, 9)}
    ),
)
RESTARTS = st.fixed_dictionaries(
    {},
    optional={
        "detect": st.sampled_from(SPREADS),
        "relaunch": st.sampled_from(SPREADS),
        "warmup": st.sampled_from(SPREADS),
        "attempt_fails": st.sampled_from([0.0, 0.4, 0.8]),
        "attempts": st.sampled_from([1, 2, 5]),
        "retry_wait_s": st.sampled_from([0.0, 45.0]),
        "manual_s": st.sampled_from([0.0, 1000.0]),
        "hang_share": st.sampled_from([0.0, 0.3, 1.0]),
        "hang_detect_s": st.sampled_from([0.0, 700.0]),
    },
)
SAVES = st.fixed_dictionaries(
    {},
    optional={
        "silent": st.sampled_from([0.0, 0.05, 0.6]),
        "hang": st.sampled_from([0.0, 0.01, 0.3]),
        "hang_s": st.sampled_from([0.0, 900.0]),
    },
)
STRAGGLERS = st.fixed_dictionaries(
    {
        "share": st.sampled_from([0.4, 1.0]),
        "slowdown": st.sampled_from([0.1, 1.5]),
        "find_s": st.sampled_from([400.0, 3000.0]),
        "swap_s": st.sampled_from([0.0, 500.0]),
    }
)
SPARES = st.fixed_dictionaries(
    {
        "nodes": st.sampled_from([0, 1, 3, 20]),
        "repair_h": st.sampled_from([0.0, 0.5, 3.0]),
        "repair": st.sampled_from(["fixed", "exponential", {"lognormal": 1.0}]),
        "when_empty": st.sampled_from(["wait", "shrink"]),
        "least_share": st.sampled_from([0.0, 0.5, 1.0]),
    }
)
SHOCKS = st.sampled_from(
    [{}, {"levels": {"software": {"nodes": 0, "share": 0.1}, "rack": {"nodes": 3, "share": 0.3}}}]
)
NODES = st.one_of(
    st.fixed_dictionaries(
        {
            "failures": st.fixed_dictionaries(
                {
                    "whose": st.just("nodes"),
                    "renewed": st.sampled_from(["failed", "failed", "all"]),
                    "gaps": st.sampled_from(SPREADS[:4]),
                }
            )
        }
    ),
    st.fixed_dictionaries(
        {
            "lemons": st.fixed_dictionaries(
                {
                    "share": st.sampled_from([0.1, 0.5]),
                    "factor": st.sampled_from([1.0, 5.0, 30.0]),
                    "strikes": st.sampled_from([1, 2, 4]),
                }
            )
        }
    ),
)
JOBS = st.fixed_dictionaries(
    {
        "save_kind": st.sampled_from(["asynchronous", "asynchronous", "blocking"]),
        "drain_mode": st.sampled_from(["wait", "skip", "overlap", "compressed"]),
        "target": st.sampled_from(["oldest", "median", "newest"]),
        "checkpoint_interval_steps": st.sampled_from([1, 17, 30, 53, 80]),
        "drain_s": st.sampled_from([0.0, 35.0, 210.0]),
        "staging_s": st.sampled_from([0.0, 20.0]),
        "warmup_s": st.sampled_from([0.0, 60.0]),
        "idle_s": st.sampled_from([0.0, 250.0]),
    }
)


def _job(values, **more):
    if values["drain_mode"] == "overlap":
        values = {**values, "target": "oldest"}
    return Scenario(**values, gpu_mtbf_h=9000.0, run_steps=2000, **more)


def _alike(job, seed):
    runs = simulate_runs(job, n_runs=2, seed=seed)
    for i in range(2):
        twin = tell_run(job, seed, i)
        assert runs.n_failures[i] == twin.failures
        # Tables of quantiles are exact to 1e-8.
        assert runs.finish_s[i] == pytest.approx(twin.wall, rel=3e-8)
        for name in ("save", "rework", "restart", "straggler", "idle"):
            share = getattr(twin, name) / twin.wall
            assert runs.fractions[name][i] == pytest.approx(share, rel=1e-6, abs=3e-8), name


@settings(max_examples=20, deadline=None, phases=PHASES)
@given(JOBS, GAPS, st.integers(0, 2**64 - 1))
def test_runs_with_other_gaps_are_the_twins(values, failures, seed):
    _alike(_job(values, world={"failures": failures}), seed)


@settings(max_examples=40, deadline=None, phases=PHASES)
@given(JOBS, RESTARTS, SAVES, st.sampled_from(["uptime", "wall"]), st.integers(0, 2**64 - 1))
def test_runs_with_restarts_and_saves_that_fail_are_the_twins(values, restart, saves, clock, seed):
    _alike(_job(values, failure_clock=clock, world={"restart": restart, "saves": saves}), seed)


@settings(max_examples=25, deadline=None, phases=PHASES)
@given(JOBS, STRAGGLERS, SAVES, st.sampled_from(["uptime", "wall"]), st.integers(0, 2**64 - 1))
def test_runs_with_stragglers_are_the_twins(values, stragglers, saves, clock, seed):
    world = {"stragglers": stragglers, "saves": saves}
    _alike(_job(values, failure_clock=clock, world=world), seed)


@settings(max_examples=60, deadline=None, phases=PHASES)
@given(
    JOBS,
    SPARES,
    SHOCKS,
    RESTARTS,
    st.one_of(st.just({}), STRAGGLERS),
    st.one_of(st.just({}), SAVES),
    st.sampled_from(["uptime", "wall"]),
    st.integers(0, 2**64 - 1),
)
def test_runs_with_a_pool_of_spares_are_the_twins(
    values, spares, shocks, restart, stragglers, saves, clock, seed
):
    world = {
        "spares": spares,
        "shocks": shocks,
        "restart": restart,
        "stragglers": stragglers,
        "saves": saves,
        "nodes": {"gpus": 2048},
    }
    _alike(_job(values, failure_clock=clock, world=world), seed)


@settings(max_examples=25, deadline=None, phases=PHASES)
@given(JOBS, NODES, st.sampled_from([1, 8]), st.integers(0, 2**64 - 1))
def test_runs_of_nodes_that_age_or_are_lemons_are_the_twins(values, nodes, count, seed):
    _alike(_job(values, world={**nodes, "nodes": {"gpus": 16384 // count}}), seed)


@settings(max_examples=10, deadline=None, phases=PHASES)
@given(JOBS, GAPS, SAVES, st.integers(0, 2**64 - 1))
def test_lost_work_in_a_world_is_the_twins(values, failures, saves, seed):
    job = _job(values, world={"failures": failures, "saves": saves})
    lost = lost_work_s(job, n_failures=600, seed=seed)
    lead = save_cycle(job).advance_s
    for replica, count in ((0, 512), (1, 88)):
        luck = Luck(job, seed, LOST, replica)
        for i in range(count):
            gap, bad, hung = luck.gap(), luck.bad_saves(), luck.hung_save()
            done = walk(job, lead, gap, np.inf, hung)
            sound = done.restorable[: max(len(done.restorable) - bad, 0)]
            restored = sound[-1] if sound else 0.0
            expected = done.progress - restored
            assert lost[512 * replica + i] == pytest.approx(expected, rel=1e-6, abs=1e-3)


@pytest.mark.parametrize(
    ("spread", "law"),
    [
        (Spread("lognormal", 0.3), stats.lognorm(0.3, scale=np.exp(-0.045))),
        (Spread("lognormal", 2.5), stats.lognorm(2.5, scale=np.exp(-3.125))),
        (Spread("gamma", 0.21), stats.gamma(0.21, scale=1 / 0.21)),
        (Spread("gamma", 900.0), stats.gamma(900.0, scale=1 / 900.0)),
        (Spread("weibull", 0.25), stats.weibull_min(0.25, scale=1 / 24.0)),
    ],
    ids=lambda value: f"{value.kind}-{value.shape}" if isinstance(value, Spread) else "law",
)
def test_quantiles_are_scipys_far_into_both_tails(spread, law):
    exceeded = np.concatenate([10.0 ** -np.arange(1.0, 16.0), [0.5, 0.3, 0.7]])
    assert np.exp(log_quantile(spread, -np.log(exceeded))) == pytest.approx(
        law.isf(exceeded), rel=1e-10
    )
    short = 10.0 ** -np.arange(1.0, 16.0)
    assert np.exp(log_quantile(spread, -np.log1p(-short))) == pytest.approx(
        law.ppf(short), rel=1e-10
    )
    table = quantile_table(functools.partial(log_quantile, spread), 7.0)
    assert table[-64, 0] == pytest.approx(7.0 * law.ppf(0.25), rel=1e-8)
    assert table[len(table) // 2 - 64, 0] == pytest.approx(7.0 * law.isf(0.25), rel=1e-8)

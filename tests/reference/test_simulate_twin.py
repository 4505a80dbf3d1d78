"""The compiled simulator against its event-list twin, failure by failure and run by run."""

import math

import numpy as np
import pytest
from event_twin import Job, play_run, standard_gaps, threefry
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint_tax.scenario import Scenario, save_cycle
from checkpoint_tax.simulate import engine, kernels, lost_work_s, simulate_runs

# Known answers published with the Random123 library for Threefry-2x64, 20 rounds.
KNOWN = [
    ((0, 0), (0, 0), (0xC2B6E3A8C2C69865, 0x6F81ED42F350084D)),
    (
        (2**64 - 1, 2**64 - 1),
        (2**64 - 1, 2**64 - 1),
        (0xE02CB7C4D95D277A, 0xD06633D0893B8B68),
    ),
    (
        (0x243F6A8885A308D3, 0x13198A2E03707344),
        (0xA4093822299F31D0, 0x082EFA98EC4E6C89),
        (0x263C7D30BB0F0AF1, 0x56BE8361D3311526),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_threefry_gives_the_published_answers(counter, key, expected):
    words = [np.uint64(w) for w in (*counter, *key)]
    assert tuple(int(w) for w in kernels.threefry2x64(*words)) == expected
    assert threefry(counter, key) == expected


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
def test_gaps_are_those_of_the_twin(seed):
    bits, uniform, gaps = np.empty(512, np.uint64), np.empty(512), np.empty(512)
    kernels._gaps(
        bits,
        uniform,
        gaps,
        np.uint64(3),
        np.uint64(7),
        np.uint64(seed),
        np.uint64(1),
        1.0,
        1.0,
    )
    twin = np.array(standard_gaps(seed, 1, 7, 4)[3 * 512 :])
    # Two units in the last place: the two logarithms round differently.
    assert np.max(np.abs(gaps / twin - 1.0)) <= 2 * np.finfo(float).eps


def test_logarithm_is_accurate_over_its_whole_range():
    tiny = 2.0 ** -np.linspace(0.01, 52.9, 512)
    near_one = 1.0 - 2.0 ** -np.linspace(2, 52, 512)
    for x in (tiny, near_one):
        out, work = np.empty(512), x.copy()
        kernels._minus_log(work.view(np.uint64), work, out)
        exact = np.array([-math.log(v) for v in x])
        assert np.max(np.abs(out / exact - 1.0)) <= 3 * np.finfo(float).eps


SCENARIOS = st.fixed_dictionaries(
    {
        "save_kind": st.sampled_from(["asynchronous", "asynchronous", "blocking"]),
        "drain_mode": st.sampled_from(["wait", "skip", "overlap", "compressed"]),
        "target": st.sampled_from(["oldest", "median", "newest"]),
        "checkpoint_interval_steps": st.integers(1, 80),
        "overlap_drains": st.integers(2, 4),
        "drain_s": st.sampled_from([0.0, 1.75, 35.0, 210.0, 300.5]),
        "drain_tax": st.sampled_from([0.0, 0.03, 0.4, 2.5]),
        "staging_s": st.sampled_from([0.0, 1.5, 20.0]),
        "blocking_s": st.sampled_from([0.0, 30.0, 210.0]),
    }
)


def _scenario(values, **more):
    if values["drain_mode"] == "overlap":
        values = {**values, "target": "oldest"}
    return Scenario(**values, **more)


@settings(max_examples=150, deadline=None)
@given(SCENARIOS, st.integers(0, 2**64 - 1))
def test_each_failure_is_accounted_like_the_twin(values, seed):
    scenario = _scenario(values)
    cycle = save_cycle(scenario)
    world = engine._world(scenario)
    gaps = np.array(standard_gaps(seed, 1, 0, 1))
    gaps *= np.resize([1.0, 0.1, 0.01], gaps.size) * scenario.job_mtbf_s
    up, saves, progress = np.empty(512), np.empty(512), np.empty(512)
    kernels._account(
        gaps,
        up,
        saves,
        progress,
        0.0,
        world.first_save,
        world.period,
        world.work,
        world.stop,
        world.taxed,
        world.tax,
        *world.durable,
    )
    for i in range(0, 512, 4):
        segment, _ = Job(scenario, cycle.advance_s).play(float(gaps[i]))
        assert saves[i] == segment.saves
        assert progress[i] == pytest.approx(segment.progress, rel=1e-11, abs=1e-9)
        if segment.saves:
            assert saves[i] * cycle.work_s == pytest.approx(segment.restored, rel=1e-11, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    SCENARIOS,
    st.integers(0, 2**64 - 1),
    st.sampled_from(["uptime", "wall"]),
    st.sampled_from([0.0, 250.0]),
)
def test_each_run_is_played_like_the_twin(values, seed, clock, idle):
    scenario = _scenario(
        values, run_steps=3000, failure_clock=clock, idle_s=idle, gpu_mtbf_h=9000.0
    )
    runs = simulate_runs(scenario, n_runs=2, seed=seed)
    for i in range(2):
        twin = play_run(scenario, standard_gaps(seed, 2, i, 8))
        assert runs.n_failures[i] == twin.failures
        assert runs.finish_s[i] == pytest.approx(twin.wall, rel=1e-11)
        for name in ("save", "rework", "restart", "idle"):
            share = getattr(twin, name) / twin.wall
            assert runs.fractions[name][i] == pytest.approx(share, rel=1e-9, abs=1e-12)


def test_lost_work_is_the_twins():
    scenario = Scenario(checkpoint_interval_steps=53, target="median")
    lost = lost_work_s(scenario, n_failures=600, seed=9)
    gaps = standard_gaps(9, 3, 0, 1) + standard_gaps(9, 3, 1, 1)
    lead = 0.5 * scenario.drain_s
    for i in range(600):
        segment, _ = Job(scenario, lead).play(gaps[i] * scenario.job_mtbf_s)
        assert lost[i] == pytest.approx(segment.progress - segment.restored, rel=1e-9, abs=1e-7)

"""What must hold in every world: losses add up, digits do not depend on threads, off means off."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario import (
    WORLD_PARAMETERS,
    Scenario,
    World,
    parse_parameters,
    scenario_from_mapping,
)
from checkpoint_tax.simulate import goodput_difference, lost_work_s, simulate, simulate_runs

NAMES = ["goodput", "save", "rework", "restart", "straggler", "idle"]

WORLDS = {
    "lognormal": {"failures": {"gaps": {"lognormal": 1.3}}},
    "gamma": {"failures": {"gaps": {"gamma": 0.6}}},
    "replay": {"failures": {"gaps": [0.5, 2.0, 0.1, 7.0], "block": 3}},
    "silent": {"saves": {"silent": 0.2}},
    "hung saves": {"saves": {"hang": 0.01}},
    "restart": {
        "restart": {
            "relaunch": {"lognormal": 0.9},
            "detect": [60.0, 90.0, 900.0],
            "attempt_fails": 0.3,
            "attempts": 4,
            "manual_s": 3600.0,
            "hang_share": 0.1,
        }
    },
    "stragglers": {"stragglers": {"share": 0.5, "swap_s": 100.0}, "saves": {"hang": 0.002}},
    "waiting": {"spares": {"nodes": 2, "repair_h": 5.0, "repair": "exponential"}},
    "shrinking": {
        "spares": {"nodes": 2, "repair_h": 30.0, "when_empty": "shrink", "least_share": 0.9},
        "shocks": {"levels": {"rack": {"nodes": 40, "share": 0.2}}},
    },
    "lemons": {"lemons": {"share": 0.1}},
    "ageing nodes": {"failures": {"whose": "nodes", "gaps": {"weibull": 0.7}}},
    "new nodes": {"failures": {"whose": "nodes", "gaps": {"gamma": 2}, "renewed": "all"}},
}
CASES = [
    (name, clock)
    for name, world in WORLDS.items()
    for clock in ("uptime", "wall")
    if clock == "uptime" or "failures" not in world
]


@pytest.mark.parametrize(("name", "clock"), CASES)
def test_shares_of_every_run_sum_to_exactly_one(name, clock):
    scenario = Scenario(world=WORLDS[name], failure_clock=clock, run_steps=3000, idle_s=30.0)
    runs = simulate_runs(scenario, n_runs=64, seed=12)
    assert list(runs.fractions) == NAMES
    for i in range(64):
        shares = [float(runs.fractions[share][i]) for share in NAMES]
        assert math.fsum(shares) == 1.0
        assert min(shares) >= 0.0
    result = simulate(scenario, half_width=0.01, seed=12)
    shares = [result.goodput.value, *(e.value for e in result.losses.values())]
    assert math.fsum(shares) == pytest.approx(1.0, abs=1e-12)
    assert min(shares) >= -1e-12
    assert math.fsum(e.value for e in result.restart_parts.values()) == pytest.approx(
        result.losses["restart"].value, abs=1e-12
    )


@pytest.mark.parametrize(("name", "clock"), CASES)
def test_digits_do_not_depend_on_threads_or_reruns(name, clock):
    scenario = Scenario(
        world=WORLDS[name], failure_clock=clock, run_steps=1500, checkpoint_interval_steps=53
    )

    def digits(threads):
        size = {"half_width": 1e-9, "max_failures": 2**17, "seed": 7, "threads": threads}
        return (
            repr(simulate(scenario, **size)),
            repr(goodput_difference(scenario, Scenario(), **size)),
            simulate_runs(scenario, n_runs=64, seed=7, threads=threads).finish_s.tobytes(),
            lost_work_s(scenario, n_failures=70_000, seed=7, threads=threads).tobytes(),
        )

    one = digits(1)
    assert digits(2) == one
    assert digits(3) == one


# The world's kernels with nothing that they do: a save fails once in 1e300.
NOTHING = {"saves": {"silent": 1e-300}}


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**64 - 1),
    st.sampled_from(["uptime", "wall"]),
    st.sampled_from([("wait", 53), ("wait", 10), ("skip", 20), ("compressed", 7), ("overlap", 9)]),
    st.sampled_from([0.6, 1.0]),
)
def test_a_world_in_which_nothing_happens_is_the_plain_one(seed, clock, mode, shape):
    scenario = Scenario(
        failure_clock=clock,
        drain_mode=mode[0],
        checkpoint_interval_steps=mode[1],
        failure_shape=shape if clock == "uptime" else 1.0,
        idle_s=120.0,
        run_steps=1500,
        warmup_s=20.0,
    )
    world = scenario.replace(world=NOTHING)
    size = {"half_width": 1e-9, "max_failures": 2**16, "seed": seed}
    plain, ours = simulate(scenario, **size), simulate(world, **size)
    assert ours.goodput.value == pytest.approx(plain.goodput.value, rel=1e-14)
    assert ours.goodput.half_width == pytest.approx(plain.goodput.half_width, rel=1e-9)
    for name, share in plain.losses.items():
        assert ours.losses[name].value == pytest.approx(share.value, rel=1e-11, abs=1e-15), name
    plain_runs, our_runs = (simulate_runs(s, n_runs=8, seed=seed) for s in (scenario, world))
    assert our_runs.finish_s == pytest.approx(plain_runs.finish_s, rel=1e-13)
    assert np.array_equal(our_runs.n_failures, plain_runs.n_failures)
    assert lost_work_s(world, n_failures=2000, seed=seed) == pytest.approx(
        lost_work_s(scenario, n_failures=2000, seed=seed), rel=1e-12, abs=1e-9
    )


def test_interpreted_kernels_give_the_same_bits():
    code = (
        "import json\n"
        "from checkpoint_tax.scenario import Scenario\n"
        "from checkpoint_tax.simulate import lost_work_s, simulate_runs\n"
        "out = []\n"
        "for world in ({'failures': {'gaps': {'gamma': 0.6}}, 'saves': {'silent': 0.2}},\n"
        "              {'restart': {'relaunch': {'lognormal': 1.0}, 'attempt_fails': 0.4}},\n"
        "              {'stragglers': {'share': 0.5}, 'lemons': {'share': 0.2},\n"
        "               'nodes': {'gpus': 4096}, 'saves': {'hang': 0.01},\n"
        "               'spares': {'nodes': 0, 'repair_h': 3.0, 'when_empty': 'shrink'}},\n"
        "              {'failures': {'whose': 'nodes', 'gaps': {'weibull': 0.7}},\n"
        "               'nodes': {'gpus': 4096}}):\n"
        "    s = Scenario(run_steps=3000, checkpoint_interval_steps=53, world=world)\n"
        "    out.append(lost_work_s(s, n_failures=512, seed=5, threads=1).tobytes().hex())\n"
        "    out.append(simulate_runs(s, n_runs=2, seed=5, threads=1).finish_s.tobytes().hex())\n"
        "print(json.dumps(out))\n"
    )

    def run(**environment):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert run(NUMBA_DISABLE_JIT="1") == run()


# ---- how a world is written


def test_a_world_survives_every_path():
    text = (
        "checkpoint_interval_steps: 53\n"
        "world:\n"
        "  failures: {gaps: {lognormal: 1.3}}\n"
        "  restart:\n"
        "    relaunch: [200, 300, 900]\n"
        "    attempt_fails: 0.2\n"
        "  saves: {silent: 0.01}\n"
    )
    job = parse_parameters(text, "job.yaml").scenario()
    assert job.world.failures.gaps is not None
    assert job.world.failures.gaps.shape == 1.3
    assert job.relaunch_s == pytest.approx(1400 / 3)
    assert scenario_from_mapping(job.as_dict()) == job
    assert scenario_from_mapping(json.loads(json.dumps(job.as_dict()))) == job
    assert World.of(job.world.plain()) == job.world
    assert job.replace(relaunch_s=150.0).restart_s == 240.0
    assert not job.is_exponential
    assert Scenario(world={}).is_exponential
    assert hash(job) == hash(scenario_from_mapping(job.as_dict()))


@pytest.mark.parametrize(
    ("world", "sentence"),
    [
        (3, "world = 3 [1] is a number, not a mapping"),
        ("x", "world = 'x' [1] is a text, not a mapping"),
        ({"failure": {}}, "the nearest known one is failures"),
        ({"saves": {"silence": 0.1}}, "world.saves: 'silence' is not a setting"),
        ({"saves": {"silent": 1.0}}, "world.saves.silent = 1.0 [1] is too large"),
        ({"saves": {"hang": -0.1}}, "world.saves.hang = -0.1 [1] is too small"),
        ({"saves": [1]}, "world.saves = [1] [1] is a list"),
        ({"failures": {"gaps": {"gama": 1}}}, "did you mean gamma?"),
        ({"failures": {"gaps": {"gamma": 0.1}}}, "world.failures.gaps.gamma = 0.1 [1]"),
        ({"failures": {"gaps": {"lognormal": math.nan}}}, "is not a finite number"),
        ({"failures": {"gaps": [1.0]}}, "holds 1 value"),
        ({"failures": {"gaps": [0.0, 0.0]}}, "has a mean of 0"),
        ({"failures": {"gaps": [1.0, -2.0]}}, "-2.0 [1] is no finite time of at least 0"),
        ({"failures": {"gaps": [1.0, "2"]}}, "is a text, not a number, in the list"),
        ({"failures": {"gaps": "fixed"}}, "would make failures a clock"),
        ({"failures": {"block": 3}}, "needs a list of gaps to replay"),
        ({"restart": {"attempts": 0}}, "world.restart.attempts = 0 [1] is too small"),
        ({"failures": {"whose": "nodes", "gaps": [1.0, 2.0]}}, "needs a distribution"),
        ({"spares": {"nodes": -1}}, "world.spares.nodes = -1 [nodes] is too small"),
        ({"spares": {"when_empty": "shrnk"}}, "did you mean shrink?"),
        ({"shocks": {"levels": [1]}}, "world.shocks.levels = [1] [1] is a list"),
        ({"shocks": {"levels": {"rack": {"nodes": 8}}}}, "must hold exactly nodes and share"),
        ({"shocks": {"levels": {"rack": {"nodes": 8, "share": 1.5}}}}, "is too large"),
        ({"shocks": {"levels": {"rack": {"nodes": 9999, "share": 0.1}}}}, "larger than the job"),
        (
            {
                "shocks": {
                    "levels": {
                        "a": {"nodes": 2, "share": 0.7},
                        "b": {"nodes": 3, "share": 0.7},
                    }
                }
            },
            "shares sum to 1.4",
        ),
        (
            {
                "shocks": {
                    "counted": "parts",
                    "levels": {"software": {"nodes": 0, "share": 0.1}},
                }
            },
            "needs every level to strike a node",
        ),
        ({"lemons": {"share": 0.1}, "failures": {"whose": "nodes"}}, "needs exponential gaps"),
        ({"spares": {"nodes": 1}, "nodes": {"gpus": 7}}, "does not divide n_gpus"),
    ],
)
def test_a_bad_world_is_refused_in_one_sentence(world, sentence):
    with pytest.raises(InputError) as refused:
        Scenario(world=world)
    assert sentence in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_world_and_the_rest_of_a_job_must_agree():
    gaps = {"failures": {"gaps": {"lognormal": 1.0}}}
    with pytest.raises(InputError, match="needs failure_clock = 'uptime'"):
        Scenario(world=gaps, failure_clock="wall")
    with pytest.raises(InputError, match="contradicts failure_shape"):
        Scenario(world=gaps, failure_shape=0.7)


def test_every_setting_says_its_unit_range_and_where_its_default_comes_from():
    for name, setting in WORLD_PARAMETERS.items():
        assert name.count(".") == 2
        assert setting.unit
        assert setting.meaning
        assert setting.default_source
        assert (setting.unit == "s") == name.endswith("_s")
        assert (setting.unit == "h") == name.endswith("_h")
        assert setting.check(setting.default) == setting.default

"""What the closed forms refuse, and that they say why."""

import math

import numpy as np
import pytest

from checkpoint_tax.errors import InputError
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

# Function, valid arguments, names of those that may be 0.
CALLS = [
    (young.interval_s, {"blocking_s": 60.0, "job_mtbf_s": 4e4}, {"blocking_s"}),
    (young.implied_job_mtbf_s, {"interval_s": 900.0, "blocking_s": 60.0}, set()),
    (daly.first_order_interval_s, {"blocking_s": 60.0, "job_mtbf_s": 4e4}, {"blocking_s"}),
    (daly.higher_order_interval_s, {"blocking_s": 60.0, "job_mtbf_s": 4e4}, {"blocking_s"}),
    (renewal.best_work_s, {"blocking_s": 60.0, "job_mtbf_s": 4e4}, {"blocking_s"}),
    *(
        (
            function,
            {
                "work_s": 900.0,
                "blocking_s": 60.0,
                "job_mtbf_s": 4e4,
                "restart_s": 390.0,
                "downtime_s": 5.0,
            },
            {"blocking_s", "restart_s", "downtime_s"},
        )
        for function in (renewal.expected_wall_s, renewal.goodput)
    ),
    *(
        (
            function,
            {
                "work_s": 900.0,
                "drain_s": 210.0,
                "drain_tax": 0.03,
                "job_mtbf_s": 4e4,
                "restart_s": 390.0,
                "target_fraction": 0.5,
                "stop_s": 1.0,
                "downtime_s": 5.0,
            },
            {"drain_s", "drain_tax", "restart_s", "target_fraction", "stop_s", "downtime_s"},
        )
        for function in (nonblocking.goodput, nonblocking.losses)
    ),
    *(
        (
            function,
            {
                "work_s": 900.0,
                "stop_s": 1.0,
                "latency_work_s": 210.0,
                "taxed_work_s": 210.0,
                "tax": 0.03,
                "advance_s": 105.0,
                "job_mtbf_s": 4e4,
                "restart_s": 390.0,
                "downtime_s": 5.0,
            },
            {"stop_s", "taxed_work_s", "tax", "advance_s", "restart_s", "downtime_s"},
        )
        for function in (nonblocking.cycle_goodput, nonblocking.cycle_losses)
    ),
    (
        nonblocking.best_work_s,
        {"drain_s": 210.0, "drain_tax": 0.03, "job_mtbf_s": 4e4, "stop_s": 1.0},
        {"drain_s", "drain_tax", "stop_s"},
    ),
    (
        nonblocking.aupy_interval_s,
        {
            "drain_s": 210.0,
            "drain_tax": 0.03,
            "job_mtbf_s": 4e4,
            "restart_s": 390.0,
            "downtime_s": 5.0,
        },
        {"drain_s", "drain_tax", "restart_s", "downtime_s"},
    ),
    (
        boundary.drain_is_best,
        {"drain_s": 210.0, "drain_tax": 0.03, "job_mtbf_s": 4e4},
        {"drain_tax"},
    ),
    (boundary.largest_mtbf_s, {"drain_s": 210.0, "drain_tax": 0.03}, {"drain_tax"}),
    (boundary.largest_mtbf_first_order_s, {"drain_s": 210.0, "drain_tax": 0.03}, {"drain_tax"}),
    (
        boundary.smallest_n_gpus,
        {"drain_s": 210.0, "drain_tax": 0.03, "gpu_mtbf_s": 1.8e8},
        {"drain_tax"},
    ),
    *(
        (
            function,
            {"interval_s": 900.0, "blocking_s": 60.0, "job_mtbf_s": 4e4, "restart_s": 390.0},
            {"blocking_s", "restart_s"},
        )
        for function in (waste.first_order, waste.first_order_losses)
    ),
    (
        waste.best_first_order,
        {"blocking_s": 60.0, "job_mtbf_s": 4e4, "restart_s": 390.0},
        {"restart_s"},
    ),
    (
        ettr.kokolis,
        {"work_s": 900.0, "blocking_s": 60.0, "job_mtbf_s": 4e4, "restart_s": 390.0},
        {"blocking_s", "restart_s"},
    ),
    (
        availability.saxena_interval_s,
        {"blocking_s": 60.0, "job_mtbf_s": 4e4, "restart_s": 390.0},
        {"blocking_s", "restart_s"},
    ),
    (
        availability.saxena,
        {"period_s": 960.0, "blocking_s": 60.0, "job_mtbf_s": 4e4, "restart_s": 390.0},
        {"blocking_s", "restart_s"},
    ),
]
ONE_ARGUMENT = [
    pytest.param(function, arguments, zero_ok, name, id=f"{function.__module__}.{name}-{i}")
    for i, (function, arguments, zero_ok) in enumerate(CALLS)
    for name in arguments
]


@pytest.mark.parametrize(("function", "arguments", "zero_ok", "name"), ONE_ARGUMENT)
def test_each_argument_is_judged_and_named(function, arguments, zero_ok, name):
    function(**arguments)
    for bad in (-1.0, math.nan, math.inf, "3600", True, None, 1 + 2j):
        with pytest.raises(InputError, match=rf"{name}.*allowed"):
            function(**(arguments | {name: bad}))
    with pytest.raises(InputError, match=name):
        function(**(arguments | {name: np.array([arguments[name], np.nan])}))
    if name in zero_ok:
        function(**(arguments | {name: 0.0}))
    elif name != "latency_work_s":
        with pytest.raises(InputError, match=rf"{name} = 0 s .*above 0"):
            function(**(arguments | {name: 0}))


def test_whole_numbers_and_lists_are_accepted():
    np.testing.assert_allclose(young.interval_s([2, 8], 100), [20, 40], rtol=1e-15)


def test_unknown_failure_clock():
    with pytest.raises(InputError, match=r"failure_clock = 'cpu'.*'uptime', 'wall'"):
        renewal.goodput(900, 60, 4e4, 390, failure_clock="cpu")
    with pytest.raises(InputError, match=r"failure_clock = 'cpu'.*'uptime', 'wall'"):
        nonblocking.goodput(900, 60, 0.1, 4e4, 390, failure_clock="cpu")


def test_interval_shorter_than_its_drain():
    with pytest.raises(InputError, match=r"work_s = 200 s .*at least drain_s"):
        nonblocking.goodput([900.0, 200.0], 210.0, 0.03, 4e4, 390)


@pytest.mark.parametrize("name", ["taxed_work_s", "advance_s"])
@pytest.mark.parametrize(("work_s", "latency_work_s"), [(100.0, 300.0), (300.0, 100.0)])
def test_cycle_parts_longer_than_the_cycle_or_the_drain(name, work_s, latency_work_s):
    parts = {"taxed_work_s": 0.0, "advance_s": 0.0}
    nonblocking.cycle_losses(
        work_s, 0, latency_work_s, tax=0.1, job_mtbf_s=4e4, restart_s=0, **(parts | {name: 100.0})
    )
    with pytest.raises(InputError, match=rf"{name} = 101 s .*smaller of work_s and latency"):
        nonblocking.cycle_losses(
            work_s,
            0,
            latency_work_s,
            tax=0.1,
            job_mtbf_s=4e4,
            restart_s=0,
            **(parts | {name: 101.0}),
        )


def test_restored_version_outside_its_window():
    with pytest.raises(InputError, match=r"target_fraction = 1\.5 is .*at most 1 \(pure number\)"):
        nonblocking.goodput(900, 210, 0.03, 4e4, 390, target_fraction=1.5)


def test_period_shorter_than_its_save():
    with pytest.raises(InputError, match="period_s - blocking_s = -10 s"):
        availability.saxena(50, 60, 4e4, 390)


def test_aupy_without_an_optimum():
    with pytest.raises(InputError, match=r"job_mtbf_s - \(downtime_s \+ restart_s \+ drain_s\)"):
        nonblocking.aupy_interval_s(210, 0.03, 600, 390)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("work_s", [1e-300, 1e300])
def test_ratios_beyond_double_precision(work_s):
    mtbf_s = 1e-300 if work_s > 1 else 1e300
    with pytest.raises(InputError, match="beyond double"):
        renewal.goodput(work_s, 0, mtbf_s, 0)
    with pytest.raises(InputError, match="beyond double"):
        nonblocking.cycle_losses(work_s, 0, 0, 0, 0, 0, mtbf_s, 0)


def test_more_gpus_than_can_be_counted():
    with pytest.raises(InputError, match="more than 2\\^53 GPUs"):
        boundary.smallest_n_gpus(1e-9, 10.0, 1e9)

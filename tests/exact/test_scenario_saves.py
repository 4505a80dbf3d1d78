"""The save cycle against the model's own definition of every mode."""

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario import SaveCycle, Scenario, save_cycle

MODES = ("wait", "skip", "overlap", "compressed")


def cycle(k: float, **changes: object) -> SaveCycle:
    return save_cycle(Scenario().replace(**changes), k)


@pytest.mark.parametrize(
    ("mode", "k", "work", "latency"),
    [
        ("wait", 10, 30, 30),
        ("wait", 30, 30, 30),
        ("wait", 53, 53, 30),
        ("skip", 10, 30, 30),
        ("skip", 20, 40, 30),
        ("skip", 29, 58, 30),
        ("skip", 31, 31, 30),
        ("overlap", 10, 30, 60),
        ("overlap", 30, 30, 30),
        ("overlap", 40, 40, 30),
        ("compressed", 3, 3, 3),
        ("compressed", 30, 30, 30),
        ("compressed", 60, 60, 30),
    ],
)
def test_modes_in_steps_of_the_first_posts_job(mode: str, k: int, work: int, latency: int) -> None:
    found = cycle(k, drain_mode=mode)
    assert found.work_s == 7 * work
    assert found.latency_work_s == 7 * latency
    assert found.taxed_work_s == 7 * min(work, latency)
    # Lost work per failure is half an interval plus the latency; for the post's simulator
    # that is the k/2 + min(k, S) steps of its table.
    if mode == "compressed":
        assert found.work_s / 2 + found.latency_work_s == 7 * (k / 2 + min(k, 30))


def test_a_blocking_save_has_no_drain() -> None:
    found = cycle(307, save_kind="blocking", target="newest")
    assert found == SaveCycle(307 * 7.0, 210.0, 0.0, 0.0, 0.0, 0.0)
    assert found.period_s == found.first_durable_s == 307 * 7 + 210


@given(
    k=st.integers(1, 400),
    drain_steps=st.integers(0, 300),
    mode=st.sampled_from(("wait", "skip", "compressed")),
    target=st.sampled_from(("oldest", "median", "newest")),
)
def test_first_durable_save_is_the_models_t1(
    k: int, drain_steps: int, mode: str, target: str
) -> None:
    job = Scenario(
        step_s=2, drain_s=2.0 * drain_steps, drain_tax=0.25, staging_s=1.5, drain_mode=mode,
        target=target,
    )  # fmt: skip
    found = save_cycle(job, k)
    work, latency = found.work_s, found.latency_work_s
    # Binary fractions only, so the comparison is exact.
    assert found.first_durable_s == work - job.target_fraction * latency + 1.5 + latency * 1.25
    assert found.period_s == work + 1.5 + 0.25 * found.taxed_work_s


@given(k=st.integers(1, 60), drain_steps=st.integers(0, 300), step_ms=st.integers(1, 9999))
def test_skip_agrees_with_walking_through_the_due_times(
    k: int, drain_steps: int, step_ms: int
) -> None:
    step_s = step_ms / 1000
    found = cycle(k, step_s=step_s, drain_s=drain_steps * step_s, drain_mode="skip", n_gpus=1)
    due = k
    while due < drain_steps:
        due += k
    assert math.isclose(found.work_s, due * step_s, rel_tol=1e-11)


@given(
    k=st.floats(1e-3, 1e4),
    drain_s=st.floats(0, 1e4),
    mode=st.sampled_from(MODES),
    n=st.integers(1, 8),
    tax=st.floats(0, 3),
)
def test_order_within_a_cycle(k: float, drain_s: float, mode: str, n: int, tax: float) -> None:
    found = cycle(k, drain_s=drain_s, drain_mode=mode, overlap_drains=n, drain_tax=tax, n_gpus=1)
    assert 0 <= found.taxed_work_s <= found.work_s
    assert found.work_s >= k * 7.0
    assert 0 < found.first_save_s <= found.first_durable_s
    if mode != "overlap":
        assert found.latency_work_s <= found.work_s
        for target in ("median", "newest"):
            later = cycle(k, drain_s=drain_s, drain_mode=mode, target=target, n_gpus=1)
            assert later.first_save_s >= 0


@given(extra=st.floats(0, 1e3))
def test_modes_agree_once_the_drain_fits(extra: float) -> None:
    found = {cycle(30 + extra, drain_mode=mode) for mode in MODES}
    assert len(found) == 1


def test_a_drain_stands_still_while_a_later_save_stops_training() -> None:
    found = cycle(10, drain_mode="overlap", overlap_drains=3, staging_s=5.0, drain_tax=0.25)
    assert found.latency_work_s == 210 + 2 * (210 + 4)
    # In wall time: three drains' worth of taxed progress and the two stops in between.
    assert found.first_durable_s - found.first_save_s - 5 == 3 * 210 * 1.25 + 2 * 5


def test_one_drain_at_a_time_overlaps_nothing() -> None:
    assert cycle(10, drain_mode="overlap", overlap_drains=1) == cycle(10, drain_mode="wait")


def test_rounded_quotients_count_as_the_whole_number_they_stand_for() -> None:
    # 0.3 / 0.1 is 2.9999999999999996 and 2.1 / 0.7 is 3.0000000000000004 in binary.
    for step_s, drain_s in ((0.1, 0.3), (0.7, 2.1)):
        job = Scenario(step_s=step_s, drain_s=drain_s, drain_mode="skip")
        assert math.isclose(save_cycle(job, 1).work_s, drain_s, rel_tol=1e-12)
        overlapping = job.replace(drain_mode="overlap", overlap_drains=4)
        assert math.isclose(save_cycle(overlapping, 3).latency_work_s, drain_s, rel_tol=1e-12)


def test_the_interval_of_the_scenario_is_the_default() -> None:
    job = Scenario(checkpoint_interval_steps=53)
    assert save_cycle(job) == save_cycle(job, 53)
    assert save_cycle(job, 53.5).work_s == 53.5 * 7


@pytest.mark.parametrize("interval", [0, -1.0, math.nan, math.inf, "30", True])
def test_a_bad_interval_is_refused(interval: Any) -> None:
    with pytest.raises(InputError, match=r"interval_steps = .* \[steps\] .*allowed is a number"):
        save_cycle(Scenario(), interval)


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(SaveCycle)])
def test_a_cycle_cannot_be_changed_in_place(field: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(save_cycle(Scenario()), field, 1.0)

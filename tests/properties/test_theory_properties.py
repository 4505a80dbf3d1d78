"""Laws every closed form obeys, on drawn jobs. Deterministic functions: no false alarms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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

# Rounding of a handful of operations; a law may fail by no more than this.
ROUNDING = 1e-13


def log_uniform(low, high):
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.exp(x)))


MTBF_S = log_uniform(60, 1e9)
COST_S = log_uniform(1e-3, 1e4)
RESTART_S = st.one_of(st.just(0.0), log_uniform(1, 1e4))
TAX = st.one_of(st.just(0.0), log_uniform(1e-4, 5))
FRACTION = st.floats(0, 1)
CLOCK = st.sampled_from(["uptime", "wall"])


@st.composite
def cycles(draw):
    """Any save cycle: work, stop, latency, taxed work, tax, advance."""
    work_s = draw(log_uniform(1, 1e5))
    latency_s = draw(st.one_of(st.just(0.0), log_uniform(1e-2, 5 * work_s)))
    longest_s = min(work_s, latency_s)
    return {
        "work_s": work_s,
        "stop_s": draw(st.one_of(st.just(0.0), COST_S)),
        "latency_work_s": latency_s,
        "taxed_work_s": longest_s,
        "tax": draw(TAX),
        "advance_s": draw(FRACTION) * longest_s,
    }


@given(cycles(), MTBF_S, RESTART_S, RESTART_S, CLOCK)
def test_losses_sum_to_one_and_none_is_negative(cycle, mtbf_s, restart_s, downtime_s, clock):
    found = nonblocking.cycle_losses(
        **cycle, job_mtbf_s=mtbf_s, restart_s=restart_s, failure_clock=clock, downtime_s=downtime_s
    )
    assert abs(sum(found.values()) - 1) < ROUNDING
    assert min(found.values()) >= 0


@given(cycles(), MTBF_S, log_uniform(1.0001, 100), RESTART_S, CLOCK)
def test_fewer_failures_never_lower_goodput(cycle, mtbf_s, factor, restart_s, clock):
    worse, better = nonblocking.cycle_goodput(
        **cycle,
        job_mtbf_s=np.array([mtbf_s, mtbf_s * factor]),
        restart_s=restart_s,
        failure_clock=clock,
    )
    assert better >= worse * (1 - ROUNDING)


@given(cycles(), MTBF_S, RESTART_S, RESTART_S)
def test_a_restart_that_can_fail_is_never_better(cycle, mtbf_s, restart_s, downtime_s):
    job = {"job_mtbf_s": mtbf_s, "restart_s": restart_s, "downtime_s": downtime_s}
    safe = nonblocking.cycle_goodput(**cycle, **job, failure_clock="uptime")
    unsafe = nonblocking.cycle_goodput(**cycle, **job, failure_clock="wall")
    assert unsafe <= safe * (1 + ROUNDING)
    if restart_s == 0:
        np.testing.assert_allclose(unsafe, safe, rtol=ROUNDING)


@given(COST_S, log_uniform(1, 50), TAX, MTBF_S, RESTART_S, FRACTION, FRACTION)
def test_a_newer_restored_version_is_never_worse(
    drain_s, stretch, tax, mtbf_s, restart_s, one, other
):
    older, newer = nonblocking.goodput(
        drain_s * stretch,
        drain_s,
        tax,
        mtbf_s,
        restart_s,
        target_fraction=np.array([min(one, other), max(one, other)]),
    )
    assert newer >= older * (1 - ROUNDING)


@given(COST_S, log_uniform(1, 50), MTBF_S, RESTART_S, CLOCK, FRACTION)
def test_without_a_drain_or_a_tax_the_forms_reduce_to_blocking(
    drain_s, stretch, mtbf_s, restart_s, clock, fraction
):
    work_s = drain_s * stretch
    blocking = renewal.goodput(work_s, 3.0, mtbf_s, restart_s, failure_clock=clock)
    no_drain = nonblocking.goodput(
        work_s, 0.0, 0.7, mtbf_s, restart_s, stop_s=3.0, failure_clock=clock
    )
    # exp(-p) carries a relative error of about p units in the last place.
    rounding = ROUNDING + 4 * np.finfo(float).eps * (work_s + 3.0 + restart_s) / mtbf_s
    if blocking > 1e-280:
        np.testing.assert_allclose(no_drain, blocking, rtol=rounding)
    no_tax = nonblocking.goodput(
        work_s,
        drain_s,
        0.0,
        mtbf_s,
        restart_s,
        stop_s=3.0,
        failure_clock=clock,
        target_fraction=fraction,
    )
    delayed = blocking * np.exp(-(1 - fraction) * drain_s / mtbf_s)
    if delayed > 1e-280:
        np.testing.assert_allclose(no_tax, delayed, rtol=2 * rounding)


@given(COST_S, log_uniform(1, 1e8), RESTART_S, CLOCK, log_uniform(1e-3, 3))
def test_the_best_blocking_interval_beats_its_neighbours(
    blocking_s, mtbf_s, restart_s, clock, away
):
    best_s = renewal.best_work_s(blocking_s, mtbf_s)
    at, below, above = renewal.goodput(
        best_s * np.array([1, 1 / (1 + away), 1 + away]),
        blocking_s,
        mtbf_s,
        restart_s,
        failure_clock=clock,
    )
    assert at >= below * (1 - ROUNDING)
    assert at >= above * (1 - ROUNDING)


@given(COST_S, TAX, MTBF_S, RESTART_S, FRACTION, log_uniform(1e-3, 3), COST_S)
def test_the_best_drained_interval_beats_its_neighbours(
    drain_s, tax, mtbf_s, restart_s, fraction, away, stop_s
):
    best_s = nonblocking.best_work_s(drain_s, tax, mtbf_s, stop_s=stop_s)
    assert best_s >= drain_s
    others_s = np.maximum(best_s * np.array([1, 1 / (1 + away), 1 + away]), drain_s)
    at, below, above = nonblocking.goodput(
        others_s, drain_s, tax, mtbf_s, restart_s, target_fraction=fraction, stop_s=stop_s
    )
    assert at >= below * (1 - ROUNDING)
    assert at >= above * (1 - ROUNDING)


@given(COST_S, MTBF_S)
def test_the_best_interval_lies_between_daly_and_young(blocking_s, mtbf_s):
    best_s = renewal.best_work_s(blocking_s, mtbf_s)
    assert daly.first_order_interval_s(blocking_s, mtbf_s) <= best_s * (1 + ROUNDING)
    assert best_s <= young.interval_s(blocking_s, mtbf_s) * (1 + ROUNDING)
    assert best_s <= mtbf_s


@given(COST_S, MTBF_S, RESTART_S, log_uniform(1e-2, 1e2))
def test_no_interval_wastes_less_than_youngs(blocking_s, mtbf_s, restart_s, factor):
    tau_s = factor * young.interval_s(blocking_s, mtbf_s)
    least = waste.best_first_order(blocking_s, mtbf_s, restart_s)
    assert waste.first_order(tau_s, blocking_s, mtbf_s, restart_s) >= least * (1 - ROUNDING)


@given(COST_S, MTBF_S)
def test_the_implied_mtbf_inverts_young(blocking_s, mtbf_s):
    tau_s = young.interval_s(blocking_s, mtbf_s)
    np.testing.assert_allclose(young.implied_job_mtbf_s(tau_s, blocking_s), mtbf_s, rtol=1e-14)


@given(COST_S, MTBF_S, RESTART_S, log_uniform(1e-3, 10))
def test_saxenas_period_has_the_highest_availability(blocking_s, mtbf_s, restart_s, away):
    best_s = availability.saxena_interval_s(blocking_s, mtbf_s, restart_s)
    others_s = np.maximum(best_s * np.array([1, 1 / (1 + away), 1 + away]), blocking_s)
    at, below, above = availability.saxena(others_s, blocking_s, mtbf_s, restart_s)
    assert at >= below * (1 - ROUNDING)
    assert at >= above * (1 - ROUNDING)


@given(COST_S, log_uniform(1e-3, 5), RESTART_S, log_uniform(1.001, 1e6), log_uniform(1e-3, 3))
def test_aupys_period_minimises_its_own_objective(drain_s, tax, restart_s, factor, away):
    mtbf_s = (drain_s + restart_s) * factor
    best_s = nonblocking.aupy_interval_s(drain_s, tax, mtbf_s, restart_s)
    # The paper's save: wall time c, of which a share omega is work.
    c_s, omega = drain_s * (1 + tax), 1 / (1 + tax)
    assert best_s >= c_s * (1 - ROUNDING)

    def inverse_slowdown(period_s):
        failing = (restart_s + omega * c_s + period_s / 2) / mtbf_s
        return (period_s - (1 - omega) * c_s) * (1 - failing) / period_s

    at = inverse_slowdown(best_s)
    for other_s in (best_s * (1 + away), max(best_s / (1 + away), c_s)):
        assert inverse_slowdown(other_s) <= at + ROUNDING


@given(log_uniform(1, 1e4), log_uniform(1e-6, 10), log_uniform(1e-6, 1))
def test_the_boundary_separates_the_two_regimes(drain_s, tax, away):
    mtbf_s = boundary.largest_mtbf_s(drain_s, tax)
    assert boundary.drain_is_best(drain_s, tax, mtbf_s / (1 + away))
    assert not boundary.drain_is_best(drain_s, tax, mtbf_s * (1 + away))
    assert mtbf_s >= boundary.largest_mtbf_first_order_s(drain_s, tax)


# Orders of convergence, with the leading constant, as failures become rare.
RARE = np.array([1e-2, 1e-3, 1e-4, 1e-5])


@pytest.mark.parametrize(
    ("method", "constant", "power"),
    [
        (young.interval_s, 1 / 3, 1),
        (daly.first_order_interval_s, -1 / 6, 1),
        (daly.higher_order_interval_s, -1 / 270, 3),
    ],
)
def test_interval_estimates_converge_at_their_order(method, constant, power):
    """Relative error is constant * s^power * (1 + O(s)) with s = sqrt(2C/M)."""
    s = np.sqrt(2 * RARE)
    error = method(RARE, 1.0) / renewal.best_work_s(RARE, 1.0) - 1
    assert (np.abs(error / (constant * s**power) - 1) < s).all()


def test_aupys_period_converges_to_the_exact_one():
    """Relative error is -s/6 - (L + R)/(2M) + O(s^2), with s = sqrt(2aL/M)."""
    mtbf_s = 10.0 ** np.arange(5, 11)
    drain_s, tax, restart_s = 210.0, 0.03, 390.0
    exact_s = renewal.best_work_s(tax * drain_s, mtbf_s) + tax * drain_s
    error = nonblocking.aupy_interval_s(drain_s, tax, mtbf_s, restart_s) / exact_s - 1
    s = np.sqrt(2 * tax * drain_s / mtbf_s)
    lead = -s / 6 - (drain_s + restart_s) / (2 * mtbf_s)
    assert (np.abs(error / lead - 1) < s).all()


def test_first_order_boundary_converges_to_the_exact_one():
    """L/(2a) over the exact boundary is 1 - 4a/3 + O(a^2)."""
    tax = np.array([1e-1, 1e-2, 1e-3, 1e-4])
    ratio = boundary.largest_mtbf_first_order_s(1.0, tax) / boundary.largest_mtbf_s(1.0, tax)
    assert (np.abs((1 - ratio) / (4 * tax / 3) - 1) < 2 * tax).all()


def test_ettr_without_save_time_is_exact_to_first_order():
    mtbf_s = 10.0 ** np.arange(5, 9)
    work_s, restart_s = 3600.0, 900.0
    gap = renewal.goodput(work_s, 0, mtbf_s, restart_s) - ettr.kokolis(work_s, 0, mtbf_s, restart_s)
    # Next order of w/(exp(w/M) - 1)/(1 + R/M)/M: (w^2/12 + R w/2 + R^2)/M^2.
    lead = (work_s**2 / 12 + restart_s * work_s / 2 + restart_s**2) / mtbf_s**2
    assert (np.abs(gap / lead - 1) < 2 * work_s / mtbf_s + 1e-15 / lead).all()


def test_ettr_leaves_out_failures_that_strike_a_save():
    mtbf_s = 10.0 ** np.arange(6, 10)
    work_s, blocking_s = 3600.0, 60.0
    gap = renewal.goodput(work_s, blocking_s, mtbf_s, 0) - ettr.kokolis(
        work_s, blocking_s, mtbf_s, 0
    )
    lead = -blocking_s / (2 * mtbf_s) / (1 + blocking_s / work_s)
    # The next term is (w + C)^2/(12 M^2), here (w + C)^2/(6 C M) of the leading one.
    bound = (work_s + blocking_s) ** 2 / (6 * blocking_s * mtbf_s)
    assert (np.abs(gap / lead - 1) < 1.1 * bound + 1e-15 / -lead).all()


def test_saxenas_period_tends_to_youngs():
    """Relative excess is s/2 + R/(2M) + O(s^2), with s = sqrt(2C/M)."""
    mtbf_s = 10.0 ** np.arange(5, 10)
    excess = availability.saxena_interval_s(60, mtbf_s, 900) / young.interval_s(60, mtbf_s) - 1
    s = np.sqrt(120 / mtbf_s)
    lead = s / 2 + 900 / (2 * mtbf_s)
    assert (np.abs(excess / lead - 1) < s).all()

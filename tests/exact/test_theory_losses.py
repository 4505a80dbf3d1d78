"""The loss breakdown against the definition of the process, cycle by cycle and in decimals."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from checkpoint_tax.theory import nonblocking, renewal

NAMES = ("goodput", "save", "rework", "restart", "straggler", "idle")

# work, stop, latency, taxed work, tax, advance, M, R [s; tax: 1]
CYCLES = {
    "blocking": (600, 60, 0, 0, 0, 0, 3000, 390),
    "blocking, hopeless": (6000, 600, 0, 0, 0, 0, 300, 390),
    "drain, oldest": (371, 0, 210, 210, 0.03, 0, 4000, 390),
    "drain, median": (371, 0, 210, 210, 0.03, 105, 4000, 390),
    "drain, newest": (371, 0, 210, 210, 0.03, 210, 4000, 390),
    "drain fills the cycle": (210, 0, 210, 210, 0.5, 105, 2000, 100),
    "staged drain, tax above 1": (400, 12, 150, 150, 1.75, 75, 1500, 250),
    "two drains overlap": (210, 0, 420, 210, 0.03, 0, 2500, 390),
    "three drains overlap, staged": (105, 5, 315, 105, 0.4, 0, 1700, 390),
    "skip": (280, 0, 210, 210, 0.1, 210, 3000, 0),
}


def by_definition(cycle, failure_clock, downtime):
    """Losses from the process itself: walk its segments until no failure is left to happen.

    Up-time is cut where the rate of progress changes and where a version becomes durable; the
    chance that X passes a cut is exp(-cut/M). Sums instead of series limits, 50 digits.
    """
    with localcontext() as context:
        context.prec = 50
        work, stop, latency, taxed, tax, advance, mtbf, restart = (
            Decimal(repr(value)) for value in cycle
        )
        idle = Decimal(repr(downtime))

        def survives(moment):
            return (-moment / mtbf).exp()

        first_save = work - advance
        progress = mtbf * (1 - survives(first_save))
        now = first_save
        while survives(now) > Decimal("1e-30"):
            drained = now + stop + taxed * (1 + tax)
            following = drained + work - taxed
            progress += mtbf * (survives(now + stop) - survives(drained)) / (1 + tax)
            progress += mtbf * (survives(drained) - survives(following))
            now = following
        period = work + stop + tax * taxed
        durable = first_save + stop + latency * (1 + tax)
        secured = Decimal(0)
        while survives(durable) > Decimal("1e-30"):
            secured += work * survives(durable)
            durable += period
        if failure_clock == "wall":
            attempts = (restart / mtbf).exp()
            lost_idle, lost_restart = idle * attempts, mtbf * (attempts - 1)
        else:
            lost_idle, lost_restart = idle, restart
        wall = mtbf + lost_idle + lost_restart
        parts = (secured, mtbf - progress, progress - secured, lost_restart, Decimal(0), lost_idle)
        return {name: float(part / wall) for name, part in zip(NAMES, parts, strict=True)}


@pytest.mark.parametrize("failure_clock", ["uptime", "wall"])
@pytest.mark.parametrize("cycle", CYCLES.values(), ids=CYCLES.keys())
def test_losses_follow_from_the_definition(cycle, failure_clock):
    expected = by_definition(cycle, failure_clock, 45.0)
    found = nonblocking.cycle_losses(*cycle, failure_clock=failure_clock, downtime_s=45.0)
    assert tuple(found) == NAMES
    for name in NAMES:
        np.testing.assert_allclose(found[name], expected[name], rtol=5e-15, err_msg=name)


def closed_form_rework(work, drain, tax, fraction, mtbf, restart):
    """Rework of a drained save as mean progress minus secured work, 80 digits."""
    with localcontext() as context:
        context.prec = 80
        w, length, a, f, m, r = (
            Decimal(repr(value)) for value in (work, drain, tax, fraction, mtbf, restart)
        )
        until_save = (-(w - f * length) / m).exp()
        under = (-(length * (1 + a)) / m).exp()
        cycle = (-(w + a * length) / m).exp()
        progress = m * (1 - until_save)
        progress += m * until_save * ((1 - under) / (1 + a) + under - cycle) / (1 - cycle)
        secured = w * until_save * under / (1 - cycle)
        return float((progress - secured) / (m + r))


@pytest.mark.parametrize("scale", [1e-2, 1e-5, 1e-8, 1e-11])
@pytest.mark.parametrize("fraction", [0.0, 0.5, 1.0])
def test_rework_keeps_its_digits_when_failures_are_rare(scale, fraction):
    # Taken as one minus the rest, rework at the smallest scale would keep 5 digits of 16.
    args = (371.0 * scale, 210.0 * scale, 0.03)
    found = nonblocking.losses(*args, 4000.0, 390.0, target_fraction=fraction)["rework"]
    expected = closed_form_rework(*args, fraction, 4000.0, 390.0)
    np.testing.assert_allclose(found, expected, rtol=3e-15)


def test_blocking_is_the_cycle_without_a_drain():
    work_s = np.array([30.0, 700.0, 5000.0])[:, None]
    mtbf_s = np.array([300.0, 11_000.0, 1e7])
    for failure_clock in ("uptime", "wall"):
        found = nonblocking.cycle_goodput(
            work_s, 60, 0, 0, 0, 0, mtbf_s, 390, failure_clock=failure_clock, downtime_s=20
        )
        expected = renewal.goodput(
            work_s, 60, mtbf_s, 390, failure_clock=failure_clock, downtime_s=20
        )
        # exp(-p) loses p units of relative precision at p = (w + C)/M, here up to 17.
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_drained_goodput_is_the_published_product():
    w, length, a, m, r = 371.0, 210.0, 0.03, 10_986.328125, 390.0
    for f in (0.0, 0.5, 1.0):
        t1 = w - f * length + length * (1 + a)
        expected = w * np.exp(-t1 / m) / ((1 - np.exp(-(w + a * length) / m)) * (m + r))
        found = nonblocking.goodput(w, length, a, m, r, target_fraction=f)
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_newest_equals_blocking_at_the_drains_cost():
    found = nonblocking.goodput(371.0, 210.0, 0.03, 10_986.3, 390.0, target_fraction=1.0)
    np.testing.assert_allclose(found, renewal.goodput(371.0, 6.3, 10_986.3, 390.0), rtol=1e-15)


def test_one_array_call_equals_many_scalar_calls():
    work_s = np.array([210.0, 371.0, 900.0])[:, None]
    mtbf_s = np.array([2000.0, 11_000.0])
    table = nonblocking.losses(work_s, 210, 0.03, mtbf_s, 390, downtime_s=7.0)
    for name in NAMES:
        assert table[name].shape == (3, 2)
        for i in range(3):
            for j in range(2):
                one = nonblocking.losses(work_s[i, 0], 210, 0.03, mtbf_s[j], 390, downtime_s=7.0)
                # Vector and scalar code paths of exp may differ in the last place.
                np.testing.assert_allclose(table[name][i, j], one[name], rtol=1e-15)


@pytest.mark.filterwarnings("error")
def test_hopeless_restarts_give_zero_goodput_and_no_warning():
    found = nonblocking.losses(371, 210, 0.03, 1.0, 1e6, failure_clock="wall", downtime_s=3.0)
    assert found["goodput"] == found["save"] == found["rework"] == 0.0
    np.testing.assert_allclose([found["restart"], found["idle"]], [0.25, 0.75], rtol=1e-15)
    assert renewal.expected_wall_s(371, 6, 1.0, 1e6, failure_clock="wall") == np.inf
    assert renewal.goodput(371, 6, 1.0, 1e6, failure_clock="wall") == 0.0


@pytest.mark.filterwarnings("error")
def test_hopeless_intervals_give_zero_goodput_and_no_warning():
    assert renewal.expected_wall_s(1e6, 6, 1.0, 10) == np.inf
    assert renewal.goodput(1e6, 6, 1.0, 10) == 0.0
    found = nonblocking.losses(1e6, 210, 0.03, 1.0, 10)
    assert found["goodput"] == 0.0
    np.testing.assert_allclose([found["rework"], found["restart"]], [1 / 11, 10 / 11], rtol=1e-15)


@pytest.mark.filterwarnings("error")
def test_a_job_that_hardly_ever_fails_pays_for_its_saves_only():
    found = nonblocking.losses(371.0, 210.0, 0.03, 1e18, 390.0)
    np.testing.assert_allclose(found["save"], 6.3 / 377.3, rtol=1e-15)
    np.testing.assert_allclose(found["restart"], 390e-18, rtol=1e-15)

"""The exact optima, digit by digit, from C/M = 1e-18 to far beyond any job."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from checkpoint_tax.theory import boundary, nonblocking, renewal

# Roots of -x - log(1 - x) = c and of -log(1 - x) = (1 + a) x, found by Newton's method in
# 120-digit decimals (see newton below) and rounded to 25 digits.
OPTIMUM = {
    "1e-18": "1.414213561706428382213589e-9",
    "1e-15": "4.472135888332912974603680e-8",
    "1e-12": "0.000001414212895706506949569969",
    "1e-9": "0.00004472069288581366205137280",
    "1e-6": "0.001413546974288664637774852",
    "1e-4": "0.01407554767276303629978712",
    "1e-3": "0.04405719225904808176046773",
    "0.01": "0.1348347510668346858654734",
    "0.1": "0.3831831682082948347579437",
    "0.49": "0.6939249519127271949108800",
    "0.5": "0.6982904373156639884650768",
    "0.51": "0.7025673008149048321585351",
    "1": "0.8414056604369606378466047",
    "2": "0.9475309025422851275901264",
    "5": "0.9975150806648505470075039",
    "20": "0.9999999992417439566338571",
}
BOUNDARY = {
    "1e-9": "1.999999997333333336444444e-9",
    "1e-6": "0.000001999997333336444441007411",
    "1e-3": "0.001997336441011097333181606",
    "0.0017": "0.003392308589568098147544076",
    "0.0042": "0.008353189431304724763263449",
    "0.03": "0.05768130299956083682741611",
    "0.1": "0.1761341436318095512520760",
    "0.49": "0.5762510112977038247134103",
    "0.5": "0.5828116438658113860410760",
    "0.51": "0.5892467313524578069407143",
    "1": "0.7968121300200200461615209",
    "2": "0.9404797907073596311343971",
    "10": "0.9999832952299489880720758",
}


def newton(value, slope, start):
    """Root of ``value`` to 50 digits."""
    x = start
    for _ in range(100):
        step = value(x) / slope(x)
        x -= step
        if abs(step) < Decimal("1e-50") * x:
            return x
    raise AssertionError("Newton's method did not settle")


@pytest.mark.parametrize("cost", OPTIMUM)
def test_reference_optimum_is_what_it_says(cost):
    with localcontext() as context:
        context.prec = 120
        c = Decimal(cost)
        start = (2 * c).sqrt() * (1 - (2 * c).sqrt() / 3) if c < 1 else 1 - (-1 - c).exp()
        root = newton(lambda x: -x - (1 - x).ln() - c, lambda x: x / (1 - x), start)
        assert abs(root / Decimal(OPTIMUM[cost]) - 1) < Decimal("1e-24")


@pytest.mark.parametrize("tax", BOUNDARY)
def test_reference_boundary_is_what_it_says(tax):
    with localcontext() as context:
        context.prec = 120
        a = Decimal(tax)
        start = 2 * a / (1 + a) if a < 1 else 1 - (-1 - a).exp()
        root = newton(lambda x: -(1 - x).ln() - (1 + a) * x, lambda x: 1 / (1 - x) - (1 + a), start)
        assert abs(root / Decimal(BOUNDARY[tax]) - 1) < Decimal("1e-24")


@pytest.mark.parametrize(("cost", "root"), OPTIMUM.items())
def test_best_work_has_full_precision_at_every_cost(cost, root):
    # Three units in the last place of the result; the input itself is rounded by half a unit.
    np.testing.assert_allclose(renewal.best_work_s(float(cost), 1.0), float(root), rtol=7e-16)


def test_best_work_keeps_full_precision_across_the_change_of_method():
    step = np.spacing(0.5)
    below, above = renewal.best_work_s([0.5, 0.5 + step], 1.0)
    # dx/dc = (1 - x)/x = 0.43 there, so one step of c moves x by less than one unit.
    assert abs(above - below) <= 3 * np.spacing(below)


def test_best_work_is_stationary():
    cost = np.logspace(-12, 1, 200)
    work = renewal.best_work_s(cost, 1.0)
    # d/dw log goodput = 1/w - 1/(1 - exp(-(w + C))) must vanish: w = 1 - exp(-(w + C)).
    np.testing.assert_allclose(-np.expm1(-(work + cost)), work, rtol=1e-15)


def test_best_work_scales_with_the_mtbf():
    np.testing.assert_allclose(
        renewal.best_work_s(210.0, 10_986.328125),
        10_986.328125 * renewal.best_work_s(210.0 / 10_986.328125, 1.0),
        rtol=4e-16,
    )


def test_best_work_limits():
    assert renewal.best_work_s(0.0, 100.0) == 0.0
    assert renewal.best_work_s(1e9, 100.0) == 100.0


def test_best_work_does_not_round_to_the_branch_point():
    # The Lambert form as usually written gives exactly 0 here.
    assert renewal.best_work_s(1e-17, 1.0) > 4e-9


@pytest.mark.parametrize(("tax", "share"), BOUNDARY.items())
def test_boundary_has_full_precision_at_every_tax(tax, share):
    np.testing.assert_allclose(
        boundary.largest_mtbf_s(1.0, float(tax)), 1 / float(share), rtol=7e-16
    )


def test_boundary_without_tax_is_infinite():
    assert boundary.largest_mtbf_s(210, 0) == np.inf
    assert boundary.largest_mtbf_first_order_s(210, 0) == np.inf
    assert boundary.smallest_n_gpus(210, 0, 1e9) == 1
    assert boundary.drain_is_best(210, 0, 1e12)


def test_drain_optimum_is_the_blocking_optimum_of_its_cost():
    mtbf_s = np.logspace(2, 7, 6)
    expected = np.maximum(renewal.best_work_s(2 + 0.03 * 210, mtbf_s), 210)
    np.testing.assert_array_equal(nonblocking.best_work_s(210, 0.03, mtbf_s, stop_s=2.0), expected)
    assert (expected > 210).any()
    assert (expected == 210).any()

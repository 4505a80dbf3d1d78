"""Estimates against numbers known in closed form or from elsewhere."""

import math

import numpy as np
import pytest
from scipy import stats

from checkpoint_tax.errors import InputError
from checkpoint_tax.failures import fit_gaps, mtbf_interval, shape_power
from checkpoint_tax.failures.estimates import dispersion, laplace_trend, quantiles
from checkpoint_tax.failures.fits import likelihood_ratio

HEAVY = ([1.0, 2.0, 3.0, 4.0, 5.0], np.full(100, 6.0))


def test_published_interval_of_eleven_events() -> None:
    low, high = mtbf_interval(11, 1292.0)
    assert (round(low, 1), round(high)) == (65.6, 235)


def test_llama3_interval() -> None:
    low, high = mtbf_interval(419, 54 * 24.0)
    assert (round(low, 2), round(high, 2)) == (2.81, 3.41)


def test_no_failure_bounds_the_mtbf_from_below_only() -> None:
    assert mtbf_interval(0, 100.0) == (pytest.approx(100.0 / -math.log(0.025)), math.inf)


def test_an_exposure_that_ends_at_a_failure() -> None:
    low, high = mtbf_interval(5, 10.0, ends_at_failure=True)
    assert low == pytest.approx(20.0 / stats.chi2.ppf(0.975, 10))
    assert high == pytest.approx(20.0 / stats.chi2.ppf(0.025, 10))


@pytest.mark.parametrize("unit", [1.0, 3600.0, 1e-9, 1e150])
def test_heavy_censoring_does_not_overflow(unit: float) -> None:
    fits = fit_gaps(np.multiply(HEAVY[0], unit), HEAVY[1] * unit)
    weibull = fits["weibull"].parameters
    assert weibull["shape"] == pytest.approx(1.215545, abs=1e-6)
    assert weibull["scale_s"] / unit == pytest.approx(71.8322, abs=1e-4)
    assert fits["exponential"].mean_s / unit == pytest.approx(123.0, rel=1e-12)
    assert fits["gamma"].parameters["shape"] == pytest.approx(1.245744, abs=1e-5)
    assert fits["gamma"].parameters["scale_s"] / unit == pytest.approx(59.7375, abs=1e-3)
    assert set(fits) == {"exponential", "weibull", "lognormal", "gamma"}


def test_fits_are_the_best_of_their_family() -> None:
    """The likelihood falls in every direction; densities are scipy's."""
    gaps, censored = np.array([3.0, 8.0, 1.0, 30.0, 12.0]), np.array([20.0, 5.0])
    fits = fit_gaps(gaps, censored)

    def value(family: stats.rv_continuous, *p: float, **k: float) -> float:
        return float(family.logpdf(gaps, *p, **k).sum() + family.logsf(censored, *p, **k).sum())

    cases = {
        "exponential": lambda a, b: value(stats.expon, scale=a * b),
        "weibull": lambda a, b: value(stats.weibull_min, a, scale=b),
        "lognormal": lambda a, b: value(stats.lognorm, b, scale=math.exp(a)),
        "gamma": lambda a, b: value(stats.gamma, a, scale=b),
    }
    for family, likelihood in cases.items():
        found = list(fits[family].parameters.values())
        a, b = (found * 2)[:2] if len(found) == 2 else (found[0], 1.0)
        best = likelihood(a, b)
        assert fits[family].log_likelihood == pytest.approx(best, abs=1e-9)
        for change in (0.999, 1.001):
            assert likelihood(a * change, b) < best
            if family != "exponential":
                assert likelihood(a, b * change) < best


def test_lognormal_without_censoring_is_closed_form() -> None:
    gaps = np.array([1.0, 2.0, 5.0, 9.0])
    found = fit_gaps(gaps)["lognormal"].parameters
    assert found["log_mean"] == pytest.approx(np.log(gaps).mean(), abs=1e-7)
    assert found["log_std"] == pytest.approx(np.log(gaps).std(), abs=1e-7)


def test_a_gap_of_zero_lies_within_the_rounding() -> None:
    """One gap is known to be below 60 s, the likelihood of which has a closed form."""
    fit = fit_gaps([0.0, 600.0, 1200.0], zero_below_s=60.0)["exponential"]
    rate = 1.0 / fit.mean_s
    slope = 2.0 / rate - 1800.0 + 60.0 / math.expm1(60.0 * rate)
    assert abs(slope * rate) < 1e-4
    shapes = [fit_gaps([0.0, 600.0, 1200.0], zero_below_s=z)["weibull"].parameters["shape"]
              for z in (1.0, 60.0)]  # fmt: skip
    assert shapes[0] < shapes[1] < 1.0


@pytest.mark.parametrize("gaps", [[], [0.0], [5.0]])
def test_too_few_gaps_have_no_shape(gaps: list[float]) -> None:
    assert "weibull" not in fit_gaps(gaps)
    assert likelihood_ratio(fit_gaps(gaps)) is None


@pytest.mark.parametrize("gaps", [[-1.0], [math.nan], [math.inf]])
def test_impossible_gaps_are_refused(gaps: list[float]) -> None:
    with pytest.raises(InputError, match="gaps = "):
        fit_gaps(gaps)


def test_laplace_of_a_hand_worked_case() -> None:
    test = laplace_trend([8.0, 9.0, 10.0], 10.0)
    assert test.statistic == pytest.approx((0.9 - 0.5) * 6.0)
    assert "more often" in test.meaning
    assert laplace_trend([0.0, 1.0, 2.0], 10.0).meaning == "failures become rarer"
    assert laplace_trend([2.0, 5.0, 8.0], 10.0).statistic == pytest.approx(0.0, abs=1e-12)


def test_dispersion_of_bursts_and_of_a_clock() -> None:
    even = np.arange(40) + 0.5
    bursts = np.concatenate([np.linspace(0.0, 0.1, 20), np.linspace(39.0, 39.1, 20)])
    assert dispersion(even, 40.0).statistic == 0.0
    assert dispersion(even, 40.0).meaning == "failures are spaced evenly"
    assert dispersion(bursts, 40.0).meaning == "failures come in bursts"


def test_quantiles_with_open_outages() -> None:
    found = quantiles([10.0, 20.0, 30.0], [25.0, 100.0])
    assert (found.n, found.n_open, found.p50_s, found.p90_s) == (5, 2, 30.0, None)
    assert quantiles([], [5.0]).p50_s is None
    assert quantiles([1.0, 2.0, 3.0, 4.0]).p50_s == 2.0


def test_power_is_the_same_again() -> None:
    first = shape_power(10)
    shape_power.cache_clear()
    assert shape_power(10) == first

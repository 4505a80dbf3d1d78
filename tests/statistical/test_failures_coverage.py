"""Intervals cover as often as they say, fits come nearer with more failures, powers are known.

Each bound is about five standard errors wide, so that one assertion fails by chance once in some
million runs; the streams are fixed, so that it either always or never does.
"""

import math

import numpy as np
import pytest
from scipy import stats

from checkpoint_tax.failures import fit_gaps, mtbf_interval, shape_power
from checkpoint_tax.failures.estimates import laplace_trend

SIGMAS = 5.0


@pytest.mark.parametrize("mean", [0.5, 2.0, 4.0, 11.0, 50.0])
def test_the_poisson_interval_misses_on_no_side_more_than_it_may(mean: float) -> None:
    """Summed over counts, so without chance: the exact interval errs on the safe side."""
    counts = np.arange(0, 200)
    shares = stats.poisson.pmf(counts, mean)
    ends = np.array([mtbf_interval(int(n), mean) for n in counts])
    too_high, too_low = shares[ends[:, 0] > 1.0].sum(), shares[ends[:, 1] < 1.0].sum()
    assert too_high <= 0.025
    assert too_low <= 0.025
    assert too_high + too_low > (0.0 if mean < 1 else 0.01)  # and not by being far too wide


def test_an_exposure_that_ends_at_a_failure_covers_exactly() -> None:
    rng = np.random.default_rng(2)
    times = rng.gamma(5, size=4000)
    low, high = mtbf_interval(5, 1.0, ends_at_failure=True)
    covered = np.mean((times * low <= 1.0) & (times * high >= 1.0))
    assert abs(covered - 0.95) < SIGMAS * math.sqrt(0.95 * 0.05 / 4000)


@pytest.mark.parametrize(
    ("family", "draw", "parameter", "true"),
    [
        ("weibull", lambda rng, n: rng.weibull(0.7, n), "shape", 0.7),
        ("gamma", lambda rng, n: rng.gamma(2.0, size=n), "shape", 2.0),
        ("lognormal", lambda rng, n: rng.lognormal(0.0, 1.5, n), "log_std", 1.5),
    ],
)
def test_censored_fits_find_the_truth(family, draw, parameter, true) -> None:
    """Half of the gaps are cut short; the error falls as one over the root of their number."""
    rng = np.random.default_rng(3)
    errors = []
    for n in (200, 12_800):
        gaps, limits = draw(rng, n), draw(rng, n)
        seen = gaps <= limits
        fit = fit_gaps(gaps[seen], limits[~seen])[family]
        errors.append(abs(fit.parameters[parameter] - true) * math.sqrt(n))
    # Standard errors of these parameters are below 2.6 / sqrt(n) times the truth.
    assert max(errors) < SIGMAS * 2.6 * true


@pytest.mark.parametrize(("n", "published"), [(10, 0.20), (50, 0.86)])
def test_power_of_the_likelihood_ratio_test(n: int, published: float) -> None:
    power = shape_power(n)
    # The published figures are rounded to a percent.
    assert abs(power.power - published) < SIGMAS * power.standard_error + 0.01
    assert power.standard_error < 0.01


def test_two_streams_of_the_power_agree_within_their_errors() -> None:
    one, other = shape_power(20), shape_power(20, 0.7, 5000)
    error = math.hypot(one.standard_error, other.standard_error)
    assert abs(one.power - other.power) < SIGMAS * error


def test_the_test_of_shape_errs_five_times_in_a_hundred() -> None:
    power = shape_power(15, 1.0)
    assert abs(power.power - 0.05) < SIGMAS * math.sqrt(2 * 0.05 * 0.95 / 20_000)


def test_laplace_errs_five_times_in_a_hundred_and_sees_a_trend() -> None:
    rng = np.random.default_rng(4)
    even = [laplace_trend(rng.random(30), 1.0).p_value < 0.05 for _ in range(2000)]
    rising = [laplace_trend(np.sqrt(rng.random(30)), 1.0).p_value < 0.05 for _ in range(200)]
    assert abs(np.mean(even) - 0.05) < SIGMAS * math.sqrt(0.05 * 0.95 / 2000) + 0.003
    assert np.mean(rising) > 0.8

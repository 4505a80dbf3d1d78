"""What each target ships, in the units of the first post and in bytes."""

import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.reconcile import traffic
from checkpoint_tax.reconcile.window import targets


@pytest.mark.parametrize(
    ("window", "newest", "median"), [(8, 3.5, 2.0), (16, 7.5, 4.0), (64, 31.5, 16.0)]
)
def test_the_posts_traffic(window, newest, median):
    assert traffic.consecutive_slices(window, "newest") == newest
    assert traffic.consecutive_slices(window, "oldest") == newest
    assert traffic.consecutive_slices(window, "median") == median


@pytest.mark.parametrize("window", range(1, 40))
@pytest.mark.parametrize("first", [0, 123])
def test_the_closed_form_is_the_sum_over_shards(window, first):
    versions = range(first, first + window)
    named = targets(versions)
    for target in ("newest", "median", "oldest"):
        counted = sum(abs(v - getattr(named, target)) for v in versions) / window
        assert traffic.consecutive_slices(window, target) == pytest.approx(counted, rel=1e-15)
        assert traffic.slices(versions, getattr(named, target)) == pytest.approx(counted, rel=1e-15)


def test_the_ratio_falls_from_the_posts_towards_a_half():
    assert traffic.median_ratio(16) == pytest.approx(8 / 15, rel=1e-15)
    ratios = [traffic.median_ratio(window) for window in range(2, 2000, 2)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] == 1
    assert 0.5 < ratios[-1] < 0.5003


def test_traffic_is_linear_in_the_window_not_quadratic():
    second_differences = [
        traffic.consecutive_slices(s + 2, t)
        - 2 * traffic.consecutive_slices(s, t)
        + traffic.consecutive_slices(s - 2, t)
        for s in range(4, 100, 2)
        for t in ("newest", "median")
    ]
    assert set(second_differences) == {0.0}


def test_replay_bytes_per_parameter():
    for window in range(1, 50):
        assert traffic.replay_bytes_per_parameter(window, "newest") == window - 1
        fp32 = traffic.replay_bytes_per_parameter(window, "newest", gradient_bytes=4)
        assert fp32 == 2 * (window - 1)


@pytest.mark.parametrize(
    ("target", "gradient_bytes", "state_bytes", "window"),
    [
        ("newest", 2, 12, 13),
        ("newest", 4, 12, 7),
        ("newest", 2, 14, 15),
        ("newest", 4, 14, 8),
        ("median", 2, 12, 24),
        ("median", 4, 12, 12),
        ("median", 2, 14, 28),
        ("median", 4, 14, 14),
    ],
)
def test_where_replay_passes_the_state_itself(target, gradient_bytes, state_bytes, window):
    sizes = {"gradient_bytes": gradient_bytes, "state_bytes": state_bytes}
    assert traffic.window_passing_state_steps(target, **sizes) == window
    width = {"gradient_bytes": gradient_bytes}
    assert traffic.replay_bytes_per_parameter(window, target, **width) >= state_bytes
    assert traffic.replay_bytes_per_parameter(window - 1, target, **width) < state_bytes


def test_a_cheaper_target_is_an_older_state():
    assert [traffic.age_steps(16, t) for t in ("newest", "median", "oldest")] == [0, 7, 15]
    assert [traffic.age_steps(30, t) for t in ("newest", "median", "oldest")] == [0, 14, 29]
    assert [traffic.age_steps(1, t) for t in ("newest", "median", "oldest")] == [0, 0, 0]


def test_large_shards_weigh_more():
    assert traffic.slices([0, 10], 10, [3, 1]) == 7.5
    assert traffic.slices([0, 10], 0, [3, 1]) == 2.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: traffic.consecutive_slices(0, "newest"), "window_steps = 0 steps"),
        (lambda: traffic.consecutive_slices(8.0, "newest"), "window_steps = 8.0 is not an integer"),
        (lambda: traffic.consecutive_slices(8, "mean"), "target = 'mean' is not known"),
        (lambda: traffic.median_ratio(1), "window_steps = 1 steps"),
        (lambda: traffic.slices([], 0), "0 sizes for 0 versions"),
        (lambda: traffic.slices([1, 2], 0, [1]), "1 sizes for 2 versions"),
        (lambda: traffic.slices([1, 2], 0, [0, 0]), "sizes are all 0"),
        (lambda: traffic.slices([1, 2], 0, [-1, 3]), "sizes = "),
        (lambda: traffic.replay_bytes_per_parameter(8, "newest", gradient_bytes=0), "0 bytes"),
        (lambda: traffic.window_passing_state_steps("newest", state_bytes=0), "state_bytes = 0"),
        (lambda: traffic.age_steps(8, "mean"), "target = 'mean' is not known"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert "allowed: " in str(caught.value)

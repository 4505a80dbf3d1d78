"""The first post's figures of reconciliation on the streams that come nearest to its own."""

from dataclasses import replace

import numpy as np
import pytest

from checkpoint_tax.errors import InputError
from checkpoint_tax.reconcile.experiments import (
    TARGET_STREAM,
    TORN_STREAM,
    Stream,
    captured_window,
    spike_errors,
    target_errors,
    torn_and_repaired,
    torn_range,
)
from checkpoint_tax.reconcile.gate import UNIT_FP32


def test_a_torn_state_is_a_silent_corruption_and_its_repair_is_exact():
    """Printed: 5.9e-2 torn, 1.2e-1 after 60 steps, 0.0 repaired."""
    found = torn_and_repaired(seed=0)
    assert found.torn_error["p"] == pytest.approx(0.059, abs=5e-4)
    assert found.torn_divergence == pytest.approx(0.12, abs=5e-3)
    assert found.repaired_error == {"p": 0.0, "m": 0.0, "v": 0.0}
    assert found.repaired_divergence == 0.0
    assert found.repaired_bitwise
    assert found.steps == 60


def test_the_torn_error_is_decided_by_the_step_relative_to_the_weights():
    """Ten times the learning rate on ten times the weights tears by the same fraction."""
    small = replace(TORN_STREAM, weight_decay=0.0, shard_size=256)
    large = replace(small, lr=10 * small.lr, weight_scale=10 * small.weight_scale)
    one, other = torn_and_repaired(small, steps=5), torn_and_repaired(large, steps=5)
    assert one.torn_error["p"] == pytest.approx(other.torn_error["p"], rel=1e-4)
    # The gradients' own size hardly matters, as Adam divides it out.
    loud = torn_and_repaired(replace(small, gradient_scale=64.0), steps=5)
    assert loud.torn_error["p"] == pytest.approx(one.torn_error["p"], rel=1e-4)


def test_the_printed_torn_error_lies_within_the_range_over_streams():
    found = torn_range(lrs=(1e-4, 3e-3), warmups_steps=(0, 100), shard_size=64, steps=20)
    assert len(found) == 12
    errors = [result.torn_error["p"] for result in found]
    assert min(errors) < 0.059 / 5
    assert max(errors) > 0.059 * 5
    assert all(result.repaired_bitwise for result in found)
    # Gradients that answer the weights pull a torn run back; others let it stray further.
    for result in found:
        shrinks = result.torn_divergence < result.torn_error["p"]
        assert shrinks or result.stream.kind != "bowl"
        assert not shrinks or result.stream.kind != "independent"


def test_target_traffic_and_errors():
    """Printed: 7.50x 0 0 0; 4.00x 8.5e-8 9.3e-8 1.4e-8; 7.50x 1.9e-7 2.5e-7 2.7e-8."""
    newest, median, older, oldest = target_errors()
    assert [r.traffic for r in (newest, median, older, oldest)] == [7.5, 4.0, 4.0, 7.5]
    assert [r.age_steps for r in (newest, median, older, oldest)] == [0, 7, 8, 15]
    assert newest.error == {"p": 0.0, "m": 0.0, "v": 0.0}
    assert newest.promised_error == {"p": 0.0, "m": 0.0, "v": 0.0}
    # The post's median is the older of the two middle versions, as cheap and less accurate.
    printed = {"p": 8.5e-8, "m": 9.3e-8, "v": 1.4e-8}
    for name, value in printed.items():
        assert older.error[name] == pytest.approx(value, rel=0.1)
        assert median.error[name] < older.error[name]
    printed = {"p": 1.9e-7, "m": 2.5e-7, "v": 2.7e-8}
    for name, value in printed.items():
        assert oldest.error[name] == pytest.approx(value, rel=0.1)


def test_the_decay_rate_0_999_is_what_makes_v_the_most_accurate():
    """With 0.95 the error of v is several times the printed one."""
    other = target_errors(replace(TARGET_STREAM, betas=(0.9, 0.95), shard_size=256))[3]
    assert other.error["v"] > 3 * 2.7e-8


def test_spike_shares_and_errors():
    """Printed: 2.0e-2 0.0; 6.8e-1 1.2e-7; 9.9e-1 7.7e-6; 1.0e+00 3.2e-4."""
    one, ten, hundred, thousand = spike_errors(seed=1)
    assert one.share == pytest.approx(2.0e-2, abs=5e-4)
    assert ten.share == pytest.approx(6.8e-1, abs=5e-3)
    # With v so that the first two are met, the third is 0.995, a hair above its print.
    assert 0.985 < hundred.share < 0.9955
    assert thousand.share == pytest.approx(1.0, abs=1e-4)
    for row, printed in ((one, 0.0), (ten, 1.2e-7), (hundred, 7.7e-6), (thousand, 3.2e-4)):
        low, _, high = row.error_quantiles["v"]
        assert low <= printed <= high
    assert ten.error["v"] == pytest.approx(1.2e-7, rel=0.1)
    # The plain bound on the shard's own share covers what its elements lose taken together.
    for row in (one, ten, hundred, thousand):
        assert row.error["v"] < row.plain_bound
        assert row.promised_error["v"] > row.error_quantiles["v"][2]
    assert one.gated_fraction == 0.0
    assert 0.02 < ten.gated_fraction < 0.06
    assert 0.8 < hundred.gated_fraction < 0.87


def test_a_spike_costs_the_first_moment_too_which_the_posts_gate_does_not_see():
    _, _, _, thousand = spike_errors(seed=1)
    assert 5e-6 < thousand.error["m"] < 5e-5
    assert thousand.error["p"] < 2 * UNIT_FP32


def test_the_same_seed_gives_the_same_figures():
    stream = replace(TORN_STREAM, shard_size=32)
    one, other = torn_and_repaired(stream, seed=5), torn_and_repaired(stream, seed=5)
    assert one == other
    assert torn_and_repaired(stream, seed=6).torn_error != one.torn_error


def test_a_window_holds_each_shard_at_its_own_step():
    stream = Stream(n_shards=3, shard_size=4, warmup_steps=5)
    window, truth, _ = captured_window(stream, 0)
    assert window.versions == [6, 7, 8] == sorted(truth)
    for capture in window.captures:
        part = slice(4 * capture.shard, 4 * capture.shard + 4)
        assert np.array_equal(capture.state.p, truth[capture.version].p[part])
        assert sorted(window.updates[capture.shard]) == [6, 7, 8]


def test_gradients_of_the_bowl_lead_to_its_point():
    stream = Stream(kind="bowl", lr=1e-3, weight_decay=0.0, warmup_steps=200, n_shards=1)
    _, truth, source = captured_window(stream, 0)
    point = source.fixed * stream.weight_scale
    left = np.linalg.norm(truth[201].p - point) / np.linalg.norm(source.start - point)
    assert left < 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "real"}, "kind = 'real' is not known"),
        ({"n_shards": 0}, "n_shards = 0 is too small"),
        ({"shard_size": 0}, "shard_size = 0 is too small"),
        ({"warmup_steps": -1}, "warmup_steps = -1 is too small"),
    ],
)
def test_a_stream_that_makes_no_sense_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        Stream(**change)

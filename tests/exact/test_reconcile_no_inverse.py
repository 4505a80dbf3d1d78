"""Counter-examples behind each "no" of the optimizer table, on minimal forms of the updates."""

import numpy as np
import pytest

from checkpoint_tax.reconcile.optimizer_table import optimizer_table

ROWS = {row.name: row for row in optimizer_table()}


def orthogonal_factor(matrix):
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return left @ right


def muon(p, m, g, *, lr=0.1, mu=0.9):
    m = mu * m + g
    return p - lr * orthogonal_factor(m), m


def shampoo(p, left, right, roots, g, *, refresh, lr=0.1):
    left, right = left + g @ g.T, right + g.T @ g
    if refresh:
        roots = tuple(
            vectors @ np.diag(values**-0.25) @ vectors.T
            for values, vectors in map(np.linalg.eigh, (left, right))
        )
    return p - lr * roots[0] @ g @ roots[1], left, right, roots


def adafactor(p, rows, columns, g, *, lr=0.1, decay=0.9):
    square = np.square(g) + 1e-30
    rows = decay * rows + (1 - decay) * square.mean(axis=1)
    columns = decay * columns + (1 - decay) * square.mean(axis=0)
    step = g / np.sqrt(np.outer(rows, columns) / rows.mean())
    step = step / max(1.0, np.sqrt(np.mean(np.square(step))))
    return p - lr * step, rows, columns


def to_codes(block):
    """A block as 255 signed codes times its largest magnitude."""
    scale = np.abs(block).max()
    return np.round(block / scale * 127).astype(np.int8), scale


def adam_8bit_moment(codes, scale, g, *, decay=0.9):
    return to_codes(decay * codes / 127 * scale + (1 - decay) * g)


def adam_amsgrad_second_moment(v, largest, g, *, decay=0.999):
    v = decay * v + (1 - decay) * g * g
    return v, max(largest, v)


def two_matrices(seed):
    """The upper half, a shard, is the same in both; the lower half, another shard, is not."""
    rng = np.random.default_rng(seed)
    one = rng.standard_normal((4, 3))
    other = one.copy()
    other[2:] = rng.standard_normal((2, 3))
    return one, other


def test_muon_steps_a_shard_by_the_momenta_of_the_others():
    p, _ = two_matrices(0)
    one, other = two_matrices(1)
    g, _ = two_matrices(2)
    first, _ = muon(p, one, g)
    second, _ = muon(p, other, g)
    assert np.abs(first[:2] - second[:2]).max() > 1e-3


def test_muon_given_all_momenta_at_one_version_could_be_undone():
    """So the reason is the shards, not the map."""
    p, m = two_matrices(0)
    g, _ = two_matrices(2)
    later, momentum = muon(p, m, g)
    assert np.allclose(later + 0.1 * orthogonal_factor(momentum), p, rtol=0, atol=1e-14)
    assert np.allclose((momentum - g) / 0.9, m, rtol=0, atol=1e-14)


def test_shampoo_steps_a_shard_by_the_gradients_of_the_others():
    p, _ = two_matrices(0)
    one, other = two_matrices(1)
    start = (np.eye(4), np.eye(3), (np.eye(4), np.eye(3)))
    first, *_ = shampoo(p, *start, one, refresh=True)
    second, *_ = shampoo(p, *start, other, refresh=True)
    assert np.abs(first[:2] - second[:2]).max() > 1e-3


def test_shampoos_statistics_do_not_determine_its_step():
    """Same weights, statistics and gradient; only the age of the cached roots differs."""
    p, _ = two_matrices(0)
    g, _ = two_matrices(1)
    h, _ = two_matrices(2)
    start = (np.eye(4), np.eye(3), (np.eye(4), np.eye(3)))
    steps = []
    for refresh in (False, True):
        _, left, right, roots = shampoo(p, *start, g, refresh=refresh)
        later, after, *_ = shampoo(p, left, right, roots, h, refresh=False)
        steps.append((later, after))
    assert np.array_equal(steps[0][1], steps[1][1])
    assert np.abs(steps[0][0] - steps[1][0]).max() > 1e-3


def test_adafactor_steps_a_shard_by_the_gradients_of_the_others():
    p, _ = two_matrices(0)
    one, other = two_matrices(1)
    rows, columns = np.ones(4), np.ones(3)
    other[2:] *= 10
    first, *_ = adafactor(p, rows, columns, one)
    second, *_ = adafactor(p, rows, columns, other)
    assert np.abs(first[:2] - second[:2]).max() > 1e-3


def test_8_bit_moments_of_two_states_become_one():
    """A spike sets the block's scale, and codes that differed fall together."""
    gradient = np.array([1e4, 0.0, 0.0, 0.0])
    one, scale = to_codes(np.array([1.0, 0.5, -0.25, 0.125]))
    other, same = to_codes(np.array([1.0, -0.5, 0.75, -0.625]))
    assert scale == same
    assert not np.array_equal(one, other)
    first = adam_8bit_moment(one, scale, gradient)
    second = adam_8bit_moment(other, scale, gradient)
    assert np.array_equal(first[0], second[0])
    assert first[1] == second[1]


def test_8_bit_moments_of_two_states_become_one_without_a_spike():
    """Rounding alone is enough: 255 codes that decay by a tenth no longer fill their range."""
    rng = np.random.default_rng(0)
    gradient = np.concatenate([[3.0], rng.standard_normal(63)])
    seen = {}
    for code in range(-127, 128):
        codes = np.full(64, 127, np.int8)
        codes[1] = code
        later, scale = adam_8bit_moment(codes, 1.0, gradient)
        seen.setdefault((float(later[1]), float(scale)), []).append(code)
    assert max(map(len, seen.values())) > 1


def test_8_bit_moments_are_replayed_exactly_by_whole_blocks_only():
    rng = np.random.default_rng(1)
    codes, scale = to_codes(rng.standard_normal(8))
    gradient = np.concatenate([rng.standard_normal(4), [50.0], rng.standard_normal(3)])
    whole, _ = adam_8bit_moment(codes, scale, gradient)
    again, _ = adam_8bit_moment(codes, scale, gradient)
    part, _ = adam_8bit_moment(codes[:4], scale, gradient[:4])
    assert np.array_equal(whole, again)
    assert not np.array_equal(whole[:4], part)


def test_amsgrad_maxima_of_two_states_become_one():
    assert adam_amsgrad_second_moment(1.0, 1.0, 100.0) == adam_amsgrad_second_moment(
        1.0, 2.0, 100.0
    )


@pytest.mark.parametrize(
    ("name", "forward_exact"),
    [
        ("AdamW with amsgrad", True),
        ("Muon", False),
        ("Shampoo", False),
        ("Adafactor", False),
        ("8-bit Adam", True),
    ],
)
def test_the_table_gives_a_reason_for_each_no(name, forward_exact):
    row = ROWS[name]
    assert row.forward_exact is forward_exact
    assert not row.inverse_exists
    assert row.inverse_error == ()
    assert len(row.why_not) > 40


def test_the_table_bounds_what_it_measures():
    yes = [row for row in ROWS.values() if row.inverse_exists]
    assert len(yes) == 7
    for row in yes:
        assert row.forward_exact
        assert row.why_not == ""
        assert [error.steps_back for error in row.inverse_error] == [1, 8]
        for error in row.inverse_error:
            assert error.measured.keys() == error.bounded.keys()
            assert "p" in error.measured
            for name, measured in error.measured.items():
                # Norm-wise the bound is a handful of times what is measured, not orders.
                assert 0 < measured < error.bounded[name] < 2.5e-6

"""Records of what a step forgets: lossless for any states at all, short for those of training."""

import itertools
import zlib

import numpy as np
import pytest

from checkpoint_tax.reconcile import correction_kernels as kernels
from checkpoint_tax.reconcile.corrections import Corrections, record, roll_back
from checkpoint_tax.reconcile.errors import BadWindow, MissingUpdate, StepMismatch
from checkpoint_tax.reconcile.optimizers import AdamState
from checkpoint_tax.reconcile.replay import Variant, replay
from checkpoint_tax.reconcile.updates import Update

SIZES = (0, 1, 2, 7, 511, 512, 513, kernels.CHUNK - 1, kernels.CHUNK, 2 * kernels.CHUNK + 5)
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 1e-38, 3.4e38, 1.0], np.float32
)


def any_floats(rng, size):
    bits = rng.integers(0, 1 << 32, size, dtype=np.uint32).view(np.float32)
    return np.where(rng.random(size) < 0.2, rng.choice(SPECIAL, size), bits)


def any_state(rng, size, t):
    return AdamState(*(any_floats(rng, size) for _ in range(3)), t)


def bits(state):
    return [a.view(np.uint32).tolist() for a in state[:3]] + [state.t]


def training(size, steps, *, seed=0, **numbers):
    """States of a run whose gradients are mostly noise, and its updates; a state per step."""
    rng = np.random.default_rng(seed)
    state = AdamState(
        rng.normal(0, 0.02, size).astype("f4"), np.zeros(size, "f4"), np.zeros(size, "f4"), 0
    )
    scale = np.exp(rng.normal(-7, 1.5, size))
    drift = rng.normal(0, 0.3, size)
    states, updates = [state], []
    for step in range(1, steps + 1):
        gradient = (scale * (drift + rng.standard_normal(size))).astype("f4")
        values = {"lr": 3e-4, "betas": (0.9, 0.95), "weight_decay": 0.1, **numbers}
        updates.append(Update(gradient, step, **values))
        states.append(replay(states[-1], updates[-1:], variant=Variant()))
    return states, updates


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("b1", [0.9, 0.3])
def test_a_record_restores_any_bits_whatever_made_them(size, b1):
    # Nothing here is a step of anything: guesses are useless and every value is listed.
    rng = np.random.default_rng(size)
    for _ in range(2):
        before, after = any_state(rng, size, 6), any_state(rng, size, 7)
        update = Update(any_floats(rng, size), 7, 1e-3, (b1, 0.999), 1e-8, 0.01)
        found = roll_back(after, [update], {7: record(before, after, update)})
        assert bits(found) == bits(before)


@pytest.mark.parametrize("t", [1, 2, 40])
@pytest.mark.parametrize("b1", [0.9, 0.5, 0.3, 0.0])
@pytest.mark.parametrize("b2", [0.95, 0.999, 0.0])
def test_a_record_restores_every_value_a_step_can_start_from(t, b1, b2):
    rng = np.random.default_rng(t)
    size = 6000
    before = any_state(rng, size, t - 1)
    before = before._replace(v=np.abs(before.v))
    update = Update(any_floats(rng, size), t, 1e-3, (b1, b2), 1e-8, 0.01)
    after = replay(before, [update], variant=Variant())
    found = roll_back(after, [update], {t: record(before, after, update)})
    assert bits(found) == bits(before)


# At 0.3 each later first moment has 1 / 0.3 earlier ones.
@pytest.mark.parametrize(("b1", "most"), [(0.9, 1.15), (0.3, 4.2)])
def test_a_step_of_training_costs_about_one_bit_per_element(b1, most):
    size = 60_001
    states, updates = training(size, 40, betas=(b1, 0.95))
    for (before, after), update in list(zip(itertools.pairwise(states), updates, strict=True))[30:]:
        found = record(before, after, update)
        # The gradients are normal; the codes' entropy does not depend on their scale. One in 1e9
        # would be off by 0.05: the standard error over 60,000 elements is below 0.01.
        assert 0.75 < found.bits_per_element < most
        assert found.bits_per_element == 8 * len(found.to_bytes()) / size
        assert bits(roll_back(after, [update], {update.step: found})) == bits(before)


def test_sixteen_steps_back_are_exact_and_the_records_alone_decide_it():
    states, updates = training(40_000, 24)
    records = {
        u.step: record(a, b, u)
        for (a, b), u in zip(itertools.pairwise(states), updates, strict=True)
    }
    for back in (1, 4, 16, 24):
        found = roll_back(states[24], updates[24 - back :], records)
        assert bits(found) == bits(states[24 - back])
    empty = {
        step: Corrections(r.step, r.size, r.lengths, np.zeros_like(r.payload))
        for step, r in records.items()
    }
    found = roll_back(states[24], updates[20:], empty)
    assert all(np.mean(a != b) > 0.01 for a, b in zip(found[1:3], states[20][1:3], strict=True))


@pytest.mark.parametrize(
    ("factor", "most_bits"), [(10, 9), (100, 20), (1e3, 34), (1e4, 52), (1e6, 68)]
)
def test_a_spike_costs_bits_and_nothing_else(factor, most_bits):
    states, updates = training(30_000, 20)
    spiked = Update(
        updates[-1].gradient * np.float32(factor), 20, 3e-4, (0.9, 0.95), weight_decay=0.1
    )
    after = replay(states[19], [spiked], variant=Variant())
    found = record(states[19], after, spiked)
    assert bits(roll_back(after, [spiked], {20: found})) == bits(states[19])
    # Fewer than the 96 bits of the three values themselves.
    assert found.bits_per_element < most_bits


def test_every_number_of_a_step_is_undone():
    rng = np.random.default_rng(8)
    size = 3 * kernels.CHUNK // 2
    mask = np.where(np.arange(size) // 700 % 2 == 0, 0.1, 0.0)
    other = np.where(np.arange(size) // 500 % 2 == 0, 0.1, 0.02)
    state = training(size, 3)[0][3]
    states, updates = [state], []
    for k, decay in enumerate([mask, mask, other, 0.1, mask, 0.0]):
        step = states[-1].t + 1
        skipped = k == 4
        gradient = None if skipped else rng.normal(0, 1e-3, size).astype("f4")
        update = Update(
            gradient,
            states[-1].t if skipped else step,
            1e-3 / (k + 1),
            (0.9 - 0.1 * k, 0.95),
            1e-8,
            decay,
            clip_coefficient=1 - 0.1 * k,
            maximize=k == 3,
            skipped=skipped,
        )
        updates.append(update)
        states.append(replay(states[-1], [update], variant=Variant()))
    records = {
        u.step: record(a, b, u)
        for (a, b), u in zip(itertools.pairwise(states), updates, strict=True)
        if not u.skipped
    }
    found = roll_back(states[-1], updates, records)
    assert bits(found) == bits(state)


def test_no_bit_depends_on_threads():
    states, updates = training(5 * kernels.CHUNK + 77, 3)
    one = record(states[1], states[2], updates[1], threads=1)
    for threads in (2, 3, 16):
        many = record(states[1], states[2], updates[1], threads=threads)
        assert many.to_bytes() == one.to_bytes()
        found = roll_back(states[2], [updates[1]], {2: many}, threads=threads)
        assert bits(found) == bits(states[1])


def test_shapes_come_back():
    states, updates = training(600, 2)

    def shaped(state):
        return AdamState(*(a.reshape(20, 30) for a in state[:3]), state.t)

    update = Update(updates[1].gradient.reshape(20, 30), 2, 3e-4, (0.9, 0.95), weight_decay=0.1)
    before, after = shaped(states[1]), shaped(states[2])
    found = roll_back(after, [update], {2: record(before, after, update)})
    assert found.p.shape == (20, 30)
    assert bits(found) == bits(before)


def test_a_shipped_record_is_read_back_or_refused():
    states, updates = training(2000, 3)
    found = record(states[2], states[3], updates[2])
    data = found.to_bytes()
    assert len(data) == found.nbytes
    again = Corrections.from_bytes(data)
    assert (again.step, again.size) == (3, 2000)
    assert bits(roll_back(states[3], [updates[2]], {3: again})) == bits(states[2])
    for broken in (data[:-1], data + b"\0", b"AwC2" + data[4:], data[:10], b""):
        with pytest.raises(BadWindow, match="allowed"):
            Corrections.from_bytes(broken)
    for place in (40, len(data) // 2, len(data) - 1):
        changed = bytearray(data)
        changed[place] ^= 4
        with pytest.raises(BadWindow, match="checksum"):
            Corrections.from_bytes(bytes(changed))
    assert zlib.crc32(data) == zlib.crc32(again.to_bytes())


def test_states_updates_and_records_must_belong_together():
    states, updates = training(1000, 4)
    found = record(states[3], states[4], updates[3])
    with pytest.raises(StepMismatch, match="allowed: 3 and 4"):
        record(states[2], states[4], updates[3])
    skipped = Update(None, 4, 1e-3, skipped=True)
    with pytest.raises(StepMismatch, match="skipped"):
        record(states[3], states[4], skipped)
    with pytest.raises(StepMismatch, match="allowed: step 4"):
        roll_back(states[4], updates[:3], {})
    with pytest.raises(MissingUpdate, match="step 3 has no corrections"):
        roll_back(states[4], updates[2:], {4: found})
    half = AdamState(*(a[:500] for a in states[4][:3]), 4)
    cut = Update(updates[3].gradient[:500], 4, 3e-4)
    with pytest.raises(BadWindow, match="are for 1000 elements"):
        roll_back(half, [cut], {4: found})
    wide = AdamState(*(a.astype("f8") for a in states[4][:3]), 4)
    with pytest.raises(BadWindow, match="float64"):
        record(states[3], wide, updates[3])

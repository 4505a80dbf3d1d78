"""Host replay without the library: against the slow twin, at any place, with any threads."""

import itertools
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from checkpoint_tax.reconcile import adamw_kernels as kernels
from checkpoint_tax.reconcile.errors import BadUpdate, BadWindow, StepMismatch
from checkpoint_tax.reconcile.optimizers import AdamState, AdamWTorch
from checkpoint_tax.reconcile.replay import Placement, Variant, replay, step_row
from checkpoint_tax.reconcile.updates import Update

SIZE = 3 * 512 + 77


def start(size=SIZE, t=3, seed=0):
    rng = np.random.default_rng(seed)
    return AdamState(
        rng.normal(0, 0.1, size).astype("f4"),
        rng.normal(0, 1e-3, size).astype("f4"),
        (rng.normal(0, 1e-3, size) ** 2).astype("f4"),
        t,
    )


def steps(size=SIZE, t=3, count=12, seed=1, **numbers):
    rng = np.random.default_rng(seed)
    updates = []
    for step in range(t + 1, t + 1 + count):
        gradient = (1e-3 * rng.standard_normal(size)).astype("f4")
        gradient[rng.random(size) < 0.05] = 0
        gradient[rng.random(size) < 0.01] *= 1e3
        values = {"lr": 1e-4 * step, "betas": (0.9, 0.95), "weight_decay": 0.1, **numbers}
        updates.append(Update(gradient, step, **values))
    return updates


def bits(state):
    return [a.view(np.uint32).tolist() for a in state[:3]] + [state.t]


def forward(state, updates):
    optimizer = AdamWTorch()
    for update in updates:
        state = optimizer.forward(state, update)
    return state


@pytest.mark.parametrize("b1", [0.9, 0.3])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_rounded_products_give_the_slow_twin_s_bits(b1, decay):
    updates = steps(betas=(b1, 0.95), weight_decay=decay)
    found = replay(start(), updates, variant=Variant(fused_multiply_add=False))
    assert bits(found) == bits(forward(start(), updates))


def test_clipping_sign_masks_and_skipped_steps_are_replayed():
    mask = np.where(np.arange(SIZE) // 100 % 2 == 0, 0.1, 0.0)
    updates = steps(clip_coefficient=0.37, maximize=True, weight_decay=mask)
    updates.insert(5, Update(None, updates[4].step, 1e-3, skipped=True))
    found = replay(start(), updates, variant=Variant(fused_multiply_add=False))
    assert bits(found) == bits(forward(start(), updates))
    assert found.t == 15


def test_unrounded_products_are_other_bits():
    updates = steps()
    fused = replay(start(), updates, variant=Variant())
    plain = replay(start(), updates, variant=Variant(fused_multiply_add=False))
    assert all(np.mean(a != b) > 0.05 for a, b in zip(fused[:3], plain[:3], strict=True))
    assert np.allclose(fused.p, plain.p, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_no_bit_depends_on_threads(threads):
    size = 7 * 64 * 512 + 13
    state, updates = start(size), steps(size, count=3)
    alone = replay(state, updates, variant=Variant(tail_width=8), threads=1)
    found = replay(state, updates, variant=Variant(tail_width=8), threads=threads)
    assert bits(found) == bits(alone)


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("cuts", [(1, 9), (512, 1024), (777, 1600), (1600, SIZE - 1), (5, 5)])
def test_a_shard_s_place_in_its_tensor_decides_its_scalar_end(width, cuts):
    state, updates = start(), steps()
    variant = Variant(tail_width=width)
    whole = replay(state, updates, variant=variant)
    edges = (0, *cuts, SIZE)
    parts = []
    for a, z in itertools.pairwise(edges):
        part = AdamState(*(x[a:z] for x in state[:3]), state.t)
        cut = [
            Update(u.gradient[a:z], u.step, u.lr, u.betas, u.eps, u.weight_decay) for u in updates
        ]
        parts.append(replay(part, cut, variant=variant, placement=Placement(a, SIZE)))
    joined = AdamState(*(np.concatenate([part[i] for part in parts]) for i in range(3)), parts[0].t)
    assert bits(joined) == bits(whole)
    none = replay(state, updates, variant=Variant())
    tail = SIZE % width
    changed = np.flatnonzero(none.v != whole.v)
    assert changed.size > 0
    assert changed.min() >= SIZE - tail


@pytest.mark.parametrize("divisor", [1 - 2.0**-24, 0.5 - 2.0**-25, 1.0, 0.9, 0.3162277, 0.051])
def test_a_replaced_division_is_exact_for_every_significand(divisor):
    # Two binades: the quotient of twice as much is twice as much.
    roots = np.arange(0x3F000000, 0x40000000, dtype=np.uint32).view(np.float32)
    rb = np.float32(divisor)
    b2 = np.float64(1 - np.float64(rb) ** 2)
    update = Update(roots[:1], 1, -0.0, (0.9, b2), 0.0)
    row = step_row(update, 0.0, Variant())
    assert row[4] == rb
    row[6] = 1.0
    found = roots.copy()
    kernels.take_quotients(found, np.ones_like(roots), row)
    assert np.array_equal(found, np.float32(1) / (roots / rb))


@pytest.mark.parametrize("t", [0, 290, 311, 330])
def test_vectors_and_single_elements_take_the_same_steps(t):
    # At 0.95 the divisor has all bits set from about step 312 on and is 1 from about 327 on.
    size = 16 * 40
    state, updates = start(size, t), steps(size, t, count=9)
    whole = replay(state, updates, variant=Variant())
    for a in range(0, size, 15):
        part = AdamState(*(x[a : a + 15] for x in state[:3]), t)
        cut = [
            Update(u.gradient[a : a + 15], u.step, u.lr, u.betas, u.eps, u.weight_decay)
            for u in updates
        ]
        found = replay(part, cut, variant=Variant())
        assert bits(found)[:3] == [x[a : a + 15].view(np.uint32).tolist() for x in whole[:3]]


def test_infinities_and_nan_spread_as_in_the_slow_twin():
    state, updates = start(), steps(count=4)
    state.v[:4] = [np.inf, np.nan, 0.0, 3e38]
    state.m[4:7] = [np.inf, -np.inf, np.nan]
    updates[1].gradient[10:13] = [np.inf, np.nan, 3e38]
    updates[2].gradient[20:24] = [1e-45, 1e-30, 2e19, -3e19]
    with np.errstate(all="ignore"):
        twin = AdamWTorch()
        expected = state
        for update in updates:
            m, v = expected.m, expected.v
            assert m.dtype == v.dtype == np.float32
            expected = twin.step(expected, update, update.effective_gradient(expected.p))
    for variant in (Variant(fused_multiply_add=False), Variant()):
        found = replay(state, updates, variant=variant)
        for a, b in zip(found[:3], expected[:3], strict=True):
            assert np.array_equal(np.isnan(a), np.isnan(b))
            assert np.array_equal(np.isinf(a), np.isinf(b))


def test_the_given_state_is_left_alone_unless_asked():
    state, updates = start(), steps()
    kept = bits(state)
    found = replay(state, updates, variant=Variant())
    assert bits(state) == kept != bits(found)
    inside = replay(state, updates, variant=Variant(), in_place=True)
    assert inside.p is state.p or np.shares_memory(inside.p, state.p)
    assert bits(inside) == bits(found)
    assert bits(replay(found, [], variant=Variant())) == bits(found)
    strided = AdamState(*(np.repeat(a, 2)[::2] for a in found[:3]), found.t)
    with pytest.raises(BadWindow, match="contiguous"):
        replay(strided, [], variant=Variant(), in_place=True)
    assert bits(replay(strided, [], variant=Variant())) == bits(found)


def test_what_does_not_fit_is_refused_in_one_sentence():
    state, updates = start(), steps()
    with pytest.raises(StepMismatch, match="allowed: step 3 if it was skipped, else step 4"):
        replay(state, updates[1:], variant=Variant())
    short = Update(updates[0].gradient[1:], 4, 1e-3)
    with pytest.raises(BadUpdate, match=f"{SIZE - 1} elements; allowed"):
        replay(state, [short], variant=Variant())
    with pytest.raises(BadUpdate, match="float64"):
        replay(state, [Update(updates[0].gradient.astype("f8"), 4, 1e-3)], variant=Variant())
    with pytest.raises(BadWindow, match="p is float64"):
        replay(state._replace(p=state.p.astype("f8")), updates, variant=Variant())
    with pytest.raises(BadWindow, match="too small for a shard"):
        replay(state, updates, variant=Variant(tail_width=8), placement=Placement(9, SIZE))
    with pytest.raises(BadWindow, match="allowed: ieee, library, reciprocal"):
        Variant(root="fast")
    with pytest.raises(BadWindow, match="address"):
        Variant(root="library")
    with pytest.raises(BadUpdate, match="threads = 0"):
        replay(state, updates, variant=Variant(), threads=0)


WITHOUT_HARDWARE = """
import hashlib, numpy as np
from checkpoint_tax.reconcile.corrections import record, roll_back
from checkpoint_tax.reconcile.optimizers import AdamState
from checkpoint_tax.reconcile.replay import Variant, replay
from checkpoint_tax.reconcile.updates import Update
rng = np.random.default_rng(3)
state = AdamState(*(rng.random(1100).astype("f4") for _ in range(3)), 0)
updates = [Update(rng.normal(0, 1, 1100).astype("f4"), t, 1e-3) for t in (1, 2, 3)]
found = replay(state, updates, variant=Variant(tail_width=8))
last = replay(found, [], variant=Variant())
before = replay(state, updates[:2], variant=Variant(tail_width=8))
kept = record(before, found, updates[2])
assert all(np.array_equal(a, b) for a, b in
           zip(roll_back(found, updates[2:], {3: kept})[:3], before[:3]))
print(hashlib.sha256(b"".join(a.tobytes() for a in found[:3]) + kept.to_bytes()).hexdigest())
"""


def test_a_processor_without_fused_products_gives_the_same_bits(tmp_path):
    plain = "x86-64" if platform.machine() in {"x86_64", "AMD64"} else "generic"

    def run(**target):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_HARDWARE],
            env={**os.environ, **target},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    other = run(NUMBA_CPU_NAME=plain, NUMBA_CPU_FEATURES="", NUMBA_CACHE_DIR=str(tmp_path))
    assert other == run()

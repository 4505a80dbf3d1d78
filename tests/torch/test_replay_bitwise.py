"""Host replay against the installed PyTorch, bit for bit, and what happens where none fits."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from checkpoint_tax.reconcile import torch_probe
from checkpoint_tax.reconcile.errors import BadWindow
from checkpoint_tax.reconcile.optimizers import AdamState, AdamWPost
from checkpoint_tax.reconcile.replay import Placement, Variant, replay
from checkpoint_tax.reconcile.torch_probe import IMPLEMENTATIONS, replayer
from checkpoint_tax.reconcile.updates import Update

LARGE = 1_000_003
"""Odd, so every vector width leaves a rest: 3 of 8 and of 16."""


def draw_weights(size, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 0.02, size).astype("f4"))


def draw_gradients(size, steps, seed=1):
    """Noise of many scales with zeros and spikes; each step's own, cut from one pool."""
    rng = np.random.default_rng(seed)
    pool = rng.standard_normal(size + 4096, dtype=np.float32)
    pool *= np.exp(rng.normal(-6, 2, size + 4096)).astype("f4")
    pool[rng.random(pool.size) < 0.02] = 0
    pool[rng.random(pool.size) < 0.002] *= 1e3
    return [pool[at : at + size] for at in rng.integers(0, 4096, steps)]


def adamw(tensors, implementation, **numbers):
    return torch.optim.AdamW(
        tensors,
        foreach=implementation == "foreach",
        fused=implementation == "fused" or None,
        **numbers,
    )


def state_of(optimizer, weights, t):
    kept = optimizer.state[weights]
    if not kept:
        zero = np.zeros(weights.numel(), "f4")
        return AdamState(weights.detach().numpy().copy(), zero, zero.copy(), 0)
    assert int(kept["step"]) == t
    arrays = (weights.detach(), kept["exp_avg"], kept["exp_avg_sq"])
    return AdamState(*(a.numpy().reshape(-1).copy() for a in arrays), t)


def wrong(a, b):
    assert a.t == b.t
    return [
        int(np.count_nonzero(x.view(np.uint32) != y.view(np.uint32)))
        for x, y in zip(a[:3], b[:3], strict=True)
    ]


@pytest.mark.parametrize("b1", [0.9, 0.3])
@pytest.mark.parametrize("decay", [0.1, 0.0])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_hundred_steps_of_a_million_elements_are_the_library_s_bits(implementation, decay, b1):
    chosen = replayer(implementation)
    assert chosen.variant is not None, chosen.explanation
    weights = torch.nn.Parameter(draw_weights(LARGE))
    optimizer = adamw([weights], implementation, betas=(b1, 0.95), weight_decay=decay)
    begin = state_of(optimizer, weights, 0)
    updates = []
    for step, gradient in enumerate(draw_gradients(LARGE, 100), 1):
        lr = 1e-3 * min(1.0, step / 20)
        optimizer.param_groups[0]["lr"] = lr
        weights.grad = torch.from_numpy(gradient)
        optimizer.step()
        updates.append(Update(gradient, step, lr, (b1, 0.95), 1e-8, decay))
    expected = state_of(optimizer, weights, 100)
    assert wrong(chosen(begin, updates), expected) == [0, 0, 0]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("size", [1, 7, 8, 15, 16, 17, 31, 513, 32_768 + 11, 70_001])
def test_shards_cut_anywhere_are_the_library_s_bits(implementation, size):
    weights = torch.nn.Parameter(draw_weights(size))
    optimizer = adamw([weights], implementation, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    begin = state_of(optimizer, weights, 0)
    gradients = draw_gradients(size, 6)
    for gradient in gradients:
        weights.grad = torch.from_numpy(gradient)
        optimizer.step()
    expected = state_of(optimizer, weights, 6)
    rng = np.random.default_rng(size)
    for _ in range(4):
        edges = [0, *sorted(rng.integers(0, size + 1, 3).tolist()), size]
        for a, z in itertools.pairwise(edges):
            part = AdamState(*(x[a:z] for x in begin[:3]), 0)
            updates = [
                Update(g[a:z], step, 1e-3, (0.9, 0.99), 1e-8, 0.1)
                for step, g in enumerate(gradients, 1)
            ]
            found = replayer(implementation)(part, updates, placement=Placement(a, size))
            assert wrong(found, AdamState(*(x[a:z] for x in expected[:3]), 6)) == [0, 0, 0]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_groups_clipping_and_climbing_are_the_library_s_bits(implementation):
    sizes = (30_011, 20_005)
    tensors = [torch.nn.Parameter(draw_weights(n, seed=n)) for n in sizes]
    groups = [
        {"params": tensors[:1], "weight_decay": 0.1},
        {"params": tensors[1:], "weight_decay": 0.0},
    ]
    optimizer = adamw(groups, implementation, lr=1e-3, betas=(0.9, 0.95), maximize=True)
    begin = [state_of(optimizer, w, 0) for w in tensors]
    updates = [[], []]
    for step in range(1, 13):
        gradients = [draw_gradients(n, 1, seed=step * n)[0] for n in sizes]
        for w, g in zip(tensors, gradients, strict=True):
            w.grad = torch.from_numpy(g.copy())
        norm = torch.nn.utils.clip_grad_norm_(tensors, 1.0)
        coefficient = min(1.0, float(1.0 / (norm + 1e-6)))
        optimizer.step()
        for kept, g, decay in zip(updates, gradients, (0.1, 0.0), strict=True):
            kept.append(
                Update(
                    g,
                    step,
                    1e-3,
                    (0.9, 0.95),
                    1e-8,
                    decay,
                    clip_coefficient=coefficient,
                    maximize=True,
                )
            )
    for w, state, kept in zip(tensors, begin, updates, strict=True):
        assert any(u.clip_coefficient < 1 for u in kept)
        found = replayer(implementation)(state, kept)
        assert wrong(found, state_of(optimizer, w, 12)) == [0, 0, 0]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_extremes_take_the_library_s_bits(implementation):
    size = 4099
    state = AdamState(*(a.copy() for a in (draw_weights(size).numpy(),) * 3), 4)
    state = state._replace(v=np.abs(state.v))
    state.v[:8] = [0.0, 1e-45, 1e-40, 1.2e-38, 3.3e38, np.inf, 1e-30, 2e-38]
    gradients = draw_gradients(size, 4)
    gradients = [g.copy() for g in gradients]
    for gradient in gradients:
        # Elements that never had a gradient: their second moment stays zero.
        gradient[100:200:5] = 0
    state.v[100:200:5] = 0
    gradients[1][20:24] = [1e-25, 1e-20, 3e18, -2e19]
    gradients[2][30:32] = [np.inf, -np.inf]
    updates = [Update(g, step, 1e-3, (0.9, 0.95)) for step, g in enumerate(gradients, 5)]
    expected = torch_probe.replay_with_library(state, updates, implementation, Placement())
    found = replayer(implementation)(state, updates)
    for a, b in zip(found[:3], expected[:3], strict=True):
        # NaNs are NaNs: which bits they carry differs between instructions.
        same = (a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))
        assert same.all()


PROBE = """
from checkpoint_tax.reconcile.torch_probe import IMPLEMENTATIONS, find_variant, replayer
import torch
print(torch.backends.cpu.get_cpu_capability())
for implementation in IMPLEMENTATIONS:
    variant = find_variant(implementation)
    print(variant is not None and variant.fused_multiply_add)
"""


@pytest.mark.parametrize("capability", ["avx2", "default"])
def test_a_variant_is_found_for_other_vector_instructions(capability):
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env={**os.environ, "ATEN_CPU_CAPABILITY": capability},
        capture_output=True,
        text=True,
        check=True,
    )
    name, *fused = done.stdout.split()
    if name == "DEFAULT":
        assert fused == ["False"] * 3
    else:
        assert fused == ["True"] * 3


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_where_no_variant_fits_the_library_replays_and_says_so(implementation, monkeypatch):
    size = 4096 + 13
    weights = torch.nn.Parameter(draw_weights(size))
    optimizer = adamw([weights], implementation, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    begin = state_of(optimizer, weights, 0)
    gradients = draw_gradients(size, 8)
    for gradient in gradients:
        weights.grad = torch.from_numpy(gradient)
        optimizer.step()
    expected = state_of(optimizer, weights, 8)

    unlike = [Variant(fused_multiply_add=False, tail_width=4)]
    replayer.cache_clear()
    monkeypatch.setattr(torch_probe, "candidates", lambda implementation: iter(unlike))
    try:
        if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
            unlike[0] = Variant()
        chosen = replayer(implementation)
    finally:
        replayer.cache_clear()
    assert chosen.variant is None
    assert "it replays by itself, slower" in chosen.explanation
    for a, z in ((0, size), (0, 1003), (1003, 4100), (4100, size), (4000, 4001)):
        part = AdamState(*(x[a:z] for x in begin[:3]), 0)
        updates = [
            Update(g[a:z], step, 1e-3, (0.9, 0.95), 1e-8, 0.1)
            for step, g in enumerate(gradients, 1)
        ]
        found = chosen(part, updates, placement=Placement(a, size))
        assert wrong(found, AdamState(*(x[a:z] for x in expected[:3]), 8)) == [0, 0, 0]


def test_the_explanation_names_what_was_found():
    fused = replayer("fused")
    assert torch.__version__ in fused.explanation
    assert "IEEE square root" in fused.explanation
    with pytest.raises(BadWindow, match="allowed: single, foreach, fused"):
        torch_probe.find_variant("eager")


def test_the_post_s_own_formula_is_not_the_library_s():
    size, steps = 100_003, 100
    weights = torch.nn.Parameter(draw_weights(size))
    optimizer = adamw([weights], "single", lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    state = state_of(optimizer, weights, 0)
    rng = np.random.default_rng(5)
    for step in range(1, steps + 1):
        gradient = (1e-3 * rng.standard_normal(size)).astype("f4")
        weights.grad = torch.from_numpy(gradient)
        optimizer.step()
        update = Update(gradient, step, 3e-4, (0.9, 0.95), 1e-8, 0.1)
        state = AdamWPost().forward(state, update)
    expected = state_of(optimizer, weights, steps)
    for a, b, least in zip(state[:3], expected[:3], (0.9, 0.5, 0.2), strict=True):
        assert np.mean(a != b) > least
        distance = np.linalg.norm(a - b) / np.linalg.norm(b)
        assert 1e-8 < distance < 1e-5


def test_replay_needs_no_variant_for_no_updates():
    state = AdamState(*(np.ones(3, "f4") for _ in range(3)), 5)
    for implementation in IMPLEMENTATIONS:
        assert wrong(replayer(implementation)(state, []), state) == [0, 0, 0]
    assert wrong(replay(state, [], variant=Variant()), state) == [0, 0, 0]

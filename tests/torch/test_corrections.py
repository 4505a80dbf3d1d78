"""Exact rollback of states that the installed PyTorch made, and what it costs to ship."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from checkpoint_tax.reconcile.corrections import record, roll_back
from checkpoint_tax.reconcile.optimizers import AdamState
from checkpoint_tax.reconcile.replay import Placement
from checkpoint_tax.reconcile.torch_probe import IMPLEMENTATIONS, replayer
from checkpoint_tax.reconcile.updates import Update

STEPS, WINDOW, WORDS = 44, 16, 64


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.after = nn.LayerNorm(width)
        self.wide = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.wide(self.after(x))


class Recorded:
    """States and updates of every step of a small transformer, flattened, from step 0 on."""

    def __init__(self, implementation, spike_at=None):
        torch.manual_seed(11)
        model = nn.Sequential(nn.Embedding(WORDS, 64), Block(64), Block(64), nn.Linear(64, WORDS))
        tensors = list(model.parameters())
        # One flat parameter, as sharded training keeps it: the model's tensors are views of it.
        flat = nn.Parameter(torch.cat([t.detach().reshape(-1) for t in tensors]))
        optimizer = torch.optim.AdamW(
            [flat],
            betas=(0.9, 0.95),
            weight_decay=0.1,
            foreach=implementation == "foreach",
            fused=implementation == "fused" or None,
        )
        zero = np.zeros(flat.numel(), "f4")
        self.states = [AdamState(flat.detach().numpy().copy(), zero, zero, 0)]
        self.updates = []
        mixing = torch.softmax(2 * torch.randn(WORDS, WORDS), -1)
        for step in range(1, STEPS + 1):
            with torch.no_grad():
                at = 0
                for tensor in tensors:
                    tensor.copy_(flat[at : at + tensor.numel()].view_as(tensor))
                    at += tensor.numel()
                words = torch.randint(0, WORDS, (8, 1))
                for _ in range(24):
                    words = torch.cat([words, torch.multinomial(mixing[words[:, -1]], 1)], 1)
            model.zero_grad()
            scores = model(words[:, :-1]).reshape(-1, WORDS)
            functional.cross_entropy(scores, words[:, 1:].reshape(-1)).backward()
            gradient = torch.cat([t.grad.reshape(-1) for t in tensors])
            if step == spike_at:
                gradient *= 1000
            lr = 1e-3 * min(1.0, step / 10)
            optimizer.param_groups[0]["lr"] = lr
            flat.grad = gradient
            optimizer.step()
            kept = optimizer.state[flat]
            arrays = (flat.detach(), kept["exp_avg"], kept["exp_avg_sq"])
            self.states.append(AdamState(*(a.numpy().copy() for a in arrays), step))
            self.updates.append(Update(gradient.numpy(), step, lr, (0.9, 0.95), 1e-8, 0.1))

    def records(self, first, last):
        return {
            step: record(self.states[step - 1], self.states[step], self.updates[step - 1])
            for step in range(first, last + 1)
        }


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def recorded(request):
    return Recorded(request.param), request.param


def same(a, b):
    return a.t == b.t and all(
        np.array_equal(x.view(np.uint32), y.view(np.uint32))
        for x, y in zip(a[:3], b[:3], strict=True)
    )


def test_every_step_is_undone_to_the_last_bit(recorded):
    run, _ = recorded
    records = run.records(1, STEPS)
    for back in (1, WINDOW, STEPS):
        found = roll_back(run.states[-1], run.updates[STEPS - back :], records)
        assert same(found, run.states[STEPS - back])
    later = [records[step].bits_per_element for step in range(20, STEPS + 1)]
    # The aim is 2.5; the distances' own entropy is about 2.
    assert max(later) < 1.6
    assert np.mean(later) > 0.5


def test_forward_from_the_restored_state_is_the_captured_one(recorded):
    run, implementation = recorded
    records = run.records(STEPS - WINDOW + 1, STEPS)
    updates = run.updates[STEPS - WINDOW :]
    earlier = roll_back(run.states[-1], updates, records)
    assert same(replayer(implementation)(earlier, updates), run.states[-1])


@pytest.mark.parametrize("implementation", ["foreach", "fused"])
def test_a_thousandfold_spike_is_undone_to_the_last_bit(implementation):
    run = Recorded(implementation, spike_at=38)
    records = run.records(30, STEPS)
    assert same(roll_back(run.states[-1], run.updates[29:], records), run.states[29])
    assert 20 < records[38].bits_per_element < 40


@pytest.mark.parametrize("gradient_bytes", [4, 2])
def test_an_exact_median_costs_six_tenths_of_newest_at_most(recorded, gradient_bytes):
    run, implementation = recorded
    first = STEPS - WINDOW + 1
    size = run.states[0].p.size
    edges = [size * i // WINDOW for i in range(WINDOW + 1)]
    target = first + WINDOW // 2 - 1
    shipped, newest, restored = 0, 0, []
    for i in range(WINDOW):
        part, version = slice(edges[i], edges[i + 1]), first + i
        state = AdamState(*(a[part].copy() for a in run.states[version][:3]), version)
        updates = {
            u.step: Update(u.gradient[part], u.step, u.lr, u.betas, u.eps, u.weight_decay)
            for u in run.updates
        }
        newest += (STEPS - version) * gradient_bytes * state.p.size
        shipped += abs(target - version) * gradient_bytes * state.p.size
        if version <= target:
            way = [updates[step] for step in range(version + 1, target + 1)]
            restored.append(
                replayer(implementation)(state, way, placement=Placement(edges[i], size))
            )
            continue
        way = [updates[step] for step in range(target + 1, version + 1)]
        records = {}
        for update in way:
            around = [
                AdamState(*(a[part] for a in run.states[step][:3]), step)
                for step in (update.step - 1, update.step)
            ]
            records[update.step] = record(*around, update)
            shipped += records[update.step].nbytes
        restored.append(roll_back(state, way, records))
    joined = AdamState(*(np.concatenate([r[i] for r in restored]) for i in range(3)), target)
    assert same(joined, run.states[target])
    # n / 4 slices against (n - 1) / 2, and about a bit per element on the way back.
    assert 0.533 < shipped / newest < 0.60

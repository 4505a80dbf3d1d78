"""Measured with the installed PyTorch, for pages that are built without it.

``python -m checkpoint_tax.reconcile.torch_measurement FILE`` writes what the book quotes: how far
the first post's formula is from the library's, what corrections take on real gradients and in a
spike, and what becomes of runs resumed from a torn and from a reconciled state.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from checkpoint_tax.reconcile.corrections import record, roll_back
from checkpoint_tax.reconcile.optimizers import AdamState, AdamWPost, AdamWTorch, state_arrays
from checkpoint_tax.reconcile.torch_probe import Implementation, replayer, same_bits
from checkpoint_tax.reconcile.updates import Update

__all__ = ["measure"]

_BETAS = (0.9, 0.999)
_STEPS = 100
_SPIKE_STEP = 50
_SPIKES = (1.0, 10.0, 100.0, 1000.0)
_VERSIONS = tuple(range(40, 56))


def measure(*, seed: int = 0, size: int = 200_003) -> dict[str, Any]:
    """Run every measurement.

    Parameters
    ----------
    seed : int
        Of weights, gradients and data.
    size : int
        Parameters of the trials on synthetic gradients.

    Returns
    -------
    dict
        Plain values, by what was measured.
    """
    import torch

    torch.set_num_threads(1)
    return {
        "machine": {
            "processor": _processor(),
            "capability": torch.backends.cpu.get_cpu_capability(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "settings": {"seed": seed, "size": size, "steps": _STEPS, "betas": list(_BETAS)},
        "formula": _formula(seed, size),
        "spikes": _spikes(seed, size),
        "window": _window(seed),
    }


def _processor() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _gradient(seed: int, step: int, size: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng((seed, step)).standard_normal(size).astype(np.float32)


def _steps(
    seed: int, size: int, implementation: Implementation, spikes: dict[int, float]
) -> Iterator[tuple[Update, AdamState]]:
    """States that the library makes, from a start of zero moments on."""
    import torch

    start = 0.02 * np.random.default_rng((seed, 0)).standard_normal(size)
    weights = torch.nn.Parameter(torch.from_numpy(start.astype(np.float32)))
    optimizer = torch.optim.AdamW(
        [weights],
        lr=1e-3,
        betas=_BETAS,
        weight_decay=0.1,
        foreach=implementation == "foreach",
        fused=implementation == "fused" or None,
    )
    for step in range(1, _STEPS + 1):
        gradient = _gradient(seed, step, size) * np.float32(spikes.get(step, 1.0))
        weights.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        kept = optimizer.state[weights]
        state = AdamState(
            weights.detach().numpy().copy(),
            kept["exp_avg"].numpy().copy(),
            kept["exp_avg_sq"].numpy().copy(),
            step,
        )
        yield Update(gradient, step, 1e-3, betas=_BETAS, weight_decay=0.1), state


def _formula(seed: int, size: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    start = (0.02 * np.random.default_rng((seed, 0)).standard_normal(size)).astype(np.float32)
    for implementation in ("foreach", "fused"):
        steps = list(_steps(seed, size, implementation, {}))
        updates, last = [update for update, _ in steps], steps[-1][1]
        begin = AdamState(start, np.zeros(size, np.float32), np.zeros(size, np.float32), 0)
        ways = {
            "post": AdamWPost().replay(begin, updates),
            "ordered": AdamWTorch().replay(begin, updates),
            "replay": replayer(implementation)(begin, updates),
        }
        found[implementation] = {
            name: {"bitwise": same_bits(state, last), **_difference(state, last)}
            for name, state in ways.items()
        }
    return found


def _difference(state: AdamState, truth: AdamState) -> dict[str, Any]:
    true = state_arrays(truth)
    differing, relative = {}, {}
    for name, value in state_arrays(state).items():
        wide = true[name].astype(np.float64)
        differing[name] = float(np.mean(value.view(np.uint32) != true[name].view(np.uint32)))
        relative[name] = float(np.linalg.norm(value - wide) / np.linalg.norm(wide))
    return {"differing": differing, "relative_l2": relative}


def _spikes(seed: int, size: int) -> list[dict[str, Any]]:
    rows = []
    for spike in _SPIKES:
        before = None
        for update, after in _steps(seed, size, "fused", {_SPIKE_STEP: spike}):
            if update.step == _SPIKE_STEP:
                break
            before = after
        assert before is not None
        kept = record(before, after, update, threads=1)
        exact = same_bits(roll_back(after, [update], {update.step: kept}, threads=1), before)
        plain = AdamWTorch().back(after, update, update.effective_gradient(after.p))
        rows.append(
            {
                "spike": spike,
                "bits": kept.bits_per_element,
                "exact": exact,
                "uncorrected": _difference(plain, before)["relative_l2"],
            }
        )
    return rows


def _window(seed: int) -> dict[str, Any]:
    from checkpoint_tax.reconcile.torch_training import Training, record_window

    found: dict[str, Any] = {}
    for name, corrected in (("plain", False), ("corrected", True)):
        window = record_window(Training(seed=seed, width=96), _VERSIONS, corrected=corrected)
        found[name] = {
            way: {
                "traffic": resumed.traffic,
                "start_error": resumed.start_error,
                "same_at_start": resumed.same_at_start,
                "same_at_end": resumed.same_at_end,
                "end_error": resumed.end_error,
                "largest_loss_difference": resumed.largest_loss_difference,
            }
            for way, resumed in window.resumed.items()
        }
        found |= {"parameters": window.n_parameters, "shards": len(_VERSIONS)}
        found["correction_bits"] = window.correction_bits
    return found


def main(arguments: list[str]) -> int:
    """Write the measurements into a file.

    Parameters
    ----------
    arguments : list of str
        The file's path.

    Returns
    -------
    int
        Exit status: 0, or 2 if there is not exactly one path.
    """
    if len(arguments) != 1:
        print("usage: python -m checkpoint_tax.reconcile.torch_measurement FILE", file=sys.stderr)
        return 2
    text = json.dumps(measure(), indent=1, sort_keys=True)
    Path(arguments[0]).write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

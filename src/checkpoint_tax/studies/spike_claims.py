"""What the chapter on the spike gate recomputes for each of its claims of the first post.

The post's table 4 states no stream: the value is that of a stream whose first two shares are the
printed ones, errors are those of its elements, and ranges are over warm-ups or elements. What was
measured with PyTorch is read from a file of the data folder.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from checkpoint_tax.ledger import Computed
from checkpoint_tax.ledger.tables import post_table
from checkpoint_tax.reconcile.experiments import SpikeResult, Stream, spike_errors
from checkpoint_tax.reconcile.gate import UNIT_FP32, share_of_tolerance
from checkpoint_tax.reconcile.window import targets
from checkpoint_tax.resources import data_path
from checkpoint_tax.studies.torn_claims import target_error

__all__ = ["NEAREST_SEED", "SPIKES", "claims", "measured", "shares_over_warmups", "spiked"]

SPIKES = (1.0, 10.0, 100.0, 1000.0)
NEAREST_SEED = 1
"""Draw whose two first shares are the printed ones."""

_WARMUPS_STEPS = (4, 19, 48, 199, 999)
_SHARDS = 16
_LARGE = 10.0
"""Growth of an error that counts as losing digits [1]."""


@functools.cache
def measured() -> dict[str, Any]:
    """What was measured with PyTorch.

    Returns
    -------
    dict
        As `checkpoint_tax.reconcile.torch_measurement` wrote it.
    """
    text = data_path("measured-reconciliation.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@functools.lru_cache(maxsize=8)
def spiked(seed: int = NEAREST_SEED, spikes: Sequence[float] = SPIKES) -> tuple[SpikeResult, ...]:
    """Steps undone through spikes of several sizes.

    Parameters
    ----------
    seed : int
        Of weights and gradients.
    spikes : sequence of float
        Factors on the gradient of the step.

    Returns
    -------
    tuple of SpikeResult
    """
    return tuple(spike_errors(spikes, seed=seed))


@functools.lru_cache(maxsize=4)
def shares_over_warmups(seed: int = NEAREST_SEED) -> dict[float, tuple[float, float]]:
    """Lowest and highest share of the spike in the second moment, by spike.

    Parameters
    ----------
    seed : int
        Of weights and gradients.

    Returns
    -------
    dict of float to tuple of float
        Over warm-ups of 5 to 1,000 steps.
    """
    runs = [
        spike_errors(SPIKES, stream=Stream(warmup_steps=steps, n_shards=1), seed=seed)
        for steps in _WARMUPS_STEPS
    ]
    by_spike = zip(*runs, strict=True)
    return {
        found[0].spike: (min(r.share for r in found), max(r.share for r in found))
        for found in by_spike
    }


def claims() -> dict[str, Computed]:
    """What this chapter recomputed for each of its claims.

    Returns
    -------
    dict of str to Computed
        By claim id, in the claims' units.
    """
    return {**_table_4(), **_gate(), **_rollback()}


def _odds(share: float) -> float:
    return share / (1.0 - share)


def _implied_spikes() -> dict[float, tuple[float, float, float]]:
    """Factor that each printed share implies, from another row of the table.

    The odds of the share grow with the square of the factor: v after the step is ``b2`` times v
    before it plus the spike's own square.
    """
    rows = {r["spike_factor"]: r for r in post_table(4).to_dict("records")}
    reach = {1: 5e-4, 10: 5e-3, 100: 5e-3, 1000: 5e-2}
    below = 1.0 - UNIT_FP32

    def ends(factor: float) -> tuple[float, float, float]:
        share = rows[factor]["squared_gradient_share"]
        high = min(share + reach[int(factor)], below)
        return min(share, below), share - reach[int(factor)], high

    found = {}
    for factor in SPIKES:
        base = 10.0 if factor == 1.0 else 1.0
        own, other = ends(factor), ends(base)
        low = math.sqrt(_odds(own[1]) / _odds(other[2]))
        high = math.sqrt(_odds(own[2]) / _odds(other[1]))
        middle = math.sqrt(_odds(own[0]) / _odds(other[0])) if own[0] < below else 0.0
        # A share that prints as 1 has no value of its own: the middle of its wide range.
        middle = middle or math.sqrt(low * high)
        found[factor] = (base * middle, base * low, base * high)
    return found


def _table_4() -> dict[str, Computed]:
    found = {}
    implied, ranges = _implied_spikes(), shares_over_warmups()
    for row in spiked():
        name = f"tax.t4.x{row.spike:.0f}"
        value, low, high = implied[row.spike]
        found[f"{name}.spike"] = Computed(
            value,
            low,
            high,
            note="from the odds of the printed shares, which grow with the square of the factor; a "
            "share that prints as 1 bounds it from below only",
        )
        found[f"{name}.ratio"] = Computed(
            row.share,
            *ranges[row.spike],
            note="at the 50th step, where the two first shares are the printed ones; the range is "
            f"over spikes at steps {_WARMUPS_STEPS[0] + 2} to {_WARMUPS_STEPS[-1] + 2:,}",
        )
        low, middle, high = row.error_quantiles["v"]
        found[f"{name}.err"] = Computed(
            middle,
            low,
            high,
            note="the median element, and the range of 95 % of the elements; the relative L2 error "
            f"of all is {row.error['v']:.1e}",
        )
    return found


def _gate() -> dict[str, Computed]:
    rows = {r["spike_factor"]: r for r in post_table(4).to_dict("records")}
    passes, fails = rows[10], rows[100]
    between = math.sqrt(
        passes["second_moment_relative_error"] * fails["second_moment_relative_error"]
    )
    one, *_, largest = spiked()
    other = {
        spike: spike_errors((spike,), stream=Stream(betas=(0.9, 0.95), n_shards=1))[0]
        for spike in (1.0, 1000.0)
    }
    versions = range(_SHARDS)
    median = targets(versions).median
    forward = sum(version <= median for version in versions)
    return {
        "tax.text.gate": Computed(
            share_of_tolerance(between),
            passes["squared_gradient_share"],
            fails["squared_gradient_share"],
            note="a threshold between the row whose error it accepts and the one whose it does "
            f"not; 0.9 stands for a relative error of v of {UNIT_FP32 / 0.1:.1e} in one step",
        ),
        "tax.concl.spike_cancels": Computed(
            holds_under_post=largest.error["v"] > _LARGE * one.error["v"],
            holds_in_general=other[1000.0].error["v"] > _LARGE * other[1.0].error["v"],
            note=f"a spike of 1,000 leaves v wrong by {largest.error['v']:.1e}, with beta2 = 0.95 "
            f"by {other[1000.0].error['v']:.1e}; it leaves m wrong by {largest.error['m']:.1e}, "
            "which a test of v alone does not see",
        ),
        "tax.concl.gate_forward_only": Computed(
            holds_under_post=forward > 0,
            holds_in_general=forward == _SHARDS,
            condition="the target is not older than that shard's own version",
            note=f"at the median of {_SHARDS} shards this is so for {forward} of them; for the "
            f"other {_SHARDS - forward} the target itself must move up, at the price of traffic",
        ),
    }


def _rollback() -> dict[str, Computed]:
    errors = [target_error("oldest", letter)[1] for letter in "pmv"]
    window = measured()["window"]
    exact = all(window["corrected"][way]["same_at_end"] for way in ("median", "oldest"))
    in_spikes = all(row["exact"] for row in measured()["spikes"])
    return {
        "tax.concl.rollback_not_bitwise": Computed(
            holds_under_post=min(errors) > 0.0,
            holds_in_general=not (exact and in_spikes),
            condition="nothing is recorded of what each step's rounding forgets",
            note=f"with {window['correction_bits']:.2f} bits an element and step recorded, median "
            "and oldest of a real run were every bit right, and so were steps back through "
            f"spikes of up to {max(row['spike'] for row in measured()['spikes']):,.0f}",
        )
    }


def plain_bound(spike: float, share_at_1: float) -> float:
    """Bound on the error of v in the plain form, from the share of an unspiked step.

    Parameters
    ----------
    spike : float
        Factor on the gradient.
    share_at_1 : float
        Share at a factor of 1.

    Returns
    -------
    float
        ``u (1 + spike^2 odds)``, which is ``u / (1 - share)``.
    """
    return float(UNIT_FP32 * (1.0 + np.square(spike) * _odds(share_at_1)))

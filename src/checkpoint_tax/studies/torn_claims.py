"""What the chapter on torn checkpoints recomputes for each of its claims of the first post.

The post prints neither its gradients nor its learning rate: what depends on them is a range over
streams, and the value is that of the stream found nearest to the printed figures. "Under the post"
means its own streams, traffic and optimizer; "in general" means other learning rates, optimizers
and shard sizes, and the goodput that its own first half computes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from checkpoint_tax.ledger import Computed
from checkpoint_tax.plan.window import Repair, WindowPlan, window_plan
from checkpoint_tax.reconcile.experiments import (
    KINDS,
    TARGET_STREAM,
    TargetResult,
    TornResult,
    spike_errors,
    target_errors,
    torn_and_repaired,
    torn_range,
)
from checkpoint_tax.reconcile.optimizer_table import OptimizerRow, optimizer_table
from checkpoint_tax.reconcile.traffic import (
    BF16_BYTES,
    FP32_BYTES,
    STATE_BYTES,
    STATE_WITH_BF16_COPY_BYTES,
    Target,
    consecutive_slices,
    median_ratio,
    slices,
    window_passing_state_steps,
)
from checkpoint_tax.reconcile.window import targets
from checkpoint_tax.report.prose import listed, percent, points
from checkpoint_tax.studies.post_runs import post_scenario

__all__ = [
    "BF16_ROUNDING",
    "LRS",
    "PRINTED_TARGETS",
    "claims",
    "optimizer_rows",
    "passing_windows",
    "post_window_plan",
    "target_results",
    "torn_results",
]

LRS = (1e-5, 1e-4, 1e-3, 3e-3)
"""Learning rates of the range; the weights start at a standard deviation of 0.02."""

WARMUPS_STEPS = (0, 20, 100)
BF16_ROUNDING = 2.0**-9
"""Largest relative error of a number stored in bf16."""

MATTERS = 5e-4
"""Smallest difference of goodput that counts [share of wall time]: 0.05 points."""

PROPORTIONAL = 0.1
"""How far a figure may be from another and still be called so [1]."""

PRINTED_TARGETS: Mapping[str, str] = {
    "newest": "newest",
    "median": "older median",
    "oldest": "oldest",
}
"""Target of table 3 to the result that the post prints: the older of its two middle versions."""

_LETTERS = {"p": "parameters", "m": "first moment", "v": "second moment"}
_WALLS = (8, 16, 64)
_TORN_SHARDS = 8
_WINDOW = 16
_SHARD_SIZE = 64


@functools.lru_cache(maxsize=4)
def torn_results(seed: int = 0) -> tuple[TornResult, ...]:
    """Torn states over streams, learning rates and warm-ups.

    Parameters
    ----------
    seed : int
        Of weights and gradients.

    Returns
    -------
    tuple of TornResult
    """
    return tuple(
        torn_range(lrs=LRS, warmups_steps=WARMUPS_STEPS, seed=seed, shard_size=_SHARD_SIZE)
    )


@functools.lru_cache(maxsize=4)
def nearest_torn(seed: int = 0) -> TornResult:
    """The torn state of the stream nearest to the post's figures.

    Parameters
    ----------
    seed : int
        Of weights and gradients.

    Returns
    -------
    TornResult
    """
    return torn_and_repaired(seed=seed)


@functools.lru_cache(maxsize=4)
def target_results(seed: int = 0) -> tuple[tuple[TargetResult, ...], ...]:
    """Reconciled windows of 16 shards: the nearest stream first, then others and their draws.

    Parameters
    ----------
    seed : int
        Of weights and gradients.

    Returns
    -------
    tuple of tuple of TargetResult
        One tuple a stream, in it newest, median, older median and oldest.
    """
    small = replace(TARGET_STREAM, shard_size=64)
    runs = [target_errors(TARGET_STREAM, seed=seed)]
    runs += [target_errors(small, seed=seed + draw) for draw in range(1, 6)]
    runs += [
        target_errors(replace(small, kind=kind, lr=lr, warmup_steps=steps), seed=seed)
        for kind, lr, steps in itertools.product(KINDS, (1e-4, 3e-3), (20, 200))
    ]
    return tuple(tuple(run) for run in runs)


def target_error(target: str, name: str, seed: int = 0) -> tuple[float, float, float]:
    """Relative L2 error of one array at one target.

    Parameters
    ----------
    target : {"newest", "median", "oldest"}
        As the post names it.
    name : {"p", "m", "v"}
        The array.
    seed : int
        Of weights and gradients.

    Returns
    -------
    tuple of float
        On the nearest stream, and the lowest and highest over streams.
    """
    wanted = PRINTED_TARGETS[target]
    found = [r.error[name] for run in target_results(seed) for r in run if r.target == wanted]
    return found[0], min(found), max(found)


@functools.cache
def optimizer_rows() -> tuple[OptimizerRow, ...]:
    """The table of optimizers, computed once.

    Returns
    -------
    tuple of OptimizerRow
    """
    return optimizer_table()


def passing_windows() -> Iterator[tuple[Target, int, int, int]]:
    """Windows at which the gradients weigh as much as the state that they repair.

    Yields
    ------
    tuple
        Target, bytes of a gradient, bytes of state per parameter, and the smallest such window
        [steps].
    """
    wanted: tuple[Target, ...] = ("newest", "median")
    for target, gradient, state in itertools.product(
        wanted, (BF16_BYTES, FP32_BYTES), (STATE_BYTES, STATE_WITH_BF16_COPY_BYTES)
    ):
        steps = window_passing_state_steps(target, gradient_bytes=gradient, state_bytes=state)
        yield target, gradient, state, steps


def post_window_plan(target: Repair, window_steps: int, *, charged: bool) -> WindowPlan:
    """The post's job with another drain: its cost per byte kept, so that a long one taxes less.

    Parameters
    ----------
    target : str
        One of `checkpoint_tax.plan.window.REPAIRS`.
    window_steps : int
        Length of the drain of the state alone [steps].
    charged : bool
        Whether gradients are charged.

    Returns
    -------
    WindowPlan
    """
    post = post_scenario(drain_mode="wait")
    job = post.replace(
        drain_s=window_steps * post.step_s,
        drain_tax=post.drain_tax * post.drain_steps / window_steps,
    )
    return window_plan(job, target, charged=charged)


def claims() -> dict[str, Computed]:
    """What this chapter recomputed for each of its claims.

    Returns
    -------
    dict of str to Computed
        By claim id, in the claims' units.
    """
    return {**_table_3(), **_torn(), **_repair(), **_traffic(), **_targets(), **_wall()}


def _table_3() -> dict[str, Computed]:
    found = {}
    versions = range(_WINDOW)
    named = targets(versions)
    for target in PRINTED_TARGETS:
        found[f"tax.t3.{target}.traffic"] = Computed(
            slices(versions, getattr(named, target)),
            note=f"{_WINDOW} equal shards captured at as many consecutive steps",
        )
        for letter, array in _LETTERS.items():
            value, low, high = target_error(target, letter)
            if target == "newest":
                note = f"every bit of the {array} is the snapshot's on every stream tried"
                found[f"tax.t3.{target}.{letter}"] = Computed(high, note=note)
                continue
            found[f"tax.t3.{target}.{letter}"] = Computed(
                value,
                low,
                high,
                note="the stream is unstated; on none tried, all with beta2 = 0.999, is the error "
                f"outside {low:.1e} to {high:.1e}"
                + ("; beta2 decides how small that of v is" if letter == "v" else ""),
            )
    return found


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _steps_of_divergence() -> tuple[float, float, float]:
    """Steps after which the nearest stream prints the post's divergence [steps]."""
    seen = {steps: torn_and_repaired(steps=steps).torn_divergence for steps in (20, 40, 80, 100)}
    seen[nearest_torn().steps] = nearest_torn().torn_divergence
    printing = [steps for steps, value in seen.items() if abs(value - 0.12) <= 0.005]
    return float(np.median(printing)), float(min(printing)), float(max(printing))


def _torn() -> dict[str, Computed]:
    nearest, others = nearest_torn(), torn_results()
    stream = nearest.stream
    ratio = stream.lr / stream.weight_scale
    errors = _spread([r.torn_error["p"] for r in others])
    ends = _spread([r.torn_divergence for r in others])
    condition = (
        f"the learning rate is {ratio:g} times the weights' size and the window opens after "
        f"{stream.warmup_steps} steps, which a search found since the post states no stream"
    )
    middle, earliest, latest = _steps_of_divergence()
    shards = 2.0 * consecutive_slices(_TORN_SHARDS, "newest") + 1.0
    small = next(r for r in others if r.torn_error["p"] == errors[0])
    return {
        "tax.text.torn_shards": Computed(
            shards, note="its traffic of 3.50 at this window is that of so many equal shards"
        ),
        "tax.text.torn_steps": Computed(
            shards, note="its traffic of 3.50 at this window is that of so many steps"
        ),
        "tax.text.torn_error": Computed(
            nearest.torn_error["p"],
            *errors,
            condition=condition,
            note=f"learning rates from {LRS[0]:g} to {LRS[-1]:g}, three kinds of gradients and "
            f"three warm-ups give {errors[0]:.1e} to {errors[1]:.1e}",
        ),
        "tax.text.torn_divergence": Computed(
            nearest.torn_divergence,
            *ends,
            condition=condition,
            note=f"over the same streams it is {ends[0]:.1e} to {ends[1]:.1e}, and where the "
            "gradients answer the weights it is smaller than the torn error itself",
        ),
        "tax.text.divergence_steps": Computed(
            middle,
            earliest,
            latest,
            note="the steps at which the nearest stream prints the same divergence, looked at "
            "every twenty",
        ),
        "tax.concl.torn_is_corruption": Computed(
            holds_under_post=nearest.torn_error["p"] > BF16_ROUNDING,
            holds_in_general=errors[0] > BF16_ROUNDING,
            condition="the window moves the weights by more than what storing them in bf16 rounds "
            f"away, {BF16_ROUNDING:.1e} of their size",
            note=f"at a learning rate of {small.stream.lr:g} on weights of "
            f"{small.stream.weight_scale:g} it moves them by {small.torn_error['p']:.1e}, though "
            f"the first moment is {100 * small.torn_error['m']:.0f} % off even there",
        ),
    }


def _repair() -> dict[str, Computed]:
    results = [nearest_torn(), *torn_results()]
    worst = max(max(r.repaired_error.values()) for r in results)
    all_bits = all(r.repaired_bitwise for r in results)
    none_stray = all(r.repaired_divergence == 0.0 for r in results)
    rows = optimizer_rows()
    coupled = [row.name for row in rows if not row.forward_exact]
    return {
        "tax.text.replay_error": Computed(
            worst,
            note=f"all {len(results)} streams tried, against the post's own formula; PyTorch's "
            "needs its own order of operations",
        ),
        "tax.concl.replay_no_divergence": Computed(
            holds_under_post=nearest_torn().repaired_divergence == 0.0,
            holds_in_general=none_stray and all_bits,
            note=f"every bit of {len(results)} runs is the uninterrupted run's after "
            f"{nearest_torn().steps} further steps",
        ),
        "tax.concl.skew_fully_repairable": Computed(
            holds_under_post=all_bits,
            holds_in_general=not coupled,
            condition="an element's step needs nothing of the elements in other shards, as with "
            "AdamW, SGD or Lion",
            note=f"{listed(coupled)} need other shards' state at versions that these have left "
            "behind",
        ),
    }


def _traffic() -> dict[str, Computed]:
    newest, median = consecutive_slices(_WINDOW, "newest"), consecutive_slices(_WINDOW, "median")
    found = {
        "tax.text.window_steps": Computed(
            2.0 * newest + 1.0, note="the window of which its traffic of 7.50 is that to the newest"
        ),
        "tax.text.window_shards": Computed(
            4.0 * median, note="the shards of which its traffic of 4.00 is that to the median"
        ),
        "tax.text.traffic_ratio": Computed(median_ratio(_WINDOW)),
        "tax.text.traffic_ratio_limit": Computed(
            median_ratio(10**6), note="a window of a million steps"
        ),
        "tax.text.fp32_epsilon": Computed(float(np.finfo(np.float32).eps)),
        "tax.text.traffic_saving": Computed(newest / median),
    }
    for steps in _WALLS:
        traffic = consecutive_slices(steps, "newest")
        found[f"tax.text.wall_s{steps}"] = Computed(traffic)
        found[f"tax.text.wall_s{steps}_steps"] = Computed(
            2.0 * traffic + 1.0, note=f"the window of which {traffic:.2f} is the traffic"
        )
    return found


def _median_is_least() -> tuple[bool, bool]:
    """Whether the median is least for the post's window, and the weighted one for others."""

    def least(versions: Sequence[int], sizes: Sequence[float] | None) -> bool:
        costs = [slices(versions, t, sizes) for t in range(min(versions), max(versions) + 1)]
        return slices(versions, targets(versions, sizes).median, sizes) <= min(costs) + 1e-12

    rng = np.random.default_rng(0)
    windows = [
        (sorted(rng.integers(1, 40, n).tolist()), rng.integers(1, 9, n).astype(float).tolist())
        for n in rng.integers(1, 12, 50)
    ]
    return least(range(_WINDOW), None), all(least(v, s) for v, s in windows)


def _targets() -> dict[str, Computed]:
    post_least, general_least = _median_is_least()
    drain = round(post_scenario().drain_steps)
    wanted: tuple[Repair, ...] = ("median", "newest")
    free, paid = (
        {
            (target, steps): post_window_plan(target, steps, charged=charged).goodput
            for target in wanted
            for steps in (_WINDOW, drain)
        }
        for charged in (False, True)
    )
    loss = {steps: free["newest", steps] - free["median", steps] for steps in (_WINDOW, drain)}
    gain = {steps: paid["median", steps] - paid["newest", steps] for steps in (_WINDOW, drain)}
    rolled = max(target_error("oldest", letter)[2] for letter in _LETTERS)
    (spiked,) = spike_errors((1e4,))
    newest, median = (slices(range(_WINDOW), t) for t in (_WINDOW - 1, _WINDOW // 2))
    return {
        "tax.concl.median_minimises": Computed(
            holds_under_post=post_least,
            holds_in_general=general_least,
            note="the median weighs each shard by its size; tried against every version of 50 "
            "windows of unequal shards at scattered versions",
        ),
        "tax.concl.newest_expensive": Computed(
            holds_under_post=newest > median,
            holds_in_general=min(gain.values()) > MATTERS,
            condition="gradients are charged",
            note=f"charged by the byte, the newest version costs {points(gain[_WINDOW])} of "
            f"goodput more than the median at {_WINDOW} steps and {points(gain[drain])} at {drain}",
        ),
        "tax.concl.median_free": Computed(
            holds_under_post=loss[_WINDOW] < MATTERS,
            holds_in_general=max(loss.values()) < MATTERS,
            condition="the window is so short that its age does not count",
            note=f"the state it restores is half a window older, {points(loss[_WINDOW])} of "
            f"goodput at {_WINDOW} steps and {points(loss[drain])} at {drain} on the row of 16,384 "
            "GPUs while gradients cost nothing; it is the better bargain once they are charged",
        ),
        "tax.concl.rollback_below_noise": Computed(
            holds_under_post=rolled < BF16_ROUNDING,
            holds_in_general=spiked.error["v"] < BF16_ROUNDING,
            condition="no gradient spike is among the steps undone",
            note=f"without one the largest error of an array over streams is {rolled:.1e} against "
            f"a bf16 rounding of {BF16_ROUNDING:.1e}; a spike of 10,000 leaves v wrong by "
            f"{spiked.error['v']:.0e}",
        ),
    }


def _wall() -> dict[str, Computed]:
    first, last = (consecutive_slices(steps, "newest") for steps in (_WALLS[0], _WALLS[-1]))
    grown, longer = last / first, _WALLS[-1] / _WALLS[0]
    quadratic = abs(grown / longer**2 - 1.0) < PROPORTIONAL
    in_units = last * _WALLS[-1] / (first * _WALLS[0])
    ratios = [median_ratio(steps) for steps in _WALLS]
    halved = all(abs(ratio / 0.5 - 1.0) < PROPORTIONAL for ratio in ratios)
    passing = list(passing_windows())
    by_target = {
        wanted: [steps for target, _, _, steps in passing if target == wanted]
        for wanted in ("newest", "median")
    }
    near = [abs(steps / _WINDOW - 1.0) < PROPORTIONAL for *_, steps in passing]
    close = [
        f"{'bf16' if gradient == BF16_BYTES else 'fp32'} gradients against {state} B of state"
        for (target, gradient, state, _), hit in zip(passing, near, strict=True)
        if hit and target == "newest"
    ]
    charged = post_window_plan("newest", _WINDOW, charged=True).goodput
    staged = post_window_plan("staged", _WINDOW, charged=True).goodput
    return {
        "tax.concl.traffic_quadratic": Computed(
            holds_under_post=quadratic,
            holds_in_general=quadratic,
            condition="it is counted in shards, which shrink as the window grows",
            note=f"its own figures grow {grown:.0f}-fold while the window grows {longer:.0f}-fold: "
            f"(S - 1)/2 is linear; in slices of a shard it would be {in_units:.0f}-fold",
        ),
        "tax.concl.median_halves": Computed(
            holds_under_post=halved,
            holds_in_general=halved,
            condition="the window is long",
            note="the ratios are " + listed([f"{ratio:.3f}" for ratio in ratios]),
        ),
        "tax.concl.traffic_wall": Computed(
            holds_under_post=any(near),
            holds_in_general=all(near),
            condition=f"{listed(close)} are reconciled to the newest version" if close else "",
            note="the gradients weigh as much as the state from "
            f"{min(by_target['newest'])} to {max(by_target['newest'])} steps on for the newest "
            f"version and from {min(by_target['median'])} to {max(by_target['median'])} for the "
            f"median; charged by the byte, {_WINDOW} steps to the newest give {percent(charged)} "
            f"where a staged copy gives {percent(staged)}",
        ),
    }

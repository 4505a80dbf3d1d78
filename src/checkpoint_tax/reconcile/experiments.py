"""Torn states, targets and spikes on synthetic gradients, as the first post tried them.

The post states neither its gradients nor its learning rate, weights or warm-up; here they are
parameters of a `Stream`, so that a result can be shown as a range over them. Everything is
seeded and runs in single precision on the post's own formula.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from checkpoint_tax.errors import InputError
from checkpoint_tax.reconcile.gate import rollbacks, step_share, tolerance_of_share
from checkpoint_tax.reconcile.optimizers import AdamState, AdamWPost, state_arrays
from checkpoint_tax.reconcile.updates import Array, Update
from checkpoint_tax.reconcile.window import Capture, Window, reconcile, targets, torn_state

KINDS = ("independent", "drifting", "bowl")


@dataclass(frozen=True)
class Stream:
    """A synthetic training run: where the weights start and what the gradients are.

    Attributes
    ----------
    kind : str
        "independent": normal gradients that know nothing of the weights. "drifting": the same
        around a mean per element of half their spread, so that the weights travel. "bowl": pull
        towards a point plus noise of a tenth, so that the gradients answer the weights.
    lr : float
        Learning rate.
    weight_scale : float
        Standard deviation of the initial weights; with the learning rate it decides how far a
        step moves them relative to their size.
    gradient_scale : float
        Standard deviation of the gradients; Adam's update hardly depends on it.
    weight_decay : float
        Decoupled decay.
    betas : tuple of float
        Decay rates of the moments.
    warmup_steps : int
        Steps before the window opens [steps].
    n_shards : int
        Shards, one captured per step.
    shard_size : int
        Parameters of each shard.
    """

    kind: str = "independent"
    lr: float = 1e-3
    weight_scale: float = 0.02
    gradient_scale: float = 1.0
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.999)
    warmup_steps: int = 70
    n_shards: int = 16
    shard_size: int = 1024

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"kind = {self.kind!r} is not known; allowed: {', '.join(KINDS)}")
        for name in ("warmup_steps", "n_shards", "shard_size"):
            least = 0 if name == "warmup_steps" else 1
            if getattr(self, name) < least:
                raise InputError(
                    f"{name} = {getattr(self, name)} is too small; allowed: at least {least}"
                )

    @property
    def size(self) -> int:
        """Parameters of all shards."""
        return self.n_shards * self.shard_size

    @property
    def first_version(self) -> int:
        """Version at which the first shard is captured; one step is never undone [steps]."""
        return self.warmup_steps + 1

    @property
    def last_version(self) -> int:
        """Version at which the last shard is captured [steps]."""
        return self.warmup_steps + self.n_shards


# The streams, found by search, whose figures lie nearest to the post's printed ones.
TORN_STREAM = Stream(lr=2e-3, warmup_steps=100, n_shards=8)
TARGET_STREAM = Stream()


class _Source:
    """Gradients of a stream; the same seed gives the same noise at the same step."""

    def __init__(self, stream: Stream, seed: int) -> None:
        self.stream, self.seed = stream, seed
        rng = np.random.default_rng((seed, 0))
        self.start = (rng.standard_normal(stream.size) * stream.weight_scale).astype(np.float32)
        self.fixed = rng.standard_normal(stream.size).astype(np.float32)

    def update(self, state: AdamState) -> Update:
        stream, step = self.stream, int(state.t) + 1
        noise = np.random.default_rng((self.seed, step)).standard_normal(stream.size)
        noise = noise.astype(np.float32)
        if stream.kind == "drifting":
            noise = noise + np.float32(0.5) * self.fixed
        elif stream.kind == "bowl":
            pull = state.p / np.float32(stream.weight_scale) - self.fixed
            noise = pull + np.float32(0.1) * noise
        return Update(
            noise * np.float32(stream.gradient_scale),
            step,
            stream.lr,
            betas=stream.betas,
            weight_decay=stream.weight_decay,
        )

    def after(self, state: AdamState, steps: int) -> AdamState:
        last = state
        for _, later in islice(self.run(state), steps):
            last = later
        return last

    def run(self, state: AdamState) -> Iterator[tuple[Update, AdamState]]:
        optimizer = AdamWPost()
        while True:
            update = self.update(state)
            state = optimizer.forward(state, update)
            yield update, state


def _part(array: Array, stream: Stream, shard: int) -> Array:
    return array[shard * stream.shard_size : (shard + 1) * stream.shard_size]


def _joined(states: dict[object, AdamState]) -> AdamState:
    parts = [states[shard] for shard in range(len(states))]
    p, m, v = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return AdamState(p, m, v, int(max(part.t for part in parts)))


def relative_l2(found: AdamState, truth: AdamState) -> dict[str, float]:
    """Norm of the error over norm of the truth, as the post measures it.

    Parameters
    ----------
    found : AdamState
        A state.
    truth : AdamState
        What it should be.

    Returns
    -------
    dict of str to float
        For ``p``, ``m`` and ``v``; formed in double precision.
    """
    errors: dict[str, float] = {}
    others = state_arrays(truth)
    for name, value in state_arrays(found).items():
        true = others[name].astype(np.float64)
        errors[name] = float(np.linalg.norm(value.astype(np.float64) - true) / np.linalg.norm(true))
    return errors


def captured_window(
    stream: Stream, seed: int
) -> tuple[Window[AdamState], dict[int, AdamState], _Source]:
    """Run a stream and capture one shard after each step of the window.

    Parameters
    ----------
    stream : Stream
        The run.
    seed : int
        Of its weights and gradients.

    Returns
    -------
    window : Window
        Shard i captured at version ``first_version + i``, with every slice of the window.
    truth : dict of int to AdamState
        The whole state at each version of the window.
    source : object
        Gives the run's further gradients.
    """
    source = _Source(stream, seed)
    start = AdamWPost().init(source.start)
    truth: dict[int, AdamState] = {}
    shipped: dict[object, dict[int, Update]] = {shard: {} for shard in range(stream.n_shards)}
    for update, state in islice(source.run(start), stream.last_version):
        if state.t < stream.first_version:
            continue
        truth[state.t] = state
        for shard in range(stream.n_shards):
            part = _part(update.effective_gradient(state.p), stream, shard)
            shipped[shard][state.t] = replace(update, gradient=part)
    captures = []
    for shard in range(stream.n_shards):
        version = stream.first_version + shard
        p, m, v = (_part(array, stream, shard) for array in truth[version][:3])
        captures.append(Capture(shard, version, AdamState(p, m, v, version)))
    return Window(tuple(captures), shipped), truth, source


@dataclass(frozen=True)
class TornResult:
    """A torn state, its repair, and what resuming from each leads to.

    Attributes
    ----------
    stream : Stream
        The run.
    seed : int
        Its seed.
    torn_error : dict of str to float
        Relative L2 error per array of the captured shards side by side, against the snapshot at
        the newest version.
    torn_divergence : float
        Relative L2 distance of the weights from the uninterrupted run after resuming from them.
    repaired_error : dict of str to float
        As `torn_error`, after reconciliation to the newest version.
    repaired_divergence : float
        As `torn_divergence`, after reconciliation.
    repaired_bitwise : bool
        Whether all arrays of the reconciled state, and of the run resumed from it, equal the
        uninterrupted run's bit for bit.
    steps : int
        Steps run after resuming [steps].
    """

    stream: Stream
    seed: int
    torn_error: dict[str, float]
    torn_divergence: float
    repaired_error: dict[str, float]
    repaired_divergence: float
    repaired_bitwise: bool
    steps: int


def _same_bits(one: AdamState, other: AdamState) -> bool:
    pairs = zip(state_arrays(one).values(), state_arrays(other).values(), strict=True)
    return one.t == other.t and all(a.tobytes() == b.tobytes() for a, b in pairs)


def torn_and_repaired(
    stream: Stream = TORN_STREAM, *, seed: int = 0, steps: int = 60
) -> TornResult:
    """Resume from a torn state and from its repair, on the data of the uninterrupted run.

    Parameters
    ----------
    stream : Stream
        The run; one shard is captured per step.
    seed : int
        Of its weights and gradients.
    steps : int
        Steps to run after resuming [steps].

    Returns
    -------
    TornResult
        Errors at the newest version and distances after the further steps.

    Notes
    -----
    A careless load takes the step count of the newest shard for all of them, as one file does.
    """
    window, truth, source = captured_window(stream, seed)
    newest = truth[stream.last_version]
    torn = _joined(dict(torn_state(window)))._replace(t=newest.t)
    repaired = _joined(dict(reconcile(window, "newest", AdamWPost()).states))
    ends = [source.after(state, steps) for state in (newest, torn, repaired)]
    return TornResult(
        stream,
        seed,
        relative_l2(torn, newest),
        relative_l2(ends[1], ends[0])["p"],
        relative_l2(repaired, newest),
        relative_l2(ends[2], ends[0])["p"],
        _same_bits(repaired, newest) and _same_bits(ends[2], ends[0]),
        steps,
    )


def torn_range(
    *,
    kinds: Sequence[str] = KINDS,
    lrs: Sequence[float] = (1e-4, 3e-4, 1e-3, 3e-3),
    warmups_steps: Sequence[int] = (0, 20, 100),
    seed: int = 0,
    steps: int = 60,
    shard_size: int = 512,
) -> list[TornResult]:
    """Torn states over streams, learning rates and warm-ups.

    Parameters
    ----------
    kinds : sequence of str
        Kinds of stream.
    lrs : sequence of float
        Learning rates.
    warmups_steps : sequence of int
        Steps before the window opens [steps].
    seed : int
        The same for all, so that differences come from the parameters.
    steps : int
        Steps to run after resuming [steps].
    shard_size : int
        Parameters of each of the eight shards.

    Returns
    -------
    list of TornResult
        One per combination.
    """
    return [
        torn_and_repaired(
            Stream(kind=kind, lr=lr, warmup_steps=warm, n_shards=8, shard_size=shard_size),
            seed=seed,
            steps=steps,
        )
        for kind in kinds
        for lr in lrs
        for warm in warmups_steps
    ]


@dataclass(frozen=True)
class TargetResult:
    """One target of one window.

    Attributes
    ----------
    target : str
        "newest", "median", "older median" (the other middle version of an even window, as cheap
        but with one step more to undo) or "oldest".
    version : int
        Version reached [steps].
    traffic : float
        In units of the parameters' bytes.
    age_steps : int
        Steps behind the newest version [steps].
    error : dict of str to float
        Relative L2 error per array.
    promised_error : dict of str to float
        Largest promised error of any element, as a fraction of its scale.
    """

    target: str
    version: int
    traffic: float
    age_steps: int
    error: dict[str, float]
    promised_error: dict[str, float]


def target_errors(stream: Stream = TARGET_STREAM, *, seed: int = 0) -> list[TargetResult]:
    """Reconcile one window to each target and compare with the true state there.

    Parameters
    ----------
    stream : Stream
        The run.
    seed : int
        Of its weights and gradients.

    Returns
    -------
    list of TargetResult
        Newest, median, older median, oldest.
    """
    window, truth, _ = captured_window(stream, seed)
    named = targets(window.versions)
    older = max(named.median - 1, named.oldest) if stream.n_shards % 2 == 0 else named.median
    wanted = {
        "newest": named.newest,
        "median": named.median,
        "older median": older,
        "oldest": named.oldest,
    }
    results = []
    for name, version in wanted.items():
        found = reconcile(window, version, AdamWPost())
        results.append(
            TargetResult(
                name,
                version,
                found.traffic,
                named.newest - version,
                relative_l2(_joined(dict(found.states)), truth[version]),
                found.promised_error,
            )
        )
    return results


@dataclass(frozen=True)
class SpikeResult:
    """One step back through a gradient spike.

    Attributes
    ----------
    spike : float
        Factor on the gradient of the step.
    share : float
        ``(1-b2) sum g^2 / sum v`` over the shard, v after the step.
    error : dict of str to float
        Relative L2 error per array after one step back.
    error_quantiles : dict of str to tuple
        2.5, 50 and 97.5 % quantiles over the elements of the error of each, relative to itself.
    plain_bound : float
        ``u / (1 - share)``, the gate's plain form.
    promised_error : dict of str to float
        Largest promised error of any element, as a fraction of its scale; infinite where the
        step back is refused outright.
    gated_fraction : float
        Share of elements whose own rho is above 0.9, the post's threshold.
    lost_fraction : float
        Share of elements whose second moment cancels to nothing or less.
    """

    spike: float
    share: float
    error: dict[str, float]
    error_quantiles: dict[str, tuple[float, float, float]]
    plain_bound: float
    promised_error: dict[str, float]
    gated_fraction: float
    lost_fraction: float


def _element_quantiles(found: Array, true: Array) -> tuple[float, float, float]:
    wide = true.astype(np.float64)
    error = np.abs(found.astype(np.float64) - wide) / np.abs(wide)
    low, middle, high = np.quantile(error, [0.025, 0.5, 0.975])
    return float(low), float(middle), float(high)


def spike_errors(
    spikes: Sequence[float] = (1.0, 10.0, 100.0, 1000.0),
    *,
    stream: Stream | None = None,
    seed: int = 0,
) -> list[SpikeResult]:
    """Undo one step whose gradient was enlarged, and see what each array loses.

    Parameters
    ----------
    spikes : sequence of float
        Factors on the gradient of the undone step.
    stream : Stream, optional
        The run before it; by default one shard of 1024 parameters after 49 steps, at which the
        post's shares of 2.0e-2 and 6.8e-1 are met.
    seed : int
        Of its weights and gradients; each spike draws its own gradient.

    Returns
    -------
    list of SpikeResult
        One per factor.
    """
    stream = Stream(warmup_steps=48, n_shards=1) if stream is None else stream
    source = _Source(stream, seed)
    optimizer = AdamWPost()
    state = source.after(optimizer.init(source.start), stream.first_version)
    results = []
    for row, spike in enumerate(spikes):
        noise = np.random.default_rng((seed, 1, row)).standard_normal(stream.size)
        gradient = (noise * stream.gradient_scale * spike).astype(np.float32)
        update = Update(
            gradient,
            int(state.t) + 1,
            stream.lr,
            betas=stream.betas,
            weight_decay=stream.weight_decay,
        )
        after = optimizer.forward(state, update)
        back = optimizer.back(after, update, gradient)
        (checked,) = rollbacks(after, [update], optimizer)
        square = (1 - stream.betas[1]) * np.square(gradient.astype(np.float64))
        share = float(square.sum() / after.v.astype(np.float64).sum())
        shares: NDArray[np.float64] = step_share(gradient, after.v, stream.betas[1])
        true = state_arrays(state)
        results.append(
            SpikeResult(
                float(spike),
                share,
                relative_l2(back, state),
                {n: _element_quantiles(a, true[n]) for n, a in state_arrays(back).items()},
                float(tolerance_of_share(share)),
                checked.worst,
                float(np.mean(shares > 0.9)),
                float(np.mean(back.v <= 0)),
            )
        )
    return results

"""A small transformer in training, torn and repaired: the numbers of a real capture window.

The model, the data and every random draw follow from the seed and the iteration alone, so that a
resumed run meets what the uninterrupted one met, and any difference comes from the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from checkpoint_tax.errors import InputError
from checkpoint_tax.reconcile.optimizers import AdamState
from checkpoint_tax.reconcile.torch_probe import IMPLEMENTATIONS, Implementation
from checkpoint_tax.reconcile.torch_recorder import (
    Recorder,
    Shard,
    Slice,
    SliceUpdate,
    cut_into_shards,
    write_states,
)
from checkpoint_tax.reconcile.window import Window, reconcile, torn_state

if TYPE_CHECKING:
    import torch

__all__ = ["RecordedWindow", "Resumed", "Training", "record_window"]

_VOCABULARY = 64
_CONTEXT = 24
_BATCH = 8


@dataclass(frozen=True)
class Training:
    """A training run whose every number follows from these.

    Attributes
    ----------
    implementation : {"single", "foreach", "fused"}
        Which of PyTorch's AdamW steps it.
    width, n_layers : int
        Size of the transformer.
    lr : float
        Learning rate after the warm-up, before the cosine that follows it.
    warmup_steps, total_steps : int
        Iterations of the schedule.
    clip_norm : float
        Gradients are clipped to this total norm.
    weight_decay : float
        Of matrices; vectors are in a group without it, and with half the learning rate.
    betas : tuple of float
        Decay rates of the moments.
    skipped : tuple of int
        Iterations whose gradients overflow, so that the loss scaler skips the step.
    ship_unclipped : bool
        Whether gradients are shipped before clipping, with the coefficient.
    seed : int
        Of the weights, the data and the dropout.
    """

    implementation: Implementation = "foreach"
    width: int = 48
    n_layers: int = 2
    lr: float = 3e-3
    warmup_steps: int = 20
    total_steps: int = 200
    clip_norm: float = 0.5
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    skipped: tuple[int, ...] = ()
    ship_unclipped: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.implementation not in IMPLEMENTATIONS:
            raise InputError(
                f"implementation = {self.implementation!r}; allowed: {', '.join(IMPLEMENTATIONS)}"
            )

    def lr_factor(self, iteration: int) -> float:
        """Share of the full learning rate in an iteration.

        Parameters
        ----------
        iteration : int
            Counted from 0.

        Returns
        -------
        float
            In (0, 1].
        """
        if iteration < self.warmup_steps:
            return (iteration + 1) / self.warmup_steps
        done = (iteration - self.warmup_steps) / max(self.total_steps - self.warmup_steps, 1)
        return float(0.55 + 0.45 * np.cos(np.pi * min(done, 1.0)))


@dataclass
class _Run:
    """A model with its optimizer, its loss scaler and the number of iterations done."""

    training: Training
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    version: int = 0
    recorder: Recorder | None = None
    losses: list[float] = field(default_factory=list)

    def iterate(self) -> None:
        import torch

        training, iteration = self.training, self.version
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * training.lr_factor(iteration)
        torch.manual_seed(training.seed * 1_000_003 + iteration)
        tokens = _batch(iteration, training.seed)
        self.optimizer.zero_grad()
        logits = self.model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, _VOCABULARY), tokens[:, 1:].reshape(-1)
        )
        self.scaler.scale(loss).backward()
        if iteration in training.skipped:
            next(p for p in self.model.parameters() if p.grad is not None).grad.view(-1)[0] = (
                torch.inf
            )
        self.scaler.unscale_(self.optimizer)
        if training.ship_unclipped and self.recorder is not None:
            self.recorder.clip(training.clip_norm)
        else:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), training.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.version += 1
        if self.recorder is not None:
            self.recorder.iteration()
        self.losses.append(loss.item())


def _batch(iteration: int, seed: int) -> torch.Tensor:
    """Draw sequences that a small model can learn: most tokens follow from the one before."""
    import torch

    follower = np.random.default_rng(seed).permutation(_VOCABULARY)
    rng = np.random.default_rng((seed, iteration))
    tokens = rng.integers(0, _VOCABULARY, (_BATCH, _CONTEXT + 1))
    for place in range(1, _CONTEXT + 1):
        known = follower[tokens[:, place - 1]]
        tokens[:, place] = np.where(rng.random(_BATCH) < 0.9, known, tokens[:, place])
    return torch.from_numpy(tokens)


def _start(training: Training) -> _Run:
    import torch

    torch.manual_seed(training.seed)
    width = training.width

    class Transformer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = torch.nn.Embedding(_VOCABULARY, width)
            self.place = torch.nn.Parameter(0.02 * torch.randn(_CONTEXT, width))
            self.blocks = torch.nn.ModuleList(
                torch.nn.TransformerEncoderLayer(
                    width, 4, 4 * width + 3, dropout=0.1, batch_first=True, norm_first=True
                )
                for _ in range(training.n_layers)
            )
            self.head = torch.nn.Linear(width, _VOCABULARY)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            hidden = self.token(tokens) + self.place
            mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
            for block in self.blocks:
                hidden = block(hidden, src_mask=mask, is_causal=True)
            return self.head(hidden)

    model = Transformer()
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": training.weight_decay, "lr": training.lr},
            {"params": vectors, "weight_decay": 0.0, "lr": training.lr / 2},
        ],
        betas=training.betas,
        foreach=training.implementation == "foreach",
        fused=True if training.implementation == "fused" else None,
    )
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=10**6)
    return _Run(training, model, optimizer, scaler)


def _resumed(run: _Run, states: Mapping[Any, AdamState], version: int) -> _Run:
    """Start a process anew and load a state into it."""
    again = _start(run.training)
    write_states(states, again.model, again.optimizer)
    # A power of two, so the scale of another iteration changes no bit.
    again.scaler.load_state_dict(run.scaler.state_dict())
    again.version = version
    return again


@dataclass(frozen=True)
class Resumed:
    """What became of a run that was resumed from one state.

    Attributes
    ----------
    name : str
        "torn", or the target: "newest", "median", "oldest" or a version.
    version : int
        Iterations done in the state; the run repeats those after it.
    traffic : float
        Gradient slices shipped, in units of the parameters; 0 for the torn state.
    start_error : dict of str to float
        Distance from the synchronous state of that version, for ``p``, ``m`` and ``v``, in the
        2-norm and relative to it.
    promised_error : dict of str to float
        Largest error that the reconciliation promises for any element; 0 where replayed forwards.
    same_at_start, same_at_end : bool
        Whether every bit of weights, moments and counters is that of the uninterrupted run.
    losses : tuple of float
        Loss of each iteration after the window, as the resumed run computes it.
    largest_loss_difference, mean_loss_difference : float
        Absolute difference from the uninterrupted run over the iterations after the window.
    end_error : float
        Distance of the weights at the end from the uninterrupted run, relative, in the 2-norm.
    """

    name: str
    version: int
    traffic: float
    start_error: dict[str, float]
    promised_error: dict[str, float]
    same_at_start: bool
    same_at_end: bool
    losses: tuple[float, ...]
    largest_loss_difference: float
    mean_loss_difference: float
    end_error: float


@dataclass(frozen=True)
class RecordedWindow:
    """A window of a real training run, and every way out of it.

    Attributes
    ----------
    training : Training
        The run.
    shards : tuple of Shard
        What was copied when.
    n_parameters : int
        Elements of all shards.
    explanation : str
        How the steps were replayed on this machine.
    correction_bits : float
        Bits of corrections per element and step; 0 where none were kept. Slices of a few elements
        pay for a header each, so a small model needs more than a large one.
    losses : tuple of float
        The uninterrupted run, from the end of the window on.
    resumed : dict of str to Resumed
        By name.
    """

    training: Training
    shards: tuple[Shard, ...]
    n_parameters: int
    explanation: str
    correction_bits: float
    losses: tuple[float, ...]
    resumed: dict[str, Resumed]


def record_window(
    training: Training,
    versions: Sequence[int],
    *,
    shares: Sequence[float] | None = None,
    targets: Sequence[str | int] = ("newest", "median", "oldest"),
    follow_steps: int = 60,
    corrected: bool = False,
    threads: int | None = 1,
    watch: Callable[[Recorder], None] | None = None,
) -> RecordedWindow:
    """Train, tear a capture window out of the run, repair it, and resume from everything.

    Parameters
    ----------
    training : Training
        The run.
    versions : sequence of int
        Iteration after which each shard is copied [iterations]; any order, gaps allowed.
    shares : sequence of float, optional
        Relative sizes of the shards; equal if left out.
    targets : sequence of str or int
        Targets to reconcile to.
    follow_steps : int
        Iterations after the end of the window to follow each run for.
    corrected : bool
        Whether each update carries what its step forgot, so that a rollback is exact.
    threads : int or None
        Threads of PyTorch while this runs; None leaves them as they are.
    watch : callable, optional
        Called with the recorder when the window is complete.

    Returns
    -------
    RecordedWindow
        The uninterrupted run and one `Resumed` per target, and "torn".

    Raises
    ------
    InputError
        If there are no shards, or numbers that do not fit them.
    ReconcileError
        If a target is refused.
    """
    import torch

    weights = [1.0] * len(versions) if shares is None else [float(share) for share in shares]
    if not versions or len(weights) != len(versions) or not all(w > 0 for w in weights):
        raise InputError(
            f"shares = {weights} for {len(versions)} shards; allowed: one above 0 for each shard"
        )
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        return _record(training, versions, weights, targets, follow_steps, corrected, watch)
    finally:
        torch.set_num_threads(before)


def _record(
    training: Training,
    versions: Sequence[int],
    weights: Sequence[float],
    targets: Sequence[str | int],
    follow_steps: int,
    corrected: bool,
    watch: Callable[[Recorder], None] | None,
) -> RecordedWindow:
    run = _start(training)
    n_parameters = sum(p.numel() for p in run.model.parameters())
    ends = np.cumsum(weights)[:-1] / sum(weights) * n_parameters
    shards = cut_into_shards(
        run.model.named_parameters(), [int(end) for end in ends], list(versions)
    )
    first, last = min(versions), max(versions)
    while run.version < first:
        run.iterate()
    recorder = Recorder(run.model, run.optimizer, shards, run.version, corrected=corrected)
    run.recorder = recorder
    synchronous = {first: recorder.snapshot()}
    while run.version < last:
        run.iterate()
        synchronous[run.version] = recorder.snapshot()
    recorder.close()
    window = recorder.window()
    if watch is not None:
        watch(recorder)
    run.recorder = None
    run.losses.clear()
    ways = [("torn", last, torn_state(window), 0.0, dict.fromkeys("pmv", 0.0))]
    for target in targets:
        found = reconcile(window, target, recorder.optimizer)
        ways.append((str(target), found.target, found.states, found.traffic, found.promised_error))
    starts = [
        (name, _resumed(run, states, version), states, version, traffic, promised)
        for name, version, states, traffic, promised in ways
    ]
    while run.version < last + follow_steps:
        run.iterate()
    end = _snapshot(run, shards)
    resumed = {}
    for name, again, states, version, traffic, promised in starts:
        while again.version < last + follow_steps:
            again.iterate()
        losses = again.losses[last - version :]
        differences = np.abs(np.subtract(losses, run.losses))
        finish = _snapshot(again, shards)
        resumed[name] = Resumed(
            name,
            version,
            traffic,
            relative_distance(states, synchronous[version]),
            promised,
            same_states(states, synchronous[version]),
            same_states(finish, end) and losses == run.losses,
            tuple(losses),
            float(differences.max()),
            float(differences.mean()),
            relative_distance(finish, end)["p"],
        )
    return RecordedWindow(
        training,
        shards,
        n_parameters,
        recorder.optimizer.replayer.explanation,
        _correction_bits(window),
        tuple(run.losses),
        resumed,
    )


def _correction_bits(window: Window[AdamState]) -> float:
    kept = [
        update.corrections
        for shipped in window.updates.values()
        for update in shipped.values()
        if isinstance(update, SliceUpdate) and update.corrections is not None
    ]
    n_elements = sum(record.size for record in kept)
    return 8 * sum(record.nbytes for record in kept) / n_elements if n_elements else 0.0


def _snapshot(run: _Run, shards: Sequence[Shard]) -> dict[Slice, AdamState]:
    later = [Shard(shard.slices, run.version) for shard in shards]
    recorder = Recorder(run.model, run.optimizer, later, run.version)
    recorder.close()
    return recorder.snapshot()


def same_states(one: Mapping[Any, AdamState], other: Mapping[Any, AdamState]) -> bool:
    """Return whether two sets of states agree in every bit and every counter.

    Parameters
    ----------
    one, other : mapping
        States per `Slice`.

    Returns
    -------
    bool
        False also where a slice is missing.
    """
    return one.keys() == other.keys() and all(
        state.t == other[part].t
        and all(a.tobytes() == b.tobytes() for a, b in zip(state[:3], other[part][:3], strict=True))
        for part, state in one.items()
    )


def relative_distance(
    one: Mapping[Any, AdamState], other: Mapping[Any, AdamState]
) -> dict[str, float]:
    """Return how far one set of states is from another.

    Parameters
    ----------
    one, other : mapping
        States per `Slice`; the other one is the measure.

    Returns
    -------
    dict of str to float
        For ``p``, ``m`` and ``v``: 2-norm of the difference over all slices, relative.
    """
    distances = {}
    for at, name in enumerate("pmv"):
        a = np.concatenate([np.asarray(one[part][at], np.float64).ravel() for part in other])
        b = np.concatenate([np.asarray(other[part][at], np.float64).ravel() for part in other])
        distances[name] = float(np.linalg.norm(a - b) / np.linalg.norm(b))
    return distances

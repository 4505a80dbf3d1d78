"""Recorder of a capture window in a real PyTorch training: captures, and the updates between them.

A drain copies the shards of a training state one after another while training goes on, so each
is caught at another version. The recorder does that copying on the CPU, keeps for every step
what a replay needs (the gradient as the optimizer used it and every number that the step used),
and hands both over as a `Window`, which `reconcile` brings to one version.

Gradients and numbers are taken in a hook that runs right after the optimizer's step, since a
schedule may change them before anyone else looks. Where gradients leave before clipping, as they
do when they are shipped during the backward pass, `Recorder.clip` keeps the coefficient that
clipping multiplied them by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from checkpoint_tax.reconcile.corrections import Corrections, record, roll_back
from checkpoint_tax.reconcile.errors import BadUpdate, BadWindow
from checkpoint_tax.reconcile.optimizers import AdamState, AdamWTorch
from checkpoint_tax.reconcile.replay import WHOLE, Placement
from checkpoint_tax.reconcile.torch_probe import Implementation, Replayer, replayer
from checkpoint_tax.reconcile.updates import Array, Update, whole
from checkpoint_tax.reconcile.window import Capture, ShardName, Window

if TYPE_CHECKING:
    import torch

__all__ = [
    "CorrectedAdamW",
    "RecordedAdamW",
    "Recorder",
    "Shard",
    "Slice",
    "SliceUpdate",
    "cut_into_shards",
    "write_states",
]


@dataclass(frozen=True)
class Slice:
    """A stretch of one parameter's elements, in the order in which they lie in memory.

    Attributes
    ----------
    parameter : str
        Name of the parameter.
    start, stop : int
        First element and the one after the last.
    numel : int
        Elements of the whole parameter.
    """

    parameter: str
    start: int
    stop: int
    numel: int

    @property
    def placement(self) -> Placement:
        """Where the stretch lies, for a replay whose bits depend on it."""
        return Placement(self.start, self.numel)


@dataclass(frozen=True)
class Shard:
    """What one drain copies at once: stretches of several parameters.

    Attributes
    ----------
    slices : tuple of Slice
        Its stretches.
    version : int
        Iteration after which it is copied [iterations].
    """

    slices: tuple[Slice, ...]
    version: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return sum(part.stop - part.start for part in self.slices)


@dataclass(frozen=True, eq=False)
class SliceUpdate(Update):
    """One step of one slice, and where in its tensor the slice lies.

    Attributes
    ----------
    placement : Placement
        Position of the slice; the fused optimizer steps a tensor's end in another order.
    corrections : Corrections or None
        What the step forgot, if the recorder keeps it.
    """

    placement: Placement = WHOLE
    corrections: Corrections | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedAdamW(AdamWTorch):
    """AdamW of the installed PyTorch: forwards bit for bit, backwards as `AdamWTorch`.

    Attributes
    ----------
    name : str
        Name for people.
    replayer : Replayer
        How this machine replays the implementation that trained.
    """

    name: ClassVar[str] = "AdamW, as the installed PyTorch steps it"

    replayer: Replayer

    def replay(self, state: AdamState, updates: Sequence[Update]) -> AdamState:
        """State after several updates.

        Parameters
        ----------
        state : AdamState
            State of a slice before the first of them.
        updates : sequence of Update
            In the order in which they were made; as `Recorder` ships them.

        Returns
        -------
        AdamState
            State after the last, with the bits that PyTorch gave.
        """
        places = {u.placement for u in updates if isinstance(u, SliceUpdate)}
        if not updates:
            return state
        if len(places) > 1:
            raise BadUpdate("updates of several slices are mixed; allowed: those of one slice")
        return self.replayer(state, updates, placement=places.pop() if places else WHOLE)


@dataclass(frozen=True, kw_only=True)
class CorrectedAdamW(RecordedAdamW):
    """The same, backwards bit for bit too: each update carries what its step forgot.

    Attributes
    ----------
    name : str
        Name for people.
    exact_inverse : bool
        True: no gate is needed, and no error is promised but zero.
    """

    name: ClassVar[str] = "AdamW, as the installed PyTorch steps it, with corrections"
    exact_inverse: ClassVar[bool] = True

    def back(self, state: AdamState, update: Update, gradient: Array) -> AdamState:
        """State before a step, from its recorded corrections.

        Parameters
        ----------
        state : AdamState
            State of a slice after the step.
        update : Update
            As a `Recorder` that keeps corrections ships it.
        gradient : ndarray
            Not used: the update holds it.

        Returns
        -------
        AdamState
            State before the step, bit for bit.

        Raises
        ------
        MissingUpdate
            If the update carries no corrections.
        """
        del gradient
        kept = update.corrections if isinstance(update, SliceUpdate) else None
        return roll_back(state, [update], {} if kept is None else {update.step: kept})


def cut_into_shards(
    parameters: Iterable[tuple[str, torch.Tensor]],
    boundaries: Sequence[int],
    versions: Sequence[int],
) -> tuple[Shard, ...]:
    """Cut the parameters, laid end to end, into shards.

    Parameters
    ----------
    parameters : iterable of (str, Tensor)
        Such as ``model.named_parameters()``.
    boundaries : sequence of int
        Where one shard ends and the next begins [elements]; increasing, inside the whole.
        They may fall anywhere, also inside a parameter.
    versions : sequence of int
        Iteration after which each shard is copied; one more than boundaries.

    Returns
    -------
    tuple of Shard
        In the order of the elements.

    Raises
    ------
    BadWindow
        If the boundaries do not increase inside the whole, or the versions do not fit them.
    """
    spans: list[tuple[str, int, int]] = []
    total = 0
    for name, tensor in parameters:
        spans.append((name, total, tensor.numel()))
        total += tensor.numel()
    edges = [0, *(whole("boundary", b, at_least=0, unit="elements") for b in boundaries), total]
    if any(low >= high for low, high in pairwise(edges)):
        raise BadWindow(f"boundaries = {list(boundaries)}; allowed: increasing, in (0, {total})")
    if len(versions) != len(edges) - 1:
        raise BadWindow(
            f"{len(versions)} versions for {len(edges) - 1} shards; allowed: one for each shard"
        )
    shards = []
    for (low, high), version in zip(pairwise(edges), versions, strict=True):
        parts = [
            Slice(name, max(low - first, 0), min(high - first, numel), numel)
            for name, first, numel in spans
            if first < high and first + numel > low
        ]
        count = whole("version", version, at_least=0, unit="iterations")
        shards.append(Shard(tuple(parts), count))
    return tuple(shards)


class Recorder:
    """Records a capture window beside a training loop.

    Call `iteration` once at the end of every iteration, whether or not the optimizer stepped.

    Parameters
    ----------
    model : torch.nn.Module
        Its parameters give the slices their names.
    optimizer : torch.optim.AdamW
        Steps those parameters; any number of groups. `amsgrad` is refused, since its state
        holds a maximum that has no inverse, and so are options that change the formula.
    shards : sequence of Shard
        What is copied when.
    version : int
        Iterations done so far.
    corrected : bool
        Whether to keep what each step forgets, so that it can be undone bit for bit. It costs a
        copy of the slices in each iteration, which the drain of a real job has on its side anyway.

    Raises
    ------
    BadWindow
        If the optimizer is another one, or a shard's version is in the past.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        shards: Sequence[Shard],
        version: int = 0,
        *,
        corrected: bool = False,
    ) -> None:
        self.version = whole("version", version, at_least=0, unit="iterations")
        self._parameters = dict(model.named_parameters())
        self._names = {id(tensor): name for name, tensor in self._parameters.items()}
        self._optimizer = optimizer
        self._groups = _groups_by_parameter(optimizer, self._names)
        self.implementation = _implementation(optimizer)
        self.shards = tuple(shards)
        self._slices = [part for shard in self.shards for part in shard.slices]
        past = [shard.version for shard in self.shards if shard.version < self.version]
        if past:
            raise BadWindow(
                f"version = {past[0]} of a shard is past; allowed: at least {self.version}"
                " (iterations)"
            )
        missing = [part.parameter for part in self._slices if part.parameter not in self._groups]
        if missing:
            raise BadWindow(
                f"parameter {missing[0]!r} is in no group of the optimizer; allowed: those that"
                " it steps"
            )
        self._captures: list[Capture[AdamState]] = []
        self._updates: dict[ShardName, dict[int, Update]] = {part: {} for part in self._slices}
        self._steps = {name: _step_count(optimizer, p) for name, p in self._parameters.items()}
        self._stepped: dict[str, Update] = {}
        self._clipped: dict[str, Array] = {}
        self._coefficient = 1.0
        self._corrected = corrected
        self._before = self.snapshot() if corrected else {}
        self._hook = optimizer.register_step_post_hook(self._after_step)
        self._capture_due()

    def close(self) -> None:
        """Let go of the optimizer."""
        self._hook.remove()

    def clip(self, max_norm: float) -> torch.Tensor:
        """Clip the gradients by their total norm, and ship them as they were before.

        Parameters
        ----------
        max_norm : float
            Largest total norm, above 0.

        Returns
        -------
        Tensor
            The total norm before clipping.
        """
        import torch

        if not max_norm > 0:
            raise BadUpdate(f"max_norm = {max_norm:g}; allowed: above 0")
        self._clipped = {
            name: _flat(p.grad) for name, p in self._parameters.items() if p.grad is not None
        }
        norm = torch.nn.utils.clip_grad_norm_(self._parameters.values(), max_norm)
        # The library's own expression, in the gradients' type: the coefficient must be its bits.
        self._coefficient = float(torch.clamp(max_norm / (norm + 1e-6), max=1.0))
        return norm

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for name, parameter in self._parameters.items():
            if name not in self._groups or parameter.grad is None:
                continue
            count = _step_count(optimizer, parameter)
            # A fused step under loss scaling is called all the same and skips inside.
            if count == self._steps[name]:
                continue
            group = self._groups[name]
            unclipped = self._clipped.get(name)
            self._stepped[name] = Update(
                _flat(parameter.grad) if unclipped is None else unclipped,
                count,
                float(group["lr"]),
                (float(group["betas"][0]), float(group["betas"][1])),
                float(group["eps"]),
                float(group["weight_decay"]),
                1.0 if unclipped is None else self._coefficient,
                bool(group["maximize"]),
            )

    def iteration(self) -> None:
        """Close an iteration: ship its updates, and copy the shards that are due."""
        self.version += 1
        shipped_now: dict[Slice, SliceUpdate] = {}
        for part in self._slices:
            update = self._stepped.get(part.parameter)
            if update is None:
                shipped = SliceUpdate(
                    None, self._steps[part.parameter], 0.0, skipped=True, placement=part.placement
                )
            else:
                gradient = update.gradient
                cut = None if gradient is None else gradient[part.start : part.stop]
                shipped = SliceUpdate(**{**vars(update), "gradient": cut}, placement=part.placement)
            shipped_now[part] = shipped
        self._steps.update({name: update.step for name, update in self._stepped.items()})
        self._stepped, self._clipped, self._coefficient = {}, {}, 1.0
        after = self.snapshot() if self._corrected else {}
        for part, shipped in shipped_now.items():
            if self._corrected and not shipped.skipped:
                forgotten = record(self._before[part], after[part], shipped, threads=1)
                shipped = replace(shipped, corrections=forgotten)
            self._updates[part][self.version] = shipped
        self._before = after
        self._capture_due()

    def _capture_due(self) -> None:
        for shard in self.shards:
            if shard.version == self.version:
                self._captures += [
                    Capture(part, self.version, self._state(part)) for part in shard.slices
                ]

    def _state(self, part: Slice) -> AdamState:
        parameter = self._parameters[part.parameter]
        kept = self._optimizer.state.get(parameter, {})
        arrays = (parameter, kept.get("exp_avg"), kept.get("exp_avg_sq"))
        p, m, v = (
            np.zeros(part.stop - part.start, np.float32)
            if tensor is None
            else _flat(tensor, part.start, part.stop)
            for tensor in arrays
        )
        return AdamState(p, m, v, self._steps[part.parameter])

    def snapshot(self) -> dict[Slice, AdamState]:
        """Copy every slice now, at one version: what a blocking save would hold.

        Returns
        -------
        dict
            State per slice.
        """
        return {part: self._state(part) for part in self._slices}

    def window(self) -> Window[AdamState]:
        """Hand over what was captured and shipped so far.

        Returns
        -------
        Window
            One capture per slice; a median weighs them by their elements.

        Raises
        ------
        BadWindow
            If a shard was not copied yet.
        """
        if len(self._captures) != len(self._slices):
            late = max(shard.version for shard in self.shards)
            raise BadWindow(
                f"version = {self.version}: shards are still to be copied; allowed: {late} or later"
                " (iterations)"
            )
        return Window(tuple(self._captures), self._updates)

    @cached_property
    def optimizer(self) -> RecordedAdamW:
        """The optimizer to reconcile with, found by probing the installed library."""
        kind = CorrectedAdamW if self._corrected else RecordedAdamW
        return kind(replayer=replayer(self.implementation))


def _flat(tensor: torch.Tensor, start: int = 0, stop: int | None = None) -> Array:
    """Copy a stretch of a tensor, in the order of its memory."""
    flat = tensor.detach().reshape(-1)[start:stop]
    return flat.cpu().numpy().copy()


def _groups_by_parameter(
    optimizer: torch.optim.Optimizer, names: Mapping[int, str]
) -> dict[str, dict[str, Any]]:
    import torch

    if not isinstance(optimizer, torch.optim.AdamW):
        raise BadWindow(
            f"optimizer is {type(optimizer).__name__}; allowed: torch.optim.AdamW, whose order of"
            " operations is known"
        )
    groups: dict[str, dict[str, Any]] = {}
    for group in optimizer.param_groups:
        refused = [name for name in ("amsgrad", "capturable", "differentiable") if group[name]]
        if refused:
            raise BadWindow(f"{refused[0]} = True in a group; allowed: False")
        for parameter in group["params"]:
            if parameter.dtype != torch.float32 or not parameter.is_contiguous():
                raise BadWindow("a parameter is no contiguous float32; allowed: contiguous float32")
            groups[names[id(parameter)]] = group
    return groups


def _implementation(optimizer: torch.optim.Optimizer) -> Implementation:
    kinds: set[Implementation] = {
        "fused" if group["fused"] else "foreach" if group["foreach"] else "single"
        for group in optimizer.param_groups
    }
    if len(kinds) != 1:
        raise BadWindow(f"groups are stepped in several ways: {sorted(kinds)}; allowed: one way")
    return kinds.pop()


def _step_count(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> int:
    step = optimizer.state[parameter].get("step") if parameter in optimizer.state else None
    return 0 if step is None else int(step)


def write_states(
    states: Mapping[Any, AdamState], model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Write reconciled or torn states into a model and its optimizer.

    Parameters
    ----------
    states : mapping
        State per `Slice`; together the slices cover every parameter.
    model : torch.nn.Module
        Its parameters are overwritten.
    optimizer : torch.optim.Optimizer
        Its moments and counters are overwritten. A parameter has one counter, so of slices at
        different counts the last one's stays, as it would in a careless load.
    """
    import torch

    parameters = dict(model.named_parameters())
    filled = dict.fromkeys(parameters, 0)
    with torch.no_grad():
        for part, state in states.items():
            parameter = parameters[part.parameter]
            kept = optimizer.state[parameter]
            for name in ("exp_avg", "exp_avg_sq"):
                if name not in kept:
                    kept[name] = torch.zeros_like(parameter)
            targets = (parameter, kept["exp_avg"], kept["exp_avg_sq"])
            for target, source in zip(targets, state[:3], strict=True):
                target.view(-1)[part.start : part.stop] = torch.from_numpy(source)
            kept["step"] = torch.tensor(float(state.t))
            filled[part.parameter] += part.stop - part.start
    holes = [name for name, p in parameters.items() if filled[name] != p.numel()]
    if holes:
        raise BadWindow(f"states do not cover {holes[0]!r}; allowed: every element, each once")

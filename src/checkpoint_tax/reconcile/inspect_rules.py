"""What a training state gives away about itself: one rule for each kind of finding.

A rule says only what the files prove. Where a harmless reason exists too (a frozen parameter, a
counter that starts later), the sentence names it.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkpoint_tax.reconcile.inspect_entries import (
    PAIR,
    SECOND_MOMENTS,
    Entry,
    Group,
    TrainingState,
)
from checkpoint_tax.reconcile.inspect_files import REAL_DTYPES, Leaf, Piece, StoredTensor

#: Where a counter of each element type stops: adding one is rounded away from here on.
STANDS_STILL_AT = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}

# The bound of |m| by v is exact arithmetic; float32 rounds a step's m and v by 2^-23 or so, and
# where v nears the smallest normal number its rounding is no longer relative.
_BOUND_SLACK = 1e-3
_SMALLEST_JUDGED_MOMENT = 1e-15
_EXAMPLES = 3


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a state, or does not fit.

    Attributes
    ----------
    kind : str
        Short name of the rule, such as "steps-differ".
    sentence : str
        What was found, with numbers.
    parameters : tuple of str
        The parameters concerned, all of them.
    """

    kind: str
    sentence: str
    parameters: tuple[str, ...] = ()


def examples(names: Sequence[str]) -> str:
    """Return up to three names for a sentence, and how many more there are.

    Parameters
    ----------
    names : sequence of str
        All of them.

    Returns
    -------
    str
        Joined by commas.
    """
    shown = ", ".join(names[:_EXAMPLES])
    more = len(names) - _EXAMPLES
    return f"{shown} and {more} more" if more > 0 else shown


def _names(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(entry.name for entry in entries)


def _value(leaf: Leaf) -> float | int | None:
    value = leaf.scalar() if isinstance(leaf, StoredTensor) else leaf
    return None if isinstance(value, (bool, str)) else value


def step_counts(state: TrainingState) -> dict[str, float]:
    """Return each parameter's step counter; of its group where it has none of its own.

    Parameters
    ----------
    state : TrainingState
        The state.

    Returns
    -------
    dict
        From the parameter's name to its count [steps].
    """
    counts = {}
    for entry in state.entries.values():
        group = state.group_of(entry)
        value = _value(entry.step)
        if value is None and group is not None:
            value = _value(group.settings.get("step"))
        if value is not None:
            counts[entry.name] = value
    return counts


def judge_counters(state: TrainingState, folder_step: int | None) -> Iterator[Finding]:
    """Judge the step counters of one state.

    Parameters
    ----------
    state : TrainingState
        The state.
    folder_step : int or None
        The step that the folder's name or the user gives [steps]; None if nothing does.

    Yields
    ------
    Finding
        "steps-differ", "half-precision-step", "step-stands-still", "step-missing",
        "step-not-whole" or "step-against-folder".
    """
    counts = step_counts(state)
    by_count: dict[float, list[str]] = defaultdict(list)
    for name, count in counts.items():
        by_count[count].append(name)
    broken = [name for name, count in counts.items() if not (count >= 0 and count == count // 1)]
    if broken:
        yield Finding(
            "step-not-whole",
            f"{len(broken)} step counters hold no whole number of steps >= 0: "
            + examples([f"{name} = {counts[name]:g}" for name in broken]),
            tuple(broken),
        )
    if len(by_count) > 1 and not broken:
        common = max(by_count, key=lambda count: len(by_count[count]))
        others = sorted(c for c in by_count if c != common)
        odd = [name for count in others for name in by_count[count]]
        yield Finding(
            "steps-differ",
            f"step counters differ between parameters: {len(by_count[common])} at {common:g}, "
            + ", ".join(f"{len(by_count[c])} at {c:g}" for c in others[:5])
            + (f" and {len(others) - 5} more values" if len(others) > 5 else "")
            + f" ({examples(odd)}): parts of different steps, unless these parameters joined the"
            " training later or were left out of some steps",
            tuple(odd),
        )
    yield from _judge_precision(state)
    silent = [
        entry
        for entry in state.entries.values()
        if entry.name not in counts and any(t is not None for t in entry.moments.values())
    ]
    if counts and silent:
        yield Finding(
            "step-missing",
            f"{len(silent)} of {len(state.entries)} parameters have moments but no step counter: "
            + examples(_names(silent)),
            _names(silent),
        )
    if folder_step is not None and not broken:
        off = [name for name, count in counts.items() if count != folder_step]
        if off:
            values = sorted({counts[name] for name in off})
            yield Finding(
                "step-against-folder",
                f"{len(off)} of {len(counts)} step counters are not at {folder_step}, where this"
                f" checkpoint should be, but at "
                + ", ".join(f"{value:g}" for value in values[:5])
                + (" and others" if len(values) > 5 else "")
                + f" ({examples(off)}); steps that loss scaling skipped would explain a smaller"
                " count that is the same everywhere",
                tuple(off),
            )


def _judge_precision(state: TrainingState) -> Iterator[Finding]:
    by_dtype: dict[str, list[tuple[str, float]]] = defaultdict(list)
    stores: dict[str, Leaf] = {entry.name: entry.step for entry in state.entries.values()}
    for group in state.groups.values():
        name = ".".join(part for part in (group.optimizer, "param_groups", group.name) if part)
        stores[name] = group.settings.get("step")
    for name, leaf in stores.items():
        if isinstance(leaf, StoredTensor) and leaf.dtype in STANDS_STILL_AT:
            value = leaf.scalar()
            by_dtype[leaf.dtype].append((name, math.nan if value is None else float(value)))
    for dtype, counters in by_dtype.items():
        limit = STANDS_STILL_AT[dtype]
        stuck = [name for name, value in counters if value >= limit]
        if dtype in ("bfloat16", "float16"):
            names = [name for name, _ in counters]
            yield Finding(
                "half-precision-step",
                f"{len(names)} step counters are {dtype}, which cannot count past {limit}; "
                + (f"{len(stuck)} stand still there already" if stuck else "none is there yet")
                + f" ({examples(stuck or names)})",
                tuple(names),
            )
        elif stuck:
            yield Finding(
                "step-stands-still",
                f"{len(stuck)} step counters are {dtype} and have reached {limit}, past which"
                f" adding one changes nothing ({examples(stuck)})",
                tuple(stuck),
            )


def judge_presence(state: TrainingState, folder_step: int | None) -> Iterator[Finding]:
    """Judge whether every parameter has the moments it needs.

    Parameters
    ----------
    state : TrainingState
        The state.
    folder_step : int or None
        The step that the folder's name or the user gives [steps]; before the first step there
        are no moments yet.

    Yields
    ------
    Finding
        "moment-missing", "moment-empty" or "moment-shape".
    """
    if folder_step == 0:
        return
    needy = [entry for entry in state.entries.values() if _needs_moments(state.group_of(entry))]
    if not any(t is not None for entry in state.entries.values() for t in entry.moments.values()):
        groups = state.groups.values()
        if not groups or any(_needs_moments(group) for group in groups):
            yield Finding(
                "moment-missing",
                "the state holds no optimizer moments at all: training resumed from it starts"
                " them from zero",
            )
        return
    listed = {
        (group.optimizer, parameter)
        for group in state.groups.values()
        if _needs_moments(group)
        for parameter in group.parameters
    }
    absent = [
        ".".join(part for part in key if part)
        for key in sorted(listed - set(state.entries), key=str)
    ]
    if absent:
        yield Finding(
            "moment-missing",
            f"{len(absent)} of {len(listed)} parameters that the optimizer lists have no state:"
            f" {examples(absent)}; parameters that never had a gradient have none",
            tuple(absent),
        )
    yield from _judge_completeness(state, needy)
    bare = [e for e in needy if all(t is None for t in e.moments.values())]
    if bare:
        yield Finding(
            "moment-missing",
            f"{len(bare)} of {len(state.entries)} parameters have a step counter but no moments: "
            + examples(_names(bare)),
            _names(bare),
        )
    empty, misshapen = [], []
    for entry in state.entries.values():
        tensors = [t for t in entry.moments.values() if t is not None]
        if any(t.n_elements == 0 for t in tensors):
            empty.append(entry)
        elif len({t.shape for t in tensors}) > 1:
            misshapen.append(entry)
    if empty:
        yield Finding(
            "moment-empty",
            f"{len(empty)} of {len(state.entries)} parameters have a moment without elements: "
            + examples(_names(empty)),
            _names(empty),
        )
    if misshapen:
        yield Finding(
            "moment-shape",
            f"{len(misshapen)} parameters have moments of different shapes: "
            + examples(_names(misshapen)),
            _names(misshapen),
        )


def _judge_completeness(state: TrainingState, needy: list[Entry]) -> Iterator[Finding]:
    """Compare each parameter's moments with those that its group's other parameters have."""
    kin: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in needy:
        group = state.group_of(entry)
        kin[entry.optimizer, group.name if group else ""].append(entry)
    lacking: dict[str, list[Entry]] = defaultdict(list)
    for key, entries in kin.items():
        expected = {role for e in entries for role, tensor in e.moments.items() if tensor}
        settings = state.groups[key].settings if key in state.groups else {}
        # Two betas alone may be Lion's, who keeps one moment; with eps they are Adam's.
        if {"betas.0", "eps"} <= settings.keys() and "exp_inf" not in expected:
            expected.update(PAIR)
        for entry in entries:
            held = {role for role, tensor in entry.moments.items() if tensor}
            for role in expected - held if held else ():
                lacking[role].append(entry)
    for role, entries in sorted(lacking.items()):
        yield Finding(
            "moment-missing",
            f"{len(entries)} of {len(state.entries)} parameters have moments but no {role}: "
            + examples(_names(entries)),
            _names(entries),
        )


def _needs_moments(group: Group | None) -> bool:
    """Return whether an optimizer with these settings keeps moments; plain SGD keeps none."""
    if group is None or "betas.0" in group.settings:
        return True
    return group.settings.get("momentum", 1) != 0


# --- values --------------------------------------------------------------------------------------


@dataclass
class _Seen:
    not_finite: int = 0
    negative: int = 0
    smallest: float = math.inf
    any_nonzero: bool = False

    def add(self, block: NDArray[np.floating]) -> None:
        finite = np.isfinite(block)
        if not finite.all():
            self.not_finite += int(block.size - np.count_nonzero(finite))
            block = block[finite]
        if block.size:
            smallest = float(block.min())
            self.smallest = min(self.smallest, smallest)
            if smallest < 0:
                self.negative += int(np.count_nonzero(block < 0))
            self.any_nonzero = self.any_nonzero or smallest != 0 or bool(block.max() != 0)


def judge_values(
    state: TrainingState, progress: Callable[[int], None] | None = None
) -> Iterator[Finding]:
    r"""Judge every element of every moment, in one pass over the files.

    Besides NaN, infinity and negative second moments, one bound couples the two moments of
    Adam: they are weighted sums of the same gradients, so by the inequality of Cauchy and
    Schwarz, for any gradients whatever,

    .. math:: m^2 \le \frac{(1-\beta_1)^2}{1-\beta_2}
              \sum_{j=0}^{t-1} \Bigl(\frac{\beta_1^2}{\beta_2}\Bigr)^{j} \; v .

    Moments of different steps can break it, moments of one step cannot, as long as the betas
    were the saved ones all along.

    Parameters
    ----------
    state : TrainingState
        The state.
    progress : callable, optional
        Called with the number of elements read after each block.

    Yields
    ------
    Finding
        "moment-non-finite", "second-moment-negative", "moment-zero" or "moments-impossible".
    """
    not_finite: list[tuple[str, int]] = []
    negative: list[tuple[str, int, float]] = []
    impossible: list[tuple[str, int, float]] = []
    zero: list[str] = []
    counts = step_counts(state)
    n_judged = 0
    for entry in state.entries.values():
        seen, n_broken, ratio = _scan(entry, _bound(state, entry, counts), progress)
        for role, moment in seen.items():
            name = f"{entry.name} {role}"
            if moment.not_finite:
                not_finite.append((name, moment.not_finite))
            if role in SECOND_MOMENTS and moment.negative:
                negative.append((name, moment.negative, moment.smallest))
        if n_broken:
            impossible.append((entry.name, n_broken, ratio))
        pair = [seen[role] for role in PAIR if role in seen]
        if len(pair) == 2:
            n_judged += 1
            if counts.get(entry.name, 0) > 0 and not any(m.any_nonzero for m in pair):
                zero.append(entry.name)
    if not_finite:
        yield Finding(
            "moment-non-finite",
            f"{len(not_finite)} moments hold NaN or infinity: "
            + examples([f"{name} ({n} elements)" for name, n in not_finite]),
            tuple(name for name, _ in not_finite),
        )
    if negative:
        yield Finding(
            "second-moment-negative",
            f"{len(negative)} second moments are negative, which no gradient makes them: "
            + examples([f"{name} ({n} elements, down to {low:.3g})" for name, n, low in negative]),
            tuple(name for name, _, _ in negative),
        )
    if zero and len(zero) == n_judged:
        yield Finding(
            "moment-zero",
            f"both moments of all {len(zero)} parameters are zero although the counters say that"
            " training has stepped: they were reset or never filled",
            tuple(zero),
        )
    if impossible:
        yield Finding(
            "moments-impossible",
            f"{len(impossible)} parameters have a first moment larger than any gradients allow for"
            " their second moment and their step count, so the three are of different steps (or"
            " the betas changed): "
            + examples(
                [f"{name} ({n} elements, up to {r:.3g} times)" for name, n, r in impossible]
            ),
            tuple(name for name, _, _ in impossible),
        )


def largest_ratio(beta1: float, beta2: float, n_steps: float) -> float:
    """Return the largest m^2 / v that Adam's moments can have after some steps.

    Parameters
    ----------
    beta1, beta2 : float
        Decay rates of the two moments, both in [0, 1).
    n_steps : float
        Steps since both were zero [steps].

    Returns
    -------
    float
        The factor in front of v in the bound of `judge_values`.
    """
    ratio = beta1**2 / beta2 if beta2 > 0 else math.inf
    first = (1 - beta1) ** 2 / (1 - beta2)
    if ratio == 1:
        return first * n_steps
    if ratio > 1 and n_steps * math.log(ratio) > 600:
        return math.inf
    return first * (ratio**n_steps - 1) / (ratio - 1)


def _bound(state: TrainingState, entry: Entry, counts: dict[str, float]) -> float:
    """Return the bound of m^2 / v for one parameter; infinite where the state does not give it."""
    group = state.group_of(entry)
    if group is None:
        return math.inf
    betas = [_value(group.settings.get(f"betas.{i}")) for i in (0, 1)]
    n_steps = counts.get(entry.name)
    if any(b is None or not 0 <= b < 1 for b in betas) or n_steps is None or not n_steps >= 1:
        return math.inf
    # Half-precision moments round too coarsely for a bound, and half-precision counters lie.
    pair = [entry.moments.get(role) for role in PAIR]
    if any(t is None or t.dtype not in ("float32", "float64") for t in pair):
        return math.inf
    step = entry.step
    if isinstance(step, StoredTensor) and n_steps >= STANDS_STILL_AT.get(step.dtype, math.inf):
        return math.inf
    return largest_ratio(float(betas[0] or 0), float(betas[1] or 0), n_steps)


def _scan(
    entry: Entry, bound: float, progress: Callable[[int], None] | None
) -> tuple[dict[str, _Seen], int, float]:
    seen: dict[str, _Seen] = {}
    n_broken, worst = 0, 0.0

    def read(role: str, block: NDArray[np.floating]) -> None:
        seen.setdefault(role, _Seen()).add(block)
        if progress is not None:
            progress(block.size)

    first, second = (entry.moments.get(role) for role in PAIR)
    rest = dict(entry.moments)
    if bound < math.inf and first is not None and second is not None and _aligned(first, second):
        del rest[PAIR[0]], rest[PAIR[1]]
        for m, v in _pairs(first, second):
            read(PAIR[0], m)
            read(PAIR[1], v)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                squares = np.square(m, dtype=np.float64)
                largest = bound * v.astype(np.float64)
                broken = (squares > (1 + _BOUND_SLACK) * largest) & (v >= 0)
                broken &= (np.abs(m) > _SMALLEST_JUDGED_MOMENT) & np.isfinite(m)
                if broken.any():
                    n_broken += int(np.count_nonzero(broken))
                    times = np.sqrt(squares[broken] / largest[broken])
                    worst = max(worst, float(times.max()))
    for role, tensor in rest.items():
        if tensor is not None and tensor.dtype in REAL_DTYPES:
            for piece in tensor.pieces:
                for block in piece.blocks():
                    read(role, block)
    return seen, n_broken, worst


def _aligned(one: StoredTensor, other: StoredTensor) -> bool:
    pieces = (one.pieces, other.pieces)
    return len(pieces[0]) == len(pieces[1]) and all(
        a.origin == b.origin and a.shape == b.shape and a.stride == b.stride
        for a, b in zip(*pieces, strict=True)
    )


def _pairs(
    one: StoredTensor, other: StoredTensor
) -> Iterator[tuple[NDArray[np.floating], NDArray[np.floating]]]:
    for a, b in zip(one.pieces, other.pieces, strict=True):
        yield from zip(a.blocks(), b.blocks(), strict=True)


# --- two checkpoints -----------------------------------------------------------------------------


def judge_against(state: TrainingState, other: TrainingState) -> Iterator[Finding]:
    """Judge two checkpoints of one training against each other, bit for bit.

    Weights that changed while their moments stayed the same were saved with moments of another
    step. A moment of zeros may stay, since no gradient ever reached it. Where parameters have
    only numbers, moments cannot be matched to weights; then only a count speaks: of one shape,
    more weights changed than moments did.

    Parameters
    ----------
    state, other : TrainingState
        The two states.

    Yields
    ------
    Finding
        "moment-stale", "step-stale" or "moment-missing".
    """
    entries, names = state.entries, sorted(set(state.entries) & set(other.entries))
    lost = sorted(set(other.entries) - set(entries))
    if lost and entries:
        gone = tuple(other.entries[key].name for key in lost)
        yield Finding(
            "moment-missing",
            f"{len(gone)} parameters have state in the other checkpoint but none in this one: "
            + examples(gone),
            gone,
        )
    changed = {
        name: parts
        for name, tensor in state.weights.items()
        if name in other.weights and any(parts := _differing(tensor, other.weights[name]))
    }
    by_tensor = {id(state.weights[name]): parts for name, parts in changed.items()}
    stale: list[str] = []
    standing: list[str] = []
    counts, other_counts = step_counts(state), step_counts(other)
    unmatched: list[tuple[Entry, bool]] = []
    for key in names:
        entry, before = entries[key], other.entries[key]
        weight = state.weight_of(entry)
        if weight is None:
            unmatched.append((entry, _any_moment_changed(entry, before)))
            continue
        changed_parts = by_tensor.get(id(weight))
        if changed_parts is None:
            continue
        stale.extend(_stale_parts(entry, before, weight, changed_parts))
        if entry.name in counts and counts[entry.name] == other_counts.get(entry.name):
            standing.append(entry.name)
    stale_counts = list(_stale_by_count(state, changed, unmatched))
    if not standing and stale_counts == [] and unmatched and changed:
        same = [e.name for e, _ in unmatched if counts.get(e.name, -1) == other_counts.get(e.name)]
        standing = same if len(same) == len(entries) else []
    if stale:
        yield Finding(
            "moment-stale",
            f"{len(stale)} moments are bit for bit those of the other checkpoint although their"
            f" weights differ: {examples(stale)}",
            tuple(stale),
        )
    yield from stale_counts
    if standing:
        yield Finding(
            "step-stale",
            f"{len(standing)} step counters are those of the other checkpoint although weights"
            f" differ: {examples(standing)}",
            tuple(standing),
        )


def n_weights_that_differ(state: TrainingState, other: TrainingState) -> tuple[int, int]:
    """Return how many weights of two states differ in any bit, and how many both hold.

    Parameters
    ----------
    state, other : TrainingState
        The two states.

    Returns
    -------
    tuple of int
        Both counts.
    """
    common = [name for name in state.weights if name in other.weights]
    return sum(any(_differing(state.weights[n], other.weights[n])) for n in common), len(common)


def _differing(one: StoredTensor, other: StoredTensor) -> list[bool]:
    """Return for each part of a tensor whether its bits differ; one answer if cut differently."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return [True]
    if _aligned(one, other):
        return [_piece_differs(a, b) for a, b in zip(one.pieces, other.pieces, strict=True)]
    return [one.gathered().tobytes() != other.gathered().tobytes()]


def _piece_differs(one: Piece, other: Piece) -> bool:
    blocks = zip(one.raw_blocks(), other.raw_blocks(), strict=True)
    return any(a.tobytes() != b.tobytes() for a, b in blocks)


def _any_nonzero(tensor: StoredTensor) -> bool:
    return any(bool(block.any()) for piece in tensor.pieces for block in piece.raw_blocks())


def _any_moment_changed(entry: Entry, before: Entry) -> bool:
    """Return whether a moment changed, or is zero, which may well stay."""
    for role, tensor in entry.moments.items():
        earlier = before.moments.get(role)
        if tensor is None or earlier is None:
            continue
        if any(_differing(tensor, earlier)) or not _any_nonzero(tensor):
            return True
    return False


def _stale_parts(
    entry: Entry, before: Entry, weight: StoredTensor, changed: list[bool]
) -> Iterator[str]:
    for role, tensor in entry.moments.items():
        earlier = before.moments.get(role)
        if tensor is None or earlier is None or tensor.n_elements == 0:
            continue
        differs = _differing(tensor, earlier)
        if len(differs) == len(changed) > 1 and [p.origin for p in tensor.pieces] == [
            p.origin for p in weight.pieces
        ]:
            parts = zip(tensor.pieces, differs, changed, strict=True)
            torn = [p for p, moved, weight_moved in parts if weight_moved and not moved]
            for piece in torn:
                if any(bool(block.any()) for block in piece.raw_blocks()):
                    yield f"{entry.name} {role} (the part at {list(piece.origin)})"
        elif not any(differs) and _any_nonzero(tensor):
            yield f"{entry.name} {role}"


def _stale_by_count(
    state: TrainingState,
    changed: dict[str, list[bool]],
    unmatched: list[tuple[Entry, bool]],
) -> Iterator[Finding]:
    n_weights: dict[tuple[int, ...], int] = defaultdict(int)
    n_changed: dict[tuple[int, ...], int] = defaultdict(int)
    for name, tensor in state.weights.items():
        n_weights[tensor.shape] += 1
        n_changed[tensor.shape] += name in changed
    of_shape: dict[tuple[int, ...], list[tuple[Entry, bool]]] = defaultdict(list)
    for entry, moved in unmatched:
        if entry.shape is not None:
            of_shape[entry.shape].append((entry, moved))
    at_rest: list[str] = []
    at_least = 0
    for shape, pairs in of_shape.items():
        # Only where each weight of this shape has its moments can a count tell.
        if len(pairs) != n_weights[shape]:
            continue
        missing = n_changed[shape] - sum(moved for _, moved in pairs)
        if missing > 0:
            at_least += missing
            at_rest.extend(entry.name for entry, moved in pairs if not moved)
    if at_rest:
        yield Finding(
            "moment-stale",
            f"at least {at_least} weights changed while their moments are bit for bit those of the"
            f" other checkpoint (unchanged: {examples(at_rest)})",
            tuple(at_rest),
        )

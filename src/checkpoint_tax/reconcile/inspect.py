"""Detector: what a saved training state gives away about itself, without a reference run.

A torn checkpoint looks like any other: it loads, and training goes on. Some tears leave traces
all the same, in counters that disagree, moments that no gradients can have made, or moments
that did not move while the weights did. This module looks for those traces in a file or a
folder and says each in a sentence. It needs no torch and runs nothing that a pickle names; see
`checkpoint_tax.reconcile.inspect_pickle`.

A clean answer is no proof. Weights and moments that are both one step old in one parameter
and one step new in another differ in nothing but their counter, and if the counter was saved
apart (once for all parameters), in nothing at all.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from checkpoint_tax.errors import InputError
from checkpoint_tax.reconcile.inspect_entries import TrainingState, sort_leaves, step_in_name
from checkpoint_tax.reconcile.inspect_files import StoredTensor, open_state
from checkpoint_tax.reconcile.inspect_pickle import ForbiddenGlobal, UnreadableState
from checkpoint_tax.reconcile.inspect_rules import (
    Finding,
    judge_against,
    judge_counters,
    judge_presence,
    judge_values,
    n_weights_that_differ,
    step_counts,
)

__all__ = ["Finding", "ForbiddenGlobal", "Inspection", "UnreadableState", "inspect_checkpoint"]

_LARGEST_STEP = 10**15


@dataclass(frozen=True)
class Inspection:
    """What a look at one checkpoint found.

    Attributes
    ----------
    path, format : str
        What was read, and the format it has.
    against : str or None
        The checkpoint it was compared with.
    step : int or None
        The step it should be at [steps].
    step_source : str
        Where that step comes from, as a sentence.
    n_parameters : int
        Parameters for which an optimizer keeps state.
    n_weights : int
        Tensors of weights.
    n_moment_elements : int
        Elements of moments that were looked at.
    counters : tuple of float
        The different values that step counters hold [steps].
    findings : tuple of Finding
        What is wrong or does not fit; empty if nothing was found.
    notes : tuple of str
        What could not be judged, and why.
    """

    path: str
    format: str
    against: str | None
    step: int | None
    step_source: str
    n_parameters: int
    n_weights: int
    n_moment_elements: int
    counters: tuple[float, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold.

        Returns
        -------
        dict
            The fields by name, and `clean`; a counter that is not finite as text.
        """
        content = asdict(self)
        content["counters"] = [c if math.isfinite(c) else str(c) for c in self.counters]
        return {**content, "clean": self.clean}


def inspect_checkpoint(
    path: str | Path,
    *,
    against: str | Path | None = None,
    step: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Inspection:
    """Look at a saved training state for signs of version skew.

    Memory does not grow with the file: tensors are read in blocks of a million elements.

    Parameters
    ----------
    path : str or Path
        A file of `torch.save`, a safetensors file, or a folder of
        `torch.distributed.checkpoint`.
    against : str or Path, optional
        Another checkpoint of the same training, earlier or later.
    step : int, optional
        The step it should be at [steps], >= 0; read from the name of the file or its folder if
        left out, where that name spells one.
    progress : callable, optional
        Called with the number of elements read after each block.

    Returns
    -------
    Inspection
        Findings and notes.

    Raises
    ------
    UnreadableState
        If a state is missing, empty, cut short, incomplete or of another format; as
        `ForbiddenGlobal` if a pickle in it names anything but harmless names.
    InputError
        If the step is no whole number from 0 to 10^15.
    """
    if step is not None and not (
        isinstance(step, int) and not isinstance(step, bool) and 0 <= step <= _LARGEST_STEP
    ):
        raise InputError(f"step is {step!r}; it must be a whole number of steps from 0 to 10^15.")
    path = Path(path)
    stored = open_state(path)
    other = None if against is None else open_state(Path(against))
    expected, source, notes = _expected_step(path, step)
    try:
        state = sort_leaves(stored.leaves)
        findings = [*judge_counters(state, expected), *judge_presence(state, expected)]
        findings += judge_values(state, progress)
        if other is not None:
            before = sort_leaves(other.leaves)
            findings += judge_against(state, before)
            notes += _comparison_notes(state, before)
        counts = step_counts(state)
        notes += _notes(state, counts)
        return Inspection(
            path=str(path),
            format=stored.format,
            against=None if against is None else str(against),
            step=expected,
            step_source=source,
            n_parameters=len(state.entries),
            n_weights=len(state.weights),
            n_moment_elements=sum(t.n_elements for t in _moments(state)),
            counters=tuple(sorted(set(counts.values()))),
            findings=tuple(findings),
            notes=tuple(notes),
        )
    except UnreadableState as error:
        text = str(error)
        raise type(error)(text if str(path) in text else f"{path} cannot be read: {text}") from None
    except OSError as error:
        raise UnreadableState(f"{path} cannot be read: {error.strerror or error}.") from error


def _expected_step(path: Path, step: int | None) -> tuple[int | None, str, list[str]]:
    if step is not None:
        return step, f"step {step} was given", []
    found = list(step_in_name(path.absolute().parts, is_file=path.is_file()))
    if not found:
        source = f"no step was given, and the name {path.absolute().name!r} spells none"
        return None, source, ["counters were not compared with a step, since none is known"]
    if len({number for number, _ in found}) > 1:
        names = " and ".join(f"{name!r} ({number})" for number, name in found)
        return (
            None,
            f"no step was given, and the names {names} spell different ones",
            ["counters were not compared with a step: name the right one with --step"],
        )
    number, name = found[0]
    return number, f"step {number} was read from the name {name!r}", []


def _moments(state: TrainingState) -> list[StoredTensor]:
    return [t for e in state.entries.values() for t in e.moments.values() if t is not None]


def _notes(state: TrainingState, counts: dict[str, float]) -> list[str]:
    notes = []
    if state.entries and not counts:
        notes.append("the state keeps no step counters, so skew between parameters cannot show")
    for name, count in state.loop_counters.items():
        if counts and any(value != count for value in counts.values()):
            low, high = min(counts.values()), max(counts.values())
            values = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            notes.append(
                f"the training loop's {name} is {count}, the optimizer's counters are {values};"
                " they may count different things"
            )
    dtypes = sorted({t.dtype for t in _moments(state)} & {"float8_e4m3fn", "float8_e5m2", "uint8"})
    if dtypes:
        notes.append(f"moments of type {', '.join(dtypes)} were not judged by their values")
    return notes


def _comparison_notes(state: TrainingState, before: TrainingState) -> list[str]:
    n_changed, n_common = n_weights_that_differ(state, before)
    if n_common == 0:
        return ["the two checkpoints share no weights, so nothing was compared"]
    return [f"{n_changed} of {n_common} weights differ from the other checkpoint"]

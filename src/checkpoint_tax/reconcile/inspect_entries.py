"""Which tensors of a training state belong together: counter, moments and weight of a parameter.

Names follow torch's optimizers, in every spelling their states are saved in:
`optim.state.<parameter>.exp_avg` (sharded states and their flattened form),
`optimizer.state.3.exp_avg` (a plain optimizer, parameters by number) and
`optimizer.state.exp_avg.<parameter>` (one table for each moment).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from checkpoint_tax.reconcile.inspect_files import REAL_DTYPES, Leaf, StoredTensor

#: First moments: running means of the gradient.
FIRST_MOMENTS = ("exp_avg", "momentum_buffer")
#: Second moments: never negative.
SECOND_MOMENTS = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "exp_inf")
MOMENTS = (*FIRST_MOMENTS, *SECOND_MOMENTS)
#: Moments that only make sense together.
PAIR = ("exp_avg", "exp_avg_sq")

# Under these names training loops keep their own count.
_LOOP_COUNTERS = ("step", "steps", "global_step", "iteration", "iter", "num_steps", "trained_steps")
# Tensors of a model that no optimizer touches.
_BUFFERS = ("running_mean", "running_var", "num_batches_tracked", "inv_freq")


@dataclass
class Entry:
    """What an optimizer keeps for one parameter.

    Attributes
    ----------
    optimizer : str
        Dotted name of the optimizer in the state; may be empty.
    parameter : str
        The parameter's name, or its number in a plain optimizer.
    step : float, int, bool, str, None or StoredTensor
        The step counter as it is stored; None if there is none.
    moments : dict
        From the moment's name to its tensor; None where the optimizer stored nothing.
    """

    optimizer: str
    parameter: str
    step: Leaf = None
    moments: dict[str, StoredTensor | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The optimizer's and the parameter's name, for a sentence."""
        return ".".join(part for part in (self.optimizer, self.parameter) if part)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of the largest moment; None if there is none."""
        shapes = [(t.n_elements, t.shape) for t in self.moments.values() if t is not None]
        return max(shapes)[1] if shapes else None


@dataclass
class Group:
    """One parameter group: its plain settings, and its members where the state lists them.

    Attributes
    ----------
    optimizer : str
        Dotted name of the optimizer in the state; may be empty.
    name : str
        The group's number, or a parameter's name in a flattened state.
    settings : dict
        Plain values by name; the betas as "betas.0" and "betas.1".
    members : list of str
        Names or numbers of its parameters, where they are listed.
    """

    optimizer: str
    name: str
    settings: dict[str, Leaf] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)

    @property
    def parameters(self) -> list[str]:
        """The parameters in this group; a flattened state keeps one group a parameter."""
        if self.members or self.name.isdigit():
            return self.members
        return [self.name]


@dataclass
class TrainingState:
    """A state's parts, by what they are for.

    Attributes
    ----------
    entries : dict
        From (optimizer, parameter) to its `Entry`.
    groups : dict
        From (optimizer, group's name) to its `Group`.
    weights : dict
        From a dotted name to a real tensor outside every optimizer.
    loop_counters : dict
        From a dotted name to a whole number that a training loop keeps.
    """

    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    groups: dict[tuple[str, str], Group] = field(default_factory=dict)
    weights: dict[str, StoredTensor] = field(default_factory=dict)
    loop_counters: dict[str, int] = field(default_factory=dict)

    def group_of(self, entry: Entry) -> Group | None:
        """Return the group that lists a parameter, if the state says so.

        Parameters
        ----------
        entry : Entry
            The parameter's.

        Returns
        -------
        Group or None
            None if no group lists it.
        """
        return self._groups_by_parameter.get((entry.optimizer, entry.parameter))

    def weight_of(self, entry: Entry) -> StoredTensor | None:
        """Return a parameter's weight: the one tensor whose name ends like it, of equal shape.

        Parameters
        ----------
        entry : Entry
            The parameter's.

        Returns
        -------
        StoredTensor or None
            None for a parameter known by number, and where no or more than one tensor fits.
        """
        found = self._weights_by_ending.get(entry.parameter, [])
        if entry.parameter.isdigit() or len(found) != 1:
            return None
        return found[0] if found[0].shape == entry.shape else None

    def __post_init__(self) -> None:
        self._groups_by_parameter: dict[tuple[str, str], Group] = {}
        self._weights_by_ending: dict[str, list[StoredTensor]] = {}

    def index(self) -> None:
        """Build the look-up tables, once every part has its place."""
        for group in self.groups.values():
            for parameter in group.parameters:
                self._groups_by_parameter[group.optimizer, parameter] = group
        for name, tensor in self.weights.items():
            parts = name.split(".")
            for start in range(len(parts)):
                self._weights_by_ending.setdefault(".".join(parts[start:]), []).append(tensor)


def sort_leaves(leaves: Mapping[str, Leaf]) -> TrainingState:
    """Find out what each tensor and value of a state is for.

    Parameters
    ----------
    leaves : mapping
        From dotted names to tensors and plain values.

    Returns
    -------
    TrainingState
        The same leaves by their purpose; what serves none is left out.
    """
    state = TrainingState()
    rest: dict[str, Leaf] = {}
    for name, leaf in leaves.items():
        if not (_place_in_group(state, name, leaf) or _place_moment(state, name, leaf)):
            rest[name] = leaf
    for name, leaf in list(rest.items()):
        if _place_step(state, name, leaf):
            del rest[name]
    optimizers = {key[0] for key in (*state.entries, *state.groups)} - {""}
    for name, leaf in rest.items():
        last = name.rpartition(".")[2]
        if last in _LOOP_COUNTERS and (count := _whole(leaf)) is not None:
            state.loop_counters[name] = count
        elif (
            isinstance(leaf, StoredTensor)
            and leaf.dtype in REAL_DTYPES
            and last not in _BUFFERS
            and not any(name.startswith(f"{optimizer}.") for optimizer in optimizers)
        ):
            state.weights[name] = leaf
    state.index()
    return state


def _place_in_group(state: TrainingState, name: str, leaf: Leaf) -> bool:
    head, marker, tail = f".{name}".partition(".param_groups.")
    if not marker:
        return False
    optimizer = head.removeprefix(".")
    listed = re.fullmatch(r"(.+)\.(params|betas)\.(\d+)", tail)
    group, setting = (listed[1], listed[2]) if listed else tail.rpartition(".")[::2]
    if not group:
        return False
    found = state.groups.setdefault((optimizer, group), Group(optimizer, group))
    if listed and setting == "params":
        found.members.append(str(leaf))
    else:
        found.settings[f"{setting}.{listed[3]}" if listed else setting] = leaf
    return True


def _place_moment(state: TrainingState, name: str, leaf: Leaf) -> bool:
    if leaf is not None and not isinstance(leaf, StoredTensor):
        return False
    parts = name.split(".")
    found = [at for at, part in enumerate(parts) if part in MOMENTS]
    if not found:
        return False
    at = found[-1]
    if at != len(parts) - 1 and at != 0 and parts[at - 1] != "state":
        return False
    optimizer, parameter = _split(parts[:at], parts[at + 1 :])
    entry = state.entries.setdefault((optimizer, parameter), Entry(optimizer, parameter))
    entry.moments[parts[at]] = leaf
    return True


def _place_step(state: TrainingState, name: str, leaf: Leaf) -> bool:
    *parts, last = name.split(".")
    if last != "step" or not parts:
        return False
    key = _split(parts, [])
    kept_without_moments = "state" in parts and key[1] and any(g[0] == key[0] for g in state.groups)
    if key not in state.entries and not kept_without_moments:
        return False
    state.entries.setdefault(key, Entry(*key)).step = leaf
    return True


def _split(before: list[str], after: list[str]) -> tuple[str, str]:
    """Split a name, from which a moment's name was taken out, into optimizer and parameter."""
    at = before.index("state") if "state" in before else -1
    optimizer = before[:at] if at >= 0 else []
    return ".".join(optimizer), ".".join([*before[at + 1 :], *after])


def _whole(leaf: Leaf) -> int | None:
    value = leaf.scalar() if isinstance(leaf, StoredTensor) else leaf
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
        return None
    return int(value)


# A whole name that is a step, with or without a word for it.
_STEP_NAME = re.compile(
    r"(?P<word>(?:(?:global|train|trained|training)?[-_.]?"
    r"(?:steps?|iter(?:ation)?s?|checkpoint|ckpt)[-_.=]?)*)(?P<step>\d{1,15})",
    re.IGNORECASE,
)
# A step among other things in a name, such as epoch=3-step=1200.
_STEP_WORD = re.compile(
    r"(?:^|[-_.])(?:global[-_.]?)?(?:step|iter)[-_.=]?(\d{1,15})(?![\d])", re.IGNORECASE
)
_ENDINGS = re.compile(r"(?:\.(?:pt|pth|bin|ckpt|safetensors|tar))+$", re.IGNORECASE)


def step_in_name(path_parts: tuple[str, ...], *, is_file: bool) -> Iterator[tuple[int, str]]:
    """Yield the steps that a checkpoint's name and its folder's name spell.

    A name spells a step if nothing is left beside digits and a word for a step or a checkpoint
    (`step_00001200`, `1200`, `iter_0001200`, `checkpoint-1200.pt`), or if exactly one number in
    it follows the word step or iter (`epoch=3-step=1200.ckpt`). An epoch is no step. Of the
    folder above a checkpoint folder a bare number is not taken for a step.

    Parameters
    ----------
    path_parts : tuple of str
        The parts of an absolute path.
    is_file : bool
        Whether the path is a file's.

    Yields
    ------
    tuple of int and str
        The number of steps and the name it was read from.
    """
    for above, name in enumerate(path_parts[:-3:-1]):
        bare = _ENDINGS.sub("", name)
        whole = _STEP_NAME.fullmatch(bare)
        if whole and (whole["word"] or is_file or not above):
            yield int(whole["step"]), name
        elif len(found := _STEP_WORD.findall(bare)) == 1:
            yield int(found[0]), name

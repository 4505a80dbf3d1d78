"""Worlds: how failures, restarts, saves and nodes behave beyond their means.

The flat parameters of a job say how long things take on average; a world says how they scatter
and what else can go wrong. It is a mapping of a few sections, each of which may be left out; the
empty world is independent failures with fixed restarts. One rule holds throughout: *the job's own
parameters set every mean, the world sets shapes*, so two worlds at one job differ in shape alone.
A list of samples is a shape too: it is stretched to the mean that the job names, and where the
job names none, its own mean becomes the job's.
"""

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal, Self, cast

from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario.parameters import (
    Parameter,
    described,
    is_true_or_false,
    kind_of,
    nearest,
    shown,
)

__all__ = [
    "WORLD_PARAMETERS",
    "FailureModel",
    "LemonModel",
    "NodeModel",
    "RestartModel",
    "SaveModel",
    "Shock",
    "ShockModel",
    "SpareModel",
    "Spread",
    "StragglerModel",
    "World",
]

_SHAPES = {"lognormal": (0.0, 2.5), "gamma": (0.2, 1000.0), "weibull": (0.2, 20.0)}
"""Allowed parameter of each family: open below, closed above. Beyond 2.5 the mean of a lognormal
rests on values that 52 random bits never reach; tables of quantiles are exact to 1e-8 within these
ranges."""

_PARTS = ("detect", "reschedule", "relaunch", "reload", "warmup", "restart_unsplit")


@dataclass(frozen=True)
class Spread:
    """How a time scatters around a mean that is set elsewhere.

    Attributes
    ----------
    kind : {"fixed", "exponential", "lognormal", "gamma", "weibull", "samples"}
        Family of the distribution.
    shape : float
        Standard deviation of the logarithm (lognormal), shape (gamma, weibull), else 1 [1].
    samples : tuple of float
        The values of kind "samples"; only their ratios matter.
    """

    kind: Literal["fixed", "exponential", "lognormal", "gamma", "weibull", "samples"] = "fixed"
    shape: float = 1.0
    samples: tuple[float, ...] = ()

    @classmethod
    def of(cls, value: object, name: str) -> "Spread":
        """Read a spread as a person writes it.

        Parameters
        ----------
        value : object
            ``fixed``, ``exponential``, ``{lognormal: 1.2}``, ``{gamma: 0.6}``,
            ``{weibull: 0.7}``, or a list of samples in any unit.
        name : str
            Dotted name of the setting, for messages.

        Returns
        -------
        Spread

        Raises
        ------
        InputError
            One sentence: setting, value, what is wrong, what is allowed.
        """
        if isinstance(value, Spread):
            return value
        if value in ("fixed", "exponential"):
            return cls("fixed" if value == "fixed" else "exponential")
        if isinstance(value, Mapping) and len(value) == 1:
            ((family, shape),) = value.items()
            if family in _SHAPES:
                return cls(cast(Any, family), _number(f"{name}.{family}", shape, *_SHAPES[family]))
            near = nearest(str(family), _SHAPES)
            hint = f" (did you mean {near}?)" if near else ""
            raise _refusal(name, value, f"names no known family{hint}")
        if isinstance(value, (list, tuple)):
            return cls("samples", samples=_samples(name, value))
        raise _refusal(name, value, f"is {kind_of(value)} of no known form")

    @property
    def sample_mean(self) -> float:
        """Mean of the samples, in their unit."""
        return math.fsum(self.samples) / len(self.samples)

    def plain(self) -> object:
        """The spread as a person writes it.

        Returns
        -------
        str, dict or list
        """
        if self.kind == "samples":
            return list(self.samples)
        return self.kind if self.kind in ("fixed", "exponential") else {self.kind: self.shape}


_ALLOWED = (
    "fixed, exponential, {lognormal: s} with 0 < s <= 2.5, {gamma: k} with 0.2 < k <= 1000,"
    " {weibull: k} with 0.2 < k <= 20, or a list of at least 2 times"
)


def _refusal(name: str, value: object, problem: str) -> InputError:
    return InputError(f"{name} = {shown(value)} [1] {problem}; allowed is {_ALLOWED}.")


def _number(name: str, value: object, low: float, high: float) -> float:
    rule = Parameter(
        name=name,
        type="float",
        unit="1",
        meaning="shape of a distribution",
        default=1.0,
        default_source="none",
        kind="assumed",
        low=low,
        low_open=True,
        high=high,
    )
    return cast(float, rule.check(value))


def _samples(name: str, values: list[object] | tuple[object, ...]) -> tuple[float, ...]:
    if len(values) < 2:
        raise _refusal(name, values, f"holds {len(values)} value(s)")
    for value in values:
        if is_true_or_false(value) or not isinstance(value, numbers.Real):
            raise _refusal(name, value, f"is {kind_of(value)}, not a number, in the list")
        if not (math.isfinite(value) and 0.0 <= float(value) <= 1e12):
            raise _refusal(name, value, "is no finite time of at least 0, in the list")
    samples = tuple(float(cast(float, value)) for value in values)
    if math.fsum(samples) == 0.0:
        raise _refusal(name, values, "has a mean of 0")
    return samples


FIXED = Spread()


class _Section:
    """Shared by the sections: settings are checked by the table that their fields carry."""

    SECTION = ""

    def __post_init__(self) -> None:
        for parameter in settings_of(type(self)):
            name = parameter.name.rpartition(".")[2]
            object.__setattr__(self, name, parameter.check(getattr(self, name)))
        self._cross_check()

    def _cross_check(self) -> None:
        pass

    @classmethod
    def of(cls, value: object, name: str) -> Self:
        """Read a section from a mapping of its settings.

        Parameters
        ----------
        value : object
            Mapping of setting names to values, or a section.
        name : str
            Dotted name of the section, for messages.

        Returns
        -------
        _Section

        Raises
        ------
        InputError
            One sentence for the first setting refused.
        """
        if isinstance(value, cls):
            return value
        known = [field.name for field in fields(cast(Any, cls))]
        if not isinstance(value, Mapping):
            raise InputError(
                f"{name} = {shown(value)} [1] is {kind_of(value)}; allowed is a mapping of"
                f" {', '.join(known)}."
            )
        for setting in value:
            if setting not in known:
                near = nearest(str(setting), known)
                hint = f"the nearest known one is {near}" if near else f"known: {', '.join(known)}"
                raise InputError(f"{name}: {shown(setting)} is not a setting: {hint}.")
        return cls(**dict(value))

    @property
    def is_default(self) -> bool:
        """Whether the section changes nothing."""
        return self == type(self)()

    def plain(self) -> dict[str, object]:
        """Settings that differ from their defaults, as plain Python values.

        Returns
        -------
        dict
        """
        found: dict[str, object] = {}
        for field in fields(cast(Any, self)):
            value = getattr(self, field.name)
            if value != field.default:
                found[field.name] = value.plain() if isinstance(value, Spread) else value
        return found


@dataclass(frozen=True, kw_only=True)
class FailureModel(_Section):
    """How up-times between failures scatter, the mean held at the job's MTBF.

    Attributes
    ----------
    gaps : Spread or None
        Spread of up-times between failures. Left out: Weibull with the job's ``failure_shape``.
        A list of gaps (any unit) is replayed.
    block : int
        Gaps replayed in a row, as they followed each other in the list (circular block bootstrap;
        1 draws each on its own) [gaps].
    whose : {"job", "nodes"}
        Whose up-times `gaps` describes: the job's, renewed at each restart, or each node's, whose
        superposition interrupts the job. A node's mean is the job's MTBF times the nodes.
    renewed : {"failed", "all"}
        With ``whose="nodes"``: whether a restart makes only the failed node as new, or all of them
        (rejuvenation), which changes the job's mean time between failures too.
    """

    SECTION = "failures"

    gaps: Spread | None = described(
        None,
        "1",
        "spread of up-times between failures",
        "left out: Weibull with failure_shape",
        "assumed",
        value_type="mapping",
        convert=Spread.of,
    )
    block: int = described(
        1,
        "gaps",
        "listed gaps replayed in a row",
        "each gap on its own",
        "assumed",
        value_type="int",
        low=1,
        high=1e6,
    )
    whose: Literal["job", "nodes"] = described(
        "job",
        "word",
        "whose up-times scatter",
        "the job's",
        "assumed",
        value_type="text",
        choices=("job", "nodes"),
    )
    renewed: Literal["failed", "all"] = described(
        "failed",
        "word",
        "which nodes a restart makes as new",
        "the one that failed",
        "assumed",
        value_type="text",
        choices=("failed", "all"),
    )

    def _cross_check(self) -> None:
        if self.whose == "nodes" and self.gaps is not None and self.gaps.kind == "samples":
            raise InputError(
                "world.failures.whose = 'nodes' [word] needs a distribution as gaps: a list of gaps"
                " is the job's."
            )
        if self.gaps is not None and self.gaps.kind == "fixed":
            raise InputError(
                "world.failures.gaps = 'fixed' [1] would make failures a clock; allowed is a"
                " distribution or a list of gaps."
            )
        listed = self.gaps is not None and self.gaps.kind == "samples"
        if self.block > 1 and not listed:
            raise InputError(
                f"world.failures.block = {self.block} [gaps] needs a list of gaps to replay."
            )


@dataclass(frozen=True, kw_only=True)
class RestartModel(_Section):
    """How restarts scatter and fail; their mean parts are the job's.

    Attributes
    ----------
    detect, reschedule, relaunch, reload, warmup, restart_unsplit : Spread
        Spread of each named part around the job's own value.
    attempt_fails : float
        Probability that an attempt (all parts after detection) fails at its end [1]. Every
        attempt of one restart takes as long as its first.
    retry_wait_s : float
        Wait before each further attempt, counted as rescheduling [s].
    attempts : int or None
        Failed attempts after which a person sees to it that the next one succeeds; left out:
        attempts go on until one succeeds [1].
    manual_s : float
        Time until that person has acted, counted as rescheduling [s].
    hang_share : float
        Share of failures that are hangs: nothing says so until a watchdog does [1].
    hang_detect_s : float
        Detection of a hang, in place of the job's ``detect_s`` [s].
    """

    SECTION = "restart"

    detect: Spread = described(
        FIXED,
        "1",
        "spread of detect_s",
        "the job's fixed value",
        "assumed",
        value_type="mapping",
        convert=Spread.of,
    )
    reschedule: Spread = described(
        FIXED,
        "1",
        "spread of reschedule_s",
        "the job's fixed value",
        "assumed",
        value_type="mapping",
        convert=Spread.of,
    )
    relaunch: Spread = described(
        FIXED,
        "1",
        "spread of relaunch_s",
        "the job's fixed value",
        "assumed",
        value_type="mapping",
        convert=Spread.of,
    )
    reload: Spread = described(
        FIXED,
        "1",
        "spread of reload_s",
        "the job's fixed value",
        "assumed",
        value_type="mapping",
        convert=Spread.of,
    )
    warmup: Spread = described(
        FIXED,
        "1",
        "spread of warmup_s",
        "the job's fixed value",
        "assumed",
        value_type="mapping",
        convert=Spread.of,
    )
    restart_unsplit: Spread = described(
        FIXED,
        "1",
        "spread of restart_unsplit_s",
        "the job's fixed value",
        "assumed",
        value_type="mapping",
        convert=Spread.of,
    )
    attempt_fails: float = described(
        0.0, "1", "probability that a restart attempt fails", "none fails", "assumed", high=0.999
    )
    retry_wait_s: float = described(0.0, "s", "wait before each further attempt", "none", "assumed")
    attempts: int | None = described(
        None,
        "1",
        "failed attempts before a person steps in",
        "left out: attempts go on",
        "assumed",
        value_type="int",
        low=1,
        high=1e6,
    )
    manual_s: float = described(
        0.0, "s", "time until a person has acted after the last attempt", "none", "assumed"
    )
    hang_share: float = described(
        0.0, "1", "share of failures that are hangs", "none", "assumed", high=1.0
    )
    hang_detect_s: float = described(
        1800.0,
        "s",
        "detection of a hang",
        "a collective's time-out: up to 30 min",
        "published",
    )


@dataclass(frozen=True, kw_only=True)
class SaveModel(_Section):
    """Saves that fail.

    Attributes
    ----------
    silent : float
        Probability that a save cannot be restored though nothing said so [1]. The restart falls
        back to the newest save that can.
    hang : float
        Probability that a save hangs at its start: training stops until a watchdog ends the job,
        which restarts [1].
    hang_s : float
        Time until that watchdog acts, counted as time lost to saving [s].
    """

    SECTION = "saves"

    silent: float = described(
        0.0, "1", "probability that a save fails silently", "none", "assumed", high=0.999
    )
    hang: float = described(
        0.0, "1", "probability that a save hangs the job", "none", "assumed", high=0.999
    )
    hang_s: float = described(
        1800.0,
        "s",
        "time until a watchdog ends a job whose save hangs",
        "a collective's time-out: up to 30 min",
        "published",
    )


@dataclass(frozen=True, kw_only=True)
class LemonModel(_Section):
    """Nodes that fail more often than others, and stay in the job until they are found out.

    Attributes
    ----------
    share : float
        Probability that a node comes back from its repair or replacement as a lemon [1].
    factor : float
        Failures of a lemon per failure of a sound node in the same time [1].
    strikes : int
        Failures after which a lemon is replaced (by another lemon with probability `share`) [1].
    """

    SECTION = "lemons"

    share: float = described(
        0.0, "1", "probability that a repaired node is a lemon", "none", "assumed", high=0.99
    )
    factor: float = described(
        20.0,
        "1",
        "failures of a lemon per failure of a sound node",
        "of 63 nodes, 3 made half of the exclusions (arXiv:2605.09370)",
        "derived",
        low=1.0,
        high=1e6,
    )
    strikes: int = described(
        3,
        "1",
        "failures after which a lemon is replaced",
        "a round figure",
        "assumed",
        value_type="int",
        low=1,
        high=1000,
    )


@dataclass(frozen=True, kw_only=True)
class Shock:
    """One kind of common cause: what it strikes fails together, as one interruption.

    Attributes
    ----------
    name : str
        What is struck: GPU, node, rack, switch, power domain.
    nodes : int
        Blast radius: nodes lost at once; 0 where none is (software) [nodes].
    share : float
        Share of what ``counted`` counts [1].
    """

    name: str
    nodes: int
    share: float


def _shocks(value: object, name: str) -> tuple[Shock, ...]:
    """Read ``{rack: {nodes: 8, share: 0.1}, ...}``."""
    if isinstance(value, tuple) and all(isinstance(entry, Shock) for entry in value):
        return value
    if not isinstance(value, Mapping):
        raise InputError(
            f"{name} = {shown(value)} [1] is {kind_of(value)}; allowed is a mapping of names to"
            " {nodes: 8, share: 0.1}."
        )
    found = []
    for level, entry in value.items():
        if not isinstance(entry, Mapping) or set(entry) != {"nodes", "share"}:
            raise InputError(
                f"{name}.{level} = {shown(entry)} [1] must hold exactly nodes and share; allowed is"
                " for example {nodes: 8, share: 0.1}."
            )
        nodes = _setting(f"{name}.{level}.nodes", entry["nodes"], "int", "nodes", 1e6)
        share = _setting(f"{name}.{level}.share", entry["share"], "float", "1", 1.0)
        found.append(Shock(name=str(level), nodes=int(nodes), share=share))
    total = math.fsum(shock.share for shock in found)
    if total > 1.0 + 1e-9:
        raise InputError(f"{name}: shares sum to {total:g} [1]; allowed is at most 1.")
    return tuple(found)


def _setting(
    name: str, value: object, kind: Literal["int", "float"], unit: str, high: float
) -> float:
    rule = Parameter(
        name=name,
        type=kind,
        unit=unit,
        meaning="of one common cause",
        default=0,
        default_source="none",
        kind="assumed",
        low=0.0,
        high=high,
    )
    return cast(float, rule.check(value))


@dataclass(frozen=True, kw_only=True)
class ShockModel(_Section):
    """Failures by topology: common causes that take several nodes at once.

    Attributes
    ----------
    levels : tuple of Shock
        Kinds of failure with their blast radius; what their shares leave of 1 strikes one node.
    counted : {"interruptions", "parts"}
        What the job's MTBF and the shares count: interruptions of the job, or records of failed
        nodes, of which a common cause makes as many as it strikes. With "parts" the job is
        interrupted less often than its MTBF says, and not at all differently at radius 1.
    """

    SECTION = "shocks"

    levels: tuple[Shock, ...] = described(
        (),
        "1",
        "kinds of failure with nodes struck and share",
        "each strikes one node",
        "assumed",
        value_type="mapping",
        convert=_shocks,
    )
    counted: Literal["interruptions", "parts"] = described(
        "interruptions",
        "word",
        "what the job's MTBF counts",
        "interruptions of the job",
        "assumed",
        value_type="text",
        choices=("interruptions", "parts"),
    )

    def _cross_check(self) -> None:
        if self.counted == "parts" and any(shock.nodes == 0 for shock in self.levels):
            raise InputError(
                "world.shocks.counted = 'parts' [word] needs every level to strike a node: one that"
                " strikes none leaves no record to count."
            )

    def plain(self) -> dict[str, object]:
        """Settings that differ from their defaults, as plain Python values.

        Returns
        -------
        dict
        """
        found = super().plain()
        if self.levels:
            found["levels"] = {
                shock.name: {"nodes": shock.nodes, "share": shock.share} for shock in self.levels
            }
        return found

    def radii(self) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Blast radii and the share of the job's interruptions that each makes.

        Returns
        -------
        nodes : tuple of int
            Nodes lost at once, single nodes last [nodes].
        shares : tuple of float
            They sum to 1 [1].
        """
        nodes = [*(shock.nodes for shock in self.levels), 1]
        shares = [shock.share for shock in self.levels]
        shares.append(max(0.0, 1.0 - math.fsum(shares)))
        if self.counted == "parts":
            shares = [share / radius for share, radius in zip(shares, nodes, strict=True)]
        total = math.fsum(shares)
        return tuple(nodes), tuple(share / total for share in shares)

    @property
    def records(self) -> float:
        """Records of failed nodes per interruption, where the MTBF counts records, else 1 [1]."""
        if self.counted == "interruptions":
            return 1.0
        nodes, shares = self.radii()
        return math.fsum(radius * share for radius, share in zip(nodes, shares, strict=True))


@dataclass(frozen=True, kw_only=True)
class StragglerModel(_Section):
    """Slow nodes that a restart brings in and that slow the whole job until they are found.

    Attributes
    ----------
    share : float
        Probability that a (re)start brings in a slow node [1].
    slowdown : float
        How much longer everything takes meanwhile, saves and drains included: a step of length t
        takes ``t * (1 + slowdown)`` [1].
    find_s : float
        Up-time until it is found [s].
    swap_s : float
        Time training then stops for its replacement, with nothing lost [s].
    """

    SECTION = "stragglers"

    share: float = described(
        0.0, "1", "probability that a restart brings in a slow node", "none", "assumed", high=1.0
    )
    slowdown: float = described(
        0.1,
        "1",
        "how much longer a step takes under a straggler",
        "MegaScale: about 10 % (arXiv:2402.15627)",
        "published",
        high=1000.0,
    )
    find_s: float = described(
        3600.0, "s", "up-time until it is found", "a round hour", "assumed", low_open=True
    )
    swap_s: float = described(0.0, "s", "stop for its replacement", "none", "assumed")


@dataclass(frozen=True, kw_only=True)
class SpareModel(_Section):
    """A pool of spare nodes that failed nodes come back to when they are repaired.

    Attributes
    ----------
    nodes : int or None
        Spare nodes; left out: never a shortage [nodes].
    repair_h : float
        Mean time from a node's failure to its return to the pool [h of wall time]. Nodes that one
        failure takes come back together.
    repair : Spread
        Spread of that time.
    when_empty : {"wait", "shrink"}
        Whether a restart for which nodes are missing waits for them, or goes on without them:
        everything then takes longer in the ratio of nodes, failures included, until they are
        back. Both losses count as idle.
    least_share : float
        With "shrink": share of its nodes below which the job waits [1].
    """

    SECTION = "spares"

    nodes: int | None = described(
        None,
        "nodes",
        "spare nodes",
        "left out: never a shortage",
        "assumed",
        value_type="int",
        high=1e6,
    )
    repair_h: float = described(
        24.0, "h", "mean time until a failed node is back", "a round day", "assumed", high=1e6
    )
    repair: Spread = described(
        FIXED,
        "1",
        "spread of repair_h",
        "fixed; real ones are lognormal (Schroeder and Gibson)",
        "assumed",
        value_type="mapping",
        convert=Spread.of,
    )
    when_empty: Literal["wait", "shrink"] = described(
        "wait",
        "word",
        "what a restart does when nodes are missing",
        "most schedulers hold the job",
        "assumed",
        value_type="text",
        choices=("wait", "shrink"),
    )
    least_share: float = described(
        0.5, "1", "share of its nodes below which a shrunk job waits", "a half", "assumed", high=1.0
    )


@dataclass(frozen=True, kw_only=True)
class NodeModel(_Section):
    """How GPUs make nodes, for the sections that count in nodes.

    Attributes
    ----------
    gpus : int
        GPUs of one node [1].
    """

    SECTION = "nodes"

    gpus: int = described(
        8, "1", "GPUs of one node", "the usual server", "assumed", value_type="int", low=1, high=1e6
    )


def settings_of(section: type[_Section]) -> tuple[Parameter, ...]:
    """The settings of a section, described.

    Parameters
    ----------
    section : type
        A section's class.

    Returns
    -------
    tuple of Parameter
        Named ``world.SECTION.setting``.
    """
    return tuple(
        Parameter(name=f"world.{section.SECTION}.{field.name}", **field.metadata)
        for field in fields(cast(Any, section))
        if field.metadata
    )


@dataclass(frozen=True, kw_only=True)
class World:
    """What a job meets beyond means: one section a phenomenon, all optional.

    Attributes
    ----------
    failures : FailureModel
        Scatter of up-times between failures.
    restart : RestartModel
        Scatter of restarts, attempts that fail, hangs detected late.
    saves : SaveModel
        Saves that fail silently or hang.
    stragglers : StragglerModel
        Slow nodes until they are found.
    spares : SpareModel
        A pool of spare nodes and repairs.
    shocks : ShockModel
        Common causes that take several nodes at once.
    lemons : LemonModel
        Nodes that fail more often than others.
    nodes : NodeModel
        How GPUs make nodes.
    """

    failures: FailureModel = FailureModel()
    restart: RestartModel = RestartModel()
    saves: SaveModel = SaveModel()
    stragglers: StragglerModel = StragglerModel()
    spares: SpareModel = SpareModel()
    shocks: ShockModel = ShockModel()
    lemons: LemonModel = LemonModel()
    nodes: NodeModel = NodeModel()

    def __post_init__(self) -> None:
        for field in fields(self):
            section = cast(type[_Section], type(field.default))
            value = section.of(getattr(self, field.name), f"world.{field.name}")
            object.__setattr__(self, field.name, value)

    @classmethod
    def of(cls, value: object, name: str = "world") -> "World":
        """Read a world from a mapping of sections.

        Parameters
        ----------
        value : object
            Mapping of section names to mappings of settings, or a world.
        name : str
            Name of the parameter, for messages.

        Returns
        -------
        World

        Raises
        ------
        InputError
            One sentence for the first section or setting refused.
        """
        if isinstance(value, World):
            return value
        known = [field.name for field in fields(cls)]
        if not isinstance(value, Mapping):
            raise InputError(
                f"{name} = {shown(value)} [1] is {kind_of(value)}, not a mapping; allowed is"
                f" {ALLOWED_WORLD}."
            )
        for section in value:
            if section not in known:
                near = nearest(str(section), known)
                hint = f"the nearest known one is {near}" if near else f"known: {', '.join(known)}"
                raise InputError(f"{name}: {shown(section)} is not a section: {hint}.")
        return cls(**dict(value))

    @property
    def counts_nodes(self) -> bool:
        """Whether something in this world counts in nodes."""
        return (
            self.failures.whose == "nodes"
            or self.spares.nodes is not None
            or self.lemons.share > 0.0
        )

    @property
    def is_plain(self) -> bool:
        """Whether nothing goes beyond means: closed forms may hold."""
        return self == World()

    def plain(self) -> dict[str, object]:
        """The world as a person writes it, defaults left out.

        Returns
        -------
        dict
            Plain Python values; :meth:`of` reads it back unchanged.
        """
        found = {field.name: getattr(self, field.name).plain() for field in fields(self)}
        return {name: settings for name, settings in found.items() if settings}


ALLOWED_WORLD = "a mapping of " + ", ".join(field.name for field in fields(World))


def _world_parameters() -> Mapping[str, Parameter]:
    sections = [cast(type[_Section], type(field.default)) for field in fields(World)]
    found = [parameter for section in sections for parameter in settings_of(section)]
    return MappingProxyType({parameter.name: parameter for parameter in found})


#: Every setting of a world by dotted name, ``world.section.setting``.
WORLD_PARAMETERS: Mapping[str, Parameter] = _world_parameters()

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
    "RestartModel",
    "SaveModel",
    "Spread",
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

    def _cross_check(self) -> None:
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
    """

    failures: FailureModel = FailureModel()
    restart: RestartModel = RestartModel()
    saves: SaveModel = SaveModel()

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

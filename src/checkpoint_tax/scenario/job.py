"""The job under study: one frozen, validated set of parameters.

Every path into the study (Python, YAML, papermill, command line) ends here, so a value is
judged once and by one rule. The field list below is the only place where a parameter's unit,
range, meaning, default and source are written; :data:`PARAMETERS` is read off it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal

from checkpoint_tax.errors import InputError
from checkpoint_tax.scenario.parameters import (
    Parameter,
    described,
    shown,
    unknown_name,
)
from checkpoint_tax.scenario.world import World
from checkpoint_tax.units import HOUR_S

_LONGEST_H = 1e12
_SHORTEST_STEP_S = 1e-9
_MOST_STEPS = 1e12
_MOST_GPUS = 1e9
_LARGEST_TAX = 1e6

_RESTART_PARTS = ("detect", "reschedule", "relaunch", "reload", "warmup", "restart_unsplit")
_MTBF_AGREEMENT = 1e-3

_POST = "first post"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Parameters of one training job, validated; the defaults are the first post's job.

    Every argument is given by name. A value is converted to a plain Python number (NumPy
    scalars included) or refused; nothing is clipped. ``PARAMETERS`` lists unit, range, meaning
    and source of each.

    Parameters
    ----------
    n_gpus : int
        GPUs in the job [1].
    gpu_mtbf_h : float
        Mean up-time between failures of one GPU's share of the job [h]. After validation it
        always equals the job's MTBF times ``n_gpus``.
    job_mtbf_h : float or None
        Mean up-time between failures of the whole job [h], for those who know only that. It
        does not change with ``n_gpus``.
    step_s : float
        One undisturbed training step [s].
    save_kind : {"asynchronous", "blocking"}
        Whether a save drains in the background.
    blocking_s : float
        Time one blocking save stops training [s]. Not to be confused with ``staging_s``.
    staging_s : float
        Time one asynchronous save stops training before its drain starts [s].
    drain_s : float
        Length of one drain in undisturbed step time [s]; under the tax it lasts
        ``drain_s * (1 + drain_tax)`` of wall time.
    drain_tax : float
        Extra wall time per unit of progress while a drain is in flight [1]. Not a throughput
        loss: see :func:`drain_tax_from_throughput_loss`.
    drain_mode : {"wait", "skip", "overlap", "compressed"}
        What a save does that falls due while a drain is in flight.
    overlap_drains : int
        Most drains in flight at once, with ``drain_mode="overlap"`` [1].
    target : {"oldest", "median", "newest"}
        Version of the state that a restored checkpoint holds.
    checkpoint_interval_steps : int
        A save starts every so many steps [steps].
    detect_s, reschedule_s, relaunch_s, reload_s, warmup_s : float
        Named parts of a restart [s].
    restart_unsplit_s : float
        Restart time of which only the sum is known, added to the named parts [s].
    idle_s : float
        Wait for a spare or a repair after each failure, in which nothing can fail [s].
    failure_clock : {"uptime", "wall"}
        Whether failures strike only while training runs, or during restarts too.
    failure_shape : float
        Weibull shape of up-times, the mean held; 1 is exponential [1].
    run_steps : int
        Length of a run, for questions about its finish time [steps].
    world : World or mapping
        What scatters and goes wrong beyond means; see :class:`World`. A list of gaps between
        failures or of restart times in it sets the job's mean where that was not given.

    Raises
    ------
    InputError
        One sentence for the first value refused: parameter, value, unit, allowed range.
    """

    n_gpus: int = described(
        16384,
        "1",
        "GPUs in the job",
        f"{_POST}, table 1",
        "published",
        value_type="int",
        low=1,
        high=_MOST_GPUS,
    )
    gpu_mtbf_h: float = described(
        50000.0,
        "h",
        "mean up-time between failures of one GPU's share of the job",
        f"{_POST}, table 1: MTBF times N in every row",
        "derived",
        high=_LONGEST_H,
        low_open=True,
    )
    job_mtbf_h: float | None = described(
        None,
        "h",
        "mean up-time between failures of the whole job, if only that is known",
        "left out: gpu_mtbf_h / n_gpus",
        "assumed",
        high=_LONGEST_H,
        low_open=True,
    )
    step_s: float = described(
        7.0,
        "s",
        "one undisturbed training step",
        f"{_POST}: 7 s/step",
        "published",
        low=_SHORTEST_STEP_S,
    )
    save_kind: Literal["asynchronous", "blocking"] = described(
        "asynchronous",
        "word",
        "how a save is written",
        f"{_POST}: asynchronous saves",
        "published",
        value_type="text",
        choices=("asynchronous", "blocking"),
    )
    blocking_s: float = described(
        210.0,
        "s",
        "time one blocking save stops training",
        f"{_POST}: the value that gives its Daly intervals exactly",
        "derived",
    )
    staging_s: float = described(
        0.0,
        "s",
        "time one asynchronous save stops training before its drain starts",
        f"{_POST} charges none",
        "assumed",
    )
    drain_s: float = described(
        210.0,
        "s",
        "length of one drain in undisturbed step time",
        f"{_POST}: 30 steps of 7 s",
        "derived",
    )
    drain_tax: float = described(
        0.03,
        "1",
        "extra wall time per unit of progress while a drain is in flight",
        f"{_POST}: recovered from the tax column of its table 2",
        "derived",
        high=_LARGEST_TAX,
    )
    drain_mode: Literal["wait", "skip", "overlap", "compressed"] = described(
        "wait",
        "word",
        "what a save does that falls due during a drain",
        "what checkpoint libraries do",
        "assumed",
        value_type="text",
        choices=("wait", "skip", "overlap", "compressed"),
    )
    overlap_drains: int = described(
        2,
        "1",
        "most drains in flight at once (drain_mode overlap)",
        "smallest overlap",
        "assumed",
        value_type="int",
        low=1,
        high=1e6,
    )
    target: Literal["oldest", "median", "newest"] = described(
        "oldest",
        "word",
        "version of the state that a restored checkpoint holds",
        "the classic asynchronous snapshot",
        "assumed",
        value_type="text",
        choices=("oldest", "median", "newest"),
    )
    checkpoint_interval_steps: int = described(
        30,
        "steps",
        "a save starts every so many steps",
        f"{_POST}: one drain length",
        "assumed",
        value_type="int",
        low=1,
        high=_MOST_STEPS,
    )
    detect_s: float = described(
        90.0,
        "s",
        "restart: from the failure to its detection",
        f"{_POST}: 90 s",
        "published",
    )
    reschedule_s: float = described(
        0.0,
        "s",
        "restart: until the job has its nodes",
        f"{_POST}: inside relaunch_s",
        "assumed",
    )
    relaunch_s: float = described(
        300.0,
        "s",
        "restart: relaunch of processes and collectives",
        f"{_POST}: 300 s, reload and warm-up included",
        "published",
    )
    reload_s: float = described(
        0.0,
        "s",
        "restart: reading the checkpoint",
        f"{_POST}: inside relaunch_s",
        "assumed",
    )
    warmup_s: float = described(
        0.0,
        "s",
        "restart: until steps run at full speed",
        f"{_POST}: inside relaunch_s",
        "assumed",
    )
    restart_unsplit_s: float = described(
        0.0,
        "s",
        "restart: time of which only the sum is known",
        f"{_POST} names its parts",
        "assumed",
    )
    idle_s: float = described(
        0.0,
        "s",
        "wait for a spare or a repair after each failure",
        f"{_POST} has none",
        "assumed",
    )
    failure_clock: Literal["uptime", "wall"] = described(
        "uptime",
        "word",
        "when failures can strike",
        "convention of both posts",
        "assumed",
        value_type="text",
        choices=("uptime", "wall"),
    )
    failure_shape: float = described(
        1.0,
        "1",
        "Weibull shape of up-times; 1 is exponential",
        f"{_POST}: independent exponential failures",
        "published",
        low=0.2,
        high=5.0,
    )
    run_steps: int = described(
        100000,
        "steps",
        "length of a run, for its finish time",
        "a round figure",
        "assumed",
        value_type="int",
        low=1,
        high=_MOST_STEPS,
    )
    world: World = described(
        World(),
        "1",
        "what scatters and goes wrong beyond means, by section",
        f"{_POST}: fixed restarts, sound saves",
        "assumed",
        value_type="mapping",
        choices=tuple(entry.name for entry in fields(World)),
        convert=World.of,
    )

    def __new__(cls, **given: object) -> "Scenario":
        """Note which values were given, since a default must never contradict one of them."""
        made = super().__new__(cls)
        object.__setattr__(made, "_given", frozenset(given))
        return made

    def __post_init__(self) -> None:
        """Check every value, then the values against each other."""
        for parameter in PARAMETERS.values():
            value = parameter.check(getattr(self, parameter.name))
            object.__setattr__(self, parameter.name, value)
        self._settle_samples()
        self._settle_mtbf()
        self._cross_check()

    def _settle_samples(self) -> None:
        """Let lists of samples set the means that were not given."""
        gaps = self.world.failures.gaps
        listed = gaps is not None and gaps.kind == "samples"
        if gaps is not None and listed and not {"gpu_mtbf_h", "job_mtbf_h"} & self._explicit():
            object.__setattr__(self, "job_mtbf_h", gaps.sample_mean)
        for part in _RESTART_PARTS:
            spread = getattr(self.world.restart, part)
            if spread.kind == "samples" and f"{part}_s" not in self._explicit():
                object.__setattr__(self, f"{part}_s", spread.sample_mean)

    def _settle_mtbf(self) -> None:
        """Make ``gpu_mtbf_h`` and ``job_mtbf_h`` say the same thing."""
        if self.job_mtbf_h is None:
            return
        implied = self.job_mtbf_h * self.n_gpus
        if "gpu_mtbf_h" in self._explicit():
            if not math.isclose(self.gpu_mtbf_h, implied, rel_tol=_MTBF_AGREEMENT):
                raise PARAMETERS["job_mtbf_h"].refusal(
                    self.job_mtbf_h,
                    f"contradicts gpu_mtbf_h = {self.gpu_mtbf_h:g} [h], which over"
                    f" {self.n_gpus} GPUs gives {self.gpu_mtbf_h / self.n_gpus:.6g} h"
                    " (give one of the two)",
                )
            return
        if implied > _LONGEST_H:
            raise PARAMETERS["job_mtbf_h"].refusal(
                self.job_mtbf_h, f"is too large for {self.n_gpus} GPUs"
            )
        object.__setattr__(self, "gpu_mtbf_h", implied)

    def _cross_check(self) -> None:
        if self.job_mtbf_s < self.step_s:
            known = "gpu_mtbf_h" if self.job_mtbf_h is None else "job_mtbf_h"
            raise PARAMETERS[known].refusal(
                getattr(self, known),
                f"makes the job fail every {self.job_mtbf_s:.4g} s, within one step of"
                f" {self.step_s:g} s (is the unit right? hours are expected)",
            )
        if self.drain_mode == "overlap" and self.target != "oldest":
            raise PARAMETERS["target"].refusal(
                self.target,
                "has no meaning with drain_mode = 'overlap', whose drains share no single window"
                " (use oldest)",
            )
        if self.failure_clock == "wall" and self.failure_shape != 1.0:
            raise PARAMETERS["failure_shape"].refusal(
                self.failure_shape, "needs failure_clock = 'uptime' (the wall clock requires 1)"
            )
        self._check_world()

    def _check_world(self) -> None:
        world, failures = self.world, self.world.failures
        gaps = failures.gaps
        if gaps is not None and self.failure_clock == "wall" and gaps.kind != "exponential":
            raise InputError(
                f"world.failures.gaps = {shown(gaps.plain())} [1] needs failure_clock = 'uptime'"
                " (the wall clock requires exponential gaps)."
            )
        if gaps is not None and self.failure_shape != 1.0:
            raise InputError(
                f"world.failures.gaps = {shown(gaps.plain())} [1] contradicts failure_shape ="
                f" {self.failure_shape:g} [1] (give one of the two)."
            )
        exponential = self.failure_shape == 1.0 and (gaps is None or gaps.kind == "exponential")
        if world.lemons.share > 0.0 and (failures.whose == "nodes" or not exponential):
            raise InputError(
                f"world.lemons.share = {world.lemons.share:g} [1] needs exponential gaps of the"
                " job: lemons set its nodes' rates themselves."
            )
        if world.counts_nodes and self.n_gpus % world.nodes.gpus:
            raise InputError(
                f"world.nodes.gpus = {world.nodes.gpus} [1] does not divide n_gpus ="
                f" {self.n_gpus}; allowed is a divisor, since this world counts whole nodes."
            )
        widest = max((shock.nodes for shock in world.shocks.levels), default=0)
        if widest > self.n_nodes:
            raise InputError(
                f"world.shocks.levels: a blast radius of {widest} [nodes] is larger than the job;"
                f" allowed is at most {self.n_nodes} nodes."
            )

    def _explicit(self) -> frozenset[str]:
        given: frozenset[str] = self.__dict__["_given"]
        return given

    @property
    def job_mtbf_s(self) -> float:
        """Mean up-time between failures of the whole job [s]."""
        if self.job_mtbf_h is not None:
            return self.job_mtbf_h * HOUR_S
        return self.gpu_mtbf_h * HOUR_S / self.n_gpus

    @property
    def n_nodes(self) -> int:
        """Nodes of the job, for worlds that count in nodes [1]."""
        return max(1, self.n_gpus // self.world.nodes.gpus)

    @property
    def restart_parts(self) -> dict[str, float]:
        """Parts of one restart [s] by name; ``restart_unsplit`` holds what has no name."""
        return {part: getattr(self, f"{part}_s") for part in _RESTART_PARTS}

    @property
    def restart_s(self) -> float:
        """Failure to first recomputed step [s], without ``idle_s``."""
        return math.fsum(self.restart_parts.values())

    @property
    def drain_steps(self) -> float:
        """Steps of progress made under one drain; not rounded [steps]."""
        return self.drain_s / self.step_s

    @property
    def target_fraction(self) -> float:
        """How far into its drain the restored version lies: 0, 1/2 or 1 [1]."""
        return {"oldest": 0.0, "median": 0.5, "newest": 1.0}[self.target]

    @property
    def blocking_cost_s(self) -> float:
        """Time one save stops training [s], for the kind of save the job uses."""
        return self.blocking_s if self.save_kind == "blocking" else self.staging_s

    @property
    def is_exponential(self) -> bool:
        """Whether failures are exponential and nothing goes beyond means: closed forms hold."""
        return self.failure_shape == 1.0 and self.world.is_plain

    def as_dict(self) -> dict[str, Any]:
        """Every parameter by name, in the order of the field list.

        Returns
        -------
        dict
            Plain Python values; :func:`scenario_from_mapping` reads it back unchanged.
        """
        return {**{name: getattr(self, name) for name in PARAMETERS}, "world": self.world.plain()}

    def replace(self, **changes: object) -> "Scenario":
        """A copy with some values changed, validated like a new one.

        Defaults stay defaults: only what was given before and what changes now counts as given.
        Changing one of ``gpu_mtbf_h`` and ``job_mtbf_h`` drops the other.

        Parameters
        ----------
        **changes
            Parameters by name.

        Returns
        -------
        Scenario

        Raises
        ------
        InputError
            For an unknown name or a refused value.
        """
        kept = {name: getattr(self, name) for name in PARAMETERS if name in self._explicit()}
        if ("gpu_mtbf_h" in changes) != ("job_mtbf_h" in changes):
            kept.pop("gpu_mtbf_h", None)
            kept.pop("job_mtbf_h", None)
        return scenario_from_mapping({**kept, **changes})


def _described() -> Mapping[str, Parameter]:
    return MappingProxyType(
        {entry.name: Parameter(name=entry.name, **entry.metadata) for entry in fields(Scenario)}
    )


#: Every parameter by name, in the order of the field list of :class:`Scenario`.
PARAMETERS: Mapping[str, Parameter] = _described()


def scenario_from_mapping(values: Mapping[str, object]) -> Scenario:
    """Build a scenario from a mapping of parameter names.

    Parameters
    ----------
    values : mapping
        Parameter name to value. What is missing takes its default.

    Returns
    -------
    Scenario

    Raises
    ------
    InputError
        For something that is no mapping, an unknown name (with the nearest known one) or a
        refused value.
    """
    if not isinstance(values, Mapping):
        raise InputError(
            f"parameters must be a mapping of names to values, but {shown(values)} was given."
        )
    for name in values:
        if name not in PARAMETERS:
            raise unknown_name(name, PARAMETERS)
    # A bad value reaches the dataclass as it is; __post_init__ is the judge of its type.
    given: dict[str, Any] = dict(values)
    return Scenario(**given)


def drain_tax_from_throughput_loss(throughput_loss: float) -> float:
    """Convert a relative loss of throughput under a drain into a drain tax.

    A loss x stretches a step from t to t / (1 - x), which is a tax a = x / (1 - x).

    Parameters
    ----------
    throughput_loss : float
        Share of throughput lost while a drain is in flight [1], at least 0 and below 1.

    Returns
    -------
    float
        Extra wall time per unit of progress [1].

    Raises
    ------
    InputError
        If the loss lies outside its range.
    """
    rule = Parameter(
        name="throughput_loss",
        type="float",
        unit="1",
        meaning="share of throughput lost under a drain",
        default=0.0,
        default_source="none",
        kind="assumed",
        low=0.0,
        high=math.nextafter(1.0, 0.0),
    )
    loss = rule.check(throughput_loss)
    assert isinstance(loss, float)
    return loss / (1.0 - loss)

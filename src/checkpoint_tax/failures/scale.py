"""An MTBF known at one size, carried to another by a stated rule.

A rule is an assumption, so the result always names it and the anchor that it starts from.
Anchors that disagree are shown side by side; an average of them would be the MTBF of no job.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from checkpoint_tax.errors import InputError
from checkpoint_tax.resources import data_path
from checkpoint_tax.units import DAY_S, HOUR_S, duration_text

#: Two anchors disagree if neither interval reaches the other; for anchors without an interval,
#: if their values differ by more than this factor.
DISAGREEING_FACTOR = 1.5


@dataclass(frozen=True)
class Anchor:
    """A measured or published MTBF.

    Attributes
    ----------
    name : str
        Short name.
    mtbf_s : float
        Of the job [s].
    n_gpus : float
        Size of the job.
    source : str
        Where it is from.
    tag : str
        How well it is known: V read in the source, S quoted, D derived; empty for one's own.
    low_s, high_s : float or None
        95 % interval [s].
    """

    name: str
    mtbf_s: float
    n_gpus: float
    source: str
    tag: str = ""
    low_s: float | None = None
    high_s: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("mtbf_s", self.mtbf_s), ("n_gpus", self.n_gpus)):
            if not 0.0 < value < math.inf:
                raise InputError(f"{name} = {value:g} is refused; allowed: finite, above 0.")

    def __str__(self) -> str:
        tag = f", tag {self.tag}" if self.tag else ""
        return (
            f"{self.name}: {duration_text(self.mtbf_s)} at {self.n_gpus:,.0f} GPUs"
            f" ({self.source}{tag})"
        )


@dataclass(frozen=True)
class Topology:
    """Shares of the failures that parts of each size cause.

    Attributes
    ----------
    levels : dict of str to tuple of float and float
        Name of a level to the number of GPUs that one part serves and the share of failures, at
        the anchor's size, that its parts cause. Shares sum to 1. A part that serves every job,
        such as a file system, has an infinite number of GPUs.
    """

    levels: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.levels:
            raise InputError("a topology needs at least one level.")
        for name, (size, share) in self.levels.items():
            if not size >= 1.0:
                raise InputError(f"{name}: {size:g} GPUs a part is refused; allowed: at least 1.")
            if not 0.0 <= share <= 1.0:
                raise InputError(f"{name}: share = {share:g} [1] is refused; allowed: 0 to 1.")
        total = math.fsum(share for _, share in self.levels.values())
        if abs(total - 1.0) > 1e-6:
            raise InputError(f"the shares of a topology sum to {total:g}, but must sum to 1.")

    def relative_rate(self, n_gpus: float, anchor_gpus: float) -> float:
        """Failure rate at one size over that at the anchor's.

        Parameters
        ----------
        n_gpus, anchor_gpus : float
            Sizes of the two jobs.

        Returns
        -------
        float
            Sum over levels of the share times the ratio of the numbers of parts, each rounded
            up to whole parts.
        """
        total = 0.0
        for size, share in self.levels.values():
            if math.isinf(size):
                total += share
            else:
                total += share * math.ceil(n_gpus / size) / math.ceil(anchor_gpus / size)
        return total


@dataclass(frozen=True)
class ScaledMtbf:
    """An MTBF at another size, with the anchor and the rule that it follows from.

    Attributes
    ----------
    n_gpus : float
        Size.
    mtbf_s : float
        There [s].
    low_s, high_s : float or None
        The anchor's 95 % interval carried along [s]; the rule's own error is not in it.
    anchor : Anchor
        Where it starts.
    rule : str
        ``"parts"`` or ``"topology"``.
    """

    n_gpus: float
    mtbf_s: float
    low_s: float | None
    high_s: float | None
    anchor: Anchor
    rule: str

    def __str__(self) -> str:
        return (
            f"{duration_text(self.mtbf_s)} at {self.n_gpus:,.0f} GPUs, by the rule of {self.rule}"
            f" from {self.anchor}"
        )


def scale_mtbf(anchor: Anchor, n_gpus: float, topology: Topology | None = None) -> ScaledMtbf:
    """Carry an MTBF to another size.

    Parameters
    ----------
    anchor : Anchor
        What is known.
    n_gpus : float
        Size asked for, at least 1.
    topology : Topology, optional
        By default every failure is of a part that each GPU has one of: M(N) = M0 N0 / N.

    Returns
    -------
    ScaledMtbf

    Raises
    ------
    InputError
        For a size below 1.
    """
    if not 1.0 <= n_gpus < math.inf:
        raise InputError(f"n_gpus = {n_gpus:g} [1] is refused; allowed: finite, at least 1.")
    if topology is None:
        factor = anchor.n_gpus / n_gpus
    else:
        factor = 1.0 / topology.relative_rate(n_gpus, anchor.n_gpus)
    return ScaledMtbf(
        n_gpus=n_gpus,
        mtbf_s=anchor.mtbf_s * factor,
        low_s=None if anchor.low_s is None else anchor.low_s * factor,
        high_s=None if anchor.high_s is None else anchor.high_s * factor,
        anchor=anchor,
        rule="parts" if topology is None else "topology",
    )


@dataclass(frozen=True)
class Comparison:
    """Anchors carried to one size, and whether they agree there.

    Attributes
    ----------
    n_gpus : float
        Size.
    scaled : tuple of ScaledMtbf
        One for each anchor, the shortest MTBF first.
    agree : bool
        Whether every pair agrees.
    sentence : str
        What to tell; for anchors that disagree, which two are furthest apart and by how much.
    """

    n_gpus: float
    scaled: tuple[ScaledMtbf, ...]
    agree: bool
    sentence: str


def compare_anchors(
    anchors: Sequence[Anchor], n_gpus: float, topology: Topology | None = None
) -> Comparison:
    """Carry several anchors to one size; no average is taken.

    Parameters
    ----------
    anchors : sequence of Anchor
        At least one.
    n_gpus : float
        Size asked for.
    topology : Topology, optional
        As in `scale_mtbf`.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        Without an anchor, or for a size below 1.
    """
    if not anchors:
        raise InputError("comparing anchors needs at least one.")
    scaled = sorted((scale_mtbf(a, n_gpus, topology) for a in anchors), key=lambda s: s.mtbf_s)
    agree = all(_agree(one, other) for i, one in enumerate(scaled) for other in scaled[i + 1 :])
    first, last = scaled[0], scaled[-1]
    if len(scaled) == 1:
        sentence = f"{first}."
    elif agree:
        sentence = f"{len(scaled)} anchors agree: from {first} to {last}."
    else:
        sentence = (
            f"anchors disagree by a factor of {last.mtbf_s / first.mtbf_s:.3g}: {first}, but"
            f" {last}. No average is taken: choose one and say which."
        )
    return Comparison(n_gpus, tuple(scaled), agree, sentence)


def _agree(one: ScaledMtbf, other: ScaledMtbf) -> bool:
    ends = [(s.low_s or s.mtbf_s, s.high_s or s.mtbf_s) for s in (one, other)]
    if ends[0][0] <= ends[1][1] and ends[1][0] <= ends[0][1]:
        return True
    if all(s.low_s is not None for s in (one, other)):
        return False
    ratio = max(one.mtbf_s, other.mtbf_s) / min(one.mtbf_s, other.mtbf_s)
    return ratio <= DISAGREEING_FACTOR


_GPUS_PER_NODE = 8.0


def published_anchors() -> dict[str, Anchor]:
    """Anchors among the study's sourced facts.

    Returns
    -------
    dict of str to Anchor
        Llama 3, the measured and the derived value of Meta's research cluster, GLM-130B, BLOOM
        and OPT, each with its tag.

    Raises
    ------
    InputError
        If the table of facts lacks one of the numbers used here.
    """
    with data_path("facts.csv").open(encoding="utf-8", newline="") as lines:
        facts = {row["key"]: row for row in csv.DictReader(lines)}

    def number(key: str, column: str = "value") -> float:
        try:
            return float(facts[key][column])
        except (KeyError, ValueError):
            raise InputError(f"facts.csv lacks the {column} of {key}.") from None

    def anchor(
        name: str, key: str, mtbf_s: float, n_gpus: float,
        ends_s: tuple[float, float] | tuple[None, None] = (None, None), tag: str = "",
    ) -> Anchor:  # fmt: skip
        row = facts[key]
        return Anchor(name, mtbf_s, n_gpus, row["source"], tag or row["tag"], *ends_s)

    opt_s = number("opt_days") * DAY_S / number("opt_restarts")
    return {
        "llama3": anchor(
            "Llama 3 405B", "llama3_mtbf_h", number("llama3_mtbf_h") * HOUR_S,
            number("llama3_gpus"),
            (number("llama3_mtbf_h", "low") * HOUR_S, number("llama3_mtbf_h", "high") * HOUR_S),
        ),
        "rsc1_measured": anchor(
            "RSC-1, measured", "rsc_measured_mtbf_1024_h",
            number("rsc_measured_mtbf_1024_h") * HOUR_S, 1024.0,
        ),
        "rsc1_rate": anchor(
            "RSC-1, from its failure rate", "rsc1_mtbf_16384_h",
            number("rsc1_mtbf_16384_h") * HOUR_S, 16384.0,
        ),
        "glm130": anchor(
            "GLM-130B", "glm130_mtbf_h", number("glm130_mtbf_h") * HOUR_S,
            number("glm130_nodes") * _GPUS_PER_NODE,
            (number("glm130_mtbf_h", "low") * HOUR_S, number("glm130_mtbf_h", "high") * HOUR_S),
        ),
        "bloom": anchor(
            "BLOOM-176B", "bloom_days_per_failure", number("bloom_days_per_failure") * DAY_S,
            number("bloom_gpus"),
        ),
        "opt": anchor("OPT-175B, restarts of every cause", "opt_restarts", opt_s,
                      number("opt_gpus"), tag="D"),
    }  # fmt: skip

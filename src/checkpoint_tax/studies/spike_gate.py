"""The spike gate: the first post's table 4, what its threshold means, and rollback without one."""

from __future__ import annotations

import functools
from typing import Any

import altair
import numpy as np
import pandas as pd

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger import Computed, ledger_frame
from checkpoint_tax.ledger.tables import post_table
from checkpoint_tax.reconcile.gate import (
    UNIT_FP32,
    compounded_share_error,
    share_of_tolerance,
    tolerance_of_share,
)
from checkpoint_tax.reconcile.traffic import slices
from checkpoint_tax.reconcile.window import best_target, targets
from checkpoint_tax.report.gate_charts import spike_chart
from checkpoint_tax.report.prose import Prose
from checkpoint_tax.report.tables import Column, Table, number, table
from checkpoint_tax.report.verdicts import VERDICT_CLASSES, verdict_counts, verdict_table
from checkpoint_tax.studies import spike_claims
from checkpoint_tax.studies.spike_claims import (
    NEAREST_SEED,
    SPIKES,
    measured,
    plain_bound,
    shares_over_warmups,
    spiked,
)
from checkpoint_tax.units import PER_CENT

__all__ = [
    "CHAPTER",
    "answer",
    "claims",
    "conclusions_table",
    "correction_frame",
    "correction_table",
    "error_chart",
    "exact_median_ratio",
    "formula_table",
    "gated_frame",
    "gated_table",
    "resumed_table",
    "spike_frame",
    "spike_table",
    "tolerance_frame",
    "tolerance_table",
]

CHAPTER = "spike-gate"

_SHARES = (0.5, 0.68, 0.9, 0.99, 0.999)
_BACK = (1, 4, 8, 15)
_DRAWN = tuple(float(10 ** (e / 4)) for e in range(17))
_WAYS = {"torn": "torn", "newest": "newest", "median": "median", "oldest": "oldest"}


@functools.cache
def _claims() -> dict[str, Computed]:
    return spike_claims.claims()


def claims() -> dict[str, Computed]:
    """What this chapter recomputed for each of its claims, for the posts' own parameters.

    Returns
    -------
    dict of str to Computed
        By claim id, in the claims' units.
    """
    return dict(_claims())


@functools.cache
def _ledger() -> pd.DataFrame:
    frame = ledger_frame(_claims())
    return frame[frame["chapter"] == CHAPTER].set_index("claim_id", drop=False)


def _checked_seed(seed: int) -> None:
    if seed < 0:
        raise InputError(f"seed = {seed} is refused; allowed: a whole number, at least 0")


def _checked_shards(shards: int) -> None:
    if not 2 <= shards <= 1024:
        raise InputError(f"shards = {shards} is refused; allowed: 2 to 1024 shards")


# Table 4


def spike_frame(seed: int = NEAREST_SEED) -> pd.DataFrame:
    """Every row of table 4: printed, recomputed, and what the post does not print.

    Parameters
    ----------
    seed : int
        Of weights and gradients; verdicts are those of the nearest draw.

    Returns
    -------
    pandas.DataFrame
        One row a spike.
    """
    _checked_seed(seed)
    printed = {row["spike_factor"]: row for row in post_table(4).to_dict("records")}
    rows = []
    for found in spiked(seed):
        name = f"tax.t4.x{found.spike:.0f}"
        low, middle, high = found.error_quantiles["v"]
        rows.append(
            {
                "spike": found.spike,
                "printed_share": printed[found.spike]["squared_gradient_share"],
                "share": found.share,
                "share_low": shares_over_warmups(seed)[found.spike][0],
                "share_high": shares_over_warmups(seed)[found.spike][1],
                "share_verdict": _ledger().loc[f"{name}.ratio", "verdict"],
                "printed_error": printed[found.spike]["second_moment_relative_error"],
                "error": middle,
                "error_low": low,
                "error_high": high,
                "error_verdict": _ledger().loc[f"{name}.err", "verdict"],
                "bound": found.plain_bound,
                "first_moment": found.error["m"],
                "gated": found.gated_fraction,
            }
        )
    return pd.DataFrame(rows)


def _science(value: float) -> str:
    return "0" if value == 0.0 else f"{value:.1e}"


def spike_table(seed: int = NEAREST_SEED) -> Table:
    """Table 4, recomputed.

    Parameters
    ----------
    seed : int
        Of weights and gradients.

    Returns
    -------
    Table
    """
    frame = spike_frame(seed)
    shown = frame.assign(
        **{
            name: [_science(value) for value in frame[name]]
            for name in ("printed_share", "printed_error", "error", "bound", "first_moment")
        },
        share=[f"{value:.2e}" for value in frame["share"]],
        share_span=[
            f"{low:.1e} to {high:.1e}"
            for low, high in zip(frame["share_low"], frame["share_high"], strict=True)
        ],
        error_span=[
            f"{_science(low)} to {_science(high)}"
            for low, high in zip(frame["error_low"], frame["error_high"], strict=True)
        ],
    )
    return table(
        shown,
        {
            "spike": Column("spike", "×", 0),
            "printed_share": Column("share: printed"),
            "share": Column("recomputed", below="share_span"),
            "share_verdict": Column("verdict"),
            "printed_error": Column("error of v: printed"),
            "error": Column("median element", below="error_span"),
            "error_verdict": Column("verdict"),
            "bound": Column("u / (1 − share)"),
            "first_moment": Column("error of m"),
            "gated": Column("elements above 0.9", "%", 1, scale=1.0 / PER_CENT),
        },
        name="table-4",
        caption="One step undone whose gradient was enlarged. In small print the share over "
        "warm-ups of 5 to 1,000 steps and the error over 95 % of the elements: the post's single "
        "figures are such elements. The first moment loses digits too, which the post's gate does "
        "not watch.",
        classes={"share_verdict": VERDICT_CLASSES, "error_verdict": VERDICT_CLASSES},
    )


def error_chart(seed: int = NEAREST_SEED) -> altair.LayerChart:
    """Errors of both moments against the size of the spike.

    Parameters
    ----------
    seed : int
        Of weights and gradients.

    Returns
    -------
    altair.LayerChart
    """
    _checked_seed(seed)
    found = spiked(seed, _DRAWN)
    names = {"v": "second moment", "m": "first moment", "p": "weights"}
    points = pd.DataFrame(
        {"array": text, "spike": row.spike, "error": row.error[letter]}
        for letter, text in names.items()
        for row in found
    )
    bound = pd.DataFrame(
        {"spike": row.spike, "error": plain_bound(row.spike, found[0].share)} for row in found
    )
    largest = found[-1]
    return spike_chart(
        points,
        bound,
        caption="Undoing a spike loses digits of the second moment with the square of the spike, "
        f"as u / (1 − share) says (dashed), and of the first in proportion: at {largest.spike:,.0f}"
        f" times {largest.error['v']:.0e} and {largest.error['m']:.0e}. The weights lose none.",
        description="Relative L2 error of both moments and the weights after one step back against "
        "the factor on the gradient, both logarithmic. The second moment rises with slope two "
        "below a dashed bound, the first moment with slope one, the weights stay level.",
    )


# The gate as a tolerance


def tolerance_frame(tolerance: float = 1e-6) -> pd.DataFrame:
    """What thresholds on the share stand for.

    Parameters
    ----------
    tolerance : float
        A relative error of v to add the threshold of [1].

    Returns
    -------
    pandas.DataFrame
        ``share``, ``one_step`` (error of v let pass in one step) and ``back N`` for the error
        compounded over N steps of that share.
    """
    shares = sorted({*_SHARES, share_of_tolerance(tolerance)})
    rows = []
    for share in shares:
        if share < 0.0:
            continue
        row: dict[str, Any] = {"share": share, "one_step": float(tolerance_of_share(share))}
        for steps in _BACK:
            row[f"back {steps}"] = float(compounded_share_error([share] * steps))
        rows.append(row)
    return pd.DataFrame(rows)


def tolerance_table(tolerance: float = 1e-6) -> Table:
    """What thresholds on the share stand for.

    Parameters
    ----------
    tolerance : float
        A relative error of v to add the threshold of [1].

    Returns
    -------
    Table
    """
    frame = tolerance_frame(tolerance)
    columns = {f"back {steps}": f"{steps} steps" for steps in _BACK[1:]}
    shown = frame.assign(
        text=[f"{share:.4g}" for share in frame["share"]],
        one_step=[_science(value) for value in frame["one_step"]],
        **{
            key: ["nothing left" if v >= 1.0 else _science(v) for v in frame[key]]
            for key in columns
        },
    )
    own = share_of_tolerance(tolerance)
    of_own = (
        f"A tolerance of {tolerance:.1e} is a threshold of {own:.4g}"
        if own >= 0.0
        else f"No step back meets a tolerance of {tolerance:.1e}"
    )
    return table(
        shown,
        {
            "text": Column("share allowed"),
            "one_step": Column("error of v in one step"),
            **{key: Column(f"in {text} of that share") for key, text in columns.items()},
        },
        name="tolerances",
        caption=f"A threshold on the share is a tolerance: the post's 0.9 lets "
        f"{float(tolerance_of_share(0.9)):.1e} pass in one step, and errors multiply over steps. "
        f"{of_own}.",
    )


# Constrained targets


def gated_frame(shards: int = 16) -> pd.DataFrame:
    """Cheapest target of a window through one of whose steps no shard may be rolled back.

    Parameters
    ----------
    shards : int
        Equal shards captured at as many consecutive steps.

    Returns
    -------
    pandas.DataFrame
        ``spike_at`` (step of the window, 1 to shards; the first undoes nothing), ``target``,
        ``traffic``, ``age_steps`` and ``stuck``: shards that forward replay cannot bring to the
        median.
    """
    _checked_shards(shards)
    versions = list(range(1, shards + 1))
    named = targets(versions)
    rows = []
    for spike_at in versions:
        # A shard captured at or after the spike's step may go back to that version, not past it.
        floors = [spike_at if version >= spike_at else version for version in versions]
        target = best_target(versions, floors=floors)
        rows.append(
            {
                "spike_at": spike_at,
                "target": target,
                "traffic": slices(versions, target),
                "age_steps": named.newest - target,
                "stuck": sum(v > named.median for v in versions if v >= spike_at)
                if spike_at > named.median
                else 0,
            }
        )
    return pd.DataFrame(rows)


def gated_table(shards: int = 16) -> Table:
    """Cheapest target of a window by where a spike lies in it.

    Parameters
    ----------
    shards : int
        Equal shards captured at as many consecutive steps.

    Returns
    -------
    Table
    """
    frame = gated_frame(shards)
    changes = frame.groupby("target", sort=True).agg(
        first=("spike_at", "min"),
        last=("spike_at", "max"),
        traffic=("traffic", "first"),
        age_steps=("age_steps", "first"),
        stuck=("stuck", "max"),
    )
    shown = changes.reset_index()
    shown["where"] = [
        f"{a}" if a == b else f"{a} to {b}"
        for a, b in zip(shown["first"], shown["last"], strict=True)
    ]
    return table(
        shown,
        {
            "where": Column("spike at step of the window"),
            "target": Column("cheapest allowed version", digits=0),
            "traffic": Column("traffic", "×", 2),
            "age_steps": Column("age", "steps", 0),
            "stuck": Column("shards forward replay cannot bring to the median", digits=0),
        },
        name="gated-targets",
        caption=f"{shards} shards captured at as many steps, and a spike that no shard may be "
        "rolled back through. Up to the median nothing changes; beyond it the target moves up with "
        "the spike, to the newest version at worst.",
    )


# Measured with PyTorch


def correction_frame() -> pd.DataFrame:
    """Bits that make one step back exact, by spike, as measured.

    Returns
    -------
    pandas.DataFrame
        ``spike``, ``bits``, ``exact``, and ``p``, ``m``, ``v``: errors without corrections.
    """
    return pd.DataFrame(
        {
            "spike": row["spike"],
            "bits": row["bits"],
            "exact": row["exact"],
            **row["uncorrected"],
        }
        for row in measured()["spikes"]
    )


def exact_median_ratio(shards: int = 16, gradient_bytes: int = 4) -> float:
    """Traffic to an exact median, corrections included, over the traffic to the newest version.

    Parameters
    ----------
    shards : int
        Equal shards captured at as many consecutive steps.
    gradient_bytes : int
        Bytes of one gradient element.

    Returns
    -------
    float
        Only shards captured after the median need corrections.
    """
    _checked_shards(shards)
    if not 1 <= gradient_bytes <= 64:
        raise InputError(f"gradient_bytes = {gradient_bytes} B is refused; allowed: 1 to 64 bytes")
    versions = range(shards)
    named = targets(versions)
    late = sum(max(0, version - named.median) for version in versions) / shards
    extra = measured()["window"]["correction_bits"] / (8.0 * gradient_bytes)
    return (slices(versions, named.median) + late * extra) / slices(versions, named.newest)


def correction_table(shards: int = 16, gradient_bytes: int = 4) -> Table:
    """Bits that make one step back exact.

    Parameters
    ----------
    shards : int
        Equal shards captured at as many consecutive steps.
    gradient_bytes : int
        Bytes of one gradient element.

    Returns
    -------
    Table
    """
    frame = correction_frame()
    shown = frame.assign(
        result=["every bit" if exact else "not exact" for exact in frame["exact"]],
        **{name: [_science(value) for value in frame[name]] for name in "pmv"},
    )
    window = measured()["window"]
    machine = measured()["machine"]
    return table(
        shown,
        {
            "spike": Column("spike", "×", 0),
            "p": Column("without: error of p"),
            "m": Column("m"),
            "v": Column("v"),
            "bits": Column("corrections", "bits", 2),
            "result": Column("with corrections"),
        },
        name="corrections",
        caption=f"One step of PyTorch's AdamW undone (torch {machine['torch']}, "
        f"{machine['processor']}, {machine['capability']}). In a real window of "
        f"{window['shards']} shards of a transformer of {window['parameters']:,} parameters "
        f"corrections take {window['correction_bits']:.2f} bits an element and step, so that an "
        f"exact median of {shards} shards ships {exact_median_ratio(shards, gradient_bytes):.3f} "
        f"of the traffic to the newest version ({gradient_bytes} B gradients).",
    )


def resumed_table() -> Table:
    """What became of real runs resumed from a torn and from reconciled states.

    Returns
    -------
    Table
    """
    window = measured()["window"]
    rows = []
    for kind, text in (("plain", "inverse alone"), ("corrected", "with corrections")):
        for way in _WAYS:
            if kind == "corrected" and way in ("torn", "newest"):
                continue
            found = window[kind][way]
            rows.append(
                {
                    "way": _WAYS[way],
                    "rollback": text if way in ("median", "oldest") else "none needed",
                    "traffic": found["traffic"],
                    "start": ", ".join(
                        f"{name} {_science(found['start_error'][name])}" for name in "pmv"
                    ),
                    "end": _science(found["end_error"]),
                    "same": "every bit" if found["same_at_end"] else "strays",
                }
            )
    torn = window["plain"]["torn"]["end_error"]
    return table(
        pd.DataFrame(rows),
        {
            "way": Column("resumed from"),
            "rollback": Column("rollback"),
            "traffic": Column("traffic", "×", 2),
            "start": Column("error at the start"),
            "end": Column("weights off 60 steps later"),
            "same": Column("run"),
        },
        name="resumed",
        caption=f"A transformer trained by PyTorch, resumed on the same data. The torn state's run "
        f"is off by {torn:.1e} after 60 steps; newest, and median and oldest with corrections, "
        "follow the uninterrupted run bit for bit.",
    )


def formula_table() -> Table:
    """How far the post's own formula is from PyTorch's optimizer.

    Returns
    -------
    Table
    """
    names = {
        "post": "the post's formula",
        "ordered": "PyTorch's order, each operation rounded",
        "replay": "replay as this machine's PyTorch",
    }
    rows = []
    for implementation, ways in measured()["formula"].items():
        for way, text in names.items():
            found = ways[way]
            rows.append(
                {
                    "implementation": implementation,
                    "way": text,
                    "differing": ", ".join(
                        f"{name} {100 * found['differing'][name]:.1f} %" for name in "pmv"
                    ),
                    "relative": ", ".join(
                        f"{name} {_science(found['relative_l2'][name])}" for name in "pmv"
                    ),
                    "same": "every bit" if found["bitwise"] else "no",
                }
            )
    settings = measured()["settings"]
    return table(
        pd.DataFrame(rows),
        {
            "implementation": Column("AdamW"),
            "way": Column("against"),
            "differing": Column("elements that differ"),
            "relative": Column("relative L2"),
            "same": Column("equal"),
        },
        name="formula",
        caption=f"{settings['size']:,} parameters after {settings['steps']} steps on the same "
        "gradients. The post's 0.0 is that of its formula against itself: against the library's "
        "optimizer almost every weight differs, by little.",
    )


# Conclusions and answer


def conclusions_table() -> Table:
    """What the first post concludes about spikes and rollback, with verdicts and conditions.

    Returns
    -------
    Table
    """
    own = _ledger()
    texts = own[own["kind"] == "conclusion"]
    return verdict_table(
        texts.reset_index(drop=True),
        name="conclusions",
        caption=f"The conclusions: {verdict_counts(texts)}. With the cells of table 4 and the "
        f"threshold the chapter's {len(own)} claims are: {verdict_counts(own)}.",
    )


def answer(shards: int = 16, tolerance: float = 1e-6, gradient_bytes: int = 4) -> Prose:
    """The chapter's answer in three sentences.

    Parameters
    ----------
    shards : int
        Equal shards captured at as many consecutive steps.
    tolerance : float
        Relative error of v that may pass [1].
    gradient_bytes : int
        Bytes of one gradient element.

    Returns
    -------
    Prose
    """
    largest = spiked()[-1]
    frame = gated_frame(shards)
    moved = int((frame["target"] > frame["target"].min()).sum())
    own = share_of_tolerance(tolerance)
    window, spikes = measured()["window"], correction_frame()
    first = (
        f"**The gate is a tolerance in disguise: 0.9 lets {UNIT_FP32 / 0.1:.0e} pass in one step, "
        f"and a spike of {SPIKES[-1]:,.0f} without it leaves the second moment wrong by "
        f"{largest.error['v']:.0e} and the first, which it does not watch, by "
        f"{largest.error['m']:.0e}.**"
    )
    second = (
        f"A tolerance of {tolerance:.0e} is a threshold of {number(own, 3)}; forward-only replay "
        f"of a gated shard needs a target no older than the shard, so for {moved} of {shards} "
        "places of a spike in the window the target must move up."
    )
    third = (
        f"With {window['correction_bits']:.2f} bits an element and step recorded "
        f"({np.max(spikes['bits']):.0f} in a spike of {np.max(spikes['spike']):,.0f}) rollback is "
        "exact and no gate is needed: an exact median ships "
        f"{exact_median_ratio(shards, gradient_bytes):.3f} of the traffic to the newest version."
    )
    return Prose(f"{first} {second} {third}")

"""Torn checkpoints, their repair, and the price of each target: the first post's second half.

Tables of the post are always at its own figures; what a target is worth follows the reader's job,
taken to save asynchronously with exponential failures.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import altair
import pandas as pd

from checkpoint_tax.errors import InputError
from checkpoint_tax.ledger import Computed, ledger_frame, load_claims
from checkpoint_tax.ledger.tables import post_table
from checkpoint_tax.plan.window import Repair, best_window_plan, window_plan
from checkpoint_tax.reconcile.experiments import TORN_STREAM
from checkpoint_tax.reconcile.traffic import (
    BF16_BYTES,
    FP32_BYTES,
    STATE_BYTES,
    STATE_WITH_BF16_COPY_BYTES,
    Target,
    replay_bytes_per_parameter,
)
from checkpoint_tax.report.prose import Prose, listed, percent, points
from checkpoint_tax.report.tables import Column, Table, number, span, table
from checkpoint_tax.report.verdicts import VERDICT_CLASSES, verdict_counts, verdict_table
from checkpoint_tax.report.window_charts import bytes_chart, torn_chart, worth_chart
from checkpoint_tax.scenario import Scenario
from checkpoint_tax.studies import torn_claims
from checkpoint_tax.studies.torn_claims import (
    optimizer_rows,
    passing_windows,
    target_error,
    torn_results,
)

__all__ = [
    "CHAPTER",
    "answer",
    "claims",
    "conclusions_table",
    "error_chart",
    "optimizer_frame",
    "optimizers_table",
    "passing_frame",
    "passing_table",
    "plan_frame",
    "plan_table",
    "target_frame",
    "target_table",
    "torn_frame",
    "torn_table",
    "wall_chart",
    "worth_frame",
    "worth_of_targets",
]

CHAPTER = "torn-checkpoints"

_KINDS = {
    "independent": "independent of the weights",
    "drifting": "with a steady part",
    "bowl": "answering the weights",
}
_PLANS: tuple[Repair, ...] = ("staged", "median", "newest")
_NAMES = {"staged": "staged copy", "oldest": "oldest", "median": "median", "newest": "newest"}
_ARRAYS = ("p", "m", "v")
_WIDEST_STEPS = 64
_POST_DRAINS = (2, 4, 8, 16)


@functools.cache
def _claims() -> dict[str, Computed]:
    return torn_claims.claims()


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


def _exponential(job: Scenario) -> Scenario:
    return job.replace(
        save_kind="asynchronous", drain_mode="wait", target="oldest", failure_shape=1.0
    )


def _checked(seed: int, *sizes: tuple[str, int]) -> None:
    if seed < 0:
        raise InputError(f"seed = {seed} is refused; allowed: a whole number, at least 0")
    for name, size in sizes:
        if not 1 <= size <= 64:
            raise InputError(f"{name} = {size} B is refused; allowed: 1 to 64 bytes per parameter")


# Torn states


def torn_frame(seed: int = 0) -> pd.DataFrame:
    """Errors of torn states and of what resuming from them leads to, over streams.

    Parameters
    ----------
    seed : int
        Of weights and gradients.

    Returns
    -------
    pandas.DataFrame
        One row a stream: ``stream``, ``lr``, ``warmup_steps``, ``error``, ``moment`` (of m),
        ``divergence`` and ``repaired`` (whether every bit of the repair is right).
    """
    _checked(seed)
    return pd.DataFrame(
        {
            "stream": _KINDS[result.stream.kind],
            "lr": result.stream.lr,
            "warmup_steps": result.stream.warmup_steps,
            "error": result.torn_error["p"],
            "moment": result.torn_error["m"],
            "divergence": result.torn_divergence,
            "repaired": result.repaired_bitwise,
        }
        for result in torn_results(seed)
    )


def torn_table(seed: int = 0) -> Table:
    """Torn states by kind of gradients and learning rate.

    Parameters
    ----------
    seed : int
        Of weights and gradients.

    Returns
    -------
    Table
    """
    frame = torn_frame(seed)
    rows: list[dict[str, Any]] = []
    for (stream, lr), part in frame.groupby(["stream", "lr"], sort=False):
        rows.append(
            {
                "stream": stream,
                "lr": f"{lr:g}",
                "error": _scientific(part["error"].min(), part["error"].max()),
                "moment": span(part["moment"].min(), part["moment"].max(), 2),
                "divergence": _scientific(part["divergence"].min(), part["divergence"].max()),
                "repaired": "0, every bit" if part["repaired"].all() else "not exact",
            }
        )
    nearest = torn_claims.nearest_torn()
    return table(
        pd.DataFrame(rows),
        {
            "stream": Column("gradients"),
            "lr": Column("learning rate"),
            "error": Column("torn: weights off by"),
            "moment": Column("first moment off by"),
            "divergence": Column("60 steps later"),
            "repaired": Column("after replay"),
        },
        name="torn",
        caption=f"{TORN_STREAM.n_shards} shards captured at as many steps; ranges over 0, 20 and "
        "100 steps before the window. The post prints 5.9e-2 and 1.2e-1; the stream found nearest "
        f"(learning rate {nearest.stream.lr:g}, {nearest.stream.warmup_steps} steps before) gives "
        f"{nearest.torn_error['p']:.1e} and {nearest.torn_divergence:.1e}. Replay restores every "
        "bit on every stream.",
    )


def _printed(claim_id: str) -> float:
    return next(c.value for c in load_claims() if c.claim_id == claim_id and c.value is not None)


def _scientific(low: float, high: float) -> str:
    texts = [f"{value:.1e}" for value in (low, high)]
    return texts[0] if texts[0] == texts[1] else "\u00a0to\u00a0".join(texts)


def error_chart(seed: int = 0) -> altair.LayerChart:
    """Error of a torn state against the learning rate.

    Parameters
    ----------
    seed : int
        Of weights and gradients.

    Returns
    -------
    altair.LayerChart
    """
    frame = torn_frame(seed)
    low, high = frame["error"].min(), frame["error"].max()
    return torn_chart(
        frame.drop(columns=["moment", "repaired"]),
        printed=_printed("tax.text.torn_error"),
        caption=f"How far a step moves the weights, relative to their size, decides how torn a "
        f"state is: {low:.1e} to {high:.1e} over streams, in step with the learning rate. The "
        "post's 5.9e-2 (dashed) is one of many possible figures.",
        description="Relative error of the weights of a torn state against the learning rate, both "
        "logarithmic, for three kinds of gradients. Points rise along one slope; the post's figure "
        "crosses them at learning rates around one thousandth.",
    )


# Table 3


def target_frame(seed: int = 0) -> pd.DataFrame:
    """Every cell of table 3: printed, on the nearest stream, and over streams.

    Parameters
    ----------
    seed : int
        Of weights and gradients; verdicts are those of seed 0.

    Returns
    -------
    pandas.DataFrame
        One row a cell: ``target``, ``quantity``, ``printed``, ``nearest``, ``low``, ``high`` and
        ``verdict``.
    """
    _checked(seed)
    columns = dict(zip(_ARRAYS, list(post_table(3).columns)[2:], strict=True))
    rows = []
    for row in post_table(3).to_dict("records"):
        target = row["target"]
        traffic = _ledger().loc[f"tax.t3.{target}.traffic"]
        rows.append(
            {
                "target": target,
                "quantity": "gradient traffic",
                "printed": row["gradient_traffic"],
                "nearest": traffic["computed"],
                "low": math.nan,
                "high": math.nan,
                "verdict": traffic["verdict"],
            }
        )
        for letter, column in columns.items():
            nearest, low, high = target_error(target, letter, seed)
            rows.append(
                {
                    "target": target,
                    "quantity": f"error of {letter}",
                    "printed": row[column],
                    "nearest": nearest,
                    "low": low,
                    "high": high,
                    "verdict": _ledger().loc[f"tax.t3.{target}.{letter}", "verdict"],
                }
            )
    return pd.DataFrame(rows)


def target_table(seed: int = 0) -> Table:
    """Table 3, recomputed.

    Parameters
    ----------
    seed : int
        Of weights and gradients.

    Returns
    -------
    Table
    """
    frame = target_frame(seed)
    traffic = frame["quantity"] == "gradient traffic"

    def shown(value: float, is_traffic: bool) -> str:
        if is_traffic:
            return f"{number(value, 2)}\u00a0×"
        return "0" if value == 0 else f"{value:.1e}"

    texts = frame.assign(
        printed=[shown(v, t) for v, t in zip(frame["printed"], traffic, strict=True)],
        nearest=[shown(v, t) for v, t in zip(frame["nearest"], traffic, strict=True)],
        streams=[
            "" if t else ("0" if high == 0 else _scientific(low, high))
            for low, high, t in zip(frame["low"], frame["high"], traffic, strict=True)
        ],
    )
    off = int((frame["verdict"] == "differs").sum())
    return table(
        texts,
        {
            "target": Column("target"),
            "quantity": Column("quantity"),
            "printed": Column("printed"),
            "nearest": Column("nearest stream"),
            "streams": Column("over streams"),
            "verdict": Column("verdict"),
        },
        name="table-3",
        caption="The post's 16 shards in 16 steps. Traffic in units of the parameters' bytes is "
        "exact; errors depend on the stream, which the post does not state, but little. "
        f"{len(frame) - off} of {len(frame)} cells hold.",
        classes={"verdict": VERDICT_CLASSES},
    )


# Freshness and bytes


def worth_frame(job: Scenario, gradient_bytes: int = 2, state_bytes: int = 12) -> pd.DataFrame:
    """Goodput of each repair over the length of the drain, the cost of a byte kept.

    Parameters
    ----------
    job : Scenario
        Taken to save asynchronously, with exponential failures.
    gradient_bytes : int
        Bytes of one gradient element.
    state_bytes : int
        Bytes of state per parameter.

    Returns
    -------
    pandas.DataFrame
        ``repair``, ``gradients`` (free or charged), ``steps`` and ``goodput``.
    """
    _checked(0, ("gradient_bytes", gradient_bytes), ("state_bytes", state_bytes))
    own = _exponential(job)
    rows = []
    for steps in _drains(own):
        drained = _with_drain(own, steps)
        for repair in _PLANS:
            for gradients in ("free", "charged"):
                plan = window_plan(
                    drained,
                    repair,
                    gradient_bytes=gradient_bytes,
                    state_bytes=state_bytes,
                    charged=gradients == "charged",
                )
                if plan.goodput > 0.02:
                    rows.append(
                        {
                            "repair": _NAMES[repair],
                            "gradients": gradients,
                            "steps": steps,
                            "goodput": plan.goodput,
                        }
                    )
    return pd.DataFrame(rows)


def _drains(job: Scenario) -> list[int]:
    top = max(32, math.ceil(1.2 * job.drain_steps))
    return sorted({1, *(round(1 + (top - 1) * i / 24) for i in range(25))})


def _with_drain(job: Scenario, steps: float) -> Scenario:
    """The job on a link that moves the state in so many steps, at the same cost a byte."""
    tax = job.drain_tax * job.drain_steps / steps
    return job.replace(drain_s=steps * job.step_s, drain_tax=tax)


def worth_of_targets(
    job: Scenario, gradient_bytes: int = 2, state_bytes: int = 12
) -> altair.LayerChart:
    """What each target is worth over the length of the drain.

    Parameters
    ----------
    job : Scenario
        Taken to save asynchronously, with exponential failures.
    gradient_bytes : int
        Bytes of one gradient element.
    state_bytes : int
        Bytes of state per parameter.

    Returns
    -------
    altair.LayerChart
    """
    own = _exponential(job)
    free = {r: window_plan(own, r, charged=False).goodput for r in _PLANS}
    paid = {
        r: window_plan(own, r, gradient_bytes=gradient_bytes, state_bytes=state_bytes).goodput
        for r in _PLANS
    }
    best = max(paid, key=lambda repair: paid[repair])
    return worth_chart(
        worth_frame(job, gradient_bytes, state_bytes),
        own_steps=own.drain_steps,
        caption="While gradients are free (solid), the newest version is worth "
        f"{points(free['newest'] - free['median'])} more than the median and "
        f"{points(free['newest'] - free['staged'])} more than a staged copy at this job's drain "
        f"of {_steps(own.drain_steps)} steps; charged by the byte (dashed) the order is "
        f"{_order(paid)}, and the best is the {_NAMES[best]}. Each drain is on its best interval.",
        description="Goodput in percent against the length of the drain, for a staged copy, the "
        "median and the newest version, with gradients free and charged. Free: three straight "
        "lines, newest level on top. Charged: median and newest fall below the staged copy, the "
        "newest fastest.",
    )


def _steps(steps: float) -> str:
    return number(steps, 0 if steps == round(steps) else 1)


def _order(goodputs: dict[Repair, float]) -> str:
    ranked = sorted(goodputs, key=lambda repair: -goodputs[repair])
    return listed([f"{_NAMES[repair]} {percent(goodputs[repair])}" for repair in ranked])


def plan_frame(job: Scenario, gradient_bytes: int = 2, state_bytes: int = 12) -> pd.DataFrame:
    """The best target, window and interval together, for links of several speeds.

    Parameters
    ----------
    job : Scenario
        Taken to save asynchronously, with exponential failures.
    gradient_bytes : int
        Bytes of one gradient element.
    state_bytes : int
        Bytes of state per parameter.

    Returns
    -------
    pandas.DataFrame
        One row a link: ``steps`` in which it moves the state, ``best``, and for each repair its
        ``window``, ``bytes``, ``drain``, ``interval`` and ``goodput``.
    """
    _checked(0, ("gradient_bytes", gradient_bytes), ("state_bytes", state_bytes))
    own = _exponential(job)
    others = {float(s) for s in _POST_DRAINS if abs(s - own.drain_steps) > 0.2 * s}
    drains = others | {own.drain_steps}
    rows = []
    for steps in sorted(drains):
        drained = own if steps == own.drain_steps else _with_drain(own, steps)
        row: dict[str, Any] = {"steps": steps}
        for repair in _PLANS:
            plan = best_window_plan(
                drained, repair, gradient_bytes=gradient_bytes, state_bytes=state_bytes
            )
            row |= {
                f"{repair} window": plan.window_steps,
                f"{repair} bytes": plan.bytes_per_parameter,
                f"{repair} drain": plan.drain_steps,
                f"{repair} interval": plan.interval_steps,
                f"{repair} goodput": plan.goodput,
            }
        row["best"] = max(_PLANS, key=lambda repair: row[f"{repair} goodput"])
        row["best repair"] = max(_PLANS[1:], key=lambda repair: row[f"{repair} goodput"])
        rows.append(row)
    return pd.DataFrame(rows)


def plan_table(job: Scenario, gradient_bytes: int = 2, state_bytes: int = 12) -> Table:
    """The best target, window and interval together.

    Parameters
    ----------
    job : Scenario
        Taken to save asynchronously, with exponential failures.
    gradient_bytes : int
        Bytes of one gradient element.
    state_bytes : int
        Bytes of state per parameter.

    Returns
    -------
    Table
    """
    frame = plan_frame(job, gradient_bytes, state_bytes)
    shown = frame.assign(
        **{
            f"{repair} how": [
                f"{number(size, 1)} B, drain {number(drain, 1)}, every {number(k, 0)} steps"
                for size, drain, k in zip(
                    frame[f"{repair} bytes"],
                    frame[f"{repair} drain"],
                    frame[f"{repair} interval"],
                    strict=True,
                )
            ]
            for repair in _PLANS
        },
        **{f"{r} text": [percent(g) for g in frame[f"{r} goodput"]] for r in _PLANS},
        best_name=[_NAMES[r] for r in frame["best"]],
        repair_name=[_NAMES[r] for r in frame["best repair"]],
    )
    shortest = all(
        (frame[f"{r} window"] == [max(1, math.ceil(s - 1e-9)) for s in frame["steps"]]).all()
        for r in _PLANS
    )
    window = (
        "The shortest window that the link allows is the best for every target: a longer one ships "
        "more gradients and taxes no less"
        if shortest
        else "A window a little longer than the link needs is best for some targets: its version "
        "is fresher by more than its further gradients cost"
    )
    return table(
        shown,
        {
            "steps": Column("state alone in", "steps", 1),
            **{f"{r} text": Column(f"{_NAMES[r]}: goodput", below=f"{r} how") for r in _PLANS},
            "best_name": Column("best"),
            "repair_name": Column("best without a copy"),
        },
        name="plans",
        caption=f"Target, window and interval together for this job with {gradient_bytes} B "
        f"gradients and {state_bytes} B of state a parameter, every byte at the same cost. "
        f"{window}.",
    )


def wall_chart(gradient_bytes: int = 2, state_bytes: int = 12) -> altair.LayerChart:
    """Bytes of a repair over the window.

    Parameters
    ----------
    gradient_bytes : int
        Bytes of one gradient element.
    state_bytes : int
        Bytes of state per parameter.

    Returns
    -------
    altair.LayerChart
    """
    _checked(0, ("gradient_bytes", gradient_bytes), ("state_bytes", state_bytes))
    kinds = {f"{b} B": b for b in sorted({BF16_BYTES, FP32_BYTES, gradient_bytes})}
    wanted: tuple[Target, ...] = ("newest", "median")
    lines = pd.DataFrame(
        {
            "series": f"{target}, {name} gradients",
            "window_steps": steps,
            "bytes": replay_bytes_per_parameter(steps, target, gradient_bytes=width),
        }
        for name, width in kinds.items()
        for target in wanted
        for steps in range(1, 33)
    )
    states = {
        f"state of {size} B": float(size)
        for size in sorted({STATE_BYTES, STATE_WITH_BF16_COPY_BYTES, state_bytes})
    }
    passing = {(t, g, s): steps for t, g, s, steps in passing_windows()}
    return bytes_chart(
        lines,
        states=states,
        caption="Gradient traffic is linear in the window. To the newest version it passes the "
        f"12 B of the state at {passing['newest', 2, 12]} steps with bf16 gradients and at "
        f"{passing['newest', 4, 12]} with fp32; to the median at {passing['median', 2, 12]} and "
        f"{passing['median', 4, 12]}.",
        description="Bytes of gradients per parameter against the capture window: straight lines "
        "from zero, steeper for wider gradients and for the newest version than for the median. "
        "Dashed level lines mark the bytes of the state itself.",
    )


def passing_frame() -> pd.DataFrame:
    """Windows from which on the gradients weigh as much as the state.

    Returns
    -------
    pandas.DataFrame
        ``target``, ``gradient_bytes``, ``state_bytes`` and ``steps``.
    """
    return pd.DataFrame(
        list(passing_windows()), columns=["target", "gradient_bytes", "state_bytes", "steps"]
    )


def passing_table() -> Table:
    """Windows from which on the gradients weigh as much as the state.

    Returns
    -------
    Table
    """
    frame = passing_frame().pivot_table(
        index=["target", "gradient_bytes"], columns="state_bytes", values="steps", sort=False
    )
    wide = frame.reset_index().rename(columns=lambda c: f"state {c}" if isinstance(c, int) else c)
    return table(
        wide,
        {
            "target": Column("target"),
            "gradient_bytes": Column("gradients", "B", 0),
            f"state {STATE_BYTES}": Column("12 B of state: from", "steps", 0),
            f"state {STATE_WITH_BF16_COPY_BYTES}": Column("14 B of state: from", "steps", 0),
        },
        name="passing",
        caption="Capture window from which on a repair ships as many bytes as the state it "
        "repairs. The post says past roughly 16 steps.",
    )


# Optimizers


def optimizer_frame() -> pd.DataFrame:
    """Which optimizers can be replayed and undone.

    Returns
    -------
    pandas.DataFrame
        ``optimizer``, ``forward``, ``inverse``, and ``p``, ``m``, ``v``: relative L2 error after
        eight steps back (missing where there is none), and ``why_not``.
    """
    rows = []
    for row in optimizer_rows():
        errors = row.inverse_error[-1].measured if row.inverse_error else {}
        rows.append(
            {
                "optimizer": row.name,
                "forward": "exact" if row.forward_exact else "no",
                "inverse": "yes" if row.inverse_exists else "no",
                **{name: errors.get(name, math.nan) for name in _ARRAYS},
                "why_not": row.why_not,
            }
        )
    return pd.DataFrame(rows)


def optimizers_table() -> Table:
    """Which optimizers can be replayed and undone.

    Returns
    -------
    Table
    """
    frame = optimizer_frame()
    shown = frame.assign(
        error=[
            ", ".join(f"{n} {row[n]:.0e}" for n in _ARRAYS if not math.isnan(row[n]))
            for row in frame.to_dict("records")
        ]
    )
    both = int(((frame["forward"] == "exact") & (frame["inverse"] == "yes")).sum())
    return table(
        shown,
        {
            "optimizer": Column("optimizer"),
            "forward": Column("forward replay"),
            "inverse": Column("inverse"),
            "error": Column("error 8 steps back"),
            "why_not": Column("why not"),
        },
        name="optimizers",
        caption=f"{both} of {len(frame)} optimizers can be replayed and undone shard by shard. "
        "Errors are relative L2 on normal gradients, in fp32.",
    )


# Conclusions and answer


def conclusions_table() -> Table:
    """What the first post concludes about reconciliation, with verdicts and conditions.

    Returns
    -------
    Table
    """
    own = _ledger()
    texts = own[own["kind"] == "conclusion"]
    return verdict_table(
        texts.reset_index(drop=True),
        name="conclusions",
        caption=f"The conclusions: {verdict_counts(texts)}. With the cells of table 3 and the "
        f"figures in the text the chapter's {len(own)} claims are: {verdict_counts(own)}.",
    )


def answer(job: Scenario, gradient_bytes: int = 2, state_bytes: int = 12) -> Prose:
    """The chapter's answer in three sentences.

    Parameters
    ----------
    job : Scenario
        Taken to save asynchronously, with exponential failures.
    gradient_bytes : int
        Bytes of one gradient element.
    state_bytes : int
        Bytes of state per parameter.

    Returns
    -------
    Prose
    """
    frame = torn_frame()
    exact = frame["repaired"].all()
    free = {
        steps: torn_claims.post_window_plan("newest", steps, charged=False).goodput
        - torn_claims.post_window_plan("median", steps, charged=False).goodput
        for steps in (16, 30)
    }
    first = (
        f"**Replay repairs a torn state {'to the bit' if exact else 'nearly'}, and the median "
        f"halves the gradients it takes, but not for free:** a torn state is off by "
        f"{frame['error'].min():.0e} to {frame['error'].max():.0e}, depending on a stream that "
        "the post does not state, and its replay by nothing."
    )
    second = (
        f"The median restores a state half a window older, which costs {points(free[16])} of "
        f"goodput at 16 steps and {points(free[30])} at 30 on the post's row of 16,384 GPUs; "
        "traffic grows with the window, not with its square."
    )
    own = _exponential(job)
    plans = {
        repair: best_window_plan(
            own, repair, gradient_bytes=gradient_bytes, state_bytes=state_bytes
        )
        for repair in _PLANS
    }
    goodputs = {repair: plan.goodput for repair, plan in plans.items()}
    best = max(goodputs, key=lambda repair: goodputs[repair])
    plan = plans[best]
    third = (
        f"For this job ({job.n_gpus:,} GPUs, a drain of {_steps(own.drain_steps)} steps), "
        f"with gradients charged by the byte, the {_NAMES[best]} is best, saved every "
        f"{plan.interval_steps:,} steps: {_order(goodputs)}."
    )
    return Prose(f"{first} {second} {third}")

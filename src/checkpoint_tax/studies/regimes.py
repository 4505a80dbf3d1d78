"""Where the best interval is the drain itself: the boundary over sizes, and published jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from checkpoint_tax.ledger import load_facts
from checkpoint_tax.plan import best_interval
from checkpoint_tax.scenario import ParameterFile, Scenario, read_parameters
from checkpoint_tax.studies.post_runs import post_scenario
from checkpoint_tax.studies.post_tables import printed_rows
from checkpoint_tax.studies.saturation_claims import largest_mtbf_s
from checkpoint_tax.theory import boundary
from checkpoint_tax.units import DAY_S, HOUR_S

__all__ = [
    "DRAIN",
    "INTERIOR",
    "THIS_JOB",
    "boundary_frame",
    "published_jobs",
    "regime",
    "regime_frame",
]

DRAIN = "one drain after the other"
INTERIOR = "a longer interval"
THIS_JOB = "this job"

_PRESETS = {
    "llama3-405b": "Llama 3 405B",
    "bloom-176b": "BLOOM 176B",
    "glm-130b": "GLM-130B",
    "opt-175b": "OPT-175B",
}
_LABELS = {"RSC-1 rate, 131,072": "RSC-1 rate", "8B, a save every step": "8B"}
_COORDINATES = {"gpu_mtbf_h": "MTBF", "drain_s": "drain", "drain_tax": "tax"}


def regime(job: Scenario) -> str:
    """Which regime a job is in if its saves drain and wait for the drain before them.

    Parameters
    ----------
    job : Scenario
        Taken to be asynchronous.

    Returns
    -------
    str
        `DRAIN` or `INTERIOR`; a job without a drain has no boundary and is `INTERIOR`.
    """
    if job.drain_s == 0.0:
        return INTERIOR
    return DRAIN if job.job_mtbf_s <= largest_mtbf_s(job) else INTERIOR


def published_jobs() -> dict[str, tuple[Scenario, str]]:
    """Jobs whose failure rate, drain or tax is published, each with what had to be assumed.

    Returns
    -------
    dict of str to (Scenario, str)
        By name: the job with asynchronous saves that wait, and the assumed ones of MTBF, drain
        and tax in words.
    """
    facts = load_facts()
    found: dict[str, tuple[Scenario, str]] = {}
    for n_gpus in printed_rows(1):
        job = post_scenario(n_gpus=n_gpus, drain_mode="wait")
        found[f"post, {n_gpus:,}"] = (job, "drain, tax")
    for preset, name in _PRESETS.items():
        parameters = read_parameters(preset)
        job = parameters.scenario().replace(
            save_kind="asynchronous", drain_mode="wait", target="oldest"
        )
        found[name] = (job, _assumed(parameters))
    rate = facts["rsc1_failures"].value / (1000.0 * DAY_S) / facts["rsc_gpus_per_node"].value
    rsc_h = 1.0 / rate / HOUR_S
    post = post_scenario(drain_mode="wait")
    for when in ("before", "after"):
        found[f"70B on H200, {when}"] = (
            post.replace(
                n_gpus=1856, gpu_mtbf_h=rsc_h, drain_s=facts[f"crusoe_background_{when}_s"].value
            ),
            "MTBF (rate of RSC-1), tax (the post's)",
        )
    found["RSC-1 rate, 131,072"] = (
        post.replace(n_gpus=131072, gpu_mtbf_h=rsc_h),
        "drain, tax (the post's)",
    )
    alone, saving = facts["nemo_step_alone_s"].value, facts["nemo_step_saving_s"].value
    found["8B, a save every step"] = (
        post.replace(
            n_gpus=8,
            gpu_mtbf_h=rsc_h,
            step_s=alone,
            drain_s=alone,
            drain_tax=saving / alone - 1.0,
            checkpoint_interval_steps=1,
        ),
        "MTBF (rate of RSC-1), drain (one step)",
    )
    return found


def _assumed(parameters: ParameterFile) -> str:
    sources: Mapping[str, Mapping[str, str]] = parameters.sources
    names = [
        word
        for name, word in _COORDINATES.items()
        if sources.get(name, {}).get("kind") == "assumed"
    ]
    return ", ".join(names) if names else "none"


def regime_frame(reader: Scenario) -> pd.DataFrame:
    """Published jobs and the reader's own, with the regime of each.

    Parameters
    ----------
    reader : Scenario
        The reader's job.

    Returns
    -------
    pandas.DataFrame
        One row a job. ``n_gpus`` is the size at which a job with the reader's failure rate a GPU
        has this job's MTBF, ``own_n_gpus`` the size it has; ``label`` is short, for a chart.
    """
    own = reader.replace(save_kind="asynchronous", drain_mode="wait")
    jobs = {**published_jobs(), THIS_JOB: (own, "as set for this chapter")}
    rows = []
    for name, (job, assumed) in jobs.items():
        has_drain = job.drain_s > 0.0
        largest = largest_mtbf_s(job) if has_drain else math.nan
        # The map is that of exponential failures, whatever world the reader's job lives in.
        best_steps = best_interval(job.replace(failure_shape=1.0, world={})).steps
        rows.append(
            {
                "job": name,
                "label": _LABELS.get(name, name),
                "own_n_gpus": job.n_gpus,
                "n_gpus": reader.gpu_mtbf_h * HOUR_S / job.job_mtbf_s,
                "job_mtbf_h": job.job_mtbf_s / HOUR_S,
                "drain_s": job.drain_s,
                "drain_tax": job.drain_tax,
                "largest_mtbf_h": largest / HOUR_S,
                "margin": job.job_mtbf_s / largest if has_drain else math.nan,
                "regime": regime(job),
                "best_steps": best_steps,
                "best_s": best_steps * job.step_s,
                "assumed": assumed,
            }
        )
    return pd.DataFrame(rows)


def boundary_frame(
    gpu_mtbf_h: float,
    *,
    vertical: str,
    fixed: tuple[float, ...],
    first_order: float,
    n_range: tuple[float, float],
) -> pd.DataFrame:
    """Boundary lines over the size of the job.

    Parameters
    ----------
    gpu_mtbf_h : float
        Mean up-time between failures of one GPU's share of the job [h].
    vertical : {"drain_s", "drain_tax"}
        Which quantity the lines give at each size.
    fixed : tuple of float
        Values of the other one, a line each [1] or [s].
    first_order : float
        The one of `fixed` that gets the first-order line ``L = 2 a M`` as well.
    n_range : tuple of float
        Smallest and largest size [GPUs].

    Returns
    -------
    pandas.DataFrame
        Columns ``n_gpus``, `vertical`, ``series`` and ``order``.
    """
    rows: list[dict[str, object]] = []
    sizes = np.geomspace(*n_range, 49)
    for value in fixed:
        if vertical == "drain_s":
            series = f"{value:.3g}"
            # The boundary is where M is a fixed multiple of the drain, given the tax.
            exact = gpu_mtbf_h * HOUR_S / sizes / float(boundary.largest_mtbf_s(1.0, value))
            first = 2.0 * value * gpu_mtbf_h * HOUR_S / sizes
        else:
            series = f"{value:.3g}"
            ratio = value * sizes / (gpu_mtbf_h * HOUR_S)
            inside = ratio < 1.0
            exact = np.where(inside, _tax_at_boundary(np.where(inside, ratio, 0.5)), np.nan)
            first = ratio / 2.0
        lines = {"exact": exact}
        if value == first_order:
            lines["first order"] = first
        for order, line in lines.items():
            rows += [
                {"n_gpus": float(n), vertical: float(y), "series": series, "order": order}
                for n, y in zip(sizes, line, strict=True)
                if math.isfinite(y)
            ]
    return pd.DataFrame(rows)


def _tax_at_boundary(ratio: np.ndarray) -> np.ndarray:
    """Tax at which the drain itself is just the best interval, from x = L/M: -log(1-x)/x - 1."""
    return -np.log1p(-ratio) / ratio - 1.0

"""What a plan says, in lines for a terminal."""

import math
from collections.abc import Iterator

from checkpoint_tax.plan.advice import Plan
from checkpoint_tax.units import duration_text


def describe(found: Plan) -> Iterator[str]:
    """Write a plan.

    Parameters
    ----------
    found : Plan
        The plan.

    Yields
    ------
    str
        One line after another.
    """
    job, best = found.scenario, found.best
    low, high = found.range_steps
    yield (
        f"save every   {low} to {high} steps ({_time(found, low)} to {_time(found, high)}), best"
        f" {best.steps} ({_time(found, best.steps)})"
    )
    yield (
        f"             there goodput is within {best.practical_points:g} points of the best;"
        f" {best.method}"
    )
    if found.best_at_mtbf_ends is not None:
        ends = " to ".join("?" if k is None else str(k) for k in found.best_at_mtbf_ends)
        yield f"             best at the ends of the MTBF's interval: {ends} steps"
    yield f"MTBF         {duration_text(found.mtbf_s)}{_ends(found)}, from {found.mtbf_from}"
    goodput = found.goodput
    yield (
        f"goodput      {100 * goodput.value:.2f} %, {100 * goodput.low:.2f} to"
        f" {100 * goodput.high:.2f} % {_what_the_interval_spans(found)}"
    )
    parts = ", ".join(
        f"{name} {100 * share:.2f} %" for name, share in found.losses.items() if share > 0.0
    )
    yield f"losses       {parts or 'none'}"
    yield f"regime       {found.regime}"
    if found.finish is not None:
        finish = found.finish
        yield (
            f"finish       {job.run_steps} steps in {duration_text(finish.median_s.value)}"
            f" (median), {duration_text(finish.p90_s.value)} (90 %); without losses"
            f" {duration_text(finish.undisturbed_s)}"
        )
        lost_s = finish.median_s.value - finish.undisturbed_s
        yield (
            f"cost         {finish.gpu_h(finish.median_s.value):,.0f} GPU-hours (median),"
            f" {finish.gpu_h(finish.p90_s.value):,.0f} (90 %); {finish.gpu_h(lost_s):,.0f} of the"
            " median are lost"
        )
    implied = found.implied_mtbf_s
    known = "" if implied is None else f"; it is Young's for an MTBF of {duration_text(implied)}"
    yield (
        f"now          {found.current_steps} steps"
        f" ({_time(found, found.current_steps)}): the best gains"
        f" {100 * found.gain:.3g} points{known}"
    )
    yield (
        f"Young        {found.young_steps} steps ({_time(found, found.young_steps)}): costs"
        f" {100 * found.young_regret:.3g} points against the best"
    )
    yield ""
    yield f"{'lever':<18}  {'value':>10}  {'elasticity':>10}  points of goodput for one unit more"
    for lever in found.levers.values():
        unit = "" if lever.unit == "1" else f" {lever.unit}"
        value = f"{lever.value:.5g}{unit}"
        yield (
            f"{lever.name:<18}  {value:>10}  {lever.elasticity:>+10.5f}"
            f"  {lever.points:+.4g} per {lever.per}"
        )
    yield "(the interval held; at the drain's boundary it follows the drain)"
    for sentence in found.warnings:
        yield f"warning: {sentence}"


def _time(found: Plan, steps: int) -> str:
    return duration_text(steps * found.scenario.step_s)


def _ends(found: Plan) -> str:
    if found.mtbf_interval_s is None:
        return ""
    low_s, high_s = found.mtbf_interval_s
    if math.isinf(high_s):
        return f" (95 %: above {duration_text(low_s)})"
    return f" (95 %: {duration_text(low_s)} to {duration_text(high_s)})"


def _what_the_interval_spans(found: Plan) -> str:
    if found.mtbf_interval_s is not None:
        return "over the MTBF's interval, at this save interval"
    return "(MTBF taken as known)"

"""The save cycle: one reduction of every save mode, for theory and simulator alike."""

import math
from dataclasses import dataclass

from checkpoint_tax.scenario.job import Scenario
from checkpoint_tax.scenario.parameters import Parameter

# A drain of exactly m intervals must count as m although L/t and S/k are rounded: quotients
# this close to a whole number are taken as that number.
_ROUNDING = 1e-12

_INTERVAL = Parameter(
    name="interval_steps",
    type="float",
    unit="steps",
    meaning="steps from one save to the next",
    default=30.0,
    default_source="none",
    kind="assumed",
    low=0.0,
    low_open=True,
    high=1e12,
)


@dataclass(frozen=True)
class SaveCycle:
    """What one checkpoint interval consists of, whatever the save mode.

    The cadence counts from the save whose state was restored, and one whole interval also lies
    before the first save of a run, so every (re)start sees the same cycle.

    Attributes
    ----------
    work_s : float
        Progress between two save starts [s of undisturbed step time].
    stop_s : float
        Time one save stops training [s of wall time].
    latency_work_s : float
        Progress made between a drain's start and its durable end [s]; 0 for blocking saves.
    taxed_work_s : float
        Progress per interval made under a drain [s]; at most ``work_s``.
    tax : float
        Extra wall time per unit of progress under a drain [1].
    advance_s : float
        How far past its drain start the restored version lies [s of progress].
    """

    work_s: float
    stop_s: float
    latency_work_s: float
    taxed_work_s: float
    tax: float
    advance_s: float

    @property
    def period_s(self) -> float:
        """Wall time of one undisturbed interval [s]."""
        return self.work_s + self.stop_s + self.tax * self.taxed_work_s

    @property
    def first_save_s(self) -> float:
        """Wall time from a (re)start to its first save start [s]."""
        return self.work_s - self.advance_s

    @property
    def first_durable_s(self) -> float:
        """Wall time from a (re)start until its first save can be restored [s]."""
        return self.first_save_s + self.stop_s + self.latency_work_s * (1.0 + self.tax)


def save_cycle(scenario: Scenario, interval_steps: float | None = None) -> SaveCycle:
    """Reduce a scenario's save mode to one cycle.

    Parameters
    ----------
    scenario : Scenario
        The job.
    interval_steps : float, optional
        Steps from one save to the next [steps]; need not be whole, for continuous
        optimisation. The scenario's own interval if left out.

    Returns
    -------
    SaveCycle

    Raises
    ------
    InputError
        If the interval is not a finite number above 0.

    Notes
    -----
    With k the interval and S = L / t the drain in steps, a save that falls due during a drain

    - waits for it (``wait``, ``overlap`` with its drains all in flight): max(k, S) steps;
    - is dropped (``skip``): k * ceil(S / k) steps;
    - speeds it up at no charge (``compressed``, the first post's simulator): k steps, and the
      drain ends after min(k, S).

    Overlapping drains share one bandwidth, so each of n takes n times as long, and stands still
    while another save stops training.
    """
    interval = scenario.checkpoint_interval_steps if interval_steps is None else interval_steps
    checked = _INTERVAL.check(interval)
    assert isinstance(checked, float)
    due_s = checked * scenario.step_s
    if scenario.save_kind == "blocking":
        return SaveCycle(
            work_s=due_s,
            stop_s=scenario.blocking_s,
            latency_work_s=0.0,
            taxed_work_s=0.0,
            tax=0.0,
            advance_s=0.0,
        )
    drain_s = scenario.drain_s
    fits = drain_s <= due_s * (1.0 + _ROUNDING)
    work_s = due_s if fits else drain_s
    latency_s = drain_s
    if not fits and scenario.drain_mode == "skip":
        work_s = due_s * math.ceil(drain_s / due_s * (1.0 - _ROUNDING))
    elif not fits and scenario.drain_mode == "compressed":
        work_s = due_s
    elif not fits and scenario.drain_mode == "overlap":
        # Drains stand still while a later save stops training; each of the n - 1 such stops is
        # counted as the taxed progress that would have taken its time.
        others = scenario.overlap_drains - 1
        latency_s = drain_s + others * (drain_s + scenario.staging_s / (1.0 + scenario.drain_tax))
    if scenario.drain_mode != "overlap":
        # The compressed drain ends with its interval; in the other modes only rounding is cut.
        latency_s = min(latency_s, work_s)
    return SaveCycle(
        work_s=work_s,
        stop_s=scenario.staging_s,
        latency_work_s=latency_s,
        taxed_work_s=min(latency_s, work_s),
        tax=scenario.drain_tax,
        advance_s=scenario.target_fraction * latency_s,
    )

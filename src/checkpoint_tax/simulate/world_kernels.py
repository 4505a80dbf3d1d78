"""Compiled loops for worlds beyond exponential failures and fixed restarts.

The engine's conventions hold: blocks of `BLOCK` failures, one simple loop per stage, counter-based
draws. Each thing that scatters has a stream of its own beside the gaps', so that switching one on
changes no other draw, and the gaps of any world are those of the plain one at the same seed.

Rows of a block hold what the failures of a block need, one column a failure: see the constants
``GAP`` to ``HUNG``. A *segment* is a restart and the up-time after it; the draws at a position
belong to that segment's restart, its saves, and the failure that ends it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from checkpoint_tax.compilation import kernel
from checkpoint_tax.simulate.kernels import (
    _EXPONENT_ONE,
    _MANTISSA,
    BLOCK,
    _fill_bits,
    _gaps,
    _minus_log,
    _open_uniform,
    _sum_block,
    _time_to_progress,
)
from checkpoint_tax.simulate.quantiles import CELLS, LOWEST_EXPONENT, ROWS_PER_SIDE

FIXED, WEIBULL, TABLE, SAMPLES = range(4)
"""Kinds of a time to draw."""

GAPS, PARTS = 0, 1
"""Rows of `Draws`: the gaps, then the six parts of a restart."""

N_PARTS = 6
GAP, DETECT, ATTEMPT, RESTART, FAILED, BAD, HUNG = 0, 1, 2, 7, 8, 9, 10
WAITED, ONCE = 11, 12
"""Rows: gap; time spent in restart parts (`DETECT`, then five from `ATTEMPT` on); whole restart;
failed attempts; newest saves that cannot be restored; index of the first save that hangs; waits
between attempts; length of one attempt."""
N_ROWS = 13

_INFINITY = np.inf
_ROUNDING = 1e-12
_CELL_BITS = np.uint64(CELLS.bit_length() - 1)
_CELL_SHIFT = np.uint64(52 - (CELLS.bit_length() - 1))
_FIRST_CELL = np.uint64((1023 + LOWEST_EXPONENT) * CELLS)
_OTHER_SIDE = np.uint64(ROWS_PER_SIDE)
_SEED_STEP = np.uint64(256)
# Streams beside the gaps' (0), multiplied into the key so that questions never share one.
_STREAM_PARTS = np.uint64(1)
_STREAM_FAILED = np.uint64(7)
_STREAM_HANG = np.uint64(8)
_STREAM_SILENT = np.uint64(9)
_STREAM_SAVE_HANG = np.uint64(10)


class Draws(NamedTuple):
    """Times to draw, one a row: `scales` seconds fixed, or by one of the kinds above.

    One structure of arrays rather than one a time: it compiles many times faster.
    """

    kinds: npt.NDArray[np.int64]
    scales: npt.NDArray[np.float64]
    inverse_shapes: npt.NDArray[np.float64]
    tables: npt.NDArray[np.float64]
    samples: npt.NDArray[np.float64]
    firsts: npt.NDArray[np.int64]
    """First sample of each time that is replayed, or its table."""
    counts: npt.NDArray[np.int64]


class Cycle(NamedTuple):
    """The cycle of saves [s]; `durable_periods` and `durable_rest` place the end of a drain."""

    first_save: float
    period: float
    work: float
    stop: float
    taxed: float
    tax: float
    advance: float
    durable_periods: float
    durable_rest: float


class Rules(NamedTuple):
    """Everything that scatters, reduced to numbers [s]; a rate of 0 switches a thing off."""

    draws: Draws
    block: int
    draw_restart: int
    wall_clock: int
    attempt_rate: float
    attempts: float
    retry_wait: float
    manual: float
    hang_share: float
    hang_detect: float
    silent_rate: float
    save_hang_rate: float
    save_hang: float
    idle: float


@kernel
def _uniforms(bits, uniform, block, replica, key_low, key_high):
    _fill_bits(bits, block, replica, key_low, key_high)
    _open_uniform(bits, bits.view(np.float64), uniform)


@kernel
def _geometric(bits, uniform, out, rate, block, replica, key_low, key_high):
    """Count the successes before a first miss, from floor(E / rate) with rate = -log(chance)."""
    _uniforms(bits, uniform, block, replica, key_low, key_high)
    _minus_log(uniform.view(np.uint64), uniform, out)
    for i in range(out.shape[0]):
        out[i] = np.floor(out[i] / rate)


@kernel
def _look_up(tables, which, bits, uniform, out, block, replica, key_low, key_high):
    """Draw from a table of quantiles, whose layout its own module explains."""
    _uniforms(bits, uniform, block, replica, key_low, key_high)
    for i in range(out.shape[0]):
        out[i] = min(uniform[i], 1.0 - uniform[i])
    distance = out.view(np.uint64)
    for i in range(out.shape[0]):
        row = (distance[i] >> _CELL_SHIFT) - _FIRST_CELL
        bits[i] = row + _OTHER_SIDE if uniform[i] > 0.5 else row
    for i in range(out.shape[0]):
        distance[i] = ((distance[i] << _CELL_BITS) & _MANTISSA) | _EXPONENT_ONE
    for i in range(out.shape[0]):
        row = np.int64(bits[i])
        t = out[i] - 1.0
        upper = tables[which, row, 2] + t * tables[which, row, 3]
        out[i] = tables[which, row, 0] + t * (tables[which, row, 1] + t * upper)


@kernel
def _draw(draws, which, bits, uniform, out, block, replica, key_low, key_high):
    kind = draws.kinds[which]
    if kind == FIXED:
        for i in range(out.shape[0]):
            out[i] = draws.scales[which]
    elif kind == WEIBULL:
        scale, inverse_shape = draws.scales[which], draws.inverse_shapes[which]
        _gaps(bits, uniform, out, block, replica, key_low, key_high, scale, inverse_shape)
    elif kind == TABLE:
        table = draws.firsts[which]
        _look_up(draws.tables, table, bits, uniform, out, block, replica, key_low, key_high)
    else:
        _uniforms(bits, uniform, block, replica, key_low, key_high)
        first, count = draws.firsts[which], draws.counts[which]
        for i in range(out.shape[0]):
            out[i] = draws.samples[first + np.int64(uniform[i] * count)]


@kernel
def _replay(draws, length, cursor, bits, uniform, out, block, replica, key_low, key_high):
    """Replay listed gaps: a random place, then `length` in a row, round the end to the start.

    `cursor` carries the place and what is left of the run over to the next block.
    """
    _uniforms(bits, uniform, block, replica, key_low, key_high)
    first, count = draws.firsts[GAPS], draws.counts[GAPS]
    place, left = cursor[0], cursor[1]
    for i in range(out.shape[0]):
        if left == 0:
            place = np.int64(uniform[i] * count)
            left = length
        out[i] = draws.samples[first + place]
        place += 1
        place = 0 if place == count else place
        left -= 1
    cursor[0], cursor[1] = place, left


@kernel
def _has(rules, part):
    """Whether a restart part can take time at all: the others' rows stay 0 and are passed over."""
    return rules.draws.kinds[PARTS + part] != FIXED or rules.draws.scales[PARTS + part] > 0.0


@kernel
def _spend_attempts(rules, rows, left):
    """Take whole failed attempts and waits off the time `left` after detection.

    Row ``FAILED`` then holds the whole attempts spent, ``WAITED`` the time between attempts.
    """
    turns, failed, waited = rows[ONCE], rows[FAILED], rows[WAITED]
    for i in range(BLOCK):
        # 1e-300 s, so that attempts that take no time divide none.
        turn = max(turns[i] + rules.retry_wait, 1e-300)
        n = min(np.floor(left[i] / turn), failed[i])
        rest = max(left[i] - n * turn, 0.0)
        person = rules.manual if n == rules.attempts else 0.0
        person = min(person, rest)
        waited[i] = n * rules.retry_wait + person
        failed[i] = n
        left[i] = rest - person


@kernel
def _spend(rules, rows, left):
    """Cut restarts short where their gap ends, and turn part lengths into time spent, in place.

    Detection comes first; then each failed attempt, its parts in order and a wait; then the person,
    if attempts ran out; then the attempt that succeeds. Waits count as rescheduling.
    """
    for i in range(BLOCK):
        whole = rows[RESTART, i]
        time = min(rows[GAP, i], whole) if rules.wall_clock else whole
        rows[DETECT, i] = min(time, rows[DETECT, i])
        left[i] = time - rows[DETECT, i]
    retries = rules.attempt_rate > 0.0
    if retries:
        _spend_attempts(rules, rows, left)
    failed = rows[FAILED]
    for j in range(1, N_PARTS):
        if _has(rules, j):
            part = rows[DETECT + j]
            for i in range(BLOCK):
                now = min(left[i], part[i])
                part[i] = failed[i] * part[i] + now
                left[i] -= now
    if retries:
        # What is left lies in a wait that the next failure cut short.
        for i in range(BLOCK):
            rows[ATTEMPT, i] += rows[WAITED, i] + left[i]


@kernel
def _fill_restarts(rules, rows, bits, uniform, block, replica, key_low, key_high):
    whole = rows[RESTART]
    detect = rows[DETECT]
    for i in range(BLOCK):
        whole[i] = 0.0
        detect[i] = 0.0
        rows[ATTEMPT, i] = 0.0
    for j in range(N_PARTS):
        if _has(rules, j):
            stream = key_high + (_STREAM_PARTS + np.uint64(j)) * _SEED_STEP
            part = rows[DETECT + j]
            _draw(rules.draws, PARTS + j, bits, uniform, part, block, replica, key_low, stream)
            if j > 0:
                for i in range(BLOCK):
                    whole[i] += part[i]
    if rules.hang_share > 0.0:
        stream = key_high + _STREAM_HANG * _SEED_STEP
        _uniforms(bits, uniform, block, replica, key_low, stream)
        for i in range(BLOCK):
            detect[i] = rules.hang_detect if uniform[i] < rules.hang_share else detect[i]
    if rules.attempt_rate > 0.0:
        stream = key_high + _STREAM_FAILED * _SEED_STEP
        failed, once = rows[FAILED], rows[ONCE]
        _geometric(bits, uniform, failed, rules.attempt_rate, block, replica, key_low, stream)
        for i in range(BLOCK):
            once[i] = whole[i]
            n = min(failed[i], rules.attempts)
            manual = rules.manual if n == rules.attempts else 0.0
            whole[i] += n * (whole[i] + rules.retry_wait) + manual
            failed[i] = n
    for i in range(BLOCK):
        whole[i] += detect[i]
    _spend(rules, rows, uniform)


@kernel
def _fill(rules, rows, cursor, bits, uniform, block, replica, key_low, key_high):
    """Draw everything that the failures of a block need; `rows` keeps what is off at its rest."""
    out = rows[GAP]
    if rules.draws.kinds[GAPS] == SAMPLES:
        _replay(
            rules.draws, rules.block, cursor, bits, uniform, out, block, replica, key_low, key_high
        )
    else:
        _draw(rules.draws, GAPS, bits, uniform, out, block, replica, key_low, key_high)
    if rules.draw_restart:
        _fill_restarts(rules, rows, bits, uniform, block, replica, key_low, key_high)
    if rules.silent_rate > 0.0:
        stream = key_high + _STREAM_SILENT * _SEED_STEP
        _geometric(bits, uniform, rows[BAD], rules.silent_rate, block, replica, key_low, stream)
    if rules.save_hang_rate > 0.0:
        stream = key_high + _STREAM_SAVE_HANG * _SEED_STEP
        _geometric(bits, uniform, rows[HUNG], rules.save_hang_rate, block, replica, key_low, stream)


@kernel
def _rest(rows, cursor):
    """Bring rows and cursor to the state of a world in which nothing is switched on."""
    rows[:] = 0.0
    rows[HUNG] = _INFINITY
    cursor[:] = 0


@kernel
def _account(rules, cycle, rows, up, saves, progress):
    """Account one block like the plain engine's, with saves that hang or cannot be restored.

    `up` is all time after the restart: training, and waiting for the watchdog of a hung save.
    """
    slow = 1.0 + cycle.tax
    taxed_wall = cycle.taxed * slow
    for i in range(BLOCK):
        fragile = rows[RESTART, i] if rules.wall_clock else 0.0
        budget = max(rows[GAP, i] - fragile, 0.0)
        limit = cycle.first_save + rows[HUNG, i] * cycle.period
        hung = limit < budget
        x = limit if hung else budget
        since = x - cycle.first_save
        # At a hang the quotient is known, and rounding must not be asked for it.
        started = rows[HUNG, i] if hung else np.floor(since / cycle.period)
        phase = 0.0 if hung else since - started * cycle.period
        n = started - cycle.durable_periods
        n = n + 1.0 if phase >= cycle.durable_rest else n
        n = min(n, rows[HUNG, i])
        running = max(phase - cycle.stop, 0.0)
        inside = min(running / slow, cycle.taxed) + max(running - taxed_wall, 0.0)
        p = cycle.first_save + started * cycle.work + inside
        stall = min(rules.save_hang, budget - x) if rules.wall_clock else rules.save_hang
        up[i] = x + stall if hung else x
        saves[i] = max(n - rows[BAD, i], 0.0)
        progress[i] = x if since < 0.0 else p


@kernel
def world_long_run(key_low, key_high, first_batch, blocks, rules, cycle, out):
    """Sums over batches of ``blocks * BLOCK`` failures, one row of `out` a batch.

    Columns: gap, up-time, durable saves, progress, then the six restart parts as spent (left at 0
    where restarts are not drawn: their mean is known then).
    """
    bits = np.empty(BLOCK, np.uint64)
    uniform = np.empty(BLOCK)
    rows = np.empty((N_ROWS, BLOCK))
    cursor = np.empty(2, np.int64)
    up = np.empty(BLOCK)
    saves = np.empty(BLOCK)
    progress = np.empty(BLOCK)
    totals = np.empty((4 + N_PARTS, BLOCK))
    for row in range(out.shape[0]):
        replica = first_batch + np.uint64(row)
        totals[:] = 0.0
        _rest(rows, cursor)
        for block in range(blocks):
            _fill(rules, rows, cursor, bits, uniform, np.uint64(block), replica, key_low, key_high)
            _account(rules, cycle, rows, up, saves, progress)
            for i in range(BLOCK):
                totals[0, i] += rows[GAP, i]
                totals[1, i] += up[i]
                totals[2, i] += saves[i]
                totals[3, i] += progress[i]
            if rules.draw_restart:
                for j in range(N_PARTS):
                    if j == 0 or j == 1 or _has(rules, j):
                        for i in range(BLOCK):
                            totals[4 + j, i] += rows[DETECT + j, i]
        for j in range(totals.shape[0]):
            out[row, j] = _sum_block(totals[j])


@kernel
def world_lost_work(key_low, key_high, first_batch, rules, cycle, out):
    """Progress lost by each of BLOCK failures a batch; `out` has shape (batches, BLOCK)."""
    bits = np.empty(BLOCK, np.uint64)
    uniform = np.empty(BLOCK)
    rows = np.empty((N_ROWS, BLOCK))
    cursor = np.empty(2, np.int64)
    up = np.empty(BLOCK)
    saves = np.empty(BLOCK)
    progress = np.empty(BLOCK)
    for row in range(out.shape[0]):
        replica = first_batch + np.uint64(row)
        _rest(rows, cursor)
        _fill(rules, rows, cursor, bits, uniform, np.uint64(0), replica, key_low, key_high)
        _account(rules, cycle, rows, up, saves, progress)
        for i in range(BLOCK):
            out[row, i] = progress[i] - saves[i] * cycle.work


@kernel
def world_finish_runs(key_low, key_high, first_run, rules, cycle, needed_total, max_failures, out):
    """Play whole runs of `needed_total` seconds of progress, one row of `out` a run.

    Columns: failures, up-time, progress made (lost work included), idle time, finished (1 or 0),
    then the six restart parts.
    """
    bits = np.empty(BLOCK, np.uint64)
    uniform = np.empty(BLOCK)
    rows = np.empty((N_ROWS, BLOCK))
    cursor = np.empty(2, np.int64)
    slow = 1.0 + cycle.tax
    for row in range(out.shape[0]):
        replica = first_run + np.uint64(row)
        _rest(rows, cursor)
        out[row, :] = 0.0
        secured = 0.0
        lead = 0.0
        failures = 0
        position = BLOCK
        block = 0
        booted = True  # the first start is not a restart
        while failures < max_failures:
            if position == BLOCK:
                _fill(
                    rules, rows, cursor, bits, uniform, np.uint64(block), replica, key_low, key_high
                )
                block += 1
                position = 0
            i = position
            position += 1
            gap = rows[GAP, i]
            budget = gap
            if not booted:
                out[row, 3] += rules.idle
                for j in range(N_PARTS):
                    out[row, 5 + j] += rows[DETECT + j, i]
                if rules.wall_clock:
                    budget = gap - rows[RESTART, i]
                    if budget < 0.0:
                        failures += 1
                        continue
            booted = False
            first_save = cycle.work - lead
            missing = needed_total - secured
            need = _time_to_progress(
                missing, first_save, cycle.period, cycle.work, cycle.stop, cycle.taxed, cycle.tax
            )
            limit = first_save + rows[HUNG, i] * cycle.period
            # A run whose last step is the one before a save that hangs ends before it does.
            if need <= budget and need <= limit * (1.0 + _ROUNDING):
                out[row, 1] += need
                out[row, 2] += missing
                out[row, 4] = 1.0
                break
            failures += 1
            hung = limit < budget
            x = limit if hung else budget
            since = x - first_save
            out[row, 1] += x
            if since < 0.0:
                out[row, 2] += x
                continue
            started = rows[HUNG, i] if hung else np.floor(since / cycle.period)
            phase = 0.0 if hung else since - started * cycle.period
            running = max(phase - cycle.stop, 0.0)
            inside = min(running / slow, cycle.taxed) + max(running - cycle.taxed * slow, 0.0)
            out[row, 2] += first_save + started * cycle.work + inside
            n = started - cycle.durable_periods
            n = n + 1.0 if phase >= cycle.durable_rest else n
            n = min(n, rows[HUNG, i])
            if hung:
                stall = rules.save_hang
                out[row, 1] += min(stall, budget - x) if rules.wall_clock else stall
            n -= rows[BAD, i]
            if n > 0.0:
                secured += n * cycle.work + (cycle.advance - lead)
                lead = cycle.advance
        out[row, 0] = failures

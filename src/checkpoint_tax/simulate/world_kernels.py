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
from checkpoint_tax.simulate.node_kernels import (
    Lemons,
    Pool,
    fail_any,
    fill_pool,
    heapify,
    lemon_gaps,
    pass_time,
    place_lemon,
    replace_nodes,
    superpose,
)
from checkpoint_tax.simulate.quantiles import CELLS, LOWEST_EXPONENT, ROWS_PER_SIDE

FIXED, WEIBULL, TABLE, SAMPLES = range(4)
"""Kinds of a time to draw."""

GAPS, PARTS, REPAIRS, LONG_LIVES = 0, 1, 7, 8
"""Rows of `Draws`: the gaps (or lives of nodes), the six parts of a restart, repairs, and lives of
nodes drawn by their length."""

LANES = 32
"""Partial sums of a column."""

N_PARTS = 6
GAP, DETECT, ATTEMPT, RESTART, FAILED, BAD, HUNG = 0, 1, 2, 7, 8, 9, 10
WAITED, ONCE = 11, 12
"""Rows: gap; restart parts once (`DETECT`, then five from `ATTEMPT` on); whole restart;
failed attempts; newest saves that cannot be restored; index of the first save that hangs; waits
between attempts; length of one attempt."""
SLOW, LOST, REPAIR = 13, 14, 15
"""More rows: 1 where the restart brings in a slow node; nodes lost to the failure; their repair."""
SPENT = 16
"""Six rows more: time spent in each restart part, failed attempts included."""
ENDED = 22
"""1 where a hung save ended the segment."""
N_ROWS = 23
SLOWED_COLUMN, IDLE_COLUMN, N_COLUMNS = 10, 11, 12
"""Columns of a batch's sums beyond gap, up-time, saves, progress and the six restart parts."""

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
_STREAM_SLOW = np.uint64(11)
_STREAM_LOST = np.uint64(12)
_STREAM_REPAIR = np.uint64(13)
_STREAM_NODES = np.uint64(14)
_STREAM_AGES = np.uint64(15)
_STREAM_FIRST = np.uint64(16)
_STREAM_WHO = np.uint64(17)
_STREAM_AGAIN = np.uint64(18)


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
    restart_varies: int
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
    slow_share: float
    slowdown: float
    find: float
    swap: float
    nodes_age: int
    n_nodes: int
    pool: Pool
    lemons: Lemons
    strikes: int
    radii: npt.NDArray[np.float64]
    radius_ends: npt.NDArray[np.float64]


class State(NamedTuple):
    """What a batch or run remembers from one failure to the next."""

    cursor: npt.NDArray[np.int64]
    due: npt.NDArray[np.float64]
    due_counts: npt.NDArray[np.float64]
    struck: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.float64]
    back: npt.NDArray[np.float64]
    back_counts: npt.NDArray[np.float64]


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
    scale = draws.scales[which]
    if kind == FIXED:
        for i in range(out.shape[0]):
            out[i] = scale
    elif kind == WEIBULL:
        inverse_shape = draws.inverse_shapes[which]
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
def _varies(rules, part):
    """Whether a restart part is drawn; the rows of fixed ones are filled once."""
    return rules.draws.kinds[PARTS + part] != FIXED


@kernel
def _fixed(rules, part):
    """Seconds of a part that is fixed, 0 for one that varies."""
    return 0.0 if _varies(rules, part) else rules.draws.scales[PARTS + part]


@kernel
def _has(rules, part):
    """Whether a restart part can take time at all: the others' rows stay 0 and are passed over."""
    return _varies(rules, part) or rules.draws.scales[PARTS + part] > 0.0


@kernel
def _begin_restarts(rules, rows):
    """Fill what no draw changes: fixed parts, and the whole of a restart that is fixed."""
    whole = 0.0
    for j in range(N_PARTS):
        rows[DETECT + j] = _fixed(rules, j)
        whole += _fixed(rules, j)
    rows[RESTART] = whole


@kernel
def _draw_restarts(rules, rows, bits, uniform, block, replica, key_low, key_high):
    """Draw the parts that vary, hangs and failed attempts, and add up the whole."""
    whole = rows[RESTART]
    detect = rows[DETECT]
    fixed = 0.0
    for j in range(1, N_PARTS):
        fixed += _fixed(rules, j)
    for i in range(BLOCK):
        whole[i] = fixed
    for j in range(N_PARTS):
        if _varies(rules, j):
            stream = key_high + (_STREAM_PARTS + np.uint64(j)) * _SEED_STEP
            part = rows[DETECT + j]
            _draw(rules.draws, PARTS + j, bits, uniform, part, block, replica, key_low, stream)
            if j > 0:
                _accumulate(whole, part)
    if rules.hang_share > 0.0:
        stream = key_high + _STREAM_HANG * _SEED_STEP
        _uniforms(bits, uniform, block, replica, key_low, stream)
        varies, usual = _varies(rules, 0), _fixed(rules, 0)
        for i in range(BLOCK):
            seen = detect[i] if varies else usual
            detect[i] = rules.hang_detect if uniform[i] < rules.hang_share else seen
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
    _accumulate(whole, detect)


@kernel
def _accumulate(sums, values):
    for i in range(BLOCK):
        sums[i] += values[i]


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
    """Cut restarts short where their gap ends, and divide the time spent among their parts.

    Detection comes first; then each failed attempt, its parts in order and a wait; then the person,
    if attempts ran out; then the attempt that succeeds. Waits count as rescheduling.
    """
    spent, detect, gap, whole = rows[SPENT], rows[DETECT], rows[GAP], rows[RESTART]
    if rules.wall_clock:
        for i in range(BLOCK):
            left[i] = min(gap[i], whole[i])
    else:
        for i in range(BLOCK):
            left[i] = whole[i]
    for i in range(BLOCK):
        spent[i] = min(left[i], detect[i])
        left[i] -= spent[i]
    retries = rules.attempt_rate > 0.0
    if retries:
        _spend_attempts(rules, rows, left)
    failed = rows[FAILED]
    for j in range(1, N_PARTS):
        if _has(rules, j):
            spent, part = rows[SPENT + j], rows[DETECT + j]
            for i in range(BLOCK):
                now = min(left[i], part[i])
                spent[i] = failed[i] * part[i] + now
                left[i] -= now
    if retries:
        # What is left lies in a wait that the next failure cut short.
        spent, waited = rows[SPENT + 1], rows[WAITED]
        if _has(rules, 1):
            for i in range(BLOCK):
                spent[i] += waited[i] + left[i]
        else:
            for i in range(BLOCK):
                spent[i] = waited[i] + left[i]


@kernel
def _fill_lost(rules, rows, bits, uniform, block, replica, key_low, key_high):
    """Draw how many nodes each failure takes, and when they are back."""
    stream = key_high + _STREAM_LOST * _SEED_STEP
    _uniforms(bits, uniform, block, replica, key_low, stream)
    for i in range(BLOCK):
        level = 0
        while level < rules.radii.shape[0] - 1 and uniform[i] >= rules.radius_ends[level]:
            level += 1
        rows[LOST, i] = rules.radii[level]
    stream = key_high + _STREAM_REPAIR * _SEED_STEP
    _draw(rules.draws, REPAIRS, bits, uniform, rows[REPAIR], block, replica, key_low, stream)


@kernel
def _fill_node_gaps(rules, state, rows, bits, uniform, block, replica, key_low, key_high):
    """Gaps of a job whose nodes remember how long they have run, or how often they failed."""
    gaps = rows[GAP]
    _draw(rules.draws, GAPS, bits, uniform, gaps, block, replica, key_low, key_high)
    if rules.nodes_age:
        superpose(state.due, state.due_counts, gaps, gaps)
    else:
        # The row is free here: it is filled after the gaps are.
        again = rows[SPENT]
        stream = key_high + _STREAM_AGAIN * _SEED_STEP
        _uniforms(bits, again, block, replica, key_low, stream)
        stream = key_high + _STREAM_WHO * _SEED_STEP
        _uniforms(bits, uniform, block, replica, key_low, stream)
        lemon_gaps(rules.lemons, rules.n_nodes, state.struck, gaps, uniform, again)


@kernel
def _begin_nodes(rules, state, after_failure, rows, bits, uniform, replica, key_low, key_high):
    """Draw the nodes' states as they are in the long run; `after_failure` if one has just failed.

    A node's time to its next failure is, in the long run, a uniform share of a life drawn in
    proportion to its length. Right after a failure the failed node alone starts a new life. Both
    are exact, so that nothing needs to settle and the mean gap is the known one.
    """
    first = 1 if after_failure else 0
    others = rules.n_nodes - first
    scratch = rows[GAP]
    for block in range((others + BLOCK - 1) // BLOCK):
        width = min(BLOCK, others - block * BLOCK)
        counter = np.uint64(block)
        stream = key_high + _STREAM_NODES * _SEED_STEP
        if rules.nodes_age:
            _draw(
                rules.draws, LONG_LIVES, bits, uniform, scratch, counter, replica, key_low, stream
            )
            stream = key_high + _STREAM_AGES * _SEED_STEP
            _uniforms(bits, uniform, counter, replica, key_low, stream)
            for i in range(width):
                state.due[first + block * BLOCK + i] = scratch[i] * uniform[i]
        else:
            _uniforms(bits, uniform, counter, replica, key_low, stream)
            for i in range(width):
                place_lemon(rules.lemons, state.struck, uniform[i])
    if after_failure:
        counter = np.uint64(0)
        stream = key_high + _STREAM_FIRST * _SEED_STEP
        if rules.nodes_age:
            _draw(rules.draws, GAPS, bits, uniform, scratch, counter, replica, key_low, stream)
            state.due[0] = scratch[0]
        else:
            _uniforms(bits, uniform, counter, replica, key_low, stream)
            fail_any(rules.lemons, rules.n_nodes, state.struck, uniform[0], uniform[1], uniform[2])
    if rules.nodes_age:
        heapify(state.due, state.due_counts)


@kernel
def _fill(rules, rows, state, bits, uniform, block, replica, key_low, key_high):
    """Draw everything that the failures of a block need; `rows` keeps what is off at its rest."""
    out = rows[GAP]
    if rules.nodes_age or rules.lemons.rate > 0.0:
        _fill_node_gaps(rules, state, rows, bits, uniform, block, replica, key_low, key_high)
    elif rules.draws.kinds[GAPS] == SAMPLES:
        cursor = state.cursor
        _replay(
            rules.draws, rules.block, cursor, bits, uniform, out, block, replica, key_low, key_high
        )
    else:
        _draw(rules.draws, GAPS, bits, uniform, out, block, replica, key_low, key_high)
    if rules.draw_restart:
        if rules.restart_varies:
            _draw_restarts(rules, rows, bits, uniform, block, replica, key_low, key_high)
        _spend(rules, rows, uniform)
    if rules.silent_rate > 0.0:
        stream = key_high + _STREAM_SILENT * _SEED_STEP
        _geometric(bits, uniform, rows[BAD], rules.silent_rate, block, replica, key_low, stream)
    if rules.save_hang_rate > 0.0:
        stream = key_high + _STREAM_SAVE_HANG * _SEED_STEP
        _geometric(bits, uniform, rows[HUNG], rules.save_hang_rate, block, replica, key_low, stream)
    if rules.slow_share > 0.0:
        stream = key_high + _STREAM_SLOW * _SEED_STEP
        _uniforms(bits, uniform, block, replica, key_low, stream)
        for i in range(BLOCK):
            rows[SLOW, i] = 1.0 if uniform[i] < rules.slow_share else 0.0
    if rules.pool.spares >= 0:
        _fill_lost(rules, rows, bits, uniform, block, replica, key_low, key_high)


@kernel
def _new_state(rules):
    """Allocate the memory of a batch or run; sizes are 1 for what this world does not have."""
    ageing = rules.n_nodes if rules.nodes_age else 1
    entries = rules.pool.spares + rules.n_nodes + 2 if rules.pool.spares >= 0 else 1
    return State(
        np.empty(2, np.int64),
        np.empty(ageing),
        np.zeros(ageing),
        np.zeros(rules.strikes, np.int64),
        np.zeros(4),
        np.empty(entries),
        np.empty(entries),
    )


@kernel
def _begin(rules, rows, state, after_failure, bits, uniform, replica, key_low, key_high):
    """Bring rows and state to where a batch or run begins."""
    rows[:] = 0.0
    rows[HUNG] = _INFINITY
    _begin_restarts(rules, rows)
    state.cursor[:] = 0
    state.struck[:] = 0
    fill_pool(rules.pool, state.numbers)
    if rules.nodes_age or rules.lemons.rate > 0.0:
        _begin_nodes(rules, state, after_failure, rows, bits, uniform, replica, key_low, key_high)


@kernel
def _trained(rules, slow, seconds):
    """Undisturbed seconds trained in `seconds` of up-time; `slow` is 1 under a straggler, else 0.

    Until it is found everything takes (1 + slowdown) as long; then training stops for its swap.
    """
    share = slow * rules.slowdown / (1.0 + rules.slowdown)
    swapped = min(max(seconds - rules.find, 0.0), rules.swap)
    return seconds - share * min(seconds, rules.find) - slow * swapped


@kernel
def _up_time(rules, slow, trained):
    """Up-time that `trained` undisturbed seconds take: the inverse of `_trained`."""
    found = rules.find / (1.0 + rules.slowdown)
    slowed = trained + slow * rules.slowdown * min(trained, found)
    return slowed + slow * rules.swap if trained > found else slowed


@kernel
def _account(rules, cycle, rows, up, slowed, saves, progress):
    """Account one block like the plain engine's, with what can go wrong with saves and nodes.

    `up` is all time after the restart: training, slow or not, and waiting for the watchdog of a
    hung save; `slowed` is what a straggler took of it, left as it is where there are none.
    """
    slow = 1.0 + cycle.tax
    taxed_wall = cycle.taxed * slow
    trained = slowed
    for i in range(BLOCK):
        fragile = rows[RESTART, i] if rules.wall_clock else 0.0
        up[i] = max(rows[GAP, i] - fragile, 0.0)
        trained[i] = up[i]
    if rules.slow_share > 0.0:
        for i in range(BLOCK):
            trained[i] = _trained(rules, rows[SLOW, i], up[i])
    for i in range(BLOCK):
        limit = cycle.first_save + rows[HUNG, i] * cycle.period
        hung = limit < trained[i]
        x = limit if hung else trained[i]
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
        trained[i] = x
        saves[i] = max(n - rows[BAD, i], 0.0)
        progress[i] = x if since < 0.0 else p
    if rules.save_hang_rate > 0.0:
        for i in range(BLOCK):
            # Where a save hung, its start is what was trained, to the bit, and time was left.
            at_save = trained[i] == cycle.first_save + rows[HUNG, i] * cycle.period
            time = _up_time(rules, rows[SLOW, i], trained[i])
            hung = at_save and up[i] > time
            rows[ENDED, i] = 1.0 if hung else 0.0
            if hung:
                stall = rules.save_hang
                stall = min(stall, up[i] - time) if rules.wall_clock else stall
                up[i] = time + stall
                slowed[i] = time - trained[i]
            else:
                slowed[i] = up[i] - trained[i]
    elif rules.slow_share > 0.0:
        for i in range(BLOCK):
            slowed[i] = up[i] - trained[i]


@kernel
def _wait_for_nodes(rules, state, rows, up, idle, pending):
    """Add what the pool of spares makes the segments of a block wait, one after another.

    `pending` is the number of nodes that the failure before the block took; returns that of the
    block's last failure.
    """
    for i in range(BLOCK):
        wait = replace_nodes(
            rules.pool, state.numbers, state.back, state.back_counts, pending, rows[REPAIR, i]
        )
        time = rows[RESTART, i]
        time = min(rows[GAP, i], time) if rules.wall_clock else time
        state.numbers[0] += rules.idle + time
        added = pass_time(rules.pool, state.numbers, state.back, state.back_counts, up[i])
        idle[i] = wait + added
        # A hung save takes no node.
        pending = rows[LOST, i] * (1.0 - rows[ENDED, i])
    return pending


@kernel
def _add(totals, values):
    """Add a block to the sums of its lanes: a fixed order, and sums that stay in registers."""
    for start in range(0, BLOCK, LANES):
        for i in range(LANES):
            totals[i] += values[start + i]


@kernel
def world_long_run(key_low, key_high, first_batch, warm_blocks, blocks, rules, cycle, out):
    """Sums over batches of ``blocks * BLOCK`` failures, one row of `out` a batch.

    The first `warm_blocks` of a batch are played and not counted. Columns: gap, up-time, durable
    saves, progress, the six restart parts as spent (left at 0 where restarts are not drawn: their
    mean is known then), time lost to stragglers, time added by missing nodes.
    """
    bits = np.empty(BLOCK, np.uint64)
    uniform = np.empty(BLOCK)
    rows = np.empty((N_ROWS, BLOCK))
    state = _new_state(rules)
    up = np.empty(BLOCK)
    slowed = np.empty(BLOCK)
    saves = np.empty(BLOCK)
    progress = np.empty(BLOCK)
    idle = np.zeros(BLOCK)
    totals = np.empty((N_COLUMNS, LANES))
    for row in range(out.shape[0]):
        replica = first_batch + np.uint64(row)
        totals[:] = 0.0
        pending = 0.0
        _begin(rules, rows, state, True, bits, uniform, replica, key_low, key_high)
        for block in range(warm_blocks + blocks):
            _fill(rules, rows, state, bits, uniform, np.uint64(block), replica, key_low, key_high)
            _account(rules, cycle, rows, up, slowed, saves, progress)
            if rules.pool.spares >= 0:
                pending = _wait_for_nodes(rules, state, rows, up, idle, pending)
            if block < warm_blocks:
                continue
            _add(totals[0], rows[GAP])
            _add(totals[1], up)
            _add(totals[2], saves)
            _add(totals[3], progress)
            if rules.draw_restart:
                for j in range(N_PARTS):
                    hangs = j == 0 and rules.hang_share > 0.0
                    waits = j == 1 and rules.attempt_rate > 0.0
                    if hangs or waits or _has(rules, j):
                        _add(totals[4 + j], rows[SPENT + j])
            if rules.slow_share > 0.0:
                _add(totals[SLOWED_COLUMN], slowed)
            if rules.pool.spares >= 0:
                _add(totals[IDLE_COLUMN], idle)
        for j in range(N_COLUMNS):
            out[row, j] = _sum_block(totals[j])


@kernel
def world_lost_work(key_low, key_high, first_batch, rules, cycle, out):
    """Progress lost by each of BLOCK failures a batch; `out` has shape (batches, BLOCK)."""
    bits = np.empty(BLOCK, np.uint64)
    uniform = np.empty(BLOCK)
    rows = np.empty((N_ROWS, BLOCK))
    state = _new_state(rules)
    up = np.empty(BLOCK)
    slowed = np.empty(BLOCK)
    saves = np.empty(BLOCK)
    progress = np.empty(BLOCK)
    for row in range(out.shape[0]):
        replica = first_batch + np.uint64(row)
        _begin(rules, rows, state, True, bits, uniform, replica, key_low, key_high)
        _fill(rules, rows, state, bits, uniform, np.uint64(0), replica, key_low, key_high)
        _account(rules, cycle, rows, up, slowed, saves, progress)
        for i in range(BLOCK):
            out[row, i] = progress[i] - saves[i] * cycle.work


@kernel
def world_finish_runs(key_low, key_high, first_run, rules, cycle, needed_total, max_failures, out):
    """Play whole runs of `needed_total` seconds of progress, one row of `out` a run.

    Columns: failures, up-time, progress made (lost work included), idle time, finished (1 or 0),
    the six restart parts, time lost to stragglers.
    """
    bits = np.empty(BLOCK, np.uint64)
    uniform = np.empty(BLOCK)
    rows = np.empty((N_ROWS, BLOCK))
    state = _new_state(rules)
    slow = 1.0 + cycle.tax
    for row in range(out.shape[0]):
        replica = first_run + np.uint64(row)
        _begin(rules, rows, state, False, bits, uniform, replica, key_low, key_high)
        out[row, :] = 0.0
        secured = 0.0
        lead = 0.0
        failures = 0
        pending = 0.0
        position = BLOCK
        block = 0
        booted = True  # the first start is not a restart
        while failures < max_failures:
            if position == BLOCK:
                _fill(
                    rules, rows, state, bits, uniform, np.uint64(block), replica, key_low, key_high
                )
                block += 1
                position = 0
            i = position
            position += 1
            gap = rows[GAP, i]
            time = gap
            if not booted:
                out[row, 3] += rules.idle
                if rules.pool.spares >= 0:
                    out[row, 3] += replace_nodes(
                        rules.pool,
                        state.numbers,
                        state.back,
                        state.back_counts,
                        pending,
                        rows[REPAIR, i],
                    )
                for j in range(N_PARTS):
                    out[row, 5 + j] += rows[SPENT + j, i]
                whole = rows[RESTART, i]
                state.numbers[0] += rules.idle + (min(gap, whole) if rules.wall_clock else whole)
                if rules.wall_clock:
                    time = gap - whole
                    if time < 0.0:
                        failures += 1
                        pending = rows[LOST, i]
                        continue
            booted = False
            budget = _trained(rules, rows[SLOW, i], time)
            first_save = cycle.work - lead
            missing = needed_total - secured
            need = _time_to_progress(
                missing, first_save, cycle.period, cycle.work, cycle.stop, cycle.taxed, cycle.tax
            )
            limit = first_save + rows[HUNG, i] * cycle.period
            # A run whose last step is the one before a save that hangs ends before it does.
            done = need <= budget and need <= limit * (1.0 + _ROUNDING)
            hung = not done and limit < budget
            x = need if done else (limit if hung else budget)
            trained = _up_time(rules, rows[SLOW, i], x) if done or hung else time
            stall = 0.0
            if hung:
                stall = rules.save_hang
                stall = min(stall, time - trained) if rules.wall_clock else stall
            out[row, 1] += x + stall
            out[row, 11] += trained - x
            if rules.pool.spares >= 0:
                out[row, 3] += pass_time(
                    rules.pool, state.numbers, state.back, state.back_counts, trained + stall
                )
            if done:
                out[row, 2] += missing
                out[row, 4] = 1.0
                break
            failures += 1
            pending = 0.0 if hung else rows[LOST, i]
            since = x - first_save
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
            n = min(n, rows[HUNG, i]) - rows[BAD, i]
            if n > 0.0:
                secured += n * cycle.work + (cycle.advance - lead)
                lead = cycle.advance
        out[row, 0] = failures

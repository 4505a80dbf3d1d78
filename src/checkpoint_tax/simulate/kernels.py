"""Compiled loops: counter-based draws, and O(1) accounting of one failure.

Everything here takes scalars and arrays and fills arrays. Work is done in blocks of `BLOCK`
failures, one simple loop per stage, which the compiler turns into vector instructions; sums run
over fixed positions of a block, so no digit depends on vector width or on the number of threads.

A segment is the time from a (re)start to the next failure. With x its up-time:

* the first save starts after ``first_save`` seconds, the following ones every ``period``;
* a save stops training for ``stop``; then ``taxed`` seconds of progress are made at 1/(1+tax);
* it is durable ``durable_periods * period + durable_rest`` after its start.
"""

from __future__ import annotations

import numpy as np

from checkpoint_tax.compilation import kernel

BLOCK = 512
HALF = BLOCK // 2

_ROT = (16, 42, 12, 31, 16, 32, 24, 21)
_PARITY = np.uint64(0x1BD11BDAA9FC1A22)
_EXPONENT_ONE = np.uint64(0x3FF0000000000000)
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_HALF_ULP = 2.0**-53
_LN2 = 0.6931471805599453
_SQRT2 = 1.4142135623730951
_LOG2_E = 1.4426950408889634
# The high part has 21 spare bits, so that its product with any power is exact.
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10

_R0, _R1, _R2, _R3 = (np.uint64(r) for r in _ROT[:4])
_R4, _R5, _R6, _R7 = (np.uint64(r) for r in _ROT[4:])
_W = np.uint64(64)
_ONE, _TWO, _THREE, _FOUR, _FIVE = (np.uint64(i) for i in range(1, 6))
_TWELVE = np.uint64(12)
_FIFTY_TWO = np.uint64(52)


@kernel
def _four_rounds(a, b, r0, r1, r2, r3):
    a += b
    b = ((b << r0) | (b >> (_W - r0))) ^ a
    a += b
    b = ((b << r1) | (b >> (_W - r1))) ^ a
    a += b
    b = ((b << r2) | (b >> (_W - r2))) ^ a
    a += b
    b = ((b << r3) | (b >> (_W - r3))) ^ a
    return a, b


@kernel
def threefry2x64(counter_low, counter_high, key_low, key_high):
    """Threefry-2x64 with 20 rounds (Salmon et al., SC11): 128 counter bits to 128 random bits."""
    k2 = key_low ^ key_high ^ _PARITY
    a = counter_low + key_low
    b = counter_high + key_high
    a, b = _four_rounds(a, b, _R0, _R1, _R2, _R3)
    a += key_high
    b += k2 + _ONE
    a, b = _four_rounds(a, b, _R4, _R5, _R6, _R7)
    a += k2
    b += key_low + _TWO
    a, b = _four_rounds(a, b, _R0, _R1, _R2, _R3)
    a += key_low
    b += key_high + _THREE
    a, b = _four_rounds(a, b, _R4, _R5, _R6, _R7)
    a += key_high
    b += k2 + _FOUR
    a, b = _four_rounds(a, b, _R0, _R1, _R2, _R3)
    a += k2
    b += key_low + _FIVE
    return a, b


@kernel
def _fill_bits(bits, block, replica, key_low, key_high):
    first = block * np.uint64(HALF)
    for i in range(HALF):
        a, b = threefry2x64(first + np.uint64(i), replica, key_low, key_high)
        bits[i] = a
        bits[i + HALF] = b


@kernel
def _open_uniform(bits, as_float, uniform):
    # 52 random mantissa bits below an exponent of 0 give [1, 2); the shift by half a unit makes
    # the interval open at both ends, exactly.
    for i in range(bits.shape[0]):
        bits[i] = (bits[i] >> _TWELVE) | _EXPONENT_ONE
    for i in range(bits.shape[0]):
        uniform[i] = (as_float[i] - 1.0) + _HALF_ULP


@kernel
def _minus_log(bits, as_float, out):
    """Out = -log(as_float) for normal positive numbers below 1; `bits` views the same memory.

    The C library's logarithm is scalar; this one is a few vector operations: exponent and
    mantissa m in [sqrt(1/2), sqrt(2)) are split with integer operations, then
    log m = 2 artanh((m-1)/(m+1)) as its odd series, whose first term left out is below 2e-17.
    """
    for i in range(bits.shape[0]):
        out[i] = np.float64(np.int64(bits[i] >> _FIFTY_TWO) - 1023)
        bits[i] = (bits[i] & _MANTISSA) | _EXPONENT_ONE
    for i in range(bits.shape[0]):
        m = as_float[i]
        e = out[i]
        high = m > _SQRT2
        m = 0.5 * m if high else m
        e = e + 1.0 if high else e
        f = (m - 1.0) / (m + 1.0)
        s = f * f
        p = 1.0 / 21.0
        p = p * s + 1.0 / 19.0
        p = p * s + 1.0 / 17.0
        p = p * s + 1.0 / 15.0
        p = p * s + 1.0 / 13.0
        p = p * s + 1.0 / 11.0
        p = p * s + 1.0 / 9.0
        p = p * s + 1.0 / 7.0
        p = p * s + 1.0 / 5.0
        p = p * s + 1.0 / 3.0
        out[i] = -(e * _LN2 + (2.0 * f + 2.0 * f * (s * p)))


@kernel
def _exp(values, powers, power_bits):
    """Exponential of `values` in place, for arguments from -700 to 700.

    Two to the nearest whole power is built from bits in `powers` (`power_bits` views the same
    memory); the rest, at most log(2)/2 in size, goes through the Taylor series to its 13th power,
    whose first term left out is below 5e-18.
    """
    for i in range(values.shape[0]):
        power = np.floor(values[i] * _LOG2_E + 0.5)
        r = (values[i] - power * _LN2_HIGH) - power * _LN2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        values[i] = 1.0 + (r + r * r * p)
        powers[i] = power
    for i in range(values.shape[0]):
        power_bits[i] = np.uint64(np.int64(powers[i]) + 1023) << _FIFTY_TWO
    for i in range(values.shape[0]):
        values[i] = values[i] * powers[i]


@kernel
def _gaps(bits, uniform, gaps, block, replica, key_low, key_high, scale, inverse_shape):
    """Fill `gaps` with BLOCK Weibull gaps: scale * E**inverse_shape, E standard exponential."""
    _fill_bits(bits, block, replica, key_low, key_high)
    _open_uniform(bits, bits.view(np.float64), uniform)
    _minus_log(uniform.view(np.uint64), uniform, gaps)
    if inverse_shape == 1.0:
        for i in range(gaps.shape[0]):
            gaps[i] = scale * gaps[i]
    else:
        # The C library's power is scalar; this one is exp(log(E) / shape) in vector steps.
        for i in range(gaps.shape[0]):
            uniform[i] = gaps[i]
        _minus_log(uniform.view(np.uint64), uniform, gaps)
        for i in range(gaps.shape[0]):
            gaps[i] = -inverse_shape * gaps[i]
        _exp(gaps, uniform, uniform.view(np.uint64))
        for i in range(gaps.shape[0]):
            gaps[i] = scale * gaps[i]


@kernel
def _account(
    gaps,
    up,
    saves,
    progress,
    restart,
    first_save,
    period,
    work,
    stop,
    taxed,
    tax,
    durable_periods,
    durable_rest,
):
    """Account one block: up-time, durable saves and progress of the segment each gap ends."""
    slow = 1.0 + tax
    taxed_wall = taxed * slow
    for i in range(gaps.shape[0]):
        x = max(gaps[i] - restart, 0.0)
        since = x - first_save
        started = np.floor(since / period)
        phase = since - started * period
        n = started - durable_periods
        n = n + 1.0 if phase >= durable_rest else n
        running = max(phase - stop, 0.0)
        inside = min(running / slow, taxed) + max(running - taxed_wall, 0.0)
        p = first_save + started * work + inside
        up[i] = x
        saves[i] = max(n, 0.0)
        progress[i] = x if since < 0.0 else p


@kernel
def _sum_block(values):
    """Sum of a block by halving: a fixed order, and error that grows with log2 of its length."""
    width = values.shape[0] // 2
    while width > 0:
        for i in range(width):
            values[i] += values[i + width]
        width //= 2
    return values[0]


@kernel
def long_run(
    key_low,
    key_high,
    first_batch,
    blocks,
    scale,
    inverse_shape,
    restart,
    first_save,
    period,
    work,
    stop,
    taxed,
    tax,
    durable_periods,
    durable_rest,
    part_ends,
    out,
):
    """Sums over batches of ``blocks * BLOCK`` failures, one row of `out` a batch.

    Columns: gap, up-time, durable saves, progress, then time spent before each of `part_ends`
    (seconds after a failure at which a part of an interruptible restart ends).
    """
    bits = np.empty(BLOCK, np.uint64)
    uniform = np.empty(BLOCK)
    gaps = np.empty(BLOCK)
    up = np.empty(BLOCK)
    saves = np.empty(BLOCK)
    progress = np.empty(BLOCK)
    totals = np.empty((4, BLOCK))
    parts = np.empty((part_ends.shape[0], BLOCK))
    for row in range(out.shape[0]):
        replica = first_batch + np.uint64(row)
        totals[:] = 0.0
        parts[:] = 0.0
        for block in range(blocks):
            _gaps(
                bits,
                uniform,
                gaps,
                np.uint64(block),
                replica,
                key_low,
                key_high,
                scale,
                inverse_shape,
            )
            _account(
                gaps,
                up,
                saves,
                progress,
                restart,
                first_save,
                period,
                work,
                stop,
                taxed,
                tax,
                durable_periods,
                durable_rest,
            )
            for i in range(BLOCK):
                totals[0, i] += gaps[i]
                totals[1, i] += up[i]
                totals[2, i] += saves[i]
                totals[3, i] += progress[i]
            for j in range(part_ends.shape[0]):
                end = part_ends[j]
                for i in range(BLOCK):
                    parts[j, i] += min(gaps[i], end)
        for j in range(4):
            out[row, j] = _sum_block(totals[j])
        for j in range(part_ends.shape[0]):
            out[row, 4 + j] = _sum_block(parts[j])


@kernel
def lost_work(
    key_low,
    key_high,
    first_batch,
    scale,
    inverse_shape,
    restart,
    first_save,
    period,
    work,
    stop,
    taxed,
    tax,
    durable_periods,
    durable_rest,
    out,
):
    """Progress lost by each of BLOCK failures a batch; `out` has shape (batches, BLOCK)."""
    bits = np.empty(BLOCK, np.uint64)
    uniform = np.empty(BLOCK)
    gaps = np.empty(BLOCK)
    up = np.empty(BLOCK)
    saves = np.empty(BLOCK)
    progress = np.empty(BLOCK)
    for row in range(out.shape[0]):
        replica = first_batch + np.uint64(row)
        _gaps(bits, uniform, gaps, np.uint64(0), replica, key_low, key_high, scale, inverse_shape)
        _account(
            gaps,
            up,
            saves,
            progress,
            restart,
            first_save,
            period,
            work,
            stop,
            taxed,
            tax,
            durable_periods,
            durable_rest,
        )
        for i in range(BLOCK):
            out[row, i] = progress[i] - saves[i] * work


@kernel
def _time_to_progress(needed, first_save, period, work, stop, taxed, tax):
    """Up-time a segment needs to make `needed` seconds of progress."""
    if needed <= first_save:
        return needed
    beyond = needed - first_save
    intervals = np.ceil(beyond / work) - 1.0
    inside = beyond - intervals * work
    return first_save + intervals * period + stop + inside + tax * min(inside, taxed)


@kernel
def finish_runs(
    key_low,
    key_high,
    first_run,
    scale,
    inverse_shape,
    restart_fails,
    restart,
    idle,
    needed_total,
    period,
    work,
    stop,
    taxed,
    tax,
    advance,
    durable_after,
    part_ends,
    max_failures,
    out,
):
    """Play whole runs of `needed_total` seconds of progress, one row of `out` a run.

    Columns: failures, up-time, progress made (lost work included), time spent waiting for spares,
    finished (1 or 0), then time spent before each of `part_ends`. `restart_fails` says whether a
    failure may hit a restart (1) or not (0).
    """
    bits = np.empty(BLOCK, np.uint64)
    uniform = np.empty(BLOCK)
    gaps = np.empty(BLOCK)
    for row in range(out.shape[0]):
        replica = first_run + np.uint64(row)
        secured = 0.0
        up_total = 0.0
        progress_total = 0.0
        failures = 0
        position = BLOCK
        block = np.uint64(0)
        done = False
        booted = True  # the first start is not a restart
        lead = 0.0
        for j in range(part_ends.shape[0]):
            out[row, 5 + j] = 0.0
        while not done and failures < max_failures:
            if position == BLOCK:
                _gaps(
                    bits,
                    uniform,
                    gaps,
                    block,
                    replica,
                    key_low,
                    key_high,
                    scale,
                    inverse_shape,
                )
                block += _ONE
                position = 0
            gap = gaps[position]
            position += 1
            fragile = 0.0 if booted else restart_fails * restart
            if not booted:
                for j in range(part_ends.shape[0]):
                    end = part_ends[j]
                    out[row, 5 + j] += min(gap, end) if restart_fails > 0.0 else end
            booted = False
            x = max(gap - fragile, 0.0)
            first_save = work - lead
            need = _time_to_progress(
                needed_total - secured, first_save, period, work, stop, taxed, tax
            )
            if x >= need and gap >= fragile:
                up_total += need
                progress_total += needed_total - secured
                done = True
            else:
                failures += 1
                up_total += x
                since = x - first_save
                if since < 0.0:
                    progress_total += x
                else:
                    started = np.floor(since / period)
                    phase = since - started * period
                    running = max(phase - stop, 0.0)
                    inside = min(running / (1.0 + tax), taxed) + max(
                        running - taxed * (1.0 + tax), 0.0
                    )
                    progress_total += first_save + started * work + inside
                    n = np.floor((since - durable_after) / period) + 1.0
                    if n > 0.0:
                        secured += n * work + (advance - lead)
                        lead = advance
        out[row, 0] = failures
        out[row, 1] = up_total
        out[row, 2] = progress_total
        out[row, 3] = failures * idle
        out[row, 4] = 1.0 if done else 0.0

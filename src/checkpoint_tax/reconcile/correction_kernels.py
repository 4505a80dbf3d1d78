"""Compiled loops that record and apply what one step of AdamW forgets.

A step maps many earlier states to one later state: rounding. Both sides know the later state, the
gradient and the step, so both can form the same guess at the earlier value, a *window* of floats
around it, and the set of those that the step really maps to the later value. Usually the set has
one member and nothing needs recording. Otherwise the rank of the truth in the set is, in as few
bits as the set needs. Where the step shifted the earlier value's last ``s`` bits out, the set
is too long to walk, and the distance from the guess is recorded in ``s + 2`` bits; where ``s`` is
larger than `WIDEST` allows, the value itself. A truth found in none of these ways is an exception:
its place and its value are listed.

So any earlier state whatever is recorded without loss; how well the arithmetic here matches what
the trainer ran decides only how many bits that takes. It uses IEEE operations only (`fma`, `sqrt`,
division), so any two machines agree on every guess.

Each element's three codes (p, m, v) follow one another in one stream of bits, least significant
first; the whole values and the places of exceptions have streams of their own. Streams start
afresh every `CHUNK` elements, so threads share out chunks.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from checkpoint_tax.compilation import kernel
from checkpoint_tax.reconcile.adamw_kernels import (
    IEEE,
    aligned_rows,
    copy_floats,
    fetch,
    gradients_at,
    multiply_add,
    take_quotients,
    take_roots,
)

BLOCK = 512
"""Elements worked on at a time: with all that is known of them they fill the first-level cache."""

CHUNK = 1 << 14
"""Elements whose streams start afresh; positions of exceptions take 14 bits."""

WIDEST = 18
"""Longest code [bits]: three of them and a started byte fit into one word."""

HEADER_WORDS = 3
"""32-bit words before a chunk's streams: whole values, exceptions, bytes of codes."""

WORST_BYTES = 4 * HEADER_WORDS + CHUNK * (3 * 4 + 3 * 2 + 8) + 16
"""More than any chunk can take."""

_R_P, _R_M, _R_V = 1, 3, 1
"""Floats to either side of the guess that a window holds, for p, m and v."""

_LOSSES, _WIDTHS = 2 * BLOCK, 3 * BLOCK
_U0, _U3, _U7 = (np.uint64(i) for i in (0, 3, 7))
_LONGEST = np.uint64(56)
"""Bits that can be appended to a started byte without filling its word."""

_ONE = np.float32(1)
_EXPONENT = np.int32(0x7F800000)


@intrinsic
def bits_of(typingctx, value):
    """The bits of a float32 as int32."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), generate


@intrinsic
def float_of(typingctx, bits):
    """The float32 with these bits."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


@intrinsic
def ones_in(typingctx, bits):
    """Number of bits that are set."""

    def generate(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int32(types.int32), generate


@intrinsic
def word_at(typingctx, address):
    """The 64-bit word at any address."""

    def generate(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(types.uintp), generate


@intrinsic
def put_word(typingctx, address, word):
    """Store a 64-bit word at any address."""

    def generate(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        builder.store(args[1], pointer, align=1)
        return context.get_dummy_value()

    return types.void(types.uintp, types.uint64), generate


@kernel
def _divided(x, divisor, inverse):
    """``x / divisor`` to the last bit but for the extremes, where any guess will do."""
    q = x * inverse
    return multiply_add(multiply_add(-q, divisor, x), inverse, q)


@kernel
def _with_bit(fits, fit, j):
    # Every int32 stays one: left alone, the compiler would widen them and halve the vectors.
    return np.int32(fits | np.int32(np.int32(fit) << np.int32(j)))


@kernel
def _or_guess(fits, radius):
    return np.int32(fits if fits != 0 else np.int32(np.int32(1) << np.int32(radius)))


@kernel
def _lost(after, guess):
    """Last bits of the earlier value that the step shifted out; may be negative."""
    return np.int32(np.int32((after & _EXPONENT) - (guess & _EXPONENT)) >> np.int32(23))


@kernel
def _direct(lost, radius):
    # A window of 3 to either side still holds the truth where one bit is lost, one of 1 does not.
    return lost >= (2 if radius > 1 else 1)


@kernel
def _width(fits, lost, radius):
    """Length of a code [bits]; more than `WIDEST` where the whole value is listed instead."""
    many = ones_in(fits)
    ranked = np.int32(np.int32(many > 1) + np.int32(many > 2))
    if radius > 1:
        ranked = np.int32(ranked + np.int32(many > 4))
    return np.int32(lost + 2 if _direct(lost, radius) else ranked)


@kernel
def _code_width(fits, lost, radius):
    width = _width(fits, lost, radius)
    return np.int32(0 if width > WIDEST else width)


@kernel
def _look_at_p(after, q, decay, inverse):
    target = bits_of(after)
    guess = bits_of(_divided(after - q, decay, inverse))
    fits = np.int32(0)
    for j in range(2 * _R_P + 1):
        x = float_of(np.int32(guess + np.int32(j - _R_P)))
        fits = _with_bit(fits, bits_of(x * decay + q) == target, j)
    return guess, _or_guess(fits, _R_P), _lost(target, guess)


@kernel
def _look_at_m(after, gradient, w1, kept, inverse):
    target = bits_of(after)
    guess = bits_of(_divided(multiply_add(-w1, gradient, after), kept, inverse))
    fits = np.int32(0)
    for j in range(2 * _R_M + 1):
        x = float_of(np.int32(guess + np.int32(j - _R_M)))
        fits = _with_bit(fits, bits_of(multiply_add(w1, gradient - x, x)) == target, j)
    return guess, _or_guess(fits, _R_M), _lost(target, guess)


@kernel
def _look_at_m_high(after, gradient, w1, kept, inverse):
    target = bits_of(after)
    guess = bits_of(_divided(multiply_add(-w1, gradient, after), kept, inverse))
    fits = np.int32(0)
    for j in range(2 * _R_M + 1):
        x = float_of(np.int32(guess + np.int32(j - _R_M)))
        made = multiply_add(-kept, gradient - x, gradient)
        fits = _with_bit(fits, bits_of(made) == target, j)
    return guess, _or_guess(fits, _R_M), _lost(target, guess)


@kernel
def _look_at_v(after, gradient, c2, b2, inverse):
    share = c2 * gradient
    target = bits_of(after)
    guess = bits_of(_divided(multiply_add(-share, gradient, after), b2, inverse))
    fits = np.int32(0)
    for j in range(2 * _R_V + 1):
        x = float_of(np.int32(guess + np.int32(j - _R_V)))
        made = multiply_add(share, gradient, x * b2)
        fits = _with_bit(fits, bits_of(made) == target, j)
    return guess, _or_guess(fits, _R_V), _lost(target, guess)


@kernel
def _first_moment_row(row):
    coefficient, high = row[1], row[9] != np.float32(0)
    w1 = coefficient + _ONE if high else coefficient
    kept = -coefficient if high else _ONE - coefficient
    return w1, kept, _ONE / kept


@kernel
def _coded(before, guess, fits, lost, radius):
    """Code of the truth; its length, plus 256 for a whole value or 512 for an exception."""
    distance = np.int32(before - guess)
    place = np.int32(distance + radius)
    bit = np.int32(place & 7)
    known = (np.int32(np.int32(fits >> bit) & 1) == 1) & (place == bit)
    rank = ones_in(np.int32(fits & np.int32(np.int32(np.int32(1) << bit) - 1)))
    half = np.int32(np.int32(1) << np.int32(np.int32(lost + 1) & 31))
    far = np.int32(distance + half)
    near = (far >= 0) & (far < np.int32(2 * half))
    direct = _direct(lost, radius)
    width = _code_width(fits, lost, radius)
    whole = lost > WIDEST - 2
    right = near if direct else known
    code = np.int32(far if direct else rank)
    code = np.int32(code if right & (not whole) else 0)
    flag = np.int32(1 if whole else (0 if right else 2))
    return code, np.int32(width | np.int32(flag << np.int32(8)))


@kernel
def _encode_p(coded, before, after, q, row):
    decay = row[0]
    inverse = _ONE / decay
    for i in range(after.shape[0]):
        guess, fits, lost = _look_at_p(after[i], q[i], decay, inverse)
        code, width = _coded(before[i], guess, fits, lost, np.int32(_R_P))
        coded[i] = code
        coded[BLOCK + i] = width


@kernel
def _encode_m(coded, before, after, g, row):
    w1, kept, inverse = _first_moment_row(row)
    scale, high = row[8], row[9] != np.float32(0)
    if high:
        for i in range(after.shape[0]):
            guess, fits, lost = _look_at_m_high(after[i], g[i] * scale, w1, kept, inverse)
            code, width = _coded(before[i], guess, fits, lost, np.int32(_R_M))
            coded[i] = code
            coded[BLOCK + i] = width
        return
    for i in range(after.shape[0]):
        guess, fits, lost = _look_at_m(after[i], g[i] * scale, w1, kept, inverse)
        code, width = _coded(before[i], guess, fits, lost, np.int32(_R_M))
        coded[i] = code
        coded[BLOCK + i] = width


@kernel
def _encode_v(coded, before, after, g, row):
    b2, c2, scale = row[2], row[3], row[8]
    inverse = _ONE / b2
    for i in range(after.shape[0]):
        guess, fits, lost = _look_at_v(after[i], g[i] * scale, c2, b2, inverse)
        code, width = _coded(before[i], guess, fits, lost, np.int32(_R_V))
        coded[i] = code
        coded[BLOCK + i] = width


@kernel
def _join(codes, widths, p, m, v):
    """One code per element out of three; returns whether any is flagged."""
    any_flag = np.int32(0)
    for i in range(codes.shape[0]):
        noted = np.int32(p[BLOCK + i] | np.int32(m[BLOCK + i] | v[BLOCK + i]))
        any_flag = np.int32(any_flag | noted)
        first = np.int32(p[BLOCK + i] & 255)
        second = np.int32(first + np.int32(m[BLOCK + i] & 255))
        codes[i] = (
            np.uint64(p[i])
            | np.uint64(m[i]) << np.uint64(first)
            | np.uint64(v[i]) << np.uint64(second)
        )
        widths[i] = np.uint64(np.int32(second + np.int32(v[BLOCK + i] & 255)))
    return np.int32(any_flag >> 8)


@kernel
def _pair(codes, widths):
    """Join the two halves of a block, so that there are half as many codes to pack.

    Returns how many codes there are now: as many as before where two would not fit a word.
    """
    half = codes.shape[0] // 2
    low_codes, high_codes = codes[:half], codes[half : 2 * half]
    low_widths, high_widths = widths[:half], widths[half : 2 * half]
    longest = _U0
    for i in range(half):
        longest = max(longest, low_widths[i] + high_widths[i])
    if codes.shape[0] != 2 * half or longest > _LONGEST:
        return codes.shape[0]
    for i in range(half):
        low_codes[i] |= high_codes[i] << low_widths[i]
        low_widths[i] += high_widths[i]
    return half


@kernel
def _pack(codes, widths, address, pending, filled):
    """Append codes to the stream; returns the next address and the started byte."""
    for i in range(codes.shape[0]):
        pending |= codes[i] << filled
        put_word(address, pending)
        filled += widths[i]
        address += np.uintp(filled >> _U3)
        pending >>= filled & ~_U7
        filled &= _U7
    return address, pending, filled


@kernel
def encode_chunk(before_p, before_m, before_v, p, m, v, g, row, out, room):
    """Record one chunk of one step into ``out``; returns the bytes written.

    ``before_*`` are the earlier values' bits, the others the later values.
    """
    size = p.shape[0]
    coded, q, codes, widths, values, places, stream = room
    n_values, n_places = 0, 0
    start = np.uintp(stream.ctypes.data)
    address, pending, filled = start, _U0, _U0
    for first in range(0, size, BLOCK):
        end = min(first + BLOCK, size)
        n = end - first
        after = min(end + BLOCK, size)
        moment, gradient, roots = m[first:end], g[first:end], q[:n]
        fetch(v.ctypes.data, end, after)
        take_roots(roots, v[first:end], IEEE, np.uintp(0))
        take_quotients(roots, moment, row)
        fetch(m.ctypes.data, end, after)
        _encode_p(coded[0], before_p[first:end], p[first:end], roots, row)
        fetch(before_p.ctypes.data, end, after)
        fetch(p.ctypes.data, end, after)
        _encode_m(coded[1], before_m[first:end], moment, gradient, row)
        fetch(before_m.ctypes.data, end, after)
        fetch(g.ctypes.data, end, after)
        _encode_v(coded[2], before_v[first:end], v[first:end], gradient, row)
        fetch(before_v.ctypes.data, end, after)
        any_flag = _join(codes[:n], widths[:n], coded[0], coded[1], coded[2])
        many = _pair(codes[:n], widths[:n])
        address, pending, filled = _pack(codes[:many], widths[:many], address, pending, filled)
        if any_flag == 0:
            continue
        for i in range(n):
            for plane in range(3):
                flag = coded[plane, BLOCK + i] >> 8
                if flag == 0:
                    continue
                truth = before_p[first + i]
                if plane == 1:
                    truth = before_m[first + i]
                if plane == 2:
                    truth = before_v[first + i]
                values[n_values] = np.uint32(truth)
                n_values += 1
                if flag == 2:
                    places[n_places] = np.uint16(first + i | plane << 14)
                    n_places += 1
    n_bytes = int(np.int64(address - start)) + int(filled > _U0)
    words = out.view(np.uint32)
    words[0], words[1], words[2] = n_values, n_places, n_bytes
    begin = 4 * HEADER_WORDS
    words[HEADER_WORDS : HEADER_WORDS + n_values] = values[:n_values]
    begin += 4 * n_values
    out[begin : begin + 2 * n_places] = places[:n_places].view(np.uint8)
    begin += 2 * n_places
    out[begin : begin + n_bytes] = stream[:n_bytes]
    begin += n_bytes
    padded = -(-begin // 4) * 4
    out[begin:padded] = np.uint8(0)
    return padded


@kernel
def encode_range(before_p, before_m, before_v, p, m, v, g, row, chunks, out, lengths):
    """Record several chunks, one after the other; ``chunks`` holds their edges in the shard."""
    room = (
        np.empty((3, 2 * BLOCK), np.int32),
        np.empty(BLOCK, np.float32),
        np.empty(BLOCK, np.uint64),
        np.empty(BLOCK, np.uint64),
        np.empty(3 * CHUNK, np.uint32),
        np.empty(3 * CHUNK, np.uint16),
        np.empty(8 * CHUNK + 16, np.uint8),
    )
    used = 0
    for c in range(chunks.shape[0] - 1):
        a, z = chunks[c], chunks[c + 1]
        lengths[c] = encode_chunk(
            before_p[a:z],
            before_m[a:z],
            before_v[a:z],
            p[a:z],
            m[a:z],
            v[a:z],
            g[a:z],
            row,
            out[used:],
            room,
        )
        used += int(lengths[c])
    return used


@kernel
def _look_p(found, after, q, row):
    decay = row[0]
    inverse = _ONE / decay
    for i in range(after.shape[0]):
        guess, fits, lost = _look_at_p(after[i], q[i], decay, inverse)
        found[i] = guess
        found[BLOCK + i] = fits
        found[_LOSSES + i] = lost
        found[_WIDTHS + i] = _code_width(fits, lost, _R_P)


@kernel
def _look_m(found, after, g, row):
    w1, kept, inverse = _first_moment_row(row)
    scale, high = row[8], row[9] != np.float32(0)
    if high:
        for i in range(after.shape[0]):
            guess, fits, lost = _look_at_m_high(after[i], g[i] * scale, w1, kept, inverse)
            found[i] = guess
            found[BLOCK + i] = fits
            found[_LOSSES + i] = lost
            found[_WIDTHS + i] = _code_width(fits, lost, _R_M)
        return
    for i in range(after.shape[0]):
        guess, fits, lost = _look_at_m(after[i], g[i] * scale, w1, kept, inverse)
        found[i] = guess
        found[BLOCK + i] = fits
        found[_LOSSES + i] = lost
        found[_WIDTHS + i] = _code_width(fits, lost, _R_M)


@kernel
def _look_v(found, after, g, row):
    b2, c2, scale = row[2], row[3], row[8]
    inverse = _ONE / b2
    for i in range(after.shape[0]):
        guess, fits, lost = _look_at_v(after[i], g[i] * scale, c2, b2, inverse)
        found[i] = guess
        found[BLOCK + i] = fits
        found[_LOSSES + i] = lost
        found[_WIDTHS + i] = _code_width(fits, lost, _R_V)


@kernel
def _add_widths(widths, p, m, v):
    """Length of each element's code; returns the most bits lost by any value."""
    lost = np.int32(0)
    for i in range(widths.shape[0]):
        most = max(p[_LOSSES + i], max(m[_LOSSES + i], v[_LOSSES + i]))
        lost = np.int32(max(lost, most))
        widths[i] = np.uint64(np.int32(p[_WIDTHS + i] + np.int32(m[_WIDTHS + i] + v[_WIDTHS + i])))
    return np.int32(lost > WIDEST - 2)


@kernel
def _unpack(codes, widths, address, at):
    """Read a block's codes; the position depends on the lengths only, so reads overlap."""
    n = codes.shape[0]
    half = n // 2
    longest = _U0
    for i in range(half):
        longest = max(longest, widths[i] + widths[half + i])
    if n != 2 * half or longest > _LONGEST:
        for i in range(n):
            codes[i] = word_at(address + np.uintp(at >> _U3)) >> (at & _U7)
            at += widths[i]
        return at
    for i in range(half):
        code = word_at(address + np.uintp(at >> _U3)) >> (at & _U7)
        codes[i] = code
        codes[half + i] = code >> widths[i]
        at += widths[i] + widths[half + i]
    return at


@kernel
def _split(codes, parts, p, m):
    """The three codes of each element; the last keeps what follows it in the stream."""
    for i in range(codes.shape[0]):
        code, first, second = codes[i], np.uint64(p[_WIDTHS + i]), np.uint64(m[_WIDTHS + i])
        parts[0, i] = np.int32(code)
        parts[1, i] = np.int32(code >> first)
        parts[2, i] = np.int32(code >> first >> second)


@kernel
def _truth(guess, fits, lost, width, part, radius):
    code = np.int32(part & np.int32(np.int32(np.int32(1) << width) - 1))
    left = fits
    for rank in range(2 * _R_M):
        fewer = np.int32(left & np.int32(left - 1))
        left = np.int32(fewer if np.int32(rank) < code else left)
    chosen = ones_in(np.int32(np.int32(left & np.int32(-left)) - 1))
    half = np.int32(np.int32(1) << np.int32(np.int32(lost + 1) & 31))
    direct, ranked = np.int32(code - half), np.int32(chosen - radius)
    return np.int32(guess + np.int32(direct if _direct(lost, radius) else ranked))


@kernel
def _decode_p(values, found, parts):
    for i in range(values.shape[0]):
        guess, fits, lost, width = (
            found[i],
            found[BLOCK + i],
            found[_LOSSES + i],
            found[_WIDTHS + i],
        )
        values[i] = _truth(guess, fits, lost, width, parts[i], np.int32(_R_P))


@kernel
def _decode_m(values, found, parts):
    for i in range(values.shape[0]):
        guess, fits, lost, width = (
            found[i],
            found[BLOCK + i],
            found[_LOSSES + i],
            found[_WIDTHS + i],
        )
        values[i] = _truth(guess, fits, lost, width, parts[i], np.int32(_R_M))


@kernel
def _decode_v(values, found, parts):
    for i in range(values.shape[0]):
        guess, fits, lost, width = (
            found[i],
            found[BLOCK + i],
            found[_LOSSES + i],
            found[_WIDTHS + i],
        )
        values[i] = _truth(guess, fits, lost, width, parts[i], np.int32(_R_V))


@kernel
def _mark_whole(flags, found, bit):
    for i in range(flags.shape[0]):
        flags[i] |= np.uint8(np.int32(np.int32(found[_LOSSES + i] > WIDEST - 2) << bit))


@kernel
def _patch(p, m, v, flags, first, address, n_values, n_places, cursor):
    """Put in a block's whole values and exceptions; ``cursor`` counts those used."""
    n = p.shape[0]
    values = np.uintp(address + np.uintp(4 * HEADER_WORDS))
    places = np.uintp(values + np.uintp(4 * n_values))
    used, next_place = cursor[1], cursor[2]
    while next_place < n_places:
        place = np.int64(word_at(places + np.uintp(2 * next_place)) & np.uint64(0xFFFF))
        at = (place & (CHUNK - 1)) - first
        if at >= n:
            break
        flags[at] |= np.uint8(1 << (place >> 14))
        next_place += 1
    eight = flags.view(np.uint64)
    for e in range(eight.shape[0]):
        if eight[e] == _U0:
            continue
        for i in range(8 * e, min(8 * e + 8, n)):
            for plane in range(3):
                if flags[i] >> plane & 1:
                    value = np.int32(word_at(values + np.uintp(4 * used)) & np.uint64(0xFFFFFFFF))
                    used += 1
                    if plane == 0:
                        p[i] = value
                    elif plane == 1:
                        m[i] = value
                    else:
                        v[i] = value
    cursor[1], cursor[2] = used, next_place


@kernel
def decode_range(old_p, old_m, old_v, p, m, v, gradients, rows, records, edges):
    """Undo all steps of a range of chunks, in one pass over memory.

    ``old_*`` are the arrays after the last step and ``p``, ``m``, ``v`` take those before the
    first. ``gradients`` and ``records`` hold addresses per step (last step first), the latter of
    each chunk's record; ``edges`` holds the chunks' edges in the shard.
    """
    steps = rows.shape[0]
    found = np.empty((3, 4 * BLOCK), np.int32)
    parts = np.empty((3, BLOCK), np.int32)
    room = aligned_rows(4)
    q = room[3]
    widths, codes = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    flags = np.empty(BLOCK, np.uint8)
    cursors = np.empty((steps, 3), np.int64)
    for c in range(edges.shape[0] - 1):
        start, stop = edges[c], edges[c + 1]
        cursors[:] = 0
        for first in range(start, stop, BLOCK):
            end = min(first + BLOCK, stop)
            after = min(end + BLOCK, edges[-1])
            n = end - first
            w, code = widths[:n], codes[:n]
            block_p, block_m, block_v = room[0, :n], room[1, :n], room[2, :n]
            copy_floats(block_p, old_p[first:end])
            copy_floats(block_m, old_m[first:end])
            copy_floats(block_v, old_v[first:end])
            bits_p, bits_m = block_p.view(np.int32), block_m.view(np.int32)
            bits_v = block_v.view(np.int32)
            for k in range(steps):
                fetch(gradients[k], end, after)
                if k == 0:
                    fetch(old_p.ctypes.data, end, after)
                if k == steps // 3:
                    fetch(old_m.ctypes.data, end, after)
                if k == 2 * steps // 3:
                    fetch(old_v.ctypes.data, end, after)
                address = records[k, c]
                head = word_at(address)
                n_values = np.int64(head & np.uint64(0xFFFFFFFF))
                n_places = np.int64(head >> np.uint64(32))
                stream = np.uintp(
                    address + np.uintp(4 * HEADER_WORDS + 4 * n_values + 2 * n_places)
                )
                g = gradients_at(gradients[k], first, end)
                roots = q[:n]
                take_roots(roots, block_v, IEEE, np.uintp(0))
                take_quotients(roots, block_m, rows[k])
                _look_p(found[0], block_p, roots, rows[k])
                _look_m(found[1], block_m, g, rows[k])
                _look_v(found[2], block_v, g, rows[k])
                any_flag = _add_widths(w, found[0], found[1], found[2])
                cursors[k, 0] = np.int64(_unpack(code, w, stream, np.uint64(cursors[k, 0])))
                if any_flag != 0 or cursors[k, 2] < n_places:
                    flags[:] = np.uint8(0)
                    for plane in range(3):
                        _mark_whole(flags[:n], found[plane], np.int32(plane))
                _split(code, parts, found[0], found[1])
                _decode_p(bits_p, found[0], parts[0])
                _decode_m(bits_m, found[1], parts[1])
                _decode_v(bits_v, found[2], parts[2])
                if any_flag == 0 and cursors[k, 2] >= n_places:
                    continue
                _patch(
                    bits_p,
                    bits_m,
                    bits_v,
                    flags,
                    first - start,
                    address,
                    n_values,
                    n_places,
                    cursors[k],
                )
            copy_floats(p[first:end], block_p)
            copy_floats(m[first:end], block_m)
            copy_floats(v[first:end], block_v)

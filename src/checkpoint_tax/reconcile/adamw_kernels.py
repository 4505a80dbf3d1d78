"""Compiled loops of AdamW in PyTorch's order of operations, bit for bit.

One step of one element, with every product and sum rounded to float32 unless a fused
multiply-add ``fma(a, b, c) = a b + c`` rounds once:

    m = fma(w1, g - m, m)              for w1 = 1 - b1 below one half, else fma(w1 - 1, g - m, g)
    v = fma(c2 g, g, v b2)             c2 = 1 - b2
    p = p decay + (ns m) / (root(v) / rb + eps)
    ns = -lr / (1 - b1^t),  rb = sqrt(1 - b2^t),  decay = 1 - lr wd

Builds of the library without fused multiply-add round the products too; its fused optimizer ends
with a scalar loop, in which ``v = fma(v, b2, (c2 g) g)``; and its other two optimizers take the
root from a vector library that is not correctly rounded.

A block of `BLOCK` elements takes all its steps while it stays in the first-level cache, and each
step asks for the same stretch of its gradient in the next block, so memory is passed over once.
"""

from __future__ import annotations

import platform
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from checkpoint_tax.compilation import kernel

BLOCK = 1024
"""Elements kept in cache through all steps; a multiple of every vector width."""

ROW = 10
"""Numbers per step: decay, coefficient, b2, c2, rb, 1/rb or 0, ns, eps, scale, 1 for high w1."""

IEEE, LIBRARY, RECIPROCAL = 0, 1, 2

_VML_MODE = 0x140102
"""High accuracy, denormals kept, errors ignored: what the library asks of its square root."""

_LINE = 16
_LANES = 16
_X86 = platform.machine().lower() in {"x86_64", "amd64"}
_ZERO = np.float32(0)
_HALF = np.float32(0.5)
_INFINITY = np.float32(np.inf)
# Outside these bits the vector library leaves its main path.
_SMALLEST = np.uint32(0x00800000)
_SPAN = np.uint32(0x7F7FF000 - 0x00800000)
_NO_BITS = np.uint32(0)

# Addresses are typed integers and not pointers, so that compiled code can be cached.


@intrinsic
def multiply_add(typingctx, a, b, c):
    """``a b + c`` of float32, rounded once, in hardware where the processor can."""
    signature = types.float32(types.float32, types.float32, types.float32)

    def generate(context, builder, signature, args):
        return builder.fma(*args)

    return signature, generate


@intrinsic
def floats_at(typingctx, address):
    """Pointer to float32 from an address."""
    pointer = types.CPointer(types.float32)

    def generate(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(pointer))

    return pointer(types.uintp), generate


@intrinsic
def fetch_line(typingctx, address):
    """Ask for a cache line in the second-level cache; any address is allowed."""

    def generate(context, builder, signature, args):
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, word, word, word]),
            "llvm.prefetch.p0",
        )
        read, second_level, data = word(0), word(2), word(1)
        builder.call(function, [builder.inttoptr(args[0], byte), read, second_level, data])
        return context.get_dummy_value()

    return types.void(types.uintp), generate


@intrinsic
def call_root(typingctx, function, n, source, target, mode):
    """Call a vector square root ``function(n, source, target, mode)`` at an address."""

    def generate(context, builder, signature, args):
        word = args[1].type
        pointer = ir.FunctionType(ir.VoidType(), [word] * 4).as_pointer()
        builder.call(builder.inttoptr(args[0], pointer), args[1:])
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.uintp, types.uintp, types.uintp), generate


def _estimate(builder: Any, values: Any) -> Any:
    """The x86 instruction's estimate of 1/sqrt(x), four lanes at a time.

    Elsewhere no caller gets here, and code that is never run needs no instruction.
    """
    lanes = values.type.count
    if not _X86:
        return values
    four, word = ir.VectorType(ir.FloatType(), 4), ir.IntType(32)
    estimate = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(four, [four]), "llvm.x86.sse.rsqrt.ps"
    )

    def pick(source: Any, other: Any, numbers: list[int]) -> Any:
        mask = ir.Constant(ir.VectorType(word, len(numbers)), numbers)
        return builder.shuffle_vector(source, other, mask)

    parts = [
        builder.call(estimate, [pick(values, values, list(range(i, i + 4)))])
        for i in range(0, lanes, 4)
    ]
    while len(parts) > 1:
        size = 2 * parts[0].type.count
        parts = [
            pick(a, b, list(range(size))) for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]


def _reciprocal_root(builder: Any, x: Any, function: Any, room: Any) -> Any:
    """The vector library's root: its estimate refined without fused multiply-add.

    Lanes outside its main path are rare; the library itself then takes all lanes.
    """
    lanes = ir.VectorType(ir.IntType(32), x.type.count)
    half = ir.Constant(x.type, [0.5] * x.type.count)
    r = _estimate(builder, x)
    s, h = builder.fmul(x, r), builder.fmul(half, r)
    e = builder.fsub(half, builder.fmul(s, h))
    s = builder.fadd(s, builder.fmul(s, e))
    h = builder.fadd(h, builder.fmul(h, e))
    root = builder.fadd(s, builder.fmul(h, builder.fsub(x, builder.fmul(s, s))))

    bits = builder.bitcast(x, lanes)
    zero = ir.Constant(lanes, [0] * x.type.count)
    empty = builder.icmp_unsigned("==", bits, zero)
    root = builder.select(empty, ir.Constant(x.type, [0.0] * x.type.count), root)
    above = builder.sub(bits, ir.Constant(lanes, [int(_SMALLEST)] * x.type.count))
    strange = builder.icmp_unsigned(">", above, ir.Constant(lanes, [int(_SPAN)] * x.type.count))
    strange = builder.and_(strange, builder.not_(empty))
    any_strange = builder.icmp_unsigned(
        "!=",
        builder.bitcast(strange, ir.IntType(x.type.count)),
        ir.Constant(ir.IntType(x.type.count), 0),
    )
    ordinary = builder.block
    with builder.if_then(any_strange, likely=False):
        word = function.type
        here = builder.ptrtoint(room, word)
        builder.store(x, room, align=4)
        pointer = ir.FunctionType(ir.VoidType(), [word] * 4).as_pointer()
        arguments = [word(x.type.count), here, here, word(_VML_MODE)]
        builder.call(builder.inttoptr(function, pointer), arguments)
        called = builder.load(room, align=4)
        asked = builder.block
    merged = builder.phi(x.type)
    merged.add_incoming(root, ordinary)
    merged.add_incoming(called, asked)
    return merged


def _vector_step(builder: Any, args: Any, *, reciprocal: bool) -> None:
    """One step of whole vectors, asking for one cache line of what comes next for each."""
    p, m, v, g, ahead, count, row, function = args
    word, byte = count.type, ir.IntType(8).as_pointer()
    vector = ir.VectorType(ir.FloatType(), _LANES)
    place = ir.IntType(32)
    module = builder.module

    def declared(name: str, result: Any, arguments: list[Any]) -> Any:
        kind = ir.FunctionType(result, arguments)
        return cgutils.get_or_insert_function(module, kind, name)

    fma = declared(f"llvm.fma.v{_LANES}f32", vector, [vector] * 3)
    root = declared(f"llvm.sqrt.v{_LANES}f32", vector, [vector])
    fetch_ahead = declared("llvm.prefetch.p0", ir.VoidType(), [byte, place, place, place])

    def everywhere(number: Any) -> Any:
        undefined = ir.Constant(vector, ir.Undefined)
        lane = builder.insert_element(undefined, number, place(0))
        zeros = ir.Constant(ir.VectorType(place, _LANES), [0] * _LANES)
        return builder.shuffle_vector(lane, undefined, zeros)

    numbers = builder.inttoptr(row, ir.FloatType().as_pointer())
    decay, coefficient, b2, c2, rb, ri, ns, eps, scale, high = (
        everywhere(builder.load(builder.gep(numbers, [word(i)]))) for i in range(ROW)
    )
    is_high = builder.fcmp_ordered("!=", high, ir.Constant(vector, [0.0] * _LANES))
    infinity = ir.Constant(vector, [float("inf")] * _LANES)
    room = cgutils.alloca_once(builder, vector)
    step = word(_LANES)
    with cgutils.for_range_slice(builder, word(0), count, step) as (i, _):
        offset = builder.mul(i, word(4))

        def at(base: Any, offset: Any = offset) -> Any:
            return builder.inttoptr(builder.add(base, offset), vector.as_pointer())

        line = builder.inttoptr(builder.add(ahead, offset), byte)
        builder.call(fetch_ahead, [line, place(0), place(2), place(1)])
        gradient = builder.fmul(builder.load(at(g), align=4), scale)
        first, second = builder.load(at(m), align=4), builder.load(at(v), align=4)
        base = builder.select(is_high, gradient, first)
        first = builder.call(fma, [coefficient, builder.fsub(gradient, first), base])
        kept = builder.fmul(second, b2)
        second = builder.call(fma, [builder.fmul(c2, gradient), gradient, kept])
        if reciprocal:
            s = _reciprocal_root(builder, second, function, room)
        else:
            s = builder.call(root, [second])
        # A quotient by a number that is always the same, corrected to the last bit.
        d = builder.fmul(s, ri)
        rest = builder.call(fma, [builder.fneg(d), rb, s])
        d = builder.call(fma, [rest, ri, d])
        d = builder.select(builder.fcmp_ordered("==", s, infinity), s, d)
        quotient = builder.fdiv(builder.fmul(ns, first), builder.fadd(d, eps))
        weights = builder.fmul(builder.load(at(p), align=4), decay)
        builder.store(builder.fadd(weights, quotient), at(p), align=4)
        builder.store(first, at(m), align=4)
        builder.store(second, at(v), align=4)


_EIGHT_WORDS = types.void(*[types.uintp] * 8)


@intrinsic
def _steps_with_ieee_root(typingctx, p, m, v, g, ahead, count, row, function):
    def generate(context, builder, signature, args):
        _vector_step(builder, args, reciprocal=False)
        return context.get_dummy_value()

    return _EIGHT_WORDS, generate


@intrinsic
def _steps_with_library_root(typingctx, p, m, v, g, ahead, count, row, function):
    def generate(context, builder, signature, args):
        _vector_step(builder, args, reciprocal=True)
        return context.get_dummy_value()

    return _EIGHT_WORDS, generate


@intrinsic
def estimate_reciprocal_roots(typingctx, n, source, target):
    """The x86 instruction's estimate of 1/sqrt(x), four at a time; n a multiple of 4."""

    def generate(context, builder, signature, args):
        four = ir.VectorType(ir.FloatType(), 4)
        count, source, target = args
        step = ir.Constant(count.type, 4)
        with cgutils.for_range_slice(builder, ir.Constant(count.type, 0), count, step) as (i, _):
            offset = builder.mul(i, ir.Constant(count.type, 4))
            there = builder.inttoptr(builder.add(source, offset), four.as_pointer())
            here = builder.inttoptr(builder.add(target, offset), four.as_pointer())
            builder.store(_estimate(builder, builder.load(there, align=4)), here, align=4)
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.uintp), generate


@kernel
def gradients_at(address, start, stop):
    """View of a gradient of which only the address is known."""
    first = np.uintp(address) + np.uintp(4 * start)
    return numba.carray(floats_at(first), (stop - start,))


@kernel
def fetch(address, start, stop):
    """Ask for elements start to stop of a float32 array."""
    for i in range(start, stop, _LINE):
        fetch_line(np.uintp(address) + np.uintp(4 * i))


@kernel
def _moments_fused(m, v, g, row):
    coefficient, b2, c2, scale = row[1], row[2], row[3], row[8]
    if row[9] == _ZERO:
        for i in range(m.shape[0]):
            gi = g[i] * scale
            m[i] = multiply_add(coefficient, gi - m[i], m[i])
            v[i] = multiply_add(c2 * gi, gi, v[i] * b2)
    else:
        for i in range(m.shape[0]):
            gi = g[i] * scale
            m[i] = multiply_add(coefficient, gi - m[i], gi)
            v[i] = multiply_add(c2 * gi, gi, v[i] * b2)


@kernel
def _moments_separate(m, v, g, row):
    coefficient, b2, c2, scale = row[1], row[2], row[3], row[8]
    if row[9] == _ZERO:
        for i in range(m.shape[0]):
            gi = g[i] * scale
            m[i] = m[i] + coefficient * (gi - m[i])
            v[i] = v[i] * b2 + (c2 * gi) * gi
    else:
        for i in range(m.shape[0]):
            gi = g[i] * scale
            m[i] = gi + coefficient * (gi - m[i])
            v[i] = v[i] * b2 + (c2 * gi) * gi


@kernel
def _moments_tail(m, v, g, row):
    coefficient, b2, c2, scale = row[1], row[2], row[3], row[8]
    for i in range(m.shape[0]):
        gi = g[i] * scale
        m[i] = multiply_add(coefficient, gi - m[i], m[i] if row[9] == _ZERO else gi)
        v[i] = multiply_add(v[i], b2, (c2 * gi) * gi)


@kernel
def take_moments(m, v, g, row, fused, tail):
    """One step of both moments in place; ``tail`` for the scalar end of the fused optimizer."""
    if not fused:
        _moments_separate(m, v, g, row)
    elif tail:
        _moments_tail(m, v, g, row)
    else:
        _moments_fused(m, v, g, row)


@kernel
def _refine(roots, v):
    """The vector library's root from the estimate in ``roots``, without fused multiply-add."""
    outside = _NO_BITS
    bits = v.view(np.uint32)
    for i in range(v.shape[0]):
        x = v[i]
        r = roots[i]
        s = x * r
        h = _HALF * r
        e = _HALF - s * h
        s = s + s * e
        h = h + h * e
        roots[i] = s + h * (x - s * s) if bits[i] != _NO_BITS else _ZERO
        strange = np.uint32(bits[i] - _SMALLEST) > _SPAN
        outside |= np.uint32(strange and bits[i] != _NO_BITS)
    return outside


@kernel
def take_roots(roots, v, root, function):
    """Square roots of ``v`` as the chosen library takes them."""
    n = np.uintp(v.shape[0])
    if root == IEEE:
        for i in range(v.shape[0]):
            roots[i] = np.sqrt(v[i])
        return
    source, target = np.uintp(v.ctypes.data), np.uintp(roots.ctypes.data)
    if root == RECIPROCAL and v.shape[0] % 4 == 0:
        estimate_reciprocal_roots(n, source, target)
        if _refine(roots, v) == _NO_BITS:
            return
    call_root(np.uintp(function), n, source, target, np.uintp(_VML_MODE))


@kernel
def take_quotients(roots, m, row):
    """``(ns m) / (root / rb + eps)`` in place of the roots."""
    rb, ri, ns, eps = row[4], row[5], row[6], row[7]
    if ri == _ZERO:
        for i in range(m.shape[0]):
            roots[i] = (ns * m[i]) / (roots[i] / rb + eps)
    else:
        for i in range(m.shape[0]):
            s = roots[i]
            # A quotient by a number that is always the same, corrected to the last bit.
            d = s * ri
            d = multiply_add(multiply_add(-d, rb, s), ri, d)
            d = s if s == _INFINITY else d
            roots[i] = (ns * m[i]) / (d + eps)


@kernel
def _take_weights(p, q, row):
    decay = row[0]
    for i in range(p.shape[0]):
        p[i] = p[i] * decay + q[i]


@kernel
def take_step(p, m, v, g, row, scratch, fused, root, function, tail):
    """One step of one block in place, whatever the variant."""
    q = scratch[: p.shape[0]]
    take_moments(m, v, g, row, fused, tail)
    take_roots(q, v, root, function)
    take_quotients(q, m, row)
    _take_weights(p, q, row)


@kernel
def copy_floats(target, source):
    """Copy; a plain loop becomes vector instructions, which an assignment of slices does not."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@kernel
def aligned_rows(rows):
    """Room for several blocks, each starting on a cache line of its own.

    A block's arrays are worked on here and not in place: three arrays of the caller's whose
    addresses happen to agree in a few hashed bits push each other out of the first-level cache
    (as large arrays often do: their mappings are laid out regularly), which halves the speed; and
    the caller's arrays rarely start on a cache line.
    """
    # Not a multiple of a page apart: a load would wait for a store of the same low address bits.
    stride = BLOCK + 2 * _LINE
    room = np.empty(rows * stride + _LINE, np.float32)
    skip = np.int64((np.uintp(0) - np.uintp(room.ctypes.data)) >> np.uintp(2)) & (_LINE - 1)
    return room[skip : skip + rows * stride].reshape((rows, stride))


@kernel
def replay_range(
    old_p, old_m, old_v, p, m, v, addresses, rows, fused, root, function, start, stop, tail_start
):
    """All steps of elements start to stop; from ``tail_start`` on as a scalar end.

    The old arrays may be the new ones.
    """
    steps = rows.shape[0]
    room = aligned_rows(4)
    scratch = room[3]
    at_p, at_m = np.uintp(room[0].ctypes.data), np.uintp(room[1].ctypes.data)
    at_v, function = np.uintp(room[2].ctypes.data), np.uintp(function)
    first = start
    while first < stop:
        tail = first >= tail_start
        end = min(first + BLOCK, stop if tail else min(stop, tail_start))
        after = min(end + BLOCK, stop)
        n = end - first
        block_p, block_m, block_v = room[0, :n], room[1, :n], room[2, :n]
        copy_floats(block_p, old_p[first:end])
        copy_floats(block_m, old_m[first:end])
        copy_floats(block_v, old_v[first:end])
        # What fits whole vectors is done by them, in the two variants that can be.
        vectors = n - n % _LANES if fused and root != LIBRARY and not tail else 0
        for k in range(steps):
            # The state's own lines of the next block, spread over the steps.
            if k == 0:
                fetch(old_p.ctypes.data, end, after)
            if k == steps // 3:
                fetch(old_m.ctypes.data, end, after)
            if k == 2 * steps // 3:
                fetch(old_v.ctypes.data, end, after)
            row = rows[k]
            done = vectors if row[5] != _ZERO else 0
            if done == 0:
                fetch(addresses[k], end, after)
            else:
                here = np.uintp(addresses[k]) + np.uintp(4 * first)
                ahead = here + np.uintp(4 * BLOCK)
                count, numbers = np.uintp(done), np.uintp(row.ctypes.data)
                if root == IEEE:
                    _steps_with_ieee_root(at_p, at_m, at_v, here, ahead, count, numbers, function)
                else:
                    _steps_with_library_root(
                        at_p, at_m, at_v, here, ahead, count, numbers, function
                    )
            if done < n:
                take_step(
                    block_p[done:],
                    block_m[done:],
                    block_v[done:],
                    gradients_at(addresses[k], first + done, end),
                    row,
                    scratch,
                    fused,
                    root,
                    function,
                    tail,
                )
        copy_floats(p[first:end], block_p)
        copy_floats(m[first:end], block_m)
        copy_floats(v[first:end], block_v)
        first = end


@kernel
def library_roots(values, roots, root, function):
    """Square roots of a whole array, block by block, for probing."""
    for first in range(0, values.shape[0], BLOCK):
        end = min(first + BLOCK, values.shape[0])
        take_roots(roots[first:end], values[first:end], root, function)
